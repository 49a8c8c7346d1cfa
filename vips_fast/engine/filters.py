"""Bound the total of releases if runs depend on earlier results.

Composition theorems for whole curves need events that are fixed beforehand. Across runs they are not: the choice of a
run may depend on earlier results. A *filter* is a bound that holds in spite of that. There are two, and an odometer.

Gaussian (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023), if every release is a Gaussian mechanism on all the
data. The sum of mu^2 = 1 / noise_multiplier^2 stays within a limit B. The whole is as private as one Gaussian mechanism
with mu = sqrt(B). The bound is exact. *Proof.* Let W be a Brownian motion, with drift 1 on one of the two data sets and
without on the other. A release at mu, chosen by earlier results, is a function of the increment of W over the next mu^2
of time, and of fresh coins. These are independent of the data. The times add up to at most B. So all results together
are a function of W on [0, B] and of coins. And W on [0, B] is as informative as W(B) ~ N(B or 0, B).

Renyi (Feldman & Zrnic 2021, theorem 4.3). At one order alpha, fixed beforehand, the sum of the divergences stays within
a limit. The whole has that Renyi divergence. *Several orders.* Continuing as long as *any* order is within its limit is
no such filter, since the final order depends on the results. Let b be the event that order alpha_b is the final one.
That order's theorem bounds only the part of delta in b, and the parts add up. With limits of each order for the whole
delta, the sum may reach (number of orders) * delta. Two orders and two releases are enough to exceed delta by 46 % (in
the tests). So the orders *share* delta here: order k has the limit for w_k * delta, and the w_k add up to at most 1.
*Proof.* For each k stop the interaction before order k exceeds its limit; the stopped interaction is (epsilon, w_k
delta)-private. If k is within its limit at the end, nothing was stopped. Every outcome lies in such an event; assign
each outcome to one k. Then for any set S of outcomes P(S) <= sum_k P(S and k) <= sum_k (e^epsilon Q(S and k) + w_k
delta) <= e^epsilon Q(S) + delta. The orders and weights are a function of only the target. Half of delta goes to the
best order for a Gaussian mechanism that just meets the target. The rest goes mostly to smaller orders, which serve
strong noise at small sampling rates.

Parts (`vips_fast.accounting.parts`): a run may state that it reads only one named part of the data, and a record lies
in only one part. A filter then has one account for each part, with the releases of the part and those without a part. A
release is made if *every* account stays within the limit. *Proof.* Fix neighbors that differ in a record of part p.
Given earlier results, the releases of other parts have the same law on both sides. They are coins, and the next run may
be chosen by them as by all results. All other releases stand in the account of p, which is within the limit. The
filter's theorem allows choices by outputs and coins, so it gives its (epsilon, delta) for this pair. A refusal by
another account is one more choice by results. The limit, the orders and their shares of delta are the same for all
parts and fixed before the first release. So the total is the largest account, and parts do not share delta.

Leaks: a (0, x) event is the chance x that a release shows more than its other parts, such as the threshold of a
vocabulary. A *pot* of delta is set apart for them before the first result. The x of all releases, drawn
or reserved, in all runs and parts, add up to at most the pot. A release that exceeds it is refused. The filter limits
everything else to the remaining delta. So runs may purchase vocabularies in view of all results so far. *Proof.* With
one record more, release i fails with a probability p_i <= x_i that may depend on earlier results. Let N be the
interaction without failures: the filter's theorem gives (epsilon, rest) between N and the interaction P without the
record. Let Q be the interaction with the record. Every course has sum p_i <= pot. Q follows N until the first failure.
So Q(S) <= N(S) + pot, and Q(S) >= (1 - pot) N(S), as 1 - sum p_i <= product of (1 - p_i). Hence Q(S) <= e^epsilon P(S)
+ rest + pot. And P(S) - e^epsilon Q(S) <= pot P(S) + (1 - pot) (P(S) - e^epsilon N(S)) <= pot + rest.

Odometer (`odometer`): calls whose number and noise may depend on all results, without a limit fixed ahead. The first
run is fixed. Later releases are Gaussian mechanisms on all the data with a sum s of mu^2. Fix levels B_j and shares w_j
of delta before the first release, with the w_j adding up to at most 1 (`_level`); B_0 = 0. Let j be the first level
with s <= B_j when the calls end. State epsilon_j, the epsilon at w_j delta of the first run followed by one Gaussian
mechanism with mu^2 = B_j. Then P(S) <= sum_j e^(epsilon_j) Q(S and j) + delta for every set S of outcomes and every
rule to stop. *Proof.* For each j, stop the calls before s exceeds B_j. By the proof of the Gaussian filter, all results
are then a function of the first run's dominating pair, of W on [0, B_j] and of coins. So they are (epsilon_j, w_j
delta)-private, and P(S and j) <= e^(epsilon_j) Q(S and j) + w_j delta for the outcomes with level j, where no stop came
early. Every outcome has one level; add up. *Why not the sum of all releases*: a stop at the worst of 20 calls with
noise 2 exceeds delta = 1e-5 by a factor of 7 (in the tests). *Parts*: for neighbors that differ in part p, all results
before the first release of p are coins. So p has its own first run, levels and shares.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from ..accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    PrivacyEvent,
    epsilon,
    gaussian_noise_multiplier,
    renyi_divergence,
)
from ..accounting.calibration import calibrate_noise_multiplier
from ..accounting.events import gaussian_mu_squared
from ..accounting.gaussian import epsilon_of_mu, gaussian_mu
from ..accounting.parts import composed
from ..accounting.rdp import epsilon_of_curve
from ..accounting.solver import find_threshold

#: Events with how often each was, or may be, released.
Counts = Mapping[PrivacyEvent, int]

FILTERS = ("gaussian", "renyi")

# Quadrature is good to 1e-12; the sums are raised by more.
_UP = 1.0 + 1e-10


def leaked(counts: Counts) -> float:
    """Add up the delta of all (0, delta) events."""
    parts = [
        leaf.delta * repeats * count
        for event, count in counts.items()
        for leaf, repeats in event.leaves().items()
        if _is_leak(leaf)
    ]
    return math.fsum(parts) * _UP


def without_leaks(counts: Counts) -> Counter[PrivacyEvent]:
    """Remove the (0, delta) events from releases."""
    out: Counter[PrivacyEvent] = Counter()
    for event, count in counts.items():
        leaves = event.leaves()
        if not any(map(_is_leak, leaves)):
            out[event] += count
            continue
        for leaf, repeats in leaves.items():
            if not _is_leak(leaf):
                out[leaf] += repeats * count
    return out


def _is_leak(event: PrivacyEvent) -> TypeGuard[ApproximateDPEvent]:
    return isinstance(event, ApproximateDPEvent) and event.epsilon == 0.0


def is_whole_gaussian(event: PrivacyEvent) -> bool:
    """Test whether an event consists of Gaussian mechanisms on all the data."""
    return gaussian_mu(event) is not None


@lru_cache(maxsize=64)
def renyi_orders(epsilon: float, delta: float) -> tuple[tuple[float, float], ...]:
    """Choose the Renyi filter's orders and shares of delta from the target."""
    grid = 1.0 + np.geomspace(1e-2, 1e7, 8001)
    # The largest rho with rho * alpha + conversion <= epsilon, at its best order.
    conversion = np.log1p(-1.0 / grid) - np.log(grid * delta) / (grid - 1.0)
    best = float(grid[int(np.argmax((epsilon - conversion) / grid))]) - 1.0
    steps = [(0, 0.5), *((-k, 0.4 * 2.0**-k) for k in range(1, 7)), *((k, 0.1 * 2.0**-k) for k in range(1, 8))]
    return tuple((1.0 + best * 2.0**k, share) for k, share in steps)


