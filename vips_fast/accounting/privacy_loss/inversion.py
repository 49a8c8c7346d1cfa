"""Many steps on tiny Poisson samples: delta(eps) by the characteristic function.

With q <= 1e-5 a step's loss is tiny, but for rare large ones, and no grid of losses holds both. Here no grid is needed.
Let S be dP/dQ of all steps, the product of independent S_i = 1 - q + q exp(mu g - mu^2 / 2), g ~ N(0, 1) under Q (Zhu,
Dong & Wang 2022, theorem 11). Let R = exp(tau g - tau^2 / 2) be independent of it.

*Bounds.* delta(eps) is E(S - e^eps)_+ or, in the other direction, E(1 - e^eps S)_+. Both are expectations of convex
functions, so S R has larger ones, E R being 1. Each S_i is replaced by a law of about a thousand atoms, which is larger
in convex order, as in `allocation`. Its errors a and b are charged here too. (Where eps >= sum -ln(1 - q) there is no
loss as large in the direction of removal.)

*Inversion.* Let M(s) = E S^(1 + s), a product of powers of sums over the atoms. Let G(x) = E(S R - e^x)_+ - E(R -
e^x)_+. It is also E(e^x - S R)_+ - E(e^x - R)_+, that is e^x times the other direction's at -x,

    integral e^(s x) G(x) dx = e^(tau^2 s (s + 1) / 2) (M(s) - 1) / (s (s + 1)) =: F(s),

By Poisson's summation the trapezoid rule of spacing h on Re s = c is exact but for wrapped copies. With W = 2 pi / h,

    (h / 2 pi) sum_k F(c + i h k) e^(-(c + i h k) x) = sum_k e^(c k W) G(x + k W).

G >= 0 by Jensen's inequality, so the sum is an upper bound of G(x) as it stands. As |M(c + i w)| <= M(c), it and the
factor of R bound the terms beyond the last k.

*Rounding.* The sum of M - 1 is of e^((1 + s) l) - 1 as it stands. With J atoms it errs by less than (J + 100) u times
sum m e^((1 + c) l) |w l| + sum m |e^((1 + c) l) - 1|. The power of n errs n times as much, and the sum over k adds that
up. *Proof.* |a^n - b^n| <= n |a - b| e^(n - 1) with |a|, |b| <= e, and so for products of powers. Take e as the larger
of |E S_i^(1 + s)|, which is near 0 at some high frequencies, and 2^-1/2: 1 / e and what is beyond first order are paid
by the factor 2. The masses of the atoms are first lowered by 2 b. The mass then missing from 1 is put at S_i = 1: so Q
has mass 1 exactly. That loses a factor of at most 1 + 4 b a step, which is given back. E S_i is then 1 + e, |e| tiny,
and copies from below are not less than -n |e|.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..checks import FloatArray
from ..events import PoissonSampledEvent, PrivacyEvent, touching_leaves
from ..gaussian import profile as gaussian_profile
from ..solver import close_bracket
from .allocation import Kind, lognormal, merged
from .convolution import UNIT, ComplexArray

#: The largest rate and the fewest steps that this is for, and the most frequencies.
_RATE, _STEPS, _MOST = 1e-5, 1_000, 1 << 19
#: The widest window: e to the power of its losses is a double.
WIDEST = 600.0
#: Where |E S_i^(1 + s)|^2 - 1 is less, its logarithm is not good to an error of its argument.
_SMALL = -0.5


class Sampled(NamedTuple):
    """Steps of a Gaussian mechanism of shift `mu` on Poisson samples of probability `rate`."""

    rate: float
    mu: float
    steps: int


def rare_samples(event: PrivacyEvent) -> list[Sampled] | None:
    """Return the steps of Gaussian mechanisms on tiny Poisson samples, or None."""
    found = []
    for leaf, count in sorted(touching_leaves(event).items(), key=lambda item: item[0].to_json()):
        if not isinstance(leaf, PoissonSampledEvent) or leaf.sampling_probability > _RATE:
            return None
        square = leaf.gaussian_mu_squared()
        if square is None or not 1e-8 < square < 100.0:
            return None
        found.append(Sampled(leaf.sampling_probability, math.sqrt(square), count))
    return found if sum(part.steps for part in found) >= _STEPS else None


class _Atoms(NamedTuple):
    """The law of one step's loss under Q, its missing mass at 0, and the number of steps."""

    loss: FloatArray
    masses: FloatArray
    steps: int


