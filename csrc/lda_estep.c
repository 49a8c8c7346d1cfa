/* Sparse variational E-step of latent Dirichlet allocation.
 *
 * For one document with distinct words i = 1..n, counts c_i and
 * B_ik = exp(E[log beta_k,i]), Algorithm 3 of Park et al. (2020) iterates
 *
 *     theta_k  = exp(psi(gamma_k))                        (1)
 *     rho_i    = c_i / sum_k theta_k B_ik                 (2)
 *     gamma_k  = alpha_k + theta_k sum_i rho_i B_ik       (3)
 *
 * from gamma_k = alpha_k + N/K, N = sum_i c_i, until mean_k |change of gamma_k|
 * < tol. The usual theta_k = exp(psi(gamma_k) - psi(sum gamma)) differs by a
 * factor common to all k, which cancels in (3). phi_ik = theta_k B_ik /
 * sum_l theta_l B_il never needs to be stored: the contribution to the
 * statistics is c_i phi_ik = theta_k B_ik rho_i.
 *
 * Cost: one round is 2 n K multiply-adds, n reciprocals and K evaluations of
 * (1); a document takes some 50 rounds. What makes it fast:
 *
 * - The document's B is copied once into a tile, topic after topic, n words
 *   each, padded to whole vectors. All rounds run in L1 or L2.
 * - Active set. Under (1) with a small alpha a topic that a document does not
 *   use has theta_k of e^(-1/alpha). Once theta_k < 1e-10 max theta, its share
 *   of every word that another topic explains is below float32's resolution;
 *   once gamma_k - alpha_k is also too small to delay the stop, it is dropped
 *   from the loops and its gamma_k is alpha_k. A few rounds in,
 *   about 10 topics of 50 are left. (A topic that alone explains a word keeps
 *   gamma_k >= alpha_k + c_i from the first round on and is never dropped.)
 * - Word scaling: each row of the table is divided by its maximum, so the sum
 *   in (2) stays within float32 although E[log beta] spans hundreds.
 * - exp(psi(x)) is one rational function, one exponential and one short series
 *   (below); no digamma, no logarithm.
 *
 * Privacy. The contribution s = (c_i phi_ik) has squared norm
 * sum_i rho_i^2 sum_k (theta_k B_ik)^2, taken in one pass over the tile. It is
 * scaled to norm <= C, truncated toward zero to multiples of the lattice
 * spacing g, and its norm is checked again in exact integers:
 * sum q^2 <= floor(C/g)^2. Truncation toward zero cannot raise the norm. The
 * sums are int64, so any order and any number of threads give the same bits.
 *
 * A document's result depends on that document, the table and the parameters
 * alone: no state is carried from one document to the next. */

#include "lda_estep.h"
#include "vf_math.h"

/* A topic leaves the loops when its weight is below this share of the heaviest
 * and its gamma_k - alpha_k below this share of tol. */
#define ACTIVE_SHARE 1e-10
#define ACTIVE_REST 1e-2

#define ROUND_UP(n, m) (((n) + (m)-1) / (m) * (m))

/* exp(psi(x)) for x > 0, split as series * exp(-shift):
 *
 *   psi(x) = psi(x + m) - R(x),  R(x) = sum_{i<m} 1/(x + i)
 *   exp(psi(y + 1/2)) = y (1 + 1/24 y^-2 - 37/5760 y^-4 + ...)   (asymptotic)
 *
 * with y = x + m - 1/2. For float32 m = 4 and 5 terms are within 2.2e-8, for
 * float64 m = 8 and 9 terms within 4.7e-16 (relative, worst at x -> 0).
 * Pairing 1/(x+i) with 1/(x+m-1-i) makes R = (2x+m-1) Q'(w)/Q(w), w = x^2 +
 * (m-1) x, which costs one division. Beyond the cap R is below rounding. */
