"""Events as events of dp-accounting (``DpEvent``), and back, with nothing lost.

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
selected_allocation,
approximate_dp
===========================  ========================================================================================

``NoOpDpEvent`` is imported as an empty composition. The package dp-accounting is needed only for the objects, not
for `export_event` and `import_event`, which speak JSON.
"""

import importlib
import math
from functools import cache
from typing import Any

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
    event_from_dict,
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


def _truth(noise: float, k: int) -> float:
    return 1.0 - noise * (k - 1) / k


def _response(event: RandomizedResponseEvent) -> dict[str, Any] | None:
    """Return their event that reads back as exactly this one, or None."""
    p, k = event.truth_probability, event.n_categories
    noise = (1.0 - p) * k / (k - 1)
    for candidate in (noise, math.nextafter(noise, 0.0), math.nextafter(noise, 2.0)):
        if 0.0 < candidate <= 1.0 and _truth(candidate, k) == p:
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


_FIELDS = {
    "NoOpDpEvent": (),
    "NonPrivateDpEvent": (),
    "GaussianDpEvent": ("noise_multiplier",),
    "LaplaceDpEvent": ("noise_multiplier",),
    "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
    "ComposedDpEvent": ("events",),
    "SelfComposedDpEvent": ("event", "count"),
    "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "VipsFastDpEvent": ("description",),
}


def _in(data: Any, relation: str | None) -> PrivacyEvent:
    if not isinstance(data, dict):
        raise TypeError(f"event: expected a dictionary, got {type(data).__name__}")
    name, module = data.get("class_name"), data.get("module_name")
    if not isinstance(name, str) or name not in _FIELDS or module != (OURS if name == "VipsFastDpEvent" else THEIRS):
        raise ValueError(f"event: {name!r} of {module!r} has no counterpart; expected one of {sorted(_FIELDS)}")
    if set(data) != {"module_name", "class_name", *_FIELDS[name]}:
        raise ValueError(f"event: {name} has the items {sorted(_FIELDS[name])}, got {sorted(map(str, data))}")
    if name == "VipsFastDpEvent":
        own = event_from_dict(data["description"])
        if own.relation != relation:
            raise ValueError(f"event: {own.kind} states {own.relation!r}, expected {relation!r}")
        return own
    if name == "NoOpDpEvent":
        return ComposedEvent(())
    if name == "NonPrivateDpEvent":
        return NonPrivateEvent(relation)
    if name in ("GaussianDpEvent", "LaplaceDpEvent"):
        if relation == Relation.REPLACE_ONE:
            raise ValueError(f"event: {name} under REPLACE_ONE does not say what its noise multiplier is relative to")
        return (GaussianEvent if name == "GaussianDpEvent" else LaplaceEvent)(data["noise_multiplier"], relation)
    if name == "RandomizedResponseDpEvent":
        k = data["num_buckets"]
        plain = RandomizedResponseEvent(0.5, k)  # refuses a wrong number of categories
        return RandomizedResponseEvent(_truth(float(data["noise_parameter"]), plain.n_categories), k)
    if name == "ComposedDpEvent":
        if not isinstance(data["events"], (list, tuple)):
            raise TypeError("event: ComposedDpEvent has a list of events")
        return ComposedEvent(tuple(_in(child, relation) for child in data["events"]))
    inner = _in(data["event"], relation)
    if name == "SelfComposedDpEvent":
        return SelfComposedEvent(inner, data["count"])
    return PoissonSampledEvent(data["sampling_probability"], inner)


def import_event(data: Any) -> PrivacyEvent:
    """Read an event from the JSON of `export_event`, without ``ours`` too.

    Raises TypeError or ValueError if `data` is no such dictionary, or an event of theirs has no counterpart here.
    """
    known = {theirs: relation for relation, theirs in _RELATIONS.items()}
    if not isinstance(data, dict) or "event" not in data:
        raise TypeError("event: expected a dictionary with 'neighboring_relation' and 'event'")
    relation = data.get("neighboring_relation")
    if relation is not None and relation not in known:
        raise ValueError(f"neighboring_relation={relation!r}: expected {sorted(filter(None, known))} or None")
    return _in(data["event"], known[relation])


# -------------------------------------------------------------------- objects


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        from ..checks import missing_package

        raise missing_package("an event of dp-accounting", "dp-accounting", "dp-accounting") from None


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


def from_dp_event(dp_event: Any, relation: str | None = Relation.ADD_REMOVE) -> PrivacyEvent:
    """Return the event that a ``DpEvent`` stands for under `relation`.

    ``from_dp_event(to_dp_event(event), event.relation) == event`` for every event. Raises ValueError for an event of
    theirs without a counterpart here; TypeError for other objects; ImportError without dp-accounting.
    """
    if relation not in _RELATIONS:
        raise ValueError(f"relation={relation!r}: expected 'add_remove', 'replace_one' or None")
    return _in(_named_of(dp_event), relation)


def _named_of(dp_event: Any) -> dict[str, Any]:
    if not isinstance(dp_event, _module(THEIRS).DpEvent):
        raise TypeError(f"dp_event: expected a DpEvent, got {type(dp_event).__name__}")
    out: dict[str, Any] = {"module_name": type(dp_event).__module__, "class_name": type(dp_event).__name__}
    out |= {field.name: getattr(dp_event, field.name) for field in _module("attr").fields(type(dp_event))}
    if "event" in out:
        out["event"] = _named_of(out["event"])
    if "events" in out:
        out["events"] = [_named_of(one) for one in out["events"]]
    return out
