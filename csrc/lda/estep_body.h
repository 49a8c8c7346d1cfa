/* The LDA E-step in one precision. Included twice by estep.c, which states the mathematics. */

/* What a word's largest entry is multiplied by: 1 over it, within range. A word of zeros stays one: its scale would be
 * infinite. */
VF_INLINE double LOCAL(table_scale)(double top) {
    return top > 0.0 ? 0x1p1000 > 1.0 / top ? 1.0 / top : 0x1p1000 : 0.0;
}

/* Denormal numbers change no sum and cost the loops a hundredfold. */
VF_INLINE REAL LOCAL(table_entry)(double share) {
    const REAL x = (REAL)share;
    return x < LOCAL(tiny) ? 0 : x;
}

/* The rows of VF_ND words whose entries lie side by side; 0 if one of these is out of range. */
static int LOCAL(table_rows)(int64_t n_topics, int64_t stride_topic, int64_t stride, const double *entries, REAL *row) {
    const vfd zero = vfd_set1(0.0), one = vfd_set1(1.0), most = vfd_set1(1e300);
    vfd top = zero, bad = zero, all = zero;
    double scale[VF_ND], total[VF_ND], wrong[VF_ND], x[VF_ND];
    for (int64_t k = 0; k < n_topics; ++k) {
        const vfd b = vfd_load(entries + k * stride_topic);
        VF_FETCH(
            (const void *)((uintptr_t)(entries + k * stride_topic) + 2 * VF_LINE)); /* no processor follows K streams */
        bad = vfd_pick_less(b, zero, one, vfd_pick_less(most, b, one, bad));
        top = vfd_max(top, b); /* of a NaN, b: the sum below is one too */
    }
    vfd_store(scale, top);
    vfd_store(wrong, bad);
    for (int l = 0; l < VF_ND; ++l) scale[l] = LOCAL(table_scale)(scale[l]);
    const vfd factor = vfd_load(scale);
    for (int64_t k = 0; k < n_topics; ++k) all = vfd_add(all, vfd_mul(vfd_load(entries + k * stride_topic), factor));
    vfd_store(total, all);
    for (int l = 0; l < VF_ND; ++l) {
        if (wrong[l] != 0.0 || !(total[l] >= 0.0)) return 0;
        total[l] = total[l] > 0.0 ? 1.0 / total[l] : 0.0;
    }
    const vfd inverse = vfd_load(total);
    for (int64_t k = 0; k < n_topics; ++k) {
        vfd_store(x, vfd_mul(vfd_mul(vfd_load(entries + k * stride_topic), factor), inverse));
        for (int l = 0; l < VF_ND; ++l) row[l * stride + k] = LOCAL(table_entry)(x[l]);
    }
    return 1;
}

int32_t KERNEL(vf_lda_table)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                             int64_t stride_word, REAL *table) {
    if (n_topics < 1 || n_words < 1) return VF_ERR_SIZE;
    if (!exp_elog_beta || !table) return VF_ERR_NULL;
    if (VF_OFF(exp_elog_beta) | VF_OFF(table)) return VF_ERR_ALIGNMENT;
    const int64_t stride = VF_LDA_STRIDE(n_topics);
    int64_t v = 0;
    for (; stride_word == 1 && v + VF_ND <= n_words; v += VF_ND)
        if (!LOCAL(table_rows)(n_topics, stride_topic, stride, exp_elog_beta + v, table + v * stride))
            return VF_ERR_PARAMETER;
    for (; v < n_words; ++v) {
        const double *column = exp_elog_beta + v * stride_word;
        REAL *row = table + v * stride;
        double top = 0.0, all = 0.0;
        for (int64_t k = 0; k < n_topics; ++k) {
            const double b = column[k * stride_topic];
            if (!(b >= 0.0) || b > 1e300) return VF_ERR_PARAMETER;
            top = b > top ? b : top;
        }
        /* Two steps, each within range: entries reach 1e300, and sums of denormal ones have no
         * reciprocal. */
        const double scale = LOCAL(table_scale)(top);
        for (int64_t k = 0; k < n_topics; ++k) all += column[k * stride_topic] * scale;
        all = all > 0.0 ? 1.0 / all : 0.0;
        for (int64_t k = 0; k < n_topics; ++k) row[k] = LOCAL(table_entry)(column[k * stride_topic] * scale * all);
    }
    for (v = 0; stride > n_topics && v < n_words; ++v)
        for (int64_t k = n_topics; k < stride; ++k) table[v * stride + k] = 0;
    return VF_OK;
}

