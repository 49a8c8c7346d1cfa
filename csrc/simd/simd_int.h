/* Integer vectors, and the few bit-level operations on doubles that noise needs.
 *
 * A vfw has VF_NW 32-bit words (the stream cipher). A vfq has VF_ND 64-bit words, one per lane of a vfd (simd/simd.h).
 * A vfm has a truth value per lane of a vfd.
 *
 *   vfq_andnot      ~a & b
 *   vfq_to_f64      of int64, correctly rounded
 *   vfd_flip_sign   a ^ (s & sign bit)
 *   vfd_abs_gt, lt  |a| > b, |a| < b; true for NaN
 *   vfd_split_unit  for s >= 2^-1022: the exponent e in s = m 2^(64 - e), m in [1/2, 1),
 *                   and 1 - m; for s < 0: 0 and -s 2^-64
 *   vfq_transpose   rows and columns of VF_ND vectors exchanged */
#ifndef VF_SIMD_INT_H
#define VF_SIMD_INT_H

#include "simd/simd.h"

#define VF_NW VF_NF
#if !defined(VF_ISA_PORTABLE)
#if defined(VF_ISA_AVX512)
typedef __m512i vfw;
typedef __mmask8 vfm;
#elif defined(VF_ISA_AVX2)
typedef __m256i vfw;
typedef __m256d vfm;
#else
typedef __m128i vfw;
typedef __m128d vfm;
#endif
typedef vfw vfq;
VF_INLINE vfw vfw_set1(uint32_t x) { return VF_MM(set1_epi32)((int)x); }
VF_INLINE vfw vfw_load(const uint32_t *p) { return VF_SI(loadu)((const void *)p); }
VF_INLINE void vfw_store(uint32_t *p, vfw a) { VF_SI(storeu)((void *)p, a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { return VF_MM(add_epi32)(a, b); }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { return VF_SI(xor)(a, b); }
VF_INLINE vfq vfq_load(const uint64_t *p) { return VF_SI(loadu)((const void *)p); }
VF_INLINE void vfq_store(uint64_t *p, vfq a) { VF_SI(storeu)((void *)p, a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { return VF_MM(add_epi64)(a, b); }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { return VF_MM(sub_epi64)(a, b); }
VF_INLINE vfq vfq_or(vfq a, vfq b) { return VF_SI(or)(a, b); }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { return VF_SI(xor)(a, b); }
VF_INLINE vfq vfq_andnot(vfq a, vfq b) { return VF_SI(andnot)(a, b); }
VF_INLINE vfq vfq_set1(uint64_t x) { return VF_SET1_I64((int64_t)x); }
#define vfq_shl(a, n) VF_MM(slli_epi64)((a), (n))
VF_INLINE vfq vfq_bits(vfd a) { return VF_SI(castpd)(a); }

#if defined(VF_ISA_AVX512)
/* ------------------------------------------------------------- AVX-512 */
#define vfw_rotl(a, n) _mm512_rol_epi32((a), (n))
VF_INLINE vfd vfq_to_f64(vfq a) { return _mm512_cvtepi64_pd(a); }
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) {
    return _mm512_castsi512_pd(
        _mm512_ternarylogic_epi64(_mm512_castpd_si512(a), s, _mm512_set1_epi64(INT64_MIN), 0x78));
}
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm512_cmp_pd_mask(_mm512_abs_pd(a), b, _CMP_NLE_UQ); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm512_cmp_pd_mask(_mm512_abs_pd(a), b, _CMP_NGE_UQ); }
VF_INLINE vfm vfm_or(vfm a, vfm b) { return (vfm)(a | b); }
VF_INLINE unsigned vfm_bits(vfm a) { return a; }
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const __mmask8 upper = _mm512_movepi64_mask(_mm512_castpd_si512(s));
    const __mmask8 lower = (__mmask8)~upper;
    *exponent = _mm512_maskz_sub_pd(lower, _mm512_set1_pd(63.0), _mm512_getexp_pd(s));
    *gap = _mm512_mask_sub_pd(_mm512_mul_pd(s, _mm512_set1_pd(-0x1p-64)), lower, _mm512_set1_pd(1.0),
                              _mm512_getmant_pd(s, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src));
}
VF_INLINE int vfq_any(vfq a) { return _mm512_test_epi64_mask(a, a) != 0; }
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    vfq a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm512_unpacklo_epi64(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi64(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; ++j) {
            b[i + j] = _mm512_shuffle_i64x2(a[i + j], a[i + j + 2], 0x88);
            b[i + j + 2] = _mm512_shuffle_i64x2(a[i + j], a[i + j + 2], 0xdd);
        }
    for (int j = 0; j < 4; ++j) {
        r[j] = _mm512_shuffle_i64x2(b[j], b[j + 4], 0x88);
        r[j + 4] = _mm512_shuffle_i64x2(b[j], b[j + 4], 0xdd);
    }
}
#else
/* -------------------------------------------- AVX2 + FMA, and SSE 4.2 */
/* Bytes that turn each word by 16 and by 8 bits. */
#define VF_BY_16 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define VF_BY_8 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14
#if defined(VF_ISA_AVX2)
#define VF_BYTES(b) _mm256_setr_epi8(b, b)
#else
#define VF_BYTES(b) _mm_setr_epi8(b)
#endif
VF_INLINE vfw vfw_rotl(vfw a, int n) {
    if (n == 16) return VF_MM(shuffle_epi8)(a, VF_BYTES(VF_BY_16));
    if (n == 8) return VF_MM(shuffle_epi8)(a, VF_BYTES(VF_BY_8));
    return VF_SI(or)(VF_MM(slli_epi32)(a, n), VF_MM(srli_epi32)(a, 32 - n));
}
/* The top 16 bits (signed) stand on 3 2^67, the lower 48 on 2^52. Each is exact as a double; their sum is
 * the one rounding. */
VF_INLINE vfd vfq_to_f64(vfq a) {
    vfq high = VF_MM(blend_epi16)(VF_MM(srai_epi32)(a, 16), VF_SI(setzero)(), 0x33);
    high = VF_MM(add_epi64)(high, vfq_bits(vfd_set1(0x1.8p68)));
    const vfq low = VF_MM(blend_epi16)(a, vfq_bits(vfd_set1(0x1p52)), 0x88);
    return vfd_add(vfd_sub(VF_FROM_SI(pd)(high), vfd_set1(0x1.8p68 + 0x1p52)), VF_FROM_SI(pd)(low));
}
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) { return VF_MM(xor_pd)(a, VF_MM(and_pd)(VF_FROM_SI(pd)(s), vfd_set1(-0.0))); }
#if defined(VF_ISA_AVX2)
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm256_cmp_pd(vfd_abs(a), b, _CMP_NLE_UQ); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm256_cmp_pd(vfd_abs(a), b, _CMP_NGE_UQ); }
#else
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm_cmpnle_pd(vfd_abs(a), b); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm_cmpnge_pd(vfd_abs(a), b); }
#endif
VF_INLINE vfm vfm_or(vfm a, vfm b) { return VF_MM(or_pd)(a, b); }
VF_INLINE unsigned vfm_bits(vfm a) { return (unsigned)VF_MM(movemask_pd)(a); }
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const vfq bits = vfq_bits(s);
    /* The biased exponent k as the double 2^52 + k. */
    const vfd biased = VF_FROM_SI(pd)(VF_SI(or)(VF_MM(srli_epi64)(bits, 52), vfq_bits(vfd_set1(0x1p52))));
    const vfd e = vfd_sub(vfd_set1(0x1p52 + 1086.0), biased);
    const vfq fraction = VF_SI(and)(bits, VF_SET1_I64(0x000fffffffffffffLL));
    const vfd m = VF_FROM_SI(pd)(VF_SI(or)(fraction, vfq_bits(vfd_set1(0.5))));
    /* blendv uses only the sign bit of its last argument. */
    *exponent = VF_MM(blendv_pd)(e, VF_MM(setzero_pd)(), s);
    *gap = VF_MM(blendv_pd)(vfd_sub(vfd_set1(1.0), m), vfd_mul(s, vfd_set1(-0x1p-64)), s);
}
VF_INLINE int vfq_any(vfq a) { return !VF_SI(testz)(a, a); }
#if defined(VF_ISA_AVX2)
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    const vfq a = _mm256_unpacklo_epi64(r[0], r[1]), b = _mm256_unpackhi_epi64(r[0], r[1]);
    const vfq c = _mm256_unpacklo_epi64(r[2], r[3]), d = _mm256_unpackhi_epi64(r[2], r[3]);
    r[0] = _mm256_permute2x128_si256(a, c, 0x20);
    r[1] = _mm256_permute2x128_si256(b, d, 0x20);
    r[2] = _mm256_permute2x128_si256(a, c, 0x31);
    r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}
