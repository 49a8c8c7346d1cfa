/* One exactly rounded Gaussian draw in multiple precision. Compiled once: it is
 * integer arithmetic, the same on every machine. */
#ifndef VF_GAUSSIAN_EXACT_H
#define VF_GAUSSIAN_EXACT_H

#include "vips_fast/vips_fast.h"

/* Limbs of 32 bits: one integer limb and the rest fraction. */
#define VF_EXACT_FIRST_LIMBS 7
#define VF_EXACT_MAX_LIMBS 25

/* The draw of element `index` from the head words u, v of its pair (gaussian.h has the meaning). `limbs` is the
 * precision to begin with, from 3 to VF_EXACT_MAX_LIMBS; the result does not depend on it. VF_ERR_ENTROPY where the
 * keystream begins with 1024 zeros or leaves the draw undecided at the largest precision: fewer than 2^-500 of all
 * keystreams. */
int32_t vf_gaussian_exact_unchecked(uint64_t u, uint64_t v, int64_t index, double scale, int32_t limbs,
                                    const uint32_t *key, int64_t *out);

#endif
