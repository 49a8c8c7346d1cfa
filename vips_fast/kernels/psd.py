"""Projection of a symmetric matrix onto the positive semidefinite ones."""

from __future__ import annotations

import math
from numbers import Real
from types import ModuleType

import numpy as np

from .threads import one_blas_thread

__all__ = ["floor_spectrum", "psd_project"]

#: Below this dimension a Cholesky factorization is tried first.
_CHOLESKY_BELOW = 512
#: dstemr takes about 0.2 d microseconds a vector, dstevd does all d for the price of about d / 7 of them.
_FEW = 1 / 7


def psd_project(A: np.ndarray, floor: float = 0.0) -> np.ndarray:
    """Project to the nearest symmetric matrix without eigenvalues below ``floor``.

    Equivalent to ``w, V = np.linalg.eigh(A); (V * np.maximum(w, floor)) @ V.T``, within d 2^-50 max|w| in each entry.
    Eigenvectors are computed only on the side of ``floor`` with fewer eigenvalues. If no eigenvalue is below, a copy of
    A is returned, and if all are below, floor I. For d < 512 that comes after no more than a Cholesky factorization.

    A is (d, d) float64, symmetric and finite; it is not changed. The result is exactly symmetric; rounding can leave
    its eigenvalues below ``floor`` by d 2^-50 max|w|. Raises ValueError or TypeError if an argument is not as said, and
    numpy.linalg.LinAlgError if an eigenvalue iteration fails.

    Notes
    -----
    First comes Householder tridiagonalisation A = Q T Q' (LAPACK dsytrd). Then come the number of eigenvalues below
    ``floor`` from the signs of the pivots of T - floor I (Sturm, Sylvester), and their eigenvectors Z of T (dstemr, or
    dstevd if they are many). The result is A + X X' with X = Q Z sqrt(floor - w). Or it is, from the other side, floor
    I + X X' with X = Q Z sqrt(w - floor).
    """
    if not isinstance(A, np.ndarray) or A.dtype != np.float64:
        raise TypeError(f"A: expected a float64 array, got {getattr(A, 'dtype', type(A).__name__)}")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.size == 0:
        raise ValueError(f"A has shape {A.shape}: expected (d, d) with d >= 1")
    if isinstance(floor, (bool, np.bool_)) or not isinstance(floor, Real):
        raise TypeError(f"floor={floor!r}: expected a real number")
    if not math.isfinite(floor):
        raise ValueError(f"floor={floor!r}: expected a finite number")
    if not np.isfinite(A).all():
        raise ValueError("A: expected finite entries")
    if not np.array_equal(A, A.T):
        raise ValueError("A: expected a symmetric matrix")
    with one_blas_thread(len(A)) as lapack:
        return _raised(A, float(floor), lapack)


def _fortran(A: np.ndarray) -> np.ndarray:
    """Copy a symmetric matrix, whose transpose will do, in Fortran order."""
    return np.array(A.T if A.flags.c_contiguous else A, order="F")


