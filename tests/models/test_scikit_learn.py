"""The estimators among scikit-learn's own. Its checks, pipelines, searches, output and HTML."""

import warnings

import numpy as np
import pandas
import pytest
import scipy.sparse as sp
import sklearn
from cases import EVERY
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, UnsetMetadataPassedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from vips_fast import (
    BayesianLogisticRegression,
    ConjugateEstimator,
    LatentDirichletAllocation,
    PrivateVocabulary,
    SigmoidBeliefNetwork,
)
from vips_fast.engine.budget import Budget, BudgetExceededError

#: Randomness that is known, so that a check of a private fit cannot fail by chance.
KEY = b"k" * 32


def rounded(X, to):
    """The checks draw real numbers; two models take others, and may still refuse their input."""
    if sp.issparse(X):
        rows = X.tocsr(copy=True)
        rows.data = rounded(rows.data, to)
        return rows.asformat(X.format)
    X = np.asarray(X)
    X = X.astype(float) if X.dtype == object else X
    if X.dtype.kind not in "fiu":
        return X
    return np.where(np.isfinite(X) & (X >= 0), to(X), X)


class Counts(LatentDirichletAllocation):
    _test_key = KEY

    def _read(self, X, y=None):
        return super()._read(rounded(X, np.floor), y)

    def _posterior(self, X):
        return super()._posterior(rounded(X, np.floor))


class Bits(SigmoidBeliefNetwork):
    _test_key = KEY

    def _records(self, Y, *rest, **named):
        return super()._records(rounded(Y, lambda Y: Y > 0.5), *rest, **named)


class Classifier(BayesianLogisticRegression):
    _test_key = KEY


_SIGN = "our message names what is expected, counts or 0 and 1, in place of 'Negative values in data'"
_CLASSES = "classes are a parameter, public before the first call, and no keyword of partial_fit"
_LOGISTIC = {
    "check_estimators_empty_data_messages": "a table without columns has a model, that of the intercept",
    "check_n_features_in_after_fitting": _CLASSES,
    "check_estimators_partial_fit_n_features": _CLASSES,
    "check_supervised_y_2d": "a column of labels is refused, not flattened with a warning",
    "check_classifier_not_supporting_multiclass": "our message says how more than two classes are stated",
}
_NETWORK = {
    "check_positive_only_tag_during_fit": _SIGN,
    "check_n_features_in_after_fitting": "our message says Y, as the parameter is called, in place of X",
}

#: Estimator, checks that are not passed and why, and how many are passed at least.
CHECKED = {
    "topics": (Counts(3, private=False, doc_length=20, n_steps=3), {"check_positive_only_tag_during_fit": _SIGN}, 44),
    "network": (Bits(3, private=False, n_steps=4), _NETWORK, 45),
    "classifier": (Classifier(private=False), _LOGISTIC, 48),
    "private classifier": (Classifier(noise_multiplier=0.01, n_steps=5), _LOGISTIC, 45),
}


@pytest.mark.parametrize("name", CHECKED)
def test_checks_of_scikit_learn(name):
    estimator, expected, least = CHECKED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small data, repeated fits
        results = check_estimator(estimator, on_skip=None, on_fail=None, expected_failed_checks=expected)
    assert not [(r["check_name"], repr(r["exception"])) for r in results if r["status"] == "failed"]
    # Strike an exception from the list when it is obsolete.
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(expected)
    assert sum(r["status"] == "passed" for r in results) >= least


@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_has_tags_and_a_count_of_steps(name):
    make, data = EVERY[name]
    model = make()
    assert get_tags(model).non_deterministic and get_tags(make(private=False)).non_deterministic is False
    if not isinstance(model, ConjugateEstimator):  # which it takes a compiler to fit
        assert model.fit(*data()).n_iter_ == model.n_steps_ and model.n_features_in_ == np.shape(data()[0])[1]


def rows(n=120):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 2))
    return X, (X[:, 0] > 0).astype(int), np.arange(n) // 3


def classifier(**options):
    return BayesianLogisticRegression(
        **{"n_steps": 1, "noise_multiplier": 8.0, "delta": 1e-5, "classes": [0, 1], **options}
    )


def test_every_fit_of_a_grid_search_charges_the_budget(tmp_path):
    X, y, _ = rows()
    grid = {"row_norm": [0.5, 1.0], "sampling": np.array(["full"])}  # a string of NumPy
    search = GridSearchCV(classifier(), grid, cv=3)
    budget = Budget.create(tmp_path / "b", epsilon=9.0, delta=1e-5, dataset="d")
    search.fit(X, y, budget=budget)
    # And the last one, to all rows.
    assert [run["drawn"] for run in budget.show()["runs"]] == [1] * (2 * 3 + 1)
    assert budget.spent > search.best_estimator_.privacy_.epsilon
    limit = 1.2 * classifier().fit(X, y).privacy_.epsilon
    small = Budget.create(tmp_path / "small", epsilon=limit, delta=1e-5, dataset="d")
    with pytest.warns(FitFailedWarning), pytest.raises(BudgetExceededError):
        search.fit(X, y, budget=small)
    assert [run["drawn"] for run in small.show()["runs"]] == [1] and small.spent <= limit


def test_groups_reach_every_fit_or_are_refused():
    X, y, groups = rows()
    how = {"groups": groups, "params": {"groups": groups}, "cv": GroupKFold(3), "return_estimator": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # three fits without a budget
        found = cross_validate(classifier(), X, y, **how)
    fitted = [("person", 26), ("person", 27), ("person", 27)]  # 40 persons in three folds
    del how["groups"]
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            cross_validate(classifier(), X, y, **how)
        piped = make_pipeline(FunctionTransformer(), clone(classifier().set_fit_request(groups=True, unit="who")))
        piped.fit(X, y, groups=groups, who="patient")
    with pytest.raises(TypeError, match="'grups' is not a keyword of fit"):
        classifier().set_fit_request(grups=True)
    assert [(one.privacy_.unit, one.privacy_.n_records) for one in found["estimator"]] == fitted
    assert (piped[-1].privacy_.unit, piped[-1].privacy_.n_records) == ("patient", 40)


def test_a_pipeline_from_texts_to_named_columns():
    texts = ["a rose is a rose", "a pear is no rose"] * 60
    topics = LatentDirichletAllocation(2, noise_multiplier=1.0, n_steps=2, doc_length=8)
    piped = make_pipeline(PrivateVocabulary(noise_multiplier=1.0), topics).fit(texts)
    assert piped.transform(texts).shape == (120, 2)
    framed = (
        clone(topics.set_output(transform="pandas")).fit(piped[0].transform(texts)).transform(piped[0].transform(texts))
    )
    assert isinstance(framed, pandas.DataFrame) and list(framed) == list(piped[1].get_feature_names_out())
    with sklearn.config_context(transform_output="pandas"):
        assert isinstance(piped[1].transform(piped[0].transform(texts)), pandas.DataFrame)
        default = topics.set_output(transform="default").fit(piped[0].transform(texts))
        assert isinstance(default.transform(piped[0].transform(texts)), np.ndarray)
    shown = piped._repr_html_()
    assert "LatentDirichletAllocation" in shown and "PrivateVocabulary" in shown
    assert "differential privacy" in piped[1]._repr_html_()