VF_INLINE void exp_psi_f32(vff x, vff *series, vff *shift) {
    vff one = vff_set1(1.0f), two = vff_set1(2.0f), three = vff_set1(3.0f);
    vff iy = vff_recip(vff_add(x, vff_set1(3.5f)));
    vff u = vff_mul(iy, iy);
    vff p = vff_fma(u, vff_set1(-3.9535574e-3f), vff_set1(3.5524829e-3f));
    p = vff_fma(p, u, vff_set1(-6.4236111e-3f));
    p = vff_fma(p, u, vff_set1(4.1666667e-2f));
    *series = vff_fma(vff_mul(p, u), vff_add(x, vff_set1(3.5f)), vff_add(x, vff_set1(3.5f)));
    vff xc = vff_min(x, vff_set1(1e8f));
    vff w = vff_mul(xc, vff_add(xc, three));
    vff w2 = vff_add(w, two);
    vff num = vff_mul(vff_fma(two, xc, three), vff_mul(two, vff_add(w, one)));
    *shift = vff_div(num, vff_mul(w, w2));
}

VF_INLINE void exp_psi_f64(vfd x, vfd *series, vfd *shift) {
    vfd y = vfd_add(x, vfd_set1(7.5));
    vfd iy = vfd_recip(y);
    vfd u = vfd_mul(iy, iy);
    vfd p = vfd_fma(u, vfd_set1(-4.3960443486080127e-1), vfd_set1(8.2381852238787765e-2));
    p = vfd_fma(p, u, vfd_set1(-2.0734675824368138e-2));
    p = vfd_fma(p, u, vfd_set1(7.3650332693086690e-3));
    p = vfd_fma(p, u, vfd_set1(-3.9535574489730306e-3));
    p = vfd_fma(p, u, vfd_set1(3.5524829144620811e-3));
    p = vfd_fma(p, u, vfd_set1(-6.4236111111111111e-3));
    p = vfd_fma(p, u, vfd_set1(4.1666666666666667e-2));
    *series = vfd_fma(vfd_mul(p, u), y, y);
    vfd xc = vfd_min(x, vfd_set1(1e18));
    vfd w = vfd_mul(xc, vfd_add(xc, vfd_set1(7.0)));
    vfd a = vfd_add(w, vfd_set1(6.0)), b = vfd_add(w, vfd_set1(10.0)), c = vfd_add(w, vfd_set1(12.0));
    vfd wa = vfd_mul(w, a), bc = vfd_mul(b, c);
    vfd dwa = vfd_add(w, a), dbc = vfd_add(b, c);
    vfd num = vfd_mul(vfd_fma(vfd_set1(2.0), xc, vfd_set1(7.0)), vfd_fma(dwa, bc, vfd_mul(dbc, wa)));
    *shift = vfd_div(num, vfd_mul(wa, bc));
}

/* The body, once in each precision. */
#define REAL float
#define VEC vff
#define LANES VF_NF
#define OP(name) vff_##name
#define EXP_PSI exp_psi_f32
#define EXP_NEG vff_exp_neg
#define TINY 1e-37f
#define SUM_FLOOR 1e-36f     /* keeps padding words (0/0) and lost words at 0 */
#define CLIP_MARGIN 0x1p-18  /* above the error of a float32 norm, below any use */
#define KERNEL(name) VF_FN(name##_f32)
#include "lda_estep_body.h"
#undef REAL
#undef VEC
#undef LANES
#undef OP
#undef EXP_PSI
#undef EXP_NEG
#undef TINY
#undef SUM_FLOOR
#undef CLIP_MARGIN
#undef KERNEL

#define REAL double
#define VEC vfd
#define LANES VF_ND
#define OP(name) vfd_##name
#define EXP_PSI exp_psi_f64
#define EXP_NEG vfd_exp_neg
#define TINY 1e-307
#define SUM_FLOOR 1e-300
#define CLIP_MARGIN 0x1p-45
#define KERNEL(name) VF_FN(name##_f64)
#include "lda_estep_body.h"

/* splitmix64 (Steele, Lea & Flood 2014): one multiply-xor chain per draw and
 * any 64-bit seed is good, which is what one short stream per record needs. */
VF_INLINE uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number in [0, total), total <= 2^32 - 1, by multiply-shift. It is biased by at
 * most total / 2^32 of a draw; no guarantee rests on it. */
VF_INLINE uint32_t below(uint64_t *state, uint64_t total) {
    return (uint32_t)(((splitmix64(state) >> 32) * total) >> 32);
}

