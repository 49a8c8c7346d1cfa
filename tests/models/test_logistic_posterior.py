"""The posterior of logistic regression from noised statistics: its parts, and its coverage."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.kernels import reference
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.posterior import (
    Curvature,
    Weighting,
    _solved,
    along_logits,
    positive_moments,
    posterior_given,
    second_moment,
)

#: No record is scaled down, and all steps were around the last centre.
FREE = Weighting(1.0, 1.0, math.inf, 1.0, 0.0)


def records(n=100_000, d=4, seed=0, intercept=0.7):
    """Normal rows with a constant, and weights whose logits have a standard deviation of 2 or so."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    return np.hstack([X, np.ones((n, 1))]), np.append(rng.normal(size=d), intercept)


def weighted(X, f):
    return (X * f[:, None]).T @ X


@pytest.mark.parametrize("clipped", [False, True])
def test_the_curvature_is_that_of_the_weighted_likelihood(clipped):
    """H and J from S alone, for normal rows; the ratios along and across the logits differ by a factor of 2."""
    X, m = records()
    a = X @ m
    p, xi, w = expit(a), reference.pg_mean(a), np.ones(len(X))
    weighting = FREE
    if clipped:
        length = math.sqrt((X**2).sum(axis=1).mean())
        weighting = Weighting(0.55 * length, 5.0 * length**2, 1.0, 1.0, 0.0)
        w = weighting.of(0.5 + xi * np.abs(a), xi, length)
        assert 0.7 < w.mean() < 0.95
    S, H, J = (weighted(X, f) for f in (w * xi, w * p * (1 - p), w * w * p * (1 - p)))
    found = Curvature.of(S, m, np.zeros((5, 5)), 1.0, len(X), weighting)
    # 100,000 records: a half per cent; the length is taken from S, in which long records with large logits weigh less.
    for ours, theirs in ((found.local, H), (found.labels, J)):
        inverse = np.linalg.inv(np.linalg.cholesky(theirs))
        np.testing.assert_allclose(np.linalg.eigvalsh(inverse @ ours @ inverse.T), 1.0, atol=0.1 if clipped else 0.03)
    ratios = np.sort(np.linalg.eigvals(np.linalg.solve(S, H)).real)
    assert ratios[0] < 0.6 * ratios[-1]
    assert found.far == 0.0


def test_the_curvature_without_a_constant_and_without_logits():
    X, m = records(intercept=0.0)
    X, m = X[:, :4], m[:4]
    a = X @ m
    S, H = weighted(X, reference.pg_mean(a)), weighted(X, expit(a) * expit(-a))
    found = Curvature.of(S, m, np.zeros((4, 4)), 0.0, len(X), FREE)
    np.testing.assert_allclose(found.local, H, atol=0.02 * np.abs(H).max())
    # At m = 0 the bound touches the likelihood.
    none = Curvature.of(X.T @ X / 4, np.zeros(4), np.zeros((4, 4)), 0.0, len(X), FREE)
    np.testing.assert_allclose(none.local, X.T @ X / 4, rtol=1e-6)
    alone = Curvature.of(np.eye(2), np.array([0.0, 1e-300]), np.eye(2), 1.0, 4.0, FREE)
    assert np.isfinite(alone.local).all() and 0 < alone.far < 1


def test_the_first_steps_curvature_is_told_apart():
    """S as an average with sum x x^T / 4, as the first step gives it."""
    X, m = records()
    a = X @ m
    S = 0.4 * X.T @ X / 4 + 0.6 * weighted(X, reference.pg_mean(a))
    H = weighted(X, expit(a) * expit(-a))
    found = Curvature.of(S, m, np.zeros((5, 5)), 1.0, len(X), Weighting(1.0, 1.0, math.inf, 1.0, 0.4))
    ignored = Curvature.of(S, m, np.zeros((5, 5)), 1.0, len(X), FREE)
    assert np.abs(found.local - H).max() < 0.02 * H.max() < 0.05 * H.max() < np.abs(ignored.local - H).max()


