/* Mean-field E-step and sufficient statistics of sigmoid belief networks.
 *
 * Model (Park et al. 2020, Eq. 61): z_k ~ Bern(sigmoid(b_k)), k = 1..K, and
 * y_j ~ Bern(sigmoid(psi_j)), psi_j = c_j + sum_k w_jk z_k, j = 1..J.
 *
 * Polya-Gamma bound (Eqs. 67-71). With xi_j = PG mean at sqrt(E[psi_j^2]) and
 * the residual r_j = y_j - 1/2 - xi_j E[psi_j], Eq. 70 reads
 *
 *     d_k = b_k + sum_j w_jk r_j + z_k sum_j xi_j w_jk^2 - 1/2 sum_j xi_j E[w_jk^2]
 *
 * (the third term takes unit k's own part out of r). One sweep sets z_k =
 * sigmoid(d_k) for k = 1..K in turn and keeps r current: r_j -= xi_j w_jk dz_k.
 * That is 2JK multiply-adds a record and sweep, where forming psi afresh for
 * each k costs JK^2. xi is renewed before each sweep and after the last, with
 * (W's columns taken as independent)
 *
 *     E[psi_j^2] = E[psi_j]^2 + var c_j + sum_k (E[w_jk^2] z_k - w_jk^2 z_k^2).
 *
 * Bounds whose curvature all records share: log(1 + e^psi) <= a parabola with
 * second derivative kappa_j (1/4, or xi at one t_j for all records). The sum over
 * j moves into a K x K matrix,
 *
 *     d_k = linear_k + sum_j w_jk y_j - sum_{l != k} gram_kl z_l.
 *
 * A sweep costs K^2 in place of JK.
 *
 * Purity. A record is handled in lanes or rows of its own, and blocks are
 * filled up with dummy records, so its result has the same bits wherever it
 * stands. No state is carried from one record to the next. */

#include "sbn_estep.h"

#include "vf_math.h"

/* For loops that need all registers: inlined, the compiler gives some of them to
 * the constants of the loops around. */
#if defined(__GNUC__)
#define VF_NOINLINE __attribute__((noinline))
#else
#define VF_NOINLINE
#endif

#define ROUND_UP(n, m) (((n) + (m)-1) / (m) * (m))

/* The workspace may lie anywhere; vectors that straddle cache lines cost twice. */
#define ALIGN 64
VF_INLINE double *align_up(void *p) { return (double *)(((uintptr_t)p + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1)); }

/* Sizes beyond this are refused: products of three of them stay in int64. */
#define SBN_MAX_SIZE ((int64_t)1 << 20)

static int sizes_bad(int64_t n_records, int64_t n_visible, int64_t n_hidden) {
    return n_records < 0 || n_visible < 1 || n_hidden < 1 || n_visible > SBN_MAX_SIZE || n_hidden > SBN_MAX_SIZE ||
           n_records > ((int64_t)1 << 40) / (n_visible > n_hidden ? n_visible : n_hidden);
}

/* exp(r) - 1 on |r| <= log(2)/2: the Taylor series to r^8 (rest below 2^-33) and
 * to r^14 (rest below 2^-60), relative. */
VF_INLINE vff expm1_small_f32(vff r) {
    vff p = vff_fma(r, vff_set1(1.0f / 40320), vff_set1(1.0f / 5040));
    p = vff_fma(p, r, vff_set1(1.0f / 720));
    p = vff_fma(p, r, vff_set1(1.0f / 120));
    p = vff_fma(p, r, vff_set1(1.0f / 24));
    p = vff_fma(p, r, vff_set1(1.0f / 6));
    p = vff_fma(p, r, vff_set1(0.5f));
    return vff_fma(vff_mul(p, r), r, r);
}
VF_INLINE vfd expm1_small_f64(vfd r) {
    vfd p = vfd_fma(r, vfd_set1(1.0 / 87178291200.0), vfd_set1(1.0 / 6227020800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 479001600.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 39916800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 3628800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 362880.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 40320.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 5040.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 720.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 120.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 24.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 6.0));
    p = vfd_fma(p, r, vfd_set1(0.5));
    return vfd_fma(vfd_mul(p, r), r, r);
}

