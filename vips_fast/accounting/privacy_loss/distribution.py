"""Privacy-loss distributions of events: tight composition with upward rounding.

Every answer is an upper bound; `convolution` says why. Its window, tilt and spacing are chosen here.

The spacing follows from the accuracy asked for. Splitting inside an interval of width h raises the moment generating
function of one step. Its factor is at most 1 + theta (theta + 1) h^2 / 8, hence after T steps

    relative error of delta <= T theta (theta + 1) h^2 / 8,
    absolute error of epsilon <= T (theta + 1) h^2 / 8

to first order: h is proportional to the loss's own spread.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from ...checks import check_number
from ..accountant import Accountant
from ..checks import FloatArray, non_negative, open_probability
from ..events import (
    ComposedEvent,
    GroupEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    check_event,
)
from ..solver import close_bracket, find_threshold
from .convolution import MAX_POINTS, Convolution, Cumulants, Part, log_sum_exp, split, union
from .dominating import composed_pairs, largest_loss
from .inversion import Inversion, inverted_delta, rare_samples
from .pairs import GaussianPair, Pair, PoissonPair

T = TypeVar("T")

_NODES = 320
#: Share of delta for the largest losses of many steps on tiny samples.
_CUT = 0.05


def _coarse(part: Part, tail: float) -> tuple[FloatArray, FloatArray]:
    """Coarsen ln mass and loss to about 300 points, dominating."""
    points = part.pair.nodes(*part.pair.support(tail), _NODES)
    mass, _ = split(part.pair, points)
    keep = mass > 0.0
    return np.log(mass[keep]), points[keep]


def _finer(grid: Convolution, before: tuple[float, float] | None, found: float, allowed: float) -> float | None:
    """Choose the grid's next spacing, or None if the error is `allowed`.

    The error is of order h^2: the spacing and the answer of the grid `before` give its size.
    """
    if before is None:
        return 0.5 * grid.h
    if grid.h >= 0.999 * before[0]:
        return None
    error = abs(before[1] - found) / ((before[0] / grid.h) ** 2 - 1.0)
    if error <= allowed or grid.points >= MAX_POINTS:
        return None
    return grid.h * max(0.1, min(0.6, math.sqrt(0.6 * allowed / error)))


class Direction:
    """Composition of several parts in one direction of the neighboring relation.

    `rough_epsilon` and `rough_delta` bound the answer by Renyi divergences and choose the tilt from which `epsilon`,
    `epsilon_lower` and `delta` start.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.total = sum(part.repeats for part in parts)
        self.p_infinite = union((part.pair.p_infinite, part.repeats) for part in parts)
        self.max_loss = math.fsum(part.repeats * part.pair.max_loss for part in parts)

    def _steer(self, tail: float) -> None:
        """Compute the composed loss's spread and upper bounds of its cumulants.

        `tail` is a mass that one step may move to an infinite loss.
        """
        coarse = [_coarse(part, tail) for part in self.parts]
        variance = 0.0
        for part, (log_p, loss) in zip(self.parts, coarse, strict=True):
            p = np.exp(log_p)
            p /= p.sum()
            # Sums, not BLAS products, whose last bit may depend on where the arrays lie in memory.
            mean = float(np.sum(p * loss))
            variance += part.repeats * float(np.sum(p * (loss - mean) ** 2))
        self.spread = math.sqrt(variance)
        if self.spread == 0.0:
            return
        # Seven decades around 1 / spread hold every useful order.
        thetas = np.geomspace(1e-4, 1e3, 88) / self.spread
        orders = np.concatenate([thetas, -thetas[::3]])
        values = np.zeros(len(orders))
        for part, (log_p, loss) in zip(self.parts, coarse, strict=True):
            values += part.repeats * log_sum_exp(orders[:, None] * loss + log_p, 1)
        n = len(thetas)
        self.cumulants = Cumulants(thetas, values[:n], orders[n:], values[n:])

    def _window(self, low: float, focus: float, eta: float) -> tuple[float, float, float]:
        """Choose tilt and window (theta, start, high) for epsilon near `focus`.

        Epsilon is at least `low`. `eta` is the ln of the error that wrap-around may cause. With W the width of the
        window:

        - the mass above `high` is lost, at most exp(eta);
        - mass above low + W is read exp(theta W) times too large;
        - mass below `start` is read exp(-theta W) times too large;
        - rounding is charged with about 1e-14 T sqrt(1 + 1 / (theta spread)) exp(K(theta) - theta focus).
        """
        th, values, low_orders, low_values = self.cumulants
        high = max(float(np.min((values - eta) / th)), low)
        bottom = -float(np.min((eta - low_values) / low_orders))
        gap = th[None, :] - th[:, None]
        over = np.full(gap.shape, np.inf)
        np.divide(values[None, :] - th[:, None] * low - eta, gap, out=over, where=gap > 0.0)
        width = np.maximum(np.minimum(-eta / th, high - bottom), over.min(1) - low)
        noise = values - th * focus + math.log(1e-14 * self.total) + 0.5 * np.log1p(1.0 / (th * self.spread))
        fine = (noise <= eta + 2.0) & np.isfinite(width)
        if fine.any():
            best = int(np.argmin(np.where(fine, width, np.inf)))
        else:
            # No tilt meets every wish: take the least rounding.
            best = int(np.argmin(np.where(np.isfinite(width), noise, np.inf)))
        return float(th[best]), min(low, high - float(width[best])), high

    def rough_epsilon(self, delta: float, rtol: float, cut: float | None = None) -> float:
        """Return an upper bound of epsilon by Renyi divergences; prepares `epsilon`.

        A share `cut` of delta, None for hardly any of it, is the mass of all steps that may move to an infinite loss.
        """
        if self.p_infinite >= delta:
            return math.inf
        log_delta = math.log(delta - self.p_infinite)
        share, fine = (1e-3, rtol) if cut is None else (cut, 1.0)
        self._tail = math.exp(max(log_delta, -680.0)) * share * fine / self.total
        self._steer(self._tail)
        if self.spread == 0.0:
            # The loss is a constant, or too small to have a spread in doubles.
            return self.max_loss
        th = self.cumulants.orders
        # Tight conversion (Canonne, Kamath & Steinke 2020, proposition 12), at the delta that the truncated tails
        # leave.
        log_left = log_delta + math.log1p(-10.0 * share * fine)
        found = (self.cumulants.values - log_left - np.log1p(th)) / th + np.log(th / (1.0 + th))
        best = int(np.argmin(found))
        self._order = max(float(th[best]), 1.0 / self.spread)
        return min(max(float(found[best]), 0.0), self.max_loss)

    def epsilon(self, delta: float, rtol: float, rough: float) -> float:
        """Bound the smallest epsilon at `delta` from above; `rough` is `rough_epsilon`'s."""
        if rough in (0.0, math.inf) or self.spread == 0.0:
            return rough
        eta = math.log(delta - self.p_infinite) + math.log(1e-2 * rtol)
        least = 1e-3 * self.spread
        scale = max(0.8 * rough, least)
        # The first grid is coarser than the formula says; the second confirms it.
        h = 2.0 * math.sqrt(8.0 * rtol * scale / (self.total * (self._order + 1.0)))
        low, focus = 0.5 * rough, 0.9 * rough
        answer, before, tries = rough, None, 0
        for _ in range(20):
            theta, start, high = self._window(low, max(low, focus), eta)
            grid = Convolution(self.parts, self.cumulants, theta, h, start, high, self._tail, eta)
            found = grid.epsilon(delta)
            if found is None:
                # The first point of the window already satisfies delta.
                if start <= 0.0:
                    return 0.0
                low = 0.3 * min(low, start) if low > 0.02 * rough else -4.0 * h
                continue
            if found == math.inf:
                # Rounding or wrapped mass exceeds delta in the whole window.
                eta -= 7.0
                tries += 1
                if tries == 3:
                    break
                continue
            if found <= 0.0:
                return 0.0
            answer = min(answer, found)
            if found < low:
                low, focus = (0.6 * found if found > 0.02 * rough else -4.0 * h), found
                continue
            finer = _finer(grid, before, found, rtol * max(found, least))
            if finer is None:
                break
            h, before = finer, (grid.h, found)
            low, focus = 0.7 * found, found
        return answer

    def one_large_step(self, delta: float) -> float:
        """Return a lower bound of epsilon by outputs with one large loss.

        With tiny samples, a small delta comes from one large loss in one step. No grid holds that rare loss with the
        many small ones. Let S = prod S_i be dP/dQ, of independent steps under Q, and A_i the outputs where only step i
        has a loss above epsilon. These are disjoint. Let P_i = P(loss of i > epsilon) and M = sum P_j. Then P(A_i) =
        P_i prod_{j != i} (1 - P_j) >= P_i (1 - M), and Q(A_i) <= Q_i. So

            delta(epsilon) = E_Q (S - e^epsilon)_+ >= sum_i E_Q (S - e^epsilon) 1{A_i} >= sum_i delta_i(epsilon) - M^2,

        because delta_i(epsilon) = P_i - e^epsilon Q_i. Other mechanisms only add to it. Each epsilon whose value is
        above `delta` is a proof by itself.
        """
        steps = [p for p in self.parts if isinstance(p.pair, PoissonPair) and isinstance(p.pair.base, GaussianPair)]

        def single(epsilon: float) -> float:
            return math.fsum(part.repeats * part.pair.profile(epsilon) for part in steps)

        def holds(epsilon: float) -> bool:
            ends = np.array([epsilon, np.inf])
            beyond = math.fsum(part.repeats * float(part.pair.masses(ends)[0][0]) for part in steps)
            # The closed forms are good to 1e-11.
            return (1.0 - 1e-9) * single(epsilon) - (1.0 + 1e-9) * beyond * beyond > delta

        if not single(0.0) > delta:
            return 0.0
        top = 1.0
        while single(top) > delta:
            top *= 2.0
        top = before = find_threshold(lambda epsilon: single(epsilon) <= delta, 0.0, top, rtol=1e-9)
        for share in (0.999, 0.99, 0.97, 0.9, 0.8, 0.6, 0.4, 0.2, 0.1):
            if holds(share * top):
                return find_threshold(holds, before, share * top, rtol=1e-6)
            before = share * top
        return 0.0

    def rough_delta(self, epsilon: float) -> float:
        """Return an upper bound of delta by Renyi divergences; prepares `delta`."""
        self._log_bound = -math.inf
        if self.p_infinite >= 1.0 or epsilon >= self.max_loss:
            return self.p_infinite
        tail = 1e-60 / self.total
        for _ in range(2):
            self._steer(tail)
            if self.spread == 0.0:
                return min(1.0, self.p_infinite - math.expm1(epsilon - self.max_loss))
            th = self.cumulants.orders
            exponent = self.cumulants.values - th * epsilon + th * np.log(th) - (1.0 + th) * np.log1p(th)
            best = int(np.argmin(exponent))
            self._order = max(float(th[best]), 1.0 / self.spread)
            self._log_bound = min(0.0, float(exponent[best]))
            if self._log_bound > -100.0:
                break
            tail = 1e-280 / self.total
        return min(1.0, math.exp(self._log_bound) + self.p_infinite + self.total * tail)

    def delta(self, epsilon: float, rtol: float, rough: float) -> float:
        """Bound delta at `epsilon` >= 0 from above; `rough` comes from `rough_delta`."""
        answer = rough
        if self._log_bound < -600.0 or self.spread == 0.0:
            # Below 1e-260 the Renyi bound is as good as any number.
            return answer
        h = 2.0 * math.sqrt(8.0 * rtol / (self.total * self._order * (self._order + 1.0)))
        eta = self._log_bound - 2.0 + math.log(1e-2 * rtol)
        before = None
        for _ in range(20):
            tail = math.exp(max(eta, -680.0)) * 0.1 / self.total
            tilt, start, high = self._window(epsilon, epsilon, eta)
            grid = Convolution(self.parts, self.cumulants, tilt, h, start - 4.0 * h, high + 4.0 * h, tail, eta)
            found, extra = grid.delta(epsilon)
            answer = min(answer, found)
            finite = found - extra
            if found <= 1e-290:
                break
            goal = math.log(max(finite, 1e-6 * found)) + math.log(1e-2 * rtol)
            if eta > goal + 2.0 and eta > -650.0:
                # delta turned out smaller than the bound: allow less wrap-around.
                eta, before = goal, None
                continue
            finer = _finer(grid, before, finite, rtol * max(finite, extra))
            if finer is None:
                break
            h, before = finer, (grid.h, finite)
        return min(1.0, answer)


