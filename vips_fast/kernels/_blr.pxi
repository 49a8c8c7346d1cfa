# Bindings of the kernels in csrc/blr.


def pg_mean(const real[::1] c, double b, real[::1] out, isa=None):
    """out[i] = b tanh(c[i]/2) / (2 c[i])."""
    cdef const vf_api *api = _table(isa)
    cdef int32_t status
    cdef int64_t n = c.shape[0]
    if out.shape[0] != n:
        raise RuntimeError("out has the wrong length")
    if n == 0:
        return
    with nogil:
        if real is float:
            status = api.pg_mean_f32(n, <float> b, &c[0], &out[0])
        else:
            status = api.pg_mean_f64(n, b, &c[0], &out[0])
    _check(status)


def blr_workspace(int64_t n_features, bint dense, isa=None):
    """Bytes of workspace of the logistic regression kernels."""
    cdef int64_t size = _table(isa).blr_workspace(n_features, dense)
    if size < 0:
        raise MemoryError("the E-step's workspace does not fit the address space")
    return size


def blr_weights(int64_t n_features, const int64_t[::1] indptr, const int32_t[::1] indices, const real[::1] values,
                const double[::1] y, const double[::1] trials, const double[:, ::1] second_moment,
                const double[::1] center, double row_norm, double n_trials, double scale_linear,
                double scale_quadratic, double clip_norm, double spacing, double factor_spacing, bint label_free,
                workspace, double[::1] linear, double[::1] quadratic, double[::1] xi, double[::1] norms, bint unit_values=False,
                isa=None):
    """Factors of the records of a block; indptr None means dense rows, unit_values that all stored entries are 1."""
    cdef const vf_api *api = _table(isa)
    cdef vf_blr_params params
    params.row_norm = row_norm
    params.n_trials = n_trials
    params.scale_linear = scale_linear
    params.scale_quadratic = scale_quadratic
    params.clip_norm = clip_norm
    params.spacing = spacing
    params.factor_spacing = factor_spacing
    params.label_free = label_free
    cdef unsigned char[::1] work = workspace
    cdef int64_t n = y.shape[0]
    cdef const int64_t *pp = NULL
    cdef const int32_t *pi = NULL
    cdef const real *pv = NULL
    cdef const double *pt = NULL
    cdef const double *pm = NULL
    cdef const double *pc = NULL
    cdef double *px = NULL
    cdef double *pn = NULL
    cdef int32_t status
    if n == 0:
        return
    if indptr is None:
        _room(values.shape[0], n * n_features)
    else:
        _room(indptr.shape[0], n + 1)
        _room(indices.shape[0], indptr[n])
        if not unit_values:
            _room(values.shape[0], indptr[n])
    _room(linear.shape[0], n)
    _room(quadratic.shape[0], n)
    if indptr is not None:
        pp = &indptr[0]
        if indices.shape[0]:
            pi = &indices[0]
    if not unit_values and values.shape[0]:
        pv = &values[0]
    elif not unit_values and indptr is not None:
        pv = <const real *> &params  # no entries: never read, but not NULL, which would mean ones
    if trials is not None:
        _room(trials.shape[0], n)
        pt = &trials[0]
    if second_moment is not None:
        _same(second_moment.shape[0], n_features)
        _same(second_moment.shape[1], n_features)
        pm = &second_moment[0, 0]
    if center is not None:
        _same(center.shape[0], n_features)
        pc = &center[0]
    if xi is not None:
        _room(xi.shape[0], n)
        px = &xi[0]
    if norms is not None:
        _room(norms.shape[0], n)
        pn = &norms[0]
    with nogil:
        if real is float:
            status = api.blr_weights_f32(n, n_features, &params, pp, pi, pv, &y[0], pt, pm, pc, &work[0],
                                         work.shape[0], &linear[0], &quadratic[0], px, pn)
        else:
            status = api.blr_weights_f64(n, n_features, &params, pp, pi, pv, &y[0], pt, pm, pc, &work[0],
                                         work.shape[0], &linear[0], &quadratic[0], px, pn)
    _check(status)


def blr_accumulate(int64_t n_features, int64_t row_begin, int64_t row_end, const int64_t[::1] indptr,
                   const int32_t[::1] indices, const real[::1] values, const double[::1] linear,
                   const double[::1] quadratic, workspace, int64_t[::1] sums_linear, int64_t[::1] sums_quadratic,
                   bint unit_values=False, isa=None):
    """Add the contributions of a block to rows row_begin..row_end of the sums."""
    cdef const vf_api *api = _table(isa)
    cdef unsigned char[::1] work = workspace
    cdef int64_t n = linear.shape[0]
    cdef const int64_t *pp = NULL
    cdef const int32_t *pi = NULL
    cdef const real *pv = NULL
    cdef int64_t *pl = NULL
    cdef int64_t *pq = NULL
    cdef double nothing = 0.0
    cdef int32_t status
    if n == 0:
        return
    if indptr is None:
        _room(values.shape[0], n * n_features)
    else:
        _room(indptr.shape[0], n + 1)
        _room(indices.shape[0], indptr[n])
        if not unit_values:
            _room(values.shape[0], indptr[n])
    _room(quadratic.shape[0], n)
    if indptr is not None:
        pp = &indptr[0]
        if indices.shape[0]:
            pi = &indices[0]
    if not unit_values:
        pv = &values[0] if values.shape[0] else <const real *> &nothing
    if sums_linear is not None:
        _room(sums_linear.shape[0], n_features)
        pl = &sums_linear[0]
    if sums_quadratic is not None:
        _room(sums_quadratic.shape[0], n_features * (n_features + 1) // 2)
        pq = &sums_quadratic[0]
    with nogil:
        if real is float:
            status = api.blr_accumulate_f32(n, n_features, row_begin, row_end, pp, pi, pv, &linear[0], &quadratic[0],
                                            &work[0], work.shape[0], pl, pq)
        else:
            status = api.blr_accumulate_f64(n, n_features, row_begin, row_end, pp, pi, pv, &linear[0], &quadratic[0],
                                            &work[0], work.shape[0], pl, pq)
    _check(status)


def blr_round(int64_t n_features, double diagonal, double off_diagonal, int64_t[::1] sums, isa=None):
    """Turn sums of products into lattice coordinates, in place."""
    cdef const vf_api *api = _table(isa)
    cdef int32_t status
    if sums.shape[0] != n_features * (n_features + 1) // 2:
        raise RuntimeError("sums has the wrong length")
    with nogil:
        status = api.blr_round(n_features, diagonal, off_diagonal, &sums[0])
    _check(status)
