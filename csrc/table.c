/* The function table of one instruction set. */
#include "blr_estep.h"
#include "chacha20.h"
#include "gaussian.h"
#include "gaussian_exact.h"
#include "lda_estep.h"
#include "shrink.h"
#include "sbn_estep.h"
#include "os_random.h"
#include "pg_mean.h"
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
    .pg_mean_f32 = VF_FN(vf_pg_mean_f32),
    .pg_mean_f64 = VF_FN(vf_pg_mean_f64),
    .blr_workspace = VF_FN(vf_blr_workspace),
    .blr_weights_f32 = VF_FN(vf_blr_weights_f32),
    .blr_weights_f64 = VF_FN(vf_blr_weights_f64),
    .blr_accumulate_f32 = VF_FN(vf_blr_accumulate_f32),
    .blr_accumulate_f64 = VF_FN(vf_blr_accumulate_f64),
    .blr_round = VF_FN(vf_blr_round),
    .shrink_means = VF_FN(vf_shrink_means),
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
    .status_message = vf_status_message,
};
