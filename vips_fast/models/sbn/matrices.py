"""Views and forms of many small symmetric matrices."""

import numpy as np


def diagonals(matrices: np.ndarray) -> np.ndarray:
    """Writable view of the diagonals of (n, K, K) matrices."""
    view: np.ndarray = np.einsum("jkk->jk", matrices)
    return view


def symmetric(upper: np.ndarray, n_hidden: int) -> np.ndarray:
    """A K x K matrix with diagonal 0 from its strict upper triangle, row after row."""
    out = np.zeros((n_hidden, n_hidden))
    out[np.triu_indices(n_hidden, 1)] = upper
    return np.asarray(out + out.T)
