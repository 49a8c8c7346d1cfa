/* Gaussian noise for symmetric matrices.
 *
 * The triangle is drawn in packed order, 128 elements at a time, so that the bits depend only on the position. Groups
 * that hold a diagonal entry take a scale for each element. After ROWS rows these, still in cache, are copied below the
 * diagonal: each entry of the matrix goes through memory once. */
#include "declarations.h"

#include <string.h>

#include "noise/chacha20.h"
#include "noise/gaussian.h"
#include "simd/simd_int.h"

#define GROUP VF_CHACHA20_GROUP
/* Rows that are drawn before their mirror image is written: a few stay in L2, and each row below the diagonal has ROWS
 * consecutive entries. For the check, which needs no row twice, longer stretches of memory are better. */
#define ROWS 32
#define CHECKED_ROWS 256

VF_INLINE void *word(const int64_t *matrix, int64_t stride, int64_t i, int64_t j) {
    return (void *)(uintptr_t)(matrix + i * stride + j);
}

/* Fetch rows begin .. end - 1 (below `d`), columns from col to col + width, ahead of use; checked rows are written
 * later. */
VF_INLINE void touch(const int64_t *matrix, int64_t stride, int64_t begin, int64_t end, int64_t d, int64_t col,
                     int64_t width) {
    for (int64_t i = begin; i < end && i < d; ++i)
        for (int64_t j = 0; j < width + 7; j += 8)
            VF_PREFETCH(word(matrix, stride, i, col + (j < width ? j : width - 1)));
}

VF_INLINE void load_transposed(const int64_t *matrix, int64_t stride, int64_t i, int64_t j, vfq block[VF_ND]) {
    for (int k = 0; k < VF_ND; ++k) block[k] = vfq_load(word(matrix, stride, i + k, j));
    vfq_transpose(block);
}

