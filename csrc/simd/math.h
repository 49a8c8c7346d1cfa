/* Elementary functions on the vectors of simd/simd.h. */
#ifndef VF_MATH_H
#define VF_MATH_H

#include "simd/simd.h"

/* Is x a power of two in [low, high]? */
VF_INLINE int vf_is_spacing(double x, double low, double high) {
    int exponent;
    return x >= low && x <= high && frexp(x, &exponent) == 0.5;
}

/* exp(x) for x <= 0, to 2 units in the last place; below the cap it is a tiny
 * positive number instead of a denormal. */
VF_INLINE vff vff_exp_neg(vff x) {
    x = vff_max(x, vff_set1(-86.0f));
    vff n = vff_rint(vff_mul(x, vff_set1(1.44269504f)));
    vff r = vff_fma(n, vff_set1(-0.693359375f), x);
    r = vff_fma(n, vff_set1(2.12194440e-4f), r);
    vff p = vff_fma(r, vff_set1(1.0f / 5040), vff_set1(1.0f / 720));
    p = vff_fma(p, r, vff_set1(1.0f / 120));
    p = vff_fma(p, r, vff_set1(1.0f / 24));
    p = vff_fma(p, r, vff_set1(1.0f / 6));
    p = vff_fma(p, r, vff_set1(0.5f));
    p = vff_fma(p, r, vff_set1(1.0f));
    p = vff_fma(p, r, vff_set1(1.0f));
    return vff_mul(p, vff_pow2(n));
}

VF_INLINE vfd vfd_exp_neg(vfd x) {
    x = vfd_max(x, vfd_set1(-700.0));
    vfd n = vfd_rint(vfd_mul(x, vfd_set1(1.4426950408889634)));
    vfd r = vfd_fma(n, vfd_set1(-6.93145751953125e-1), x);
    r = vfd_fma(n, vfd_set1(-1.42860682030941723212e-6), r);
    vfd p = vfd_fma(r, vfd_set1(1.0 / 6227020800.0), vfd_set1(1.0 / 479001600.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 39916800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 3628800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 362880.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 40320.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 5040.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 720.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 120.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 24.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 6.0));
    p = vfd_fma(p, r, vfd_set1(0.5));
    p = vfd_fma(p, r, vfd_set1(1.0));
    p = vfd_fma(p, r, vfd_set1(1.0));
    return vfd_mul(p, vfd_pow2(n));
}

#endif