@lru_cache(maxsize=4096)
def _divergences(event: PrivacyEvent, orders: tuple[float, ...]) -> np.ndarray:
    return np.asarray(renyi_divergence(event, np.array(orders)))


def renyi_filter_epsilon(counts: Counts, delta: float, orders: tuple[tuple[float, float], ...]) -> float:
    """Compute epsilon of releases by the Renyi filter; 0 without releases.

    ``orders``, each with its share of delta, are fixed before the first release. Raises ValueError if an event has no
    known Renyi divergence.
    """
    if not any(counts.values()):
        return 0.0
    alphas = tuple(alpha for alpha, _ in orders)
    for event in counts:
        try:
            _divergences(event, alphas)
        except ValueError:
            kinds = ", ".join(sorted({leaf.kind.replace("_", " ") for leaf in event.leaves()}))
            raise ValueError(
                f"no Renyi bound of {kinds} is known here: expected filter='gaussian', or sampling='poisson'"
            ) from None
    total = np.sum([count * _divergences(event, alphas) for event, count in counts.items() if count], axis=0) * _UP
    return min(
        epsilon_of_curve(np.array([alpha]), np.array([rho]), delta * share)
        for (alpha, share), rho in zip(orders, total, strict=True)
    )


def gaussian_filter_epsilon(counts: Counts, delta: float) -> float:
    """Compute epsilon of Gaussian releases by the Gaussian filter.

    An event counts as the Gaussian mechanisms on all the data that it says bound it (`gaussian_mu_squared` of its type
    has the proof): a sample as all the data, an epoch of random allocation as one release.

    Raises ValueError for an event that no Gaussian mechanism is known to bound.
    """
    return epsilon_of_mu(math.sqrt(_mu_squared(counts)), delta)


