"""Events as dp-accounting's. Nothing lost, equal epsilon, and refused where a figure would be a misreading."""

import warnings

import pytest

from vips_fast import accounting as acc
from vips_fast.accounting.dp_events import to_dp_event

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dp_accounting import NeighboringRelation, dp_event, pld

G, AR, RO = acc.GaussianEvent, "add_remove", "replace_one"
SAMPLED = acc.PoissonSampledEvent(0.1, G(1.2))
WITHOUT = acc.WithoutReplacementEvent(10, 100, G(2.0))
DEALT = acc.RandomAllocationEvent(10, 3, G(1.5))
THEIRS = {AR: NeighboringRelation.ADD_OR_REMOVE_ONE, RO: NeighboringRelation.REPLACE_ONE}
#: Their PLD accountant gives the same epsilon.
SUPPORTED = [
    G(1.5, AR),
    acc.LaplaceEvent(2.0, AR),
    acc.SelfComposedEvent(SAMPLED, 12),
    acc.RandomizedResponseEvent(0.75),
    acc.RandomizedResponseEvent(0.4, 5),
    acc.ComposedEvent((acc.SelfComposedEvent(SAMPLED, 7), G(3.0, AR))),
    acc.SelfComposedEvent(acc.PoissonSampledEvent(0.2, acc.LaplaceEvent(3.0)), 6),
]
MORE = [
    G(1.5),
    acc.NonPrivateEvent(),
    acc.NonPrivateEvent(RO),
    acc.ComposedEvent(()),
    acc.PoissonSampledEvent(0.2, acc.ComposedEvent((G(2.0), acc.SelfComposedEvent(G(4.0), 2)))),
    acc.SelfComposedEvent(SAMPLED, 0),
]
REFUSED = [
    G(1.5, RO),
    acc.LaplaceEvent(2.0, RO),
    acc.RandomizedResponseEvent(0.1, 17),
    acc.SelfComposedEvent(acc.RandomizedResponseEvent(0.6), 3),
    acc.ApproximateDPEvent(0.5, 1e-6, AR),
    acc.SelfComposedEvent(WITHOUT, 4),
    DEALT,
    acc.GroupEvent(SAMPLED, 3),
    acc.ComposedEvent((acc.SelfComposedEvent(SAMPLED, 7), acc.ApproximateDPEvent(0.0, 1e-7, AR))),
]


def read(theirs, relation):
    match theirs:
        case dp_event.GaussianDpEvent(noise_multiplier=z):
            return G(z, relation)
        case dp_event.LaplaceDpEvent(noise_multiplier=z):
            return acc.LaplaceEvent(z, relation)
        case dp_event.NonPrivateDpEvent():
            return acc.NonPrivateEvent(relation)
        case dp_event.RandomizedResponseDpEvent(noise_parameter=noise, num_buckets=k):
            return acc.RandomizedResponseEvent(1.0 - noise * (k - 1) / k, k)
        case dp_event.ComposedDpEvent(events=events):
            return acc.ComposedEvent(tuple(read(child, relation) for child in events))
        case dp_event.SelfComposedDpEvent(event=event, count=count):
            return acc.SelfComposedEvent(read(event, relation), count)
        case dp_event.PoissonSampledDpEvent(sampling_probability=q, event=event):
            return acc.PoissonSampledEvent(q, read(event, relation))


@pytest.mark.parametrize("event", SUPPORTED + MORE, ids=lambda e: e.to_json()[:60])
def test_nothing_is_lost(event):
    assert read(to_dp_event(event), event.relation) == event


@pytest.mark.parametrize("event", REFUSED, ids=lambda e: e.to_json()[:60])
def test_an_event_without_counterpart_is_refused(event):
    with pytest.raises(ValueError, match="no counterpart; use accountant='pld'"):
        to_dp_event(event)
    with pytest.raises(TypeError, match="privacy event"):
        to_dp_event(event.to_json())


@pytest.mark.parametrize("event", SUPPORTED, ids=lambda e: e.to_json()[:60])
def test_equal_epsilon(event):
    theirs = pld.PLDAccountant(THEIRS[event.relation]).compose(to_dp_event(event)).get_epsilon(1e-5)
    assert acc.epsilon(event, 1e-5) == pytest.approx(theirs, rel=1e-3)
