/* vips_fast: kernels for differentially private variational Bayes.
 *
 * This header is the whole C interface. It needs no Python: hold a pointer to
 * a vf_api table (from vf_dispatch() when linked statically, or from the
 * capsule vips_fast.kernels._native._C_API) and call through it. Every
 * function is pure, single-threaded, allocates nothing, may be called from any
 * thread without the GIL, and returns a vf_status. Sizes come before arrays,
 * outputs last. On an error status nothing in the outputs is to be used. */
#ifndef VIPS_FAST_H
#define VIPS_FAST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Status codes are never renumbered; new ones are added at the end. */
typedef enum vf_status {
    VF_OK = 0,
    VF_ERR_NULL = 1,       /* a required pointer is NULL */
    VF_ERR_SIZE = 2,       /* a size is negative, zero where it may not be, or overflows */
    VF_ERR_INDEX = 3,      /* a column index is out of range or not strictly increasing in its row */
    VF_ERR_INDPTR = 4,     /* row pointers fall */
    VF_ERR_PARAMETER = 5,  /* a scalar parameter is out of its range */
    VF_ERR_WORKSPACE = 6,  /* the workspace is too small */
    VF_ERR_ALIGNMENT = 7   /* an array is not aligned to its element type */
} vf_status;

#define VF_ABI_VERSION 1

/* Part of vf_api.lda_resample's scratch that does not depend on the documents. */
#define VF_LDA_RESAMPLE_TOKENS 65536

/* Elements from one row to the next of the LDA table of K topics. */
#define VF_LDA_STRIDE(n_topics) (((int64_t)(n_topics) + 3) / 4 * 4)

/* Elements from one row to the next of the sigmoid belief network's tables of J visible units. */
#define VF_SBN_STRIDE(n_visible) (((int64_t)(n_visible) + 15) / 16 * 16)

/* Per-call parameters of the LDA E-step. */
typedef struct vf_lda_params {
    double tol;        /* stop when mean_k |change of gamma_k| < tol; 0: run max_iter rounds */
    int32_t max_iter;  /* most rounds a document, >= 0 */
    double clip_norm;  /* L2 bound C of a document's contribution; <= 0: no clipping */
    double spacing;    /* lattice spacing g of the integer sums, a power of two */
} vf_lda_params;

typedef struct vf_api {
    uint32_t abi_version; /* VF_ABI_VERSION */
    uint32_t struct_size; /* sizeof(vf_api) of the library; fields are only ever added at the end */
    const char *isa;      /* "portable", "baseline", "avx2" or "avx512" */

    /* LDA E-step. See csrc/lda_estep.h for the meaning of each argument. */
    int32_t (*lda_table_f32)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                             int64_t stride_word, float *table);
    int32_t (*lda_table_f64)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                             int64_t stride_word, double *table);
    int64_t (*lda_workspace_f32)(int64_t n_topics, int64_t max_doc_words);
    int64_t (*lda_workspace_f64)(int64_t n_topics, int64_t max_doc_words);
    int32_t (*lda_estep_f32)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                             const int64_t *indptr, const int32_t *indices, const double *counts, const float *table,
                             const double *alpha, void *workspace, int64_t workspace_bytes, double *gamma,
                             int64_t *sums, int32_t *n_iter, double *norms);
    int32_t (*lda_estep_f64)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                             const int64_t *indptr, const int32_t *indices, const double *counts, const double *table,
                             const double *alpha, void *workspace, int64_t workspace_bytes, double *gamma,
                             int64_t *sums, int32_t *n_iter, double *norms);
    int32_t (*lda_resample)(int64_t n_docs, int64_t doc_length, const int64_t *indptr, const int32_t *counts,
                            const uint64_t *seeds, int64_t scratch_items, uint32_t *scratch, double *resampled);

    /* Sigmoid belief networks. See csrc/sbn_estep.h for the meaning of each argument. */
    int64_t (*sbn_pg_workspace_f32)(int64_t n_visible, int64_t n_hidden);
    int64_t (*sbn_pg_workspace_f64)(int64_t n_visible, int64_t n_hidden);
    int64_t (*sbn_quadratic_workspace)(int64_t n_visible, int64_t n_hidden);
    int64_t (*sbn_moments_workspace)(int64_t n_visible, int64_t n_hidden);
    int64_t (*sbn_gram_workspace)(int64_t n_hidden);
    int32_t (*sbn_pg_f32)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps, const uint8_t *y,
                          const float *w, const float *w2, const float *c, const float *c_var, const float *b,
                          const float *start, void *workspace, int64_t workspace_bytes, double *z, double *xi);
    int32_t (*sbn_pg_f64)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps, const uint8_t *y,
                          const double *w, const double *w2, const double *c, const double *c_var, const double *b,
                          const double *start, void *workspace, int64_t workspace_bytes, double *z, double *xi);
    int32_t (*sbn_quadratic)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps, const uint8_t *y,
                             const double *w, const double *gram, const double *linear, const double *start,
                             void *workspace, int64_t workspace_bytes, double *z);
    int32_t (*sbn_clip)(int64_t n_records, int64_t n_columns, double clip_norm, double spacing, const double *x,
                        const double *center, const double *factor, double *units, double *norms);
    int32_t (*sbn_visible_norms)(int64_t n_records, int64_t n_visible, const uint8_t *y, const double *center,
                                 double *norms);
    int32_t (*sbn_cross)(int64_t n_records, int64_t n_visible, int64_t n_hidden, const uint8_t *y, const double *v,
                         int64_t *sums);
    int32_t (*sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace, int64_t workspace_bytes,
                        int64_t *sums);
    int32_t (*sbn_moments)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int64_t first, int64_t last,
                           double pair_scale, const double *x, const double *z, void *workspace,
                           int64_t workspace_bytes, int64_t *sums);
} vf_api;

/* The table for this machine: the widest supported instruction set, or the one
 * that the environment variable VIPS_FAST_ISA names. NULL if that name is
 * unknown or the machine lacks it. */
const vf_api *vf_dispatch(void);
/* The table for one named instruction set, or NULL. */
const vf_api *vf_api_for(const char *isa);
/* A constant English sentence for a status code. */
const char *vf_status_message(int32_t status);

#ifdef __cplusplus
}
#endif
#endif
