"""The package dp-accounting: events as its events (``DpEvent``), with nothing lost, and its second opinion.

A ``DpEvent`` does not state its neighboring relation, an argument of their accountants; here it stands beside it. Some
events have no class in dp-accounting with the same meaning, or an accountant of theirs (0.6) reads it otherwise. Such
an event is wrapped in `VipsFastDpEvent`, which is *ours*. Their accountants refuse it, so that no figure comes of a
misreading.

===========================  ========================================================================================
event here                   there
===========================  ========================================================================================
gaussian, laplace            ``GaussianDpEvent``, ``LaplaceDpEvent``; ours under ``"replace_one"``, where their PLD
                             accountant reads the noise multiplier over a norm bound and their RDP accountant over
                             the sensitivity, which is up to twice that
randomized_response          ``RandomizedResponseDpEvent``, whose parameter is (1 - p) K / (K - 1); ours if repeated:
                             their PLD accountant composes repeated responses once. Ours, too, if no double is
                             that parameter
poisson_sampled, composed,   ``PoissonSampledDpEvent``, ``ComposedDpEvent``, ``SelfComposedDpEvent``
self_composed
non_private                  ``NonPrivateDpEvent``
without_replacement          ours: theirs leaves open, too, the unit of the noise multiplier
random_allocation, group,    ours: they have none
approximate_dp
===========================  ========================================================================================

`export_event` gives JSON, and does not need the package.
"""

import importlib
import math
from functools import cache
from typing import Any

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

THEIRS, OURS = "dp_accounting.dp_event", "vips_fast.accounting.dp_events"
_RELATIONS: dict[str | None, str | None] = {
    None: None,
    Relation.ADD_REMOVE: "ADD_OR_REMOVE_ONE",
    Relation.REPLACE_ONE: "REPLACE_ONE",
}


def _named(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"module_name": THEIRS, "class_name": name, **fields}


def _ours(event: PrivacyEvent) -> dict[str, Any]:
    return {"module_name": OURS, "class_name": "VipsFastDpEvent", "description": event.to_dict()}


def _response(event: RandomizedResponseEvent) -> dict[str, Any] | None:
    """Return their event that reads back as exactly this one, or None."""
    p, k = event.truth_probability, event.n_categories
    noise = (1.0 - p) * k / (k - 1)
    for candidate in (noise, math.nextafter(noise, 0.0), math.nextafter(noise, 2.0)):
        if 0.0 < candidate <= 1.0 and 1.0 - candidate * (k - 1) / k == p:
            return _named("RandomizedResponseDpEvent", noise_parameter=candidate, num_buckets=k)
    return None


def _out(event: PrivacyEvent, repeats: int) -> dict[str, Any]:
    if isinstance(event, ComposedEvent):
        return _named("ComposedDpEvent", events=[_out(child, repeats) for child in event.events])
    if isinstance(event, SelfComposedEvent):
        return _named("SelfComposedDpEvent", event=_out(event.event, repeats * event.count), count=event.count)
    if isinstance(event, PoissonSampledEvent):
        inner = _out(event.event, repeats)
        return _named("PoissonSampledDpEvent", sampling_probability=event.sampling_probability, event=inner)
    if isinstance(event, NonPrivateEvent):
        return _named("NonPrivateDpEvent")
    if isinstance(event, (GaussianEvent, LaplaceEvent)) and event.relation != Relation.REPLACE_ONE:
        name = "GaussianDpEvent" if isinstance(event, GaussianEvent) else "LaplaceDpEvent"
        return _named(name, noise_multiplier=event.noise_multiplier)
    if isinstance(event, RandomizedResponseEvent) and repeats == 1:
        return _response(event) or _ours(event)
    return _ours(event)


def export_event(event: PrivacyEvent) -> dict[str, Any]:
    """Return the event as JSON in the terms of dp-accounting.

    ``neighboring_relation`` is the name of a member of their ``NeighboringRelation``, or None if the event states
    no relation. ``event`` has the items of their ``DpEvent.to_named_tuple``. ``ours`` lists the types of the events in
    it that dp-accounting cannot account for. Raises TypeError if `event` is none.
    """
    named = _out(check_event(event), 1)
    found: set[str] = set()
    stack = [named]
    while stack:
        one = stack.pop()
        if one["module_name"] == OURS:
            found.add(one["description"]["type"])
        stack += [one["event"]] if "event" in one else one.get("events", [])
    return {"neighboring_relation": _RELATIONS[event.relation], "event": named, "ours": sorted(found)}


