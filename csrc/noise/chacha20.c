/* ChaCha20 on VF_NW blocks side by side: vector lane = block, one vector per
 * state word, so that the rounds need no shuffle. */
#include "noise/chacha20.h"

#include "simd/simd_int.h"

/* x[w] = output word w of VF_NW blocks whose state words 12 are counter[lane]. */
VF_INLINE void blocks(const uint32_t *key, vfw counter, const uint32_t *nonce, vfw x[16]) {
    x[0] = vfw_set1(VF_CHACHA_C0);
    x[1] = vfw_set1(VF_CHACHA_C1);
    x[2] = vfw_set1(VF_CHACHA_C2);
    x[3] = vfw_set1(VF_CHACHA_C3);
    for (int i = 0; i < 8; ++i) x[4 + i] = vfw_set1(key[i]);
    x[12] = counter;
    for (int i = 0; i < 3; ++i) x[13 + i] = vfw_set1(nonce[i]);
#define STEP(a, b, c, d, n, m)               \
    x[a] = vfw_add(x[a], x[b]);              \
    x[d] = vfw_rotl(vfw_xor(x[d], x[a]), n); \
    x[c] = vfw_add(x[c], x[d]);              \
    x[b] = vfw_rotl(vfw_xor(x[b], x[c]), m);
/* Four independent quarter rounds, step by step, to fill the pipeline. */
#define FOUR(n, m, a, b, c, d, e, f, g, h, i, j, k, l, o, p, q, r) \
    STEP(a, b, c, d, n, m) STEP(e, f, g, h, n, m) STEP(i, j, k, l, n, m) STEP(o, p, q, r, n, m)
    for (int round = 0; round < 10; ++round) {
        FOUR(16, 12, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
        FOUR(8, 7, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)
        FOUR(16, 12, 0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14)
        FOUR(8, 7, 0, 5, 10, 15, 1, 6, 11, 12, 2, 7, 8, 13, 3, 4, 9, 14)
    }
#undef FOUR
#undef STEP
    x[0] = vfw_add(x[0], vfw_set1(VF_CHACHA_C0));
    x[1] = vfw_add(x[1], vfw_set1(VF_CHACHA_C1));
    x[2] = vfw_add(x[2], vfw_set1(VF_CHACHA_C2));
    x[3] = vfw_add(x[3], vfw_set1(VF_CHACHA_C3));
    for (int i = 0; i < 8; ++i) x[4 + i] = vfw_add(x[4 + i], vfw_set1(key[i]));
    x[12] = vfw_add(x[12], counter);
    for (int i = 0; i < 3; ++i) x[13 + i] = vfw_add(x[13 + i], vfw_set1(nonce[i]));
}

static const uint32_t lane_number[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

void VF_FN(vf_chacha20_group)(const uint32_t *key, uint64_t group, uint64_t *out) {
    const uint64_t block = group * 16; /* a multiple of 16: its low word does not wrap within the group */
    const uint32_t nonce[3] = {(uint32_t)(block >> 32), 0, 0};
    for (int h = 0; h < 16; h += VF_NW) {
        vfw x[16];
        blocks(key, vfw_add(vfw_set1((uint32_t)block + (uint32_t)h), vfw_load(lane_number)), nonce, x);
        for (int w = 0; w < 16; ++w) {
#if !defined(VF_ISA_PORTABLE) /* little-endian: the lanes are the words already */
            vfw_store((uint32_t *)(void *)(out + 8 * w) + h, x[w]);
#else
            uint32_t lanes[VF_NW];
            vfw_store(lanes, x[w]);
            for (int k = 0; k < VF_NW / 2; ++k)
                out[8 * w + h / 2 + k] = lanes[2 * k] | (uint64_t)lanes[2 * k + 1] << 32;
#endif
        }
    }
}

int32_t VF_FN(vf_chacha20_words)(int64_t n, int64_t first, const uint8_t *key, uint64_t *out) {
    if (n < 0 || first < 0 || n > INT64_MAX - first) return VF_ERR_SIZE;
    if (n == 0) return VF_OK;
    if (!key || !out) return VF_ERR_NULL;
    if (VF_OFF(out)) return VF_ERR_ALIGNMENT;
    uint32_t k[8];
    uint64_t words[VF_CHACHA20_GROUP];
    vf_load_key(key, k);
    for (int64_t i = first, end = first + n; i < end;) {
        const int64_t group = i / VF_CHACHA20_GROUP, skip = i % VF_CHACHA20_GROUP;
        const int64_t take = end - i < VF_CHACHA20_GROUP - skip ? end - i : VF_CHACHA20_GROUP - skip;
        if (take == VF_CHACHA20_GROUP) {
            VF_FN(vf_chacha20_group)(k, (uint64_t)group, out + (i - first));
        } else {
            VF_FN(vf_chacha20_group)(k, (uint64_t)group, words);
            memcpy(out + (i - first), words + skip, (size_t)take * sizeof *out);
        }
        i += take;
    }
    vf_wipe(k, sizeof k);
    vf_wipe(words, sizeof words);
    return VF_OK;
}

int32_t VF_FN(vf_chacha20_fill)(int64_t n_bytes, const uint8_t *key, const uint8_t *nonce, uint32_t counter,
                                uint8_t *out) {
    if (n_bytes < 0) return VF_ERR_SIZE;
    if (n_bytes == 0) return VF_OK;
    if (!key || !nonce || !out) return VF_ERR_NULL;
    if ((uint64_t)(n_bytes - 1) / 64 > UINT32_MAX - counter) return VF_ERR_SIZE;
    uint32_t k[8], t[3], lanes[16][VF_NW];
    uint8_t bytes[64 * VF_NW];
    vf_load_key(key, k);
    for (int i = 0; i < 3; ++i)
        t[i] = (uint32_t)nonce[4 * i] | (uint32_t)nonce[4 * i + 1] << 8 | (uint32_t)nonce[4 * i + 2] << 16 |
               (uint32_t)nonce[4 * i + 3] << 24;
    for (int64_t done = 0; done < n_bytes; done += sizeof bytes, counter += VF_NW) {
        vfw x[16];
        blocks(k, vfw_add(vfw_set1(counter), vfw_load(lane_number)), t, x);
        for (int w = 0; w < 16; ++w) vfw_store(lanes[w], x[w]);
        for (int b = 0; b < VF_NW; ++b)
            for (int w = 0; w < 16; ++w)
                for (int i = 0; i < 4; ++i) bytes[64 * b + 4 * w + i] = (uint8_t)(lanes[w][b] >> (8 * i));
        const int64_t left = n_bytes - done;
        memcpy(out + done, bytes, left < (int64_t)sizeof bytes ? (size_t)left : sizeof bytes);
    }
    vf_wipe(k, sizeof k);
    vf_wipe(lanes, sizeof lanes);
    vf_wipe(bytes, sizeof bytes);
    return VF_OK;
}