/* ---------------------------------------------------- Polya-Gamma E-step */

/* Records handled together: they share the loads of w, and their short chains
 * of dependent steps run side by side. */
#define PG_RECORDS 4
/* Units handled together. Instead of taking each dz_k out of the residual at
 * once, the sums A_il = sum_j xi_j w_ji w_jl of the few units tell what it would
 * do to their dot products; the residual is then read and written once for all
 * of them. A_ii is the unit's own part, which is needed anyway. */
#define PG_UNITS 4

/* The body, once in each precision. */
#define REAL float
#define VEC vff
#define LANES VF_NF
#define OP(name) vff_##name
#define EXPM1 expm1_small_f32
#define LOG2_HIGH -0.693359375f
#define LOG2_LOW 2.12194440e-4f
#define EXP_CAP 80.0f
#define TINY 1e-18f /* its double stays a normal number */
#define HUGE_REAL 1e30f
#define SQRT sqrtf
#define KERNEL(name) VF_FN(name##_f32)
#include "sbn_pg_body.h"
#undef REAL
#undef VEC
#undef LANES
#undef OP
#undef EXPM1
#undef LOG2_HIGH
#undef LOG2_LOW
#undef EXP_CAP
#undef TINY
#undef HUGE_REAL
#undef SQRT
#undef KERNEL

#define REAL double
#define VEC vfd
#define LANES VF_ND
#define OP(name) vfd_##name
#define EXPM1 expm1_small_f64
#define LOG2_HIGH -6.93145751953125e-1
#define LOG2_LOW -1.42860682030941723212e-6
#define EXP_CAP 700.0
#define TINY 1e-150
#define HUGE_REAL 1e300
#define SQRT sqrt
#define KERNEL(name) VF_FN(name##_f64)
#include "sbn_pg_body.h"

/* ------------------------------------------------------ quadratic E-step */

/* Records in lanes: Q_VECS vectors of them share the loads of gram. */
#define Q_VECS 4
#define Q_BLOCK (Q_VECS * VF_ND)

int64_t VF_FN(vf_sbn_quadratic_workspace)(int64_t n_visible, int64_t n_hidden) {
    if (sizes_bad(0, n_visible, n_hidden)) return -1;
    const int64_t kp = ROUND_UP(n_hidden, VF_ND);
    return ALIGN + (int64_t)sizeof(double) * (2 * n_hidden * Q_BLOCK + kp) + (int64_t)sizeof(int32_t) * n_visible;
}

