"""The loops over records around a user's statistics function, compiled by Numba.

Numba is imported when loops are first asked for: a model that is loaded or rebuilt, and
never sees a record, does without it.
"""

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...checks import missing_package


class Loops(NamedTuple):
    """Two loops around one statistics function."""

    #: ``add(records, rows, starts, parameters, nonnegative, clip, bound, units_per_one, limit, record, scratch, out,
    #: total, units, counts, sums)`` adds to ``sums`` the contributions of units, of which unit u owns
    #: ``records[rows[starts[u]:starts[u + 1]]]``, and to ``counts`` how many units were scaled down to ``clip`` and how
    #: many rows broke what their model promises.
    add: Callable[..., None]
    #: ``evaluate(records, parameters, nonnegative, record, scratch, out, values, good)`` writes the statistics of each
    #: record, unclipped.
    evaluate: Callable[..., None]


def loops_of(kind: type) -> Loops:
    """The loops for a class's ``statistics``, compiled once for each function.

    Raises TypeError if ``statistics`` is no static method; ValueError if it was compiled with options that let a result
    depend on where it is computed; ImportError if Numba is not installed.
    """
    try:
        import numba  # noqa: F401  # only asked for; who uses it imports what it needs
    except ImportError:
        raise missing_package(f"to compile {kind.__name__}.statistics", "numba", "numba") from None
    return _make(_function_of(kind))


def buffers(n_columns: int, n_scratch: int, n_statistics: int) -> tuple[np.ndarray, ...]:
    """Record, scratch, statistics of a row and of a unit, lattice units and two counts of one thread, each aligned."""
    floats = [_aligned(size, np.float64) for size in (n_columns, n_scratch, n_statistics, n_statistics)]
    return (*floats, _aligned(n_statistics, np.int64), _aligned(2, np.int64))


def _aligned(size: int, dtype: type) -> np.ndarray:
    """An array that begins on a cache line, so that results cannot differ by where it lies."""
    raw = np.zeros(size * 8 + 64, dtype=np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size * 8].view(dtype)


def _function_of(kind: type) -> Any:
    """The plain Python function behind a class's ``statistics``."""
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
    return function


@cache
def _shared() -> tuple[Any, Any]:
    """``measured`` and ``take``, which know no statistics function and are compiled once for all of them."""
    import numba

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
    def measured(out):
        """Squared norm of out, or -1 if it is not finite."""
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
    def take(out, square, clip, units_per_one, limit, units, sums):
        """Add a vector to ``sums``, in units and within the clip; whether it was scaled down."""
        norm = math.sqrt(square)
        if norm <= clip * (1.0 - 2.0**-20):
            for j in range(len(out)):
                sums[j] += np.int64(out[j] * units_per_one)  # toward zero
            return False
        factor, target = units_per_one, clip * (1.0 - 2.0**-40)
        if norm > target:
            factor = units_per_one * (target / norm)
        while True:
            squares = np.int64(0)
            for j in range(len(out)):
                unit = np.int64(out[j] * factor)
                units[j] = unit
                squares += unit * unit
            if squares <= limit * limit:
                break
            factor *= 1.0 - 2.0**-20
        for j in range(len(out)):
            sums[j] += units[j]
        # The margin is above the rounding of a norm.
        return norm > clip * (1.0 + 1e-9)

    return measured, take


@cache
def _make(function: Any) -> Loops:
    """Compile the loops for one statistics function.

    Everything about a unit is done in one fixed order of operations, from buffers that
    are cleared before it: it is a function of its rows, in their order, alone.

    Notes
    -----
    Claim: for a clip C in [1e-100, 1e100], at most 2^31 statistics and limit = floor(C/g),
    the integer vector q that is added for a unit has a norm of at most C/g, however many
    rows it has and whatever the statistics function wrote.

    Proof. (a) A row's result that raised or holds a number that is not finite adds nothing to its unit's vector, which
    is the sum of the others as doubles, or the result itself for a unit of one row. Each is at most 1e150 or was
    brought to 1e120, and a unit has at most 2^31 rows, so the sum is finite; where its squares overflow it is brought
    to 1e120 in turn. What follows holds for any finite vector, so for a sum that was rounded.
    (b) Let s be the vector's true norm and s' the computed one. An entry below 1e-150
    may lose its square to underflow; 2^31 such entries have a norm below 1e-145, less
    than 2^-100 C. All other roundings of the sum of squares and of its root make up less
    than 2^-21, as a chain of additions is at most 2^28 + 10 long and errors of 2^-53 add
    up. So s' <= (1 - 2^-20) C gives s <= C, and truncation toward zero of out/g, which
    is exact as g is a power of two, shortens: ||q|| <= s/g. (c) In all other cases q is
    taken only when its squares, summed exactly, are at most limit^2. Before that, factor
    x out has a norm of at most about limit < 2^31, so no square or sum leaves int64; and
    as the factor shrinks, the loop ends. A norm whose square would overflow is first
    brought to at least 1e120, above C, in its own direction. QED
    """
    import numba

    measured, take = _shared()
    statistics = numba.njit(nogil=True, boundscheck=True, error_model="python", fastmath=False)(function)

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
        return measured(out)

    @numba.njit(nogil=True)
    def add(
        records, rows, starts, parameters, nonnegative, clip, bound, units_per_one, limit, record, scratch, own, total,
        units, counts, sums,
    ):
        for u in range(len(starts) - 1):
            out = own
            square = 0.0
            several = starts[u + 1] - starts[u] > 1
            if several:
                total[:] = 0.0
            for n in range(starts[u], starts[u + 1]):
                square = contribution(records[rows[n]], parameters, nonnegative, record, scratch, own)
                if square < 0.0:
                    counts[1] += 1
                    continue
                counts[1] += math.sqrt(square) > bound * (1.0 + 1e-9)
                if several:
                    for j in range(len(own)):
                        total[j] += own[j]
            if several:
                out = total
                square = measured(total)
            if square > 0.0:
                counts[0] += take(out, square, clip, units_per_one, limit, units, sums)

    @numba.njit(nogil=True)
    def evaluate(records, parameters, nonnegative, record, scratch, out, values, good):
        for n in range(len(records)):
            good[n] = contribution(records[n], parameters, nonnegative, record, scratch, out) >= 0.0
            if good[n]:
                for j in range(len(out)):
                    values[n, j] = out[j]

    return Loops(add, evaluate)
