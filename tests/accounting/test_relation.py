"""The neighboring relation. One type, whose names stand for it in files, messages and arguments."""

import doctest
import json

import pytest

from vips_fast import accounting as acc
from vips_fast.accounting import Relation
from vips_fast.accounting import events as relation
from vips_fast.engine.sampling import FullSampler, make_sampler


def test_examples():
    assert doctest.testmod(relation).failed == 0 < doctest.testmod(relation).attempted


def test_a_name_and_its_relation_are_the_same_to_events():
    named, stated = (acc.GaussianEvent(2.0, r) for r in ("replace_one", Relation.REPLACE_ONE))
    assert named == stated and hash(named) == hash(stated) and repr(named) == repr(stated)
    assert named.relation is Relation.REPLACE_ONE
    assert named.to_json() == stated.to_json() == '{"noise_multiplier":2.0,"relation":"replace_one","type":"gaussian"}'
    assert acc.event_from_json(named.to_json()).relation is Relation.REPLACE_ONE
    assert json.loads(json.dumps({Relation.ADD_REMOVE: Relation.ADD_REMOVE})) == {"add_remove": "add_remove"}
    assert f"{Relation.ADD_REMOVE} {Relation.ADD_REMOVE!r}" == "add_remove 'add_remove'"


@pytest.mark.parametrize("sampling", ["full", "poisson", "without_replacement", "random_allocation"])
def test_a_sampler_has_the_relation_of_its_event(sampling):
    sampler = make_sampler(sampling, None, 100, None)
    assert isinstance(sampler.relation, Relation)
    assert sampler.event(1.0).relation is sampler.relation
    assert FullSampler(10, "replace_one").relation is Relation.REPLACE_ONE
