"""Audits with persons as units. Persons are protected as records are, and faults for persons are caught."""

from dataclasses import replace

import faults
import pytest
from ball_mean import Mean
from seams import failing_checks

from vips_fast import (
    BayesianLogisticRegression,
    ClassConditionalNetwork,
    LatentDirichletAllocation,
    SigmoidBeliefNetwork,
)
from vips_fast.audit import Sizes, conjugate_adapter
from vips_fast.data import groups
from vips_fast.models.lda import LdaOptions

# D: mu = 1 is known to +- 0.2 from 1,200 releases a side. E: as in test_mutants.py.
SIZES = Sizes(pairs=60, records=20, draws=200_000, releases=1_200, runs=160, rows=2**17)
LOGISTIC = BayesianLogisticRegression()
MODELS = {
    "lda": LatentDirichletAllocation(2),
    "lda_any_word": LatentDirichletAllocation(2, options=LdaOptions(word_clip=1.0, rows_per_group=5)),
    "logistic": LOGISTIC,
    "logistic_replace": BayesianLogisticRegression(options={"relation": "replace_one"}, sampling="full"),
    "logistic_uncentered": BayesianLogisticRegression.paper(sensitivity="proven", options={"relation": "replace_one"}),
    "logistic_classes": BayesianLogisticRegression(classes=[0, 1, 2]),
    "network": SigmoidBeliefNetwork(3, options={"rows_per_group": 5}),
    "network_classes": ClassConditionalNetwork(2),
}


def failed(audited, layer, rows=7, sizes=SIZES, **faulty):
    """Names of the checks that fail."""
    return failing_checks(audited, layer, sizes, rows, **faulty)


@pytest.mark.parametrize("layer", "AB")
@pytest.mark.parametrize("name", MODELS)
def test_persons_pass(name, layer):
    assert failed(MODELS[name], layer) == set()


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_persons_of_any_number_of_rows(rows):
    assert not any(failed(MODELS[name], "A", rows) for name in ("logistic", "logistic_replace", "network"))


def test_own_models_pass():
    adapter = conjugate_adapter(Mean(), [[0.9, 0.0], [0.0, -0.9], [0.3, 0.4]])
    assert failed(adapter, "AB") == set()
    assert "distance of neighbors" in failed(adapter, "A", model=faults.ClipsRows)


@pytest.mark.parametrize("name", ["logistic", "network"])
def test_what_an_attacker_measures(name):
    """Layer D on a worst-case person of 50 rows, and whole runs."""
    assert failed(MODELS[name], "D", 50) == set()
    assert failed(MODELS[name], "E", 3, replace(SIZES, runs=60)) == set()


@pytest.mark.parametrize("name", ["logistic", "network"])
def test_everything_public_follows_from_the_releases(name):
    assert failed(MODELS[name], "G") == set()


@pytest.mark.parametrize("name", ["lda_any_word", "logistic", "network"])
@pytest.mark.parametrize("fault", [faults.ClipsRows, faults.SplitsPersons])
def test_a_person_that_counts_more_than_once(name, fault):
    assert "distance of neighbors" in failed(MODELS[name], "A", model=fault)


def test_a_person_whose_label_is_spelled_in_several_ways(monkeypatch):
    """Labels that are compared as they are. Each spelling is a unit of its own."""
    monkeypatch.setattr(groups, "canonical_label", lambda label: label)
    found = failed(LOGISTIC, "A")
    assert found and all(name.startswith("distance of") for name in found)


def test_a_cut_that_depends_on_other_persons():
    model = BayesianLogisticRegression(options={"rows_per_group": 3})
    assert failed(model, "B") == set()
    assert {"alone and together", "any chunks", "any shards"} <= failed(model, "B", model=faults.CutsByCompany)


def test_squares_of_gradients_beyond_the_bound():
    assert any(name.startswith("distance of") for name in failed(faults.LoudSquares(), "A"))


def test_a_rate_from_rows():
    assert {"public facts", "number of rows"} <= failed(faults.RateFromRows(), "A")
