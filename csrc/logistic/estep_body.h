/* The logistic regression E-step for one type of stored values. Included twice by
 * estep.c, which states the mathematics. */

/* A sparse row's values as doubles, in place if they are stored so, else in the workspace. */
VF_INLINE const double *LOCAL(row_values)(int64_t m, const REAL *VF_RESTRICT values, double *VF_RESTRICT x) {
    if (!values) return x; /* filled with ones before */
    if (sizeof(REAL) == sizeof(double)) return (const double *)(const void *)values;
    for (int64_t i = 0; i < m; ++i) x[i] = (double)values[i];
    return x;
}

/* x . center, or x . x without one; four sums side by side. */
VF_INLINE double LOCAL(sparse_dot)(int64_t m, const int32_t *VF_RESTRICT index, const double *VF_RESTRICT x,
                                   const double *VF_RESTRICT center) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    int64_t i = 0;
#define OTHER(i) (center ? center[index[i]] : x[i])
    for (; i + 4 <= m; i += 4) {
        s0 = MULADD(OTHER(i), x[i], s0);
        s1 = MULADD(OTHER(i + 1), x[i + 1], s1);
        s2 = MULADD(OTHER(i + 2), x[i + 2], s2);
        s3 = MULADD(OTHER(i + 3), x[i + 3], s3);
    }
    for (; i < m; ++i) s0 = MULADD(OTHER(i), x[i], s0);
#undef OTHER
    return (s0 + s1) + (s2 + s3);
}

/* x^T M x of a sparse row: four rows of M at a time, in tiles of 4 x 4, then the rest. The diagonal counts once,
 * entries right of it twice. */
VF_INLINE double LOCAL(sparse_form)(int64_t m, int64_t d, const int32_t *VF_RESTRICT index, const double *VF_RESTRICT x,
                                    const double *VF_RESTRICT M) {
    double total = 0.0;
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        const double *r0 = M + (int64_t)index[i] * d, *r1 = M + (int64_t)index[i + 1] * d;
        const double *r2 = M + (int64_t)index[i + 2] * d, *r3 = M + (int64_t)index[i + 3] * d;
        const int64_t k1 = index[i + 1], k2 = index[i + 2], k3 = index[i + 3];
        const double x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        double s0 = MULADD(0.5 * r0[index[i]], x0, MULADD(r0[k1], x1, MULADD(r0[k2], x2, r0[k3] * x3)));
        double s1 = MULADD(0.5 * r1[k1], x1, MULADD(r1[k2], x2, r1[k3] * x3));
        double s2 = MULADD(0.5 * r2[k2], x2, r2[k3] * x3);
        double s3 = 0.5 * r3[k3] * x3;
        int64_t j = i + 4;
        for (; j + 4 <= m; j += 4) {
            const int64_t l0 = index[j], l1 = index[j + 1], l2 = index[j + 2], l3 = index[j + 3];
            const double v0 = x[j], v1 = x[j + 1], v2 = x[j + 2], v3 = x[j + 3];
            s0 = MULADD(r0[l3], v3, MULADD(r0[l2], v2, MULADD(r0[l1], v1, MULADD(r0[l0], v0, s0))));
            s1 = MULADD(r1[l3], v3, MULADD(r1[l2], v2, MULADD(r1[l1], v1, MULADD(r1[l0], v0, s1))));
            s2 = MULADD(r2[l3], v3, MULADD(r2[l2], v2, MULADD(r2[l1], v1, MULADD(r2[l0], v0, s2))));
            s3 = MULADD(r3[l3], v3, MULADD(r3[l2], v2, MULADD(r3[l1], v1, MULADD(r3[l0], v0, s3))));
        }
        for (; j < m; ++j) {
            const int64_t l = index[j];
            const double v = x[j];
            s0 = MULADD(r0[l], v, s0);
            s1 = MULADD(r1[l], v, s1);
            s2 = MULADD(r2[l], v, s2);
            s3 = MULADD(r3[l], v, s3);
        }
        total += MULADD(x0, s0, x1 * s1) + MULADD(x2, s2, x3 * s3);
    }
    for (; i < m; ++i) {
        const double *r = M + (int64_t)index[i] * d;
        double s = 0.5 * r[index[i]] * x[i];
        for (int64_t j = i + 1; j < m; ++j) s = MULADD(r[index[j]], x[j], s);
        total = MULADD(x[i], s, total);
    }
    return 2.0 * total;
}

