"""The posterior of logistic regression from noised statistics. Its parts, and its coverage."""

import math

import numpy as np
import pytest
from raw_intervals import raw_intervals
from scipy.special import expit
from sklearn.datasets import load_breast_cancer

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic import model as logistic_model
from vips_fast.models.logistic.posterior import FACTORS, calibrating_factor, cholesky, posterior_given, second_moment

#: Wisconsin breast cancer: public bounds of the mean, standard error and worst value of ten measurements of cell
#: nuclei, round numbers near the printed ranges. A value beyond one is moved to it.
BOUNDS = [
    [30.0, 40.0, 200.0, 2500.0, 0.2, 0.4, 0.5, 0.25, 0.4, 0.1],
    [3.0, 5.0, 20.0, 300.0, 0.03, 0.15, 0.4, 0.05, 0.08, 0.03],
    [40.0, 50.0, 250.0, 4000.0, 0.25, 1.2, 1.5, 0.3, 0.7, 0.2],
]


def tumors():
    """Return measurements in [-1, 1], float64 of shape (569, 30), and diagnoses."""
    table = load_breast_cancer()
    return 2.0 * np.clip(table.data / np.ravel(BOUNDS), 0.0, 1.0) - 1.0, table.target_names[table.target].astype(str)


def records(n=100_000, d=4, seed=0, intercept=0.7):
    """Draw normal rows with a constant, and weights. Their logits have a standard deviation of 2 or so."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.4 * rng.normal(size=(d, d)))
    return np.hstack([X, np.ones((n, 1))]), np.append(rng.normal(size=d), intercept)


def weighted(X, f):
    return (X * f[:, None]).T @ X


def test_second_moment_is_nearer_than_what_was_released():
    """Hidden by noise. A fraction of its error; without noise: the matrix itself."""
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


def posterior(center, gradient, H, prior=(0.01, 0.01), logits=(), variance=0.0, hidden=0.0, start=None):
    """Read a posterior of outcomes of the stated law, from all records."""
    d, start = len(gradient), center if start is None else start
    given = gradient, variance, H, H, np.full((d, d), hidden), np.zeros(d), center, start, math.sqrt(d), prior
    return posterior_given(*given, *logits)


def newton(X, center, m):
    """Give the expected gradient at a center and its curvature, for outcomes of the coefficients m."""
    p, q = expit(X @ center), expit(X @ m)
    return X.T @ (q - p), weighted(X, p * (1 - p))


def test_columns_that_say_the_same_do_not_widen_the_others():
    """Only their sum is known: what the prior allows their difference is no noise of the curvature."""
    apart = np.eye(2)
    alike = np.array([[1, 0, 0], [0, 0.5, 0.5], [0, 0.5, 0.5]]) + 1e-9 * np.eye(3)
    sds = []
    for moments, m in ((apart, np.array([0.5, -0.3])), (alike, np.array([0.5, -0.2, -0.2]))):
        H = 5_000 * moments
        _, covariance, _ = posterior(np.zeros(len(m)), H @ m, H, (1.0, 1e-6), variance=900.0, hidden=0.05**2)
        sds.append(np.sqrt(covariance.diagonal()))
    assert sds[1][1] > 0.8 and sds[1][0] < 1.2 * sds[0][0]  # it was three times as much


def test_an_exact_gradient_near_the_truth_gives_it():
    """Whatever rows are: the error is of second order in the way."""
    X, m = records()
    X = np.hstack([np.exp(X[:, :2]) * (X[:, :2] < 1), X[:, 2:]])
    for way in (0.1, 0.05):
        mean, covariance, _ = posterior((1 - way) * m, *newton(X, (1 - way) * m, m), start=m)
        assert np.abs(mean - m).max() < 2 * way**2
    p = expit(X @ m)
    np.testing.assert_allclose(covariance, np.linalg.inv(weighted(X, p * (1 - p))), rtol=0.1, atol=2e-5)


def test_the_error_of_the_curvature_widens_the_posterior_far_from_the_center():
    X, m = records(2000)
    widths = []
    for center in (m, 0 * m):
        _, H = newton(X, center, m)
        for hidden in (0.0, 0.002):
            given = dict(logits=[np.sqrt([5 / 0.5])], variance=50.0, hidden=hidden, start=m)
            widths.append(np.trace(posterior(center, H @ (m - center), H, **given)[1]))
    near, far = widths[1] / widths[0], widths[3] / widths[2]
    assert 1 < near and far > 1.5 * near


def test_a_gradient_that_says_nothing_leaves_the_prior():
    """The mean stays at the start; intervals are as wide as logits of a standard deviation of 2."""
    X, m = records(2000)
    start = 0.1 * m
    H = weighted(X, np.full(len(X), 0.25))
    mean, covariance, alpha = posterior(0 * m, np.full(5, 1e6), H, variance=1e14, start=start)
    np.testing.assert_allclose(mean, start, atol=0.1)
    assert (np.diag(covariance) > 0.9 * 4 / 5).all() and 5 / 64 <= alpha <= 5 / 4


def rare_values(rng):
    return (rng.random((10_000, 16)) < np.geomspace(0.05, 0.5, 16)) / 4


def correlated(rng):
    X = rng.normal(size=(20_000, 30)) @ (rng.normal(size=(30, 30)) * 0.5 / math.sqrt(30) + np.eye(30)) / 6
    return X * np.minimum(1, 1 / np.linalg.norm(X, axis=1))[:, None]


@pytest.mark.parametrize(
    ("columns", "epsilon", "low", "high"),
    [
        (rare_values, 1.0, 0.83, 0.96),  # 160: .024; their moments are shrunk toward 0
        # 300: .02. It was .56 without the error of the curvature, which shrinks correlations to a common one; logits
        # of a standard deviation of 2.7 leave a bias.
        (correlated, 0.5, 0.82, 0.96),
    ],
)
def test_intervals_cover(columns, epsilon, low, high):
    """Of all effects, known or not, about 90 % whatever the columns are; the keys are fixed."""
    covered = []
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        X = columns(rng)
        m = 3 * rng.normal(size=X.shape[1])
        y = (rng.random(len(X)) < expit(X @ m + 0.5)).astype(int)
        model = BayesianLogisticRegression(epsilon=epsilon, delta=1e-5, n_jobs=1)
        lower, upper = raw_intervals(model.set_unsafe(test_key=bytes([seed] * 32)).fit(X, y))
        covered.append(((lower <= m) & (m <= upper)).mean())
    assert low < np.mean(covered) < high


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_curvature_stays_positive_where_noise_hides_it(epsilon, monkeypatch):
    """A negative one turned the ranking of a fit of 455 tumors around: AUC .08, its cautious start had .98."""
    seen, made = [], logistic_model.posterior_given
    monkeypatch.setattr(
        logistic_model,
        "posterior_given",
        lambda *given: (seen.append(given[3]), made(*given))[1],  # the curvature
    )
    X, y = tumors()
    rows = np.random.default_rng(2).permutation(len(X))[:455]
    options = LogisticOptions(intercept_scaling=0.5)
    for seed in range(12):
        model = BayesianLogisticRegression(epsilon=epsilon, delta=1e-5, n_jobs=1, options=options)
        model.set_unsafe(test_key=bytes([seed] * 32)).fit(X[rows] / math.sqrt(X.shape[1]), y[rows])
    assert len(seen) == 12
    for curvature in seen:
        values = np.linalg.eigvalsh(curvature)
        assert values[0] > 0, values[0] / values[-1]


def test_coefficients_of_columns_that_nearly_measure_one_thing_are_not_drawn_to_0():
    """Along their difference they are far larger than a logit: a prior for logits of up to 8 missed by 8 deviations."""
    curvature, m = np.diag([1000.0, 30.0]), np.array([0.5, 20.0])
    mean, covariance, _ = posterior_given(
        *(curvature @ m, 3000.0, curvature, curvature, np.zeros((2, 2)), np.zeros(2), np.zeros(2), np.zeros(2)),
        *(3.0, (0.01, 0.01)),
    )
    np.testing.assert_array_less(np.abs(mean - m), 1.7 * np.sqrt(np.diag(covariance)))
    assert covariance[1, 1] < 4.0**2


def test_the_factor_that_calibrates_logits():
    """The one whose gradient was seen, if noise is little; the prior's if it is much."""
    expected = 300 * (FACTORS - 1)
    for truth in (0.5, 1.0, 3.0):
        factor, variance = calibrating_factor(300 * (truth - 1), 30.0, expected)
        assert factor == pytest.approx(truth, rel=0.1) and 0 <= variance < 0.05
    factor, variance = calibrating_factor(0.0, 1e20, expected)
    # The mean and variance of a log-normal law, whose ends are cut.
    assert factor == pytest.approx(math.exp(math.log(2) ** 2 / 2), rel=0.05) and variance == pytest.approx(1, rel=0.4)