#include "lda/rounds_body.h"

/* Workspace of one document: arrays over topics (long enough for a padded block),
 * arrays over words, and the tile with its lattice values. */
int64_t KERNEL(vf_lda_workspace)(int64_t n_topics, int64_t max_doc_words) {
    if (n_topics < 1 || max_doc_words < 0 || n_topics > INT32_MAX || max_doc_words > INT32_MAX) return -1;
    const int64_t kp = VF_LDA_STRIDE(n_topics + 16), np = VF_ROUND_UP(max_doc_words, 16);
    if ((double)(kp + 4) * (double)(np + LANES) > 1e17) return -1;
    const int64_t tile = n_topics * np;
    return (tile + 6 * kp + 2 * np) * (int64_t)sizeof(REAL) + kp * (int64_t)sizeof(int64_t) +
           (tile + kp + np) * (int64_t)sizeof(int32_t) + 128;
}

/* Turn the active rows of the tile into the contribution c_i phi_ik, where floor > 0 over the root of the topic's share
 * of the word plus floor; its norm. */
static double LOCAL(lda_contribution)(int64_t n_active, int64_t np, const int64_t *row, const REAL *theta,
                                      const REAL *rho, double floor, REAL *tile) {
    const VEC least = OP(set1)((REAL)floor);
    double square = 0.0;
    for (int64_t a = 0; a < n_active; ++a) {
        REAL *b = tile + row[a];
        const VEC t = OP(set1)(theta[a]);
        VEC s = OP(set1)(0);
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC share = OP(load)(b + i);
            VEC x = OP(mul)(OP(mul)(t, share), OP(load)(rho + i));
            if (floor > 0.0) x = OP(mul)(x, OP(root_recip)(OP(add)(share, least)));
            OP(store)(b + i, x);
            s = OP(fma)(x, x, s);
        }
        square += (double)OP(sum)(s);
    }
    return sqrt(square);
}

/* Multiply the words' parts of a contribution by public weights. */
static void LOCAL(weigh_words)(const LOCAL(document) * e, const double *word_weight) {
    for (int64_t i = 0; i < e->n_words; ++i) e->rho[i] *= (REAL)word_weight[e->word[i]];
}

/* Scale each word's part of the contribution, of the given norm, down to a norm of at most bound; the norm of the whole.
 * Uses rho. */
static double LOCAL(bound_words)(const LOCAL(document) * e, double norm, double bound) {
    if (norm <= bound) return norm;
    const int64_t np = e->n_padded;
    const VEC most = OP(set1)((REAL)(bound * bound)), one = OP(set1)(1), b = OP(set1)((REAL)bound);
    REAL *factor = e->rho;
    unsigned over = 0;
    for (int64_t i = 0; i < np; i += LANES) {
        VEC own = OP(set1)(0);
        for (int64_t a = 0; a < e->n_active; ++a) {
            const VEC x = OP(load)(e->tile + e->row[a] + i);
            own = OP(fma)(x, x, own);
        }
        over |= OP(less_bits)(most, own);
        const VEC inverse = OP(root_recip)(OP(max)(own, OP(set1)(LOCAL(tiny))));
        OP(store)(factor + i, OP(pick_less)(most, own, OP(mul)(b, inverse), one));
    }
    if (!over) return norm;
    double square = 0.0;
    for (int64_t a = 0; a < e->n_active; ++a) {
        REAL *x = e->tile + e->row[a];
        VEC s = OP(set1)(0);
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC scaled = OP(mul)(OP(load)(x + i), OP(load)(factor + i));
            OP(store)(x + i, scaled);
            s = OP(fma)(scaled, scaled, s);
        }
        square += (double)OP(sum)(s);
    }
    return sqrt(square);
}

/* lattice = trunc(factor * contribution), or, without space for all of it, one topic after the other in the place of the
 * first; its sum of squares, exact: a value is below 2^31 and a document's sum of squares below 2^63. */
