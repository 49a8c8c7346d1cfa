"""Test intervals about persons. The squares of persons' gradients, and their use in the read-out."""

import numpy as np
import pytest
import scipy.sparse as sp
from raw_intervals import raw_intervals
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic.model import LogisticModel, SandwichModel, unit_sums


def persons(seed, n=600, m=8, spread=2.0, size=0.3):
    """Rows of persons with an effect of their own. The last of three columns varies within persons."""
    rng = np.random.default_rng(seed)
    X, groups = np.repeat(rng.uniform(-1, 1, (n, 3)), m, axis=0), np.repeat(np.arange(n), m)
    X[:, 2] = rng.uniform(-1, 1, n * m)
    own = np.repeat(spread * rng.normal(size=n), m)
    y = rng.random(n * m) < expit(X @ [1.0, 0.0, 1.0] + own)
    return size * X, y.astype(int), groups


def by_hand(X, y, groups, coef, intercept):
    """White's standard errors by persons, as in Liang & Zeger (1986), and as if rows were independent."""
    Z = np.column_stack([X, np.ones(len(X))])
    p = expit(Z @ np.append(coef, intercept))
    scores = np.zeros((groups.max() + 1, Z.shape[1]))
    np.add.at(scores, groups, (y - p)[:, None] * Z)
    bread = np.linalg.inv((Z * (p * (1 - p))[:, None]).T @ Z)
    return np.sqrt(np.diag(bread @ scores.T @ scores @ bread)), np.sqrt(np.diag(bread))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_noise_it_is_the_sandwich_by_persons(n_classes):
    """Of several classes for each against the rest."""
    X, y, groups = persons(0)
    y = np.where((y == 1) & (groups % 4 == 0), n_classes - 1, y)
    model, rows = (
        BayesianLogisticRegression(private=False, n_steps=30, classes=range(n_classes)).fit(X, y, groups=given)
        for given in (groups, None)
    )
    size = model.coef_.shape[1] + 1
    found, independent = (one.covariance_.reshape(-1, size, size) for one in (model, rows))
    for k, covariance in enumerate(found):
        robust, plain = by_hand(X, y == k + (n_classes == 2), groups, model.coef_[k], model.intercept_[k])
        np.testing.assert_allclose(np.sqrt(np.diag(covariance)), robust, rtol=0.06)
        assert robust[0] > 1.4 * plain[0] and robust[2] < 1.2 * plain[2]
        np.testing.assert_allclose(np.sqrt(np.diag(independent[k])), plain, rtol=0.06)


def test_a_large_budget_finds_the_same_intervals():
    """Noise in the squares is small here. No person's rows reach the clip."""
    X, y, groups = persons(1)
    model = BayesianLogisticRegression(row_norm=10.0, noise_multiplier=0.002, n_steps=40)
    model.set_unsafe(test_key=bytes(32)).fit(X, y, groups=groups)
    robust, _ = by_hand(X, y, groups, model.coef_[0], model.intercept_[0])
    scale = np.append(np.ones(X.shape[1]), model._constant)
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance_)) * scale, robust, rtol=0.1)


def test_intervals_cover_although_rows_of_a_person_are_alike():
    """Of 90, .9 are expected, and of those of independent rows .7. The truth is from 160,000 rows."""
    X, y, groups = persons(10_000, 20_000)
    truth, hits = BayesianLogisticRegression(private=False, n_steps=30).fit(X, y).coef_[0], 0
    for seed in range(30):
        X, y, groups = persons(seed)
        model = BayesianLogisticRegression(row_norm=4.0, epsilon=20.0, delta=1e-6, n_jobs=1)
        low, high = raw_intervals(model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y, groups=groups))
        hits += ((low <= truth) & (truth <= high)).sum()
    assert hits >= 74, hits


@pytest.mark.parametrize("kind", ["dense", "sparse", "ones"])
def test_sums_of_units_are_those_of_their_rows(kind):
    """Empty units and rows that are not finite add nothing. Their weight is 0."""
    rng = np.random.default_rng(0)
    X = np.rint(rng.normal(size=(7, 4))) if kind != "ones" else (rng.random((7, 4)) < 0.5).astype(float)
    starts, weights = np.array([0, 2, 2, 6, 7]), 100 * rng.normal(size=7)
    bad = X.copy()
    if kind != "ones":
        bad[3, X[3] != 0], weights[3] = np.nan, 0.0
    y = np.arange(7) % 2
    stage = BayesianLogisticRegression(noise_multiplier=1.0, fit_intercept=False, options={"invalid": "drop"}).prepare(
        sp.csr_array(bad) if kind != "dense" else bad, y
    )
    block = stage.records.block(np.arange(7))
    found = unit_sums(block, starts, weights)
    found = found.toarray() if sp.issparse(found) else found
    rows = np.trunc(weights[:, None] * X).astype(np.int64)
    rows[weights == 0] = 0
    assert (found == [rows[a:b].sum(axis=0) for a, b in zip(starts, starts[1:], strict=False)]).all()


@pytest.mark.parametrize("how", [{"private": False}, {"epsilon": 1e3, "delta": 1e-5}])
def test_persons_of_several_rows_have_the_predictions_and_the_gain_of_their_rows(how):
    """Their rows were added up as if a person had one: the first center said that hardly any outcome is true."""
    rng, fits = np.random.default_rng(1), []
    X = rng.uniform(-1, 1, (12_000, 3))
    y = (rng.random(12_000) < expit(X @ [1.5, -1.0, 0.0] - 1.5)).astype(int)
    for groups in (None, np.arange(12_000) // 4):
        model = BayesianLogisticRegression(row_norm=2.0, classes=[0, 1], **how)
        fits.append(model.set_unsafe(test_key=bytes(32)).fit(X, y, groups=groups))
        assert fits[-1].predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)
    np.testing.assert_allclose(fits[1].coef_, fits[0].coef_, atol=0.05)
    if "epsilon" in how:
        assert fits[1].found_gain_.gain == pytest.approx(fits[0].found_gain_.gain, abs=0.01)


def test_who_has_such_intervals():
    """Regressions of persons. Their first step has the shares of the others."""
    X, y, groups = persons(0, 20)
    assert type(BayesianLogisticRegression(noise_multiplier=1.0, n_steps=5).prepare(X, y).model) is LogisticModel
    model = BayesianLogisticRegression(noise_multiplier=1.0, n_steps=5).prepare(X, y, groups=groups).model
    assert type(model) is SandwichModel
    assert model._blocks(True) == model._blocks(False) == (0.92**0.5, (1 - 0.92) ** 0.5)
