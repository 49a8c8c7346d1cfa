"""Random allocation: in each epoch every unit goes to one of t minibatches.

A unit's minibatch is uniform on the t, independent of the others', and each minibatch is released once, by a Gaussian
mechanism of noise multiplier z under "add or remove one unit". With mu = 1/z and g_1, ..., g_t independent N(0, 1) let

    S = (1/t) sum_i exp(mu g_i - mu^2 / 2).

*Law of an epoch* (Chua et al. 2025; Feldman & Shenfeld 2026). Let P be the law of all outputs with the unit and Q that
without it. Then dP/dQ is at most S in convex order, and is S where the unit moves each sum by the whole sensitivity, so

    delta(eps) = max(E(S - e^eps)_+, E(1 - e^eps S)_+)

for one epoch, and with the product of independent copies of S for epochs with fresh minibatches.
*Proof.* Fix the minibatches of all other units, and coins: the hockey-stick divergence is jointly convex. If the unit
is in minibatch i, output i is shifted by s_i, of norm at most mu in units of the noise, which depends on the outputs
before it; no other output is. So dP/dQ = (1/t) sum_i exp(<s_i, x_i> - |s_i|^2 / 2), x_i the noise, N(0, I) given the
past under Q. Put g_i = (<s_i, x_i> + (mu^2 - |s_i|^2)^(1/2) xi_i) / mu with new xi_i ~ N(0, 1): these are independent
N(0, 1), and E[S | x] = dP/dQ. Both divergences are expectations of convex functions of dP/dQ, so by Jensen's inequality
S has the larger ones. Given all outputs before it, a later epoch has such a factor too; the same argument, factor by
factor, gives the product. (S, as dP/dQ, makes a dominating pair, which composes with those of other mechanisms.)

*Minibatches that are drawn once* and used in E epochs, of multipliers z_1, ..., z_E: one epoch with mu^2 = sum_e
1 / z_e^2. *Proof.* The factor of minibatch i is the product over the epochs of exp(mu_e g_ie - mu_e^2 / 2), which is
exp(mu g - mu^2 / 2). This is also a bound where some of them were drawn anew with the same t: let A = mean_i a_i and
B = mean_i b_i be the factors of the two parts. A B is the average over permutations pi of mean_i a_i b_pi(i), each with
the law of mean_i a_i b_i; by Jensen's inequality E phi(A B) <= E phi(mean_i a_i b_i) for convex phi. So events with
reused minibatches and equal t are put together, whether or not they share them.

*Parts of an epoch*, such as those that a run made before it was killed, are functions of the outputs of the whole one.

*Computation.* The law of t S is made by repeated doubling from that of Y = exp(mu g - mu^2 / 2), that of products of
epochs likewise, on grids that are fine where the mass is. After each sum or product, the mass of a cell of the grid is

- for upper bounds split between the cell's ends, mean kept, which raises the law in convex order (a cell below the
  first point is split between 0 and that point; of the mass above the last point x, Q keeps all at x and P moves its
  E(t S - x)_+ / t to an infinite loss: a dominating pair, as that mass can be drawn again from where it was);
- for lower bounds put at its mean, which lowers it (Jensen).

Sums of independent variables and products of independent factors keep convex order. All numbers are positive, so
rounding is relative: a sum of N terms errs by N ulp, and the errors of two laws add up in their sum. `Law.drift` bounds
the relative errors of masses and values; it is charged to the side that keeps each bound one.
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
from .pairs import DiscretePair, GaussianPair, Pair, normal_masses, panels, tail_quantile

#: Cells of a sum before they are merged, and pairs of points that are added at a time.
_FINE, _BLOCK = 1 << 14, 1 << 15
#: Points for the middle of a law, and nats of the tail of P for each further one, for each doubling of the releases:
#: the more sums there are to make, the fewer points. Both bounds together are then within .1 % of epsilon.
_MIDDLE, _LEAST_NATS, _NATS, _TAIL_POINTS = 500, 0.035, 0.003, 2_000


class Law(NamedTuple):
    """A law on values >= 0, which is dP/dQ, by its masses under Q.

    ``infinite`` is a mass of P that Q has nothing of; ``drift`` bounds the relative error of masses and values.
    """

    values: FloatArray
    masses: FloatArray
    infinite: float
    drift: float


class _Kind(NamedTuple):
    """Which bound is made: of which mass the rest is cut, by how many nats the points of the tail are apart."""

    tail: float
    nats: float
    upper: bool


def _sums(x: FloatArray, starts: np.ndarray) -> FloatArray:
    """Sums of x between the starts; the long ones at both ends by pairs, so that they err by less than 64 ulp."""
    out = np.add.reduceat(x, starts)
    out[0], out[-1] = np.sum(x[: starts[1] if len(starts) > 1 else None]), np.sum(x[starts[-1] :])
    return np.asarray(out)


def _normal_cells(edges: FloatArray) -> FloatArray:
    """Masses of N(0, 1) between (-infinity, edges, infinity), by quadrature, which does not take differences of tails.

    An argument x that is wrong by an ulp moves exp(-x^2 / 2) by x^2 ulp; all else is below 500 ulp.
    """
    x, w = panels(edges)
    inner = (w * np.exp(-0.5 * x * x)).reshape(len(edges) - 1, -1).sum(1) / math.sqrt(2.0 * math.pi)
    ends = normal_masses(np.array([-np.inf, edges[0]])), normal_masses(np.array([edges[-1], np.inf]))
    return np.concatenate([ends[0], inner, ends[1]])


def _merged(mass: FloatArray, first: FloatArray, log_edges: FloatArray, kind: _Kind, drift: float) -> Law:
    """The law of cells between (0, edges, infinity) with these masses and first moments, on fewer points."""
    (tail, nats, upper), p, q = kind, first / first.sum(), mass / mass.sum()
    below, above = np.maximum(np.cumsum(q), tail), np.maximum(np.cumsum(p[::-1])[::-1], tail)
    weight = np.cbrt(p + q)
    weight *= _MIDDLE / weight.sum()
    weight[1:] += np.diff(np.log(below)) / (4.0 * nats)
    weight[:-1] -= np.diff(np.log(above)) / nats
    starts = np.flatnonzero(np.diff(np.floor(np.cumsum(weight))) > 0.0) + 1
    starts = starts[(below[starts] > tail) & (above[starts] > tail)]
    points = np.concatenate([[0.0], np.exp(log_edges[starts - 1])])
    starts = np.concatenate([[0], starts])
    mass, first = _sums(mass, starts), _sums(first, starts)
    drift += (float(np.diff(starts)[1:].max(initial=0)) + 64.0) * 2.0**-52
    infinite = 0.0
    if upper:
        up = np.clip((first - points * mass)[:-1] / np.diff(points), 0.0, mass[:-1])
        infinite = max(0.0, float(first[-1] - points[-1] * mass[-1]))
        mass[:-1] -= up
        mass[1:] += up
        values = points
    else:
        values = first / np.maximum(mass, 1e-300)
    kept = mass > 0.0
    return Law(values[kept], mass[kept], infinite, drift)


def _combined(a: Law, b: Law, combine: np.ufunc, kind: _Kind) -> Law:
    """The law of the sum, or product, of two independent variables."""
    # What is less than both least positive values make goes into the cell from 0 on.
    low = math.log(combine(*(law.values[np.searchsorted(law.values, 0.0, "right")] for law in (a, b))))
    scale = (_FINE - 2) / (math.log(combine(a.values[-1], b.values[-1])) - low)
    mass, first = np.zeros(_FINE), np.zeros(_FINE)
    rows, terms = max(1, _BLOCK // len(b.values)), 0
    for i in range(0, len(a.values), rows):
        j = i if a is b else 0
        x = combine(a.values[i : i + rows, None], b.values[j:])
        w = a.masses[i : i + rows, None] * b.masses[j:]
        if a is b:
            w[:, rows:] *= 2.0  # pairs beyond the block stand for their mirror images too
        cell = np.ceil((np.log(np.maximum(x, math.exp(low))) - low) * scale).astype(np.intp).ravel()
        mass += np.bincount(cell, w.ravel(), _FINE)[:_FINE]
        first += np.bincount(cell, (w * x).ravel(), _FINE)[:_FINE]
        terms = max(terms, int(np.bincount(cell).max()))  # of one block; the blocks are added to each other after that
    drift = a.drift + b.drift + (terms + -(-len(a.values) // rows) + 16.0) * 2.0**-52
    merged = _merged(mass, first, low + np.arange(_FINE - 1) / scale, kind, drift)
    return merged._replace(infinite=merged.infinite + a.infinite + b.infinite)


def _power(one: Law, n: int, combine: np.ufunc, kind: _Kind) -> Law:
    """The law of the sum, or product, of n independent copies."""
    total = one
    for bit in f"{n:b}"[1:]:
        total = _combined(total, total, combine, kind)
        total = _combined(total, one, combine, kind) if bit == "1" else total
    return total


@lru_cache(maxsize=32)
def allocation_law(n_batches: int, mu: float, n_epochs: int, tail: float, upper: bool) -> Law:
    """Bound of the law of the product of `n_epochs` copies of S; about `tail` of the mass is cut at each end."""
    nats = max(_LEAST_NATS, _NATS * math.log2(n_batches * n_epochs), -math.log(tail) / _TAIL_POINTS)
    kind, reach = _Kind(tail, nats, upper), mu * tail_quantile(tail)
    edges = np.linspace(-reach - 0.5 * mu * mu, reach + 0.5 * mu * mu, _FINE // 4)
    q, p = _normal_cells(edges / mu + 0.5 * mu), _normal_cells(edges / mu - 0.5 * mu)
    one = _merged(q, p, edges, kind, (500.0 + 4.0 * (reach / mu + mu) ** 2) * 2.0**-52)
    total = _power(one, n_batches, np.add, kind)
    epoch = total._replace(values=total.values / n_batches, infinite=total.infinite / n_batches)
    return _power(epoch, n_epochs, np.multiply, kind)


def epochs(leaves: Mapping[PrivacyEvent, int]) -> list[tuple[int, float, int]]:
    """(minibatches, mu^2, how often) of the epochs of random allocations, sorted; reused ones are put together."""
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
    """The pairs of epochs in both directions, and how often each: dominating ones, or dominated ones without `upper`.

    All epochs are one pair where doubles hold the product of their ratios, whose mean with the unit is the product of
    1 + (exp(mu^2) - 1) / t; else each is one. Where they do not hold that of one, the bounds are the trivial ones:
    which minibatch the unit is in is known, or nothing is.
    """
    mu, room = math.sqrt(square), 690.0 + 2.0 * math.log(tail)
    if n_batches == 1 or mu * tail_quantile(tail) + 0.5 * square > 690.0:
        known = upper or n_batches == 1
        both: Pair = GaussianPair(mu * math.sqrt(n_epochs)) if known else DiscretePair([0.0], [1.0], [1.0])
        return both, both, 1
    repeats = 1
    # log(1 + (exp(mu^2) - 1) / t), where exp(mu^2) may be beyond doubles.
    if n_epochs * np.logaddexp(math.log1p(-1.0 / n_batches), square - math.log(n_batches)) > room:
        n_epochs, repeats = 1, n_epochs
    law = allocation_law(n_batches, mu, n_epochs, tail, upper)
    error = 2.0 * law.drift * (1.0 if upper else -1.0)
    lost = float(law.masses[law.values == 0.0].sum())
    values, q = (array[law.values > 0.0] for array in (law.values, law.masses))
    loss, p = np.log(values), values * q
    add = DiscretePair(loss + error, p * (1.0 + error), q * (1.0 - error), law.infinite, lost)
    remove = DiscretePair(error - loss[::-1], q[::-1] * (1.0 + error), p[::-1] * (1.0 - error), lost, law.infinite)
    return add, remove, repeats
