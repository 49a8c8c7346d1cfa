/* A small vector vocabulary shared by the kernels.
 *
 * The vectors are vff, of VF_NF floats, and vfd, of VF_ND doubles. The same source compiles to AVX-512, AVX2+FMA, SSE
 * (x86-64-v2) and plain C. In plain C the compiler's own vectors of 16 bytes become SSE2, NEON or whatever the target
 * always has. Reductions use a fixed tree, so a result depends only on its inputs and the instruction set. A vff_fma
 * has one rounding on a machine with FMA, and two on others. Code that needs the same bits everywhere must not rely on
 * it.
 *
 * - vff_recip is 1/a to within 2 units in the last place for normal a and 1/a; vfd_recip is correctly rounded.
 * - vff_root_recip is the root of 1/a, within 4 units, for normal a.
 *
 * For either type:
 *
 *   sum, hmax    sum and maximum over the lanes
 *   sum4         out[j] = sum of sj: four sums at the cost of little more than one
 *   pow2         2^n for integral n if that is a normal number
 *   scale        a 2^n for integral n if 2^n and the product are normal numbers
 *   pick_less    a < b ? x : y, lane by lane; NaN in a or b gives y
 *   less_bits    bit i is set if a < b in lane i
 *   less         c - a b, with one rounding where the machine has FMA
 *   trunc        rounding toward zero
 *   rest         c - a b to the last bit, where a b is so near to c that this is a number, and a, b below 2^500 (2^50)
 *   transpose4   out[j][i] = src[i][j] for j < 4 and as many i as a vector has lanes
 *   wide         VF_ND numbers at p as doubles; wide_first(p, n) reads the first n of them, the others are 0
 *   store_i32    truncation toward zero; the values must fit int32
 *
 * vff_pick packs the lanes whose bits are set: of the vectors at p and q to a and b, and first + lane to places. */
#ifndef VF_SIMD_H
#define VF_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "simd/isa.h"

/* For lines to write, for lines that other threads may read too, and for lines that are not needed at once. */
#define VF_PREFETCH(p) __builtin_prefetch((p), 1)
#define VF_FETCH(p) __builtin_prefetch((p), 0)
#define VF_FETCH_L2(p) __builtin_prefetch((p), 0, 2)

#if !defined(VF_ISA_PORTABLE)
#include <immintrin.h>

/* VF_MM(op): the intrinsic of this width. VF_SI(op), VF_FROM_SI(type): names that hold
 * the width of an integer vector once more. */
#if defined(VF_ISA_AVX512)
#define VF_MM(op) _mm512_##op
#define VF_SI(op) _mm512_##op##_si512
#define VF_FROM_SI(type) _mm512_castsi512_##type
#define VF_SET1_I64 _mm512_set1_epi64
#define VF_NF 16
typedef __m512 vff;
typedef __m512d vfd;
#elif defined(VF_ISA_AVX2)
#define VF_MM(op) _mm256_##op
#define VF_SI(op) _mm256_##op##_si256
#define VF_FROM_SI(type) _mm256_castsi256_##type
#define VF_SET1_I64 _mm256_set1_epi64x
#define VF_NF 8
typedef __m256 vff;
typedef __m256d vfd;
#else
#define VF_MM(op) _mm_##op
#define VF_SI(op) _mm_##op##_si128
#define VF_FROM_SI(type) _mm_castsi128_##type
#define VF_SET1_I64 _mm_set1_epi64x
#define VF_NF 4
typedef __m128 vff;
typedef __m128d vfd;
#endif
#define VF_ND (VF_NF / 2)