/* sums += a a^T of a sparse row, upper triangle: three rows at a time, the most that the registers hold. */
VF_INLINE void LOCAL(sparse_outer)(int64_t m, int64_t d, const int32_t *VF_RESTRICT index, const int64_t *VF_RESTRICT a,
                                   int64_t *sums) {
    int64_t i = 0;
    for (; i + 3 <= m; i += 3) {
        const int64_t k0 = index[i], k1 = index[i + 1], k2 = index[i + 2], a0 = a[i], a1 = a[i + 1], a2 = a[i + 2];
        int64_t *r0 = sums + TRIANGLE_ROW(k0, d), *r1 = sums + TRIANGLE_ROW(k1, d), *r2 = sums + TRIANGLE_ROW(k2, d);
        r0[k0] += a0 * a0;
        r0[k1] += a0 * a1;
        r0[k2] += a0 * a2;
        r1[k1] += a1 * a1;
        r1[k2] += a1 * a2;
        r2[k2] += a2 * a2;
        for (int64_t j = i + 3; j < m; ++j) {
            const int64_t l = index[j], b = a[j];
            r0[l] += a0 * b;
            r1[l] += a1 * b;
            r2[l] += a2 * b;
        }
    }
    for (; i < m; ++i) {
        int64_t *r = sums + TRIANGLE_ROW((int64_t)index[i], d);
        for (int64_t j = i; j < m; ++j) r[index[j]] += a[i] * a[j];
    }
}

/* form[r] = x_r^T M x_r for a group of dense rows, padded to d_pad columns. It takes one strip of PANEL columns of the
 * doubled upper triangle at a time, and four records at a time. Column j adds over k = 0, 1, ...; columns add by a fixed
 * tree within a strip and strips in order. */
static void LOCAL(dense_forms)(int64_t n, int64_t d, int64_t d_pad, const double *VF_RESTRICT rows,
                               const double *VF_RESTRICT M, double *VF_RESTRICT strip, double *VF_RESTRICT form) {
    for (int64_t r = 0; r < n; ++r) form[r] = 0.0;
    for (int64_t j0 = 0; j0 < d_pad; j0 += PANEL) {
        const int64_t k_end = j0 + PANEL < d ? j0 + PANEL : d, j_end = j0 + PANEL < d ? j0 + PANEL : d;
        memset(strip, 0, (size_t)(k_end * PANEL) * sizeof(double));
        for (int64_t k = 0; k < k_end; ++k)
            for (int64_t j = j0 > k ? j0 : k; j < j_end; ++j)
                strip[k * PANEL + j - j0] = (j == k ? 1.0 : 2.0) * M[k * d + j];
        for (int64_t r = 0; r < n; r += 4) {
            /* Rows past the end repeat the last one; their sums are dropped. */
            const double *x0 = rows + r * d_pad, *x1 = rows + (r + 1 < n ? r + 1 : n - 1) * d_pad;
            const double *x2 = rows + (r + 2 < n ? r + 2 : n - 1) * d_pad;
            const double *x3 = rows + (r + 3 < n ? r + 3 : n - 1) * d_pad;
            double part[4] = {0.0, 0.0, 0.0, 0.0};
            for (int64_t l = 0; l < PANEL; l += 2 * VF_ND) {
                vfd a0 = vfd_set1(0), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
                const double *s = strip + l;
                for (int64_t k = 0; k < k_end; ++k, s += PANEL) {
                    const vfd u = vfd_load(s), v = vfd_load(s + VF_ND);
                    const vfd y0 = vfd_set1(x0[k]), y1 = vfd_set1(x1[k]), y2 = vfd_set1(x2[k]), y3 = vfd_set1(x3[k]);
                    a0 = vfd_fma(u, y0, a0);
                    b0 = vfd_fma(v, y0, b0);
                    a1 = vfd_fma(u, y1, a1);
                    b1 = vfd_fma(v, y1, b1);
                    a2 = vfd_fma(u, y2, a2);
                    b2 = vfd_fma(v, y2, b2);
                    a3 = vfd_fma(u, y3, a3);
                    b3 = vfd_fma(v, y3, b3);
                }
                const int64_t o = j0 + l, q = o + VF_ND;
                part[0] += vfd_sum(vfd_fma(a0, vfd_load(x0 + o), vfd_mul(b0, vfd_load(x0 + q))));
                part[1] += vfd_sum(vfd_fma(a1, vfd_load(x1 + o), vfd_mul(b1, vfd_load(x1 + q))));
                part[2] += vfd_sum(vfd_fma(a2, vfd_load(x2 + o), vfd_mul(b2, vfd_load(x2 + q))));
                part[3] += vfd_sum(vfd_fma(a3, vfd_load(x3 + o), vfd_mul(b3, vfd_load(x3 + q))));
            }
            for (int64_t t = 0; t < 4 && r + t < n; ++t) form[r + t] += part[t];
        }
    }
}

