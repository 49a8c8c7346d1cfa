/* The LDA E-step in one precision. Included twice by lda_estep.c, which states
 * the mathematics and defines REAL, VEC, LANES, OP, EXP_PSI, EXP_NEG,
 * SUM_FLOOR, CLIP_MARGIN and KERNEL. */


int32_t KERNEL(vf_lda_table)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                             int64_t stride_word, REAL *table) {
    if (n_topics < 1 || n_words < 1) return VF_ERR_SIZE;
    if (!exp_elog_beta || !table) return VF_ERR_NULL;
    for (int64_t v = 0; v < n_words; ++v) {
        const double *column = exp_elog_beta + v * stride_word;
        REAL *row = table + v * n_topics;
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
            row[k] = (REAL)(scale <= 1e300 ? b * scale : b / top);
        }
    }
    return VF_OK;
}

/* Workspace of one document: five arrays over topics, the tile, two arrays
 * over words. Topics are padded to whole vectors and to a block of four. */
int64_t KERNEL(vf_lda_workspace)(int64_t n_topics, int64_t max_doc_words) {
    if (n_topics < 1 || max_doc_words < 0 || n_topics > INT32_MAX || max_doc_words > INT32_MAX) return -1;
    const int64_t kp = ROUND_UP(n_topics + 4, LANES), np = ROUND_UP(max_doc_words, LANES) + LANES;
    /* kp * np stays below 2^63 / 8 only if the product of the int32 sizes does. */
    if ((double)kp * (double)np > 1e17) return -1;
    const int64_t reals = 4 * kp + n_topics * np + 2 * np;
    return reals * (int64_t)sizeof(REAL) + kp * (int64_t)sizeof(int32_t) * 2 + np * (int64_t)sizeof(int32_t) + 64;
}

/* rho[i] = count[i] / sum_a theta[a] tile[a][i] for all words. */
static void KERNEL(lda_rho)(int64_t n_active, int64_t np, const int32_t *VF_RESTRICT row, const REAL *VF_RESTRICT theta,
                            const REAL *VF_RESTRICT tile, const REAL *VF_RESTRICT count, REAL *VF_RESTRICT rho) {
    const VEC floor_ = OP(set1)((REAL)SUM_FLOOR);
    int64_t i = 0;
    for (; i + 4 * LANES <= np; i += 4 * LANES) {
        VEC s0 = floor_, s1 = floor_, s2 = floor_, s3 = floor_;
        for (int64_t a = 0; a < n_active; ++a) {
            const REAL *b = tile + row[a] * np + i;
            const VEC t = OP(set1)(theta[a]);
            s0 = OP(fma)(t, OP(load)(b), s0);
            s1 = OP(fma)(t, OP(load)(b + LANES), s1);
            s2 = OP(fma)(t, OP(load)(b + 2 * LANES), s2);
            s3 = OP(fma)(t, OP(load)(b + 3 * LANES), s3);
        }
        OP(store)(rho + i, OP(mul)(OP(load)(count + i), OP(recip)(s0)));
        OP(store)(rho + i + LANES, OP(mul)(OP(load)(count + i + LANES), OP(recip)(s1)));
        OP(store)(rho + i + 2 * LANES, OP(mul)(OP(load)(count + i + 2 * LANES), OP(recip)(s2)));
        OP(store)(rho + i + 3 * LANES, OP(mul)(OP(load)(count + i + 3 * LANES), OP(recip)(s3)));
    }
    for (; i < np; i += LANES) {
        VEC s = floor_;
        for (int64_t a = 0; a < n_active; ++a)
            s = OP(fma)(OP(set1)(theta[a]), OP(load)(tile + row[a] * np + i), s);
        OP(store)(rho + i, OP(mul)(OP(load)(count + i), OP(recip)(s)));
    }
}

/* dot[a] = sum_i rho[i] tile[a][i], four topics at a time to share the loads
 * of rho; the list is padded with its last topic to a multiple of four. */
