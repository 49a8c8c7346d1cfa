"""Privacy-loss distributions: tight composition with upward rounding.

Every number here is an upper bound, for four reasons.

1. *Discretisation.*  The part of a pair (P, Q) whose loss lies between two
   grid points x < y is split into two atoms at x and y that keep both its
   P-mass and its Q-mass (Doroshenko et al. 2022, "connect the dots").  The
   original is a post-processing (a merge) of the split, so the split pair
   dominates it.  The error is of second order in the spacing.
2. *Tails.*  Mass below the grid moves up to its first point; mass above it
   keeps its Q-mass at the last point, the remainder becomes an infinite loss.
3. *Wrap-around* of the circular convolution: mass that wraps from below only
   adds; the mass above the window is bounded by Chernoff and added to delta.
4. *Rounding*: of the FFT, bounded in the 2-norm and added to delta; of the
   tilted masses, a factor on delta; of the interval masses, a shift of epsilon.

The convolution runs on the exponentially tilted distribution
p(x) exp(theta x - K(theta)), with theta at the saddle point of the sought
(epsilon, delta).  There, rounding and wrap-around are relative to delta: a
delta of 1e-30 is as accurate as one of 1e-2, and the window is as short as
the tilted distribution, not as the support.

The spacing follows from the accuracy asked for.  Splitting inside an interval
of width h multiplies the moment generating function of one step by at most
1 + theta (theta + 1) h^2 / 8, hence after T steps

    relative error of delta <= T theta (theta + 1) h^2 / 8,
    absolute error of epsilon <= T (theta + 1) h^2 / 8

to first order: h is proportional to the loss's own spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ._pairs import (
    GaussianPair,
    Pair,
    TrianglePair,
    WithoutReplacementPair,
    attack_pairs,
    pairs,
)
from .events import GaussianEvent, PrivacyEvent, _leaves

__all__ = ["PrivacyLoss"]

_UNIT = 2.0**-53
_MAX_POINTS = 1 << 22
_NODES = 320


def _log_sum_exp(a: np.ndarray, axis: int) -> np.ndarray:
    top = np.max(a, axis=axis, keepdims=True)
    return np.squeeze(top, axis) + np.log(np.sum(np.exp(a - top), axis=axis))


def _split(pair: Pair, points: np.ndarray) -> tuple[np.ndarray, float]:
    """Masses at increasing `points` that dominate `pair`, and the infinite mass."""
    p, q = pair.masses(np.concatenate([[-np.inf], points, [np.inf]]))
    out = np.zeros(len(points))
    out[0] = p[0]
    # Beyond exp(709) Q underflows; q = 0 there sends all mass up.
    q_scaled = q[1:] * np.exp(np.minimum(points, 709.0))
    inner = p[1:-1]
    up = np.clip((inner - q_scaled[:-1]) / -np.expm1(-np.diff(points)), 0.0, inner)
    out[:-1] += inner - up
    out[1:] += up
    kept = min(float(q_scaled[-1]), float(p[-1]))
    out[-1] += kept
    return out, float(p[-1]) - kept + pair.p_infinite


class _Part:
    """One distinct pair, repeated `count` times."""

    def __init__(self, pair: Pair, count: int) -> None:
        self.pair, self.count = pair, count

    def coarse(self, tail: float) -> tuple[np.ndarray, np.ndarray]:
        """ln mass and loss at about 300 points: a dominating, coarse version."""
        points = self.pair.nodes(*self.pair.support(tail), _NODES)
        mass, _ = _split(self.pair, points)
        keep = mass > 0.0
        return np.log(mass[keep]), points[keep]


class _Direction:
    """Composition of several parts in one direction of the neighbouring relation."""

    def __init__(self, parts: list[_Part]) -> None:
        self.parts = parts
        self.total = sum(part.count for part in parts)
        self.p_infinite = _repeat_union([(part.pair.p_infinite, part.count) for part in parts])
        self.max_loss = math.fsum(part.count * part.pair.max_loss for part in parts)

    def steer(self, tail: float) -> None:
        """Spread of the composed loss and upper bounds of its cumulants K(theta).

        `tail` is a mass that one step may move to an infinite loss.
        """
        coarse = [part.coarse(tail) for part in self.parts]
        variance = 0.0
        for part, (log_p, loss) in zip(self.parts, coarse):
            p = np.exp(log_p)
            p /= p.sum()
            mean = float(p @ loss)
            variance += part.count * float(p @ (loss - mean) ** 2)
        self.spread = math.sqrt(variance)
        if self.spread == 0.0:
            return
        # Seven decades around 1 / spread hold every useful order.
        self.thetas = np.geomspace(1e-4, 1e3, 88) / self.spread
        orders = np.concatenate([self.thetas, -self.thetas[::3]])
        cumulants = np.zeros(len(orders))
        for part, (log_p, loss) in zip(self.parts, coarse):
            cumulants += part.count * _log_sum_exp(orders[:, None] * loss + log_p, 1)
        self.cumulants = cumulants[: len(self.thetas)]
        self.low_orders, self.low_cumulants = -orders[len(self.thetas) :], cumulants[len(self.thetas) :]

    def _window(self, low: float, focus: float, eta: float) -> tuple[float, float, float]:
        """Tilt and window (theta, start, high) for answers at epsilon >= `low`, near `focus`.

        `eta` is the ln of the error that wrap-around may cause.  With W the
        width of the window:

        - the mass above `high` is lost, at most exp(eta);
        - mass above low + W is read exp(theta W) times too large;
        - mass below `start` is read exp(-theta W) times too large;
        - rounding is charged with about
          1e-14 T sqrt(1 + 1 / (theta spread)) exp(K(theta) - theta focus).
        """
        th, cum = self.thetas, self.cumulants
        high = max(float(np.min((cum - eta) / th)), low)
        bottom = -float(np.min((self.low_cumulants - eta) / self.low_orders))
        gap = th[None, :] - th[:, None]
        over = np.full(gap.shape, np.inf)
        np.divide(cum[None, :] - th[:, None] * low - eta, gap, out=over, where=gap > 0.0)
        width = np.maximum(np.minimum(-eta / th, high - bottom), over.min(1) - low)
        noise = cum - th * focus + math.log(1e-14 * self.total) + 0.5 * np.log1p(1.0 / (th * self.spread))
        fine = (noise <= eta + 2.0) & np.isfinite(width)
        if fine.any():
            best = int(np.argmin(np.where(fine, width, np.inf)))
        else:
            # Nothing meets every wish: take the least rounding.
            best = int(np.argmin(np.where(np.isfinite(width), noise, np.inf)))
        return float(th[best]), min(low, high - float(width[best])), high

    def _spacing(self, h: float, tail: float) -> float:
        """At most h, aligned with the atoms where all parts share one lattice."""
        values: set[float] = set()
        width = 0.0
        lattice = True
        for part in self.parts:
            low, high = part.pair.support(tail)
            width = max(width, high - low)
            atoms = part.pair.atoms()
            lattice &= atoms is not None
            if lattice:
                values.update(float(a) for a in np.abs(atoms) if a > 0.0)
        h = max(h, width / _MAX_POINTS)
        if lattice and len(values) == 1:
            unit = values.pop()
            return unit / math.ceil(unit / h)
        return h

    # -- queries ---------------------------------------------------------

    def rough_epsilon(self, delta: float, rtol: float) -> float:
        """An upper bound of epsilon by Renyi divergences; prepares `epsilon`."""
        if self.p_infinite >= delta:
            return math.inf
        log_delta = math.log(delta - self.p_infinite)
        self._tail = math.exp(max(log_delta, -680.0)) * 1e-3 * rtol / self.total
        self.steer(self._tail)
        if self.spread == 0.0:
            return 0.0
        th = self.thetas
        # Tight conversion (Canonne, Kamath & Steinke 2020, proposition 12), at
        # the delta that the truncated tails leave.
        log_left = log_delta + math.log1p(-1e-2 * rtol)
        conv = (self.cumulants - log_left - np.log1p(th)) / th + np.log(th / (1.0 + th))
        self._order = int(np.argmin(conv))
        return min(max(float(conv[self._order]), 0.0), self.max_loss)

    def epsilon(self, delta: float, rtol: float, rough: float) -> float:
        """Upper bound of the smallest epsilon >= 0 at `delta`; `rough` from `rough_epsilon`."""
        if rough in (0.0, math.inf):
            return rough
        order = max(float(self.thetas[self._order]), 1.0 / self.spread)
        eta = math.log(delta - self.p_infinite) + math.log(1e-2 * rtol)
        least = 1e-3 * self.spread
        scale = max(0.8 * rough, least)
        # The first grid is coarser than the formula says; the second confirms.
        h = 2.0 * math.sqrt(8.0 * rtol * scale / (self.total * (order + 1.0)))
        low, focus = 0.5 * rough, 0.9 * rough
        answer, before, tries = rough, None, 0
        for _ in range(20):
            theta, start, high = self._window(low, max(low, focus), eta)
            grid = _Composed(self, theta, h, start, high, self._tail, eta)
            found = grid.epsilon(delta)
            if found is None:
                # Already the first point of the window satisfies delta.
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
            if before is not None:
                # The error is of order h^2: two grids give its size.
                if grid.h >= 0.999 * before[0]:
                    break
                error = abs(before[1] - found) / ((before[0] / grid.h) ** 2 - 1.0)
                allowed = rtol * max(found, least)
                if error <= allowed or grid.points >= _MAX_POINTS:
                    break
                h = grid.h * max(0.1, min(0.6, math.sqrt(0.6 * allowed / error)))
            else:
                h = 0.5 * grid.h
            before = (grid.h, found)
            low, focus = 0.7 * found, found
        return answer

    def epsilon_lower(self, delta: float, rtol: float) -> float:
        """A lower bound of the exact epsilon at `delta`.

        Write X for the discretised and L for the exact loss of a step.  Inside
        an interval, D = X - L is in [-h, h], and E[exp(-D)] = 1 gives
        0 <= E[D] <= h^2 e^h / 6 and Var D <= h^2 e^h / 4 for h <= 1/2.  By
        Bernstein's inequality the sum of T such D exceeds its mean by
        t = sqrt(2 V ln(1/eta)) + (2/3) h e^h ln(1/eta) with probability <= eta.
        The integrand of delta(eps) does not decrease in the loss, hence

            delta(eps) >= delta_X(eps + T E[D] + t) - eta - (cut tails).
        """
        rough = self.rough_epsilon(delta, rtol)
        if rough in (0.0, math.inf):
            return rough
        log_eta = math.log(delta) + math.log(1e-2 * rtol)
        tail = self._tail
        low, focus = 0.5 * rough, 0.85 * rough
        best = 0.0
        for _ in range(8):
            h = rtol * max(focus, 1e-3 * self.spread) / math.sqrt(-0.5 * self.total * log_eta)
            h = min(h, -0.2 * rtol * focus / log_eta, 0.25)
            h = max(h, (rough + self.spread) / _MAX_POINTS)
            theta, start, high = self._window(low, max(low, focus), log_eta)
            grid = _Composed(self, theta, h, start, high, tail, log_eta)
            limited = grid.h > 1.001 * h
            h, grow = grid.h, math.exp(grid.h)
            if h > 0.5:
                break
            shift = self.total * h * h * grow / 6.0 + (2.0 / 3.0) * h * grow * -log_eta
            shift += math.sqrt(0.5 * self.total * h * h * grow * -log_eta) + grid.drift
            # A cut tail may move a loss by more than h.
            wrong = math.exp(log_eta) + 2.0 * self.total * tail
            found = grid.epsilon_below(delta + wrong, self.p_infinite, low)
            if found is None:
                if low <= 0.0:
                    break
                low = 0.3 * low if low > 0.02 * rough else -4.0 * h
                continue
            best = max(best, found - shift)
            if limited or shift <= 1.5 * rtol * max(found, 1e-3 * self.spread):
                break
            low, focus = 0.7 * found, found
        return max(0.0, best)

    def rough_delta(self, epsilon: float) -> float:
        """An upper bound of ln delta by Renyi divergences; prepares `delta`."""
        self._log_bound = -math.inf
        log_infinite = math.log(self.p_infinite) if self.p_infinite > 0.0 else -math.inf
        if self.p_infinite >= 1.0 or epsilon >= self.max_loss:
            return log_infinite
        tail = 1e-60 / self.total
        for _ in range(2):
            self.steer(tail)
            if self.spread == 0.0:
                return log_infinite
            th = self.thetas
            exponent = self.cumulants - th * epsilon + th * np.log(th) - (1.0 + th) * np.log1p(th)
            self._order = int(np.argmin(exponent))
            self._log_bound = min(0.0, float(exponent[self._order]))
            if self._log_bound > -100.0:
                break
            tail = 1e-280 / self.total
        bound = math.exp(self._log_bound) + self.p_infinite + self.total * tail
        return min(0.0, math.log(bound))

    def delta(self, epsilon: float, rtol: float) -> float:
        """Upper bound of delta at `epsilon` >= 0, after `rough_delta`."""
        bound = math.exp(self.rough_delta(epsilon)) if self.p_infinite < 1.0 else 1.0
        if self._log_bound < -600.0:
            # Below 1e-260 the Renyi bound is as good as any number.
            return bound
        order = max(float(self.thetas[self._order]), 1.0 / self.spread)
        h = 2.0 * math.sqrt(8.0 * rtol / (self.total * order * (order + 1.0)))
        eta = self._log_bound - 2.0 + math.log(1e-2 * rtol)
        answer, before = bound, None
        for _ in range(20):
            tail = math.exp(max(eta, -680.0)) * 0.1 / self.total
            tilt, start, high = self._window(epsilon, epsilon, eta)
            grid = _Composed(self, tilt, h, start - 4.0 * h, high + 4.0 * h, tail, eta)
            found, extra = grid.delta(epsilon)
            answer = min(answer, found)
            finite = found - extra
            if found <= 1e-290:
                break
            goal = math.log(max(finite, 1e-6 * found)) + math.log(1e-2 * rtol)
            if eta > goal + 2.0 and eta > -650.0:
                # delta turned out smaller than thought: allow less wrap-around.
                eta, before = goal, None
                continue
            if before is not None:
                if grid.h >= 0.999 * before[0]:
                    break
                error = abs(before[1] - finite) / ((before[0] / grid.h) ** 2 - 1.0)
                allowed = rtol * max(finite, extra)
                if error <= allowed or grid.points >= _MAX_POINTS:
                    break
                h = grid.h * max(0.1, min(0.6, math.sqrt(0.6 * allowed / error)))
            else:
                h = 0.5 * grid.h
            before = (grid.h, finite)
        return min(1.0, answer)


def _repeat_union(masses: list[tuple[float, int]]) -> float:
    """1 - prod (1 - m)^count."""
    if any(m >= 1.0 and count for m, count in masses):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-m) for m, count in masses))


class _Composed:
    """The tilted composition on one window of the grid."""

    def __init__(self, direction, theta, h, low, high, tail, eta) -> None:
        from scipy import fft

        h = direction._spacing(max(h, (high - low) / _MAX_POINTS), tail)
        # The window was chosen for the exact loss.  The discretised one differs
        # by D in [-h, h] a step with mean >= 0: by Hoeffding's inequality
        # hardly more than this in total.
        margin = h * min(direction.total + 2.0, 2.0 + math.sqrt(-2.0 * direction.total * eta))
        low, high = low - margin, high + margin
        first = math.floor(low / h)
        n = fft.next_fast_len(math.ceil(high / h) - first + 2, real=True)
        self.h, self.theta, self.points, self.first = h, theta, n, first
        self._direction = direction
        # The Chernoff order for the mass that leaves the window at its top.
        top = h * (first + n - 1)
        leave = float(direction.thetas[int(np.argmin(direction.cumulants - direction.thetas * top))])
        cumulant = leave_cumulant = 0.0
        self.drift = growth = 0.0
        infinite = []
        self._parts = []
        spectrum = None
        for part in direction.parts:
            bottom, upper = part.pair.support(tail)
            start = math.floor(bottom / h)
            grid = h * np.arange(start, max(math.ceil(upper / h), start + 1) + 1)
            mass, beyond = _split(part.pair, grid)
            infinite.append((beyond, part.count))
            # Each tail probability behind an interval mass errs by an ulp or two.
            # By summation by parts that moves the step's loss by a few ulp of
            # 1 + its range.
            self.drift += part.count * 8.0 * _UNIT * (1.0 + float(grid[-1] - grid[0]))
            with np.errstate(divide="ignore"):
                log_mass = np.log(mass)
            leave_cumulant += part.count * float(_log_sum_exp(leave * grid + log_mass, 0))
            tilted = theta * grid + log_mass
            shift = float(np.max(tilted))
            # An exponent x is good to |x| ulp; exponents far below the largest
            # belong to masses that do not count.
            reach = abs(theta) * max(abs(float(grid[0])), abs(float(grid[-1])))
            growth += part.count * 4.0 * _UNIT * (4.0 + min(reach, 745.0 + abs(shift)))
            self._parts.append((grid, log_mass, part.count))
            np.exp(tilted - shift, out=tilted)
            sum_ = float(np.sum(tilted))
            tilted /= sum_
            cumulant += part.count * (shift + math.log(sum_))
            begin = start % n
            folded = np.zeros(-(-(begin + len(tilted)) // n) * n)
            folded[begin : begin + len(tilted)] = tilted
            if len(folded) > n:
                folded = folded.reshape(-1, n).sum(0)
            part_spectrum = _power(fft.rfft(folded), part.count)
            spectrum = part_spectrum if spectrum is None else spectrum * part_spectrum
        composed = fft.irfft(spectrum, n)
        composed = np.maximum(np.roll(composed, -(first % n)), 0.0)
        self.cumulant = cumulant
        self.p_infinite = _repeat_union(infinite)
        self.log_wrapped = leave_cumulant - leave * top
        # Rounding.  One forward transform of masses that sum to 1 errs by at
        # most 8 u log2(n) in each coefficient (a complex product, a sum and a
        # twiddle factor in each of log2(n) stages); a power of order T
        # multiplies that by T, a product adds, and the inverse errs by the
        # same relative amount.  Written in the 2-norm, carried back by Parseval.
        unit = 8.0 * _UNIT * math.log2(max(n, 2))
        norm = math.sqrt(2.0 * float(np.sum(spectrum.real**2 + spectrum.imag**2))) + 1.0
        noise = unit * (direction.total + 1) * norm / math.sqrt(n)
        # 2-norm of the weights exp(-theta u)(1 - exp(-u)) on u = 0, h, 2h, ...,
        # by 1 - exp(-u) <= min(1, u).
        r = math.exp(-2.0 * theta * h)
        flat = 1.0 / -math.expm1(-2.0 * theta * h)
        weight = min(flat, h * h * r * (1.0 + r) * flat**3)
        self.log_noise = math.log(noise) + 0.5 * math.log(max(weight, 1e-300))
        self.log_growth = growth + 4.0 * _UNIT * (abs(cumulant) + abs(theta) * max(abs(low), abs(high)))
        self.cumulant += self.log_growth
        self.composed = composed

    def _tails(self) -> tuple[np.ndarray, np.ndarray]:
        """A_k = sum_{j >= k} p_j r^(j-k), r = exp(-theta h), and
        D_k = sum_{j >= k} p_j r^(j-k) (1 - exp(-(j-k) h)).

        D is summed as it stands, not as a difference, because on small loss
        scales 1 - exp(-(j-k) h) is tiny.
        """
        a = _discounted_tail(self.composed, self.theta * self.h)
        source = np.zeros_like(a)
        source[:-1] = a[1:] * (-math.expm1(-self.h) * math.exp(-self.theta * self.h))
        return a, _discounted_tail(source, (self.theta + 1.0) * self.h)

    def _extra(self, x):
        """What is added to delta at points x: rounding, lost mass, infinite losses."""
        noise = np.exp(np.minimum(self.cumulant - self.theta * x + self.log_noise, 700.0))
        return noise + math.exp(min(self.log_wrapped, 0.0)) + self.p_infinite

    def epsilon(self, delta: float) -> float | None:
        """epsilon at `delta`; None if already below the window, inf if above it."""
        a, d = self._tails()
        x = self.h * (self.first + np.arange(self.points))
        log_scale = self.cumulant - self.theta * x
        extra = self._extra(x)
        violated = np.exp(np.minimum(log_scale, 700.0)) * d + extra > delta
        # The last violated point bounds the answer from below.
        k = self.points - int(np.argmax(violated[::-1])) if violated.any() else 0
        if k == 0:
            return None
        if k == self.points:
            return math.inf
        # For x[k-1] <= eps <= x[k], delta = scale_k (D_k + (1 - exp(eps - x_k)) B_k).
        answer = float(x[k])
        room = delta - float(extra[k - 1])
        b = float(a[k] - d[k])
        if room > 0.0 and b > 0.0:
            part = (room * math.exp(-float(log_scale[k])) - float(d[k])) / b
            if part < 1.0:
                answer = min(answer, max(float(x[k - 1]), answer + math.log1p(-part)))
            else:
                answer = float(x[k - 1])
        return answer + self.drift

    def _log_overread(self, x: np.ndarray, low: float) -> np.ndarray:
        """ln of what wrapped mass can add to delta at points x, chosen for x near `low`.

        With W the width of the window, mass read at x or above comes from x + W
        or above and counts exp(theta W) times: at most
        exp(K(lam) - lam x - (lam - theta) W) for any lam > theta.  Mass from below
        the window counts exp(-theta W) times and is at most exp(K(-s) + s start).
        """
        steer, theta, width = self._direction, self.theta, self.h * self.points
        start = self.h * self.first
        guess = np.where(
            steer.thetas > theta, steer.cumulants - steer.thetas * low - (steer.thetas - theta) * width, np.inf
        )
        lam = float(steer.thetas[int(np.argmin(guess))])
        above = np.full(len(x), np.inf)
        if lam > theta:
            above = self._cumulant_at(lam) - lam * x - (lam - theta) * width
        s = float(steer.low_orders[int(np.argmin(steer.low_cumulants + steer.low_orders * start))])
        below = min(0.0, self._cumulant_at(-s) + s * start) - theta * width
        return np.logaddexp(above, below)

    def _cumulant_at(self, order: float) -> float:
        return sum(
            count * float(_log_sum_exp(order * grid + log_mass, 0)) for grid, log_mass, count in self._parts
        )

    def epsilon_below(self, delta: float, p_infinite: float, low: float) -> float | None:
        """A point of the window where the discretised delta surely exceeds `delta`.

        `p_infinite` is the exact pair's mass at an infinite loss; the answer is
        expected above `low`.
        """
        _, d = self._tails()
        x = self.h * (self.first + np.arange(self.points))
        # The cumulant was rounded up; here everything is rounded down.
        log_scale = self.cumulant - 2.0 * self.log_growth - self.theta * x
        noise = np.exp(np.minimum(log_scale + 2.0 * self.log_growth + self.log_noise, 700.0))
        profile = np.exp(np.minimum(log_scale, 700.0)) * d + p_infinite
        wrapped = np.exp(np.minimum(self._log_overread(x, low), 700.0))
        above = np.flatnonzero(profile - noise - wrapped > delta)
        # Each of these points is a proof by itself: take the largest.
        return float(x[above[-1]]) if len(above) else None

    def delta(self, epsilon: float) -> tuple[float, float]:
        """delta at `epsilon` in the window, and the part of it that `_extra` adds."""
        a, d = self._tails()
        target = epsilon - self.drift
        k = min(max(math.ceil(target / self.h) - self.first, 0), self.points - 1)
        x = self.h * (self.first + k)
        value = float(d[k]) - math.expm1(min(target - x, 0.0)) * float(a[k] - d[k])
        extra = float(self._extra(np.array([target]))[0])
        return max(value, 0.0) * math.exp(min(self.cumulant - self.theta * x, 700.0)) + extra, extra


def _discounted_tail(p: np.ndarray, rate: float) -> np.ndarray:
    """s_k = p_k + exp(-rate) s_{k+1}, in blocks that cannot overflow."""
    n = len(p)
    block = n if rate * n < 500.0 else max(1, int(500.0 / rate))
    if block >= n:
        weight = np.exp(-rate * np.arange(n))
        return np.cumsum((p * weight)[::-1])[::-1] / weight
    out = np.empty(n)
    carry = 0.0
    weight = np.exp(-rate * np.arange(block + 1))
    for stop in range(n, 0, -block):
        start = max(0, stop - block)
        w = weight[: stop - start]
        part = np.cumsum((p[start:stop] * w)[::-1])[::-1] / w
        out[start:stop] = part + carry * weight[stop - start : 0 : -1]
        carry = float(out[start])
    return out


def _power(spectrum: np.ndarray, count: int) -> np.ndarray:
    """spectrum ** count by squaring; coefficients that vanish are dropped early.

    Below exp(-80 / count) the power is under 2e-35 of the total mass, far
    below the rounding that is charged anyway.
    """
    if count == 1:
        return spectrum
    out = np.zeros_like(spectrum)
    active = np.abs(spectrum) > math.exp(-80.0 / count)
    base = spectrum[active]
    result = None
    while True:
        if count & 1:
            result = base.copy() if result is None else result * base
        count >>= 1
        if not count:
            break
        base = base * base
    out[active] = result
    return out


class PrivacyLoss:
    """Privacy-loss distribution of an event, with bounds as answers.

    Parameters
    ----------
    event : PrivacyEvent
        Any event but `NonPrivateEvent`.
    rtol : float
        Relative accuracy of the answers (of epsilon in `epsilon`, of delta in
        `delta`).  The answers are upper bounds for every value.
    attack : int or None
        None: the dominating pairs.  A number: samples without replacement are
        replaced by that explicit attack (0: one record against none, 1: an
        equilateral triangle of records), whose `epsilon_lower` bounds from
        below what any accountant can prove.

    Notes
    -----
    One step is answered by its closed-form profile.  In a composition,
    whole-data Gaussian mechanisms are merged into one.  The
    composition of distinct mechanisms is one product in Fourier space, and a
    mechanism repeated T times costs log2(T) products.
    """

    def __init__(self, event: PrivacyEvent, rtol: float = 1e-4, attack: int | None = None) -> None:
        if not 1e-9 <= rtol <= 0.5:
            raise ValueError(f"rtol must be in [1e-9, 0.5], got {rtol!r}")
        self.rtol = float(rtol)
        # One order for equal compositions, so that answers agree to the last bit.
        leaves = dict(sorted(_leaves(event).items(), key=lambda item: item[0].to_json()))
        mu2 = math.fsum(
            count / leaf.noise_multiplier**2
            for leaf, count in leaves.items()
            if isinstance(leaf, GaussianEvent)
        )
        add: list[_Part] = []
        remove: list[_Part] = []
        symmetric = True
        if mu2 > 0.0:
            part = _Part(GaussianPair(math.sqrt(mu2)), 1)
            add.append(part)
            remove.append(part)
        for leaf, count in leaves.items():
            if isinstance(leaf, GaussianEvent) or _is_void(leaf):
                continue
            one, two = pairs(leaf)
            if attack is not None and isinstance(one, WithoutReplacementPair):
                known = attack_pairs(leaf)
                one, two = known[min(attack, len(known) - 1)]
            symmetric &= one is two
            add.append(_Part(one, count))
            remove.append(_Part(two, count))
        self._directions = [_Direction(add)] if add else []
        self._single = (
            bool(add)
            and self._directions[0].total == 1
            and not isinstance(add[0].pair, TrianglePair)
        )
        if add and not symmetric:
            self._directions.append(_Direction(remove))

    def epsilon(self, delta: float) -> float:
        """Upper bound of the smallest epsilon >= 0 such that (epsilon, delta) holds."""
        if delta < 1e-290:
            # Tails this small underflow; the sum of the largest losses holds at any delta.
            return max((d.max_loss if d.p_infinite == 0.0 else math.inf for d in self._directions), default=0.0)
        if self._single:
            return max(_single_epsilon(d, delta, self.rtol) for d in self._directions)
        rough = [d.rough_epsilon(delta, self.rtol) for d in self._directions]
        best = 0.0
        # A direction whose Renyi bound is below the other's answer cannot matter.
        for bound, direction in sorted(zip(rough, self._directions), key=lambda t: -t[0]):
            if bound > best:
                best = max(best, float(direction.epsilon(delta, self.rtol, bound)))
        return best

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta(epsilon), epsilon >= 0."""
        if self._single:
            return min(1.0, max(d.parts[0].pair.profile(epsilon) for d in self._directions))
        rough = [d.rough_delta(epsilon) for d in self._directions]
        best = 0.0
        for bound, direction in sorted(zip(rough, self._directions), key=lambda t: -t[0]):
            if math.exp(bound) > best:
                best = max(best, float(direction.delta(epsilon, self.rtol)))
        return best

    def epsilon_lower(self, delta: float) -> float:
        """Lower bound of the epsilon that the pairs really have at `delta`.

        See `_Direction.epsilon_lower`; tight to about `rtol`.
        """
        if self._single:
            # The closed form is good to 1e-11, the bisection to 1e-9.
            return (1.0 - 2e-9) * self.epsilon(delta)
        # A cheap upper bound tells which direction can matter.
        upper = [d.epsilon(delta, 1e-2, d.rough_epsilon(delta, 1e-2)) for d in self._directions]
        best = 0.0
        for bound, direction in sorted(zip(upper, self._directions), key=lambda t: -t[0]):
            if bound > best:
                best = max(best, float(direction.epsilon_lower(delta, self.rtol)))
        return best

    def profile(self, epsilons: Iterable[float]) -> np.ndarray:
        """Upper bounds of delta at each epsilon >= 0; shape as `epsilons`, float64."""
        epsilons = np.asarray(epsilons, float)
        out = [self.delta(float(e)) for e in epsilons.ravel()]
        return np.array(out).reshape(epsilons.shape)


def _single_epsilon(direction: _Direction, delta: float, rtol: float) -> float:
    """The root of one step's closed-form profile, rounded up."""
    pair = direction.parts[0].pair
    if pair.p_infinite >= delta:
        return math.inf
    if pair.profile(0.0) <= delta:
        return 0.0
    rough = direction.rough_epsilon(delta, rtol)
    low, high = 0.0, rough
    while pair.profile(high) > delta:
        low, high = high, 1.0001 * high
    # Bisection on exp(eps) - 1 would be exact for bounded losses; on eps it
    # is exact enough, and the upper end is always an answer.
    for _ in range(200):
        if high - low <= min(rtol, 1e-9) * high:
            break
        mid = 0.5 * (low + high)
        if pair.profile(mid) <= delta:
            high = mid
        else:
            low = mid
    return high


def _is_void(event: PrivacyEvent) -> bool:
    """Whether the event touches no record at all."""
    return getattr(event, "sampling_probability", 1.0) == 0.0
