/* Empirical-Bayes read-out of noised statistics; kernels.toml has the model.
 *
 * With x = average/sd and b = word_mass topic_weight / sd, component g of the prior makes x Gaussian with mean b r_g
 * and variance s_g = 1 + (b h_g)^2, so its likelihood is exp(-(x - b r_g)^2 / (2 s_g)) / sqrt(s_g) and its own
 * posterior mean b r_g + (1 - 1/s_g) (x - b r_g). The smallest exponent is subtracted first, so that nothing
 * underflows. The cost is n_grid exponentials an entry, vectorised over topics. */

#include "declarations.h"
#include "simd/math.h"

/* With these limits (x - b r)^2 stays below 10^37 in float32, and so does a mean. */
#define MIN_SD 1e-20
#define MAX_SD 1e20
#define MAX_RATIO 1e12
#define MAX_GRID 1e6f

static int32_t check(const vf_shrink_params *p, const double *average, const double *word_mass,
                     const double *topic_weight, const float *grid, const float *prior, const int32_t *band,
                     const float *workspace, const float *means, const double *responsibility) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (p->n_words < 0 || p->n_topics < 1 || p->n_grid < 1 || p->n_grid > VF_SHRINK_GRID || p->n_bands < 1)
        return VF_ERR_SIZE;
    if (!(p->sd >= MIN_SD && p->sd <= MAX_SD)) return VF_ERR_PARAMETER;
    if (p->n_words == 0) return VF_OK;
    if (!average || !word_mass || !topic_weight || !grid || !prior || !band || !workspace) return VF_ERR_NULL;
    if (VF_OFF(average) | VF_OFF(word_mass) | VF_OFF(topic_weight) | VF_OFF(grid) | VF_OFF(prior) | VF_OFF(band) |
        VF_OFF(workspace) | VF_OFF(means) | VF_OFF(responsibility))
        return VF_ERR_ALIGNMENT;
    for (int64_t g = 0; g < p->n_grid; ++g)
        if (!(fabsf(grid[g]) <= MAX_GRID) || (g > 0 && !(grid[g] > grid[g - 1]))) return VF_ERR_PARAMETER;
    return VF_OK;
}

static int prior_is_good(int64_t n_grid, const float *weight) {
    float heaviest = 0.0f;
    for (int64_t g = 0; g < n_grid; ++g) {
        if (!(weight[g] >= 0.0f && weight[g] <= 1e10f)) return 0;
        heaviest = weight[g] > heaviest ? weight[g] : heaviest;
    }
    return heaviest >= 1e-10f;
}

/* x = average / sd and b = word_mass topic_weight / sd for one word. */
static int32_t scale_word(int64_t n_topics, int64_t padded, double sd, double word_mass, const double *average,
                          const double *topic_weight, float *x, float *b) {
    const double inverse = 1.0 / sd;
    int outside = 0;
    for (int64_t k = 0; k < n_topics; ++k) {
        const double seen = average[k] * inverse, unit = word_mass * topic_weight[k] * inverse;
        const int in = (fabs(seen) <= MAX_RATIO) & (fabs(unit) <= MAX_RATIO);
        outside |= !in;
        x[k] = (float)(in ? seen : 0.0);
        b[k] = (float)(in ? unit : 0.0);
    }
    for (int64_t k = n_topics; k < padded; ++k) x[k] = b[k] = 0.0f;
    return outside ? VF_ERR_RANGE : VF_OK;
}

/* Posterior weights of the components for VF_NF entries, up to scale, in q; their sum, and the sum of the components'
 * means with these weights. */
