"""Epsilons that explicit attacks reach: what no accountant can go below.

An attack is a pair of neighboring data sets for each mechanism. Their losses are composed on the accountants' grid,
whose error is subtracted, not added.
"""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from vips_fast.accounting import PrivacyEvent, PrivacyLoss, epsilon, gaussian_mu
from vips_fast.accounting.accountants import trivial_epsilon
from vips_fast.accounting.checks import FloatArray
from vips_fast.accounting.events import (
    ComposedEvent,
    GroupEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    touching_leaves,
)
from vips_fast.accounting.gaussian import profile as gaussian_profile
from vips_fast.accounting.privacy_loss.convolution import MAX_POINTS, Convolution, log_sum_exp
from vips_fast.accounting.privacy_loss.distribution import Direction, largest
from vips_fast.accounting.privacy_loss.dominating import base_pair, composed_pairs, pairs, told
from vips_fast.accounting.privacy_loss.inversion import WIDEST, Inversion, Sampled, Sums
from vips_fast.accounting.privacy_loss.pairs import (
    GaussianPair,
    MirrorPair,
    Pair,
    PoissonPair,
    WithoutReplacementPair,
    normal_masses,
)
from vips_fast.accounting.privacy_loss.rows import hidden_rows
from vips_fast.accounting.solver import find_threshold


def epsilon_lower_bound(event: PrivacyEvent, delta: float, rtol: float = 5e-3) -> float:
    """Return the largest epsilon at `delta` that a known attack reaches.

    No accountant can prove less. For whole-data mechanisms, Poisson sampling and random allocation the attack is the
    worst case itself, so that the gap to accountant ``"pld"`` is numerical only. For sampling without replacement it is
    the better of two explicit pairs of data sets. One is a record that differs from n - 1 equal ones, the other three
    mutually equidistant values. For a group of several records it is as many equal ones among zeros.

    The bound is for the worst mechanism with the event's noise multiplier, not for a particular model. `rtol` is its
    relative accuracy; it is a lower bound for every value of it.
    """
    if (trivial := trivial_epsilon(event)) is not None:
        return trivial
    if gaussian_mu(event) is not None:
        # Exact up to the rounding upwards of a few 1e-12.
        return (1.0 - 1e-9) * epsilon(event, delta)
    leaves = (leaf.event if isinstance(leaf, GroupEvent) else leaf for leaf in event.leaves())
    # Of random allocation and Poisson sampling every attack is the worst case, or a lower bound of it.
    numbers = (0, 1) if any(isinstance(leaf, WithoutReplacementEvent) for leaf in leaves) else (0,)
    # A cheap upper bound of each attack tells whether it can be the better one.
    attacks = [Attack(event, rtol, number, delta) for number in numbers]
    return largest([a.epsilon(delta) for a in attacks], attacks, lambda attack, bound: attack.epsilon_lower(delta))


class Attack(PrivacyLoss):
    """An attack by its privacy-loss distribution; `epsilon_lower` bounds from below what any accountant can prove.

    `number` is the attack on samples without replacement: 0 is one record against none, 1 an equilateral triangle of
    records. None takes the dominating pairs, which are the attacks elsewhere.
    """

    def __init__(
        self, event: PrivacyEvent, rtol: float = 1e-4, number: int | None = None, smallest: float = 1e-12
    ) -> None:
        self._number = number
        super().__init__(event, rtol, smallest)
        if number is not None:
            self._group = None
            self._single = self._single and not isinstance(self._directions[0].parts[0].pair, TrianglePair)

    def _pairs(self, smallest: float) -> list[tuple[tuple[Pair, Pair], int]]:
        if self._number is None:
            return super()._pairs(smallest)
        leaves = Counter[PrivacyEvent]()
        for leaf, count in touching_leaves(self._event).items():
            # Of a person's rows that are dealt to minibatches, all but one are as if they were not there.
            dealt = isinstance(leaf, GroupEvent) and isinstance(leaf.event, RandomAllocationEvent)
            one = leaf.event if isinstance(leaf, GroupEvent) and dealt else leaf
            # Losses that no grid holds are left out.
            if dealt or leaf.kind in ("gaussian", "random_allocation") or told(leaf) is None:
                leaves[one] += count

        def reached(leaf: PrivacyEvent) -> tuple[Pair, Pair]:
            known = attack_pairs(leaf)
            return known[min(self._number or 0, len(known) - 1)]

        event = ComposedEvent(tuple(SelfComposedEvent(leaf, count) for leaf, count in leaves.items()))
        return composed_pairs(event, smallest, False, reached)

    def epsilon_lower(self, delta: float) -> float:
        """Bound the pairs' true epsilon at `delta` from below, tight to about `rtol`."""
        if self._single:
            # The closed form is good to 1e-11, the bisection to 1e-9.
            return (1.0 - 2e-9) * self.epsilon(delta)
        if self._rare and (found := _inverted(self._rare, delta, self.rtol)) is not None:
            return found
        best = max((d.one_large_step(delta) for d in self._directions), default=0.0)
        # A cheap upper bound tells which direction can matter.
        upper = [d.epsilon(delta, 1e-2, d.rough_epsilon(delta, 1e-2)) for d in self._directions]
        return max(best, largest(upper, self._directions, lambda d, bound: epsilon_lower(d, delta, self.rtol)))


