/* What the kernels of sigmoid belief networks share. */
#ifndef VF_SBN_SHARED_H
#define VF_SBN_SHARED_H

#include "declarations.h"
#include "simd/math.h"

/* Sizes beyond this are refused: products of three of them stay in int64. */
#define SBN_MAX_SIZE ((int64_t)1 << 20)

VF_INLINE int sizes_bad(int64_t n_records, int64_t n_visible, int64_t n_hidden) {
    return n_records < 0 || n_visible < 1 || n_hidden < 1 || n_visible > SBN_MAX_SIZE || n_hidden > SBN_MAX_SIZE ||
           n_records > ((int64_t)1 << 40) / (n_visible > n_hidden ? n_visible : n_hidden);
}

/* The checks of the parameters of either E-step. */
VF_INLINE int32_t check_params(const vf_sbn_params *p) {
    if (!p) return VF_ERR_NULL;
    if ((uintptr_t)p & 7u) return VF_ERR_ALIGNMENT;
    if (sizes_bad(p->n_records, p->n_visible, p->n_hidden)) return VF_ERR_SIZE;
    return p->n_sweeps < 0 ? VF_ERR_PARAMETER : VF_OK;
}

/* exp(r) - 1 on |r| <= log(2)/2: the Taylor series to r^8 (rest below 2^-33) and
 * to r^14 (rest below 2^-60), relative. */
VF_INLINE vff expm1_small_f32(vff r) {
    vff p = vff_fma(r, vff_set1(1.0f / 40320), vff_set1(1.0f / 5040));
    p = vff_fma(p, r, vff_set1(1.0f / 720));
    p = vff_fma(p, r, vff_set1(1.0f / 120));
    p = vff_fma(p, r, vff_set1(1.0f / 24));
    p = vff_fma(p, r, vff_set1(1.0f / 6));
    p = vff_fma(p, r, vff_set1(0.5f));
    return vff_fma(vff_mul(p, r), r, r);
}
VF_INLINE vfd expm1_small_f64(vfd r) {
    vfd p = vfd_fma(r, vfd_set1(1.0 / 87178291200.0), vfd_set1(1.0 / 6227020800.0));
    p = vfd_fma(p, r, vfd_set1(1.0 / 479001600.0));
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
    return vfd_fma(vfd_mul(p, r), r, r);
}

/* log 2 in two parts with opposite signs, the first short enough that a multiple of it is exact; where an exponential
 * is cut off. */
static const float log2_high_f32 = -0.693359375f, log2_low_f32 = 2.12194440e-4f, exp_cap_f32 = 80.0f;
static const double log2_high_f64 = -6.93145751953125e-1, log2_low_f64 = -1.42860682030941723212e-6,
                    exp_cap_f64 = 700.0;

#include "simd/real_f32.h"

#include "sbn/sigmoid_body.h"
#include "simd/real_f64.h"

#include "sbn/sigmoid_body.h"

#endif
