/* Double precision for a body that is included once for each precision. */
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
