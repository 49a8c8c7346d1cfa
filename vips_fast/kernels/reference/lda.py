"""LDA E-step in plain numpy."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma

from ..lattice import count_spacing, noise_spacing
from ..results import LdaEStep


def lda_estep(
    indptr: np.ndarray, indices: np.ndarray, counts: np.ndarray, exp_elog_beta: np.ndarray, alpha: np.ndarray, *,
    tol: float = 1e-3, max_iter: int = 100, clip_norm: float | None = None, spacing: float | None = None,
    dtype: str = "float64", n_threads: int = 1,
) -> LdaEStep:
    """E-step of Algorithm 3, one document after the other; see `vips_fast.kernels.lda_estep`.

    Always float64 and one thread; `dtype` and `n_threads` are accepted so that the
    two functions can be exchanged.
    """
    indptr, indices = np.asarray(indptr), np.asarray(indices)
    counts = np.asarray(counts, dtype=np.float64)
    beta = np.asarray(exp_elog_beta, dtype=np.float64)
    n_topics, n_words = beta.shape
    n_docs = len(indptr) - 1
    alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), (n_topics,))
    totals = np.array([counts[indptr[d] : indptr[d + 1]].sum() for d in range(n_docs)])
    if spacing is None:
        spacing = noise_spacing(0.0, clip_norm) if clip_norm else count_spacing(totals.max(initial=0), totals.sum())
    limit = np.floor(clip_norm / spacing) if clip_norm else np.inf

    top = beta.max(axis=0)
    beta = beta / np.where(top > 0, top, 1.0)
    gamma = np.tile(alpha, (n_docs, 1))
    sums = np.zeros((n_topics, n_words), dtype=np.int64)
    n_iter = np.zeros(n_docs, dtype=np.int32)
    norms = np.zeros(n_docs)
    for d in range(n_docs):
        if totals[d] == 0:
            continue
        columns, c = np.unique(indices[indptr[d] : indptr[d + 1]], return_inverse=True)
        c = np.bincount(c, weights=counts[indptr[d] : indptr[d + 1]])
        b = beta[:, columns]
        g = alpha + totals[d] / n_topics

        def weights(g: np.ndarray) -> np.ndarray:
            # The common factor exp(-psi(sum gamma)) cancels in phi.
            e = digamma(g)
            return np.exp(e - e.max())

        theta = weights(g)
        phi_norm = theta @ b + 1e-300
        while n_iter[d] < max_iter:
            last = g
            g = alpha + theta * (b @ (c / phi_norm))
            theta = weights(g)
            phi_norm = theta @ b + 1e-300
            n_iter[d] += 1
            if np.abs(g - last).mean() < tol:
                break
        gamma[d] = g
        s = theta[:, None] * b * (c / phi_norm)
        norms[d] = np.sqrt((s * s).sum())
        if clip_norm and norms[d] > clip_norm:
            s *= clip_norm / norms[d]
        q = np.trunc(s / spacing).astype(np.int64)
        while clip_norm and sum(int(x) ** 2 for x in q[q != 0]) > limit**2:
            q = np.trunc(q * (1 - 2.0**-16)).astype(np.int64)
        sums[:, columns] += q
    return LdaEStep(gamma, sums * spacing, n_iter, norms)
