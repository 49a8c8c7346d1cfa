"""Renyi differential privacy: divergences, amplification, conversions, and the accountant.

All divergences are exact up to quadrature (about 1e-12 relative) for any real order alpha > 1. With
y = ln(1 - q + q e^L), L the loss of the base mechanism and Q its second distribution:

Poisson, add/remove (Mironov, Talwar & Zhang 2019):
    (alpha-1) D = ln(1 + E_Q[e^(alpha y) - 1 - alpha (e^y - 1)]), where E_Q[e^y] = 1 was used so that nothing cancels.
Without replacement, replace-one (the pair of `privacy_loss.pairs.WithoutReplacementPair`):
    (alpha-1) D = ln(1 + E_Q[(e^(alpha y) + e^((1-alpha) y) - e^y - 1) 1{L > 0}]).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ..checks import check_choice
from .accountant import Accountant
from .checks import FloatArray, renyi_orders
from .events import (
    ApproximateDPEvent,
    GaussianEvent,
    GroupEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    check_event,
    gaussian_mu_squared,
    rate_and_mechanism,
)
from .privacy_loss.dominating import base_pair
from .privacy_loss.pairs import GaussianPair, Pair, log_mix, log_sum
from .privacy_loss.rows import hidden_rows


def base_of(event: PrivacyEvent) -> Pair:
    """Return the pair of Gaussian mechanisms, or another one, on all data."""
    if isinstance(event, (ApproximateDPEvent, GroupEvent, RandomAllocationEvent)):
        raise ValueError(f"no Renyi divergence of a {event.kind} event is known both ways; use accountant='pld'")
    return base_pair(event)


def _log_poisson_excess(y: FloatArray, alpha: float) -> FloatArray:
    """Compute ln(e^(alpha y) - 1 - alpha (e^y - 1)) for alpha > 1, y >= 0."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ay = alpha * y
        small = np.abs(ay) < 1e-2
        # sum_k (alpha^k - alpha) y^k / k!, truncated below 1e-13 relative.
        series = np.zeros_like(y)
        term = 0.5 * y * y
        for k in range(2, 9):
            series += (alpha**k - alpha) * term
            term = term * y / (k + 1)
        direct = np.expm1(np.minimum(ay, 30.0)) - alpha * np.expm1(np.minimum(y, 30.0))
        moderate = np.log(np.maximum(np.where(small, series, direct), 0.0))
        big = np.maximum(ay, 30.0)
        # 1 + alpha (e^y - 1) is taken relative to e^(alpha y), so that both exponents stay small.
        rest = (1.0 - alpha) * np.exp(-big) + alpha * np.exp(big / alpha - big)
        large = big + np.log1p(-rest)
    return np.where(ay > 30.0, large, moderate)


def _poisson(base: Pair, q: float, alpha: float) -> float:
    loss, log_weight = base.under_q(alpha, q, False)
    y = log_mix(q, loss)
    forward = float(np.logaddexp(0.0, log_sum(_log_poisson_excess(y, alpha) + log_weight)))
    if isinstance(base, GaussianPair):
        # Mironov, Talwar & Zhang 2019, theorem 5: this direction is the larger.
        return forward / (alpha - 1.0)
    # D(Q || mix): E_Q[e^((1-alpha) y)] = E_mix[e^(-alpha y)]. Cancellation does no harm here, because the directions
    # are compared, not subtracted.
    backward = log_sum((1.0 - alpha) * y + log_weight) - log_sum(log_weight)
    return max(forward, backward) / (alpha - 1.0)


def _without_replacement(base: Pair, q: float, alpha: float) -> float:
    loss, log_weight = base.under_q(alpha, q, True)
    y = log_mix(q, loss)
    keep = y > 0.0
    y, log_weight = y[keep], log_weight[keep]
    # e^(ay) + e^((1-a)y) - e^y - 1 = e^(ay) (1 - e^(-(a-1)y)) (1 - e^(-ay)).
    log_g = alpha * y + np.log(-np.expm1(-(alpha - 1.0) * y)) + np.log(-np.expm1(-alpha * y))
    return float(np.logaddexp(0.0, log_sum(log_g + log_weight))) / (alpha - 1.0)


#: Order times mu, or times the largest loss, that no quadrature reaches.
_FAR = 1e3


def _leaf_divergence(leaf: PrivacyEvent, alpha: float) -> float:
    if isinstance(leaf, GroupEvent) and isinstance(leaf.event, PoissonSampledEvent):
        together = leaf.size * math.sqrt(gaussian_mu_squared(leaf.event.event))
        if alpha * together > _FAR:
            return 0.5 * alpha * together**2
        touched, mixture = hidden_rows(leaf)
        return _poisson(mixture, touched, alpha)
    rate, mechanism = rate_and_mechanism(leaf)
    if rate == 0.0:
        return 0.0
    base = base_of(mechanism)
    # Too far to integrate: the divergence is quasi-convex, and so at most that of a sample of all records.
    if rate == 1.0 or alpha * (base.mu if isinstance(base, GaussianPair) else base.max_loss) > _FAR:
        return base.divergence(alpha)
    amplified = _poisson if isinstance(leaf, PoissonSampledEvent) else _without_replacement
    return amplified(base, rate, alpha)


