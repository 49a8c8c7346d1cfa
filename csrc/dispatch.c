/* Which instruction set's kernels to use. Compiled once, without any VF_ISA_*.
 * VF_HAVE_X86 says that the x86 tables were built. */
#include <stdlib.h>
#include <string.h>

#include "vips_fast/vips_fast.h"

extern const vf_api vf_table_portable;
#ifdef VF_HAVE_X86
extern const vf_api vf_table_baseline, vf_table_avx2, vf_table_avx512;

static int has_baseline(void) { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt"); }
static int has_avx2(void) {
    return has_baseline() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
static int has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif

const vf_api *vf_api_for(const char *isa) {
    if (!isa) return NULL;
    if (!strcmp(isa, "portable")) return &vf_table_portable;
#ifdef VF_HAVE_X86
    __builtin_cpu_init();
    if (!strcmp(isa, "baseline") && has_baseline()) return &vf_table_baseline;
    if (!strcmp(isa, "avx2") && has_avx2()) return &vf_table_avx2;
    if (!strcmp(isa, "avx512") && has_avx512()) return &vf_table_avx512;
#endif
    return NULL;
}

const vf_api *vf_dispatch(void) {
    const char *forced = getenv("VIPS_FAST_ISA");
    if (forced && *forced) return vf_api_for(forced);
    static const char *const order[] = {"avx512", "avx2", "baseline", "portable"};
    for (size_t i = 0; i < sizeof order / sizeof *order; ++i) {
        const vf_api *api = vf_api_for(order[i]);
        if (api) return api;
    }
    return NULL;
}
