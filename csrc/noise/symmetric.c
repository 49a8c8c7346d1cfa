/* Gaussian noise for symmetric matrices.
 *
 * The triangle is drawn in packed order, 128 elements at a time, so that the bits
 * depend on the position alone; groups that hold a diagonal entry take a scale
 * for each element. After ROWS rows these, still in cache, are copied below the
 * diagonal: each entry of the matrix goes through memory once. */
#include "declarations.h"

#include <math.h>
#include <string.h>

#include "noise/chacha20.h"
#include "noise/gaussian.h"
#include "simd/simd_int.h"

#define GROUP VF_CHACHA20_GROUP
/* Rows that are drawn before they are mirrored: a few stay in L2, and each row
 * below the diagonal gets ROWS consecutive entries. */
#define ROWS 32
/* Side of the square tiles of the symmetry check. */
#define TILE 64

/* The matrix as 64-bit words, whatever their type. */
VF_INLINE void *word(const void *matrix, int64_t stride, int64_t i, int64_t j) {
    return (char *)(uintptr_t)matrix + 8 * (i * stride + j);
}

/* Fetch rows begin .. end - 1 (below `d`), columns from col to col + width, ahead of writing them. */
VF_INLINE void touch(const void *matrix, int64_t stride, int64_t begin, int64_t end, int64_t d, int64_t col,
                     int64_t width) {
    for (int64_t i = begin; i < end && i < d; ++i)
        for (int64_t j = 0; j < width + 7; j += 8)
            VF_PREFETCH(word(matrix, stride, i, col + (j < width ? j : width - 1)));
}

VF_INLINE void load_transposed(const void *matrix, int64_t stride, int64_t i, int64_t j, vfq block[VF_ND]) {
    for (int k = 0; k < VF_ND; ++k) block[k] = vfq_load(word(matrix, stride, i + k, j));
    vfq_transpose(block);
}

/* Rows begin .. end - 1 of the upper triangle, copied below the diagonal. */
static void mirror(int64_t d, int64_t begin, int64_t end, int64_t stride, void *matrix) {
    for (int64_t i = begin; i < end; ++i)
        for (int64_t j = i + 1; j < end; ++j) memcpy(word(matrix, stride, j, i), word(matrix, stride, i, j), 8);
    int64_t j = end;
    for (; j + VF_ND <= d; j += VF_ND) {
        touch(matrix, stride, j + 8, j + 8 + VF_ND, d, begin, end - begin);
        int64_t i = begin;
        for (; i + VF_ND <= end; i += VF_ND) {
            vfq block[VF_ND];
            load_transposed(matrix, stride, i, j, block);
            for (int k = 0; k < VF_ND; ++k) vfq_store(word(matrix, stride, j + k, i), block[k]);
        }
        for (; i < end; ++i)
            for (int k = 0; k < VF_ND; ++k) memcpy(word(matrix, stride, j + k, i), word(matrix, stride, i, j + k), 8);
    }
    for (; j < d; ++j)
        for (int64_t i = begin; i < end; ++i) memcpy(word(matrix, stride, j, i), word(matrix, stride, i, j), 8);
}

/* Whether the TILE x TILE entries from (r0, c0) on have the same bits as their mirror image. */
static int same_bits(int64_t r0, int64_t c0, int64_t stride, const void *matrix) {
    const vfq first = vfq_load(word(matrix, stride, r0, c0));
    vfq differ = vfq_xor(first, first);
    for (int64_t j = c0; j < c0 + TILE; j += VF_ND)
        for (int64_t i = r0; i < r0 + TILE; i += VF_ND) {
            vfq block[VF_ND];
            load_transposed(matrix, stride, i, j, block);
            for (int k = 0; k < VF_ND; ++k)
                differ = vfq_or(differ, vfq_xor(block[k], vfq_load(word(matrix, stride, j + k, i))));
        }
    return !vfq_any(differ);
}

