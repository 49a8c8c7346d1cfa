"""The engine's model around the functions of a user's estimator."""

import math
from collections.abc import Callable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ...checks import check_number
from ...data.shards import ShardedCorpus
from ...engine.averaging import RunningAverage, Schedule
from ...engine.model import Model, Release, array_of, diagnose, reuse, steps_of
from ...engine.sampling import Sampler
from ...engine.units import Selection, unpack_block
from ...mechanisms import GaussianMechanism
from .block import Workspace, loop_of, workspace
from .score import ColumnPrediction

if TYPE_CHECKING:
    from .estimator import ConjugateEstimator

#: Records that a thread takes at a time.
BLOCK = 2048

#: Warnings about a statistics function. They are constant, and public records decide: they tell of no record.
STATISTICS_WARNING = (
    "statistics: a contribution raised, was not finite or was longer than norm_bound; "
    "such contributions are left out or scaled down to the bound"
)
MIXING_WARNING = (
    "statistics: the result of a record differs with the records beside it or from call to call; expected a function "
    "of that record and the parameters, since no guarantee holds otherwise"
)

#: Range of norm bounds, and of radii and priors: squares and their inverses stay far from the limits of doubles.
LEAST_BOUND, LARGEST_BOUND = 1e-100, 1e100


def check_bound(name: str, value: Any) -> float:
    """Return a bound as a float, in [1e-100, 1e100].

    Raises ValueError for other values. Below, squares would underflow: a record could seem short that is far longer
    than its bound. Above, they would overflow.
    """
    return float(check_number(name, value, LEAST_BOUND, LARGEST_BOUND))


class TableShards:
    """A `Table` on disk.

    ``made`` gives the array of some rows by their numbers, as the estimator makes it.
    """

    def __init__(
        self, corpus: ShardedCorpus, made: Callable[[np.ndarray], np.ndarray], usable: np.ndarray | None = None
    ):
        self._corpus, self._made = corpus, made
        self.n_rows, self.usable = corpus.n_rows, usable

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Divide rows into blocks of equal size, and read ahead.

        The reading ahead begins here.
        """
        self._corpus.expect(rows)
        return np.append(np.arange(0, len(rows), BLOCK), len(rows))

    def block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Make these records, and their numbers among themselves."""
        return self._made(rows), np.arange(len(rows))

    def subset(self, rows: np.ndarray) -> Selection:
        return Selection(self, rows)


class Table:
    """Records as rows of an array, which `ConjugateEstimator` hands to the engine.

    ``array``, (n, n_columns) numbers, is C-contiguous and read-only; ``usable``, (n,) bool, says which records hold
    only finite numbers, and is None if all do.
    """

    def __init__(self, array: np.ndarray, usable: np.ndarray | None = None):
        self.array, self.usable, self.n_rows = array, usable, len(array)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        return np.append(np.arange(0, len(rows), BLOCK), len(rows))

    def subset(self, rows: np.ndarray) -> "Table":
        return Table(self.array[rows], None if self.usable is None else self.usable[rows])

    def block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.array, rows