/* Sums of squares of trunc(w x) and trunc(f x) over one row; both fit int32. */
VF_INLINE void LOCAL(squares)(int64_t m, const REAL *VF_RESTRICT x, double w, double f, uint64_t *linear,
                              uint64_t *quadratic) {
    if (!x) {
        const int64_t q = (int64_t)w, a = (int64_t)f;
        *linear = (uint64_t)m * (uint64_t)(q * q);
        *quadratic = (uint64_t)m * (uint64_t)(a * a);
        return;
    }
    uint64_t s = 0, t = 0;
    for (int64_t i = 0; i < m; ++i) {
        const double v = (double)x[i];
        const int32_t q = (int32_t)(w * v), a = (int32_t)(f * v);
        s += (uint64_t)((int64_t)q * q);
        t += (uint64_t)((int64_t)a * a);
    }
    *linear = s;
    *quadratic = t;
}

static int32_t LOCAL(check_rows)(const LOCAL(vf_rows) * rows) {
    if (!rows) return VF_ERR_NULL;
    if ((uintptr_t)rows & 7u) return VF_ERR_ALIGNMENT;
    const int64_t n = rows->n_rows, d = rows->n_columns, *indptr = rows->indptr;
    const int32_t *indices = rows->indices;
    const REAL *values = rows->values;
    if (n < 0 || d < 1 || d > INT32_MAX / 2) return VF_ERR_SIZE;
    if (n == 0) return VF_OK;
    if (VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(values)) return VF_ERR_ALIGNMENT;
    if (!indptr) return values ? VF_OK : VF_ERR_NULL;
    const int64_t begin = indptr[0], end = indptr[n];
    if (begin < 0) return VF_ERR_INDPTR;
    for (int64_t r = 0; r < n; ++r)
        if (indptr[r + 1] < indptr[r]) return VF_ERR_INDPTR;
    if (begin == end) return VF_OK;
    if (!indices) return VF_ERR_NULL;
    /* Indices may fall only at the beginning of a row. Whole arrays are compared, with counters as wide as an index,
     * and then the first entries of rows. */
    uint32_t largest = (uint32_t)indices[begin];
    int64_t falls = 0, starts = 0;
    for (int64_t first = begin + 1; first < end; first += INT32_MAX) {
        const int64_t last = end - first < INT32_MAX ? end : first + INT32_MAX;
        int32_t here = 0;
        for (int64_t i = first; i < last; ++i) {
            const uint32_t index = (uint32_t)indices[i]; /* a negative one is large */
            largest = index > largest ? index : largest;
            here += indices[i] <= indices[i - 1];
        }
        falls += here;
    }
    for (int64_t r = 1; r < n; ++r) {
        const int64_t lo = indptr[r];
        if (lo > begin && lo < indptr[r + 1]) starts += indices[lo] <= indices[lo - 1];
    }
    return largest >= (uint32_t)d || falls != starts ? VF_ERR_INDEX : VF_OK;
}

static void LOCAL(sparse_group)(int64_t n, int64_t d, const int64_t *indptr, const int32_t *indices, const REAL *values,
                                const double *M, const double *center, double *x, double *square, double *shift,
                                double *form) {
    for (int64_t r = 0; r < n; ++r) {
        const int64_t lo = indptr[r], m = indptr[r + 1] - lo;
        square[r] = shift[r] = form[r] = 0.0;
        if (m == 0) continue;
        const int32_t *index = indices + lo;
        const double *v = LOCAL(row_values)(m, values ? values + lo : NULL, x);
        square[r] = LOCAL(sparse_dot)(m, index, v, NULL);
        if (center) shift[r] = LOCAL(sparse_dot)(m, index, v, center);
        if (M) form[r] = LOCAL(sparse_form)(m, d, index, v, M);
    }
}

