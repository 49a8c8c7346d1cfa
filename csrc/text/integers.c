/* Parses the numbers of a text. */
#include "vips_fast/vips_fast.h"

/* Any number of as many digits fits an int64. */
enum { MOST_DIGITS = 18 };

int32_t vf_integers(const uint8_t *text, int64_t n_bytes, int32_t colons, int64_t *values, int64_t *lines,
                    uint8_t *joined, int64_t n_values, int64_t *summary);

int32_t vf_integers(const uint8_t *text, int64_t n_bytes, int32_t colons, int64_t *values, int64_t *lines,
                    uint8_t *joined, int64_t n_values, int64_t *summary) {
    if (!text || !values || !lines || !joined || !summary) return VF_ERR_NULL;
    if (n_bytes < 0 || n_values < 0) return VF_ERR_SIZE;
    if (((uintptr_t)values | (uintptr_t)lines | (uintptr_t)summary) & 7) return VF_ERR_ALIGNMENT;
    int64_t i = 0, n = 0, line = 0, n_colons = 0, end = 0; /* end: of the number before */
    for (; i < n_bytes; ++i) {
        uint32_t digit = (uint32_t)text[i] - '0';
        if (digit < 10) {
            if (n == n_values) return VF_ERR_WORKSPACE;
            const int64_t first = i, most = n_bytes - i < MOST_DIGITS ? n_bytes : i + MOST_DIGITS;
            int64_t value = 0;
            do value = 10 * value + digit;
            while (++i < most && (digit = (uint32_t)text[i] - '0') < 10);
            if (i < n_bytes && (uint32_t)text[i] - '0' < 10) break;
            values[n] = value;
            lines[n] = line;
            joined[n++] = first == end + 1 && text[end] == ':';
            end = i--;
        } else if (text[i] == '\n') {
            ++line;
        } else if (text[i] == ':' && colons) {
            ++n_colons;
        } else if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r') {
            break;
        }
    }
    summary[0] = n;
    summary[1] = line;
    summary[2] = n_colons;
    summary[3] = i;
    return VF_OK;
}
