/* A small vector vocabulary shared by the kernels.
 *
 * vff: VF_NF floats, vfd: VF_ND doubles. The same source compiles to AVX-512,
 * AVX2+FMA, SSE (x86-64-v2) and plain C (fixed-size loops that any compiler
 * can unroll). Reductions use a fixed tree, so a result depends on its inputs
 * and the instruction set alone. vff_fma is one rounding where the machine has
 * FMA and two where it has not: code that needs the same bits everywhere must
 * not rely on it. vff_recip is 1/a to within 2 units in the last place for
 * normal a and 1/a; vfd_recip is correctly rounded. */
#ifndef VF_SIMD_H
#define VF_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "simd/isa.h"

#if defined(__GNUC__)
#define VF_PREFETCH(p) __builtin_prefetch((p), 1)
#else
#define VF_PREFETCH(p) ((void)(p))
#endif

#if defined(VF_ISA_AVX512)
/* ------------------------------------------------------------- AVX-512 */
#include <immintrin.h>
#define VF_NF 16
#define VF_ND 8
typedef __m512 vff;
typedef __m512d vfd;
VF_INLINE vff vff_set1(float x) { return _mm512_set1_ps(x); }
VF_INLINE vff vff_load(const float *p) { return _mm512_loadu_ps(p); }
VF_INLINE void vff_store(float *p, vff a) { _mm512_storeu_ps(p, a); }
VF_INLINE vff vff_add(vff a, vff b) { return _mm512_add_ps(a, b); }
VF_INLINE vff vff_sub(vff a, vff b) { return _mm512_sub_ps(a, b); }
VF_INLINE vff vff_mul(vff a, vff b) { return _mm512_mul_ps(a, b); }
VF_INLINE vff vff_div(vff a, vff b) { return _mm512_div_ps(a, b); }
VF_INLINE vff vff_sqrt(vff a) { return _mm512_sqrt_ps(a); }
VF_INLINE vff vff_fma(vff a, vff b, vff c) { return _mm512_fmadd_ps(a, b, c); }
VF_INLINE vff vff_recip(vff a) {
    vff r = _mm512_rcp14_ps(a);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0f)), r, r);
}
VF_INLINE vff vff_min(vff a, vff b) { return _mm512_min_ps(a, b); }
VF_INLINE vff vff_max(vff a, vff b) { return _mm512_max_ps(a, b); }
VF_INLINE vff vff_abs(vff a) { return _mm512_abs_ps(a); }
VF_INLINE vff vff_rint(vff a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE float vff_sum(vff a) { return _mm512_reduce_add_ps(a); }
VF_INLINE float vff_hmax(vff a) { return _mm512_reduce_max_ps(a); }
/* out[j] = sum of sj, four sums at the cost of little more than one. */
VF_INLINE __m256 vff_fold_(__m512 a) { return _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)); }
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    const __m256 a = vff_fold_(s0), b = vff_fold_(s1), c = vff_fold_(s2), d = vff_fold_(s3);
    const __m256 ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256 t = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1)));
}
/* 2^n for integral n in [-126, 127]. */
VF_INLINE vff vff_pow2(vff n) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
VF_INLINE vfd vfd_set1(double x) { return _mm512_set1_pd(x); }
VF_INLINE vfd vfd_load(const double *p) { return _mm512_loadu_pd(p); }
VF_INLINE void vfd_store(double *p, vfd a) { _mm512_storeu_pd(p, a); }
VF_INLINE vfd vfd_add(vfd a, vfd b) { return _mm512_add_pd(a, b); }
VF_INLINE vfd vfd_sub(vfd a, vfd b) { return _mm512_sub_pd(a, b); }
VF_INLINE vfd vfd_mul(vfd a, vfd b) { return _mm512_mul_pd(a, b); }
VF_INLINE vfd vfd_div(vfd a, vfd b) { return _mm512_div_pd(a, b); }
VF_INLINE vfd vfd_sqrt(vfd a) { return _mm512_sqrt_pd(a); }
VF_INLINE vfd vfd_fma(vfd a, vfd b, vfd c) { return _mm512_fmadd_pd(a, b, c); }
VF_INLINE vfd vfd_recip(vfd a) { return vfd_div(vfd_set1(1.0), a); }
VF_INLINE vfd vfd_min(vfd a, vfd b) { return _mm512_min_pd(a, b); }
VF_INLINE vfd vfd_max(vfd a, vfd b) { return _mm512_max_pd(a, b); }
VF_INLINE vfd vfd_abs(vfd a) { return _mm512_abs_pd(a); }
VF_INLINE vfd vfd_rint(vfd a) { return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE double vfd_sum(vfd a) { return _mm512_reduce_add_pd(a); }
VF_INLINE double vfd_hmax(vfd a) { return _mm512_reduce_max_pd(a); }
VF_INLINE __m256d vfd_fold_(__m512d a) {
    return _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
}
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    const __m256d ab = _mm256_hadd_pd(vfd_fold_(s0), vfd_fold_(s1)), cd = _mm256_hadd_pd(vfd_fold_(s2), vfd_fold_(s3));
    const __m256d lo = _mm256_permute2f128_pd(ab, cd, 0x20), hi = _mm256_permute2f128_pd(ab, cd, 0x31);
    _mm256_storeu_pd(out, _mm256_add_pd(lo, hi));
}
/* 2^n for integral n in [-1022, 1023]. */
VF_INLINE vfd vfd_pow2(vfd n) {
    __m512i i = _mm512_cvtepi32_epi64(_mm512_cvtpd_epi32(n));
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_add_epi64(i, _mm512_set1_epi64(1023)), 52));
}

