"""Checked Python entries of the noise kernels.

A draw is round(N(0, scale^2)), exactly rounded, on bits from ChaCha20 under a fresh 256-bit key. The operating system
gives the key for each call, and it is wiped when the call ends. Nothing stays between calls, so nothing can be repeated
by a fork, a thread, a pickle or a snapshot. `unsafe_test_key` replaces the key by a known one; noise made so protects
nobody.
"""

from __future__ import annotations

import math
from functools import lru_cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from typing_extensions import Buffer

from ..checks import check_choice
from . import native
from .threads import map_chunks, resolve_n_threads

__all__ = ["add_rounded_gaussian", "rounded_gaussian", "symmetric_gaussian"]

#: Largest scale, 2^50: with `REACH` it keeps draws below 2^56.
MAX_SCALE = native.GAUSSIAN_MAX_SCALE
#: No draw is further from 0 than this many scales; see docs/noise.md.
REACH = native.GAUSSIAN_REACH

#: Elements of one block of a threaded call: 150 microseconds of work, and a whole number of the kernel's groups of 128.
BLOCK = 1 << 16
#: Rows of a symmetric matrix that a thread takes at a time.
ROWS = 256

_INT64_MAX = 2**63 - 1


def _check_scale(scale: Any) -> float:
    if isinstance(scale, (bool, np.bool_)) or not isinstance(scale, Real):
        raise TypeError(f"scale={scale!r}: expected a real number")
    value = float(scale)
    if not 0 < value <= MAX_SCALE:
        raise ValueError(f"scale={scale!r}: expected a number in (0, 2^50]")
    return value


def _check_size(size: Any) -> tuple[int, ...]:
    shape = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    for n in shape:
        if isinstance(n, (bool, np.bool_)) or not isinstance(n, Integral):
            raise TypeError(f"size={size!r}: expected an integer or a tuple of integers")
    if not shape or min(shape) < 1 or math.prod(shape) > 2**48:
        raise ValueError(f"size={size!r}: expected between 1 and 2^48 elements")
    return tuple(int(n) for n in shape)


def _key(key: Any) -> native.Key:
    """Make the kernel's key: a fresh one for None. Refuse a malformed test key, without showing it."""
    if key is None:
        return native.Key()
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"unsafe_test_key: expected 32 bytes or None, got {type(key).__name__}")
    if memoryview(key).nbytes != 32:
        raise ValueError(f"unsafe_test_key: expected 32 bytes or None, got {memoryview(key).nbytes}")
    return native.Key(memoryview(key).cast("B"))


