"""Random allocation in the engine. Minibatches, the charge of epochs, interrupted runs, budgets."""

import numpy as np
import pytest
from cases import CASES, calling
from runs import KEY, Stop, ends, fail
from scipy import stats

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, plan, verify
from vips_fast.accounting import GaussianEvent, RandomAllocationEvent, SelfComposedEvent, epsilon
from vips_fast.engine.backend import Threads
from vips_fast.engine.budget import Budget
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.sampling import (
    FullSampler,
    KeyedRandomness,
    RandomAllocationSampler,
    SystemRandomness,
    make_sampler,
    n_events,
    run_event,
    starts_event,
)


def allocated(name, n_batches=2, **options):
    """Return a factory of a model of the cases with so many minibatches an epoch, and its data."""
    make, records = CASES[name]
    data = records()
    own = dict(sampling="random_allocation", batch_size=np.shape(data[0])[0] / n_batches, **options)
    return lambda: make(**own), data


@pytest.mark.parametrize("n_batches", [1, 2, 5, 300])
@pytest.mark.parametrize("randomness", [SystemRandomness(), KeyedRandomness(b"k" * 32)])
def test_each_record_is_in_one_minibatch_of_an_epoch(n_batches, randomness):
    sampler = RandomAllocationSampler(1000, n_batches)
    epochs = []
    for epoch in range(2):
        of_epoch = randomness.of_step(epoch * n_batches)
        drawn = [sampler.draw(997, of_epoch, epoch * n_batches + i, range(997)) for i in range(n_batches)]
        assert np.array_equal(np.sort(np.concatenate(drawn)), np.arange(997))
        assert all(np.array_equal(rows, np.unique(rows)) and rows.dtype == np.int64 for rows in drawn)
        epochs.append(np.repeat(np.arange(n_batches), [len(rows) for rows in drawn])[np.argsort(np.concatenate(drawn))])
    assert n_batches == 1 or np.any(epochs[0] != epochs[1])
    # The scale follows the public number, whatever was drawn.
    assert sampler.expected_batch_size == 1000 / n_batches


def test_minibatches_are_uniform_and_independent_between_epochs():
    sampler, randomness = RandomAllocationSampler(1, 3), KeyedRandomness(b"u" * 32)
    first, second = (sampler._allocate(90_000, randomness, epoch) for epoch in (0, 1))
    table = np.bincount((3 * first + second).astype(int), minlength=9)
    assert stats.chisquare(table).pvalue > 1e-4


class Words:
    def __init__(self, **words):
        self.given = words

    def words(self, n, purpose, step, first=0):
        return self.given[purpose.replace(" ", "_")][first : first + n]


def test_a_minibatch_follows_from_the_records_own_words():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**64, 50, dtype=np.uint64)
    others = rng.integers(0, 2**64, 50, dtype=np.uint64)
    others[7] = words[7]
    sampler = RandomAllocationSampler(50, 5)
    batches = [int(sampler._allocate(n, Words(allocate=w), 0)[7]) for n, w in ((50, words), (50, others), (20, words))]
    assert len(set(batches)) == 1


def test_words_that_would_favor_a_minibatch_are_drawn_again():
    top = 2**64 - 1  # 2^64 mod 3 = 1, so only this one is drawn again
    words = Words(
        allocate=np.array([top, 4, top], dtype=np.uint64),
        allocate_again_1=np.array([5, 9, top], dtype=np.uint64),
        allocate_again_2=np.array([9, 9, top - 1], dtype=np.uint64),
    )
    assert RandomAllocationSampler(3, 3)._allocate(3, words, 0).tolist() == [2, 1, (top - 1) % 3]


class Spy(Threads):
    def __init__(self):
        super().__init__()
        self.seen = []

    def minibatch(self, sampler, records, randomness, step):
        rows, words = super().minibatch(sampler, records, randomness, step)
        self.seen.append(rows)
        return rows, words


def test_a_fit_deals_each_record_once_an_epoch():
    make, data = allocated("logistic", n_steps=8)
    make().fit(*data, backend=(spy := Spy()))
    for epoch in range(4):
        assert np.array_equal(np.sort(np.concatenate(spy.seen[2 * epoch : 2 * epoch + 2])), np.arange(len(data[0])))
    assert len({rows.tobytes() for rows in spy.seen}) == len(spy.seen)


def test_minibatches_that_are_drawn_once():
    sampler = RandomAllocationSampler(100, 2, True, np.array([0, 40, 98]))
    drawn = [sampler.draw(98, SystemRandomness(), step, range(98)).tolist() for step in range(4)]
    assert drawn == 2 * [list(range(40)), list(range(40, 98))]
    event = run_event(sampler, 2.0, 8)
    assert event == SelfComposedEvent(RandomAllocationEvent(2, 1, GaussianEvent(2.0), True), 4)
    assert epsilon(event, 1e-5) == pytest.approx(epsilon(RandomAllocationEvent(2, 1, GaussianEvent(1.0)), 1e-5))


def test_what_steps_bring():
    sampler = RandomAllocationSampler(100, 4)
    for start in range(9):
        for stop in range(start, 13):
            steps = range(start, stop)
            assert n_events(sampler, steps) == sum(starts_event(sampler, step, step == start) for step in steps)
            assert n_events(FullSampler(100), steps) == len(steps)


