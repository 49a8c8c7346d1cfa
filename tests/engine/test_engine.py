"""Samplers, mechanism, ledger and loop."""

import json
import math

import numpy as np
import pytest
from scipy import stats

from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, WithoutReplacementEvent
from vips_fast.inference import Schedule, State, run
from vips_fast.ledger import Ledger
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.randomness import KeyedRandomness, SystemRandomness
from vips_fast.sampling import FixedSizeSampler, FullSampler, PoissonSampler, make_sampler
from vips_fast.threads import resolve_n_threads, run_blocks


class Sum:
    """Toy model: the record's number is its value, in one entry; the parameter is the average."""

    statistics_shape = (2,)
    clip_norm = 10.0

    def __init__(self):
        self.seen = []

    def sensitivity(self, neighbors):
        return self.clip_norm * (1 if neighbors == "add_remove" else 2)

    def estep(self, records, words, spacing, sums, n_threads):
        assert len(words) == len(records)
        self.seen.append(records)
        sums[0] += round(float(records.sum()) / spacing)

    def project(self, released):
        np.maximum(released, 0, out=released)

    def mstep(self, state):
        self.last = state.average.copy()


def test_poisson_sampler_keeps_each_record_with_its_probability():
    sampler = PoissonSampler(2000, 300)
    draws = np.zeros(2000)
    sizes = []
    for step in range(400):
        records = sampler.draw(KeyedRandomness(b"a"), step)
        assert (np.diff(records) > 0).all()
        draws[records] += 1
        sizes.append(len(records))
    # Chi-square of 2,000 binomial counts; the size must vary as a binomial does.
    z2 = ((draws - 60) ** 2 / (400 * 0.15 * 0.85)).sum()
    assert stats.chi2.sf(z2, 2000) > 1e-6 and stats.chi2.cdf(z2, 2000) > 1e-6
    assert 0.8 < np.std(sizes) / math.sqrt(2000 * 0.15 * 0.85) < 1.2
    event = sampler.event(1.3)
    assert event == PoissonSampledEvent(sampler.sampling_probability, GaussianEvent(1.3, neighbors="add_remove"))
    # The stated probability is the real one, T / 2^64, rounded up.
    assert int(sampler.sampling_probability * 2**64) >= sampler._threshold
    assert sampler.sampling_probability == pytest.approx(0.15, rel=1e-12)


def test_fixed_size_sampler_is_uniform():
    sampler = FixedSizeSampler(50, 5)
    draws = np.zeros(50)
    for step in range(2000):
        records = sampler.draw(KeyedRandomness(b"b"), step)
        assert len(set(records)) == 5
        draws[records] += 1
    assert stats.chisquare(draws).pvalue > 1e-6
    assert sampler.event(2.0) == WithoutReplacementEvent(5, 50, GaussianEvent(2.0, neighbors="replace_one"))
    assert FixedSizeSampler(50, 50).event(2.0) == GaussianEvent(2.0, neighbors="replace_one")


def test_make_sampler_chooses_relation():
    assert make_sampler("poisson", None, 10, 2).neighbors == "add_remove"
    assert make_sampler("without_replacement", None, 10, 2).neighbors == "replace_one"
    assert make_sampler("full", "replace_one", 10, None).neighbors == "replace_one"
    assert isinstance(make_sampler("full", None, 10, None), FullSampler)
    for arguments, name in [
        (("poisson", "replace_one", 10, 2), "neighbors"),
        (("without_replacement", "add_remove", 10, 2), "neighbors"),
        (("poisson", None, 10, 11), "batch_size"),
        (("full", None, 10, 5), "batch_size"),
        (("without_replacement", None, 10, 2.5), "batch_size"),
        (("other", None, 10, 2), "sampling"),
        (("poisson", None, 0, None), "n_records"),
    ]:
        with pytest.raises(ValueError, match=name):
            make_sampler(*arguments)


def test_system_randomness_does_not_repeat():
    a, b = (SystemRandomness().words(1000, "sample", 0) for _ in range(2))
    assert (a != b).all() and SystemRandomness().noise_key(0) is None


def test_mechanism_lattice_and_range():
    mechanism = GaussianMechanism(1.5, 2.0, 2.0, 1000)
    assert mechanism.noise_sd == 3.0
    assert math.log2(mechanism.spacing) == math.floor(math.log2(3.0)) - 22
    for arguments, name in [
        ((-1, 1, 1, 10), "noise_multiplier"),
        ((np.nan, 1, 1, 10), "noise_multiplier"),
        ((1, 0, 1, 10), "sensitivity"),
        ((1, 1, np.inf, 10), "clip_norm"),
        ((1e9, 1, 1, 10), "noise_multiplier"),
        ((1e-3, 1, 1, 2**40), "n_records"),
    ]:
        with pytest.raises(ValueError, match=name):
            GaussianMechanism(*arguments)


