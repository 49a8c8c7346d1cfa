/* Empirical-Bayes read-out of noised statistics; kernels.toml has the model.
 *
 * With b = expected, component g of the prior makes x Gaussian with mean b r_g and variance
 * s_g = 1 + (b h_g)^2, so its likelihood is exp(-(x - b r_g)^2 / (2 s_g)) / sqrt(s_g) and its own posterior mean
 * x - (x - b r_g) / s_g. The smallest exponent is subtracted first, so that nothing underflows. The cost is
 * n_grid exponentials an entry. Entries are sorted by band first: all lanes of a vector then share a prior. */

#include "declarations.h"
#include "simd/math.h"

/* With these limits (x - b r)^2 stays below 10^37 in float32, and so does a mean. */
#define MAX_RATIO 1e12f
#define MAX_GRID 1e6f

/* Entries that are compared with all edges while they are in the cache. */
#define TOGETHER 2048

static int32_t check(const vf_shrink_params *p, const float *x, const float *expected, const float *grid,
                     const float *prior, const double *edges, const float *workspace, const float *means,
                     const double *responsibility) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (p->n_words < 0 || p->n_topics < 1 || p->n_grid < 1 || p->n_grid > VF_SHRINK_GRID || p->n_bands < 1 ||
        p->n_bands > VF_SHRINK_BANDS || p->n_topics > INT32_MAX || p->n_words > INT32_MAX / p->n_topics)
        return VF_ERR_SIZE;
    if (p->n_words == 0) return VF_OK;
    if (!x || !expected || !grid || !prior || !workspace || (p->n_bands > 1 && !edges)) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(expected) | VF_OFF(grid) | VF_OFF(prior) | VF_OFF(edges) | VF_OFF(workspace) |
        VF_OFF(means) | VF_OFF(responsibility))
        return VF_ERR_ALIGNMENT;
    for (int64_t g = 0; g < p->n_grid; ++g)
        if (!(fabsf(grid[g]) <= MAX_GRID) || (g > 0 && !(grid[g] > grid[g - 1]))) return VF_ERR_PARAMETER;
    for (int64_t e = 0; e + 1 < p->n_bands; ++e)
        if (!(edges[e] <= (double)MAX_RATIO) || (e > 0 && !(edges[e] > edges[e - 1]))) return VF_ERR_PARAMETER;
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

/* VF_NF numbers from the i-th of n on; missing ones lie above all edges. */
VF_INLINE vff take(int64_t i, int64_t n, const float *expected) {
    if (n - i >= VF_NF) return vff_load(expected + i);
    float some[VF_NF];
    for (int64_t j = 0; j < VF_NF; ++j) some[j] = i + j < n ? expected[i + j] : MAX_RATIO;
    return vff_load(some);
}

/* Sort x and expected by bands into by_band and b. A band begins at first[band], and its entries keep their order; place
 * has where each lies in the matrix. */
static int32_t sort_by_bands(int64_t n, int64_t n_bands, const float *x, const float *expected, const double *edges,
                             float *by_band, float *b, int32_t *place, int64_t *first) {
    float edge[VF_SHRINK_BANDS];
    int64_t below[VF_SHRINK_BANDS] = {0}, next[VF_SHRINK_BANDS];
    int32_t outside = 0;
    for (int64_t e = 0; e + 1 < n_bands; ++e) {
        const float near = (float)edges[e];
        edge[e] = (double)near < edges[e] ? nextafterf(near, INFINITY) : near;
    }
    for (int64_t i = 0; i < n; i += TOGETHER) {
        const float *VF_RESTRICT from = expected + i;
        const int64_t here = n - i < TOGETHER ? n - i : TOGETHER;
        for (int64_t j = 0; j < here; ++j) outside |= !((fabsf(x[i + j]) <= MAX_RATIO) & (fabsf(from[j]) <= MAX_RATIO));
        for (int64_t e = 0; e + 1 < n_bands; ++e) {
            const float bound = edge[e];
            int32_t sum = 0;
            for (int64_t j = 0; j < here; ++j) sum += from[j] < bound;
            below[e] += sum;
        }
    }
    if (outside) return VF_ERR_RANGE;
    below[n_bands - 1] = n;
    for (int64_t k = 0; k < n_bands; ++k) first[k] = next[k] = k > 0 ? below[k - 1] : 0;
    first[n_bands] = n;
    for (int64_t i = 0; i < n; i += VF_NF) {
        const vff base = take(i, n, expected);
        const unsigned here = n - i < VF_NF ? (1u << (n - i)) - 1u : (1u << VF_NF) - 1u;
        unsigned done = 0;
        for (int64_t k = 0; done != here; ++k) {
            const unsigned low = k + 1 < n_bands ? vff_less_bits(base, vff_set1(edge[k])) : here;
            const unsigned own = low & ~done;
            if (!own) continue;
            vff_pick(own, x + i, expected + i, (int32_t)i, by_band + next[k], b + next[k], place + next[k]);
            next[k] += __builtin_popcount(own);
            done = low;
        }
    }
    return VF_OK;
}

/* 2^x to 2e-7, for x in [-100, 0]: a polynomial of least relative error on [-1/2, 1/2]. */
VF_INLINE vff power_of_two(vff x) {
    static const float terms[] = {1.3276472e-3f,  9.67554148e-3f, 5.55071328e-2f,
                                  2.40221197e-1f, 6.93146967e-1f, 1.00000007f};
    const vff n = vff_rint(x);
    return vff_scale(VF_HORNER(vff, vff_sub(x, n), terms), n);
}

