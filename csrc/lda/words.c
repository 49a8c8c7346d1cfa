/* Words of units: their lists, histograms of them, and how half of them predicts the other. */
#include <math.h>

#include "declarations.h"

/* Chains of sums over topics. */
#define CHAINS 8

/* The finisher of splitmix64 (Steele, Lea & Flood 2014), and its step from word to word. */
#define GOLDEN 0x9e3779b97f4a7c15u
VF_INLINE uint64_t scramble(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int32_t check_ends(int64_t n_units, const int64_t *ends, int64_t n_entries) {
    if (n_units < 0 || n_entries < 0) return VF_ERR_SIZE;
    if (!ends) return VF_ERR_NULL;
    if (VF_OFF(ends)) return VF_ERR_ALIGNMENT;
    if (ends[0] != 0) return VF_ERR_INDPTR;
    for (int64_t u = 0; u < n_units; ++u)
        if (ends[u + 1] < ends[u]) return VF_ERR_INDPTR;
    return ends[n_units] > n_entries ? VF_ERR_INDPTR : VF_OK;
}

/* The words of one document that have counts; their number, or below 0 the negative of a status. */
static int64_t words_of_one(int64_t n, const int32_t *indices, const int32_t *counts, int64_t n_words, int32_t *columns,
                            double *sums) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (indices[i] < 0 || indices[i] >= n_words) return -VF_ERR_INDEX;
        if (counts[i] < 0) return -VF_ERR_PARAMETER;
        columns[kept] = indices[i];
        sums[kept] = (double)counts[i];
        kept += counts[i] > 0;
    }
    return kept;
}

/* Adds a document to the sums of a unit: a bit says which words have one. */
static int32_t add_document(int64_t n, const int32_t *indices, const int32_t *counts, int64_t n_words, int64_t *sums,
                            uint64_t *seen) {
    for (int64_t i = 0; i < n; ++i) {
        const int32_t v = indices[i];
        if (v < 0 || v >= n_words) return VF_ERR_INDEX;
        if (counts[i] < 0) return VF_ERR_PARAMETER;
        if (counts[i] == 0) continue;
        const uint64_t bit = (uint64_t)1 << (v & 63);
        sums[v] = (seen[v >> 6] & bit ? sums[v] : 0) + counts[i];
        seen[v >> 6] |= bit;
    }
    return VF_OK;
}

int32_t VF_FN(vf_unit_words)(int64_t n_docs, const int64_t *rows, int64_t n_units, const int64_t *starts,
                             int64_t n_rows, const int64_t *indptr, const int32_t *indices, const int32_t *counts,
                             int64_t n_words, int64_t scratch_items, int64_t *scratch, int64_t capacity, int64_t *ends,
                             int32_t *columns, double *sums) {
    if (n_docs < 0 || n_units < 0 || n_rows < 0 || n_words < 1 || n_words > INT32_MAX || capacity < 0)
        return VF_ERR_SIZE;
    if (!ends || !starts) return VF_ERR_NULL;
    if (VF_OFF(rows) | VF_OFF(starts) | VF_OFF(indptr) | VF_OFF(indices) | VF_OFF(counts) | VF_OFF(scratch) |
        VF_OFF(ends) | VF_OFF(columns) | VF_OFF(sums))
        return VF_ERR_ALIGNMENT;
    const int64_t n_bits = n_words / 64 + 1;
    if (scratch_items < n_words + n_bits) return VF_ERR_WORKSPACE;
    ends[0] = 0;
    if (n_units == 0) return VF_OK;
    if (!rows || !indptr || !indices || !counts || !scratch || !columns || !sums) return VF_ERR_NULL;
    uint64_t *seen = (uint64_t *)(scratch + n_words);
    for (int64_t j = 0; j < n_bits; ++j) seen[j] = 0;
    int64_t used = 0;
    for (int64_t u = 0; u < n_units; ++u) {
        const int64_t first = starts[u], last = starts[u + 1];
        if (first < 0 || last < first || last > n_docs) return VF_ERR_INDPTR;
        int64_t need = 0;
        for (int64_t d = first; d < last; ++d) {
            if (rows[d] < 0 || rows[d] >= n_rows) return VF_ERR_INDEX;
            const int64_t lo = indptr[rows[d]], hi = indptr[rows[d] + 1];
            if (lo < 0 || hi < lo) return VF_ERR_INDPTR;
            if (hi - lo > capacity - used - need) return VF_ERR_WORKSPACE;
            need += hi - lo;
        }
        if (last - first == 1) {
            const int64_t lo = indptr[rows[first]], n = indptr[rows[first] + 1] - lo;
            const int64_t kept = words_of_one(n, indices + lo, counts + lo, n_words, columns + used, sums + used);
            if (kept < 0) return (int32_t)-kept;
            used += kept;
        } else if (need > 0) {
            for (int64_t d = first; d < last; ++d) {
                const int64_t lo = indptr[rows[d]], n = indptr[rows[d] + 1] - lo;
                const int32_t status = add_document(n, indices + lo, counts + lo, n_words, scratch, seen);
                if (status != VF_OK) return status;
            }
            for (int64_t j = 0; j < n_bits; ++j) {
                for (uint64_t bits = seen[j]; bits; bits &= bits - 1) {
                    const int32_t v = (int32_t)(64 * j) + __builtin_ctzll(bits);
                    columns[used] = v;
                    sums[used++] = (double)scratch[v];
                }
                seen[j] = 0;
            }
        }
        ends[u + 1] = used;
    }
    return VF_OK;
}

