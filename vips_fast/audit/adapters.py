"""The hardest records of the built-in models; `vips_fast.models.family` names their adapters."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from ..accounting import Relation
from ..data.schema import MOVED
from ..engine.model import Release
from ..models.estimator import PrivateEstimator
from ..models.fit import Fit
from ..models.lda import LatentDirichletAllocation
from ..models.lda.model import LONG_HISTOGRAM
from ..models.logistic import BayesianLogisticRegression, CountRegression
from ..models.sbn import ClassConditionalNetwork, SigmoidBeliefNetwork
from ..models.sbn.network import VISIBLE_CLIP
from .adapter import Adapter
from .bench import Data


class LdaAdapter(Adapter):
    """Topic models. A record is a dense vector of counts."""

    estimator_type: ClassVar[type[PrivateEstimator]] = LatentDirichletAllocation
    bad = (-1.0, 0.5, math.inf, math.nan, 2.0**60)
    wide, many = 320, 4200
    cheap, disjoint = {"options": {"max_doc_update_iter": 10}}, True
    most_canaries = 2**20

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        self.small = 4 * self._loudest

    def data(self, records: Sequence[Any]) -> Data:
        from scipy.sparse import csr_array

        made = dict(super().data(records))
        return {**made, "X": csr_array(made["X"])}

    def _counted(self, stage: Fit) -> int:
        """Number of steps whose releases are histograms, in a run of topics that begins with them."""
        state = stage.model.state()
        return int(state["histogram_steps"][0]) if "average" in state and "histogram_steps" in state else 0

    def sharp(self, stage: Fit) -> None:
        model = stage.model
        state, counted = model.state(), self._counted(stage)
        if "average" not in state or ("histogram" in state and not counted):
            return  # a histogram: each record of enough words reaches the clip
        units = np.zeros(model.shape, dtype=np.int64)
        n_words, n_topics = units.shape
        units[np.arange(n_words), np.arange(n_words) % n_topics] = 1
        for step in range(counted):
            model.update(Release(step, np.ones_like(units), 1.0, 0.1))
        model.update(Release(counted, units, 1e9, 0.0))

    @property
    def _loudest(self) -> int:
        """Number of words that bring a document to the clip. Each of the words has a bound of its own."""
        share: float = self.estimator()._options.word_clip
        return math.ceil(share**-2)

    @property
    def _each(self) -> int:
        # A document of this length contributes the clip norm to a histogram, too.
        length = max(self.settings.get("doc_length") or 500, math.ceil(LONG_HISTOGRAM**2))
        return -(-length // self._loudest)

    def adds_up(self) -> bool:
        return self._loudest == 1  # one word without a bound of its own reaches the clip

    def tight(self, relation: str) -> bool:
        # Words that share the clip miss it.
        return self.adds_up() or (self.settings.get("clip") or 0.0) <= self._loudest**-0.5

    def worst_pair(self) -> tuple[Any, Any]:
        loud = np.repeat(np.diag([self._each] * 4).astype(np.int32), self._loudest, axis=1)
        return (loud[3],), (loud[2],)

    def base(self, n: int) -> list[Any]:
        half = np.arange(self.small // 2, dtype=np.int32)
        return [(np.concatenate([20 + 3 * half + number, 0 * half]),) for number in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        record = np.zeros(columns, dtype=np.int32)
        kind = rng.integers(4)
        if kind == 0:
            record[rng.integers(columns)] = rng.choice([1, 3, 500, 2**20])
        elif kind == 1:
            record[:] = rng.integers(0, 9, columns)
        else:
            np.add.at(record, rng.integers(0, columns, int(rng.integers(1, 3 * columns))), 1)
        return (record,)

    def canaries(self, n: int, relation: str) -> Data | None:
        from scipy.sparse import csr_array

        each = self._loudest
        own = 2 * n if relation == "replace_one" else n
        words = np.tile(np.arange(own * each), 2 * n // own)
        counts = np.full(len(words), self._each, dtype=np.int32)
        rows, shape = each * np.arange(2 * n + 1), (2 * n, own * each)
        return {"X": csr_array((counts, words.astype(np.int32), rows), shape=shape)}

    def width(self, entries: int) -> int:
        return -(-entries // int(self.estimator().n_components))


class SbnAdapter(Adapter):
    """Sigmoid belief networks. A record is a vector of 0 and 1."""

    estimator_type: ClassVar[type[PrivateEstimator]] = SigmoidBeliefNetwork
    bad = (2.0, 0.5, -1.0, math.nan, math.inf)
    small, wide, told, many = 6, 12, 60, 9000

    def sharp(self, stage: Fit) -> None:
        """Make a record of ones reach the bounds of all blocks: y - E[y] at its bound, z - E[z] beyond its own, alike.

        Records that replace each other, and the rows of a person, are furthest apart in the mean image. One hidden unit
        has no covariance, and of many none is sure of itself after so few columns.
        """
        public, model = stage.planned.request.public, cast(Any, getattr(stage.model, "model", stage.model))
        alone = stage.plan.sampler.relation == Relation.ADD_REMOVE and public.unit == "record"
        if not alone or not 1 < model.n_hidden <= 4:
            return
        share = math.floor(2.0**12 / (1 + VISIBLE_CLIP**2)) * 2.0**-12
        for step, (name, value) in enumerate({"image": 2 * share - 1, "cross": 0.9}.items()):
            units = np.zeros(model.shape, dtype=np.int64)
            units[model.blocks[name]] = round(value * 2**20)
            stage.model.update(Release(step, units, model.exact_multiplier(name) * 2.0**-20, 0.0))

    def worst_pair(self) -> tuple[Any, Any]:
        return (np.ones(self.small, dtype=np.uint8),), (np.zeros(self.small, dtype=np.uint8),)

    def base(self, n: int) -> list[Any]:
        return [(((np.arange(self.small) + i) % 2).astype(np.uint8),) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        return ((rng.random(columns) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])).astype(np.uint8),)

    def width(self, entries: int) -> int:
        return -(-entries // (int(self.estimator().n_components) + 1))


class ClassesAdapter(SbnAdapter):
    """A belief network for each class. A record is (vector of 0 and 1, label). The labels are 0 and 1."""

    estimator_type = ClassConditionalNetwork
    names = ("X", "y")
    many = 18_000

    def sharp(self, stage: Fit) -> None:
        """Stay at the mean image, which each record takes to the bound."""

    def worst_pair(self) -> tuple[Any, Any]:
        first, second = super().worst_pair()  # in one class, whose entries they share
        return (*first, 0), (*second, 0)

    def base(self, n: int) -> list[Any]:
        return [(*record, i % 2) for i, record in enumerate(super().base(n))]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        return (*super().generated(rng, columns), int(rng.integers(2)))

    def width(self, entries: int) -> int:
        return super().width(-(-entries // 2))


class LogisticAdapter(Adapter):
    """Bayesian logistic regression. A record is (row, y)."""

    estimator_type: ClassVar[type[PrivateEstimator]] = BayesianLogisticRegression
    names: tuple[str, ...] = ("X", "y")
    small, wide, many = 3, 32, 40_000

    # Sharp is the first step as it is: <xi> = b/4, and a row at its bound has both blocks at theirs.

    def _unit(self, column: int, sign: float = 1.0) -> np.ndarray:
        return np.asarray(sign * float(self.estimator().row_norm) * np.eye(self.small)[column])

    def worst_pair(self) -> tuple[Any, Any]:
        return (self._unit(0), 1.0), (self._unit(0, -1.0), 1.0)

    def tight(self, relation: str) -> bool:
        return relation == "add_remove" and self.kind is self.estimator_type  # opposite rows only come near

    def adds_up(self) -> bool:
        return False  # squares take a part

    def base(self, n: int) -> list[Any]:
        return [(self._unit(1 + i % (self.small - 1)), float(i % 2)) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        row = rng.standard_normal(columns) * 10.0 ** rng.uniform(-2, 2)
        if rng.random() < 0.2:  # values beyond their bounds, which a score counts
            row = rng.choice([MOVED, -MOVED, 0.3], columns)
        if rng.random() < 0.2:
            row[rng.integers(columns)] = rng.choice([0.0, 1e6, -1e6])
        return row, float(rng.integers(2))

    def canaries(self, n: int, relation: str) -> Data | None:
        bound, labels = float(self.estimator().row_norm), np.arange(n) % 2.0
        return {"X": np.concatenate((bound * np.eye(n), -bound * np.eye(n))), "y": np.tile(labels, 2)}

    def width(self, entries: int) -> int:
        return max(1, math.isqrt(2 * entries) - 2 if self.estimator()._full else entries - 1)


class CountsAdapter(LogisticAdapter):
    """Regression of counts. A record is (row, count), or of an estimator with exposures (row, count, exposure).

    A record without one has the largest.
    """

    estimator_type = CountRegression

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        if self._exposed:
            self.names = ("X", "y", "exposure")

    @property
    def _exposed(self) -> float:
        """The largest exposure; 0 without any."""
        return float(self.estimator().largest_exposure or 0)

    def data(self, records: Sequence[Any]) -> Data:
        return super().data([(*record, self._exposed)[: len(self.names)] for record in records])

    def worst_pair(self) -> tuple[Any, Any]:
        most = math.ceil(float(self.estimator().largest))
        return (self._unit(0), most), (self._unit(0, -1.0), most)

    def tight(self, relation: str) -> bool:
        return False  # at the start no record reaches the bound

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """Draw rows of all lengths, counts up to twice the largest, and exposures of all sizes."""
        row, count = super().generated(rng, columns)[0], int(rng.integers(2 * math.ceil(self.estimator().largest)))
        return (row, count, self._exposed * 10.0 ** rng.uniform(-4, 0)) if self._exposed else (row, count)

    def invalid(self) -> list[Any]:
        """Make rows that are not finite, and exposures that are no numbers from 0 to the largest."""
        bad = (0.0, -1.0, math.nan, math.inf, 2 * self._exposed) if self._exposed else ()
        return super().invalid() + [(self._unit(0), 1, exposure) for exposure in bad]

    def canaries(self, n: int, relation: str) -> Data | None:
        return None  # as for `tight`
