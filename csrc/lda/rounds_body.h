/* The fixed point of one document in one precision: its loops, and the rounds that they make. */

/* A document in work: the workspace's arrays over topics (active ones first), over words, and the tile. start and middle
 * are gamma at the start of a cycle and after its first round; at a start, middle is where its extrapolation began. */
typedef struct {
    int64_t stride, n_topics, n_words, n_padded, n_active;
    double total, least; /* words, counted with their repetitions; the least count of one */
    double alpha;        /* the largest */
    /* What the topics dropped last would have brought to the change of gamma in the next round, and to the squared second
     * difference of its cycle. */
    double lost_change, lost_square;
    const REAL *table;
    /* The next document's words, and how many of their rows have been asked for; how many of this one's were, before. */
    const int32_t *next;
    int64_t n_next, asked, known;
    int64_t *row; /* start of each active topic in the tile */
    REAL *tile, *gamma, *start, *middle, *theta, *dot, *prior, *count, *rho;
    int32_t *lattice, *topic, *word;
} LOCAL(document);

/* The tile comes first and on a cache line: whole vectors then never straddle two. Arrays have space for a vector of any
 * instruction set after their last entry, or for four sums. */
static void LOCAL(lay_out)(LOCAL(document) * e, int64_t n_topics, int64_t max_words, const REAL *table,
                           void *workspace) {
    const int64_t kp = VF_LDA_STRIDE(n_topics + 16), np = VF_ROUND_UP(max_words, 16);
    e->n_topics = n_topics;
    e->table = table;
    e->stride = VF_LDA_STRIDE(n_topics);
    e->tile = (REAL *)VF_ALIGN_UP(workspace);
    e->row = (int64_t *)(e->tile + n_topics * np);
    e->gamma = (REAL *)(e->row + kp);
    e->start = e->gamma + kp;
    e->middle = e->start + kp;
    e->theta = e->middle + kp;
    e->dot = e->theta + kp;
    e->prior = e->dot + kp;
    e->count = e->prior + kp;
    e->rho = e->count + np;
    e->lattice = (int32_t *)(e->rho + np);
    e->topic = e->lattice + n_topics * np;
    e->word = e->topic + kp;
}

/* Ask for some more of the next document's rows: memory brings them while this document's rounds compute. */
VF_INLINE void LOCAL(ask)(LOCAL(document) * e) {
    const int64_t size = e->stride * (int64_t)sizeof(REAL), most = e->asked + 1 + e->n_next / ASKS;
    const int64_t last = most < e->n_next ? most : e->n_next;
    for (int64_t i = e->asked; i < last; ++i) {
        const char *row = (const char *)(e->table + (int64_t)e->next[i] * e->stride);
        for (int64_t at = 0; at < size; at += VF_LINE) VF_FETCH_L2(row + at);
    }
    e->asked = last;
}

/* dot[k] = sum_i count[i] table[word i][k], the s of (4), for all topics: four vectors of a row at a time, so that each
 * line of the table is read once. It asks for the rows that nobody has asked for before. */
VF_NOINLINE void LOCAL(lda_shares)(const LOCAL(document) * e, REAL *VF_RESTRICT dot) {
    const int64_t n = e->n_words, stride = e->stride;
    const int32_t *word = e->word;
    const REAL *table = e->table, *count = e->count;
    const VEC zero = OP(set1)(0);
    const int64_t lines = 4 * LANES * (int64_t)sizeof(REAL);
    int64_t k = 0;
    for (; k + 4 * LANES <= stride; k += 4 * LANES) {
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero;
        for (int64_t i = 0; i < n; ++i) {
            const REAL *r = table + (int64_t)word[i] * stride + k;
            const VEC c = OP(set1)(count[i]);
            if (i + ROWS_AHEAD >= e->known && i + ROWS_AHEAD < n) {
                const char *later = (const char *)(table + (int64_t)word[i + ROWS_AHEAD] * stride + k);
                for (int64_t at = 0; at < lines; at += VF_LINE) VF_FETCH(later + at);
            }
#define STEP(j) s##j = OP(fma)(c, OP(load)(r + j * LANES), s##j)
            VF_EACH4(STEP);
#undef STEP
        }
#define STEP(j) OP(store)(dot + k + j * LANES, s##j)
        VF_EACH4(STEP);
#undef STEP
    }
    for (; k < stride; k += LANES) { /* four chains here too: of words */
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero;
        int64_t i = 0;
#define STEP(j) s##j = OP(fma)(OP(set1)(count[i + j]), OP(load)(table + (int64_t)word[i + j] * stride + k), s##j)
        for (; i + 4 <= n; i += 4) VF_EACH4(STEP);
        for (; i < n; ++i) STEP(0);
#undef STEP
        OP(store)(dot + k, OP(add)(OP(add)(s0, s1), OP(add)(s2, s3)));
    }
}

