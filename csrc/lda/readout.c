/* What the read-out of topics learns from all words: their masses, and the ratios that a word's other topics predict;
 * kernels.toml has the models.
 *
 * Masses. A row of likelihoods takes n_grid exponentials, once for all rounds of EM; a round is two passes over it.
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
#define LEAST_LIKELIHOOD 1e-35f

/* Of a word's likeliest component e^-80 is nothing, and neither is a component of such a part of the largest weight.
 * Smaller products would be denormals, which cost a hundred times as much. */
#define LEAST_EXPONENT -80.0
#define LEAST_PRODUCT 1e-36
#define LEAST_WEIGHT 1e-30

/* Chains of sums over a row. */
#define CHAINS 8

/* Rows of likelihoods are padded to whole vectors of any instruction set. */
#define MASS_LANES 16

static int32_t check_masses(const vf_mass_params *p, const double *total, const double *grid, const double *width,
                            const double *weight, const float *likelihood, const double *sums, const double *means) {
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

/* The grid's numbers, padded to whole vectors with copies of its first point that have no likelihood. Scales are in units
 * of 1 / sd, and weights of the largest one, so that float32 has them. */
typedef struct {
    double grid[VF_MASS_GRID], inverse[VF_MASS_GRID], still[VF_MASS_GRID], moving[VF_MASS_GRID];
    double most;
    float scale[VF_MASS_GRID], least[VF_MASS_GRID], weight[VF_MASS_GRID];
} mass_grid;

static void lay_out(mass_grid *m, const vf_mass_params *p, const double *grid, const double *width,
                    const double *weight) {
    memset(m, 0, sizeof *m);
    for (int64_t g = 0; g < p->n_grid; ++g) m->most = weight[g] > m->most ? weight[g] : m->most;
    if (m->most == 0.0) m->most = 1.0;
    for (int64_t g = 0; g < VF_ROUND_UP(p->n_grid, MASS_LANES); ++g) {
        const int64_t of = g < p->n_grid ? g : 0;
        const double variance = p->sd * p->sd + width[of] * width[of], gain = width[of] * width[of] / variance;
        m->grid[g] = grid[of];
        m->inverse[g] = 1.0 / sqrt(variance);
        const double scale = p->sd * m->inverse[g];
        if (g >= p->n_grid) continue;
        if (scale >= LEAST_WEIGHT) m->scale[g] = (float)scale, m->least[g] = (float)(LEAST_PRODUCT / scale);
        if (weight[g] < LEAST_WEIGHT * m->most) continue;
        m->weight[g] = (float)(weight[g] / m->most);
        m->still[g] = grid[g] * (1.0 - gain);
        m->moving[g] = gain;
    }
}

/* The likelihoods of one word. */
static void fill_row(int64_t padded, const mass_grid *m, double total, float *row) {
    const vfd half = vfd_set1(-0.5), t = vfd_set1(total);
    double exponents[VF_MASS_GRID];
    vfd top = vfd_set1(-INFINITY);
    for (int64_t g = 0; g < padded; g += VF_ND) {
        const vfd z = vfd_mul(vfd_sub(t, vfd_load(m->grid + g)), vfd_load(m->inverse + g));
        const vfd exponent = vfd_mul(half, vfd_mul(z, z));
        top = vfd_max(top, exponent);
        vfd_store(exponents + g, exponent);
    }
    const double highest = vfd_hmax(top);
    for (int64_t g = 0; g < padded; ++g) {
        const double exponent = exponents[g] - highest;
        row[g] = (float)(exponent > LEAST_EXPONENT ? exponent : LEAST_EXPONENT);
    }
    for (int64_t g = 0; g < padded; g += VF_NF) {
        const vff density = vff_max(vff_exp_neg(vff_load(row + g)), vff_load(m->least + g));
        vff_store(row + g, vff_mul(density, vff_load(m->scale + g)));
    }
}

/* E[m | total] of a word, from its row of likelihoods: in float64, as masses are not bounded. */
static double mass_mean(int64_t padded, const mass_grid *m, double total, const float *row) {
    double posterior[VF_MASS_GRID];
    for (int64_t g = 0; g < padded; ++g) posterior[g] = (double)row[g] * (double)m->weight[g];
    vfd sum = vfd_set1(0.0), still = sum, moving = sum;
    for (int64_t g = 0; g < padded; g += VF_ND) {
        const vfd own = vfd_load(posterior + g);
        sum = vfd_add(sum, own);
        still = vfd_fma(own, vfd_load(m->still + g), still);
        moving = vfd_fma(own, vfd_load(m->moving + g), moving);
    }
    const double all = vfd_sum(sum);
    return (vfd_sum(still) + total * vfd_sum(moving)) /
           (all > (double)LEAST_LIKELIHOOD ? all : (double)LEAST_LIKELIHOOD);
}

/* Words that are taken at a time, so that no chain of sums waits for another. */
#define WORDS 4

/* Words after which float32 sums of posteriors start anew. */
#define WORDS_OF_SUMS 256

/* Add the posteriors of `number` words, whose rows follow one another, to `all`. */
VF_INLINE void add_posteriors(int64_t padded, const mass_grid *m, const float *row, float *all, const int number) {
    vff sum[WORDS], share[WORDS];
    for (int t = 0; t < number; ++t) sum[t] = vff_set1(0.0f);
    for (int64_t g = 0; g < padded; g += VF_NF) {
        const vff weight = vff_load(m->weight + g);
        for (int t = 0; t < number; ++t) sum[t] = vff_fma(vff_load(row + t * padded + g), weight, sum[t]);
    }
    for (int t = 0; t < number; ++t) {
        const float one = vff_sum(sum[t]);
        share[t] = vff_set1(1.0f / (one > LEAST_LIKELIHOOD ? one : LEAST_LIKELIHOOD));
    }
    for (int64_t g = 0; g < padded; g += VF_NF) {
        vff a = vff_load(all + g);
        for (int t = 0; t < number; ++t) a = vff_fma(share[t], vff_load(row + t * padded + g), a);
        vff_store(all + g, a);
    }
}

int32_t VF_FN(vf_word_masses)(const vf_mass_params *params, const double *total, const double *grid,
                              const double *width, const double *weight, float *likelihood, double *sums,
                              double *means) {
    const int32_t status = check_masses(params, total, grid, width, weight, likelihood, sums, means);
    if (status != VF_OK || params->n_words == 0) return status;
    const int64_t n_words = params->n_words, n_grid = params->n_grid;
    const int64_t padded = VF_ROUND_UP(n_grid, MASS_LANES);
    for (int64_t v = 0; v < n_words; ++v)
        if (!(fabs(total[v]) <= MOST)) return VF_ERR_RANGE;
    mass_grid m;
    lay_out(&m, params, grid, width, weight);
    for (int64_t v = 0; !params->known && v < n_words; ++v) fill_row(padded, &m, total[v], likelihood + v * padded);
    for (int64_t first = 0; sums && first < n_words; first += WORDS_OF_SUMS) {
        const int64_t last = n_words - first < WORDS_OF_SUMS ? n_words : first + WORDS_OF_SUMS;
        float all[VF_MASS_GRID] = {0.0f};
        int64_t v = first;
        for (; v + WORDS <= last; v += WORDS) add_posteriors(padded, &m, likelihood + v * padded, all, WORDS);
        for (; v < last; ++v) add_posteriors(padded, &m, likelihood + v * padded, all, 1);
        for (int64_t g = 0; g < n_grid; ++g) sums[g] += (double)all[g] / m.most;
    }
    for (int64_t v = 0; means && v < n_words; ++v) {
        const double mean = mass_mean(padded, &m, total[v], likelihood + v * padded);
        means[v] = mean > 1e-6 * params->sd ? mean : 1e-6 * params->sd;
    }
    return VF_OK;
}

/* Topics that are taken at a time. Their common numbers are loaded once, and no chain of sums waits for another. */
#define TOPICS 4

/* Ratios of VF_ND words, whose numbers lie side by side. K vectors each are in base, p and deviation, which is x - base.
 * R is in factor, row after row, with the inverses of its diagonal. The score has q vectors. */
typedef struct {
    int64_t q;
    const double *loadings, *own, *base;
    double *p, *deviation, *factor, *score, *ratio;
} words;

/* Add `number` topics from the k-th on to the lower half of S and to the score. */
VF_INLINE void add_topics(const words *m, int64_t k, const int number) {
    const vfd one = vfd_set1(1.0);
    const double *row = m->loadings + k * m->q;
    vfd w[TOPICS], off[TOPICS];
    for (int t = 0; t < number; ++t) {
        const vfd b = vfd_load(m->base + (k + t) * VF_ND), d = vfd_load(m->deviation + (k + t) * VF_ND);
        const vfd p = vfd_div(one, vfd_fma(vfd_set1(m->own[k + t]), vfd_mul(b, b), one)), s = vfd_mul(p, b);
        w[t] = vfd_mul(s, b);
        off[t] = vfd_mul(s, d);
        vfd_store(m->p + (k + t) * VF_ND, p);
    }
    for (int64_t i = 0; i < m->q; ++i) {
        double *f = m->factor + i * m->q * VF_ND, *c = m->score + i * VF_ND;
        vfd wl[TOPICS], sum = vfd_load(c);
        for (int t = 0; t < number; ++t) {
            const vfd l = vfd_set1(row[t * m->q + i]);
            wl[t] = vfd_mul(w[t], l);
            sum = vfd_fma(off[t], l, sum);
        }
        vfd_store(c, sum);
        for (int64_t j = 0; j <= i; ++j, f += VF_ND) {
            vfd x = vfd_load(f);
            for (int t = 0; t < number; ++t) x = vfd_fma(wl[t], vfd_set1(row[t * m->q + j]), x);
            vfd_store(f, x);
        }
    }
}

/* The ratios of `number` topics from the k-th on. */
VF_INLINE void solve_topics(const words *m, int64_t k, const int number) {
    const vfd one = vfd_set1(1.0), zero = vfd_set1(0.0);
    const double *row = m->loadings + k * m->q;
    vfd solved[VF_MOST_FACTORS][TOPICS], square[TOPICS], along[TOPICS];
    for (int t = 0; t < number; ++t) square[t] = along[t] = zero;
    for (int64_t i = 0; i < m->q; ++i) {
        const double *a = m->factor + i * m->q * VF_ND;
        vfd x[TOPICS];
        for (int t = 0; t < number; ++t) x[t] = vfd_set1(row[t * m->q + i]);
        for (int64_t l = 0; l < i; ++l) {
            const vfd f = vfd_load(a + l * VF_ND);
            for (int t = 0; t < number; ++t) x[t] = vfd_less(x[t], f, solved[l][t]);
        }
        const vfd inverse = vfd_load(a + i * VF_ND), score = vfd_load(m->score + i * VF_ND);
        for (int t = 0; t < number; ++t) {
            x[t] = vfd_mul(x[t], inverse);
            solved[i][t] = x[t];
            square[t] = vfd_fma(x[t], x[t], square[t]);
            along[t] = vfd_fma(x[t], score, along[t]);
        }
    }
    for (int t = 0; t < number; ++t) {
        const int64_t at = (k + t) * VF_ND;
        const vfd b = vfd_load(m->base + at), p = vfd_load(m->p + at), d = vfd_load(m->deviation + at),
                  s = vfd_mul(p, b);
        const vfd inverse = vfd_less(vfd_mul(p, d), s, along[t]);
        /* Above 0 but for rounding. */
        const vfd diagonal = vfd_max(vfd_less(p, vfd_mul(s, s), square[t]), vfd_mul(p, vfd_set1(0x1p-52)));
        const vfd ratio = vfd_div(vfd_sub(vfd_mul(d, diagonal), inverse), vfd_mul(diagonal, b));
        vfd_store(m->ratio + at, vfd_max(vfd_add(one, ratio), vfd_set1(0.1)));
    }
}

static void predict(int64_t n_topics, const words *m) {
    const int64_t q = m->q, whole = n_topics / TOPICS * TOPICS;
    const vfd zero = vfd_set1(0.0), one = vfd_set1(1.0);
    for (int64_t i = 0; i < q; ++i) {
        vfd_store(m->score + i * VF_ND, zero);
        for (int64_t j = 0; j <= i; ++j) vfd_store(m->factor + (i * q + j) * VF_ND, i == j ? one : zero);
    }
    for (int64_t k = 0; k < whole; k += TOPICS) add_topics(m, k, TOPICS);
    for (int64_t k = whole; k < n_topics; ++k) add_topics(m, k, 1);
    for (int64_t j = 0; j < q; ++j) { /* Cholesky, column after column, and R^-1 of the score */
        const double *b = m->factor + j * q * VF_ND;
        vfd inverse = zero, head = zero;
        for (int64_t i = j; i < q; ++i) {
            double *a = m->factor + i * q * VF_ND, *c = m->score + i * VF_ND;
            vfd x = vfd_load(a + j * VF_ND);
            for (int64_t l = 0; l < j; ++l) x = vfd_less(x, vfd_load(a + l * VF_ND), vfd_load(b + l * VF_ND));
            if (i == j) {
                x = inverse = vfd_div(one, vfd_sqrt(vfd_max(x, one)));
                head = vfd_mul(vfd_load(c), x);
                vfd_store(c, head);
            } else {
                x = vfd_mul(x, inverse);
                vfd_store(c, vfd_less(vfd_load(c), x, head));
            }
            vfd_store(a + j * VF_ND, x);
        }
    }
    for (int64_t k = 0; k < whole; k += TOPICS) solve_topics(m, k, TOPICS);
    for (int64_t k = whole; k < n_topics; ++k) solve_topics(m, k, 1);
}

/* Numbers of up to VF_ND words, less `off` if it is there, as lanes: lanes[k * VF_ND + j] is topic k of word j. Missing words
 * are copies of the last. rows is scratch, a row of `stride` numbers a word. */
static void take_lanes(int64_t n_words, int64_t n_topics, int64_t stride, const float *from, const float *off,
                       double *rows, double *lanes) {
    const double *source[VF_ND], *four[VF_ND];
    for (int64_t j = 0; j < VF_ND; ++j) source[j] = rows + (j < n_words ? j : n_words - 1) * stride;
    for (int64_t j = 0; j < n_words; ++j) {
        const float *VF_RESTRICT one = from + j * n_topics;
        double *VF_RESTRICT row = rows + j * stride;
        if (off)
            for (int64_t k = 0; k < n_topics; ++k) row[k] = (double)one[k] - (double)off[j * n_topics + k];
        else
            for (int64_t k = 0; k < n_topics; ++k) row[k] = (double)one[k];
    }
    for (int64_t k = 0; k < n_topics; k += 4) {
        vfd column[4];
        for (int64_t j = 0; j < VF_ND; ++j) four[j] = source[j] + k;
        vfd_transpose4(four, column);
        for (int64_t l = 0; l < 4; ++l) vfd_store(lanes + (k + l) * VF_ND, column[l]);
    }
}

/* The lanes as rows of `stride` numbers, a word each. */
static void give_rows(int64_t stride, const double *lanes, double *rows) {
    const double *four[VF_ND];
    for (int64_t k = 0; k < stride; k += VF_ND)
        for (int64_t j = 0; j < VF_ND; j += 4) {
            vfd column[4];
            for (int64_t i = 0; i < VF_ND; ++i) four[i] = lanes + (k + i) * VF_ND + j;
            vfd_transpose4(four, column);
            for (int64_t l = 0; l < 4 && j + l < VF_ND; ++l) vfd_store(rows + (j + l) * stride + k, column[l]);
        }
}

int32_t VF_FN(vf_topic_ratios)(int64_t n_words, int64_t n_topics, int64_t n_factors, const float *x, const float *base,
                               const double *sd, const double *mass, const double *loadings, const double *own,
                               double *workspace, float *expected) {
    if (n_words < 0 || n_topics < 1 || n_topics > INT32_MAX || n_factors < 0 || n_factors > VF_MOST_FACTORS ||
        n_words > INT32_MAX)
        return VF_ERR_SIZE;
    if (n_words == 0) return VF_OK;
    if (!x || !base || !sd || !mass || !own || !workspace || !expected || (n_factors > 0 && !loadings))
        return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(base) | VF_OFF(sd) | VF_OFF(mass) | VF_OFF(loadings) | VF_OFF(own) | VF_OFF(workspace) |
        VF_OFF(expected))
        return VF_ERR_ALIGNMENT;
    for (int64_t k = 0; k < n_topics; ++k)
        if (!(own[k] >= 1e-6 && own[k] <= MOST)) return VF_ERR_PARAMETER;
    for (int64_t i = 0; i < n_topics * n_factors; ++i)
        if (!(fabs(loadings[i]) <= 1e50)) return VF_ERR_PARAMETER;
    int64_t outside = 0;
    for (int64_t i = 0; i < n_words * n_topics; ++i)
        outside +=
            !((base[i] >= 1e-30f) & (base[i] <= 1e12f) & (fabsf(x[i]) <= 1e12f) & (sd[i] >= 1e-30) & (sd[i] <= 1e30));
    for (int64_t v = 0; v < n_words; ++v) outside += !((mass[v] >= 1e-30) & (mass[v] <= 1e30));
    if (outside) return VF_ERR_RANGE;
    /* Numbers of a group: lanes of words, topic after topic, and rows of topics, word after word. */
    const int64_t stride = VF_ROUND_UP(n_topics, 8);
    double *b = workspace, *p = b + stride * VF_ND, *deviation = p + stride * VF_ND, *rows = deviation + stride * VF_ND;
    double *factor = rows + stride * VF_ND, *score = factor + n_factors * n_factors * VF_ND;
    /* A topic's ratio takes the place of its p, which is not needed any more. */
    const words m = {n_factors, loadings, own, b, p, deviation, factor, score, p};
    memset(workspace, 0, (size_t)(4 * stride * VF_ND) * sizeof *workspace);
    for (int64_t v = 0; v < n_words; v += VF_ND) {
        const int64_t here = n_words - v < VF_ND ? n_words - v : VF_ND;
        const float *first = base + v * n_topics;
        if (n_factors > 0) {
            take_lanes(here, n_topics, stride, first, NULL, rows, b);
            take_lanes(here, n_topics, stride, x + v * n_topics, first, rows, deviation);
            predict(n_topics, &m);
            give_rows(stride, p, rows);
        }
        for (int64_t j = 0; j < here; ++j) {
            const int64_t at = (v + j) * n_topics;
            double *VF_RESTRICT row = rows + j * stride;
            const float *VF_RESTRICT own_base = base + at;
            const double *VF_RESTRICT noise = sd + at;
            float *VF_RESTRICT to = expected + at;
            double sum[CHAINS] = {0.0};
            for (int64_t k = 0; k < n_topics; ++k)
                row[k] = n_factors > 0 ? row[k] * (double)own_base[k] : (double)own_base[k];
            int64_t k = 0;
            for (; k + CHAINS <= n_topics; k += CHAINS)
                for (int64_t l = 0; l < CHAINS; ++l) sum[l] += row[k + l] * noise[k + l];
            for (int64_t l = 0; k + l < n_topics; ++l) sum[l] += row[k + l] * noise[k + l];
            for (int64_t half = CHAINS / 2; half > 0; half /= 2)
                for (int64_t l = 0; l < half; ++l) sum[l] += sum[l + half];
            const double scale = mass[v + j] / sum[0];
            for (k = 0; k < n_topics; ++k) to[k] = (float)(row[k] * scale);
        }
    }
    return VF_OK;
}