/* Transposed load: out[j][i] = src[i][j] for j < 4 columns of VF_NF rows. */
VF_INLINE __m512 vff_rows4_(const float *const *src, int first) {
    __m512 z = _mm512_castps128_ps512(_mm_loadu_ps(src[first]));
    z = _mm512_insertf32x4(z, _mm_loadu_ps(src[first + 4]), 1);
    z = _mm512_insertf32x4(z, _mm_loadu_ps(src[first + 8]), 2);
    return _mm512_insertf32x4(z, _mm_loadu_ps(src[first + 12]), 3);
}
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    const __m512 r0 = vff_rows4_(src, 0), r1 = vff_rows4_(src, 1), r2 = vff_rows4_(src, 2), r3 = vff_rows4_(src, 3);
    const __m512 a = _mm512_unpacklo_ps(r0, r1), b = _mm512_unpackhi_ps(r0, r1);
    const __m512 c = _mm512_unpacklo_ps(r2, r3), d = _mm512_unpackhi_ps(r2, r3);
    out[0] = _mm512_shuffle_ps(a, c, 0x44);
    out[1] = _mm512_shuffle_ps(a, c, 0xee);
    out[2] = _mm512_shuffle_ps(b, d, 0x44);
    out[3] = _mm512_shuffle_ps(b, d, 0xee);
}
VF_INLINE __m512d vfd_rows4_(const double *const *src, int first) {
    __m512d z = _mm512_castpd256_pd512(_mm256_loadu_pd(src[first]));
    return _mm512_insertf64x4(z, _mm256_loadu_pd(src[first + 4]), 1);
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    const __m512d r0 = vfd_rows4_(src, 0), r1 = vfd_rows4_(src, 1), r2 = vfd_rows4_(src, 2), r3 = vfd_rows4_(src, 3);
    const __m512d a = _mm512_unpacklo_pd(r0, r1), b = _mm512_unpackhi_pd(r0, r1);
    const __m512d c = _mm512_unpacklo_pd(r2, r3), d = _mm512_unpackhi_pd(r2, r3);
    const __m512i lo = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), hi = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    out[0] = _mm512_permutex2var_pd(a, lo, c);
    out[1] = _mm512_permutex2var_pd(b, lo, d);
    out[2] = _mm512_permutex2var_pd(a, hi, c);
    out[3] = _mm512_permutex2var_pd(b, hi, d);
}
/* Truncation toward zero; the values must fit int32. */
VF_INLINE void vff_store_i32(int32_t *p, vff a) { _mm512_storeu_si512((void *)p, _mm512_cvttps_epi32(a)); }
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm256_storeu_si256((__m256i *)p, _mm512_cvttpd_epi32(a)); }