#else
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    const vfq a = r[0];
    r[0] = _mm_unpacklo_epi64(a, r[1]);
    r[1] = _mm_unpackhi_epi64(a, r[1]);
}
#endif
#endif

#else
/* ---------------------------------------------------------- portable C */
typedef uint32_t vfw __attribute__((vector_size(16)));
typedef uint64_t vfq __attribute__((vector_size(16)));
typedef int64_t vfm __attribute__((vector_size(16)));
VF_INLINE vfw vfw_set1(uint32_t x) { VF_LANES(vfw, x); }
VF_INLINE vfw vfw_load(const uint32_t *p) {
    vfw r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vfw_store(uint32_t *p, vfw a) { memcpy(p, &a, sizeof a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { return a + b; }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { return a ^ b; }
VF_INLINE vfw vfw_rotl(vfw a, int n) { return a << n | a >> (32 - n); }
VF_INLINE vfq vfq_shl(vfq a, int n) { return a << n; }
VF_INLINE vfq vfq_load(const uint64_t *p) {
    vfq r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vfq_store(uint64_t *p, vfq a) { memcpy(p, &a, sizeof a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { return a + b; }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { return a - b; }
VF_INLINE vfq vfq_or(vfq a, vfq b) { return a | b; }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { return a ^ b; }
VF_INLINE vfq vfq_andnot(vfq a, vfq b) { return ~a & b; }
VF_INLINE vfq vfq_set1(uint64_t x) { VF_LANES(vfq, x); }
VF_INLINE int vfq_any(vfq a) { return (a[0] | a[1]) != 0; }
VF_INLINE vfd vfq_to_f64(vfq a) { VF_LANES(vfd, (double)(int64_t)a[i]); }
/* A cast between vectors keeps the bits. */
VF_INLINE vfq vfq_bits(vfd a) { return (vfq)a; }
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) { return (vfd)((vfq)a ^ (s & 0x8000000000000000u)); }
/* -1 if it holds. */
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return ~(vfm)((vfd)((vfq)a & 0x7fffffffffffffffu) <= b); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return ~(vfm)((vfd)((vfq)a & 0x7fffffffffffffffu) >= b); }
VF_INLINE vfm vfm_or(vfm a, vfm b) { return a | b; }
VF_INLINE unsigned vfm_bits(vfm a) { return (unsigned)((a[0] & 1) | (a[1] & 2)); }
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const vfd m = (vfd)(((vfq)s & 0x000fffffffffffffu) | 0x3fe0000000000000u);
    for (int i = 0; i < VF_ND; ++i) {
        (*exponent)[i] = s[i] < 0.0 ? 0.0 : 1086.0 - (double)(int64_t)(((vfq)s)[i] >> 52);
        (*gap)[i] = s[i] < 0.0 ? s[i] * -0x1p-64 : 1.0 - m[i];
    }
}
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    const uint64_t x = r[0][1];
    r[0][1] = r[1][0];
    r[1][0] = x;
}
#undef VF_LANES
#endif

#endif
