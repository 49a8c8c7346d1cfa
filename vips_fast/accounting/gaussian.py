"""The Gaussian mechanism, exactly.

With mu = sensitivity / standard deviation, the privacy profile is
(Balle & Wang 2018, theorem 8)

    delta(eps) = Phi(mu / 2 - eps / mu) - exp(eps) Phi(-mu / 2 - eps / mu).

Compositions of Gaussian mechanisms are Gaussian: mu^2 adds up (Dong, Roth &
Su 2022, corollary 3.3), so a composition is as exact as one release.
"""

from __future__ import annotations

import math

__all__ = [
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu_from_epsilon_delta",
    "gaussian_noise_multiplier",
]


def _round_up(mu: float) -> float:
    """Factor that covers the rounding of `gaussian_delta`'s two forms.

    Both subtract numbers that agree to within about mu, which multiplies the
    rounding of the special functions (a few ulp) by 1 / mu; exp(-a^2 / 2)
    adds a^2 / 2 ulp, below 1e-13 for every delta above 1e-300.
    """
    return 1.0 + 1e-12 + 2e-15 / mu



def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of a Gaussian mechanism with sensitivity / sd = `mu`.

    Parameters
    ----------
    mu : float
        >= 0; infinity is allowed and answers 1.
    epsilon : float
        Any real number.
    """
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    if math.isinf(mu):
        return 1.0
    from scipy.special import erfcx, log_ndtr, ndtr

    a = mu / 2.0 - epsilon / mu
    b = -mu / 2.0 - epsilon / mu
    if b < 0.0 and a < 0.0:
        # Both terms are small and nearly equal.  With the scaled complementary
        # error function, Phi(x) = exp(-x^2 / 2) erfcx(-x / sqrt 2) / 2 and
        # exp(eps) exp(-b^2 / 2) = exp(-a^2 / 2): the factor comes out front.
        r = math.sqrt(0.5)
        diff = float(erfcx(-a * r)) - float(erfcx(-b * r))
        return max(0.0, 0.5 * math.exp(-0.5 * a * a) * diff) * _round_up(mu)
    value = float(ndtr(a)) - math.exp(epsilon + float(log_ndtr(b)))
    return min(1.0, max(0.0, value) * _round_up(mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon >= 0 with ``gaussian_delta(mu, epsilon) <= delta``."""
    if mu == 0.0 or delta >= 1.0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu) or delta <= 0.0:
        return math.inf
    # zCDP of rho = mu^2 / 2 gives a valid upper end.
    hi = 0.5 * mu * mu + mu * math.sqrt(2.0 * math.log(1.0 / delta))
    lo = 0.0
    return _upper_root(lambda e: gaussian_delta(mu, e) - delta, lo, hi)


def _upper_root(f, lo: float, hi: float) -> float:
    """A point just above the root of the decreasing f, f(lo) > 0 >= f(hi)."""
    from scipy.optimize import brentq

    root = brentq(f, lo, hi, xtol=1e-15 * max(1.0, hi), rtol=1e-14, maxiter=300)
    step = max(abs(root), 1e-3 * (hi - lo)) * 1e-14
    while f(root) > 0.0:
        root += step
        step *= 2.0
    return root


def gaussian_mu_from_epsilon_delta(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        >= 0.
    delta : float
        In (0, 1).
    """
    if not epsilon >= 0.0:
        raise ValueError(f"epsilon must be >= 0, got {epsilon!r}")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    hi = 1.0
    while gaussian_delta(hi, epsilon) <= delta:
        hi *= 2.0
    lo = hi / 2.0
    while gaussian_delta(lo, epsilon) > delta:
        lo /= 2.0
    # In terms of 1/mu the excess is decreasing, so the root rounds to the safe side.
    inverse = _upper_root(lambda t: gaussian_delta(1.0 / t, epsilon) - delta, 1.0 / hi, 1.0 / lo)
    return 1.0 / inverse


def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """The smallest noise multiplier that is (epsilon, delta)-DP in one release.

    Balle & Wang 2018, algorithm 1 ("analytic Gaussian mechanism").
    """
    return 1.0 / gaussian_mu_from_epsilon_delta(epsilon, delta)
