/* What the read-out of topics learns from all words: the words' masses, how topics go together, and the ratios that its
 * other topics predict; kernels.toml has the models.
 *
 * Masses. A row of likelihoods takes n_grid exponentials, once for all rounds of EM; a round is two passes over it.
 *
 * Moments. Words come in groups whose rows of three numbers an entry lie in the workspace; a vector of sums is loaded once
 * for a group. Half of each symmetric matrix is summed, K^2 multiply-adds and a half a word.
 *
 * Ratios. With d = x - base, p = 1 / (1 + own base^2) and S = I + sum_k p_k base_k^2 L_k L_k', L_k row k of the loadings,
 * Woodbury's identity gives for the covariance C = base (L L' + diag(own)) base + I
 *
 *     (C^-1 d)_k  = p_k d_k - p_k base_k L_k' S^-1 sum_l p_l base_l d_l L_l
 *     (C^-1)_kk   = p_k - (p_k base_k)^2 L_k' S^-1 L_k
 *
 * and the others predict d_k - (C^-1 d)_k / (C^-1)_kk for d_k. S has eigenvalues >= 1. Its Cholesky factor R, S = R R',
 * therefore needs no pivots, and R^-1 L_k and R^-1 sum_l ... are enough. Words lie side by side in the lanes: K q^2
 * multiply-adds a word for q factors. */

#include "declarations.h"
#include "simd/math.h"

#define MIN_SD 1e-20
#define MAX_SD 1e20
#define MOST 1e100
#define LEAST_LIKELIHOOD 1e-300

/* Rows of likelihoods are padded to whole vectors of any instruction set. */
#define MASS_LANES 8

static int32_t check_masses(const vf_mass_params *p, const double *total, const double *grid, const double *width,
                            const double *weight, const double *likelihood, const double *sums, const double *means) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (p->n_words < 0 || p->n_grid < 1 || p->n_grid > VF_MASS_GRID || p->n_words > INT64_MAX / 2048)
        return VF_ERR_SIZE;
    if (!(p->sd >= MIN_SD && p->sd <= MAX_SD)) return VF_ERR_PARAMETER;
    if (p->n_words == 0) return VF_OK;
    if (!total || !grid || !width || !weight || !likelihood) return VF_ERR_NULL;
    if (VF_OFF(total) | VF_OFF(grid) | VF_OFF(width) | VF_OFF(weight) | VF_OFF(likelihood) | VF_OFF(sums) |
        VF_OFF(means))
        return VF_ERR_ALIGNMENT;
    for (int64_t g = 0; g < p->n_grid; ++g)
        if (!(fabs(grid[g]) <= MOST && width[g] >= 0.0 && width[g] <= MOST && weight[g] >= 0.0 && weight[g] <= MOST))
            return VF_ERR_PARAMETER;
    return VF_OK;
}

/* The grid's numbers, padded to whole vectors with copies of its first point that have no likelihood. */
typedef struct {
    double grid[VF_MASS_GRID], inverse[VF_MASS_GRID], scale[VF_MASS_GRID];
    double weight[VF_MASS_GRID], still[VF_MASS_GRID], moving[VF_MASS_GRID];
} mass_grid;

static void lay_out(mass_grid *m, const vf_mass_params *p, const double *grid, const double *width,
                    const double *weight) {
    memset(m, 0, sizeof *m);
    for (int64_t g = 0; g < VF_ROUND_UP(p->n_grid, MASS_LANES); ++g) {
        const int64_t of = g < p->n_grid ? g : 0;
        const double variance = p->sd * p->sd + width[of] * width[of], gain = width[of] * width[of] / variance;
        m->grid[g] = grid[of];
        m->inverse[g] = 1.0 / sqrt(variance);
        if (g >= p->n_grid) continue;
        m->scale[g] = m->inverse[g];
        m->weight[g] = weight[g];
        m->still[g] = weight[g] * grid[g] * (1.0 - gain);
        m->moving[g] = weight[g] * gain;
    }
}

