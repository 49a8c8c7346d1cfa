"""Layer A, replay: how far one raw record moves the noiseless sums."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ..accounting import Relation
from ..models.fit import Fit
from ..models.rebuild import alike
from .bench import N_RECORDS, STEPS, Bench, Sizes, squared_norm
from .report import Check, LayerResult

_BASE = 5
#: Each state gets such a part of the pairs.
_PORTIONS = 5
#: Scores of any predictions.
_SCORES, _CHANCES = 100, (0.3, 0.19, 0.19, 0.3, 0.02)


def declared_square(sensitivity: float, spacing: float) -> Fraction:
    """Return a sensitivity in lattice units, squared, exactly."""
    return Fraction(sensitivity) ** 2 / Fraction(spacing) ** 2


class _Replay:
    """Sums of whole raw data sets, with frozen random words.

    All are under one state, which ``put`` makes. Each data set is read anew, by an estimator of its own. Whatever a
    reader makes of the other records, or keeps, shows as a distance.
    """

    def __init__(
        self,
        bench: Bench,
        rng: np.random.Generator,
        put: Callable[[Fit], None],
        n_records: int = _BASE + 1,
        noise_multiplier: float = 1.0,
    ):
        self.bench, self.n_records, self.noise_multiplier = bench, n_records, noise_multiplier
        self.base = bench.adapter.base(_BASE)
        self.words = rng.integers(0, 2**64, _BASE + 1, dtype=np.uint64)
        self.stage = bench.prepare(self._estimator(), self.base)
        self.start = self.stage.model.state()
        put(self.stage)
        self.state: Mapping[str, np.ndarray] = self.stage.model.state()
        mechanism = self.stage.plan.mechanism
        self.bound = declared_square(mechanism.sensitivity, mechanism.spacing)
        self.facts_differ = 0

    def _estimator(self, **overrides: Any) -> Any:
        plan = {"n_records": self.n_records, "n_steps": STEPS, "noise_multiplier": self.noise_multiplier}
        return self.bench.whole(**plan, **overrides)

    def sums(self, extra: Sequence[Any], **overrides: Any) -> np.ndarray:
        """Return the noiseless sums for the base and further records."""
        stage = self.bench.prepare(self._estimator(**overrides), [*self.base, *extra])
        same = same_run(stage, self.stage) and (stage.model.secret_start or alike(stage.model.state(), self.start))
        self.facts_differ += not overrides and not same
        stage.model.restore(self.state)
        # All units that the reader made, more than there are persons if it split one.
        rows = np.arange(stage.records.n_rows)
        return self.bench.sums(stage, rows, np.resize(self.words, len(rows)))

    def shares(self, rng: np.random.Generator, pairs: int) -> list[Fraction]:
        """Return squared distances over the declared one: of the worst pair, and of generated ones."""
        adapter, without, out = self.bench.adapter, self.sums([]), []
        replaces = self.bench.relation == Relation.REPLACE_ONE
        generated = ([adapter.generated(rng, adapter.small) for _ in range(2)] for _ in range(pairs))
        for first, second in (adapter.worst_pair(), *generated):
            moved = self.sums([first]) - (self.sums([second]) if replaces else without)
            out.append(squared_norm(moved) / self.bound)
        return out


def same_run(one: Fit, other: Fit) -> bool:
    """Tell whether public facts and plan are the same."""
    return alike(one.planned.request.public, other.planned.request.public) and one.plan.public() == other.plan.public()


def layer_a(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Measure distances of neighboring data sets' exact sums, with frozen randomness."""
    adapter = bench.adapter
    scrambled = [partial(adapter.scramble, rng=rng, releases=before) for before in range(STEPS)]
    states: list[Callable[[Fit], None]] = [adapter.sharp, *scrambled]
    each, facts, coarse = -(-sizes.pairs // _PORTIONS), 0, _coarse(bench)
    shares: list[Fraction] = []
    for number, put in enumerate(states):
        replay = _Replay(bench, rng, put, noise_multiplier=coarse if number % 2 else 1.0)
        shares += replay.shares(rng, each)
        facts += replay.facts_differ
    told, state = bench.told()
    last = _Replay(told, rng, lambda stage: stage.model.restore(state), N_RECORDS).shares(rng, each)
    checks = [
        _distance("distance of neighbors", shares, f"in {len(states)} states, before each release of a run,"),
        _distance("distance of neighbors, last release", last, "in a state that is sure of itself,"),
        *_score(told, state, rng),
        Check("public facts", facts == 0, detail="neighboring data sets have one plan, public facts and public start"),
    ]
    if adapter.tight(bench.relation):
        reached = shares[0]
        said = "distance of the worst pair over the declared sensitivity: the claim is not loose"
        checks.append(Check("worst case is reached", reached >= 1 - EQUALITY, math.sqrt(reached), 1.0, said))
    checks += [_rows(bench), _invalid(bench, rng), _not_finite(bench, rng), _not_finite(bench, rng, last=True)]
    return LayerResult("A", "replay of neighbors", tuple(checks))


def _coarse(bench: Bench) -> float:
    """Find the most noise that the model takes: on its coarse lattice rounding moves neighbors further apart."""
    for noise_multiplier in 2.0 ** np.arange(20, 0, -1):
        try:
            bench.prepare(bench.whole(n_steps=STEPS, noise_multiplier=noise_multiplier), bench.adapter.base(_BASE))
        except ValueError:
            continue
        return float(noise_multiplier)
    return 1.0


def _distance(name: str, shares: Sequence[Fraction], where: str) -> Check:
    """Compare squared distances over the declared one with 1."""
    over = sum(share > 1 for share in shares)
    said = f"largest of {len(shares)} pairs of raw data sets {where} over the declared sensitivity; {over} beyond it"
    return Check(name, over == 0, math.sqrt(max(shares)), 1.0, said)


def _score(bench: Bench, state: Mapping[str, np.ndarray], rng: np.random.Generator) -> list[Check]:
    """Compare scores of any predictions: the bound of the score must hold whatever its model predicts.

    Records whose predictions are as far apart as the bound allows are hard to find, or there are none.
    """
    stage = bench.prepare(bench.whole(n_records=N_RECORDS, n_steps=STEPS), bench.adapter.base(2))
    stage.model.restore(state)
    score = getattr(stage.model, "score", None)
    if score is None:
        return []
    honest = score.clip_rows

    def any_rows(nats: np.ndarray, predicted: np.ndarray, *more: Any) -> np.ndarray:
        nats = score.nats * rng.choice([-1e3, -1.0, 1.0, 1e3, math.nan], nats.shape, p=_CHANCES)
        return np.asarray(honest(nats, rng.integers(2, size=predicted.shape), *more))

    score.clip_rows = any_rows
    word = np.zeros(1, dtype=np.uint64)
    rows = [bench.sums(stage, [0], word) for _ in range(_SCORES)]
    pairs = [(one, other) for one in rows for other in rows] if bench.relation == Relation.REPLACE_ONE else []
    moved = [one - other for one, other in pairs] or rows
    mechanism = stage.plan.mechanism
    share = max(map(squared_norm, moved)) / declared_square(mechanism.sensitivity, mechanism.spacing)
    said = f"largest distance that {_SCORES} scores of any predictions make, over the declared sensitivity"
    return [Check("distance of neighbors, any score", share <= 1, math.sqrt(share), 1.0, said)]


#: Clipping in float32 keeps back 2^-18 of the norm, and truncation up to a lattice step in each entry. Squared
#: distances that are this close to the bound reach it.
EQUALITY = 1e-4


def _rows(bench: Bench) -> Check:
    """Compare facts, plan and public start over private sizes."""
    if bench.relation == Relation.REPLACE_ONE:
        return Check("number of rows", True, detail="neighbors have as many rows")
    common = dict(n_records=40, n_steps=3)
    said, same = "2, 40, 41 and 500 rows give one plan and one public start", True
    drawn = {"sampling": "poisson", "batch_size": 10}
    for how in ({}, drawn) if bench.adapter.samples else ({},):
        estimator = bench.whole(**how, **common)
        try:
            runs = [bench.prepare(estimator, bench.adapter.base(n)) for n in (2, 40, 41, 500)]
        except ValueError as error:
            return Check("number of rows", False, detail=f"a number of rows is refused: {error}")
        same &= all(same_run(run, runs[0]) and alike(run.model.state(), runs[0].model.state()) for run in runs)
    return Check("number of rows", same, detail=said)


def _invalid(bench: Bench, rng: np.random.Generator) -> Check:
    """Check that ``invalid="drop"`` makes an invalid record as good as absent."""
    replay = _Replay(bench, rng, lambda stage: bench.adapter.scramble(stage, rng, 1))
    without, moved, bad = replay.sums([], options__invalid="drop"), 0, bench.adapter.invalid()
    try:
        for record in bad:
            moved += not np.array_equal(replay.sums([record], options__invalid="drop"), without)
    except ValueError as error:
        return Check("invalid records", False, detail=f"one is refused in place of being dropped: {error}")
    return Check("invalid records", moved == 0, detail=f"{len(bad)} of them, dropped: no sum moves")


def _not_finite(bench: Bench, rng: np.random.Generator, last: bool = False) -> Check:
    """Check contributions under parameters that are not finite, to a release in the middle or to the ``last``."""
    records = [bench.adapter.generated(rng, bench.adapter.small) for _ in range(20)]
    stage = bench.prepare(bench.whole(n_records=len(records), n_steps=STEPS), records)
    bench.adapter.scramble(stage, rng, STEPS - 1 if last else 2)
    entered = bench.adapter.poison(stage, last)
    mechanism, words = stage.plan.mechanism, rng.integers(0, 2**64, 1, dtype=np.uint64)
    with np.errstate(all="ignore"):
        longest = max(squared_norm(bench.sums(stage, [row], words)) for row in range(len(records)))
    share = longest / declared_square(mechanism.clip_norm, mechanism.spacing)
    how = "under parameters that are not finite" if entered else "after releases of NaN, which the model refuses"
    said = f"largest contribution over the clip norm, {how}"
    return Check("non-finite numbers" + ", last release" * last, share <= 1, math.sqrt(share), 1.0, said)
