"""DP-SGD for logistic regression: the three scenarios, contributions, bad input."""

import math

import numpy as np
import pytest
from peers import DPSGDLogisticRegression
from peers.dpsgd import GradientModel
from peers.laplace import rounded_laplace
from peers.theorems import zcdp_rho_for_target

from vips_fast import accounting as acc
from vips_fast.models.logistic.records import LogisticRecords, design


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    weights = np.array([3.0, -4.0, 0.0, 5.0, 0.0])
    X = rng.normal(size=(4000, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = (rng.random(4000) < 1 / (1 + np.exp(-X @ weights))).astype(int)
    return X, y


SETTINGS = {
    "poisson": dict(scenario="poisson", batch_size=400, n_steps=60),
    "zcdp": dict(scenario="zcdp", n_steps=40),
    "laplace": dict(scenario="laplace", batch_size=1000, n_steps=10, clip_norm=2.0),
}


@pytest.mark.parametrize("scenario", SETTINGS)
def test_learns_within_its_budget(data, scenario):
    X, y = data
    model = DPSGDLogisticRegression(**SETTINGS[scenario], learning_rate=4.0, epsilon=3.0).fit(X, y)
    free = DPSGDLogisticRegression(**SETTINGS[scenario], learning_rate=4.0, private=False).fit(X, y)
    # The best direction reaches about 0.87; noise at epsilon = 3 costs a few points.
    assert free.score(X, y) > 0.84
    assert model.score(X, y) > 0.78
    assert model.privacy_.epsilon <= 3.0 and model.privacy_.private
    assert model.privacy_.steps == SETTINGS[scenario]["n_steps"] == len(model.ledger_)
    assert not free.privacy_.private and math.isinf(free.privacy_.epsilon)
    assert model.predict_proba(X[:3]).sum(axis=1) == pytest.approx(1.0)


def test_laplace_scenario_is_pure_and_as_the_textbook(data):
    X, y = data
    eps, steps, m, n, clip = 2.0, 7, 500, len(X), 1.5
    model = DPSGDLogisticRegression("laplace", batch_size=m, n_steps=steps, clip_norm=clip, epsilon=eps).fit(X, y)
    assert model.privacy_.delta == 0.0 and model.privacy_.relation == "replace_one"
    assert eps * (1 - 1e-9) <= model.privacy_.epsilon <= eps
    # sigma = B1 / (m ln(1 + (e^(eps/T) - 1) n / m)) on the mean, with B1 = 2 clip_norm.
    sigma = 2 * clip / (m * math.log(1 + math.expm1(eps / steps) * n / m))
    assert model.privacy_.noise_multiplier * 2 * clip / m == pytest.approx(sigma, rel=1e-9)
    # The same events under (epsilon, delta) cost no more.
    assert acc.epsilon(model.ledger_.event(), 1e-6) < eps


def test_zcdp_scenario_is_as_the_textbook(data):
    X, y = data
    eps, delta, steps = 1.0, 1e-5, 30
    model = DPSGDLogisticRegression("zcdp", n_steps=steps, epsilon=eps, delta=delta).fit(X, y)
    rho = zcdp_rho_for_target(eps, delta)
    # sigma^2 = T B^2 / (2 n^2 rho): the noise multiplier is sqrt(T / (2 rho)), to 1e-3.
    z = math.sqrt(steps / (2 * rho))
    assert z * (1 - 1e-9) <= model.privacy_.noise_multiplier <= z * (1 + 1.1e-3)
    # The exact Gaussian accountant needs less.
    assert model.privacy_.epsilon == acc.gaussian_epsilon(math.sqrt(steps) / model.privacy_.noise_multiplier, delta)
    assert model.privacy_.epsilon < 0.9 * eps
    tight = DPSGDLogisticRegression("zcdp", n_steps=steps, epsilon=eps, delta=delta, accountant=None).fit(X, y)
    assert tight.privacy_.noise_multiplier < model.privacy_.noise_multiplier
    assert 0.995 * eps <= tight.privacy_.epsilon <= eps


def test_poisson_scenario_calibrates_with_renyi_divergences(data):
    X, y = data
    model = DPSGDLogisticRegression("poisson", batch_size=40, n_steps=50, epsilon=1.0, delta=1e-5)
    model.fit(X, y)
    event = model.ledger_.event()
    assert event.relation == "add_remove"
    assert 0.995 <= acc.epsilon(event, 1e-5, "rdp") <= 1.0
    assert model.privacy_.epsilon < 1.0


def contributions(X, y, theta, records, order=2, clip=1.0, spacing=2.0**-20):
    rows = LogisticRecords.of(design(X, 1.0), np.asarray(y, float))
    model = GradientModel(rows.rows.n_features, clip=clip, order=order, rate=1.0, alpha=0.0, first=0)
    model._theta, model._spacing = np.asarray(theta, float), spacing
    columns, units = model.contributions(rows.block(np.asarray(records)))
    assert (columns == np.tile(np.arange(rows.rows.n_features), len(records))).all()
    return units.reshape(len(records), -1).T, model


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("order", [1, 2])
def test_contributions_are_bounded_in_integers(order):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(500, 4)) * 10.0 ** rng.integers(-8, 9, (500, 1)), np.full((2, 4), 1e300)])
    y = rng.integers(0, 2, len(X)).astype(float)
    units, _ = contributions(X, y, rng.normal(size=5), np.arange(len(X)), order)
    exact = [sum(abs(int(u)) ** order for u in column) for column in units.T]
    assert max(exact) <= 2 ** (20 * order)
    # Clipping is not wasteful: long records come within truncation of the bound.
    assert max(exact) >= 2 ** (20 * order) * (1 - 1e-4)
    if order == 2:
        # The square of 1e300 overflows: such a record contributes nothing, without a warning.
        assert not units[:, -2:].any()


def test_replacing_a_record_moves_the_sum_by_the_sensitivity():
    """Opposite gradients reach 2 C; a single record reaches C."""
    X = np.array([[30.0], [30.0]])
    y = np.array([0.0, 1.0])
    units, model = contributions(X, y, [0.0, 0.0], [0, 1])
    distance = np.sqrt(((units[:, 0] - units[:, 1]) ** 2).sum()) * 2.0**-20
    assert distance <= model.sensitivity("replace_one") == 2.0
    assert distance >= 2.0 * (1 - 1e-4)
    assert np.sqrt((units[:, 0] ** 2).sum()) * 2.0**-20 <= model.sensitivity("add_remove") == 1.0


def test_rounded_laplace_has_the_rounded_law():
    t, n = 3, 20_000
    draws = np.array([rounded_laplace(t) for _ in range(n)])
    for k in range(-8, 9):
        # Mass of the Laplace law on [k - 1/2, k + 1/2]; six standard errors, 17 times: 4e-8.
        p = -math.expm1(-0.5 / t) if k == 0 else math.exp(-abs(k) / t) * math.sinh(0.5 / t)
        assert abs(np.mean(draws == k) - p) <= 6 * math.sqrt(p * (1 - p) / n), k
