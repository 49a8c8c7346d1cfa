"""Events as dp-accounting's. Nothing lost, equal epsilon, and refused where a figure would be a misreading."""

import json
import warnings

import pytest

from vips_fast import accounting as acc
from vips_fast.accounting import dp_events
from vips_fast.accounting.dp_events import export_event, to_dp_event

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dp_accounting import NeighboringRelation, dp_event, pld, rdp
    from dp_accounting.privacy_accountant import UnsupportedEventError

G, AR, RO = acc.GaussianEvent, "add_remove", "replace_one"
SAMPLED = acc.PoissonSampledEvent(0.1, G(1.2))
WITHOUT = acc.WithoutReplacementEvent(10, 100, G(2.0))
DEALT = acc.RandomAllocationEvent(10, 3, G(1.5))

EVENTS = [
    G(1.5),
    G(1.5, AR),
    G(1.5, RO),
    acc.LaplaceEvent(2.0, AR),
    acc.LaplaceEvent(2.0, RO),
    acc.NonPrivateEvent(),
    acc.NonPrivateEvent(RO),
    acc.RandomizedResponseEvent(0.75),
    acc.RandomizedResponseEvent(0.1, 17),
    acc.RandomizedResponseEvent(1 / 3, 7),
    acc.SelfComposedEvent(acc.RandomizedResponseEvent(0.6), 3),
    acc.ApproximateDPEvent(0.5, 1e-6, AR),
    SAMPLED,
    acc.SelfComposedEvent(SAMPLED, 4),
    WITHOUT,
    acc.SelfComposedEvent(WITHOUT, 4),
    DEALT,
    acc.RandomAllocationEvent(4, 2, G(1.0), reused=True),
    acc.GroupEvent(SAMPLED, 3),
    acc.GroupEvent(DEALT, 2),
    acc.ComposedEvent(()),
    acc.ComposedEvent((acc.SelfComposedEvent(SAMPLED, 7), G(3.0, AR), acc.ApproximateDPEvent(0.0, 1e-7, AR))),
    acc.ComposedEvent((acc.RandomizedResponseEvent(0.6), G(2.0, RO), WITHOUT)),
    acc.PoissonSampledEvent(0.2, acc.ComposedEvent((G(2.0), acc.SelfComposedEvent(G(4.0), 2)))),
    acc.PoissonSampledEvent(0.2, acc.LaplaceEvent(3.0)),
    acc.SelfComposedEvent(SAMPLED, 0),
]


def test_every_type_of_event_is_tried():
    from vips_fast.accounting import events

    tried = set()

    def look(data):
        tried.add(data["type"])
        for child in [data["event"]] if "event" in data else data.get("events", []):
            look(child)

    for event in EVENTS:
        look(event.to_dict())
    assert tried == set(events._KINDS)


def read(data, relation):
    """Read an exported event: what is ours says what it is, and theirs is built from the names of their fields."""
    if data["class_name"] == "VipsFastDpEvent":
        return acc.event_from_dict(data["description"])
    made = {
        "GaussianDpEvent": lambda: G(data["noise_multiplier"], relation),
        "LaplaceDpEvent": lambda: acc.LaplaceEvent(data["noise_multiplier"], relation),
        "NonPrivateDpEvent": lambda: acc.NonPrivateEvent(relation),
        "RandomizedResponseDpEvent": lambda: acc.RandomizedResponseEvent(
            1.0 - data["noise_parameter"] * (data["num_buckets"] - 1) / data["num_buckets"], data["num_buckets"]
        ),
        "ComposedDpEvent": lambda: acc.ComposedEvent(tuple(read(child, relation) for child in data["events"])),
        "SelfComposedDpEvent": lambda: acc.SelfComposedEvent(read(data["event"], relation), data["count"]),
        "PoissonSampledDpEvent": lambda: acc.PoissonSampledEvent(
            data["sampling_probability"], read(data["event"], relation)
        ),
    }
    return made[data["class_name"]]()


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.to_json()[:60])
def test_nothing_is_lost(event):
    exported = json.loads(json.dumps(export_event(event), allow_nan=False))
    assert read(exported["event"], event.relation) == event
    # As objects of theirs go about: by name.
    named = to_dp_event(event).to_named_tuple()
    assert dp_event.DpEvent.from_named_tuple(named) == to_dp_event(event)


