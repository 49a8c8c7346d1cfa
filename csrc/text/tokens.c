/* Numbers the words of texts by first appearance. */
#include <string.h>

#include "vips_fast/vips_fast.h"

/* The bytes that never stand in UTF-8: this one, and 0xff, which separates words. */
enum { END_OF_TEXT = 0xfe };

static inline uint64_t rotated(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

/* SipHash of Aumasson and Bernstein (2012), with one round a word and three at the end; half of its key is 0. */
static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = rotated(v[1], 13) ^ v[0], v[3] = rotated(v[3], 16) ^ v[2];
    v[0] = rotated(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotated(v[1], 17) ^ v[2], v[3] = rotated(v[3], 21) ^ v[0];
    v[2] = rotated(v[2], 32);
}

static inline void sip_add(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

int32_t vf_token_numbers(const uint8_t *text, int64_t n_bytes, uint64_t seed, uint64_t *slots, int64_t n_slots,
                         uint8_t *known, int64_t known_bytes, int64_t *ends, int64_t n_ends, int64_t n_known,
                         int32_t *numbers, int64_t n_numbers, int64_t *text_ends, int64_t n_texts, int64_t *n_found);

int32_t vf_token_numbers(const uint8_t *text, int64_t n_bytes, uint64_t seed, uint64_t *slots, int64_t n_slots,
                         uint8_t *known, int64_t known_bytes, int64_t *ends, int64_t n_ends, int64_t n_known,
                         int32_t *numbers, int64_t n_numbers, int64_t *text_ends, int64_t n_texts, int64_t *n_found) {
    if (!text || !slots || !known || !ends || !numbers || !text_ends || !n_found) return VF_ERR_NULL;
    if (n_bytes < 0 || n_bytes > INT32_MAX || n_known < 0 || n_known > n_ends || known_bytes < 0 || n_texts < 0 ||
        n_slots > (INT64_C(1) << 31) || n_slots < 1 || (n_slots & (n_slots - 1)))
        return VF_ERR_SIZE;
    if (((uintptr_t)slots | (uintptr_t)ends | (uintptr_t)text_ends) & 7 || (uintptr_t)numbers & 3)
        return VF_ERR_ALIGNMENT;
    int64_t end = n_known ? ends[n_known - 1] : 0, found = 0, texts = 0;
    if (end < 0 || end > known_bytes) return VF_ERR_INDPTR;
    for (int64_t i = 0; i < n_bytes;) {
        if (text[i] >= END_OF_TEXT) {
            if (text[i++] == END_OF_TEXT) {
                if (texts == n_texts) return VF_ERR_WORKSPACE;
                text_ends[texts++] = found;
            }
            continue;
        }
        if (found == n_numbers) return VF_ERR_WORKSPACE;
        const int64_t first = i;
        uint64_t v[4] = {seed ^ 0x736f6d6570736575u, 0x646f72616e646f6du, seed ^ 0x6c7967656e657261u,
                         0x7465646279746573u};
        uint64_t word = 0;
        do {
            word |= (uint64_t)text[i] << (8 * ((i - first) & 7));
            if (!((++i - first) & 7)) {
                sip_add(v, word);
                word = 0;
            }
        } while (i < n_bytes && text[i] < END_OF_TEXT);
        const int64_t length = i - first;
        sip_add(v, word | (uint64_t)length << 56);
        v[2] ^= 0xff;
        for (int round = 0; round < 3; ++round) sip_round(v);
        const uint64_t hash = v[0] ^ v[1] ^ v[2] ^ v[3];
        const uint64_t tag = hash >> 32 << 32;
        /* At least half of the slots are empty, if the table is sound. */
        for (int64_t probe = (int64_t)(hash & (uint64_t)(n_slots - 1)), tried = 0;;
             probe = (probe + 1) & (n_slots - 1)) {
            int64_t number = (int64_t)(slots[probe] & UINT32_MAX) - 1;
            if (number < 0) {
                if (n_known == n_ends || 2 * n_known >= n_slots || length >= known_bytes - end) return VF_ERR_WORKSPACE;
                number = n_known++;
                slots[probe] = tag | (uint64_t)n_known;
                memcpy(known + end, text + first, (size_t)length);
                known[end + length] = 0xff;
                ends[number] = end += length + 1;
                numbers[found++] = (int32_t)number;
                break;
            }
            if (number >= n_known || ++tried > n_slots) return VF_ERR_INDEX;
            if ((slots[probe] ^ tag) >> 32) continue;
            const int64_t begin = number ? ends[number - 1] : 0;
            if (begin < 0 || begin > ends[number] || ends[number] > end) return VF_ERR_INDPTR;
            if (ends[number] - begin - 1 == length && !memcmp(known + begin, text + first, (size_t)length)) {
                numbers[found++] = (int32_t)number;
                break;
            }
        }
    }
    *n_found = found;
    return VF_OK;
}
