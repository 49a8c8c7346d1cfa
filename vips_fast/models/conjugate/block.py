"""Statistics of records and their clipped sums, from a `ConjugateEstimator`'s own function or from a kernel.

``records`` and ``out`` have contiguous columns, so a loop over records is a loop over neighboring numbers, which LLVM
turns into vector instructions. Numba compiles ``statistics`` and the loop around it; a kernel clips and adds. They run
without the interpreter's lock.

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
So does a model of the package that has a kernel (`RowStatistics`).
"""

import inspect
import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...checks import missing_package
from ...kernels import native
from ...kernels.threads import zeros_on_line

#: Records of a block, and fewer if a record has more numbers than ``_MANY`` with its statistics. Multiples of 32, so
#: that no vector loop has a rest, which might round otherwise; `clip_units` takes no more.
_ROWS, _FEW_ROWS, _MANY = native.CLIP_ROWS, 64, 1 << 10

#: A model's parameters, or what one thread works in.
Arrays = tuple[np.ndarray, ...]


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
    `exp`. Terms are added from the first to the last. Raises ValueError if shapes do not go together.
    """
    n, d = len(out), slope.shape[1]
    if len(slope) != len(constant) or out.shape[1] < len(constant) or len(records) != n or records.shape[1] < d:
        raise ValueError("affine: expected out (n, >= k), constant (k,), slope (k, d) and records (n, >= d)")
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

    They are (n, k) weights, and then add up to 1 in each row. For compiled statistics, as `exp`. Raises ValueError if
    there are fewer columns.
    """
    if logs.shape[1] < n_components:
        raise ValueError("softmax: expected logs of n_components columns or more")
    n = len(logs)
    top, total = np.empty(n), np.empty(n)
    for i in range(n):
        top[i], total[i] = -math.inf, 0.0
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


class Bounds(NamedTuple):
    """What the kernels hold a unit to: fields of the structure `vf_clip_params`."""

    clip: float
    bound: float
    spacing: float
    nonnegative: bool


class RowStatistics(Protocol):
    """Statistics of records, and their clipped sums over units: a function that Numba compiles, or a kernel."""

    def workspace(self, n_columns: int, n_statistics: int) -> Arrays:
        """Make the arrays that one thread works in."""

    def add(self, units: Arrays, parameters: Arrays, bounds: Bounds, work: Arrays, sums: np.ndarray) -> np.ndarray:
        """Add to sums, int64, the contributions of ``units``, (records, starts).

        Unit u has the float64 rows from starts[u] to starts[u + 1]. Returns counts, int64 (2,): units that were scaled
        down, and rows that broke a guarantee.
        """

    def evaluate(self, records: np.ndarray, parameters: Arrays, n_statistics: int) -> np.ndarray:
        """Return each record's statistics, unclipped. They are not finite if they cannot be computed."""