int32_t VF_FN(vf_lda_gather)(int64_t n_docs, int64_t n_rows, int64_t capacity, int32_t mode, int64_t doc_length,
                             const int64_t *rows, const int64_t *indptr, const int32_t *indices, const int32_t *counts,
                             const uint64_t *seeds, int64_t scratch_items, uint32_t *scratch, int64_t *out_indptr,
                             int32_t *out_indices, double *out_counts) {
    if (n_docs < 0 || n_rows < 0 || capacity < 0) return VF_ERR_SIZE;
    if (mode < VF_LDA_AS_IS || mode > VF_LDA_SCALE) return VF_ERR_PARAMETER;
    if (mode != VF_LDA_AS_IS && (doc_length < 1 || doc_length > INT32_MAX)) return VF_ERR_SIZE;
    if (!out_indptr) return VF_ERR_NULL;
    if (VF_OFF(rows) | VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(counts) | VF_OFF(seeds) | VF_OFF(scratch) |
        VF_OFF(out_indptr) | VF_OFF(out_indices) | VF_OFF(out_counts))
        return VF_ERR_ALIGNMENT;
    out_indptr[0] = 0;
    if (n_docs == 0) return VF_OK;
    if (!rows || !indptr || !indices || !counts || !out_indices || !out_counts) return VF_ERR_NULL;
    if (mode == VF_LDA_RESAMPLE) {
        if (!seeds || !scratch) return VF_ERR_NULL;
        if (scratch_items < VF_LDA_RESAMPLE_TOKENS) return VF_ERR_WORKSPACE;
    }
    int64_t used = 0;
    for (int64_t d = 0; d < n_docs; ++d) {
        if (rows[d] < 0 || rows[d] >= n_rows) return VF_ERR_INDEX;
        const int64_t lo = indptr[rows[d]], end = indptr[rows[d] + 1];
        if (lo < 0 || end < lo) return VF_ERR_INDPTR;
        const int64_t n = end - lo;
        if (n > capacity - used) return VF_ERR_WORKSPACE;
        const int32_t *c = counts + lo, *word = indices + lo;
        double *out = out_counts + used;
        uint64_t total = 0;
        for (int64_t i = 0; i < n; ++i) {
            if (c[i] < 0) return VF_ERR_PARAMETER;
            total += (uint64_t)c[i];
            out[i] = (double)c[i];
        }
        if (mode == VF_LDA_SCALE && total > 0) {
            const double factor = (double)doc_length / (double)total;
            for (int64_t i = 0; i < n; ++i) out[i] *= factor;
        } else if (mode == VF_LDA_RESAMPLE && total > 0) {
            if (total > UINT32_MAX) return VF_ERR_SIZE;
            uint64_t state = seeds[d];
            if (total <= VF_LDA_RESAMPLE_TOKENS) {
                /* scratch: token number -> place of its word */
                for (int64_t i = 0, t = 0; i < n; ++i) {
                    for (int32_t j = 0; j < c[i]; ++j) scratch[t++] = (uint32_t)i;
                    out[i] = 0.0;
                }
                for (int64_t t = 0; t < doc_length; ++t) out[scratch[below(&state, total)]] += 1.0;
            } else {
                /* scratch: one past the last token number of each word */
                if (n > scratch_items) return VF_ERR_WORKSPACE;
                uint32_t end = 0;
                for (int64_t i = 0; i < n; ++i) {
                    scratch[i] = end += (uint32_t)c[i];
                    out[i] = 0.0;
                }
                for (int64_t t = 0; t < doc_length; ++t) {
                    const uint32_t token = below(&state, total);
                    int64_t a = 0, b = n - 1; /* first i with scratch[i] > token */
                    while (a < b) {
                        const int64_t m = a + (b - a) / 2;
                        if (scratch[m] <= token) a = m + 1; else b = m;
                    }
                    out[a] += 1.0;
                }
            }
        }
        int64_t kept = 0;
        for (int64_t i = 0; i < n; ++i) {
            const double x = out[i];
            out_indices[used + kept] = word[i];
            out[kept] = x;
            kept += x > 0.0;
        }
        used += kept;
        out_indptr[d + 1] = used;
    }
    return VF_OK;
}
