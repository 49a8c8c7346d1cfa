/* Empirical-Bayes read-out of noised statistics; see shrink.h for the model.
 *
 * With x = average/sd and b = word_mass topic_weight / sd, component g of the prior
 * makes x Gaussian with mean b r_g and variance s_g = 1 + (b h_g)^2, so its likelihood
 * is exp(-(x - b r_g)^2 / (2 s_g)) / sqrt(s_g) and its own posterior mean
 * b r_g + (1 - 1/s_g) (x - b r_g). The smallest exponent is subtracted first, so that
 * nothing underflows. The cost is n_grid exponentials an entry, vectorised over topics. */

#include "shrink.h"
#include "vf_math.h"

/* With these limits (x - b r)^2 stays below 10^37 in float32, and so does a mean. */
#define MIN_SD 1e-20
#define MAX_SD 1e20
#define MAX_RATIO 1e12
#define MAX_GRID 1e6f

int32_t VF_FN(vf_shrink_means)(int64_t n_words, int64_t n_topics, int64_t n_grid, int64_t n_bands, double sd,
                               const double *average, const double *word_mass, const double *topic_weight,
                               const float *grid, const float *prior, const int32_t *band, float *workspace,
                               float *means, double *responsibility) {
    if (n_words < 0 || n_topics < 1 || n_grid < 1 || n_grid > VF_SHRINK_GRID || n_bands < 1) return VF_ERR_SIZE;
    if (!(sd >= MIN_SD && sd <= MAX_SD)) return VF_ERR_PARAMETER;
    if (n_words == 0) return VF_OK;
    if (!average || !word_mass || !topic_weight || !grid || !prior || !band || !workspace) return VF_ERR_NULL;
    if (VF_OFF(average) | VF_OFF(word_mass) | VF_OFF(topic_weight) | VF_OFF(grid) | VF_OFF(prior) | VF_OFF(band) |
        VF_OFF(workspace) | VF_OFF(means) | VF_OFF(responsibility))
        return VF_ERR_ALIGNMENT;
    const int64_t padded = (n_topics + VF_NF - 1) / VF_NF * VF_NF;
    float *x = workspace, *b = workspace + padded;
    const double inverse = 1.0 / sd;
    for (int64_t g = 0; g < n_grid; ++g)
        if (!(fabsf(grid[g]) <= MAX_GRID) || (g > 0 && !(grid[g] > grid[g - 1]))) return VF_ERR_PARAMETER;
    float width[VF_SHRINK_GRID];
    for (int64_t g = 0; g < n_grid; ++g) {
        const int64_t before = g > 0 ? g - 1 : g, after = g + 1 < n_grid ? g + 1 : g;
        width[g] = g == 0 || after == before ? 0.0f : 0.5f * (grid[after] - grid[before]) / (float)(after - before);
    }
    for (int64_t v = 0; v < n_words; ++v) {
        if (band[v] < 0 || band[v] >= n_bands) return VF_ERR_INDEX;
        const float *weight = prior + (int64_t)band[v] * n_grid;
        float heaviest = 0.0f;
        for (int64_t g = 0; g < n_grid; ++g) {
            if (!(weight[g] >= 0.0f && weight[g] <= 1e10f)) return VF_ERR_PARAMETER;
            heaviest = weight[g] > heaviest ? weight[g] : heaviest;
        }
        if (!(heaviest >= 1e-10f)) return VF_ERR_PARAMETER;
        int outside = 0;
        for (int64_t k = 0; k < n_topics; ++k) {
            const double seen = average[v * n_topics + k] * inverse, unit = word_mass[v] * topic_weight[k] * inverse;
            const int in = (fabs(seen) <= MAX_RATIO) & (fabs(unit) <= MAX_RATIO);
            outside |= !in;
            x[k] = (float)(in ? seen : 0.0);
            b[k] = (float)(in ? unit : 0.0);
        }
        if (outside) return VF_ERR_RANGE;
        for (int64_t k = n_topics; k < padded; ++k) x[k] = b[k] = 0.0f;
        vff total[VF_SHRINK_GRID];
        for (int64_t g = 0; g < n_grid; ++g) total[g] = vff_set1(0.0f);
        for (int64_t k = 0; k < padded; k += VF_NF) {
            const vff xk = vff_load(x + k), bk = vff_load(b + k), half = vff_set1(0.5f);
            const vff one = vff_set1(1.0f);
            vff q[VF_SHRINK_GRID], p[VF_SHRINK_GRID], c[VF_SHRINK_GRID], least = vff_set1(3e38f);
            for (int64_t g = 0; g < n_grid; ++g) {
                const vff h = vff_mul(bk, vff_set1(width[g])), centre = vff_mul(bk, vff_set1(grid[g]));
                const vff d = vff_sub(xk, centre);
                p[g] = vff_div(one, vff_fma(h, h, one));
                c[g] = vff_fma(vff_sub(one, p[g]), d, centre);
                q[g] = vff_mul(half, vff_mul(vff_mul(d, d), p[g]));
                least = vff_min(least, q[g]);
            }
            vff sum = vff_set1(0.0f), moment = vff_set1(0.0f);
            for (int64_t g = 0; g < n_grid; ++g) {
                /* e^-50 of the likeliest is nothing, and keeps the product out of the denormals. */
                const vff exponent = vff_max(vff_sub(least, q[g]), vff_set1(-50.0f));
                q[g] = vff_mul(vff_mul(vff_set1(weight[g]), vff_sqrt(p[g])), vff_exp_neg(exponent));
                sum = vff_add(sum, q[g]);
                moment = vff_fma(q[g], c[g], moment);
            }
            const vff scale = vff_div(one, sum);
            if (means) {
                float out[VF_NF];
                vff_store(out, vff_max(vff_mul(scale, moment), vff_set1(0.0f)));
                for (int64_t j = 0; j < VF_NF && k + j < n_topics; ++j)
                    means[v * n_topics + k + j] = (float)((double)out[j] * sd);
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
