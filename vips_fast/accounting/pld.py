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
4. *Rounding* of the FFT: bounded in the 2-norm and added to delta.

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

from ._pairs import GaussianPair, Pair, pairs
from .events import ComposedEvent, GaussianEvent, PrivacyEvent, SelfComposedEvent, _leaves

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
        # Five decades around 1 / spread hold every useful order.
        self.thetas = np.geomspace(1e-2, 1e3, 72) / self.spread
        orders = np.concatenate([self.thetas, -self.thetas[::3]])
        cumulants = np.zeros(len(orders))
        for part, (log_p, loss) in zip(self.parts, coarse):
            cumulants += part.count * _log_sum_exp(orders[:, None] * loss + log_p, 1)
        self.cumulants = cumulants[: len(self.thetas)]
        self.low_orders, self.low_cumulants = -orders[len(self.thetas) :], cumulants[len(self.thetas) :]

    def _window(self, epsilon: float, low: float, eta: float, log_goal: float):
        """Tilt and window (theta, low, high) for answers near `epsilon`.

        `eta` is the ln of the error that wrap-around may cause, `log_goal` the
        ln of the delta that is sought.  With W the width of the window:

        - the mass above `high` is lost, at most exp(eta);
        - mass above epsilon + W is read exp(theta W) times too large;
        - mass below `low` is read exp(-theta W) times too large;
        - rounding is about 1e-15 T exp(K(theta) - theta epsilon).
        """
        th, cum = self.thetas, self.cumulants
        high = max(float(np.min((cum - eta) / th)), epsilon)
        bottom = -float(np.min((self.low_cumulants - eta) / self.low_orders))
        with np.errstate(divide="ignore", invalid="ignore"):
            over = (cum[None, :] - th[:, None] * epsilon - eta) / (th[None, :] - th[:, None])
        over = np.where(th[None, :] > th[:, None], over, np.inf).min(1) - epsilon
        width = np.maximum(np.minimum(-eta / th, high - bottom), over)
        noise = cum - th * epsilon + math.log(1e-15 * self.total)
        width = np.where(noise <= eta, width, np.inf)
        best = int(np.argmin(width))
        if not math.isfinite(width[best]):
            # Nothing meets every wish: the saddle point has the least rounding.
            best = int(np.argmin(noise))
            width[best] = max(-eta / th[best], high - low)
        low = min(low, high - float(width[best]))
        return float(th[best]), low, high

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
        log_delta = math.log(delta - self.p_infinite)
        saddle = float(self.thetas[self._order])
        eta = log_delta + math.log(1e-2 * rtol)
        tail = self._tail
        guess, low = 0.85 * rough, 0.5 * rough
        scale = max(guess, 1e-2 * self.spread)
        h = math.sqrt(8.0 * rtol * 0.7 * scale / (self.total * (saddle + 1.0)))
        answer = rough
        for _ in range(8):
            theta, start, high = self._window(guess, low, eta, log_delta)
            grid = _Composed(self, theta, h, start, high, tail)
            found = grid.epsilon(delta)
            if found is None:
                # Already the first point of the window satisfies delta.
                if start <= 0.0:
                    return 0.0
                guess, low = max(start, 0.0), (0.3 * start if start > 0.05 * rough else -4.0 * h)
                continue
            if found == math.inf:
                eta -= 5.0
                continue
            answer = min(found, answer)
            error = self.total * (saddle + 1.0) * grid.h**2 / 8.0
            allowed = rtol * max(answer, 5e-3 * self.spread)
            if error <= 1.5 * allowed or grid.points >= _MAX_POINTS:
                break
            h = grid.h * math.sqrt(allowed / error)
            guess = answer
        return max(0.0, answer)

    def rough_delta(self, epsilon: float) -> float:
        """An upper bound of ln delta by Chernoff's method; prepares `delta`."""
        if self.p_infinite >= 1.0:
            return 0.0
        log_infinite = math.log(self.p_infinite) if self.p_infinite > 0.0 else -math.inf
        tail = 1e-60 / self.total
        for _ in range(2):
            self.steer(tail)
            if self.spread == 0.0 or epsilon >= self.max_loss:
                self._log_bound = -math.inf
                return log_infinite
            exponent = self.cumulants - self.thetas * epsilon
            self._order = int(np.argmin(exponent))
            self._log_bound = min(0.0, float(exponent[self._order]))
            if self._log_bound > -120.0:
                break
            tail = 1e-280 / self.total
        bound = math.exp(self._log_bound) + self.p_infinite + self.total * tail
        return min(0.0, math.log(bound))

    def delta(self, epsilon: float, rtol: float) -> float:
        """Upper bound of delta at `epsilon` >= 0, after `rough_delta`."""
        if self._log_bound < -600.0:
            return min(1.0, math.exp(self.rough_delta(epsilon))) if self.p_infinite < 1.0 else 1.0
        theta = float(self.thetas[self._order])
        # delta is below the Chernoff bound by a factor of order theta * spread.
        goal = self._log_bound - 2.0 * math.log1p(theta * self.spread) - 2.0
        h = math.sqrt(8.0 * rtol / (self.total * theta * (theta + 1.0)))
        eta = goal + math.log(1e-2 * rtol)
        tail = math.exp(eta) * 1e-1 / self.total
        tilt, low, high = self._window(epsilon, epsilon - 4.0 * h, eta, goal)
        return min(1.0, _Composed(self, tilt, h, low, high + 4.0 * h, tail).delta(epsilon))


