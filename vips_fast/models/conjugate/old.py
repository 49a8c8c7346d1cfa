"""Private variational Bayes for a model of your own.

Algorithms 1 and 2 of Park et al. (2020) fit any conjugate-exponential model, and
Algorithm 4 any such model after Polya-Gamma augmentation: per record the expected
sufficient statistics under the current parameters, their noised mean, and an
M-step on that mean. `ConjugateEstimator` is the part that does not change. A model
adds a function of one record, which Numba compiles, a bound on that function's L2
norm, an M-step in Python, and whatever it wants to read out.
"""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np

from ..inference import State
from ..sampling import make_sampler
from ..threads import resolve_n_threads, run_blocks
from .base import PrivateEstimator, check_number

#: Records of one block that is handed to a thread.
_BLOCK = 2048

#: What is said of a statistics function that misbehaves. Constant: it names no record.
MESSAGE = (
    "statistics: a contribution raised, was not finite or was longer than norm_bound; "
    "such contributions are left out or scaled down to the bound"
)


class ConjugateEstimator(PrivateEstimator):
    """Base of private estimators for conjugate-exponential models.

    A subclass defines the members below and takes the parameters below as
    ``**options`` of its constructor, which it hands to ``super().__init__``.

    ``statistics(record, parameters, scratch, out)``
        A static method that Numba can compile (plain Python or ``@njit``). It reads
        ``record``, a float64 vector, and ``parameters``, a tuple of read-only float64
        arrays, and writes the record's expected sufficient statistics to ``out``,
        float64, ``n_statistics`` entries, all 0 before the call. ``scratch`` is
        float64, ``n_scratch`` entries, 0 before the call. The result must depend on
        the arguments alone: no random numbers and no BLAS (``@``, ``np.dot``), whose
        rounding depends on where an array lies.
    ``n_statistics(n_columns)``, ``n_scratch(n_columns)``
        Entries of ``out`` and ``scratch`` for records of ``n_columns`` numbers.
    ``norm_bound(n_columns)``
        A proven L2 bound of ``out`` over all records.
    ``start(n_columns, rng)``
        Initial parameters, public: a tuple of arrays. ``rng`` is a numpy Generator
        made from ``random_state``.
    ``mstep(mean, noise_sd, parameters)``
        Parameters of the next step, a tuple of finite arrays, from the noised mean of
        the statistics per record, the standard deviation of the noise in each of its
        entries, and the last parameters. ``self.n_records_`` is the public number of
        records and ``self.n_columns_`` that of columns.
    ``nonnegative`` (class attribute, False)
        True says that statistics are >= 0; negative ones are then set to 0 and
        replacing a record costs sqrt(2) instead of 2 times the bound.
    ``records(X, y)``
        The records, one a row, for what `fit` is given; a default is provided.
    ``check_parameters()``
        Raise ValueError for the subclass's own parameters.

    Parameters
    ----------
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    n_steps : int
        Minibatches, each one release.
    learning_decay, learning_offset : float
        kappa and tau_0 of the step size (tau_0 + t)^-kappa, t = 0, 1, … An offset of
        None is 1. A decay of 0 keeps only the last step's statistics.
    clip_norm : float or None
        L2 bound to use in place of a larger ``norm_bound``: contributions above it are
        scaled down, which is no fault then.
    sampling, neighbors, target_epsilon, target_delta, noise_multiplier, n_records, n_jobs, callback
        As in `vips_fast.LatentDirichletAllocation`.
    private : bool
        False adds no noise; contributions are still held to the bound.
    random_state : int, numpy Generator, RandomState or None
        Seeds the initial parameters, which are public; and, only without privacy, the
        minibatches.

    Attributes
    ----------
    parameters_ : tuple of float64 arrays
        What the last M-step returned.
    average_ : (n_statistics,) float64 array
        Released mean of the statistics per record, and ``noise_sd_`` the standard
        deviation of the noise in each of its entries.
    privacy_, ledger_, n_steps_, n_features_in_, n_columns_, n_records_
        As in `vips_fast.LatentDirichletAllocation`; columns of a record; public number
        of records.

    Notes
    -----
    What the user's function does cannot break the guarantee, as long as it is a
    function of its arguments. Its result is replaced by the zero vector where it
    raises or is not finite, scaled down to the bound C, truncated toward zero to a
    lattice, and held to the bound again in exact integers. Adding or removing a record
    then moves the sum by at most C, replacing one by 2 C; or, with entries >= 0, by
    sqrt(2) C, as ||x - y||^2 <= ||x||^2 + ||y||^2.

    Whether a training record broke the bound is private, so a private fit does not say
    it. Instead, the function is tried on public test records, with the first and with
    the last parameters, and a RuntimeWarning with a constant text says that it
    misbehaves there. A fit with ``private=False`` also warns about training records.

    The function is compiled with bounds checks, so that a wrong index is an exception,
    not a crash. Functions that it calls are compiled as their authors chose.
    """

    #: Statistics are >= 0.
    nonnegative = False
    # The other estimators' choices of these two belong to the paper's models.
    update = "average"
    sensitivity = "proven"

    def __init__(
        self, *, batch_size=None, n_steps=20, learning_decay=0.7, learning_offset=None, clip_norm=None, sampling="poisson",
        neighbors=None, target_epsilon=None, target_delta=None, noise_multiplier=None, private=True, n_records=None,
        n_jobs=None, random_state=None, callback=None,
    ):
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.learning_decay = learning_decay
        self.learning_offset = learning_offset
        self.clip_norm = clip_norm
        self.sampling = sampling
        self.neighbors = neighbors
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def __init_subclass__(cls, **options):
        """Show the inherited parameters in the signature of a constructor that takes **options."""
        super().__init_subclass__(**options)
        own = cls.__dict__.get("__init__")
        if own is None:
            return
        parameters = list(inspect.signature(own).parameters.values())
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            return
        mine = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in mine}
        inherited = inspect.signature(super(cls, cls).__init__).parameters.values()
        own.__signature__ = inspect.Signature(
            mine + [p.replace(kind=p.KEYWORD_ONLY) for p in inherited if p.name not in names and p.name != "self"]
        )

    # ------------------------------------------------- what a model defines

    def n_statistics(self, n_columns: int) -> int:
        """Entries of the statistics."""
        raise NotImplementedError(f"{type(self).__name__} does not define n_statistics")

    def n_scratch(self, n_columns: int) -> int:
        """Entries of the scratch array."""
        return 0

    def norm_bound(self, n_columns: int) -> float:
        """Proven L2 bound of the statistics of one record."""
        raise NotImplementedError(f"{type(self).__name__} does not define norm_bound")

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple:
        """Initial parameters."""
        raise NotImplementedError(f"{type(self).__name__} does not define start")

    def mstep(self, mean: np.ndarray, noise_sd: float, parameters: tuple) -> tuple:
        """Parameters of the next step."""
        raise NotImplementedError(f"{type(self).__name__} does not define mstep")

    def check_parameters(self) -> None:
        """Raise a ValueError for a parameter of the subclass that is out of its range."""

    def records(self, X, y=None) -> np.ndarray:
        """Records as rows: the columns of X, then those of y if it is given."""
        X = np.asarray(X)
        if X.ndim != 2 or 0 in X.shape:
            raise ValueError(f"X has shape {X.shape}: expected (n, d) with n, d >= 1")
        if y is None:
            return X
        y = np.asarray(y)
        if y.ndim not in (1, 2) or len(y) != len(X):
            raise ValueError(f"y has shape {y.shape}: expected {len(X)} rows, as many as X")
        return np.column_stack([X, y])

    # ------------------------------------------------------------- fitting

    def fit(self, X, y=None):
        """Fit the model.

        Parameters
        ----------
        X : array of numbers, shape (n, d)
            A record a row. A record whose statistics are not finite contributes zero.
        y : array of numbers, shape (n,) or (n, m), or None
            Further columns of the records, where the model has them.

        Returns
        -------
        The estimator.

        Raises
        ------
        ValueError
            If a parameter or X is unusable, the run would overspend, or the M-step
            returns numbers that are not finite.
        TypeError
            If Numba cannot compile ``statistics``, or the M-step returns no tuple. But
            for the M-step's errors, nothing has been spent then.
        """
        self._check_parameters()
        records = _checked_records(self.records(X, y))
        n_rows, n_columns = records.shape
        self.n_columns_, self.n_records_ = n_columns, self._public_n_records(n_rows)
        # Refuse a batch that does not fit before the compiler's seconds are spent.
        make_sampler(self.sampling, self.neighbors, n_rows, self.batch_size)
        model = _ConjugateModel(self, records)
        self._probe(model)
        sampler, mechanism, ledger = self._set_up(model, n_rows, self.n_steps)
        state = State(np.zeros(model.statistics_shape))
        self.n_features_in_ = int(np.shape(X)[1])
        self._run(model, state, sampler, mechanism, ledger, self.n_steps, n_rows)
        self.parameters_, self.n_steps_ = model.parameters, state.step
        self.average_, self.noise_sd_ = _without_start(state)
        self._probe(model)
        if not self.private and model.broken:
            warnings.warn(MESSAGE, RuntimeWarning, stacklevel=2)
        return self

    def _check_parameters(self) -> None:
        self._check_privacy_parameters()
        if self.clip_norm is not None:
            check_number("clip_norm", self.clip_norm, 0, 1e100, low_open=True)
        self.check_parameters()

    def _probe(self, model) -> None:
        """Try the compiled function on public records and warn with a constant text if it misbehaves."""
        rng = np.random.default_rng(0)
        normal = rng.standard_normal((16, self.n_columns_))
        public = np.concatenate(
            [np.zeros((1, self.n_columns_)), *(normal * scale for scale in (1e-3, 1.0, 1e3, 1e6)), np.sign(normal), np.abs(np.sign(normal))]
        )
        values, good = model.evaluate(public)
        norms = np.sqrt((values * values).sum(axis=1))
        # The margin is above the rounding of a norm.
        if not good.all() or (self.clip_norm is None and norms.max() > model.clip_norm * (1 + 1e-9)):
            warnings.warn(MESSAGE, RuntimeWarning, stacklevel=3)

    def expected_statistics(self, X, y=None) -> np.ndarray:
        """Expected sufficient statistics of records under the fitted parameters, one row each.

        They describe X and y: publish them only if these may be published.

        Parameters
        ----------
        X, y : as in `fit`

        Returns
        -------
        (n, n_statistics) float64 array
            Not clipped; zero where ``statistics`` raised or was not finite.
        """
        self._check_fitted()
        records = _checked_records(self.records(X, y))
        if records.shape[1] != self.n_columns_:
            raise ValueError(f"X and y give records of {records.shape[1]} columns: expected {self.n_columns_}, as in fit")
        return _ConjugateModel(self, records, self.parameters_).evaluate(records)[0]

    # --------------------------------------------------------------- files

    def _arrays(self):
        arrays = {f"parameter_{i}": array for i, array in enumerate(self.parameters_)}
        public = np.array([self.noise_sd_, self.n_steps_, self.n_columns_, self.n_records_], dtype=np.float64)
        return {"average": self.average_, "public": public, **arrays}

    def _restore(self, arrays):
        self.average_ = arrays["average"]
        self.noise_sd_ = float(arrays["public"][0])
        self.n_steps_, self.n_columns_, self.n_records_ = (int(x) for x in arrays["public"][1:])
        count = sum(name.startswith("parameter_") for name in arrays)
        self.parameters_ = _checked_parameters([arrays[f"parameter_{i}"] for i in range(count)], type(self))