def test_the_estimator_calibrates_and_refuses():
    X = np.random.default_rng(0).poisson(0.6, (200, 12))
    options = dict(doc_length=30, epsilon=1.0, delta=1e-5, batch_size=50, random_state=0)
    ours = LatentDirichletAllocation(3, n_steps=8, sampling="random_allocation", **options).fit(X)
    poisson = LatentDirichletAllocation(3, n_steps=8, **options).fit(X)
    said = ours.privacy_.statement()
    assert ours.privacy_.epsilon <= 1.0 < ours.privacy_.for_group(2)
    assert "(random allocation)" in said and "For someone who owns 2, 5 or 10 records" in said
    assert ours.privacy_.noise_multiplier < 0.97 * poisson.privacy_.noise_multiplier
    with pytest.raises(ValueError, match="n_steps=6: expected a multiple of 4, the minibatches of an epoch"):
        LatentDirichletAllocation(3, n_steps=6, sampling="random_allocation", **options).fit(X)
    # Where the steps are not given, they fill epochs.
    rest = {**options, "batch_size": 70}
    assert LatentDirichletAllocation(3, sampling="random_allocation", **rest).fit(X).n_steps_ % 3 == 0
    assert plan(1000, 12, 3, batch_size=333, sampling="random_allocation").n_steps % 3 == 0
    with pytest.raises(ValueError, match="relation='replace_one'"):
        make_sampler("random_allocation", "replace_one", 100, 10)


@pytest.mark.parametrize("at", [1, 3, 4])
def test_a_resumed_run_pays_for_the_epoch_that_it_draws_again(at, tmp_path):
    make, data = allocated("lda", 4, n_steps=12, noise_multiplier=3.0)
    with pytest.raises(Stop):  # in step `at`, counted from 0, which is lost
        ends(make(), at + 1, fail).fit(*data, checkpoint=tmp_path)
    done = make().fit(*data, checkpoint=tmp_path, resume=True)
    event = RandomAllocationEvent(4, 1, GaussianEvent(3.0))
    assert done.ledger_.event() == SelfComposedEvent(event, 4)
    assert (len(done.ledger_), done.ledger_.lost, done.n_steps_) == (13, 1, 12)


def test_a_target_holds_for_a_resumed_run(tmp_path):
    make, data = allocated("lda", n_steps=6, noise_multiplier=None, epsilon=1.0)
    with pytest.raises(Stop):
        ends(make(), 2, fail).fit(*data, checkpoint=tmp_path)
    done = make().fit(*data, checkpoint=tmp_path, resume=True)
    # Two epochs are left to pay for: the rest of the first, and the second.
    assert (done.n_steps_, len(done.ledger_), done.ledger_.lost) == (4, 5, 1)
    assert 0.9 < done.privacy_.epsilon <= 1.0 and "4 of 6 planned steps" in done.privacy_.statement()


def test_with_a_test_key_a_resumed_run_has_the_bits_of_a_whole_one(tmp_path):
    make, data = allocated("logistic", 4, n_steps=8, noise_multiplier=3.0)
    whole = make().set_unsafe(test_key=KEY).fit(*data)
    stopped = calling(make(), lambda progress: progress.step == 3 and fail()).set_unsafe(test_key=KEY)
    with pytest.raises(Stop):
        stopped.fit(*data, checkpoint=tmp_path / "r")
    again = make().set_unsafe(test_key=KEY)
    again.fit(*data, checkpoint=tmp_path / "r", transcript=tmp_path / "t", resume=True).save(tmp_path / "m")
    assert np.array_equal(again.coef_, whole.coef_)
    assert verify(tmp_path / "m", tmp_path / "t").ok


def test_budgets(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 3)) / 3, np.arange(40) % 2
    fit = dict(sampling="random_allocation", batch_size=10, n_steps=8, noise_multiplier=4.0, n_records=40)
    model = BayesianLogisticRegression(**fit, delta=1e-5)
    # A filter that knows the minibatch takes an epoch for one release of all records.
    gaussian = Budget.create(tmp_path / "g", epsilon=9.0, delta=1e-5, dataset="d", filter="gaussian")
    model.fit(X, y, budget=gaussian)
    assert gaussian.spent == pytest.approx(epsilon(SelfComposedEvent(GaussianEvent(4.0), 2), 1e-5), rel=1e-9)
    renyi = Budget.create(tmp_path / "r", epsilon=9.0, delta=1e-5, dataset="d", filter="renyi")
    with pytest.raises(ValueError, match="no Renyi bound of random allocation"):
        model.fit(X, y, budget=renyi)


def test_a_budget_pays_for_the_epoch_of_a_resumed_run(tmp_path):
    make, data = allocated("logistic", n_steps=6, noise_multiplier=3.0, n_records=200)
    budget = Budget.create(tmp_path / "b", epsilon=9.0, delta=1e-5, dataset="d", filter="gaussian")
    with pytest.raises(Stop):  # in the second minibatch of the second epoch
        ends(make(), 4, fail).fit(*data, checkpoint=tmp_path / "run", budget=budget)
    assert budget.show()["runs"][0]["drawn"] == 2
    done = make().fit(*data, checkpoint=tmp_path / "run", resume=True, budget=budget)
    assert [run["drawn"] for run in budget.show()["runs"]] == [2, 2]
    assert done.ledger_.event() == SelfComposedEvent(RandomAllocationEvent(2, 1, GaussianEvent(3.0)), 4)


def test_a_release_of_no_epoch_is_not_written():
    """Releases after an epoch's first bring nothing. Without the first they would be private for nothing."""
    event, ledger = RandomAllocationEvent(3, 1, GaussianEvent(1.0)), Ledger()
    nothing = SelfComposedEvent(event, 0)
    with pytest.raises(ValueError, match="must belong to an epoch that is already recorded"):
        ledger.intend(nothing, clip_norm=1.0, sensitivity=1.0)
    ledger.intend(event, clip_norm=1.0, sensitivity=1.0)
    ledger.intend(nothing, clip_norm=1.0, sensitivity=1.0)
    with pytest.raises(ValueError, match="must belong to an epoch that is already recorded"):
        ledger.intend(nothing, clip_norm=1.0, sensitivity=1.0, part="other")
