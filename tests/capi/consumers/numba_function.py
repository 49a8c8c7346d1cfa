"""The LDA E-step from a Numba function. One block of documents in each of Numba's own threads."""

import numpy as np
from numba import njit, prange

from vips_fast.kernels import numba_types

make_table = numba_types.lda_table_f32
workspace_bytes = numba_types.lda_workspace_f32
lda_estep = numba_types.lda_estep_f32
null = numba_types.null


@njit(parallel=True)
def estep_njit(edges, docs, longest, beta, alpha, params, gamma, sums):
    n_topics, n_words = beta.shape
    table = np.empty((n_words, (n_topics + 15) // 16 * 16), dtype=np.float32)
    status = make_table(n_topics, n_words, beta.ctypes, n_words, 1, table.ctypes)
    if status != 0:
        return status
    n_threads = len(docs)
    parts = np.zeros((n_threads, n_words, n_topics), dtype=np.int64)
    codes = np.zeros(n_threads, dtype=np.int32)
    for t in prange(n_threads):
        size = workspace_bytes(n_topics, longest)
        workspace = np.empty(size // 8 + 1)
        codes[t] = lda_estep(
            params.ctypes,
            docs[t:].ctypes,
            table.ctypes,
            alpha.ctypes,
            workspace.ctypes,
            size,
            gamma[edges[t] :].ctypes,
            parts[t].ctypes,
            null(),
            null(),
        )
    sums += parts.sum(axis=0)
    return codes.max()


def estep(indptr, indices, counts, beta, alpha, tol, max_iter, clip_norm, spacing, n_threads, gamma, sums):
    params = numba_types.parameters(
        "vf_lda_params", tol=tol, max_iter=max_iter, clip_norm=clip_norm, spacing=spacing, n_topics=len(alpha)
    )
    edges = len(gamma) * np.arange(n_threads + 1) // n_threads
    docs = np.concatenate(
        [
            numba_types.parameters(
                "vf_rows_f64",
                n_rows=last - first,
                n_columns=beta.shape[1],
                indptr=indptr[first:],
                indices=indices,
                values=counts,
            )
            for first, last in zip(edges, edges[1:])
        ]
    )
    return estep_njit(edges, docs, np.diff(indptr).max(), beta, alpha, params, gamma, sums)
