/* Averages of noised releases, and their read-out: one pass over the matrices for each; kernels.toml has
 * the formulas. Nothing is reordered across the topics of a word, so that all instruction sets give the same bits. */

#include <math.h>

#include "declarations.h"

#define MIN_SD 1e-20
#define MAX_SD 1e20
#define MOST 1e100
#define MAX_RATIO 1e12
#define MIN_SUM 1e-300
#define MIN_FLOOR 1e-6

/* Chains of sums over a row. */
#define CHAINS 8

/* The sum of CHAINS chains, in x. */
VF_INLINE double sum_chains(double *x) {
    for (int64_t half = CHAINS / 2; half > 0; half /= 2)
        for (int64_t j = 0; j < half; ++j) x[j] += x[j + half];
    return x[0];
}

static int sizes_are_good(int64_t n_words, int64_t n_topics) {
    return n_words >= 0 && n_topics >= 1 && n_topics <= INT32_MAX && n_words <= INT32_MAX;
}

static int32_t check_blend(const vf_blend_params *p, const int64_t *units, const double *word_scale, const void *table,
                           const double *values, const double *noise) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (!sizes_are_good(p->n_words, p->n_topics) || p->n_padded < p->n_topics || p->n_padded > INT32_MAX)
        return VF_ERR_SIZE;
    if (!(p->rate >= 0.0 && p->rate <= 1.0) || !(p->scale >= 0.0 && p->scale <= MOST) ||
        !(p->noise_sd >= 0.0 && p->noise_sd <= MOST) || !(p->floor >= 0.0 && p->floor <= 1.0))
        return VF_ERR_PARAMETER;
    if (p->n_words == 0) return VF_OK;
    if (!units || !word_scale || !table || !values || !noise) return VF_ERR_NULL;
    return VF_OFF(units) | VF_OFF(word_scale) | VF_OFF(values) | VF_OFF(noise) ? VF_ERR_ALIGNMENT : VF_OK;
}

#define BLEND(REAL, SUFFIX, ROOT)                                                                                \
    int32_t VF_FN(vf_blend_release##SUFFIX)(const vf_blend_params *params, const int64_t *VF_RESTRICT units,     \
                                            const double *VF_RESTRICT word_scale, const REAL *VF_RESTRICT table, \
                                            double *VF_RESTRICT values, double *VF_RESTRICT noise) {             \
        const int32_t status = check_blend(params, units, word_scale, table, values, noise);                     \
        if (status != VF_OK || params->n_words == 0) return status;                                              \
        if (VF_OFF(table)) return VF_ERR_ALIGNMENT;                                                              \
        const int64_t n_topics = params->n_topics;                                                               \
        const double keep = 1.0 - params->rate;                                                                  \
        const REAL least = (REAL)params->floor;                                                                  \
        for (int64_t v = 0; v < params->n_words; ++v) {                                                          \
            const REAL *VF_RESTRICT share = table + v * params->n_padded;                                        \
            const int64_t *VF_RESTRICT unit = units + v * n_topics;                                              \
            double *VF_RESTRICT value = values + v * n_topics, *VF_RESTRICT sd = noise + v * n_topics;           \
            const double word = word_scale[v] * params->rate;                                                    \
            const double step = word * params->scale, spread = word * params->noise_sd;                          \
            for (int64_t k = 0; k < n_topics; ++k) {                                                             \
                const double entry = (double)ROOT(share[k] + least), old = keep * sd[k], more = entry * spread;  \
                value[k] = keep * value[k] + entry * step * (double)unit[k];                                     \
                sd[k] = sqrt(old * old + more * more);                                                           \
            }                                                                                                    \
        }                                                                                                        \
        return VF_OK;                                                                                            \
    }
BLEND(float, _f32, sqrtf)
BLEND(double, _f64, sqrt)

