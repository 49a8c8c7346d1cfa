"""Logistic regression of many columns. Its statistic, its bound, its path and its read-outs."""

import functools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from ball_mean import sums_of
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from vips_fast import BayesianLogisticRegression
from vips_fast.models.forecast import HopelessWarning
from vips_fast.models.logistic import LogisticOptions

KEY = bytes(range(32))


def model(**settings):
    return BayesianLogisticRegression(**{"covariance": "spherical", "noise_multiplier": 1.0, **settings})


@functools.cache
def texts(n=2000, d=50_000, seed=0):
    """Rows of 20 words of norm 1 over d columns. The first twenty tell the label."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    # Zipf's law for the others.
    rest = np.minimum(20 + rng.zipf(1.3, (n, 17)), d - 1)
    own = rng.integers(0, 10, (n, 3)) + 10 * y[:, None]
    X = sp.csr_array((np.ones(20 * n), np.hstack([own, rest]).ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, d))
    X.sum_duplicates()
    return sp.csr_array(sp.diags_array(1 / np.sqrt(X.multiply(X).sum(axis=1))) @ X), y


def prepare(X, y, groups=None, point=None, variance=0.0, **settings):
    run = model(**settings).prepare(X, y, groups=groups)
    run.model.prepare(run.plan.mechanism, run.plan.sampler)
    if point is not None:
        run.model.restore({**run.model.state(), "point": point, "law": np.array([1.0, 0.0, variance, 0.0, 0.0])})
    return run


def sums(run):
    return sums_of(run.model, run.records) * run.plan.mechanism.spacing


def statistic(X, y, point, variance, bound=1.0, C=0.5):
    X = X * np.minimum(1, bound / np.linalg.norm(X, axis=1))[:, None]
    c = np.sqrt((X @ point) ** 2 + variance * (X**2).sum(axis=1))
    xi = np.where(c == 0, 1 / 4, np.tanh(c / 2) / (2 * np.where(c == 0, 1, c)))
    residual, most = y - 1 / 2 - xi * (X @ point), 1 / 2 + xi * abs(X @ point)
    return (np.minimum(1, C / most) * residual)[:, None] * X / (C * bound)


@pytest.mark.parametrize("variance", [0.0, 0.7, 3.0])
def test_the_statistic_is_that_of_the_equations(variance):
    rng = np.random.default_rng(1)
    X, y, point = rng.normal(size=(40, 6)), rng.integers(0, 2, 40).astype(float), rng.normal(size=7)
    given = dict(point=point, variance=variance, row_norm=2.0)
    run = prepare(X, y, **given)
    design = np.hstack([X, np.full((40, 1), 0.6)])
    each = statistic(design, y, point, variance, math.hypot(2.0, 0.6))
    assert (np.linalg.norm(each, axis=1) <= 1 + 1e-12).all()
    np.testing.assert_allclose(sums(run), each.sum(axis=0), atol=1e-5)
    # Sparse rows give the same bits.
    np.testing.assert_array_equal(sums(run), sums(prepare(sp.csr_array(X), y, **given)))


def test_many_words_are_learned_and_what_is_published_is_small():
    X, y = texts()
    fitted = model(noise_multiplier=None, epsilon=2.0, n_steps=30).set_unsafe(test_key=KEY)
    fitted.fit(X[:1500], y[:1500])
    assert fitted.score(X[1500:], y[1500:]) > 0.9
    assert fitted.coef_.shape == (1, 50_000) and fitted.covariance_.shape == (1,)
    assert fitted.credible_interval(0.9).shape == (50_000, 2) and fitted.decision_variance(X[:7]).shape == (7,)
    np.testing.assert_allclose(fitted.predict_proba(X[:9])[:, 1], expit(fitted.decision_function(X[:9])))
    assert fitted.prior_precision_ == 1.0


def test_the_variance_is_that_of_the_noise():
    """Without rows everything is noise; the mean's has the published variance."""
    X = sp.csr_array((0, 4000), dtype=float)
    fitted = model(n_records=1000, n_steps=20, fit_intercept=False, classes=[0, 1]).set_unsafe(test_key=KEY)
    fitted.fit(X, np.zeros(0, int))
    measured = float((fitted.coef_**2).mean())
    # 4,000 squares: relative standard deviation sqrt(2/4000).
    assert abs(measured / fitted.covariance_[0] - 1) < 5 * math.sqrt(2 / 4000)


@pytest.mark.parametrize(("rows", "stated", "epsilon"), [(4, 1.0, 8.0), (4, 1.0, 1e3), (4, 0.1, 1e3), (1, 0.1, 1e3)])
def test_a_rare_outcome_has_its_share(rows, stated, epsilon):
    """Of 5 %, 3 % were predicted for rows of a person that agree; beside a tenth of the records, steps went too far."""
    rng, n = np.random.default_rng(0), 6_000
    X = rng.normal(size=(n, 5))
    y = np.repeat(rng.random(n) < expit(X @ [1.5, -1.0, 0.5, 0.0, 0.0] - 4.2), rows)
    X = np.repeat(X, rows, axis=0)
    settings = dict(noise_multiplier=None, row_norm=5.0, n_steps=50, classes=[0, 1], n_records=int(stated * n))
    fitted = model(epsilon=epsilon, **settings).set_unsafe(test_key=KEY)
    p = fitted.fit(X, y.astype(int), groups=np.arange(n * rows) // rows).predict_proba(X)[:, 1]
    loss = -np.mean(np.where(y, np.log(p), np.log(1 - p)))
    assert p.mean() == pytest.approx(y.mean(), rel=0.1) and loss < 0.162


def test_without_privacy_it_goes_to_the_penalised_likelihood():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 3)) + [3.0, 0, 0]  # a direction that all rows share: long steps have to be halved
    y = (rng.random(400) < expit(X[:, 1] - 0.5 * X[:, 2])).astype(int)
    options = LogisticOptions(intercept_scaling=0.3)
    fitted = model(private=False, noise_multiplier=None, n_steps=1000, options=options).fit(X, y)
    design = np.hstack([X, np.full((400, 1), 0.3)])
    best = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10).fit(design, y).coef_[0]
    np.testing.assert_allclose(fitted._result.arrays["weights"], best, atol=0.02)
    assert fitted._result.state["law"][1] > 0


@pytest.mark.parametrize(
    ("n", "epsilon", "text", "low", "high"),
    [
        (150, 0.05, "mostly noise; columns that tell the classes cannot be found", 0.4, 0.65),
        (500, 0.1, "only the clearest columns that tell the classes can be found", 0.55, 0.9),
        (4000, 1.0, "columns that tell the classes can be found, if the records have any", 0.95, 1.01),
    ],
)
def test_a_forecast_says_whether_columns_can_rank(n, epsilon, text, low, high):
    """Its limits were fitted on other data: articles of Reuters."""
    (X, y), told = texts(8000), []
    fitted = model(noise_multiplier=None, epsilon=epsilon, delta=1e-5, n_steps=50).set_unsafe(test_key=bytes(32))
    logits = fitted.fit(X[:n], y[:n], on_forecast=told.append).decision_function(X[4000:])
    ranked = (logits[y[4000:] == 1][:, None] > logits[y[4000:] == 0]).mean()
    assert told[0].text.startswith(f"forecast: {text}") and "components" not in told[0].text
    assert (told[0].warning is HopelessWarning) == ("noise" in text)
    assert low < ranked < high