class CompiledStatistics:
    """Those of a class's ``statistics``, which Numba compiles with the loop around them.

    They are compiled once for each function and types of parameters.

    Raises TypeError if ``statistics`` is no static method. Raises ValueError if it was compiled with an option that
    lets a result depend on its place. Raises ImportError if Numba is not installed.
    """

    def __init__(self, kind: type):
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
            import_module("numba")  # tried here, so that the error names the extra to install
        except ImportError:
            raise missing_package(f"to compile {kind.__name__}.statistics", "numba", "numba") from None
        self._name = kind.__name__
        self._statistics, self._loop = _compiled(function)

    def workspace(self, n_columns: int, n_statistics: int) -> Arrays:
        n = _ROWS if n_columns + n_statistics <= _MANY else _FEW_ROWS
        block, out = (zeros_on_line((m, n), np.float64).T for m in (n_columns, n_statistics))
        return block, out, np.zeros(1, np.int64), zeros_on_line(n_statistics, np.float64)

    def add(self, units: Arrays, parameters: Arrays, bounds: Bounds, work: Arrays, sums: np.ndarray) -> np.ndarray:
        from ...kernels import numba_types

        (records, starts), counts = units, np.zeros(2, np.int64)
        for array in work[2:]:
            array[:] = 0
        sizes = {"n_statistics": len(sums), "n_padded": len(work[0]), "n_units": len(starts) - 1}
        params = numba_types.parameters("vf_clip_params", **sizes, **bounds._asdict())
        status = self._loop(records, starts, parameters, params, work, counts, sums)
        if status != 0:
            raise RuntimeError(f"clip_units: {numba_types.status_message(status)}")
        return counts

    def evaluate(self, records: np.ndarray, parameters: Arrays, n_statistics: int) -> np.ndarray:
        """See `RowStatistics.evaluate`. NaN if they raised. TypeError if Numba cannot compile them."""
        from ...kernels import numba_types

        n_columns = records.shape[1]
        values, work = np.zeros((len(records), n_statistics)), self.workspace(n_columns, n_statistics)
        none, starts, sums = np.zeros((0, n_columns)), np.zeros(1, np.int64), np.zeros(n_statistics, np.int64)
        try:
            self._loop(none, starts, parameters, numba_types.parameters("vf_clip_params"), work, sums, sums)
        except Exception as error:
            # Types are at fault here: the loop catches the function's errors.
            raise TypeError(f"{self._name}.statistics: Numba cannot compile it: {error}") from error
        (block, out, *_), first, single = work, 0, 0
        while first < len(records):
            last = first + 1 if first < single else min(first + len(block), len(records))
            block[: last - first], block[last - first :], out[:] = records[first:last], records[last - 1], 0.0
            try:
                self._statistics(block, parameters, out)
            except Exception:  # the function's own: it is compiled by now
                if last - first > 1:
                    single = last
                    continue
                out[0] = np.nan
            values[first:last] = out[: last - first]
            first = last
        return values


@cache
def _compiled(function: Callable[..., None]) -> Any:
    """Compile one function and the loop around it.

    In the function a wrong index raises and division by zero gives infinity. What clips and adds is the kernel
    `clip_units`, whose source has the proof of the bound: a first fit waits for the compiler, so it has little to do.
    """
    import numba

    load, clip_units = _shared()
    statistics = numba.njit(nogil=True, boundscheck=True, error_model="numpy", fastmath=False)(function)

    @numba.njit(nogil=True)
    def loop(records: Any, starts: Any, parameters: Any, bounds: Any, workspace: Any, counts: Any, sums: Any) -> Any:
        block, out, unit, carry = workspace
        first: Any = np.int64(0)
        single, status = first, np.int32(0)
        while first < len(records) and status == 0:
            last = first + 1 if first < single else min(first + len(block), len(records))
            load(records, first, last, block, out)
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
            status = clip_units(
                bounds.ctypes,
                first,
                last,
                starts.ctypes,
                out.ctypes,
                unit.ctypes,
                carry.ctypes,
                counts.ctypes,
                sums.ctypes,
            )
            first = last
        return status

    return statistics, loop


@cache
def _shared() -> tuple[Any, Any]:
    """Compile what fills a block, and return it and the kernel that clips and adds: all models share them.

    Compiled statistics may call the helpers above from then on.
    """
    import numba
    from numba.extending import register_jitable

    from ...kernels import numba_types

    for function in (affine, exp, softmax):  # the first and the last have checked all their places
        register_jitable(error_model="numpy", boundscheck=False)(function)

    @numba.njit(nogil=True)
    def load(records: Any, first: Any, last: Any, block: Any, out: Any) -> Any:
        """Copy records to a block, the last one to all further rows, and clear the statistics."""
        for i in range(len(block)):
            row = first + i if first + i < last else last - 1
            for j in range(block.shape[1]):
                block[i, j] = records[row, j]
        for j in range(out.shape[1]):
            for i in range(len(out)):
                out[i, j] = 0.0

    return load, vars(numba_types)["clip_units"]