int32_t VF_FN(vf_noise_sums)(int64_t n_words, int64_t n_topics, const double *average, const double *sd,
                             double *word_sd, double *word_sums, double *topic_sums) {
    if (!sizes_are_good(n_words, n_topics)) return VF_ERR_SIZE;
    if (n_words == 0) return VF_OK;
    if (!average || !sd || !word_sd || !word_sums || !topic_sums) return VF_ERR_NULL;
    if (VF_OFF(average) | VF_OFF(sd) | VF_OFF(word_sd) | VF_OFF(word_sums) | VF_OFF(topic_sums))
        return VF_ERR_ALIGNMENT;
    double *VF_RESTRICT shares = topic_sums, *VF_RESTRICT noise = topic_sums + n_topics;
    for (int64_t v = 0; v < n_words; ++v) {
        const double *VF_RESTRICT a = average + v * n_topics, *VF_RESTRICT s = sd + v * n_topics;
        double square[CHAINS] = {0.0}, sum[CHAINS] = {0.0};
        int64_t k = 0;
        for (; k + CHAINS <= n_topics; k += CHAINS)
            for (int64_t j = 0; j < CHAINS; ++j) {
                square[j] += s[k + j] * s[k + j];
                sum[j] += a[k + j];
            }
        for (int64_t j = 0; k + j < n_topics; ++j) {
            square[j] += s[k + j] * s[k + j];
            sum[j] += a[k + j];
        }
        const double own = sqrt(sum_chains(square) / (double)n_topics);
        if (!(own >= MIN_SD && own <= MAX_SD)) return VF_ERR_PARAMETER;
        word_sd[v] = own;
        word_sums[v] = sum_chains(sum);
        const double inverse = 1.0 / own;
        for (k = 0; k < n_topics; ++k) {
            const double relative = s[k] * inverse;
            shares[k] += a[k] * inverse;
            noise[k] += relative * relative;
        }
    }
    return VF_OK;
}

int32_t VF_FN(vf_noise_units)(int64_t n_words, int64_t n_topics, const double *average, const double *sd,
                              const double *mass, const double *weight, float *x, float *base) {
    if (!sizes_are_good(n_words, n_topics)) return VF_ERR_SIZE;
    if (n_words == 0) return VF_OK;
    if (!average || !sd || !mass || !weight || !x || !base) return VF_ERR_NULL;
    if (VF_OFF(average) | VF_OFF(sd) | VF_OFF(mass) | VF_OFF(weight) | VF_OFF(x) | VF_OFF(base))
        return VF_ERR_ALIGNMENT;
    int64_t noise = 0, outside = 0;
    for (int64_t v = 0; v < n_words; ++v) {
        const double *VF_RESTRICT a = average + v * n_topics, *VF_RESTRICT s = sd + v * n_topics;
        float *VF_RESTRICT to = x + v * n_topics, *VF_RESTRICT share = base + v * n_topics;
        for (int64_t k = 0; k < n_topics; ++k) {
            const double inverse = 1.0 / s[k], unit = a[k] * inverse, expected = mass[v] * weight[k] * inverse;
            noise += !((s[k] >= MIN_SD) & (s[k] <= MAX_SD));
            outside += !((fabs(unit) <= MAX_RATIO) & (fabs(expected) <= MAX_RATIO));
            to[k] = (float)unit;
            share[k] = (float)expected;
        }
    }
    return noise ? VF_ERR_PARAMETER : outside ? VF_ERR_RANGE : VF_OK;
}

#define TABLE_PARAMETERS(REAL, SUFFIX)                                                                             \
    int32_t VF_FN(vf_table_parameters##SUFFIX)(int64_t n_words, int64_t n_topics, int64_t n_padded, double factor, \
                                               double eta, const float *units, const double *sd, REAL *table,      \
                                               double *sums) {                                                     \
        if (!sizes_are_good(n_words, n_topics) || n_padded < n_topics || n_padded > INT32_MAX) return VF_ERR_SIZE; \
        if (!(factor >= 0.0 && factor <= MOST && eta >= 0.0 && eta <= MOST)) return VF_ERR_PARAMETER;              \
        if (n_words == 0) return VF_OK;                                                                            \
        if (!units || !sd || !table || !sums) return VF_ERR_NULL;                                                  \
        if (VF_OFF(units) | VF_OFF(sd) | VF_OFF(table) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;                    \
        double *VF_RESTRICT sum = sums;                                                                            \
        for (int64_t v = 0; v < n_words; ++v) {                                                                    \
            const float *VF_RESTRICT unit = units + v * n_topics;                                                  \
            const double *VF_RESTRICT noise = sd + v * n_topics;                                                   \
            REAL *VF_RESTRICT row = table + v * n_padded;                                                          \
            for (int64_t k = 0; k < n_topics; ++k) {                                                               \
                const double parameter = (double)unit[k] * noise[k] * factor + eta;                                \
                row[k] = (REAL)parameter;                                                                          \
                sum[k] += parameter;                                                                               \
            }                                                                                                      \
        }                                                                                                          \
        return VF_OK;                                                                                              \
    }
TABLE_PARAMETERS(float, _f32)
TABLE_PARAMETERS(double, _f64)

static int32_t check_rows(const vf_table_params *p, const void *table, const double *weight) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (!sizes_are_good(p->n_words, p->n_topics) || p->n_padded < p->n_topics || p->n_padded > INT32_MAX)
        return VF_ERR_SIZE;
    if (!(p->least >= 0.0 && p->least <= 1.0)) return VF_ERR_PARAMETER;
    if (!weight || (p->n_words > 0 && !table)) return VF_ERR_NULL;
    if (VF_OFF(weight)) return VF_ERR_ALIGNMENT;
    for (int64_t k = 0; k < p->n_topics; ++k)
        if (!(weight[k] >= 0.0 && weight[k] <= MOST)) return VF_ERR_PARAMETER;
    return VF_OK;
}