def _check_sums(name: str, array: Any) -> None:
    """Refuse all but int64 arrays that can be added to in place."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name}: expected an int64 array, got {type(array).__name__}")
    if array.dtype != np.int64 or not array.dtype.isnative:
        raise TypeError(f"{name} has dtype {array.dtype}: expected int64")
    if array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}: expected at least one element")
    if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
        raise ValueError(f"{name}: expected a C-contiguous, aligned and writeable array")


def rounded_gaussian(
    scale: float,
    size: int | tuple[int, ...],
    *,
    unsafe_test_key: Buffer | None = None,
    n_threads: int = 1,
    isa: str | None = None,
) -> np.ndarray:
    """Draw round(N(0, scale^2)) independently, exactly rounded: int64 of shape ``size``.

    Equivalent to ``np.rint(scale * standard_normal(size)).astype(np.int64)`` in arithmetic of unlimited precision, on
    uniform numbers of unlimited length. No entry is beyond 64 * scale.

    ``scale`` is in (0, 2^50], ``size`` has at least one element. ``unsafe_test_key`` None takes a fresh key from the
    operating system. A given one, of 32 bytes, makes the draws a known function of the element's number. They are the
    same for every instruction set and number of threads, and such noise is NOT private. ``n_threads`` is the number of
    threads, -1 for all processors, ``isa`` an instruction set to use in place of the one chosen at import.

    Raises ValueError or TypeError if an argument is out of its range, and OSError if the operating system gives no
    random bits; nothing is drawn.

    Notes
    -----
    Box-Muller (Box & Muller 1958) on ChaCha20 keystream; docs/noise.md has the algorithm, its error bound and the basis
    of its security.
    """
    value, shape = _check_scale(scale), _check_size(size)
    n_threads = resolve_n_threads(n_threads, "n_threads")
    out = np.empty(math.prod(shape), dtype=np.int64)
    with _key(unsafe_test_key) as key:

        def draw(start: int, stop: int, worker: int) -> None:
            native.rounded_gaussian(key, start, value, out[start:stop], isa)

        map_chunks(out.size, out.size if n_threads == 1 else BLOCK, n_threads, draw)
    return out.reshape(shape)


def add_rounded_gaussian(
    sums: np.ndarray, scale: float, *, unsafe_test_key: Buffer | None = None, n_threads: int = 1, isa: str | None = None
) -> None:
    """Add independent draws of round(N(0, scale^2)) to an int64 array, in place.

    Equivalent to ``sums += rounded_gaussian(scale, sums.shape)``. As ``sums`` is integer, the result is round(sums +
    N(0, scale^2)): a function of the output of the exact Gaussian mechanism. Every bound for that mechanism applies to
    it.

    ``sums`` is C-contiguous and writeable, of at least one element; other arguments are as for `rounded_gaussian`.
    Raises ValueError or TypeError if an argument is out of its range, or if entry + 64 * scale exceeds int64 for an
    entry of ``sums``. Raises OSError if the operating system gives no random bits. Then nothing is drawn or changed.
    """
    value = _check_scale(scale)
    _check_sums("sums", sums)
    n_threads = resolve_n_threads(n_threads, "n_threads")
    flat = sums.reshape(-1)
    size = flat.size if n_threads == 1 else BLOCK
    try:
        if n_threads > 1:
            # The kernel checks its own block first; here all must pass before any is drawn.
            limit = _INT64_MAX - math.ceil(REACH * value) - 1
            map_chunks(flat.size, size, n_threads, lambda a, b, _: native.int64_check(limit, flat[a:b], isa))
        with _key(unsafe_test_key) as key:

            def draw(start: int, stop: int, worker: int) -> None:
                native.add_rounded_gaussian(key, start, value, flat[start:stop], isa)

            map_chunks(flat.size, size, n_threads, draw)
    except OverflowError:
        raise ValueError("sums: an entry is so large that adding noise could leave int64") from None


@lru_cache(maxsize=64)
def half_power_scale(scale: float) -> float:
    """Find the least double that is not below scale / sqrt(2)."""
    top, bottom = scale.as_integer_ratio()

    def reaches(value: float) -> bool:
        a, b = value.as_integer_ratio()
        return 2 * (a * bottom) ** 2 >= (top * b) ** 2

    value = scale * math.sqrt(0.5)
    while reaches(value):
        value = math.nextafter(value, 0.0)
    while not reaches(value):
        value = math.nextafter(value, math.inf)
    return value


def symmetric_gaussian(
    matrix: np.ndarray,
    scale: float,
    *,
    form: str = "orthonormal",
    unsafe_test_key: Buffer | None = None,
    n_threads: int = 1,
    isa: str | None = None,
) -> None:
    """Add exactly rounded Gaussian noise to a symmetric int64 matrix, in place.

    The matrix is (d, d), C-contiguous and writeable. With ``form="analyze_gauss"`` draws are independent, of standard
    deviation ``scale`` on and above the diagonal, and mirrored. (See Dwork, Talwar, Thakurta & Zhang 2014.) With
    "orthonormal" they have ``scale`` on the diagonal and ``scale / sqrt(2)``, rounded up to a double, off it. Other
    arguments are as for `rounded_gaussian`.

    Raises ValueError or TypeError if an argument is out of its range, the matrix is not symmetric, or noise could lead
    an entry out of int64. Raises OSError if the operating system gives no random bits. Then nothing is drawn or
    changed.

    Notes
    -----
    Why ``scale / sqrt(2)`` is enough. Take <A, B> = sum_ij A_ij B_ij. The matrices E_ii and (E_ij + E_ji)/sqrt(2), i <
    j, are an orthonormal basis of the symmetric matrices. (E_ij has a single 1.) Each has norm 1, and two different
    ones share no nonzero position. The coordinates of A in it are A_ii and sqrt(2) A_ij, and their L2 norm is A's
    Frobenius norm. The Gaussian mechanism with standard deviation s on these coordinates, for Frobenius sensitivity D,
    is therefore the Gaussian mechanism of a vector with sensitivity D. Its output is a bijective function of the matrix
    A_ii + s Z_ii, A_ij + (s/sqrt(2)) Z_ij (i < j, mirrored), Z independent standard normals. "analyze_gauss" adds more
    noise than that, so it is private too. Rounding to integers is post-processing, as A holds integers.

    Entry (i, j), j >= i, takes element number i d - i (i - 1)/2 + j - i of the key's noise. So the bits depend on
    neither blocks nor threads.
    """
    value = _check_scale(scale)
    check_choice("form", form, ("orthonormal", "analyze_gauss"))
    off = value if form == "analyze_gauss" else half_power_scale(value)
    _check_sums("matrix", matrix)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) >= 2**31:
        raise ValueError(f"matrix has shape {matrix.shape}: expected (d, d) with d in [1, 2^31)")
    n_threads = resolve_n_threads(n_threads, "n_threads")
    d, symmetric = len(matrix), list[bool]()
    rows = d if n_threads == 1 else ROWS
    limit = _INT64_MAX - math.ceil(REACH * value) - 1

    def check(first: int, last: int, worker: int) -> None:
        symmetric.append(native.symmetric_check(first, last, limit, matrix, isa))

    try:
        map_chunks(d, rows, n_threads, check)
    except OverflowError:
        raise ValueError("matrix: an entry is so large that adding noise could leave int64") from None
    if not all(symmetric):
        raise ValueError("matrix: expected a symmetric matrix")
    with _key(unsafe_test_key) as key:

        def draw(first: int, last: int, worker: int) -> None:
            native.symmetric_gaussian(key, first, last, value, off, matrix, isa)

        map_chunks(d, rows, n_threads, draw)
