"""The bench of a model's audit: the engine's contract.

All layers reach a model as `PrivateEstimator.fit` does: whole raw data sets go through the estimator's own reader, and
the result is a `Fit` run. Nothing here knows the parts of a model.

Layers A to D look at the first releases of a run and at its last one, which is another statistic if the run ends with a
score of its model (`vips_fast.engine.gain`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..accounting import Relation
from ..engine.backend import Threads
from ..engine.gain import MEASURED
from ..engine.loop import run
from ..engine.model import Model, Records, Release
from ..models.estimator import PrivateEstimator
from ..models.fit import Fit

if TYPE_CHECKING:
    from .adapter import Adapter

#: Releases of a run whose last one the layers look at; a run of so many steps ends with the model's score.
STEPS = MEASURED

#: A draw fails a check of a true claim this often. The tests run hundreds of them on fresh
#: noise, so a check that chance can fail is drawn again, and fails if both draws fail.
ERROR = 1e-6
#: Of each end of the confidence bounds of layers D, E and H.
CONFIDENCE_ERROR = 1e-5

#: Records of the data sets of layers D and E.
N_RECORDS = 20

#: Raw data as keyword arguments of `PrivateEstimator.prepare`.
Data = Mapping[str, Any]


@dataclass(frozen=True)
class Sizes:
    """How much each layer does.

    ``pairs`` generated pairs of layer A. ``records`` that layer B examines one by one, and ``rows`` of its largest data
    set. Noise ``draws`` of layer C, from two runs. ``releases`` a side of layer D. Whole ``runs``
    a side of layer E; ``canaries`` of layer H, at most.
    """

    pairs: int
    records: int
    draws: int
    releases: int
    runs: int
    rows: int = 2**20
    canaries: int = 10_000


QUICK = Sizes(pairs=500, records=60, draws=800_000, releases=8_000, runs=1_500)
FULL = Sizes(pairs=500, records=1_000, draws=10_000_000, releases=30_000, runs=20_000, rows=2**22, canaries=10**6)


class Part:
    """A stand-in for a part of the machinery, unchanged. Subclasses change some of it and call ``self.inner``."""

    def __init__(self, inner: Any):
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Still(Part):
    """A model with fixed parameters: all releases have one law."""

    def update(self, release: Release) -> None:
        """Learn nothing."""


class Watched(Part):
    """A backend that remembers the records and random words of each sum."""

    def sum(self, model: Model, records: Records, rows: np.ndarray, words: np.ndarray, *more: Any) -> np.ndarray:
        """Return the inner backend's result."""
        self.rows, self.words = rows, words
        return np.asarray(self.inner.sum(model, records, rows, words, *more))


class Bench:
    """One adapter under one neighboring relation."""

    def __init__(self, adapter: "Adapter", relation: Relation):
        self.adapter, self.relation = adapter, relation

    def estimator(self, **overrides: Any) -> Any:
        """Return an unfitted estimator."""
        return self.adapter.estimator(**overrides)

    def whole(self, **overrides: Any) -> Any:
        """Return an estimator that takes all records in each step."""
        sampling = {"sampling": "full", "options__relation": self.relation, "batch_size": None, "noise_multiplier": 1.0}
        return self.estimator(**{**sampling, **overrides})

    def prepare(self, estimator: PrivateEstimator, records: Sequence[Any], **how: Any) -> Fit:
        """Prepare a run over raw records; ``how`` goes to `prepare`."""
        return self.prepare_data(estimator, self.adapter.data(records), **how)

    def prepare_data(self, estimator: PrivateEstimator, data: Data, **how: Any) -> Fit:
        """Prepare a run over raw data; otherwise as `prepare`."""
        return estimator.prepare(**data, **how)

    def teach(self, stage: Fit, rows: Sequence[int]) -> None:
        """Bring a run of `STEPS` releases to its last one; the others are of these rows, nearly without noise.

        Such releases are possible ones. They make a model that is sure of itself, whose score of other records is long.
        """
        drawn = np.resize(rows, stage.plan.sampler.n_records)
        scale = stage.plan.mechanism.spacing / stage.plan.sampler.expected_batch_size
        for step in range(STEPS - 1):
            units = self.sums(stage, drawn, np.zeros(len(drawn), dtype=np.uint64))
            stage.model.update(Release(step, units.reshape(stage.model.shape), scale, scale))

    def told(self) -> tuple["Bench", dict[str, np.ndarray]]:
        """Return a bench of records with `Adapter.told` columns, and a state before the last release; see `teach`."""
        bench = Bench(self.adapter.resized(), self.relation)
        records = [*bench.adapter.base(2), bench.adapter.worst_pair()[0]]
        stage = bench.prepare(bench.whole(n_records=N_RECORDS, n_steps=STEPS), records)
        bench.teach(stage, (0, 2))
        return bench, stage.model.state()

    def furthest(self, stage: Fit) -> tuple[int, int]:
        """Return the rows that are furthest apart; for adding or removing one, the longest and another."""
        rows, word = range(stage.records.n_rows), np.zeros(1, dtype=np.uint64)
        values = np.array([self.sums(stage, [row], word) for row in rows], dtype=np.float64)
        squares = (values**2).sum(axis=1)
        if self.relation == Relation.REPLACE_ONE:
            distances = squares[:, None] + squares - 2 * values @ values.T
            first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
            return int(first), int(second)
        longest = int(np.argmax(squares))
        return longest, (longest + 1) % len(rows)

    def fine(self, stage: Fit, rows: Sequence[int] | np.ndarray, words: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Sum the contributions of rows exactly, flat, before the noise's lattice."""
        drawn, usable = np.asarray(rows, dtype=np.int64), stage.records.usable
        if usable is not None:
            drawn, words = drawn[usable[drawn]], words[usable[drawn]]
        return Threads(n_threads).sum(stage.model, stage.records, drawn, words).reshape(-1)

    def sums(self, stage: Fit, rows: Sequence[int] | np.ndarray, words: np.ndarray) -> np.ndarray:
        """Return the sums before the noise, flat, on the noise's lattice."""
        fine = self.fine(stage, rows, words).reshape(stage.model.fine_shape)
        return stage.model.round(fine, stage.plan.mechanism.spacing).reshape(-1)

    def run(self, stage: Fit, on_release: Callable[[Release], None]) -> None:
        """Run the engine's own loop; ``on_release`` sees each release before the model."""
        with np.errstate(all="ignore"):
            # With few records the noise may drive the public parameters anywhere.
            run(
                stage.model,
                stage.records,
                stage.plan,
                stage.ledger,
                stage.randomness,
                stage.backend,
                on_release=on_release,
            )


def squared_norm(array: np.ndarray) -> int:
    """Sum of squares of an integer array, in integers of any length."""
    return sum(int(v) * int(v) for v in array[array != 0].tolist())


def relation_of(adapter: "Adapter") -> Relation:
    """Return the neighboring relation that an adapter's settings are accounted under."""
    estimator = adapter.estimator()
    replaces = estimator.sampling == "without_replacement" or estimator._options.relation == Relation.REPLACE_ONE
    return Relation.REPLACE_ONE if replaces else Relation.ADD_REMOVE
