# Bindings of the kernels in csrc/sbn. Arrays are checked by kernels/sbn.py; shapes that
# would let a kernel read past an end are checked here again.


def sbn_stride(int64_t n_visible):
    """Elements from one row of a hidden-unit-major table to the next."""
    return VF_SBN_STRIDE(n_visible)


def sbn_workspace(kind, int64_t n_visible, int64_t n_hidden, isa=None):
    """Bytes of workspace of the kernel ``kind``: pg_f32, pg_f64, quadratic, moments or gram."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t size
    if kind == "pg_f32":
        size = api.sbn_pg_workspace_f32(n_visible, n_hidden)
    elif kind == "pg_f64":
        size = api.sbn_pg_workspace_f64(n_visible, n_hidden)
    elif kind == "quadratic":
        size = api.sbn_quadratic_workspace(n_visible, n_hidden)
    elif kind == "moments":
        size = api.sbn_moments_workspace(n_visible, n_hidden)
    else:
        size = api.sbn_gram_workspace(n_hidden)
    if size < 0:
        raise MemoryError("the kernel's workspace does not fit the address space")
    return size


def sbn_pg(const uint8_t[:, ::1] y, const real[:, ::1] w, const real[:, ::1] w2, const real[::1] c,
           const real[::1] c_var, const real[::1] b, const real[::1] start, int32_t n_sweeps, workspace,
           double[:, ::1] z, double[:, ::1] xi, isa=None):
    """q(z) of a block of records under the Polya-Gamma bound; xi may be None."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t n = y.shape[0], j = y.shape[1], k = w.shape[0]
    cdef vf_sbn_params params
    cdef unsigned char[::1] work = workspace
    cdef double *px = NULL
    cdef int32_t status
    if n == 0:
        return
    _same(w.shape[1], VF_SBN_STRIDE(j))
    _same(w2.shape[0], k)
    _same(w2.shape[1], w.shape[1])
    _same(c.shape[0], j)
    _same(c_var.shape[0], j)
    _same(b.shape[0], k)
    _same(start.shape[0], k)
    _same(z.shape[0], n)
    _same(z.shape[1], k)
    if xi is not None:
        _same(xi.shape[0], n)
        _same(xi.shape[1], j)
        px = &xi[0, 0]
    params.n_records, params.n_visible, params.n_hidden, params.n_sweeps = n, j, k, n_sweeps
    with nogil:
        if real is float:
            status = api.sbn_pg_f32(&params, &y[0, 0], &w[0, 0], &w2[0, 0], &c[0], &c_var[0], &b[0],
                                    &start[0], &work[0], work.shape[0], &z[0, 0], px)
        else:
            status = api.sbn_pg_f64(&params, &y[0, 0], &w[0, 0], &w2[0, 0], &c[0], &c_var[0], &b[0],
                                    &start[0], &work[0], work.shape[0], &z[0, 0], px)
    _check(status)