/* The operations of vector type V of elements T, whose intrinsics end in s. */
#define VF_OPERATIONS(V, T, s)                                                                         \
    VF_INLINE V V##_set1(T x) { return VF_MM(set1_##s)(x); }                                           \
    VF_INLINE V V##_load(const T *p) { return VF_MM(loadu_##s)(p); }                                   \
    VF_INLINE void V##_store(T *p, V a) { VF_MM(storeu_##s)(p, a); }                                   \
    VF_INLINE V V##_add(V a, V b) { return VF_MM(add_##s)(a, b); }                                     \
    VF_INLINE V V##_sub(V a, V b) { return VF_MM(sub_##s)(a, b); }                                     \
    VF_INLINE V V##_mul(V a, V b) { return VF_MM(mul_##s)(a, b); }                                     \
    VF_INLINE V V##_div(V a, V b) { return VF_MM(div_##s)(a, b); }                                     \
    VF_INLINE V V##_sqrt(V a) { return VF_MM(sqrt_##s)(a); }                                           \
    VF_INLINE V V##_min(V a, V b) { return VF_MM(min_##s)(a, b); }                                     \
    VF_INLINE V V##_max(V a, V b) { return VF_MM(max_##s)(a, b); }                                     \
    VF_INLINE V V##_abs(V a) { return VF_ABS(s, a); }                                                  \
    VF_INLINE V V##_fma(V a, V b, V c) { return VF_MULADD(s, a, b, c); }                               \
    VF_INLINE V V##_less(V c, V a, V b) { return VF_MULLESS(s, a, b, c); }                             \
    VF_INLINE V V##_rint(V a) { return VF_RINT(s)(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); } \
    VF_INLINE V V##_trunc(V a) { return VF_RINT(s)(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC); }       \
    VF_INLINE V V##_pick_less(V a, V b, V x, V y) { return VF_PICK_LESS(s, a, b, x, y); }              \
    VF_INLINE unsigned V##_less_bits(V a, V b) { return (unsigned)VF_BITS(s)(VF_LESS(s, a, b)); }
#if defined(VF_ISA_AVX512)
#define VF_ABS(s, a) VF_MM(abs_##s)(a)
#define VF_RINT(s) VF_MM(roundscale_##s)
#define VF_LESS(s, a, b) VF_MM(cmp_##s##_mask)(a, b, _CMP_LT_OQ)
#define VF_PICK_LESS(s, a, b, x, y) VF_MM(mask_blend_##s)(VF_LESS(s, a, b), y, x)
#define VF_BITS(s)
#else
#define VF_ABS(s, a) VF_MM(andnot_##s)(VF_MM(set1_##s)(-0.0f), a)
#define VF_RINT(s) VF_MM(round_##s)
#if defined(VF_ISA_AVX2)
#define VF_LESS(s, a, b) VF_MM(cmp_##s)(a, b, _CMP_LT_OQ)
#else
#define VF_LESS(s, a, b) VF_MM(cmplt_##s)(a, b)
#endif
#define VF_PICK_LESS(s, a, b, x, y) VF_MM(blendv_##s)(y, x, VF_LESS(s, a, b))
#define VF_BITS(s) VF_MM(movemask_##s)
#endif
#if defined(VF_ISA_BASELINE)
#define VF_MULADD(s, a, b, c) VF_MM(add_##s)(VF_MM(mul_##s)(a, b), c)
#define VF_MULLESS(s, a, b, c) VF_MM(sub_##s)(c, VF_MM(mul_##s)(a, b))
#else
#define VF_MULADD(s, a, b, c) VF_MM(fmadd_##s)(a, b, c)
#define VF_MULLESS(s, a, b, c) VF_MM(fnmadd_##s)(a, b, c)
#endif
VF_OPERATIONS(vff, float, ps)
VF_OPERATIONS(vfd, double, pd)

VF_INLINE vff vff_pow2(vff n) {
    return VF_FROM_SI(ps)(VF_MM(slli_epi32)(VF_MM(add_epi32)(VF_MM(cvtps_epi32)(n), VF_MM(set1_epi32)(127)), 23));
}
VF_INLINE vfd vfd_pow2(vfd n) {
    return VF_FROM_SI(pd)(
        VF_MM(slli_epi64)(VF_MM(add_epi64)(VF_MM(cvtepi32_epi64)(VF_MM(cvtpd_epi32)(n)), VF_SET1_I64(1023)), 52));
}
VF_INLINE void vff_store_i32(int32_t *p, vff a) { VF_SI(storeu)((void *)p, VF_MM(cvttps_epi32)(a)); }

