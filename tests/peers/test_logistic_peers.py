"""Baselines of logistic regression. Each learns, keeps to its budget, and follows its article."""

import math
from importlib import import_module

import numpy as np
import pytest
import scipy.sparse as sp
from peers import (
    DPSGLDLogisticRegression,
    DPVILogisticRegression,
    ObjectivePerturbationLogisticRegression,
    VariationalSamplingLogisticRegression,
)
from scipy.special import expit

from vips_fast.engine.backend import Threads
from vips_fast.engine.result import Public
from vips_fast.models.logistic.records import LogisticRecords, design


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    m = np.array([3.0, -4.0, 0.0, 5.0, 0.0])
    X = rng.normal(size=(4000, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, (rng.random(4000) < expit(X @ m + 0.5)).astype(int), m


#: Each with a way of drawing of its own.
ENGINE = {
    DPVILogisticRegression: {"n_steps": 100, "learning_rate": 0.5, "sampling": "full"},
    DPSGLDLogisticRegression: {"n_steps": 200, "batch_size": 400},
    VariationalSamplingLogisticRegression: {"n_steps": 100, "sampling": "without_replacement", "batch_size": 400},
}


@pytest.mark.parametrize("kind", ENGINE)
def test_learns_within_its_budget(data, kind):
    X, y, _ = data
    model = kind(**ENGINE[kind], epsilon=3.0, delta=1e-5).fit(X, y)
    free = kind(**ENGINE[kind], private=False, random_state=0).fit(X, y)
    # The true coefficients reach 0.87, the larger class has 0.56.
    assert free.score(X, y) > 0.76 and model.score(X, y) > 0.7
    assert model.privacy_.epsilon <= 3.0 and model.privacy_.private and len(model.ledger_) == ENGINE[kind]["n_steps"]
    assert not free.privacy_.private
    np.testing.assert_allclose(model.predict_proba(X[:5]).sum(axis=1), 1.0)
    assert model.predict(X[:5]).tolist() == (model.decision_function(X[:5]) > 0).astype(int).tolist()


def scores_model(estimator, X, y):
    records = LogisticRecords.of(design(X, float(estimator.fit_intercept)), np.asarray(y, float))
    estimator.set_params(noise_multiplier=2.0, sampling="full")
    request = estimator.request(Public(n_features=X.shape[1], n_records=60, seed=3))
    made = request.plan()
    return made.model, made.plan.mechanism, records


def total(model, records, rows=None, n_threads=2):
    rows = np.arange(records.n_rows) if rows is None else rows
    return Threads(n_threads).sum(model, records, rows, np.zeros(len(rows), np.uint64))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_contributions_are_clipped_scores(data, storage):
    """Compare the engine's statistic with the formula. For scores and for DPVI's pair of gradients."""
    X, y, _ = data
    X, y = X[:200], y[:200].astype(float)
    theta = np.array([1.0, -2.0, 0.5, 1.0, 0.0, 0.3])
    Z = np.hstack([X, np.ones((200, 1))])
    for kind in (DPSGLDLogisticRegression, DPVILogisticRegression):
        model, mechanism, records = scores_model(kind(clip_norm=0.4), storage(X), y)
        model._theta[:6] = theta
        model._take()
        if kind is DPSGLDLogisticRegression:
            scores = (y - expit(Z @ theta))[:, None] * Z
        else:
            scores = (y - expit(Z @ (theta + model._eta)))[:, None] * np.hstack([Z, Z * model._eta])
        clipped = scores * np.minimum(1, 0.4 / np.linalg.norm(scores, axis=1))[:, None]
        # 200 truncations of less than one lattice unit.
        spacing = mechanism.spacing
        np.testing.assert_allclose(total(model, records) * spacing, clipped.sum(axis=0), atol=200 * spacing)


@pytest.mark.parametrize("kind", ENGINE)
def test_replay_and_additivity(data, kind):
    """Any record moves the sum by at most C. Any split of the records gives the same integers."""
    X, y, _ = data
    X, y = X[:60] * 5, y[:60].astype(float)
    model, mechanism, records = scores_model(kind(clip_norm=0.7), X, y)
    whole = total(model, records)
    for n_shards in (2, 5, 60):
        shards = np.array_split(np.arange(60), n_shards)
        np.testing.assert_array_equal(sum(total(model, records, rows) for rows in shards), whole)
    for scale in (1e-3, 1.0, 1e6):
        more = LogisticRecords.of(design(np.vstack([X, scale * X[:1]]), 1.0), np.append(y, 1 - y[0]))
        moved = math.sqrt(sum(int(v) ** 2 for v in total(model, more) - whole)) * mechanism.spacing
        assert moved <= mechanism.sensitivity == 0.7


def test_dpvi_without_noise_is_mean_field_variational_inference():
    """Against the Gaussian approximation in a dimension that makes it exact enough. Means, and sd = curvature^-1/2."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 2)) / 2
    y = (rng.random(3000) < expit(X @ np.array([1.0, -0.5]))).astype(int)
    model = DPVILogisticRegression(
        private=False, sampling="full", n_steps=1000, learning_rate=0.2, fit_intercept=False, random_state=0
    ).fit(X, y)
    p = expit(X @ model.coef_[0])
    curvature = (X**2 * (p * (1 - p))[:, None]).sum(axis=0) + 1.0
    np.testing.assert_allclose(model.sd_, curvature**-0.5, rtol=0.15)  # Adagrad still moves, one draw a step
    gradient = X.T @ (y - p) - model.coef_[0]
    assert (np.abs(gradient) < 0.3 * curvature**0.5).all()  # within 0.3 posterior deviations of the mode


def test_langevin_samples_have_the_posteriors_spread():
    rng = np.random.default_rng(2)
    X = np.ones((400, 1))
    y = (rng.random(400) < 0.4).astype(int)
    settings = dict(sampling="full", fit_intercept=False)
    model = DPSGLDLogisticRegression(private=False, n_steps=6_000, step_size=0.004, **settings).fit(X, y)
    p = y.mean()
    # Posterior about N(logit p, 1/(n p (1 - p) + 1)). 3,000 samples, each ten alike, give 4 %, and the
    # finite step adds step * curvature / 8 = 5 %.
    assert model.coef_[0, 0] == pytest.approx(math.log(p / (1 - p)), abs=0.04)
    assert model._samples().std() == pytest.approx((400 * p * (1 - p) + 1) ** -0.5, rel=0.2)
    # With privacy the step leaves room for its noise: (step / 2) sd <= sqrt(step).
    private = DPSGLDLogisticRegression(n_steps=5, noise_multiplier=30.0, **settings).fit(X, y)
    assert private.step_size_ <= 4 / 30.0**2 * (1 + 1e-12)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_objective_perturbation_learns(data, delta):
    X, y, _ = data
    model = ObjectivePerturbationLogisticRegression(epsilon=3.0, delta=delta).fit(X, y)
    free = ObjectivePerturbationLogisticRegression(private=False).fit(X, y)
    assert free.score(X, y) > 0.8 and model.score(X, y) > 0.75
    assert model.privacy_.private and model.privacy_.epsilon == 3.0 and model.privacy_.delta == delta
    assert model.ledger_.event().delta == delta and not free.privacy_.private
    sparse = ObjectivePerturbationLogisticRegression(private=False).fit(sp.csr_array(X), np.array(["a", "b"])[y])
    np.testing.assert_allclose(sparse.coef_, free.coef_, rtol=1e-6)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X[:4])), free.predict_proba(X[:4]))


def test_without_noise_it_is_penalised_likelihood(data):
    linear_model = import_module("sklearn.linear_model")
    X, y, _ = data
    ours = ObjectivePerturbationLogisticRegression(private=False, alpha=2.0, fit_intercept=False).fit(X, y)
    theirs = linear_model.LogisticRegression(C=0.5, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)


def test_privacy_loss_of_objective_perturbation():
    """Simulate the densities' ratio at the worst record. In one dimension; the densities are of theta."""
    epsilon, delta, n = 1.0, 1e-2, 20
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n).astype(float)
    X = np.ones((n, 1))
    model = ObjectivePerturbationLogisticRegression(
        epsilon=epsilon, delta=delta, fit_intercept=False, row_norm=1.0
    ).fit(X, y)
    s, ridge = model.noise_sd_, model.ridge_
    theta = rng.normal(scale=3 * s / ridge, size=400_000)

    def log_density(theta, y):
        counts = np.array([(y == 0).sum(), (y == 1).sum()])
        gradient = (expit(theta)[:, None] - np.append(0.0, 1.0)) @ counts + ridge * theta
        curvature = len(y) * expit(theta) * expit(-theta) + ridge
        return -0.5 * (gradient / s) ** 2 + np.log(curvature)

    both = log_density(theta, np.append(y, 1.0)), log_density(theta, y)
    for one, other in (both, both[::-1]):
        weight = np.exp(one + 0.5 * (theta / (3 * s / ridge)) ** 2)
        # The importance-weighted probability that the loss exceeds epsilon, under one data set and the other.
        assert weight @ (one - other > epsilon) <= delta * weight.sum()
