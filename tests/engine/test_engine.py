"""Samplers, mechanism, lattice, ledger, averages and loop."""

import json
import math
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from runs import in_child
from scipy import stats

from vips_fast.accounting import GaussianEvent, PoissonSampledEvent, WithoutReplacementEvent
from vips_fast.engine.backend import Threads
from vips_fast.engine.ledger import Ledger
from vips_fast.engine.loop import run
from vips_fast.engine.model import Model, Release, RunningAverage, Schedule, averaged_variance
from vips_fast.engine.plan import RunPlan
from vips_fast.engine.sampling import (
    FixedSizeSampler,
    FullSampler,
    KeyedRandomness,
    PoissonSampler,
    SystemRandomness,
    make_sampler,
)
from vips_fast.kernels.threads import map_chunks, resolve_n_threads, run_blocks
from vips_fast.mechanisms import Fraction, GaussianMechanism, rounded


class Numbers:
    usable = None

    def __init__(self, n_rows):
        self.n_rows = n_rows

    def edges(self, rows):
        return np.append(np.arange(0, len(rows), 3), len(rows))

    def block(self, rows):
        return rows


class Sum(Model):
    """Toy model: the record's number is its value, in one entry. The parameter is the average."""

    shape = (2,)
    clip = 10.0

    def __init__(self, start=(0.0, 0.0), schedule=None):
        self.average = RunningAverage(np.array(start))
        self.schedule = schedule or Schedule(1.0, 0.7)
        self.spacing, self.seen = 2.0**-30, []

    def sensitivity(self, relation):
        return self.clip * (1 if relation == "add_remove" else 2)

    def prepare(self, mechanism, sampler):
        self.spacing = mechanism.spacing

    def contribute(self, block, words, out, scratch):
        assert len(words) == len(block)
        self.seen.append(block)
        out[0] += round(float(block.sum()) / self.spacing)

    def update(self, release):
        self.average.add(release, self.schedule.rate(release.step))

    def state(self):
        return self.average.state()

    def restore(self, state):
        self.average.restore(state)

    def result(self):
        return {"average": self.average.values}


def ran(model, sampler, mechanism, *, n_steps=1, ledger=None, randomness=None, usable=None, **options):
    model.prepare(mechanism, sampler)
    records, plan = Numbers(sampler.n_records), RunPlan(sampler, mechanism, n_steps, 1e-5)
    records.usable, ledger = usable, Ledger() if ledger is None else ledger
    run(model, records, plan, ledger, randomness or SystemRandomness(), Threads(2), **options)
    return model.average


def test_poisson_sampler_keeps_each_record_with_its_probability():
    sampler = PoissonSampler(2000, 300)
    draws = np.zeros(2000)
    sizes = []
    for step in range(400):
        records = sampler.draw(2000, KeyedRandomness(b"a"), step, range(2000))
        assert (np.diff(records) > 0).all()
        draws[records] += 1
        sizes.append(len(records))
    # Chi-square of 2,000 binomial counts; the size must vary as a binomial does.
    z2 = ((draws - 60) ** 2 / (400 * 0.15 * 0.85)).sum()
    assert stats.chi2.sf(z2, 2000) > 1e-6 and stats.chi2.cdf(z2, 2000) > 1e-6
    assert 0.8 < np.std(sizes) / math.sqrt(2000 * 0.15 * 0.85) < 1.2
    event = sampler.event(1.3)
    assert event == PoissonSampledEvent(sampler.sampling_probability, GaussianEvent(1.3, relation="add_remove"))
    # The stated probability is the real one, T / 2^64, rounded up.
    assert int(sampler.sampling_probability * 2**64) >= sampler.threshold
    assert sampler.sampling_probability == pytest.approx(0.15, rel=1e-12)


def test_fixed_size_sampler_is_uniform():
    sampler = FixedSizeSampler(50, 5)
    draws = np.zeros(50)
    for step in range(2000):
        records = sampler.draw(50, KeyedRandomness(b"b"), step, range(50))
        assert len(set(records)) == 5
        draws[records] += 1
    assert stats.chisquare(draws).pvalue > 1e-6
    assert sampler.event(2.0) == WithoutReplacementEvent(5, 50, GaussianEvent(2.0, relation="replace_one"))
    assert FixedSizeSampler(50, 50).event(2.0) == GaussianEvent(2.0, relation="replace_one")