#define TABLE_SHARES(REAL, SUFFIX)                                                                             \
    int32_t VF_FN(vf_table_shares##SUFFIX)(const vf_table_params *params, const double *weight, REAL *table) { \
        const int32_t status = check_rows(params, table, weight);                                              \
        if (status != VF_OK || params->n_words == 0) return status;                                            \
        if (VF_OFF(table)) return VF_ERR_ALIGNMENT;                                                            \
        const int64_t n_topics = params->n_topics;                                                             \
        const REAL least = (REAL)params->least;                                                                \
        for (int64_t v = 0; v < params->n_words; ++v) {                                                        \
            REAL *VF_RESTRICT row = table + v * params->n_padded;                                              \
            double chain[CHAINS] = {0.0};                                                                      \
            int64_t k = 0;                                                                                     \
            for (; k + CHAINS <= n_topics; k += CHAINS)                                                        \
                for (int64_t j = 0; j < CHAINS; ++j) chain[j] += (double)row[k + j] * weight[k + j];           \
            for (int64_t j = 0; k + j < n_topics; ++j) chain[j] += (double)row[k + j] * weight[k + j];         \
            const double sum = sum_chains(chain), scale = sum >= MIN_SUM ? 1.0 / sum : 0.0;                    \
            if (!(sum <= MOST)) return VF_ERR_RANGE;                                                           \
            for (k = 0; k < n_topics; ++k) {                                                                   \
                const REAL share = (REAL)((double)row[k] * weight[k] * scale);                                 \
                row[k] = share < least ? 0 : share;                                                            \
            }                                                                                                  \
            for (; k < params->n_padded; ++k) row[k] = 0;                                                      \
        }                                                                                                      \
        return VF_OK;                                                                                          \
    }
TABLE_SHARES(float, _f32)
TABLE_SHARES(double, _f64)

/* One entry's part of a word's two sums, in chain j. */
#define SPREAD(j)                                                                  \
    do {                                                                           \
        const double share = (double)row[k + (j)], part = share * weight[k + (j)]; \
        used[j] += part;                                                           \
        held[j] += part / (share + floor_);                                        \
    } while (0)
#define TABLE_SPREAD(REAL, SUFFIX)                                                                                 \
    int32_t VF_FN(vf_table_spread##SUFFIX)(const vf_table_params *params, const double *weight, const REAL *table, \
                                           double *spread) {                                                       \
        const int32_t status = check_rows(params, table, weight);                                                  \
        if (status != VF_OK || params->n_words == 0) return status;                                                \
        if (!spread) return VF_ERR_NULL;                                                                           \
        if (VF_OFF(table) | VF_OFF(spread)) return VF_ERR_ALIGNMENT;                                               \
        if (!(params->least >= MIN_FLOOR)) return VF_ERR_PARAMETER;                                                \
        const double floor_ = params->least;                                                                       \
        for (int64_t v = 0; v < params->n_words; ++v) {                                                            \
            const REAL *VF_RESTRICT row = table + v * params->n_padded;                                            \
            double used[CHAINS] = {0.0}, held[CHAINS] = {0.0};                                                     \
            int64_t k = 0;                                                                                         \
            for (; k + CHAINS <= params->n_topics; k += CHAINS)                                                    \
                for (int64_t j = 0; j < CHAINS; ++j) SPREAD(j);                                                    \
            for (int64_t j = 0; k + j < params->n_topics; ++j) SPREAD(j);                                          \
            const double all = sum_chains(used);                                                                   \
            spread[v] = all > 0.0 ? sqrt(sum_chains(held) / all) : 1.0;                                            \
        }                                                                                                          \
        return VF_OK;                                                                                              \
    }
TABLE_SPREAD(float, _f32)
TABLE_SPREAD(double, _f64)