def renyi_curve(event: PrivacyEvent, orders: ArrayLike) -> FloatArray:
    """Bound Renyi divergence of `event` at real orders > 1, an array."""
    a = renyi_orders("orders", orders)
    out = np.zeros(a.shape)
    for leaf, repeats in event.leaves().items():
        out += repeats * np.array([_leaf_divergence(leaf, float(x)) for x in a.ravel()]).reshape(a.shape)
    return out


def renyi_divergence(event: PrivacyEvent, order: ArrayLike) -> float | FloatArray:
    """Bound a composition's Renyi divergence at real orders > 1.

    It is in nats. It has the shape of `order`. For sampling without replacement this is the divergence of the
    dominating pair (an upper bound).
    """
    curve = renyi_curve(check_event(event), renyi_orders("order", order))
    return float(curve) if curve.ndim == 0 else curve


def default_orders(event: PrivacyEvent) -> FloatArray:
    """Choose real orders for epsilon between about 1e-3 and 100.

    The useful orders reach to where sampling stops helping, of order 2 z^2 ln(1/q) for a Gaussian, and to
    2 ln(1/delta)/epsilon elsewhere.
    """
    top = 512.0
    for leaf in event.leaves():
        rate, mechanism = rate_and_mechanism(leaf)
        if rate and isinstance(mechanism, GaussianEvent):
            top = max(top, 4.0 * mechanism.noise_multiplier**2 * (8.0 + math.log(1.0 / rate)))
    return 1.0 + np.geomspace(0.03, min(top, 2e4), 44)


def _is_classical(conversion: str) -> bool:
    return bool(check_choice("conversion", conversion, ("tight", "classical")) == "classical")


def epsilon_of_curve(a: FloatArray, r: FloatArray, delta: float, conversion: str = "tight") -> float:
    """Convert divergences r at orders a, which may be infinite somewhere, to the smallest epsilon at `delta`.

    "classical" is min r + ln(1/delta)/(a-1) (Mironov 2017, proposition 3). "Tight" is the minimum of r + ln(1 - 1/a) -
    ln(a delta)/(a-1), floored at 0 (Canonne, Kamath & Steinke 2020, prop. 12).
    """
    if _is_classical(conversion):
        eps = r - math.log(delta) / (a - 1.0)
    else:
        eps = r + np.log1p(-1.0 / a) - np.log(a * delta) / (a - 1.0)
    # In this order a nan stays one.
    return max(float(np.min(eps)), 0.0)


def delta_of_curve(a: FloatArray, r: FloatArray, epsilon: float, conversion: str = "tight") -> float:
    """Convert divergences likewise to the smallest delta at `epsilon` >= 0."""
    if _is_classical(conversion):
        log_delta = (a - 1.0) * (r - epsilon)
    else:
        log_delta = (a - 1.0) * (r - epsilon + np.log1p(-1.0 / a)) - np.log(a)
    return math.exp(min(float(np.min(log_delta)), 0.0))


def _best(event: PrivacyEvent, orders: ArrayLike | None, convert: Callable[[FloatArray, FloatArray], float]) -> float:
    """Find the least bound over `orders`, or over all real orders."""
    grid = default_orders(event) if orders is None else renyi_orders("orders", orders)
    curve = renyi_curve(event, grid)
    best = convert(grid, curve)
    if orders is not None or best == 0.0:
        return best
    # Every order gives a bound, so the minimum may be refined between its neighbors.
    k = int(np.argmin([convert(np.array([a]), np.array([r])) for a, r in zip(grid, curve, strict=True)]))
    low, high = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
    from scipy.optimize import minimize_scalar

    def at(t: float) -> float:
        alpha = np.array([1.0 + math.exp(t)])
        return convert(alpha, renyi_curve(event, alpha))

    # The minimum is flat: 1e-4 of alpha - 1 is 1e-8 of epsilon.
    result = minimize_scalar(
        at, bounds=(math.log(low - 1.0), math.log(high - 1.0)), method="bounded", options={"xatol": 1e-4, "maxiter": 30}
    )
    return min(best, float(result.fun))


class RdpAccountant(Accountant):
    """Renyi differential privacy of every event with a known Renyi divergence.

    At order 2, a release with noise multiplier 1 has divergence 1. By the classical conversion it has epsilon 1 + ln
    1e5 = 12.5129 (Mironov 2017, proposition 3):

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "rdp", conversion="classical", orders=(2.0,)), 4)
    12.5129
    """

    name = "rdp"
    title = "Renyi differential privacy"
    source = "Mironov 2017; Mironov, Talwar & Zhang 2019; Canonne, Kamath & Steinke 2020"

    def epsilon(
        self, event: PrivacyEvent, delta: float, conversion: str = "tight", orders: ArrayLike | None = None
    ) -> float:
        """Bound epsilon at the best of `orders`, or of all real orders."""
        return _best(event, orders, lambda a, r: epsilon_of_curve(a, r, delta, conversion))

    def delta(
        self, event: PrivacyEvent, epsilon: float, conversion: str = "tight", orders: ArrayLike | None = None
    ) -> float:
        """Bound delta at the best of `orders`, or of all real orders."""
        return _best(event, orders, lambda a, r: delta_of_curve(a, r, epsilon, conversion))
