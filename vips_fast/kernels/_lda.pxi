# Bindings of the kernels in csrc/lda.

ctypedef fused real:
    float
    double

LDA_RESAMPLE_TOKENS = VF_LDA_RESAMPLE_TOKENS
LDA_AS_IS = VF_LDA_AS_IS
LDA_RESAMPLE = VF_LDA_RESAMPLE
LDA_SCALE = VF_LDA_SCALE
SHRINK_GRID = VF_SHRINK_GRID


def lda_stride(int64_t n_topics):
    """Columns of the table for a number of topics."""
    return VF_LDA_STRIDE(n_topics)


def lda_table(const double[:, :] exp_elog_beta, real[:, ::1] table, isa=None):
    """Fill the word-major (V x K) scaled table from a K x V array of any strides."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t n_topics = exp_elog_beta.shape[0], n_words = exp_elog_beta.shape[1]
    cdef int64_t st = exp_elog_beta.strides[0] // 8, sw = exp_elog_beta.strides[1] // 8
    cdef int32_t status
    if table.shape[0] != n_words or table.shape[1] != VF_LDA_STRIDE(n_topics):
        raise RuntimeError("table has the wrong shape")
    with nogil:
        if real is float:
            status = api.lda_table_f32(n_topics, n_words, &exp_elog_beta[0, 0], st, sw, &table[0, 0])
        else:
            status = api.lda_table_f64(n_topics, n_words, &exp_elog_beta[0, 0], st, sw, &table[0, 0])
    _check(status)


def lda_workspace(int64_t n_topics, int64_t max_doc_words, bint single, isa=None):
    """Bytes of workspace for documents of at most max_doc_words distinct words."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t size
    if single:
        size = api.lda_workspace_f32(n_topics, max_doc_words)
    else:
        size = api.lda_workspace_f64(n_topics, max_doc_words)
    if size < 0:
        raise MemoryError("the E-step's workspace does not fit the address space")
    return size


def lda_estep(const int64_t[::1] indptr, const int32_t[::1] indices, const double[::1] counts,
              const real[:, ::1] table, const double[::1] alpha, double tol, int32_t max_iter, double clip_norm,
              double spacing, workspace, double[:, ::1] gamma, int64_t[:, ::1] sums, int32_t[::1] n_iter,
              double[::1] norms, isa=None):
    """E-step of a block of documents; gamma, sums, n_iter and norms may be None."""
    cdef const vf_api *api = _table(isa)
    cdef vf_lda_params params
    params.tol = tol
    params.max_iter = max_iter
    params.clip_norm = clip_norm
    params.spacing = spacing
    cdef int64_t n_docs = indptr.shape[0] - 1
    cdef unsigned char[::1] work = workspace
    cdef double *pg = NULL
    cdef int64_t *ps = NULL
    cdef int32_t *pi = NULL
    cdef double *pn = NULL
    cdef const int32_t *pind = NULL
    cdef const double *pc = NULL
    cdef int32_t status
    if n_docs <= 0:
        return
    _room(indices.shape[0], indptr[n_docs])
    _room(counts.shape[0], indptr[n_docs])
    _same(table.shape[1], VF_LDA_STRIDE(alpha.shape[0]))
    if gamma is not None:
        _room(gamma.shape[0], n_docs)
        _same(gamma.shape[1], alpha.shape[0])
        pg = &gamma[0, 0]
    if sums is not None:
        _same(sums.shape[0], table.shape[0])
        _same(sums.shape[1], alpha.shape[0])
        ps = &sums[0, 0]
    if n_iter is not None:
        _room(n_iter.shape[0], n_docs)
        pi = &n_iter[0]
    if norms is not None:
        _room(norms.shape[0], n_docs)
        pn = &norms[0]
    if indices.shape[0]:
        pind = &indices[0]
        pc = &counts[0]
    with nogil:
        if real is float:
            status = api.lda_estep_f32(n_docs, alpha.shape[0], table.shape[0], &params, &indptr[0], pind, pc,
                                       &table[0, 0], &alpha[0], &work[0], work.shape[0], pg, ps, pi, pn)
        else:
            status = api.lda_estep_f64(n_docs, alpha.shape[0], table.shape[0], &params, &indptr[0], pind, pc,
                                       &table[0, 0], &alpha[0], &work[0], work.shape[0], pg, ps, pi, pn)
    _check(status)


