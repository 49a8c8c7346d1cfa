/* ChaCha20 (Bernstein 2008; RFC 8439) on whole groups of blocks, one copy for each instruction set.
 *
 * State words 0..3 are constants, 4..11 the key, 12..15 the caller's. RFC 8439 calls word 12 the block counter
 * and 13..15 the nonce. The element words below use 12 and 13 as one 64-bit block counter, the layout of Bernstein's
 * original, with words 14 and 15 zero. */
#ifndef VF_CHACHA20_H
#define VF_CHACHA20_H

#include "noise/chacha20_block.h"
#include "declarations.h"

/* 64-bit words in a group: element words are produced group by group. */
#define VF_CHACHA20_GROUP 128

/* Element word i of a key, with i = 128 g + 8 w + k (w < 16, k < 8), is
 *
 *     state word w of block 16 g + 2 k  +  2^32 (state word w of block 16 g + 2 k + 1),
 *
 * as the words of 16 blocks lie in registers computed side by side. No instruction set has to transpose them, and any
 * element's word is found from two blocks. */

/* The 128 words of one group. key[8] in host order. */
void VF_FN(vf_chacha20_group)(const uint32_t *key, uint64_t group, uint64_t *out);

#endif
