/* Single precision for a body that is included once for each precision. */
#undef REAL
#undef VEC
#undef LANES
#undef OP
#undef LOCAL
#undef KERNEL
#define REAL float
#define VEC vff
#define LANES VF_NF
#define OP(name) vff_##name
#define LOCAL(name) name##_f32
#define KERNEL(name) VF_FN(name##_f32)