/* Element number of the diagonal entry of a row. */
VF_INLINE int64_t packed(int64_t d, int64_t row) { return row * d - row * (row - 1) / 2; }

#define ITEM int64_t
#define KERNEL(name) name##_i64
#define SPACING_ARG
#define SPACING
#define ADD(x, n) ((int64_t)((uint64_t)(x) + (uint64_t)(n)))
#define GOOD(x) ((x) >= -limit && (x) <= limit)
#include "noise/symmetric_body.h"
#undef ITEM
#undef KERNEL
#undef SPACING_ARG
#undef SPACING
#undef ADD
#undef GOOD

/* spacing is a power of two and |x| / spacing + |n| <= 2^53: everything is exact. */
#define ITEM double
#define KERNEL(name) name##_f64
#define SPACING_ARG const double spacing,
#define SPACING spacing,
#define ADD(x, n) ((x) + spacing * (double)(n))
#define GOOD(x) (fabs(x) <= (double)limit * spacing && rint((x) / spacing) * spacing == (x))
#include "noise/symmetric_body.h"

/* d * d fits, and so does every element number. */
static int32_t check_sizes(int64_t d, int64_t row_begin, int64_t row_end, int64_t stride, const void *matrix) {
    if (d < 1 || d > INT32_MAX || row_begin < 0 || row_end > d || row_begin > row_end || stride < d) return VF_ERR_SIZE;
    if (stride > INT64_MAX / 16 / d) return VF_ERR_SIZE;
    if (!matrix) return VF_ERR_NULL;
    return ((uintptr_t)matrix & 7u) ? VF_ERR_ALIGNMENT : VF_OK; /* int64_t or double */
}

static int32_t check_scales(double scale_diagonal, double scale_off) {
    return scale_diagonal > 0.0 && scale_diagonal <= VF_GAUSSIAN_MAX_SCALE && scale_off > 0.0 &&
                   scale_off <= VF_GAUSSIAN_MAX_SCALE
               ? VF_OK
               : VF_ERR_PARAMETER;
}

static int32_t check_spacing(double spacing) {
    int exponent;
    return spacing >= 0x1p-900 && spacing <= 0x1p900 && frexp(spacing, &exponent) == 0.5 ? VF_OK : VF_ERR_PARAMETER;
}

int32_t VF_FN(vf_symmetric_gaussian_i64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                         double scale_off, const uint8_t *key, int64_t stride, int64_t *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status == VF_OK) status = check_scales(scale_diagonal, scale_off);
    if (status == VF_OK && !key) status = VF_ERR_NULL;
    return status != VF_OK ? status
                           : symmetric_i64(d, row_begin, row_end, scale_diagonal, scale_off, key, stride, matrix);
}

int32_t VF_FN(vf_symmetric_gaussian_f64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                         double scale_off, double spacing, const uint8_t *key, int64_t stride,
                                         double *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status == VF_OK) status = check_scales(scale_diagonal, scale_off);
    if (status == VF_OK) status = check_spacing(spacing);
    if (status == VF_OK && !key) status = VF_ERR_NULL;
    return status != VF_OK
               ? status
               : symmetric_f64(d, row_begin, row_end, scale_diagonal, scale_off, spacing, key, stride, matrix);
}

int32_t VF_FN(vf_symmetric_check_i64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                                      const int64_t *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status == VF_OK && limit < 0) status = VF_ERR_PARAMETER;
    return status != VF_OK ? status : check_i64(d, row_begin, row_end, limit, stride, matrix);
}

int32_t VF_FN(vf_symmetric_check_f64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, double spacing,
                                      int64_t stride, const double *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status == VF_OK && (limit < 0 || limit > (int64_t)1 << 53)) status = VF_ERR_PARAMETER;
    if (status == VF_OK) status = check_spacing(spacing);
    return status != VF_OK ? status : check_f64(d, row_begin, row_end, limit, spacing, stride, matrix);
}