def test_second_moment_is_nearer_than_what_was_released():
    """Hidden by noise: a fraction of its error; without noise: the matrix itself."""
    rng = np.random.default_rng(3)
    d = 30
    A = rng.normal(size=(400, d)) / 20
    S = A.T @ A * 100
    S[-1] = S[:, -1] = 0
    S[-1, -1] = 3000.0
    noise = rng.normal(size=(d, d)) * 30
    seen = S + np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diag(noise)) * math.sqrt(2)
    found, spread = second_moment(seen, 30.0, 30.0 * math.sqrt(2), True)
    assert np.linalg.eigvalsh(found)[0] > 0
    assert np.linalg.norm(found - S) < 0.3 * np.linalg.norm(seen - S)
    # The posterior variances of the ordinary entries are of the size of their errors.
    scale = np.sqrt(np.diag(found)[:-1])
    errors = ((found - S)[:-1, :-1] / np.outer(scale, scale)) ** 2
    assert 0.3 < spread[:-1, :-1].mean() / errors.mean() < 3.0
    same, none = second_moment(S, 0.0, 0.0, True)
    np.testing.assert_array_equal(same, S)
    assert not none.any()


def test_moments_about_means_are_nearer_where_columns_are_never_negative():
    """Independent columns of shares p have moments of p_i p_j; columns of mean 0 have the same estimate either way."""
    rng = np.random.default_rng(5)
    p = np.append(rng.uniform(0.05, 0.6, 20), 1.0)
    n, sd = 1000.0, 40.0
    noise = rng.normal(size=(21, 21)) * sd
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(np.diag(noise)) * math.sqrt(2)
    S = n * (np.outer(p, p) + np.diag(p * (1 - p)))
    zero, about = (second_moment(S + noise, sd, sd * math.sqrt(2), True, about_means=m) for m in (False, True))
    assert np.linalg.norm(about[0] - S) < 0.8 * np.linalg.norm(zero[0] - S)
    assert about[1][:-1].mean() < zero[1][:-1].mean() and np.linalg.eigvalsh(about[0])[0] > 0
    centred = n * np.eye(21) + noise
    centred[-1, :-1] = centred[:-1, -1] = 0.0
    zero, about = (second_moment(centred, sd, sd * math.sqrt(2), True, about_means=m) for m in (False, True))
    np.testing.assert_allclose(about[0], zero[0], rtol=1e-12, atol=1e-9)
    for without in (False, True):
        np.testing.assert_array_equal(second_moment(S, 0.0, 0.0, True, about_means=without)[0], S)


SURE, EXACT = (1e9, 1e9), np.zeros((5, 5))