/* rho[i] = count[i] / sum_k theta[k] table[word i][k] and dot[k] = sum_i rho[i] table[word i][k], all topics. They take
 * few words at a time: L1 still has their rows the second time. Each theta is finite up to the stride, where rows end
 * with zeros. */
VF_NOINLINE void LOCAL(lda_rows)(const LOCAL(document) * e, const REAL *VF_RESTRICT theta, REAL *VF_RESTRICT rho,
                                 REAL *VF_RESTRICT dot) {
    const int64_t n = e->n_words, stride = e->stride;
    const int32_t *word = e->word;
    const REAL *table = e->table, *count = e->count;
    const VEC floor_ = OP(set1)(LOCAL(sum_floor));
    for (int64_t k = 0; k < stride; k += LANES) OP(store)(dot + k, OP(set1)(0));
    for (int64_t first = 0; first < n; first += ROWS_TOGETHER) {
        const int64_t last = first + ROWS_TOGETHER < n ? first + ROWS_TOGETHER : n;
        for (int64_t i = first; i < last; i += 4) {
            const REAL *r[4];
            for (int64_t j = 0; j < 4; ++j) r[j] = table + (int64_t)word[i + j < n ? i + j : n - 1] * stride;
            VEC s0 = OP(set1)(0), s1 = s0, s2 = s0, s3 = s0;
#define STEP(j) s##j = OP(fma)(t, OP(load)(r[j] + k), s##j)
            for (int64_t k = 0; k < stride; k += LANES) {
                const VEC t = OP(load)(theta + k);
                VF_EACH4(STEP);
            }
#undef STEP
            OP(sum4)(rho + i, s0, s1, s2, s3);
        }
        for (int64_t i = first; i < last; i += LANES)
            OP(store)(rho + i, OP(div)(OP(load)(count + i), OP(add)(OP(load)(rho + i), floor_)));
        int64_t k = 0;
        for (; k + 4 * LANES <= stride; k += 4 * LANES) {
            REAL *d = dot + k;
            VEC s0 = OP(load)(d), s1 = OP(load)(d + LANES), s2 = OP(load)(d + 2 * LANES), s3 = OP(load)(d + 3 * LANES);
            for (int64_t i = first; i < last; ++i) {
                const REAL *r = table + (int64_t)word[i] * stride + k;
                const VEC x = OP(set1)(rho[i]);
#define STEP(j) s##j = OP(fma)(x, OP(load)(r + j * LANES), s##j)
                VF_EACH4(STEP);
#undef STEP
            }
#define STEP(j) OP(store)(d + j * LANES, s##j)
            VF_EACH4(STEP);
#undef STEP
        }
        for (; k < stride; k += LANES) {
            VEC s = OP(load)(dot + k);
            for (int64_t i = first; i < last; ++i)
                s = OP(fma)(OP(set1)(rho[i]), OP(load)(table + (int64_t)word[i] * stride + k), s);
            OP(store)(dot + k, s);
        }
    }
}

/* Copy the active topics' columns of the words' rows into the tile, one after another. Not inlined, as the loops of
 * rounds are not: all then keep their registers. */
VF_NOINLINE void LOCAL(lda_tile)(LOCAL(document) * e) {
    const int64_t n = e->n_words, np = e->n_padded, n_active = e->n_active, stride = e->stride;
    const int32_t *word = e->word, *topic = e->topic;
    REAL *tile = e->tile;
    for (int64_t i = 0; i < np; i += LANES) {
        const REAL *source[LANES], *four[LANES];
        /* Padding words read the last word's row; their count is 0. */
        for (int64_t j = 0; j < LANES; ++j) source[j] = e->table + (int64_t)word[i + j < n ? i + j : n - 1] * stride;
        for (int64_t a = 0; a < n_active;) {
            const int32_t first = topic[a] / 4 * 4;
            VEC column[4];
            for (int64_t j = 0; j < LANES; ++j) four[j] = source[j] + first;
            OP(transpose4)(four, column);
            for (; a < n_active && topic[a] < first + 4; ++a) OP(store)(tile + a * np + i, column[topic[a] - first]);
        }
    }
    for (int64_t a = 0; a < n_active; ++a) e->row[a] = a * np;
    for (int64_t a = n_active; a < n_active + 7; ++a) e->row[a] = e->row[n_active - 1];
}

