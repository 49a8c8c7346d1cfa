"""Composition theorems and conversions between notions of privacy.

Functions of numbers, not of events; the accountants apply them to events.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral

import numpy as np

__all__ = [
    "add_remove_to_replace_one",
    "amplify_epsilon_delta",
    "amplify_rdp_poisson",
    "basic_composition",
    "kairouz_composition",
    "optimal_composition_epsilon",
    "optimal_composition_heterogeneous",
    "strong_composition",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho_for_target",
    "zcdp_rho_gaussian",
]


def _eps(name: str, value: float) -> float:
    value = float(value)
    if not (value >= 0.0 and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number >= 0, got {value!r}")
    return value


def _prob(name: str, value: float, open_interval: bool = False) -> float:
    value = float(value)
    inside = 0.0 < value < 1.0 if open_interval else 0.0 <= value <= 1.0
    if not inside:
        shown = "(0, 1)" if open_interval else "[0, 1]"
        raise ValueError(f"{name} must be in {shown}, got {value!r}")
    return value


def _steps(k: int) -> int:
    if isinstance(k, bool) or not isinstance(k, Integral) or k < 0:
        raise ValueError(f"k must be an integer >= 0, got {k!r}")
    return int(k)


def basic_composition(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Sums of epsilons and of deltas (Dwork & Roth 2014, theorem 3.16).

    Parameters
    ----------
    parts : iterable of (epsilon, delta)

    Returns
    -------
    (epsilon, delta)
    """
    pairs = [(_eps("epsilon", e), _prob("delta", d)) for e, d in parts]
    return math.fsum(e for e, _ in pairs), min(1.0, math.fsum(d for _, d in pairs))


def strong_composition(epsilon: float, delta: float, k: int, slack: float) -> tuple[float, float]:
    """k-fold composition by Dwork & Roth 2014, theorem 3.20.

    epsilon' = sqrt(2 k ln(1/slack)) epsilon + k epsilon (e^epsilon - 1) and
    delta' = k delta + slack.

    Parameters
    ----------
    epsilon, delta : float
        Guarantee of each step.
    k : int
    slack : float
        In (0, 1); the theorem's delta'.
    """
    epsilon, delta, k = _eps("epsilon", epsilon), _prob("delta", delta), _steps(k)
    slack = _prob("slack", slack, True)
    total = math.sqrt(2.0 * k * math.log(1.0 / slack)) * epsilon + k * epsilon * math.expm1(epsilon)
    return total, min(1.0, k * delta + slack)


def kairouz_composition(epsilon: float, delta: float, k: int, slack: float) -> tuple[float, float]:
    """k-fold composition by Kairouz, Oh & Viswanath 2015, theorem 3.4.

    The minimum of k epsilon and of two bounds with mean
    k epsilon (e^epsilon - 1) / (e^epsilon + 1);
    delta' = 1 - (1 - delta)^k (1 - slack).
    """
    epsilon, delta, k = _eps("epsilon", epsilon), _prob("delta", delta), _steps(k)
    slack = _prob("slack", slack, True)
    mean = k * epsilon * math.tanh(0.5 * epsilon)
    spread = math.sqrt(k) * epsilon
    total = min(
        k * epsilon,
        mean + spread * math.sqrt(2.0 * math.log(math.e + spread / slack)),
        mean + spread * math.sqrt(2.0 * math.log(1.0 / slack)),
    )
    return total, _union(delta, k, slack)


def _union(delta: float, k: int, slack: float) -> float:
    if delta >= 1.0 and k:
        return 1.0
    return -math.expm1(k * math.log1p(-delta) + math.log1p(-slack))


def _pure_part(delta: float, k: int, delta_total: float) -> float | None:
    """slack with 1 - (1 - delta)^k (1 - slack) = delta_total; None if impossible."""
    if delta >= 1.0 and k:
        return None
    slack = -math.expm1(math.log1p(-delta_total) - k * math.log1p(-delta))
    return slack if slack >= 0.0 else None


def _epsilon_of_atoms(loss: np.ndarray, log_p: np.ndarray, delta: float) -> float:
    """Smallest epsilon >= 0 with sum p (1 - e^(epsilon - loss))_+ <= delta, exactly."""
    order = np.argsort(loss)[::-1]
    loss, p = loss[order], np.exp(log_p[order])

    def above(j: int) -> float:
        """delta at epsilon = loss[j]; the j larger losses contribute."""
        return float(np.sum(p[:j] * -np.expm1(loss[j] - loss[:j])))

    # The last loss, from the largest down, at which delta is not exceeded.
    low, high = 0, len(loss)
    while high - low > 1:
        mid = (low + high) // 2
        low, high = (mid, high) if above(mid) <= delta else (low, mid)
    # Below loss[low], delta(epsilon) = P - e^(epsilon - loss[low]) S.
    mass = float(np.sum(p[: low + 1]))
    scaled = float(np.sum(p[: low + 1] * np.exp(loss[low] - loss[: low + 1])))
    if mass <= delta:
        return 0.0
    value = float(loss[low]) + math.log((mass - delta) / scaled)
    # A few ulp upwards for the sums.
    return max(0.0, value + 1e-12 * max(1.0, abs(value)))


