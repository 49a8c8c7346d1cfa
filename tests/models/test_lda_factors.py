"""Test predictions from other topics on statistics with known truth."""

import numpy as np
import pytest

from vips_fast.models.lda.factors import TopicFactors, add_moments
from vips_fast.models.lda.shrinkage import ProductShrinkage

V, K = 3000, 10


def statistics(strength, seed=0):
    """(statistics, noised by sd 1, expected).

    Ratios of two groups of topics, each with a factor in common.
    """
    rng = np.random.default_rng(seed)
    mass = 40.0 * rng.gamma(0.5, 2.0, V)
    group = np.repeat(rng.gamma(1 / strength, strength, (V, 2)), K // 2, axis=1) if strength else 1.0
    ratios = group * rng.gamma(2.0, 0.5, (V, K))
    base = np.repeat(mass[:, None] / K, K, axis=1)
    noised = base * ratios + rng.standard_normal((V, K))
    return base * ratios, noised, base


def read(factors, x, base):
    """Predicted entries over ``base``; a mass that is their sum changes nothing."""
    single, sd = [np.asarray(array, dtype=np.float32) for array in (x, base)], np.ones(base.shape)
    found = factors.predict(*single, sd, np.ones(len(base))).astype(np.float64)
    return found / single[1]


def factors_of(x, base):
    sums = np.zeros((3, x.shape[1], x.shape[1]))
    add_moments(x.astype(np.float32), base.astype(np.float32), sums)
    return TopicFactors(sums, np.zeros(x.shape[1]))


def read_out(noised, asks):
    shrinkage = ProductShrinkage(K)
    if not asks:
        predict = shrinkage._predict

        def without_topics(average):
            predict(average)

        shrinkage._predict = without_topics
    shrinkage.update(noised, np.ones((1, 1)))
    return shrinkage.means(0, V)


def test_the_covariance_is_found():
    _, x, base = statistics(1.0)
    factors = factors_of(x, base)
    found = factors.loadings @ factors.loadings.T
    # Ratios of a group share a factor of mean and variance 1: covariance 1 within, 0 between.
    same = np.kron(np.eye(2), np.ones((K // 2, K // 2)))
    off = ~np.eye(K, dtype=bool)
    np.testing.assert_allclose(found[off], same[off], atol=0.25)
    # Their own factors have the variance 1/2, so that a ratio's is 2 * 1.5 - 1 = 2.
    np.testing.assert_allclose(np.diag(found) + factors.own, 2.0, atol=0.4)


def test_what_is_foreseen_is_the_conditional_mean_given_the_others():
    _, x, base = statistics(1.0)
    factors = factors_of(x, base)
    found = read(factors, x[:40], base[:40])
    covariance = factors.loadings @ factors.loadings.T + np.diag(factors.own)
    ratios = np.empty((40, K))
    for v in range(40):
        whole = base[v][:, None] * covariance * base[v] + np.eye(K)
        for k in range(K):
            others = np.arange(K) != k
            slope = np.linalg.solve(whole[np.ix_(others, others)], whole[others, k])
            expected = 1.0 + slope @ (x[v] - base[v])[others] / base[v, k]
            ratios[v, k] = max(expected, 0.1)
    # Rounded to float32, and scaled to the word's mass.
    aim = ratios / (ratios * base[:40]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, aim, rtol=1e-5)
    # So an entry's own statistic changes nothing but the scale.
    other = x[:40].copy()
    other[:, 3] += 5.0
    ours, before = (array[:, 3] for array in (read(factors, other, base[:40]), found))
    rest = np.arange(K) == 4
    assert (ours != before).any() and ratios[:, rest].all()


def test_topics_that_go_together_help_and_others_do_no_harm():
    def gain(strength, seed):
        truth, noised, _ = statistics(strength, seed)
        errors = [((read_out(noised, asks) - truth) ** 2).mean() for asks in (True, False)]
        return errors[0] / errors[1]

    # Measured: .887 to .889; and .999 to 1.001.
    assert max(gain(3.0, seed) for seed in range(3)) < 0.92
    assert max(gain(0.0, seed) for seed in range(3)) < 1.01


def test_of_noise_alone_nothing_is_predicted():
    rng = np.random.default_rng(0)
    base = np.full((V, K), 0.5)
    factors = factors_of(base + rng.standard_normal((V, K)), base)
    assert factors.loadings.shape == (K, 0)
    np.testing.assert_allclose(read(factors, base, base), 2.0 / K, rtol=1e-6)


@pytest.mark.parametrize("n_topics", [1, 2, 3])
def test_few_topics(n_topics):
    rng = np.random.default_rng(0)
    noised = rng.gamma(1.0, 3.0, (500, n_topics)) + rng.standard_normal((500, n_topics))
    shrinkage = ProductShrinkage(n_topics)
    shrinkage.update(noised, np.ones((1, 1)))
    means = shrinkage.means(0, 500)
    assert np.isfinite(means).all() and (means >= 0).all()
    # A statistic that is all there is of a word predicts nothing of itself.
    assert np.allclose(shrinkage._predicted[:, 0], shrinkage.mass) == (n_topics == 1)