def lda_gather(const int64_t[::1] rows, int32_t mode, int64_t doc_length, const int64_t[::1] indptr,
               const int32_t[::1] indices, const int32_t[::1] counts, const uint64_t[::1] seeds, uint32_t[::1] scratch,
               int64_t[::1] out_indptr, int32_t[::1] out_indices, double[::1] out_counts, isa=None):
    """Bring rows of a corpus into a block; seeds and scratch may be None unless mode resamples."""
    cdef const vf_api *api = _table(isa)
    cdef vf_gather_params params
    cdef int64_t n_docs = rows.shape[0], n_rows = indptr.shape[0] - 1, d
    cdef const uint64_t *pseeds = NULL
    cdef uint32_t *pscratch = NULL
    cdef int32_t status
    _room(out_indptr.shape[0], n_docs + 1)
    _room(out_counts.shape[0], out_indices.shape[0])
    _room(counts.shape[0], indices.shape[0])
    for d in range(n_docs):
        if 0 <= rows[d] < n_rows:
            _room(indices.shape[0], indptr[rows[d] + 1])
    if seeds is not None and n_docs:
        _room(seeds.shape[0], n_docs)
        pseeds = &seeds[0]
    if scratch is not None:
        pscratch = &scratch[0]
    if n_docs == 0 or indices.shape[0] == 0:
        out_indptr[:] = 0
        return
    params.n_docs, params.n_rows, params.capacity = n_docs, n_rows, out_indices.shape[0]
    params.mode, params.doc_length = mode, doc_length
    params.scratch_items = 0 if scratch is None else scratch.shape[0]
    with nogil:
        status = api.lda_gather(&params, &rows[0], &indptr[0], &indices[0], &counts[0], pseeds, pscratch,
                                &out_indptr[0], &out_indices[0], &out_counts[0])
    _check(status)


def shrink_means(const double[:, ::1] average, double sd, const double[::1] word_mass, const double[::1] topic_weight,
                 const float[::1] grid, const float[:, ::1] prior, const int32_t[::1] band, float[::1] workspace,
                 float[:, ::1] means, double[:, ::1] responsibility, isa=None):
    """Posterior means and EM weights of a chunk of words; either output may be None."""
    cdef const vf_api *api = _table(isa)
    cdef vf_shrink_params params
    cdef float *pm = NULL
    cdef double *pr = NULL
    cdef int32_t status
    if average.shape[0] == 0:
        return
    _room(workspace.shape[0], 2 * average.shape[1] + 32)
    _same(word_mass.shape[0], average.shape[0])
    _same(topic_weight.shape[0], average.shape[1])
    _same(band.shape[0], average.shape[0])
    _same(prior.shape[1], grid.shape[0])
    if means is not None:
        _same(means.shape[0], average.shape[0])
        _same(means.shape[1], average.shape[1])
        pm = &means[0, 0]
    if responsibility is not None:
        _same(responsibility.shape[0], prior.shape[0])
        _same(responsibility.shape[1], prior.shape[1])
        pr = &responsibility[0, 0]
    params.n_words, params.n_topics = average.shape[0], average.shape[1]
    params.n_grid, params.n_bands, params.sd = grid.shape[0], prior.shape[0], sd
    with nogil:
        status = api.shrink_means(&params, &average[0, 0], &word_mass[0], &topic_weight[0], &grid[0], &prior[0, 0],
                                  &band[0], &workspace[0], pm, pr)
    _check(status)
