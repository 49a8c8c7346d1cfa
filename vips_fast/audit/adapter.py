"""The base of all adapters: a model's hardest records and released states.

An adapter knows a model as its users do, by settings, raw data and released numbers, and
by the engine's contract. It never looks inside.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from ..engine.model import Model, Release
from ..models.estimator import PrivateEstimator
from ..models.family import FAMILIES, family_of, resolve, with_adapter
from ..models.fit import Fit
from .bench import Data

#: As large as finite numbers get: a state of such numbers overflows wherever it is used.
_HUGE = float(np.finfo(np.float64).max)

#: What a model may raise that does not take a release or a state.
_REFUSALS = (ValueError, ArithmeticError, np.linalg.LinAlgError)


class Adapter(ABC):
    """What a model class says of its hardest records, under some settings.

    A record is a tuple of raw entries: a row of X, and what else ``fit`` takes of it (``names``). ``settings`` are
    constructor arguments of the estimator; the choices of a layer (sampling rate, steps, noise multiplier) override
    them. ``kind`` is a subclass of ``estimator_type`` to audit in its place.
    """

    estimator_type: ClassVar[type[PrivateEstimator]]
    #: Arguments of ``fit`` that a record has an entry of.
    names: tuple[str, ...] = ("X",)
    #: Values that no row of X may have.
    bad: tuple[float, ...] = (math.nan, math.inf, -math.inf)
    #: Columns of records: for pairs and runs, and for layer B, where blocks matter.
    small: int = 4
    wide: int = 4
    #: The same of pairs whose score, the last release of a run, may come near its bound; 0 for ``small``.
    told: int = 0
    #: Records that give sixteen threads a block each.
    many: int = 100
    #: Settings of post-processing that make whole runs quick, where none are given.
    cheap: ClassVar[dict[str, Any]] = {}
    #: Whether `base` records contribute nothing where the worst pair does.
    disjoint: bool = False
    #: Whether runs may draw minibatches.
    samples: bool = True
    #: Layers of its own, in place of the common ones, by their letters.
    layers: Mapping[str, Any] = {}
    #: Most canaries of layer H that a statistic has entries for.
    most_canaries: int = 1_000

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        self.settings, self.kind = dict(settings), kind or self.estimator_type

    def resized(self) -> "Adapter":
        """Copy the adapter, with ``told`` columns in place of ``small``."""
        other = copy(self)
        other.small = self.told or self.small
        return other

    def estimator(self, **overrides: Any) -> Any:
        """Return an unfitted estimator of ``kind`` with the settings."""
        return self.kind(**self.settings).set_params(**overrides)

    def data(self, records: Sequence[Any]) -> Data:
        """Make raw records as the arguments of ``fit``."""
        columns = zip(*records, strict=True)
        return {name: np.array(column) for name, column in zip(self.names, columns, strict=True)}

    def take(self, data: Data, units: np.ndarray) -> Data:
        """Make data of some records by their numbers, in order, repeats allowed."""
        return {name: array[units] for name, array in data.items()}

    @abstractmethod
    def worst_pair(self) -> tuple[Any, Any]:
        """Return (record to add, record it replaces), furthest in sharp state."""

    def tight(self, relation: str) -> bool:
        """Tell whether the worst pair reaches the declared sensitivity under this relation."""
        return True

    def adds_up(self) -> bool:
        """Tell whether equal rows of one person add up to the clip."""
        return True

    @abstractmethod
    def base(self, n: int) -> list[Any]:
        """Return n other records, with least in common with the worst pair; two are enough for any fit."""

    @abstractmethod
    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        """Draw a record at random, extremes included."""

    def blank(self, columns: int) -> list[Any]:
        """Make two records of zeros, enough for any fit."""
        return [(np.zeros_like(x, shape=columns), *rest) for x, *rest in self.base(2)]

    def width(self, entries: int) -> int:
        """Number of columns of which a release has about ``entries`` entries."""
        return entries

    def invalid(self) -> list[Any]:
        """Make records of the right form with invalid values."""
        (x, *rest), *_ = self.base(1)
        return [(np.append(x[:-1], bad), *rest) for bad in self.bad]

    def canaries(self, n: int, relation: str) -> Data | None:
        """Make 2n raw records; number i < n moves its own entries.

        Number n + i is the record that number i replaces, and is not used for adding or removing one. None if there are
        no such records.
        """
        return None

    def sharp(self, stage: Fit) -> None:
        """Put the model in a released state with records at the bound. They are worst-case records."""
        return

    def scramble(self, stage: Fit, rng: np.random.Generator, releases: int) -> None:
        """Put the model in the state of random releases. The noise is little or much."""
        model, plan = stage.model, stage.plan
        for step in range(releases):
            scale = plan.mechanism.spacing / plan.sampler.expected_batch_size
            size = model.clip * 10.0 ** rng.uniform(-3, 1) / math.sqrt(math.prod(model.shape))
            units = np.rint(rng.standard_normal(model.shape) * (size / scale)).astype(np.int64)
            model.update(Release(step, units, scale, size * 10.0 ** rng.uniform(-3, 0.3)))

    def poison(self, stage: Fit, last: bool = False) -> bool:
        """Make the released parameters non-finite, through the contract only.

        A release of NaN is tried first, unless the ``last`` step comes next. If the model refuses it, its state is
        filled with the largest finite numbers, as far as `Model.restore` takes them. These overflow in the next step.
        Returns False where the model refuses everything.
        """
        model, before = stage.model, stage.model.state()
        with np.errstate(all="ignore"):
            if not last:
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


def adapter_for(model: Any, settings: dict[str, Any] | None = None) -> Adapter:
    """Make the adapter of a name, an estimator or an adapter.

    Subclasses of these models, such as the classes of their ``paper`` constructors, count as well. An adapter of your
    own audits a model of your own. `settings` are constructor arguments that override the settings of an estimator or
    adapter. Raises ValueError if no adapter is known, or an argument is not a parameter of the model.
    """
    settings = dict(settings or {})
    if isinstance(model, Adapter):
        own = copy(model)
        own.settings = {**model.settings, **settings}
        return own
    named = {one.name: one for one in FAMILIES if one.adapter}
    family = named.get(model) if isinstance(model, str) else family_of(model)
    if family is None or not family.adapter:
        raise ValueError(
            f"model={model!r}: expected one of {', '.join(map(repr, with_adapter()))}, their class or an estimator, or "
            "an Adapter (`conjugate_adapter` makes one of a ConjugateEstimator)"
        )
    kind = family.estimator() if isinstance(model, str) else model if isinstance(model, type) else type(model)
    if not isinstance(model, (str, type)):
        settings = {**model.get_params(), **settings}
    unknown = sorted(set(settings) - set(kind().get_params()))
    if unknown:
        raise ValueError(f"settings: {unknown[0]!r} is not a parameter of {kind.__name__}")
    adapter: Adapter = resolve(family.adapter)(settings, kind)
    return adapter
