"""Layers D and E: an attacker's measurements against the accountant's claim.

The attacker sees every release, knows all records but the one in question, and knows neither the minibatches nor the
noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..accounting import PrivacyEvent, Relation, delta, epsilon, rounded_up
from ..engine.model import Release
from ..engine.sampling import run_event
from ..models.fit import Fit
from ..models.rebuild import alike
from .bench import CONFIDENCE_ERROR, N_RECORDS, STEPS, Bench, Sizes, Still
from .report import Check, LayerResult
from .statistics import delta_lower_bound, mu_interval

_STEPS, _RATE, _GRID = 20, 0.1, 9
#: Records among which layer D looks for a pair whose scores are far apart, beside the worst pair.
_CANDIDATES = 40


def _sides(bench: Bench, pair: tuple[Any, Any] | None = None) -> tuple[list[Any], list[Any]]:
    """Return records with and without the audited one, the rest the same; ``pair`` is the worst pair unless given."""
    extra, replaced = pair or bench.adapter.worst_pair()
    base = bench.adapter.base(N_RECORDS - 1)
    return [*base, extra], [*base, replaced] if bench.relation == Relation.REPLACE_ONE else base


class _Whole:
    """Runs over all records under one state, with one public number: the sharp state, or one before the last release.

    ``sides`` are the records with and without the audited one.
    """

    def __init__(self, bench: Bench, sides: Sequence[list[Any]], state: Mapping[str, np.ndarray] | None = None):
        self.bench, self.sides, self.state = bench, sides, state

    def _stage(self, records: list[Any], multiplier: float, n_releases: int) -> Fit:
        n_steps = n_releases if self.state is None else STEPS
        estimator = self.bench.whole(noise_multiplier=multiplier, n_records=N_RECORDS, n_steps=n_steps)
        stage = self.bench.prepare(estimator, records)
        if self.state is None:
            self.bench.adapter.sharp(stage)
        else:
            stage.model.restore(self.state)
        return replace(stage, plan=replace(stage.plan, n_steps=n_releases))

    def projections(self, multiplier: float, n_releases: int) -> tuple[np.ndarray, np.ndarray]:
        """Release all records of each side under fixed parameters, along the direction in which they differ."""
        words, exact = np.zeros(N_RECORDS, dtype=np.uint64), []
        # The kind of the first releases can depend on the noise.
        stages = [self._stage(records, multiplier, n_releases) for records in self.sides]
        for stage, records in zip(stages, self.sides, strict=True):
            sums = self.bench.sums(stage, np.arange(len(records)), words[: len(records)])
            exact.append(sums.astype(np.float64))
        direction = exact[0] - exact[1]
        direction /= float(np.linalg.norm(direction)) or 1.0

        def along(stage: Fit) -> np.ndarray:
            seen: list[float] = []
            still: Any = Still(stage.model)

            def on_release(release: Release) -> None:
                seen.append(float(release.values.reshape(-1) @ direction))

            self.bench.run(replace(stage, model=still), on_release)
            return np.array(seen)

        return along(stages[0]), along(stages[1])

    def mu(self, sizes: Sizes, name: str) -> tuple[Check, dict[str, float]]:
        """Estimate Gaussian-DP mu of one release whose noise multiplier is 1."""
        mu, low, high = mu_interval(*self.projections(1.0, sizes.releases), CONFIDENCE_ERROR)
        said = f"mu in [{low:.4f}, {high:.4f}]; {sizes.releases} releases a side"
        return Check(name, low <= 1.0, mu, 1.0, said, CONFIDENCE_ERROR), dict(mu=mu, low=low, high=high, claimed=1.0)


def _last(bench: Bench, rng: np.random.Generator) -> _Whole:
    """Return runs of last releases, with the pair of some records that is furthest apart there."""
    told, state = bench.told()
    adapter = told.adapter
    candidates = [*adapter.worst_pair(), *(adapter.generated(rng, adapter.small) for _ in range(_CANDIDATES))]
    stage = told.prepare(told.whole(n_records=N_RECORDS, n_steps=STEPS), candidates)
    stage.model.restore(state)
    first, second = told.furthest(stage)
    return _Whole(told, _sides(told, (candidates[first], candidates[second])), state)


def layer_d(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Estimate Gaussian-DP mu of one whole-data release from two samples."""
    whole = _Whole(bench, _sides(bench))
    first, row = whole.mu(sizes, "noise multiplier 1")
    checks = [first, _last(bench, rng).mu(sizes, "noise multiplier 1, last release")[0]]
    title = f"mu of one release, {sizes.releases} releases a side"
    return LayerResult("D", title, tuple(checks), figures={"mu": row})


