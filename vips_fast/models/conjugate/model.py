"""Private variational Bayes for a model of your own.

Algorithms 1 and 2 of Park et al. (2020) fit any conjugate-exponential model, and Algorithm 4 any such model after
Polya-Gamma augmentation. They need per record the expected sufficient statistics under the current parameters, their
noised mean, and an M-step on that mean. `ConjugateEstimator` is the part that does not change. A model adds four
things: a function of a block of records, which Numba compiles, a bound of its L2 norm for one record, an M-step in
Python, and its read-outs.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, Unpack, cast

import numpy as np
import numpy.typing as npt

from ...accounting.checks import positive
from ...checks import check_number
from ...data.arrays import DROP, column_text, dense_array, not_finite_text
from ...data.shards import ShardedCorpus
from ...data.types import Array, Cells, Column, Data, Matrix, Vector
from ...engine.gain import GainScore
from ...engine.model import Model, Release, RunningAverage, Schedule, array_of, diagnose, reuse, steps_of
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import Selection, unpack_block
from ...mechanisms import GaussianMechanism
from ..estimator import ArraySpec, PrivateEstimator
from ..parameters import Bookkeeping, Call
from ..readouts import Attribute, Published
from .block import Bounds, CompiledStatistics, RowStatistics

#: Records that a thread takes at a time.
BLOCK = 2048

#: Warnings about functions of a model. They are constant, and public or invented records decide, no private one.
STATISTICS_WARNING = (
    "statistics: a contribution raised, was not finite or was longer than norm_bound; "
    "such contributions are left out or scaled down to the bound"
)
MIXING_WARNING = (
    "statistics: the result of a record differs with the records beside it or from call to call; expected a function "
    "of that record and the parameters, since no guarantee holds otherwise"
)

RECORDS_WARNING = (
    "records: the record of a row differs with the rows beside it or from call to call; expected a function of that "
    "row, since no guarantee holds otherwise"
)

#: Rows that are checked for finite numbers at a time.
_CHUNK = 1 << 16


@dataclass(kw_only=True, repr=False, eq=False)
class ConjugateEstimator(PrivateEstimator):
    """Base of private estimators for conjugate-exponential models.

    A subclass defines ``statistics``, `n_statistics`, `norm_bound`, `start` and `mstep`, and may define `nonnegative`,
    `records` and `check_parameters`. It takes the parameters below as ``**options`` of its constructor, which it hands
    to ``super().__init__``.

    ``statistics(records, parameters, out)`` is a static method that Numba can compile (plain Python or ``@njit``). It
    reads ``records``, a float64 array (n, n_columns), and ``parameters``, a tuple of read-only float64 arrays. It
    writes the expected sufficient statistics of each record to its row of ``out``, a float64 array (n, n_statistics),
    all 0 before the call. It may use ``records`` as a buffer for its work. A row of ``out`` depends on the same row of
    ``records`` and on ``parameters``, bit for bit: no random numbers, no sums over records. Columns are contiguous, so
    put the loop over records inside: `vips_fast.models.conjugate.block` says why, and has an `exp` that such loops
    vectorize.

    The functions are called on a private copy of the estimator. ``start`` and ``mstep`` may rely on
    ``self.n_records_``, the public number of records, and ``self.n_columns_``, the columns of a record. Assignments to
    ``self`` are forgotten. All that one step hands to the next is in the parameters.

    Parameters
    ----------
    learning_decay : float
        kappa of the step size (1 + t)^-kappa, t = 0, 1, … The first step forgets the start. Zero keeps only the last
        step's statistics.
    clip_norm : float or None
        L2 bound, in [1e-100, 1e100], to use in place of a larger ``norm_bound``:
        contributions above it are scaled down, which is no fault then.
    **common
        `vips_fast.models.estimator.PrivateEstimator`. With ``private=False`` contributions are still held to the bound.

    Notes
    -----
    The user's function cannot break the guarantee, as long as each record's row depends on that record. Its result is
    replaced by the zero vector if it raises or is not finite. It is scaled down to the bound C, truncated toward zero
    to a lattice, and held to the bound again in exact integers. Adding or removing a record then moves the sum by at
    most C (`ConjugateModel` has the proof, and what replacing one costs).

    Whether a training record broke the bound is private, so a private fit does not say it. Instead, the function is
    tried on public test records, with the first and with the last parameters. A RuntimeWarning with a constant text
    says that it misbehaves there. A fit with ``private=False`` also warns about training records. Its ``diagnostics_``
    say for each step how many contributions were scaled down ("clipped"), and how many raised, were not finite or
    longer than the bound ("broken").

    The function is compiled with bounds checks, so that a wrong index is an exception,
    not a crash. Functions that it calls are compiled as their authors chose.

    Examples
    --------
    The mean of numbers in [-1, 1]:

    >>> import numpy as np
    >>> from vips_fast import ConjugateEstimator
    >>> class Mean(ConjugateEstimator):
    ...     @staticmethod
    ...     def statistics(records, parameters, out):
    ...         n, d = records.shape
    ...         for j in range(d):
    ...             for i in range(n):
    ...                 out[i, j] = min(max(records[i, j], -1.0), 1.0)
    ...     def n_statistics(self, n_columns):
    ...         return n_columns
    ...     def norm_bound(self, n_columns):
    ...         return n_columns**0.5
    ...     def start(self, n_columns, rng):
    ...         return (np.zeros(n_columns),)
    ...     def mstep(self, mean, noise_sd, parameters):
    ...         return (mean,)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    >>> model = Mean(noise_multiplier=5.0, n_steps=1).fit(X)
    >>> model.parameters_[0].shape, model.average_.shape, model.noise_sd_ > 0
    ((3,), (3,), True)
    >>> np.array_equal(model.expected_statistics(X), X)
    True
    >>> Mean(noise_multiplier=5.0).partial_fit(X).n_records_
    500
    """

    @property
    def nonnegative(self) -> bool:
        """Whether no statistic is ever negative: a class attribute, or a property if settings decide.

        Negative ones are then set to 0, and replacing a record costs sqrt(2) instead of 2 times the bound.
        """
        return False

    _diagnostics_without_privacy = True
    #: The kernel of a model of the package, which computes its statistics unless a subclass has a function for them.
    _kernel: ClassVar[RowStatistics | None] = None
    #: Set on the private copies whose functions are called.
    _public: Public | None = field(default=None, init=False)

    n_steps: int | None = 20
    learning_decay: float = 0.7
    clip_norm: float | None = None

    # What a subclass defines. These are not abstract methods: an author's model can be made, printed and cloned before
    # all of them are written, and the first that is missing is named where it is called.

    def n_statistics(self, n_columns: int) -> int:
        """Count the columns of ``out`` for records of ``n_columns`` numbers."""
        raise NotImplementedError(f"{type(self).__name__} does not define n_statistics")

    def norm_bound(self, n_columns: int) -> float:
        """Return a proven L2 bound of a row of ``out`` over all records, in [1e-100, 1e100]."""
        raise NotImplementedError(f"{type(self).__name__} does not define norm_bound")

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[npt.ArrayLike, ...]:
        """Return the initial parameters, which are public; ``rng`` is made from ``random_state``."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[npt.ArrayLike, ...]:
        """Compute the parameters of the next step, finite arrays of the same shapes.

        They come from the noised mean of the statistics per record, the standard deviation of the noise in each of its
        entries, and the last parameters. No random numbers: the model can be rebuilt from its releases.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define mstep")

    def check_parameters(self) -> None:
        """Raise a ValueError for a subclass's parameter out of range."""

    def _apart(self, n_columns: int) -> float:
        """Bound the distance of two contributions of norm at most 1.

        The engine holds contributions to a norm, and to entries >= 0. A smaller bound than these give is not for a
        model of your own: nothing would hold it, and privacy would rest on your proof.
        """
        return math.sqrt(2.0) if self.nonnegative else 2.0

    def gain_score(self, parameters: tuple[Array, ...]) -> GainScore | None:
        """Make the score of a fitted model that the last step releases (``found_gain_``), or None."""
        return None

    def records(self, X: Data, y: Column | None = None) -> Cells:
        """Make the records, one for each row: the columns of X, then those of y if it is given.

        Your own acts on **each row by itself**, bit for bit. It may not center, scale, rank, encode or drop rows by the
        other rows, nor multiply matrices. A fit tries it on invented rows in different company, and warns.
        """
        drop = self._options.invalid == "drop"
        rows: Cells = dense_array(X, "X", drop)
        if rows.ndim != 2 or rows.shape[1] == 0:
            raise ValueError(f"X has {rows.ndim} dimensions: expected an array (n, d) with d >= 1")
        if y is None:
            return rows
        y = dense_array(y, "y", drop)
        if y.ndim not in (1, 2) or len(y) != len(rows):
            raise ValueError("y: expected an array (n,) or (n, m) with as many rows as X")
        return np.column_stack([rows, y])

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit the model to records: the rows of X.

        X has numbers of shape (n, d), or is a ShardedCorpus. ``y``, numbers of shape (n,) or (n, m), or None, are
        further columns of the records, if the model has them. A record whose statistics are not finite contributes
        zero. `vips_fast.models.parameters.Bookkeeping` has the keywords.

        Raises ValueError if a parameter, X or y is unusable, or the run would overspend, and TypeError if Numba cannot
        compile ``statistics``: nothing has been spent then. Raises them too if the M-step returns no tuple, numbers
        that are not finite, or arrays of other shapes than the start.
        """
        return self._fit(X, y, **call)

    def partial_fit(self, X: Data, y: Column | None = None, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of X.

        See `vips_fast.models.parameters.Call`, and give a ``noise_multiplier``. The step joins the average with the
        next step size, as if it were a step of `fit`, whose parameters and errors these are. The records must have the
        same columns as before. A transcript of further calls goes to the folder of the first.
        """
        return self._fit(X, y, partial=True, **call)

    def _fit(self, X: Any, y: Any = None, **how: Any) -> Self:
        super()._fit(X, y, **how)
        steps = self.diagnostics_ or []
        said = set(self._restored().faults())
        if not self.private and any(step.get("broken") for step in steps):
            said.add(STATISTICS_WARNING)
        for text in sorted(said):
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        return self

    def _inspect(self, model: Model) -> None:
        # The compiler comes last: all other refusals are quicker.
        for text in cast(ConjugateModel, getattr(model, "model", model)).faults():
            warnings.warn(text, RuntimeWarning, stacklevel=5)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("learning_decay", self.learning_decay, 0, 1)
        if self.clip_norm is not None:
            check_bound("clip_norm", self.clip_norm)
        self.check_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[Table, dict[str, Any]]:
        shards, own = isinstance(X, ShardedCorpus), type(self).records is not ConjugateEstimator.records
        if shards:
            if X.sparse:
                raise ValueError("X: shards of sparse rows; expected dense ones")
            labels = X.labels if y is None else y
            y = None if labels is None else np.asarray(labels)
            if y is not None and len(y) != X.n_rows:
                raise ValueError("y: expected an array (n,) or (n, m) with as many rows as X")
        array = None if shards else self._array(X, y)
        if own and self._mixes_rows(X, y):
            warnings.warn(RECORDS_WARNING, RuntimeWarning, stacklevel=5)
        if array is not None:
            shape = _shape(X)
            n_columns = array.shape[1]
            facts = {"n_features": shape[1] if len(shape) == 2 else n_columns, "n_columns": n_columns}
            return Table(array, self._usable(_finite_rows(array), X)), facts

        def made(rows: np.ndarray) -> np.ndarray:
            return self._array(X.matrix(rows), None if y is None else y[rows])

        usable = X.usable
        if own:  # called for all rows, block by block, so that it does not fail after the fit has begun
            finite = np.ones(X.n_rows, bool) if usable is None else usable
            for place, piece in X.pieces():
                found = _finite_rows(self._array(piece, None if y is None else y[place]))
                finite[place] &= True if found is None else found
            usable = None if finite.all() else finite
        facts = {"n_features": X.n_features, "n_columns": made(np.arange(1)).shape[1]}
        return TableShards(X, made, self._usable(usable)), facts

    def _usable(self, usable: np.ndarray | None, X: Any = None) -> np.ndarray | None:
        """Refuse records that are not usable, or let them be dropped; X is the data that they were made of."""
        if usable is None or self._options.invalid == "drop":
            return usable
        said = f"found others; fill them in, or leave such records out by {DROP}"
        with suppress(TypeError, ValueError, AttributeError):  # X of a kind that only ``records`` knows
            array = dense_array(X, "X", True)
            if array.ndim == 2 and array.dtype.kind in "iuf":
                largest = column_text(X, int(np.argmax(np.abs(array[~usable]).max(axis=0))))
                said = f"found too large ones from {largest}; divide it by a public number"
                if not np.isfinite(array[~usable]).all():
                    said = not_finite_text(X, array)
        raise ValueError(f"X, y: expected finite numbers, {said}")

    def _array(self, X: Any, y: Any) -> np.ndarray:
        """Check the result of ``records``: read-only rows of numbers. It is made of X and y."""
        drop = self._options.invalid == "drop"
        X = dense_array(X, "X", drop) if drop and isinstance(X, (np.ndarray, list)) else X
        with np.errstate(all="ignore"):  # a warning would tell of a value
            records = np.asarray(self._functions(None).records(X, y))
        if records.ndim != 2 or records.shape[1] == 0:
            raise ValueError(f"records gives an array of {records.ndim} dimensions: expected (n, d) with d >= 1")
        if _shape(X)[:1] != (len(records),):
            raise ValueError("records: expected one record for each row of X")
        records = dense_array(records, "records", drop)
        if records.dtype.kind not in "biuf":
            raise ValueError(f"records have dtype {records.dtype}: expected numbers")
        if records.dtype == np.bool_:
            records = records.view(np.uint8) if records.flags.c_contiguous else records.astype(np.uint8)
        elif records.dtype.kind == "f" and records.dtype not in (np.float32, np.float64):
            with np.errstate(all="ignore"):  # a warning would tell of a value
                records = records.astype(np.float64)
        records = np.ascontiguousarray(records).view()
        records.flags.writeable = False
        return records

    def _mixes_rows(self, X: Any, y: Any) -> bool:
        """Tell whether ``records`` of invented rows depend on the rows beside them.

        The rows have types and columns of X and y, which are public, and nothing else of theirs. Where ``records`` does
        not take them, nothing is concluded.
        """
        for kind, largest in enumerate((2, 100, 0)):
            rng = np.random.default_rng(kind)
            few, many = [], []
            for data in (X, y):
                few.append(_invent_rows(data, rng, 5, min(largest, 2)))
                many.append(_invent_rows(data, rng, 64, largest))
                if many[-1] is not None:
                    many[-1][7:12] = few[-1][::-1]
            try:
                with np.errstate(all="ignore"):
                    alone, among = self._array(*few), self._array(*many)
            except Exception:
                continue
            if not np.array_equal(alone[::-1], among[7:12], equal_nan=True):
                return True
        return False

    def _functions(self, public: Public | None) -> Self:
        """Make a copy whose functions are called. It knows public facts and no earlier result."""
        functions = copy(self)
        functions._public, functions._result = public, None
        return functions

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> ConjugateModel:
        n_columns = check_number("n_columns", public.n_columns, 1, 2**31, integer=True)
        return ConjugateModel(self._functions(public), n_columns, public.seed)

    def _restored(self) -> ConjugateModel:
        """Restore the model as the last step left it."""
        result = self._fitted()
        model = self._model(result.public)
        model.restore(result.state)
        return model

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        specs = {name: ArraySpec(array.shape) for name, array in self._model(public).result().items()}
        return {**specs, "noise_sd": ArraySpec((1,), low=0.0)}

    @property
    def n_records_(self) -> int:
        """Public number of records."""
        return (self._public or self._fitted().public).n_records

    @property
    def n_columns_(self) -> int:
        """Columns of a record."""
        n_columns = (self._public or self._fitted().public).n_columns
        assert n_columns is not None
        return n_columns

    @property
    def parameters_(self) -> tuple[Array, ...]:
        """What the last M-step returned, read-only float64 arrays."""
        arrays = self._fitted().arrays
        return tuple(arrays[f"parameter_{i}"] for i in range(len(arrays) - 2))

    average_ = Published[Vector]("average", "Released mean of the statistics per record, shape (n_statistics,).")
    noise_sd_ = Published[float]("noise_sd", "Standard deviation of the noise in each entry of ``average_``.", 0)

    def expected_statistics(self, X: Data, y: Column | None = None) -> Matrix:
        """Compute expected sufficient statistics of records, one row each.

        They describe X and y, which are as in `fit`: publish them only if these may be published. float64, shape
        (n, n_statistics), not clipped. Zero if ``statistics`` raised or was not finite.
        """
        model, array = self._restored(), self._array(self._held(X), y)
        if array.shape[1] != self.n_columns_:
            raise ValueError(f"X and y give records of {array.shape[1]} columns: expected {self.n_columns_}, as in fit")
        values = model.evaluate(array)
        return cast(Matrix, np.where(np.isfinite(values).all(axis=1, keepdims=True), values, 0.0))


