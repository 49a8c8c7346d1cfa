/* Gaussian noise for symmetric matrices: declarations, one copy per instruction
 * set (see vf_isa.h). */
#ifndef VF_SYMMETRIC_H
#define VF_SYMMETRIC_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* Noise for rows row_begin .. row_end - 1 of the upper triangle of the symmetric
 * d x d matrix, added in place and mirrored below the diagonal. Entry (i, j), j
 * >= i, takes element i d - i (i - 1)/2 + j - i of the key's noise (gaussian.h),
 * at scale_diagonal where i = j and at scale_off elsewhere. Rows are `stride`
 * elements apart. Different row ranges touch different entries and may run at
 * the same time. Nothing is checked here: see vf_symmetric_check_*. */
int32_t VF_FN(vf_symmetric_gaussian_i64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                         double scale_off, const uint8_t *key, int64_t stride, int64_t *matrix);
/* The same for a matrix of multiples of `spacing`, a power of two: spacing * element is added. */
int32_t VF_FN(vf_symmetric_gaussian_f64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                         double scale_off, double spacing, const uint8_t *key, int64_t stride,
                                         double *matrix);

/* Rows row_begin .. row_end - 1 and columns alike. VF_ERR_PARAMETER if the
 * matrix differs from its transpose, VF_ERR_RANGE if some |entry| exceeds `limit`
 * (f64: limit * spacing, or is no multiple of spacing). */
int32_t VF_FN(vf_symmetric_check_i64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                                      const int64_t *matrix);
int32_t VF_FN(vf_symmetric_check_f64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, double spacing,
                                      int64_t stride, const double *matrix);

#endif