SUPPORTED = [
    G(1.5, AR),
    acc.LaplaceEvent(2.0, AR),
    acc.SelfComposedEvent(SAMPLED, 12),
    acc.RandomizedResponseEvent(0.75),
    acc.RandomizedResponseEvent(0.4, 5),
    acc.ComposedEvent((acc.SelfComposedEvent(SAMPLED, 7), G(3.0, AR))),
    acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, acc.LaplaceEvent(3.0)), 6),
]


@pytest.mark.parametrize("event", SUPPORTED, ids=lambda e: e.to_json()[:60])
def test_equal_epsilon(event):
    exported = export_event(event)
    relation = NeighboringRelation[exported["neighboring_relation"]]
    theirs = pld.PLDAccountant(relation).compose(to_dp_event(event)).get_epsilon(1e-5)
    assert not exported["ours"]
    assert acc.epsilon(event, 1e-5) == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("event", EVENTS, ids=lambda e: e.to_json()[:60])
def test_no_accountant_of_theirs_says_less_than_the_truth(event):
    """Their epsilon of an export is at least the lower bound here. They refuse most events of ours."""
    exported = export_event(event)
    relation = NeighboringRelation[exported["neighboring_relation"] or "ADD_OR_REMOVE_ONE"]
    orders = [1.1, 1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0]
    for make in (pld.PLDAccountant, lambda r: rdp.RdpAccountant(orders, r)):
        try:
            said = make(relation).compose(to_dp_event(event)).get_epsilon(1e-5)
        except (UnsupportedEventError, ValueError, ZeroDivisionError):
            continue
        assert not exported["ours"], "an event of ours was accounted for"
        assert said >= acc.epsilon_lower_bound(event, 1e-5) * (1.0 - 1e-3)


def test_the_trap_of_repeated_responses_is_still_there():
    """Why they are ours. Exported plainly, three responses would be stated as one. When this fails, it is mended."""
    plain = dp_event.SelfComposedDpEvent(dp_event.RandomizedResponseDpEvent(0.5, 2), 3)
    one = pld.PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(plain).get_epsilon(1e-5)
    three = acc.SelfComposedEvent(acc.RandomizedResponseEvent(0.75), 3)
    assert one < 0.5 * acc.epsilon_lower_bound(three, 1e-5)
    with pytest.raises(UnsupportedEventError):
        pld.PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(to_dp_event(three))


def test_what_is_ours_is_said():
    assert export_event(acc.ComposedEvent((DEALT, SAMPLED)))["ours"] == ["random_allocation"]
    assert export_event(SAMPLED) == {
        "neighboring_relation": "ADD_OR_REMOVE_ONE",
        "ours": [],
        "event": {
            "module_name": "dp_accounting.dp_event",
            "class_name": "PoissonSampledDpEvent",
            "sampling_probability": 0.1,
            "event": {
                "module_name": "dp_accounting.dp_event",
                "class_name": "GaussianDpEvent",
                "noise_multiplier": 1.2,
            },
        },
    }


def test_without_the_package(monkeypatch):
    monkeypatch.setattr(dp_events.importlib, "import_module", lambda name: (_ for _ in ()).throw(ImportError(name)))
    assert export_event(SAMPLED)["ours"] == []
    with pytest.raises(TypeError, match="privacy event"):
        to_dp_event("gaussian")
    with pytest.raises(ImportError, match="needs the package dp-accounting"):
        to_dp_event(SAMPLED)