def attack_pairs(event: PrivacyEvent) -> list[tuple[Pair, Pair]]:
    """Output pairs that explicit neighboring data sets reach, in both directions.

    They are the dominating pairs themselves except where samples have a fixed size.
    """
    if isinstance(event, GroupEvent):
        return [_rows(event)]
    if not isinstance(event, WithoutReplacementEvent) or event.sampling_probability == 1.0:
        return [pairs(event)]
    base = base_pair(event.event)
    # All records contribute 0, except for one that differs, in one of the two data sets.
    one = PoissonPair(event.sampling_probability, base)
    found: list[tuple[Pair, Pair]] = [(one, MirrorPair(one))]
    if isinstance(base, GaussianPair):
        triangle = TrianglePair(event.sampling_probability, base.mu)
        found.append((triangle, triangle))
    return found


def _rows(event: GroupEvent) -> tuple[Pair, Pair]:
    """Return the pairs that k equal rows among zeros reach, both ways."""
    touched, hidden = hidden_rows(event)
    if touched == 1.0:
        return hidden, hidden
    add = PoissonPair(touched, hidden)
    return add, MirrorPair(add)


class TrianglePair(Pair):
    """An attack on sampling without replacement: three equidistant records.

    All records are equal but one, which takes one of two other values. The three values are the corners of an
    equilateral triangle with sides equal to the sensitivity. The outputs are (1-q) N(0, s^2 I) + q N(a, s^2 I) against
    the same with b. Here |a| = |b| = |a - b| = 1, and s is the noise multiplier. With u along a - b and t along a + b,
    the loss

        ln (1-q + A e^(u/(2 s^2))) - ln (1-q + A e^(-u/(2 s^2))),
        A = q e^((sqrt(3) t - 1) / (2 s^2)),

    increases in u, and u is explicit for given loss and t.
    """

    def __init__(self, q: float, mu: float) -> None:
        self.q, self.mu = q, mu
        half_height = 0.5 * math.sqrt(3.0) * mu
        # All lengths are in units of s. The trapezoid rule in t converges geometrically. The integrand is analytic up
        # to |Im t| = 1.8 / mu. So a spacing of min(1, 1/mu) / 2 errs by exp(-2 pi 1.8 / 0.5) = 1e-10 of it. Beyond 9.5
        # standard deviations lies less than 1e-20.
        start, stop = -9.5, half_height + 9.5
        t = np.linspace(start, stop, math.ceil((stop - start) * 2.0 * max(1.0, mu)) + 1)
        step = t[1] - t[0]
        self._out = step * np.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
        self._in = step * np.exp(-0.5 * (t - half_height) ** 2) / math.sqrt(2.0 * math.pi)
        # ln((1-q) / A) at each t.
        self._log_ratio = math.log((1.0 - q) / q) - half_height * t + 0.5 * mu * mu

    def support(self, tail: float) -> tuple[float, float]:
        low, high = WithoutReplacementPair(self.q, GaussianPair(self.mu)).support(tail)
        bound = max(-low, high)
        return -bound, bound

    def masses(self, edges: FloatArray) -> tuple[FloatArray, FloatArray]:
        p = np.zeros(len(edges) - 1)
        q = np.zeros(len(edges) - 1)
        finite = np.clip(edges, -1400.0, 1400.0)
        # asinh(e^r sinh(l/2)) with the sign apart, safe for large exponents.
        size = np.abs(finite)
        with np.errstate(divide="ignore"):
            log_sinh = 0.5 * size + np.log(-np.expm1(-size)) - math.log(2.0)
        for out, inside, ratio in zip(self._out, self._in, self._log_ratio, strict=True):
            z = ratio + log_sinh
            root = np.where(z > 20.0, z + math.log(2.0), np.arcsinh(np.exp(np.minimum(z, 20.0))))
            u = np.copysign(0.5 * size + root, finite) * (2.0 / self.mu)
            u[edges == -np.inf], u[edges == np.inf] = -np.inf, np.inf
            common = out * (1.0 - self.q) * normal_masses(u)
            p += common + inside * self.q * normal_masses(u - 0.5 * self.mu)
            q += common + inside * self.q * normal_masses(u + 0.5 * self.mu)
        return p, q

    def nodes(self, low: float, high: float, n: int) -> FloatArray:
        return WithoutReplacementPair(self.q, GaussianPair(self.mu)).nodes(low, high, n)


