"""The convolution of discretized pairs on one window of the loss grid.

It runs on the exponentially tilted distribution p(x) exp(theta x - K(theta)). At the saddle point of the sought
(epsilon, delta), rounding and wrap-around are relative to delta. A delta of 1e-30 is as accurate as one of 1e-2, and
the window is as short as the tilted distribution, not as the support.

What is read from it is an upper bound, for four reasons.

1. *Discretization.* Split the part of a pair (P, Q) whose loss lies between two grid points x < y. Two atoms at x and y
   have both its P-mass and its Q-mass (Doroshenko et al. 2022, "connect the dots"). The original is a post-processing
   (a merge) of the split, so the split pair dominates it. The error is of second order in the spacing.
2. *Tails.*  Mass below the grid moves up to its first point. Mass above it keeps its Q-mass at the last
   point, and the remainder becomes an infinite loss.
3. *Wrap-around* of the circular convolution: mass that wraps from below only adds; the mass above the
   window is bounded by Chernoff and added to delta.
4. *Rounding*: the FFT's is bounded in the 2-norm and added to delta. The tilted masses' is a factor on delta, and the
   interval masses' a shift of epsilon.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..checks import FloatArray
from .pairs import Pair

ComplexArray = NDArray[np.complex128]

UNIT = 2.0**-53
MAX_POINTS = 1 << 22


class Part(NamedTuple):
    """One distinct pair, and how often it is repeated."""

    pair: Pair
    repeats: int


class Cumulants(NamedTuple):
    """Upper bounds of the cumulants K(theta) = ln E_P[e^(theta L)].

    The orders are theta > 0, and low orders theta < 0.
    """

    orders: FloatArray
    values: FloatArray
    low_orders: FloatArray
    low_values: FloatArray


def log_sum_exp(a: FloatArray, axis: int) -> FloatArray:
    """Compute ln of the sums of e^a along an axis."""
    top = np.max(a, axis=axis, keepdims=True)
    return np.asarray(np.squeeze(top, axis) + np.log(np.sum(np.exp(a - top), axis=axis)))


def union(masses: Iterable[tuple[float, int]]) -> float:
    """Compute a composition's infinite mass, 1 - prod (1 - m)^count."""
    masses = list(masses)
    if any(m >= 1.0 and count for m, count in masses):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-m) for m, count in masses))


def split(pair: Pair, points: FloatArray) -> tuple[FloatArray, float]:
    """Compute masses at increasing `points` that dominate `pair`, and the infinite mass."""
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


def _spacing(parts: Sequence[Part], h: float, tail: float) -> float:
    """Choose a spacing of at most h, aligned with atoms that lie on one lattice."""
    values: set[float] = set()
    width = 0.0
    lattice = True
    for part in parts:
        low, high = part.pair.support(tail)
        width = max(width, high - low)
        atoms = part.pair.atoms()
        if atoms is None:
            lattice = False
        else:
            values.update(float(a) for a in np.abs(atoms) if a > 0.0)
    h = max(h, width / MAX_POINTS)
    if lattice and len(values) == 1:
        unit = values.pop()
        return unit / math.ceil(unit / h)
    return h


