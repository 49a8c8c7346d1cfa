/* Symmetric noise for one element type. Included twice by symmetric.c, which
 * defines ITEM, KERNEL, SPACING_ARG, ADD(x, n) and GOOD(x). */

static void KERNEL(add_row)(int64_t n, SPACING_ARG const uint64_t *noise, ITEM *row) {
    for (int64_t j = 0; j < n; ++j) row[j] = ADD(row[j], (int64_t)noise[j]);
}

/* Rows row_begin .. row_end - 1 (at most ROWS) of the upper triangle, copied
 * below the diagonal. Columns go through a tile: whole cache lines are read from
 * each row and ROWS consecutive entries written to each. */
static void KERNEL(mirror)(int64_t d, int64_t row_begin, int64_t row_end, int64_t stride, ITEM *matrix) {
    ITEM tile[COLUMNS][ROWS];
    const int64_t height = row_end - row_begin;
    for (int64_t i = row_begin; i < row_end; ++i)
        for (int64_t j = i + 1; j < row_end; ++j) matrix[j * stride + i] = matrix[i * stride + j];
    for (int64_t c = row_end; c < d; c += COLUMNS) {
        const int64_t width = d - c < COLUMNS ? d - c : COLUMNS;
        if (width == COLUMNS && height == ROWS) {
            for (int64_t i = 0; i < ROWS; ++i)
                for (int64_t j = 0; j < COLUMNS; ++j) tile[j][i] = matrix[(row_begin + i) * stride + c + j];
        } else {
            for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < width; ++j) tile[j][i] = matrix[(row_begin + i) * stride + c + j];
        }
        for (int64_t j = 0; j < width; ++j)
            memcpy(matrix + (c + j) * stride + row_begin, tile[j], (size_t)height * sizeof(ITEM));
    }
}

/* Noise and mirror together, while the rows are in cache. */
static int32_t KERNEL(symmetric)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                 double scale_off, SPACING_ARG const uint8_t *key, int64_t stride, ITEM *matrix) {
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
            KERNEL(add_row)(stop - at, SPACING noise + (at - group * GROUP), matrix + row * stride + row + (at - packed(d, row)));
            at = stop;
            if (at == row_stop) {
                ++row;
                if (row - done == ROWS || row == row_end) {
                    KERNEL(mirror)(d, done, row, stride, matrix);
                    done = row;
                }
            }
        }
    }
    vf_wipe(k, sizeof k);
    vf_wipe(noise, sizeof noise);
    return status;
}

static int32_t KERNEL(check)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, SPACING_ARG int64_t stride,
                             const ITEM *matrix) {
    ITEM tile[COLUMNS][ROWS];
    for (int64_t r = row_begin; r < row_end; r += ROWS) {
        const int64_t height = row_end - r < ROWS ? row_end - r : ROWS;
        for (int64_t i = r; i < r + height; ++i) {
            int bad = 0;
            for (int64_t j = i; j < d; ++j) bad |= !GOOD(matrix[i * stride + j]);
            if (bad) return VF_ERR_RANGE;
        }
        for (int64_t i = r; i < r + height; ++i)
            for (int64_t j = i + 1; j < r + height; ++j)
                if (matrix[j * stride + i] != matrix[i * stride + j]) return VF_ERR_PARAMETER;
        for (int64_t c = r + height; c < d; c += COLUMNS) {
            const int64_t width = d - c < COLUMNS ? d - c : COLUMNS;
            for (int64_t i = 0; i < height; ++i)
                for (int64_t j = 0; j < width; ++j) tile[j][i] = matrix[(r + i) * stride + c + j];
            for (int64_t j = 0; j < width; ++j) {
                int bad = 0;
                for (int64_t i = 0; i < height; ++i) bad |= matrix[(c + j) * stride + r + i] != tile[j][i];
                if (bad) return VF_ERR_PARAMETER;
            }
        }
    }
    return VF_OK;
}
