/* The function table of one instruction set. */
#include "chacha20.h"
#include "gaussian.h"
#include "gaussian_exact.h"
#include "lda_estep.h"
#include "os_random.h"
#include "symmetric.h"

#define VF_STR_(x) #x
#define VF_STR(x) VF_STR_(x)

const vf_api VF_FN(vf_table) = {
    .abi_version = VF_ABI_VERSION,
    .struct_size = sizeof(vf_api),
    .isa = VF_STR(VF_ISA_NAME),
    .lda_table_f32 = VF_FN(vf_lda_table_f32),
    .lda_table_f64 = VF_FN(vf_lda_table_f64),
    .lda_workspace_f32 = VF_FN(vf_lda_workspace_f32),
    .lda_workspace_f64 = VF_FN(vf_lda_workspace_f64),
    .lda_estep_f32 = VF_FN(vf_lda_estep_f32),
    .lda_estep_f64 = VF_FN(vf_lda_estep_f64),
    .lda_gather = VF_FN(vf_lda_gather),
    .os_random = vf_os_random,
    .chacha20_fill = VF_FN(vf_chacha20_fill),
    .chacha20_words = VF_FN(vf_chacha20_words),
    .rounded_gaussian = VF_FN(vf_rounded_gaussian),
    .add_rounded_gaussian = VF_FN(vf_add_rounded_gaussian),
    .symmetric_gaussian_i64 = VF_FN(vf_symmetric_gaussian_i64),
    .symmetric_gaussian_f64 = VF_FN(vf_symmetric_gaussian_f64),
    .symmetric_check_i64 = VF_FN(vf_symmetric_check_i64),
    .symmetric_check_f64 = VF_FN(vf_symmetric_check_f64),
    .int64_check = VF_FN(vf_int64_check),
    .gaussian_flagged = VF_FN(vf_gaussian_flagged),
    .gaussian_exact = vf_gaussian_exact,
};