int32_t VF_FN(vf_sbn_quadratic)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps,
                                const uint8_t *y, const double *w, const double *gram, const double *linear,
                                const double *start, void *workspace, int64_t workspace_bytes, double *z_out) {
    if (sizes_bad(n_records, n_visible, n_hidden)) return VF_ERR_SIZE;
    if (n_sweeps < 0) return VF_ERR_PARAMETER;
    if (!w || !gram || !linear || !start || !workspace || !z_out) return VF_ERR_NULL;
    if (n_records > 0 && !y) return VF_ERR_NULL;
    if (VF_OFF(w) | VF_OFF(gram) | VF_OFF(linear) | VF_OFF(start) | VF_OFF(z_out)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_quadratic_workspace)(n_visible, n_hidden)) return VF_ERR_WORKSPACE;
    double *a = align_up(workspace), *z = a + n_hidden * Q_BLOCK, *sum = z + n_hidden * Q_BLOCK; /* a, z: [unit][record] */
    int32_t *on = (int32_t *)(sum + ROUND_UP(n_hidden, VF_ND));

    for (int64_t first = 0; first < n_records; first += Q_BLOCK) {
        const int64_t here = n_records - first < Q_BLOCK ? n_records - first : Q_BLOCK;
        for (int64_t r = 0; r < here; ++r) {
            const uint8_t *row = y + (first + r) * n_visible;
            int64_t n_on = 0;
            for (int64_t j = 0; j < n_visible; ++j) {
                on[n_on] = (int32_t)j;
                n_on += row[j] != 0;
            }
            /* linear + the rows of w at the pixels that are on, in their order. */
            int64_t k = 0;
            for (; k + 4 * VF_ND <= n_hidden; k += 4 * VF_ND) {
                vfd s0 = vfd_load(linear + k), s1 = vfd_load(linear + k + VF_ND);
                vfd s2 = vfd_load(linear + k + 2 * VF_ND), s3 = vfd_load(linear + k + 3 * VF_ND);
                for (int64_t i = 0; i < n_on; ++i) {
                    const double *p = w + on[i] * n_hidden + k;
                    s0 = vfd_add(s0, vfd_load(p));
                    s1 = vfd_add(s1, vfd_load(p + VF_ND));
                    s2 = vfd_add(s2, vfd_load(p + 2 * VF_ND));
                    s3 = vfd_add(s3, vfd_load(p + 3 * VF_ND));
                }
                vfd_store(sum + k, s0), vfd_store(sum + k + VF_ND, s1);
                vfd_store(sum + k + 2 * VF_ND, s2), vfd_store(sum + k + 3 * VF_ND, s3);
            }
            for (; k < n_hidden; ++k) {
                double s = linear[k];
                for (int64_t i = 0; i < n_on; ++i) s += w[on[i] * n_hidden + k];
                sum[k] = s;
            }
            for (k = 0; k < n_hidden; ++k) a[k * Q_BLOCK + r] = sum[k];
        }
        for (int64_t k = 0; k < n_hidden; ++k) {
            for (int64_t r = here; r < Q_BLOCK; ++r) a[k * Q_BLOCK + r] = 0.0;
            for (int64_t r = 0; r < Q_BLOCK; ++r) z[k * Q_BLOCK + r] = start[k];
        }
        for (int32_t sweep = 0; sweep < n_sweeps; ++sweep) {
            for (int64_t k = 0; k < n_hidden; ++k) {
                const double *g = gram + k * n_hidden;
                double *zk = z + k * Q_BLOCK;
                /* Two sets of sums, so that eight chains of additions run at once;
                 * unit k itself is passed over. */
                vfd s[2][Q_VECS];
                for (int v = 0; v < Q_VECS; ++v) s[0][v] = s[1][v] = vfd_set1(0.0);
                const int64_t part[3] = {0, k, n_hidden};
                for (int side = 0; side < 2; ++side) {
                    int64_t l = part[side] + side;
                    const int64_t end = part[side + 1];
                    for (; l + 2 <= end; l += 2) {
                        const vfd g0 = vfd_set1(g[l]), g1 = vfd_set1(g[l + 1]);
                        for (int v = 0; v < Q_VECS; ++v) {
                            s[0][v] = vfd_fma(g0, vfd_load(z + l * Q_BLOCK + v * VF_ND), s[0][v]);
                            s[1][v] = vfd_fma(g1, vfd_load(z + (l + 1) * Q_BLOCK + v * VF_ND), s[1][v]);
                        }
                    }
                    if (l < end) {
                        const vfd g0 = vfd_set1(g[l]);
                        for (int v = 0; v < Q_VECS; ++v)
                            s[0][v] = vfd_fma(g0, vfd_load(z + l * Q_BLOCK + v * VF_ND), s[0][v]);
                    }
                }
                for (int v = 0; v < Q_VECS; ++v)
                    vfd_store(zk + v * VF_ND,
                              VF_FN(sbn_sigmoid_f64)(vfd_sub(vfd_load(a + k * Q_BLOCK + v * VF_ND), vfd_add(s[0][v], s[1][v]))));
            }
        }
        for (int64_t r = 0; r < here; ++r)
            for (int64_t k = 0; k < n_hidden; ++k) z_out[(first + r) * n_hidden + k] = z[k * Q_BLOCK + r];
    }
    return VF_OK;
}

/* ------------------------------------------------- clip, truncate, norms */

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
        /* Not finite, or past what a double holds exactly: the zero vector. */
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