def parameter(index: int, doc: str) -> Attribute[Array]:
    """Make a subclass's fitted attribute: an array of ``parameters_``."""
    return Attribute(lambda self: self.parameters_[index], doc=doc)


def _finite_rows(array: np.ndarray) -> np.ndarray | None:
    """Find the rows that hold only finite numbers; None if all do."""
    if array.dtype.kind != "f":
        return None
    chunks = range(0, len(array), _CHUNK)
    finite = [np.isfinite(array[first : first + _CHUNK]).all(axis=1) for first in chunks]
    return None if all(part.all() for part in finite) else np.concatenate(finite)


def _shape(data: Any) -> tuple[int, ...]:
    """Return the shape of an array, a table or a list."""
    try:
        return tuple(getattr(data, "shape", None) or np.shape(data))
    except ValueError:
        return (len(data),)


def _invent_rows(data: Any, rng: np.random.Generator, n: int, largest: int) -> Any:
    """Make n rows of the type and columns of an array of numbers; None for others.

    They hold integers below ``largest``, or normal numbers if it is 0 and the type can hold them.
    """
    shape, dtype = _shape(data), getattr(data, "dtype", None)
    if not isinstance(dtype, np.dtype):  # other libraries have types of their own
        dtype = np.asarray(data).dtype
    if len(shape) not in (1, 2) or dtype.kind not in "biuf":
        return None
    shape = (n, *shape[1:])
    whole = rng.integers(0, 2 if dtype.kind == "b" else largest or 3, shape)
    return (rng.normal(0, 3.0, shape) if dtype.kind == "f" and largest == 0 else whole).astype(dtype)