def epsilon_lower(direction: Direction, delta: float, rtol: float) -> float:
    """Return a lower bound of the exact epsilon at `delta`.

    Write X for the discretized and L for the exact loss of a step. Inside an interval, D = X - L is in [-h, h]. For
    h <= 1/2, E[exp(-D)] = 1 gives 0 <= E[D] <= h^2 e^h / 6 and Var D <= h^2 e^h / 4. Let t = sqrt(2 V ln(1/eta)) +
    (2/3) h e^h ln(1/eta). By Bernstein's inequality the sum of T such D exceeds its mean by t with probability <=
    eta. The integrand of delta(eps) does not decrease in the loss, hence

        delta(eps) >= delta_X(eps + T E[D] + t) - eta - (cut tails).
    """
    rough = direction.rough_epsilon(delta, rtol)
    if rough in (0.0, math.inf):
        return rough
    if direction.spread == 0.0:
        return 0.0
    log_eta = math.log(delta) + math.log(1e-2 * rtol)
    low, focus = 0.5 * rough, 0.85 * rough
    best = 0.0
    for _ in range(8):
        h = rtol * max(focus, 1e-3 * direction.spread) / math.sqrt(-0.5 * direction.total * log_eta)
        h = min(h, -0.2 * rtol * focus / log_eta, 0.25)
        h = max(h, (rough + direction.spread) / MAX_POINTS)
        theta, start, high = direction._window(low, max(low, focus), log_eta)
        grid = Convolution(direction.parts, direction.cumulants, theta, h, start, high, direction._tail, log_eta)
        limited = grid.h > 1.001 * h
        h, grow = grid.h, math.exp(grid.h)
        if h > 0.5:
            break
        shift = direction.total * h * h * grow / 6.0 + (2.0 / 3.0) * h * grow * -log_eta
        shift += math.sqrt(0.5 * direction.total * h * h * grow * -log_eta) + grid.drift
        # A cut tail may move a loss by more than h.
        wrong = math.exp(log_eta) + 2.0 * direction.total * direction._tail
        found = _epsilon_below(grid, delta + wrong, direction.p_infinite, low)
        if found is None:
            if low <= 0.0:
                break
            low = 0.3 * low if low > 0.02 * rough else -4.0 * h
            continue
        best = max(best, found - shift)
        if limited or shift <= 1.5 * rtol * max(found, 1e-3 * direction.spread):
            break
        low, focus = 0.7 * found, found
    return max(0.0, best)


def _epsilon_below(grid: Convolution, delta: float, p_infinite: float, low: float) -> float | None:
    """Find a point of the window where the discretized delta exceeds `delta`.

    `p_infinite` is the exact pair's mass at an infinite loss; the answer is expected above `low`.
    """
    _, d = grid._tails()
    x = grid._grid()
    # The cumulant was rounded up; here everything is rounded down.
    log_scale = grid.cumulant - 2.0 * grid.log_growth - grid.theta * x
    noise = np.exp(np.minimum(log_scale + 2.0 * grid.log_growth + grid.log_noise, 700.0))
    profile = np.exp(np.minimum(log_scale, 700.0)) * d + p_infinite
    wrapped = np.exp(np.minimum(_log_overread(grid, x, low), 700.0))
    above = np.flatnonzero(profile - noise - wrapped > delta)
    # Each of these points is a proof by itself: take the largest.
    return float(x[above[-1]]) if len(above) else None