def test_ledger_composes_and_keeps_its_chain():
    ledger = Ledger()
    assert ledger.event() is None and ledger.epsilon(1e-5) == 0.0 and len(ledger) == 0
    event = PoissonSampledEvent(0.1, GaussianEvent(2.0, neighbors="add_remove"))
    for _ in range(3):
        ledger.intend(event, clip_norm=1.0, sensitivity=1.0)
    first = ledger.epsilon(1e-5)
    ledger.intend(GaussianEvent(4.0, neighbors="add_remove"), clip_norm=1.0, sensitivity=1.0)
    assert len(ledger) == 4 and 0 < first < ledger.epsilon(1e-5) == ledger.epsilon(1e-5)
    data = json.loads(json.dumps(ledger.to_dict()))
    back = Ledger.from_dict(data)
    assert back.head == ledger.head and back.epsilon(1e-5) == ledger.epsilon(1e-5)
    with pytest.raises(ValueError, match="relation|neighbo"):
        ledger.intend(GaussianEvent(4.0, neighbors="replace_one"), clip_norm=1.0, sensitivity=1.0)
    assert len(ledger) == 4
    for damage in (
        lambda d: d["records"].pop(),
        lambda d: d["records"].pop(0),
        lambda d: d["records"][1].update(clip_norm=2.0),
        lambda d: d["records"].insert(1, dict(d["records"][1])),
        lambda d: d.update(schema=99),
    ):
        broken = json.loads(json.dumps(ledger.to_dict()))
        damage(broken)
        with pytest.raises(ValueError, match="ledger"):
            Ledger.from_dict(broken)


def test_taint_is_for_good():
    ledger = Ledger()
    assert ledger.private
    ledger.taint("reason")
    ledger.taint("reason")
    assert not ledger.private and ledger.taints == ("reason",)
    assert Ledger.from_dict(ledger.to_dict()).taints == ("reason",)


def test_loop_averages_with_the_schedule():
    model, state = Sum(), State(np.array([7.0, 7.0]))
    mechanism = GaussianMechanism(0.0, 1.0, 10.0, 4)
    run(model, FullSampler(4), mechanism, Ledger(), SystemRandomness(), state, n_steps=3, schedule=Schedule(2.0, 1.0))
    # Mean of records 0..3 is 1.5; rates 1/2, 1/3, 1/4 leave 1/4 of the start.
    np.testing.assert_allclose(state.average, [7 / 4 + 1.5 * 3 / 4, 7 / 4], atol=1e-6)
    assert state.step == 3 and state.noise_sd == 0 and state.initial_weight == pytest.approx(1 / 4)


def test_rates_are_at_most_one():
    assert [Schedule(0.0, 1.0).rate(t) for t in range(3)] == [1.0, 1.0, 0.5]
    assert Schedule(4.0, 0.5).rate(0) == 0.5


def test_loop_scales_by_the_expected_batch_and_records_before_the_noise():
    model, ledger = Sum(), Ledger()

    class Broken(GaussianMechanism):
        def add_noise(self, sums, key, n_threads=1):
            raise RuntimeError("interrupted")

    state = State(np.zeros(2))
    with pytest.raises(RuntimeError, match="interrupted"):
        run(
            model, PoissonSampler(40, 10), Broken(1.0, 10.0, 10.0, 40), ledger, SystemRandomness(), state, n_steps=2,
            schedule=Schedule(1.0, 0.7),
        )
    assert len(ledger) == 1 and state.step == 0 and not state.average.any()

    sampler = PoissonSampler(40, 10)
    run(
        model, sampler, GaussianMechanism(0.0, 10.0, 10.0, 40), ledger, KeyedRandomness(b"c"), state, n_steps=1,
        schedule=Schedule(1.0, 0.7),
    )
    drawn = model.seen[-1]
    assert len(drawn) != 10  # the drawn size is private and must not be the divisor
    assert state.average[0] == pytest.approx(drawn.sum() / 10, rel=1e-6)


def test_loop_paper_update_projects_each_step():
    state = State(np.zeros(2))
    model = Sum()
    run(
        model, FullSampler(4), GaussianMechanism(5.0, 10.0, 10.0, 4), Ledger(), SystemRandomness(), state, n_steps=20,
        schedule=Schedule(1.0, 0.5), update="paper",
    )
    assert state.average.min() >= 0


def test_tracked_noise_matches_its_law():
    # Many entries without data: the spread of the average is the tracked sd (5 / sqrt(2 n) relative).
    class Wide(Sum):
        statistics_shape = (20_000,)

        def estep(self, records, words, spacing, sums, n_threads):
            pass

    state = State(np.zeros(20_000))
    run(
        Wide(), FullSampler(4), GaussianMechanism(2.0, 10.0, 10.0, 4), Ledger(), SystemRandomness(), state, n_steps=5,
        schedule=Schedule(1.0, 0.7),
    )
    assert state.average.std() == pytest.approx(state.noise_sd, rel=0.025)
    assert stats.kstest(state.average / state.noise_sd, "norm").pvalue > 1e-6


def test_threads_run_each_block_once_and_raise():
    seen = []
    run_blocks(100, 3, lambda block, worker: seen.append((block, worker)))
    assert sorted(block for block, _ in seen) == list(range(100))
    assert {worker for _, worker in seen} <= {0, 1, 2}

    def fail(block, worker):
        if block == 5:
            raise KeyError("five")

    with pytest.raises(KeyError, match="five"):
        run_blocks(10, 2, fail)
    assert resolve_n_threads(3) == 3 and resolve_n_threads(-1) >= 1


def test_number_of_threads_is_checked(monkeypatch):
    for value in (0, -2):
        with pytest.raises(ValueError, match="n_jobs"):
            resolve_n_threads(value)
    with pytest.raises(TypeError, match="n_jobs"):
        resolve_n_threads(1.5)
    monkeypatch.setenv("VIPS_FAST_NUM_THREADS", "two")
    with pytest.raises(ValueError, match="VIPS_FAST_NUM_THREADS"):
        resolve_n_threads(None)
    monkeypatch.setenv("VIPS_FAST_NUM_THREADS", "2")
    assert resolve_n_threads(None) == 2