class PrivacyLoss:
    """Privacy-loss distribution of any event but `NonPrivateEvent`, with bounds as answers.

    One step is answered by its closed-form profile. In a composition, whole-data Gaussian mechanisms are merged into
    one. The composition of distinct mechanisms is one product in Fourier space, and a mechanism repeated T times costs
    log2(T) products.

    `rtol` is the relative accuracy of the answers (of epsilon in `epsilon`, of delta in `delta`), which are upper
    bounds for every value. Random allocation has its own, about 5e-4 of epsilon, for any delta from `smallest` up.
    """

    def __init__(self, event: PrivacyEvent, rtol: float = 1e-4, smallest: float = 1e-12) -> None:
        self.rtol, self._event = check_number("rtol", rtol, 1e-9, 0.5), check_event(event)
        found = self._pairs(open_probability("smallest", smallest))
        add, remove = ([Part(both[side], count) for both, count in found] for side in (0, 1))
        self._group = _group_of_one_size(event, rtol)
        self._rare = rare_samples(event)
        self._directions = [Direction(add)] if add else []
        if any(one.pair is not two.pair for one, two in zip(add, remove, strict=True)):
            self._directions.append(Direction(remove))
        self._single = sum(part.repeats for part in add) == 1

    def _pairs(self, smallest: float) -> list[tuple[tuple[Pair, Pair], int]]:
        return composed_pairs(self._event, smallest)

    def epsilon(self, delta: float) -> float:
        """Bound the smallest epsilon >= 0 such that (epsilon, delta) holds."""
        delta = open_probability("delta", delta)
        found = self._epsilon(delta)
        if found == math.inf:
            return largest_loss(self._event)
        if self._group is None or found == 0.0 or delta < 1e-290:
            return found
        one, size = self._group

        def excess(epsilon: float) -> float:
            value = one.delta(epsilon)
            return math.log(value / delta) + _log_sum_of_powers(epsilon, size) if value > 0.0 else -700.0

        low, high = one.epsilon(delta), found / size
        below, above = excess(low), excess(high) if low < high < math.inf else math.inf
        if above > 0.0:
            return found
        if below > 0.0:
            low = close_bracket(excess, low, high, below, above, 10.0 * self.rtol * high)[1]
        return min(found, size * low)

    def _epsilon(self, delta: float) -> float:
        if delta < 1e-290:
            # Tails this small underflow; the sum of the largest losses holds at any delta.
            return max((d.max_loss if d.p_infinite == 0.0 else math.inf for d in self._directions), default=0.0)
        if self._single:
            return max(_single_epsilon(d, delta, self.rtol) for d in self._directions)
        if self._rare and (found := Inversion(self._rare, delta, self.rtol).epsilon(delta)) is not None:
            return found
        rough = [d.rough_epsilon(delta, self.rtol) for d in self._directions]
        # A direction whose Renyi bound is below the other's answer cannot matter.
        answer = largest(rough, self._directions, lambda d, bound: d.epsilon(delta, self.rtol, bound))
        if self._rare and answer > 1.01 * max(d.one_large_step(delta) for d in self._directions):
            # A grid that reaches the rare large losses is too coarse for the many small ones. A part of delta pays for
            # the largest, which then are infinite, and the grid ends below them. Both answers are bounds.
            rough = [d.rough_epsilon(delta, self.rtol, _CUT) for d in self._directions]
            cut = largest(rough, self._directions, lambda d, bound: d.epsilon(delta, self.rtol, bound))
            answer = min(answer, cut)
        return answer

    def delta(self, epsilon: float) -> float:
        """Compute an upper bound of delta(epsilon), epsilon >= 0."""
        epsilon = non_negative("epsilon", epsilon)
        found = self._delta(epsilon)
        if found > 0.0 and epsilon > 300.0 and epsilon >= largest_loss(self._event):
            return 0.0
        if self._group is None:
            return found
        one, size = self._group
        known = one.delta(epsilon / size)
        return min(found, known * math.exp(min(700.0, _log_sum_of_powers(epsilon / size, size))))

    def _delta(self, epsilon: float) -> float:
        if self._single:
            return min(1.0, max(d.parts[0].pair.profile(epsilon) for d in self._directions))
        known = 1.0
        # Farther out than the inversion reaches, a delta nearer by is a bound too, often a better one than the grid's.
        for k in range((30 if epsilon else 1) if self._rare else 0):
            found, tight = inverted_delta(self._rare or (), 0.7**k * epsilon, self.rtol)
            if tight and k == 0:
                return found
            known = min(known, found)
            if tight:
                break
        rough = [d.rough_delta(epsilon) for d in self._directions]
        return min(known, largest(rough, self._directions, lambda d, bound: d.delta(epsilon, self.rtol, bound)))