static uint64_t LOCAL(lda_truncate)(int64_t n_active, int64_t np, const int64_t *row, REAL factor, const REAL *tile,
                                    int keep, int32_t *lattice) {
    uint64_t squares = 0;
    const VEC f = OP(set1)(factor);
    for (int64_t a = 0; a < n_active; ++a) {
        const REAL *b = tile + row[a];
        int32_t *q = keep ? lattice + a * np : lattice;
        for (int64_t i = 0; i < np; i += LANES) OP(store_i32)(q + i, OP(mul)(OP(load)(b + i), f));
        for (int64_t i = 0; i < np; ++i) squares += (uint64_t)(uint32_t)q[i] * (uint32_t)q[i]; /* q >= 0 */
    }
    return squares;
}

/* Document d comes: its rows are in the cache, and the next to fetch are the rows of document d + 1. */
static void LOCAL(turn_to)(LOCAL(document) * e, const vf_rows_f64 *docs, int64_t d) {
    const int64_t *indptr = docs->indptr;
    e->known = d > 0 ? e->asked : 0;
    e->asked = 0;
    e->n_next = d + 1 < docs->n_rows ? indptr[d + 2] - indptr[d + 1] : 0;
    e->next = e->n_next > 0 ? docs->indices + indptr[d + 1] : NULL;
}

/* Bring in a document's words. 0 if it counts as empty. Word n of those it has is added to sum n modulo 4, so that stored
 * zeros change no bit. */
static int LOCAL(load)(LOCAL(document) * e, int64_t lo, int64_t hi, const int32_t *indices, const double *counts,
                       const double *alpha) {
    const int64_t given = hi - lo;
    const double *c = counts + lo;
    double sum[4] = {0.0, 0.0, 0.0, 0.0}, low[4] = {INFINITY, INFINITY, INFINITY, INFINITY};
    int64_t n = 0;
    for (; n + 4 <= given; n += 4)
        for (int64_t j = 0; j < 4; ++j) {
            sum[j] += c[n + j];
            low[j] = c[n + j] < low[j] ? c[n + j] : low[j];
        }
    for (; n < given; ++n) {
        sum[n & 3] += c[n];
        low[0] = c[n] < low[0] ? c[n] : low[0];
    }
    for (int64_t j = 1; j < 4; ++j) low[0] = low[j] < low[0] ? low[j] : low[0];
    if (low[0] < 0.0) return 0;
    double least = low[0];
    if (VF_LIKELY(least > 0.0)) {
        memcpy(e->word, indices + lo, (size_t)n * sizeof *indices);
        for (int64_t i = 0; i < n; ++i) e->count[i] = (REAL)c[i];
    } else {
        memset(sum, 0, sizeof sum);
        least = INFINITY;
        n = 0;
        for (int64_t i = 0; i < given; ++i) {
            if (c[i] == 0.0) continue;
            e->word[n] = indices[lo + i];
            e->count[n] = (REAL)c[i];
            least = c[i] < least ? c[i] : least;
            sum[n++ & 3] += c[i];
        }
    }
    const double total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    if (!(total >= VF_LDA_MIN_WORDS && total <= VF_LDA_MAX_WORDS)) return 0; /* NaN too */
    e->n_words = n;
    e->total = total;
    e->least = least;
    e->n_padded = VF_ROUND_UP(n, LANES);
    for (int64_t i = n; i < e->n_padded; ++i) e->count[i] = 0;
    e->alpha = 0.0;
    for (int64_t k = 0; k < e->n_topics; ++k) {
        e->topic[k] = (int32_t)k;
        e->prior[k] = (REAL)alpha[k];
        e->alpha = alpha[k] > e->alpha ? alpha[k] : e->alpha;
    }
    for (int64_t k = e->n_topics; k < e->stride; ++k) e->prior[k] = 0; /* whole vectors of it are read */
    return 1;
}

/* Add trunc(factor * contribution) of a document with all topics, whose rows of sums are whole: by words, as lie the
 * sums. */
