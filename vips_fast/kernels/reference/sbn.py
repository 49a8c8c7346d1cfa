"""Sigmoid belief network kernels in plain numpy."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from .logistic import pg_mean

__all__ = ["sbn_clip", "sbn_cross", "sbn_gram", "sbn_pg", "sbn_quadratic", "sbn_visible_norms"]


def sbn_pg(
    y: np.ndarray,
    w: np.ndarray,
    w2: np.ndarray,
    c: np.ndarray,
    c_var: np.ndarray,
    b: np.ndarray,
    start: np.ndarray,
    *,
    n_sweeps: int = 5,
    dtype: str = "float64",
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute Eq. 70 in residual form over all records, in float64."""
    y, w, w2 = np.asarray(y, dtype=np.float64), np.asarray(w, dtype=np.float64), np.asarray(w2, dtype=np.float64)
    z = np.tile(np.asarray(start, dtype=np.float64), (len(y), 1))

    def xi_of(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        psi = c + z @ w.T
        var = c_var + z @ w2.T - (z * z) @ (w * w).T
        return psi, pg_mean(np.sqrt(psi * psi + np.maximum(var, 0)))

    psi, xi = xi_of(z)
    for _ in range(n_sweeps):
        residual = y - 0.5 - xi * psi
        own, half = xi @ (w * w), 0.5 * xi @ w2
        for k in range(w.shape[1]):
            new = expit(b[k] + residual @ w[:, k] + z[:, k] * own[:, k] - half[:, k])
            residual -= xi * np.outer(new - z[:, k], w[:, k])
            z[:, k] = new
        psi, xi = xi_of(z)
    return z, xi


def sbn_quadratic(
    y: np.ndarray,
    w: np.ndarray,
    gram: np.ndarray,
    linear: np.ndarray,
    start: np.ndarray,
    *,
    n_sweeps: int = 5,
    n_threads: int = 1,
) -> np.ndarray:
    """Coordinate updates under the constant-curvature bound; see `vips_fast.kernels.sbn_quadratic`."""
    y = np.asarray(y, dtype=np.float64)
    off = np.array(gram, dtype=np.float64)
    np.fill_diagonal(off, 0.0)
    a = linear + y @ np.asarray(w, dtype=np.float64)
    z = np.tile(np.asarray(start, dtype=np.float64), (len(y), 1))
    for _ in range(n_sweeps):
        for k in range(z.shape[1]):
            z[:, k] = expit(a[:, k] - z @ off[k])
    return z


def sbn_clip(
    x: np.ndarray,
    center: np.ndarray | None = None,
    factor: np.ndarray | None = None,
    *,
    clip_norm: float | None = None,
    spacing: float,
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Center, scale and truncate rows to integers; see the declaration in csrc/kernels.toml."""
    x = np.array(x, dtype=np.float64)
    if center is not None:
        x -= center
    factor = np.ones(len(x)) if factor is None else np.asarray(factor, dtype=np.float64)
    good = np.isfinite(x).all(axis=1)
    x[~good] = 0.0
    norms = np.sqrt((x * x).sum(axis=1))
    units = np.empty_like(x)
    for n in range(len(x)):
        scale = factor[n] / spacing
        if clip_norm is not None and norms[n] > clip_norm:
            scale *= clip_norm / norms[n]
        units[n] = np.trunc(x[n] * scale)
        if clip_norm is not None:
            limit = int(np.floor(clip_norm * factor[n] / spacing)) ** 2
            while sum(int(q) ** 2 for q in units[n]) > limit:
                units[n] -= np.sign(units[n])
    return units, norms


def sbn_visible_norms(y: np.ndarray, center: np.ndarray, *, n_threads: int = 1) -> np.ndarray:
    """Compute L2 norms of y - center, times 1 + 1e-9."""
    norms: np.ndarray = np.sqrt(((np.asarray(y, dtype=np.float64) - center) ** 2).sum(axis=1))
    return norms * (1 + 1e-9)


def sbn_cross(y: np.ndarray, v: np.ndarray, *, n_threads: int = 1) -> np.ndarray:
    """y'v in integers; see the declaration in csrc/kernels.toml."""
    return np.asarray(y, dtype=np.int64).T @ np.asarray(v).astype(np.int64)


def sbn_gram(v: np.ndarray, *, n_threads: int = 1) -> np.ndarray:
    """Compute the upper triangle of v'v without diagonal, in integers."""
    v = np.asarray(v).astype(np.int64)
    gram: np.ndarray = v.T @ v
    return gram[np.triu_indices(v.shape[1], 1)]