def optimal_composition_epsilon(epsilon: float, delta: float, k: int, delta_total: float) -> float:
    """The optimal k-fold composition of (epsilon, delta)-DP mechanisms.

    Kairouz, Oh & Viswanath 2015, theorem 3.3, between its discrete points as
    well: the exact smallest epsilon at `delta_total`.

    Returns
    -------
    float
        Infinity where k steps already exceed `delta_total`.
    """
    epsilon, delta, k = _eps("epsilon", epsilon), _prob("delta", delta), _steps(k)
    delta_total = _prob("delta_total", delta_total, True)
    slack = _pure_part(delta, k, delta_total)
    if slack is None:
        return math.inf
    if k == 0 or epsilon == 0.0:
        return 0.0
    return _pure_composition([(epsilon, k)], slack)


def optimal_composition_heterogeneous(epsilons: Sequence[float], delta_total: float) -> float:
    """The optimal composition of pure-DP mechanisms (Murtagh & Vadhan 2016).

    Exact where the distinct epsilons lead to at most 2^20 distinct losses;
    otherwise the privacy-loss distribution with relative accuracy 1e-6,
    rounded up.

    Parameters
    ----------
    epsilons : sequence of float
        Pure epsilons, each >= 0.
    delta_total : float
        In (0, 1).
    """
    counts = Counter(_eps("epsilons", e) for e in epsilons)
    counts.pop(0.0, None)
    delta_total = _prob("delta_total", delta_total, True)
    if not counts:
        return 0.0
    return _pure_composition(sorted(counts.items()), delta_total)


def _pure_composition(parts: Sequence[tuple[float, int]], delta: float) -> float:
    """Optimal composition of (epsilon, count) pure mechanisms at delta >= 0."""
    total = math.fsum(e * n for e, n in parts)
    if delta <= 0.0:
        return total
    size = math.prod(n + 1 for _, n in parts)
    if size > 1 << 20:
        from .events import ApproximateDPEvent, ComposedEvent, SelfComposedEvent
        from .pld import PrivacyLoss

        event = ComposedEvent(tuple(SelfComposedEvent(ApproximateDPEvent(e), n) for e, n in parts))
        return min(total, PrivacyLoss(event, 1e-6).epsilon(delta))
    from scipy.special import gammaln

    loss, log_p = np.zeros(1), np.zeros(1)
    for e, n in parts:
        i = np.arange(n + 1)
        log_binom = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
        part_loss = (2 * i - n) * e
        part_log_p = log_binom + i * e - n * (e + math.log1p(math.exp(-e)))
        loss = (loss[:, None] + part_loss).ravel()
        log_p = (log_p[:, None] + part_log_p).ravel()
    return min(total, _epsilon_of_atoms(loss, log_p, delta))


# -- zero-concentrated DP --------------------------------------------------


def zcdp_rho_gaussian(sensitivity: float, sd: float) -> float:
    """rho = sensitivity^2 / (2 sd^2) (Bun & Steinke 2016, proposition 1.6)."""
    if not sd > 0.0:
        raise ValueError(f"sd must be > 0, got {sd!r}")
    return _eps("sensitivity", sensitivity) ** 2 / (2.0 * float(sd) ** 2)


def zcdp_epsilon(rho: float, delta: float, conversion: str = "tight") -> float:
    """epsilon of rho-zCDP at `delta`.

    Parameters
    ----------
    rho : float
        >= 0.
    delta : float
        In (0, 1).
    conversion : {"tight", "simple"}
        "simple": rho + 2 sqrt(rho ln(1/delta)) (Bun & Steinke 2016,
        proposition 1.3).  "tight": the minimum over real orders of Canonne,
        Kamath & Steinke 2020, proposition 12, with D_alpha = alpha rho.
    """
    rho, delta = _eps("rho", rho), _prob("delta", delta, True)
    if rho == 0.0:
        return 0.0
    log_inv = math.log(1.0 / delta)
    if conversion == "simple":
        return rho + 2.0 * math.sqrt(rho * log_inv)
    if conversion != "tight":
        raise ValueError(f"conversion must be 'tight' or 'simple', got {conversion!r}")

    def bound(t: float) -> float:
        x = math.exp(t)  # alpha - 1
        return (1.0 + x) * rho + (log_inv - math.log1p(x)) / x + math.log(x / (1.0 + x))

    return max(0.0, _minimum(bound, math.sqrt(log_inv / rho)))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """delta of rho-zCDP at `epsilon` (Canonne, Kamath & Steinke 2020, proposition 12)."""
    rho, epsilon = _eps("rho", rho), _eps("epsilon", epsilon)
    if rho == 0.0:
        return 0.0

    def bound(t: float) -> float:
        x = math.exp(t)
        return x * ((1.0 + x) * rho - epsilon + math.log(x / (1.0 + x))) - math.log1p(x)

    return min(1.0, math.exp(min(0.0, _minimum(bound, max(1e-3, epsilon / (2.0 * rho))))))


