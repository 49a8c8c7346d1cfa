"""Dominating pairs of the mechanisms, as distributions of the privacy loss.

A pair (P, Q) is described by the masses that P and Q give to intervals of the privacy loss L = ln dP/dQ. Sampling
acts on those masses in closed form:

*Poisson*, add/remove (Zhu, Dong & Wang 2022, theorem 11): with r the base pair's likelihood ratio,
    the pair ((1-q) Q + q P, Q) and its mirror image.
*Without replacement*, replace-one (Balle, Barthe & Gaboardi 2018, theorem 8):
    delta'(eps) = q delta(ln(1 + (e^eps - 1) / q)) for eps >= 0 and delta'(-eps) = 1 - e^-eps + e^-eps delta'(eps). The
    loss distribution of this profile is as follows. The part with base loss > 0 has loss +ln(1 - q + q r) under (1-q)
    Q + q P. Its mirror image has loss -ln(1 - q + q r) under Q. The rest of the mass sits at loss 0.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ..checks import FloatArray
from ..gaussian import profile as gaussian_profile

# Covers the roundings of a closed form: its argument errs by a few ulp, and ln delta has slopes up to about 10^3 in
# it.
ROUND_UP = 1.0 + 1e-12


def tail_quantile(tail: float) -> float:
    """Find z with P(N(0, 1) > z) <= tail, for any tail > 0."""
    from scipy.special import ndtri

    if tail >= 0.5:
        return 0.0
    if tail > 1e-290:
        return -float(ndtri(tail)) + 1e-9
    return math.sqrt(-2.0 * math.log(max(tail, 5e-324)))


def normal_masses(edges: FloatArray) -> FloatArray:
    """Compute masses of N(0, 1) between sorted `edges`, accurate in both tails."""
    from scipy.special import ndtr

    tail = ndtr(-np.abs(edges))
    negative = edges < 0.0
    mass = np.diff(np.where(negative, tail, -tail))
    # The interval that holds zero: 1 - both tails.
    crossing = negative[:-1] & ~negative[1:]
    mass[crossing] += 1.0
    return np.asarray(np.maximum(mass, 0.0))


def log_sum(a: FloatArray) -> float:
    """Compute ln of the sum of e^a."""
    top = float(np.max(a)) if len(a) else -math.inf
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.sum(np.exp(a - top))))


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(20)


def panels(edges: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on consecutive panels."""
    x, w = _gauss_legendre()
    half = 0.5 * np.diff(edges)
    mid = 0.5 * (edges[1:] + edges[:-1])
    return (mid[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


class Pair:
    """A pair (P, Q): interval masses and Renyi divergences.

    The masses are of its loss. Only a mechanism on the whole data has the divergences.
    """

    #: P-mass of an infinite loss.
    p_infinite = 0.0
    #: Largest finite loss (infinity where there is none).
    max_loss = math.inf

    def support(self, tail: float) -> tuple[float, float]:
        """Find (low, high) with P(L < low) <= tail and P(high < L < inf) <= tail."""
        raise NotImplementedError

    def q_support(self, tail: float) -> tuple[float, float]:
        """Find the same for Q; low is -inf with mass at -inf."""
        raise NotImplementedError

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute P- and Q-masses of L in (edges[i], edges[i + 1]].

        `edges` is increasing and may start at -inf and end at +inf (an infinite loss is not in the last interval).
        """
        raise NotImplementedError

    def profile(self, epsilon: float) -> float:
        """Compute delta(epsilon) of the pair at any real epsilon in closed form, rounded up."""
        raise NotImplementedError

    def mirror_profile(self, epsilon: float) -> float:
        """Compute `profile` of (Q, P), the same for symmetric pairs."""
        return self.profile(epsilon)

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        """Choose about `n` interval edges in [low, high], dense by mass."""
        return np.linspace(low, high, n)

    def atoms(self) -> FloatArray | None:
        """Return a discrete pair's finite losses; None for a continuous one."""
        return None

    def under_q(self, alpha: float, q: float, positive: bool) -> tuple[FloatArray, FloatArray]:
        """Integrate under Q on the whole data: losses and ln weights.

        It is for moments up to order `alpha` after sampling with rate q; with `positive`, only losses > 0.
        """
        # Pairs of a sample or of an epoch are never sampled again: only those on the whole data have one.
        raise NotImplementedError(f"{type(self).__name__} is not a mechanism on the whole data")

    def divergence(self, alpha: float) -> float:
        """Compute the Renyi divergence of order alpha > 1 on whole data."""
        loss, log_weight = self.under_q(alpha, 1.0, False)
        return max(0.0, log_sum(alpha * loss + log_weight) / (alpha - 1.0))


class GaussianPair(Pair):
    """The pair P = N(mu, 1), Q = N(0, 1), whose loss is N(mu^2/2, mu^2) under P."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def support(self, tail: float) -> tuple[float, float]:
        z = tail_quantile(tail)
        half = 0.5 * self.mu * self.mu
        return half - self.mu * z, half + self.mu * z

    def q_support(self, tail: float) -> tuple[float, float]:
        z = tail_quantile(tail)
        half = 0.5 * self.mu * self.mu
        return -half - self.mu * z, -half + self.mu * z

    def profile(self, epsilon: float) -> float:
        return gaussian_profile(self.mu, epsilon)

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = edges / self.mu
        half = 0.5 * self.mu
        return normal_masses(x - half), normal_masses(x + half)

    def divergence(self, alpha: float) -> float:
        return 0.5 * alpha * self.mu**2

    def under_q(self, alpha: float, q: float, positive: bool) -> tuple[FloatArray, FloatArray]:
        mu = self.mu
        start = 0.5 * mu if positive else -13.0
        stop = alpha * mu + 13.0
        edges = [np.arange(start, stop, 1.0), np.array([stop])]
        if mu > 0.5 and q < 1.0:
            # ln(1 - q + q e^L) bends over a length 1 / mu around L = ln((1-q)/q).
            bend = (math.log((1.0 - q) / q) + 0.5 * mu * mu) / mu
            fine = bend + np.arange(-24, 25) * (0.5 / mu)
            edges.append(fine[(fine > start) & (fine < stop)])
        x, w = panels(np.unique(np.concatenate(edges)))
        return mu * x - 0.5 * mu * mu, np.log(w) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)


class DiscretePair(Pair):
    """A pair given by its atoms.

    `infinite` is P's mass at +inf, and `lost` Q's at -inf. If `lost` is None, it is the same.
    """

    def __init__(
        self, losses: ArrayLike, p: ArrayLike, q: ArrayLike, infinite: float = 0.0, lost: float | None = None
    ) -> None:
        self._losses = np.asarray(losses, float)
        self._p = np.asarray(p, float)
        self._q = np.asarray(q, float)
        self.p_infinite = infinite
        self._lost = infinite if lost is None else lost
        self.max_loss = float(self._losses[-1])

    def support(self, tail: float) -> tuple[float, float]:
        return float(self._losses[0]), float(self._losses[-1])

    def q_support(self, tail: float) -> tuple[float, float]:
        return (-math.inf if self._lost > 0.0 else float(self._losses[0])), self.max_loss

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        n = len(edges) - 1
        where = np.searchsorted(edges, self._losses, side="left")
        inside = (where > 0) & (where <= n)
        # Without atoms inside, bincount would count in integers.
        p = np.bincount(where[inside] - 1, self._p[inside], n).astype(float)
        q = np.bincount(where[inside] - 1, self._q[inside], n).astype(float)
        if self._lost > 0.0 and edges[0] == -np.inf:
            last = int(np.searchsorted(edges, -np.inf, side="right"))
            if last <= n:
                q[last - 1] += self._lost
        return p, q

    def profile(self, epsilon: float) -> float:
        if epsilon >= self.max_loss:
            return self.p_infinite  # nothing is rounded
        gain = -np.expm1(np.minimum(epsilon - self._losses, 0.0))
        return (float(np.sum(self._p * gain)) + self.p_infinite) * ROUND_UP

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        pad = 1e-9 * max(high - low, 1e-300)
        return np.unique(np.concatenate([self._losses - pad, self._losses + pad]))

    def atoms(self) -> FloatArray | None:
        return self._losses

    def under_q(self, alpha: float, q: float, positive: bool) -> tuple[FloatArray, FloatArray]:
        keep = self._losses > 0.0 if positive else slice(None)
        return self._losses[keep], np.log(self._q[keep])


class LaplacePair(Pair):
    """P = Laplace(0, b), Q = Laplace(1, b): losses in [-1/b, 1/b]."""

    def __init__(self, scale: float) -> None:
        self.eps = self.max_loss = 1.0 / scale

    def support(self, tail: float) -> tuple[float, float]:
        return -self.eps, self.eps

    q_support = support

    def profile(self, epsilon: float) -> float:
        if epsilon < -self.eps:
            return -math.expm1(epsilon) * ROUND_UP
        return max(0.0, -math.expm1(0.5 * (epsilon - self.eps))) * ROUND_UP

    def _upper(self, loss: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute P(L > loss) and Q(L > loss)."""
        e = self.eps
        inside = np.clip(loss, -e, e)
        p = -np.expm1(-0.5 * (e - inside) - math.log(2.0))
        q = 0.5 * np.exp(-0.5 * (e + inside))
        p = np.where(loss < -e, 1.0, np.where(loss >= e, 0.0, p))
        q = np.where(loss < -e, 1.0, np.where(loss >= e, 0.0, q))
        return p, q

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, q = self._upper(edges)
        return np.maximum(p[:-1] - p[1:], 0.0), np.maximum(q[:-1] - q[1:], 0.0)

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        pad = 1e-9 * (high - low)
        return np.concatenate([[low - pad], np.linspace(low + pad, high - pad, n), [high + pad]])

    def under_q(self, alpha: float, q: float, positive: bool) -> tuple[FloatArray, FloatArray]:
        # There is an atom e^(-e)/2 at loss e and an atom 1/2 at -e. Between them is the density exp(-(e + l) / 2) / 4,
        # and exp(alpha y) varies on the scale 1 / alpha.
        e, low = self.eps, 0.0 if positive else -self.eps
        n = max(8, math.ceil((e - low) * (alpha + 1.0) / 2.0))
        x, w = panels(np.linspace(low, e, min(n, 4000) + 1))
        atoms, log_weight = ([e], [math.log(0.5) - e]) if positive else ([-e, e], [math.log(0.5), math.log(0.5) - e])
        density = np.log(w) - 0.5 * (e + x) - math.log(4.0)
        return np.concatenate([atoms, x]), np.concatenate([log_weight, density])

    def divergence(self, alpha: float) -> float:
        # Mironov 2017, table II: ln(a/(2a-1) e^((a-1)/b) + (a-1)/(2a-1) e^(-a/b)), written as ln(1 + excess) so that
        # a large scale b does not cancel.
        e, a = self.eps, alpha
        if (a - 1.0) * e > 300.0:
            return e + math.log(a / (2.0 * a - 1.0)) / (a - 1.0)
        excess = a * math.expm1((a - 1.0) * e) + (a - 1.0) * math.expm1(-a * e)
        return math.log1p(max(excess, 0.0) / (2.0 * a - 1.0)) / (a - 1.0)


def log_mix(q: float, loss: ArrayLike) -> FloatArray:
    """ln(1 - q + q exp(loss)), elementwise."""
    loss = np.asarray(loss, float)
    with np.errstate(over="ignore"):
        small = np.log1p(q * np.expm1(np.minimum(loss, 30.0)))
        large = loss + math.log(q) + np.log1p((1.0 - q) / q * np.exp(-np.maximum(loss, 30.0)))
    return np.asarray(np.where(loss > 30.0, large, small))


def _log_unmix(q: float, loss: ArrayLike) -> FloatArray:
    """Invert `log_mix`; -inf below its smallest value ln(1 - q)."""
    loss = np.asarray(loss, float)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log1p(np.expm1(np.minimum(loss, 30.0)) / q)
        large = loss - math.log(q) + np.log1p(-(1.0 - q) * np.exp(-np.maximum(loss, 30.0)))
    out = np.where(loss > 30.0, large, small)
    return np.where(np.isnan(out), -np.inf, out)


class PoissonPair(Pair):
    """((1-q) Q + q P, Q) of a base pair (P, Q)."""

    def __init__(self, q: float, base: Pair) -> None:
        self.q, self.base = q, base
        self.p_infinite = q * base.p_infinite
        self.max_loss = float(log_mix(q, base.max_loss))

    def support(self, tail: float) -> tuple[float, float]:
        # Let Q leave [low, high] with probability <= tail, and P with probability <= tail / q. Then (1-q) Q + q P
        # leaves it with probability <= tail.
        p_low, p_high = self.base.support(min(0.5, tail / self.q))
        q_low, q_high = self.base.q_support(tail)
        return float(log_mix(self.q, min(p_low, q_low))), float(log_mix(self.q, max(p_high, q_high)))

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, q = self.base.masses(_log_unmix(self.q, edges))
        return (1.0 - self.q) * q + self.q * p, q

    def profile(self, epsilon: float) -> float:
        # (1-q) Q + q P - e^eps Q = q (P - e^base Q) with e^eps = 1 - q + q e^base.
        base = float(_log_unmix(self.q, epsilon))
        if base == -math.inf:
            return -math.expm1(epsilon) * ROUND_UP
        return self.q * self.base.profile(base) * ROUND_UP

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        start, stop = (float(x) for x in _log_unmix(self.q, [low, high]))
        if not math.isfinite(start):
            start = self.base.q_support(1e-30)[0]
        if not math.isfinite(start):
            start = self.base.support(1e-30)[0]
        points = log_mix(self.q, self.base.nodes(start, max(stop, start), n))
        # The smallest possible loss must be among the edges: mirrored, it is the largest.
        return np.unique(np.append(points, max(low, math.log1p(-self.q))))

    def atoms(self) -> FloatArray | None:
        base = self.base.atoms()
        return None if base is None else log_mix(self.q, base)


class MirrorPair(Pair):
    """The pair (Q, P) of a sampled pair (P, Q): the loss changes its sign and its law."""

    def __init__(self, pair: PoissonPair) -> None:
        self.pair = pair
        # r >= 0 bounds the mirrored loss -ln(1 - q + q r). No loss is infinite, because Q has no mass where the
        # mixture has none.
        low = -pair.base.max_loss if pair.base.p_infinite == 0.0 else -math.inf
        self.max_loss = -float(log_mix(pair.q, low))

    def support(self, tail: float) -> tuple[float, float]:
        low, high = self.pair.base.q_support(tail)
        return -float(log_mix(self.pair.q, high)), -float(log_mix(self.pair.q, low))

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, q = self.pair.masses(-edges[::-1])
        return q[::-1], p[::-1]

    def profile(self, epsilon: float) -> float:
        # Let e^-eps = 1 - q + q e^base. Then Q{L' < -eps} - e^eps P'{L' < -eps} is q e^(eps + base) (Q{L < base} -
        # e^-base P{L < base}): the base pair, mirrored, at -base.
        base = float(_log_unmix(self.pair.q, -epsilon))
        if base == -math.inf:
            return 0.0
        return self.pair.q * math.exp(epsilon + base) * self.pair.base.mirror_profile(-base) * ROUND_UP

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        return -self.pair.nodes(-high, -low, n)[::-1]

    def atoms(self) -> FloatArray | None:
        atoms = self.pair.atoms()
        return None if atoms is None else -atoms[::-1]


class WithoutReplacementPair(Pair):
    """Dominating pair of fixed-size sampling under replace-one; symmetric."""

    def __init__(self, q: float, base: Pair) -> None:
        self.q, self.base = q, base
        self.p_infinite = q * base.p_infinite
        self._sampled = PoissonPair(q, base)
        self.max_loss = self._sampled.max_loss
        p, q_mass = base.masses(np.array([0.0, np.inf]))
        p_positive = (1.0 - q) * float(q_mass[0]) + q * float(p[0])
        self._zero = max(0.0, 1.0 - p_positive - float(q_mass[0]) - self.p_infinite)

    def support(self, tail: float) -> tuple[float, float]:
        high = self._sampled.support(tail)[1]
        low = -float(log_mix(self.q, self.base.q_support(tail)[1]))
        return min(low, 0.0), max(high, 0.0)

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        n = len(edges) - 1
        # There are two half lines; an interval across 0 gets parts of both, and the atom.
        p, q = self._sampled.masses(np.maximum(edges, 0.0))
        a, b = self._sampled.masses(np.maximum(-edges[::-1], 0.0))
        p = p + b[::-1]
        q = q + a[::-1]
        where = int(np.searchsorted(edges, 0.0, side="left")) - 1
        if 0 <= where < n:
            p[where] += self._zero
            q[where] += self._zero
        return p, q

    def profile(self, epsilon: float) -> float:
        if epsilon < 0.0:
            return -math.expm1(epsilon) + math.exp(epsilon) * self.profile(-epsilon)
        return self._sampled.profile(epsilon)

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        stop = float(_log_unmix(self.q, high))
        if not stop > 0.0:
            return np.array([-1e-12, 1e-12])
        upper = log_mix(self.q, self.base.nodes(0.0, stop, n))
        upper = np.unique(upper[upper > 0.0])
        tiny = float(upper[0]) * 1e-6
        return np.concatenate([-upper[::-1], [-tiny, tiny], upper])

    def atoms(self) -> FloatArray | None:
        base = self.base.atoms()
        if base is None:
            return None
        up = log_mix(self.q, base[base > 0.0])
        return np.unique(np.concatenate([-up, [0.0], up]))
