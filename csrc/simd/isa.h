/* Names for the instruction set that a translation unit is compiled for.
 *
 * Every kernel file is compiled once for each instruction set. Exactly one of VF_ISA_PORTABLE, VF_ISA_BASELINE,
 * VF_ISA_AVX2 and VF_ISA_AVX512 is defined then, and VF_FN(name) gives each copy its own symbol. The function table
 * (table.c) collects the copies; dispatch.c picks one table at run time. */
#ifndef VF_ISA_H
#define VF_ISA_H

#define VF_CAT_(a, b) a##_##b
#define VF_CAT(a, b) VF_CAT_(a, b)

#if defined(VF_ISA_AVX512)
#define VF_ISA_NAME avx512
#elif defined(VF_ISA_AVX2)
#define VF_ISA_NAME avx2
#elif defined(VF_ISA_BASELINE)
#define VF_ISA_NAME baseline
#elif defined(VF_ISA_PORTABLE)
#define VF_ISA_NAME portable
#else
#error "compile the kernels with one VF_ISA_* macro defined"
#endif

#define VF_FN(name) VF_CAT(name, VF_ISA_NAME)

/* f(0), f(1), ... for loops that are unrolled by hand. */
#define VF_EACH4(f) f(0), f(1), f(2), f(3)
#define VF_EACH8(f) VF_EACH4(f), f(4), f(5), f(6), f(7)

#define VF_ROUND_UP(n, m) (((n) + (m)-1) / (m) * (m))

/* Exchanges two variables. */
#define VF_SWAP(type, a, b)    \
    do {                       \
        type const old_ = (a); \
        (a) = (b);             \
        (b) = old_;            \
    } while (0)

/* Not 0 if an array of numbers is not aligned to its element type; NULL is. */
#define VF_OFF(p) ((uintptr_t)(p) & (sizeof *(p)-1))

/* A workspace may lie anywhere, but vectors that straddle cache lines cost twice. */
#define VF_LINE 64
#define VF_ALIGN_UP(p) ((void *)(((uintptr_t)(p) + VF_LINE - 1) & ~(uintptr_t)(VF_LINE - 1)))

#if defined(__GNUC__)
#define VF_INLINE static inline __attribute__((always_inline))
/* For loops that need all registers: inlined, the compiler gives some of them to the constants of the loops around. */
#define VF_NOINLINE static __attribute__((noinline))
#define VF_LIKELY(x) __builtin_expect(!!(x), 1)
#define VF_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define VF_RESTRICT __restrict__
#else
#define VF_INLINE static inline
#define VF_NOINLINE static
#define VF_LIKELY(x) (x)
#define VF_UNLIKELY(x) (x)
#define VF_RESTRICT restrict
#endif

#endif
