/* The LDA E-step in one precision. Included twice by lda_estep.c, which states
 * the mathematics and defines REAL, VEC, LANES, OP, EXP_PSI, EXP_NEG, TINY,
 * SUM_FLOOR, CLIP_MARGIN and KERNEL. */


int32_t KERNEL(vf_lda_table)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                             int64_t stride_word, REAL *table) {
    if (n_topics < 1 || n_words < 1) return VF_ERR_SIZE;
    if (!exp_elog_beta || !table) return VF_ERR_NULL;
    if (VF_OFF(exp_elog_beta) | VF_OFF(table)) return VF_ERR_ALIGNMENT;
    const int64_t stride = VF_LDA_STRIDE(n_topics);
    for (int64_t v = 0; v < n_words; ++v) {
        const double *column = exp_elog_beta + v * stride_word;
        REAL *row = table + v * stride;
        double top = 0.0;
        for (int64_t k = 0; k < n_topics; ++k) {
            const double b = column[k * stride_topic];
            if (!(b >= 0.0) || b > 1e300) return VF_ERR_PARAMETER;
            top = b > top ? b : top;
        }
        /* A row of zeros stays one: 1/top would be infinite. */
        const double scale = top > 0.0 ? 1.0 / top : 0.0;
        for (int64_t k = 0; k < n_topics; ++k) {
            /* Two steps where top is denormal and 1/top overflows. */
            const double b = column[k * stride_topic];
            const REAL x = (REAL)(scale <= 1e300 ? b * scale : b / top);
            /* Denormal numbers change no sum and cost the loops a hundredfold. */
            row[k] = x < (REAL)TINY ? 0 : x;
        }
        for (int64_t k = n_topics; k < stride; ++k) row[k] = 0;
    }
    return VF_OK;
}

/* Workspace of one document: arrays over topics (with room for a padded block),
 * arrays over words, and the tile with its lattice values. */
int64_t KERNEL(vf_lda_workspace)(int64_t n_topics, int64_t max_doc_words) {
    if (n_topics < 1 || max_doc_words < 0 || n_topics > INT32_MAX || max_doc_words > INT32_MAX) return -1;
    const int64_t kp = ROUND_UP(n_topics + 8, LANES), np = ROUND_UP(max_doc_words, LANES);
    if ((double)(kp + 4) * (double)(np + LANES) > 1e17) return -1;
    const int64_t tile = VF_LDA_STRIDE(n_topics) * np;
    return (tile + 5 * kp + 2 * np) * (int64_t)sizeof(REAL) + kp * (int64_t)sizeof(int64_t) +
           (tile + kp + np) * (int64_t)sizeof(int32_t) + 128;
}

/* rho[i] = count[i] / sum_a theta[a] tile[a][i] for all words. Eight sums at a
 * time: enough independent chains to hide the latency of a multiply-add. */
static void KERNEL(lda_rho)(int64_t n_active, int64_t np, const int64_t *VF_RESTRICT row, const REAL *VF_RESTRICT theta,
                            const REAL *VF_RESTRICT tile, const REAL *VF_RESTRICT count, REAL *VF_RESTRICT rho) {
    const VEC floor_ = OP(set1)((REAL)SUM_FLOOR);
    int64_t i = 0;
#define STEP(j) s##j = OP(fma)(t, OP(load)(b + j * LANES), s##j)
#define RATIO(j) OP(store)(rho + i + j * LANES, OP(mul)(OP(load)(count + i + j * LANES), OP(recip)(s##j)))
    for (; i + 8 * LANES <= np; i += 8 * LANES) {
        VEC s0 = floor_, s1 = floor_, s2 = floor_, s3 = floor_, s4 = floor_, s5 = floor_, s6 = floor_, s7 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] + i;
            const VEC t = OP(set1)(theta[a]);
            STEP(0); STEP(1); STEP(2); STEP(3); STEP(4); STEP(5); STEP(6); STEP(7);
        }
        RATIO(0); RATIO(1); RATIO(2); RATIO(3); RATIO(4); RATIO(5); RATIO(6); RATIO(7);
    }
    for (; i + 4 * LANES <= np; i += 4 * LANES) {
        VEC s0 = floor_, s1 = floor_, s2 = floor_, s3 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] + i;
            const VEC t = OP(set1)(theta[a]);
            STEP(0); STEP(1); STEP(2); STEP(3);
        }
        RATIO(0); RATIO(1); RATIO(2); RATIO(3);
    }
    for (; i < np; i += LANES) {
        VEC s0 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] + i;
            const VEC t = OP(set1)(theta[a]);
            STEP(0);
        }
        RATIO(0);
    }