#if defined(VF_ISA_AVX512)
/* ------------------------------------------------------------- AVX-512 */
VF_INLINE vff vff_recip(vff a) {
    const vff r = _mm512_rcp14_ps(a);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0f)), r, r);
}
VF_INLINE vff vff_root_recip(vff a) {
    const vff r = _mm512_rsqrt14_ps(a), e = _mm512_fnmadd_ps(_mm512_mul_ps(a, r), r, _mm512_set1_ps(1.0f));
    return _mm512_fmadd_ps(_mm512_mul_ps(e, _mm512_set1_ps(0.5f)), r, r);
}
VF_INLINE vff vff_scale(vff a, vff n) { return _mm512_scalef_ps(a, n); }
VF_INLINE vfd vfd_scale(vfd a, vfd n) { return _mm512_scalef_pd(a, n); }
VF_INLINE void vff_pick(unsigned bits, const float *p, const float *q, int32_t first, float *a, float *b,
                        int32_t *places) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i numbers = _mm512_add_epi32(_mm512_set1_epi32(first), lanes);
    const __mmask16 picked = (__mmask16)bits, lowest = (__mmask16)((1u << __builtin_popcount(bits)) - 1u);
    _mm512_mask_storeu_ps(a, lowest, _mm512_maskz_compress_ps(picked, _mm512_maskz_loadu_ps(picked, p)));
    _mm512_mask_storeu_ps(b, lowest, _mm512_maskz_compress_ps(picked, _mm512_maskz_loadu_ps(picked, q)));
    _mm512_mask_storeu_epi32(places, lowest, _mm512_maskz_compress_epi32(picked, numbers));
}
VF_INLINE float vff_sum(vff a) { return _mm512_reduce_add_ps(a); }
VF_INLINE float vff_hmax(vff a) { return _mm512_reduce_max_ps(a); }
VF_INLINE double vfd_sum(vfd a) { return _mm512_reduce_add_pd(a); }
VF_INLINE double vfd_hmax(vfd a) { return _mm512_reduce_max_pd(a); }
VF_INLINE __m256 vff_fold_(vff a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    const __m256 a = vff_fold_(s0), b = vff_fold_(s1), c = vff_fold_(s2), d = vff_fold_(s3);
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1)));
}
VF_INLINE __m256d vfd_fold_(vfd a) { return _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1)); }
VF_INLINE vff vff_rows4_(const float *const *src) {
    vff z = _mm512_castps128_ps512(_mm_loadu_ps(src[0]));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(src[4]), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(src[8]), 2);
    return _mm512_insertf32x4(z, _mm_loadu_ps(src[12]), 3);
}
VF_INLINE vfd vfd_rows4_(const double *const *src) {
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_loadu_pd(src[0])), _mm256_loadu_pd(src[4]), 1);
}
VF_INLINE vfd vfd_low_(vfd a, vfd b) {
    return _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b);
}
VF_INLINE vfd vfd_high_(vfd a, vfd b) {
    return _mm512_permutex2var_pd(a, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b);
}
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm256_storeu_si256((void *)p, _mm512_cvttpd_epi32(a)); }
VF_INLINE vfd vff_wide(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
#define VF_FIRST(n) (__mmask8)((1u << (n)) - 1u)
VF_INLINE vfd vff_wide_first(const float *p, int64_t n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(VF_FIRST(n), p));
}
VF_INLINE vfd vfd_wide_first(const double *p, int64_t n) { return _mm512_maskz_loadu_pd(VF_FIRST(n), p); }
#else
/* -------------------------------------------- AVX2 + FMA, and SSE 4.2 */
/* The bits of 2^52 around the exponent's bits make these a number. */
#if defined(VF_ISA_AVX2)
VF_INLINE vff vff_recip(vff a) {
    const vff r = _mm256_rcp_ps(a);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(a, r, _mm256_set1_ps(1.0f)), r, r);
}
VF_INLINE vff vff_root_recip(vff a) {
    const vff r = _mm256_rsqrt_ps(a), e = _mm256_fnmadd_ps(_mm256_mul_ps(a, r), r, _mm256_set1_ps(1.0f));
    return _mm256_fmadd_ps(_mm256_mul_ps(e, _mm256_set1_ps(0.5f)), r, r);
}
#define VF_HALF(s, op, a) _mm_##op##_##s(_mm256_cast##s##256_##s##128(a), _mm256_extractf128_##s(a, 1))
#else
VF_INLINE vff vff_recip(vff a) { return vff_div(vff_set1(1.0f), a); }
VF_INLINE vff vff_root_recip(vff a) { return vff_div(vff_set1(1.0f), vff_sqrt(a)); }
#define VF_HALF(s, op, a) (a)
#endif
#define VF_REDUCTION(name, op)                                         \
    VF_INLINE float vff_##name(vff a) {                                \
        __m128 s = VF_HALF(ps, op, a);                                 \
        s = _mm_##op##_ps(s, _mm_movehl_ps(s, s));                     \
        return _mm_cvtss_f32(_mm_##op##_ss(s, _mm_movehdup_ps(s)));    \
    }                                                                  \
    VF_INLINE double vfd_##name(vfd a) {                               \
        const __m128d s = VF_HALF(pd, op, a);                          \
        return _mm_cvtsd_f64(_mm_##op##_sd(s, _mm_unpackhi_pd(s, s))); \
    }
