"""Events: immutable, canonical JSON, relations, bad input."""

import json
from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest
from events import QUIET
from hypothesis import given
from hypothesis import strategies as st

from vips_fast import accounting as acc
from vips_fast.accounting import Relation
from vips_fast.engine.sampling import FullSampler, make_sampler


def test_immutable():
    event = acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0))
    with pytest.raises(FrozenInstanceError):
        event.sampling_probability = 0.01
    with pytest.raises(FrozenInstanceError):
        acc.GaussianEvent(1.0).noise_multiplier = 2.0


def test_sampled_event_gives_its_relation_to_the_mechanism():
    assert acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0)).event.relation == "add_remove"
    inner = acc.WithoutReplacementEvent(1, 10, acc.SelfComposedEvent(acc.GaussianEvent(1.0), 2)).event
    assert inner.relation == "replace_one"


def test_relations_do_not_mix():
    poisson = acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0))
    fixed = acc.WithoutReplacementEvent(1, 10, acc.GaussianEvent(1.0))
    for pair in ((poisson, fixed), (poisson, acc.GaussianEvent(1.0)), (acc.GaussianEvent(1.0, "replace_one"), poisson)):
        with pytest.raises(ValueError, match="different neighboring relations"):
            acc.ComposedEvent(pair)
    with pytest.raises(ValueError, match="add_remove.*only"):
        acc.PoissonSampledEvent(0.1, acc.GaussianEvent(1.0, "replace_one"))
    with pytest.raises(ValueError, match="replace_one.*only"):
        acc.WithoutReplacementEvent(1, 10, acc.GaussianEvent(1.0, "add_remove"))
    with pytest.raises(ValueError, match="add_remove.*only"):
        acc.PoissonSampledEvent(0.1, acc.RandomizedResponseEvent(0.7))


G, many = acc.GaussianEvent, acc.SelfComposedEvent


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: acc.WithoutReplacementEvent(11, 10, G(1.0)), ValueError, "sample_size=11: .*10"),
        (lambda: acc.RandomizedResponseEvent(0.2, 3), ValueError, "truth_probability"),
        (lambda: acc.PoissonSampledEvent(0.1, acc.PoissonSampledEvent(0.1, G(1.0))), ValueError, "one mechanism"),
        (lambda: acc.event_from_dict({"type": "gauss"}), ValueError, "unknown event type"),
        (lambda: acc.event_from_dict({"type": "gaussian", "noise_multiplier": 1.0}), ValueError, "keys"),
        (lambda: acc.event_from_dict({"type": "composed", "events": "none"}), TypeError, "events must be a list"),
        (lambda: acc.RandomAllocationEvent(3, 1, acc.LaplaceEvent(1.0)), ValueError, "holds Gaussian events only"),
        (lambda: acc.GroupEvent(G(1.0), 2), ValueError, "a sampled Gaussian event.*use group_event"),
        (
            lambda: acc.GroupEvent(acc.PoissonSampledEvent(1.0, G(1.0)), 2),
            ValueError,
            "neither empty nor all the data; use group_event",
        ),
        (lambda: acc.epsilon(many(many(G(1e9), 2**40), 2**40), 0.1), ValueError, "repetitions in all"),
    ],
)
def test_bad_combinations(make, error, match):
    with pytest.raises(error, match=match):
        make()


@QUIET
@given(st.integers(1, 2**64), st.data())
def test_probability_rounds_up(denominator, data):
    numerator = data.draw(st.integers(0, denominator))
    value = acc.round_up_probability(numerator, denominator)
    exact = Fraction(numerator, denominator)
    assert Fraction(value) >= exact
    # One unit in the last place is 2^-52 of the value.
    assert Fraction(value) <= exact * (1 + Fraction(1, 2**52))


def test_a_name_and_its_relation_are_the_same_to_events():
    named, stated = (acc.GaussianEvent(2.0, r) for r in ("replace_one", Relation.REPLACE_ONE))
    assert named == stated and hash(named) == hash(stated) and repr(named) == repr(stated)
    assert named.relation is Relation.REPLACE_ONE
    assert named.to_json() == stated.to_json() == '{"noise_multiplier":2.0,"relation":"replace_one","type":"gaussian"}'
    assert acc.event_from_dict(named.to_dict()).relation is Relation.REPLACE_ONE
    assert json.loads(json.dumps({Relation.ADD_REMOVE: Relation.ADD_REMOVE})) == {"add_remove": "add_remove"}
    assert f"{Relation.ADD_REMOVE} {Relation.ADD_REMOVE!r}" == "add_remove 'add_remove'"


@pytest.mark.parametrize("sampling", ["full", "poisson", "without_replacement", "random_allocation"])
def test_a_sampler_has_the_relation_of_its_event(sampling):
    sampler = make_sampler(sampling, None, 100, None)
    assert isinstance(sampler.relation, Relation)
    assert sampler.event(1.0).relation is sampler.relation
    assert FullSampler(10, "replace_one").relation is Relation.REPLACE_ONE