def _mu_squared(counts: Counts) -> float:
    """Add up mu^2 of the Gaussian mechanisms that bound releases; ValueError for events without one."""
    return math.fsum(gaussian_mu_squared(event, count) for event, count in counts.items())


def reserved(first: Counts, later: Counts, limit: float, delta: float) -> PrivacyEvent | None:
    """Find one fixed event for all calls within a Gaussian filter's limit.

    The result is None if these calls do not fit. The event is the first run's releases that are not Gaussian, such as a
    vocabulary purchase, followed by the largest Gaussian mechanism that fits. Both are fixed before the first call.
    """
    fixed = composed({event: count for event, count in first.items() if not is_whole_gaussian(event)})
    calls = Counter(later)
    calls.update({event: count for event, count in first.items() if is_whole_gaussian(event)})
    square = _mu_squared(calls)
    if fixed is not None and epsilon(fixed, delta) >= limit:
        return None
    noise = _noise_beside(fixed, limit, delta)
    if square > 1.0 / noise**2:
        return None
    whole = GaussianEvent(noise, next(iter(first)).relation)
    return whole if fixed is None else ComposedEvent((fixed, whole))


@lru_cache(maxsize=64)
def _noise_beside(fixed: PrivacyEvent | None, limit: float, delta: float) -> float:
    """Calibrate one Gaussian mechanism that meets the limit beside an event."""
    if fixed is None:
        return gaussian_noise_multiplier(limit, delta)
    relation = fixed.relation
    return calibrate_noise_multiplier(lambda z: GaussianEvent(z, relation), limit, delta, before=fixed)


def odometer(first: Counts, later: Counts, delta: float) -> tuple[PrivacyEvent, float]:
    """Bound calls by one fixed event, and find its share of delta.

    ``later`` may depend on results. The levels are multiples of the mu^2 that the first run is worth at ``delta``.

    Raises ValueError if there is no first release, or a later one is not Gaussian.
    """
    event = composed(first)
    if event is None:
        raise ValueError("first: expected at least one release")
    mu = gaussian_mu(event)
    if mu is None:
        worth = epsilon(event, delta)
        mu = 1.0 / gaussian_noise_multiplier(worth, delta) if math.isfinite(worth) else math.inf
    level, share = _level(_mu_squared(later) / mu**2)
    if level:
        # The tolerance of `_level` is part of the level.
        noise = min(1.0 / (mu * math.sqrt(level * _UP)), LARGEST_NOISE)
        event = ComposedEvent((event, GaussianEvent(noise, event.relation)))
    return event, share


def _level(size: float) -> tuple[float, float]:
    """Find the first level that holds a size, and its delta share.

    The levels are 0, with half of delta. Then come 1 to 8 and then each 9/8 of the one before, with 3/8 together. Last
    are powers of 1/sqrt(2), with 1/8 together. Number j of the last two has 1/(j (j + 1)) of their share, and these add
    up to 1.
    """
    if size == 0.0:
        return 0.0, 0.5
    size /= _UP
    down = max(0, math.floor(-2.0 * math.log2(size)) + 1)
    while down and 2.0 ** (-down / 2) < size:
        down -= 1
    if down:
        return 2.0 ** (-down / 2), 0.125 / (down * (down + 1))
    up = max(1, math.ceil(size)) if size <= 8.0 else 8 + math.ceil(math.log(size / 8.0) / math.log(1.125))
    level = float(up) if up <= 8 else 8.0 * 1.125 ** (up - 8)
    if level < size:
        up, level = up + 1, level * 1.125
    return level, 0.375 / (up * (up + 1))


#: No noise multiplier above it is tried.
LARGEST_NOISE = 1e7


def smallest_noise(cost: Callable[[float], float], limit: float) -> float | None:
    """Find the smallest noise multiplier with ``cost(z) <= limit``, or None.

    ``cost`` falls with the noise, and the answer has been tried: its own cost is within the limit.
    """
    high = 1.0
    while cost(high) > limit:
        high *= 2.0
        if high > LARGEST_NOISE:
            return None
    low = high / 2.0
    while cost(low) <= limit:
        low, high = low / 2.0, low
        if high < 1e-3:
            return high
    return find_threshold(lambda z: cost(z) <= limit, low, high, rtol=1e-4, geometric=True)
