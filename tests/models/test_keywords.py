"""The keywords that type checkers know of, beside those that the code takes: they are written in two places."""

import inspect
from dataclasses import fields

import pytest

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.lda.paper import PaperParameters as OfTopics
from vips_fast.models.logistic.paper import PaperOptions
from vips_fast.models.logistic.paper import PaperParameters as OfCoefficients
from vips_fast.models.parameters import Call, Common, Parameters
from vips_fast.models.sbn.paper import PaperParameters as OfPictures


def test_the_common_keywords_are_the_fields():
    assert set(Common.__annotations__) == {field.name for field in fields(Parameters)}


@pytest.mark.parametrize(
    "kind, known",
    [
        (LatentDirichletAllocation, OfTopics),
        (SigmoidBeliefNetwork, OfPictures),
        (BayesianLogisticRegression, OfCoefficients),
    ],
)
def test_those_of_paper_are_what_its_estimator_takes(kind, known):
    taken = set(inspect.signature(type(kind.paper()).__init__).parameters) - {"self", "n_components"}
    if kind is BayesianLogisticRegression:
        taken = taken - {"options"} | {field.name for field in fields(PaperOptions)}
    assert set(known.__annotations__) == taken


def test_prepare_takes_what_a_call_takes():
    taken = inspect.signature(PrivateEstimator.prepare).parameters.values()
    named = {p.name for p in taken if p.kind is p.KEYWORD_ONLY}
    assert set(Call.__annotations__) - {"transcript", "groups"} <= named
