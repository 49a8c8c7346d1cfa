/* vips_fast: kernels for differentially private variational Bayes.
 *
 * This header is the whole C interface. It needs no Python: hold a pointer to
 * a vf_api table (from vf_dispatch() when linked statically, or from the
 * capsule vips_fast.kernels.native._C_API) and call through it. Every
 * function is pure, single-threaded, allocates nothing, may be called from any
 * thread without the GIL, and returns a vf_status. Sizes come before arrays,
 * outputs last. On an error status nothing in the outputs is to be used. */
#ifndef VIPS_FAST_H
#define VIPS_FAST_H

#ifdef VIPS_FAST_WITH_PYTHON
#include <Python.h> /* before any standard header, as Python asks */
#endif

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
    VF_ERR_ALIGNMENT = 7,  /* an array is not aligned to its element type */
    VF_ERR_RANGE = 8,      /* a number is so large that adding noise could overflow, or is off its lattice */
    VF_ERR_ENTROPY = 9,    /* the operating system gives no random bits, or the key's bits are not random */
    VF_ERR_ABI = 10        /* a function table of another interface version or too small a size; from vf_check_api */
} vf_status;

#define VF_ABI_VERSION 1

/* The lattice spacings that the kernels take, powers of two. The LDA E-step's range is
 * narrower: squares of numbers below its spacing may underflow in float32. */
#define VF_MIN_SPACING 0x1p-100
#define VF_MAX_SPACING 0x1p100
#define VF_LDA_MIN_SPACING 0x1p-60
#define VF_LDA_MAX_SPACING 0x1p60

/* Limits of the LDA E-step: entries of the prior, and words of one document. */
#define VF_LDA_MIN_ALPHA 1e-30
#define VF_LDA_MAX_ALPHA 1e30
#define VF_LDA_MIN_WORDS 1e-30
#define VF_LDA_MAX_WORDS 1e15

/* How vf_api.lda_gather brings a document to a length. */
#define VF_LDA_AS_IS 0
#define VF_LDA_RESAMPLE 1
#define VF_LDA_SCALE 2
/* Least scratch items of vf_api.lda_gather when it resamples. */
#define VF_LDA_RESAMPLE_TOKENS 65536

/* Elements from one row to the next of the LDA table of K topics. */
#define VF_LDA_STRIDE(n_topics) (((int64_t)(n_topics) + 3) / 4 * 4)

/* Elements from one row to the next of the sigmoid belief network's tables of J visible units. */
#define VF_SBN_STRIDE(n_visible) (((int64_t)(n_visible) + 15) / 16 * 16)

/* Noise: the largest scale, and a bound on |draw| / scale. A larger draw would
 * need 1024 leading zero bits; VF_ERR_ENTROPY is returned instead. */
#define VF_GAUSSIAN_MAX_SCALE 0x1p50
#define VF_GAUSSIAN_REACH 64

/* Most grid points of vf_api.shrink_means. */
#define VF_SHRINK_GRID 32

/* Per-call parameters of the LDA E-step. */
typedef struct vf_lda_params {
    double tol;        /* stop when mean_k |change of gamma_k| < tol; 0: run max_iter rounds */
    int32_t max_iter;  /* most rounds a document, >= 0 */
    double clip_norm;  /* L2 bound C of a document's contribution, C/g in [1, 2^31); <= 0: no clipping */
    double spacing;    /* lattice spacing g of the integer sums, a power of two; not read where sums is NULL */
} vf_lda_params;