/* Entries of a row from j on; beyond d they are 0. */
VF_INLINE vfd LOCAL(entries)(const REAL *x, int64_t j, int64_t d) {
    return j + VF_ND <= d ? OP(wide)(x + j) : j < d ? OP(wide_first)(x + j, d - j) : vfd_set1(0);
}

static void LOCAL(dense_group)(int64_t n, int64_t d, const REAL *values, const double *M, const double *center,
                               double *rows, double *square, double *shift, double *form) {
    const int64_t d_pad = VF_ROUND_UP(d, PANEL), end = M ? d_pad : d; /* only forms need the rows themselves */
    double *strip = rows + GROUP * d_pad, *padded = strip;
    for (int64_t j = 0; j < d_pad; ++j) padded[j] = center && j < d ? center[j] : 0.0;
    for (int64_t r = 0; r < n; ++r) {
        const REAL *x = values + r * d;
        vfd s = vfd_set1(0), t = s, u = s, v = s;
        for (int64_t j = 0; j < end; j += 2 * VF_ND) {
            const vfd a = LOCAL(entries)(x, j, d), b = LOCAL(entries)(x, j + VF_ND, d);
            s = vfd_fma(a, a, s);
            t = vfd_fma(b, b, t);
            u = vfd_fma(a, vfd_load(padded + j), u);
            v = vfd_fma(b, vfd_load(padded + j + VF_ND), v);
            if (!M) continue;
            vfd_store(rows + r * d_pad + j, a);
            vfd_store(rows + r * d_pad + j + VF_ND, b);
        }
        square[r] = vfd_sum(vfd_add(s, t));
        shift[r] = vfd_sum(vfd_add(u, v));
    }
    if (M) LOCAL(dense_forms)(n, d, d_pad, rows, M, strip, form);
}

/* x . x, x . center and the root of x^T M x, or |x . center| without M, of the records of a group that begins with row
 * first. */
static void LOCAL(row_group)(const LOCAL(vf_rows) * rows, int64_t first, int64_t n, const double *M,
                             const double *center, double *area, group *g) {
    const int64_t d = rows->n_columns;
    double form[GROUP];
    if (rows->indptr) LOCAL(sparse_group)
    (n, d, rows->indptr + first, rows->indices, rows->values, M, center, area, g->square, g->shift, form);
    else LOCAL(dense_group)(n, d, rows->values + first * d, M, center, area, g->square, g->shift, form);
    /* A form that rounding made negative is 0; NaN stays NaN. */
    for (int64_t r = 0; r < n; ++r) g->spread[r] = !M ? fabs(g->shift[r]) : form[r] < 0.0 ? 0.0 : sqrt(form[r]);
}

/* Shrink a record's factors until its integers keep the bound. */
static void LOCAL(fit)(const lattice *l, int64_t m, const REAL *x, double *linear, double *quadratic) {
    uint64_t s1, s2;
    /* A zero contribution keeps it; its row may hold entries that are not finite. */
    if (*linear == 0.0 && *quadratic == 0.0) return;
    LOCAL(squares)(m, x, *linear, *quadratic, &s1, &s2);
    while (VF_UNLIKELY(!inside(l, s1, s2))) {
        *linear *= 1.0 - 0x1p-20;
        *quadratic *= 1.0 - 0x1p-20;
        LOCAL(squares)(m, x, *linear, *quadratic, &s1, &s2);
    }
}