static void LOCAL(add_whole)(const LOCAL(document) * e, REAL factor, int64_t *sums) {
    const int64_t n_topics = e->n_topics, n_words = e->n_words;
    const VEC f = OP(set1)(factor);
    const REAL *source[LANES];
    VEC column[4];
    int32_t q[4][LANES];
    for (int64_t i = 0; i < n_words; i += 4) {
        const int64_t here = n_words - i < 4 ? n_words - i : 4;
        for (int64_t a = 0; a < n_topics; a += LANES) {
            const int64_t width = n_topics - a < LANES ? n_topics - a : LANES;
            for (int64_t l = 0; l < LANES; ++l) source[l] = e->tile + e->row[a + (l < width ? l : 0)] + i;
            OP(transpose4)(source, column);
            for (int64_t j = 0; j < here; ++j) {
                int64_t *s = sums + (int64_t)e->word[i + j] * n_topics + a;
                const int64_t later = i + j + WORDS_AHEAD < n_words ? i + j + WORDS_AHEAD : n_words - 1;
                VF_PREFETCH(sums + (int64_t)e->word[later] * n_topics + a);
                OP(store_i32)(q[j], OP(mul)(column[j], f));
                if (width == LANES)
                    for (int64_t l = 0; l < LANES; ++l) s[l] += q[j][l];
                else
                    for (int64_t l = 0; l < width; ++l) s[l] += q[j][l];
            }
        }
    }
}

/* Add the contribution of the given norm to the sums. */
static void LOCAL(add_contribution)(const LOCAL(document) * e, const vf_lda_params *params, double norm,
                                    int64_t *sums) {
    /* Copies: the compiler cannot know that the sums do not overwrite *e. */
    const int64_t n_topics = e->n_topics, n_words = e->n_words, n_padded = e->n_padded, n_active = e->n_active;
    const int32_t *topic = e->topic, *word = e->word;
    double factor = 1.0 / params->spacing;
    if (!(params->clip_norm > 0.0)) {
        for (int64_t i = 0; i < n_words; ++i) {
            int64_t *s = sums + (int64_t)word[i] * n_topics;
            for (int64_t a = 0; a < n_active; ++a) s[topic[a]] += (int64_t)(e->tile[e->row[a] + i] * (REAL)factor);
        }
        return;
    }
    /* Rows of sums are far apart: fetch the rows of the first words. */
    for (int64_t i = 0; i < WORDS_AHEAD && i < n_words; ++i)
        for (int64_t a = 0; a < n_active; ++a) VF_PREFETCH(sums + (int64_t)word[i] * n_topics + topic[a]);
    const double target = params->clip_norm * (1.0 - LOCAL(clip_margin));
    const uint64_t limit = (uint64_t)(params->clip_norm / params->spacing); /* the bound of the norm in lattice units */
    if (norm > target) factor *= target / norm;
    for (;;) {
        const uint64_t squares =
            LOCAL(lda_truncate)(n_active, n_padded, e->row, (REAL)factor, e->tile, n_active < n_topics, e->lattice);
        if (VF_LIKELY(squares <= limit * limit)) break;
        /* Shorter by the excess, and by a little more than rounding can undo. */
        factor *= (double)limit / sqrt((double)squares) * (1.0 - 0x1p-16);
    }
    if (n_active == n_topics) {
        LOCAL(add_whole)(e, (REAL)factor, sums);
        return;
    }
    /* Ask for the active topics of four some words ahead. */
    int64_t i = 0;
    for (; i + 4 <= n_words; i += 4) {
        int64_t *s[4], *later[4];
        for (int64_t j = 0; j < 4; ++j) {
            const int64_t ahead = i + j + WORDS_AHEAD < n_words ? i + j + WORDS_AHEAD : n_words - 1;
            s[j] = sums + (int64_t)word[i + j] * n_topics;
            later[j] = sums + (int64_t)word[ahead] * n_topics;
        }
        const int32_t *q = e->lattice + i;
        for (int64_t a = 0; a < n_active; ++a, q += n_padded) {
            const int64_t t = topic[a];
            for (int64_t j = 0; j < 4; ++j) VF_PREFETCH(later[j] + t);
            for (int64_t j = 0; j < 4; ++j) s[j][t] += q[j];
        }
    }
    for (; i < n_words; ++i) {
        int64_t *s = sums + (int64_t)word[i] * n_topics;
        for (int64_t a = 0; a < n_active; ++a) s[topic[a]] += e->lattice[a * n_padded + i];
    }
}

