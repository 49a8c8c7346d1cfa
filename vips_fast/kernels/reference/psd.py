"""Repair of spectra in plain numpy."""

import numpy as np

__all__ = ["floor_spectrum", "psd_project"]


def psd_project(A: np.ndarray, floor: float = 0.0) -> np.ndarray:
    w, V = np.linalg.eigh(A)
    projected: np.ndarray = (V * np.maximum(w, floor)) @ V.T
    return projected


def floor_spectrum(matrices: np.ndarray, least: float) -> np.ndarray:
    """See `vips_fast.kernels.psd.floor_spectrum`: one matrix after the other."""
    flat = np.reshape(matrices, (-1, *np.shape(matrices)[-2:]))
    return np.array([psd_project(A, least) for A in flat]).reshape(np.shape(matrices))