int32_t KERNEL(vf_logistic_weights)(const vf_logistic_params *params, const LOCAL(vf_rows) * rows, const double *y,
                                    const double *trials, void *workspace, int64_t workspace_bytes, double *linear,
                                    double *quadratic, double *xi_out, double *norms_out) {
    int32_t status = LOCAL(check_rows)(rows);
    if (status != VF_OK) return status;
    lattice l;
    if (!params) return VF_ERR_NULL;
    if ((uintptr_t)params & 7u) return VF_ERR_ALIGNMENT;
    if ((status = prepare(params, &l)) != VF_OK) return status;
    const int64_t n = rows->n_rows, d = rows->n_columns, *indptr = rows->indptr;
    const REAL *values = rows->values;
    const double *second_moment = params->second_moment, *center = params->center;
    if (n == 0) return VF_OK;
    if (!y || !linear || !quadratic || !workspace) return VF_ERR_NULL;
    if (VF_OFF(y) | VF_OFF(trials) | VF_OFF(second_moment) | VF_OFF(center) | VF_OFF(linear) | VF_OFF(quadratic) |
        VF_OFF(xi_out) | VF_OFF(norms_out) | ((uintptr_t)workspace & 7u))
        return VF_ERR_ALIGNMENT;
    if (workspace_bytes < rows_workspace(d, indptr == NULL)) return VF_ERR_WORKSPACE;

    double *area = VF_ALIGN_UP(workspace);
    if (indptr && !values)
        for (int64_t i = 0; i < d; ++i) area[i] = 1.0;
    for (int64_t first = 0; first < n; first += GROUP) {
        const int64_t size = n - first < GROUP ? n - first : GROUP;
        group g;
        LOCAL(row_group)(rows, first, size, second_moment, center, area, &g);
        for (int64_t r = 0; r < size; ++r) g.trials[r] = trials ? trials[first + r] : params->n_trials;
        weigh(&l, d, size, params->label_free != 0, second_moment == NULL, y + first, &g);
        for (int64_t r = 0; r < size; ++r) {
            if (VF_LIKELY(g.most[r] <= (double)l.limit * (double)l.limit)) continue;
            const int64_t k = first + r, lo = indptr ? indptr[k] : k * d, m = indptr ? indptr[k + 1] - lo : d;
            LOCAL(fit)(&l, m, values ? values + lo : NULL, &g.weight[r], &g.factor[r]);
        }
        memcpy(linear + first, g.weight, (size_t)size * sizeof(double));
        memcpy(quadratic + first, g.factor, (size_t)size * sizeof(double));
        if (xi_out) memcpy(xi_out + first, g.xi, (size_t)size * sizeof(double));
        if (norms_out) memcpy(norms_out + first, g.norm, (size_t)size * sizeof(double));
    }
    return VF_OK;
}

/* Tile of the triangle: TILE rows from i0, columns of one or two vectors from j0. It sums a group of records in doubles,
 * exactly (see the head of estep.c), and adds that to the int64 sums. Strips a belong to the rows, b to the columns. */
VF_INLINE void LOCAL(tile)(int64_t n, int64_t d, int64_t i0, int64_t i_begin, int64_t i_end, int64_t j0, int vectors,
                           const double *VF_RESTRICT a, const double *VF_RESTRICT b, int64_t *VF_RESTRICT sums) {
    vfd s[TILE], t[TILE];
    for (int i = 0; i < TILE; ++i) s[i] = t[i] = vfd_set1(0);
    for (int64_t r = 0; r < n; ++r, a += VF_ND, b += VF_ND) {
        const vfd u = vfd_load(b), v = vectors > 1 ? vfd_load(b + STRIP) : u;
        for (int i = 0; i < TILE; ++i) {
            const vfd y = vfd_set1(a[i / VF_ND * STRIP + i % VF_ND]);
            s[i] = vfd_fma(u, y, s[i]);
            if (vectors > 1) t[i] = vfd_fma(v, y, t[i]);
        }
    }
    double outs[TILE][2 * VF_ND];
    for (int i = 0; i < TILE; ++i) {
        vfd_store(outs[i], s[i]);
        vfd_store(outs[i] + VF_ND, t[i]);
    }
    const int64_t end = j0 + vectors * VF_ND < d ? j0 + vectors * VF_ND : d;
    for (int64_t i = i0 > i_begin ? i0 : i_begin; i < i0 + TILE && i < i_end; ++i) {
        const double *out = outs[i - i0];
        int64_t *row = sums + TRIANGLE_ROW(i, d);
        if (i <= j0 && end == j0 + vectors * VF_ND) {
            /* |sum| < 2^51: adding 1.5 2^52 puts the integer in the mantissa,
             * which every vector unit can do. */
            for (int64_t j = 0; j < vectors * VF_ND; ++j) {
                const double magic = out[j] + 6755399441055744.0;
                int64_t bits;
                memcpy(&bits, &magic, sizeof bits);
                row[j0 + j] += bits - 0x4338000000000000;
            }
        } else {
            for (int64_t j = i > j0 ? i : j0; j < end; ++j) row[j] += (int64_t)out[j - j0];
        }
    }
}
VF_NOINLINE void LOCAL(tile_one)(int64_t n, int64_t d, int64_t i0, int64_t i_begin, int64_t i_end, int64_t j0,
                                 const double *VF_RESTRICT a, const double *VF_RESTRICT b, int64_t *VF_RESTRICT sums) {
    LOCAL(tile)(n, d, i0, i_begin, i_end, j0, 1, a, b, sums);
}
VF_NOINLINE void LOCAL(tile_two)(int64_t n, int64_t d, int64_t i0, int64_t i_begin, int64_t i_end, int64_t j0,
                                 const double *VF_RESTRICT a, const double *VF_RESTRICT b, int64_t *VF_RESTRICT sums) {
    LOCAL(tile)(n, d, i0, i_begin, i_end, j0, 2, a, b, sums);
}