def largest(bounds: Sequence[float], items: Sequence[T], answer: Callable[[T, float], float]) -> float:
    """Return the largest ``answer(item, bound)``, or 0; skip items bounded below it."""
    best = 0.0
    for bound, item in sorted(zip(bounds, items, strict=True), key=lambda pair: -pair[0]):
        if bound > best:
            best = max(best, answer(item, bound))
    return best


def _group_of_one_size(event: PrivacyEvent, rtol: float) -> tuple[PrivacyLoss, int] | None:
    """Find a run of fixed-size or dealt samples, for a group.

    The group has k members. Group privacy (Vadhan 2017, lemma 2.2) then gives a second bound, often the better one. It
    is delta_k(k epsilon) <= sum_{i < k} e^(i epsilon) delta_1(epsilon), with k neighbors on the way between the data
    sets.
    """
    leaves = {leaf: count for leaf, count in event.leaves().items() if isinstance(leaf, GroupEvent)}
    sizes = {leaf.size for leaf in leaves}
    fixed = any(isinstance(leaf.event, (WithoutReplacementEvent, RandomAllocationEvent)) for leaf in leaves)
    if not fixed or len(sizes) > 1 or len(leaves) < len(event.leaves()):
        return None
    one = ComposedEvent(tuple(SelfComposedEvent(leaf.event, count) for leaf, count in leaves.items()))
    # The bound is not tight; an error of delta is divided by the slope of ln delta, 10 or more at a small delta.
    return PrivacyLoss(one, min(0.1, 100.0 * rtol)), sizes.pop()