/* rho[i] = count[i] / sum_a theta[a] tile[a][i] for all words. Eight sums at a
 * time: enough independent chains to hide the latency of a multiply-add. */
static void LOCAL(lda_rho)(int64_t n_active, int64_t np, const int64_t *VF_RESTRICT row, const REAL *VF_RESTRICT theta,
                           const REAL *VF_RESTRICT tile, const REAL *VF_RESTRICT count, REAL *VF_RESTRICT rho) {
    const VEC floor_ = OP(set1)(LOCAL(sum_floor));
    int64_t i = 0;
#define STEP(j) s##j = OP(fma)(t, OP(load)(b + j * LANES), s##j)
#define RATIO(j) OP(store)(rho + i + j * LANES, OP(mul)(OP(load)(count + i + j * LANES), OP(recip)(s##j)))
    for (; i + 8 * LANES <= np; i += 8 * LANES) {
        VEC s0 = floor_, s1 = floor_, s2 = floor_, s3 = floor_, s4 = floor_, s5 = floor_, s6 = floor_, s7 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] + i;
            const VEC t = OP(set1)(theta[a]);
            VF_EACH8(STEP);
        }
        VF_EACH8(RATIO);
    }
    for (; i + 4 * LANES <= np; i += 4 * LANES) {
        VEC s0 = floor_, s1 = floor_, s2 = floor_, s3 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] + i;
            const VEC t = OP(set1)(theta[a]);
            VF_EACH4(STEP);
        }
        VF_EACH4(RATIO);
    }
    for (; i < np; i += LANES) { /* four chains here too: of topics */
        VEC s0 = floor_, s1 = OP(set1)(0), s2 = s1, s3 = s1;
        int64_t a = 0;
#define CHAIN(j) s##j = OP(fma)(OP(set1)(theta[a + j]), OP(load)(tile + row[a + j] + i), s##j)
        for (; a + 4 <= n_active; a += 4) VF_EACH4(CHAIN);
        for (; a < n_active; ++a) CHAIN(0);
#undef CHAIN
        s0 = OP(add)(OP(add)(s0, s1), OP(add)(s2, s3));
        RATIO(0);
    }
#undef STEP
#undef RATIO
}

/* dot[a] = sum_i rho[i] tile[a][i], eight topics at a time to share the loads
 * of rho, then four; row[] is padded with its last entry to a multiple of eight. */
static void LOCAL(lda_dots)(int64_t n_active, int64_t np, const int64_t *VF_RESTRICT row, const REAL *VF_RESTRICT tile,
                            const REAL *VF_RESTRICT rho, REAL *VF_RESTRICT dot) {
    const VEC zero = OP(set1)(0);
    int64_t a = 0;
#define STEP(j) s##j = OP(fma)(r, OP(load)(tile + row[a + j] + i), s##j)
    for (; a + 4 < n_active; a += 8) {
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero;
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC r = OP(load)(rho + i);
            VF_EACH8(STEP);
        }
        OP(sum4)(dot + a, s0, s1, s2, s3);
        OP(sum4)(dot + a + 4, s4, s5, s6, s7);
    }
    if (a < n_active) {
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero;
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC r = OP(load)(rho + i);
            VF_EACH4(STEP);
        }
        OP(sum4)(dot + a, s0, s1, s2, s3);
    }
#undef STEP
}

/* gamma of the next round, (3), in `to`; the summed |change|. Entries from n_active to a whole vector are inert: their
 * dot is 0 and prior = gamma (see lda_pad). */
static double LOCAL(lda_update)(int64_t n_active, const REAL *VF_RESTRICT prior, REAL *VF_RESTRICT dot,
                                const REAL *VF_RESTRICT theta, const REAL *VF_RESTRICT gamma, REAL *VF_RESTRICT to) {
    const int64_t padded = VF_ROUND_UP(n_active, LANES);
    VEC change = OP(set1)(0);
    OP(store)(dot + n_active, OP(set1)(0));
    for (int64_t a = 0; a < padded; a += LANES) {
        const VEC g = OP(fma)(OP(load)(theta + a), OP(load)(dot + a), OP(load)(prior + a));
        change = OP(add)(change, OP(abs)(OP(sub)(g, OP(load)(gamma + a))));
        OP(store)(to + a, g);
    }
    return (double)OP(sum)(change);
}

