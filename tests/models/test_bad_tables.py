"""Tables as people have them: a right fit, or one line with the column and a remedy."""

import warnings
from html import unescape

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.models.logistic.effects import Told
from vips_fast.report import html_report, part_of
from vips_fast.report.parts.coefficients import effect_lines

N = 3000
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (N, 3))
Y = (RNG.random(N) < expit(2 * X[:, 0])).astype(int)


def with_second(column):
    return np.column_stack([X[:, 0], column, X[:, 2]])


TABLES = {
    "a column of zeros": (with_second(np.zeros(N)), "x2"),
    "a column of one value": (with_second(np.full(N, 0.7)), "x2"),
    "a column that tells the label": (with_second(2.0 * Y - 1), "x2"),
    "a value with one label": (with_second((RNG.random(N) < 0.05) * Y), "x2"),
    "only zeros": (np.zeros((N, 3)), "x1, x2, x3"),
    "only zeros, sparse": (sparse.csr_array((N, 3)), "x1, x2, x3"),
}


def fitted(table, y, kind=BayesianLogisticRegression, **settings):
    settings = {"epsilon": 8.0, "delta": 1e-5, "row_norm": 2.0, "n_jobs": 1, **settings}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = kind(**settings).set_unsafe(test_key=bytes(32)).fit(table, y)
    texts = [str(one.message) for one in said if one.category is not ResourceWarning]
    return model, [text for text in texts if not text.startswith(("X's columns have", "row_norm="))]


@pytest.mark.parametrize("name", TABLES)
def test_a_column_that_says_nothing_is_named_with_a_remedy(name):
    table, columns = TABLES[name]
    model, said = fitted(table, Y, classes=[0, 1])
    assert np.isfinite(model.coef_).all() and np.isfinite(model.predict_proba(table)).all()
    assert len(said) == 1 and "expected" in said[0], said
    assert all(column in said[0] for column in columns.split(", "))
    known = {one.name for one in Told.of(model).known}
    assert not known & set(columns.split(", "))
    if "only" not in name and "tells" not in name:
        one = model.effects()[0]
        assert one.log_ratio.low > 0.8 and one.log_ratio.high < 4


@pytest.mark.parametrize("y", [np.zeros(N, int), np.ones(N, int)])
def test_an_outcome_of_one_class_has_no_effects(y):
    model, said = fitted(X, y, classes=[0, 1])
    told = Told.of(model)
    assert not told.known and told.absent == [str(1 - y[0])] and model.verdict_.worth in ("unclear", "no better")
    assert len(said) == 1 and f"classes: {1 - y[0]} occurs in hardly any record" in said[0] and "expected" in said[0]
    with pytest.raises(ValueError, match="y has 1 class: expected 2, or classes= that states them"):
        fitted(X, y)


def test_counts_without_an_event_have_no_effects():
    model, said = fitted(X, np.zeros(N, int), CountRegression)
    assert not Told.of(model).known and model.verdict_.worth in ("unclear", "no better"), model.verdict_
    assert any("3 of 3" in text for text in said)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "n, row_norm, spent",
    [
        (60, 2.0, {"noise_multiplier": 1e5}),
        # Rows that are far shorter than their bound, so that noise hides all of their second moment.
        (500, 50.0, {"epsilon": 1.0}),
    ],
)
@pytest.mark.parametrize("kind", ["labels", "three", "counts"])
def test_no_noise_ends_what_comes_after_the_charge(kind, n, row_norm, spent):
    """Findings, verdict, list, page and file are made from any releases: noise may leave no record and no curvature."""
    settings = {"row_norm": row_norm, "n_jobs": 1, **spent}
    for seed in (0, 4):  # with the last one, noise leaves counts no curvature at all
        if kind == "counts":
            model, y = CountRegression(largest=30, **settings), np.random.default_rng(seed).poisson(0.2, n)
        else:
            classes = [0, 1] if kind == "labels" else [0, 1, 2]
            model, y = BayesianLogisticRegression(classes=classes, **settings), np.arange(n) % len(classes) * (n > 60)
        model.set_unsafe(test_key=seed.to_bytes(32)).fit(X[:n], y)
        names = ["a", "b", "c"]
        assert model.verdict_.text and all(effect_lines(model, names)) and part_of(model).text(model, names)
        assert model.verdict_.text in unescape(html_report(model)) and np.isfinite(model.found_gain_).all()
        assert np.isfinite(model.coef_).all()


def test_a_rare_class_that_a_value_tells_is_not_called_absent():
    """The curvature of its records is next to nothing, as that of a class without records is."""
    y = (RNG.random(N) < 0.05).astype(int)
    table = np.column_stack([y, RNG.random(N) < 0.5]).astype(float)
    model, said = fitted(table, y, classes=[0, 1])
    assert not Told.of(model).absent and not any("hardly any record" in text for text in said), said


def test_unknown_effects_of_several_classes_name_their_class():
    """The same column is known of another class."""
    y = (RNG.random((N, 1)) > [0.5, 0.95]).sum(axis=1)
    told = next(text for text in fitted(0.3 * X, y, classes=[0, 1, 2], epsilon=1.0)[1] if text.startswith("effects:"))
    named = told.partition("(")[2].partition(")")[0].split(", ")
    assert all(name[:3] in ("0: ", "1: ", "2: ", "…") for name in named), told
