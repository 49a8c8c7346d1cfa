/* Elementary functions on the vectors of simd/simd.h. */
#ifndef VF_MATH_H
#define VF_MATH_H

#include "simd/simd.h"

/* Is x a power of two in [low, high]? */
VF_INLINE int vf_is_spacing(double x, double low, double high) {
    int exponent;
    return x >= low && x <= high && frexp(x, &exponent) == 0.5;
}

/* 1/n!, n = 8, 7, ... 0 and n = 14, 13, ... 0. */
/* clang-format off */
static const float vff_taylor[] = {1.0f / 40320, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
static const double vfd_taylor[] = {
    1.0 / 87178291200.0, 1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0,
    1.0 / 40320.0, 1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0};
/* clang-format on */

/* log 2 in two parts with opposite signs, the first short enough that a multiple of it is exact. */
static const float vff_log2_high = -0.693359375f, vff_log2_low = 2.12194440e-4f;
static const double vfd_log2_high = -6.93145751953125e-1, vfd_log2_low = -1.42860682030941723212e-6;

/* exp(x) for x <= 0, and on to 80, to 2 units in the last place. Below the cap it is tiny and positive, no denormal. */
#define VF_EXP_NEG(V, T, CAP, TERMS)                                                            \
    VF_INLINE V V##_exp_neg(V x) {                                                              \
        x = V##_max(x, V##_set1(CAP));                                                          \
        const V n = V##_rint(V##_mul(x, V##_set1((T)1.4426950408889634)));                      \
        const V r = V##_fma(n, V##_set1(V##_log2_low), V##_fma(n, V##_set1(V##_log2_high), x)); \
        return V##_scale(V##_horner(r, TERMS, V##_taylor + 1), n);                              \
    }
VF_EXP_NEG(vff, float, -86.0f, 8)
VF_EXP_NEG(vfd, double, -700.0, 14)

#endif
