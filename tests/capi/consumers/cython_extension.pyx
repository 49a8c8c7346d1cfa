# cython: language_level=3, boundscheck=False, wraparound=False
"""A Cython extension that runs the LDA E-step from threads of its own, without the GIL."""
import threading

import numpy as np

from libc.stdint cimport int32_t, int64_t
from vips_fast.kernels cimport VF_LDA_STRIDE, vf_api, vf_lda_params, vf_rows_f64, vips_fast_import

cdef const vf_api *api = vips_fast_import()


def block(const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] counts, const float[:, ::1] table,
          const double[::1] alpha, double tol, int32_t max_iter, double clip_norm, double spacing, double[:, ::1] gamma,
          int64_t[:, ::1] sums, int64_t longest):
    cdef vf_lda_params params
    params.tol, params.max_iter, params.clip_norm, params.spacing = tol, max_iter, clip_norm, spacing
    params.n_topics = alpha.shape[0]
    cdef vf_rows_f64 docs
    docs.n_rows, docs.n_columns = gamma.shape[0], table.shape[0]
    docs.indptr, docs.indices, docs.values = &indptr[0], &indices[0], &counts[0]
    cdef int64_t size = api.lda_workspace_f32(alpha.shape[0], longest)
    cdef double[::1] workspace = np.empty(size // 8 + 1)
    cdef int32_t status
    with nogil:
        status = api.lda_estep_f32(&params, &docs, &table[0, 0], &alpha[0], &workspace[0], size, &gamma[0, 0],
                                   &sums[0, 0], NULL, NULL)
    if status:
        raise RuntimeError(api.status_message(status).decode())


def estep(indptr, indices, counts, const double[:, ::1] beta, alpha, tol, max_iter, clip_norm, spacing, n_threads,
          gamma, sums):
    cdef int64_t n_topics = beta.shape[0], n_words = beta.shape[1]
    cdef float[:, ::1] table = np.empty((n_words, VF_LDA_STRIDE(n_topics)), dtype=np.float32)
    cdef int32_t status = api.lda_table_f32(n_topics, n_words, &beta[0, 0], n_words, 1, &table[0, 0])
    if status:
        raise RuntimeError(api.status_message(status).decode())
    edges = [len(gamma) * t // n_threads for t in range(n_threads + 1)]
    parts = [np.zeros_like(sums) for _ in range(n_threads)]
    longest = int(np.diff(indptr).max())
    threads = [
        threading.Thread(
            target=block,
            args=(indptr[a : b + 1], indices, counts, table, alpha, tol, max_iter, clip_norm, spacing, gamma[a:b], part,
                  longest),
        )
        for a, b, part in zip(edges, edges[1:], parts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for part in parts:
        sums += part
    return 0