def _raised(A: np.ndarray, floor: float, lapack: ModuleType) -> np.ndarray:
    d = len(A)
    out: np.ndarray
    if d == 1:
        return np.asarray(np.maximum(A, floor))
    if d < _CHOLESKY_BELOW and A.diagonal().max() < floor:
        # Noise all but surely puts eigenvalues on both sides of floors inside its spectrum, not of one beyond it.
        shifted = np.negative(A).T if A.flags.c_contiguous else np.negative(_fortran(A))
        shifted.flat[:: d + 1] += floor
        if lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=0)[1] == 0:
            out = np.zeros(A.shape)
            out.flat[:: d + 1] = floor
            return out
    # Not for large d: it costs a tenth of the whole there, and noise has all but surely left negative eigenvalues.
    if d < _CHOLESKY_BELOW and A.diagonal().min() > floor:
        shifted = _fortran(A)
        if floor:
            shifted.flat[:: d + 1] -= floor
        if lapack.dpotrf(shifted, lower=1, overwrite_a=1, clean=0)[1] == 0:
            return A.copy()
    work = int(lapack.dsytrd_lwork(d, lower=1)[0])
    reflectors, diagonal, beside, tau, info = lapack.dsytrd(_fortran(A), lower=1, lwork=work, overwrite_a=1)
    _require(info, "dsytrd")
    below = _count_below(diagonal, beside, floor)
    if below == 0:
        return A.copy()
    add = 2 * below <= d
    w, Z = _tridiagonal_eigenpairs(diagonal, beside, 0 if add else below, below if add else d, lapack)
    if w.size:
        # Q does not change the first coordinate: dormtr is dormqr on the rest.
        rest = np.asfortranarray(Z[1:])
        work = int(lapack.dormqr("L", "N", reflectors[1:, :-1], tau, rest, -1)[1][0])
        Z[1:], _, info = lapack.dormqr("L", "N", reflectors[1:, :-1], tau, rest, work, overwrite_c=1)
        _require(info, "dormqr")
        # Beyond the count, an eigenvalue that rounding put on the wrong side counts as floor.
        Z *= np.sqrt(np.maximum(floor - w if add else w - floor, 0.0))
        out = Z @ Z.T  # numpy sees the transpose, computes one triangle (dsyrk) and copies it
    else:
        out = np.zeros((d, d))
    if add:
        out += A
    else:
        out.flat[:: d + 1] += floor
    return out


def diagonals(matrices: np.ndarray) -> np.ndarray:
    """View the diagonals of (n, d, d) matrices; the view is writable."""
    view: np.ndarray = np.einsum("jkk->jk", matrices)
    return view


def floor_spectrum(matrices: np.ndarray, least: float) -> np.ndarray:
    """Raise eigenvalues below ``least`` to it, for symmetric matrices (..., d, d).

    `psd_project` for many small matrices: without its checks, and by one batched eigendecomposition.
    """
    values, vectors = np.linalg.eigh(matrices)
    raised: np.ndarray = (vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return raised


def _require(info: int, routine: str) -> None:
    if info != 0:
        raise np.linalg.LinAlgError(f"{routine} failed (info={info})")


def _count_below(diagonal: np.ndarray, beside: np.ndarray, floor: float) -> int:
    """Count a tridiagonal matrix's eigenvalues below floor, by negative pivots."""
    below, pivot = 0, 1.0
    # Divided first: a square could overflow or vanish. An infinite pivot has the right sign and effect.
    with np.errstate(over="ignore", divide="ignore"):
        for x, b in zip(diagonal - floor, np.append(0.0, beside), strict=True):
            pivot = x - b * (b / pivot) if b else x
            if pivot == 0:
                pivot = np.finfo(np.float64).tiny
            below += bool(pivot < 0)
    return below


def _tridiagonal_eigenpairs(
    diagonal: np.ndarray, beside: np.ndarray, first: int, last: int, lapack: ModuleType
) -> tuple[np.ndarray, np.ndarray]:
    """Find eigenpairs first .. last - 1, ascending, with Fortran-ordered vectors."""
    d = len(diagonal)
    stevd = getattr(lapack, "dstevd", None)  # absent from older SciPy
    if stevd is not None and last - first > _FEW * d:
        w, Z, info = stevd(diagonal, beside, compute_v=1)
        _require(info, "dstevd")
        return w[first:last], np.asfortranarray(Z[:, first:last])
    if first == last:
        return np.empty(0), np.empty((d, 0))
    # dstemr wants space for d off-diagonal entries.
    _, w, Z, info = lapack.dstemr(diagonal, np.append(beside, 0.0), 2, 0.0, 0.0, first + 1, last, compute_v=1)
    _require(info, "dstemr")
    return w[: last - first], np.asfortranarray(Z[:, : last - first])
