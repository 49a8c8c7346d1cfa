/* Brings chosen rows of a corpus into a block of documents for the E-step. */
#include <string.h>

#include "declarations.h"

/* splitmix64 (Steele, Lea & Flood 2014): one multiply-xor chain per draw and
 * any 64-bit seed is good, as one short stream per record needs. */
VF_INLINE uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* A number in [0, total), total <= 2^32 - 1, by multiply-shift. It is biased by at
 * most total / 2^32 of a draw; no guarantee rests on it. */
VF_INLINE uint32_t below(uint64_t *state, uint64_t total) {
    return (uint32_t)(((splitmix64(state) >> 32) * total) >> 32);
}

/* Replace counts that sum to `total` by counts of doc_length words drawn from them.
 * At most VF_LDA_RESAMPLE_TOKENS words: scratch says which word each one is. More: it
 * holds one past the last number of each word, for a binary search. */
static void resample(int64_t n, uint64_t total, int64_t doc_length, uint64_t seed, const int32_t *counts,
                     uint32_t *scratch, double *out) {
    uint64_t state = seed;
    memset(out, 0, (size_t)n * sizeof *out);
    if (total <= VF_LDA_RESAMPLE_TOKENS) {
        for (int64_t i = 0, t = 0; i < n; ++i)
            for (int32_t j = 0; j < counts[i]; ++j) scratch[t++] = (uint32_t)i;
        for (int64_t t = 0; t < doc_length; ++t) out[scratch[below(&state, total)]] += 1.0;
        return;
    }
    uint32_t end = 0;
    for (int64_t i = 0; i < n; ++i) scratch[i] = end += (uint32_t)counts[i];
    for (int64_t t = 0; t < doc_length; ++t) {
        const uint32_t token = below(&state, total);
        int64_t a = 0, b = n - 1; /* the first i with scratch[i] > token */
        while (a < b) {
            const int64_t m = a + (b - a) / 2;
            if (scratch[m] <= token)
                a = m + 1;
            else
                b = m;
        }
        out[a] += 1.0;
    }
}

/* One row's counts, brought to the wanted length, in out[n]. */
static int32_t gather_counts(const vf_gather_params *p, int64_t n, const int32_t *counts, const uint64_t *seed,
                             uint32_t *scratch, double *out) {
    uint64_t total = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (counts[i] < 0) return VF_ERR_PARAMETER;
        total += (uint64_t)counts[i];
        out[i] = (double)counts[i];
    }
    if (total == 0 || p->mode == VF_LDA_AS_IS) return VF_OK;
    if (p->mode == VF_LDA_SCALE) {
        const double factor = (double)p->doc_length / (double)total;
        for (int64_t i = 0; i < n; ++i) out[i] *= factor;
        return VF_OK;
    }
    if (total > UINT32_MAX) return VF_ERR_SIZE;
    if (total > VF_LDA_RESAMPLE_TOKENS && n > p->scratch_items) return VF_ERR_WORKSPACE;
    resample(n, total, p->doc_length, *seed, counts, scratch, out);
    return VF_OK;
}

int32_t VF_FN(vf_lda_gather)(const vf_gather_params *params, const int64_t *rows, const int64_t *indptr,
                             const int32_t *indices, const int32_t *counts, const uint64_t *seeds, uint32_t *scratch,
                             int64_t *out_indptr, int32_t *out_indices, double *out_counts) {
    if (!params || !out_indptr) return VF_ERR_NULL;
    if (((uintptr_t)params & 7u) | VF_OFF(rows) | VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(counts) | VF_OFF(seeds) |
        VF_OFF(scratch) | VF_OFF(out_indptr) | VF_OFF(out_indices) | VF_OFF(out_counts))
        return VF_ERR_ALIGNMENT;
    const vf_gather_params p = *params;
    if (p.n_docs < 0 || p.n_rows < 0 || p.capacity < 0) return VF_ERR_SIZE;
    if (p.mode < VF_LDA_AS_IS || p.mode > VF_LDA_SCALE) return VF_ERR_PARAMETER;
    if (p.mode != VF_LDA_AS_IS && (p.doc_length < 1 || p.doc_length > INT32_MAX)) return VF_ERR_SIZE;
    out_indptr[0] = 0;
    if (p.n_docs == 0) return VF_OK;
    if (!rows || !indptr || !indices || !counts || !out_indices || !out_counts) return VF_ERR_NULL;
    if (p.mode == VF_LDA_RESAMPLE) {
        if (!seeds || !scratch) return VF_ERR_NULL;
        if (p.scratch_items < VF_LDA_RESAMPLE_TOKENS) return VF_ERR_WORKSPACE;
    }
    int64_t used = 0;
    for (int64_t d = 0; d < p.n_docs; ++d) {
        if (rows[d] < 0 || rows[d] >= p.n_rows) return VF_ERR_INDEX;
        const int64_t lo = indptr[rows[d]], hi = indptr[rows[d] + 1];
        if (lo < 0 || hi < lo) return VF_ERR_INDPTR;
        if (hi - lo > p.capacity - used) return VF_ERR_WORKSPACE;
        double *out = out_counts + used;
        const int32_t status = gather_counts(&p, hi - lo, counts + lo, seeds ? seeds + d : NULL, scratch, out);
        if (status != VF_OK) return status;
        int64_t kept = 0;
        for (int64_t i = 0; i < hi - lo; ++i) {
            const double x = out[i];
            out_indices[used + kept] = indices[lo + i];
            out[kept] = x;
            kept += x > 0.0;
        }
        used += kept;
        out_indptr[d + 1] = used;
    }
    return VF_OK;
}
