"""The contract between the engine and a model, and running averages of releases for models that need them.

A model is the mathematics of one family: the contribution of a unit, its bound, and the update from released sums. It
knows nothing of sampling, noise, accounting or threads, and it never stores records: only `Model.contribute` sees them,
one block at a time. So all other results of a model are functions of released numbers and of public ones.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from ..accounting import Relation
from ..kernels.threads import map_chunks

if TYPE_CHECKING:
    from ..mechanisms import GaussianMechanism
    from .gain import GainScore, Score
    from .sampling import Sampler

#: Most records of a data set, and of one sum on the noise lattice. A contribution is below 2^31 lattice units, and sums
#: stay below 2^62.
MAX_RECORDS = 2**31
#: Margin for the rounding of norms, so that no contribution is above the clip.
BELOW = 1.0 - 1e-9


class Records(Protocol):
    """The private records of one run, as a model's reader made them."""

    @property
    def n_rows(self) -> int:
        """Count records. The number is private under "add or remove": only the drawing of a minibatch may read it."""

    @property
    def usable(self) -> np.ndarray | None:
        """Tell which records have only valid values; None if all."""

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Divide rows into blocks of equal work: boundaries 0, …, len(rows)."""

    def block(self, rows: np.ndarray) -> Any:
        """Make a block of these rows for `Model.contribute`."""

    def subset(self, rows: np.ndarray) -> "Records":
        """Copy these rows, in order, to records with nothing of others."""


class Model(ABC):
    """Interface of a model to the engine.

    Contributions live on a fine integer lattice of the model's choice, so that sums are exact and additive. Any split
    of the records into blocks, shards or machines gives the same integers before `round`.
    """

    #: Shape of the statistics; one release is one array of this shape.
    shape: tuple[int, ...]
    #: L2 bound of one unit's contribution, in the units of the statistics.
    clip: float
    #: Most units with a sum of contributions that fits int64 on the fine lattice.
    capacity: int = MAX_RECORDS
    #: Names of attributes that `contribute` never reads.
    at_root: ClassVar[tuple[str, ...]] = ()

    @property
    def secret_start(self) -> bool:
        """Whether the start has random or private parts, so that a run's folder keeps it before the first release."""
        return False

    def contributor(self) -> Self:
        """Make a copy for another process, which only has to `contribute`."""
        other = copy(self)
        for name in self.at_root:
            vars(other).pop(name, None)
        return other

    @property
    def fine_shape(self) -> tuple[int, ...]:
        """Shape of the sums before `round`."""
        return self.shape

    @abstractmethod
    def sensitivity(self, relation: Relation) -> float:
        """Return the rounded sum's proven L2 sensitivity under a neighboring relation."""

    def prepare(self, mechanism: "GaussianMechanism", sampler: "Sampler") -> None:
        """Take lattice and scale from the plan, before any data.

        Raises ValueError if the model cannot keep its bound on this lattice.
        """

    @abstractmethod
    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add a block's contributions to ``out``, int64 of shape ``fine_shape``.

        A record's contribution is a function of only that record, its own word and the released parameters, bit for
        bit. It has an L2 norm of at most ``clip``. ``block`` is a result of `Records.block`, ``words`` one uniform
        random uint64 for each of its records. ``scratch`` belongs to the calling thread and outlives the block; store
        only buffers in it. If it contains "diagnostics", `diagnose` adds un-noised diagnostics to them.
        """

    def asked(self, words: np.ndarray) -> np.ndarray | None:
        """Find the units, by their words, that contribute to this step, bool; None for all. The others are not read."""
        return None

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Round finished sums once to the noise lattice of this spacing.

        ``fine`` contains the sums over all records, of shape ``fine_shape``, int64 or Python's integers;
        `vips_fast.mechanisms.rounded` takes either. The result is int64 of shape ``shape``.
        """
        return fine if fine.dtype == np.int64 else fine.astype(np.int64)

    @abstractmethod
    def update(self, release: "Release") -> None:
        """Compute the next step's parameters from one more release: the M-step."""

    def end(self) -> None:
        """Drop everything that the result does not need, after the last step."""

    #: How many of the last steps are scores, if any is. Each is of the model as it then is.
    n_scores: ClassVar[int] = 1

    @property
    def has_score(self) -> bool:
        """Whether `gain_score` makes a score."""
        return False

    def gain_score(self) -> "GainScore | None":
        """Make the finished model's score from released parameters; None without one. The score has one candidate."""
        return None

    def judged(self, score: "Score") -> None:
        """Take the first score that was released; most models need nothing of it."""

    @abstractmethod
    def state(self) -> dict[str, np.ndarray]:
        """Give the next step's state, made of releases and public numbers."""

    @abstractmethod
    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`.

        Raises ValueError if an array is missing, has another shape or contains an invalid number.
        """

    @abstractmethod
    def result(self) -> dict[str, np.ndarray]:
        """Give the arrays to publish."""


@dataclass(frozen=True)
class Release:
    """One noised statistic: the only thing that leaves the data."""

    #: Number of the step, from 0.
    step: int
    #: Noised sum on the lattice; int64 array.
    units: np.ndarray
    #: Lattice spacing over the expected batch size: ``units * scale`` are means per record.
    scale: float
    #: Standard deviation of the noise in an entry of the means.
    noise_sd: float

    @cached_property
    def values(self) -> np.ndarray:
        """Noised mean of the statistics per record, float64."""
        return self.units * self.scale


def array_of(state: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Copy one finite float64 array of a state, for `Model.restore`.

    Raises ValueError if the array is missing, has another shape or is not finite.
    """
    if name not in state:
        raise ValueError(f"state: has no array {name!r}")
    array = np.array(state[name], dtype=np.float64)
    if shape is not None and array.shape != shape:
        raise ValueError(f"state: {name!r} has shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"state: {name!r} holds numbers that are not finite")
    return array


def steps_of(state: Mapping[str, np.ndarray]) -> int:
    """Read ``step`` from a state; ValueError if not a whole number."""
    (steps,) = array_of(state, "step", (1,)).tolist()
    if not (steps >= 0 and steps == int(steps)):
        raise ValueError("state: 'step' is expected to be a whole number")
    return int(steps)


def reuse(scratch: dict[str, Any], name: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Get a buffer of the calling thread, made of the arguments at its first use."""
    if name not in scratch:
        scratch[name] = make(*arguments)
    return scratch[name]


def room(scratch: dict[str, Any], name: str, *shape: int) -> np.ndarray:
    """Get an array of the calling thread, float64; it is there for a block without rows too."""
    size, have = math.prod(shape), scratch.get(name)
    if have is None or len(have) < size:
        have = scratch[name] = np.empty(size)
    return np.asarray(have[:size].reshape(shape))


def diagnose(scratch: dict[str, Any], **amounts: Any) -> None:
    """Add to a step's un-noised diagnostics, if the run collects them."""
    if (diagnostics := scratch.get("diagnostics")) is not None:
        for name, amount in amounts.items():
            diagnostics[name] = diagnostics.get(name, 0.0) + float(amount)


#: Entries that a thread converts at a time, so that an average needs no second array of its size.
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Schedule:
    """Step sizes rho_t = (offset + t)^-decay. Steps are t = 0, 1, … (Algorithm 1 of Park et al. 2020)."""

    offset: float
    decay: float

    def rate(self, step: int) -> float:
        """Compute rho of a step, at most 1."""
        base = self.offset + step
        return 1.0 if base <= 1.0 else base**-self.decay


class RunningAverage:
    """Weighted average of releases, and its known noise.

    ``values`` is the weighted sum of the releases and of the start, which has the weight ``initial_weight``.
    ``noise_sd`` is the standard deviation of the noise in an entry.
    """

    def __init__(self, start: np.ndarray):
        self.values = np.array(start, dtype=np.float64, order="C")
        self.noise_sd = 0.0
        self.initial_weight = 1.0

    def add(self, release: Release, rate: float, n_threads: int = 1) -> None:
        """Average a release into the values, and update the noise's law.

        The values become (1 − rate) values + rate release.
        """
        values, units = self.values.reshape(-1), release.units.reshape(-1)

        def blend(first: int, last: int, worker: int) -> None:
            part = values[first:last]
            part *= 1.0 - rate
            part += units[first:last] * (release.scale * rate)

        map_chunks(values.size, _CHUNK, n_threads, blend)
        self._weigh(release, rate)

    def add_values(self, values: np.ndarray, release: Release, rate: float) -> None:
        """Add values that were made from the release, as `add` does."""
        self.values *= 1.0 - rate
        self.values += rate * values
        self._weigh(release, rate)

    def _weigh(self, release: Release, rate: float) -> None:
        self.noise_sd = math.hypot((1.0 - rate) * self.noise_sd, rate * release.noise_sd)
        self.initial_weight *= 1.0 - rate

    def state(self) -> dict[str, np.ndarray]:
        """Give the arrays for `restore`."""
        return {"average": self.values.copy(), "average_law": np.array([self.noise_sd, self.initial_weight])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Resume from a `state`; ValueError if its shape differs."""
        values = array_of(state, "average", self.values.shape)
        noise_sd, weight = array_of(state, "average_law", (2,)).tolist()
        if noise_sd < 0 or not 0 <= weight <= 1:
            raise ValueError("state: 'average_law' is out of its range")
        self.values, self.noise_sd, self.initial_weight = values, noise_sd, weight


def averaged_variance(rate: Schedule, n_steps: int) -> float:
    """Compute the variance of the average of ``n_steps`` unit noises. The first step replaces the start."""
    variance = 0.0
    for step in range(n_steps):
        share = 1.0 if step == 0 else rate.rate(step)
        variance = (1 - share) ** 2 * variance + share**2
    return variance