/* Add trunc(linear x) and, with a = trunc(quadratic x), the products a a^T of sparse rows; either sum may be NULL. */
static int32_t LOCAL(add_sparse)(int64_t n, int64_t d, int64_t row_begin, int64_t row_end, const int64_t *indptr,
                                 const int32_t *indices, const REAL *values, const double *linear,
                                 const double *quadratic, double *area, int64_t *sums_linear, int64_t *sums_quadratic) {
    const int whole = row_begin == 0 && row_end == d;
    int64_t *a = (int64_t *)(area + VF_ROUND_UP(d, PANEL));
    if (!values)
        for (int64_t i = 0; i < d; ++i) area[i] = 1.0;
    for (int64_t r = 0; r < n; ++r) {
        const double w = sums_linear ? linear[r] : 0.0, f = sums_quadratic ? quadratic[r] : 0.0;
        const int64_t lo = indptr[r], m = indptr[r + 1] - lo;
        if (m == 0 || (w == 0.0 && f == 0.0)) continue; /* also the records that are not finite */
        const int32_t *index = indices + lo;
        const double *v = LOCAL(row_values)(m, values ? values + lo : NULL, area);
        /* One comparison for both: rounding is monotone and the ratio of the limits a power of two. */
        const double by_linear = fabs(w) * (FACTOR_LIMIT / LINEAR_LIMIT),
                     most = by_linear > fabs(f) ? by_linear : fabs(f);
        int outside = (w != w) | (f != f);
        for (int64_t i = 0; i < m; ++i) {
            const int in = fabs(v[i]) * most < FACTOR_LIMIT;
            outside |= !in;
            a[i] = (int32_t)(in ? f * v[i] : 0.0);
        }
        if (outside) return VF_ERR_RANGE;
        if (w != 0.0)
            for (int64_t i = 0; i < m; ++i)
                if (whole || (index[i] >= row_begin && index[i] < row_end))
                    sums_linear[index[i]] += (int32_t)(w * v[i]);
        if (f == 0.0) continue;
        if (whole) {
            LOCAL(sparse_outer)(m, d, index, a, sums_quadratic);
            continue;
        }
        for (int64_t i = 0; i < m; ++i) {
            const int64_t row = index[i], ai = a[i];
            if (row < row_begin) continue;
            if (row >= row_end) break;
            int64_t *s = sums_quadratic + TRIANGLE_ROW(row, d);
            for (int64_t j = i; j < m; ++j) s[index[j]] += ai * a[j];
        }
    }
    return VF_OK;
}