static void KERNEL(lda_dots)(int64_t n_active, int64_t np, const int32_t *VF_RESTRICT row,
                             const REAL *VF_RESTRICT tile, const REAL *VF_RESTRICT rho, REAL *VF_RESTRICT dot) {
    for (int64_t a = 0; a < n_active; a += 4) {
        const REAL *b0 = tile + row[a] * np, *b1 = tile + row[a + 1] * np;
        const REAL *b2 = tile + row[a + 2] * np, *b3 = tile + row[a + 3] * np;
        VEC s0 = OP(set1)(0), s1 = s0, s2 = s0, s3 = s0, t0 = s0, t1 = s0, t2 = s0, t3 = s0;
        int64_t i = 0;
        for (; i + 2 * LANES <= np; i += 2 * LANES) {
            const VEC r = OP(load)(rho + i), q = OP(load)(rho + i + LANES);
            s0 = OP(fma)(r, OP(load)(b0 + i), s0);
            s1 = OP(fma)(r, OP(load)(b1 + i), s1);
            s2 = OP(fma)(r, OP(load)(b2 + i), s2);
            s3 = OP(fma)(r, OP(load)(b3 + i), s3);
            t0 = OP(fma)(q, OP(load)(b0 + i + LANES), t0);
            t1 = OP(fma)(q, OP(load)(b1 + i + LANES), t1);
            t2 = OP(fma)(q, OP(load)(b2 + i + LANES), t2);
            t3 = OP(fma)(q, OP(load)(b3 + i + LANES), t3);
        }
        for (; i < np; i += LANES) {
            const VEC r = OP(load)(rho + i);
            s0 = OP(fma)(r, OP(load)(b0 + i), s0);
            s1 = OP(fma)(r, OP(load)(b1 + i), s1);
            s2 = OP(fma)(r, OP(load)(b2 + i), s2);
            s3 = OP(fma)(r, OP(load)(b3 + i), s3);
        }
        dot[a] = OP(sum)(OP(add)(s0, t0));
        dot[a + 1] = OP(sum)(OP(add)(s1, t1));
        dot[a + 2] = OP(sum)(OP(add)(s2, t2));
        dot[a + 3] = OP(sum)(OP(add)(s3, t3));
    }
}

/* theta[a] = exp(psi(gamma[a])) up to a common factor that makes the exponent
 * of the largest 0. Entries past n_active are padding: finite, ignored. */
static REAL KERNEL(lda_theta)(int64_t n_active, const REAL *gamma, REAL *theta, REAL *shift) {
    VEC least = OP(set1)((REAL)1e37);
    const int64_t padded = ROUND_UP(n_active, LANES);
    for (int64_t a = 0; a < padded; a += LANES) {
        VEC e, s;
        EXP_PSI(OP(load)(gamma + a), &e, &s);
        OP(store)(theta + a, e);
        OP(store)(shift + a, s);
        least = OP(min)(least, s);
    }
    const VEC low = OP(set1)(-OP(hmax)(OP(sub)(OP(set1)(0), least)));
    VEC top = OP(set1)(0);
    for (int64_t a = 0; a < padded; a += LANES) {
        const VEC t = OP(mul)(OP(load)(theta + a), EXP_NEG(OP(sub)(low, OP(load)(shift + a))));
        OP(store)(theta + a, t);
        top = OP(max)(top, t);
    }
    return OP(hmax)(top);
}