/* ----------------------------------------------------------- exact sums */

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

/* Products of two integers of at most 2^20 stay integers below 2^53 for this
 * many records: sums in double are exact. */
#define GRAM_FLUSH 4096

int64_t VF_FN(vf_sbn_gram_workspace)(int64_t n_hidden) {
    if (sizes_bad(0, 1, n_hidden)) return -1;
    return ALIGN + (int64_t)sizeof(double) * n_hidden * n_hidden;
}

int32_t VF_FN(vf_sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace,
                           int64_t workspace_bytes, int64_t *sums) {
    if (sizes_bad(n_records, 1, n_hidden)) return VF_ERR_SIZE;
    if (!workspace || (n_records > 0 && (!v || !sums))) return VF_ERR_NULL;
    if (VF_OFF(v) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_gram_workspace)(n_hidden)) return VF_ERR_WORKSPACE;
    if (off_lattice(n_records * n_hidden, v, -0x1p20, 0x1p20)) return VF_ERR_RANGE;
    double *acc = align_up(workspace);
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

/* Weighted second moments: X'P, X of integers (n x J), P the truncated pair
 * products (n x pairs). A matrix product in the usual three levels: MOM_DEPTH
 * records at a time; X packed in panels of MOM_ROWS columns; for each panel of
 * MOM_COLS pairs the products are formed straight into the packed panel (no
 * n x K(K+1)/2 array exists), and a MOM_ROWS x MOM_COLS tile of sums stays in
 * registers. X and P of at most 2^21 and 2^22 keep a sum of MOM_DEPTH products
 * within 2^53: the double sums are exact. Each tile is then added to int64, and
 * MOM_DEPTH is as large as exactness allows because these J K^2 / 2 sums come from
 * main memory each time. */
#define MOM_DEPTH 1024
/* Panels of pairs formed at a time: together with one panel of X they fit the
 * second-level cache, and each panel of X comes from further away once for all of them. */
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
    return ALIGN + (int64_t)sizeof(double) * MOM_DEPTH * (ROUND_UP(n_visible, MOM_ROWS) + MOM_GROUP * MOM_COLS);
}

