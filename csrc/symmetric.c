/* Gaussian noise for symmetric matrices. See symmetric.h.
 *
 * The triangle is drawn in packed order, 128 elements at a time, so that the bits
 * depend on the position alone; groups that hold a diagonal entry take a scale
 * for each element. After ROWS rows these, still in cache, are copied below the
 * diagonal: each entry of the matrix goes through memory once. */
#include "symmetric.h"

#include <math.h>
#include <string.h>

#include "chacha20.h"
#include "gaussian.h"

#define GROUP VF_CHACHA20_GROUP
#define ROWS 32
#define COLUMNS 8

/* Element number of the diagonal entry of a row. */
VF_INLINE int64_t packed(int64_t d, int64_t row) { return row * d - row * (row - 1) / 2; }

#define ITEM int64_t
#define KERNEL(name) name##_i64
#define SPACING_ARG
#define SPACING
#define ADD(x, n) ((int64_t)((uint64_t)(x) + (uint64_t)(n)))
#define GOOD(x) ((x) >= -limit && (x) <= limit)
#include "symmetric_body.h"
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
#include "symmetric_body.h"

/* d * d fits, and so does every element number. */
static int32_t check_sizes(int64_t d, int64_t row_begin, int64_t row_end, int64_t stride, const void *matrix) {
    if (d < 1 || d > INT32_MAX || row_begin < 0 || row_end > d || row_begin > row_end || stride < d) return VF_ERR_SIZE;
    return matrix ? VF_OK : VF_ERR_NULL;
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
