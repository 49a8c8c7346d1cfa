/* The Polya-Gamma E-step in one precision. Included twice by pg.c, which states the mathematics. */

/* Mean of PG(1, t), t >= 0: tanh(t/2) / (2t) = -E / (2t (2 + E)), E = exp(-t) - 1. E is formed without cancellation, so
 * the quotient is good down to t = 0 (its floor keeps 0/0 away; the limit is 1/4). */
VF_INLINE VEC LOCAL(sbn_pg_mean)(VEC t) {
    VEC n;
    t = OP(min)(OP(max)(t, OP(set1)(LOCAL(tiny))), OP(set1)(LOCAL(huge)));
    const VEC r = LOCAL(sbn_reduce)(OP(max)(OP(sub)(OP(set1)(0), t), OP(set1)(-LOCAL(exp_cap))), &n);
    const VEC scale = OP(pow2)(n);
    const VEC e = OP(fma)(LOCAL(expm1_small)(r), scale, OP(sub)(scale, OP(set1)(1)));
    const VEC q = OP(div)(e, OP(mul)(t, OP(add)(OP(set1)(2), e)));
    return OP(mul)(OP(set1)((REAL)-0.5), q);
}

int64_t KERNEL(vf_sbn_pg_workspace)(int64_t n_visible, int64_t n_hidden) {
    if (sizes_bad(0, n_visible, n_hidden)) return -1;
    const int64_t stride = VF_SBN_STRIDE(n_visible), units = VF_ROUND_UP(n_hidden, PG_UNITS);
    return VF_LINE + (int64_t)sizeof(REAL) * (PG_RECORDS * (3 * stride + 2 * units) + stride);
}

/* xi and the residual from psi's mean (in res) and variance, all padded. */
VF_NOINLINE void LOCAL(pg_refresh)(int64_t n_visible, int64_t stride, const uint8_t *y, REAL *VF_RESTRICT psi_res,
                                   const REAL *VF_RESTRICT var, REAL *VF_RESTRICT xi) {
    const VEC zero = OP(set1)(0);
    for (int64_t j = 0; j < stride; j += LANES) {
        const VEC psi = OP(load)(psi_res + j), v = OP(max)(OP(load)(var + j), zero);
        const VEC x = LOCAL(sbn_pg_mean)(OP(sqrt)(OP(fma)(psi, psi, v)));
        OP(store)(xi + j, x);
        OP(store)(psi_res + j, OP(sub)(zero, OP(mul)(x, psi)));
    }
    for (int64_t j = 0; j < n_visible; ++j) psi_res[j] += y[j] ? (REAL)0.5 : (REAL)-0.5;
    for (int64_t j = n_visible; j < stride; ++j) psi_res[j] = xi[j] = 0;
}

