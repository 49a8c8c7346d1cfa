/* Sufficient statistics of sigmoid belief networks: rows are clipped and truncated to
 * integers, and the sums of products of integers are exact in every order. */
#include "sbn/shared.h"

int32_t VF_FN(vf_sbn_clip)(int64_t n_records, int64_t n_columns, double clip_norm, double spacing, const double *x,
                           const double *center, const double *factor, double *units, double *norms) {
    if (sizes_bad(n_records, n_columns, 1)) return VF_ERR_SIZE;
    if (n_records > 0 && (!x || !units)) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(center) | VF_OFF(factor) | VF_OFF(units) | VF_OFF(norms)) return VF_ERR_ALIGNMENT;
    if (!vf_is_spacing(spacing, VF_MIN_SPACING, VF_MAX_SPACING)) return VF_ERR_PARAMETER;
    const int clip = clip_norm > 0.0;
    /* Below 2^31 the sum of squares fits 64 bits. */
    if (clip && !(clip_norm / spacing >= 1.0 && clip_norm / spacing < 2147483648.0)) return VF_ERR_PARAMETER;
    for (int64_t n = 0; n < n_records; ++n) {
        const double *row = x + n * n_columns;
        double *out = units + n * n_columns;
        const double f = factor ? factor[n] : 1.0;
        double square = 0.0, top = 0.0;
        for (int64_t i = 0; i < n_columns; ++i) {
            const double v = row[i] - (center ? center[i] : 0.0);
            out[i] = v;
            square += v * v;
            top = fabs(v) > top ? fabs(v) : top;
        }
        const double norm = sqrt(square), scale = f / spacing * (clip && norm > clip_norm ? clip_norm / norm : 1.0);
        /* Not finite, or past the exact integers of a double: the zero vector. */
        if (!(square <= 1e300) || !(f > 0.0 && f <= 1.0) || !(top * scale <= 0x1p52)) {
            memset(out, 0, (size_t)n_columns * sizeof(double));
            if (norms) norms[n] = 0.0;
            continue;
        }
        if (norms) norms[n] = norm;
        for (int64_t i = 0; i < n_columns; ++i) out[i] = trunc(out[i] * scale);
        if (!clip) continue;
        const uint64_t limit = (uint64_t)floor(clip_norm * f / spacing);
        for (;;) {
            uint64_t q = 0;
            for (int64_t i = 0; i < n_columns; ++i) {
                const int64_t v = (int64_t)out[i];
                q += (uint64_t)(v * v);
            }
            if (VF_LIKELY(q <= limit * limit)) break;
            /* Rounding left it a little too long: each entry one step shorter. */
            for (int64_t i = 0; i < n_columns; ++i) out[i] -= (out[i] > 0.0) - (out[i] < 0.0);
        }
    }
    return VF_OK;
}

int32_t VF_FN(vf_sbn_visible_norms)(int64_t n_records, int64_t n_visible, const uint8_t *y, const double *center,
                                    double *norms) {
    if (sizes_bad(n_records, n_visible, 1)) return VF_ERR_SIZE;
    if (n_records > 0 && (!y || !center || !norms)) return VF_ERR_NULL;
    if (VF_OFF(center) | VF_OFF(norms)) return VF_ERR_ALIGNMENT;
    for (int64_t n = 0; n < n_records; ++n) {
        const uint8_t *row = y + n * n_visible;
        double square = 0.0;
        for (int64_t j = 0; j < n_visible; ++j) {
            const double v = (double)(row[j] != 0) - center[j];
            square += v * v;
        }
        /* The margin is above the error of a sum of 2^20 squares and a root. */
        norms[n] = sqrt(square) * (1.0 + 1e-9);
    }
    return VF_OK;
}

/* Is some v no integer in [low, high], |low|, |high| < 2^51? Adding and subtracting 1.5 2^52 rounds to one. */
static int off_lattice(int64_t n, const double *v, double low, double high) {
    int bad = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double rounded = v[i] + 0x1.8p52 - 0x1.8p52;
        bad |= !(v[i] >= low) | !(v[i] <= high) | (rounded != v[i]);
    }
    return bad;
}