#elif defined(VF_ISA_AVX2)
/* ----------------------------------------------------------- AVX2 + FMA */
#include <immintrin.h>
#define VF_NF 8
#define VF_ND 4
typedef __m256 vff;
typedef __m256d vfd;
VF_INLINE vff vff_set1(float x) { return _mm256_set1_ps(x); }
VF_INLINE vff vff_load(const float *p) { return _mm256_loadu_ps(p); }
VF_INLINE void vff_store(float *p, vff a) { _mm256_storeu_ps(p, a); }
VF_INLINE vff vff_add(vff a, vff b) { return _mm256_add_ps(a, b); }
VF_INLINE vff vff_sub(vff a, vff b) { return _mm256_sub_ps(a, b); }
VF_INLINE vff vff_mul(vff a, vff b) { return _mm256_mul_ps(a, b); }
VF_INLINE vff vff_div(vff a, vff b) { return _mm256_div_ps(a, b); }
VF_INLINE vff vff_sqrt(vff a) { return _mm256_sqrt_ps(a); }
VF_INLINE vff vff_fma(vff a, vff b, vff c) { return _mm256_fmadd_ps(a, b, c); }
VF_INLINE vff vff_recip(vff a) {
    vff r = _mm256_rcp_ps(a);
    return _mm256_fmadd_ps(_mm256_fnmadd_ps(a, r, _mm256_set1_ps(1.0f)), r, r);
}
VF_INLINE vff vff_min(vff a, vff b) { return _mm256_min_ps(a, b); }
VF_INLINE vff vff_max(vff a, vff b) { return _mm256_max_ps(a, b); }
VF_INLINE vff vff_abs(vff a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
VF_INLINE vff vff_rint(vff a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE float vff_sum(vff a) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
VF_INLINE float vff_hmax(vff a) {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}
/* out[j] = sum of sj, four sums at the cost of little more than one. */
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    const __m256 t = _mm256_hadd_ps(_mm256_hadd_ps(s0, s1), _mm256_hadd_ps(s2, s3));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(t), _mm256_extractf128_ps(t, 1)));
}
VF_INLINE vff vff_pow2(vff n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
VF_INLINE vfd vfd_set1(double x) { return _mm256_set1_pd(x); }
VF_INLINE vfd vfd_load(const double *p) { return _mm256_loadu_pd(p); }
VF_INLINE void vfd_store(double *p, vfd a) { _mm256_storeu_pd(p, a); }
VF_INLINE vfd vfd_add(vfd a, vfd b) { return _mm256_add_pd(a, b); }
VF_INLINE vfd vfd_sub(vfd a, vfd b) { return _mm256_sub_pd(a, b); }
VF_INLINE vfd vfd_mul(vfd a, vfd b) { return _mm256_mul_pd(a, b); }
VF_INLINE vfd vfd_div(vfd a, vfd b) { return _mm256_div_pd(a, b); }
VF_INLINE vfd vfd_sqrt(vfd a) { return _mm256_sqrt_pd(a); }
VF_INLINE vfd vfd_fma(vfd a, vfd b, vfd c) { return _mm256_fmadd_pd(a, b, c); }
VF_INLINE vfd vfd_recip(vfd a) { return vfd_div(vfd_set1(1.0), a); }
VF_INLINE vfd vfd_min(vfd a, vfd b) { return _mm256_min_pd(a, b); }
VF_INLINE vfd vfd_max(vfd a, vfd b) { return _mm256_max_pd(a, b); }
VF_INLINE vfd vfd_abs(vfd a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
VF_INLINE vfd vfd_rint(vfd a) { return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE double vfd_sum(vfd a) {
    __m128d s = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
}
VF_INLINE double vfd_hmax(vfd a) {
    __m128d s = _mm_max_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_max_sd(s, _mm_unpackhi_pd(s, s)));
}
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    const __m256d ab = _mm256_hadd_pd(s0, s1), cd = _mm256_hadd_pd(s2, s3);
    const __m256d lo = _mm256_permute2f128_pd(ab, cd, 0x20), hi = _mm256_permute2f128_pd(ab, cd, 0x31);
    _mm256_storeu_pd(out, _mm256_add_pd(lo, hi));
}
VF_INLINE vfd vfd_pow2(vfd n) {
    __m256i i = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(n));
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(i, _mm256_set1_epi64x(1023)), 52));
}

