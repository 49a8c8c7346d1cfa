"""Layer A, replay: how far one raw record moves the noiseless sums."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..accounting import Relation
from ..models.fit import Fit
from ..models.rebuild import alike
from .bench import Bench, squared_norm
from .report import Check, LayerResult
from .sizes import Sizes

#: Released states for comparing pairs: the sharp one, then one more release each.
_STATES = 5
_BASE = 5


def declared_square(sensitivity: float, spacing: float) -> Fraction:
    """Return a sensitivity in lattice units, squared, exactly."""
    return Fraction(sensitivity) ** 2 / Fraction(spacing) ** 2


class _Replay:
    """Sums of whole raw data sets, with frozen random words.

    All are under one state. Each data set is read anew, by an estimator of its own. Whatever a reader makes of the
    other records, or keeps, shows as a distance.
    """

    def __init__(self, bench: Bench, rng: np.random.Generator, number: int):
        self.bench = bench
        self.base = bench.adapter.base(_BASE)
        self.words = rng.integers(0, 2**64, _BASE + 1, dtype=np.uint64)
        self.stage = bench.prepare(self._estimator(), self.base)
        self.start = self.stage.model.state()
        if number == 0:
            bench.adapter.sharp(self.stage)
        else:
            bench.adapter.scramble(self.stage, rng, number)
        self.state: Mapping[str, np.ndarray] = self.stage.model.state()
        mechanism = self.stage.plan.mechanism
        self.bound = declared_square(mechanism.sensitivity, mechanism.spacing)
        self.facts_differ = 0

    def _estimator(self, **overrides: Any) -> Any:
        return self.bench.whole(n_records=_BASE + 1, **overrides)

    def sums(self, extra: Sequence[Any], **overrides: Any) -> np.ndarray:
        """Return the noiseless sums for the base and further records."""
        stage = self.bench.prepare(self._estimator(**overrides), [*self.base, *extra])
        same = same_run(stage, self.stage) and (stage.model.secret_start or alike(stage.model.state(), self.start))
        self.facts_differ += not overrides and not same
        stage.model.restore(self.state)
        # All units that the reader made, more than there are persons if it split one.
        rows = np.arange(stage.records.n_rows)
        return self.bench.sums(stage, rows, np.resize(self.words, len(rows)))


def same_run(one: Fit, other: Fit) -> bool:
    """Tell whether public facts and plan are the same."""
    return alike(one.planned.request.public, other.planned.request.public) and one.plan.public() == other.plan.public()


def layer_a(bench: Bench, sizes: Sizes, rng: np.random.Generator) -> LayerResult:
    """Measure distances of neighboring data sets' exact sums, with frozen randomness."""
    adapter, relation = bench.adapter, bench.relation
    each = -(-sizes.pairs // _STATES)
    most, over, total, facts = Fraction(0), 0, 0, 0
    reached = Fraction(0)
    n_states = _STATES + adapter.more_states
    for number in range(n_states):
        replay = _Replay(bench, rng, number)
        without = replay.sums([])
        worst = adapter.worst_pair()
        for pair in range(1 + each):
            first, second = worst if pair == 0 else (adapter.generated(rng, adapter.small) for _ in range(2))
            moved = replay.sums([first]) - (replay.sums([second]) if relation == Relation.REPLACE_ONE else without)
            share = squared_norm(moved) / replay.bound
            if number == 0 and pair == 0:
                reached = share
            total += 1
            over += share > 1
            most = max(most, share)
        facts += replay.facts_differ
    checks = [
        Check(
            "distance of neighbors",
            over == 0,
            math.sqrt(most),
            1.0,
            f"largest of {total} pairs of raw data sets in {n_states} released states over the declared sensitivity; "
            f"{over} beyond it",
        ),
        Check(
            "public facts", facts == 0, detail="neighboring data sets give the same public facts, plan and public start"
        ),
    ]
    if adapter.tight(relation):
        checks.append(
            Check(
                "worst case is reached",
                reached >= 1 - EQUALITY,
                math.sqrt(reached),
                1.0,
                "distance of the worst pair over the declared sensitivity: the claim is not loose",
            )
        )
    checks += [_rows(bench), _invalid(bench, rng), _not_finite(bench, rng)]
    return LayerResult("A", "replay of neighbors", tuple(checks))


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
    replay = _Replay(bench, rng, 1)
    without, moved, bad = replay.sums([], options__invalid="drop"), 0, bench.adapter.invalid()
    try:
        for record in bad:
            moved += not np.array_equal(replay.sums([record], options__invalid="drop"), without)
    except ValueError as error:
        return Check("invalid records", False, detail=f"one is refused in place of being dropped: {error}")
    return Check("invalid records", moved == 0, detail=f"{len(bad)} of them, dropped: no sum moves")


def _not_finite(bench: Bench, rng: np.random.Generator) -> Check:
    """Check contributions under parameters that are not finite."""
    records = [bench.adapter.generated(rng, bench.adapter.small) for _ in range(20)]
    stage = bench.prepare(bench.whole(n_records=len(records)), records)
    bench.adapter.scramble(stage, rng, 2)
    entered = bench.adapter.poison(stage)
    mechanism, words = stage.plan.mechanism, rng.integers(0, 2**64, 1, dtype=np.uint64)
    with np.errstate(all="ignore"):
        longest = max(squared_norm(bench.sums(stage, [row], words)) for row in range(len(records)))
    share = longest / declared_square(mechanism.clip_norm, mechanism.spacing)
    how = "under parameters that are not finite" if entered else "after releases of NaN, which the model refuses"
    said = f"largest contribution over the clip norm, {how}"
    return Check("non-finite numbers", share <= 1, math.sqrt(share), 1.0, said)