int32_t VF_FN(vf_sbn_cross)(int64_t n_records, int64_t n_visible, int64_t n_hidden, const uint8_t *y, const double *v,
                            int64_t *sums) {
    if (sizes_bad(n_records, n_visible, n_hidden)) return VF_ERR_SIZE;
    if ((double)n_records * 0x1p31 > VF_MAX_SUM) return VF_ERR_SIZE;
    if (n_records > 0 && (!y || !v || !sums)) return VF_ERR_NULL;
    if (VF_OFF(v) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (off_lattice(n_records * n_hidden, v, -(0x1p31 - 1), 0x1p31 - 1)) return VF_ERR_RANGE;
    int64_t q[64];
    for (int64_t n = 0; n < n_records; ++n) {
        const uint8_t *row = y + n * n_visible;
        for (int64_t base = 0; base < n_hidden; base += 64) {
            const int64_t width = n_hidden - base < 64 ? n_hidden - base : 64;
            for (int64_t k = 0; k < width; ++k) q[k] = (int64_t)v[n * n_hidden + base + k];
            for (int64_t j = 0; j < n_visible; ++j) {
                if (!row[j]) continue;
                int64_t *s = sums + j * n_hidden + base;
                for (int64_t k = 0; k < width; ++k) s[k] += q[k];
            }
        }
    }
    return VF_OK;
}

/* Products of two integers of at most 2^20 stay integers below 2^53 for this many records: sums in double are exact. */
#define GRAM_FLUSH 4096

int64_t VF_FN(vf_sbn_gram_workspace)(int64_t n_hidden) {
    if (sizes_bad(0, 1, n_hidden)) return -1;
    return VF_LINE + (int64_t)sizeof(double) * n_hidden * n_hidden;
}

int32_t VF_FN(vf_sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace,
                           int64_t workspace_bytes, int64_t *sums) {
    if (sizes_bad(n_records, 1, n_hidden)) return VF_ERR_SIZE;
    if ((double)n_records * 0x1p40 > VF_MAX_SUM) return VF_ERR_SIZE;
    if (!workspace || (n_records > 0 && (!v || !sums))) return VF_ERR_NULL;
    if (VF_OFF(v) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_gram_workspace)(n_hidden)) return VF_ERR_WORKSPACE;
    if (off_lattice(n_records * n_hidden, v, -0x1p20, 0x1p20)) return VF_ERR_RANGE;
    double *acc = VF_ALIGN_UP(workspace);
    for (int64_t first = 0; first < n_records; first += GRAM_FLUSH) {
        const int64_t end = first + GRAM_FLUSH < n_records ? first + GRAM_FLUSH : n_records;
        memset(acc, 0, (size_t)(n_hidden * n_hidden) * sizeof(double));
        for (int64_t n = first; n < end; ++n) {
            const double *row = v + n * n_hidden;
            for (int64_t k = 0; k + 1 < n_hidden; ++k) {
                const double vk = row[k];
                double *a = acc + k * n_hidden;
                for (int64_t l = k + 1; l < n_hidden; ++l) a[l] += vk * row[l];
            }
        }
        int64_t *s = sums;
        for (int64_t k = 0; k + 1 < n_hidden; ++k)
            for (int64_t l = k + 1; l < n_hidden; ++l) *s++ += (int64_t)acc[k * n_hidden + l];
    }
    return VF_OK;
}

/* Weighted second moments: X'P, X of integers (n x J), P the truncated pair products (n x pairs).
 *
 * A matrix product in the usual three levels. It takes MOM_DEPTH records at a time. X is packed in panels of MOM_ROWS
 * columns. For each panel of MOM_COLS pairs the products are formed straight into the packed panel: no n x K(K+1)/2
 * array exists. A MOM_ROWS x MOM_COLS tile of sums stays in registers. X and P of at most 2^21 and 2^22 keep a sum of
 * MOM_DEPTH products within 2^53: the double sums are exact. Each tile is then added to int64. MOM_DEPTH is as large as
 * exactness allows, because these J K^2 / 2 sums come from main memory each time. */
#define MOM_DEPTH 1024
/* Panels of pairs formed at a time. Together with one panel of X they fit the second-level cache, and each panel of X
 * comes from further away once for all of them. */
#define MOM_GROUP 4
#define MOM_VECS 3
#if defined(VF_ISA_AVX512)
#define MOM_ROWS 8 /* 24 sums, 3 vectors of pairs, 1 of X: of 32 registers */
#else
#define MOM_ROWS 4 /* 12 + 3 + 1 of 16 */
#endif
#define MOM_COLS (MOM_VECS * VF_ND)

