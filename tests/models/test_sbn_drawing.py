"""Records drawn from a belief network. Hidden units have the moments that were released."""

import itertools

import numpy as np
import pytest
from cases import network as make
from scipy.special import expit, ndtr, ndtri
from scipy.stats import multivariate_normal

from vips_fast.models.sbn import SigmoidBeliefNetwork
from vips_fast.models.sbn.network import joint_excess, thresholded_normal


def stripes(n):
    """Records of 36 pixels. Four stripes; the first two and the last two are often on together."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.random((n, 2)) < 0.5, 2, axis=1)
    on = np.where(rng.random((n, 4)) < 0.8, pairs, rng.random((n, 4)) < 0.5)
    return (np.repeat(on, 9, axis=1) ^ (rng.random((n, 36)) < 0.02)).astype(np.uint8)


KEY = bytes(range(32))
STRIPES = stripes(8000)


@pytest.mark.parametrize("bound", ["jaakkola", "pg"])
def test_samples_follow_the_model(bound):
    fitted = make(bound, 4, private=False, n_steps=10).fit(STRIPES)
    Y = fitted.sample(40_000, random_state=0)
    assert Y.shape == (40_000, 36) and Y.dtype == np.uint8 and set(np.unique(Y)) == {0, 1}
    states = np.array(list(itertools.product([0, 1], repeat=4)), dtype=float)
    # A state's weight is the probability of an orthant of the normal whose signs are turned where a unit is off.
    thresholds, factor = fitted._hidden_normal() or (ndtri(expit(fitted.hidden_bias_)), np.eye(4))
    signs = 2 * states - 1
    weight = np.array(
        [
            multivariate_normal.cdf(sign * thresholds, cov=np.outer(sign, sign) * (factor @ factor.T), rng=0)
            for sign in signs
        ]
    )
    np.testing.assert_allclose(weight @ states, expit(fitted.hidden_bias_), atol=1e-4)
    mean = weight @ expit(states @ fitted.components_ + fitted.visible_bias_)
    # Five standard deviations of a mean of 40,000 coin flips.
    assert np.abs(Y.mean(axis=0) - mean).max() < 5 * 0.5 / 200
    assert np.array_equal(Y, fitted.sample(40_000, random_state=0))
    assert fitted.sample(0).shape == (0, 36)


def test_samples_have_the_released_covariance():
    """Independent draws of the two stripes would not agree."""
    model = SigmoidBeliefNetwork(4, epsilon=2.0, random_state=0, n_steps=20).set_unsafe(test_key=KEY)
    model.fit(STRIPES)
    drawn = model.sample(20_000, random_state=0)

    def between(rows):
        stripes = rows.reshape(len(rows), 4, 9).mean(axis=2)
        return np.corrcoef(stripes.T)

    assert between(STRIPES)[0, 1] > 0.5 and abs(between(STRIPES)[0, 2]) < 0.05
    np.testing.assert_allclose(between(drawn), between(STRIPES), atol=0.12)


@pytest.mark.parametrize("angle", [-1.4, -0.5, 0.0, 0.3, 1.0, 1.4])
def test_joint_excess_is_that_of_the_bivariate_normal(angle):
    thresholds = [(0.0, 0.0), (-2.0, 2.0), (1.5, 1.5), (0.3, -1.1), (-2.0, -2.0)]
    found = joint_excess(*np.array(thresholds).T, np.full(5, angle))
    r = np.sin(angle)
    exact = [multivariate_normal.cdf(ab, cov=[[1, r], [r, 1]], abseps=1e-10) - np.prod(ndtr(ab)) for ab in thresholds]
    np.testing.assert_allclose(found, exact, atol=2e-8)


def test_thresholded_normals_have_the_moments_asked_for():
    rng = np.random.default_rng(0)
    u = rng.standard_normal((200_000, 5)) @ rng.normal(size=(5, 5)) < rng.normal(size=5)
    mean, covariance = u.mean(axis=0), np.cov(u.T)
    thresholds, factor = thresholded_normal(mean, covariance)
    z = rng.standard_normal((200_000, 5)) @ factor.T < thresholds
    # Five standard deviations of a mean of 200,000 numbers of variance at most 1/4.
    np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.006)
    np.testing.assert_allclose(np.cov(z.T), covariance, atol=0.006)
    # What no binary variables can have leaves the means as they are.
    covariance = np.full((5, 5), -0.25)
    thresholds, factor = thresholded_normal(mean, covariance)
    z = rng.standard_normal((200_000, 5)) @ factor.T < thresholds
    np.testing.assert_allclose(z.mean(axis=0), mean, atol=0.006)
    # One unit has no pairs.
    thresholds, factor = thresholded_normal(np.array([0.5]), np.array([[0.25]]))
    assert thresholds.tolist() == [0.0] and factor.tolist() == [[1.0]]