int32_t KERNEL(vf_lda_estep)(const vf_lda_params *params, const vf_rows_f64 *docs, const REAL *table,
                             const double *alpha, void *workspace, int64_t workspace_bytes, double *gamma,
                             int64_t *sums, int32_t *n_iter, double *norms) {
    int64_t max_words;
    const int32_t status = check(params, docs, alpha, workspace, gamma, sums, n_iter, norms, &max_words);
    if (status != VF_OK) return status;
    const int64_t n_docs = docs->n_rows, n_topics = params->n_topics;
    if (!table) return VF_ERR_NULL;
    if (VF_OFF(table)) return VF_ERR_ALIGNMENT;
    const int64_t need = KERNEL(vf_lda_workspace)(n_topics, max_words);
    if (need < 0) return VF_ERR_SIZE;
    if (workspace_bytes < need) return VF_ERR_WORKSPACE;

    LOCAL(document) e;
    LOCAL(lay_out)(&e, n_topics, max_words, table, workspace);
    const unsigned before = vf_flush(); /* a topic's part of a word that it does not use */
    for (int64_t d = 0; d < n_docs; ++d) {
        LOCAL(turn_to)(&e, docs, d);
        int32_t rounds = 0;
        double norm = 0.0;
        double *out = gamma ? gamma + d * n_topics : NULL;
        if (out) memcpy(out, alpha, (size_t)n_topics * sizeof *out);
        if (LOCAL(load)(&e, docs->indptr[d], docs->indptr[d + 1], docs->indices, docs->values, alpha)) {
            rounds = LOCAL(iterate)(&e, params);
            if (out)
                for (int64_t a = 0; a < e.n_active; ++a) out[e.topic[a]] = (double)e.gamma[a];
            if (sums || norms) {
                LOCAL(lda_rho)(e.n_active, e.n_padded, e.row, e.theta, e.tile, e.count, e.rho);
                norm = LOCAL(lda_contribution)(e.n_active, e.n_padded, e.row, e.theta, e.rho, 0.0, e.tile);
                if (!(norm <= 1e18))
                    norm = 0.0; /* not finite */
                else if (sums)
                    LOCAL(add_contribution)(&e, params, norm, sums);
            }
        }
        if (n_iter) n_iter[d] = rounds;
        if (norms) norms[d] = norm;
    }
    vf_normal(before);
    return VF_OK;
}

/* The sum of a unit's documents: words and topics in the order of their arrival, a padded
 * row of topics for each word, and where a word's row and a topic's column are (-1: nowhere yet). */
typedef struct {
    int64_t stride, n_words, n_topics;
    REAL *values;
    int32_t *lattice, *word, *row_of, *topic, *column_of, *column;
} LOCAL(unit);

int64_t KERNEL(vf_lda_units_workspace)(int64_t n_topics, int64_t n_words, int64_t max_doc_words,
                                       int64_t max_unit_words) {
    const int64_t document = KERNEL(vf_lda_workspace)(n_topics, max_doc_words);
    if (document < 0 || n_words < 1 || n_words > INT32_MAX || max_unit_words < 0) return -1;
    const int64_t most = max_unit_words < n_words ? max_unit_words : n_words, stride = VF_ROUND_UP(n_topics, LANES);
    if ((double)(stride + 1) * (double)(most + 1) > 1e17) return -1;
    return document + most * stride * (int64_t)(sizeof(REAL) + sizeof(int32_t)) +
           (most + n_words + 3 * n_topics) * (int64_t)sizeof(int32_t) + 2 * VF_LINE;
}

/* Add c_i phi_ik of a document, which lie in its tile. */
static void LOCAL(add_document)(LOCAL(unit) * u, const LOCAL(document) * e) {
    const int64_t stride = u->stride, n_active = e->n_active;
    for (int64_t a = 0; a < n_active; ++a) {
        const int32_t topic = e->topic[a];
        if (u->column_of[topic] < 0) {
            u->column_of[topic] = (int32_t)u->n_topics;
            u->topic[u->n_topics++] = topic;
        }
        u->column[a] = u->column_of[topic];
    }
    for (int64_t i = 0; i < e->n_words; ++i) {
        const int32_t word = e->word[i];
        int32_t row = u->row_of[word];
        if (row < 0) {
            row = u->row_of[word] = (int32_t)u->n_words;
            u->word[u->n_words++] = word;
            memset(u->values + row * stride, 0, (size_t)stride * sizeof(REAL));
        }
        REAL *sum = u->values + row * stride;
        for (int64_t a = 0; a < n_active; ++a) sum[u->column[a]] += e->tile[e->row[a] + i];
    }
}

