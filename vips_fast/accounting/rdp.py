"""Renyi differential privacy: divergences, amplification, conversions.

All divergences are exact up to quadrature (about 1e-12 relative) for any real
order alpha > 1.  With y = ln(1 - q + q e^L), L the loss of the base mechanism
and Q its second distribution:

Poisson, add/remove (Mironov, Talwar & Zhang 2019):
    (alpha-1) D = ln(1 + E_Q[e^(alpha y) - 1 - alpha (e^y - 1)]),
    using E_Q[e^y] = 1 so that nothing cancels.
Without replacement, replace-one (the pair of `_pairs.WithoutReplacementPair`):
    (alpha-1) D = ln(1 + E_Q[(e^(alpha y) + e^((1-alpha) y) - e^y - 1) 1{L > 0}]).
Without replacement, Wang, Balle & Kasiviswanathan 2019, theorems 9 and 27:
    upper bounds at integer orders, as used by the paper.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from .events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    _leaves,
)

__all__ = [
    "default_orders",
    "delta_from_rdp",
    "epsilon_from_rdp",
    "renyi_divergence",
    "wang_rdp",
]

_GL_POINTS = 20


def _log_sum(a: np.ndarray) -> float:
    top = float(np.max(a)) if len(a) else -math.inf
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.sum(np.exp(a - top))))


# -- base mechanisms as quadrature nodes under Q -------------------------


class _Base:
    """Quadrature of a base mechanism under Q: nodes (loss, ln weight)."""

    def nodes(self, alpha: float, q: float, positive: bool) -> tuple[np.ndarray, np.ndarray]:
        """Nodes for moments up to order `alpha` after sampling with rate q.

        With `positive`, only losses > 0.
        """
        raise NotImplementedError

    def divergence(self, alpha: float) -> float:
        """Renyi divergence of order alpha > 1 of the base pair (both directions equal)."""
        raise NotImplementedError

    max_loss = math.inf


class _GaussianBase(_Base):
    def __init__(self, mu: float) -> None:
        self.mu = mu

    def divergence(self, alpha):
        return 0.5 * alpha * self.mu**2

    def nodes(self, alpha, q, positive):
        mu = self.mu
        start = 0.5 * mu if positive else -13.0
        stop = alpha * mu + 13.0
        edges = [np.arange(start, stop, 1.0), [stop]]
        if mu > 0.5 and q < 1.0:
            # ln(1 - q + q e^L) bends over a length 1 / mu around L = ln((1-q)/q).
            bend = (math.log((1.0 - q) / q) + 0.5 * mu * mu) / mu
            fine = bend + np.arange(-24, 25) * (0.5 / mu)
            edges.append(fine[(fine > start) & (fine < stop)])
        x, w = _panels(np.unique(np.concatenate(edges)))
        log_weight = np.log(w) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        return mu * x - 0.5 * mu * mu, log_weight


class _DiscreteBase(_Base):
    """Finitely many losses, optionally with a smooth part between them."""

    def __init__(self, loss, log_weight, density=None) -> None:
        self._loss = np.asarray(loss, float)
        self._log_weight = np.asarray(log_weight, float)
        self._density = density
        self.max_loss = float(np.max(self._loss))

    def nodes(self, alpha, q, positive):
        loss, log_weight = self._loss, self._log_weight
        if positive:
            keep = loss > 0.0
            loss, log_weight = loss[keep], log_weight[keep]
        if self._density is not None:
            low = 0.0 if positive else -self.max_loss
            # exp(alpha y) varies on the scale 1 / alpha.
            n = max(8, math.ceil((self.max_loss - low) * (alpha + 1.0) / 2.0))
            x, w = _panels(np.linspace(low, self.max_loss, min(n, 4000) + 1))
            loss = np.concatenate([loss, x])
            log_weight = np.concatenate([log_weight, np.log(w) + self._density(x)])
        return loss, log_weight

    def divergence(self, alpha):
        loss, log_weight = self.nodes(alpha, 1.0, False)
        return max(0.0, _log_sum(alpha * loss + log_weight) / (alpha - 1.0))


class _LaplaceBase(_DiscreteBase):
    def __init__(self, scale: float) -> None:
        e = self._e = 1.0 / scale
        # Under Q: an atom e^(-e)/2 at loss e, an atom 1/2 at -e, and between
        # them the density exp(-(e + l) / 2) / 4.
        super().__init__(
            [-e, e],
            [math.log(0.5), math.log(0.5) - e],
            lambda x: -0.5 * (e + x) - math.log(4.0),
        )

    def divergence(self, alpha):
        # Mironov 2017, table II: ln(a/(2a-1) e^((a-1)/b) + (a-1)/(2a-1) e^(-a/b)),
        # written as ln(1 + excess) so that a large scale b does not cancel.
        e, a = self._e, alpha
        if (a - 1.0) * e > 300.0:
            return e + math.log(a / (2.0 * a - 1.0)) / (a - 1.0)
        excess = a * math.expm1((a - 1.0) * e) + (a - 1.0) * math.expm1(-a * e)
        return math.log1p(max(excess, 0.0) / (2.0 * a - 1.0)) / (a - 1.0)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(_GL_POINTS)


def _panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on consecutive panels."""
    x, w = _gauss_legendre()
    half = 0.5 * np.diff(edges)
    mid = 0.5 * (edges[1:] + edges[:-1])
    return (mid[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _base(event: PrivacyEvent) -> _Base:
    if isinstance(event, (ComposedEvent, SelfComposedEvent)):
        mu2 = math.fsum(n / leaf.noise_multiplier**2 for leaf, n in event.leaves())
        return _GaussianBase(math.sqrt(mu2))
    if isinstance(event, GaussianEvent):
        return _GaussianBase(1.0 / event.noise_multiplier)
    if isinstance(event, LaplaceEvent):
        return _LaplaceBase(event.noise_multiplier)
    if isinstance(event, RandomizedResponseEvent):
        p, k, e = event.truth_probability, event.n_categories, event.epsilon
        other = (1.0 - p) / (k - 1)
        loss, weight = [-e, e], [p, other]
        if k > 2:
            loss.append(0.0)
            weight.append((k - 2) * other)
        return _DiscreteBase(loss, np.log(weight))
    raise ValueError(
        f"no Renyi divergence is known for {event.to_json()}; use accountant='pld'"
    )


# -- amplification --------------------------------------------------------


def _log_poisson_excess(y: np.ndarray, alpha: float) -> np.ndarray:
    """ln(e^(alpha y) - 1 - alpha (e^y - 1)), alpha > 1; the argument is >= 0."""
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
        # 1 + alpha (e^y - 1) against e^(alpha y): both exponents stay small.
        rest = (1.0 - alpha) * np.exp(-big) + alpha * np.exp(big / alpha - big)
        large = big + np.log1p(-rest)
    return np.where(ay > 30.0, large, moderate)


def _poisson(base: _Base, q: float, alpha: float) -> float:
    loss, log_weight = base.nodes(alpha, q, False)
    y = _log_mix(q, loss)
    forward = np.logaddexp(0.0, _log_sum(_log_poisson_excess(y, alpha) + log_weight))
    if isinstance(base, _GaussianBase):
        # Mironov, Talwar & Zhang 2019, theorem 5: this direction is the larger.
        return float(forward) / (alpha - 1.0)
    # D(Q || mix): E_Q[e^((1-alpha) y)] = E_mix[e^(-alpha y)], no cancellation needed
    # beyond 1e-15 because both directions are compared, not subtracted.
    backward = _log_sum((1.0 - alpha) * y + log_weight) - _log_sum(log_weight)
    return max(float(forward), backward) / (alpha - 1.0)


def _without_replacement(base: _Base, q: float, alpha: float) -> float:
    loss, log_weight = base.nodes(alpha, q, True)
    y = _log_mix(q, loss)
    keep = y > 0.0
    y, log_weight = y[keep], log_weight[keep]
    # e^(ay) + e^((1-a)y) - e^y - 1 = e^(ay) (1 - e^(-(a-1)y)) (1 - e^(-ay)).
    log_g = alpha * y + np.log(-np.expm1(-(alpha - 1.0) * y)) + np.log(-np.expm1(-alpha * y))
    return float(np.logaddexp(0.0, _log_sum(log_g + log_weight))) / (alpha - 1.0)


def _log_mix(q, loss):
    from ._pairs import _log_mix as mix

    return mix(q, loss)


def _leaf_divergence(event: PrivacyEvent, alpha: float) -> float:
    rate = getattr(event, "sampling_probability", 1.0)
    if rate == 0.0:
        return 0.0
    inner = event.event if isinstance(event, (PoissonSampledEvent, WithoutReplacementEvent)) else event
    base = _base(inner)
    if rate == 1.0:
        return base.divergence(alpha)
    if isinstance(event, PoissonSampledEvent):
        return _poisson(base, rate, alpha)
    return _without_replacement(base, rate, alpha)


def renyi_divergence(event: PrivacyEvent, order):
    """Renyi divergence bound of `event` at real orders > 1.

    Parameters
    ----------
    event : PrivacyEvent
        Any composition of mechanisms with a known divergence.
    order : float or array_like
        Orders alpha > 1.

    Returns
    -------
    float or ndarray
        In nats, shape of `order`.  For sampling without replacement this is
        the divergence of the dominating pair (an upper bound).

    Raises
    ------
    ValueError
        For an order <= 1, or an event without a known divergence.
    """
    orders = np.asarray(order, float)
    if not np.all(orders > 1.0):
        raise ValueError(f"order must be > 1, got {order!r}")
    out = np.zeros(orders.shape)
    for leaf, count in _leaves(event).items():
        out += count * np.array(
            [_leaf_divergence(leaf, float(a)) for a in orders.ravel()]
        ).reshape(orders.shape)
    return float(out) if out.ndim == 0 else out


def default_orders(event: PrivacyEvent) -> np.ndarray:
    """Real orders that hold the best one for epsilon between about 1e-3 and 100.

    The useful orders reach to where sampling stops helping, of order
    2 z^2 ln(1/q) for a Gaussian, and to 2 ln(1/delta)/epsilon elsewhere.
    """
    top = 512.0
    for leaf in _leaves(event):
        inner = getattr(leaf, "event", leaf)
        rate = getattr(leaf, "sampling_probability", 1.0)
        if rate and isinstance(inner, GaussianEvent):
            z2 = inner.noise_multiplier**2
            top = max(top, 4.0 * z2 * (8.0 + math.log(1.0 / rate)))
    return 1.0 + np.geomspace(0.03, min(top, 2e4), 44)


# -- conversions ----------------------------------------------------------


def epsilon_from_rdp(orders, rdp, delta: float, conversion: str = "tight") -> float:
    """The smallest epsilon that a Renyi curve gives at `delta`.

    Parameters
    ----------
    orders, rdp : array_like
        Orders > 1 and divergences, same shape.
    delta : float
        In (0, 1).
    conversion : {"tight", "classical"}
        "classical": min rdp + ln(1/delta)/(alpha-1) (Mironov 2017,
        proposition 3).  "tight": min rdp + ln(1 - 1/alpha) -
        ln(alpha delta)/(alpha-1) (Canonne, Kamath & Steinke 2020,
        proposition 12), floored at 0.
    """
    a = np.asarray(orders, float)
    r = np.asarray(rdp, float)
    if a.shape != r.shape or a.size == 0:
        raise ValueError("orders and rdp must have the same non-zero length")
    if not np.all(a > 1.0):
        raise ValueError("orders must be > 1")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be in (0, 1), got {delta!r}")
    if conversion == "classical":
        eps = r - math.log(delta) / (a - 1.0)
    elif conversion == "tight":
        eps = r + np.log1p(-1.0 / a) - np.log(a * delta) / (a - 1.0)
    else:
        raise ValueError(f"conversion must be 'tight' or 'classical', got {conversion!r}")
    return max(0.0, float(np.min(eps)))


def delta_from_rdp(orders, rdp, epsilon: float, conversion: str = "tight") -> float:
    """The smallest delta that a Renyi curve gives at `epsilon` >= 0.

    The inverses of the conversions of `epsilon_from_rdp`.
    """
    a = np.asarray(orders, float)
    r = np.asarray(rdp, float)
    if conversion == "classical":
        log_delta = (a - 1.0) * (r - epsilon)
    elif conversion == "tight":
        log_delta = (a - 1.0) * (r - epsilon + np.log1p(-1.0 / a)) - np.log(a)
    else:
        raise ValueError(f"conversion must be 'tight' or 'classical', got {conversion!r}")
    return min(1.0, math.exp(min(0.0, float(np.min(log_delta)))))


# -- Wang, Balle & Kasiviswanathan 2019 -----------------------------------


def wang_rdp(event: PrivacyEvent, orders, bound: str = "thm9"):
    """Renyi bounds of Wang, Balle & Kasiviswanathan (2019) at integer orders.

    Parameters
    ----------
    event : WithoutReplacementEvent
        Around one mechanism or several Gaussian ones.
    orders : array_like of int
        Orders >= 2.
    bound : {"thm9", "thm27"}
        Theorem 9 holds for every base mechanism; theorem 27 replaces its
        terms j >= 3 by exact even moments of e^L - 1 where they are smaller.

    Returns
    -------
    ndarray
        float64, one bound per order.
    """
    orders = np.asarray(orders)
    if not (np.issubdtype(orders.dtype, np.integer) and np.all(orders >= 2)):
        raise ValueError("orders must be integers >= 2")
    if bound not in ("thm9", "thm27"):
        raise ValueError(f"bound must be 'thm9' or 'thm27', got {bound!r}")
    if not isinstance(event, WithoutReplacementEvent):
        raise ValueError(
            "Wang's bound covers sampling without replacement; "
            f"use accountant='pld' for {event.to_json()}"
        )
    q = event.sampling_probability
    base = _base(event.event)
    if q == 0.0:
        return np.zeros(len(orders))
    if q == 1.0:
        return np.array([base.divergence(float(a)) for a in orders])
    top = int(np.max(orders))
    j = np.arange(2, top + 1)
    if isinstance(base, _GaussianBase):
        eps = 0.5 * base.mu**2 * j
    else:
        eps = np.array([base.divergence(float(k)) for k in j])
    # ln min(2, (e^(eps_inf) - 1)^j); a Gaussian has eps_inf = infinity.
    e_inf = base.max_loss
    log_inf = np.full(len(j), math.log(2.0))
    if math.isfinite(e_inf):
        log_inf = np.minimum(log_inf, j * math.log(math.expm1(min(e_inf, 700.0))))
    term = (j - 1) * eps + log_inf
    second = math.log(4.0) + math.log(math.expm1(eps[0])) if eps[0] < 700.0 else math.inf
    term[0] = min(second, term[0])
    if bound == "thm27" and top >= 3:
        even = _log_even_moments(base, top + 1)
        lower, upper = even[2 * (j // 2)], even[2 * ((j + 1) // 2)]
        sharper = math.log(4.0) + 0.5 * (lower + upper)
        term[1:] = np.minimum(term[1:], sharper[1:])
    # ln C(a, j) q^j e^term for all orders a at once; -inf where j > a.
    terms = _log_binomials(tuple(orders.tolist()), top) + (term + j * math.log(q))
    largest = np.max(terms, axis=1)
    total = largest + np.log(np.sum(np.exp(terms - largest[:, None]), axis=1))
    return np.logaddexp(0.0, total) / (orders - 1)


@lru_cache(maxsize=4)
def _log_binomials(orders: tuple[int, ...], top: int) -> np.ndarray:
    """ln C(a, j), a in `orders` (rows), j = 2 .. top (columns); -inf where j > a."""
    from scipy.special import gammaln

    log_factorial = gammaln(np.arange(1.0, top + 2))
    a = np.array(orders)[:, None]
    j = np.arange(2, top + 1)[None, :]
    out = log_factorial[a] - log_factorial[j] - log_factorial[np.maximum(a - j, 0)]
    out = np.where(j <= a, out, -np.inf)
    out.setflags(write=False)
    return out


def _log_even_moments(base: _Base, top: int) -> np.ndarray:
    """ln E_Q[(e^L - 1)^k] at even k <= top + 1 (index k; odd entries unused)."""
    out = np.full(top + 2, -math.inf)
    loss, log_weight = base.nodes(float(top + 1), 0.5, False)
    with np.errstate(divide="ignore"):
        log_abs = np.where(
            loss > 30.0,
            loss + np.log1p(-np.exp(-np.maximum(loss, 30.0))),
            np.log(np.abs(np.expm1(np.minimum(loss, 30.0)))),
        )
    for k in range(2, top + 2, 2):
        out[k] = _log_sum(k * log_abs + log_weight)
    return out
