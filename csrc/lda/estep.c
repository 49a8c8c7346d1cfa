/* Sparse variational E-step of latent Dirichlet allocation.
 *
 * For one document with distinct words i = 1..n, counts c_i and
 * B_ik = exp(E[log beta_k,i]), Algorithm 3 of Park et al. (2020) iterates
 *
 *     theta_k  = exp(psi(gamma_k))                        (1)
 *     rho_i    = c_i / sum_k theta_k B_ik                 (2)
 *     gamma_k  = alpha_k + theta_k sum_i rho_i B_ik       (3)
 *
 * until mean_k |change of gamma_k| < tol, or the summed change is below a share of the words. It starts from
 *
 *     gamma_k = alpha_k + N s_k^3 / sum_l s_l^3,  s_k = sum_i c_i B_ik / sum_l B_il,  N = sum_i c_i.      (4)
 *
 * s is the result of a round from equal weights. Its third power is nearer to where the rounds end, among few topics,
 * than gamma = alpha + N/K is, and most documents then end at a bound no lower. The usual theta_k =
 * exp(psi(gamma_k) - psi(sum gamma)) differs by a factor common to all k, which cancels in (3). phi_ik = theta_k B_ik /
 * sum_l theta_l B_il never needs to be stored: the contribution to the statistics is c_i phi_ik = theta_k B_ik rho_i.
 *
 * Cost: one round is 2 n K multiply-adds, n reciprocals and K evaluations of
 * (1); a document takes some 20 rounds. What makes it fast:
 *
 * - Extrapolation. After two rounds from g0, which lead over g1 to g2, gamma moves on along the last step, to
 *   g2 + b (g2 - g1), b = |g2 - g1| / |g2 - 2 g1 + g0|: Aitken's for the slowest mode, with norms as in SQUAREM
 *   (Varadhan & Roland 2008). b <= LONGEST_STEP, less near the stop, and ENDLESS_STEP without one. If the
 *   next round moves gamma FARTHEST times as far as the last one did, it goes back to g2. More than halves the rounds.
 * - The start and the first round read the table by rows, as they lie. What is left of the document's B after the first
 *   drop of topics (below), often a tenth, is then copied into a tile, topic after topic, n words each, padded to whole
 *   vectors. All other rounds run there, in L1 or L2.
 * - Active set. Under (1) with a small alpha a topic that a document does not
 *   use has theta_k of e^(-1/alpha). Once theta_k < 1e-10 max theta, its share
 *   of every word that another topic explains is below float32's resolution.
 *   Once gamma_k - alpha_k is also too small to delay the stop, it is dropped
 *   from the loops and its gamma_k is alpha_k. A few rounds in,
 *   about 10 topics of 50 are left. (The only topic of a word keeps
 *   gamma_k >= alpha_k + c_i from the first round on and is never dropped.)
 *   A topic with little of the document that halves in a round or an extrapolation leaves at once (FEW_WORDS): by
 *   theta it would leave late or, with alpha of .1, never. Bounds stay, to 10^-4 a word and mostly 10^-5.
 * - Word scaling: each row of the table is divided by its sum, so the sum
 *   in (2) stays within float32 although E[log beta] spans hundreds, and s in
 *   (4) is a weighted sum of rows.
 * - exp(psi(x)) is one rational function, one exponential and one short series
 *   (below); no digamma, no logarithm but in the bound.
 *
 * Privacy. The contribution s = (c_i phi_ik) has squared norm sum_i rho_i^2 sum_k (theta_k B_ik)^2, taken in one pass
 * over the tile. It is scaled to norm <= C, truncated toward zero to multiples of the lattice spacing g, and its norm
 * is checked again in exact integers: sum q^2 <= floor(C/g)^2. Truncation toward zero cannot raise the norm. The sums
 * are int64, so any order and any number of threads give the same bits.
 *
 * A document's result depends only on that document, the table and the parameters: no state goes from one document to
 * the next, except rows of the table in the caches. */

#include "declarations.h"
#include "simd/math.h"

/* A topic leaves the loops when its weight is below this share of the heaviest and its gamma_k - alpha_k both below this
 * share of the change at which rounds stop and so far below the least count that no word is its own. */
#define ACTIVE_SHARE 1e-10
#define ACTIVE_REST 0.2
#define ACTIVE_COUNT 0x1p-4

/* The longest step of an extrapolation, in last rounds. With b below 4.8, lambda^2 - b lambda (1 - lambda), by which it
 * and two rounds multiply an error that a round multiplies by lambda, stays above -1 for all lambda in [0, 1]. Rounds
 * without a stop continue where only rounding is left, and take no longer ones. With a stop longer ones save rounds:
 * the change of the round after guards what they do to other errors. */
#define LONGEST_STEP 12.0
#define ENDLESS_STEP 4.0

/* The share of its words that a topic keeps in one. */
#define LEAST_SHARE 0.25

/* An extrapolation is taken back if the round after it changes gamma by more than this times the change before. */
#define FARTHEST 4.0

/* A topic with fewer words than FEW_WORDS (less as alpha nears 1/4) times the document's least count, and than FEW_SHARE
 * of the heaviest topic's, leaves once it has shrunk to this share of its words. */
#define SHRUNK 0.5
#define FEW_WORDS 0.7
#define FEW_SHARE 0.02