#undef STEP
#undef RATIO
}

/* dot[a] = sum_i rho[i] tile[a][i], eight topics at a time to share the loads
 * of rho, then four; row[] is padded with its last entry to a multiple of eight. */
static void KERNEL(lda_dots)(int64_t n_active, int64_t np, const int64_t *VF_RESTRICT row,
                             const REAL *VF_RESTRICT tile, const REAL *VF_RESTRICT rho, REAL *VF_RESTRICT dot) {
    const VEC zero = OP(set1)(0);
    int64_t a = 0;
#define STEP(j) s##j = OP(fma)(r, OP(load)(tile + row[a + j] + i), s##j)
    for (; a + 4 < n_active; a += 8) {
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero, s4 = zero, s5 = zero, s6 = zero, s7 = zero;
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC r = OP(load)(rho + i);
            STEP(0); STEP(1); STEP(2); STEP(3); STEP(4); STEP(5); STEP(6); STEP(7);
        }
        OP(sum4)(dot + a, s0, s1, s2, s3);
        OP(sum4)(dot + a + 4, s4, s5, s6, s7);
    }
    if (a < n_active) {
        VEC s0 = zero, s1 = zero, s2 = zero, s3 = zero;
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC r = OP(load)(rho + i);
            STEP(0); STEP(1); STEP(2); STEP(3);
        }
        OP(sum4)(dot + a, s0, s1, s2, s3);
    }
#undef STEP
}

/* One update (3) and (1): gamma[a] = alpha[a] + theta[a] dot[a], then theta[a] =
 * exp(psi(gamma[a])) up to a common factor that makes the largest exponent 0.
 * first: gamma is given. Entries from n_active to a whole vector are inert
 * (see lda_pad). Returns the summed |change of gamma|; *spare says whether some
 * topic's theta is below *floor_ and its gamma - alpha below rest. */
static double KERNEL(lda_gamma_theta)(int first, int64_t n_active, REAL rest, const REAL *VF_RESTRICT alpha,
                                      REAL *VF_RESTRICT dot, REAL *VF_RESTRICT gamma, REAL *VF_RESTRICT theta,
                                      REAL *VF_RESTRICT shift, REAL *floor_, int *spare) {
    const int64_t padded = ROUND_UP(n_active, LANES);
    const VEC zero = OP(set1)(0);
    VEC low = OP(set1)((REAL)1e37), change = zero;
    for (int64_t a = n_active; a < padded; ++a) dot[a] = 0;
    for (int64_t a = 0; a < padded; a += LANES) {
        VEC g = OP(load)(gamma + a), e, s;
        if (!first) {
            const VEC h = OP(fma)(OP(load)(theta + a), OP(load)(dot + a), OP(load)(alpha + a));
            change = OP(add)(change, OP(abs)(OP(sub)(h, g)));
            g = h;
            OP(store)(gamma + a, g);
        }
        EXP_PSI(g, &e, &s);
        OP(store)(theta + a, e);
        OP(store)(shift + a, s);
        low = OP(min)(low, s);
    }
    const VEC base = OP(set1)(-OP(hmax)(OP(sub)(zero, low)));
    VEC most = zero;
    for (int64_t a = 0; a < padded; a += LANES) {
        const VEC t = OP(mul)(OP(load)(theta + a), EXP_NEG(OP(sub)(base, OP(load)(shift + a))));
        OP(store)(theta + a, t);
        most = OP(max)(most, t);
    }
    *floor_ = (REAL)ACTIVE_SHARE * OP(hmax)(most);
    const VEC below = OP(set1)(*floor_), held = OP(set1)(rest);
    VEC room = zero;
    for (int64_t a = 0; a < padded; a += LANES) {
        const VEC by_theta = OP(sub)(below, OP(load)(theta + a));
        const VEC by_gamma = OP(sub)(held, OP(sub)(OP(load)(gamma + a), OP(load)(alpha + a)));
        room = OP(max)(room, OP(min)(by_theta, by_gamma));
    }
    *spare = OP(hmax)(room) > 0;
    return (double)OP(sum)(change);
}

