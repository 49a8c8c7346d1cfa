/* Finds the cells of tables in text. */
#include <string.h>

#include "vips_fast/vips_fast.h"

int32_t vf_csv_cells(const uint8_t *text, int64_t n_bytes, int32_t delimiter, int64_t n_columns, int64_t *begins,
                     int64_t *ends, int64_t n_cells, int64_t *summary);

int32_t vf_csv_cells(const uint8_t *text, int64_t n_bytes, int32_t delimiter, int64_t n_columns, int64_t *begins,
                     int64_t *ends, int64_t n_cells, int64_t *summary) {
    if (!text || !begins || !ends || !summary) return VF_ERR_NULL;
    if (n_bytes < 0 || n_columns < 1 || n_cells < 0) return VF_ERR_SIZE;
    if (((uintptr_t)begins | (uintptr_t)ends | (uintptr_t)summary) & 7) return VF_ERR_ALIGNMENT;
    if (delimiter < 1 || delimiter > 127 || delimiter == '"' || delimiter == '\r' || delimiter == '\n')
        return VF_ERR_PARAMETER;
    int64_t n_rows = 0, done = 0, lines = 0, odd = 0; /* up to the end of the last whole row */
    while (done < n_bytes && n_columns <= n_cells - n_rows * n_columns) {
        int64_t i = done, own = 0, *begin = begins + n_rows * n_columns, *end = ends + n_rows * n_columns;
        int64_t column = 0;
        /* A line of nothing is no row. */
        if (text[i] == '\n' || (text[i] == '\r' && i + 1 < n_bytes && text[i + 1] == '\n')) {
            done = i + 1 + (text[i] == '\r');
            ++lines;
            continue;
        }
        for (;; ++column) {
            int64_t doubled = 0;
            if (column == n_columns) odd = 1;
            if (odd || i == n_bytes) break;
            if (text[i] == '"') {
                begin[column] = ++i;
                for (;; i += 2, doubled = 1) {
                    for (; i < n_bytes && text[i] != '"'; ++i) own += text[i] == '\n';
                    if (i + 1 >= n_bytes || text[i + 1] != '"') break;
                }
                if (i + 1 >= n_bytes) break;
                end[column] = doubled ? -1 - i : i;
                ++i;
            } else {
                begin[column] = i;
                while (i < n_bytes && text[i] != delimiter && text[i] != '\n' && text[i] != '\r' && text[i]) ++i;
                if (i == n_bytes) break;
                end[column] = i;
            }
            if (text[i] == delimiter) {
                ++i;
                continue;
            }
            if (text[i] == '\r' && ++i == n_bytes) break;
            if (text[i] != '\n' || column + 1 < n_columns) {
                odd = 1;
                break;
            }
            ++n_rows;
            lines += own + 1;
            done = i + 1;
            break;
        }
        if (done <= i) break; /* The row is odd, or its end is behind the text. */
    }
    summary[0] = n_rows;
    summary[1] = done;
    summary[2] = lines;
    summary[3] = odd;
    return VF_OK;
}
