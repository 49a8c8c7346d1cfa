/* One exactly rounded Gaussian draw in multiple precision. Compiled once: it is
 * integer arithmetic alone, the same on every machine. */
#ifndef VF_GAUSSIAN_EXACT_H
#define VF_GAUSSIAN_EXACT_H

#include "vips_fast/vips_fast.h"

/* Limbs of 32 bits: one integer limb and the rest fraction. */
#define VF_EXACT_FIRST_LIMBS 7
#define VF_EXACT_MAX_LIMBS 25

/* The draw of element `index` from the head words u, v of its pair (see
 * gaussian.h for what it means). `limbs` is the precision to begin with, from 3
 * to VF_EXACT_MAX_LIMBS; the result does not depend on it. VF_ERR_ENTROPY where
 * 2^-700 of all keystreams would lead. */
int32_t vf_gaussian_exact(uint64_t u, uint64_t v, const uint32_t *key, uint64_t index, double scale, int limbs,
                          int64_t *out);

#endif
