/* Mean of a Polya-Gamma variable PG(1, c): f(c) = tanh(c/2) / (2c), even in c.
 *
 * Two formulas meet at |c| = 5/4; both are computed and one is kept, lane by
 * lane, so no lane's value depends on another's.
 *
 * |c| < 5/4. f is analytic in y = c^2 with its nearest pole at y = -pi^2, so
 * f = 1/4 + y P(y) with a short minimax P (Remez; relative error of f 2^-61.2
 * with 12 coefficients in double, 2^-32.5 with 6 in float). |y P(y)| < 0.031:
 * the roundings inside it are damped by 8 against the last one.
 *
 * |c| >= 5/4. With e = exp(-|c|) <= 0.287,
 *
 *     f = (1 - e) / (2 (c + c e)).
 *
 * 1 - e and c + ce are kept as unevaluated sums N + Nl and D + Dl (Fast2Sum: exact, no fused multiply-add needed), and
 * the quotient q = N/D is corrected once: f = q + (Nl - q Dl)/D, where 1/D = q/N and 1/N = 1 + e + e^2 to 3 %, enough
 * for a term of the size of a rounding. What remains is the error of e (below 1.2 u relative, times e/(1-e) + e/(1+e)
 * <= 0.63), one rounding of ce (times e/(1+e) <= 0.23) and two half units from the quotient and the sum. Beyond the cap
 * e is below u/4: N is 1 and the correction is left out, which also keeps an infinite c from producing inf - inf.
 *
 * exp(-x): n = rint(-x log2(e)), r = -x - n ln 2 in two steps (the head of ln 2
 * has zeros where n can reach, so the first is exact), then
 * 2^n (1 + (r + r^2 Q(r))) with a minimax Q (2^-57.9 and 2^-28.3). */
#include "declarations.h"
#include "simd/simd.h"

/* P of the inner formula and Q of the exponential, highest power first. */
static const double inner_f64[] = {
    9.003966340355839075e-14, -1.7992973543549786432e-12, 2.1829221539470635305e-11, -2.2603198799303731556e-10,
    2.248580147431217199e-9,  -2.2212615155369880738e-8,  2.1924523923697337512e-7,  -2.1638755645883096819e-6,
    2.135692233272815379e-5,  -2.1081349205491731616e-4,  2.0833333333327722934e-3,  -2.0833333333333320509e-2,
};
static const double exp_f64[] = {
    2.5000084425773360072e-8, 2.7630248795880446446e-7, 2.7557586290884422664e-6, 2.4801493097828538604e-5,
    1.9841269506688846217e-4, 1.3888888943631085536e-3, 8.3333333334943990902e-3, 4.1666666666530155163e-2,
    1.6666666666666412649e-1, 5.0000000000000106273e-1,
};
static const float inner_f32[] = {
    1.307953500001587286e-7f,   -1.9964321374678614101e-6f, 2.1192188131867719244e-5f,
    -2.1072953986426225215e-4f, 2.0833134380116888786e-3f,  -2.083333175170717362e-2f,
};
static const float exp_f32[] = {
    1.3814627146005319798e-3f, 8.3687167364345381371e-3f, 4.1668387582267320371e-2f,
    1.6666520634559330303e-1f, 4.9999993449376479845e-1f,
};

/* The head of ln 2, which has zeros where n can reach, and the rest. */
static const float ln2_head_f32 = 0.693359375f, ln2_tail_f32 = -2.12194440e-4f;
static const double ln2_head_f64 = 6.93147180369123816490e-1, ln2_tail_f64 = 1.90821492927058770002e-10;
/* Beyond the cap exp(-c) is below u/4. */
static const float cap_f32 = 20.0f;
static const double cap_f64 = 40.0;

#define VF_BODY "blr/pg_mean_body.h"
#include "simd/both.h"