/* Rows begin .. end - 1 of the upper triangle, copied below the diagonal. */
static void mirror(int64_t d, int64_t begin, int64_t end, int64_t stride, int64_t *matrix) {
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

/* Element number of the diagonal entry of a row. */
VF_INLINE int64_t packed(int64_t d, int64_t row) { return row * d - row * (row - 1) / 2; }

/* Noise and mirror together, while the rows are in cache. */
static int32_t add_noise(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal, double scale_off,
                         const uint8_t *key, int64_t stride, int64_t *matrix) {
    uint32_t k[8];
    uint64_t words[GROUP], noise[GROUP];
    double scales[GROUP];
    const double widest = scale_diagonal > scale_off ? scale_diagonal : scale_off;
    int32_t status = VF_OK;
    int64_t at = packed(d, row_begin), row = row_begin, done = row_begin;
    vf_load_key(key, k);
    while (row < row_end) {
        const int64_t group = at / GROUP, group_end = (group + 1) * GROUP;
        int64_t next = packed(d, row + (at > packed(d, row))); /* the next diagonal entry from `at` on */
        /* A group without a diagonal entry, or another row's, is added in its place. */
        const int whole = at == group * GROUP && next >= group_end;
        int32_t s;
        if (whole) {
            uint64_t *out = word(matrix, stride, row, row + (at - packed(d, row)));
            s = VF_FN(vf_gaussian_group)(k, group, scale_off, NULL, 1, words, out);
        } else if (next >= group_end) {
            s = VF_FN(vf_gaussian_group)(k, group, scale_off, NULL, 0, words, noise);
        } else {
            for (int j = 0; j < GROUP; ++j) scales[j] = scale_off;
            for (int64_t i = row + (at > packed(d, row)); i < d && packed(d, i) < group_end; ++i)
                scales[packed(d, i) - group * GROUP] = scale_diagonal;
            s = VF_FN(vf_gaussian_group)(k, group, widest, scales, 0, words, noise);
        }
        if (s != VF_OK) status = s;
        while (row < row_end && at < group_end) {
            const int64_t row_stop = packed(d, row + 1), stop = row_stop < group_end ? row_stop : group_end;
            int64_t *out = matrix + row * stride + row + (at - packed(d, row));
            const uint64_t *n = noise + (at - group * GROUP);
            for (int64_t j = 0; j < stop - at && !whole; ++j) out[j] = (int64_t)((uint64_t)out[j] + n[j]);
            at = stop;
            if (at == row_stop) {
                ++row;
                if (row - done == ROWS || row == row_end) {
                    mirror(d, done, row, stride, matrix);
                    done = row;
                }
            }
        }
    }
    vf_wipe(k, sizeof k);
    vf_wipe(words, sizeof words);
    vf_wipe(noise, sizeof noise);
    return status;
}

/* One entry of the triangle, with its mirror image. */
VF_INLINE void check_entry(const int64_t *matrix, int64_t stride, int64_t i, int64_t j, int64_t limit, int *bad,
                           int64_t *differ) {
    const int64_t x = matrix[i * stride + j];
    *bad |= x < -limit || x > limit;
    *differ |= x ^ matrix[j * stride + i];
}

/* Rows begin .. end - 1 of the triangle, some columns of all rows at a time. With up = 2^63 - 1 - limit, an
 * entry x is above `limit` if x + up has a sign that x has not. It is below -limit if x has one that x - (up + 1) has
 * not. */
static int32_t check_rows(int64_t d, int64_t begin, int64_t end, int64_t limit, int64_t stride, const int64_t *matrix) {
    const vfq up = vfq_set1((uint64_t)(INT64_MAX - limit)), down = vfq_set1((uint64_t)(INT64_MAX - limit) + 1);
    vfq differ = vfq_set1(0), beyond = vfq_set1(0);
    int64_t other = 0, j = begin;
    int bad = 0;
    for (; j + VF_ND <= d; j += VF_ND) {
        const int64_t stop = end < j + VF_ND ? end : j + VF_ND;
        int64_t i = begin;
        touch(matrix, stride, j + 8, j + 8 + VF_ND, d, begin, end - begin);
        for (; i + VF_ND <= stop; i += VF_ND) {
            vfq block[VF_ND];
            for (int k = 0; k < VF_ND; ++k) {
                const int64_t *p = matrix + (i + k) * stride + j;
                VF_FETCH((const void *)((uintptr_t)p + 2 * VF_LINE));
                const vfq x = block[k] = vfq_load((const void *)p);
                beyond = vfq_or(beyond, vfq_or(vfq_andnot(x, vfq_add(x, up)), vfq_andnot(vfq_sub(x, down), x)));
            }
            vfq_transpose(block);
            for (int k = 0; k < VF_ND; ++k)
                differ = vfq_or(differ, vfq_xor(block[k], vfq_load(word(matrix, stride, j + k, i))));
        }
        for (; i < stop; ++i)
            for (int64_t k = j; k < j + VF_ND; ++k) check_entry(matrix, stride, i, k, limit, &bad, &other);
    }
    for (; j < d; ++j)
        for (int64_t i = begin; i < end && i <= j; ++i) check_entry(matrix, stride, i, j, limit, &bad, &other);
    if (bad || vfq_any(vfq_andnot(vfq_set1(INT64_MAX), beyond))) return VF_ERR_RANGE;
    return other || vfq_any(differ) ? VF_ERR_PARAMETER : VF_OK;
}

static int32_t check(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                     const int64_t *matrix) {
    for (int64_t begin = row_begin; begin < row_end; begin += CHECKED_ROWS) {
        const int64_t end = row_end - begin < CHECKED_ROWS ? row_end : begin + CHECKED_ROWS;
        const int32_t status = check_rows(d, begin, end, limit, stride, matrix);
        if (status != VF_OK) return status;
    }
    return VF_OK;
}

/* d * d fits, and so does every element number. */
static int32_t check_sizes(int64_t d, int64_t row_begin, int64_t row_end, int64_t stride, const int64_t *matrix) {
    if (d < 1 || d > INT32_MAX || row_begin < 0 || row_end > d || row_begin > row_end || stride < d) return VF_ERR_SIZE;
    if (stride > INT64_MAX / 16 / d) return VF_ERR_SIZE;
    if (!matrix) return VF_ERR_NULL;
    return ((uintptr_t)matrix & 7u) ? VF_ERR_ALIGNMENT : VF_OK;
}

int32_t VF_FN(vf_symmetric_gaussian)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                     double scale_off, const uint8_t *key, int64_t stride, int64_t *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status != VF_OK) return status;
    if (!(scale_diagonal > 0.0 && scale_diagonal <= VF_GAUSSIAN_MAX_SCALE)) return VF_ERR_PARAMETER;
    if (!(scale_off > 0.0 && scale_off <= VF_GAUSSIAN_MAX_SCALE)) return VF_ERR_PARAMETER;
    if (!key) return VF_ERR_NULL;
    return add_noise(d, row_begin, row_end, scale_diagonal, scale_off, key, stride, matrix);
}

int32_t VF_FN(vf_symmetric_check)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                                  const int64_t *matrix) {
    int32_t status = check_sizes(d, row_begin, row_end, stride, matrix);
    if (status != VF_OK) return status;
    return limit < 0 ? VF_ERR_PARAMETER : check(d, row_begin, row_end, limit, stride, matrix);
}