class Convolution:
    """The tilted composition of `parts` on one window of the grid.

    The `cumulants` of the parts are given.

    ``theta`` is the tilt, ``h`` the largest spacing of the grid. Answers are wanted above ``low``, and little mass lies
    above ``high``. ``tail`` is the mass of one step that may be moved to an infinite loss. ``eta`` is the ln of the
    error of delta that wrap-around may cause.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        cumulants: Cumulants,
        theta: float,
        h: float,
        low: float,
        high: float,
        tail: float,
        eta: float,
    ) -> None:
        from scipy import fft

        total = sum(part.repeats for part in parts)
        h = _spacing(parts, max(h, (high - low) / MAX_POINTS), tail)
        # The window was chosen for the exact loss. The discretized one differs by D in [-h, h] a step with
        # mean >= 0: by Hoeffding's inequality hardly more than this in total.
        margin = h * min(total + 2.0, 2.0 + math.sqrt(-2.0 * total * eta))
        low, high = low - margin, high + margin
        first = math.floor(low / h)
        n: int = fft.next_fast_len(math.ceil(high / h) - first + 2, real=True)
        self.h, self.theta, self.points, self.first = h, theta, n, first
        self.cumulants = cumulants
        # The Chernoff order for the mass that leaves the window at its top.
        top = h * (first + n - 1)
        leave = float(cumulants.orders[int(np.argmin(cumulants.values - cumulants.orders * top))])
        cumulant = leave_cumulant = 0.0
        self.drift = growth = 0.0
        infinite = []
        self.masses: list[tuple[FloatArray, FloatArray, int]] = []
        spectrum: ComplexArray | None = None
        for pair, count in parts:
            bottom, upper = pair.support(tail)
            start = math.floor(bottom / h)
            grid: FloatArray = h * np.arange(start, max(math.ceil(upper / h), start + 1) + 1, dtype=np.float64)
            mass, beyond = split(pair, grid)
            infinite.append((beyond, count))
            # Each tail probability behind an interval mass errs by an ulp or two. By summation by parts that moves
            # the step's loss by a few ulp of 1 + its range.
            self.drift += count * 8.0 * UNIT * (1.0 + float(grid[-1] - grid[0]))
            with np.errstate(divide="ignore"):
                log_mass = np.log(mass)
            leave_cumulant += count * float(log_sum_exp(leave * grid + log_mass, 0))
            tilted = theta * grid + log_mass
            shift = float(np.max(tilted))
            # An exponent x is good to |x| ulp; exponents far below the largest belong to masses that do not count.
            reach = abs(theta) * max(abs(float(grid[0])), abs(float(grid[-1])))
            growth += count * 4.0 * UNIT * (4.0 + min(reach, 745.0 + abs(shift)))
            self.masses.append((grid, log_mass, count))
            np.exp(tilted - shift, out=tilted)
            sum_ = float(np.sum(tilted))
            tilted /= sum_
            cumulant += count * (shift + math.log(sum_))
            begin = start % n
            folded = np.zeros(-(-(begin + len(tilted)) // n) * n)
            folded[begin : begin + len(tilted)] = tilted
            if len(folded) > n:
                folded = folded.reshape(-1, n).sum(0)
            part_spectrum = power(fft.rfft(folded), count)
            spectrum = part_spectrum if spectrum is None else spectrum * part_spectrum
        assert spectrum is not None
        composed = fft.irfft(spectrum, n)
        self.composed: FloatArray = np.maximum(np.roll(composed, -(first % n)), 0.0)
        self.p_infinite = union(infinite)
        self.log_wrapped = leave_cumulant - leave * top
        # Rounding. One forward transform of masses that sum to 1 errs by at most 8 u log2(n) in each coefficient.
        # (There is a complex product, a sum and a twiddle factor in each of log2(n) stages.) A power of order T
        # multiplies that by T, and a product adds. Then the inverse errs by the same relative amount. The bound is
        # written in the 2-norm and carried back by Parseval's theorem.
        unit = 8.0 * UNIT * math.log2(max(n, 2))
        norm = math.sqrt(2.0 * float(np.sum(spectrum.real**2 + spectrum.imag**2))) + 1.0
        noise = unit * (total + 1) * norm / math.sqrt(n)
        # 2-norm of the weights exp(-theta u)(1 - exp(-u)) on u = 0, h, 2h, ..., by 1 - exp(-u) <= min(1, u).
        r = math.exp(-2.0 * theta * h)
        flat = 1.0 / -math.expm1(-2.0 * theta * h)
        weight = min(flat, h * h * r * (1.0 + r) * flat**3)
        self.log_noise = math.log(noise) + 0.5 * math.log(max(weight, 1e-300))
        self.log_growth = growth + 4.0 * UNIT * (abs(cumulant) + abs(theta) * max(abs(low), abs(high)))
        self.cumulant = cumulant + self.log_growth

    def _tails(self) -> tuple[FloatArray, FloatArray]:
        """A_k = sum_{j >= k} p_j r^(j-k), r = exp(-theta h), and
        D_k = sum_{j >= k} p_j r^(j-k) (1 - exp(-(j-k) h)).

        D is summed as it stands, not as a difference, because on small loss scales 1 - exp(-(j-k) h) is tiny.
        """
        a = discounted_tail(self.composed, self.theta * self.h)
        source = np.zeros_like(a)
        source[:-1] = a[1:] * (-math.expm1(-self.h) * math.exp(-self.theta * self.h))
        return a, discounted_tail(source, (self.theta + 1.0) * self.h)

    def _grid(self) -> FloatArray:
        return np.asarray(self.h * (self.first + np.arange(self.points)))

    def _extra(self, x: FloatArray) -> FloatArray:
        """Bound the rest of delta at x: rounding, lost mass, infinite losses."""
        noise = np.exp(np.minimum(self.cumulant - self.theta * x + self.log_noise, 700.0))
        return np.asarray(noise + math.exp(min(self.log_wrapped, 0.0)) + self.p_infinite)

    def epsilon(self, delta: float) -> float | None:
        """Find epsilon at `delta`; None below the window, inf above it."""
        a, d = self._tails()
        x = self._grid()
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
        rest = delta - float(extra[k - 1])
        b = float(a[k] - d[k])
        if rest > 0.0 and b > 0.0:
            part = (rest * math.exp(-float(log_scale[k])) - float(d[k])) / b
            if part < 1.0:
                answer = min(answer, max(float(x[k - 1]), answer + math.log1p(-part)))
            else:
                answer = float(x[k - 1])
        return answer + self.drift

    def delta(self, epsilon: float) -> tuple[float, float]:
        """Compute delta at `epsilon` in the window, and the part by `_extra`."""
        a, d = self._tails()
        target = epsilon - self.drift
        k = min(max(math.ceil(target / self.h) - self.first, 0), self.points - 1)
        x = self.h * (self.first + k)
        value = float(d[k]) - math.expm1(min(target - x, 0.0)) * float(a[k] - d[k])
        extra = float(self._extra(np.array([target]))[0])
        return max(value, 0.0) * math.exp(min(self.cumulant - self.theta * x, 700.0)) + extra, extra


def discounted_tail(p: FloatArray, rate: float) -> FloatArray:
    """s_k = p_k + exp(-rate) s_{k+1}, in blocks that cannot overflow."""
    n = len(p)
    block = n if rate * n < 500.0 else max(1, int(500.0 / rate))
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


def power(spectrum: ComplexArray, count: int) -> ComplexArray:
    """Compute spectrum ** count by squaring; drop vanishing coefficients early.

    Below exp(-80 / count) the power is under 2e-35 of the total mass, far below the rounding that is charged anyway.
    """
    if count == 1:
        return spectrum
    out = np.zeros_like(spectrum)
    active = np.abs(spectrum) > math.exp(-80.0 / count)
    base = spectrum[active]
    result = np.ones_like(base) if count % 2 == 0 else base.copy()
    count >>= 1
    while count:
        base = base * base
        if count & 1:
            result = result * base
        count >>= 1
    out[active] = result
    return out
