/* Symmetric noise for one element type. Included twice by symmetric.c, which
 * defines ITEM, KERNEL, SPACING_ARG, SPACING, ADD(x, n) and GOOD(x). */

static void KERNEL(add_row)(int64_t n, SPACING_ARG const uint64_t *noise, ITEM *row) {
    for (int64_t j = 0; j < n; ++j) row[j] = ADD(row[j], (int64_t)noise[j]);
}

/* Noise and mirror together, while the rows are in cache. */
static int32_t KERNEL(symmetric)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal, double scale_off,
                                 SPACING_ARG const uint8_t *key, int64_t stride, ITEM *matrix) {
    uint32_t k[8];
    uint64_t noise[GROUP];
    double scales[GROUP];
    const double widest = scale_diagonal > scale_off ? scale_diagonal : scale_off;
    int32_t status = VF_OK;
    int64_t at = packed(d, row_begin), row = row_begin, done = row_begin;
    vf_load_key(key, k);
    while (row < row_end) {
        const int64_t group = at / GROUP, group_end = (group + 1) * GROUP;
        int64_t next = packed(d, row + (at > packed(d, row))); /* the next diagonal entry from `at` on */
        int32_t s;
        if (next >= group_end) {
            s = VF_FN(vf_gaussian_group)(k, group, scale_off, NULL, noise);
        } else {
            for (int j = 0; j < GROUP; ++j) scales[j] = scale_off;
            for (int64_t i = row + (at > packed(d, row)); i < d && packed(d, i) < group_end; ++i)
                scales[packed(d, i) - group * GROUP] = scale_diagonal;
            s = VF_FN(vf_gaussian_group)(k, group, widest, scales, noise);
        }
        if (s != VF_OK) status = s;
        while (row < row_end && at < group_end) {
            const int64_t row_stop = packed(d, row + 1), stop = row_stop < group_end ? row_stop : group_end;
            KERNEL(add_row)
            (stop - at, SPACING noise + (at - group * GROUP), matrix + row * stride + row + (at - packed(d, row)));
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
    vf_wipe(noise, sizeof noise);
    return status;
}

/* In square tiles above the diagonal, each compared with its mirror image. */
static int32_t KERNEL(check)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, SPACING_ARG int64_t stride,
                             const ITEM *matrix) {
    for (int64_t r0 = row_begin; r0 < row_end; r0 += TILE) {
        const int64_t r1 = row_end - r0 < TILE ? row_end : r0 + TILE;
        for (int64_t c0 = r0; c0 < d; c0 += TILE) {
            const int64_t c1 = d - c0 < TILE ? d : c0 + TILE;
            int bad = 0;
            for (int64_t i = r0; i < r1; ++i)
                for (int64_t j = c0; j < c1; ++j) bad |= !GOOD(matrix[i * stride + j]);
            if (bad) return VF_ERR_RANGE;
            /* Equal bits settle a whole tile; a tile at the edge, or with a zero of each sign, is compared by value. */
            if (r1 - r0 == TILE && c1 - c0 == TILE && same_bits(r0, c0, stride, matrix)) continue;
            for (int64_t i = r0; i < r1; ++i)
                for (int64_t j = c0; j < c1; ++j)
                    if (matrix[j * stride + i] != matrix[i * stride + j]) return VF_ERR_PARAMETER;
        }
    }
    return VF_OK;
}