int32_t VF_FN(vf_word_histogram)(int64_t n_units, const int64_t *ends, int64_t n_entries, const int32_t *columns,
                                 const double *values, int64_t n_words, const double *scales, double clip,
                                 double least_norm, double factor, int64_t *sums) {
    const int32_t status = check_ends(n_units, ends, n_entries);
    if (status != VF_OK) return status;
    if (n_words < 1 || n_words > INT32_MAX) return VF_ERR_SIZE;
    if (!(clip > 0.0) || !(least_norm > 0.0) || !(factor > 0.0)) return VF_ERR_PARAMETER;
    if (ends[n_units] == 0) return VF_OK;
    if (!columns || !values || !scales || !sums) return VF_ERR_NULL;
    if (VF_OFF(columns) | VF_OFF(values) | VF_OFF(scales) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    /* No entry of a unit is larger, so no sum over the units is. */
    const double most_of_one = VF_MAX_SUM / (double)n_units;
    for (int64_t u = 0; u < n_units; ++u) {
        double square = 0.0, most = 0.0;
        int good = 1;
        for (int64_t i = ends[u]; i < ends[u + 1]; ++i) {
            if (columns[i] < 0 || columns[i] >= n_words) return VF_ERR_INDEX;
            const double x = values[i] / scales[columns[i]];
            good &= x >= 0.0;
            most = x > most ? x : most;
            square += x * x;
        }
        const double norm = sqrt(square), share = clip / (norm > least_norm ? norm : least_norm);
        if (!good || !(norm < INFINITY) || !(most * share * factor < most_of_one)) return VF_ERR_RANGE;
        for (int64_t i = ends[u]; i < ends[u + 1]; ++i)
            sums[columns[i]] += (int64_t)(values[i] / scales[columns[i]] * share * factor);
    }
    return VF_OK;
}

int32_t VF_FN(vf_split_words)(int64_t n_units, const int64_t *ends, int64_t n_entries, const int32_t *columns,
                              const double *counts, const uint64_t *words, const uint8_t *asked, int64_t *known_ends,
                              int32_t *known_columns, double *known_counts, int64_t *told_ends, int32_t *told_columns,
                              double *told_counts) {
    const int32_t status = check_ends(n_units, ends, n_entries);
    if (status != VF_OK) return status;
    if (!known_ends || !told_ends) return VF_ERR_NULL;
    if (VF_OFF(columns) | VF_OFF(counts) | VF_OFF(words) | VF_OFF(known_ends) | VF_OFF(known_columns) |
        VF_OFF(known_counts) | VF_OFF(told_ends) | VF_OFF(told_columns) | VF_OFF(told_counts))
        return VF_ERR_ALIGNMENT;
    if (ends[n_units] > 0 &&
        (!columns || !counts || !words || !known_columns || !known_counts || !told_columns || !told_counts))
        return VF_ERR_NULL;
    int64_t known = 0, told = 0;
    known_ends[0] = told_ends[0] = 0;
    for (int64_t u = 0; u < n_units; ++u) {
        if (!asked || asked[u])
            for (int64_t i = ends[u]; i < ends[u + 1]; ++i) {
                const double n = counts[i], drawn = n < 64.0 ? n : 64.0;
                if (!(n >= 0.0 && n <= VF_LDA_MAX_WORDS) || n != floor(n)) return VF_ERR_PARAMETER;
                const uint64_t bits = scramble(words[u] + (uint64_t)(int64_t)columns[i] * GOLDEN);
                const uint64_t kept = drawn > 0.0 ? bits & (UINT64_MAX >> (64 - (int)drawn)) : 0;
                const double first = (double)__builtin_popcountll(kept) + floor((n - drawn) / 2.0);
                const double second = n - first;
                known_columns[known] = told_columns[told] = columns[i];
                known_counts[known] = first;
                told_counts[told] = second;
                known += first > 0.0;
                told += second > 0.0;
            }
        known_ends[u + 1] = known;
        told_ends[u + 1] = told;
    }
    return VF_OK;
}

int32_t VF_FN(vf_word_ratios)(int64_t n_units, const int64_t *ends, int64_t n_entries, const int32_t *columns,
                              int64_t n_words, int64_t n_topics, const float *proportions, const float *ratios,
                              double *out) {
    const int32_t status = check_ends(n_units, ends, n_entries);
    if (status != VF_OK) return status;
    if (n_words < 1 || n_words > INT32_MAX || n_topics < 1 || n_topics > INT32_MAX) return VF_ERR_SIZE;
    if (ends[n_units] == 0) return VF_OK;
    if (!columns || !proportions || !ratios || !out) return VF_ERR_NULL;
    if (VF_OFF(columns) | VF_OFF(proportions) | VF_OFF(ratios) | VF_OFF(out)) return VF_ERR_ALIGNMENT;
    for (int64_t u = 0; u < n_units; ++u) {
        const float *VF_RESTRICT share = proportions + u * n_topics;
        for (int64_t i = ends[u]; i < ends[u + 1]; ++i) {
            if (columns[i] < 0 || columns[i] >= n_words) return VF_ERR_INDEX;
            const float *VF_RESTRICT ratio = ratios + columns[i] * n_topics;
            float sum[CHAINS] = {0.0f};
            int64_t k = 0;
            for (; k + CHAINS <= n_topics; k += CHAINS)
                for (int64_t j = 0; j < CHAINS; ++j) sum[j] += share[k + j] * ratio[k + j];
            for (int64_t j = 0; k + j < n_topics; ++j) sum[j] += share[k + j] * ratio[k + j];
            for (int64_t half = CHAINS / 2; half > 0; half /= 2)
                for (int64_t j = 0; j < half; ++j) sum[j] += sum[j + half];
            out[i] = (double)sum[0];
        }
    }
    return VF_OK;
}