def _log_sum_of_powers(epsilon: float, size: int) -> float:
    """Compute ln sum_{i < size} e^(i epsilon), rounded up."""
    return float(log_sum_exp(epsilon * np.arange(size, dtype=np.float64), 0)) + 1e-12 * (1.0 + size * epsilon)


def _single_epsilon(direction: Direction, delta: float, rtol: float) -> float:
    """Return the root of one step's closed-form profile, rounded up."""
    pair = direction.parts[0].pair
    if pair.p_infinite >= delta:
        # A statement holds at its own delta.
        return pair.max_loss if pair.profile(pair.max_loss) <= delta else math.inf
    if pair.profile(0.0) <= delta:
        return 0.0
    low, high = 0.0, direction.rough_epsilon(delta, rtol)
    while pair.profile(high) > delta:
        low, high = high, 1.0001 * high
    return find_threshold(lambda epsilon: pair.profile(epsilon) <= delta, low, high, rtol=min(rtol, 1e-9))


class PldAccountant(Accountant):
    """Privacy-loss distributions: the default for every event with known dominating pairs.

    They are exact for Poisson sampling, Laplace mechanisms and randomized responses. For samples of a fixed size they
    are exact in one step and an upper bound in a composition. A Laplace mechanism is (1/b, 0)-private, and at half of
    that epsilon has delta = 1 - e^(-1/(4b)) (Balle, Barthe & Gaboardi 2018):

    >>> import math
    >>> from vips_fast.accounting import LaplaceEvent, delta
    >>> round(delta(LaplaceEvent(1.0), 0.5, "pld") / -math.expm1(-0.25), 6)
    1.0
    """

    name = "pld"
    title = "privacy-loss distribution"
    source = (
        "Zhu, Dong & Wang 2022 (dominating pairs); Balle, Barthe & Gaboardi 2018 (sampling without "
        "replacement); Feldman & Shenfeld 2026 (random allocation); Doroshenko et al. 2022 (discretization)"
    )

    def epsilon(self, event: PrivacyEvent, delta: float, rtol: float = 1e-4) -> float:
        """Bound epsilon to a relative accuracy of about `rtol`."""
        return PrivacyLoss(event, rtol, smallest=delta).epsilon(delta)

    def delta(self, event: PrivacyEvent, epsilon: float, rtol: float = 1e-4) -> float:
        """Bound delta on a grid that gives epsilon to about `rtol`."""
        return PrivacyLoss(event, rtol).delta(epsilon)