/* What is the same for all entries of a call: the grid and its widths, and the prior of a band. */
typedef struct {
    int64_t n_grid;
    const float *grid, *prior;
    float width[VF_SHRINK_GRID];
} mixture;

/* Posterior weights of the components for VF_NF entries, up to scale, in q; their sum, and the sum of the components'
 * means with these weights. */
VF_INLINE void weigh(const mixture *m, vff x, vff b, vff *q, vff *sum, vff *moment) {
    const int64_t n_grid = m->n_grid;
    const vff one = vff_set1(1.0f), half = vff_set1(0.5f * 1.442695041f), lowest = vff_set1(-72.0f);
    vff root[VF_SHRINK_GRID], mean[VF_SHRINK_GRID], least;
    mean[0] = vff_mul(b, vff_set1(m->grid[0])); /* a point */
    root[0] = one;
    const vff off = vff_sub(x, mean[0]);
    q[0] = least = vff_mul(half, vff_mul(off, off));
    for (int64_t g = 1; g < n_grid; ++g) {
        const vff h = vff_mul(b, vff_set1(m->width[g])), variance = vff_fma(h, h, one);
        /* The root's square has too few digits for an exponent. */
        const vff d = vff_less(x, b, vff_set1(m->grid[g])), part = vff_mul(d, vff_recip(variance));
        root[g] = vff_root_recip(variance);
        mean[g] = vff_sub(x, part);
        q[g] = vff_mul(vff_mul(half, d), part);
        least = vff_min(least, q[g]);
    }
    *sum = *moment = vff_set1(0.0f);
    for (int64_t g = 0; g < n_grid; ++g) {
        /* 2^-72 of the likeliest is nothing, and keeps the product out of the denormals. */
        const vff exponent = vff_max(vff_sub(least, q[g]), lowest);
        q[g] = vff_mul(vff_mul(vff_set1(m->prior[g]), root[g]), power_of_two(exponent));
        *sum = vff_add(*sum, q[g]);
        *moment = vff_fma(q[g], mean[g], *moment);
    }
}

/* The entries of one band, side by side in x and b; place[i] is where entry i lies in the matrix. */
static void read_band(int64_t n, const mixture *m, const float *x, const float *b, const int32_t *place, float *means,
                      double *responsibility) {
    vff total[VF_SHRINK_GRID];
    for (int64_t g = 0; g < m->n_grid; ++g) total[g] = vff_set1(0.0f);
    for (int64_t i = 0; i < n; i += VF_NF) {
        const int64_t here = n - i < VF_NF ? n - i : VF_NF;
        vff q[VF_SHRINK_GRID], sum, moment;
        weigh(m, vff_load(x + i), vff_load(b + i), q, &sum, &moment);
        const vff scale = vff_div(vff_set1(1.0f), sum);
        if (means) {
            float out[VF_NF];
            vff_store(out, vff_max(vff_mul(scale, moment), vff_set1(0.0f)));
            for (int64_t j = 0; j < here; ++j) means[place[i + j]] = out[j];
        }
        if (responsibility) {
            float live[VF_NF];
            for (int64_t j = 0; j < VF_NF; ++j) live[j] = j < here ? 1.0f : 0.0f;
            const vff mask = vff_mul(scale, vff_load(live));
            for (int64_t g = 0; g < m->n_grid; ++g) total[g] = vff_fma(q[g], mask, total[g]);
        }
    }
    for (int64_t g = 0; responsibility && g < m->n_grid; ++g) responsibility[g] += (double)vff_sum(total[g]);
}

int32_t VF_FN(vf_shrink_means)(const vf_shrink_params *params, const float *x, const float *expected, const float *grid,
                               const float *prior, const double *edges, float *workspace, float *means,
                               double *responsibility) {
    int32_t status = check(params, x, expected, grid, prior, edges, workspace, means, responsibility);
    if (status != VF_OK || params->n_words == 0) return status;
    const int64_t n = params->n_words * params->n_topics, n_grid = params->n_grid, n_bands = params->n_bands;
    float *by_band = workspace, *b = by_band + n + VF_NF;
    int32_t *place = (int32_t *)(b + n + VF_NF);
    int64_t first[VF_SHRINK_BANDS + 1];
    status = sort_by_bands(n, n_bands, x, expected, edges, by_band, b, place, first);
    if (status != VF_OK) return status;
    for (int64_t k = 0; k < n_bands; ++k)
        if (first[k + 1] > first[k] && !prior_is_good(n_grid, prior + k * n_grid)) return VF_ERR_PARAMETER;
    for (int64_t i = n; i < n + VF_NF; ++i) by_band[i] = b[i] = 0.0f;
    mixture m = {.n_grid = n_grid, .grid = grid};
    for (int64_t g = 0; g < n_grid; ++g) {
        const int64_t before = g > 0 ? g - 1 : g, after = g + 1 < n_grid ? g + 1 : g;
        m.width[g] = g == 0 || after == before ? 0.0f : 0.5f * (grid[after] - grid[before]) / (float)(after - before);
    }
    for (int64_t k = 0; k < n_bands; ++k) {
        m.prior = prior + k * n_grid;
        read_band(first[k + 1] - first[k], &m, by_band + first[k], b + first[k], place + first[k], means,
                  responsibility ? responsibility + k * n_grid : NULL);
    }
    return VF_OK;
}