/* Transposed load: out[j][i] = src[i][j] for j < 4 columns of VF_NF rows. */
VF_INLINE __m256 vff_rows4_(const float *const *src, int first) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(src[first])), _mm_loadu_ps(src[first + 4]), 1);
}
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    const __m256 r0 = vff_rows4_(src, 0), r1 = vff_rows4_(src, 1), r2 = vff_rows4_(src, 2), r3 = vff_rows4_(src, 3);
    const __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpackhi_ps(r0, r1);
    const __m256 c = _mm256_unpacklo_ps(r2, r3), d = _mm256_unpackhi_ps(r2, r3);
    out[0] = _mm256_shuffle_ps(a, c, 0x44);
    out[1] = _mm256_shuffle_ps(a, c, 0xee);
    out[2] = _mm256_shuffle_ps(b, d, 0x44);
    out[3] = _mm256_shuffle_ps(b, d, 0xee);
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    const __m256d r0 = _mm256_loadu_pd(src[0]), r1 = _mm256_loadu_pd(src[1]);
    const __m256d r2 = _mm256_loadu_pd(src[2]), r3 = _mm256_loadu_pd(src[3]);
    const __m256d a = _mm256_unpacklo_pd(r0, r1), b = _mm256_unpackhi_pd(r0, r1);
    const __m256d c = _mm256_unpacklo_pd(r2, r3), d = _mm256_unpackhi_pd(r2, r3);
    out[0] = _mm256_permute2f128_pd(a, c, 0x20);
    out[1] = _mm256_permute2f128_pd(b, d, 0x20);
    out[2] = _mm256_permute2f128_pd(a, c, 0x31);
    out[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
/* Truncation toward zero; the values must fit int32. */
VF_INLINE void vff_store_i32(int32_t *p, vff a) { _mm256_storeu_si256((__m256i *)p, _mm256_cvttps_epi32(a)); }
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm_storeu_si128((__m128i *)p, _mm256_cvttpd_epi32(a)); }