def check_bound(name: str, value: Any) -> float:
    """Return a bound as a float; ValueError unless it is in [1e-100, 1e100], where its square is a double."""
    return positive(name, value)


class Table:
    """Records as rows of an array, which `ConjugateEstimator` hands to the engine.

    ``array``, (n, n_columns) numbers, is C-contiguous and read-only; ``usable``, (n,) bool, says which records hold
    only finite numbers, and is None if all do.
    """

    def __init__(self, array: np.ndarray, usable: np.ndarray | None = None):
        self.array, self.usable, self.n_rows = array, usable, len(array)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        return np.append(np.arange(0, len(rows), BLOCK), len(rows))

    def subset(self, rows: np.ndarray) -> Table | Selection:
        return Table(self.array[rows], None if self.usable is None else self.usable[rows])

    def block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give an array, and the rows of these records in it."""
        return self.array, rows


class TableShards(Table):
    """A `Table` on disk. ``made`` gives the array of some rows by their numbers, as the estimator makes it."""

    def __init__(self, corpus: ShardedCorpus, made: Callable[[np.ndarray], np.ndarray], usable: np.ndarray | None):
        self._made, self.n_rows, self.usable = made, corpus.n_rows, usable

    def subset(self, rows: np.ndarray) -> Selection:
        return Selection(self, rows)

    def block(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._made(rows), np.arange(len(rows))


class ConjugateModel(Model):
    """A user's functions as the engine wants them.

    ``functions`` is a private copy of the user's estimator that knows its public facts. ``parameters`` belong to the
    next step. ``norm_bound`` is the user's proven bound, and ``clip``, the L2 bound of a contribution, is at most this.

    Notes
    -----
    *Sensitivity.* A contribution is a vector of integers on the lattice of the noise itself, so `round` has nothing to
    do. Its norm is at most the clip C, whatever the user's function does and however many rows a unit has. Their
    statistics are added before they are clipped (proof in csrc/conjugate/clip_units.c). Adding or removing a
    record moves the exact sum by at most C. Replacing one moves it by ||q - q'|| <= 2 C, or, with entries >= 0, which
    truncation toward zero preserves, by sqrt(||q||^2 + ||q'||^2) <= sqrt(2) C.

    *Rounding.* `Mixture` proves, of real numbers, that contributions of norm at most c are at most f c apart, f < 2.
    Truncation to a lattice of spacing g moves an entry of a difference by at most g, and S entries by sqrt(S) g. So
    where neighbors replace a record, contributions are scaled down to (C - sqrt(S) g / f) (1 - 2^-16) in place of C.
    Before truncation their norms may be larger by the factor 1 + 2^-20. All rounding in the statistics and in the sums
    of a unit's rows, whose 2^31 terms each may be off by 2^-53, makes up less than the rest of 2^-16.
    """

    at_root = ("_average", "_statistics")

    _spacing: float
    _longest: float  #: The norm that contributions are scaled down to.

    def __init__(self, functions: ConjugateEstimator, n_columns: int, seed: int):
        self.functions, self._n_columns = functions, n_columns
        size = check_number("n_statistics", functions.n_statistics(n_columns), 1, 2**31, integer=True)
        self.shape = (int(size),)
        self.norm_bound = check_bound("norm_bound", functions.norm_bound(n_columns))
        self.clip = self.norm_bound
        if functions.clip_norm is not None:
            self.clip = min(self.clip, check_bound("clip_norm", functions.clip_norm))
        self._nonnegative, self._apart = bool(functions.nonnegative), functions._apart(n_columns)
        self._schedule = Schedule(1.0, float(functions.learning_decay))
        self._average = RunningAverage(np.zeros(self.shape))
        self._step = 0
        start = functions.start(n_columns, np.random.default_rng(seed))
        self.parameters = checked_parameters(start, f"{type(functions).__name__}.start")

    def sensitivity(self, relation: str) -> float:
        """Return C to add or remove, 2 C to replace. If entries are >= 0, replacing has sqrt(2) C."""
        return self.clip if relation == "add_remove" else self.clip * self._apart

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice; see the notes on rounding."""
        self._spacing, self._longest = mechanism.spacing, self.clip
        proven = self._apart < ConjugateEstimator._apart(self.functions, self._n_columns)
        if proven and sampler.relation != "add_remove":
            self._longest -= math.sqrt(self.shape[0]) * self._spacing / self._apart
            self._longest *= 1.0 - 2.0**-16
            if self._longest < 0.5 * self.clip:
                noise, lost = mechanism.noise_multiplier, 1.0 - self._longest / self.clip
                raise ValueError(
                    f"noise_multiplier={noise:.4g}: too large for {self.shape[0]} statistics, whose rounding would "
                    f"take {lost:.0%} of a contribution; expected at most 50 %"
                )

    @cached_property
    def _statistics(self) -> RowStatistics:
        kind = type(self.functions)
        if "statistics" in vars(self.functions):
            raise TypeError(
                f"statistics is set on an object: expected a static method of a subclass of {kind.__name__}, since "
                "only those of a class are used"
            )
        own = inspect.getattr_static(kind, "statistics", None) is not None
        return CompiledStatistics(kind) if own or kind._kernel is None else kind._kernel

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`. The words choose the rows of units that have too many, and nothing else."""
        (records, rows), _, starts = unpack_block(block, words)
        starts = np.arange(len(rows) + 1) if starts is None else starts
        rows_of_units = np.ascontiguousarray(records[rows], dtype=np.float64)
        bounds = Bounds(self._longest, self.norm_bound, self._spacing, self._nonnegative)
        work = reuse(scratch, "workspace", self._statistics.workspace, self._n_columns, self.shape[0])
        counts = self._statistics.add((rows_of_units, starts), self.parameters, bounds, work, out)
        diagnose(scratch, clipped=counts[0], broken=counts[1])

    def evaluate(self, records: np.ndarray) -> np.ndarray:
        """Return each record's statistics, unclipped; see `RowStatistics.evaluate`."""
        values = self._statistics.evaluate(records, self.parameters, self.shape[0])
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

    def update(self, release: Release) -> None:
        """Apply the user's M-step; TypeError or ValueError unless it gives finite arrays of the shapes of the start."""
        self._average.add(release, self._schedule.rate(self._step))
        self._step += 1
        mean, noise_sd = self._average.values.copy(), self._average.noise_sd
        # On copies: assignments of an M-step to self or the mean are forgotten, as by a run that is resumed.
        source = f"{type(self.functions).__name__}.mstep"
        returned = checked_parameters(copy(self.functions).mstep(mean, noise_sd, self.parameters), source)
        shapes, expected = [p.shape for p in returned], [p.shape for p in self.parameters]
        if shapes != expected:
            raise ValueError(f"{source} returned arrays of shapes {shapes}: expected {expected}, as start returns")
        self.parameters = returned

    @property
    def has_score(self) -> bool:
        return self.gain_score() is not None

    def gain_score(self) -> GainScore | None:
        return self.functions.gain_score(self.parameters)

    def state(self) -> dict[str, np.ndarray]:
        return {"step": np.array([float(self._step)]), **self._average.state(), **self._named_parameters()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step = steps_of(state)
        parameters = [array_of(state, name, array.shape) for name, array in self._named_parameters().items()]
        self._average.restore(state)
        self._step, self.parameters = step, checked_parameters(parameters)

    def result(self) -> dict[str, np.ndarray]:
        mean, noise_sd = self._average.values.copy(), np.array([self._average.noise_sd])
        return {"average": mean, "noise_sd": noise_sd, **self._named_parameters()}

    def _named_parameters(self) -> dict[str, np.ndarray]:
        return {f"parameter_{i}": array for i, array in enumerate(self.parameters)}


def checked_parameters(parameters: Any, source: str = "parameters") -> tuple[np.ndarray, ...]:
    """Copy parameters as read-only contiguous float64 arrays, so that nothing is compiled twice.

    Raises TypeError if it is no tuple or list, or empty; ValueError if a number is not finite.
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
