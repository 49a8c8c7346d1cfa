"""The Gaussian mechanism, exactly, and the accountant of its compositions.

*Profile.* With mu = sensitivity / standard deviation, the privacy profile is (Balle & Wang 2018, theorem 8)

    delta(eps) = Phi(mu / 2 - eps / mu) - exp(eps) Phi(-mu / 2 - eps / mu).

Compositions of Gaussian mechanisms are Gaussian: mu^2 adds up (Dong, Roth & Su 2022, corollary 3.3), so a composition
is as exact as one release.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from .accountant import Accountant
from .checks import non_negative, open_probability
from .events import GaussianEvent, PrivacyEvent, check_event, gaussian_mu_squared, rate_and_mechanism, touching_leaves
from .solver import brent_root


@cache
def _special() -> Any:
    """Import scipy's special functions at their first use; a search for a root asks for them some twenty times."""
    from scipy import special

    return special


def _round_up(mu: float) -> float:
    """Return the factor that covers the rounding of `gaussian_delta`'s forms.

    Both forms subtract numbers that agree to within about mu, which multiplies the rounding of the special functions (a
    few ulp) by 1 / mu. And exp(-a^2 / 2) adds a^2 / 2 ulp, below 1e-13 for every delta above 1e-300.
    """
    return 1.0 + 1e-12 + 2e-15 / mu


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Compute delta(epsilon) of a Gaussian mechanism with sensitivity / sd = `mu` >= 0."""
    return profile(non_negative("mu", mu), non_negative("epsilon", epsilon))


def profile(mu: float, epsilon: float) -> float:
    """Compute `gaussian_delta` at any real epsilon, mu infinite too."""
    if mu == 0.0:
        return max(0.0, -math.expm1(epsilon))
    if math.isinf(mu):
        return 1.0
    special = _special()
    a = mu / 2.0 - epsilon / mu
    b = -mu / 2.0 - epsilon / mu
    if b < 0.0 and a < 0.0:
        # Both terms are small and nearly equal. With the scaled complementary error function, Phi(x) = exp(-x^2 / 2)
        # erfcx(-x / sqrt 2) / 2 and exp(eps) exp(-b^2 / 2) = exp(-a^2 / 2). The common factor can be taken out.
        r = math.sqrt(0.5)
        diff = float(special.erfcx(-a * r)) - float(special.erfcx(-b * r))
        return max(0.0, 0.5 * math.exp(-0.5 * a * a) * diff) * _round_up(mu)
    if epsilon > 1e3:
        # The sum of two large numbers would leave nothing of the exponent.
        second = 0.5 * math.exp(-0.5 * a * a) * float(special.erfcx(-b * math.sqrt(0.5)))
    else:
        second = math.exp(epsilon + float(special.log_ndtr(b)))
    value = float(special.ndtr(a)) - second
    return min(1.0, max(0.0, value) * _round_up(mu))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon >= 0 with ``gaussian_delta(mu, epsilon) <= delta``, delta in (0, 1)."""
    return epsilon_of_mu(non_negative("mu", mu), open_probability("delta", delta))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Compute `gaussian_epsilon`; mu may be infinite."""
    if mu == 0.0 or profile(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    # zCDP with rho = mu^2 / 2 gives a valid upper end.
    high = 0.5 * mu * mu + mu * math.sqrt(2.0 * math.log(1.0 / delta))
    return _upper_root(lambda epsilon: profile(mu, epsilon) - delta, 0.0, high)


def _upper_root(f: Callable[[float], float], low: float, high: float) -> float:
    """Find a point just above the root of the decreasing f."""
    root = brent_root(f, low, high, 1e-15 * max(1.0, high), 1e-14)
    step = max(abs(root), 1e-3 * (high - low)) * 1e-14
    while f(root) > 0.0:
        root += step
        step *= 2.0
    return root


def gaussian_noise_multiplier(epsilon: float, delta: float) -> float:
    """Find the smallest noise multiplier for epsilon and delta.

    Epsilon is >= 0, and delta in (0, 1). Balle & Wang 2018, algorithm 1 ("analytic Gaussian mechanism").
    """
    epsilon, delta = non_negative("epsilon", epsilon), open_probability("delta", delta)
    high = 1.0
    while profile(high, epsilon) <= delta:
        high *= 2.0
    low = high / 2.0
    while profile(low, epsilon) > delta:
        low /= 2.0
    # In terms of 1/mu the excess is decreasing, so that the root is rounded to the safe side.
    return _upper_root(lambda z: profile(1.0 / z, epsilon) - delta, 1.0 / high, 1.0 / low)


def gaussian_mu(event: PrivacyEvent) -> float | None:
    """Compute mu of a composition of whole-data Gaussian events, else None.

    A sample that is always all the data counts as the whole data.
    """
    squares = []
    for leaf, repeats in touching_leaves(check_event(event)).items():
        rate, mechanism = rate_and_mechanism(leaf)
        if rate < 1.0 or not all(isinstance(part, GaussianEvent) for part in mechanism.leaves()):
            return None
        squares.append(repeats * gaussian_mu_squared(mechanism))
    return math.sqrt(math.fsum(squares))


class GaussianAccountant(Accountant):
    """The exact bound of compositions of Gaussian mechanisms on the whole data.

    One release with mu = 1 has delta = 0.1269 at epsilon = 1 (Balle & Wang 2018, theorem 8):

    >>> from vips_fast.accounting import GaussianEvent, delta
    >>> round(delta(GaussianEvent(1.0), 1.0, "gaussian"), 4)
    0.1269
    """

    name = "gaussian"
    title = "exact Gaussian mechanism"
    source = "Balle & Wang 2018, theorem 8"

    def _mu(self, event: PrivacyEvent) -> float:
        mu = gaussian_mu(event)
        if mu is None:
            raise ValueError(
                "accountant='gaussian' covers whole-data Gaussian mechanisms only; "
                "use accountant='pld' for sampled or other mechanisms"
            )
        return mu

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Compute the smallest epsilon."""
        return epsilon_of_mu(self._mu(event), delta)

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Compute the smallest delta."""
        return profile(self._mu(event), epsilon)
