/* Joint bounds of units of several rows, for one type of the stored values. Included
 * twice by estep.c, which states the mathematics. */

/* A unit's rows and the bounds of their factors. */
typedef struct {
    int64_t m, d;
    const int64_t *indptr; /* of the unit's first row; NULL for dense rows */
    const int32_t *indices;
    const REAL *values; /* NULL: ones */
    double *linear, *quadratic;
    const double *norms;
    double target, spacing, factor_square; /* L - 2 g, g, h^2 */
    int label_free, outside;
} LOCAL(unit_rows);

VF_INLINE int LOCAL(silent)(const LOCAL(unit_rows) * u, int64_t r) {
    return u->linear[r] == 0.0 && u->quadratic[r] == 0.0;
}

/* Entries of row r, and the place of the first. */
VF_INLINE int64_t LOCAL(extent)(const LOCAL(unit_rows) * u, int64_t r, int64_t *first) {
    *first = u->indptr ? u->indptr[r] : r * u->d;
    return u->indptr ? u->indptr[r + 1] - *first : u->d;
}

/* A row's entry: x itself, or trunc(f x) if f is not 0. */
VF_INLINE double LOCAL(entry)(LOCAL(unit_rows) * u, int64_t i, double f) {
    const double x = u->values ? (double)u->values[i] : 1.0;
    return f == 0.0 ? x : (double)truncated(f * x, FACTOR_LIMIT, &u->outside);
}

/* Weight of a row's inner products in the linear part, from its own square. */
static double LOCAL(linear_weight)(const LOCAL(unit_rows) * u, int64_t r, double square) {
    if (!u->label_free) return u->linear[r] * u->spacing;
    if (!(square > 0.0)) return 0.0;
    /* The part of the row's norm, after its own clip, that is not quadratic; the margin is above rounding. */
    const double norm = u->norms[r] < u->target ? u->norms[r] : u->target, f = u->quadratic[r];
    const double part = f * (f * square) * u->factor_square, rest = norm * norm - part * part;
    return sqrt(((rest > 0.0 ? rest : 0.0) + 0x1p-40 * norm * norm) / square);
}

/* One tile of rows, dense and padded; the rows' linear weights unless integers are meant. */
static void LOCAL(unit_tile)(LOCAL(unit_rows) * u, int exact, int64_t first, int64_t n, int64_t d_pad,
                             double *VF_RESTRICT rows, double *VF_RESTRICT weight) {
    for (int64_t r = 0; r < n; ++r) {
        double *row = rows + r * d_pad;
        const int64_t k = first + r;
        const double f = exact ? u->quadratic[k] : 0.0;
        memset(row, 0, (size_t)d_pad * sizeof(double));
        weight[r] = 0.0;
        if (LOCAL(silent)(u, k) || (exact && f == 0.0)) continue;
        int64_t at;
        const int64_t m = LOCAL(extent)(u, k, &at);
        for (int64_t i = 0; i < m; ++i) row[u->indptr ? u->indices[at + i] : i] = LOCAL(entry)(u, at + i, f);
        if (exact) continue;
        vfd s = vfd_set1(0);
        for (int64_t j = 0; j < d_pad; j += VF_ND) s = vfd_fma(vfd_load(row + j), vfd_load(row + j), s);
        weight[r] = LOCAL(linear_weight)(u, k, vfd_sum(s));
    }
}

/* The two terms of one pair of rows; exact: p is an inner product of integers. */
VF_INLINE void LOCAL(add_pair)(const LOCAL(unit_rows) * u, int exact, int64_t r, int64_t s, double p, double weights,
                               double *VF_RESTRICT sums) {
    const double twice = r == s ? 1.0 : 2.0, product = exact ? p : u->quadratic[r] * (u->quadratic[s] * p);
    sums[0] += twice * (u->label_free ? weights * fabs(p) : weights * p);
    sums[1] += twice * (product * product);
}