/* The least shift of exp(psi(gamma)), for the largest gamma. */
static REAL LOCAL(lda_base)(int64_t n_active, const REAL *gamma) {
    VEC low = OP(set1)((REAL)1e37), e, s;
    for (int64_t a = 0; a < n_active; a += LANES) {
        LOCAL(exp_psi)(OP(load)(gamma + a), &e, &s);
        low = OP(min)(low, s);
    }
    return -OP(hmax)(OP(sub)(OP(set1)(0), low));
}

/* theta = exp(psi(gamma)) up to a common factor, (1). The factor is that which makes the largest exponent of the call
 * before 0, so that no sum over the lanes stands between a round and the next. If that could be too large by far,
 * it is the largest exponent of this call. */
static void LOCAL(lda_theta)(int64_t n_active, const REAL *VF_RESTRICT gamma, REAL *VF_RESTRICT theta, REAL *base) {
    const VEC top = OP(set1)(*base > (REAL)BASE_MAX ? LOCAL(lda_base)(n_active, gamma) : *base);
    const VEC most = OP(set1)((REAL)BASE_MAX);
    VEC low = OP(set1)((REAL)1e37), e, s;
    for (int64_t a = 0; a < n_active; a += LANES) {
        LOCAL(exp_psi)(OP(load)(gamma + a), &e, &s);
        low = OP(min)(low, s);
        OP(store)(theta + a, OP(mul)(e, OP(exp_neg)(OP(min)(OP(sub)(top, s), most))));
    }
    *base = -OP(hmax)(OP(sub)(OP(set1)(0), low));
}

/* Make the entries after the active ones inert, a whole vector of them: prior = gamma of the heaviest topic, with
 * its theta, dot = 0. */
VF_INLINE void LOCAL(lda_pad)(const LOCAL(document) * e, REAL gamma, REAL theta) {
    OP(store)(e->prior + e->n_active, OP(set1)(gamma));
    OP(store)(e->gamma + e->n_active, OP(set1)(gamma));
    OP(store)(e->theta + e->n_active, OP(set1)(theta));
}

/* Drop the topics whose weight is below ACTIVE_SHARE of the heaviest and whose gamma is within rest of the prior: in the
 * next round it would be the prior, to ACTIVE_SHARE of the words. Drop those too that have less than `few` words, and
 * less than SHRUNK of their words in middle: they are leaving the document. */
static void LOCAL(lda_drop)(LOCAL(document) * e, REAL rest, REAL few) {
    const int64_t n_active = e->n_active;
    const VEC zero = OP(set1)(0);
    VEC most = zero, largest = zero, change = zero, square = zero;
    for (int64_t a = 0; a < n_active; a += LANES) {
        most = OP(max)(most, OP(load)(e->theta + a));
        largest = OP(max)(largest, OP(load)(e->gamma + a));
    }
    const REAL heaviest = OP(hmax)(most);
    const VEC below = OP(set1)((REAL)ACTIVE_SHARE * heaviest), held = OP(set1)(rest);
    const VEC shrunk = OP(set1)((REAL)SHRUNK), least = OP(set1)(few);
    int64_t kept = 0;
    for (int64_t a = 0; a < n_active; a += LANES) {
        const VEC theta = OP(load)(e->theta + a), prior = OP(load)(e->prior + a);
        const VEC own = OP(sub)(OP(load)(e->gamma + a), prior), before = OP(sub)(OP(load)(e->middle + a), prior);
        const VEC leaving = OP(min)(least, OP(mul)(shrunk, before));
        const unsigned idle = (OP(less_bits)(theta, below) & OP(less_bits)(own, held)) | OP(less_bits)(own, leaving);
        if (!idle && kept == a) {
            kept += LANES;
            continue;
        }
        const VEC lost =
            OP(pick_less)(theta, below, OP(pick_less)(own, held, OP(pick_less)(own, leaving, zero, own), zero), zero);
        change = OP(add)(change, lost);
        square = OP(fma)(lost, lost, square);
        const int64_t here = n_active - a < LANES ? n_active - a : LANES;
        for (unsigned keep = ~idle & ((1u << here) - 1); keep; keep &= keep - 1) {
            const int64_t from = a + __builtin_ctz(keep);
            e->topic[kept] = e->topic[from];
            e->row[kept] = e->row[from];
            e->prior[kept] = e->prior[from];
            e->gamma[kept] = e->gamma[from];
            e->middle[kept] = e->middle[from];
            e->theta[kept] = e->theta[from];
            ++kept;
        }
    }
    e->lost_change = e->lost_square = 0.0;
    if (kept >= n_active) return;
    e->n_active = kept;
    e->lost_change = (double)OP(sum)(change);
    e->lost_square = (double)OP(sum)(square);
    LOCAL(lda_pad)(e, OP(hmax)(largest), heaviest);
    for (int64_t a = kept; a < kept + 7; ++a) e->row[a] = e->row[kept - 1];
}