/* Dense rows: a group of records is packed in strips of VF_ND columns. Its linear sum is exact in doubles. */
static int32_t LOCAL(add_dense)(int64_t n, int64_t d, int64_t row_begin, int64_t row_end, const REAL *values,
                                const double *linear, const double *quadratic, double *strips, int64_t *sums_linear,
                                int64_t *sums_quadratic) {
    const int64_t d_pad = VF_ROUND_UP(d, PANEL), first_column = row_begin / TILE * TILE;
    double *total = strips + d_pad / VF_ND * STRIP;
    const vfd limit = vfd_set1(FACTOR_LIMIT);
    for (int64_t first = 0; first < n; first += GROUP) {
        const int64_t size = n - first < GROUP ? n - first : GROUP;
        const unsigned all = (1u << VF_ND) - 1;
        unsigned inside = all;
        memset(total, 0, (size_t)d_pad * sizeof(double));
        for (int64_t r = 0; r < size; ++r) {
            const REAL *x = values + (first + r) * d;
            double *strip = strips + first_column / VF_ND * STRIP + r * VF_ND;
            const double w = sums_linear ? linear[first + r] : 0.0, f = sums_quadratic ? quadratic[first + r] : 0.0;
            if (w == 0.0 && f == 0.0) { /* also the records that are not finite */
                for (int64_t j = first_column; j < d; j += VF_ND, strip += STRIP) vfd_store(strip, vfd_set1(0));
                continue;
            }
            /* One comparison for both, as for sparse rows; NaN fails it. */
            const double by_linear = fabs(w) * (FACTOR_LIMIT / LINEAR_LIMIT), by_factor = fabs(f);
            const double larger = by_linear > by_factor ? by_linear : by_factor + 0.0 * by_linear;
            const vfd most = vfd_set1(larger), ws = vfd_set1(w), fs = vfd_set1(f);
            for (int64_t j = first_column; j < d; j += VF_ND, strip += STRIP) {
                const vfd v = LOCAL(entries)(x, j, d);
                inside &= vfd_less_bits(vfd_mul(vfd_abs(v), most), limit);
                vfd_store(total + j, vfd_add(vfd_load(total + j), vfd_trunc(vfd_mul(v, ws))));
                vfd_store(strip, vfd_trunc(vfd_mul(v, fs)));
            }
        }
        if (inside != all) return VF_ERR_RANGE;
        if (sums_linear)
            for (int64_t j = row_begin; j < row_end; ++j) sums_linear[j] += (int64_t)total[j];
        if (!sums_quadratic) continue;
        for (int64_t i0 = first_column; i0 < row_end; i0 += TILE) {
            const double *a = strips + i0 / VF_ND * STRIP;
            for (int64_t j = i0; j < d; j += 2 * VF_ND)
                (d - j > VF_ND ? LOCAL(tile_two) : LOCAL(tile_one))(size, d, i0, row_begin, row_end, j, a,
                                                                    strips + j / VF_ND * STRIP, sums_quadratic);
        }
    }
    return VF_OK;
}

int32_t KERNEL(vf_logistic_accumulate)(const LOCAL(vf_rows) * rows, int64_t row_begin, int64_t row_end,
                                       const double *linear, const double *quadratic, void *workspace,
                                       int64_t workspace_bytes, int64_t *sums_linear, int64_t *sums_quadratic) {
    int32_t status = LOCAL(check_rows)(rows);
    if (status != VF_OK) return status;
    const int64_t n = rows->n_rows, d = rows->n_columns, *indptr = rows->indptr;
    const int32_t *indices = rows->indices;
    const REAL *values = rows->values;
    if (row_begin < 0 || row_end > d || row_begin > row_end) return VF_ERR_SIZE;
    /* Rows without entries add nothing, however many they are. */
    const int64_t entries = indptr && n > 0 ? indptr[n] - indptr[0] : n, adding = entries < n ? entries : n;
    const double largest = sums_quadratic ? FACTOR_LIMIT * FACTOR_LIMIT : LINEAR_LIMIT;
    if ((double)adding * largest > VF_MAX_SUM) return VF_ERR_SIZE;
    if (n == 0 || row_begin == row_end) return VF_OK;
    if (!workspace || (sums_linear && !linear) || (sums_quadratic && !quadratic)) return VF_ERR_NULL;
    if (VF_OFF(linear) | VF_OFF(quadratic) | VF_OFF(sums_linear) | VF_OFF(sums_quadratic) | ((uintptr_t)workspace & 7u))
        return VF_ERR_ALIGNMENT;
    if (workspace_bytes < rows_workspace(d, indptr == NULL)) return VF_ERR_WORKSPACE;
    double *area = VF_ALIGN_UP(workspace);
    if (indptr)
        return LOCAL(add_sparse)(n, d, row_begin, row_end, indptr, indices, values, linear, quadratic, area,
                                 sums_linear, sums_quadratic);
    return LOCAL(add_dense)(n, d, row_begin, row_end, values, linear, quadratic, area, sums_linear, sums_quadratic);
}
