"""Repair of noised second moments, and linear systems in what was repaired."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from ...kernels.psd import raise_spectrum


def floor_spectrum(matrices: np.ndarray, least: float) -> np.ndarray:
    """Symmetric matrices with eigenvalues below ``least`` raised to it, all at once.

    Parameters
    ----------
    matrices : (..., K, K) float array, symmetric
    least : float

    Returns
    -------
    (..., K, K) float array
    """
    values, vectors = np.linalg.eigh(matrices)
    return np.asarray((vectors * np.maximum(values, least)[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def solve_repaired(
    moments: np.ndarray, least: float, extra: np.ndarray, right: np.ndarray, lapack: ModuleType
) -> tuple[np.ndarray, np.ndarray]:
    """Solve (F(M_j) + diag(e_j)) x = r for many j, F the repair of `floor_spectrum`.

    Parameters
    ----------
    moments : (m, K, K) C-contiguous float64 array
        Symmetric; entries on and right of the diagonals are read. Overwritten.
    least : float > 0
        Least eigenvalue of F(M_j).
    extra : (m, K) float64 array, >= 0
    right : (m, K, r) float64 array
    lapack : `scipy.linalg.lapack`

    Returns
    -------
    solutions : (m, K, r) float64 array
    variances : (m, K) float64 array
        Diagonals of the inverses.
    """
    solutions, variances = np.empty(right.shape), np.empty(extra.shape)
    for j, matrix in enumerate(moments):
        repaired = raise_spectrum(matrix, least, lapack)
        if repaired is None:
            # F is least I: noise drowned the matrix.
            variances[j] = 1.0 / (least + extra[j])
            solutions[j] = variances[j][:, None] * right[j]
            continue
        repaired.flat[:: len(matrix) + 1] += extra[j]
        factor, info = lapack.dpotrf(repaired.T if repaired.flags.c_contiguous else repaired, lower=1, overwrite_a=1)
        if info != 0:
            raise np.linalg.LinAlgError(f"dpotrf failed (info={info})")
        solutions[j] = lapack.dpotrs(factor, right[j], lower=1)[0]
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        variances[j] = np.einsum("ik,ik->k", inverse, inverse)
    return solutions, variances


def diagonals(matrices: np.ndarray) -> np.ndarray:
    """Writable view of the diagonals of (n, K, K) matrices."""
    view: np.ndarray = np.einsum("jkk->jk", matrices)
    return view


def symmetric(upper: np.ndarray, n_hidden: int) -> np.ndarray:
    """A K x K matrix with diagonal 0 from its strict upper triangle, row after row."""
    out = np.zeros((n_hidden, n_hidden))
    out[np.triu_indices(n_hidden, 1)] = upper
    return np.asarray(out + out.T)
