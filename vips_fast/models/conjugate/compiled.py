"""The loops over records around a user's statistics function, compiled by Numba.

A function that compiles on eight records side by side (`vips_fast.models.conjugate.lanes`) runs so; any other runs on
one record after the other. Which it is depends on the function and on public sizes alone.

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
from ...kernels.memory import zeros_on_line

#: Numbers of a record, its scratch and its statistics beyond which eight side by side would leave the caches.
_LARGEST = 1 << 13


class Loops(NamedTuple):
    """The loop around one statistics function, and what it works in."""

    #: ``buffers(n_columns, n_scratch, n_statistics)`` makes the buffers of one thread, of which the counts of ``add``
    #: come last.
    buffers: Callable[[int, int, int], tuple[np.ndarray, ...]]
    #: ``add(records, rows, starts, parameters, nonnegative, clip, bound, units_per_one, limit, values, good, *buffers,
    #: sums)`` adds to ``sums`` the contributions of units, of which unit u owns ``records[rows[starts[u]:starts[u +
    #: 1]]]``, and to the counts how many units were scaled down to ``clip`` and how many rows broke what their model
    #: promises. Where ``good`` is not empty, it writes instead the statistics of each row, unclipped, to ``values``,
    #: and to ``good`` whether they are finite. One function, as compiling it is what takes time.
    add: Callable[..., None]


def loops_of(kind: type, parameters: tuple[np.ndarray, ...], n_numbers: int) -> Loops:
    """The loops for a class's ``statistics``, compiled once for each function and types of parameters.

    ``n_numbers`` are those of a record, its scratch and its statistics together.

    Raises TypeError if ``statistics`` is no static method; ValueError if it was compiled with options that let a result
    depend on where it is computed; ImportError if Numba is not installed.
    """
    try:
        import numba
    except ImportError:
        raise missing_package(f"to compile {kind.__name__}.statistics", "numba", "numba") from None
    function = _function_of(kind)
    side_by_side = _side_by_side(function, numba.typeof(parameters)) if n_numbers <= _LARGEST else None
    return side_by_side or _one_by_one(function)


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


def _options() -> dict[str, Any]:
    """How a user's function is compiled: a wrong index is an exception, and no rounding depends on the compiler."""
    return dict(nogil=True, boundscheck=True, error_model="python", fastmath=False)


@cache
def _one_by_one(function: Any) -> Loops:
    """The loops around one statistics function that take one record after the other.

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
    statistics = numba.njit(**_options())(function)

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
        records,
        rows,
        starts,
        parameters,
        nonnegative,
        clip,
        bound,
        units_per_one,
        limit,
        values,
        good,
        record,
        scratch,
        own,
        total,
        units,
        counts,
        sums,
    ):
        for u in range(len(starts) - 1):
            out = own
            square = 0.0
            several = starts[u + 1] - starts[u] > 1
            if several:
                total[:] = 0.0
            for n in range(starts[u], starts[u + 1]):
                square = contribution(records[rows[n]], parameters, nonnegative, record, scratch, own)
                if len(good) > 0:
                    good[n] = square >= 0.0
                    for j in range(len(own)):
                        values[n, j] = own[j] if good[n] else 0.0
                    square = 0.0
                elif square < 0.0:
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

    def buffers(n_columns: int, n_scratch: int, n_statistics: int) -> tuple[np.ndarray, ...]:
        """Record, scratch, statistics of a row and of a unit, lattice units, counts."""
        floats = [zeros_on_line(size, np.float64) for size in (n_columns, n_scratch, n_statistics, n_statistics)]
        return (*floats, zeros_on_line(n_statistics, np.int64), zeros_on_line(2, np.int64))

    return Loops(buffers, add)


@cache
def _shared_side_by_side() -> tuple[Any, ...]:
    """What all loops over eight records share: ``load``, ``measure``, ``settle`` and ``keep``."""
    import numba

    from .lanes import WIDTH, add_truncated, side_by_side

    measured, take = _shared()

    @numba.njit(nogil=True)
    def load(records, rows, first, last, record, scratch, out):
        """Up to eight records, the last again and again where there are fewer; zeros in scratch and out."""
        for lane in range(WIDTH):
            row = records[rows[min(first + lane, last - 1)]]
            for j in range(len(record)):
                record[j, lane] = row[j]
        for array in (scratch, out):
            for j in range(len(array)):
                for lane in range(WIDTH):
                    array[j, lane] = 0.0

    @numba.njit(nogil=True)
    def norms(x, nonnegative, squares):
        s0 = s1 = s2 = s3 = 0.0
        if nonnegative:
            for j in range(len(x)):
                x[j] = max(x[j], 0.0)
        whole = len(x) // 4 * 4
        for j in range(0, whole, 4):
            s0 += x[j] * x[j]
            s1 += x[j + 1] * x[j + 1]
            s2 += x[j + 2] * x[j + 2]
            s3 += x[j + 3] * x[j + 3]
        for j in range(whole, len(x)):
            s0 += x[j] * x[j]
        squares[0] = (s0 + s2) + (s1 + s3)

    @numba.njit(nogil=True)
    def measure(n_rows, failed, nonnegative, out, squares, column):
        """Squared norms of the rows' statistics, or -1 where they are not finite; 0 after the last row."""
        if not failed:
            norms(side_by_side(out), nonnegative, side_by_side(squares))
        for lane in range(WIDTH):
            if lane >= n_rows:
                squares[0, lane] = 0.0
            elif failed:
                squares[0, lane] = -1.0
            elif not squares[0, lane] <= 1e300:
                for j in range(len(out)):
                    column[j] = out[j, lane]
                squares[0, lane] = measured(column)
                for j in range(len(out)):
                    out[j, lane] = column[j]

    @numba.njit(nogil=True)
    def add_lanes(x, factors, lattice):
        factor = factors[0]
        for j in range(len(x)):
            add_truncated(lattice, j, x[j], factor)

    @numba.njit(nogil=True)
    def settle(
        starts,
        u,
        first,
        last,
        clip,
        bound,
        units_per_one,
        limit,
        out,
        squares,
        factors,
        column,
        total,
        units,
        lattice,
        counts,
        sums,
    ):
        """Add what rows first .. last - 1 are to their units, of which u is the first; the unit of the last row."""
        for lane in range(WIDTH):
            factors[0, lane] = 0.0
        for lane in range(last - first):
            square = squares[0, lane]
            counts[1] += square < 0.0 or math.sqrt(square) > bound * (1.0 + 1e-9)
            while starts[u + 1] <= first + lane:
                u += 1
            if starts[u + 1] - starts[u] > 1:
                if first + lane == starts[u]:
                    total[:] = 0.0
                if square >= 0.0:
                    for j in range(len(total)):
                        total[j] += out[j, lane]
                if first + lane == starts[u + 1] - 1:
                    square = measured(total)
                    if square > 0.0:
                        counts[0] += take(total, square, clip, units_per_one, limit, units, sums)
            elif square > 0.0:
                if math.sqrt(square) <= clip * (1.0 - 2.0**-20):
                    factors[0, lane] = units_per_one
                else:
                    for j in range(len(column)):
                        column[j] = out[j, lane]
                    counts[0] += take(column, square, clip, units_per_one, limit, units, sums)
        add_lanes(side_by_side(out), side_by_side(factors), lattice)
        if last == starts[-1]:
            for j in range(len(sums)):
                for lane in range(WIDTH):
                    sums[j] += lattice[j, lane]
                    lattice[j, lane] = 0
        return u

    @numba.njit(nogil=True)
    def keep(first, last, out, squares, values, good):
        for n in range(first, last):
            good[n] = squares[0, n - first] >= 0.0
            for j in range(len(out)):
                values[n, j] = out[j, n - first] if good[n] else 0.0

    return load, measure, settle, keep