int64_t VF_FN(vf_sbn_moments_workspace)(int64_t n_visible, int64_t n_hidden) {
    if (sizes_bad(0, n_visible, n_hidden)) return -1;
    return VF_LINE + (int64_t)sizeof(double) * MOM_DEPTH * (VF_ROUND_UP(n_visible, MOM_ROWS) + MOM_GROUP * MOM_COLS);
}

/* tile[r][c] = sum_i a[i][r] p[i][c] */
VF_NOINLINE void moments_tile(int64_t depth, const double *VF_RESTRICT a, const double *VF_RESTRICT p,
                              double *VF_RESTRICT tile) {
    vfd s[MOM_ROWS][MOM_VECS];
    for (int r = 0; r < MOM_ROWS; ++r) s[r][0] = s[r][1] = s[r][2] = vfd_set1(0.0);
    for (int64_t i = 0; i < depth; ++i, a += MOM_ROWS, p += MOM_COLS) {
        const vfd q0 = vfd_load(p), q1 = vfd_load(p + VF_ND), q2 = vfd_load(p + 2 * VF_ND);
        for (int r = 0; r < MOM_ROWS; ++r) {
            const vfd x = vfd_set1(a[r]);
            s[r][0] = vfd_fma(x, q0, s[r][0]);
            s[r][1] = vfd_fma(x, q1, s[r][1]);
            s[r][2] = vfd_fma(x, q2, s[r][2]);
        }
    }
    for (int r = 0; r < MOM_ROWS; ++r)
        for (int v = 0; v < MOM_VECS; ++v) vfd_store(tile + r * MOM_COLS + v * VF_ND, s[r][v]);
}

/* out = trunc(a z), MOM_COLS of them; a z is below 2^31. */
VF_INLINE void moments_products(double a, const double *VF_RESTRICT z, double *VF_RESTRICT out) {
    int32_t q[MOM_COLS];
    for (int c = 0; c < MOM_COLS; c += VF_ND) vfd_store_i32(q + c, vfd_mul(vfd_set1(a), vfd_load(z + c)));
    for (int c = 0; c < MOM_COLS; ++c) out[c] = q[c];
}

/* Columns of x in panels of MOM_ROWS, MOM_DEPTH records long. */
static void pack(int64_t depth, int64_t n_visible, const double *x, double *packed) {
    for (int64_t j = 0; j < n_visible; j += MOM_ROWS, packed += MOM_DEPTH * MOM_ROWS) {
        const int64_t rows = n_visible - j < MOM_ROWS ? n_visible - j : MOM_ROWS;
        double *out = packed;
        for (int64_t i = 0; i < depth; ++i, out += MOM_ROWS) {
            const double *in = x + i * n_visible + j;
            if (rows == MOM_ROWS) {
                for (int64_t r = 0; r < MOM_ROWS; ++r) out[r] = in[r];
            } else {
                for (int64_t r = 0; r < MOM_ROWS; ++r) out[r] = r < rows ? in[r] : 0.0;
            }
        }
    }
}

/* The next `cols` pairs from (*k, *l) on as one panel of products, which moves (*k, *l) past them. */
static void form_panel(int64_t depth, int64_t n_hidden, int64_t cols, double pair_scale, const double *z, int64_t *k,
                       int64_t *l, double *panel) {
    for (int64_t c = 0; c < cols;) {
        /* A run of one k. */
        const int64_t run = n_hidden - *l < cols - c ? n_hidden - *l : cols - c;
        const double *zk = z + *k, *zl = z + *l;
        double *out = panel + c;
        if (run == MOM_COLS) {
            for (int64_t i = 0; i < depth; ++i, out += MOM_COLS, zk += n_hidden, zl += n_hidden)
                moments_products(*zk * pair_scale, zl, out);
        } else {
            for (int64_t i = 0; i < depth; ++i, out += MOM_COLS, zk += n_hidden, zl += n_hidden)
                for (int64_t m = 0; m < run; ++m) out[m] = (int32_t)(*zk * pair_scale * zl[m]);
        }
        if (*k == *l)
            for (int64_t i = 0; i < depth; ++i) panel[c + i * MOM_COLS] = (int32_t)(z[i * n_hidden + *k] * pair_scale);
        c += run;
        *l += run;
        if (*l == n_hidden) *l = ++*k;
    }
    for (int64_t c = cols; c < MOM_COLS; ++c)
        for (int64_t i = 0; i < depth; ++i) panel[i * MOM_COLS + c] = 0.0;
}

