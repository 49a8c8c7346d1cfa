/* ChaCha20, one block at a time, and the handling of keys: the same for every
 * instruction set. See chacha20.h for the layout of the state. */
#ifndef VF_CHACHA20_BLOCK_H
#define VF_CHACHA20_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Overwrite memory in a way that the compiler may not drop. */
static inline void vf_wipe(void *p, size_t n) {
#if defined(__GNUC__)
    memset(p, 0, n);
    __asm__ __volatile__("" : : "r"(p) : "memory");
#else
    volatile unsigned char *c = p;
    while (n--) *c++ = 0;
#endif
}

static inline void vf_load_key(const uint8_t *bytes, uint32_t *key) {
    for (int i = 0; i < 8; ++i)
        key[i] = (uint32_t)bytes[4 * i] | (uint32_t)bytes[4 * i + 1] << 8 | (uint32_t)bytes[4 * i + 2] << 16 |
                 (uint32_t)bytes[4 * i + 3] << 24;
}

#define VF_CHACHA_C0 0x61707865u /* "expand 32-byte k" */
#define VF_CHACHA_C1 0x3320646eu
#define VF_CHACHA_C2 0x79622d32u
#define VF_CHACHA_C3 0x6b206574u

/* out[16] = block of the state (constants, key[8], tail[4]). */
static inline void vf_chacha20_block(const uint32_t *key, const uint32_t *tail, uint32_t *out) {
    uint32_t x[16] = {VF_CHACHA_C0, VF_CHACHA_C1, VF_CHACHA_C2, VF_CHACHA_C3};
    uint32_t start[16];
    memcpy(x + 4, key, 32);
    memcpy(x + 12, tail, 16);
    memcpy(start, x, sizeof x);
#define VF_ROTL(v, n) ((v) << (n) | (v) >> (32 - (n)))
#define VF_QR(a, b, c, d)            \
    x[a] += x[b];                    \
    x[d] = VF_ROTL(x[d] ^ x[a], 16); \
    x[c] += x[d];                    \
    x[b] = VF_ROTL(x[b] ^ x[c], 12); \
    x[a] += x[b];                    \
    x[d] = VF_ROTL(x[d] ^ x[a], 8);  \
    x[c] += x[d];                    \
    x[b] = VF_ROTL(x[b] ^ x[c], 7)
    for (int round = 0; round < 10; ++round) {
        VF_QR(0, 4, 8, 12);
        VF_QR(1, 5, 9, 13);
        VF_QR(2, 6, 10, 14);
        VF_QR(3, 7, 11, 15);
        VF_QR(0, 5, 10, 15);
        VF_QR(1, 6, 11, 12);
        VF_QR(2, 7, 8, 13);
        VF_QR(3, 4, 9, 14);
    }
#undef VF_QR
#undef VF_ROTL
    for (int i = 0; i < 16; ++i) out[i] = x[i] + start[i];
    vf_wipe(x, sizeof x);
    vf_wipe(start, sizeof start);
}

#endif
