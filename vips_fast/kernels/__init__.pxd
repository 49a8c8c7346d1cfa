# The C interface for Cython: kernels that are called without the GIL.
#
#     from vips_fast.kernels cimport vf_api, vips_fast_import
#     cdef const vf_api *kernels = vips_fast_import()
#
# Compile with vips_fast.get_include() on the include path. The functions come
# through the capsule at import, so nothing is linked. See vips_fast.h for what
# each one does.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef extern from "vips_fast/vips_fast.h" nogil:
    ctypedef enum vf_status:
        VF_OK
        VF_ERR_NULL
        VF_ERR_SIZE
        VF_ERR_INDEX
        VF_ERR_INDPTR
        VF_ERR_PARAMETER
        VF_ERR_WORKSPACE
        VF_ERR_ALIGNMENT
        VF_ERR_RANGE
        VF_ERR_ENTROPY
        VF_ERR_ABI
    int VF_ABI_VERSION
    int VF_LDA_AS_IS
    int VF_LDA_RESAMPLE
    int VF_LDA_SCALE
    int VF_LDA_RESAMPLE_TOKENS
    int VF_SHRINK_GRID
    int VF_GAUSSIAN_REACH
    double VF_GAUSSIAN_MAX_SCALE
    int64_t VF_LDA_STRIDE(int64_t n_topics)
    int64_t VF_SBN_STRIDE(int64_t n_visible)
    ctypedef struct vf_lda_params:
        double tol
        int32_t max_iter
        double clip_norm
        double spacing
    ctypedef struct vf_blr_params:
        double row_norm
        double n_trials
        double scale_linear
        double scale_quadratic
        double clip_norm
        double spacing
        double factor_spacing
        int32_t label_free
    ctypedef struct vf_api:
        uint32_t abi_version
        uint32_t struct_size
        const char *isa
        int32_t (*lda_table_f32)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                                 int64_t stride_word, float *table) noexcept nogil
        int32_t (*lda_table_f64)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                                 int64_t stride_word, double *table) noexcept nogil
        int64_t (*lda_workspace_f32)(int64_t n_topics, int64_t max_doc_words) noexcept nogil
        int64_t (*lda_workspace_f64)(int64_t n_topics, int64_t max_doc_words) noexcept nogil
        int32_t (*lda_estep_f32)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                                 const int64_t *indptr, const int32_t *indices, const double *counts,
                                 const float *table, const double *alpha, void *workspace, int64_t workspace_bytes,
                                 double *gamma, int64_t *sums, int32_t *n_iter, double *norms) noexcept nogil
        int32_t (*lda_estep_f64)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                                 const int64_t *indptr, const int32_t *indices, const double *counts,
                                 const double *table, const double *alpha, void *workspace, int64_t workspace_bytes,
                                 double *gamma, int64_t *sums, int32_t *n_iter, double *norms) noexcept nogil
        int32_t (*lda_gather)(int64_t n_docs, int64_t n_rows, int64_t capacity, int32_t mode, int64_t doc_length,
                              const int64_t *rows, const int64_t *indptr, const int32_t *indices,
                              const int32_t *counts, const uint64_t *seeds, int64_t scratch_items, uint32_t *scratch,
                              int64_t *out_indptr, int32_t *out_indices, double *out_counts) noexcept nogil
        int32_t (*os_random)(int64_t n_bytes, uint8_t *out) noexcept nogil
        int32_t (*chacha20_fill)(int64_t n_bytes, const uint8_t *key, const uint8_t *nonce, uint32_t counter,
                                 uint8_t *out) noexcept nogil
        int32_t (*chacha20_words)(int64_t n, int64_t first, const uint8_t *key, uint64_t *out) noexcept nogil
        int32_t (*rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key,
                                    int64_t *out) noexcept nogil
        int32_t (*add_rounded_gaussian)(int64_t n, int64_t first, double scale, const uint8_t *key,
                                        int64_t *sums) noexcept nogil
        int32_t (*symmetric_gaussian_i64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                          double scale_off, const uint8_t *key, int64_t stride,
                                          int64_t *matrix) noexcept nogil
        int32_t (*symmetric_gaussian_f64)(int64_t d, int64_t row_begin, int64_t row_end, double scale_diagonal,
                                          double scale_off, double spacing, const uint8_t *key, int64_t stride,
                                          double *matrix) noexcept nogil
        int32_t (*symmetric_check_i64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, int64_t stride,
                                       const int64_t *matrix) noexcept nogil
        int32_t (*symmetric_check_f64)(int64_t d, int64_t row_begin, int64_t row_end, int64_t limit, double spacing,
                                       int64_t stride, const double *matrix) noexcept nogil
        int32_t (*int64_check)(int64_t n, int64_t limit, const int64_t *x) noexcept nogil
        int32_t (*gaussian_flagged)(int64_t n, int64_t first, double scale, const uint8_t *key, int64_t capacity,
                                    int64_t *indices, int64_t *n_flagged) noexcept nogil
        int32_t (*gaussian_exact)(uint64_t u, uint64_t v, int64_t index, double scale, int32_t limbs,
                                  const uint8_t *key, int64_t *out) noexcept nogil
        int32_t (*pg_mean_f32)(int64_t n, float b, const float *c, float *out) noexcept nogil
        int32_t (*pg_mean_f64)(int64_t n, double b, const double *c, double *out) noexcept nogil
        int64_t (*blr_workspace)(int64_t n_features, int32_t dense) noexcept nogil
        int32_t (*blr_weights_f32)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                                   const int32_t *indices, const float *values, const double *y, const double *trials,
                                   const double *second_moment, const double *center, void *workspace,
                                   int64_t workspace_bytes, double *linear, double *quadratic, double *xi,
                                   double *norms) noexcept nogil
        int32_t (*blr_weights_f64)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                                   const int32_t *indices, const double *values, const double *y,
                                   const double *trials, const double *second_moment, const double *center,
                                   void *workspace, int64_t workspace_bytes, double *linear, double *quadratic,
                                   double *xi, double *norms) noexcept nogil
        int32_t (*blr_accumulate_f32)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                      const int64_t *indptr, const int32_t *indices, const float *values,
                                      const double *linear, const double *quadratic, void *workspace,
                                      int64_t workspace_bytes, int64_t *sums_linear,
                                      int64_t *sums_quadratic) noexcept nogil
        int32_t (*blr_accumulate_f64)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                      const int64_t *indptr, const int32_t *indices, const double *values,
                                      const double *linear, const double *quadratic, void *workspace,
                                      int64_t workspace_bytes, int64_t *sums_linear,
                                      int64_t *sums_quadratic) noexcept nogil
        int32_t (*blr_round)(int64_t n_features, double diagonal, double off_diagonal, int64_t *sums) noexcept nogil
        int32_t (*shrink_means)(int64_t n_words, int64_t n_topics, int64_t n_grid, int64_t n_bands, double sd,
                                const double *average, const double *word_mass, const double *topic_weight,
                                const float *grid, const float *prior, const int32_t *band, float *workspace,
                                float *means, double *responsibility) noexcept nogil
        int64_t (*sbn_pg_workspace_f32)(int64_t n_visible, int64_t n_hidden) noexcept nogil
        int64_t (*sbn_pg_workspace_f64)(int64_t n_visible, int64_t n_hidden) noexcept nogil
        int64_t (*sbn_quadratic_workspace)(int64_t n_visible, int64_t n_hidden) noexcept nogil
        int64_t (*sbn_moments_workspace)(int64_t n_visible, int64_t n_hidden) noexcept nogil
        int64_t (*sbn_gram_workspace)(int64_t n_hidden) noexcept nogil
        int32_t (*sbn_pg_f32)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps,
                              const uint8_t *y, const float *w, const float *w2, const float *c, const float *c_var,
                              const float *b, const float *start, void *workspace, int64_t workspace_bytes, double *z,
                              double *xi) noexcept nogil
        int32_t (*sbn_pg_f64)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps,
                              const uint8_t *y, const double *w, const double *w2, const double *c,
                              const double *c_var, const double *b, const double *start, void *workspace,
                              int64_t workspace_bytes, double *z, double *xi) noexcept nogil
        int32_t (*sbn_quadratic)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps,
                                 const uint8_t *y, const double *w, const double *gram, const double *linear,
                                 const double *start, void *workspace, int64_t workspace_bytes,
                                 double *z) noexcept nogil
        int32_t (*sbn_clip)(int64_t n_records, int64_t n_columns, double clip_norm, double spacing, const double *x,
                            const double *center, const double *factor, double *units, double *norms) noexcept nogil
        int32_t (*sbn_visible_norms)(int64_t n_records, int64_t n_visible, const uint8_t *y, const double *center,
                                     double *norms) noexcept nogil
        int32_t (*sbn_cross)(int64_t n_records, int64_t n_visible, int64_t n_hidden, const uint8_t *y,
                             const double *v, int64_t *sums) noexcept nogil
        int32_t (*sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace,
                            int64_t workspace_bytes, int64_t *sums) noexcept nogil
        int32_t (*sbn_moments)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int64_t first, int64_t last,
                               double pair_scale, const double *x, const double *z, void *workspace,
                               int64_t workspace_bytes, int64_t *sums) noexcept nogil
        const char *(*status_message)(int32_t status) noexcept nogil
    # VF_OK if a table that was handed over fits the header.
    int32_t vf_check_api(const vf_api *api) noexcept

cdef extern from "vips_fast/vips_fast.h":
    # The table of the installed package; ImportError where it does not fit the header.
    const vf_api *vips_fast_import() except NULL
