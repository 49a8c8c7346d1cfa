/* Sufficient statistics of sigmoid belief networks: rows are clipped and truncated to
 * integers, and the sums of products of integers are exact in every order. */
#include "sbn/shared.h"

int32_t VF_FN(vf_sbn_clip)(int64_t n_records, int64_t n_columns, double clip_norm, double spacing, const double *x,
                           const double *center, const double *factor, double *units, double *norms) {
    if (sizes_bad(n_records, n_columns, 1)) return VF_ERR_SIZE;
    if (n_records > 0 && (!x || !units)) return VF_ERR_NULL;
    if (VF_OFF(x) | VF_OFF(center) | VF_OFF(factor) | VF_OFF(units) | VF_OFF(norms)) return VF_ERR_ALIGNMENT;
    if (!vf_is_spacing(spacing, VF_MIN_SPACING, VF_MAX_SPACING)) return VF_ERR_PARAMETER;
    const int clip = clip_norm > 0.0;
    /* Below 2^31 the sum of squares fits 64 bits. */
    if (clip && !(clip_norm / spacing >= 1.0 && clip_norm / spacing < 2147483648.0)) return VF_ERR_PARAMETER;
    for (int64_t n = 0; n < n_records; ++n) {
        const double *row = x + n * n_columns;
        double *out = units + n * n_columns;
        const double f = factor ? factor[n] : 1.0;
        double square = 0.0, top = 0.0;
        for (int64_t i = 0; i < n_columns; ++i) {
            const double v = row[i] - (center ? center[i] : 0.0);
            out[i] = v;
            square += v * v;
            top = fabs(v) > top ? fabs(v) : top;
        }
        const double norm = sqrt(square), scale = f / spacing * (clip && norm > clip_norm ? clip_norm / norm : 1.0);
        /* Not finite, or past the exact integers of a double: the zero vector. */
        if (!(square <= 1e300) || !(f > 0.0 && f <= 1.0) || !(top * scale <= 0x1p52)) {
            memset(out, 0, (size_t)n_columns * sizeof(double));
            if (norms) norms[n] = 0.0;
            continue;
        }
        if (norms) norms[n] = norm;
        for (int64_t i = 0; i < n_columns; ++i) out[i] = trunc(out[i] * scale);
        if (!clip) continue;
        const uint64_t limit = (uint64_t)floor(clip_norm * f / spacing);
        for (;;) {
            uint64_t q = 0;
            for (int64_t i = 0; i < n_columns; ++i) {
                const int64_t v = (int64_t)out[i];
                q += (uint64_t)(v * v);
            }
            if (VF_LIKELY(q <= limit * limit)) break;
            /* Rounding left it a little too long: each entry one step shorter. */
            for (int64_t i = 0; i < n_columns; ++i) out[i] -= (out[i] > 0.0) - (out[i] < 0.0);
        }
    }
    return VF_OK;
}

int32_t VF_FN(vf_sbn_visible_norms)(int64_t n_records, int64_t n_visible, const uint8_t *y, const double *center,
                                    double *norms) {
    if (sizes_bad(n_records, n_visible, 1)) return VF_ERR_SIZE;
    if (n_records > 0 && (!y || !center || !norms)) return VF_ERR_NULL;
    if (VF_OFF(center) | VF_OFF(norms)) return VF_ERR_ALIGNMENT;
    for (int64_t n = 0; n < n_records; ++n) {
        const uint8_t *row = y + n * n_visible;
        double square = 0.0;
        for (int64_t j = 0; j < n_visible; ++j) {
            const double v = (double)(row[j] != 0) - center[j];
            square += v * v;
        }
        /* The margin is above the error of a sum of 2^20 squares and a root. */
        norms[n] = sqrt(square) * (1.0 + 1e-9);
    }
    return VF_OK;
}

/* Is some v no integer in [low, high], |low|, |high| < 2^51? Adding and subtracting 1.5 2^52 rounds to one. */
static int off_lattice(int64_t n, const double *v, double low, double high) {
    int bad = 0;
    for (int64_t i = 0; i < n; ++i) {
        const double rounded = v[i] + 0x1.8p52 - 0x1.8p52;
        bad |= !(v[i] >= low) | !(v[i] <= high) | (rounded != v[i]);
    }
    return bad;
}

int32_t VF_FN(vf_sbn_cross)(int64_t n_records, int64_t n_visible, int64_t n_hidden, const uint8_t *y, const double *v,
                            int64_t *sums) {
    if (sizes_bad(n_records, n_visible, n_hidden)) return VF_ERR_SIZE;
    if ((double)n_records * 0x1p31 > VF_MAX_SUM) return VF_ERR_SIZE;
    if (n_records > 0 && (!y || !v || !sums)) return VF_ERR_NULL;
    if (VF_OFF(v) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (off_lattice(n_records * n_hidden, v, -(0x1p31 - 1), 0x1p31 - 1)) return VF_ERR_RANGE;
    int64_t q[64];
    for (int64_t n = 0; n < n_records; ++n) {
        const uint8_t *row = y + n * n_visible;
        for (int64_t base = 0; base < n_hidden; base += 64) {
            const int64_t width = n_hidden - base < 64 ? n_hidden - base : 64;
            for (int64_t k = 0; k < width; ++k) q[k] = (int64_t)v[n * n_hidden + base + k];
            for (int64_t j = 0; j < n_visible; ++j) {
                if (!row[j]) continue;
                int64_t *s = sums + j * n_hidden + base;
                for (int64_t k = 0; k < width; ++k) s[k] += q[k];
            }
        }
    }
    return VF_OK;
}

/* Products of two integers of at most 2^20 stay integers below 2^53 for this many records: sums in double are exact. */
#define GRAM_FLUSH 4096

int64_t VF_FN(vf_sbn_gram_workspace)(int64_t n_hidden) {
    if (sizes_bad(0, 1, n_hidden)) return -1;
    return VF_LINE + (int64_t)sizeof(double) * n_hidden * n_hidden;
}

int32_t VF_FN(vf_sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace,
                           int64_t workspace_bytes, int64_t *sums) {
    if (sizes_bad(n_records, 1, n_hidden)) return VF_ERR_SIZE;
    if ((double)n_records * 0x1p40 > VF_MAX_SUM) return VF_ERR_SIZE;
    if (!workspace || (n_records > 0 && (!v || !sums))) return VF_ERR_NULL;
    if (VF_OFF(v) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;
    if (workspace_bytes < VF_FN(vf_sbn_gram_workspace)(n_hidden)) return VF_ERR_WORKSPACE;
    if (off_lattice(n_records * n_hidden, v, -0x1p20, 0x1p20)) return VF_ERR_RANGE;
    double *acc = VF_ALIGN_UP(workspace);
    for (int64_t first = 0; first < n_records; first += GRAM_FLUSH) {
        const int64_t end = first + GRAM_FLUSH < n_records ? first + GRAM_FLUSH : n_records;
        memset(acc, 0, (size_t)(n_hidden * n_hidden) * sizeof(double));
        for (int64_t n = first; n < end; ++n) {
            const double *row = v + n * n_hidden;
            for (int64_t k = 0; k + 1 < n_hidden; ++k) {
                const double vk = row[k];
                double *a = acc + k * n_hidden;
                for (int64_t l = k + 1; l < n_hidden; ++l) a[l] += vk * row[l];
            }
        }
        int64_t *s = sums;
        for (int64_t k = 0; k + 1 < n_hidden; ++k)
            for (int64_t l = k + 1; l < n_hidden; ++l) *s++ += (int64_t)acc[k * n_hidden + l];
    }
    return VF_OK;
}
