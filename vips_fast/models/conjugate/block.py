"""Compile the loop that calls ``statistics`` of a `ConjugateEstimator` on blocks of records, clips and adds.

``records`` and ``out`` have contiguous columns, so a loop over records is a loop over neighboring numbers, which LLVM
turns into vector instructions. Numba compiles the function and the loop around it; they run without the interpreter's
lock.

Notes
-----
*Purity.* A record's row of ``out`` has to be a function of its row of ``records`` and of ``parameters``, bit for bit.
The function has to guarantee it; the form of the call helps:

- Every call of a run has arrays of the same shape, strides and alignment. So nothing depends on how many records are
  left for the last block. Rows that no record fills are copies of one that does.
- ``records`` and ``out`` are written anew before each call.
- If a call raises, its records are taken one by one. The record that raises contributes zero, and its neighbors do not
  notice.

Matrix products and sums over records break this: BLAS rounds a row by its place in the block from about 200
columns on. A model tries its function on public records in other places and other company, and compares every bit
(`ConjugateModel.faults`). Layer B of the audit looks at the integers that are added, at length.

Numba is imported when a loop is first made: a model that is loaded or rebuilt, and never sees a record, does without.
"""

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...checks import missing_package
from ...kernels.threads import zeros_on_line

#: Records of a block, and fewer if a record has more numbers than ``_MANY`` with its statistics. Multiples of 32, so
#: that no vector loop has a rest, which might round otherwise.
_ROWS, _FEW_ROWS, _MANY = 128, 64, 1 << 10

#: Arrays of one thread: records, statistics, chains of squares, factors, slots, and sums of an incomplete unit.
Workspace = tuple[np.ndarray, ...]