def test_the_posterior_given_a_gradient():
    """Compare with the truth if the gradient is exact, and with a normal model if it is not."""
    X, m = records(2000)
    H, at = weighted(X, np.full(len(X), 0.2)), np.full(5, 0.3)
    curvature = Curvature(H, 0.8 * H, 0.0)
    found, _ = posterior_given(curvature, EXACT, EXACT, H @ (m - at), at, 0.0, 0.0, (1e-3, 1e9))
    np.testing.assert_allclose(found, m, rtol=1e-9)
    gradient, v, k = H @ (m - at) + np.arange(5.0), 500.0, 0.5
    mean, covariance = posterior_given(curvature, EXACT, EXACT, gradient, at, v, k, SURE)
    weight = np.linalg.inv(v * np.eye(5) + 0.8 * H + k * H)
    wanted = np.linalg.inv(H @ weight @ H + np.eye(5))
    np.testing.assert_allclose(covariance, wanted, rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(mean, wanted @ H @ weight @ (gradient + H @ at), rtol=1e-4)


def test_the_error_of_the_curvature_is_noise_of_the_gradient():
    """Draw D, and compare with the law of D x: it widens the posterior, but not at the center."""
    X, _ = records(2000)
    H, at = weighted(X, np.full(len(X), 0.2)), np.zeros(5)
    rng = np.random.default_rng(11)
    hidden = rng.uniform(0.01, 0.1, (5, 5))
    hidden = (hidden + hidden.T) / 2
    x, scale = rng.normal(size=5), np.sqrt(np.diag(H))
    draws = np.triu(rng.normal(size=(100_000, 5, 5)))
    draws = (draws + np.triu(draws, 1).transpose(0, 2, 1)) * np.sqrt(hidden) * np.outer(scale, scale)
    noise = np.cov(draws @ x, rowvar=False)
    curvature, rest = Curvature(H, EXACT, 0.0), (np.zeros(5), at, 50.0, 0.0, SURE)
    _, found = posterior_given(curvature, hidden, np.outer(x, x), *rest)
    wanted = np.linalg.inv(H @ np.linalg.solve(50 * np.eye(5) + noise, H) + np.eye(5))
    np.testing.assert_allclose(found, wanted, rtol=0.02, atol=0.02 * wanted.max())
    _, near = posterior_given(curvature, hidden, EXACT, *rest)
    _, known = posterior_given(curvature, EXACT, np.outer(x, x), *rest)
    np.testing.assert_array_equal(near, known)
    assert (np.diag(found) > 1.5 * np.diag(known)).all()


def test_the_posterior_averages_over_the_prior_precision():
    """Compare with the mixture over quantiles of q(alpha), whose means differ."""
    H, gradient = np.eye(2), np.array([3.0, 0.0])
    curvature, none = Curvature(H, np.zeros((2, 2)), 0.0), np.zeros((2, 2))
    mean, covariance = posterior_given(curvature, none, none, gradient, np.zeros(2), 1.0, 0.0, (1.5, 1.5))
    alphas = stats.gamma(1.5, scale=1 / 1.5).ppf((np.arange(7) + 0.5) / 7)
    np.testing.assert_allclose(mean, [np.mean(3 / (1 + alphas)), 0.0], atol=1e-12)
    np.testing.assert_allclose(covariance[1, 1], np.mean(1 / (1 + alphas)))
    np.testing.assert_allclose(covariance[0, 0], np.mean(1 / (1 + alphas)) + np.var(3 / (1 + alphas)))


def test_small_values_among_large_ones_are_known_as_small():
    rng = np.random.default_rng(4)
    truth = np.repeat([1.0, 100.0], [60, 20])
    mean, variance = positive_moments(truth + 20 * rng.normal(size=80), 20.0)
    assert mean[:60].mean() < 6 and np.abs(mean[60:].mean() - 100) < 10
    assert (mean > 0).all() and (variance >= 0).all()


def test_the_mean_moves_along_the_logits_to_where_the_gradient_vanishes():
    H = np.diag([4.0, 1.0])
    mean, truth = np.array([1.0, 0.0]), np.array([1.5, 0.0])
    at = np.array([0.2, 0.0])
    moved = along_logits(Curvature(H, H, 0.0), mean, H @ (truth - at), at, 0.0, 0.0, 1e-12)
    np.testing.assert_allclose(moved, truth, rtol=1e-9)
    stays = along_logits(Curvature(H, H, 1.0), mean, H @ (truth - at), at, 0.0, 0.0, 1e-12)
    np.testing.assert_array_equal(stays, mean)
    nothing = np.zeros(2)
    np.testing.assert_array_equal(along_logits(Curvature(H, H, 0.0), nothing, truth, at, 1.0, 0.0, 1.0), nothing)


def test_coverage_of_columns_of_zeros_and_ones():
    """With moments that are shrunk toward 0, intervals cover more than 95 % of these."""
    covered = []
    for seed in range(16):
        rng = np.random.default_rng([seed, 8])
        X = (rng.random((10_000, 16)) < np.geomspace(0.05, 0.5, 16)) / 4
        m = 3 * rng.normal(size=16)
        y = (rng.random(10_000) < expit(X @ m + 0.5)).astype(int)
        model = BayesianLogisticRegression(epsilon=1.0, delta=1e-5, n_jobs=1)
        low, high = model.set_unsafe(test_key=bytes([seed] * 32)).fit(X, y).credible_interval(0.9).T
        covered.append(((low <= m) & (m <= high)).mean())
    # 256 intervals: a standard error of 0.02; the keys are fixed.
    assert 0.85 < np.mean(covered) < 0.95


def test_coverage_of_columns_with_different_correlations():
    """Check the error of the curvature, which shrinks different correlations to a common one: .84 without it."""
    covered = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 10])
        X = rng.normal(size=(20_000, 30)) @ (rng.normal(size=(30, 30)) * 0.5 / math.sqrt(30) + np.eye(30)) / 6
        X *= np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]
        m = 3 * rng.normal(size=30)
        y = (rng.random(20_000) < expit(X @ m + 0.5)).astype(int)
        model = BayesianLogisticRegression(epsilon=0.5, delta=1e-5, n_jobs=1)
        low, high = model.set_unsafe(test_key=bytes([seed] * 32)).fit(X, y).credible_interval(0.9).T
        covered.append(((low <= m) & (m <= high)).mean())
    # 240 intervals: a standard error of 0.02; the keys are fixed.
    assert 0.87 < np.mean(covered) < 0.96