class ConjugateModel(Model):
    """A user's functions as the engine wants them.

    ``functions`` is a private copy of the user's estimator that knows its public facts. Its functions are called, and
    nothing is read from the estimator itself. ``parameters`` belong to the next step, and ``average`` is the mean of
    the released statistics per record and the noise in it. ``norm_bound`` is the user's proven bound, and ``clip``, the
    L2 bound of a contribution, is at most this.

    Notes
    -----
    *Sensitivity.* A contribution is a vector of integers on the lattice of the noise itself, so `round` has nothing to
    do. Its norm is at most the clip C, whatever the user's function does and however many rows a unit has. Their
    statistics are added before they are clipped (proof in `vips_fast.models.conjugate.block`). Adding or removing a
    record moves the exact sum by at most C. Replacing one moves it by ||q - q'|| <= 2 C, or, with entries >= 0, which
    truncation toward zero preserves, by sqrt(||q||^2 + ||q'||^2) <= sqrt(2) C.
    """

    at_root = ("_average", "_loop")

    @property
    def has_score(self) -> bool:
        """Whether the user's estimator has densities of columns."""
        return hasattr(self.functions, "column_logs")

    _spacing: float

    def __init__(self, functions: "ConjugateEstimator", n_columns: int, seed: int):
        self.functions, self._n_columns = functions, n_columns
        size = check_number("n_statistics", functions.n_statistics(n_columns), 1, 2**31, integer=True)
        self.shape = (int(size),)
        self.norm_bound = check_bound("norm_bound", functions.norm_bound(n_columns))
        self.clip = self.norm_bound
        if functions.clip_norm is not None:
            self.clip = min(self.clip, check_bound("clip_norm", functions.clip_norm))
        self._nonnegative = bool(functions.nonnegative)
        self._schedule = Schedule(float(functions.learning_offset), float(functions.learning_decay))
        self._average = RunningAverage(np.zeros(self.shape))
        self._step = 0
        self.parameters = self._checked(functions.start(n_columns, np.random.default_rng(seed)), "start")

    def sensitivity(self, relation: str) -> float:
        """Return C to add or remove, 2 C to replace.

        If entries are >= 0, replacing has sqrt(2) C.
        """
        if relation == "add_remove":
            return self.clip
        return self.clip * (math.sqrt(2.0) if self._nonnegative else 2.0)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        self._spacing = mechanism.spacing

    @cached_property
    def _loop(self) -> Callable[..., None]:
        return loop_of(type(self.functions))

    def _workspace(self) -> Workspace:
        return workspace(self._n_columns, self.shape[0])

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add contributions; see `Model.contribute`.

        The random words choose the rows of units that have too many, and nothing else.
        """
        (records, rows), _, starts = unpack_block(block, words)
        work = reuse(scratch, "workspace", self._workspace)
        counts, limit = np.zeros(2, dtype=np.int64), math.floor(self.clip / self._spacing)
        starts = np.arange(len(rows) + 1) if starts is None else starts
        bounds = (self._nonnegative, self.clip, self.norm_bound, 1.0 / self._spacing, limit)
        values = np.zeros((0, *self.shape))
        self._loop(records, rows, starts, self.parameters, bounds, work, counts, values, out)
        diagnose(scratch, clipped=counts[0], broken=counts[1])

    def evaluate(self, records: np.ndarray) -> np.ndarray:
        """Return the statistics of each record, unclipped; NaN if they raised.

        Raises TypeError if Numba cannot compile the user's function.
        """
        values, rows = np.zeros((len(records), *self.shape)), np.arange(len(records) + 1)
        records, loop = records.view(), self._loop
        records.flags.writeable = False  # as in fits: compiled code knows the difference
        counts, sums = np.zeros(2, dtype=np.int64), np.zeros(self.shape, dtype=np.int64)
        bounds = (self._nonnegative, 1.0, 1.0, 1.0, 1)
        try:
            loop(records, rows[:-1], rows, self.parameters, bounds, self._workspace(), counts, values, sums)
        except Exception as error:
            # Types are at fault here: the loop catches the function's errors.
            raise TypeError(f"{type(self.functions).__name__}.statistics: Numba cannot compile it: {error}") from error
        return np.where(values < 0.0, 0.0, values) if self._nonnegative else values

    def faults(self) -> list[str]:
        """Try the function on public, invented records; return its warnings."""
        normal = np.random.default_rng(0).standard_normal((16, self._n_columns))
        scaled = [normal * scale for scale in (1e-3, 1.0, 1e3, 1e6)]
        records = np.concatenate([0 * normal[:1], *scaled, np.sign(normal), abs(np.sign(normal))])
        values = self.evaluate(records)
        with np.errstate(all="ignore"):
            norms = np.sqrt((values * values).sum(axis=1))
        warnings = []
        if not np.isfinite(values).all() or norms.max() > self.norm_bound * (1 + 1e-9):
            warnings.append(STATISTICS_WARNING)
        # Half of them again, in other places and without the others.
        some = np.random.default_rng(1).permutation(len(records))[: len(records) // 2]
        if not np.array_equal(values[some], self.evaluate(records[some]), equal_nan=True):
            warnings.append(MIXING_WARNING)
        return warnings

    @property
    def average(self) -> tuple[np.ndarray, float]:
        """Return the released statistics' mean and its noise's sd.

        The share of the start, which is 0, is left out.
        """
        weight = 1.0 - self._average.initial_weight or 1.0  # 0 before the first release
        return self._average.values / weight, self._average.noise_sd / weight

    def update(self, release: Release) -> None:
        """Apply the user's M-step to the average.

        Raises TypeError or ValueError if it does not return finite arrays of the shapes of the start.
        """
        self._average.add(release, self._schedule.rate(self._step))
        self._step += 1
        mean, noise_sd = self.average
        # On a copy: assignments of an M-step to self are forgotten, as by a run that is resumed.
        returned = self._checked(copy(self.functions).mstep(mean, noise_sd, self.parameters), "mstep")
        shapes, expected = [p.shape for p in returned], [p.shape for p in self.parameters]
        if shapes != expected:
            name = type(self.functions).__name__
            raise ValueError(f"{name}.mstep returned arrays of shapes {shapes}: expected {expected}, as start returns")
        self.parameters = returned

    def _checked(self, parameters: Any, source: str) -> tuple[np.ndarray, ...]:
        return checked_parameters(parameters, f"{type(self.functions).__name__}.{source}")

    def gain_score(self) -> ColumnPrediction:
        return ColumnPrediction(self.functions, self.parameters)

    def state(self) -> dict[str, np.ndarray]:
        return {"step": np.array([float(self._step)]), **self._average.state(), **self._named_parameters()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step = steps_of(state)
        parameters = [array_of(state, name, array.shape) for name, array in self._named_parameters().items()]
        self._average.restore(state)
        self._step, self.parameters = step, checked_parameters(parameters)

    def result(self) -> dict[str, np.ndarray]:
        mean, noise_sd = self.average
        return {"average": mean, "noise_sd": np.array([noise_sd]), **self._named_parameters()}

    def _named_parameters(self) -> dict[str, np.ndarray]:
        return {f"parameter_{i}": array for i, array in enumerate(self.parameters)}


def checked_parameters(parameters: Any, source: str = "parameters") -> tuple[np.ndarray, ...]:
    """Copy parameters as read-only contiguous float64 arrays.

    They have one type each, so that nothing is compiled twice. Raises TypeError if it is no tuple or list, or empty;
    ValueError if a number is not finite.
    """
    if not isinstance(parameters, (tuple, list)) or not parameters:
        raise TypeError(f"{source}: expected a tuple of arrays, got {type(parameters).__name__}")
    out = []
    for i, value in enumerate(parameters):
        array = np.array(value, dtype=np.float64, order="C")
        if not np.isfinite(array).all():
            raise ValueError(f"{source}: array {i} is not finite; expected finite numbers")
        array.flags.writeable = False
        out.append(array)
    return tuple(out)
