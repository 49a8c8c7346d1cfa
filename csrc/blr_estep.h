/* E-step of Bayesian logistic regression with Polya-Gamma variables:
 * declarations, one copy per instruction set (see vf_isa.h). */
#ifndef VF_BLR_ESTEP_H
#define VF_BLR_ESTEP_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* Rows are CSR (indptr[n + 1], strictly increasing indices) or, with indptr
 * NULL, dense and row-major. values NULL in CSR form means that every stored
 * entry is 1. The packed upper triangle of a d x d matrix is row after row:
 * entry (i, j), i <= j, at i (2d - i - 1)/2 + j.
 *
 * vf_blr_workspace gives the bytes of workspace that both kernels need. */
int64_t VF_FN(vf_blr_workspace)(int64_t n_features, int32_t dense);

/* The two factors of each record's contribution: record n contributes
 * trunc(linear[n] x) to the linear statistic and trunc(quadratic[n] x) as the
 * factor a of a a^T to the quadratic one. y[n] is the number of successes out
 * of trials[n] (out of params->n_trials if trials is NULL). second_moment is
 * <m m^T>, d x d, of which the upper triangle is read; NULL means 0. center is
 * a public vector; NULL means 0. xi[n] and norms[n] (the norm before the joint
 * clip) may be NULL. */
int32_t VF_FN(vf_blr_weights_f32)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                                  const int32_t *indices, const float *values, const double *y, const double *trials,
                                  const double *second_moment, const double *center, void *workspace,
                                  int64_t workspace_bytes, double *linear, double *quadratic, double *xi,
                                  double *norms);
int32_t VF_FN(vf_blr_weights_f64)(int64_t n, int64_t n_features, const vf_blr_params *params, const int64_t *indptr,
                                  const int32_t *indices, const double *values, const double *y, const double *trials,
                                  const double *second_moment, const double *center, void *workspace,
                                  int64_t workspace_bytes, double *linear, double *quadratic, double *xi,
                                  double *norms);

/* ADD the contributions with the given factors to sums_linear[d] and to rows
 * row_begin..row_end-1 of the packed triangle sums_quadratic (whole arrays;
 * only entries of these rows are touched, so threads may share the arrays if
 * they own different rows). Either may be NULL. |linear x| and |quadratic x|
 * must be below 2^31 and 2^21, which vf_blr_weights sees to; VF_ERR_RANGE otherwise. */
int32_t VF_FN(vf_blr_accumulate_f32)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                     const int64_t *indptr, const int32_t *indices, const float *values,
                                     const double *linear, const double *quadratic, void *workspace,
                                     int64_t workspace_bytes, int64_t *sums_linear, int64_t *sums_quadratic);
int32_t VF_FN(vf_blr_accumulate_f64)(int64_t n, int64_t n_features, int64_t row_begin, int64_t row_end,
                                     const int64_t *indptr, const int32_t *indices, const double *values,
                                     const double *linear, const double *quadratic, void *workspace,
                                     int64_t workspace_bytes, int64_t *sums_linear, int64_t *sums_quadratic);

/* sums[k] = rint(sums[k] * diagonal) for the diagonal entries of a packed
 * triangle and rint(sums[k] * off_diagonal) for the others, in place. */
int32_t VF_FN(vf_blr_round)(int64_t n_features, double diagonal, double off_diagonal, int64_t *sums);

#endif
