"""Zero-concentrated differential privacy (Bun & Steinke 2016): rho, its conversions, its accountant."""

import math
from collections.abc import Callable

import numpy as np

from .accountant import Accountant
from .checks import non_negative, one_of, open_probability
from .events import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    check_event,
    rate_and_mechanism,
    touching_leaves,
)


def zcdp_epsilon(rho: float, delta: float, conversion: str = "tight") -> float:
    """Compute epsilon of rho-zCDP, rho >= 0, at `delta` in (0, 1).

    "simple" is rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016, proposition 1.3). "Tight" is the minimum over real
    orders of Canonne, Kamath & Steinke 2020, proposition 12, with D_alpha = alpha rho.
    """
    rho, delta = non_negative("rho", rho), open_probability("delta", delta)
    one_of("conversion", conversion, ("tight", "simple"))
    if rho == 0.0:
        return 0.0
    log_inv = math.log(1.0 / delta)
    if conversion == "simple":
        return rho + 2.0 * math.sqrt(rho * log_inv)

    def bound(t: float) -> float:
        x = math.exp(t)  # alpha - 1
        return (1.0 + x) * rho + (log_inv - math.log1p(x)) / x + math.log(x / (1.0 + x))

    return max(0.0, _minimum(bound, math.sqrt(log_inv / rho)))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """delta of rho-zCDP at `epsilon` (Canonne, Kamath & Steinke 2020, proposition 12)."""
    rho, epsilon = non_negative("rho", rho), non_negative("epsilon", epsilon)
    if rho == 0.0:
        return 0.0

    def bound(t: float) -> float:
        x = math.exp(t)
        return x * ((1.0 + x) * rho - epsilon + math.log(x / (1.0 + x))) - math.log1p(x)

    return min(1.0, math.exp(min(0.0, _minimum(bound, max(1e-3, epsilon / (2.0 * rho))))))


def _minimum(f: Callable[[float], float], around: float) -> float:
    """Minimize f(ln x) for x near `around`; f is a bound everywhere."""
    from scipy.optimize import minimize_scalar

    grid = math.log(around) + np.linspace(-9.0, 9.0, 91)
    k = int(np.argmin([f(float(t)) for t in grid]))
    bounds = (grid[max(k - 1, 0)], grid[min(k + 1, 90)])
    result = minimize_scalar(f, bounds=bounds, method="bounded", options={"xatol": 1e-10})
    return min(float(result.fun), f(float(grid[k])))


def zcdp_rho(event: PrivacyEvent) -> float:
    """Compute rho of a composition of whole-data mechanisms.

    It is 1 / (2 z^2) for a Gaussian with noise multiplier z, and epsilon^2 / 2 for a pure mechanism. (See Bun & Steinke
    2016, propositions 1.6 and 1.4.) Raises ValueError for sampled mechanisms, whose amplification zCDP cannot express.
    """
    total = 0.0
    for leaf, repeats in touching_leaves(check_event(event)).items():
        rate, mechanism = rate_and_mechanism(leaf)
        if rate < 1.0:
            raise ValueError(
                "zCDP does not express amplification by sampling; use accountant='pld' or 'rdp' for sampled mechanisms"
            )
        total += math.fsum(repeats * n * _rho(part) for part, n in mechanism.leaves().items())
    return total


def _rho(mechanism: PrivacyEvent) -> float:
    if isinstance(mechanism, (GaussianEvent, LaplaceEvent)):
        return 0.5 / mechanism.noise_multiplier**2
    if isinstance(mechanism, RandomizedResponseEvent):
        return 0.5 * mechanism.epsilon**2
    if isinstance(mechanism, ApproximateDPEvent) and mechanism.delta == 0.0:
        return 0.5 * mechanism.epsilon**2
    raise ValueError(f"no zCDP bound of a {mechanism.kind} event is known; use accountant='pld'")


class ZcdpAccountant(Accountant):
    """Zero-concentrated differential privacy of compositions of mechanisms on the whole data.

    A release with rho = 1/2 has epsilon 0.5 + sqrt(2 ln 1e5) = 5.2985 by the simple conversion (Bun & Steinke 2016,
    proposition 1.3):

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "zcdp", conversion="simple"), 4)
    5.2985
    """

    name = "zcdp"
    title = "zero-concentrated differential privacy"
    source = "Bun & Steinke 2016; Canonne, Kamath & Steinke 2020, proposition 12"

    def check(self, event: PrivacyEvent) -> None:
        """Accept mechanisms on the whole data that are zCDP."""
        zcdp_rho(event)

    def epsilon(self, event: PrivacyEvent, delta: float, conversion: str = "tight") -> float:
        """Bound epsilon by `zcdp_epsilon`."""
        return zcdp_epsilon(zcdp_rho(event), delta, conversion)

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta by `zcdp_delta`."""
        return zcdp_delta(zcdp_rho(event), epsilon)