int32_t KERNEL(vf_lda_estep)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                             const int64_t *indptr, const int32_t *indices, const double *counts, const REAL *table,
                             const double *alpha, void *workspace, int64_t workspace_bytes, double *gamma_out,
                             int64_t *sums, int32_t *n_iter_out, double *norms_out) {
    if (n_docs < 0 || n_topics < 1 || n_words < 1 || n_topics > INT32_MAX || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (!params || !alpha || !table || !workspace) return VF_ERR_NULL;
    if (n_docs > 0 && !indptr) return VF_ERR_NULL;
    if (!(params->tol >= 0.0) || params->max_iter < 0) return VF_ERR_PARAMETER;
    for (int64_t k = 0; k < n_topics; ++k)
        if (!(alpha[k] > 0.0) || alpha[k] > 1e30) return VF_ERR_PARAMETER;
    const int clip = params->clip_norm > 0.0;
    const double spacing = params->spacing, C = params->clip_norm;
    double limit = 0.0; /* floor(C/g), the bound on the norm in lattice units */
    if (sums) {
        if (!(spacing > 0.0) || spacing > 1e300) return VF_ERR_PARAMETER;
        if (clip) {
            limit = floor(C / spacing);
            /* Below 2^31 a sum of squares fits 64 bits and the check is exact;
             * the total must stay inside int64 with room for noise. */
            if (!(limit >= 1.0) || limit >= 2147483648.0) return VF_ERR_PARAMETER;
            if (limit * (double)n_docs > 4.6e18) return VF_ERR_SIZE;
        }
    }
    int64_t max_words = 0;
    for (int64_t d = 0; d < n_docs; ++d) {
        const int64_t lo = indptr[d], n = indptr[d + 1] - lo;
        if (n < 0) return VF_ERR_INDPTR;
        max_words = n > max_words ? n : max_words;
        if (n > 0 && (!indices || !counts)) return VF_ERR_NULL;
        int32_t previous = -1;
        for (int64_t i = lo; i < lo + n; ++i) {
            if (indices[i] <= previous || indices[i] >= n_words) return VF_ERR_INDEX;
            previous = indices[i];
        }
    }
    const int64_t need = KERNEL(vf_lda_workspace)(n_topics, max_words);
    if (need < 0) return VF_ERR_SIZE;
    if (workspace_bytes < need) return VF_ERR_WORKSPACE;
    if (((uintptr_t)workspace & (sizeof(REAL) - 1)) != 0) return VF_ERR_ALIGNMENT;

    const int64_t kp = ROUND_UP(n_topics + 4, LANES), np_max = ROUND_UP(max_words, LANES) + LANES;
    REAL *gamma = (REAL *)workspace, *theta = gamma + kp, *dot = theta + kp, *shift = dot + kp;
    REAL *count = shift + kp, *rho = count + np_max, *tile = rho + np_max;
    int32_t *topic = (int32_t *)(tile + n_topics * np_max), *row = topic + kp, *word = row + kp;

    for (int64_t d = 0; d < n_docs; ++d) {
        const int64_t lo = indptr[d];
        double total = 0.0;
        int64_t n = 0;
        for (int64_t i = lo; i < indptr[d + 1]; ++i) {
            total += counts[i] >= 0.0 ? counts[i] : NAN;
            if (counts[i] > 0.0) {
                word[n] = indices[i];
                count[n++] = (REAL)counts[i];
            }
        }
        int32_t rounds = 0;
        double norm = 0.0;
        int64_t n_active = 0;
        double *out = gamma_out ? gamma_out + d * n_topics : NULL;
        if (out)
            for (int64_t k = 0; k < n_topics; ++k) out[k] = alpha[k];
        if (!(total > 0.0) || total > 1e30) goto done;

        const int64_t np = ROUND_UP(n, LANES);
        for (int64_t i = n; i < np; ++i) count[i] = 0;
        for (int64_t i = 0; i < n; ++i) {
            const REAL *b = table + (int64_t)word[i] * n_topics;
            for (int64_t k = 0; k < n_topics; ++k) tile[k * np + i] = b[k];
        }
        for (int64_t i = n; i < np; ++i)
            for (int64_t k = 0; k < n_topics; ++k) tile[k * np + i] = 0;

        n_active = n_topics;
        for (int64_t a = 0; a < n_active; ++a) {
            topic[a] = row[a] = (int32_t)a;
            gamma[a] = (REAL)(alpha[a] + total / (double)n_topics);
        }
        for (int64_t a = n_active; a < kp; ++a) {
            gamma[a] = gamma[n_active - 1];
            dot[a] = 0;
        }
        (void)KERNEL(lda_theta)(n_active, gamma, theta, shift);
        /* tol bounds the mean over all K topics. */
        const double stop = params->tol * (double)n_topics;
        while (rounds < params->max_iter) {
            for (int64_t a = n_active; a < n_active + 3; ++a) row[a] = row[n_active - 1];
            KERNEL(lda_rho)(n_active, np, row, theta, tile, count, rho);
            KERNEL(lda_dots)(n_active, np, row, tile, rho, dot);
            double change = 0.0;
            for (int64_t a = 0; a < n_active; ++a) {
                const REAL g = (REAL)alpha[topic[a]] + theta[a] * dot[a];
                change += fabs((double)(g - gamma[a]));
                gamma[a] = g;
            }
            for (int64_t a = n_active; a < ROUND_UP(n_active, LANES); ++a) gamma[a] = gamma[n_active - 1];
            const REAL top = KERNEL(lda_theta)(n_active, gamma, theta, shift);
            ++rounds;
            if (change < stop) break;
            const REAL least = (REAL)ACTIVE_SHARE * top;
            int64_t kept = 0;
            for (int64_t a = 0; a < n_active; ++a) {
                if (theta[a] < least) continue;
                topic[kept] = topic[a];
                row[kept] = row[a];
                gamma[kept] = gamma[a];
                theta[kept] = theta[a];
                ++kept;
            }
            n_active = kept;
        }
        if (out)
            for (int64_t a = 0; a < n_active; ++a) out[topic[a]] = (double)gamma[a];
        if (!sums && !norms_out) goto done;

        /* The tile becomes the contribution c_i phi_ik of the active topics. */
        KERNEL(lda_rho)(n_active, np, row, theta, tile, count, rho);
        double square = 0.0;
        for (int64_t a = 0; a < n_active; ++a) {
            REAL *b = tile + row[a] * np;
            const VEC t = OP(set1)(theta[a]);
            VEC s = OP(set1)(0);
            for (int64_t i = 0; i < np; i += LANES) {
                const VEC x = OP(mul)(OP(mul)(t, OP(load)(b + i)), OP(load)(rho + i));
                OP(store)(b + i, x);
                s = OP(fma)(x, x, s);
            }
            square += (double)OP(sum)(s);
        }
        norm = sqrt(square);
        if (!(norm <= 1e18)) { /* not finite, or beyond what a lattice of 64 bits can hold */
            norm = 0.0;
            goto done;
        }
        if (!sums) goto done;
        double factor = 1.0 / spacing;
        if (clip && norm > C * (1.0 - CLIP_MARGIN)) factor *= C * (1.0 - CLIP_MARGIN) / norm;
        if (!clip && norm * factor > 4.6e18) goto done;
        const REAL f = (REAL)factor;
        if (clip) {
            /* Truncated in place: a lattice value is below 2^31, so it fits the
             * tile's own elements as an int32 (float32) or is exact (float64). */
            uint64_t squares = 0;
            for (int64_t a = 0; a < n_active; ++a) {
                REAL *b = tile + row[a] * np;
                for (int64_t i = 0; i < np; ++i) {
                    const int32_t q = (int32_t)(b[i] * f);
                    memcpy(&b[i], &q, sizeof q);
                    squares += (uint64_t)((int64_t)q * q);
                }
            }
            const uint64_t bound = (uint64_t)limit * (uint64_t)limit;
            while (VF_UNLIKELY(squares > bound)) {
                squares = 0;
                for (int64_t a = 0; a < n_active; ++a) {
                    REAL *b = tile + row[a] * np;
                    for (int64_t i = 0; i < np; ++i) {
                        int32_t q;
                        memcpy(&q, &b[i], sizeof q);
                        q = (int32_t)((double)q * (1.0 - 0x1p-16));
                        memcpy(&b[i], &q, sizeof q);
                        squares += (uint64_t)((int64_t)q * q);
                    }
                }
            }
            for (int64_t i = 0; i < n; ++i) {
                int64_t *s = sums + (int64_t)word[i] * n_topics;
                for (int64_t a = 0; a < n_active; ++a) {
                    int32_t q;
                    memcpy(&q, &tile[row[a] * np + i], sizeof q);
                    s[topic[a]] += q;
                }
            }
        } else {
            for (int64_t i = 0; i < n; ++i) {
                int64_t *s = sums + (int64_t)word[i] * n_topics;
                for (int64_t a = 0; a < n_active; ++a) s[topic[a]] += (int64_t)(tile[row[a] * np + i] * f);
            }
        }
    done:
        if (n_iter_out) n_iter_out[d] = rounds;
        if (norms_out) norms_out[d] = norm;
    }
    return VF_OK;
}
