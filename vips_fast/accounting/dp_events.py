"""The package dp-accounting: events as its events (``DpEvent``), and its second opinion.

A ``DpEvent`` does not state its neighboring relation, an argument of their accountants. Some events have no class there
with the same meaning, or an accountant of theirs (0.6) reads it otherwise. They are refused, so that no figure comes of
a misreading:

- random allocation, groups and (epsilon, delta) statements: there is no class;
- sampling without replacement: theirs leaves open the unit of the noise multiplier;
- noise under ``"replace_one"``: their PLD accountant reads the noise multiplier over a norm bound and their RDP
  accountant over the sensitivity, which is up to twice that;
- repeated randomized responses: their PLD accountant composes them once. And responses of which no double is their
  parameter (1 - p) K / (K - 1).
"""

import math
from importlib import import_module
from typing import Any

from ..checks import missing_package
from .accountant import Accountant
from .events import (
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    NonPrivateEvent,
    PoissonSampledEvent,
    PrivacyEvent,
    RandomizedResponseEvent,
    Relation,
    SelfComposedEvent,
    check_event,
    rate_and_mechanism,
    touching_leaves,
)

#: Grid of losses, in which the package rounds up.
_GRID = 1e-3
#: More steps take long on a grid that is not chosen for them.
_MOST_STEPS = 100_000


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise missing_package("a second opinion of dp-accounting", "dp-accounting", "dp-accounting") from None


def to_dp_event(event: PrivacyEvent) -> Any:
    """Turn an event into a ``DpEvent`` of dp-accounting, of the same relation.

    Raises ImportError without dp-accounting, and ValueError for an event that it has no counterpart of.
    """
    return _theirs(check_event(event), 1)


def _theirs(event: PrivacyEvent, repeats: int) -> Any:
    made = _module("dp_accounting.dp_event")
    if isinstance(event, ComposedEvent):
        return made.ComposedDpEvent([_theirs(child, repeats) for child in event.events])
    if isinstance(event, SelfComposedEvent):
        return made.SelfComposedDpEvent(_theirs(event.event, repeats * event.count), event.count)
    if isinstance(event, PoissonSampledEvent):
        return made.PoissonSampledDpEvent(event.sampling_probability, _theirs(event.event, repeats))
    if isinstance(event, NonPrivateEvent):
        return made.NonPrivateDpEvent()
    if isinstance(event, (GaussianEvent, LaplaceEvent)) and event.relation != Relation.REPLACE_ONE:
        kind = made.GaussianDpEvent if isinstance(event, GaussianEvent) else made.LaplaceDpEvent
        return kind(event.noise_multiplier)
    if isinstance(event, RandomizedResponseEvent) and repeats <= 1:
        p, k = event.truth_probability, event.n_categories
        noise = (1.0 - p) * k / (k - 1)
        for candidate in (noise, math.nextafter(noise, 0.0), math.nextafter(noise, 2.0)):
            if 0.0 < candidate <= 1.0 and 1.0 - candidate * (k - 1) / k == p:
                return made.RandomizedResponseDpEvent(candidate, k)
    raise ValueError(f"event={event.to_json()}: dp-accounting has no counterpart; use accountant='pld'")


class DpAccountingAccountant(Accountant):
    """Privacy-loss distributions by the package dp-accounting.

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "dp-accounting"), 2)
    4.38
    """

    name = "dp-accounting"
    title = "privacy-loss distribution of the dp-accounting package"
    source = "Doroshenko et al. 2022; https://github.com/google/differential-privacy"

    def _check(self, event: PrivacyEvent) -> None:
        """Refuse all but at most 10^5 Gaussian and Laplace mechanisms, on whole data or Poisson samples."""
        leaves = touching_leaves(event)
        for leaf in leaves:
            known = isinstance(rate_and_mechanism(leaf)[1], (GaussianEvent, LaplaceEvent))
            if event.relation == Relation.REPLACE_ONE or not known or sum(leaves.values()) > _MOST_STEPS:
                raise ValueError(
                    "accountant='dp-accounting' covers Gaussian and Laplace mechanisms, on whole data or Poisson "
                    f"samples, under add_remove, in at most {_MOST_STEPS} steps; use accountant='pld'"
                )

    def _compose(self, event: PrivacyEvent) -> Any:
        self._check(event)
        pld = _module("dp_accounting.pld")
        relation = _module("dp_accounting").NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = pld.PLDAccountant(relation, value_discretization_interval=_GRID)
        # Leaves have counterparts where the whole has none.
        leaves = touching_leaves(event).items()
        return accountant.compose(to_dp_event(ComposedEvent(tuple(SelfComposedEvent(leaf, n) for leaf, n in leaves))))

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon; ImportError without the package."""
        return float(self._compose(event).get_epsilon(delta))

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta, likewise."""
        return float(self._compose(event).get_delta(epsilon))
