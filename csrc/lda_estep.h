/* LDA E-step: declarations, one copy per instruction set (see vf_isa.h). */
#ifndef VF_LDA_ESTEP_H
#define VF_LDA_ESTEP_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* table[v * VF_LDA_STRIDE(K) + k] = exp_elog_beta[k, v] / max_k exp_elog_beta[k, v].
 * The factor of a word cancels in phi; it keeps float32 from underflow.
 * A word that no topic gives any weight keeps a row of zeros; the entries that pad a
 * row are zeros. The strides of exp_elog_beta are in elements. */
int32_t VF_FN(vf_lda_table_f32)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                                int64_t stride_word, float *table);
int32_t VF_FN(vf_lda_table_f64)(int64_t n_topics, int64_t n_words, const double *exp_elog_beta, int64_t stride_topic,
                                int64_t stride_word, double *table);

/* Bytes of workspace that documents of at most max_doc_words distinct words need. */
int64_t VF_FN(vf_lda_workspace_f32)(int64_t n_topics, int64_t max_doc_words);
int64_t VF_FN(vf_lda_workspace_f64)(int64_t n_topics, int64_t max_doc_words);

/* The E-step of Algorithm 3 for n_docs documents in CSR form.
 *
 * indptr[n_docs + 1], with indices[indptr[d] .. indptr[d+1]) strictly
 * increasing word numbers and counts of the same length, finite and >= 0. A
 * document with any other count, or with a sum of counts outside
 * [VF_LDA_MIN_WORDS, VF_LDA_MAX_WORDS], or whose result is not finite, counts as
 * empty. alpha[K] in [VF_LDA_MIN_ALPHA, VF_LDA_MAX_ALPHA]; params->spacing a power
 * of two in [VF_LDA_MIN_SPACING, VF_LDA_MAX_SPACING], params->clip_norm / spacing
 * in [1, 2^31). VF_ERR_RANGE if, without clipping, the counts of all documents
 * together exceed 2^62 spacings. Outputs, each of which may be NULL:
 *   gamma[n_docs * K]   variational Dirichlet parameters
 *   sums[n_words * K]   ADDED to: integer statistics, word-major, in units of
 *                       params->spacing
 *   n_iter[n_docs]      rounds done
 *   norms[n_docs]       L2 norm of the contribution before clipping */
int32_t VF_FN(vf_lda_estep_f32)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                                const int64_t *indptr, const int32_t *indices, const double *counts,
                                const float *table, const double *alpha, void *workspace, int64_t workspace_bytes,
                                double *gamma, int64_t *sums, int32_t *n_iter, double *norms);
int32_t VF_FN(vf_lda_estep_f64)(int64_t n_docs, int64_t n_topics, int64_t n_words, const vf_lda_params *params,
                                const int64_t *indptr, const int32_t *indices, const double *counts,
                                const double *table, const double *alpha, void *workspace, int64_t workspace_bytes,
                                double *gamma, int64_t *sums, int32_t *n_iter, double *norms);

/* Bring chosen rows of a corpus into a block of documents for the E-step.
 *
 * Document d is row rows[d] of the CSR corpus (n_rows rows). mode:
 *   VF_LDA_AS_IS     the counts themselves
 *   VF_LDA_RESAMPLE  doc_length words drawn with replacement from the row's own
 *                    bag (section 4.2), from a generator seeded by seeds[d] alone
 *   VF_LDA_SCALE     the counts times doc_length / their sum
 * Words that end up with no count are left out; an empty row stays empty. The
 * block's arrays hold capacity entries; scratch (resampling only) holds
 * scratch_items >= VF_LDA_RESAMPLE_TOKENS and >= the entries of any row. */
int32_t VF_FN(vf_lda_gather)(int64_t n_docs, int64_t n_rows, int64_t capacity, int32_t mode, int64_t doc_length,
                             const int64_t *rows, const int64_t *indptr, const int32_t *indices, const int32_t *counts,
                             const uint64_t *seeds, int64_t scratch_items, uint32_t *scratch, int64_t *out_indptr,
                             int32_t *out_indices, double *out_counts);

#endif
