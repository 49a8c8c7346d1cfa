/* Statistics of mixtures of round Gaussians, and their clipped sums over units (vips_fast/models/mixture.py).
 *
 * Of a record x, in this order of operations, which decides the bits on every machine: each product and each sum is
 * rounded, none is fused.
 *
 *   s = x_1^2 + x_2^2 + ...                      from the first to the last
 *   x = x h,   h = 1 / max(sqrt(s), 1)           a longer record is scaled down to norm 1
 *   l_k = constant_k + linear_k1 x_1 + ...       log of the weighted density, and a term that all k share
 *   r_k = exp(l_k - max_k l_k) / their sum
 *   the row: (w r_k), then (r_k x_j), k by k, then w s h h
 *
 * Cost: K exponentials and divisions a record, and 3 d (1 + K) additions and products. Columns are contiguous, so rows
 * lie in the lanes of vectors. The densities of 8 rows and VF_ND components stay in registers over all columns. The
 * scaled x waits where r_1 x will be, so there is no other work space.
 *
 * Privacy. The row of a record is a function of that record and the parameters alone, bit for bit. A record stays in
 * its lane: no arithmetic takes two lanes, and a lane rounds as any other does, and as a number alone. Lanes that no
 * record fills have copies of the last one, and are not read. How far a row moves a sum does not rest on this file:
 * vf_clip_units holds each unit to the bound, whatever is here. What replacing a record costs does: `Mixture` proves it
 * of the row above, of real numbers, and `ConjugateModel` charges the rounding. Of a record that is not finite, or
 * whose square overflows, w s h h is NaN; a row that is not finite adds nothing. */
#include "declarations.h"

#include "simd/math.h"

/* Rows whose densities are in registers together: as many components times vectors on all machines. */
#define ROWS 8
#define VECTORS (ROWS / VF_ND)

/* e^x for x <= 0, within 2 units in the last place and 2^-1074: Taylor's series to degree 13, not fused. It has the
 * bits of `exp` in vips_fast/models/conjugate/block.py. NaN stays NaN. */
VF_INLINE vfd exp_down(vfd x) {
    /* Of a number and NaN either operation returns the second. The powers of two are to be of numbers. */
    const vfd least = vfd_set1(-800.0), held = vfd_max(least, x);
    const vfd n = vfd_rint(vfd_mul(vfd_max(x, least), vfd_set1(1.4426950408889634)));
    /* log 2 in two parts. The first has 21 zero bits at its end, so n times it is exact. */
    const vfd high = vfd_mul(n, vfd_set1(0.693147180369123816490));
    const vfd r = vfd_sub(vfd_sub(held, high), vfd_mul(n, vfd_set1(1.90821492927058770002e-10)));
    vfd p = vfd_set1(vfd_taylor[1]);
    for (int i = 2; i < 13; ++i) p = vfd_add(vfd_mul(p, r), vfd_set1(vfd_taylor[i]));
    p = vfd_add(vfd_set1(1.0), vfd_add(r, vfd_mul(vfd_mul(r, r), p)));
    /* 2^n in two factors: it may be below the normal numbers. */
    const vfd half = vfd_rint(vfd_mul(n, vfd_set1(0.5)));
    return vfd_mul(vfd_mul(p, vfd_pow2(half)), vfd_pow2(vfd_sub(n, half)));
}

/* Copies n rows to columns of x, the last one to all further rows up to m. */
static void transpose(int64_t n, int64_t m, int64_t d, int64_t stride, const double *records, double *x) {
    for (int64_t i = 0; i < m; i += VF_ND) {
        const double *rows[VF_ND];
        for (int64_t l = 0; l < VF_ND; ++l) rows[l] = records + (i + l < n ? i + l : n - 1) * d;
        int64_t j = 0;
        for (; j + 4 <= d; j += 4) {
            vfd columns[4];
            vfd_transpose4(rows, columns);
            for (int c = 0; c < 4; ++c) vfd_store(x + (j + c) * stride + i, columns[c]);
            for (int l = 0; l < VF_ND; ++l) rows[l] += 4;
        }
        for (int64_t c = j; c < d; ++c)
            for (int l = 0; l < VF_ND; ++l) x[c * stride + i + l] = rows[l][c - j];
    }
}

