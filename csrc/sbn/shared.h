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

/* exp(r) - 1 on |r| <= log(2)/2 takes the series from r^8 and r^14 on, which leaves less than
 * 2^-33 and 2^-60, relative. An exponential is cut off at the cap. */
enum { terms_f32 = 7, terms_f64 = 13 };
static const float exp_cap_f32 = 80.0f;
static const double exp_cap_f64 = 700.0;

#define VF_BODY "sbn/sigmoid_body.h"
#include "simd/both.h"

#endif