def _minimum(f, around: float) -> float:
    """Minimum of f(ln x) for x within a factor 1e4 of `around`; any x is a bound."""
    from scipy.optimize import minimize_scalar

    centre = math.log(around)
    grid = centre + np.linspace(-9.0, 9.0, 91)
    k = int(np.argmin([f(float(t)) for t in grid]))
    res = minimize_scalar(
        f, bounds=(grid[max(k - 1, 0)], grid[min(k + 1, 90)]), method="bounded",
        options={"xatol": 1e-10},
    )
    return min(float(res.fun), f(float(grid[k])))


def zcdp_rho_for_target(epsilon: float, delta: float) -> float:
    """The rho whose simple conversion gives `epsilon` at `delta`.

    rho = (sqrt(ln(1/delta) + epsilon) - sqrt(ln(1/delta)))^2, in the form
    that does not cancel.
    """
    epsilon, delta = _eps("epsilon", epsilon), _prob("delta", delta, True)
    log_inv = math.log(1.0 / delta)
    return (epsilon / (math.sqrt(log_inv + epsilon) + math.sqrt(log_inv))) ** 2


# -- amplification and relations -------------------------------------------


def amplify_epsilon_delta(epsilon: float, delta: float, sampling_probability: float) -> tuple[float, float]:
    """(epsilon, delta) of an (epsilon, delta)-DP mechanism on a random sample.

    (ln(1 + q (e^epsilon - 1)), q delta) (Balle, Barthe & Gaboardi 2018,
    theorems 8 and 9): Poisson sampling under add/remove, or sampling without
    replacement under replace-one, the base mechanism under the same relation.
    """
    epsilon, delta = _eps("epsilon", epsilon), _prob("delta", delta)
    q = _prob("sampling_probability", sampling_probability)
    if epsilon > 700.0:
        return epsilon, q * delta
    return math.log1p(q * math.expm1(epsilon)), q * delta


def amplify_rdp_poisson(rdp, sampling_probability: float, order: int) -> float:
    """Renyi bound of a mechanism on a Poisson sample, from the base's curve.

    (1/(k-1)) ln((1-q)^(k-1) (1 + (k-1) q) +
    sum_{i=2..k} C(k, i) (1-q)^(k-i) q^i e^((i-1) rdp(i)))
    (Zhu & Wang 2019, theorem 6; add/remove).  It is a bound for mechanisms
    whose odd central moments of the likelihood ratio are not negative, such
    as the Gaussian and the Laplace mechanism.

    Parameters
    ----------
    rdp : callable
        ``rdp(i)``: divergence of the base mechanism at integer order i >= 2.
    sampling_probability : float
    order : int
        k >= 2.
    """
    q = _prob("sampling_probability", sampling_probability)
    if isinstance(order, bool) or not isinstance(order, Integral) or order < 2:
        raise ValueError(f"order must be an integer >= 2, got {order!r}")
    k = int(order)
    if q == 0.0:
        return 0.0
    if q == 1.0:
        return float(rdp(k))
    terms = [(k - 1) * math.log1p(-q) + math.log1p((k - 1) * q)]
    for i in range(2, k + 1):
        log_binom = math.lgamma(k + 1) - math.lgamma(i + 1) - math.lgamma(k - i + 1)
        terms.append(
            log_binom + (k - i) * math.log1p(-q) + i * math.log(q) + (i - 1) * float(rdp(i))
        )
    top = max(terms)
    return max(0.0, (top + math.log(math.fsum(math.exp(t - top) for t in terms))) / (k - 1))


def add_remove_to_replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Replace-one guarantee of an add/remove guarantee: one removal and one addition.

    (2 epsilon, (1 + e^epsilon) delta).  The converse is false: replace-one
    says nothing about data sets of different sizes.
    """
    epsilon, delta = _eps("epsilon", epsilon), _prob("delta", delta)
    return 2.0 * epsilon, min(1.0, (1.0 + math.exp(min(epsilon, 700.0))) * delta)