/* Scales x down to norm 1, and writes the statistic of its length. */
static void shorten(int64_t m, int64_t d, int64_t stride, double weight, double *x, double *energy) {
    const vfd w = vfd_set1(weight), one = vfd_set1(1.0);
    for (int64_t i = 0; i < m; i += VF_ND) {
        vfd square = vfd_set1(0.0);
        for (int64_t j = 0; j < d; ++j) {
            const vfd v = vfd_load(x + j * stride + i);
            square = vfd_add(square, vfd_mul(v, v));
        }
        const vfd inverse = vfd_div(one, vfd_max(vfd_sqrt(square), one));
        for (int64_t j = 0; j < d; ++j) {
            double *at = x + j * stride + i;
            vfd_store(at, vfd_mul(vfd_load(at), inverse));
        }
        vfd_store(energy + i, vfd_mul(vfd_mul(vfd_mul(w, square), inverse), inverse));
    }
}

/* The logs of n_of <= VF_ND components, for ROWS rows. */
VF_INLINE void add_columns(int n_of, int64_t d, int64_t stride, const double *constant, const double *linear,
                           const double *x, double *logs) {
    vfd sums[VF_ND][VECTORS];
    for (int k = 0; k < n_of; ++k)
        for (int v = 0; v < VECTORS; ++v) sums[k][v] = vfd_set1(constant[k]);
    for (int64_t j = 0; j < d; ++j) {
        vfd column[VECTORS];
        for (int v = 0; v < VECTORS; ++v) column[v] = vfd_load(x + j * stride + v * VF_ND);
        for (int k = 0; k < n_of; ++k) {
            const vfd slope = vfd_set1(linear[k * d + j]);
            for (int v = 0; v < VECTORS; ++v) sums[k][v] = vfd_add(sums[k][v], vfd_mul(slope, column[v]));
        }
    }
    for (int k = 0; k < n_of; ++k)
        for (int v = 0; v < VECTORS; ++v) vfd_store(logs + k * stride + v * VF_ND, sums[k][v]);
}

/* Turns columns of logs into responsibilities. */
static void normalize(int64_t m, int64_t n_components, int64_t stride, double *logs) {
    for (int64_t i = 0; i < m; i += VF_ND) {
        vfd top = vfd_set1(-INFINITY), total = vfd_set1(0.0);
        /* In this order NaN is passed over: no number is above the top, and no power of two is out of range. */
        for (int64_t k = 0; k < n_components; ++k) top = vfd_max(vfd_load(logs + k * stride + i), top);
        for (int64_t k = 0; k < n_components; ++k) {
            const vfd weight = exp_down(vfd_sub(vfd_load(logs + k * stride + i), top));
            total = vfd_add(total, weight);
            vfd_store(logs + k * stride + i, weight);
        }
        for (int64_t k = 0; k < n_components; ++k) {
            double *at = logs + k * stride + i;
            vfd_store(at, vfd_div(vfd_load(at), total));
        }
    }
}

