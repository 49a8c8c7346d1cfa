"""Random allocation: each unit goes to one of t minibatches an epoch.

A unit's minibatch is uniform on the t, independent of the others'. Each minibatch is released once, by a Gaussian
mechanism of noise multiplier z under "add or remove one unit". With mu = 1/z and g_1, ..., g_t independent N(0, 1) let

    S = (1/t) sum_i exp(mu g_i - mu^2 / 2).

*Law of an epoch* (Chua et al. 2025; Feldman & Shenfeld 2026). Let P be the law of all outputs with the unit and Q that
without it. Then dP/dQ is at most S in convex order, and is S where the unit moves each sum by the whole sensitivity, so

    delta(eps) = max(E(S - e^eps)_+, E(1 - e^eps S)_+)

for one epoch, and with the product of independent copies of S for epochs with fresh minibatches. *Proof.* Fix the
minibatches of all other units, and coins: the hockey-stick divergence is jointly convex. If the unit is in minibatch i,
output i is shifted by s_i. Its norm is at most mu in units of the noise, and it depends on the outputs before it. No
other output is. So dP/dQ = (1/t) sum_i exp(<s_i, x_i> - |s_i|^2 / 2), x_i the noise, N(0, I) given the past under Q.
Put g_i = (<s_i, x_i> + (mu^2 - |s_i|^2)^(1/2) xi_i) / mu with new xi_i ~ N(0, 1). These are independent N(0, 1), and
E[S | x] = dP/dQ. Both divergences are expectations of convex functions of dP/dQ, so by Jensen's inequality S has the
larger ones. Given all outputs before it, a later epoch has such a factor too; the same argument, factor by factor,
gives the product. (S, as dP/dQ, makes a dominating pair, which composes with pairs of other mechanisms.)

*Minibatches that are drawn once* and used in E epochs, of multipliers z_1, ..., z_E: one epoch with mu^2 = sum_e 1 /
z_e^2. *Proof.* The factor of minibatch i is the product over the epochs of exp(mu_e g_ie - mu_e^2 / 2). It equals
exp(mu g - mu^2 / 2). This is also a bound if some of them were drawn anew with the same t. Let A = mean_i a_i and B =
mean_i b_i be the factors of the two parts. A B is the average over permutations pi of mean_i a_i b_pi(i), each with the
law of mean_i a_i b_i. By Jensen's inequality E phi(A B) <= E phi(mean_i a_i b_i) for convex phi. So events with reused
minibatches and equal t are put together, whether or not they share them.

*Parts of an epoch*, such as those that a run made before it was killed, are functions of the outputs of the whole one.

*Computation.* Repeated doubling makes the law of t S from the law of Y = exp(mu g - mu^2 / 2). Products of epochs are
made likewise. Their grids are fine where the mass is. After each sum or product, the mass of a cell of the grid is

- for upper bounds split between the cell's ends, with the same mean, which raises the law in convex order. (A cell
  below the first point is split between 0 and that point. Of the mass above the last point x, Q keeps all at x, and P
  moves its E(t S - x)_+ / t to an infinite loss. This pair dominates, as that mass can be drawn again from its old
  place.)
- for lower bounds put at its mean, which lowers it (Jensen).

Sums of independent variables and products of independent factors keep convex order.

*Rounding.* `Law` has two errors, a of the values and b of the masses. Let its values be x_i and its masses m_i. It is
an upper bound of a law of X >= 0 in the sense that

    E f(X) <= e^b sum_i m_i f(e^a x_i) for convex f >= 0 that do not fall,
    E f(X) <= e^b sum_i m_i f(e^-a x_i) for convex f >= 0 that do not rise

(an infinite loss adds its mass times the slope of f at infinity), and a lower bound with >= and the signs of a and b
changed. Of these f are the two whose expectations are delta(eps). So b is a relative error of delta, which hardly moves
epsilon. A value's logarithm is a loss, so a is a shift of epsilon. *Proof.* For y >= 0 the functions f(. + y) and f(.
y) are again such f. The bounds of two laws give one of the sum or product of independent variables. Its b is b_1 + b_2.
For a product a is a_1 + a_2, and for a sum of nonnegative terms max(a_1, a_2). Whatever is computed is a sum of
positive numbers. A mass of N terms errs by the factor 1 +- (N + 32) u, u = 2^-53, which goes to b. A value x errs by u.
The cell that the logarithm finds for it may be the one beside its own. There x is moved to the end between them. Both
go to a. Take a value v in a cell [x, y]. The end y gets the part (v - x) / (y - x) of its mass, and x the part (y -
v) / (y - x). Both differences are exact if y <= 2 x (Sterbenz), and have one rounding otherwise. So these parts too are
good to a few u of themselves. (What stays at the lower end of a fine cell is the rest of its mass, plus the rounding of
the two sums.) The mean of a cell is x plus the mean of v - x. The N terms spoil only its last digits, which goes to a.
Upper bounds move the tails of the law that all starts from, and lower ones leave them out. Every f >= 0 allows that.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..checks import FloatArray
from ..events import PrivacyEvent, RandomAllocationEvent, gaussian_mu_squared
from .convolution import UNIT
from .pairs import DiscretePair, GaussianPair, Pair, normal_masses, panels, tail_quantile

#: Cells of a sum before they are merged, and pairs of points that are added at a time.
_FINE, _BLOCK = 1 << 14, 1 << 15
#: For each doubling of the releases: points for the middle of a law, and nats of the tail of P for each further one.
#: More sums take fewer points. Both bounds together are then within .1 % of epsilon.
_MIDDLE, _LEAST_NATS, _NATS, _TAIL_POINTS = 700, 0.025, 0.002, 2_000
#: The smallest delta that counts over the mass that may be cut.
_COUNTS = 1e7


class Law(NamedTuple):
    """A bound of a law on values >= 0, by its masses.

    The value is dP/dQ, and the masses are under Q, in the sense of the module's docstring.

    The values increase. ``infinite`` is a mass of P that Q has nothing of; ``value_error`` and ``mass_error`` are a
    and b.
    """

    values: FloatArray
    masses: FloatArray
    infinite: float
    value_error: float
    mass_error: float


class Kind(NamedTuple):
    """The bound to make: mass cut at each end, number of points.

    There are `middle` points for where the mass is, and one for each `nats` nats of the tail of P.
    """

    tail: float
    nats: float
    middle: float
    upper: bool

    def of(self, copies: int) -> Kind:
        """Return the kind for `copies` copies: each may lose the same."""
        return self._replace(tail=copies * self.tail)


def _sums(x: FloatArray, starts: np.ndarray) -> FloatArray:
    """Sum x between the starts, long stretches by pairs: within 64 ulp."""
    out = np.add.reduceat(x, starts)
    out[0], out[-1] = np.sum(x[: starts[1] if len(starts) > 1 else None]), np.sum(x[starts[-1] :])
    return np.asarray(out)


def _nats(mass: FloatArray, tail: float) -> FloatArray:
    """Compute ln of the mass; below the smallest delta that counts, cells have size mass^(1/3)."""
    counts = _COUNTS * tail
    return np.asarray(np.log(np.maximum(mass, counts)) + 3.0 * np.cbrt(np.clip(mass / counts, 0.0, 1.0)))


def merged(law: Law, kind: Kind) -> Law:
    """Return the law on fewer points."""
    values, masses, infinite, value_error, mass_error = law
    q = masses / masses.sum()
    p = values * masses
    p /= p.sum()
    below, above = np.cumsum(q), np.cumsum(p[::-1])[::-1]
    weight = np.cbrt(p + q)
    weight *= kind.middle / weight.sum()
    weight[1:] += np.diff(_nats(below, kind.tail)) / (4.0 * kind.nats)
    weight[:-1] -= np.diff(_nats(above, kind.tail)) / kind.nats
    starts = np.flatnonzero(np.diff(np.floor(np.cumsum(weight))) > 0.0) + 1
    starts = np.concatenate([[0], starts[(below[starts] > kind.tail) & (above[starts] > kind.tail)]])
    sizes = np.diff(np.append(starts, len(values)))
    terms = np.where(np.arange(len(starts)) % (len(starts) - 1 or 1) > 0, sizes, np.minimum(sizes, 64))
    points = values[starts]
    offset = values - np.repeat(points, sizes)
    mass, first = _sums(masses, starts), _sums(masses * offset, starts)
    mass_error += (float(terms.max()) + 32.0) * UNIT
    if not kind.upper:
        moved = first / mass
        # The mean is as exact as the point below it, the distance of the two as its two sums.
        value_error += (4.0 + float(np.max((2.0 * terms + 16.0) * moved / (points + moved)))) * UNIT
        return Law(points + moved, mass, infinite, value_error, mass_error)
    width = np.diff(points)
    rest = np.repeat(points[1:], sizes[:-1]) - values[: starts[-1]]
    mass[:-1] = _sums(masses[: starts[-1]] * rest, starts[:-1]) / width
    mass[1:] += first[:-1] / width
    kept = mass > 0.0
    return Law(points[kept], mass[kept], infinite + float(first[-1]), value_error, mass_error)


def combine_laws(a: Law, b: Law, combine: np.ufunc, kind: Kind) -> Law:
    """Return the law of the sum, or product, of two independent variables."""
    # The cells between 0 and a geometric grid. What is less than both least positive values make goes into the first.
    low = math.log(combine(*(law.values[np.searchsorted(law.values, 0.0, "right")] for law in (a, b))))
    high = math.log(combine(a.values[-1], b.values[-1]))
    step = (high - low) / (_FINE - 4)
    low -= step
    points = np.concatenate([[0.0], np.exp(low + step * np.arange(_FINE))])
    per_width = 1.0 / np.diff(points)
    mass, moved = np.zeros(_FINE), np.zeros(_FINE)
    rows, terms = max(1, _BLOCK // len(b.values)), 0
    for i in range(0, len(a.values), rows):
        j = i if a is b else 0
        x = combine(a.values[i : i + rows, None], b.values[j:])
        w = a.masses[i : i + rows, None] * b.masses[j:]
        if a is b:
            w[:, rows:] *= 2.0  # pairs beyond the block stand for their mirror images too
        x, w = x.ravel(), w.ravel()
        place = np.log(np.maximum(x, points[1]))
        place -= low
        place *= 1.0 / step
        cell = np.ceil(place, out=place).astype(np.intp)
        # The part of the mass that goes to the upper end of the cell.
        x -= points[cell]
        x *= per_width[cell]
        np.clip(x, 0.0, 1.0, out=x)
        x *= w
        mass += np.bincount(cell, w, _FINE)
        moved += np.bincount(cell, x, _FINE)
        terms = max(terms, int(np.bincount(cell).max()))  # of one block; the blocks are added to each other after that
    terms += -(-len(a.values) // rows)
    # The cell that is found, and its ends, err by few ulp of the loss and of the value.
    error = (16.0 + 16.0 * max(abs(low), abs(high))) * UNIT
    if combine is np.multiply:
        value_error = a.value_error + b.value_error + error
    else:
        value_error = max(a.value_error, b.value_error) + error
    mass_error = a.mass_error + b.mass_error + (terms + 32.0) * UNIT
    infinite = a.infinite + b.infinite
    if kind.upper:
        guard = (2.0 * terms + 32.0) * UNIT
        fine = np.append(np.maximum(mass - moved, 0.0) + guard * mass, 0.0)
        fine[1:] += moved
        return merged(Law(points, fine, infinite, value_error, mass_error), kind)
    kept = mass > 0.0
    values = points[:-1][kept] + np.minimum(moved[kept] / mass[kept], 1.0) / per_width[kept]
    value_error += (4.0 + (2.0 * terms + 32.0) * math.expm1(step)) * UNIT
    return merged(Law(values, mass[kept], infinite, value_error, mass_error), kind)


def _power(one: Law, n: int, combine: np.ufunc, kind: Kind) -> Law:
    """Return the law of the sum, or product, of n independent copies."""
    total, copies = one, 1
    for bit in f"{n:b}"[1:]:
        copies *= 2
        total = combine_laws(total, total, combine, kind.of(copies))
        if bit == "1":
            # One among many copies may be coarser than all of them.
            fewer = kind.of(copies)._replace(
                middle=max(100.0, kind.middle / math.sqrt(copies)), nats=kind.nats * min(4.0, math.sqrt(copies))
            )
            copies += 1
            total = combine_laws(total, merged(one, fewer), combine, kind.of(copies))
    return total


def lognormal(mu: float, kind: Kind) -> Law:
    """Compute the law of Y by quadrature in cells, tails included."""
    reach = tail_quantile(kind.tail)
    g, width = np.linspace(-reach, reach + mu, _FINE // 4, retstep=True)
    at, weight = panels(np.array([0.0, width]))
    w = weight * np.exp(-0.5 * (g[:-1, None] + at) ** 2) / math.sqrt(2.0 * math.pi)
    # Each g errs by 3 units of its last place, which moves the density by 3 g^2 of them, and its exponent once more.
    reach += mu
    value_error, mass_error = (32.0 + 16.0 * mu * (reach + mu)) * UNIT, (128.0 + 4.0 * reach * reach) * UNIT
    points, rise = np.exp(mu * g - 0.5 * mu * mu), np.expm1(mu * at)
    if not kind.upper:
        # Without the tails: less mass makes less of every expectation.
        mass = w.sum(1)
        values = points[:-1] * (1.0 + (w * rise).sum(1) / mass)
        return merged(Law(values, mass, 0.0, value_error + 256.0 * rise[-1] * UNIT, mass_error), kind)
    up = rise / math.expm1(mu * width)
    down = np.expm1(-mu * at[::-1]) / math.expm1(-mu * width)
    mass = np.zeros(len(points) + 1)
    mass[1:-1] = (w * down).sum(1)
    mass[2:] += (w * up).sum(1)
    tails = [
        float(normal_masses(np.array(ends))[0])
        for ends in ([-np.inf, g[0]], [-np.inf, g[0] - mu], [g[-1], np.inf], [g[-1] - mu, np.inf])
    ]
    mass[0], mass[-1] = tails[0], mass[-1] + tails[2]
    mass[1] += tails[1] / points[0]
    return merged(Law(np.concatenate([[0.0], points]), mass, tails[3], value_error, mass_error), kind)


@lru_cache(maxsize=32)
def allocation_law(n_batches: int, mu: float, n_epochs: int, tail: float, upper: bool) -> Law:
    """Bound of the law of the product of `n_epochs` copies of S.

    In each doubling about `tail` of the mass is cut at each end for each of the releases.
    """
    nats = max(_LEAST_NATS, _NATS * math.log2(n_batches * n_epochs), -math.log(tail) / _TAIL_POINTS)
    kind = Kind(tail, nats, _MIDDLE, upper)
    total = _power(lognormal(mu, kind), n_batches, np.add, kind)
    total = total._replace(
        values=total.values / n_batches, infinite=total.infinite / n_batches, value_error=total.value_error + UNIT
    )
    return _power(total, n_epochs, np.multiply, kind.of(n_batches))


def epochs(leaves: Mapping[PrivacyEvent, int]) -> list[tuple[int, float, int]]:
    """Sort epochs into (minibatches, mu^2, count), with reused ones together."""
    fresh: Counter[tuple[int, float]] = Counter()
    reused: dict[int, list[float]] = defaultdict(list)
    for leaf, count in leaves.items():
        if isinstance(leaf, RandomAllocationEvent):
            square, number = gaussian_mu_squared(leaf.event), count * leaf.n_epochs
            if leaf.reused:
                reused[leaf.n_batches].append(number * square)
            else:
                fresh[leaf.n_batches, square] += number
    for n_batches, squares in reused.items():
        fresh[n_batches, math.fsum(squares)] += 1
    return sorted((n_batches, square, number) for (n_batches, square), number in fresh.items())


def allocation_pairs(n_batches: int, square: float, n_epochs: int, tail: float, upper: bool) -> tuple[Pair, Pair, int]:
    """Return the pairs of epochs in both directions, with their counts.

    All epochs are one pair if doubles hold the product of their ratios. Its mean with the unit is the product of 1 +
    (exp(mu^2) - 1) / t. Else each is one. If they do not even hold one epoch's, the bounds are the trivial ones: the
    minibatch of the unit is known, or nothing is.
    """
    mu, highest = math.sqrt(square), 690.0 + 2.0 * math.log(tail)
    if n_batches == 1 or mu * tail_quantile(tail) + 0.5 * square > 690.0:
        known = upper or n_batches == 1
        both: Pair = GaussianPair(mu * math.sqrt(n_epochs)) if known else DiscretePair([0.0], [1.0], [1.0])
        return both, both, 1
    repeats = 1
    # log(1 + (exp(mu^2) - 1) / t), where exp(mu^2) may be beyond doubles.
    if n_epochs * np.logaddexp(math.log1p(-1.0 / n_batches), square - math.log(n_batches)) > highest:
        n_epochs, repeats = 1, n_epochs
    law = allocation_law(n_batches, mu, n_epochs, tail, upper)
    sign = 1.0 if upper else -1.0
    # From here on each number is rounded a few times more.
    shift, growth = sign * (law.value_error + 16.0 * UNIT), sign * (law.mass_error + 16.0 * UNIT)
    lost = float(law.masses[law.values == 0.0].sum()) * math.exp(growth)
    infinite = law.infinite * math.exp(shift + growth)
    values, masses = (array[law.values > 0.0] for array in (law.values, law.masses * math.exp(growth)))
    loss, moment = np.log(values), values * masses
    # What the other side of each pair has is rounded the other way.
    other = 1.0 - sign * 16.0 * UNIT
    add = DiscretePair(loss + shift, moment * math.exp(shift), masses * other, infinite, lost)
    remove = DiscretePair(shift - loss[::-1], masses[::-1], moment[::-1] * math.exp(-shift) * other, lost, infinite)
    return add, remove, repeats
