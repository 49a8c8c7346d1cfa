"""What the layers need to know of each model: its hardest raw records and released states.

An adapter knows a model as its users do, by settings, raw data and released numbers, and
by the engine's contract. It never looks inside.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..engine.model import Model, Release
from ..models.estimator import PrivateEstimator
from ..models.lda import LatentDirichletAllocation, LdaOptions
from ..models.lda.paper import PaperLatentDirichletAllocation
from ..models.lda.planning import WORD_CLIP
from ..models.logistic import BayesianLogisticRegression
from ..models.sbn import ClassConditionalNetwork, SigmoidBeliefNetwork
from ..models.sbn.paper import PaperSigmoidBeliefNetwork
from ..models.stage import Stage
from .bench import Data

#: As large as finite numbers get: a state of such numbers overflows wherever it is used.
_HUGE = float(np.finfo(np.float64).max)

#: What a model may raise that does not take a release or a state.
_REFUSALS = (ValueError, ArithmeticError, np.linalg.LinAlgError)


class Adapter(ABC):
    """One model class with settings, as the audit sees it.

    A record of an adapter is raw: what `data` can stack into the arguments of ``fit``. ``settings`` are constructor
    arguments of the estimator; what a layer has to choose itself (sampling rate, steps, noise multiplier) overrides
    them. ``kind`` is a subclass of ``estimator_type`` to audit in its place.
    """

    estimator_type: ClassVar[type[PrivateEstimator]]
    #: Columns of records: for pairs and runs, and for layer B, where blocks matter.
    small: int = 4
    wide: int = 4
    #: Records that give sixteen threads a block each.
    many: int = 100
    #: Settings of post-processing that make whole runs quick, where none are given.
    cheap: ClassVar[dict[str, Any]] = {}
    #: Whether `base` records contribute nothing where the worst pair does.
    disjoint: bool = False
    #: Canaries of layer H for which a statistic has room.
    most_canaries: int = 1_000

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        self.settings, self.kind = dict(settings), kind or self.estimator_type

    def estimator(self, **overrides: Any) -> Any:
        """An unfitted estimator of ``kind`` with the settings."""
        return self.kind(**{**self.settings, **overrides})

    @abstractmethod
    def data(self, records: Sequence[Any]) -> Data:
        """Raw records as the arguments of ``fit``."""

    def take(self, data: Data, units: np.ndarray) -> Data:
        """Data of some of the records of `data`, by their numbers, in this order; a record may be taken again."""
        return {name: array[units] for name, array in data.items()}

    @abstractmethod
    def worst_pair(self) -> tuple[Any, Any]:
        """(record to add, record it replaces): as far apart as two can be, in the sharp state."""

    def tight(self, neighbors: str) -> bool:
        """Whether the worst pair reaches the declared sensitivity under this relation."""
        return True

    def adds_up(self) -> bool:
        """Whether equal rows of one person add up to the clip."""
        return True

    @abstractmethod
    def base(self, n: int) -> list[Any]:
        """n other records, with as little in common with the worst pair as there can be."""

    def company(self, columns: int) -> list[Any]:
        """Records without which no data set is taken, such as one of each label."""
        return []

    @abstractmethod
    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """A record drawn at random, extremes included."""

    @abstractmethod
    def invalid(self) -> list[Any]:
        """Records of the right form that hold values which are not valid."""

    @abstractmethod
    def blank(self, entries: int) -> list[Any]:
        """Records so wide that a release has about ``entries`` entries, if they can be."""

    def canaries(self, n: int, neighbors: str, persons: bool = False) -> Data | None:
        """2n raw records; in the sharp state, number i < n moves entries of the statistic that no other one moves.

        Number n + i is the record that number i replaces, and is not used for adding or removing one. ``persons``:
        these are rows of persons, whose contributions may have other bounds. None where there are no such records.
        """
        return None

    def sharp(self, prepared: Stage) -> None:
        """Put the model in a released state in which worst-case records reach the bound; here, leave the start."""
        return

    def scramble(self, prepared: Stage, rng: np.random.Generator, releases: int) -> None:
        """Put the model in the state that releases drawn at random lead to: of hardly any noise, or of little else."""
        model, plan = prepared.model, prepared.plan
        for step in range(releases):
            scale = plan.mechanism.spacing / plan.sampler.expected_batch_size
            size = model.clip * 10.0 ** rng.uniform(-3, 1) / math.sqrt(math.prod(model.shape))
            units = np.rint(rng.standard_normal(model.shape) * (size / scale)).astype(np.int64)
            model.update(Release(step, units, scale, size * 10.0 ** rng.uniform(-3, 0.3)))

    def poison(self, prepared: Stage) -> bool:
        """Make the released parameters non-finite, through the contract alone.

        A release of NaN is tried first. Where the model refuses it, its state is filled
        with the largest finite numbers, as far as `Model.restore` takes them: these
        overflow in the next step. Returns False where the model refuses everything.
        """
        model, before = prepared.model, prepared.model.state()
        with np.errstate(all="ignore"):
            try:
                model.update(Release(0, np.ones(model.shape, dtype=np.int64), math.nan, math.nan))
                return True
            except _REFUSALS:
                model.restore(before)
            poisoned = dict(before)
            for name, array in before.items():
                for value in (_HUGE, -_HUGE):
                    if _takes(model, {**poisoned, name: np.full(array.shape, value)}):
                        poisoned[name] = np.full(array.shape, value)
                        break
            model.restore(poisoned)
        return any(poisoned[name] is not before[name] for name in before)


def _takes(model: Model, state: dict[str, np.ndarray]) -> bool:
    try:
        model.restore(state)
    except _REFUSALS:
        return False
    return True


class LdaAdapter(Adapter):
    """Topic models. A record is a dense vector of counts."""

    estimator_type = LatentDirichletAllocation
    wide, many = 320, 4200
    cheap, disjoint = {"options": LdaOptions(max_doc_update_iter=10)}, True
    most_canaries = 2**20

    def data(self, records: Sequence[Any]) -> Data:
        """Counts as a sparse matrix."""
        from scipy.sparse import csr_array

        counts = np.asarray(records)
        return {"X": csr_array(counts.astype(np.int32) if counts.dtype.kind in "iu" else counts)}

    def sharp(self, prepared: Stage) -> None:
        """Each word in one topic alone, so that a document of one word keeps its norm."""
        n_words, n_topics = prepared.model.shape
        units, empty = np.zeros((2, n_words, n_topics), dtype=np.int64)
        units[np.arange(n_words), np.arange(n_words) % n_topics] = 1
        # What a start with fewer topics releases is shared out among their copies: nothing.
        first = int(prepared.model.state()["start_steps"][0])
        for step in range(first):
            prepared.model.update(Release(step, empty, 1e9, 0.0))
        prepared.model.update(Release(first, units, 1e9, 0.0))

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        self.small = 4 * self._loudest

    @property
    def _loudest(self) -> int:
        """Words of a document that reaches the clip although each of them has a bound of its own."""
        options = self.settings.get("options")
        share = None if options is None else options.word_clip
        if share is None:
            share = 1.0 if issubclass(self.kind, PaperLatentDirichletAllocation) else WORD_CLIP
        return math.ceil(share**-2)

    def _loud(self, place: int) -> np.ndarray:
        record = np.zeros(self.small, dtype=np.int32)
        record[place * self._loudest :][: self._loudest] = self._each
        return record

    @property
    def _each(self) -> int:
        return -(-(self.settings.get("doc_length") or 500) // self._loudest)

    def adds_up(self) -> bool:
        """One word alone is held to a bound of its own, where there is one."""
        return self._loudest == 1

    def tight(self, neighbors: str) -> bool:
        """Words that have to share a clip of nearly all that a document has do not reach it."""
        return self.adds_up() or (self.settings.get("clip") or 0.0) <= self._loudest**-0.5

    def worst_pair(self) -> tuple[Any, Any]:
        """Two documents of as few words as reach the clip, none of them the same."""
        return self._loud(3), self._loud(2)

    def base(self, n: int) -> list[Any]:
        """Documents of the other words."""
        records = [np.zeros(self.small, dtype=np.int32) for _ in range(n)]
        for number, record in enumerate(records):
            record[: self.small // 2] = 20 + 3 * np.arange(self.small // 2) + number
        return records

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """One word, all words or a bag of some."""
        record = np.zeros(columns, dtype=np.int32)
        kind = rng.integers(4)
        if kind == 0:
            record[rng.integers(columns)] = rng.choice([1, 3, 500, 2**20])
        elif kind == 1:
            record[:] = rng.integers(0, 9, columns)
        else:
            np.add.at(record, rng.integers(0, columns, int(rng.integers(1, 3 * columns))), 1)
        return record

    def invalid(self) -> list[Any]:
        """Counts that are negative, fractional, infinite, no numbers or too large."""
        return [np.array([3.0] * (self.small - 1) + [bad]) for bad in (-1.0, 0.5, math.inf, math.nan, 2.0**60)]

    def canaries(self, n: int, neighbors: str, persons: bool = False) -> Data | None:
        """Documents of as few words as reach the clip, which are theirs alone."""
        from scipy.sparse import csr_array

        each = self._loudest
        own = 2 * n if neighbors == "replace_one" else n
        words = np.tile(np.arange(own * each), 2 * n // own)
        counts = np.full(len(words), self._each, dtype=np.int32)
        rows, shape = each * np.arange(2 * n + 1), (2 * n, own * each)
        return {"X": csr_array((counts, words.astype(np.int32), rows), shape=shape)}

    def blank(self, entries: int) -> list[Any]:
        """An empty document."""
        return [np.zeros(-(-entries // int(self.estimator().n_components)), dtype=np.int32)]


class SbnAdapter(Adapter):
    """Sigmoid belief networks, all bounds. A record is a vector of 0 and 1."""

    estimator_type = SigmoidBeliefNetwork
    small, wide, many = 6, 12, 9000

    @property
    def _quadratic(self) -> bool:
        return not issubclass(self.kind, PaperSigmoidBeliefNetwork)

    def data(self, records: Sequence[Any]) -> Data:
        """Rows of 0 and 1."""
        return {"X": np.array([*records])}

    def sharp(self, prepared: Stage) -> None:
        """Polya-Gamma: z = 1 and psi = 0, so that all six blocks have their largest norms."""
        if self._quadratic:
            return
        state = prepared.model.state()
        for name in ("components", "weight_variances", "visible_bias", "visible_variance"):
            state[name] = np.zeros(state[name].shape)
        prepared.model.restore({**state, "hidden_bias": np.full(state["hidden_bias"].shape, 60.0)})

    def worst_pair(self) -> tuple[Any, Any]:
        """All ones against none."""
        return np.ones(self.small, dtype=np.uint8), np.zeros(self.small, dtype=np.uint8)

    def tight(self, neighbors: str) -> bool:
        """The bound for replacing one is not reached where q(z) has one sign for all records."""
        if self._quadratic:
            return True
        estimator = self.estimator()
        return neighbors == "add_remove" and estimator.clip == 1 and estimator.sensitivity == "proven"

    def base(self, n: int) -> list[Any]:
        """Alternating entries."""
        return [((np.arange(self.small) + i) % 2).astype(np.uint8) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """From none to all ones."""
        return (rng.random(columns) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])).astype(np.uint8)

    def invalid(self) -> list[Any]:
        """Entries that are neither 0 nor 1."""
        return [np.array([1.0] * (self.small - 1) + [bad]) for bad in (2.0, 0.5, -1.0, math.nan, math.inf)]

    def blank(self, entries: int) -> list[Any]:
        """Alternating entries."""
        k = int(self.estimator().n_components)
        each = k + 1 if self._quadratic else k * (k + 3) // 2 + 2
        return [(np.arange(-(-entries // each)) % 2).astype(np.uint8)]


class ClassesAdapter(Adapter):
    """A belief network for each class. A record is (vector of 0 and 1, label), the labels being 0 and 1."""

    estimator_type = ClassConditionalNetwork
    small, wide, many = 6, 12, 18_000

    def data(self, records: Sequence[Any]) -> Data:
        """Rows of 0 and 1, and their labels."""
        return {"X": np.array([y for y, _ in records]), "y": np.array([label for _, label in records])}

    def worst_pair(self) -> tuple[Any, Any]:
        """All ones against none, in one class: of different classes they would share no entry."""
        return (np.ones(self.small, dtype=np.uint8), 0), (np.zeros(self.small, dtype=np.uint8), 0)

    def base(self, n: int) -> list[Any]:
        """Alternating entries, in both classes."""
        return [(((np.arange(self.small) + i) % 2).astype(np.uint8), i % 2) for i in range(n)]

    def company(self, columns: int) -> list[Any]:
        """One record of each class."""
        return [(np.zeros(columns, np.uint8), label) for label in (0, 1)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """From none to all ones, in either class."""
        return (rng.random(columns) < rng.choice([0.0, 0.1, 0.5, 0.9, 1.0])).astype(np.uint8), int(rng.integers(2))

    def invalid(self) -> list[Any]:
        """Entries that are neither 0 nor 1."""
        return [(np.array([1.0] * (self.small - 1) + [bad]), 1) for bad in (2.0, 0.5, -1.0, math.nan, math.inf)]

    def blank(self, entries: int) -> list[Any]:
        """Alternating entries, in both classes."""
        each = 2 * (int(self.estimator().n_components) + 1)
        return [((np.arange(-(-entries // each)) % 2).astype(np.uint8), label) for label in (0, 1)]


class LogisticAdapter(Adapter):
    """Bayesian logistic regression. A record is (row, y)."""

    estimator_type = BayesianLogisticRegression
    small, wide, many = 3, 32, 40_000

    def data(self, records: Sequence[Any]) -> Data:
        """Rows and labels, or counts of successes."""
        return {"X": np.array([x for x, _ in records]), "y": np.array([y for _, y in records])}

    # Sharp is the first step as it is: <xi> = b/4, and a row at its bound has both blocks at theirs.

    def _unit(self, column: int, sign: float = 1.0) -> np.ndarray:
        row = np.zeros(self.small)
        row[column] = sign * float(self.estimator().row_norm)
        return row

    def worst_pair(self) -> tuple[Any, Any]:
        """Opposite rows at their bound, with one label."""
        trials = float(self.estimator().n_trials)
        return (self._unit(0), trials), (self._unit(0, -1.0), trials)

    def tight(self, neighbors: str) -> bool:
        """Opposite rows come near the bound for replacing and do not attain it; nor do the paper's statistics."""
        return neighbors == "add_remove" and self.kind is self.estimator_type

    def base(self, n: int) -> list[Any]:
        """The other columns, with both labels."""
        return [(self._unit(1 + i % (self.small - 1)), float(i % 2)) for i in range(n)]

    def company(self, columns: int) -> list[Any]:
        """One record of each label."""
        return [(np.zeros(columns), 0.0), (np.zeros(columns), float(self.estimator().n_trials))]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """Rows of all lengths."""
        row = rng.standard_normal(columns) * 10.0 ** rng.uniform(-2, 2)
        if rng.random() < 0.2:
            row[rng.integers(columns)] = rng.choice([0.0, 1e6, -1e6])
        return row, float(rng.integers(2)) * float(self.estimator().n_trials)

    def invalid(self) -> list[Any]:
        """Rows that are not finite."""
        return [(np.array([0.5] * (self.small - 1) + [bad]), 1.0) for bad in (math.nan, math.inf, -math.inf)]

    def canaries(self, n: int, neighbors: str, persons: bool = False) -> Data | None:
        """Rows of one column each, a column for each, against their opposites; both labels."""
        bound, labels = float(self.estimator().row_norm), np.arange(n) % 2 * float(self.estimator().n_trials)
        return {"X": np.concatenate((bound * np.eye(n), -bound * np.eye(n))), "y": np.tile(labels, 2)}

    def blank(self, entries: int) -> list[Any]:
        """Rows of zeros, with both labels."""
        full = self.estimator().covariance == "full"
        row = np.zeros(max(1, math.isqrt(2 * entries) - 2 if full else entries - 1))
        return [(row, 0.0), (row, 1.0)]