VF_REDUCTION(sum, add)
VF_REDUCTION(hmax, max)
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    const vff t = VF_MM(hadd_ps)(VF_MM(hadd_ps)(s0, s1), VF_MM(hadd_ps)(s2, s3));
    _mm_storeu_ps(out, VF_HALF(ps, add, t));
}
#endif

#if defined(VF_ISA_AVX2)
VF_INLINE vfd vfd_fold_(vfd a) { return a; }
VF_INLINE vff vff_rows4_(const float *const *src) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src[0])), _mm_loadu_ps(src[4]), 1);
}
VF_INLINE vfd vfd_rows4_(const double *const *src) { return _mm256_loadu_pd(src[0]); }
VF_INLINE vfd vfd_low_(vfd a, vfd b) { return _mm256_permute2f128_pd(a, b, 0x20); }
VF_INLINE vfd vfd_high_(vfd a, vfd b) { return _mm256_permute2f128_pd(a, b, 0x31); }
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm_storeu_si128((void *)p, _mm256_cvttpd_epi32(a)); }
VF_INLINE vfd vff_wide(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
#endif

#if defined(VF_ISA_BASELINE)
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    _mm_storeu_pd(out, _mm_hadd_pd(s0, s1));
    _mm_storeu_pd(out + 2, _mm_hadd_pd(s2, s3));
}
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    for (int j = 0; j < 4; ++j) out[j] = _mm_loadu_ps(src[j]);
    _MM_TRANSPOSE4_PS(out[0], out[1], out[2], out[3]);
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    for (int j = 0; j < 4; j += 2) {
        const __m128d a = _mm_loadu_pd(src[0] + j), b = _mm_loadu_pd(src[1] + j);
        out[j] = _mm_unpacklo_pd(a, b);
        out[j + 1] = _mm_unpackhi_pd(a, b);
    }
}
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm_storel_epi64((void *)p, _mm_cvttpd_epi32(a)); }
#else
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    const __m256d ab = _mm256_hadd_pd(vfd_fold_(s0), vfd_fold_(s1)), cd = _mm256_hadd_pd(vfd_fold_(s2), vfd_fold_(s3));
    const __m256d lo = _mm256_permute2f128_pd(ab, cd, 0x20), hi = _mm256_permute2f128_pd(ab, cd, 0x31);
    _mm256_storeu_pd(out, _mm256_add_pd(lo, hi));
}
/* rows4_ gathers every fourth row; each group of four lanes is then a 4 x 4 transpose. */
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    const vff r0 = vff_rows4_(src), r1 = vff_rows4_(src + 1), r2 = vff_rows4_(src + 2), r3 = vff_rows4_(src + 3);
    const vff a = VF_MM(unpacklo_ps)(r0, r1), b = VF_MM(unpackhi_ps)(r0, r1);
    const vff c = VF_MM(unpacklo_ps)(r2, r3), d = VF_MM(unpackhi_ps)(r2, r3);
    out[0] = VF_MM(shuffle_ps)(a, c, 0x44);
    out[1] = VF_MM(shuffle_ps)(a, c, 0xee);
    out[2] = VF_MM(shuffle_ps)(b, d, 0x44);
    out[3] = VF_MM(shuffle_ps)(b, d, 0xee);
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    const vfd r0 = vfd_rows4_(src), r1 = vfd_rows4_(src + 1), r2 = vfd_rows4_(src + 2), r3 = vfd_rows4_(src + 3);
    const vfd a = VF_MM(unpacklo_pd)(r0, r1), b = VF_MM(unpackhi_pd)(r0, r1);
    const vfd c = VF_MM(unpacklo_pd)(r2, r3), d = VF_MM(unpackhi_pd)(r2, r3);
    out[0] = vfd_low_(a, c);
    out[1] = vfd_low_(b, d);
    out[2] = vfd_high_(a, c);
    out[3] = vfd_high_(b, d);
}
#endif

