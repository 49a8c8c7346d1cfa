"""Running sums with correlated noise: the mechanism, its sensitivity and its error.

Step t of n brings an integer sum x_t of new records, and prefix sums x_1 + … + x_t are wanted. Let C be a lower
triangular Toeplitz matrix: C[t, j] = c_(t-j), with c_0 >= c_1 >= … >= 0. Step t releases

    y_t = sum_(j <= t) c_(t-j) x_j + z_t,    z_t independent Gaussian noise of one standard deviation s.

With A the lower triangle of ones, the prefix sums are A x = A C^-1 (y - z). So A C^-1 y estimates them without bias.
For other weights w of the steps, w C^-1 y does, with noise of standard deviation s |w C^-1|.

*Later releases.* They tell nothing more about a prefix. C is square and invertible, so n releases have n unknown x. So
C^-1 y is the only linear unbiased estimate of x, also by generalized least squares. C^-1 is lower triangular: the
estimate of prefix t has only y_1, …, y_t in it. Less noise needs an assumption about x, such as a slow course.

*Coefficients.* The square root of A has c_k = binomial(2k, k) / 4^k, the series of (1 - X)^(-1/2) (Fichtenberger,
Henzinger & Upadhyay 2023, "Constant matters"). Its error is close to the best that any C has. Its c_k fall, as
c_(k+1) / c_k = (2k + 1) / (2k + 2). Here they are rounded down to multiples of 2^-`BITS`, which keeps their order. So
the mixed sums of integers are multiples of 2^-`BITS`, exactly, and no rounding adds to the sensitivity. The estimates
use the inverse of the rounded C, so that they stay unbiased; the noise of a prefix grows by less than 1 %.

*Theorem.* Each unit contributes to at most k steps, at least b apart, with a norm of at most D in each. Let v be the
sum of the first k of the columns 0, b, 2b, … of C, or of all if there are fewer. Adding or removing a unit then moves
the vector of all mixed sums by at most D |v|. All n releases together are one Gaussian mechanism of this sensitivity.
This holds also if the records of a step depend on the releases before it.

*Proof.* Let the unit be in the steps i_1 < … < i_m with contributions d_a. The mixed sums move by the sum of the
columns C_(i_a) times d_a. The squared norm is the sum over a and e of G(i_a, i_e) <d_a, d_e>, with G(i, j) = <C_i,
C_j>. No entry of G is below 0, and <d_a, d_e> <= D^2. So it is at most D^2 times the sum of G over all pairs. For steps
i <= j counted from 0, G(i, j) = sum_(s < n - j) c_s c_(s + j - i). A smaller j adds terms >= 0, and a smaller distance
j - i lowers none of them, since c falls. The given steps have i_a >= (a - 1) b and i_e - i_a >= (e - a) b. The steps 0,
b, 2b, … have equality. So moving the unit there lowers no entry of G, and further steps up to k only add entries >= 0.
The sum is then |v|^2.

*Adaptive records.* Given the releases before step t, y_t is Gaussian about either mean, in both worlds, and the means
are functions of those releases. On every path the squared distances of the means add up to at most D^2 |v|^2. So
they compose to the Gaussian mechanism of this bound (Smith & Thakurta 2022; `vips_fast.engine.filters` has the proof).

*Lattice.* Noise is rounded to the lattice of the mixed sums, which changes no integer: round(y + z) = y + round(z). So
rounding is post-processing of the Gaussian mechanism, as for every release of the package.
"""

import math
from functools import lru_cache

import numpy as np

#: Bits after the point of a coefficient.
BITS = 10
#: Most steps of a running sum.
MOST_STEPS = 4096


@lru_cache(maxsize=64)
def coefficients(n_steps: int) -> np.ndarray:
    """Compute c_0, c_1, … times 2^`BITS`: int64, (n_steps,), read-only."""
    central, found = 1, []
    for k in range(n_steps):
        found.append((central << BITS) >> (2 * k))
        central = central * 2 * (2 * k + 1) // (k + 1)
    out = np.array(found, np.int64)
    out.flags.writeable = False
    return out


@lru_cache(maxsize=256)
def participation_norm(n_steps: int, participations: int = 1, separation: int = 1) -> float:
    """Compute |v| of the theorem, rounded up, for contributions of norm 1."""
    column = coefficients(n_steps)
    total = np.zeros(n_steps, np.int64)
    for first in range(0, n_steps, separation)[:participations]:
        total[first:] += column[: n_steps - first]
    square = sum(int(entry) ** 2 for entry in total)
    root = math.isqrt(square << 64)
    return math.nextafter(math.ldexp(root + 1, -32 - BITS), math.inf)


def unmix(values: np.ndarray) -> np.ndarray:
    """Compute each step's own values from mixed ones.

    That is C^-1 along the first axis.

    The steps may be fewer than declared, since C is triangular. The result is float64.
    """
    column = coefficients(len(values)) / 2.0**BITS
    out = np.array(values, np.float64)
    for t in range(1, len(out)):
        out[t] -= np.tensordot(column[t:0:-1], out[:t], axes=1)
    return out


def noise_factors(weights: np.ndarray) -> np.ndarray:
    """Compute the noise of weighted sums of steps.

    ``weights`` is (m, n): a row for each sum, a column for each step so far. The result R, (m, n), has
    R R' as the covariance of the m estimates, over the variance of the noise of one release.
    """
    # w C^-1 solves u C = w; reversed in time, that is unmixing.
    reversed_ = np.asarray(weights, np.float64)[:, ::-1].T
    return np.ascontiguousarray(unmix(reversed_).T[:, ::-1])


def prefix_noise(n_steps: int, participations: int = 1, separation: int = 1) -> np.ndarray:
    """Compute the noise sd of each prefix sum, at equal epsilon.

    It is over the noise sd of a single release, which is a Gaussian mechanism about one step. Independent noise for
    each step has the root of t for prefix t, times the root of the participations.

    >>> from vips_fast.accounting.running_sum import prefix_noise
    >>> [round(n**0.5 / prefix_noise(n)[-1], 2) for n in (30, 365)]
    [2.55, 6.49]
    """
    row = np.cumsum(unmix(np.eye(n_steps, 1))[:, 0])
    return np.asarray(participation_norm(n_steps, participations, separation) * np.sqrt(np.cumsum(row**2)))
