"""The Polya-Gamma mean, and what the logistic regression's kernels take."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import native
from .threads import map_chunks, resolve_n_threads

__all__ = ["pg_mean", "unpack_upper"]

#: Numbers that a thread takes at a time of a Polya-Gamma mean. Its arrays then stay in a core's second-level cache;
#: fewer are not worth a thread.
PG_CHUNK = 1 << 15

#: log2 of the largest norm of a quadratic contribution in units of h^2.
MAX_FACTOR_BITS = 41

#: Largest number of features: a triangle of int64 is then 4 GiB.
MAX_FEATURES = 32_768


def pg_mean(
    c: ArrayLike, out: np.ndarray | None = None, *, b: float = 1.0, n_threads: int = 1, isa: str | None = None
) -> np.ndarray:
    """Compute the Polya-Gamma mean, PG(b, c): b tanh(c/2) / (2c).

    <xi> of Park et al. (2020), section 6.2 (Polson, Scott & Windle 2013, section 2). The function is even; it is b/4 at
    0 and 0 at infinity. For b = 1 the error is below 2 units in the last place over all numbers, in both precisions.
    Equivalent to ``b * np.where(c == 0, 0.25, np.tanh(c / 2) / (2 * c))`` with the digits that this loses for small c.

    ``c`` has any shape; float32 stays float32, everything else becomes float64. ``out``, a C-contiguous array of the
    same shape and dtype, is written to; it may be ``c``. ``b`` > 0 is the number of binomial trials. ``n_threads`` is a
    number of threads, or -1 for all processors, and changes no bit. ``isa`` is an instruction set to use in place of
    the one chosen at import. Returns an array of the shape of ``c``, a scalar for a scalar without ``out``. Raises
    ValueError or TypeError if ``c`` is not real, or ``b`` is not a finite positive number. It also does so if
    ``n_threads`` is no number of threads, or ``out`` does not fit.
    """
    values = np.asarray(c)
    if values.dtype.kind not in "fiub":
        raise TypeError(f"c has dtype {values.dtype}: expected real numbers")
    if not (np.isreal(b) and np.isfinite(b) and b > 0):
        raise ValueError(f"b={b!r}: expected a finite number > 0")
    dtype = np.float32 if values.dtype == np.float32 else np.float64
    values = np.asarray(values, dtype=dtype)
    if out is None:
        result = np.empty(values.shape, dtype=dtype)
    else:
        result = out
        if not isinstance(out, np.ndarray) or out.dtype != dtype or out.shape != values.shape:
            got = f"{out.dtype} {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ValueError(f"out is {got}: expected an array of {np.dtype(dtype).name} and shape {values.shape}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("out: expected a writeable C-contiguous array")
    flat = np.ascontiguousarray(values).reshape(-1)
    if out is not None and np.may_share_memory(flat, out) and flat.ctypes.data != out.ctypes.data:
        flat = flat.copy()
    flat_result, n_threads = result.reshape(-1), resolve_n_threads(n_threads, "n_threads")

    def work(first: int, last: int, worker: int) -> None:
        native.pg_mean(flat[first:last], float(b), flat_result[first:last], isa)

    map_chunks(flat.size, PG_CHUNK, n_threads, work)
    return result if out is not None or result.ndim else result[()]


class Rows(NamedTuple):
    """Validated design rows with their responses, as the kernels take them.

    ``indptr`` is None for dense rows, whose ``indices`` are of no use. ``values`` is flat float32 or float64; with
    ``unit`` every stored entry is 1 and ``values`` is not read, which gives the same bits.
    """

    n_rows: int
    n_features: int
    indptr: np.ndarray | None
    indices: np.ndarray
    values: np.ndarray
    unit: bool
    y: np.ndarray
    trials: np.ndarray | None


class Lattice(NamedTuple):
    """Public bounds of a contribution and grids of its parts, as kernels take them."""

    row_norm: float  #: Rows are scaled down to this norm.
    n_trials: float
    scale_linear: float  #: What s1 is divided by; infinity leaves it out, as for s2.
    scale_quadratic: float
    clip_norm: float  #: The bound of a contribution.
    spacing: float  #: Grid of s1.
    factor_spacing: float  #: Grid of the factors of s2.


def workspace(n_features: int, dense: bool, isa: str | None = None) -> np.ndarray:
    """Allocate memory for one thread's logistic regression kernels."""
    return np.empty(native.logistic_workspace(n_features, dense, isa) // 8 + 1).view(np.uint8)


def triangle_size(n_features: int) -> int:
    """Count the entries of a packed upper triangle."""
    return n_features * (n_features + 1) // 2


def unpack_upper(packed: np.ndarray, n_features: int, off_diagonal: float = 1.0) -> np.ndarray:
    """Unpack a symmetric matrix from its upper triangle, row by row.

    ``off_diagonal`` is a factor of the entries off the diagonal.
    """
    d = n_features
    matrix = np.zeros((d, d))
    matrix[np.tri(d, dtype=bool).T] = packed
    diagonal = matrix.diagonal().copy()
    matrix *= off_diagonal
    for i in range(0, d, 256):
        # Mirrored in blocks: one column at a time would touch a cache line for each entry.
        block = slice(i, min(i + 256, d))
        matrix[block, :i] = matrix[:i, block].T
        matrix[block, block] += matrix[block, block].T
    matrix.flat[:: d + 1] = diagonal
    return matrix


def factor_spacing(clip_norm: float) -> float:
    """Compute the grid h of the quadratic statistic's factors.

    It is the finest with L/h^2 < 2^41, so that sums of 2^21 records fit 62 bits. ``clip_norm`` is the L2 bound L of a
    contribution. Let L = m 2^e, 1/2 <= m < 1. Then h is 2^ceil((e - 41) / 2): a constant relative to the clip.
    """
    # frexp: clip_norm <= 2^exponent.
    exponent = math.frexp(clip_norm)[1]
    return math.ldexp(1.0, math.ceil((exponent - MAX_FACTOR_BITS) / 2))
