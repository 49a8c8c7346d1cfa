/* Mean of a Polya-Gamma variable: declarations, one copy per instruction set. */
#ifndef VF_PG_MEAN_H
#define VF_PG_MEAN_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* out[i] = b tanh(c[i]/2) / (2 c[i]), the mean of PG(b, c[i]); b/4 at 0.
 *
 * Within 2 units in the last place for b = 1 and all of c: zeros, subnormals,
 * infinities (0), either sign (the function is even); NaN gives NaN. Another b
 * adds one rounding. A result depends on its own c and on b alone, not on its
 * place in the array. out may be c. b must be finite and > 0. */
int32_t VF_FN(vf_pg_mean_f32)(int64_t n, float b, const float *c, float *out);
int32_t VF_FN(vf_pg_mean_f64)(int64_t n, double b, const double *c, double *out);

#endif