VF_INLINE void weigh(int64_t n_grid, vff x, vff b, const float *grid, const float *width, const float *weight, vff *q,
                     vff *sum, vff *moment) {
    const vff one = vff_set1(1.0f), half = vff_set1(0.5f);
    vff p[VF_SHRINK_GRID], c[VF_SHRINK_GRID], least = vff_set1(3e38f);
    for (int64_t g = 0; g < n_grid; ++g) {
        const vff h = vff_mul(b, vff_set1(width[g])), center = vff_mul(b, vff_set1(grid[g]));
        const vff d = vff_sub(x, center);
        p[g] = vff_div(one, vff_fma(h, h, one));
        c[g] = vff_fma(vff_sub(one, p[g]), d, center);
        q[g] = vff_mul(half, vff_mul(vff_mul(d, d), p[g]));
        least = vff_min(least, q[g]);
    }
    *sum = *moment = vff_set1(0.0f);
    for (int64_t g = 0; g < n_grid; ++g) {
        /* e^-50 of the likeliest is nothing, and keeps the product out of the denormals. */
        const vff exponent = vff_max(vff_sub(least, q[g]), vff_set1(-50.0f));
        q[g] = vff_mul(vff_mul(vff_set1(weight[g]), vff_sqrt(p[g])), vff_exp_neg(exponent));
        *sum = vff_add(*sum, q[g]);
        *moment = vff_fma(q[g], c[g], *moment);
    }
}

int32_t VF_FN(vf_shrink_means)(const vf_shrink_params *params, const double *average, const double *word_mass,
                               const double *topic_weight, const float *grid, const float *prior, const int32_t *band,
                               float *workspace, float *means, double *responsibility) {
    int32_t status =
        check(params, average, word_mass, topic_weight, grid, prior, band, workspace, means, responsibility);
    if (status != VF_OK) return status;
    const int64_t n_topics = params->n_topics, n_grid = params->n_grid, padded = VF_ROUND_UP(n_topics, VF_NF);
    float *x = workspace, *b = workspace + padded;
    float width[VF_SHRINK_GRID];
    for (int64_t g = 0; g < n_grid; ++g) {
        const int64_t before = g > 0 ? g - 1 : g, after = g + 1 < n_grid ? g + 1 : g;
        width[g] = g == 0 || after == before ? 0.0f : 0.5f * (grid[after] - grid[before]) / (float)(after - before);
    }
    for (int64_t v = 0; v < params->n_words; ++v) {
        if (band[v] < 0 || band[v] >= params->n_bands) return VF_ERR_INDEX;
        const float *weight = prior + (int64_t)band[v] * n_grid;
        if (!prior_is_good(n_grid, weight)) return VF_ERR_PARAMETER;
        status = scale_word(n_topics, padded, params->sd, word_mass[v], average + v * n_topics, topic_weight, x, b);
        if (status != VF_OK) return status;
        vff total[VF_SHRINK_GRID];
        for (int64_t g = 0; g < n_grid; ++g) total[g] = vff_set1(0.0f);
        for (int64_t k = 0; k < padded; k += VF_NF) {
            vff q[VF_SHRINK_GRID], sum, moment;
            weigh(n_grid, vff_load(x + k), vff_load(b + k), grid, width, weight, q, &sum, &moment);
            const vff scale = vff_div(vff_set1(1.0f), sum);
            if (means) {
                float out[VF_NF];
                vff_store(out, vff_max(vff_mul(scale, moment), vff_set1(0.0f)));
                for (int64_t j = 0; j < VF_NF && k + j < n_topics; ++j)
                    means[v * n_topics + k + j] = (float)((double)out[j] * params->sd);
            }
            if (responsibility) {
                float live[VF_NF];
                for (int64_t j = 0; j < VF_NF; ++j) live[j] = k + j < n_topics ? 1.0f : 0.0f;
                const vff mask = vff_mul(scale, vff_load(live));
                for (int64_t g = 0; g < n_grid; ++g) total[g] = vff_fma(q[g], mask, total[g]);
            }
        }
        if (responsibility)
            for (int64_t g = 0; g < n_grid; ++g)
                responsibility[(int64_t)band[v] * n_grid + g] += (double)vff_sum(total[g]);
    }
    return VF_OK;
}