/* The statistics of n >= 1 rows, as columns of values. */
static void fill(int64_t n, int64_t d, int64_t n_components, int64_t stride, const double *records,
                 const double *constant, const double *linear, double weight, double *values) {
    const int64_t m = VF_ROUND_UP(n, ROWS);
    double *products = values + n_components * stride, *x = products;
    transpose(n, m, d, stride, records, x);
    shorten(m, d, stride, weight, x, products + n_components * d * stride);
    for (int64_t i = 0; i < m; i += ROWS) {
        int64_t k = 0;
        for (; k + VF_ND <= n_components; k += VF_ND)
            add_columns(VF_ND, d, stride, constant + k, linear + k * d, x + i, values + k * stride + i);
        for (; k < n_components; ++k)
            add_columns(1, d, stride, constant + k, linear + k * d, x + i, values + k * stride + i);
    }
    normalize(m, n_components, stride, values);
    const vfd w = vfd_set1(weight);
    for (int64_t k = n_components - 1; k >= 0; --k) { /* the first, which is in x's place, at last */
        double *shares = values + k * stride;
        for (int64_t j = 0; j < d; ++j) {
            const double *column = x + j * stride;
            double *product = products + (k * d + j) * stride;
            for (int64_t i = 0; i < m; i += VF_ND)
                vfd_store(product + i, vfd_mul(vfd_load(shares + i), vfd_load(column + i)));
        }
        for (int64_t i = 0; i < m; i += VF_ND) vfd_store(shares + i, vfd_mul(vfd_load(shares + i), w));
    }
}

/* The number of statistics; 0 if it is out of range. */
static int64_t statistics(int64_t n_components, int64_t d) {
    const int64_t most = INT64_C(1) << 31;
    if (n_components < 1 || d < 1 || n_components > most || d > most) return 0;
    const int64_t size = n_components * (1 + d) + 1;
    return size > most ? 0 : size;
}

int32_t VF_FN(vf_mixture_rows)(int64_t n_rows, int64_t n_columns, int64_t n_components, int64_t n_padded,
                               const double *records, const double *constant, const double *linear, double weight,
                               double *values) {
    if (n_rows < 0 || n_padded < n_rows || n_padded % ROWS || !statistics(n_components, n_columns)) return VF_ERR_SIZE;
    if (n_padded > INT64_MAX / 8 / (INT64_C(1) << 31)) return VF_ERR_SIZE;
    if (n_rows == 0) return VF_OK;
    if (!records || !constant || !linear || !values) return VF_ERR_NULL;
    if (VF_OFF(records) | VF_OFF(constant) | VF_OFF(linear) | VF_OFF(values)) return VF_ERR_ALIGNMENT;
    fill(n_rows, n_columns, n_components, n_padded, records, constant, linear, weight, values);
    return VF_OK;
}

int32_t VF_FN(vf_mixture_units)(const vf_clip_params *params, int64_t n_rows, int64_t n_columns, int64_t n_components,
                                const int64_t *starts, const double *records, const double *constant,
                                const double *linear, double weight, double *values, double *carry, int64_t *counts,
                                int64_t *sums) {
    if (!params) return VF_ERR_NULL;
    const int64_t size = statistics(n_components, n_columns), stride = params->n_padded;
    if (!size || size != params->n_statistics || n_rows < 0 || n_rows > INT64_MAX / 8 / n_columns) return VF_ERR_SIZE;
    if (stride < ROWS || stride > VF_CLIP_ROWS || stride % ROWS) return VF_ERR_SIZE;
    int32_t status =
        VF_FN(vf_clip_units)(params, 0, 0, starts, values, NULL, carry, counts, sums); /* checks the bounds */
    if (status != VF_OK || n_rows == 0) return status;
    if (!starts || !records || !constant || !linear || !values || !carry || !counts || !sums) return VF_ERR_NULL;
    if (VF_OFF(starts) | VF_OFF(records) | VF_OFF(constant) | VF_OFF(linear)) return VF_ERR_ALIGNMENT;
    if (VF_OFF(values) | VF_OFF(carry) | VF_OFF(counts) | VF_OFF(sums)) return VF_ERR_ALIGNMENT;

    int64_t unit = 0;
    for (int64_t j = 0; j < size; ++j) carry[j] = 0.0;
    for (int64_t first = 0; first < n_rows && status == VF_OK; first += stride) {
        const int64_t n = n_rows - first < stride ? n_rows - first : stride;
        fill(n, n_columns, n_components, stride, records + first * n_columns, constant, linear, weight, values);
        status = VF_FN(vf_clip_units)(params, first, first + n, starts, values, &unit, carry, counts, sums);
    }
    return status;
}