#else
/* ---------------------------------------------------------- portable C */
#define VF_NF 4
#define VF_ND 2
typedef float vff __attribute__((vector_size(16)));
typedef double vfd __attribute__((vector_size(16)));
/* Return the vector of type V whose lane i is expr. */
#define VF_LANES(V, expr)                                          \
    V r = {0};                                                     \
    for (int i = 0; i < 16 / (int)sizeof r[0]; ++i) r[i] = (expr); \
    return r
#define VF_OPERATIONS(V, T, BITS, N, BIAS, MANTISSA, SQRT, RINT, TRUNC)                         \
    VF_INLINE V V##_set1(T x) { VF_LANES(V, x); }                                               \
    VF_INLINE V V##_load(const T *p) {                                                          \
        V r;                                                                                    \
        memcpy(&r, p, sizeof r);                                                                \
        return r;                                                                               \
    }                                                                                           \
    VF_INLINE void V##_store(T *p, V a) { memcpy(p, &a, sizeof a); }                            \
    VF_INLINE V V##_add(V a, V b) { return a + b; }                                             \
    VF_INLINE V V##_sub(V a, V b) { return a - b; }                                             \
    VF_INLINE V V##_mul(V a, V b) { return a * b; }                                             \
    VF_INLINE V V##_div(V a, V b) { return a / b; }                                             \
    VF_INLINE V V##_sqrt(V a) { VF_LANES(V, SQRT(a[i])); }                                      \
    VF_INLINE V V##_min(V a, V b) { VF_LANES(V, a[i] < b[i] ? a[i] : b[i]); }                   \
    VF_INLINE V V##_max(V a, V b) { VF_LANES(V, a[i] > b[i] ? a[i] : b[i]); }                   \
    VF_INLINE V V##_abs(V a) { VF_LANES(V, a[i] < 0 ? -a[i] : a[i]); }                          \
    VF_INLINE V V##_fma(V a, V b, V c) { return a * b + c; }                                    \
    VF_INLINE V V##_less(V c, V a, V b) { return c - a * b; }                                   \
    VF_INLINE V V##_rint(V a) { VF_LANES(V, RINT(a[i])); }                                      \
    VF_INLINE V V##_trunc(V a) { VF_LANES(V, TRUNC(a[i])); }                                    \
    VF_INLINE V V##_pick_less(V a, V b, V x, V y) { VF_LANES(V, a[i] < b[i] ? x[i] : y[i]); }   \
    VF_INLINE unsigned V##_less_bits(V a, V b) {                                                \
        unsigned bits = 0;                                                                      \
        for (int i = 0; i < N; ++i) bits |= (unsigned)(a[i] < b[i]) << i;                       \
        return bits;                                                                            \
    }                                                                                           \
    VF_INLINE V V##_pow2(V n) {                                                                 \
        u##BITS##_t b[N];                                                                       \
        V r;                                                                                    \
        for (int i = 0; i < N; ++i) b[i] = (u##BITS##_t)((BITS##_t)n[i] + BIAS) << MANTISSA;    \
        memcpy(&r, b, sizeof r);                                                                \
        return r;                                                                               \
    }                                                                                           \
    VF_INLINE void V##_transpose4(const T *const *src, V out[4]) {                              \
        for (int j = 0; j < 4; ++j) {                                                           \
            T row[N];                                                                           \
            for (int i = 0; i < N; ++i) row[i] = src[i][j];                                     \
            out[j] = V##_load(row);                                                             \
        }                                                                                       \
    }                                                                                           \
    VF_INLINE void V##_store_i32(int32_t *p, V a) {                                             \
        for (int i = 0; i < N; ++i) p[i] = (int32_t)a[i];                                       \
    }                                                                                           \
    VF_INLINE T V##_sum(V a);                                                                   \
    VF_INLINE void V##_sum4(T *out, V s0, V s1, V s2, V s3) {                                   \
        out[0] = V##_sum(s0), out[1] = V##_sum(s1), out[2] = V##_sum(s2), out[3] = V##_sum(s3); \
    }