class _ConjugateModel:
    """The members of `vips_fast.inference.Model`, around the user's functions."""

    def __init__(self, estimator: ConjugateEstimator, records: np.ndarray, parameters: tuple | None = None):
        n_columns = records.shape[1]
        self._estimator, self._records = estimator, records
        self._n_scratch = int(estimator.n_scratch(n_columns))
        self._n_statistics = check_number("n_statistics", estimator.n_statistics(n_columns), 1, 2**31, integer=True)
        self.statistics_shape = (self._n_statistics,)
        bound = check_number("norm_bound", estimator.norm_bound(n_columns), 0, 1e100, low_open=True)
        self.clip_norm = bound if estimator.clip_norm is None else min(bound, float(estimator.clip_norm))
        self._estep, self._evaluate = _compiled(type(estimator))
        if parameters is None:
            from .base import public_generator

            parameters = estimator.start(n_columns, public_generator(estimator.random_state))
        self.parameters = _checked_parameters(parameters, type(estimator))
        #: Whether a contribution broke the bound. Private unless the fit is not.
        self.broken = False

    def sensitivity(self, neighbors: str) -> float:
        """C to add or remove a record; 2 C to replace one, sqrt(2) C if entries are >= 0."""
        if neighbors == "add_remove":
            return self.clip_norm
        return self.clip_norm * (math.sqrt(2.0) if self._estimator.nonnegative else 2.0)

    def estep(self, records, words, spacing, sums, n_threads):
        """The compiled loop over blocks of records; see `_make`."""
        n_blocks = -(-len(records) // _BLOCK)
        if n_blocks == 0:
            return
        n_threads = min(n_threads, n_blocks)
        totals = [sums] + [np.zeros_like(sums) for _ in range(n_threads - 1)]
        buffers = [self._buffers() for _ in range(n_threads)]
        limit = math.floor(self.clip_norm / spacing)
        broken = np.zeros(n_threads, dtype=np.bool_)

        def work(block, worker):
            rows = records[block * _BLOCK : (block + 1) * _BLOCK]
            broken[worker] |= self._estep(
                self._records, rows, self.parameters, bool(self._estimator.nonnegative), self.clip_norm, 1.0 / spacing,
                limit, *buffers[worker], totals[worker],
            )

        run_blocks(n_blocks, n_threads, work)
        for extra in totals[1:]:
            sums += extra
        self.broken = self.broken or bool(broken.any())

    def _buffers(self):
        """Record, scratch, statistics and lattice units of one thread, each on a cache line of its own."""
        sizes = (self._records.shape[1], self._n_scratch, self._n_statistics, self._n_statistics)
        dtypes = (np.float64, np.float64, np.float64, np.int64)
        return tuple(_aligned(size, dtype) for size, dtype in zip(sizes, dtypes))

    def evaluate(self, records) -> tuple[np.ndarray, np.ndarray]:
        """Statistics of each record, unclipped, and which are good (the others are zero)."""
        values = np.zeros((len(records), self._n_statistics))
        good = np.zeros(len(records), dtype=np.bool_)
        record, scratch, out, _ = self._buffers()
        try:
            self._evaluate(records, self.parameters, bool(self._estimator.nonnegative), record, scratch, out, values, good)
        except Exception as error:
            # Types alone are at fault here: what the function raises is caught inside the loop.
            raise TypeError(f"{type(self._estimator).__name__}.statistics: Numba cannot compile it: {error}") from error
        return values, good

    def mstep(self, state: State) -> None:
        """The user's M-step on the mean without the start's share."""
        mean, noise_sd = _without_start(state)
        estimator = self._estimator
        self.parameters = _checked_parameters(estimator.mstep(mean, noise_sd, self.parameters), type(estimator))


def _without_start(state: State) -> tuple[np.ndarray, float]:
    """Average and noise of the released statistics alone: the initial average was 0."""
    weight = 1.0 - state.initial_weight
    return state.average / weight, state.noise_sd / weight


def _aligned(size: int, dtype) -> np.ndarray:
    """An array that begins on a cache line, so that code may not differ by where it lies."""
    raw = np.zeros(size * 8 + 64, dtype=np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size * 8].view(dtype)


def _checked_records(records) -> np.ndarray:
    records = np.asarray(records)
    if records.ndim != 2 or 0 in records.shape:
        raise ValueError(f"records have shape {records.shape}: expected (n, d) with n, d >= 1")
    if records.dtype.kind not in "biuf":
        raise ValueError(f"records have dtype {records.dtype}: expected numbers")
    if records.dtype == np.bool_:
        records = records.view(np.uint8) if records.flags.c_contiguous else records.astype(np.uint8)
    elif records.dtype.kind == "f" and records.dtype not in (np.float32, np.float64):
        records = records.astype(np.float64)
    records = np.ascontiguousarray(records).view()
    records.flags.writeable = False
    return records


def _checked_parameters(parameters, kind: type) -> tuple[np.ndarray, ...]:
    """Read-only contiguous float64 arrays."""
    if not isinstance(parameters, (tuple, list)) or not parameters:
        raise TypeError(f"{kind.__name__}: expected a tuple of arrays as parameters, got {type(parameters).__name__}")
    out = []
    for i, value in enumerate(parameters):
        array = np.array(value, dtype=np.float64, order="C")
        if not np.isfinite(array).all():
            raise ValueError(f"{kind.__name__}: parameter {i} of the M-step or start is not finite; expected finite numbers")
        array.flags.writeable = False
        out.append(array)
    return tuple(out)


_COMPILED: dict = {}


def _compiled(kind: type):
    """The two compiled loops around a class's statistics function."""
    from numba.core.registry import CPUDispatcher

    function = inspect.getattr_static(kind, "statistics", None)
    if isinstance(function, staticmethod):
        function = function.__func__
    if isinstance(function, CPUDispatcher):
        for option in ("fastmath", "parallel"):
            if function.targetoptions.get(option):
                raise ValueError(
                    f"{kind.__name__}.statistics is compiled with {option}=True: expected no such option, "
                    "since a record's result must be the same bits wherever it is computed"
                )
        function = function.py_func
    if not inspect.isfunction(function):
        raise TypeError(f"{kind.__name__}.statistics: expected a static method, got {type(function).__name__}")
    if function not in _COMPILED:
        _COMPILED[function] = _make(function)
    return _COMPILED[function]


def _make(function):
    """The loop over records for one statistics function: (estep, evaluate).

    Everything about a record is done in one fixed order of operations, from buffers
    that are cleared before it.
    """
    import numba

    statistics = numba.njit(nogil=True, boundscheck=True, error_model="python", fastmath=False)(function)

    @numba.njit(nogil=True)
    def sum_of_squares(out):
        # Eight sums side by side: one fixed order, which the compiler can put in registers.
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        whole = len(out) // 8 * 8
        for j in range(0, whole, 8):
            s0 += out[j] * out[j]
            s1 += out[j + 1] * out[j + 1]
            s2 += out[j + 2] * out[j + 2]
            s3 += out[j + 3] * out[j + 3]
            s4 += out[j + 4] * out[j + 4]
            s5 += out[j + 5] * out[j + 5]
            s6 += out[j + 6] * out[j + 6]
            s7 += out[j + 7] * out[j + 7]
        for j in range(whole, len(out)):
            s0 += out[j] * out[j]
        return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))

    @numba.njit(nogil=True)
    def contribution(row, parameters, nonnegative, record, scratch, out):
        """Fill out; its squared norm, or -1 if it is not finite."""
        out[:] = 0.0
        scratch[:] = 0.0
        for j in range(len(record)):
            record[j] = row[j]
        failed = False
        try:
            statistics(record, parameters, scratch, out)
        except Exception:
            failed = True
        if failed:
            return -1.0
        if nonnegative:
            for j in range(len(out)):
                if out[j] < 0.0:
                    out[j] = 0.0
        square = sum_of_squares(out)
        if square <= 1e300:
            return square
        # An entry that is not finite, or squares that overflow: then the direction is kept.
        top = 0.0
        for j in range(len(out)):
            if not abs(out[j]) <= 1.7976931348623157e308:
                return -1.0
            top = max(top, abs(out[j]))
        for j in range(len(out)):
            out[j] = out[j] / top * 1e120
        return sum_of_squares(out)

    @numba.njit(nogil=True)
    def estep(records, rows, parameters, nonnegative, clip_norm, units_per_one, limit, record, scratch, out, units, sums):
        broken = False
        target = clip_norm * (1.0 - 2.0**-40)
        # The computed norm is within 2^-21 of the true one for up to 2^31 entries, and
        # truncation shortens: below this no check is needed.
        safe = clip_norm * (1.0 - 2.0**-20)
        for n in range(len(rows)):
            square = contribution(records[rows[n]], parameters, nonnegative, record, scratch, out)
            if square < 0.0:
                broken = True
                continue
            norm = math.sqrt(square)
            if norm <= safe:
                for j in range(len(out)):
                    sums[j] += np.int64(out[j] * units_per_one)  # toward zero
                continue
            factor = units_per_one
            if norm > target:
                factor = units_per_one * (target / norm)
                broken = broken or norm > clip_norm * (1.0 + 1e-9)
            while True:
                # Each unit is below 2^31 and their squares' sum about 2^62 at most: exact.
                total = np.int64(0)
                for j in range(len(out)):
                    unit = np.int64(out[j] * factor)
                    units[j] = unit
                    total += unit * unit
                if total <= limit * limit:
                    break
                factor *= 1.0 - 2.0**-20
            for j in range(len(out)):
                sums[j] += units[j]
        return broken

    @numba.njit(nogil=True)
    def evaluate(records, parameters, nonnegative, record, scratch, out, values, good):
        for n in range(len(records)):
            good[n] = contribution(records[n], parameters, nonnegative, record, scratch, out) >= 0.0
            if good[n]:
                for j in range(len(out)):
                    values[n, j] = out[j]

    return estep, evaluate