class _Attack:
    """Likelihood ratios, "with" against "without" the audited record, of one run's releases.

    The sums of the rest of a minibatch are unknown. Their mean is taken off, and their covariance, by the drawn number
    of records of each kind, is accounted for. Under random allocation the ratios belong to whole epochs. Half of the
    prior is on minibatches that are the same in all epochs, so that these are found too.
    """

    def __init__(self, bench: Bench):
        adapter, self.bench = bench.adapter, bench
        base = [] if adapter.disjoint else adapter.base(N_RECORDS - 1)
        extra, replaced = adapter.worst_pair()
        kinds: list[list[Any]] = []  # equal records of the base
        for record in base:
            same = [kind for kind in kinds if alike(kind[0], record)]
            (same[0].append(record) if same else kinds.append([record]))
        self.counts = np.array([float(len(kind)) for kind in kinds])
        self.signs = (1.0, -1.0) if bench.relation == Relation.REPLACE_ONE else (1.0,)
        own = [extra, replaced][: len(self.signs)]
        estimator = bench.estimator(**_run_settings(bench, len(own) + len(kinds)))
        # The attacker's own records: the model under attack looks at them as at any others.
        self.records = bench.prepare(estimator, own + [kind[0] for kind in kinds]).records

    def follow(self, stage: Fit) -> None:
        """Attack another run."""
        self.variance = (stage.plan.mechanism.noise_sd / stage.plan.mechanism.spacing) ** 2
        self.stage = replace(stage, records=self.records)
        self.ratios: list[float] = []

    def __call__(self, release: Release) -> None:
        """Add the log likelihood ratios of one release. The model is still as it was when the sum was made."""
        word = np.zeros(1, dtype=np.uint64)
        rows = range(len(self.signs) + len(self.counts))
        sums = np.array([self.bench.sums(self.stage, [row], word) for row in rows], dtype=np.float64)
        targets, rest = sums[: len(self.signs)], sums[len(self.signs) :]
        seen = release.units.reshape(-1).astype(np.float64)
        if len(rest):
            seen -= _RATE * (self.counts @ rest)
            spread = np.diag(1.0 / (self.counts * _RATE * (1 - _RATE)))
            inner = np.linalg.inv(self.variance * spread + rest @ rest.T)
        length = self.stage.plan.sampler.n_batches
        for sign, own in zip(self.signs, targets, strict=True):
            filtered = own - (rest @ own) @ inner @ rest if len(rest) else own
            linear, square = float(seen @ filtered) / self.variance, float(own @ filtered) / self.variance
            if length > 1:
                self.ratios.append(linear - 0.5 * square)
                continue
            sampled = np.logaddexp(math.log(1 - _RATE), math.log(_RATE) + linear - 0.5 * square)
            self.ratios.append(sign * float(sampled))

    @property
    def score(self) -> float:
        """The log likelihood ratio of the run."""
        length = self.stage.plan.sampler.n_batches
        if length == 1:
            return math.fsum(self.ratios)
        epochs = np.array(self.ratios).reshape(-1, length)
        fresh = np.logaddexp.reduce(epochs, axis=1) - math.log(length)
        return float(np.logaddexp(fresh.sum(), np.logaddexp.reduce(epochs.sum(0)) - math.log(length)))