VF_OPERATIONS(vff, float, int32, VF_NF, 127, 23, sqrtf, rintf, truncf)
VF_OPERATIONS(vfd, double, int64, VF_ND, 1023, 52, sqrt, rint, trunc)
VF_INLINE vff vff_recip(vff a) { return vff_set1(1.0f) / a; }
VF_INLINE vff vff_root_recip(vff a) { return vff_set1(1.0f) / vff_sqrt(a); }
VF_INLINE float vff_sum(vff a) { return (a[0] + a[2]) + (a[1] + a[3]); }
VF_INLINE double vfd_sum(vfd a) { return a[0] + a[1]; }
VF_INLINE float vff_hmax(vff a) {
    float m = a[0];
    for (int i = 1; i < VF_NF; ++i) m = a[i] > m ? a[i] : m;
    return m;
}
VF_INLINE double vfd_hmax(vfd a) { return a[0] > a[1] ? a[0] : a[1]; }
#endif

VF_INLINE vfd vfd_wide(const double *p) { return vfd_load(p); }
#if defined(VF_ISA_BASELINE) || defined(VF_ISA_PORTABLE)
VF_INLINE vfd vff_wide(const float *p) {
    const double wide[] = {(double)p[0], (double)p[1]};
    return vfd_load(wide);
}
#endif
#if defined(VF_ISA_AVX2)
/* Masks of the first n lanes begin VF_ND - n before the middle. The other lanes are not read: they may lie beyond the
 * array. */
static const int64_t VF_FIRST[2 * VF_ND] = {-1, -1, -1, -1};
static const int32_t VF_FIRST_HALF[2 * VF_ND] = {-1, -1, -1, -1};
VF_INLINE vfd vff_wide_first(const float *p, int64_t n) {
    return _mm256_cvtps_pd(_mm_maskload_ps(p, _mm_loadu_si128((const void *)(VF_FIRST_HALF + VF_ND - n))));
}
VF_INLINE vfd vfd_wide_first(const double *p, int64_t n) {
    return _mm256_maskload_pd(p, _mm256_loadu_si256((const void *)(VF_FIRST + VF_ND - n)));
}
#elif !defined(VF_ISA_AVX512)
#define VF_WIDE_FIRST(V, T)                                     \
    VF_INLINE vfd V##_wide_first(const T *p, int64_t n) {       \
        double wide[VF_ND] = {0};                               \
        for (int64_t i = 0; i < n; ++i) wide[i] = (double)p[i]; \
        return vfd_load(wide);                                  \
    }