static void LOCAL(dense_pairs)(LOCAL(unit_rows) * u, int exact, double *area, double *sums) {
    const int64_t d_pad = VF_ROUND_UP(u->d, PANEL);
    double *left = area, *right = area + UNIT_TILE * d_pad, a[UNIT_TILE], b[UNIT_TILE];
    for (int64_t i = 0; i < u->m; i += UNIT_TILE) {
        const int64_t n = u->m - i < UNIT_TILE ? u->m - i : UNIT_TILE;
        double stripe[2] = {0.0, 0.0};
        LOCAL(unit_tile)(u, exact, i, n, d_pad, left, a);
        for (int64_t j = i; j < u->m; j += UNIT_TILE) {
            const int64_t w = u->m - j < UNIT_TILE ? u->m - j : UNIT_TILE;
            const double *other = j == i ? left : right, *c = j == i ? a : b;
            double tile[2] = {0.0, 0.0};
            if (j != i) LOCAL(unit_tile)(u, exact, j, w, d_pad, right, b);
            for (int64_t r = 0; r < n; ++r) {
                double row[2] = {0.0, 0.0};
                if (LOCAL(silent)(u, i + r)) continue;
                for (int64_t s = j == i ? r : 0; s < w; ++s) {
                    const double *x = left + r * d_pad, *y = other + s * d_pad;
                    vfd p = vfd_set1(0);
                    for (int64_t k = 0; k < d_pad; k += VF_ND) p = vfd_fma(vfd_load(x + k), vfd_load(y + k), p);
                    LOCAL(add_pair)(u, exact, i + r, j + s, vfd_sum(p), exact ? 0.0 : a[r] * c[s], row);
                }
                tile[0] += row[0];
                tile[1] += row[1];
            }
            stripe[0] += tile[0];
            stripe[1] += tile[1];
        }
        sums[0] += stripe[0];
        sums[1] += stripe[1];
    }
}

/* A sparse row's inner product with the row that was spread over area. */
VF_INLINE double LOCAL(spread_dot)(LOCAL(unit_rows) * u, int64_t s, double f, const double *area) {
    int64_t first;
    const int64_t m = LOCAL(extent)(u, s, &first);
    double p = 0.0;
    for (int64_t i = first; i < first + m; ++i) p = MULADD(area[u->indices[i]], LOCAL(entry)(u, i, f), p);
    return p;
}

static void LOCAL(spread)(LOCAL(unit_rows) * u, int64_t r, double f, double *area, int clear) {
    int64_t first;
    const int64_t m = LOCAL(extent)(u, r, &first);
    for (int64_t i = first; i < first + m; ++i) area[u->indices[i]] = clear ? 0.0 : LOCAL(entry)(u, i, f);
}

/* A sparse row's x . x, added in the order of its inner products with others. */
static double LOCAL(sparse_weight)(LOCAL(unit_rows) * u, int64_t r) {
    int64_t first;
    const int64_t m = LOCAL(extent)(u, r, &first);
    double p = 0.0;
    for (int64_t i = first; i < first + m; ++i) {
        const double x = LOCAL(entry)(u, i, 0.0);
        p = MULADD(x, x, p);
    }
    return LOCAL(linear_weight)(u, r, p);
}

static void LOCAL(sparse_pairs)(LOCAL(unit_rows) * u, int exact, double *area, double *sums) {
    for (int64_t r = 0; r < u->m; ++r) {
        const double f = exact ? u->quadratic[r] : 0.0;
        double row[2] = {0.0, 0.0};
        if (LOCAL(silent)(u, r) || (exact && f == 0.0)) continue;
        const double own = exact ? 0.0 : LOCAL(sparse_weight)(u, r);
        LOCAL(spread)(u, r, f, area, 0);
        for (int64_t s = r; s < u->m; ++s) {
            const double g = exact ? u->quadratic[s] : 0.0;
            if (LOCAL(silent)(u, s) || (exact && g == 0.0)) continue;
            const double other = exact ? 0.0 : LOCAL(sparse_weight)(u, s);
            LOCAL(add_pair)(u, exact, r, s, LOCAL(spread_dot)(u, s, g, area), own * other, row);
        }
        LOCAL(spread)(u, r, f, area, 1);
        sums[0] += row[0];
        sums[1] += row[1];
    }
}