/* Make the entries after the active ones inert. Up to a whole vector: alpha =
 * gamma = that of the heaviest topic and dot = 0, so that they never change and
 * are never the least. Up to a block of eight: rows to read, results ignored. */
static void KERNEL(lda_pad)(int64_t n_active, REAL *alpha, REAL *gamma, REAL *theta, int64_t *row) {
    int64_t heavy = 0;
    for (int64_t a = 1; a < n_active; ++a) heavy = gamma[a] > gamma[heavy] ? a : heavy;
    const int64_t padded = ROUND_UP(n_active, LANES);
    for (int64_t a = n_active; a < padded; ++a) {
        alpha[a] = gamma[a] = gamma[heavy];
        theta[a] = theta[heavy];
    }
    for (int64_t a = n_active; a < n_active + 7; ++a) row[a] = row[n_active - 1];
}

/* Copy the table's rows of the document's words into the tile, transposed. */
static void KERNEL(lda_tile)(int64_t n, int64_t np, int64_t stride, const int32_t *word, const REAL *table, REAL *tile) {
    for (int64_t i = 0; i < np; i += LANES) {
        const REAL *source[LANES];
        for (int64_t j = 0; j < LANES; ++j) {
            /* Padding words read the last word's row; their count is 0. */
            source[j] = table + (int64_t)word[i + j < n ? i + j : n - 1] * stride;
            VF_PREFETCH(table + (int64_t)word[i + j + LANES < n ? i + j + LANES : n - 1] * stride);
        }
        for (int64_t k = 0; k < stride; k += 4) {
            VEC column[4];
            OP(transpose4)(source, column);
            for (int64_t j = 0; j < 4; ++j) OP(store)(tile + (k + j) * np + i, column[j]);
            for (int64_t j = 0; j < LANES; ++j) source[j] += 4;
        }
    }
}

/* Turn the active rows of the tile into the contribution c_i phi_ik; its norm. */
static double KERNEL(lda_contribution)(int64_t n_active, int64_t np, const int64_t *row, const REAL *theta,
                                       const REAL *rho, REAL *tile) {
    double square = 0.0;
    for (int64_t a = 0; a < n_active; ++a) {
        REAL *b = tile + row[a];
        const VEC t = OP(set1)(theta[a]);
        VEC s = OP(set1)(0);
        for (int64_t i = 0; i < np; i += LANES) {
            const VEC x = OP(mul)(OP(mul)(t, OP(load)(b + i)), OP(load)(rho + i));
            OP(store)(b + i, x);
            s = OP(fma)(x, x, s);
        }
        square += (double)OP(sum)(s);
    }
    return sqrt(square);
}

/* lattice = trunc(factor * contribution); the sum of squares, exact: a value is
 * below 2^31 and a document's sum of squares below 2^63. */
static uint64_t KERNEL(lda_truncate)(int64_t n_active, int64_t np, const int64_t *row, REAL factor, const REAL *tile,
                                     int32_t *lattice) {
    uint64_t squares = 0;
    const VEC f = OP(set1)(factor);
    for (int64_t a = 0; a < n_active; ++a) {
        const REAL *b = tile + row[a];
        int32_t *q = lattice + a * np;
        for (int64_t i = 0; i < np; i += LANES) OP(store_i32)(q + i, OP(mul)(OP(load)(b + i), f));
        for (int64_t i = 0; i < np; ++i) squares += (uint64_t)((int64_t)q[i] * q[i]);
    }
    return squares;
}