#: Adapter of each model, by the name of the command line.
ADAPTERS: dict[str, type[Adapter]] = {
    "lda": LdaAdapter,
    "sbn": SbnAdapter,
    "sbn-classes": ClassesAdapter,
    "blr": LogisticAdapter,
}


def adapter_for(model: Any, settings: dict[str, Any] | None = None) -> Adapter:
    """The adapter of a name, an estimator class, an estimator with parameters or an adapter.

    Subclasses of these models, such as those of their ``paper`` constructors, count as well; an adapter of your own
    audits a model of your own. `settings` are constructor arguments that override those of an estimator or adapter.
    Raises ValueError if no adapter is known, or an argument is not a parameter of the model.
    """
    settings = dict(settings or {})
    if isinstance(model, Adapter):
        return type(model)({**model.settings, **settings}, model.kind)
    kind = model if isinstance(model, type) else type(model)
    for name, adapter in ADAPTERS.items():
        if model == name:
            kind = adapter.estimator_type
        if not issubclass(kind, adapter.estimator_type):
            continue
        if isinstance(model, kind):
            settings = {**model.get_params(), **settings}
        unknown = sorted(set(settings) - set(kind().get_params()))
        if unknown:
            raise ValueError(f"settings: {unknown[0]!r} is not a parameter of {kind.__name__}")
        return adapter(settings, kind)
    raise ValueError(
        f"model={model!r}: expected one of {', '.join(map(repr, ADAPTERS))}, their class or an estimator, or an "
        "Adapter (`conjugate_adapter` makes one of a ConjugateEstimator)"
    )