/* tile[r][c] = sum_i a[i][r] p[i][c] */
VF_NOINLINE static void moments_tile(int64_t depth, const double *VF_RESTRICT a, const double *VF_RESTRICT p,
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

int32_t VF_FN(vf_sbn_moments)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int64_t first, int64_t last,
                              double pair_scale, const double *x, const double *z, void *workspace,
                              int64_t workspace_bytes, int64_t *sums) {
    if (sizes_bad(n_records, n_visible, n_hidden)) return VF_ERR_SIZE;
    if (first < 0 || last < first || last > n_hidden * (n_hidden + 1) / 2) return VF_ERR_SIZE;
    if (!vf_is_spacing(pair_scale, VF_MIN_SPACING, 0x1p22)) return VF_ERR_PARAMETER;
    if (!workspace || (n_records > 0 && last > first && (!x || !z || !sums))) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(z) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_moments_workspace)(n_visible, n_hidden)) return VF_ERR_WORKSPACE;
    if (first == last) return VF_OK;
    if (off_lattice(n_records * n_visible, x, 0.0, 0x1p21)) return VF_ERR_RANGE;
    int outside = 0;
    for (int64_t i = 0; i < n_records * n_hidden; ++i) outside |= !(z[i] >= 0.0) | !(z[i] <= 1.0);
    if (outside) return VF_ERR_RANGE;
    const int64_t n_panels = ROUND_UP(n_visible, MOM_ROWS) / MOM_ROWS, n_pairs = n_hidden * (n_hidden + 1) / 2;
    double *packed = align_up(workspace), *pairs = packed + MOM_DEPTH * n_panels * MOM_ROWS;

    for (int64_t begin = 0; begin < n_records; begin += MOM_DEPTH) {
        const int64_t depth = n_records - begin < MOM_DEPTH ? n_records - begin : MOM_DEPTH;
        for (int64_t b = 0; b < n_panels; ++b) {
            const int64_t j = b * MOM_ROWS, rows = n_visible - j < MOM_ROWS ? n_visible - j : MOM_ROWS;
            double *out = packed + b * MOM_DEPTH * MOM_ROWS;
            for (int64_t i = 0; i < depth; ++i, out += MOM_ROWS) {
                const double *in = x + (begin + i) * n_visible + j;
                if (rows == MOM_ROWS) {
                    for (int64_t r = 0; r < MOM_ROWS; ++r) out[r] = in[r];
                } else {
                    for (int64_t r = 0; r < MOM_ROWS; ++r) out[r] = r < rows ? in[r] : 0.0;
                }
            }
        }
        /* (k, l) is pair number p. */
        int64_t k = 0, row = 0;
        while (row + n_hidden - k <= first) row += n_hidden - k++;
        int64_t l = k + first - row;
        for (int64_t group = first; group < last; group += MOM_GROUP * MOM_COLS) {
            const int64_t stop = last - group < MOM_GROUP * MOM_COLS ? last : group + MOM_GROUP * MOM_COLS;
            double *panel = pairs;
            for (int64_t p = group; p < stop; p += MOM_COLS, panel += MOM_DEPTH * MOM_COLS) {
                const int64_t cols = stop - p < MOM_COLS ? stop - p : MOM_COLS;
                for (int64_t c = 0; c < cols;) {
                    /* A run of one k. */
                    const int64_t run = n_hidden - l < cols - c ? n_hidden - l : cols - c;
                    const double *zk = z + begin * n_hidden + k, *zl = z + begin * n_hidden + l;
                    double *out = panel + c;
                    if (run == MOM_COLS) {
                        for (int64_t i = 0; i < depth; ++i, out += MOM_COLS, zk += n_hidden, zl += n_hidden)
                            moments_products(*zk * pair_scale, zl, out);
                    } else {
                        for (int64_t i = 0; i < depth; ++i, out += MOM_COLS, zk += n_hidden, zl += n_hidden)
                            for (int64_t m = 0; m < run; ++m) out[m] = (int32_t)(*zk * pair_scale * zl[m]);
                    }
                    if (k == l) {
                        zk = z + begin * n_hidden + k;
                        out = panel + c;
                        for (int64_t i = 0; i < depth; ++i) out[i * MOM_COLS] = (int32_t)(zk[i * n_hidden] * pair_scale);
                    }
                    c += run;
                    l += run;
                    if (l == n_hidden) l = ++k;
                }
                for (int64_t c = cols; c < MOM_COLS; ++c)
                    for (int64_t i = 0; i < depth; ++i) panel[i * MOM_COLS + c] = 0.0;
            }
            for (int64_t b = 0; b < n_panels; ++b) {
                panel = pairs;
                for (int64_t p = group; p < stop; p += MOM_COLS, panel += MOM_DEPTH * MOM_COLS) {
                    const int64_t cols = stop - p < MOM_COLS ? stop - p : MOM_COLS;
                    double tile[MOM_ROWS * MOM_COLS];
                    /* The sums lie far apart in memory; fetch them while the tile is formed. */
                    for (int64_t r = 0; r < MOM_ROWS && b * MOM_ROWS + r < n_visible; ++r)
                        for (int64_t c = 0; c < cols; c += 8) VF_PREFETCH(sums + (b * MOM_ROWS + r) * n_pairs + p + c);
                    moments_tile(depth, packed + b * MOM_DEPTH * MOM_ROWS, panel, tile);
                    for (int64_t r = 0; r < MOM_ROWS && b * MOM_ROWS + r < n_visible; ++r) {
                        int64_t *s = sums + (b * MOM_ROWS + r) * n_pairs + p;
                        const double *t = tile + r * MOM_COLS;
                        if (cols == MOM_COLS) {
                            for (int64_t c = 0; c < MOM_COLS; ++c) s[c] += (int64_t)t[c];
                        } else {
                            for (int64_t c = 0; c < cols; ++c) s[c] += (int64_t)t[c];
                        }
                    }
                }
            }
        }
    }
    return VF_OK;
}
