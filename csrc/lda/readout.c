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

/* Of a word's likeliest component e^-230 is nothing, and neither is a component of such a weight. Products of smaller ones
 * would be denormals, which cost a hundred times as much. */
#define LEAST_EXPONENT -230.0
#define LEAST_WEIGHT 1e-100

/* Chains of sums over a row. */
#define CHAINS 8

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
        if (g < p->n_grid) m->scale[g] = m->inverse[g];
        if (g >= p->n_grid || weight[g] < LEAST_WEIGHT) continue;
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
    for (int64_t g = 0; g < padded; g += VF_ND) {
        const vfd exponent = vfd_max(vfd_sub(vfd_load(row + g), top), vfd_set1(LEAST_EXPONENT));
        vfd_store(row + g, vfd_mul(vfd_exp_neg(exponent), vfd_load(m->scale + g)));
    }
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

/* Topics that are taken at a time. Their common numbers are loaded once, and no chain of sums waits for another. */
#define TOPICS 4

/* Ratios of VF_ND words, whose numbers lie side by side. base, share = p base and scaled = x - base, later p times that,
 * are K vectors each. factor is R, row after row, with the inverses of its diagonal; score has q vectors. */
typedef struct {
    int64_t q;
    const double *loadings, *own, *base;
    double *share, *scaled, *factor, *score, *ratio;
} words;