VF_WIDE_FIRST(vff, float)
VF_WIDE_FIRST(vfd, double)
#endif
#if !defined(VF_ISA_AVX512)
VF_INLINE vff vff_scale(vff a, vff n) { return vff_mul(a, vff_pow2(n)); }
VF_INLINE vfd vfd_scale(vfd a, vfd n) { return vfd_mul(a, vfd_pow2(n)); }
VF_INLINE void vff_pick(unsigned bits, const float *p, const float *q, int32_t first, float *a, float *b,
                        int32_t *places) {
    for (; bits; bits &= bits - 1) {
        const int j = __builtin_ctz(bits);
        *a++ = p[j];
        *b++ = q[j];
        *places++ = first + j;
    }
}
#endif

/* From here on results that would be denormal are 0 in this thread, if the machine can. An operation that makes one takes
 * a hundred times as long. vf_normal takes the result, and ends this. */
VF_INLINE unsigned vf_flush(void) {
#if defined(VF_ISA_PORTABLE)
    return 0;
#else
    const unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
    return before;
#endif
}
VF_INLINE void vf_normal(unsigned before) {
#if defined(VF_ISA_PORTABLE)
    (void)before;
#else
    _mm_setcsr(before);
#endif
}

VF_INLINE vfd vfd_recip(vfd a) { return vfd_div(vfd_set1(1.0), a); }
VF_INLINE vfd vfd_root_recip(vfd a) { return vfd_div(vfd_set1(1.0), vfd_sqrt(a)); }

#if defined(VF_ISA_AVX512) || defined(VF_ISA_AVX2)
#define VF_REST(V, SPLIT) \
    VF_INLINE V V##_rest(V c, V a, V b) { return V##_less(c, a, b); }
#else
/* Dekker's product: a and b in two parts of half as many bits, whose products are exact. */
#define VF_REST(V, SPLIT)                                                                                              \
    VF_INLINE V V##_head_(V a) {                                                                                       \
        const V t = V##_mul(a, V##_set1(SPLIT));                                                                       \
        return V##_sub(t, V##_sub(t, a));                                                                              \
    }                                                                                                                  \
    VF_INLINE V V##_rest(V c, V a, V b) {                                                                              \
        const V p = V##_mul(a, b), ah = V##_head_(a), bh = V##_head_(b);                                               \
        const V al = V##_sub(a, ah), bl = V##_sub(b, bh);                                                              \
        const V e =                                                                                                    \
            V##_add(V##_add(V##_sub(V##_mul(ah, bh), p), V##_mul(ah, bl)), V##_add(V##_mul(al, bh), V##_mul(al, bl))); \
        return V##_sub(V##_sub(c, p), e);                                                                              \
    }
#endif
VF_REST(vff, 4097.0f)
VF_REST(vfd, 134217729.0)

/* c[0] x^(n-1) + ... + c[n-1] by Horner's rule. */
VF_INLINE vff vff_horner(vff x, int n, const float *c) {
    vff p = vff_set1(c[0]);
    for (int i = 1; i < n; ++i) p = vff_fma(p, x, vff_set1(c[i]));
    return p;
}
VF_INLINE vfd vfd_horner(vfd x, int n, const double *c) {
    vfd p = vfd_set1(c[0]);
    for (int i = 1; i < n; ++i) p = vfd_fma(p, x, vfd_set1(c[i]));
    return p;
}
#define VF_HORNER_(V, x, table) V##_horner(x, (int)(sizeof(table) / sizeof *(table)), table)
#define VF_HORNER(V, x, table) VF_HORNER_(V, x, table)

#endif
