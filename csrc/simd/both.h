/* Includes VF_BODY, the name of a file, once for single and once for double precision. In it
 * OP(name) is an operation of simd.h, LOCAL(name) a name of this precision and KERNEL(name)
 * the kernel of this precision and instruction set. */
#define REAL float
#define VEC vff
#define LANES VF_NF
#define OP(name) vff_##name
#define LOCAL(name) name##_f32
#define KERNEL(name) VF_FN(name##_f32)
#include VF_BODY
#undef REAL
#undef VEC
#undef LANES
#undef OP
#undef LOCAL
#undef KERNEL
#define REAL double
#define VEC vfd
#define LANES VF_ND
#define OP(name) vfd_##name
#define LOCAL(name) name##_f64
#define KERNEL(name) VF_FN(name##_f64)
#include VF_BODY
#undef REAL
#undef VEC
#undef LANES
#undef OP
#undef LOCAL
#undef KERNEL
#undef VF_BODY