class Sums(NamedTuple):
    """The trapezoid rule's terms at the frequencies 0, h, 2 h, …, and a bound of their errors' sum."""

    c: float
    h: float
    terms: ComplexArray
    error: float


def _turns(angle: FloatArray) -> ComplexArray:
    """e^(i angle) - 1, without cancellation."""
    return np.asarray(-2.0 * np.sin(0.5 * angle) ** 2 + 1j * np.sin(angle))


class Inversion:
    """Upper bounds of the cost of steps on tiny samples.

    They serve deltas near `delta`. Its answers are bounds at any delta; at one much smaller than `delta` they are
    loose.
    """

    #: Whether a step's law is replaced by a larger one in convex order.
    _upper = True

    def __init__(self, parts: Sequence[Sampled], delta: float, rtol: float) -> None:
        self._parts = list[_Atoms]()
        self._rtol = min(max(rtol, 1e-6), 5e-3)
        rate = math.fsum(part.steps * part.rate for part in parts)
        cut = max(1e-280, 1e-5 * delta / rate)
        self._infinite = self._shift = self._growth = self._mean = 0.0
        for q, mu, n in parts:
            start = Kind(min(1e-18, cut), 0.01, 3000.0, self._upper)
            fewer = start._replace(tail=min(1e-6, cut), nats=0.02, middle=500.0 * math.sqrt(1e-4 / self._rtol))
            law = merged(lognormal(mu, start), fewer)
            excess = q * (law.values - 1.0)
            # The masses of Q before they are lowered err by b, and tails that were counted twice.
            b = law.mass_error + abs(float(np.sum(law.masses)) - 1.0) + 16.0 * UNIT
            atoms = _Atoms(np.log1p(excess), law.masses * (1.0 - 2.0 * b), n)
            self._parts.append(atoms)
            self._growth += 4.0 * n * b
            self._shift += n * (law.value_error + 8.0 * UNIT) * float(np.max(q * (law.values + 1.0) / (1.0 + excess)))
            self._infinite += n * q * law.infinite * (1.0 + 1e-9)
            self._mean += n * abs(float(np.sum(atoms.masses * excess))) + n * UNIT * 1e3 * q
        losses = np.concatenate([part.loss for part in self._parts])
        self._spread = math.sqrt(
            math.fsum(a.steps * float(np.sum(a.masses * np.exp(a.loss) * a.loss**2)) for a in self._parts)
        )
        # Two of the largest losses lie inside one copy, and the copies of the normal part far apart.
        self._width = 16.0 * self._spread + 2.5 * float(losses.max() - losses.min())
        #: The largest loss of removing a record.
        self._known_loss = math.fsum(part.steps * part.rate for part in parts) * (1.0 + 2.0 * _RATE)
        #: The smoothing that takes the most frequencies.
        self._least = 9.0 * self._width / (2.0 * math.pi * _MOST)

    def _cumulant(self, s: float) -> float:
        """Compute ln M(s) at a real s."""
        return math.fsum(
            steps * math.log1p(float(np.sum(masses * np.expm1((1.0 + s) * loss))))
            for loss, masses, steps in self._parts
        )

    def _sums(self, c: float, tau: float) -> Sums:
        """Compute F e^(-i w x) without its second factor. The line is Re s = c."""
        h = 2.0 * math.pi / self._width
        count = math.ceil(9.0 / (tau * h)) + 1
        block = math.ceil(math.sqrt(count))
        w = h * np.arange(block * block)
        log_m, log_bound, wrong = np.zeros(block * block, complex), np.zeros(block * block), np.zeros(block * block)
        for loss, masses, n in self._parts:
            weight = masses * np.exp((1.0 + c) * loss)
            known = float(np.sum(masses * np.expm1((1.0 + c) * loss)))
            slow, fast = (_turns(np.outer(np.arange(block) * step, loss)) for step in (h * block, h))
            slow_weighted = slow * weight
            excess = slow_weighted @ fast.T + slow_weighted.sum(1)[:, None] + (fast * weight).sum(1) + known
            real, imag = excess.real.ravel(), excess.imag.ravel()
            square = 2.0 * real + real * real + imag * imag
            log_size = 0.5 * np.log1p(np.maximum(square, _SMALL))
            log_bound += n * log_size
            small = square < _SMALL
            log_size[small] = np.log(np.maximum(np.hypot(1.0 + real[small], imag[small]), 1e-300))
            log_m += n * (log_size + 1j * np.arctan2(imag, 1.0 + real))
            size = float(np.sum(masses * np.abs(np.expm1((1.0 + c) * loss))))
            wrong += n * (len(loss) + 100.0) * UNIT * (w * float(np.sum(weight * np.abs(loss))) + size)
        s = c + 1j * w
        smooth = np.exp(0.5 * tau * tau * s * (s + 1.0))
        over = smooth / (s * (s + 1.0))
        moments = np.exp(log_bound)
        terms = np.asarray(np.expm1(log_m) * over, np.complex128)
        if float(wrong.max()) > 0.1:
            return Sums(c, h, terms, math.inf)
        # The argument of the logarithm is near 1, so that it errs by little more than its argument.
        error = float(np.sum(2.0 * wrong * moments * np.abs(over) + 64.0 * UNIT * np.abs(terms)))
        terms[0] *= 0.5
        beyond = w[-1] + h
        left = (float(moments[0]) + 1.0) * math.exp(0.5 * tau * tau * (c * (c + 1.0) - beyond * beyond)) / (h * beyond)
        return Sums(c, h, terms, error + left * (1.0 + h / beyond))

    def _log_copies(self, x: float, c: float, tau: float) -> float:
        """Bound ln of the wrapped copies of G around x, by Chernoff."""
        width, smooth, best = self._width, 0.5 * tau * tau, [math.inf, math.inf]
        for o, above, below in self._orders:
            if o > c:
                rate = (o - c) * width
                best[0] = min(best[0], above + smooth * o * (o + 1.0) - o * x - rate - math.log(-math.expm1(-rate)))
            # From below: G is there e^x times the other direction's at -x.
            rate = (1.0 + o + c) * width
            best[1] = min(best[1], below + smooth * o * (o + 1.0) + (1.0 + o) * x - rate - math.log(-math.expm1(-rate)))
        return float(np.logaddexp(best[0], best[1]))

    @cached_property
    def _orders(self) -> list[tuple[float, float, float]]:
        """The orders o, with ln M(o) and ln M(-1 - o)."""
        orders = [float(o) / self._width for o in np.geomspace(0.5, 200.0, 40)]
        return [(o, self._cumulant(o), self._cumulant(-1.0 - o)) for o in orders]

    def _rounding(self, x: float, sums: Sums) -> float:
        return sums.h / math.pi * math.exp(-sums.c * x) * sums.error

    def _sum(self, x: float, sums: Sums, copies: float) -> tuple[float, float]:
        """Return G at x and a bound of its error, of which the wrapped ``copies`` are a part."""
        turn = np.exp(-1j * math.remainder(sums.h * x, 2.0 * math.pi) * np.arange(len(sums.terms)))
        scale = sums.h / math.pi * math.exp(-sums.c * x)
        value = scale * float(np.sum((sums.terms * turn).real))
        size = np.abs(sums.terms)
        turned = float(np.sum(size * (sums.h * np.arange(len(size)))))
        error = self._rounding(x, sums) + scale * 8.0 * UNIT * (abs(x) * turned + 8.0 * float(np.sum(size)))
        error += copies
        error += math.expm1(self._mean) + 1e-12 * abs(value)
        return value, error

    def _one_side(self, x: float, sums: Sums) -> float:
        """Return the bound of G at x."""
        # Only copies from below may be negative.
        value, error = self._sum(x, sums, math.expm1(self._mean) / math.expm1(min(sums.c * self._width, 600.0)))
        return value + error

    def _delta(self, epsilon: float, sums: Sums, tau: float) -> float:
        """Return the bound of delta at `epsilon`, the larger of both directions."""
        x = epsilon - self._shift
        rest = gaussian_profile(tau, x)
        add = self._one_side(x, sums) + rest + self._infinite
        remove = 0.0 if epsilon >= self._known_loss else math.exp(x) * self._one_side(-x, sums) + rest
        return min(1.0, math.exp(self._growth) * max(add, remove))

    def _tuned(self, x: float, tau: float) -> Sums:
        """Sum for answers near x, on the line of least copies and rounding."""

        def badness(c: float, above: float) -> float:
            copies, rounding = self._log_copies(x, c, tau), above - c * x - 25.0
            if x < self._known_loss:
                copies, rounding = max(copies, self._log_copies(-x, c, tau) + x), above + c * x + x - 25.0
            return float(np.logaddexp(copies, rounding))

        return self._sums(min((badness(o, above), o) for o, above, _ in self._orders[:-1])[1], tau)

    def epsilon(self, delta: float) -> float | None:
        """Bound epsilon at `delta` to about `rtol`, None if not tight."""
        part = 0.004 * math.sqrt(self._rtol / 1e-4)
        tau, points = self._width / 2_000.0, self._width * np.geomspace(5e-4, 0.48, 14)
        aim = float(points[0])
        if self._width > WIDEST:
            return None
        for _ in range(8):
            sums = self._tuned(aim, tau)

            def excess(t: float, sums: Sums = sums, tau: float = tau) -> float:
                value = self._delta(math.exp(t), sums, tau)
                return math.log(value / delta) if value > 0.0 else -700.0

            logs = [math.log(x) for x in points]
            values = [excess(t) for t in logs]
            first = next((i for i, value in enumerate(values) if value <= 0.0), None)
            if first is None:
                return None
            if first > 0:
                ends = logs[first - 1], logs[first], values[first - 1], values[first]
                found = math.exp(close_bracket(excess, *ends, 1e-7)[1])
                if tau <= 1.5 * part * found and found < 2.0 * aim:
                    worst = -found if found < self._known_loss else found
                    return _ten_digits(found) if self._rounding(worst, sums) <= 3e-3 * delta else None
            else:
                found = float(points[0])
                if self._delta(0.0, sums, tau) <= delta:
                    return 0.0
            if tau == self._least and found < 2.0 * aim:
                return None
            aim, tau = found, max(self._least, part * found)
            points = found * np.array([0.02, 0.3, 0.8, 1.01, 1.1, 1.5])
        return None

    def delta(self, epsilon: float) -> tuple[float, bool]:
        """Bound delta at `epsilon` >= 0; tell whether the bound is tight."""
        scale = max(epsilon, 0.01 * self._spread)
        tau = max(self._least, 0.004 * math.sqrt(self._rtol / 1e-4) * scale)
        # Farther out than half the window, copies of smaller losses would be counted.
        if self._width > WIDEST or epsilon > 0.48 * self._width:
            return 1.0, False
        sums = self._tuned(scale, tau)
        found = self._delta(epsilon, sums, tau)
        worst = -epsilon if epsilon < self._known_loss else epsilon
        tight = self._rounding(worst, sums) <= 1e-4 * found and tau <= 0.02 * scale
        return min(1.0, _ten_digits(found)), tight


def _ten_digits(x: float) -> float:
    """Round x up to ten safe digits: matrix products vary in the last."""
    if not 0.0 < x < math.inf:
        return x
    unit = 10.0 ** (math.floor(math.log10(x)) - 9)
    return math.ceil(x / unit) * unit * (1.0 + 1e-15)


def inverted_delta(parts: Sequence[Sampled], epsilon: float, rtol: float) -> tuple[float, bool]:
    """Return an upper bound of delta, and whether it is tight."""
    least, near = 1.0, 1e-6
    for _ in range(12):
        found, tight = Inversion(parts, near, rtol).delta(epsilon)
        least = min(least, found)
        if found >= 0.1 * near:
            return least, tight
        near = found
    return least, False
