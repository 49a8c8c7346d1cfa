"""Dominating pairs for a person with k of the sampled rows.

Rows are sampled independently, and one person has k of them. Let sd of the noise be 1, rows contribute at most mu in
the L2 norm. (Under "replace" they change by at most mu.) Let w_j be the probability that j of the k are drawn. It is
Binomial(k, q) for Poisson sampling, hypergeometric for samples of S of n. Write eta = 1 - w_0.

*Poisson, add or remove all k*: the pair (sum_j w_j N(j mu, 1), N(0, 1)) and its mirror image dominate. They are reached
by k equal rows, so the profile of a composition is exact. It is the mixture of Gaussians mechanism (Choquette-Choo,
Ganesh, Steinke & Thakurta 2024, "Privacy amplification for matrix mechanisms"). *Proof.* The hockey-stick divergence is
jointly convex, so let the sample of all other rows be known. It shifts both outputs alike, and is taken to be no shift.
If the set T of the k rows is drawn, the output is N(s_T, I) with |s_T| <= |T| mu. Under Q = N(0, I) the likelihood
ratio of the mixture over T is R = sum_T p_T exp(X_T - Var(X_T) / 2) with X_T = <s_T, x>. These are Gaussian variables
with Cov(X_T, X_U) = <s_T, s_U> <= |T| |U| mu^2. That is the covariance of Y_T = |T| mu y, y ~ N(0, 1), which is the
case of the pair. The interpolation X_T sqrt(1 - t) + Y_T sqrt(t), X and Y independent, gives for every convex F (Kahane
1985; integrate by parts)
    d/dt E F(R_t) = 1/2 sum_{T,U} p_T p_U (Cov(Y_T, Y_U) - Cov(X_T, X_U)) E[e_T e_U F''(R_t)] >= 0,
e_T the exponential factors, so E F(R) is largest for the pair. F(r) = (r - e^eps)_+ is the one direction,
F(r) = (1 - e^eps r)_+ the other. Steps chosen in view of earlier releases compose (Zhu, Dong & Wang 2022, theorem 10).
Fewer rows than k are k rows, some with contribution 0, so that the profile does not decrease in k.

*Without replacement, replace all k*: delta'(eps) <= sum_{j >= 1} w_j delta_{j mu}(ln(1 + (e^eps - 1) / eta)), eps >= 0.
Here delta_m is the profile of N(m, 1) against N(0, 1). It is an upper bound that is not known to be reached for k > 1.
*Proof.* Write P = w_0 P_0 + eta P_1 and P' = w_0 P_0 + eta P_1'. The sample of P_0 has none of the k rows. Use advanced
joint convexity (Balle, Barthe & Gaboardi 2018, theorem 2). It says that delta' at the stated eps is at most eta times a
convex combination of the divergences of P_1 from P_1' and from P_0. They are taken at eps_0 = ln(1 + (e^eps - 1) /
eta). Given that j of the k are drawn, couple P_1 and P_1' by the same sample: outputs j mu apart. Couple P_1 and P_0 by
replacing the j rows by j uniform ones of the n - k others that are not in the sample. That gives a uniform sample of
those by j replacements, so j mu again. Joint convexity over j and the samples gives sum_j (w_j / eta) delta_{j
mu}(eps_0) for both. Nothing in this depends on the order of the two data sets.

*Random allocation, add or remove all k*: N(k mu, 1) against N(0, 1) dominates each epoch. N(sqrt(E) k mu, 1) dominates
E epochs, with minibatches reused or not. *Proof.* Reveal the minibatch of each of the k rows, and let nothing depend on
it (joint convexity). Row j adds s_j to one output, |s_j| <= mu. The squared lengths of the shifts of the t outputs sum
to at most (sum_j |s_j|)^2 <= (k mu)^2, whatever earlier outputs chose it. So they are Gaussian mechanisms of that mu^2
in all. `distribution` has group privacy of the whole run beside it, mostly the better bound. For k neighbors lie on the
way between the data sets, and `allocation` bounds each pair of them.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from ..checks import FloatArray
from ..events import GroupEvent, PoissonSampledEvent, RandomAllocationEvent, gaussian_mu_squared
from .pairs import (
    ROUND_UP,
    GaussianPair,
    MirrorPair,
    Pair,
    PoissonPair,
    WithoutReplacementPair,
    normal_masses,
    panels,
    tail_quantile,
)


class RowsPair(Pair):
    """A sample with j >= 1 of somebody's rows, and j known: N(j mu, 1) and N(0, 1) with weight w_j."""

    def __init__(self, mu: float, weights: FloatArray) -> None:
        # What is lighter is below the rounding of any delta that is answered.
        kept = np.flatnonzero(weights > 1e-300)
        self._parts = [(float(weights[i]), GaussianPair(mu * (i + 1.0))) for i in kept]

    def _ranges(self, tail: float) -> list[tuple[float, GaussianPair]]:
        """Select components that count, each with its tail, at most tail together."""
        share = tail / len(self._parts)
        return [(min(0.5, share / w), pair) for w, pair in self._parts if w > share] or [(0.5, self._parts[0][1])]

    def support(self, tail: float) -> tuple[float, float]:
        ends = [pair.support(cut) for cut, pair in self._ranges(tail)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def q_support(self, tail: float) -> tuple[float, float]:
        ends = [pair.q_support(cut) for cut, pair in self._ranges(tail)]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = q = np.zeros(len(edges) - 1)
        for w, pair in self._parts:
            p_part, q_part = pair.masses(edges)
            p, q = p + w * p_part, q + w * q_part
        return p, q

    def profile(self, epsilon: float) -> float:
        return sum(w * pair.profile(epsilon) for w, pair in self._parts) * ROUND_UP


class MixturePair(RowsPair):
    """A sample with an unknown number of somebody's rows.

    P = sum_{j >= 1} w_j N(j mu, 1), Q = N(0, 1). The loss is ln sum_j w_j exp(j mu x - (j mu)^2 / 2). It increases in
    the output x, with slopes from mu up, and is convex.
    """

    def _loss(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the loss at outputs x, and its slope there."""
        lines = [(math.log(w) - 0.5 * pair.mu**2 + pair.mu * x, pair.mu) for w, pair in self._parts]
        top = lines[0][0]
        for line, _ in lines[1:]:
            top = np.maximum(top, line)
        total, slope = np.zeros_like(x), np.zeros_like(x)
        for line, mu in lines:
            part = np.exp(line - top)
            total += part
            slope += mu * part
        return top + np.log(total), slope / total

    def _output(self, loss: ArrayLike) -> FloatArray:
        """Find the outputs x of losses, by Newton's method from right."""
        loss = np.asarray(loss, float)
        inside = np.isfinite(loss)
        goal, out = loss[inside], loss.copy()
        # No single component is above the whole.
        x = np.min([(goal - math.log(w)) / pair.mu + 0.5 * pair.mu for w, pair in self._parts], axis=0)
        for _ in range(100):
            value, slope = self._loss(x)
            step = (value - goal) / slope
            x = x - step
            if np.all(np.abs(step) <= 1e-9 * (1.0 + np.abs(x))):
                break
        out[inside] = x
        return out

    def support(self, tail: float) -> tuple[float, float]:
        ends = [(pair.mu - tail_quantile(cut), pair.mu + tail_quantile(cut)) for cut, pair in self._ranges(tail)]
        low, high = self._loss(np.array([min(low for low, _ in ends), max(high for _, high in ends)]))[0]
        return float(low), float(high)

    def q_support(self, tail: float) -> tuple[float, float]:
        low, high = self._loss(np.array([-1.0, 1.0]) * tail_quantile(tail))[0]
        return float(low), float(high)

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        x = self._output(edges)
        p = np.zeros(len(edges) - 1)
        for w, pair in self._parts:
            p += w * normal_masses(x - pair.mu)
        return p, normal_masses(x)

    def _gains(self, epsilon: float, sign: float) -> float:
        """Sum the components' gains sum_j w_j (...) at one output.

        Let b_j be the loss of component j at the output whose loss is `epsilon`. There P above it minus e^epsilon Q is
        sum_j w_j delta_{j mu}(b_j). Below it, e^epsilon Q minus P is sum_j w_j e^b_j delta_{j mu}(-b_j), since
        e^epsilon = sum_j w_j e^b_j. No term is negative.
        """
        x = float(self._output(epsilon))
        loss = [pair.mu * x - 0.5 * pair.mu**2 for _, pair in self._parts]
        return ROUND_UP * sum(
            w * math.exp(0.0 if sign > 0.0 else b - epsilon) * pair.profile(sign * b)
            for b, (w, pair) in zip(loss, self._parts, strict=True)
        )

    def profile(self, epsilon: float) -> float:
        return self._gains(epsilon, 1.0)

    def mirror_profile(self, epsilon: float) -> float:
        return self._gains(-epsilon, -1.0)

    def under_q(self, alpha: float, q: float, positive: bool) -> tuple[FloatArray, FloatArray]:
        # The loss bends over lengths of 1 / mu in the output, mu the shift of all rows together.
        most = self._parts[-1][1].mu
        start, stop = float(self._output(0.0)) if positive else -13.0, alpha * most + 13.0
        x, w = panels(np.append(np.arange(start, stop, min(1.0, 1.0 / most)), stop))
        return self._loss(x)[0], np.log(w) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        start, stop = self._output([low, high])
        return np.unique(self._loss(np.linspace(start, stop, n))[0])


def _rows_drawn(event: GroupEvent) -> tuple[float, FloatArray]:
    """Return P(j >= 1), rounded up, and P(j | j >= 1), for j drawn rows."""
    sampled = event.event
    assert not isinstance(sampled, RandomAllocationEvent)
    rate = sampled.sampling_probability
    if isinstance(sampled, PoissonSampledEvent):
        first, last = 0, event.size
        j = np.arange(last, dtype=np.float64)
        ratio = (last - j) / (j + 1.0) * (rate / (1.0 - rate))
        log_none = last * math.log1p(-rate)
    else:
        s, n = sampled.sample_size, sampled.n_records
        k = min(event.size, n)
        first, last = max(0, s - (n - k)), min(k, s)
        j = np.arange(first, last, dtype=np.float64)
        ratio = (k - j) * (s - j) / ((j + 1.0) * (n - k - s + j + 1.0))
        log_none = -math.inf if first else float(np.sum(np.log1p(-s / (n - np.arange(k, dtype=np.float64)))))
    log_mass = np.concatenate([[0.0], np.cumsum(np.log(ratio))])
    mass = np.exp(log_mass - np.max(log_mass))
    weights = np.zeros(last + 1)
    weights[first:] = mass
    return min(1.0, -math.expm1(log_none) * (1.0 + 1e-15)), weights[1:] / np.sum(weights[1:])


def dominating_rows(event: GroupEvent) -> tuple[Pair, Pair]:
    """Return the dominating pairs of a group in both directions."""
    mu = math.sqrt(gaussian_mu_squared(event.event.event))
    if isinstance(event.event, RandomAllocationEvent):
        known = GaussianPair(event.size * mu * math.sqrt(event.event.n_epochs))
        return known, known
    touched, weights = _rows_drawn(event)
    if touched == 1.0:
        # To be told j is to know more, so that this pair dominates for Poisson sampling too.
        told = RowsPair(mu, weights)
        return told, told
    if isinstance(event.event, PoissonSampledEvent):
        add = PoissonPair(touched, MixturePair(mu, weights))
        return add, MirrorPair(add)
    both = WithoutReplacementPair(touched, RowsPair(mu, weights))
    return both, both


def hidden_rows(event: GroupEvent) -> tuple[float, MixturePair]:
    """Return P(j >= 1), rounded up, and the laws given that."""
    touched, weights = _rows_drawn(event)
    return touched, MixturePair(math.sqrt(gaussian_mu_squared(event.event.event)), weights)
