"""Linear regression from one release. Least squares, intervals that know the noise, and bounds."""

from importlib import import_module

import numpy as np
import pytest
from linear_regression import LinearRegression

#: Least squares: one step without noise.
PLAIN = dict(private=False, learning_decay=0, n_steps=1)


def line(n=20_000, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) + 0.5 * rng.normal(size=(n, 1))) / d
    truth = np.array([2.0, -1.0, 0.5, 0.0])[:d]
    return X, X @ truth + 0.5 + 0.3 * rng.normal(size=n), truth


def test_linear_regression_is_least_squares_without_noise():
    """Scikit-learn's coefficients, and the textbook covariance s^2 (X^T X)^-1. Longer rows weigh less."""
    linear_model = import_module("sklearn.linear_model")
    X, y, _ = line()
    ours = LinearRegression(radius=10.0, largest=10.0, precision=1e-9, **PLAIN).fit(X, y)
    theirs = linear_model.LinearRegression().fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose([ours.intercept_], [theirs.intercept_], atol=2e-3)
    ones = np.column_stack([X, np.ones(len(X))])
    textbook = np.linalg.inv(ones.T @ ones) * (y - theirs.predict(X)).var()
    np.testing.assert_allclose(ours.covariance_, textbook, rtol=0.02, atol=1e-6)
    np.testing.assert_allclose(ours.predict(X[:5]), theirs.predict(X[:5]), atol=2e-3)
    weights = np.minimum(1, 0.3 / np.linalg.norm(X, axis=1))
    short = LinearRegression(radius=0.3, largest=10.0, precision=1e-9, **PLAIN).fit(X, y)
    theirs = linear_model.LinearRegression().fit(X, y, sample_weight=weights**2)
    np.testing.assert_allclose(short.coef_, theirs.coef_, atol=5e-3)
    through = LinearRegression(radius=10.0, largest=10.0, fit_intercept=False, **PLAIN).fit(X, y)
    assert through.intercept_ == 0 and through.covariance_[-1].any() == 0
    for bad in (None, np.zeros((20_000, 2))):
        with pytest.raises(ValueError, match="expected numbers"):
            LinearRegression().fit(X, bad)
    with pytest.raises(ValueError, match="level=0"):
        ours.credible_interval(0)


def test_the_variance_of_linear_regression_is_of_rows():
    """Persons of several rows, and rows that are scaled down, have the same."""
    X, y, _ = line()
    for radius in (10.0, 0.3):
        for groups in (None, np.arange(len(X)) // 4):
            model = LinearRegression(radius=radius, largest=10.0, **PLAIN).fit(X, y, groups=groups)
            np.testing.assert_allclose(model.parameters_[3], 0.09, rtol=0.04)


def test_intervals_of_linear_regression_know_the_noise():
    """Fewer than 120 of 160 intervals of 90 % fail.

    They hold the truth with a probability below 1e-6; noise ignored, 30 do.
    """
    hits = plain = 0
    for seed in range(40):
        X, y, truth = line(4000, seed=seed)
        model = LinearRegression(largest=3.0, epsilon=1.0).set_unsafe(test_key=bytes([seed]) * 32).fit(X, y)
        low, high = model.credible_interval().T
        hits += ((low < truth) & (truth < high)).sum()
        ones = np.column_stack([X, np.ones(len(X))])
        half = 1.645 * 0.3 * np.sqrt(np.diag(np.linalg.inv(ones.T @ ones))[:-1])
        plain += (abs(model.coef_ - truth) < half).sum()
    assert hits >= 120 > 60 > plain, (hits, plain)