/* sum_r trunc(w_r x_r), squared; int64 holds it for 2^31 rows. For sparse rows area is zero before and after. */
static double LOCAL(linear_square)(LOCAL(unit_rows) * u, double *area) {
    int64_t *q = (int64_t *)(void *)area, first;
    double total = 0.0;
    if (!u->indptr) memset(q, 0, (size_t)u->d * sizeof(int64_t));
    for (int64_t r = 0; r < u->m; ++r) {
        const double w = u->linear[r];
        if (w == 0.0) continue;
        const int64_t m = LOCAL(extent)(u, r, &first);
        for (int64_t i = 0; i < m; ++i) {
            const double x = u->values ? (double)u->values[first + i] : 1.0;
            q[u->indptr ? u->indices[first + i] : i] += truncated(w * x, LINEAR_LIMIT, &u->outside);
        }
    }
    if (!u->indptr) {
        for (int64_t j = 0; j < u->d; ++j) total += (double)q[j] * (double)q[j];
        return total;
    }
    /* Only columns that the rows have, each once. */
    for (int64_t r = 0; r < u->m; ++r) {
        const int64_t m = LOCAL(extent)(u, r, &first);
        for (int64_t i = first; i < first + m; ++i) {
            const double sum = (double)q[u->indices[i]];
            total += sum * sum;
            q[u->indices[i]] = 0;
        }
    }
    return total;
}

/* sum_{r,s} W_r W_s |x_r . x_s|, a tile of rows against the lanes of another, turned. */
static double LOCAL(worst_labels)(LOCAL(unit_rows) * u, int64_t d_pad, double *area) {
    double *left = area, *right = left + UNIT_TILE * d_pad, *turned = right + UNIT_TILE * d_pad, total = 0.0;
    for (int64_t i = 0; i < u->m; i += UNIT_TILE) {
        const int64_t n = u->m - i < UNIT_TILE ? u->m - i : UNIT_TILE;
        double a[UNIT_TILE], stripe = 0.0;
        LOCAL(unit_tile)(u, 0, i, n, d_pad, left, a);
        for (int64_t j = i; j < u->m; j += UNIT_TILE) {
            const int64_t w = u->m - j < UNIT_TILE ? u->m - j : UNIT_TILE;
            double c[UNIT_TILE] = {0}, tile = 0.0;
            memset(turned, 0, (size_t)(UNIT_TILE * d_pad) * sizeof(double));
            LOCAL(unit_tile)(u, 0, j, w, d_pad, right, c);
            for (int64_t s = 0; s < w; ++s)
                for (int64_t k = 0; k < u->d; ++k) turned[k * UNIT_TILE + s] = right[s * d_pad + k];
            for (int64_t r = 0; r < n; ++r) {
                vfd sum = vfd_set1(0);
                if (a[r] == 0.0) continue;
                for (int64_t s = 0; s < UNIT_TILE; s += 2 * VF_ND) {
                    vfd p = vfd_set1(0), q = p;
                    for (int64_t k = 0; k < u->d; ++k) {
                        const vfd x = vfd_set1(left[r * d_pad + k]);
                        p = vfd_fma(x, vfd_load(turned + k * UNIT_TILE + s), p);
                        q = vfd_fma(x, vfd_load(turned + k * UNIT_TILE + s + VF_ND), q);
                    }
                    sum = vfd_fma(vfd_abs(p), vfd_load(c + s), sum);
                    sum = vfd_fma(vfd_abs(q), vfd_load(c + s + VF_ND), sum);
                }
                tile += a[r] * vfd_sum(sum);
            }
            stripe += j == i ? tile : 2.0 * tile;
        }
        total += stripe;
    }
    return total;
}

/* The same sums from the d x d matrix of the unit's moments, if that is smaller than its rows. */
static void LOCAL(moments)(LOCAL(unit_rows) * u, int exact, double *area, double *sums) {
    const int64_t d_pad = VF_ROUND_UP(u->d, PANEL);
    double *rows = area, *matrix = area + 3 * UNIT_TILE * d_pad, *linear = matrix + d_pad * d_pad, a[UNIT_TILE];
    const int signs = !exact && !u->label_free;
    memset(matrix, 0, (size_t)((d_pad + 1) * d_pad) * sizeof(double));
    for (int64_t i = 0; i < u->m; i += UNIT_TILE) {
        const int64_t n = u->m - i < UNIT_TILE ? u->m - i : UNIT_TILE;
        LOCAL(unit_tile)(u, exact, i, n, d_pad, rows, a);
        for (int64_t r = 0; r < n; ++r) {
            double *row = rows + r * d_pad;
            for (int64_t j = 0; signs && j < u->d; ++j) linear[j] += a[r] * row[j];
            for (int64_t j = 0; !exact && j < u->d; ++j) row[j] *= u->quadratic[i + r];
            for (int64_t k = 0; k < u->d; ++k) {
                if (row[k] == 0.0) continue;
                const vfd x = vfd_set1(row[k]);
                double *to = matrix + k * d_pad;
                for (int64_t j = 0; j < d_pad; j += VF_ND)
                    vfd_store(to + j, vfd_fma(x, vfd_load(row + j), vfd_load(to + j)));
            }
        }
    }
    for (int64_t k = 0; k < u->d; ++k) {
        vfd square = vfd_set1(0);
        for (int64_t j = 0; j < d_pad; j += VF_ND) {
            const vfd x = vfd_load(matrix + k * d_pad + j);
            square = vfd_fma(x, x, square);
        }
        sums[0] += linear[k] * linear[k];
        sums[1] += vfd_sum(square);
    }
    if (!exact && u->label_free) sums[0] = LOCAL(worst_labels)(u, d_pad, area);
    if (u->indptr) memset(area, 0, (size_t)u->d * sizeof(double));
}

