"""Rows of persons that are drawn one by one.

The rows in use, the charge, and the statement.
"""

from fractions import Fraction

import numpy as np
import person_faults as faults
import pytest
from cases import CASES

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast import accounting as acc
from vips_fast.audit import adapter_for
from vips_fast.audit.bench import Bench, squared_norm
from vips_fast.audit.persons import Persons
from vips_fast.engine.budget import Budget
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.engine.sampling import RowSampler, make_sampler
from vips_fast.engine.units import KeptRows
from vips_fast.models.rebuild import verify

KEY = b"r" * 32
ALL = pytest.mark.parametrize("name", CASES)
REFUSED = {"logistic-paper": {"sensitivity": "proven"}}


def make(name, **options):
    how = dict(sampling="rows", batch_size=50, rows_per_group=3, n_records=150)
    return CASES[name][0](**{**how, **REFUSED.get(name, {}), **options})


def persons(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(np.repeat(np.arange(n), np.minimum(rng.geometric(0.3, n), 12))[:n])


class Rows:
    """Rows that are their own numbers, as records."""

    def __init__(self, n_rows):
        self.n_rows, self.usable = n_rows, np.arange(n_rows) % 7 > 0

    def block(self, rows):
        return rows

    def edges(self, rows):
        return np.array([0, len(rows)])


def kept(groups, limit, words):
    """Return the rows in use under given words."""

    class Given:
        def words(self, n, purpose, step):
            return words

    records = KeptRows(Rows(len(groups)), groups, limit)
    records.choose(Given(), 0)
    rows = records.block(np.arange(records.n_rows))
    assert (records.usable == (rows % 7 > 0)).all()
    return rows


def test_a_person_keeps_so_many_rows_whatever_others_have():
    groups, rng = persons(300), np.random.default_rng(1)
    words = rng.integers(0, 2**64, 300, dtype=np.uint64)
    rows = kept(groups, 3, words)
    assert (np.bincount(groups[rows]) == np.minimum(np.bincount(groups), 3)).all()
    assert (kept(groups, None, words) == np.arange(300)).all()
    for person in range(0, groups.max(), 7):
        others = groups != person
        assert (np.flatnonzero(others)[kept(groups[others], 3, words[others])] == rows[groups[rows] != person]).all()
    # Each row of somebody who has five as often as any other.
    times = np.zeros(5)
    for _ in range(3000):
        times[kept(np.zeros(5, int), 2, rng.integers(0, 2**64, 5, dtype=np.uint64))] += 1
    assert (abs(times / 3000 - 0.4) < 0.05).all()


@pytest.mark.parametrize("size", [50, None])
def test_the_event_is_that_of_a_person(size):
    sampler, rows = make_sampler("rows", None, 200, size, 4), make_sampler("poisson", None, 200, size)
    assert sampler.event(3.0) == acc.group_event(rows.event(3.0), 4) and sampler.relation == "add_remove"
    assert sampler.expected_batch_size == rows.expected_batch_size
    drawn = [s.draw(500, KeyedRandomness(KEY), 3) for s in (sampler, rows)]
    assert (drawn[0] == drawn[1]).all()
    assert acc.epsilon(RowSampler(200, 50, 1).event(2.0), 1e-5) == acc.epsilon(
        make_sampler("poisson", None, 200, 50).event(2.0), 1e-5
    )


@ALL
def test_files_statement_and_rebuild_speak_of_patients(name, tmp_path):
    data, groups = CASES[name][1](), persons(200)
    how = dict(groups=groups, unit="patient", transcript=tmp_path / "t")
    model = make(name).fit(*data, **how)
    said, step = (
        model.privacy_,
        acc.PoissonSampledEvent(make_sampler("poisson", None, 150, 50).sampling_probability, acc.GaussianEvent(2.0)),
    )
    assert said.epsilon == acc.epsilon(acc.SelfComposedEvent(acc.GroupEvent(step, 3), model.n_steps_), 1e-5)
    assert said.for_group(2) == acc.epsilon(acc.SelfComposedEvent(acc.GroupEvent(step, 6), model.n_steps_), 1e-5)
    text = said.statement()
    assert "adding or removing one patient with all rows, among 150 rows" in text and "at most 3 of a patient" in text
    assert (said.unit, said.rows_per_unit) == ("patient", 3) and "The number of rows" in text
    assert "record" not in text.replace("the same records add up", "")
    model.partial_fit(*data, **how)
    model.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t", cls=type(model)).ok
    assert type(model).load(tmp_path / "m").privacy_ == model.privacy_


@ALL
def test_persons_of_one_row_give_the_bits_of_records(name):
    data = CASES[name][1]()
    alone = make(name, sampling="poisson").set_unsafe(test_key=KEY).fit(*data)
    rows = make(name, rows_per_group=1).set_unsafe(test_key=KEY).fit(*data, groups=np.arange(200))
    assert alone.privacy_.taints == rows.privacy_.taints
    for key, array in alone._result.arrays.items():
        assert array.tobytes() == rows._result.arrays[key].tobytes(), key


@ALL
def test_an_interrupted_fit_goes_on(name, tmp_path):
    data, groups = CASES[name][1](), persons(200)

    def stop(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    model, how = make(name, callback=stop), dict(groups=groups, checkpoint=tmp_path / "run", checkpoint_every=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data, **how)
    model.set_params(callback=None).fit(*data, **how, resume=True)
    assert model.privacy_.unit == "person" and len(model.ledger_) <= model.n_steps_ + 2


def moved(adapter, person):
    """Compute the squared distance of the sums with and without a person.

    Over the squared sensitivity of a row.
    """
    bench, sums = Bench(adapter, "add_remove"), []
    for side in ([person], []):
        made = bench.prepare(bench.estimator(n_records=5), [*adapter.base(4), *side])
        adapter.sharp(made)
        sums.append(bench.sums(made, np.arange(made.records.n_rows), np.zeros(made.records.n_rows, np.uint64)))
    mechanism = made.plan.mechanism
    return squared_norm(sums[0] - sums[1]) / (Fraction(mechanism.sensitivity) / Fraction(mechanism.spacing)) ** 2


@pytest.mark.parametrize(
    "model",
    [
        LatentDirichletAllocation(2),
        BayesianLogisticRegression(),
        SigmoidBeliefNetwork(3),
        SigmoidBeliefNetwork.paper(3, sampling="poisson"),
    ],
    ids=["lda", "logistic", "network", "network-pg"],
)
def test_a_person_moves_the_sum_by_so_many_rows(model):
    """Equal rows attain the bound exactly.

    The distance of rounded sums, with all rows drawn, without a person of 40 rows.
    """
    model.set_params(sampling="rows", rows_per_group=4, batch_size=5, noise_multiplier=1.0, random_state=0)
    rows = adapter_for(model)
    whole = Persons(adapter_for(faults.keeping_all_rows(type(model)), model.get_params()), 40)
    adapter, rng = Persons(rows, 40), np.random.default_rng(0)
    worst, others = adapter.worst_pair()[0], [adapter.generated(rng, adapter.small) for _ in range(5)]
    assert 0.99 * 4**2 <= moved(adapter, worst) <= 4**2
    assert max(moved(adapter, person) for person in others) <= 4**2
    assert moved(whole, worst) > 39**2  # no row left out


def test_budget_and_target_are_about_persons(tmp_path):
    data, groups = CASES["logistic"][1](), persons(200)
    budget = Budget.create(tmp_path / "b", dataset="notes", epsilon=1.0, delta=1e-5, unit="person")
    model = make("logistic", noise_multiplier=None, delta=None).fit(*data, groups=groups, budget=budget)
    # A filter by Renyi divergences is above the exact composition.
    assert 0.5 < model.privacy_.epsilon <= budget.spent <= 1.0
    exact = make("logistic", noise_multiplier=None, epsilon=1.0).fit(*data, groups=groups)
    assert 0.99 < exact.privacy_.epsilon <= 1.0
    record = Budget.create(tmp_path / "c", dataset="notes", epsilon=1.0, delta=1e-5)
    with pytest.raises(ValueError, match="unit"):
        make("logistic").fit(*data, groups=groups, budget=record)


def test_what_is_refused():
    data, groups = CASES["logistic"][1](), persons(200)
    for how, options, message in (
        ({}, {}, "sampling='rows': expected groups"),
        ({"groups": groups}, {"rows_per_group": None}, "rows_per_group=None: expected"),
        ({"groups": groups}, {"relation": "replace_one"}, "relation='replace_one': expected 'add_remove'"),
    ):
        with pytest.raises(ValueError, match=message):
            make("logistic", **options).fit(*data, **how)
