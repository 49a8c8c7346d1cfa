"""The dominating pairs of events."""

import math
from collections.abc import Callable

from ..events import (
    ApproximateDPEvent,
    ComposedEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomAllocationEvent,
    RandomizedResponseEvent,
    SelfComposedEvent,
    WithoutReplacementEvent,
    gaussian_mu_squared,
    rate_and_mechanism,
    touching_leaves,
)
from .allocation import allocation_pairs, epochs
from .pairs import DiscretePair, GaussianPair, LaplacePair, MirrorPair, Pair, PoissonPair, WithoutReplacementPair
from .rows import dominating_rows

#: Larger losses are not composed: e to their power is hardly a double.
_LARGEST = 300.0


def _response_pair(event: RandomizedResponseEvent) -> DiscretePair:
    p, k, eps = event.truth_probability, event.n_categories, event.epsilon
    other = (1.0 - p) / (k - 1)
    if k == 2:
        return DiscretePair([-eps, eps], [other, p], [p, other])
    rest = (k - 2) * other
    return DiscretePair([-eps, 0.0, eps], [other, rest, p], [p, rest, other])


def _statement_pair(event: ApproximateDPEvent) -> DiscretePair:
    # Doubles do not tell e^(-epsilon) from 1 below; a larger statement bounds a smaller one.
    eps, scale = max(event.epsilon, 1e-9) if event.epsilon else 0.0, 1.0 - event.delta
    high = scale / (1.0 + math.exp(-eps))
    low = scale * math.exp(-eps) / (1.0 + math.exp(-eps))
    if eps == 0.0:
        return DiscretePair([0.0], [scale], [scale], event.delta)
    return DiscretePair([-eps, eps], [low, high], [high, low], event.delta)


def base_pair(event: PrivacyEvent) -> Pair:
    """Return the pair of Gaussian mechanisms, or another one, on all data."""
    if isinstance(event, (GaussianEvent, ComposedEvent, SelfComposedEvent)):
        return GaussianPair(math.sqrt(gaussian_mu_squared(event)))
    if isinstance(event, LaplaceEvent):
        return LaplacePair(event.noise_multiplier)
    if isinstance(event, RandomizedResponseEvent):
        return _response_pair(event)
    if isinstance(event, ApproximateDPEvent):
        return _statement_pair(event)
    raise ValueError(
        f"no privacy-loss distribution of a {event.kind} event by itself is known; use accountant='pld', which "
        "composes all that can be"
    )


def pairs(event: PrivacyEvent) -> tuple[Pair, Pair]:
    """Return the dominating pairs of one mechanism in both directions.

    The two entries are one object where the pair is symmetric.
    """
    if isinstance(event, (PoissonSampledEvent, WithoutReplacementEvent)):
        base = base_pair(event.event)
        rate = event.sampling_probability
        if rate == 1.0:
            return base, base
        if isinstance(event, PoissonSampledEvent):
            add = PoissonPair(rate, base)
            return add, MirrorPair(add)
        both: Pair = WithoutReplacementPair(rate, base)
        return both, both
    if isinstance(event, GroupEvent):
        return dominating_rows(event)
    both = base_pair(event)
    return both, both


def told(leaf: PrivacyEvent) -> Pair | None:
    """Return a simpler pair for a mechanism with losses beyond `_LARGEST`, both ways; None for others.

    No grid holds such losses beside small ones. It dominates: a sample of a Gaussian mechanism, if all rows are told to
    be drawn (`PrivacyEvent.gaussian_mu_squared`); any other one, if its whole input is told where it is drawn.
    """
    rate, mechanism = rate_and_mechanism(leaf)
    square = leaf.gaussian_mu_squared()
    if square is not None:
        return GaussianPair(math.sqrt(square)) if 0.5 * square > _LARGEST else None
    if base_pair(mechanism).max_loss <= _LARGEST:
        return None
    return DiscretePair([0.0], [1.0 - rate], [1.0 - rate], rate)


def largest_loss(event: PrivacyEvent) -> float:
    """Add up the largest losses of an event's mechanisms: its epsilon at delta = 0, or infinity."""
    total = 0.0
    for leaf, count in touching_leaves(event).items():
        if leaf.gaussian_mu_squared() is not None:
            return math.inf
        for pair in (both := pairs(leaf)):
            if pair.p_infinite > 0.0:
                return math.inf
        total += count * max(pair.max_loss for pair in both)
    return total * (1.0 + 1e-12)


def composed_pairs(
    event: PrivacyEvent,
    smallest: float,
    upper: bool = True,
    pairs_of: Callable[[PrivacyEvent], tuple[Pair, Pair]] = pairs,
) -> list[tuple[tuple[Pair, Pair], int]]:
    """Return the pairs of all mechanisms of an event, with their repetitions.

    Whole-data Gaussian mechanisms are merged into one. Equal compositions come in the same order, so that answers
    agree to the last bit. Random allocation is bounded for deltas from `smallest` up, from above or from below.
    """
    found: list[tuple[tuple[Pair, Pair], int]] = []
    leaves = touching_leaves(event)
    mu2 = math.fsum(gaussian_mu_squared(leaf, n) for leaf, n in leaves.items() if isinstance(leaf, GaussianEvent))
    for leaf, count in sorted(leaves.items(), key=lambda item: item[0].to_json()):
        if isinstance(leaf, (GaussianEvent, RandomAllocationEvent)):
            continue
        if (large := told(leaf)) is None:
            found.append((pairs_of(leaf), count))
        elif isinstance(large, GaussianPair):
            mu2 += count * large.mu**2
        else:
            found.append(((large, large), count))
    allocated = epochs(leaves)
    # What is cut is an infinite loss of each release: a ten-millionth of delta in all, in decades for the cache.
    number = sum(n_batches * count for n_batches, _, count in allocated)
    for n_batches, square, count in allocated:
        tail = 10.0 ** max(-290, math.floor(math.log10(1e-7 * smallest / number)))
        one, two, repeats = allocation_pairs(n_batches, square, count, tail, upper)
        if isinstance(one, GaussianPair):
            mu2 += repeats * one.mu**2
        else:
            found.append(((one, two), repeats))
    if mu2 > 0.0:
        whole = GaussianPair(math.sqrt(mu2))
        found.insert(0, ((whole, whole), 1))
    return found