def _repeat_union(masses: list[tuple[float, int]]) -> float:
    """1 - prod (1 - m)^count."""
    if any(m >= 1.0 and count for m, count in masses):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-m) for m, count in masses))


class _Composed:
    """The tilted composition on one window of the grid."""

    def __init__(self, direction, theta, h, low, high, tail) -> None:
        from scipy import fft

        h = direction._spacing(max(h, (high - low) / _MAX_POINTS), tail)
        first = math.floor(low / h)
        n = fft.next_fast_len(math.ceil(high / h) - first + 2, real=True)
        self.h, self.theta, self.points, self.first = h, theta, n, first
        # The Chernoff order for the mass that leaves the window at its top.
        top = h * (first + n - 1)
        leave = float(direction.thetas[int(np.argmin(direction.cumulants - direction.thetas * top))])
        cumulant = leave_cumulant = span = 0.0
        infinite = []
        spectrum = None
        for part in direction.parts:
            bottom, upper = part.pair.support(tail)
            start = math.floor(bottom / h)
            grid = h * np.arange(start, max(math.ceil(upper / h), start + 1) + 1)
            mass, beyond = _split(part.pair, grid)
            infinite.append((beyond, part.count))
            span += part.count * (grid[-1] - grid[0])
            with np.errstate(divide="ignore"):
                log_mass = np.log(mass)
            leave_cumulant += part.count * float(_log_sum_exp(leave * grid + log_mass, 0))
            tilted = theta * grid + log_mass
            shift = float(np.max(tilted))
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
        # most 4 u log2(n) in each coefficient; a power of order T multiplies
        # that by T, a product adds, and the inverse errs by the same relative
        # amount.  Written in the 2-norm and carried back by Parseval.
        unit = 4.0 * _UNIT * math.log2(max(n, 2))
        norm = math.sqrt(2.0) * float(np.linalg.norm(spectrum)) + 1.0
        noise = unit * (direction.total + 1) * norm / math.sqrt(n)
        self.log_noise = math.log(noise) - 0.5 * math.log(-math.expm1(-2.0 * theta * h))
        # Rounding of interval masses moves the mean loss of a step by at most
        # a few ulp of its range (summation by parts).
        self.drift = 8.0 * _UNIT * span
        self.composed = composed

    def _tails(self) -> tuple[np.ndarray, np.ndarray]:
        """sum_{j >= k} p_j r^(j - k) for r = exp(-theta h) and exp(-(theta + 1) h)."""
        return (
            _discounted_tail(self.composed, self.theta * self.h),
            _discounted_tail(self.composed, (self.theta + 1.0) * self.h),
        )

    def _extra(self, x):
        """ln-scale additions turned into delta: noise at points x, wrapped mass, infinity."""
        noise = np.exp(np.minimum(self.cumulant - self.theta * x + self.log_noise, 700.0))
        return noise + math.exp(min(self.log_wrapped, 0.0)) + self.p_infinite

    def epsilon(self, delta: float) -> float | None:
        """epsilon at `delta`; None if already below the window, inf if above it."""
        a, b = self._tails()
        x = self.h * (self.first + np.arange(self.points))
        log_scale = self.cumulant - self.theta * x
        extra = self._extra(x)
        with np.errstate(over="ignore"):
            profile = np.exp(np.minimum(log_scale, 700.0)) * np.maximum(a - b, 0.0)
        below = profile + extra <= delta
        # The last violated point bounds the answer from below.
        violated = np.flatnonzero(~below)
        k = int(violated[-1]) + 1 if len(violated) else 0
        if k == 0:
            return None
        if k == self.points:
            return math.inf
        # Between x[k-1] and x[k], delta(eps) = scale_k (A_k - exp(eps - x_k) B_k).
        room = delta - float(extra[k - 1])
        ratio = 0.0
        if room > 0.0 and b[k] > 0.0:
            ratio = (float(a[k]) - room * math.exp(-float(log_scale[k]))) / float(b[k])
        answer = float(x[k])
        if ratio > 0.0:
            answer = min(answer, max(float(x[k - 1]), answer + math.log(ratio)))
        return answer + self.drift

    def delta(self, epsilon: float) -> float:
        """delta at `epsilon`, which must lie in the window."""
        a, b = self._tails()
        target = epsilon - self.drift
        k = min(max(math.ceil(target / self.h) - self.first, 0), self.points - 1)
        x = self.h * (self.first + k)
        value = float(a[k]) - math.exp(min(target - x, 0.0)) * float(b[k])
        log_scale = self.cumulant - self.theta * x
        extra = float(self._extra(np.array([target]))[0])
        return max(value, 0.0) * math.exp(min(log_scale, 700.0)) + extra


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
    """Privacy-loss distribution of an event, with upper bounds as answers.

    Parameters
    ----------
    event : PrivacyEvent
        Any event but `NonPrivateEvent`.
    rtol : float
        Relative accuracy of the answers (of epsilon in `epsilon`, of delta in
        `delta`).  The answers are upper bounds for every value.

    Notes
    -----
    Whole-data Gaussian mechanisms of a composition are merged into one.  The
    composition of distinct mechanisms is one product in Fourier space, and a
    mechanism repeated T times costs log2(T) products.
    """

    def __init__(self, event: PrivacyEvent, rtol: float = 1e-4) -> None:
        if not 1e-9 <= rtol <= 0.5:
            raise ValueError(f"rtol must be in [1e-9, 0.5], got {rtol!r}")
        self.rtol = float(rtol)
        leaves = _leaves(event)
        mu2 = math.fsum(c / e.noise_multiplier**2 for e, c in leaves.items() if isinstance(e, GaussianEvent))
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
            symmetric &= one is two
            add.append(_Part(one, count))
            remove.append(_Part(two, count))
        self._directions = [_Direction(add)] if add else []
        if add and not symmetric:
            self._directions.append(_Direction(remove))

    def epsilon(self, delta: float) -> float:
        """Upper bound of the smallest epsilon >= 0 such that (epsilon, delta) holds."""
        rough = [d.rough_epsilon(delta, self.rtol) for d in self._directions]
        best = 0.0
        # A direction whose Renyi bound is below the other's answer cannot matter.
        for bound, direction in sorted(zip(rough, self._directions), key=lambda t: -t[0]):
            if bound > best:
                best = max(best, float(direction.epsilon(delta, self.rtol, bound)))
        return best

    def delta(self, epsilon: float) -> float:
        """Upper bound of delta(epsilon), epsilon >= 0."""
        rough = [d.rough_delta(epsilon) for d in self._directions]
        best = 0.0
        for bound, direction in sorted(zip(rough, self._directions), key=lambda t: -t[0]):
            if math.exp(bound) > best:
                best = max(best, float(direction.delta(epsilon, self.rtol)))
        return best

    def profile(self, epsilons: Iterable[float]) -> np.ndarray:
        """Upper bounds of delta at each epsilon >= 0; shape as `epsilons`, float64."""
        epsilons = np.asarray(epsilons, float)
        out = [self.delta(float(e)) for e in epsilons.ravel()]
        return np.array(out).reshape(epsilons.shape)


def _is_void(event: PrivacyEvent) -> bool:
    """Whether the event touches no record at all."""
    return getattr(event, "sampling_probability", 1.0) == 0.0