/* The likelihoods of one word. */
static void fill_row(int64_t padded, const mass_grid *m, double total, double *row) {
    const vfd half = vfd_set1(-0.5), t = vfd_set1(total);
    vfd top = vfd_set1(-INFINITY);
    for (int64_t g = 0; g < padded; g += VF_ND) {
        const vfd z = vfd_mul(vfd_sub(t, vfd_load(m->grid + g)), vfd_load(m->inverse + g));
        const vfd exponent = vfd_mul(half, vfd_mul(z, z));
        top = vfd_max(top, exponent);
        vfd_store(row + g, exponent);
    }
    top = vfd_set1(vfd_hmax(top));
    for (int64_t g = 0; g < padded; g += VF_ND)
        vfd_store(row + g, vfd_mul(vfd_exp_neg(vfd_sub(vfd_load(row + g), top)), vfd_load(m->scale + g)));
}

int32_t VF_FN(vf_word_masses)(const vf_mass_params *params, const double *total, const double *grid,
                              const double *width, const double *weight, double *likelihood, double *sums,
                              double *means) {
    const int32_t status = check_masses(params, total, grid, width, weight, likelihood, sums, means);
    if (status != VF_OK || params->n_words == 0) return status;
    const int64_t n_words = params->n_words, n_grid = params->n_grid;
    const int64_t padded = VF_ROUND_UP(n_grid, MASS_LANES);
    for (int64_t v = 0; v < n_words; ++v)
        if (!(fabs(total[v]) <= MOST)) return VF_ERR_RANGE;
    mass_grid m;
    lay_out(&m, params, grid, width, weight);
    double all[VF_MASS_GRID] = {0.0};
    for (int64_t v = 0; v < n_words; ++v) {
        double *row = likelihood + v * padded;
        if (!params->known) fill_row(padded, &m, total[v], row);
        vfd sum = vfd_set1(0.0), still = sum, moving = sum;
        for (int64_t g = 0; g < padded; g += VF_ND) sum = vfd_fma(vfd_load(row + g), vfd_load(m.weight + g), sum);
        double one = vfd_sum(sum);
        one = 1.0 / (one > LEAST_LIKELIHOOD ? one : LEAST_LIKELIHOOD);
        const vfd share = vfd_set1(one);
        for (int64_t g = 0; sums && g < padded; g += VF_ND)
            vfd_store(all + g, vfd_fma(share, vfd_load(row + g), vfd_load(all + g)));
        if (!means) continue;
        for (int64_t g = 0; g < padded; g += VF_ND) {
            still = vfd_fma(vfd_load(row + g), vfd_load(m.still + g), still);
            moving = vfd_fma(vfd_load(row + g), vfd_load(m.moving + g), moving);
        }
        const double mean = (vfd_sum(still) + total[v] * vfd_sum(moving)) * one;
        means[v] = mean > 1e-6 * params->sd ? mean : 1e-6 * params->sd;
    }
    for (int64_t g = 0; sums && g < n_grid; ++g) sums[g] += all[g];
    return VF_OK;
}

/* Ratios of VF_ND words, whose numbers lie side by side. base, share = p base and scaled = x - base, later p times that,
 * are K vectors each. factor is R, row after row, with the inverses of its diagonal. score and solved are q vectors. */