/* var_j = c_var_j + sum_k (w2_jk z_k - w_jk^2 z_k^2); z and var: [..][record]. */
VF_NOINLINE void LOCAL(pg_variance)(int64_t n_visible, int64_t stride, int64_t n_hidden, const REAL *VF_RESTRICT w,
                                    const REAL *VF_RESTRICT w2, const REAL *VF_RESTRICT c_var,
                                    const REAL *VF_RESTRICT z, REAL *VF_RESTRICT var) {
    REAL *v0 = var, *v1 = var + stride, *v2 = v1 + stride, *v3 = v2 + stride;
    for (int64_t j = 0; j < stride; ++j) v0[j] = v1[j] = v2[j] = v3[j] = j < n_visible ? c_var[j] : 0;
    for (int64_t k = 0; k < n_hidden; k += 2) {
        const int64_t last = k + 1 < n_hidden ? k + 1 : k; /* past the end: weight 0 */
        const REAL *wa = w + k * stride, *wb = w + last * stride, *qa = w2 + k * stride, *qb = w2 + last * stride;
        const REAL *za = z + k * PG_RECORDS, *zb = za + PG_RECORDS; /* z is padded with zeros */
        const VEC a0 = OP(set1)(za[0]), a1 = OP(set1)(za[1]), a2 = OP(set1)(za[2]), a3 = OP(set1)(za[3]);
        const VEC b0 = OP(set1)(zb[0]), b1 = OP(set1)(zb[1]), b2 = OP(set1)(zb[2]), b3 = OP(set1)(zb[3]);
        const VEC s0 = OP(set1)(-za[0] * za[0]), s1 = OP(set1)(-za[1] * za[1]);
        const VEC s2 = OP(set1)(-za[2] * za[2]), s3 = OP(set1)(-za[3] * za[3]);
        const VEC t0 = OP(set1)(-zb[0] * zb[0]), t1 = OP(set1)(-zb[1] * zb[1]);
        const VEC t2 = OP(set1)(-zb[2] * zb[2]), t3 = OP(set1)(-zb[3] * zb[3]);
        for (int64_t j = 0; j < stride; j += LANES) {
            const VEC p = OP(load)(qa + j), q = OP(load)(qb + j), x = OP(load)(wa + j), y = OP(load)(wb + j);
            const VEC xx = OP(mul)(x, x), yy = OP(mul)(y, y);
#define PG_VAR(i) \
    OP(store)     \
    (v##i + j, OP(add)(OP(fma)(q, b##i, OP(fma)(p, a##i, OP(load)(v##i + j))), OP(fma)(yy, t##i, OP(mul)(xx, s##i))))
            PG_VAR(0);
            PG_VAR(1);
            PG_VAR(2);
            PG_VAR(3);
#undef PG_VAR
        }
    }
}

/* h[unit][record] = sum_j xi_j E[w_jk^2], two units at a time. */
VF_NOINLINE void LOCAL(pg_half)(int64_t stride, int64_t n_hidden, const REAL *VF_RESTRICT w2,
                                const REAL *VF_RESTRICT xi, REAL *VF_RESTRICT h) {
    const REAL *x0 = xi, *x1 = xi + stride, *x2 = x1 + stride, *x3 = x2 + stride;
    for (int64_t k = 0; k < n_hidden; k += 2) {
        const REAL *qa = w2 + k * stride, *qb = w2 + (k + 1 < n_hidden ? k + 1 : k) * stride;
        VEC a0 = OP(set1)(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
        for (int64_t j = 0; j < stride; j += LANES) {
            const VEC p = OP(load)(qa + j), q = OP(load)(qb + j);
            const VEC u0 = OP(load)(x0 + j), u1 = OP(load)(x1 + j), u2 = OP(load)(x2 + j), u3 = OP(load)(x3 + j);
            a0 = OP(fma)(p, u0, a0), a1 = OP(fma)(p, u1, a1), a2 = OP(fma)(p, u2, a2), a3 = OP(fma)(p, u3, a3);
            b0 = OP(fma)(q, u0, b0), b1 = OP(fma)(q, u1, b1), b2 = OP(fma)(q, u2, b2), b3 = OP(fma)(q, u3, b3);
        }
        REAL *out = h + k * PG_RECORDS; /* padded to whole groups of units */
        out[0] = OP(sum)(a0), out[1] = OP(sum)(a1), out[2] = OP(sum)(a2), out[3] = OP(sum)(a3);
        out[4] = OP(sum)(b0), out[5] = OP(sum)(b1), out[6] = OP(sum)(b2), out[7] = OP(sum)(b3);
    }
}

/* dot[i] = sum_j w_ji r_j and a[i][l] = sum_j xi_j w_ji w_jl, l >= i, of four units. */
VF_NOINLINE void LOCAL(pg_sums)(int64_t stride, const REAL *VF_RESTRICT w0, const REAL *VF_RESTRICT w1,
                                const REAL *VF_RESTRICT w2, const REAL *VF_RESTRICT w3, const REAL *VF_RESTRICT res,
                                const REAL *VF_RESTRICT xi, REAL dot[PG_UNITS], REAL a[PG_UNITS][PG_UNITS]) {
    const VEC zero = OP(set1)(0);
    VEC d0 = zero, d1 = zero, d2 = zero, d3 = zero, a00 = zero, a01 = zero, a02 = zero, a03 = zero, a11 = zero;
    VEC a12 = zero, a13 = zero, a22 = zero, a23 = zero, a33 = zero;
    for (int64_t j = 0; j < stride; j += LANES) {
        const VEC r = OP(load)(res + j), x = OP(load)(xi + j);
        const VEC u0 = OP(load)(w0 + j), u1 = OP(load)(w1 + j), u2 = OP(load)(w2 + j), u3 = OP(load)(w3 + j);
        d0 = OP(fma)(r, u0, d0);
        d1 = OP(fma)(r, u1, d1);
        d2 = OP(fma)(r, u2, d2);
        d3 = OP(fma)(r, u3, d3);
        const VEC x0 = OP(mul)(x, u0);
        a00 = OP(fma)(x0, u0, a00);
        a01 = OP(fma)(x0, u1, a01);
        a02 = OP(fma)(x0, u2, a02);
        a03 = OP(fma)(x0, u3, a03);
        const VEC x1 = OP(mul)(x, u1);
        a11 = OP(fma)(x1, u1, a11);
        a12 = OP(fma)(x1, u2, a12);
        a13 = OP(fma)(x1, u3, a13);
        const VEC x2 = OP(mul)(x, u2);
        a22 = OP(fma)(x2, u2, a22);
        a23 = OP(fma)(x2, u3, a23);
        a33 = OP(fma)(OP(mul)(x, u3), u3, a33);
    }
    dot[0] = OP(sum)(d0), dot[1] = OP(sum)(d1), dot[2] = OP(sum)(d2), dot[3] = OP(sum)(d3);
    a[0][0] = OP(sum)(a00), a[0][1] = OP(sum)(a01), a[0][2] = OP(sum)(a02), a[0][3] = OP(sum)(a03);
    a[1][1] = OP(sum)(a11), a[1][2] = OP(sum)(a12), a[1][3] = OP(sum)(a13);
    a[2][2] = OP(sum)(a22), a[2][3] = OP(sum)(a23), a[3][3] = OP(sum)(a33);
}

/* r_j -= xi_j sum_i w_ji dz_i */
VF_NOINLINE void LOCAL(pg_update)(int64_t stride, const REAL *VF_RESTRICT w0, const REAL *VF_RESTRICT w1,
                                  const REAL *VF_RESTRICT w2, const REAL *VF_RESTRICT w3, const REAL *VF_RESTRICT xi,
                                  const REAL dz[PG_UNITS], REAL *VF_RESTRICT res) {
    const VEC e0 = OP(set1)(-dz[0]), e1 = OP(set1)(-dz[1]), e2 = OP(set1)(-dz[2]), e3 = OP(set1)(-dz[3]);
    for (int64_t j = 0; j < stride; j += LANES) {
        const VEC u = OP(fma)(OP(load)(w1 + j), e1, OP(mul)(OP(load)(w0 + j), e0));
        const VEC v = OP(fma)(OP(load)(w3 + j), e3, OP(mul)(OP(load)(w2 + j), e2));
        OP(store)(res + j, OP(fma)(OP(load)(xi + j), OP(add)(u, v), OP(load)(res + j)));
    }
}

/* d[r] = sigmoid(d[r]) for one number a record. */
VF_INLINE void LOCAL(sigmoid_records)(REAL d[PG_RECORDS]) {
    REAL v[VF_ROUND_UP(PG_RECORDS, LANES)] = {0};
    memcpy(v, d, PG_RECORDS * sizeof(REAL));
    for (int i = 0; i < PG_RECORDS; i += LANES) OP(store)(v + i, LOCAL(sbn_sigmoid)(OP(load)(v + i)));
    memcpy(d, v, PG_RECORDS * sizeof(REAL));
}

/* One sweep over the hidden units of PG_RECORDS records; z and h: [unit][record]. */
static void LOCAL(pg_sweep)(int64_t stride, int64_t n_hidden, const REAL *w, const REAL *b, const REAL *xi,
                            const REAL *h, REAL *z, REAL *res) {
    for (int64_t k = 0; k < n_hidden; k += PG_UNITS) {
        /* Past the last unit: its row again, with dz = 0. */
        const REAL *wk[PG_UNITS];
        for (int i = 0; i < PG_UNITS; ++i) wk[i] = w + (k + i < n_hidden ? k + i : n_hidden - 1) * stride;
        REAL dot[PG_RECORDS][PG_UNITS], a[PG_RECORDS][PG_UNITS][PG_UNITS], dz[PG_RECORDS][PG_UNITS] = {{0}};
        for (int r = 0; r < PG_RECORDS; ++r)
            LOCAL(pg_sums)(stride, wk[0], wk[1], wk[2], wk[3], res + r * stride, xi + r * stride, dot[r], a[r]);
        for (int i = 0; i < PG_UNITS && k + i < n_hidden; ++i) {
            REAL *zk = z + (k + i) * PG_RECORDS, d[PG_RECORDS];
            const REAL *hk = h + (k + i) * PG_RECORDS;
            for (int r = 0; r < PG_RECORDS; ++r) d[r] = b[k + i] + dot[r][i] + zk[r] * a[r][i][i] - (REAL)0.5 * hk[r];
            LOCAL(sigmoid_records)(d);
            for (int r = 0; r < PG_RECORDS; ++r) {
                dz[r][i] = d[r] - zk[r];
                zk[r] = d[r];
                for (int l = i + 1; l < PG_UNITS; ++l) dot[r][l] -= dz[r][i] * a[r][i][l];
            }
        }
        for (int r = 0; r < PG_RECORDS; ++r)
            LOCAL(pg_update)(stride, wk[0], wk[1], wk[2], wk[3], xi + r * stride, dz[r], res + r * stride);
    }
}

/* Back from the residuals to the means of psi: psi = (y - 1/2 - r) / xi. */
static void LOCAL(pg_psi)(int64_t n_visible, int64_t stride, const uint8_t *const *rows, const REAL *xi, REAL *res) {
    for (int r = 0; r < PG_RECORDS; ++r)
        for (int64_t j = 0; j < n_visible; ++j)
            res[r * stride + j] = ((rows[r][j] ? (REAL)0.5 : (REAL)-0.5) - res[r * stride + j]) / xi[r * stride + j];
}

int32_t KERNEL(vf_sbn_pg)(const vf_sbn_params *params, const uint8_t *y, const REAL *w, const REAL *w2, const REAL *c,
                          const REAL *c_var, const REAL *b, const REAL *start, void *workspace, int64_t workspace_bytes,
                          double *z_out, double *xi_out) {
    const int32_t status = check_params(params);
    if (status != VF_OK) return status;
    const int64_t n_records = params->n_records, n_visible = params->n_visible, n_hidden = params->n_hidden;
    if (!w || !w2 || !c || !c_var || !b || !start || !workspace || !z_out) return VF_ERR_NULL;
    if (n_records > 0 && !y) return VF_ERR_NULL;
    if (VF_OFF(w) | VF_OFF(w2) | VF_OFF(c) | VF_OFF(c_var) | VF_OFF(b) | VF_OFF(start) | VF_OFF(z_out) | VF_OFF(xi_out))
        return VF_ERR_ALIGNMENT;
    if (workspace_bytes < KERNEL(vf_sbn_pg_workspace)(n_visible, n_hidden)) return VF_ERR_WORKSPACE;
    const int64_t stride = VF_SBN_STRIDE(n_visible), units = VF_ROUND_UP(n_hidden, PG_UNITS);
    REAL *res = (REAL *)VF_ALIGN_UP(workspace), *xi = res + PG_RECORDS * stride, *var = xi + PG_RECORDS * stride;
    REAL *z = var + PG_RECORDS * stride, *h = z + PG_RECORDS * units; /* z, h: [unit][record] */
    REAL *psi0 = h + PG_RECORDS * units;

    /* psi at the start, the same for every record. */
    for (int64_t j = 0; j < stride; ++j) psi0[j] = j < n_visible ? c[j] : 0;
    for (int64_t k = 0; k < n_hidden; ++k) {
        const VEC s = OP(set1)(start[k]);
        for (int64_t j = 0; j < stride; j += LANES)
            OP(store)(psi0 + j, OP(fma)(OP(load)(w + k * stride + j), s, OP(load)(psi0 + j)));
    }
    for (int64_t first = 0; first < n_records; first += PG_RECORDS) {
        const uint8_t *rows[PG_RECORDS];
        for (int r = 0; r < PG_RECORDS; ++r) { /* dummies repeat the first record */
            rows[r] = y + (first + r < n_records ? first + r : first) * n_visible;
            for (int64_t k = 0; k < units; ++k) z[k * PG_RECORDS + r] = k < n_hidden ? start[k] : 0;
            memcpy(res + r * stride, psi0, (size_t)stride * sizeof(REAL));
        }
        for (int32_t sweep = 0; sweep < params->n_sweeps || xi_out; ++sweep) {
            if (sweep > 0) LOCAL(pg_psi)(n_visible, stride, rows, xi, res);
            LOCAL(pg_variance)(n_visible, stride, n_hidden, w, w2, c_var, z, var);
            for (int r = 0; r < PG_RECORDS; ++r)
                LOCAL(pg_refresh)(n_visible, stride, rows[r], res + r * stride, var + r * stride, xi + r * stride);
            if (sweep == params->n_sweeps) break;
            LOCAL(pg_half)(stride, n_hidden, w2, xi, h);
            LOCAL(pg_sweep)(stride, n_hidden, w, b, xi, h, z, res);
        }
        const int64_t here = n_records - first < PG_RECORDS ? n_records - first : PG_RECORDS;
        for (int64_t r = 0; r < here; ++r) {
            for (int64_t k = 0; k < n_hidden; ++k) z_out[(first + r) * n_hidden + k] = (double)z[k * PG_RECORDS + r];
            if (xi_out)
                for (int64_t j = 0; j < n_visible; ++j)
                    xi_out[(first + r) * n_visible + j] = (double)xi[r * stride + j];
        }
    }
    return VF_OK;
}
