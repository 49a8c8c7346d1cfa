/* Collapsed rounds of a short document in one precision; see vf_lda_collapsed in kernels.toml. */

/* phi[i] of a document's words, one after the other and rows of `stride`, from shares that are those of the table;
 * `total` is their sum by counts. `next` is scratch. Returns the sum of `total`: not finite if any phi is not. */
static REAL LOCAL(collapse)(int64_t stride, int64_t n_words, const int32_t *word, const double *count, int32_t n_rounds,
                            const REAL *table, const REAL *prior, REAL *total, REAL *next, REAL *phi) {
    const VEC zero = OP(set1)(0);
    VEC whole = zero;
    for (int64_t k = 0; k < stride; k += LANES) {
        VEC all = zero;
        for (int64_t i = 0; i < n_words; ++i) {
            const VEC share = OP(load)(table + word[i] * stride + k);
            OP(store)(phi + i * stride + k, share);
            all = OP(fma)(OP(set1)((REAL)count[i]), share, all);
        }
        OP(store)(total + k, all);
    }
    for (int32_t round = 0; round < n_rounds; ++round)
        for (int64_t i = 0; i < n_words; ++i) {
            const REAL *row = table + word[i] * stride;
            REAL *own = phi + i * stride;
            const VEC c = OP(set1)((REAL)count[i]), once = OP(set1)((REAL)(count[i] < 1.0 ? count[i] : 1.0));
            VEC sum = zero;
            for (int64_t k = 0; k < stride; k += LANES) {
                const VEC others = OP(sub)(OP(load)(total + k), OP(mul)(once, OP(load)(own + k)));
                const VEC x = OP(mul)(OP(add)(OP(max)(others, zero), OP(load)(prior + k)), OP(load)(row + k));
                OP(store)(next + k, x);
                sum = OP(add)(sum, x);
            }
            const VEC scale = OP(set1)(1 / (OP(sum)(sum) + LOCAL(sum_floor)));
            for (int64_t k = 0; k < stride; k += LANES) {
                const VEC x = OP(mul)(OP(load)(next + k), scale);
                OP(store)(total + k, OP(fma)(c, OP(sub)(x, OP(load)(own + k)), OP(load)(total + k)));
                OP(store)(own + k, x);
            }
        }
    for (int64_t k = 0; k < stride; k += LANES) whole = OP(add)(whole, OP(load)(total + k));
    return OP(sum)(whole);
}

int32_t KERNEL(vf_lda_collapsed)(int64_t n_topics, int32_t n_rounds, double spacing, const vf_rows_f64 *docs,
                                 const REAL *table, const double *alpha, int64_t work_items, REAL *work, int64_t *sums,
                                 double *norms) {
    const vf_lda_params params = {.max_iter = n_rounds, .spacing = spacing, .n_topics = n_topics};
    int64_t max_words;
    if (!table || !work || !sums) return VF_ERR_NULL;
    const int32_t status = check(&params, docs, alpha, alpha, NULL, sums, NULL, norms, &max_words);
    if (status != VF_OK) return status;
    if (VF_OFF(table) | VF_OFF(work)) return VF_ERR_ALIGNMENT;
    const int64_t stride = VF_LDA_STRIDE(n_topics);
    if ((double)(max_words + 3) * (double)stride > (double)work_items) return VF_ERR_WORKSPACE;
    REAL *prior = work, *total = prior + stride, *next = total + stride, *phi = next + stride;
    for (int64_t k = 0; k < stride; ++k) prior[k] = k < n_topics ? (REAL)alpha[k] : 0;
    const unsigned before = vf_flush();
    for (int64_t d = 0; d < docs->n_rows; ++d) {
        const int64_t first = docs->indptr[d], n_words = docs->indptr[d + 1] - first;
        const int32_t *word = docs->indices + first;
        const double *count = docs->values + first;
        double words = 0.0, square = 0.0;
        for (int64_t i = 0; i < n_words; ++i) words += count[i] >= 0.0 ? count[i] : NAN;
        if (words >= VF_LDA_MIN_WORDS && words <= VF_LDA_MAX_WORDS &&
            LOCAL(collapse)(stride, n_words, word, count, n_rounds, table, prior, total, next, phi) <= 1e18) {
            for (int64_t i = 0; i < n_words; ++i) {
                const REAL *own = phi + i * stride, factor = (REAL)(count[i] / spacing);
                int64_t *s = sums + word[i] * n_topics;
                VEC norm = OP(set1)(0);
                for (int64_t k = 0; k < n_topics; ++k) s[k] += (int64_t)(own[k] * factor);
                if (!norms) continue;
                for (int64_t k = 0; k < stride; k += LANES) norm = OP(fma)(OP(load)(own + k), OP(load)(own + k), norm);
                square += count[i] * count[i] * (double)OP(sum)(norm);
            }
        }
        if (norms) norms[d] = sqrt(square);
    }
    vf_normal(before);
    return VF_OK;
}