/* Rows of the table that are fetched ahead of the one in work, as long as memory takes; and that are read twice before
 * the next ones. */
#define ROWS_AHEAD 12
#define ROWS_TOGETHER 32

/* The words whose rows of sums are fetched ahead of the one in work. */
#define WORDS_AHEAD 8

/* The rows of the next document are fetched in about this number of parts, one before each round. */
#define ASKS 24

/* Exponents of theta above this could leave float32. */
#define BASE_MAX 40

/* exp(psi(x)) for x > 0, split as series * exp(-shift):
 *
 *   psi(x) = psi(x + m) - R(x),  R(x) = sum_{i<m} 1/(x + i)
 *   exp(psi(y + 1/2)) = y (1 + 1/24 y^-2 - 37/5760 y^-4 + ...)   (asymptotic)
 *
 * with y = x + m - 1/2. For float32 m = 4 and 5 terms are within 2.2e-8, for float64 m = 8 and 9 terms within 4.7e-16
 * (relative, worst at x -> 0). Pairing 1/(x+i) with 1/(x+m-1-i) makes R = (2x+m-1) Q'(w)/Q(w), w = x^2 + (m-1) x, which
 * costs one division. Beyond the cap R is below rounding. */
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

/* The change of gamma, as a share of the words, that is rounding. */
static const double least_change_f32 = 0x1p-20, least_change_f64 = 0x1p-44;

/* What differs between the precisions: smaller table entries are zeros; a floor that keeps padding words (0/0) and lost
 * words at 0; a share of the clip norm above the error of a norm and below any use. */
static const float tiny_f32 = 1e-37f, sum_floor_f32 = 1e-36f;
static const double tiny_f64 = 1e-307, sum_floor_f64 = 1e-300;
static const double clip_margin_f32 = 0x1p-18, clip_margin_f64 = 0x1p-45;

/* The checks that do not depend on the precision; the largest number of words of a document. */
static int32_t check(const vf_lda_params *params, const vf_rows_f64 *docs, const double *alpha, const void *workspace,
                     const double *gamma, const int64_t *sums, const int32_t *n_iter, const double *norms,
                     int64_t *max_words) {
    if (!params || !docs || !alpha || !workspace) return VF_ERR_NULL;
    if (((uintptr_t)params | (uintptr_t)docs) & 7u) return VF_ERR_ALIGNMENT;
    const int64_t n_docs = docs->n_rows, n_topics = params->n_topics, n_words = docs->n_columns;
    const int64_t *indptr = docs->indptr;
    const int32_t *indices = docs->indices;
    const double *counts = docs->values;
    if (n_docs < 0 || n_topics < 1 || n_words < 1 || n_topics > INT32_MAX || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (n_docs > 0 && !indptr) return VF_ERR_NULL;
    if (VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(counts) | VF_OFF(alpha) | VF_OFF(gamma) | VF_OFF(sums) |
        VF_OFF(n_iter) | VF_OFF(norms) | ((uintptr_t)workspace & 7u))
        return VF_ERR_ALIGNMENT;
    if (!(params->tol >= 0.0 && params->word_tol >= 0.0) || params->max_iter < 0) return VF_ERR_PARAMETER;
    for (int64_t k = 0; k < n_topics; ++k)
        if (!(alpha[k] >= VF_LDA_MIN_ALPHA && alpha[k] <= VF_LDA_MAX_ALPHA)) return VF_ERR_PARAMETER;
    const int clip = params->clip_norm > 0.0;
    if (sums) {
        if (!vf_is_spacing(params->spacing, VF_LDA_MIN_SPACING, VF_LDA_MAX_SPACING)) return VF_ERR_PARAMETER;
        /* Below 2^31 a sum of squares fits 64 bits and the check is exact; the total must
         * stay inside int64 with the noise. */
        const double units = params->clip_norm / params->spacing;
        if (clip && !(units >= 1.0 && units < 0x1p31)) return VF_ERR_PARAMETER;
        if (clip && units * (double)n_docs > VF_MAX_SUM) return VF_ERR_SIZE;
    }
    double total = 0.0;
    *max_words = 0;
    for (int64_t d = 0; d < n_docs; ++d) {
        const int64_t lo = indptr[d], hi = indptr[d + 1];
        if (lo < 0 || hi < lo) return VF_ERR_INDPTR;
        if (hi > lo && (!indices || !counts)) return VF_ERR_NULL;
        *max_words = hi - lo > *max_words ? hi - lo : *max_words;
        int32_t previous = -1;
        for (int64_t i = lo; i < hi; ++i) {
            if (indices[i] <= previous || indices[i] >= n_words) return VF_ERR_INDEX;
            previous = indices[i];
        }
        if (sums && !clip) { /* a contribution's entries add up to the document's counts */
            double words = 0.0;
            for (int64_t i = lo; i < hi; ++i) words += counts[i] >= 0.0 ? counts[i] : NAN;
            if (words <= VF_LDA_MAX_WORDS) total += words;
        }
    }
    return sums && total > VF_MAX_SUM * params->spacing ? VF_ERR_RANGE : VF_OK;
}

/* The body, once in each precision. */
#define VF_BODY "lda/estep_body.h"
#include "simd/both.h"