/* Scale the rows of words down to a norm of at most bound, if it is positive; the norm of the whole. */
static double LOCAL(unit_norm)(LOCAL(unit) * u, double bound) {
    double square = 0.0;
    for (int64_t i = 0; i < u->n_words; ++i) {
        REAL *row = u->values + i * u->stride;
        VEC s = OP(set1)(0);
        for (int64_t k = 0; k < u->n_topics; k += LANES) s = OP(fma)(OP(load)(row + k), OP(load)(row + k), s);
        double own = (double)OP(sum)(s);
        if (bound > 0.0 && own > bound * bound) {
            const double share = bound / sqrt(own);
            const VEC factor = OP(set1)((REAL)share);
            for (int64_t k = 0; k < u->n_topics; k += LANES) OP(store)(row + k, OP(mul)(OP(load)(row + k), factor));
            own *= share * share;
        }
        square += own;
    }
    return sqrt(square);
}

/* lattice = trunc(factor * values); the exact sum of squares, each value below 2^31. */
static uint64_t LOCAL(unit_truncate)(const LOCAL(unit) * u, REAL factor) {
    const VEC f = OP(set1)(factor);
    const int64_t width = VF_ROUND_UP(u->n_topics, LANES);
    uint64_t squares = 0;
    for (int64_t i = 0; i < u->n_words; ++i) {
        const REAL *row = u->values + i * u->stride;
        int32_t *q = u->lattice + i * width;
        for (int64_t k = 0; k < width; k += LANES) OP(store_i32)(q + k, OP(mul)(OP(load)(row + k), f));
    }
    for (int64_t i = 0; i < u->n_words * width; ++i)
        squares += (uint64_t)(uint32_t)u->lattice[i] * (uint32_t)u->lattice[i]; /* they are >= 0 */
    return squares;
}

/* Clip a unit's sum of the given norm, truncate it and add it to the sums. */
static void LOCAL(add_unit)(const LOCAL(unit) * u, const vf_lda_params *params, double norm, int64_t *sums) {
    const int64_t all = params->n_topics, n_topics = u->n_topics, stride = u->stride;
    const int64_t width = VF_ROUND_UP(n_topics, LANES);
    const int32_t *topic = u->topic;
    double factor = 1.0 / params->spacing;
    if (!(params->clip_norm > 0.0)) {
        for (int64_t i = 0; i < u->n_words; ++i) {
            int64_t *s = sums + (int64_t)u->word[i] * all;
            for (int64_t k = 0; k < n_topics; ++k) s[topic[k]] += (int64_t)(u->values[i * stride + k] * (REAL)factor);
        }
        return;
    }
    const double target = params->clip_norm * (1.0 - LOCAL(clip_margin));
    const uint64_t limit = (uint64_t)(params->clip_norm / params->spacing);
    if (norm > target) factor *= target / norm;
    for (;;) {
        const uint64_t squares = LOCAL(unit_truncate)(u, (REAL)factor);
        if (VF_LIKELY(squares <= limit * limit)) break;
        factor *= (double)limit / sqrt((double)squares) * (1.0 - 0x1p-16);
    }
    for (int64_t i = 0; i < u->n_words; ++i) {
        const int64_t later = i + 6 < u->n_words ? i + 6 : u->n_words - 1;
        const char *ahead = (const char *)(sums + (int64_t)u->word[later] * all);
        for (int64_t line = 0; line < 8 * all; line += VF_LINE) VF_PREFETCH(ahead + line);
        int64_t *s = sums + (int64_t)u->word[i] * all;
        const int32_t *q = u->lattice + i * width;
        for (int64_t k = 0; k < n_topics; ++k) s[topic[k]] += q[k];
    }
}

