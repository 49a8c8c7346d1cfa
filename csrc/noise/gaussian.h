/* Exactly rounded Gaussian noise: its elements.
 *
 * Element i of a key's noise is round(scale * x_i), where x_i is a function of only the key and i. Elements i and i +
 * 8 (bit 3 of i clear) form a pair. Let u and v be their element words (chacha20.h) and r the pair's refinement stream.
 * The stream has the blocks with state words (b, low and high half of i, 1), b = 0, 1, .... Words 0..7 of each block
 * continue u, words 8..15 continue v, first word and top bit first. Then
 *
 *     U = 0.(64 bits of u)(bits of r)...                          in (0, 1)
 *     t = 0.(low 62 bits of v)(bits of r)..., less 1 if >= 1/2    in [-1/2, 1/2)
 *     x_i     = s1 sqrt(-2 ln U) cos(pi/4 + (pi/2) t)   s1 = -1 if bit 63 of v is set
 *     x_(i+8) = s2 sqrt(-2 ln U) sin(pi/4 + (pi/2) t)   s2 = -1 if bit 62 of v is set
 *
 * (Box & Muller 1958): with random bits, independent standard normals. Ties have probability 0. Because the rounding is
 * exact, the integers are the same on every machine and for every split of the index range. */
#ifndef VF_GAUSSIAN_H
#define VF_GAUSSIAN_H

#include "declarations.h"

/* The 128 elements of one group, for the other kernels: at `scale`, or unless scales is NULL at scales[128], each at
 * most `scale`. With `add`, which needs a NULL scales, they are added to the content of out. The key has 8 words in host
 * order. words[128] is a buffer for the key's words, which the caller wipes. */
int32_t VF_FN(vf_gaussian_group)(const uint32_t *key, int64_t group, double scale, const double *scales, int add,
                                 uint64_t *words, uint64_t *out);

#endif
