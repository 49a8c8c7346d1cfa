/* The function table of one instruction set. */
#include "lda_estep.h"
#include "sbn_estep.h"

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
    .sbn_pg_workspace_f32 = VF_FN(vf_sbn_pg_workspace_f32),
    .sbn_pg_workspace_f64 = VF_FN(vf_sbn_pg_workspace_f64),
    .sbn_quadratic_workspace = VF_FN(vf_sbn_quadratic_workspace),
    .sbn_moments_workspace = VF_FN(vf_sbn_moments_workspace),
    .sbn_gram_workspace = VF_FN(vf_sbn_gram_workspace),
    .sbn_pg_f32 = VF_FN(vf_sbn_pg_f32),
    .sbn_pg_f64 = VF_FN(vf_sbn_pg_f64),
    .sbn_quadratic = VF_FN(vf_sbn_quadratic),
    .sbn_clip = VF_FN(vf_sbn_clip),
    .sbn_visible_norms = VF_FN(vf_sbn_visible_norms),
    .sbn_cross = VF_FN(vf_sbn_cross),
    .sbn_gram = VF_FN(vf_sbn_gram),
    .sbn_moments = VF_FN(vf_sbn_moments),
};