def sbn_quadratic(const uint8_t[:, ::1] y, const double[:, ::1] w, const double[:, ::1] gram, const double[::1] linear,
                  const double[::1] start, int32_t n_sweeps, workspace, double[:, ::1] z, isa=None):
    """q(z) of a block of records under the quadratic bound of constant curvature."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t n = y.shape[0], j = y.shape[1], k = w.shape[1]
    cdef vf_sbn_params params
    cdef unsigned char[::1] work = workspace
    cdef int32_t status
    if n == 0:
        return
    _same(w.shape[0], j)
    _same(gram.shape[0], k)
    _same(gram.shape[1], k)
    _same(linear.shape[0], k)
    _same(start.shape[0], k)
    _same(z.shape[0], n)
    _same(z.shape[1], k)
    params.n_records, params.n_visible, params.n_hidden, params.n_sweeps = n, j, k, n_sweeps
    with nogil:
        status = api.sbn_quadratic(&params, &y[0, 0], &w[0, 0], &gram[0, 0], &linear[0], &start[0],
                                   &work[0], work.shape[0], &z[0, 0])
    _check(status)


def sbn_clip(const double[:, ::1] x, const double[::1] center, const double[::1] factor, double clip_norm,
             double spacing, double[:, ::1] units, double[::1] norms, isa=None):
    """Center, clip and truncate rows to integers; center, factor and norms may be None."""
    cdef const vf_api *api = _table(isa)
    cdef int64_t n = x.shape[0], m = x.shape[1]
    cdef const double *pc = NULL
    cdef const double *pf = NULL
    cdef double *pn = NULL
    cdef int32_t status
    if n == 0:
        return
    _same(units.shape[0], n)
    _same(units.shape[1], m)
    if center is not None:
        _same(center.shape[0], m)
        pc = &center[0]
    if factor is not None:
        _same(factor.shape[0], n)
        pf = &factor[0]
    if norms is not None:
        _same(norms.shape[0], n)
        pn = &norms[0]
    with nogil:
        status = api.sbn_clip(n, m, clip_norm, spacing, &x[0, 0], pc, pf, &units[0, 0], pn)
    _check(status)


def sbn_visible_norms(const uint8_t[:, ::1] y, const double[::1] center, double[::1] norms, isa=None):
    """L2 norms of y - center."""
    cdef const vf_api *api = _table(isa)
    cdef int32_t status
    if y.shape[0] == 0:
        return
    _same(center.shape[0], y.shape[1])
    _same(norms.shape[0], y.shape[0])
    with nogil:
        status = api.sbn_visible_norms(y.shape[0], y.shape[1], &y[0, 0], &center[0], &norms[0])
    _check(status)


def sbn_cross(const uint8_t[:, ::1] y, const double[:, ::1] v, int64_t[:, ::1] sums, isa=None):
    """Add sum_n y_nj v_nk to sums."""
    cdef const vf_api *api = _table(isa)
    cdef int32_t status
    if y.shape[0] == 0:
        return
    _same(v.shape[0], y.shape[0])
    _same(sums.shape[0], y.shape[1])
    _same(sums.shape[1], v.shape[1])
    with nogil:
        status = api.sbn_cross(y.shape[0], y.shape[1], v.shape[1], &y[0, 0], &v[0, 0], &sums[0, 0])
    _check(status)


def sbn_gram(const double[:, ::1] v, workspace, int64_t[::1] sums, isa=None):
    """Add sum_n v_nk v_nl, k < l, to sums."""
    cdef const vf_api *api = _table(isa)
    cdef unsigned char[::1] work = workspace
    cdef int64_t k = v.shape[1]
    cdef int32_t status
    if v.shape[0] == 0 or k < 2:
        return
    _same(sums.shape[0], k * (k - 1) // 2)
    with nogil:
        status = api.sbn_gram(v.shape[0], k, &v[0, 0], &work[0], work.shape[0], &sums[0])
    _check(status)


def sbn_moments(const double[:, ::1] x, const double[:, ::1] z, int64_t first, int64_t last, double pair_scale,
                workspace, int64_t[:, ::1] sums, isa=None):
    """Add the weighted second moments of the pairs first..last-1 to sums (J, K (K + 1) / 2)."""
    cdef const vf_api *api = _table(isa)
    cdef unsigned char[::1] work = workspace
    cdef int32_t status
    if x.shape[0] == 0 or last == first:
        return
    _same(z.shape[0], x.shape[0])
    _same(sums.shape[0], x.shape[1])
    _same(sums.shape[1], z.shape[1] * (z.shape[1] + 1) // 2)
    with nogil:
        status = api.sbn_moments(x.shape[0], x.shape[1], z.shape[1], first, last, pair_scale, &x[0, 0], &z[0, 0],
                                 &work[0], work.shape[0], &sums[0, 0])
    _check(status)