/* The extrapolation gamma + b (gamma - middle) of estep.c, with b <= longest. A topic keeps at least LEAST_SHARE of its
 * words, and all topics together keep their words. gamma goes to middle. */
static void LOCAL(lda_leap)(LOCAL(document) * e, double longest) {
    const int64_t n_active = e->n_active;
    VEC ss = OP(set1)(0), vv = ss, held = ss, now = ss;
    for (int64_t a = 0; a < n_active; a += LANES) {
        const VEC g = OP(load)(e->gamma + a), m = OP(load)(e->middle + a), s = OP(sub)(g, m);
        const VEC v = OP(sub)(s, OP(sub)(m, OP(load)(e->start + a)));
        ss = OP(fma)(s, s, ss);
        vv = OP(fma)(v, v, vv);
    }
    const double squares = (double)OP(sum)(vv) + e->lost_square, last = (double)OP(sum)(ss);
    const double step = last < longest * longest * squares ? sqrt(last / squares) : longest;
    const VEC b = OP(set1)((REAL)step), least = OP(set1)((REAL)LEAST_SHARE);
    for (int64_t a = 0; a < n_active; a += LANES) {
        const VEC g = OP(load)(e->gamma + a), own = OP(sub)(g, OP(load)(e->prior + a));
        const VEC x = OP(max)(OP(fma)(b, OP(sub)(g, OP(load)(e->middle + a)), own), OP(mul)(own, least));
        held = OP(add)(held, own);
        now = OP(add)(now, x);
        OP(store)(e->middle + a, g);
        OP(store)(e->gamma + a, x);
    }
    const VEC scale = OP(set1)((REAL)((double)OP(sum)(held) / (double)OP(sum)(now)));
    for (int64_t a = 0; a < n_active; a += LANES)
        OP(store)(e->gamma + a, OP(fma)(OP(load)(e->gamma + a), scale, OP(load)(e->prior + a)));
}

/* One round in the tile from gamma, whose rho are made, to the array `to`, which takes its place; the summed |change|. */
VF_INLINE double LOCAL(lda_round)(LOCAL(document) * e, REAL **to) {
    LOCAL(lda_dots)(e->n_active, e->n_padded, e->row, e->tile, e->rho, e->dot);
    const double change = LOCAL(lda_update)(e->n_active, e->prior, e->dot, e->theta, e->gamma, *to);
    VF_SWAP(REAL *, e->gamma, *to);
    return change;
}

/* The start (4) of gamma. A document none of whose words any topic has starts with as many words in each. */
VF_INLINE void LOCAL(lda_start)(LOCAL(document) * e) {
    const int64_t n_topics = e->n_topics;
    VEC most = OP(set1)(0), all = most, largest = most;
    LOCAL(lda_shares)(e, e->dot);
    for (int64_t k = 0; k < n_topics; k += LANES) most = OP(max)(most, OP(load)(e->dot + k));
    const REAL top = OP(hmax)(most);
    if (VF_UNLIKELY(!(top > 0)))
        for (int64_t k = 0; k < n_topics; ++k) e->dot[k] = 1;
    const VEC scale = OP(set1)(top > 0 ? 1 / top : 1);
    for (int64_t k = 0; k < n_topics; k += LANES) {
        const VEC share = OP(mul)(OP(load)(e->dot + k), scale), third = OP(mul)(OP(mul)(share, share), share);
        all = OP(add)(all, third);
        OP(store)(e->dot + k, third);
    }
    const VEC words = OP(set1)((REAL)(e->total / (double)OP(sum)(all)));
    for (int64_t k = 0; k < n_topics; k += LANES) {
        const VEC g = OP(fma)(words, OP(load)(e->dot + k), OP(load)(e->prior + k));
        largest = OP(max)(largest, g);
        OP(store)(e->gamma + k, g);
    }
    for (int64_t k = n_topics; k < e->stride; ++k) e->theta[k] = 0; /* as far as lda_rows reads */
    e->n_active = n_topics;
    LOCAL(lda_pad)(e, OP(hmax)(largest), 0);
}