int32_t KERNEL(vf_lda_units)(const vf_lda_params *params, double word_clip, const double *word_weight,
                             double share_floor, int64_t n_units, const int64_t *starts, const vf_rows_f64 *docs,
                             const REAL *table, const double *alpha, void *workspace, int64_t workspace_bytes,
                             int64_t *sums, double *norms) {
    int64_t widest, most = 0;
    const int32_t status = check(params, docs, alpha, workspace, NULL, sums, NULL, norms, &widest);
    if (status != VF_OK) return status;
    if (!starts || !table || !sums) return VF_ERR_NULL;
    if (VF_OFF(starts) | VF_OFF(table) | VF_OFF(word_weight)) return VF_ERR_ALIGNMENT;
    if (n_units < 0) return VF_ERR_SIZE;
    /* Without a clip, entries are known to be no larger than counts only if no weight acts. */
    if (!(word_clip >= 0.0) || ((word_weight || share_floor != 0.0) && !(params->clip_norm > 0.0)))
        return VF_ERR_PARAMETER;
    if (share_floor != 0.0 && !(share_floor >= VF_LDA_MIN_SHARE && share_floor <= 1.0)) return VF_ERR_PARAMETER;
    const int64_t *indptr = docs->indptr, n_docs = docs->n_rows, n_topics = params->n_topics, n_words = docs->n_columns;
    if (starts[0] != 0 || starts[n_units] != n_docs) return VF_ERR_INDPTR;
    for (int64_t u = 0; u < n_units; ++u)
        if (starts[u + 1] < starts[u] || starts[u + 1] > n_docs) return VF_ERR_INDPTR;
    const double bound = params->clip_norm > 0.0 && word_clip < params->clip_norm ? word_clip : 0.0;
    for (int64_t u = 0; u < n_units; ++u)
        if (starts[u + 1] - starts[u] > 1) {
            const int64_t entries = indptr[starts[u + 1]] - indptr[starts[u]];
            most = entries > most ? entries : most;
        }
    for (int64_t v = 0; word_weight && v < n_words; ++v)
        if (!(word_weight[v] >= VF_LDA_MIN_WEIGHT && word_weight[v] <= VF_LDA_MAX_WEIGHT)) return VF_ERR_PARAMETER;
    const int64_t need = KERNEL(vf_lda_units_workspace)(n_topics, n_words, widest, most);
    if (need < 0) return VF_ERR_SIZE;
    if (workspace_bytes < need) return VF_ERR_WORKSPACE;

    LOCAL(document) e;
    LOCAL(unit) sum;
    LOCAL(lay_out)(&e, n_topics, widest, table, workspace);
    most = most < n_words ? most : n_words;
    sum.stride = VF_ROUND_UP(n_topics, LANES);
    sum.values = (REAL *)VF_ALIGN_UP((char *)workspace + KERNEL(vf_lda_workspace)(n_topics, widest));
    sum.lattice = (int32_t *)(sum.values + most * sum.stride);
    sum.word = sum.lattice + most * sum.stride;
    sum.row_of = sum.word + most;
    sum.column_of = sum.row_of + n_words;
    sum.topic = sum.column_of + n_topics;
    sum.column = sum.topic + n_topics;
    memset(sum.row_of, 0xff, (size_t)(n_words + n_topics) * sizeof *sum.row_of);
    const unsigned before = vf_flush();
    for (int64_t u = 0; u < n_units; ++u) {
        const int together = starts[u + 1] - starts[u] > 1;
        double norm = 0.0;
        sum.n_words = sum.n_topics = 0;
        for (int64_t d = starts[u]; d < starts[u + 1]; ++d) {
            LOCAL(turn_to)(&e, docs, d);
            if (!LOCAL(load)(&e, indptr[d], indptr[d + 1], docs->indices, docs->values, alpha)) continue;
            (void)LOCAL(iterate)(&e, params);
            LOCAL(lda_rho)(e.n_active, e.n_padded, e.row, e.theta, e.tile, e.count, e.rho);
            if (word_weight) LOCAL(weigh_words)(&e, word_weight);
            norm = LOCAL(lda_contribution)(e.n_active, e.n_padded, e.row, e.theta, e.rho, share_floor, e.tile);
            if (!(norm <= 1e18)) { /* not finite */
                norm = 0.0;
            } else if (together) {
                LOCAL(add_document)(&sum, &e);
            } else {
                if (bound > 0.0) norm = LOCAL(bound_words)(&e, norm, bound);
                LOCAL(add_contribution)(&e, params, norm, sums);
            }
        }
        if (together) {
            norm = LOCAL(unit_norm)(&sum, bound);
            if (norm <= 1e18)
                LOCAL(add_unit)(&sum, params, norm, sums);
            else
                norm = 0.0;
            for (int64_t i = 0; i < sum.n_words; ++i) sum.row_of[sum.word[i]] = -1;
            for (int64_t k = 0; k < sum.n_topics; ++k) sum.column_of[sum.topic[k]] = -1;
        }
        if (norms) norms[u] = norm;
    }
    vf_normal(before);
    return VF_OK;
}

#include "lda/collapsed_body.h"