def _module(name: str, what: str = "an event of dp-accounting") -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        from ..checks import missing_package

        raise missing_package(what, "dp-accounting", "dp-accounting") from None


@cache
def _own_class() -> Any:
    attr = _module("attr")
    unsupported: Any = _module(THEIRS).UnsupportedDpEvent

    @attr.s(frozen=True, slots=True, auto_attribs=True)
    class VipsFastDpEvent(unsupported):  # type: ignore[misc]  # of a package without types
        """An event that dp-accounting has no class for; its accountants refuse it."""

        #: `PrivacyEvent.to_dict`. A text would not pass through their named tuples, which take it for a list.
        description: dict[str, Any]

    VipsFastDpEvent.__module__, VipsFastDpEvent.__qualname__ = OURS, "VipsFastDpEvent"
    return VipsFastDpEvent


def __getattr__(name: str) -> Any:
    # Their ``DpEvent.from_named_tuple`` looks the class up by the name of its module.
    if name == "VipsFastDpEvent":
        return _own_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _object(named: dict[str, Any]) -> Any:
    fields = {key: value for key, value in named.items() if key not in ("module_name", "class_name")}
    if "event" in fields:
        fields["event"] = _object(fields["event"])
    if "events" in fields:
        fields["events"] = [_object(one) for one in fields["events"]]
    cls = _own_class() if named["module_name"] == OURS else getattr(_module(THEIRS), named["class_name"])
    return cls(**fields)


def to_dp_event(event: PrivacyEvent) -> Any:
    """Turn an event into a ``DpEvent`` of dp-accounting, of the same relation.

    Raises ImportError without dp-accounting; TypeError if `event` is not an event.
    """
    return _object(export_event(event)["event"])


#: Grid of losses, in which the package rounds up.
_GRID = 1e-3
#: More steps take long on a grid that is not chosen for them.
_MOST_STEPS = 100_000


class DpAccountingAccountant(Accountant):
    """Privacy-loss distributions by the package dp-accounting.

    >>> from vips_fast.accounting import GaussianEvent, epsilon
    >>> round(epsilon(GaussianEvent(1.0), 1e-5, "dp-accounting"), 2)
    4.38
    """

    name = "dp-accounting"
    title = "privacy-loss distribution of the dp-accounting package"
    source = "Doroshenko et al. 2022; https://github.com/google/differential-privacy"

    def check(self, event: PrivacyEvent) -> None:
        """Accept at most 10^5 Gaussian and Laplace mechanisms, on whole data or Poisson samples."""
        leaves = touching_leaves(event)
        for leaf in leaves:
            known = isinstance(rate_and_mechanism(leaf)[1], (GaussianEvent, LaplaceEvent))
            if event.relation == Relation.REPLACE_ONE or not known or sum(leaves.values()) > _MOST_STEPS:
                raise ValueError(
                    "accountant='dp-accounting' covers Gaussian and Laplace mechanisms, on whole data or Poisson "
                    f"samples, under add_remove, in at most {_MOST_STEPS} steps; use accountant='pld'"
                )

    def _compose(self, event: PrivacyEvent) -> Any:
        self.check(event)
        pld = _module("dp_accounting.pld", "accountant='dp-accounting'")
        relation = _module("dp_accounting").NeighboringRelation.ADD_OR_REMOVE_ONE
        accountant = pld.PLDAccountant(relation, value_discretization_interval=_GRID)
        # Leaves have equivalents for events that are ours.
        leaves = touching_leaves(event).items()
        return accountant.compose(to_dp_event(ComposedEvent(tuple(SelfComposedEvent(leaf, n) for leaf, n in leaves))))

    def epsilon(self, event: PrivacyEvent, delta: float) -> float:
        """Bound epsilon; ImportError without the package."""
        return float(self._compose(event).get_epsilon(delta))

    def delta(self, event: PrivacyEvent, epsilon: float) -> float:
        """Bound delta, likewise."""
        return float(self._compose(event).get_delta(epsilon))
