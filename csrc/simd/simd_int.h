/* Integer vectors, and the few bit-level operations on doubles that noise needs.
 *
 * vfw: VF_NW 32-bit words (the stream cipher). vfq: VF_ND 64-bit words, one per
 * lane of a vfd (simd/simd.h). vfm: a truth value per lane of a vfd. Conversions
 * from int64 are correctly rounded on every instruction set. vfq_transpose
 * exchanges rows and columns of VF_ND vectors. */
#ifndef VF_SIMD_INT_H
#define VF_SIMD_INT_H

#include "simd/simd.h"

#if defined(VF_ISA_AVX512)
/* ------------------------------------------------------------- AVX-512 */
#define VF_NW 16
typedef __m512i vfw;
typedef __m512i vfq;
typedef __mmask8 vfm;
VF_INLINE vfw vfw_set1(uint32_t x) { return _mm512_set1_epi32((int)x); }
VF_INLINE vfw vfw_load(const uint32_t *p) { return _mm512_loadu_si512(p); }
VF_INLINE void vfw_store(uint32_t *p, vfw a) { _mm512_storeu_si512(p, a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { return _mm512_add_epi32(a, b); }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { return _mm512_xor_si512(a, b); }
#define vfw_rotl(a, n) _mm512_rol_epi32((a), (n))
VF_INLINE vfq vfq_load(const uint64_t *p) { return _mm512_loadu_si512(p); }
VF_INLINE void vfq_store(uint64_t *p, vfq a) { _mm512_storeu_si512(p, a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { return _mm512_add_epi64(a, b); }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { return _mm512_sub_epi64(a, b); }
VF_INLINE vfd vfq_to_f64(vfq a) { return _mm512_cvtepi64_pd(a); }
VF_INLINE vfq vfq_bits(vfd a) { return _mm512_castpd_si512(a); }
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) { /* a ^ (s & sign bit) */
    return _mm512_castsi512_pd(
        _mm512_ternarylogic_epi64(_mm512_castpd_si512(a), s, _mm512_set1_epi64(INT64_MIN), 0x78));
}
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm512_cmp_pd_mask(_mm512_abs_pd(a), b, _CMP_NLE_UQ); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm512_cmp_pd_mask(_mm512_abs_pd(a), b, _CMP_NGE_UQ); }
VF_INLINE vfm vfm_or(vfm a, vfm b) { return (vfm)(a | b); }
VF_INLINE unsigned vfm_bits(vfm a) { return a; }
/* For s >= 2^-1022: exponent e with s = m 2^e, m in [1/2, 1), and 1 - m; for
 * s < 0: 0 and -s 2^-64. */
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const __mmask8 upper = _mm512_movepi64_mask(_mm512_castpd_si512(s));
    const __mmask8 lower = (__mmask8)~upper;
    *exponent = _mm512_maskz_sub_pd(lower, _mm512_set1_pd(63.0), _mm512_getexp_pd(s));
    *gap = _mm512_mask_sub_pd(_mm512_mul_pd(s, _mm512_set1_pd(-0x1p-64)), lower, _mm512_set1_pd(1.0),
                              _mm512_getmant_pd(s, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_src));
}
#define vfq_shl(a, n) _mm512_slli_epi64((a), (n))
VF_INLINE vfq vfq_or(vfq a, vfq b) { return _mm512_or_si512(a, b); }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { return _mm512_xor_si512(a, b); }
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

#elif defined(VF_ISA_AVX2)
/* ----------------------------------------------------------- AVX2 + FMA */
#define VF_NW 8
typedef __m256i vfw;
typedef __m256i vfq;
typedef __m256d vfm;
VF_INLINE vfw vfw_set1(uint32_t x) { return _mm256_set1_epi32((int)x); }
VF_INLINE vfw vfw_load(const uint32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
VF_INLINE void vfw_store(uint32_t *p, vfw a) { _mm256_storeu_si256((__m256i *)p, a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { return _mm256_add_epi32(a, b); }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { return _mm256_xor_si256(a, b); }
VF_INLINE vfw vfw_rotl(vfw a, int n) {
    if (n == 16)
        return _mm256_shuffle_epi8(a, _mm256_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3, 0, 1,
                                                       6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    if (n == 8)
        return _mm256_shuffle_epi8(a, _mm256_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14, 3, 0, 1, 2,
                                                       7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14));
    return _mm256_or_si256(_mm256_slli_epi32(a, n), _mm256_srli_epi32(a, 32 - n));
}
VF_INLINE vfq vfq_load(const uint64_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
VF_INLINE void vfq_store(uint64_t *p, vfq a) { _mm256_storeu_si256((__m256i *)p, a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { return _mm256_add_epi64(a, b); }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { return _mm256_sub_epi64(a, b); }
#define vfq_shl(a, n) _mm256_slli_epi64((a), (n))
/* The top 16 bits (signed), put on top of 3 2^67, and the lower 48, put on top of
 * 2^52, are each exact as a double; their sum is the one rounding. */
VF_INLINE vfd vfq_to_f64(vfq a) {
    __m256i high = _mm256_blend_epi16(_mm256_srai_epi32(a, 16), _mm256_setzero_si256(), 0x33);
    high = _mm256_add_epi64(high, _mm256_castpd_si256(_mm256_set1_pd(0x1.8p68)));
    const __m256i low = _mm256_blend_epi16(a, _mm256_castpd_si256(_mm256_set1_pd(0x1p52)), 0x88);
    const __m256d f = _mm256_sub_pd(_mm256_castsi256_pd(high), _mm256_set1_pd(0x1.8p68 + 0x1p52));
    return _mm256_add_pd(f, _mm256_castsi256_pd(low));
}
VF_INLINE vfq vfq_bits(vfd a) { return _mm256_castpd_si256(a); }
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) {
    return _mm256_xor_pd(a, _mm256_and_pd(_mm256_castsi256_pd(s), _mm256_set1_pd(-0.0)));
}
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm256_cmp_pd(vfd_abs(a), b, _CMP_NLE_UQ); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm256_cmp_pd(vfd_abs(a), b, _CMP_NGE_UQ); }
VF_INLINE vfm vfm_or(vfm a, vfm b) { return _mm256_or_pd(a, b); }
VF_INLINE unsigned vfm_bits(vfm a) { return (unsigned)_mm256_movemask_pd(a); }
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const __m256i bits = _mm256_castpd_si256(s);
    /* The biased exponent k as the double 2^52 + k. */
    const __m256d biased =
        _mm256_castsi256_pd(_mm256_or_si256(_mm256_srli_epi64(bits, 52), _mm256_castpd_si256(_mm256_set1_pd(0x1p52))));
    const __m256d e = _mm256_sub_pd(_mm256_set1_pd(0x1p52 + 1086.0), biased);
    const __m256d m = _mm256_castsi256_pd(_mm256_or_si256(
        _mm256_and_si256(bits, _mm256_set1_epi64x(0x000fffffffffffffLL)), _mm256_castpd_si256(_mm256_set1_pd(0.5))));
    /* blendv uses only the sign bit of its last argument. */
    *exponent = _mm256_blendv_pd(e, _mm256_setzero_pd(), s);
    *gap = _mm256_blendv_pd(_mm256_sub_pd(_mm256_set1_pd(1.0), m), _mm256_mul_pd(s, _mm256_set1_pd(-0x1p-64)), s);
}
VF_INLINE vfq vfq_or(vfq a, vfq b) { return _mm256_or_si256(a, b); }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { return _mm256_xor_si256(a, b); }
VF_INLINE int vfq_any(vfq a) { return !_mm256_testz_si256(a, a); }
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    const vfq a = _mm256_unpacklo_epi64(r[0], r[1]), b = _mm256_unpackhi_epi64(r[0], r[1]);
    const vfq c = _mm256_unpacklo_epi64(r[2], r[3]), d = _mm256_unpackhi_epi64(r[2], r[3]);
    r[0] = _mm256_permute2x128_si256(a, c, 0x20);
    r[1] = _mm256_permute2x128_si256(b, d, 0x20);
    r[2] = _mm256_permute2x128_si256(a, c, 0x31);
    r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

#elif defined(VF_ISA_BASELINE)
/* ------------------------------------------------- x86-64-v2 (SSE 4.2) */
#define VF_NW 4
typedef __m128i vfw;
typedef __m128i vfq;
typedef __m128d vfm;
VF_INLINE vfw vfw_set1(uint32_t x) { return _mm_set1_epi32((int)x); }
VF_INLINE vfw vfw_load(const uint32_t *p) { return _mm_loadu_si128((const __m128i *)p); }
VF_INLINE void vfw_store(uint32_t *p, vfw a) { _mm_storeu_si128((__m128i *)p, a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { return _mm_add_epi32(a, b); }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { return _mm_xor_si128(a, b); }
VF_INLINE vfw vfw_rotl(vfw a, int n) {
    if (n == 16) return _mm_shuffle_epi8(a, _mm_setr_epi8(2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
    if (n == 8) return _mm_shuffle_epi8(a, _mm_setr_epi8(3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14));
    return _mm_or_si128(_mm_slli_epi32(a, n), _mm_srli_epi32(a, 32 - n));
}
VF_INLINE vfq vfq_load(const uint64_t *p) { return _mm_loadu_si128((const __m128i *)p); }
VF_INLINE void vfq_store(uint64_t *p, vfq a) { _mm_storeu_si128((__m128i *)p, a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { return _mm_add_epi64(a, b); }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { return _mm_sub_epi64(a, b); }
#define vfq_shl(a, n) _mm_slli_epi64((a), (n))
VF_INLINE vfd vfq_to_f64(vfq a) {
    __m128i high = _mm_blend_epi16(_mm_srai_epi32(a, 16), _mm_setzero_si128(), 0x33);
    high = _mm_add_epi64(high, _mm_castpd_si128(_mm_set1_pd(0x1.8p68)));
    const __m128i low = _mm_blend_epi16(a, _mm_castpd_si128(_mm_set1_pd(0x1p52)), 0x88);
    const __m128d f = _mm_sub_pd(_mm_castsi128_pd(high), _mm_set1_pd(0x1.8p68 + 0x1p52));
    return _mm_add_pd(f, _mm_castsi128_pd(low));
}
VF_INLINE vfq vfq_bits(vfd a) { return _mm_castpd_si128(a); }
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) { return _mm_xor_pd(a, _mm_and_pd(_mm_castsi128_pd(s), _mm_set1_pd(-0.0))); }
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) { return _mm_cmpnle_pd(vfd_abs(a), b); }
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) { return _mm_cmpnge_pd(vfd_abs(a), b); }
VF_INLINE vfm vfm_or(vfm a, vfm b) { return _mm_or_pd(a, b); }
VF_INLINE unsigned vfm_bits(vfm a) { return (unsigned)_mm_movemask_pd(a); }
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    const __m128i bits = _mm_castpd_si128(s);
    const __m128d biased =
        _mm_castsi128_pd(_mm_or_si128(_mm_srli_epi64(bits, 52), _mm_castpd_si128(_mm_set1_pd(0x1p52))));
    const __m128d e = _mm_sub_pd(_mm_set1_pd(0x1p52 + 1086.0), biased);
    const __m128d m = _mm_castsi128_pd(
        _mm_or_si128(_mm_and_si128(bits, _mm_set1_epi64x(0x000fffffffffffffLL)), _mm_castpd_si128(_mm_set1_pd(0.5))));
    *exponent = _mm_blendv_pd(e, _mm_setzero_pd(), s);
    *gap = _mm_blendv_pd(_mm_sub_pd(_mm_set1_pd(1.0), m), _mm_mul_pd(s, _mm_set1_pd(-0x1p-64)), s);
}
VF_INLINE vfq vfq_or(vfq a, vfq b) { return _mm_or_si128(a, b); }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { return _mm_xor_si128(a, b); }
VF_INLINE int vfq_any(vfq a) { return !_mm_testz_si128(a, a); }
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    const vfq a = r[0];
    r[0] = _mm_unpacklo_epi64(a, r[1]);
    r[1] = _mm_unpackhi_epi64(a, r[1]);
}

#else
/* ---------------------------------------------------------- portable C */
#define VF_NW 4
#if defined(__GNUC__)
typedef uint32_t vfw __attribute__((vector_size(16)));
typedef uint64_t vfq __attribute__((vector_size(16)));
#define VF_OP_(T, N, a, op, b) return (a)op(b)
#else
typedef struct {
    uint32_t v[VF_NW];
} vfw;
typedef struct {
    uint64_t v[VF_ND];
} vfq;
#define VF_OP_(T, N, a, op, b) VF_MAP_(T, N, VF_AT(a, i) op VF_AT(b, i))
#endif
typedef struct {
    unsigned v[VF_ND];
} vfm;
#define VF_MAP_(T, N, expr)                             \
    T r;                                                \
    for (int i = 0; i < (N); ++i) VF_AT(r, i) = (expr); \
    return r
VF_INLINE vfw vfw_set1(uint32_t x) { VF_MAP_(vfw, VF_NW, x); }
VF_INLINE vfw vfw_load(const uint32_t *p) {
    vfw r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vfw_store(uint32_t *p, vfw a) { memcpy(p, &a, sizeof a); }
VF_INLINE vfw vfw_add(vfw a, vfw b) { VF_OP_(vfw, VF_NW, a, +, b); }
VF_INLINE vfw vfw_xor(vfw a, vfw b) { VF_OP_(vfw, VF_NW, a, ^, b); }
#if defined(__GNUC__)
VF_INLINE vfw vfw_rotl(vfw a, int n) { return a << n | a >> (32 - n); }
VF_INLINE vfq vfq_shl(vfq a, int n) { return a << n; }
#else
VF_INLINE vfw vfw_rotl(vfw a, int n) { VF_MAP_(vfw, VF_NW, VF_AT(a, i) << n | VF_AT(a, i) >> (32 - n)); }
VF_INLINE vfq vfq_shl(vfq a, int n) { VF_MAP_(vfq, VF_ND, VF_AT(a, i) << n); }
#endif
VF_INLINE vfq vfq_load(const uint64_t *p) {
    vfq r;
    memcpy(&r, p, sizeof r);
    return r;
}
VF_INLINE void vfq_store(uint64_t *p, vfq a) { memcpy(p, &a, sizeof a); }
VF_INLINE vfq vfq_add(vfq a, vfq b) { VF_OP_(vfq, VF_ND, a, +, b); }
VF_INLINE vfq vfq_sub(vfq a, vfq b) { VF_OP_(vfq, VF_ND, a, -, b); }
VF_INLINE vfd vfq_to_f64(vfq a) { VF_MAP_(vfd, VF_ND, (double)(int64_t)VF_AT(a, i)); }
VF_INLINE vfq vfq_bits(vfd a) {
    vfq r;
    memcpy(&r, &a, sizeof r);
    return r;
}
VF_INLINE vfd vfd_flip_sign(vfd a, vfq s) {
    vfq b = vfq_bits(a);
    for (int i = 0; i < VF_ND; ++i) VF_AT(b, i) ^= VF_AT(s, i) & 0x8000000000000000u;
    memcpy(&a, &b, sizeof a);
    return a;
}
VF_INLINE vfm vfd_abs_gt(vfd a, vfd b) {
    vfm r;
    for (int i = 0; i < VF_ND; ++i) r.v[i] = !(fabs(VF_AT(a, i)) <= VF_AT(b, i));
    return r;
}
VF_INLINE vfm vfd_abs_lt(vfd a, vfd b) {
    vfm r;
    for (int i = 0; i < VF_ND; ++i) r.v[i] = !(fabs(VF_AT(a, i)) >= VF_AT(b, i));
    return r;
}
VF_INLINE vfm vfm_or(vfm a, vfm b) {
    for (int i = 0; i < VF_ND; ++i) a.v[i] |= b.v[i];
    return a;
}
VF_INLINE unsigned vfm_bits(vfm a) {
    unsigned bits = 0;
    for (int i = 0; i < VF_ND; ++i) bits |= a.v[i] << i;
    return bits;
}
VF_INLINE void vfd_split_unit(vfd s, vfd *exponent, vfd *gap) {
    for (int i = 0; i < VF_ND; ++i) {
        const double x = VF_AT(s, i);
        uint64_t bits;
        memcpy(&bits, &x, 8);
        const uint64_t unit = (bits & 0x000fffffffffffffu) | 0x3fe0000000000000u;
        double m;
        memcpy(&m, &unit, 8);
        VF_AT(*exponent, i) = x < 0.0 ? 0.0 : 1086.0 - (double)(int64_t)(bits >> 52);
        VF_AT(*gap, i) = x < 0.0 ? x * -0x1p-64 : 1.0 - m;
    }
}
VF_INLINE vfq vfq_or(vfq a, vfq b) { VF_OP_(vfq, VF_ND, a, |, b); }
VF_INLINE vfq vfq_xor(vfq a, vfq b) { VF_OP_(vfq, VF_ND, a, ^, b); }
VF_INLINE int vfq_any(vfq a) {
    uint64_t any = 0;
    for (int i = 0; i < VF_ND; ++i) any |= VF_AT(a, i);
    return any != 0;
}
VF_INLINE void vfq_transpose(vfq r[VF_ND]) {
    for (int i = 0; i < VF_ND; ++i)
        for (int j = i + 1; j < VF_ND; ++j) {
            const uint64_t x = VF_AT(r[i], j);
            VF_AT(r[i], j) = VF_AT(r[j], i);
            VF_AT(r[j], i) = x;
        }
}
#undef VF_MAP_
#undef VF_OP_
#endif

#endif