/* Per-call parameters of the logistic regression E-step; see csrc/blr_estep.c. */
typedef struct vf_blr_params {
    double row_norm;        /* R in [2^-100, 1e150]: rows are scaled down to this L2 norm */
    double n_trials;        /* b in (0, 1e15], the number of trials of each record without its own */
    double scale_linear;    /* C1 >= 2^-100; infinite leaves the linear statistic out */
    double scale_quadratic; /* C2 >= 2^-100; infinite leaves the quadratic statistic out */
    double clip_norm;       /* L2 bound L of the scaled contribution; L/g in [4, 2^31), L/h^2 in [1, 2^42] */
    double spacing;         /* lattice spacing g of the linear statistic, a power of two */
    double factor_spacing;  /* lattice spacing h of the quadratic statistic's factors, a power of two */
    int32_t label_free;     /* nonzero: the joint clip looks at the worst y in place of the record's own */
} vf_blr_params;

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
    int32_t (*lda_gather)(int64_t n_docs, int64_t n_rows, int64_t capacity, int32_t mode, int64_t doc_length,
                          const int64_t *rows, const int64_t *indptr, const int32_t *indices, const int32_t *counts,
                          const uint64_t *seeds, int64_t scratch_items, uint32_t *scratch, int64_t *out_indptr,
                          int32_t *out_indices, double *out_counts);

    /* Noise. See csrc/chacha20.h and csrc/gaussian.h. A key is 32 bytes; a nonce 12. */
    int32_t (*os_random)(int64_t n_bytes, uint8_t *out); /* from the operating system; not pure */
    int32_t (*chacha20_fill)(int64_t n_bytes, const uint8_t *key, const uint8_t *nonce, uint32_t counter, uint8_t *out);
    int32_t (*chacha20_words)(int64_t n, int64_t first, const uint8_t *key, uint64_t *out);
    int32_t (*rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t *out);
    int32_t (*add_rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t *sums);
    int32_t (*symmetric_gaussian_i64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                      double scale_off, const uint8_t *key, int64_t stride, int64_t *matrix);
    int32_t (*symmetric_gaussian_f64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                      double scale_off, double spacing, const uint8_t *key, int64_t stride,
                                      double *matrix);
    int32_t (*symmetric_check_i64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                                   const int64_t *matrix);
    int32_t (*symmetric_check_f64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, double spacing,
                                   int64_t stride, const double *matrix);
    int32_t (*int64_check)(int64_t n, int64_t limit, const int64_t *x);
    int32_t (*gaussian_flagged)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t capacity,
                                int64_t *indices, int64_t *n_flagged);
    int32_t (*gaussian_exact)(uint64_t u, uint64_t v, int64_t index, double scale, int32_t limbs, const uint8_t *key,
                              int64_t *out);

    /* Polya-Gamma mean and logistic regression. See csrc/pg_mean.h, csrc/blr_estep.h. */
    int32_t (*pg_mean_f32)(int64_t n, float b, const float *c, float *out);
    int32_t (*pg_mean_f64)(int64_t n, double b, const double *c, double *out);
    int64_t (*blr_workspace)(int64_t n_features, int32_t dense);
    int32_t (*blr_weights_f32)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                               const int32_t *indices, const float *values, const double *y, const double *trials,
                               const double *second_moment, const double *center, void *workspace,
                               int64_t workspace_bytes, double *linear, double *quadratic, double *xi, double *norms);
    int32_t (*blr_weights_f64)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                               const int32_t *indices, const double *values, const double *y, const double *trials,
                               const double *second_moment, const double *center, void *workspace,
                               int64_t workspace_bytes, double *linear, double *quadratic, double *xi, double *norms);
    int32_t (*blr_accumulate_f32)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                  const int64_t *indptr, const int32_t *indices, const float *values,
                                  const double *linear, const double *quadratic, void *workspace,
                                  int64_t workspace_bytes, int64_t *sums_linear, int64_t *sums_quadratic);
    int32_t (*blr_accumulate_f64)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                  const int64_t *indptr, const int32_t *indices, const double *values,
                                  const double *linear, const double *quadratic, void *workspace,
                                  int64_t workspace_bytes, int64_t *sums_linear, int64_t *sums_quadratic);
    int32_t (*blr_round)(int64_t n_features, double diagonal, double off_diagonal, int64_t *sums);

    /* Empirical-Bayes means of noised statistics. See csrc/shrink.h. */
    int32_t (*shrink_means)(int64_t n_words, int64_t n_topics, int64_t n_grid, int64_t n_bands, double sd,
                            const double *average, const double *word_mass, const double *topic_weight,
                            const float *grid, const float *prior, const int32_t *band, float *workspace, float *means,
                            double *responsibility);
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

    /* A constant English sentence for a status code. */
    const char *(*status_message)(int32_t status);
} vf_api;

/* The table for this machine: the widest supported instruction set, or the one
 * that the environment variable VIPS_FAST_ISA names. NULL if that name is
 * unknown or the machine lacks it. */
const vf_api *vf_dispatch(void);
/* The table for one named instruction set, or NULL. */
const vf_api *vf_api_for(const char *isa);
/* A constant English sentence for a status code. */
const char *vf_status_message(int32_t status);

/* Does a table that was handed over fit this header? VF_OK, VF_ERR_NULL or
 * VF_ERR_ABI. A table of the same version may be longer, never shorter. */
static inline int32_t vf_check_api(const vf_api *api) {
    if (!api) return VF_ERR_NULL;
    if (api->abi_version != VF_ABI_VERSION || api->struct_size < sizeof(vf_api)) return VF_ERR_ABI;
    return VF_OK;
}

#if defined(VIPS_FAST_WITH_PYTHON) || defined(Py_PYTHON_H)
#define VF_CAPSULE "vips_fast.kernels.native._C_API"

/* The table of the installed Python package, or NULL with ImportError set. Call
 * it once, with the GIL, when your module is made; the pointer stays valid for
 * the life of the process. Needs Python.h: include it first, or define
 * VIPS_FAST_WITH_PYTHON. */
static inline const vf_api *vips_fast_import(void) {
    const vf_api *api = (const vf_api *)PyCapsule_Import(VF_CAPSULE, 0);
    if (!api) {
        if (!PyErr_ExceptionMatches(PyExc_ImportError))
            PyErr_SetString(PyExc_ImportError, "vips_fast: the installed package has no C interface (" VF_CAPSULE ")");
        return NULL;
    }
    if (vf_check_api(api) != VF_OK) {
        PyErr_Format(PyExc_ImportError,
                     "vips_fast: the installed package has C interface version %u of %u bytes, expected version %u of "
                     "at least %u bytes; %s",
                     (unsigned)api->abi_version, (unsigned)api->struct_size, (unsigned)VF_ABI_VERSION,
                     (unsigned)sizeof(vf_api),
                     api->abi_version == VF_ABI_VERSION ? "install a newer vips_fast"
                                                        : "rebuild this module against the installed vips_fast");
        return NULL;
    }
    return api;
}
#endif

#ifdef __cplusplus
}
#endif
#endif
