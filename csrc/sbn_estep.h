/* Sigmoid belief network kernels: declarations, one copy per instruction set
 * (see vf_isa.h). The mathematics is in sbn_estep.c.
 *
 * J visible units, K hidden units, n records. y[n * J] holds 0 and 1, a row a
 * record. Tables that are read a hidden unit at a time have rows of
 * VF_SBN_STRIDE(J) elements, zero from J on. */
#ifndef VF_SBN_ESTEP_H
#define VF_SBN_ESTEP_H

#include "vf_isa.h"
#include "vips_fast/vips_fast.h"

/* Bytes of workspace of the kernels that need one; -1 if a size is out of range. */
int64_t VF_FN(vf_sbn_pg_workspace_f32)(int64_t n_visible, int64_t n_hidden);
int64_t VF_FN(vf_sbn_pg_workspace_f64)(int64_t n_visible, int64_t n_hidden);
int64_t VF_FN(vf_sbn_quadratic_workspace)(int64_t n_visible, int64_t n_hidden);
int64_t VF_FN(vf_sbn_moments_workspace)(int64_t n_visible, int64_t n_hidden);
int64_t VF_FN(vf_sbn_gram_workspace)(int64_t n_hidden);

/* q(z) under the Polya-Gamma bound, n_sweeps sweeps from z = start.
 *   w[K * stride], w2[K * stride]   E[w_jk] and E[w_jk^2], a row a hidden unit
 *   c[J], c_var[J]                  mean and variance of the visible biases
 *   b[K], start[K]                  hidden biases and the start of z
 * Outputs: z[n * K]; xi[n * J], the Polya-Gamma means at that z (may be NULL). */
int32_t VF_FN(vf_sbn_pg_f32)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps, const uint8_t *y,
                             const float *w, const float *w2, const float *c, const float *c_var, const float *b,
                             const float *start, void *workspace, int64_t workspace_bytes, double *z, double *xi);
int32_t VF_FN(vf_sbn_pg_f64)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps, const uint8_t *y,
                             const double *w, const double *w2, const double *c, const double *c_var, const double *b,
                             const double *start, void *workspace, int64_t workspace_bytes, double *z, double *xi);

/* q(z) under a quadratic bound of constant curvature:
 *   z_k = sigmoid(linear_k + sum_{j: y_j = 1} w[j * K + k] - sum_l gram[k * K + l] z_l),
 * k = 0..K-1 in turn, n_sweeps times from z = start. The diagonal of gram is
 * not read. Output: z[n * K]. */
int32_t VF_FN(vf_sbn_quadratic)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int32_t n_sweeps,
                                const uint8_t *y, const double *w, const double *gram, const double *linear,
                                const double *start, void *workspace, int64_t workspace_bytes, double *z);

/* Rows of x[n * m], less center[m] (NULL: zero), scaled to an L2 norm of at most
 * clip_norm (<= 0: no clipping), times factor[n] in (0, 1] (NULL: one) and
 * truncated toward zero to multiples of spacing, a power of two: units[n * m],
 * integers. sum units^2 <= floor(clip_norm * factor / spacing)^2 is checked in
 * exact integers. spacing is in [VF_MIN_SPACING, VF_MAX_SPACING], clip_norm / spacing
 * in [1, 2^31). A row becomes zero if an entry is not finite, if its norm exceeds 1e150,
 * if its factor is outside (0, 1] or if, without clipping, an entry exceeds 2^52 spacings.
 * norms[n]: L2 norm before clipping (may be NULL). */
int32_t VF_FN(vf_sbn_clip)(int64_t n_records, int64_t n_columns, double clip_norm, double spacing, const double *x,
                           const double *center, const double *factor, double *units, double *norms);

/* norms[n]: L2 norm of y - center, as an upper bound, within 2e-9 relative. */
int32_t VF_FN(vf_sbn_visible_norms)(int64_t n_records, int64_t n_visible, const uint8_t *y, const double *center,
                                    double *norms);

/* sums[J * K] += sum_n y_nj v_nk for integers v (as doubles, |v| < 2^31; VF_ERR_RANGE otherwise). */
int32_t VF_FN(vf_sbn_cross)(int64_t n_records, int64_t n_visible, int64_t n_hidden, const uint8_t *y, const double *v,
                            int64_t *sums);

/* sums[K * (K - 1) / 2] += sum_n v_nk v_nl, k < l, a row k after the other, for
 * integers v (as doubles, |v| <= 2^20; VF_ERR_RANGE otherwise). */
int32_t VF_FN(vf_sbn_gram)(int64_t n_records, int64_t n_hidden, const double *v, void *workspace,
                           int64_t workspace_bytes, int64_t *sums);

/* Weighted second moments for all j: for the pairs numbered first..last-1 of
 * the upper triangle (k <= l, a row k after the other, K (K + 1) / 2 in all)
 *   sums[j * K (K + 1) / 2 + p] += sum_n x_nj trunc(pair_scale * z_nk z_nl),
 * with z_nk in place of z_nk z_nl on the diagonal. x holds integers (as doubles)
 * in [0, 2^21]; z is in [0, 1]; VF_ERR_RANGE otherwise. pair_scale is a power of
 * two in [VF_MIN_SPACING, 2^22].
 * Calls for disjoint ranges of pairs may run at once on the same sums. */
int32_t VF_FN(vf_sbn_moments)(int64_t n_records, int64_t n_visible, int64_t n_hidden, int64_t first, int64_t last,
                              double pair_scale, const double *x, const double *z, void *workspace,
                              int64_t workspace_bytes, int64_t *sums);

#endif
