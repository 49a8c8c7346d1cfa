"""Keywords of the estimators' methods. In type checkers, in signatures and in the code."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields
from typing import Any, Self

import numpy as np
import pytest

import vips_fast
from vips_fast import BayesianLogisticRegression, CountRegression, GaussianMixture, LatentDirichletAllocation
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.lda.estimator import PaperParameters as OfTopics
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.estimator import PaperParameters as OfCoefficients
from vips_fast.models.logistic.paper import PaperOptions
from vips_fast.models.parameters import Bookkeeping, Call, Common, Options
from vips_fast.models.vocabulary.estimator import Purchase


def keyword_only(function):
    return {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}


def test_what_type_checkers_know_is_what_is_taken():
    assert set(Common.__annotations__) == {field.name for field in fields(PrivateEstimator) if field.init}
    assert set(Call.__annotations__) - {"transcript", "groups", "callback"} <= keyword_only(PrivateEstimator.prepare)
    options = vars(PaperOptions()).keys() - vars(Options()).keys()
    for kind, known, more in (
        (LatentDirichletAllocation, OfTopics, set()),
        (BayesianLogisticRegression, OfCoefficients, options),
    ):
        taken = set(inspect.signature(type(kind.paper()).__init__).parameters) - {"self", "n_components"}
        assert set(known.__annotations__) == taken | more


ESTIMATORS = [
    kind
    for kind in (getattr(vips_fast, name) for name in vips_fast.__all__)
    if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
]


def _methods() -> list[tuple[type, str]]:
    names = ("fit", "partial_fit", "fit_transform", "paper", "prepare")
    return [(kind, name) for kind in ESTIMATORS for name in names if hasattr(kind, name)]


@pytest.mark.parametrize("kind, name", _methods(), ids=lambda value: getattr(value, "__name__", value))
def test_every_signature_names_its_keywords(kind, name):
    signature = inspect.signature(getattr(kind, name))
    parameters = signature.parameters.values()
    assert inspect.Parameter.VAR_KEYWORD not in {p.kind for p in parameters}
    assert all(isinstance(p.annotation, str) for p in parameters if p.name != "self") and "'" not in str(signature)
    if name in ("fit", "partial_fit", "fit_transform"):
        known = Call if name == "partial_fit" else Bookkeeping
        known = Purchase if issubclass(kind, vips_fast.PrivateVocabulary) else known
        named = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        assert named.keys() == set(known.__annotations__)
        assert all(p.default is (False if p.name == "resume" else None) for p in named.values())
        assert len(str(signature)) <= 700 and pickle.loads(pickle.dumps(getattr(kind, name))) is getattr(kind, name)


def test_a_subclass_shows_what_it_hands_on():
    class Own(GaussianMixture):
        def __init__(self, width: float = 1.0, **options: Any) -> None:
            super().__init__(**options)
            self.width = width

        def fit(self, X: Any, y: Any = None, **call: Any) -> Self:
            return super().fit(X, y, **call)

    assert [*inspect.signature(Own.fit).parameters] == [*inspect.signature(GaussianMixture.fit).parameters]
    names = {*inspect.signature(GaussianMixture).parameters} | {"width"}
    assert {*inspect.signature(Own).parameters} == names == Own().get_params().keys()


@pytest.mark.parametrize("name, value", [("largest_exposure", 6.0), ("dispersion", 2.0), ("options__prior_rate", 1.0)])
def test_a_further_call_of_another_model_is_refused(name, value):
    """What is summed belongs to the model of the first call; noise and minibatches may change."""
    X, y, exposure = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3, np.ones(60)
    model = CountRegression(largest=9, largest_exposure=5.0, noise_multiplier=3.0)
    model.partial_fit(X, y, exposure).set_params(noise_multiplier=4.0).partial_fit(X, y, exposure)
    head = model.ledger_.head
    with pytest.raises(ValueError, match="another one than in the calls before; expected"):
        model.set_params(**{name: value}).partial_fit(X, y, exposure)
    assert model.ledger_.head == head


def test_a_dict_of_options_is_the_same_as_the_class_and_stays_as_it_was():
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    given = {"relation": "replace_one", "invalid": "drop"}
    kinds = [given, LogisticOptions(**given)]
    models = [BayesianLogisticRegression(noise_multiplier=1.0, options=one) for one in kinds]
    found = [pickle.loads(pickle.dumps(model)).set_unsafe(test_key=bytes(32)).fit(X, y) for model in models]
    assert (found[0].coef_ == found[1].coef_).all() and given == {"relation": "replace_one", "invalid": "drop"}
    assert [one.privacy_.relation for one in found] == ["replace_one"] * 2
    assert models[0].set_params(options__relation=None)._options == LogisticOptions(invalid="drop")
    with pytest.raises(ValueError, match="^options: .* is not an option"):
        models[0].set_params(options={"invlid": 1, 3: 1}).set_params(options__relation=None)
    for wrong in (lambda: models[0].set_params(relation=None), lambda: BayesianLogisticRegression(relation=None)):
        with pytest.raises((ValueError, TypeError), match="relation"):
            wrong()
