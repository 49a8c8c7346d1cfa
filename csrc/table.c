/* The function table of one instruction set. */
#include "blr_estep.h"
#include "lda_estep.h"
#include "pg_mean.h"

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
    .lda_resample = VF_FN(vf_lda_resample),
    .pg_mean_f32 = VF_FN(vf_pg_mean_f32),
    .pg_mean_f64 = VF_FN(vf_pg_mean_f64),
    .blr_workspace = VF_FN(vf_blr_workspace),
    .blr_weights_f32 = VF_FN(vf_blr_weights_f32),
    .blr_weights_f64 = VF_FN(vf_blr_weights_f64),
    .blr_accumulate_f32 = VF_FN(vf_blr_accumulate_f32),
    .blr_accumulate_f64 = VF_FN(vf_blr_accumulate_f64),
    .blr_round = VF_FN(vf_blr_round),
};
