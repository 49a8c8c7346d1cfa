"""Run layer C, noise: test the noise around the exact sum. It compares the law of a release's noise with the claim."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..accounting import GaussianEvent
from ..engine.backend import Threads
from ..engine.filters import without_leaks
from ..engine.model import Release
from ..kernels.lattice import is_power_of_two
from ..models.fit import Fit
from .bench import ERROR, STEPS, Bench, Sizes, Still, Watched
from .report import Check, LayerResult

_MULTIPLIER = 1.5
#: The draws of last releases are so many times fewer.
_FEWER = 20


def layer_c(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Test the law of noised less exact sums: two runs, two threads."""
    records = bench.adapter.blank(bench.adapter.width(-(-sizes.draws // 4)))
    entries = math.prod(_prepare(bench, records, 2).model.shape)
    # An even number of releases, so that steps can be compared in pairs.
    n_steps = max(2, 2 * round(sizes.draws / (4 * entries)))
    first, second = (_Noise(bench, _prepare(bench, records, n_steps)) for _ in range(2))
    checks = _law(first, second)
    last = [_Noise(bench, _last(bench, sizes)) for _ in range(2)]
    checks += [replace(check, name=check.name + ", last release") for check in _law(*last)]
    words = [run.stage.randomness.words(1000, "sample", 0) for run in (first, second)]
    charged = all(run.charged for run in (first, second, *last))
    checks += [
        Check("fresh sampling", bool((words[0] != words[1]).all()), detail="1,000 random words of each run all differ"),
        Check("charged", charged, detail="the ledger holds the event of each release"),
    ]
    return LayerResult("C", "noise of a release", tuple(checks))


def _prepare(bench: Bench, records: list[Any], n_steps: int) -> Fit:
    estimator = bench.whole(noise_multiplier=_MULTIPLIER, n_steps=n_steps, n_records=len(records), n_jobs=2)
    return bench.prepare(estimator, records)


def _last(bench: Bench, sizes: Sizes) -> Fit:
    """Prepare a run of nothing but last releases. They have few entries, if they are scores."""
    made = _prepare(bench, bench.adapter.base(2), STEPS)
    bench.teach(made, (0, 1))
    n_steps = max(2, 2 * round(sizes.draws / (4 * _FEWER * math.prod(made.model.shape))))
    return replace(made, plan=replace(made.plan, n_steps=n_steps))


class _Noise:
    """Released sums less exact ones, of one run with fixed parameters.

    ``units``, an int64 array of shape (releases, entries), has them in lattice units. ``claimed`` is the standard
    deviation that the declared sensitivity asks for, in the same units.
    """

    def __init__(self, bench: Bench, made: Fit):
        self.stage = made
        model, mechanism = made.model, made.plan.mechanism
        self.claimed = _MULTIPLIER * mechanism.sensitivity / mechanism.spacing
        backend: Any = Watched(made.backend)
        still: Any = Still(model)
        made = replace(made, model=still, backend=backend)
        noises: list[np.ndarray] = []
        self.off_lattice = 0.0

        def on_release(release: Release) -> None:
            # The exact sum is made here, apart from the backend that is audited.
            fine = Threads(1).sum(model, made.records, backend.rows, backend.words)
            noises.append((release.units - model.round(fine, mechanism.spacing)).reshape(-1))
            units = release.values * (made.plan.sampler.expected_batch_size / mechanism.spacing)
            off = np.abs(units - release.units).max() / (1 + np.abs(units).max())
            self.off_lattice = max(self.off_lattice, float(off))

        bench.run(made, on_release)
        self.units = np.array(noises)
        # All records in each step: the event is known without asking the sampler.
        event = GaussianEvent(_MULTIPLIER, relation=bench.relation)
        spent = without_leaks({one: count for (_, one), count in made.ledger.spent.items()})
        self.charged = spent == {event: made.plan.n_steps}


def _normal(name: str, value: float, sd: float, center: float, detail: str) -> Check:
    from scipy.stats import norm

    p = 2 * float(norm.sf(abs(value - center) / sd))
    return Check(name, p > ERROR, value, center, f"{detail}; p = {p:.2g}", ERROR)


def law(units: np.ndarray, claimed: float) -> list[Check]:
    """Compare noise in lattice units with the claimed normal law."""
    from scipy.stats import chisquare, kstest

    x = units.reshape(-1) / claimed
    n = x.size
    checks = [
        _normal("standard deviation", float(x.std()), math.sqrt(0.5 / n), 1.0, f"{n} draws over the claimed sd"),
        _normal("mean", float(x.mean()), 1 / math.sqrt(n), 0.0, "in standard deviations"),
        _normal("skewness", float((x**3).mean()), math.sqrt(15 / n), 0.0, "third moment"),
        _normal("symmetry", float((x > 0).mean() + 0.5 * (x == 0).mean()), 0.5 / math.sqrt(n), 0.5, "share above 0"),
    ]
    p = float(kstest(x, "norm").pvalue)
    checks.append(Check("normal law", p > ERROR, p, detail="p of Kolmogorov and Smirnov's test", by_chance=ERROR))
    low = np.bincount((units & 255).reshape(-1).astype(np.intp), minlength=256)
    p = float(chisquare(low).pvalue)
    checks.append(Check("low bytes uniform", p > ERROR, p, detail="p of a chi-square test", by_chance=ERROR))
    return checks


def _law(first: _Noise, second: _Noise) -> list[Check]:
    """Compare the noise of two runs of one kind."""
    both = law(np.concatenate((first.units, second.units)), first.claimed)
    spacings = {run.stage.plan.mechanism.spacing for run in (first, second)}
    off = max(first.off_lattice, second.off_lattice)
    passed = off < 1e-12 and len(spacings) == 1 and is_power_of_two(next(iter(spacings)))
    lattice = Check("lattice", passed, off, 0.0, "released sums are whole multiples of one power of two")
    return [*both, lattice, *_independence(first, second)]


def _independence(first: _Noise, second: _Noise) -> list[Check]:
    one, two = first.units / first.claimed, second.units / second.claimed
    x = np.concatenate((one, two)).reshape(-1)
    pairs = {
        "entries 1 apart": (x[:-1], x[1:]),
        "entries 2 apart": (x[:-2], x[2:]),
        "entries 8 apart, drawn as pairs": (x[:-8], x[8:]),
        "two steps of a run": (one[0::2], one[1::2]),
        "two runs, first steps": (one[0::2], two[0::2]),
        "two runs, second steps": (one[1::2], two[1::2]),
        "two runs, first and second step": (one[0::2], two[1::2]),
    }
    return uncorrelated(pairs)


def uncorrelated(pairs: Mapping[str, tuple[np.ndarray, np.ndarray]], sd: float = 1.0) -> list[Check]:
    """Compare the correlation of pairs of noises with 0."""
    return [
        _normal("uncorrelated: " + name, float((a * b).mean()) / sd**2, 1 / math.sqrt(a.size), 0.0, f"{a.size} pairs")
        for name, (a, b) in pairs.items()
    ]