def _run_settings(bench: Bench, n_rows: int, multiplier: float = 1.0) -> dict[str, Any]:
    """Settings of a whole run at the layer's sampling rate."""
    replaces = bench.relation == Relation.REPLACE_ONE
    n_records = n_rows if replaces else N_RECORDS
    allocates = bench.adapter.estimator().sampling == "random_allocation"
    chosen = dict(
        sampling="without_replacement" if replaces else "random_allocation" if allocates else "poisson",
        options__relation=None,
        n_records=n_records,
        n_steps=_STEPS,
        batch_size=max(1, round(_RATE * n_records)),
        noise_multiplier=multiplier,
    )
    return {**bench.adapter.cheap, **bench.adapter.settings, **chosen}


def _scores(bench: Bench, holds: bool, multiplier: float, n_runs: int) -> tuple[np.ndarray, PrivacyEvent]:
    """Score whole runs with and without the audited record; return their event."""
    records = _sides(bench)[0 if holds else 1]
    estimator = bench.estimator(**_run_settings(bench, len(records), multiplier))
    attack, out = _Attack(bench), np.empty(n_runs)
    for run in range(n_runs):
        stage = bench.prepare(estimator, records)
        attack.follow(stage)
        bench.run(stage, attack)
        out[run] = attack.score
    plan = stage.plan
    return out, run_event(plan.sampler, plan.mechanism.noise_multiplier, _STEPS)


def layer_e(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Compare delta(epsilon) of whole runs: the accountant's claim and an attack."""
    multiplier = float(bench.adapter.settings.get("noise_multiplier") or 1.0)
    with_record, event = _scores(bench, True, multiplier, sizes.runs)
    without, _ = _scores(bench, False, multiplier, sizes.runs)
    grid = np.linspace(0.0, 0.8 * epsilon(event, 1e-3), _GRID).tolist()
    claims = [delta(event, e) for e in grid]
    measured, gains = [], []
    for e, claim in zip(grid, claims, strict=True):
        guess, first, second, t = _best_test(with_record, without, e)
        measured.append(delta_lower_bound(first, second, e, t, CONFIDENCE_ERROR))
        # The difference and not the ratio: a bound that is barely above a tiny claim does not repeat.
        gains.append(guess - claim)
    best = int(np.argmax(gains))
    name, least, most = f"delta at epsilon = {rounded_up(grid[best])}", measured[best], claims[best]
    said = f"Clopper-Pearson lower bound on {len(first)} runs a side, epsilon chosen on the others"
    check = Check(name, least <= most, least, most, said, CONFIDENCE_ERROR)
    at = {
        "epsilon": grid,
        "delta": claims,
        "measured": measured,
        "noise_multiplier": multiplier,
        "steps": _STEPS,
        "sampling_probability": _RATE,
    }
    return LayerResult("E", f"profile of whole runs, {sizes.runs} a side", (check,), figures={"claimed": at})


def _best_test(with_record: np.ndarray, without: np.ndarray, e: float) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Choose sign and threshold on one half of the scores, to be tried on the other.

    Both tests of the relation count: "more like with" and "more like without". Returns the bound of delta(e) that chose
    them, the scores of the other half, such that the test is {score > threshold}, and the threshold.
    """

    def signed(sign: int, half: slice) -> tuple[np.ndarray, np.ndarray]:
        one, other = with_record[half], without[half]
        return (one, other) if sign > 0 else (-other, -one)

    first, second = slice(None, len(without) // 2), slice(len(without) // 2, None)
    thresholds = np.quantile(np.concatenate(signed(1, first)), np.linspace(0.01, 0.99, 99)).tolist()
    guess, sign, t = max(
        (delta_lower_bound(*signed(s, first), e, s * t, CONFIDENCE_ERROR), s, s * t)
        for s in (1, -1)
        for t in thresholds
    )
    return guess, *signed(sign, second), t