def test_what_the_mean_falls_short_of_widens_the_posterior(monkeypatch):
    from vips_fast.models.logistic import model as logistic_model

    rng = np.random.default_rng(9)
    X = rng.normal(size=(4000, 3)) / 2
    y = (rng.random(4000) < expit(X @ np.array([2.0, -1.0, 0.0]))).astype(int)

    def fitted(short, far=0.25):
        def found(curvature, hidden, error, gradient, at, *rest):
            return at + short, hidden + np.eye(4)

        monkeypatch.setattr(logistic_model, "posterior_given", found)
        monkeypatch.setattr(logistic_model, "along_logits", lambda curvature, mean, gradient, at, *rest: at)
        monkeypatch.setattr(Curvature, "of", classmethod(lambda cls, S, *rest: cls(S, S / 2, far)))
        model = BayesianLogisticRegression(row_norm=2.0, epsilon=1.0, delta=1e-5, n_jobs=1)
        return model.set_unsafe(test_key=b"s" * 32).fit(X, y)

    short = np.array([0.3, 0.0, -0.2, 0.1])
    plain, wide, far = fitted(np.zeros(4)), fitted(short), fitted(short, far=1.0)
    np.testing.assert_array_equal(wide.coef_, plain.coef_)
    np.testing.assert_allclose(wide.covariance_ - plain.covariance_, 0.75 * np.outer(short, short), atol=1e-12)
    np.testing.assert_array_equal(far.covariance_, plain.covariance_)


def test_coverage_on_simulated_records():
    """Near 90 % where the old read-out covered 75 %, and far above what ignores the noise; the keys are fixed."""
    covered = {True: [], False: []}
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        X = rng.normal(size=(8000, 6)) / math.sqrt(8)
        m = 3 * rng.normal(size=6)
        y = (rng.random(8000) < expit(X @ m + 0.5)).astype(int)
        for aware in covered:
            model = BayesianLogisticRegression(
                epsilon=2.0, delta=1e-5, options=LogisticOptions(noise_aware=aware), n_jobs=1
            )
            low, high = model.set_unsafe(test_key=bytes([seed] * 32)).fit(X, y).credible_interval(0.9).T
            covered[aware].append(((low <= m) & (m <= high)).mean())
    # 120 intervals: a standard error of 0.03.
    assert 0.82 < np.mean(covered[True]) < 0.98
    assert np.mean(covered[False]) < np.mean(covered[True]) - 0.15


def test_a_system_that_rounding_made_singular_is_solved():
    singular = np.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(_solved(singular, np.array([2.0, 2.0])), [1.0, 1.0])
    regular = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_array_equal(_solved(regular, np.ones(2)), np.linalg.solve(regular, np.ones(2)))