def test_probabilities_of_few_records_are_calibrated():
    """On 455 tumors, beside the posterior's own mean of probabilities. The ranking is the same."""
    X, y = tumors()
    X, (nodes, weights) = X / math.sqrt(X.shape[1]), np.polynomial.hermite_e.hermegauss(31)
    losses, apart = np.zeros((2, 6)), np.zeros((2, 6))
    for seed in range(6):
        rows = np.random.default_rng(seed).permutation(len(X))
        model = BayesianLogisticRegression(epsilon=1.0, delta=1e-3, n_jobs=1).set_unsafe(test_key=bytes([seed] * 32))
        test = X[rows[455:]], y[rows[455:]] == model.fit(X[rows[:455]], y[rows[:455]]).classes_[1]
        logits, sd = model.decision_function(test[0]), np.sqrt(model.decision_variance(test[0]))
        posterior = expit(logits[:, None] + sd[:, None] * nodes) @ (weights / weights.sum())
        ours = model.predict_proba(test[0])[:, 1]
        assert ((ours > 0.5) == (logits > 0)).all() and (np.diff(ours[np.argsort(logits)]) >= 0).all()
        for k, p in enumerate((posterior, ours)):
            losses[k, seed] = -np.mean(np.log(np.where(test[1], p, 1 - p)))
            parts = [np.clip(p * 10, 0, 9).astype(int) == part for part in range(10)]
            apart[k, seed] = sum(abs((p[part] - test[1][part]).sum()) for part in parts) / len(p)
    (loss, ours), (error, own) = losses.mean(axis=1), apart.mean(axis=1)
    assert ours < 0.95 * loss and own < 0.95 * error, (loss, ours, error, own)


def test_a_matrix_that_rounding_made_singular_has_a_factor():
    for singular in (np.ones((2, 2)), np.array([[1.0, 1.0 + 1e-15], [1.0 + 1e-15, 1.0]]), np.diag([1.0, 0.0])):
        root = cholesky(singular)
        np.testing.assert_allclose((root.T @ root)[0], singular[0], rtol=1e-9)
    regular = np.array([[2.0, 0.5], [0.5, 1.0]])
    np.testing.assert_allclose(cholesky(regular).T, np.linalg.cholesky(regular))