static void LOCAL(pairs)(LOCAL(unit_rows) * u, int exact, double *area, double *sums) {
    sums[0] = sums[1] = 0.0;
    if (u->d <= MOMENT_COLUMNS && u->m > u->d && u->m > UNIT_TILE)
        LOCAL(moments)(u, exact, area, sums);
    else if (u->indptr)
        LOCAL(sparse_pairs)(u, exact, area, sums);
    else
        LOCAL(dense_pairs)(u, exact, area, sums);
}

static void LOCAL(scale)(LOCAL(unit_rows) * u, double factor) {
    const double root = sqrt(factor);
    for (int64_t r = 0; r < u->m; ++r) {
        u->linear[r] *= factor;
        u->quadratic[r] *= root;
    }
}

int32_t KERNEL(vf_logistic_units)(const vf_logistic_params *params, const LOCAL(vf_rows) * rows, int64_t n_units,
                                  const int64_t *starts, void *workspace, int64_t workspace_bytes, double *linear,
                                  double *quadratic, const double *norms) {
    int32_t status = LOCAL(check_rows)(rows);
    if (status != VF_OK) return status;
    lattice l;
    if (!params || !starts) return VF_ERR_NULL;
    if (((uintptr_t)params & 7u) | VF_OFF(starts)) return VF_ERR_ALIGNMENT;
    if ((status = prepare(params, &l)) != VF_OK) return status;
    const int64_t n = rows->n_rows, d = rows->n_columns;
    if ((status = check_starts(n_units, starts, n)) != VF_OK) return status;
    if (n == 0) return VF_OK;
    if (!linear || !quadratic || !norms || !workspace) return VF_ERR_NULL;
    if (VF_OFF(linear) | VF_OFF(quadratic) | VF_OFF(norms) | ((uintptr_t)workspace & 7u)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_logistic_workspace)(d, rows->indptr == NULL)) return VF_ERR_WORKSPACE;

    double *area = VF_ALIGN_UP(workspace), sums[2];
    const double g = params->spacing, h2 = params->factor_spacing * params->factor_spacing;
    const double goal = l.target * (1.0 - 0x1p-18), limit = (double)l.limit;
    if (rows->indptr) memset(area, 0, (size_t)d * sizeof(double));
    for (int64_t k = 0; k < n_units; ++k) {
        const int64_t first = starts[k], m = starts[k + 1] - first;
        if (m < 2) continue;
        LOCAL(unit_rows)
        u = {m,
             d,
             rows->indptr,
             rows->indices,
             rows->values,
             linear + first,
             quadratic + first,
             norms + first,
             l.target,
             g,
             h2,
             params->label_free != 0,
             0};
        if (u.indptr)
            u.indptr += first;
        else
            u.values += first * d;
        LOCAL(pairs)(&u, 0, area, sums);
        const double norm = sqrt((sums[0] > 0.0 ? sums[0] : 0.0) + (h2 * h2) * sums[1]);
        if (!(norm - norm == 0.0)) return VF_ERR_RANGE; /* no factors of logistic_weights */
        if (norm > goal) LOCAL(scale)(&u, goal / norm);
        for (;;) {
            const double q = LOCAL(linear_square)(&u, area);
            LOCAL(pairs)(&u, 1, area, sums);
            if (u.outside) return VF_ERR_RANGE;
            /* In units of g^2, rounded up. */
            const double square = (q + (h2 / g) * (h2 / g) * sums[1]) * (1.0 + 0x1p-20);
            if (VF_LIKELY(square <= limit * limit)) break;
            LOCAL(scale)(&u, limit / sqrt(square) * (1.0 - 0x1p-20));
        }
    }
    return VF_OK;
}