def test_make_sampler_chooses_relation():
    assert make_sampler("poisson", None, 10, 2).relation == "add_remove"
    assert make_sampler("without_replacement", None, 10, 2).relation == "replace_one"
    assert make_sampler("full", "replace_one", 10, None).relation == "replace_one"
    assert isinstance(make_sampler("full", None, 10, None), FullSampler)
    for arguments, name in [
        (("poisson", "replace_one", 10, 2), "relation"),
        (("without_replacement", "add_remove", 10, 2), "relation"),
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
    mechanism = GaussianMechanism(1.5, 2.0, 2.0)
    assert mechanism.noise_sd == 3.0
    assert math.log2(mechanism.spacing) == math.floor(math.log2(3.0)) - 22
    for arguments, name in [
        ((-1, 1, 1), "noise_multiplier"),
        ((np.nan, 1, 1), "noise_multiplier"),
        ((1, 0, 1), "sensitivity"),
        ((1, 1, np.inf), "clip_norm"),
        ((1, 1e-175, 1e-175), "sensitivity"),
        ((1, 1, 1e101), "clip_norm"),
        ((1e9, 1, 1), "noise_multiplier"),
    ]:
        with pytest.raises(ValueError, match=name):
            GaussianMechanism(*arguments)


@pytest.mark.parametrize("bits", [50, 62])
def test_rounding_is_exact(bits):
    """Against rational numbers, over all shifts; on Python integers too."""
    from fractions import Fraction as Exact

    rng = np.random.default_rng(0)
    for exponent in np.linspace(-110, 0 if bits == 62 else 11, 60):
        factor = Fraction.below(2.0**exponent)
        assert 2.0**exponent * (1 - 2.0**-29) < factor.value <= 2.0**exponent
        x = np.append(rng.integers(-(2**bits), 2**bits, 50), [0, 1, -1, 2**bits - 1, -(2**bits)])
        exact = [math.floor(int(v) * Exact(factor.value) + Exact(1, 2)) for v in x]
        assert rounded(x, factor).tolist() == exact == rounded(x.astype(object), factor).tolist()
    with pytest.raises(ValueError, match="value"):
        Fraction.below(0.0)


def test_ledger_composes_and_keeps_its_chain():
    ledger = Ledger()
    assert ledger.event() is None and ledger.epsilon(1e-5) == 0.0 and len(ledger) == 0
    event = PoissonSampledEvent(0.1, GaussianEvent(2.0, relation="add_remove"))
    for _ in range(3):
        ledger.intend(event, clip_norm=1.0, sensitivity=1.0)
    first = ledger.epsilon(1e-5)
    ledger.intend(GaussianEvent(4.0, relation="add_remove"), clip_norm=1.0, sensitivity=1.0)
    assert len(ledger) == 4 and 0 < first < ledger.epsilon(1e-5) == ledger.epsilon(1e-5)
    ledger.close("digest")
    data = json.loads(json.dumps(ledger.to_dict()))
    back = Ledger.from_dict(data)
    assert back.head == ledger.head and back.epsilon(1e-5) == ledger.epsilon(1e-5)
    with pytest.raises(ValueError, match="relation|neighbo"):
        ledger.copy().intend(GaussianEvent(4.0, relation="replace_one"), clip_norm=1.0, sensitivity=1.0)
    assert len(ledger) == 4 and ledger.closing == "digest" and ledger.private
    tainted = ledger.copy()
    for _ in range(2):
        tainted.taint("reason")
    for one in (tainted, Ledger.from_dict(tainted.to_dict())):
        assert not one.private and one.taints == ("reason",)
    for damage in (
        lambda d: d["records"].pop(),
        lambda d: d["records"].pop(0),
        lambda d: d["records"][1].update(clip_norm=2.0),
        lambda d: d["records"].insert(1, dict(d["records"][1])),
        lambda d: d.update(schema=99),
        lambda d: d["records"][1].pop("event"),
        lambda d: d["records"][1].update(event={"event": "unknown"}),
        lambda d: d["records"][1].update(kind="gift"),
        lambda d: d["records"].append("text"),
    ):
        broken = json.loads(json.dumps(ledger.to_dict()))
        damage(broken)
        with pytest.raises(ValueError, match="ledger"):
            Ledger.from_dict(broken)


def test_a_ledger_takes_records_from_several_threads():
    """Appending is locked: 8 threads write one chain (fault 13)."""
    ledger, event = Ledger(), GaussianEvent(2.0, relation="add_remove")

    def work(number):
        for _ in range(50):
            ledger.intend(event, clip_norm=1.0, sensitivity=1.0)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    assert len(ledger) == 400 and Ledger.from_dict(ledger.to_dict()).head == ledger.head


def test_loop_scales_by_the_expected_batch_and_records_before_the_noise():
    ledger, model = Ledger(), Sum()

    class Broken(GaussianMechanism):
        def add_noise(self, sums, key, n_threads=1):
            raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        ran(model, PoissonSampler(40, 10), Broken(1.0, 10.0, 10.0), n_steps=2, ledger=ledger)
    assert len(ledger) == 1 and not model.average.values.any()
    model, quiet = Sum(), GaussianMechanism(0.0, 10.0, 10.0)
    average = ran(model, PoissonSampler(40, 10), quiet, randomness=KeyedRandomness(b"d"))
    drawn = np.concatenate(model.seen)
    assert len(drawn) != 10  # the drawn size is private and must not be the divisor
    assert average.values[0] == pytest.approx(drawn.sum() / 10, rel=1e-6)


def test_unusable_records_contribute_nothing_and_are_sampled_like_others():
    """Dropping a record equals a contribution of zero (invalid="drop")."""
    seen = []

    class Zeroed(Sum):
        def contribute(self, block, words, out, scratch):
            super().contribute(np.where(block % 3 == 0, 0, block), words, out, scratch)

    for model, usable in ((Sum(), np.arange(40) % 3 != 0), (Zeroed(), None)):
        how = dict(usable=usable, randomness=KeyedRandomness(b"d"), on_release=lambda one: seen.append(one.units))
        ran(model, PoissonSampler(40, 10), GaussianMechanism(1.0, 10.0, 10.0), n_steps=3, **how)
    for dropped, zeroed in zip(seen[:3], seen[3:], strict=True):
        np.testing.assert_array_equal(dropped, zeroed)


def test_the_callback_computes_epsilon_only_when_it_is_read(monkeypatch):
    """Composing at each step made many small steps ten times slower. Fault 11."""
    calls = []
    original = Ledger.epsilon
    monkeypatch.setattr(Ledger, "epsilon", lambda self, *a: calls.append(1) or original(self, *a))
    seen = []
    mechanism = GaussianMechanism(2.0, 10.0, 10.0)
    ran(Sum(), FullSampler(4), mechanism, n_steps=20, callback=seen.append)
    assert not calls and [p.step for p in seen] == list(range(1, 21)) and seen[0].n_steps == 20
    assert seen[-1].epsilon > 0 and len(calls) == 1


def test_tracked_noise_matches_its_law():
    # Many entries without data: the spread of the average is the tracked sd (5 / sqrt(2 n) relative).
    class Wide(Sum):
        shape = (20_000,)

        def contribute(self, block, words, out, scratch):
            pass

    average = ran(Wide(np.zeros(20_000)), FullSampler(4), GaussianMechanism(2.0, 10.0, 10.0), n_steps=5)
    assert average.values.std() == pytest.approx(average.noise_sd, rel=0.025)


def test_each_purpose_and_step_has_a_stream_of_its_own():
    """A record's word says nothing of whether it was drawn."""
    streams = KeyedRandomness(b"k" * 32)
    keys = {streams.key(purpose, step) for purpose in ("sample", "record", "allocate", "noise") for step in (0, 1)}
    assert len(keys) == 8


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_help_within_threads_and_after_a_fork(monkeypatch):
    def total(n_threads):
        found = map_chunks(20, 1, n_threads, lambda first, last, worker: sum(map_chunks(5, 1, 3, lambda i, *_: i)))
        return sum(found)

    assert total(4) == 200
    assert in_child(lambda: os._exit(total(4) != 200)) == 0

    def refuse(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refuse)
    assert total(4) == 200


def test_a_call_waits_for_all_blocks_and_for_no_thread_without_one():
    ended, free = [], threading.Event()

    def work(block, worker):
        if worker:
            free.wait(10)
        else:
            time.sleep(0.01)
            free.set()
        ended.append(block)

    for _ in range(20):
        free.clear()
        ended.clear()
        run_blocks(4, 4, work)
        assert sorted(ended) == [0, 1, 2, 3]


def test_number_of_threads_is_checked(monkeypatch):
    assert resolve_n_threads(3) == 3 and resolve_n_threads(-1) >= 1
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


def test_value_noise_and_start_have_the_weights_of_the_rates():
    rng, schedule, start = np.random.default_rng(0), Schedule(1.0, 0.7), np.array([5.0, -3.0])
    for added in (RunningAverage.add, lambda one, release, rate: one.add_values(release.values, release, rate)):
        average, weights, releases = RunningAverage(start), [1.0], []
        for step in range(1, 9):
            releases.append(Release(step, rng.integers(-9, 9, 2), 0.25, float(step)))
            rate = schedule.rate(step)
            added(average, releases[-1], rate)
            weights = [*((1 - rate) * weight for weight in weights), rate]
            values = [start, *(release.values for release in releases)]
            np.testing.assert_allclose(average.values, np.dot(weights, values), rtol=1e-12)
            noise = np.dot(weights[1:], [release.noise_sd for release in releases] * np.eye(step))
            np.testing.assert_allclose(average.noise_sd, np.linalg.norm(noise), rtol=1e-12)
            np.testing.assert_allclose(average.initial_weight, weights[0], rtol=1e-12)


def test_rates_are_at_most_one():
    assert [Schedule(0.0, 1.0).rate(t) for t in range(3)] == [1.0, 1.0, 0.5]
    assert Schedule(4.0, 0.5).rate(0) == 0.5


def test_the_planned_variance_is_the_averages():
    schedule, average = Schedule(0.0, 0.7), RunningAverage(np.zeros(1))
    for step in range(20):
        average.add(Release(step, np.zeros(1, np.int64), 1.0, 1.0), 1.0 if step == 0 else schedule.rate(step))
    np.testing.assert_allclose(averaged_variance(schedule, 20), average.noise_sd**2, rtol=1e-12)
