/* Numbers the words of texts by first appearance. */
#include <string.h>

#include "vips_fast/vips_fast.h"

/* The bytes that never stand in UTF-8: this one, and 0xff, which separates words. */
enum { END_OF_TEXT = 0xfe, AT_ONCE = 32 };

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

/* Eight bytes, the first in the lowest. */
static inline uint64_t eight(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* How many of eight bytes stand before the first that ends a word. */
static inline int before_end(uint64_t x) {
    const uint64_t ones = UINT64_C(0x0101010101010101), t = ~x & ~ones, found = (t - ones) & ~t & ones << 7;
    return found ? __builtin_ctzll(found) >> 3 : 8;
}

/* The hash of the word at text[*i], which then is its end. */
static inline uint64_t hashed(const uint8_t *text, int64_t *i, int64_t n_bytes, uint64_t seed) {
    const int64_t first = *i;
    int64_t at = first;
    uint64_t v[4] = {seed ^ 0x736f6d6570736575u, 0x646f72616e646f6du, seed ^ 0x6c7967656e657261u, 0x7465646279746573u};
    uint64_t word = 0;
    int n = 8;
    for (; n_bytes - at >= 8 && (n = before_end(word = eight(text + at))) == 8; at += 8) sip_add(v, word);
    if (n == 8) { /* The last bytes of the text. */
        word = 0;
        for (n = 0; at + n < n_bytes && text[at + n] < END_OF_TEXT; ++n) word |= (uint64_t)text[at + n] << 8 * n;
    }
    at += n;
    sip_add(v, (word & ((UINT64_C(1) << 8 * n) - 1)) | (uint64_t)(at - first) << 56);
    v[2] ^= 0xff;
    for (int round = 0; round < 3; ++round) sip_round(v);
    *i = at;
    return v[0] ^ v[1] ^ v[2] ^ v[3];
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
        /* The places of a few words are fetched together: they are anywhere in the table. */
        int64_t first[AT_ONCE], length[AT_ONCE];
        uint64_t hash[AT_ONCE];
        int n_words = 0;
        while (i < n_bytes && n_words < AT_ONCE) {
            if (text[i] >= END_OF_TEXT) {
                if (text[i++] == END_OF_TEXT) {
                    if (texts == n_texts) return VF_ERR_WORKSPACE;
                    text_ends[texts++] = found + n_words;
                }
                continue;
            }
            if (found + n_words == n_numbers) return VF_ERR_WORKSPACE;
            first[n_words] = i;
            hash[n_words] = hashed(text, &i, n_bytes, seed);
            length[n_words] = i - first[n_words];
            __builtin_prefetch(slots + (hash[n_words++] & (uint64_t)(n_slots - 1)));
        }
        for (int w = 0; w < n_words; ++w) {
            const int64_t number = (int64_t)(slots[hash[w] & (uint64_t)(n_slots - 1)] & UINT32_MAX) - 1;
            if (number >= 0 && number < n_known) __builtin_prefetch(ends + number);
        }
        for (int w = 0; w < n_words; ++w) {
            const uint8_t *own = text + first[w];
            const uint64_t tag = hash[w] >> 32 << 32;
            /* At least half of the slots are empty, if the table is sound. */
            for (int64_t probe = (int64_t)(hash[w] & (uint64_t)(n_slots - 1)), tried = 0;;
                 probe = (probe + 1) & (n_slots - 1)) {
                int64_t number = (int64_t)(slots[probe] & UINT32_MAX) - 1;
                if (number < 0) {
                    if (n_known == n_ends || 2 * n_known >= n_slots || length[w] >= known_bytes - end)
                        return VF_ERR_WORKSPACE;
                    number = n_known++;
                    slots[probe] = tag | (uint64_t)n_known;
                    memcpy(known + end, own, (size_t)length[w]);
                    known[end + length[w]] = 0xff;
                    ends[number] = end += length[w] + 1;
                    numbers[found++] = (int32_t)number;
                    break;
                }
                if (number >= n_known || ++tried > n_slots) return VF_ERR_INDEX;
                if ((slots[probe] ^ tag) >> 32) continue;
                const int64_t begin = number ? ends[number - 1] : 0;
                if (begin < 0 || begin > ends[number] || ends[number] > end) return VF_ERR_INDPTR;
                if (ends[number] - begin - 1 == length[w] && !memcmp(known + begin, own, (size_t)length[w])) {
                    numbers[found++] = (int32_t)number;
                    break;
                }
            }
        }
    }
    *n_found = found;
    return VF_OK;
}