/* Add `number` topics from the k-th on to the lower half of S and to the score. */
VF_INLINE void add_topics(const words *m, int64_t k, const int number) {
    const vfd one = vfd_set1(1.0);
    const double *row = m->loadings + k * m->q;
    vfd w[TOPICS], off[TOPICS];
    for (int t = 0; t < number; ++t) {
        const vfd b = vfd_load(m->base + (k + t) * VF_ND), d = vfd_load(m->scaled + (k + t) * VF_ND);
        const vfd p = vfd_div(one, vfd_fma(vfd_set1(m->own[k + t]), vfd_mul(b, b), one)), s = vfd_mul(p, b);
        w[t] = vfd_mul(s, b);
        off[t] = vfd_mul(s, d);
        vfd_store(m->share + (k + t) * VF_ND, s);
        vfd_store(m->scaled + (k + t) * VF_ND, vfd_mul(p, d));
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
        const vfd b = vfd_load(m->base + at), s = vfd_load(m->share + at), p = vfd_div(s, b);
        const vfd inverse = vfd_less(vfd_load(m->scaled + at), s, along[t]);
        /* Above 0 but for rounding. */
        const vfd diagonal = vfd_max(vfd_less(p, vfd_mul(s, s), square[t]), vfd_mul(p, vfd_set1(0x1p-52)));
        const vfd d = vfd_sub(vfd_div(vfd_load(m->scaled + at), p), vfd_div(inverse, diagonal));
        vfd_store(m->ratio + at, vfd_max(vfd_add(one, vfd_div(d, b)), vfd_set1(0.1)));
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
    double *b = workspace, *share = b + stride * VF_ND, *scaled = share + stride * VF_ND,
           *rows = scaled + stride * VF_ND;
    double *factor = rows + stride * VF_ND, *score = factor + n_factors * n_factors * VF_ND;
    /* A topic's ratio takes the place of its share, which is not needed any more. */
    const words m = {n_factors, loadings, own, b, share, scaled, factor, score, share};
    memset(workspace, 0, (size_t)(4 * stride * VF_ND) * sizeof *workspace);
    for (int64_t v = 0; v < n_words; v += VF_ND) {
        const int64_t here = n_words - v < VF_ND ? n_words - v : VF_ND;
        const float *first = base + v * n_topics;
        if (n_factors > 0) {
            take_lanes(here, n_topics, stride, first, NULL, rows, b);
            take_lanes(here, n_topics, stride, x + v * n_topics, first, rows, scaled);
            predict(n_topics, &m);
            give_rows(stride, share, rows);
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

/* Words whose products are added to a vector of sums at a time, and words after which float32 sums start anew. */
#define GROUP 8
#define WORDS_IN_SINGLE 256

/* The square of a deviation in the sum of squares: above, it is beyond any doubt. */
#define MOST_SQUARE 1e15

/* sums[k][l] += sum of the group's row[k] row[l], for two k at a time and l from their vector on. */
#define ADD_PRODUCTS(NAME, REAL, OP, LANES)                                            \
    static void NAME(int64_t n_topics, int64_t stride, const REAL *rows, REAL *sums) { \
        for (int64_t k = 0; k < n_topics; k += 2) {                                    \
            REAL *first = sums + k * stride, *second = first + stride;                 \
            OP own[GROUP], next[GROUP];                                                \
            for (int64_t j = 0; j < GROUP; ++j) {                                      \
                own[j] = OP##_set1(rows[j * stride + k]);                              \
                next[j] = OP##_set1(rows[j * stride + k + 1]);                         \
            }                                                                          \
            for (int64_t l = k / LANES * LANES; l < n_topics; l += LANES) {            \
                OP s = OP##_load(first + l), t = OP##_load(second + l);                \
                for (int64_t j = 0; j < GROUP; ++j) {                                  \
                    const OP row = OP##_load(rows + j * stride + l);                   \
                    s = OP##_fma(own[j], row, s);                                      \
                    t = OP##_fma(next[j], row, t);                                     \
                }                                                                      \
                OP##_store(first + l, s);                                              \
                OP##_store(second + l, t);                                             \
            }                                                                          \
        }                                                                              \
    }
ADD_PRODUCTS(add_products, double, vfd, VF_ND)
ADD_PRODUCTS(add_single, float, vff, VF_NF)

/* Arrays in the workspace: a group's rows of d, of s and of d^2, and the sums of their products. */
typedef struct {
    int64_t stride, size;
    double *d, *products, *noise;
    float *share, *square, *shares, *squares;
} moments;

/* The numbers of a word, in row j of a group. */
static void lay_word(const moments *m, int64_t j, int64_t n_topics, double spread, const float *VF_RESTRICT x,
                     const float *VF_RESTRICT base) {
    double *VF_RESTRICT d = m->d + j * m->stride, *VF_RESTRICT noise = m->noise;
    float *VF_RESTRICT share = m->share + j * m->stride, *VF_RESTRICT square = m->square + j * m->stride;
    for (int64_t k = 0; k < n_topics; ++k) {
        const double b = (double)base[k], w = b / (1.0 + spread * (b * b)), off = ((double)x[k] - b) * w;
        const double two = off * off;
        d[k] = off;
        share[k] = (float)(w * b);
        square[k] = (float)(two < MOST_SQUARE ? two : MOST_SQUARE);
        noise[k] += w * w;
    }
}

/* Add sums in one precision, K rows of them, to the symmetric sums. */
#define ADD_SYMMETRIC(NAME, REAL)                                                                             \
    static void NAME(int64_t n_topics, int64_t stride, const REAL *part, const double *noise, double *sums) { \
        for (int64_t k = 0; k < n_topics; ++k)                                                                \
            for (int64_t l = k; l < n_topics; ++l) {                                                          \
                const double s = (double)part[k * stride + l] - (noise && k == l ? noise[k] : 0.0);           \
                sums[k * n_topics + l] += s;                                                                  \
                if (l > k) sums[l * n_topics + k] += s;                                                       \
            }                                                                                                 \
    }
ADD_SYMMETRIC(add_symmetric, double)
ADD_SYMMETRIC(add_symmetric_single, float)

int32_t VF_FN(vf_topic_moments)(int64_t n_words, int64_t n_topics, double spread, const float *x, const float *base,
                                double *workspace, double *sums) {
    if (n_words < 0 || n_topics < 1 || n_topics > 1 << 20 || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (!(spread >= 0.0 && spread <= MOST)) return VF_ERR_PARAMETER;
    if (n_words == 0) return VF_OK;
    if (!x || !base || !workspace || !sums) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(base) | VF_OFF(workspace) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    int64_t outside = 0;
    for (int64_t i = 0; i < n_words * n_topics; ++i)
        outside += !((base[i] >= 0.0f) & (base[i] <= 1e12f) & (fabsf(x[i]) <= 1e12f));
    if (outside) return VF_ERR_RANGE;
    moments m = {.stride = VF_ROUND_UP(n_topics, 16)};
    m.size = VF_ROUND_UP(n_topics, 2) * m.stride;
    m.d = workspace;
    m.noise = m.d + GROUP * m.stride;
    m.products = m.noise + m.stride;
    m.share = (float *)(m.products + m.size);
    m.square = m.share + GROUP * m.stride;
    m.shares = m.square + GROUP * m.stride;
    m.squares = m.shares + m.size;
    memset(workspace, 0, (size_t)((2 * GROUP + 1) * m.stride + 2 * m.size) * sizeof *workspace);
    for (int64_t v = 0; v < n_words; v += GROUP) {
        const int64_t here = n_words - v < GROUP ? n_words - v : GROUP;
        for (int64_t j = 0; j < here; ++j)
            lay_word(&m, j, n_topics, spread, x + (v + j) * n_topics, base + (v + j) * n_topics);
        if (here < GROUP) {
            memset(m.d + here * m.stride, 0, (size_t)((GROUP - here) * m.stride) * sizeof *m.d);
            memset(m.share + here * m.stride, 0, (size_t)((GROUP - here) * m.stride) * sizeof *m.share);
            memset(m.square + here * m.stride, 0, (size_t)((GROUP - here) * m.stride) * sizeof *m.square);
        }
        add_products(n_topics, m.stride, m.d, m.products);
        add_single(n_topics, m.stride, m.share, m.shares);
        add_single(n_topics, m.stride, m.square, m.squares);
        if ((v + GROUP) % WORDS_IN_SINGLE == 0 || v + GROUP >= n_words) {
            add_symmetric_single(n_topics, m.stride, m.shares, NULL, sums + n_topics * n_topics);
            add_symmetric_single(n_topics, m.stride, m.squares, NULL, sums + 2 * n_topics * n_topics);
            memset(m.shares, 0, (size_t)(2 * m.size) * sizeof *m.shares);
        }
    }
    add_symmetric(n_topics, m.stride, m.products, m.noise, sums);
    return VF_OK;
}