/* The words below which a topic that shrinks leaves: not more than a share of the heaviest topic's, and less than any
 * word's count, so that no word loses the only topic it has. With alpha from 1/4 on small topics do not die out. */
VF_INLINE REAL LOCAL(lda_few)(const LOCAL(document) * e) {
    VEC largest = OP(set1)(0);
    for (int64_t a = 0; a < e->n_topics; a += LANES)
        largest = OP(max)(largest, OP(sub)(OP(load)(e->gamma + a), OP(load)(e->prior + a)));
    const double few = FEW_WORDS * (1.0 - 4.0 * e->alpha) * e->least, share = FEW_SHARE * (double)OP(hmax)(largest);
    return (REAL)(few < 0.0 ? 0.0 : few < share ? few : share);
}

/* Rounds until the change of gamma in one of them is small, the first over whole rows. Its mean over topics ends below
 * tol, or its sum below word_tol of the words. A topic leaves the loops only if its rest is too small to move that, or if
 * it shrinks and lda_few says so. Two rounds and an extrapolation make a cycle. If the next round changes gamma by more
 * than FARTHEST times the last change, the next cycle starts from the point before the extrapolation. Steps get shorter
 * near the stop, so that a document that rounding stops a round late moves little farther. Returns the number of rounds,
 * one that was not taken among them. */
VF_NOINLINE int32_t LOCAL(iterate)(LOCAL(document) * e, const vf_lda_params *params) {
    const double by_topics = params->tol * (double)e->n_topics, by_words = params->word_tol * e->total;
    const double stop = by_topics > by_words ? by_topics : by_words;
    const double held = ACTIVE_REST * (stop > 0.0 ? stop : 1e-3 * (double)e->n_topics);
    const REAL rest = (REAL)(held < ACTIVE_COUNT * e->least ? held : ACTIVE_COUNT * e->least);
    const double longest = stop > 0.0 ? LONGEST_STEP : ENDLESS_STEP;
    double most = INFINITY;
    int32_t rounds = 0;
    REAL base = (REAL)(2 * BASE_MAX), few = 0;
    double change = stop;
    LOCAL(lda_start)(e);
    LOCAL(lda_theta)(e->n_active, e->gamma, e->theta, &base);
    if (params->max_iter > 0) {
        LOCAL(lda_rows)(e, e->theta, e->rho, e->dot);
        ++rounds;
        change = LOCAL(lda_update)(e->n_active, e->prior, e->dot, e->theta, e->gamma, e->middle);
        VF_SWAP(REAL *, e->gamma, e->middle);
        LOCAL(lda_theta)(e->n_active, e->gamma, e->theta, &base);
        few = LOCAL(lda_few)(e);
        LOCAL(lda_drop)(e, rest, few);
    }
    LOCAL(lda_tile)(e);
    if (change < stop) return rounds;
    while (rounds < params->max_iter) {
        if (rounds > 2) LOCAL(lda_drop)(e, rest, most < INFINITY ? few : 0);
        LOCAL(ask)(e);
        LOCAL(lda_rho)(e->n_active, e->n_padded, e->row, e->theta, e->tile, e->count, e->rho);
        ++rounds;
        change = LOCAL(lda_round)(e, &e->start) + e->lost_change;
        if (change > most) {
            most = INFINITY;
            VF_SWAP(REAL *, e->gamma, e->middle);
            OP(store)(e->gamma + e->n_active, OP(load)(e->prior + e->n_active));
            LOCAL(lda_theta)(e->n_active, e->gamma, e->theta, &base);
            continue;
        }
        LOCAL(lda_theta)(e->n_active, e->gamma, e->theta, &base);
        if (change < stop || rounds == params->max_iter) break;
        LOCAL(ask)(e);
        LOCAL(lda_rho)(e->n_active, e->n_padded, e->row, e->theta, e->tile, e->count, e->rho);
        ++rounds;
        change = LOCAL(lda_round)(e, &e->middle);
        const int end = change < stop || rounds == params->max_iter;
        most = INFINITY;
        if (!end && change > LOCAL(least_change) * e->total) {
            most = FARTHEST * change;
            LOCAL(lda_leap)(e, change < 2.0 * stop ? longest * (change / stop - 1.0) : longest);
        }
        LOCAL(lda_theta)(e->n_active, e->gamma, e->theta, &base);
        if (end) break;
    }
    return rounds;
}