@cache
def _side_by_side(function: Any, parameters_type: Any) -> Loops | None:
    """The loops around one statistics function that take eight records side by side; None if it does not compile so.

    Notes
    -----
    What `_one_by_one` claims holds here, and a unit's integers are the same bits whichever records are beside its own.

    Proof. A lane of statistics is a function of that lane of records and of the parameters (proof in
    `vips_fast.models.conjugate.lanes`), and so is its squared norm, a sum over lanes in one order; control flow depends
    on lengths and parameters alone, so that a function that raises does so for all records, whatever they are. What
    follows is of one lane: whether it is finite, its factor, its integers. Lanes after the last row repeat it and have
    factor 0, which adds nothing. The norm is computed by four chains in place of eight, each of at most 2^29 additions,
    so (b) of the proof holds, and for a record within the clip the integers are those of (b): out/g, truncated. All
    other vectors are taken by the same code. QED
    """
    import numba

    from .lanes import WIDTH, lanes_array, side_by_side

    load, measure, settle, keep = _shared_side_by_side()
    statistics = numba.njit(**_options())(function)
    try:
        statistics.compile((lanes_array, parameters_type, lanes_array, lanes_array))
    except Exception:  # of whatever kind: the function is then compiled on numbers, where errors are its author's
        return None

    @numba.njit(nogil=True)
    def add(
        records,
        rows,
        starts,
        parameters,
        nonnegative,
        clip,
        bound,
        units_per_one,
        limit,
        values,
        good,
        record,
        scratch,
        out,
        squares,
        factors,
        column,
        total,
        units,
        lattice,
        counts,
        sums,
    ):
        u = 0
        for first in range(starts[0], starts[-1], WIDTH):
            last = min(first + WIDTH, starts[-1])
            load(records, rows, first, last, record, scratch, out)
            failed = False
            try:
                statistics(side_by_side(record), parameters, side_by_side(scratch), side_by_side(out))
            except Exception:
                failed = True
            measure(last - first, failed, nonnegative, out, squares, column)
            if len(good) > 0:
                keep(first, last, out, squares, values, good)
            else:
                u = settle(
                    starts,
                    u,
                    first,
                    last,
                    clip,
                    bound,
                    units_per_one,
                    limit,
                    out,
                    squares,
                    factors,
                    column,
                    total,
                    units,
                    lattice,
                    counts,
                    sums,
                )

    def buffers(n_columns: int, n_scratch: int, n_statistics: int) -> tuple[np.ndarray, ...]:
        """Record, scratch, statistics, squared norms, factors; column, unit, lattice units, their sums, counts."""

        def lanes_of(n: int, dtype: type = np.float64) -> np.ndarray:
            return zeros_on_line(n * WIDTH, dtype).reshape(n, WIDTH)

        wide = [lanes_of(n) for n in (n_columns, n_scratch, n_statistics, 1, 1)]
        narrow = [zeros_on_line(n_statistics, dtype) for dtype in (np.float64, np.float64, np.int64)]
        return (*wide, *narrow, lanes_of(n_statistics, np.int64), zeros_on_line(2, np.int64))

    return Loops(buffers, add)