static void predict(int64_t n_topics, int64_t q, const double *loadings, const double *own, const double *base,
                    double *share, double *scaled, double *factor, double *score, double *solved, double *ratio) {
    const vfd zero = vfd_set1(0.0), one = vfd_set1(1.0);
    for (int64_t i = 0; i < q; ++i) {
        vfd_store(score + i * VF_ND, zero);
        for (int64_t j = 0; j <= i; ++j) vfd_store(factor + (i * q + j) * VF_ND, i == j ? one : zero);
    }
    for (int64_t k = 0; k < n_topics; ++k) {
        const vfd b = vfd_load(base + k * VF_ND), p = vfd_div(one, vfd_fma(vfd_set1(own[k]), vfd_mul(b, b), one));
        const vfd s = vfd_mul(p, b), w = vfd_mul(s, b), d = vfd_load(scaled + k * VF_ND);
        const double *row = loadings + k * q;
        vfd_store(share + k * VF_ND, s);
        vfd_store(scaled + k * VF_ND, vfd_mul(p, d));
        for (int64_t i = 0; i < q; ++i) {
            double *f = factor + i * q * VF_ND, *c = score + i * VF_ND;
            const vfd l = vfd_set1(row[i]), wl = vfd_mul(w, l);
            vfd_store(c, vfd_fma(vfd_mul(s, d), l, vfd_load(c)));
            for (int64_t j = 0; j <= i; ++j, f += VF_ND) vfd_store(f, vfd_fma(wl, vfd_set1(row[j]), vfd_load(f)));
        }
    }
    for (int64_t i = 0; i < q; ++i) { /* Cholesky, and R^-1 of the score */
        double *a = factor + i * q * VF_ND;
        vfd c = vfd_load(score + i * VF_ND);
        for (int64_t j = 0; j <= i; ++j) {
            const double *b = factor + j * q * VF_ND;
            vfd x = vfd_load(a + j * VF_ND);
            for (int64_t l = 0; l < j; ++l) x = vfd_less(x, vfd_load(a + l * VF_ND), vfd_load(b + l * VF_ND));
            x = i == j ? vfd_div(one, vfd_sqrt(vfd_max(x, one))) : vfd_mul(x, vfd_load(b + j * VF_ND));
            vfd_store(a + j * VF_ND, x);
            c = i == j ? vfd_mul(c, x) : vfd_less(c, x, vfd_load(score + j * VF_ND));
        }
        vfd_store(score + i * VF_ND, c);
    }
    for (int64_t k = 0; k < n_topics; ++k) {
        const double *row = loadings + k * q;
        vfd square = zero, along = zero;
        for (int64_t i = 0; i < q; ++i) {
            const double *a = factor + i * q * VF_ND;
            vfd x = vfd_set1(row[i]);
            for (int64_t l = 0; l < i; ++l) x = vfd_less(x, vfd_load(a + l * VF_ND), vfd_load(solved + l * VF_ND));
            x = vfd_mul(x, vfd_load(a + i * VF_ND));
            vfd_store(solved + i * VF_ND, x);
            square = vfd_fma(x, x, square);
            along = vfd_fma(x, vfd_load(score + i * VF_ND), along);
        }
        const vfd b = vfd_load(base + k * VF_ND), s = vfd_load(share + k * VF_ND), p = vfd_div(s, b);
        const vfd inverse = vfd_less(vfd_load(scaled + k * VF_ND), s, along);
        /* Above 0 but for rounding. */
        const vfd diagonal = vfd_max(vfd_less(p, vfd_mul(s, s), square), vfd_mul(p, vfd_set1(0x1p-52)));
        const vfd d = vfd_sub(vfd_div(vfd_load(scaled + k * VF_ND), p), vfd_div(inverse, diagonal));
        vfd_store(ratio + k * VF_ND, vfd_max(vfd_add(one, vfd_div(d, b)), vfd_set1(0.1)));
    }
}

int32_t VF_FN(vf_topic_ratios)(int64_t n_words, int64_t n_topics, int64_t n_factors, const double *x,
                               const double *base, const double *loadings, const double *own, double *workspace,
                               double *ratios) {
    if (n_words < 0 || n_topics < 1 || n_topics > INT32_MAX || n_factors < 0 || n_factors > VF_MOST_FACTORS ||
        n_words > INT32_MAX)
        return VF_ERR_SIZE;
    if (n_words == 0) return VF_OK;
    if (!x || !base || !own || !workspace || !ratios || (n_factors > 0 && !loadings)) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(base) | VF_OFF(loadings) | VF_OFF(own) | VF_OFF(workspace) | VF_OFF(ratios))
        return VF_ERR_ALIGNMENT;
    for (int64_t k = 0; k < n_topics; ++k)
        if (!(own[k] >= 1e-6 && own[k] <= MOST)) return VF_ERR_PARAMETER;
    for (int64_t i = 0; i < n_topics * n_factors; ++i)
        if (!(fabs(loadings[i]) <= 1e50)) return VF_ERR_PARAMETER;
    for (int64_t i = 0; i < n_words * n_topics; ++i)
        if (!(base[i] >= 1e-100 && base[i] <= 1e12 && fabs(x[i]) <= 1e12)) return VF_ERR_RANGE;
    if (n_factors == 0) {
        for (int64_t i = 0; i < n_words * n_topics; ++i) ratios[i] = 1.0;
        return VF_OK;
    }
    double *b = workspace, *share = b + n_topics * VF_ND, *scaled = share + n_topics * VF_ND;
    double *factor = scaled + n_topics * VF_ND, *score = factor + n_factors * n_factors * VF_ND;
    double *solved = score + n_factors * VF_ND;
    for (int64_t v = 0; v < n_words; v += VF_ND) {
        const int64_t here = n_words - v < VF_ND ? n_words - v : VF_ND;
        for (int64_t j = 0; j < VF_ND; ++j) {
            const int64_t at = (v + (j < here ? j : here - 1)) * n_topics;
            for (int64_t k = 0; k < n_topics; ++k) {
                b[k * VF_ND + j] = base[at + k];
                scaled[k * VF_ND + j] = x[at + k] - base[at + k];
            }
        }
        /* A topic's ratio takes the place of its share, which is not needed any more. */
        predict(n_topics, n_factors, loadings, own, b, share, scaled, factor, score, solved, share);
        for (int64_t j = 0; j < here; ++j)
            for (int64_t k = 0; k < n_topics; ++k) ratios[(v + j) * n_topics + k] = share[k * VF_ND + j];
    }
    return VF_OK;
}

