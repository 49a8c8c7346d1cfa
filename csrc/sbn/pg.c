/* Mean-field E-step of sigmoid belief networks under the Polya-Gamma bound.
 *
 * Model (Park et al. 2020, Eq. 61): z_k ~ Bern(sigmoid(b_k)), k = 1..K, and
 * y_j ~ Bern(sigmoid(psi_j)), psi_j = c_j + sum_k w_jk z_k, j = 1..J.
 *
 * Polya-Gamma bound (Eqs. 67-71). With xi_j = PG mean at sqrt(E[psi_j^2]) and
 * the residual r_j = y_j - 1/2 - xi_j E[psi_j], Eq. 70 reads
 *
 *     d_k = b_k + sum_j w_jk r_j + z_k sum_j xi_j w_jk^2 - 1/2 sum_j xi_j E[w_jk^2]
 *
 * (the third term takes unit k's own part out of r). One sweep sets z_k = sigmoid(d_k) for k = 1..K in turn and keeps r
 * current: r_j -= xi_j w_jk dz_k. That is 2JK multiply-adds a record and sweep. Forming psi afresh for each k would
 * cost JK^2. Each xi is renewed before each sweep and after the last, with (W's columns taken as independent)
 *
 *     E[psi_j^2] = E[psi_j]^2 + var c_j + sum_k (E[w_jk^2] z_k - w_jk^2 z_k^2).
 *
 * Purity. A record is handled in lanes or rows of its own, and dummy records fill up blocks. So its result has the same
 * bits wherever it stands. No state is carried from one record to the next. */

#include "sbn/shared.h"

/* Records handled together: they share the loads of w, and their short chains of dependent steps run side by side. */
#define PG_RECORDS 4
/* Units handled together. Their dz_k do not leave the residual at once. The sums A_il = sum_j xi_j w_ji w_jl of the few
 * units give the effect on their dot products. The residual is then read and written once for all of them. A_ii
 * is the unit's own part, which is needed anyway. */
#define PG_UNITS 4

/* The least argument of the Polya-Gamma mean, whose double stays a normal number, and the largest. */
static const float tiny_f32 = 1e-18f, huge_f32 = 1e30f;
static const double tiny_f64 = 1e-150, huge_f64 = 1e300;

/* The body, once in each precision. */
#define VF_BODY "sbn/pg_body.h"
#include "simd/both.h"
