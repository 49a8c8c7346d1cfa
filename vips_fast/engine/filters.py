"""Filters bound the total of releases if each run may depend on all results so far.

Composition theorems for whole curves need events that are fixed beforehand. Across runs they are not: the choice of a
run may depend on earlier results. A *filter* is a bound that holds in spite of that. There are three.

Gaussian (Smith & Thakurta 2022; Koskela, Tobaben & Honkela 2023), if every release is a Gaussian mechanism on all the
data: the sum of mu^2 = 1 / noise_multiplier^2 stays within a limit B, and the whole is as private as one Gaussian
mechanism with mu = sqrt(B). The bound is exact. *Proof.* Let W be a Brownian motion, with drift 1 on one of the two
data sets and without on the other. A release at mu, chosen by earlier results, is a function of the increment of W over
the next mu^2 of time and of fresh coins, which are independent of the data. The times add up to at most B. So all
results together are a function of W on [0, B] and of coins, and W on [0, B] is as informative as W(B) ~ N(B or 0, B).

Renyi (Feldman & Zrnic 2021, theorem 4.3): at one order alpha, fixed beforehand, the sum of the divergences stays within
a limit, and the whole has that Renyi divergence. *Several orders.* Continuing as long as *any* order is within its
limit is no such filter, since the final order depends on the results. Let b be the event that order alpha_b is the
final one. That order's theorem bounds only the part of delta in b, and the parts add up. With limits of each order for
the whole delta, the sum may reach (number of orders) * delta; two orders and two releases are enough to exceed delta by
46 % (in the tests). So the orders *share* delta here: order k has the limit for w_k * delta, and the w_k add up to at
most 1. *Proof.* For each k stop the interaction before order k exceeds its limit; the stopped interaction is (epsilon,
w_k delta)-private. If k is within its limit at the end, nothing was stopped. Every outcome lies in such an event;
assign each outcome to one k. Then for any set S of outcomes P(S) <= sum_k P(S and k) <= sum_k (e^epsilon Q(S and k) +
w_k delta) <= e^epsilon Q(S) + delta. The orders and weights are a function of only the target: half of delta goes to
the best order for a Gaussian mechanism that just meets the target, the rest mostly to smaller orders, which serve
strong noise at small sampling rates.

Declared (`declared_epsilon`): a list of events that is fixed before the first of its releases composes by privacy-loss
distributions. The order of the releases does not matter, nor whether all are made. *Proof.* Each event has a dominating
pair; draw one output of each pair beforehand. A release of event i, with any choice of its computation, is a function
of the i-th output and of coins. So all results are a function of the product of the outputs.

Parts (`vips_fast.accounting.parts`): a run may state that it reads only one named part of the data, and a record lies
in only one part. A filter then has one account for each part, with the releases of the part and those without a part. A
release is made if *every* account stays within the limit. *Proof.* Fix neighbors that differ in a record of part p.
Given earlier results, the releases of other parts have the same law on both sides: they are coins, and the next run may
be chosen by them as by all results. All other releases stand in the account of p, which is within the limit. The
filter's theorem allows choices by outputs and coins, so it gives its (epsilon, delta) for this pair. A refusal by
another account is one more choice by results. The limit, the orders and their shares of delta are the same for all
parts and fixed before the first release. So the total is the largest account, and parts do not share delta. Lists
declared ahead count as read from all records, whatever part their runs name.

Leaks: a (0, x) event is the chance x that a release shows more than its other parts, such as the threshold of a
vocabulary. A *pot* of delta is set apart for them before the first result outside lists. The x of all releases, drawn
or reserved, in all runs and parts, add up to at most the pot. A release that exceeds it is refused. The filter limits
everything else to the remaining delta. So runs may purchase vocabularies in view of all results so far. *Proof.* With
one record more, release i fails with a probability p_i <= x_i that may depend on earlier results. Let N be the
interaction without failures: the filter's theorem gives (epsilon, rest) between N and the interaction P without the
record. Let Q be the interaction with the record. Every course has sum p_i <= pot. Q follows N until the first failure.
So Q(S) <= N(S) + pot, and Q(S) >= (1 - pot) N(S), as 1 - sum p_i <= product of (1 - p_i). Hence Q(S) <= e^epsilon P(S)
+ rest + pot. And P(S) - e^epsilon Q(S) <= pot P(S) + (1 - pot) (P(S) - e^epsilon N(S)) <= pot + rest.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeGuard

import numpy as np

from ..accounting import (
    ApproximateDPEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RepeatAndSelectEvent,
    epsilon,
    epsilon_from_rdp,
    gaussian_epsilon,
    renyi_divergence,
)
from ..accounting.gaussian import gaussian_mu
from ..accounting.parts import composed
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
def renyi_orders(target_epsilon: float, target_delta: float) -> tuple[tuple[float, float], ...]:
    """Choose the orders of the Renyi filter and their shares of delta, from only the target."""
    grid = 1.0 + np.geomspace(1e-2, 1e7, 8001)
    # The largest rho with rho * alpha + conversion <= epsilon, at its best order.
    conversion = np.log1p(-1.0 / grid) - np.log(grid * target_delta) / (grid - 1.0)
    best = float(grid[int(np.argmax((target_epsilon - conversion) / grid))]) - 1.0
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
    runs = [x.event if isinstance(x, RepeatAndSelectEvent) else x for event in counts for x in event.leaves()]
    allocated = [x for run in runs for x in run.leaves() if isinstance(x, RandomAllocationEvent)]
    if allocated:
        other = "filter='gaussian'" if any(x.reused for x in allocated) else "its runs in a list declared ahead"
        raise ValueError(
            "no Renyi bound of random allocation is known here (none that is tight is proven for the data without "
            f"a record against those with it): expected {other}, or sampling='poisson'"
        )
    alphas = tuple(alpha for alpha, _ in orders)
    total = np.sum([count * _divergences(event, alphas) for event, count in counts.items() if count], axis=0) * _UP
    return min(
        epsilon_from_rdp([alpha], [rho], delta * share) for (alpha, share), rho in zip(orders, total, strict=True)
    )


def gaussian_filter_epsilon(counts: Counts, delta: float) -> float:
    """Compute epsilon of Gaussian releases by the Gaussian filter.

    A release from a sample counts as if it used all the data: a mixture of the neighbors' laws is not easier to
    distinguish from one of them than the other law is. An epoch of random allocation counts as one release, since a
    record is in one of its minibatches, and the bound reveals which.

    Raises ValueError if an event is not Gaussian.
    """
    square = math.fsum(count * _mu_squared(event) for event, count in counts.items())
    return gaussian_epsilon(math.sqrt(square), delta) if square else 0.0


@lru_cache(maxsize=4096)
def _mu_squared(event: PrivacyEvent) -> float:
    parts = []
    for leaf, repeats in event.leaves().items():
        mu = None if isinstance(leaf, RepeatAndSelectEvent) else gaussian_mu(getattr(leaf, "event", leaf))
        repeats *= getattr(leaf, "n_epochs", 1)
        if mu is None:
            raise ValueError(f"the Gaussian filter composes Gaussian mechanisms only, got {event.to_json()}")
        parts.append(repeats * mu**2)
    return math.fsum(parts)


def declared_epsilon(counts: Counts, delta: float) -> float:
    """Compute epsilon of releases with events fixed beforehand, by the tightest accountant."""
    event = composed(counts)
    return 0.0 if event is None else epsilon(event, delta)


#: No noise multiplier above it is tried.
LARGEST_NOISE = 1e7


def smallest_noise(cost: Callable[[float], float], limit: float) -> float | None:
    """Find the smallest noise multiplier with ``cost(noise_multiplier) <= limit``; None if there is none.

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
