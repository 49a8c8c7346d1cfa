"""The VIPS article's Figures 5, 6 and 8 of bench/paper. Their noise, their simulated patients, their tables."""

import math

import common
import numpy as np
import pytest
import scipy.sparse as sp
import stroke_fig5
import text_logistic
from common import CLASSICAL, TIGHT
from newton import DoubleNoiseNewton, direction_sensitivity
from peers.theorems import strong_composition

from vips_fast.accounting import GaussianEvent, SelfComposedEvent, epsilon


@pytest.mark.parametrize(("target", "q", "steps", "delta"), [(1.34, 400 / 60_000, 150, 1e-4), (0.5, 1.0, 10, 1e-4)])
def test_strong_compositions_noise_spends_epsilon_and_delta_whole(target, q, steps, delta):
    z = common.strong_composition_noise(target, round(q * 60_000), 60_000, steps, delta, CLASSICAL)
    step_delta = delta / (2 * steps * q)
    step_epsilon = math.sqrt(2 * math.log(1.25 / step_delta)) / z
    total, spent = strong_composition(math.log1p(q * math.expm1(step_epsilon)), q * step_delta, steps, delta / 2)
    assert total == pytest.approx(target, rel=1e-9) and spent == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("target", stroke_fig5.EPSILONS)
def test_the_moments_accountant_of_the_whole_batch_says_the_target(target):
    """The least over Renyi orders of the whole batch.

    The orders bound steps by alpha / (2 z^2) + ln(1/delta) / (alpha - 1). The exact epsilon is less.
    """
    z = stroke_fig5.moments_noise(target, 10)
    order = 1 + np.geomspace(1e-3, 1e4, 400_001)
    bound = (10 * order / (2 * z * z) + math.log(1 / stroke_fig5.DELTA) / (order - 1)).min()
    assert bound == pytest.approx(target, rel=1e-6)
    assert epsilon(SelfComposedEvent(GaussianEvent(z), 10), stroke_fig5.DELTA) < target
    noises = [common.strong_composition_noise(target, 9, 9, 10, stroke_fig5.DELTA, step) for step in (TIGHT, CLASSICAL)]
    assert z < noises[0] < noises[1]


def test_directions_of_double_noise_newton_move_by_no_more_than_said():
    rng = np.random.default_rng(0)
    reached = []
    for _ in range(200):
        A = rng.normal(size=(4, 3))
        H, g, v = A @ A.T * 10.0 ** rng.uniform(-3, 2), rng.normal(size=4), rng.normal(size=4)
        least = 10.0 ** rng.uniform(-2, 1)
        if rng.random() < 0.5:  # it moves most along the direction that H does not cover
            g = v = np.linalg.svd(A)[0][:, -1]
        before = np.linalg.solve(H + least * np.eye(4), g)
        after = np.linalg.solve(H + np.outer(v, v) + least * np.eye(4), g)
        bound = direction_sensitivity(np.linalg.norm(g), v @ v, least)
        reached.append(np.linalg.norm(before - after) / bound)
    assert max(reached) <= 1 + 1e-9 and max(reached) > 0.999


def wide(n=800, d=30):
    """Sparse rows; only the first column tells the label."""
    rng = np.random.default_rng(1)
    X = sp.random_array((n, d), density=0.3, rng=rng, format="csr")
    y = (np.asarray(X[:, [0]].todense()).ravel() > 0.2).astype(int)
    return sp.csr_array(X), y


def test_steps_of_newton_and_of_frank_wolfe_learn_where_there_is_hardly_noise():
    X, y = wide()
    newton = DoubleNoiseNewton(1e4, 1e-5, n_steps=10).fit(X, y)
    assert ((newton.decision_function(X) > 0) == y).mean() > 0.95 and newton.predict_proba(X).shape == (800, 2)
    w = text_logistic.frank_wolfe(X, y, 1e6, radius=30.0, n_steps=200, rng=np.random.default_rng(2))
    assert abs(w).sum() <= 30 * (1 + 1e-12) and abs(w[:-1]).argmax() == 0
    assert ((X @ w[:-1] + w[-1] > 0) == y).mean() > 0.9
    # With next to no budget the vertices are drawn at random.
    drawn = text_logistic.frank_wolfe(X, y, 1e-3, radius=1.0, n_steps=40, rng=np.random.default_rng(3))
    assert len(np.flatnonzero(drawn)) > 15