/* Words whose products are added to a vector of sums at a time. */
#define GROUP 8

/* sums[k][l] += sum of the group's row[k] row[l], for two k at a time and l from their vector on. */
static void add_products(int64_t n_topics, int64_t stride, const double *rows, double *sums) {
    for (int64_t k = 0; k < n_topics; k += 2) {
        double *first = sums + k * stride, *second = first + stride;
        vfd own[GROUP], next[GROUP];
        for (int64_t j = 0; j < GROUP; ++j) {
            own[j] = vfd_set1(rows[j * stride + k]);
            next[j] = vfd_set1(rows[j * stride + k + 1]);
        }
        for (int64_t l = k / VF_ND * VF_ND; l < stride; l += VF_ND) {
            vfd s = vfd_load(first + l), t = vfd_load(second + l);
            for (int64_t j = 0; j < GROUP; ++j) {
                const vfd row = vfd_load(rows + j * stride + l);
                s = vfd_fma(own[j], row, s);
                t = vfd_fma(next[j], row, t);
            }
            vfd_store(first + l, s);
            vfd_store(second + l, t);
        }
    }
}

int32_t VF_FN(vf_topic_moments)(int64_t n_words, int64_t n_topics, double spread, const double *x, const double *base,
                                double *workspace, double *sums) {
    if (n_words < 0 || n_topics < 1 || n_topics > 1 << 20 || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (!(spread >= 0.0 && spread <= MOST)) return VF_ERR_PARAMETER;
    if (n_words == 0) return VF_OK;
    if (!x || !base || !workspace || !sums) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(base) | VF_OFF(workspace) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    for (int64_t i = 0; i < n_words * n_topics; ++i)
        if (!(base[i] >= 0.0 && base[i] <= 1e12 && fabs(x[i]) <= 1e12)) return VF_ERR_RANGE;
    const int64_t stride = VF_ROUND_UP(n_topics, 8), size = VF_ROUND_UP(n_topics, 2) * stride;
    double *part = workspace + GROUP * 3 * stride, *noise = part + 3 * size;
    memset(workspace, 0, (size_t)(GROUP * 3 * stride + 3 * size + stride) * sizeof *workspace);
    for (int64_t v = 0; v < n_words; v += GROUP) {
        for (int64_t j = 0; j < GROUP; ++j) {
            double *d = workspace + j * stride, *share = d + GROUP * stride, *square = share + GROUP * stride;
            const int live = v + j < n_words;
            const double *b = base + (live ? v + j : v) * n_topics, *y = x + (live ? v + j : v) * n_topics;
            for (int64_t k = 0; k < n_topics; ++k) {
                const double w = live ? b[k] / (1.0 + spread * (b[k] * b[k])) : 0.0;
                d[k] = (y[k] - b[k]) * w;
                share[k] = w * b[k];
                square[k] = d[k] * d[k];
                noise[k] += w * w;
            }
        }
        for (int64_t m = 0; m < 3; ++m) add_products(n_topics, stride, workspace + m * GROUP * stride, part + m * size);
    }
    for (int64_t m = 0; m < 3; ++m)
        for (int64_t k = 0; k < n_topics; ++k)
            for (int64_t l = k; l < n_topics; ++l) {
                const double s = part[m * size + k * stride + l] - (m == 0 && k == l ? noise[k] : 0.0);
                sums[(m * n_topics + k) * n_topics + l] += s;
                if (l > k) sums[(m * n_topics + l) * n_topics + k] += s;
            }
    return VF_OK;
}