def _log_overread(grid: Convolution, x: FloatArray, low: float) -> FloatArray:
    """Bound ln of wrapped mass's part of delta near `low`.

    The points are x. Let W be the width of the window. Mass read at x or above comes from x + W or above and counts
    exp(theta W) times. That is at most exp(K(lam) - lam x - (lam - theta) W) for any lam > theta. Mass from below
    the window counts exp(-theta W) times and is at most exp(K(-s) + s start).
    """
    known, theta, width = grid.cumulants, grid.theta, grid.h * grid.points
    start = grid.h * grid.first
    bound = known.values - known.orders * low - (known.orders - theta) * width
    lam = float(known.orders[int(np.argmin(np.where(known.orders > theta, bound, np.inf)))])
    above = np.full(len(x), np.inf)
    if lam > theta:
        above = _cumulant_at(grid, lam) - lam * x - (lam - theta) * width
    s = -float(known.low_orders[int(np.argmin(known.low_values - known.low_orders * start))])
    below = min(0.0, _cumulant_at(grid, -s) + s * start) - theta * width
    return np.asarray(np.logaddexp(above, below))


def _cumulant_at(grid: Convolution, order: float) -> float:
    return sum(n * float(log_sum_exp(order * points + log_mass, 0)) for points, log_mass, n in grid.masses)


def _inverted(parts: Sequence[Sampled], delta: float, rtol: float) -> float | None:
    """Return a lower bound of epsilon, or None."""
    near = Inversion(parts, delta, max(rtol, 1e-3)).epsilon(delta)
    return Below(parts, delta, rtol).epsilon_near(near, delta) if near else near


class Below(Inversion):
    """Lower bounds of the cost of steps on tiny samples, in the terms of `vips_fast.accounting.privacy_loss.inversion`.

    The laws of the steps are smaller ones in convex order. For x, k >= 0

        (S R - e^x)_+ <= (S e^k - e^x)_+ + S (R - e^k)_+,
        (1 - e^x S R)_+ <= (1 - e^(x-k) S)_+ + e^(x-k) S (1 - e^k R)_+,

    where E S is 1. So delta(x - k) >= e^-k (delta_SR(x) - e^x delta_R(k)) in both directions. delta_R is the profile of
    a Gaussian mechanism of mu = tau. The wrapped copies of G are subtracted, each at most Chernoff's bound. That the
    mass missing from 1 is put at S_i = 1 lowers all expectations, by Jensen's inequality.
    """

    _upper = False

    def _side_below(self, x: float, sums: Sums, tau: float) -> float:
        """Return a lower bound of G at x."""
        value, error = self._sum(x, sums, math.exp(min(self._log_copies(x, sums.c, tau), 600.0)))
        return value - error

    def _delta(self, epsilon: float, sums: Sums, tau: float) -> float:
        k = 8.0 * tau
        x = epsilon + self._shift + k
        found = [self._side_below(x, sums, tau), math.exp(min(x, 600.0)) * self._side_below(-x, sums, tau)]
        return math.exp(-self._growth - k) * (max(found) - math.exp(min(x, 600.0)) * gaussian_profile(tau, k))

    def epsilon_near(self, near: float, delta: float) -> float | None:
        """Bound epsilon at `delta` to about `rtol`, None if not tight; `near` is about the answer."""
        if self._width > WIDEST:
            return None
        tau = max(self._least, 0.06 * self._rtol * near)
        sums, before = self._tuned(near, tau), 1.1 * near

        def holds(epsilon: float) -> bool:
            return self._delta(epsilon, sums, tau) > delta

        for share in (1.03, 1.0, 0.97, 0.9, 0.7, 0.3):
            if holds(share * near):
                # Matrix products vary in the last digits.
                return (1.0 - 1e-9) * find_threshold(holds, before, share * near, rtol=3e-7)
            before = share * near
        return None
