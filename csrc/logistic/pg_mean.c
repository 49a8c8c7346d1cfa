/* Mean of a Polya-Gamma variable PG(1, c): f(c) = tanh(c/2) / (2c), even in c.
 *
 * Let x = min(|c|, cap), n = rint(-x log2(e)) and r = -x - n ln 2. (r takes two steps. The first is exact, as the head
 * of ln 2 has zeros in all places that n can reach.) With p = 2^n and expm1(r) = r + t, t = r^2 Q(r) by a minimax Q
 * (2^-57.9 and 2^-28.3),
 *
 *     N = 1 - exp(-x) = (1 - p) - p r - p t,   D = c (2 - N),   f = N / (2 D).
 *
 * 1 - p and products with p are exact, so there is no cancellation. For n = 0, N = -(r + t) with an exact r. For n < 0
 * both products together are below .71 of 1 - p. N and D stay unevaluated sums N + Nl and D + Dl (Fast2Sum).
 * Let R = 1/(2 D) and q = N R, both rounded. Then f = q + (N - 2 q D + Nl - 2 q Dl) R, and N - 2 q D is exact. So the
 * digits that R and q have lost come back.
 *
 * Error, in units u of half of a last place, relative to f. d f / f = dN (1/N + 1/(2 - N)). The worst case is n = -1,
 * |r| = .35, N = .29, with 4.0 dN:
 *
 * - r has an error of 2^-55, which p halves (.5 u);
 * - t has some 2 u of itself (.27 u);
 * - 2 - N is taken of the rounded N and rounded (.15 u and .29 u);
 * - the last addition (.5 u).
 *
 * Together that is 1.7 u, below 2 units in the last place of f wherever it lies in its binade. For n = 0, r is exact
 * and t counts twice as much: 1.3 u.
 *
 * Beyond the cap exp(-c) is below u/4. N is 1 and the correction is left out, so an infinite c does not give inf - inf.
 * Below the least c, f is 1/4, and above 1/4 it never is. */
#include "declarations.h"
#include "simd/simd.h"

/* Q, highest power first. */
static const double exp_f64[] = {
    2.5000084425773360072e-8, 2.7630248795880446446e-7, 2.7557586290884422664e-6, 2.4801493097828538604e-5,
    1.9841269506688846217e-4, 1.3888888943631085536e-3, 8.3333333334943990902e-3, 4.1666666666530155163e-2,
    1.6666666666666412649e-1, 5.0000000000000106273e-1,
};
static const float exp_f32[] = {
    1.3814627146005319798e-3f, 8.3687167364345381371e-3f, 4.1668387582267320371e-2f,
    1.6666520634559330303e-1f, 4.9999993449376479845e-1f,
};

/* The head of ln 2, which has zeros where n can reach, and the rest. */
static const float ln2_head_f32 = 0.693359375f, ln2_tail_f32 = -2.12194440e-4f;
static const double ln2_head_f64 = 6.93147180369123816490e-1, ln2_tail_f64 = 1.90821492927058770002e-10;
/* Beyond the cap exp(-c) is below u/4; up to the least, whose square is a normal number, f is 1/4. */
static const float cap_f32 = 20.0f, least_f32 = 0x1p-60f;
static const double cap_f64 = 40.0, least_f64 = 0x1p-500;

#define VF_BODY "logistic/pg_mean_body.h"
#include "simd/both.h"
