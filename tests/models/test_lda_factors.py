"""Test predictions from other topics on statistics with known truth."""

import tracemalloc

import numpy as np
import pytest

from vips_fast.kernels import native
from vips_fast.models.lda import model as lda
from vips_fast.models.lda.model import ProductShrinkage, TopicFactors

V, K = 3000, 10


def statistics(strength, seed=0):
    """(statistics, noised by sd 1, expected). Ratios of two groups of topics, each with a factor in common."""
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
    (n_topics, q), found = factors.loadings.shape, np.empty_like(single[0])
    work = np.empty(8 * (4 * n_topics + 30 + q * (q + 2)))
    native.topic_ratios(*single, sd, np.ones(len(base)), factors.loadings, factors.own, work, found)
    return found.astype(np.float64) / single[1]


def factors_of(x, base, n_threads=1):
    return TopicFactors(x.astype(np.float32), base.astype(np.float32), n_threads)


def read_out(noised, asks):
    shrinkage = ProductShrinkage(K)
    if not asks:
        expect = shrinkage._expect

        def without_topics(average):
            expect(average)

        shrinkage._expect = without_topics
    shrinkage.update(noised, np.ones((1, 1)))
    return shrinkage.means(0, V)


def test_a_topic_without_a_share_has_no_covariance():
    base = np.full((50, 4), 3.0)
    base[:, 1] = 1e-30
    x = np.full(base.shape, 1e12)
    factors = factors_of(x, base)
    assert np.isfinite(factors.loadings).all() and np.isfinite(factors.own).all()
    assert (factors.loadings[1] == 0).all()


@pytest.mark.parametrize("rank", [0, 1, 5, 40])
def test_the_largest_eigenvalues_of_many_topics_are_those_of_few(rank, monkeypatch):
    rng = np.random.default_rng(rank)
    base = np.full((400, 300), 2.0)
    ratios = 1 + 0.2 * rng.normal(size=(400, rank)) @ rng.normal(size=(rank, 300)) if rank else np.ones(base.shape)
    x = base * ratios + (rng.standard_normal(base.shape) if rank else 0)
    few = factors_of(x, base)
    monkeypatch.setattr(lda, "_ALL_PAIRS", 1000)
    found = factors_of(x, base)
    assert few.loadings.shape == found.loadings.shape
    aim = found.loadings @ found.loadings.T
    np.testing.assert_allclose(few.loadings @ few.loadings.T, aim, atol=1e-8 * max(np.abs(aim).max(initial=0), 1))
    np.testing.assert_allclose(few.own, found.own, atol=1e-8)


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


@pytest.mark.parametrize(("n_words", "n_topics"), [(6000, 600), pytest.param(1_000_000, 3, marks=pytest.mark.slow)])
def test_memory_of_an_update_is_in_proportion_to_the_statistics(n_words, n_topics):
    """At most 3 times the statistics as float64, and 64 MiB; work and results of the E-step are not counted.

    A million words take long.
    """
    rng = np.random.default_rng(0)
    average = rng.gamma(0.1, 10.0, (n_words, n_topics)) + rng.standard_normal((n_words, n_topics))
    shrinkage = ProductShrinkage(n_topics)
    tracemalloc.start()
    for _ in range(2):
        shrinkage.update(average, np.ones((1, 1)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 3 * average.nbytes + 2**26