int32_t KERNEL(vf_lda_estep)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                             const int64_t *indptr, const int32_t *indices, const double *counts, const REAL *table,
                             const double *alpha, void *workspace, int64_t workspace_bytes, double *gamma_out,
                             int64_t *sums, int32_t *n_iter_out, double *norms_out) {
    if (n_docs < 0 || n_topics < 1 || n_words < 1 || n_topics > INT32_MAX || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (!params || !alpha || !table || !workspace) return VF_ERR_NULL;
    if (n_docs > 0 && !indptr) return VF_ERR_NULL;
    if (((uintptr_t)params & 7u) | VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(counts) | VF_OFF(table) | VF_OFF(alpha) |
        VF_OFF(gamma_out) | VF_OFF(sums) | VF_OFF(n_iter_out) | VF_OFF(norms_out) | ((uintptr_t)workspace & 7u))
        return VF_ERR_ALIGNMENT;
    if (!(params->tol >= 0.0) || params->max_iter < 0) return VF_ERR_PARAMETER;
    for (int64_t k = 0; k < n_topics; ++k)
        if (!(alpha[k] >= VF_LDA_MIN_ALPHA && alpha[k] <= VF_LDA_MAX_ALPHA)) return VF_ERR_PARAMETER;
    const int clip = params->clip_norm > 0.0;
    const double C = params->clip_norm;
    uint64_t limit = 0; /* floor(C/g), the bound on the norm in lattice units */
    if (sums) {
        if (!vf_is_spacing(params->spacing, VF_LDA_MIN_SPACING, VF_LDA_MAX_SPACING)) return VF_ERR_PARAMETER;
        if (clip) {
            /* Below 2^31 a sum of squares fits 64 bits and the check is exact;
             * the total must stay inside int64 with room for noise. */
            const double units = floor(C / params->spacing);
            if (!(units >= 1.0) || units >= 2147483648.0) return VF_ERR_PARAMETER;
            if (units * (double)n_docs > 4.6e18) return VF_ERR_SIZE;
            limit = (uint64_t)units;
        }
    }
    int64_t max_words = 0;
    double total_words = 0.0;
    for (int64_t d = 0; d < n_docs; ++d) {
        if (indptr[d] < 0 || indptr[d + 1] < indptr[d]) return VF_ERR_INDPTR;
        const int64_t lo = indptr[d], n = indptr[d + 1] - lo;
        max_words = n > max_words ? n : max_words;
        if (n > 0 && (!indices || !counts)) return VF_ERR_NULL;
        int32_t previous = -1;
        for (int64_t i = lo; i < lo + n; ++i) {
            if (indices[i] <= previous || indices[i] >= n_words) return VF_ERR_INDEX;
            previous = indices[i];
        }
        if (sums && !clip) {
            /* A contribution's entries add up to the document's counts. */
            double words = 0.0;
            for (int64_t i = lo; i < lo + n; ++i) words += counts[i] >= 0.0 ? counts[i] : NAN;
            if (words <= VF_LDA_MAX_WORDS) total_words += words;
        }
    }
    if (total_words > 0x1p62 * params->spacing) return VF_ERR_RANGE;
    const int64_t need = KERNEL(vf_lda_workspace)(n_topics, max_words);
    if (need < 0) return VF_ERR_SIZE;
    if (workspace_bytes < need) return VF_ERR_WORKSPACE;

    const int64_t stride = VF_LDA_STRIDE(n_topics);
    const int64_t kp = ROUND_UP(n_topics + 8, LANES), np_max = ROUND_UP(max_words, LANES);
    /* The tile comes first and on a cache line: whole vectors then never straddle two. */
    REAL *tile = (REAL *)(((uintptr_t)workspace + 63) & ~(uintptr_t)63);
    int64_t *row = (int64_t *)(tile + stride * np_max); /* start of each active topic in the tile */
    REAL *gamma = (REAL *)(row + kp), *theta = gamma + kp, *dot = theta + kp, *shift = dot + kp, *prior = shift + kp;
    REAL *count = prior + kp, *rho = count + np_max;
    int32_t *lattice = (int32_t *)(rho + np_max), *topic = lattice + stride * np_max, *word = topic + kp;

    /* tol bounds the mean over all K topics. A topic leaves the loops only if what
     * it still holds is too little to move that mean. */
    const double stop = params->tol * (double)n_topics;
    const REAL rest = (REAL)(ACTIVE_REST * (params->tol > 0.0 ? params->tol : 1e-3));

    for (int64_t d = 0; d < n_docs; ++d) {
        double total = 0.0, norm = 0.0;
        int64_t n = 0;
        int32_t rounds = 0;
        double *out = gamma_out ? gamma_out + d * n_topics : NULL;
        if (out)
            for (int64_t k = 0; k < n_topics; ++k) out[k] = alpha[k];
        for (int64_t i = indptr[d]; i < indptr[d + 1]; ++i) {
            total += counts[i] >= 0.0 ? counts[i] : NAN;
            word[n] = indices[i];
            count[n] = (REAL)counts[i];
            n += counts[i] > 0.0;
        }
        if (!(total >= VF_LDA_MIN_WORDS && total <= VF_LDA_MAX_WORDS)) goto done;

        const int64_t np = ROUND_UP(n, LANES);
        for (int64_t i = n; i < np; ++i) count[i] = 0;
        KERNEL(lda_tile)(n, np, stride, word, table, tile);
        int64_t n_active = n_topics;
        for (int64_t a = 0; a < n_active; ++a) {
            topic[a] = (int32_t)a;
            row[a] = a * np;
            prior[a] = (REAL)alpha[a];
            gamma[a] = (REAL)(alpha[a] + total / (double)n_topics);
            theta[a] = 1;
        }
        REAL floor_;
        int spare;
        KERNEL(lda_pad)(n_active, prior, gamma, theta, row);
        (void)KERNEL(lda_gamma_theta)(1, n_active, rest, prior, dot, gamma, theta, shift, &floor_, &spare);
        while (rounds < params->max_iter) {
            KERNEL(lda_rho)(n_active, np, row, theta, tile, count, rho);
            KERNEL(lda_dots)(n_active, np, row, tile, rho, dot);
            const double change =
                KERNEL(lda_gamma_theta)(0, n_active, rest, prior, dot, gamma, theta, shift, &floor_, &spare);
            ++rounds;
            if (change < stop) break;
            if (!spare) continue;
            int64_t kept = 0;
            for (int64_t a = 0; a < n_active; ++a) {
                const int keep = !(theta[a] < floor_ && gamma[a] - prior[a] < rest);
                topic[kept] = topic[a];
                row[kept] = row[a];
                prior[kept] = prior[a];
                gamma[kept] = gamma[a];
                theta[kept] = theta[a];
                kept += keep;
            }
            if (kept < n_active) {
                n_active = kept;
                KERNEL(lda_pad)(n_active, prior, gamma, theta, row);
            }
        }
        if (out)
            for (int64_t a = 0; a < n_active; ++a) out[topic[a]] = (double)gamma[a];
        if (!sums && !norms_out) goto done;

        KERNEL(lda_rho)(n_active, np, row, theta, tile, count, rho);
        norm = KERNEL(lda_contribution)(n_active, np, row, theta, rho, tile);
        if (!(norm <= 1e18)) { /* not finite */
            norm = 0.0;
            goto done;
        }
        if (!sums) goto done;
        double factor = 1.0 / params->spacing;
        if (!clip) {
            for (int64_t i = 0; i < n; ++i) {
                int64_t *s = sums + (int64_t)word[i] * n_topics;
                for (int64_t a = 0; a < n_active; ++a) s[topic[a]] += (int64_t)(tile[row[a] + i] * (REAL)factor);
            }
            goto done;
        }
        if (norm > C * (1.0 - CLIP_MARGIN)) factor *= C * (1.0 - CLIP_MARGIN) / norm;
        for (;;) {
            const uint64_t squares = KERNEL(lda_truncate)(n_active, np, row, (REAL)factor, tile, lattice);
            if (VF_LIKELY(squares <= limit * limit)) break;
            /* Shorter by what is too much, and a little more than rounding can undo. */
            factor *= (double)limit / sqrt((double)squares) * (1.0 - 0x1p-16);
        }
        for (int64_t i = 0; i < n; ++i) {
            /* Rows of sums are far apart: ask for one a few words ahead. */
            const char *ahead = (const char *)(sums + (int64_t)word[i + 6 < n ? i + 6 : n - 1] * n_topics);
            for (int64_t line = 0; line < 8 * n_topics; line += 64) VF_PREFETCH(ahead + line);
            int64_t *s = sums + (int64_t)word[i] * n_topics;
            const int32_t *q = lattice + i;
            for (int64_t a = 0; a < n_active; ++a) s[topic[a]] += q[a * np];
        }
    done:
        if (n_iter_out) n_iter_out[d] = rounds;
        if (norms_out) norms_out[d] = norm;
    }
    return VF_OK;
}