#elif defined(VF_ISA_BASELINE)
/* ------------------------------------------------- x86-64-v2 (SSE 4.2) */
#include <nmmintrin.h>
#define VF_NF 4
#define VF_ND 2
typedef __m128 vff;
typedef __m128d vfd;
VF_INLINE vff vff_set1(float x) { return _mm_set1_ps(x); }
VF_INLINE vff vff_load(const float *p) { return _mm_loadu_ps(p); }
VF_INLINE void vff_store(float *p, vff a) { _mm_storeu_ps(p, a); }
VF_INLINE vff vff_add(vff a, vff b) { return _mm_add_ps(a, b); }
VF_INLINE vff vff_sub(vff a, vff b) { return _mm_sub_ps(a, b); }
VF_INLINE vff vff_mul(vff a, vff b) { return _mm_mul_ps(a, b); }
VF_INLINE vff vff_div(vff a, vff b) { return _mm_div_ps(a, b); }
VF_INLINE vff vff_sqrt(vff a) { return _mm_sqrt_ps(a); }
VF_INLINE vff vff_fma(vff a, vff b, vff c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
VF_INLINE vff vff_recip(vff a) { return _mm_div_ps(_mm_set1_ps(1.0f), a); }
VF_INLINE vff vff_min(vff a, vff b) { return _mm_min_ps(a, b); }
VF_INLINE vff vff_max(vff a, vff b) { return _mm_max_ps(a, b); }
VF_INLINE vff vff_abs(vff a) { return _mm_andnot_ps(_mm_set1_ps(-0.0f), a); }
VF_INLINE vff vff_rint(vff a) { return _mm_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE float vff_sum(vff a) {
    a = _mm_add_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)));
}
VF_INLINE float vff_hmax(vff a) {
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
/* out[j] = sum of sj, four sums at the cost of little more than one. */
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    _mm_storeu_ps(out, _mm_hadd_ps(_mm_hadd_ps(s0, s1), _mm_hadd_ps(s2, s3)));
}
VF_INLINE vff vff_pow2(vff n) {
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_add_epi32(_mm_cvtps_epi32(n), _mm_set1_epi32(127)), 23));
}
VF_INLINE vfd vfd_set1(double x) { return _mm_set1_pd(x); }
VF_INLINE vfd vfd_load(const double *p) { return _mm_loadu_pd(p); }
VF_INLINE void vfd_store(double *p, vfd a) { _mm_storeu_pd(p, a); }
VF_INLINE vfd vfd_add(vfd a, vfd b) { return _mm_add_pd(a, b); }
VF_INLINE vfd vfd_sub(vfd a, vfd b) { return _mm_sub_pd(a, b); }
VF_INLINE vfd vfd_mul(vfd a, vfd b) { return _mm_mul_pd(a, b); }
VF_INLINE vfd vfd_div(vfd a, vfd b) { return _mm_div_pd(a, b); }
VF_INLINE vfd vfd_sqrt(vfd a) { return _mm_sqrt_pd(a); }
VF_INLINE vfd vfd_fma(vfd a, vfd b, vfd c) { return _mm_add_pd(_mm_mul_pd(a, b), c); }
VF_INLINE vfd vfd_recip(vfd a) { return vfd_div(vfd_set1(1.0), a); }
VF_INLINE vfd vfd_min(vfd a, vfd b) { return _mm_min_pd(a, b); }
VF_INLINE vfd vfd_max(vfd a, vfd b) { return _mm_max_pd(a, b); }
VF_INLINE vfd vfd_abs(vfd a) { return _mm_andnot_pd(_mm_set1_pd(-0.0), a); }
VF_INLINE vfd vfd_rint(vfd a) { return _mm_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE double vfd_sum(vfd a) { return _mm_cvtsd_f64(_mm_add_sd(a, _mm_unpackhi_pd(a, a))); }
VF_INLINE double vfd_hmax(vfd a) { return _mm_cvtsd_f64(_mm_max_sd(a, _mm_unpackhi_pd(a, a))); }
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    _mm_storeu_pd(out, _mm_hadd_pd(s0, s1));
    _mm_storeu_pd(out + 2, _mm_hadd_pd(s2, s3));
}
VF_INLINE vfd vfd_pow2(vfd n) {
    __m128i i = _mm_cvtepi32_epi64(_mm_cvtpd_epi32(n));
    return _mm_castsi128_pd(_mm_slli_epi64(_mm_add_epi64(i, _mm_set1_epi64x(1023)), 52));
}

/* Transposed load: out[j][i] = src[i][j] for j < 4 columns of VF_NF rows. */
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    out[0] = _mm_loadu_ps(src[0]);
    out[1] = _mm_loadu_ps(src[1]);
    out[2] = _mm_loadu_ps(src[2]);
    out[3] = _mm_loadu_ps(src[3]);
    _MM_TRANSPOSE4_PS(out[0], out[1], out[2], out[3]);
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    for (int j = 0; j < 4; j += 2) {
        const __m128d a = _mm_loadu_pd(src[0] + j), b = _mm_loadu_pd(src[1] + j);
        out[j] = _mm_unpacklo_pd(a, b);
        out[j + 1] = _mm_unpackhi_pd(a, b);
    }
}
/* Truncation toward zero; the values must fit int32. */
VF_INLINE void vff_store_i32(int32_t *p, vff a) { _mm_storeu_si128((__m128i *)p, _mm_cvttps_epi32(a)); }
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) { _mm_storel_epi64((__m128i *)p, _mm_cvttpd_epi32(a)); }