def exp(x: float) -> float:
    """Return e^x, in compiled statistics.

    LLVM turns a loop over this into vector instructions; a loop over ``math.exp`` calls the C library each time. The
    result is within 2 units in the last place and 2^-1074. It comes by Taylor's series to degree 13 at x - n log 2,
    times 2^n.
    """
    held = min(max(x, -800.0), 800.0)
    # Adding and subtracting 1.5 * 2^52 rounds to an integer, ties to even.
    n = (held * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0
    # log 2 in two parts. The first has 21 zero bits at its end, so n times it is exact.
    r = (held - n * 0.693147180369123816490) - n * 1.90821492927058770002e-10
    p = r * (1 / 6227020800) + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    # 2^n in two factors, by the bits of a float64: 2^n itself may be beyond the range of a double, on either side.
    half = (n * 0.5 + 6755399441055744.0) - 6755399441055744.0
    first = np.int64((np.int64(half) + 1023) << 52).view(np.float64)
    second = np.int64((np.int64(n - half) + 1023) << 52).view(np.float64)
    value = (1.0 + (r + r * r * p)) * first * second
    return x if x != x else value  # NaN stays NaN


def affine(out: np.ndarray, constant: np.ndarray, slope: np.ndarray, records: np.ndarray) -> None:
    """Write affine functions of the records to columns of out.

    Column k gets constant[k] + sum_j slope[k, j] records[:, j], for each of the constants. For compiled statistics, as
    `exp`. Terms are added from the first to the last.
    """
    n, d = len(out), slope.shape[1]
    whole = d // 4 * 4
    for k in range(len(constant)):
        for i in range(n):
            out[i, k] = constant[k]
        for j in range(0, whole, 4):  # fewer loads and stores than one column after the other
            a, b, c, e = slope[k, j], slope[k, j + 1], slope[k, j + 2], slope[k, j + 3]
            for i in range(n):
                first = (out[i, k] + a * records[i, j]) + b * records[i, j + 1]
                out[i, k] = (first + c * records[i, j + 2]) + e * records[i, j + 3]
        for j in range(whole, d):
            for i in range(n):
                out[i, k] += slope[k, j] * records[i, j]


def softmax(logs: np.ndarray, n_components: int) -> None:
    """Normalize the first columns of logs, in place.

    They are (n, k) weights, and then add up to 1 in each row. For compiled statistics, as `exp`.
    """
    n = len(logs)
    top, total = np.full(n, -math.inf), np.zeros(n)
    for k in range(n_components):
        for i in range(n):
            top[i] = max(top[i], logs[i, k])
    for k in range(n_components):
        for i in range(n):
            logs[i, k] = exp(logs[i, k] - top[i])
            total[i] += logs[i, k]
    for k in range(n_components):
        for i in range(n):
            logs[i, k] /= total[i]


def workspace(n_columns: int, n_statistics: int) -> Workspace:
    """Make the arrays that one thread works in."""
    n = _ROWS if n_columns + n_statistics <= _MANY else _FEW_ROWS
    return (
        zeros_on_line((n_columns, n), np.float64).T,
        zeros_on_line((n_statistics, n), np.float64).T,
        zeros_on_line((4, n), np.float64),
        zeros_on_line(n, np.float64),
        zeros_on_line(n, np.int64),
        zeros_on_line(n_statistics, np.float64),
    )


def loop_of(kind: type) -> Callable[..., None]:
    """Return the compiled loop around a class's ``statistics``.

    It is compiled once for each function and types of parameters. ``loop(records, rows, starts, parameters, bounds,
    workspace, counts, values, sums)`` adds to ``sums``, int64, the contributions of units; unit u has
    ``records[rows[starts[u]:starts[u + 1]]]``. ``bounds`` are: whether statistics are at least 0, the clip, the bound
    that a row's statistics keep, lattice units per 1, and floor(clip / spacing). It adds to ``counts``, int64 (2,), how
    many units were scaled down and how many rows broke a guarantee. If ``values`` has a row for each row, it writes
    their unclipped statistics there instead: NaN for a record that raised.

    Raises TypeError if ``statistics`` is no static method. Raises ValueError if it was compiled with an option that
    lets a result depend on its place. Raises ImportError if Numba is not installed.
    """
    function = inspect.getattr_static(kind, "statistics", None)
    function = function.__func__ if isinstance(function, staticmethod) else function
    for option in ("fastmath", "parallel"):
        if getattr(function, "targetoptions", {}).get(option):
            raise ValueError(
                f"{kind.__name__}.statistics is compiled with {option}=True: expected no such option, "
                "since a record's result must be the same bits wherever it is computed"
            )
    function = getattr(function, "py_func", function)  # of a function that Numba compiled
    if not inspect.isfunction(function):
        raise TypeError(f"{kind.__name__}.statistics: expected a static method, got {type(function).__name__}")
    try:
        import numba  # noqa: F401  # only tried here, so that the error names the extra to install
    except ImportError:
        raise missing_package(f"to compile {kind.__name__}.statistics", "numba", "numba") from None
    found: Callable[..., None] = _loop(function)
    return found


@cache
def _loop(function: Callable[..., None]) -> Any:
    """Compile the loop around one function.

    In it a wrong index raises and division by zero gives infinity. Nothing here is assigned to a slice, and no integer
    begins as a literal. Numba would otherwise compile its messages about shapes, and the shared functions twice. That
    takes most of the time of a first fit.
    """
    import numba

    load, add = _shared()
    statistics = numba.njit(nogil=True, boundscheck=True, error_model="numpy", fastmath=False)(function)

    @numba.njit(nogil=True)
    def loop(
        records: Any,
        rows: Any,
        starts: Any,
        parameters: Any,
        bounds: Any,
        workspace: Any,
        counts: Any,
        values: Any,
        sums: Any,
    ) -> Any:
        block, out, carry = workspace[0], workspace[1], workspace[-1]
        first: Any = np.int64(0)
        single, unit = first, first
        while first < len(rows):
            last = first + 1 if first < single else min(first + len(block), len(rows))
            load(records, rows, first, last, block, out)
            failed = False
            try:
                statistics(block, parameters, out)
            except Exception:
                failed = True
            if failed and last - first > 1:
                single = last
                continue
            if failed:
                for j in range(out.shape[1]):
                    out[0, j] = math.nan
            if len(values) > 0:
                for i in range(first, last):
                    for j in range(out.shape[1]):
                        values[i, j] = out[i - first, j]
            else:
                unit = add(first, last, starts, unit, bounds, workspace, counts, sums)
            first = last
        for j in range(len(carry)):
            carry[j] = 0.0

    return loop


@cache
def _shared() -> tuple[Any, Any]:
    """Compile the functions that load, clip and add a block.

    All models share them.

    Notes
    -----
    Claim: let the clip C be in [1e-100, 1e100], let there be at most 2^31 statistics, and limit = floor(C/g). The
    integer vector q that is added for a unit has a norm of at most C/g. That holds however many rows it has and
    whatever the statistics function wrote. It is a function of the statistics of the unit's rows, in their order.

    Proof. The norm is computed, and clipped, in one fixed order of operations that no other row takes part in. (a) A
    row whose statistics hold a number that is not finite adds nothing to its unit's vector. The vector is the sum of
    the others as doubles, or the result itself for a unit of one row. Each is at most 1e150 or was brought to 1e120,
    and a unit has at most 2^31 rows, so the sum is finite. If its squares overflow it is brought to 1e120 in turn. The
    rest holds for any finite vector, so for a sum that was rounded. (b) Let s be the vector's true norm and s' the
    computed one. An entry below 1e-150 may lose its square to underflow; 2^31 such entries have a norm below 1e-145,
    less than 2^-100 C. All other roundings of the sum of squares and of its root make up less than 2^-21. For a chain
    of additions is at most 2^31 long and errors of 2^-53 add up. So s' <= (1 - 2^-20) C gives s <= C. Truncation toward
    zero of out/g is exact, as g is a power of two, and shortens: ||q|| <= s/g. (c) In all other cases q is taken only
    when its squares, summed exactly, are at most limit^2. Before that, factor x out has a norm of at most about limit <
    2^31, so no square or sum leaves int64. As the factor shrinks, the loop ends. A norm whose square would overflow is
    first brought to at least 1e120, above C, in its own direction. QED
    """
    import numba
    from numba.extending import register_jitable

    for function in (affine, exp, softmax):
        register_jitable(error_model="numpy")(function)
    compiled = numba.njit(nogil=True, error_model="numpy")

    @compiled
    def load(records: Any, rows: Any, first: Any, last: Any, block: Any, out: Any) -> Any:
        """Copy records to a block, and clear its statistics. The block is filled up with the last one."""
        for i in range(len(block)):
            row = records[rows[min(first + i, last - 1)]]
            for j in range(len(row)):
                block[i, j] = row[j]
        for j in range(out.shape[1]):
            for i in range(len(out)):
                out[i, j] = 0.0

    @compiled
    def shorten(row: Any) -> Any:
        """Bring a vector whose squares overflow to norm 1e120.

        The norm is about that. Returns its square, or -1 if it is not finite.
        """
        top, square = 0.0, 0.0
        for j in range(len(row)):
            if not abs(row[j]) <= 1.7976931348623157e308:
                for k in range(len(row)):
                    row[k] = 0.0
                return -1.0
            top = max(top, abs(row[j]))
        for j in range(len(row)):
            row[j] = row[j] / top * 1e120
            square += row[j] * row[j]
        return square

    @compiled
    def measure(values: Any, n: Any, nonnegative: Any, chains: Any) -> Any:
        """Write the squared norms of the first rows to chains[0].

        There are n rows. For a row that is not finite the norm is -1, and the row becomes zeros.
        """
        whole = values.shape[1] // 4 * 4
        for j in range(len(chains)):
            for i in range(n):
                chains[j, i] = 0.0
        for j in range(values.shape[1]):
            chain = chains[j % 4 if j < whole else 0]
            if nonnegative:
                for i in range(n):
                    values[i, j] = 0.0 if values[i, j] < 0.0 else values[i, j]
            for i in range(n):
                chain[i] += values[i, j] * values[i, j]
        for i in range(n):
            chains[0, i] = (chains[0, i] + chains[2, i]) + (chains[1, i] + chains[3, i])
            if not chains[0, i] <= 1e300:
                chains[0, i] = shorten(values[i])

    @compiled
    def join(values: Any, first: Any, last: Any, starts: Any, unit: Any, slots: Any, carry: Any) -> Any:
        """Add up the rows of each unit, in place.

        Returns the unit of the last row, and how many units are complete. A unit that continues in the next block is
        carried there.
        """
        slot, single = 0, True
        for i in range(last - first):
            while starts[unit + 1] <= first + i:
                unit += 1
            begins = starts[unit] == first + i
            slot += begins and i > 0
            slots[i] = slot
            single &= begins
        complete = starts[unit + 1] == last
        if not (single and complete):
            for j in range(values.shape[1]):
                total, at = carry[j], 0
                for i in range(last - first):
                    if slots[i] > at:
                        total, at = 0.0, slots[i]
                    total += values[i, j]
                    values[at, j] = total  # at <= i: nothing is overwritten that is still to be read
                carry[j] = 0.0 if complete else total
        return unit, slot + complete, single and complete

    @compiled
    def add(first: Any, last: Any, starts: Any, unit: Any, bounds: Any, workspace: Any, counts: Any, sums: Any) -> Any:
        nonnegative, clip, bound, per_one, limit = bounds
        _, values, chains, factors, slots, carry = workspace
        measure(values, last - first, nonnegative, chains)
        for i in range(last - first):
            counts[1] += chains[0, i] < 0.0 or math.sqrt(chains[0, i]) > bound * (1.0 + 1e-9)
        unit, n, single = join(values, first, last, starts, unit, slots, carry)
        if not single:
            measure(values, n, nonnegative, chains)  # sums of numbers >= 0 are >= 0
        within, target, clipping = clip * (1.0 - 2.0**-20), clip * (1.0 - 2.0**-40), False
        for i in range(n):
            norm = math.sqrt(max(chains[0, i], 0.0))
            factors[i] = per_one * (target / norm) if norm > target else per_one
            clipping |= norm > within
            counts[0] += norm > clip * (1.0 + 1e-9)  # the margin is above the rounding of a norm
        while clipping:
            clipping, squares = False, np.zeros(n, dtype=np.int64)
            for j in range(values.shape[1]):
                for i in range(n):
                    q = np.int64(values[i, j] * factors[i])
                    squares[i] += q * q
            for i in range(n):
                if squares[i] > limit * limit and math.sqrt(max(chains[0, i], 0.0)) > within:
                    factors[i] *= 1.0 - 2.0**-20
                    clipping = True
        for j in range(values.shape[1]):
            total = np.int64(0)
            for i in range(n):
                total += np.int64(values[i, j] * factors[i])  # toward zero
            sums[j] += total
        return unit

    return load, add