/* Add one panel of x times one panel of pairs to `rows` rows and `cols` columns of the sums. */
static void add_tile(int64_t depth, int64_t rows, int64_t cols, int64_t n_pairs, const double *a, const double *p,
                     int64_t *sums) {
    double tile[MOM_ROWS * MOM_COLS];
    /* The sums lie far apart in memory; fetch them while the tile is formed. */
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; c += 8) VF_PREFETCH(sums + r * n_pairs + c);
    moments_tile(depth, a, p, tile);
    for (int64_t r = 0; r < rows; ++r) {
        int64_t *s = sums + r * n_pairs;
        const double *t = tile + r * MOM_COLS;
        if (cols == MOM_COLS) {
            for (int64_t c = 0; c < MOM_COLS; ++c) s[c] += (int64_t)t[c];
        } else {
            for (int64_t c = 0; c < cols; ++c) s[c] += (int64_t)t[c];
        }
    }
}

int32_t VF_FN(vf_sbn_moments)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int64_t first, int64_t last,
                              double pair_scale, const double *x, const double *z, void *workspace,
                              int64_t workspace_bytes, int64_t *sums) {
    if (sizes_bad(n_records, n_visible, n_hidden)) return VF_ERR_SIZE;
    const int64_t n_pairs = n_hidden * (n_hidden + 1) / 2;
    if (first < 0 || last < first || last > n_pairs) return VF_ERR_SIZE;
    if (!vf_is_spacing(pair_scale, VF_MIN_SPACING, 0x1p22)) return VF_ERR_PARAMETER;
    if ((double)n_records * 0x1p21 * pair_scale > VF_MAX_SUM) return VF_ERR_SIZE;
    if (!workspace || (n_records > 0 && last > first && (!x || !z || !sums))) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(z) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_moments_workspace)(n_visible, n_hidden)) return VF_ERR_WORKSPACE;
    if (first == last) return VF_OK;
    if (off_lattice(n_records * n_visible, x, 0.0, 0x1p21)) return VF_ERR_RANGE;
    int outside = 0;
    for (int64_t i = 0; i < n_records * n_hidden; ++i) outside |= !(z[i] >= 0.0) | !(z[i] <= 1.0);
    if (outside) return VF_ERR_RANGE;
    double *packed = VF_ALIGN_UP(workspace), *pairs = packed + MOM_DEPTH * VF_ROUND_UP(n_visible, MOM_ROWS);

    for (int64_t begin = 0; begin < n_records; begin += MOM_DEPTH) {
        const int64_t depth = n_records - begin < MOM_DEPTH ? n_records - begin : MOM_DEPTH;
        pack(depth, n_visible, x + begin * n_visible, packed);
        /* (k, l) is pair number p. */
        int64_t k = 0, row = 0;
        while (row + n_hidden - k <= first) row += n_hidden - k++;
        int64_t l = k + first - row;
        for (int64_t group = first; group < last; group += MOM_GROUP * MOM_COLS) {
            const int64_t stop = last - group < MOM_GROUP * MOM_COLS ? last : group + MOM_GROUP * MOM_COLS;
            double *panel = pairs;
            for (int64_t p = group; p < stop; p += MOM_COLS, panel += MOM_DEPTH * MOM_COLS)
                form_panel(depth, n_hidden, stop - p < MOM_COLS ? stop - p : MOM_COLS, pair_scale, z + begin * n_hidden,
                           &k, &l, panel);
            for (int64_t j = 0; j < n_visible; j += MOM_ROWS) {
                const int64_t rows = n_visible - j < MOM_ROWS ? n_visible - j : MOM_ROWS;
                panel = pairs;
                for (int64_t p = group; p < stop; p += MOM_COLS, panel += MOM_DEPTH * MOM_COLS)
                    add_tile(depth, rows, stop - p < MOM_COLS ? stop - p : MOM_COLS, n_pairs, packed + j * MOM_DEPTH,
                             panel, sums + j * n_pairs + p);
            }
        }
    }
    return VF_OK;
}