#else
/* ---------------------------------------------------------- portable C */
#define VF_NF 4
#define VF_ND 2
#if defined(__GNUC__)
/* The compiler's own vectors: SSE2, NEON or whatever the target always has. */
typedef float vff __attribute__((vector_size(16)));
typedef double vfd __attribute__((vector_size(16)));
#define VF_AT(a, i) ((a)[i])
#define VF_OP_(T, N, a, op, b) return (a)op(b)
#else
typedef struct {
    float v[VF_NF];
} vff;
typedef struct {
    double v[VF_ND];
} vfd;
#define VF_AT(a, i) ((a).v[i])
#define VF_OP_(T, N, a, op, b) VF_MAP_(T, N, VF_AT(a, i) op VF_AT(b, i))
#endif
#define VF_MAP_(T, N, expr)                             \
    T r = {0};                                          \
    for (int i = 0; i < (N); ++i) VF_AT(r, i) = (expr); \
    return r
VF_INLINE vff vff_set1(float x) { VF_MAP_(vff, VF_NF, x); }
VF_INLINE vff vff_load(const float *p) {
    vff r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vff_store(float *p, vff a) { memcpy(p, &a, sizeof a); }
VF_INLINE vff vff_add(vff a, vff b) { VF_OP_(vff, VF_NF, a, +, b); }
VF_INLINE vff vff_sub(vff a, vff b) { VF_OP_(vff, VF_NF, a, -, b); }
VF_INLINE vff vff_mul(vff a, vff b) { VF_OP_(vff, VF_NF, a, *, b); }
VF_INLINE vff vff_div(vff a, vff b) { VF_OP_(vff, VF_NF, a, /, b); }
VF_INLINE vff vff_sqrt(vff a) { VF_MAP_(vff, VF_NF, sqrtf(VF_AT(a, i))); }
VF_INLINE vff vff_fma(vff a, vff b, vff c) { return vff_add(vff_mul(a, b), c); }
VF_INLINE vff vff_recip(vff a) { return vff_div(vff_set1(1.0f), a); }
VF_INLINE vff vff_min(vff a, vff b) { VF_MAP_(vff, VF_NF, VF_AT(a, i) < VF_AT(b, i) ? VF_AT(a, i) : VF_AT(b, i)); }
VF_INLINE vff vff_max(vff a, vff b) { VF_MAP_(vff, VF_NF, VF_AT(a, i) > VF_AT(b, i) ? VF_AT(a, i) : VF_AT(b, i)); }
VF_INLINE vff vff_abs(vff a) { VF_MAP_(vff, VF_NF, VF_AT(a, i) < 0 ? -VF_AT(a, i) : VF_AT(a, i)); }
VF_INLINE vff vff_rint(vff a) { VF_MAP_(vff, VF_NF, rintf(VF_AT(a, i))); }
VF_INLINE float vff_sum(vff a) { return (VF_AT(a, 0) + VF_AT(a, 2)) + (VF_AT(a, 1) + VF_AT(a, 3)); }
VF_INLINE float vff_hmax(vff a) {
    float m = VF_AT(a, 0);
    for (int i = 1; i < VF_NF; ++i) m = VF_AT(a, i) > m ? VF_AT(a, i) : m;
    return m;
}
VF_INLINE vff vff_pow2(vff n) {
    uint32_t b[VF_NF];
    vff r;
    for (int i = 0; i < VF_NF; ++i) b[i] = (uint32_t)((int32_t)VF_AT(n, i) + 127) << 23;
    memcpy(&r, b, sizeof r);
    return r;
}
VF_INLINE vfd vfd_set1(double x) { VF_MAP_(vfd, VF_ND, x); }
VF_INLINE vfd vfd_load(const double *p) {
    vfd r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vfd_store(double *p, vfd a) { memcpy(p, &a, sizeof a); }
VF_INLINE vfd vfd_add(vfd a, vfd b) { VF_OP_(vfd, VF_ND, a, +, b); }
VF_INLINE vfd vfd_sub(vfd a, vfd b) { VF_OP_(vfd, VF_ND, a, -, b); }
VF_INLINE vfd vfd_mul(vfd a, vfd b) { VF_OP_(vfd, VF_ND, a, *, b); }
VF_INLINE vfd vfd_div(vfd a, vfd b) { VF_OP_(vfd, VF_ND, a, /, b); }
VF_INLINE vfd vfd_sqrt(vfd a) { VF_MAP_(vfd, VF_ND, sqrt(VF_AT(a, i))); }
VF_INLINE vfd vfd_fma(vfd a, vfd b, vfd c) { return vfd_add(vfd_mul(a, b), c); }
VF_INLINE vfd vfd_recip(vfd a) { return vfd_div(vfd_set1(1.0), a); }
VF_INLINE vfd vfd_min(vfd a, vfd b) { VF_MAP_(vfd, VF_ND, VF_AT(a, i) < VF_AT(b, i) ? VF_AT(a, i) : VF_AT(b, i)); }
VF_INLINE vfd vfd_max(vfd a, vfd b) { VF_MAP_(vfd, VF_ND, VF_AT(a, i) > VF_AT(b, i) ? VF_AT(a, i) : VF_AT(b, i)); }
VF_INLINE vfd vfd_abs(vfd a) { VF_MAP_(vfd, VF_ND, VF_AT(a, i) < 0 ? -VF_AT(a, i) : VF_AT(a, i)); }
VF_INLINE vfd vfd_rint(vfd a) { VF_MAP_(vfd, VF_ND, rint(VF_AT(a, i))); }
VF_INLINE double vfd_sum(vfd a) { return VF_AT(a, 0) + VF_AT(a, 1); }
VF_INLINE double vfd_hmax(vfd a) { return VF_AT(a, 0) > VF_AT(a, 1) ? VF_AT(a, 0) : VF_AT(a, 1); }
/* out[j] = sum of sj. */
VF_INLINE void vff_sum4(float *out, vff s0, vff s1, vff s2, vff s3) {
    out[0] = vff_sum(s0), out[1] = vff_sum(s1), out[2] = vff_sum(s2), out[3] = vff_sum(s3);
}
VF_INLINE void vfd_sum4(double *out, vfd s0, vfd s1, vfd s2, vfd s3) {
    out[0] = vfd_sum(s0), out[1] = vfd_sum(s1), out[2] = vfd_sum(s2), out[3] = vfd_sum(s3);
}
VF_INLINE vfd vfd_pow2(vfd n) {
    uint64_t b[VF_ND];
    vfd r;
    for (int i = 0; i < VF_ND; ++i) b[i] = (uint64_t)((int64_t)VF_AT(n, i) + 1023) << 52;
    memcpy(&r, b, sizeof r);
    return r;
}
/* Transposed load: out[j][i] = src[i][j] for j < 4 columns of VF_NF rows. */
VF_INLINE void vff_transpose4(const float *const *src, vff out[4]) {
    for (int j = 0; j < 4; ++j) {
        float row[VF_NF];
        for (int i = 0; i < VF_NF; ++i) row[i] = src[i][j];
        out[j] = vff_load(row);
    }
}
VF_INLINE void vfd_transpose4(const double *const *src, vfd out[4]) {
    for (int j = 0; j < 4; ++j) {
        double row[VF_ND];
        for (int i = 0; i < VF_ND; ++i) row[i] = src[i][j];
        out[j] = vfd_load(row);
    }
}
/* Truncation toward zero; the values must fit int32. */
VF_INLINE void vff_store_i32(int32_t *p, vff a) {
    for (int i = 0; i < VF_NF; ++i) p[i] = (int32_t)VF_AT(a, i);
}
VF_INLINE void vfd_store_i32(int32_t *p, vfd a) {
    for (int i = 0; i < VF_ND; ++i) p[i] = (int32_t)VF_AT(a, i);
}
#undef VF_MAP_
#undef VF_OP_
#endif

#endif
