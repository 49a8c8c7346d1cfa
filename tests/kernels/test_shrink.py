"""Read-out of noised statistics: kernel against reference, and what the means must do."""

import numpy as np
import pytest

from vips_fast.kernels import native

ISAS = native.isas_available()
# float32 exponents of up to some 100 have errors of 100 times its resolution, and so
# have the weights; the sums of 17 add little.
TOLERANCE = 1e-4


def problem(n_words, n_topics, n_grid, n_bands, seed=0):
    """Statistics from 1/30 of the noise to 300 times it."""
    rng = np.random.default_rng(seed)
    grid = np.concatenate(([0.0], np.geomspace(0.05, max(2.0, n_topics), n_grid - 1)))[:n_grid].astype(np.float32)
    mass = np.geomspace(0.03, 300, n_words) * n_topics
    weight = rng.dirichlet(np.full(n_topics, 20.0))
    average = np.outer(mass, weight) * rng.gamma(0.5, 2.0, (n_words, n_topics)) + rng.normal(size=(n_words, n_topics))
    prior = rng.dirichlet(np.ones(n_grid), n_bands).astype(np.float32)
    band = rng.integers(0, n_bands, n_words).astype(np.int32)
    return average * 0.3, 0.3, mass * 0.3, weight, grid, prior, band


def call(average, sd, mass, weight, grid, prior, band, isa):
    means = np.empty(average.shape, dtype=np.float32)
    responsibility = np.zeros(prior.shape)
    workspace = np.empty(2 * average.shape[1] + 32, dtype=np.float32)
    native.shrink_means(average, sd, mass, weight, grid, prior, band, workspace, means, responsibility, isa)
    return means, responsibility


@pytest.mark.parametrize("isa", ISAS)
def test_clear_statistics_come_through_unchanged(isa):
    # 10^4 times the noise, between the grid's points: a prior of points would be up to a quarter off.
    grid = np.concatenate(([0.0], np.geomspace(0.05, 8, 15))).astype(np.float32)
    ratio = np.linspace(0.06, 7.5, 80).reshape(10, 8)
    prior = np.full((1, 16), 1 / 16, dtype=np.float32)
    mass, weight = np.full(10, 8e4), np.full(8, 1 / 8)
    means, _ = call(ratio * 1e4, 1.0, mass, weight, grid, prior, np.zeros(10, dtype=np.int32), isa)
    np.testing.assert_allclose(means, ratio * 1e4, rtol=2e-3)


@pytest.mark.parametrize("isa", ISAS)
def test_far_below_zero_is_zero(isa):
    average, sd, mass, weight, grid, prior, band = problem(20, 5, 16, 1)
    means, _ = call(np.full(average.shape, -50.0), sd, mass, weight, grid, prior, np.zeros(20, dtype=np.int32), isa)
    assert (means >= 0).all() and np.isfinite(means).all()
    # 170 noise standard deviations below 0: only what is lost in the noise could be behind it.
    assert (means <= 0.1 * sd).all()


@pytest.mark.parametrize("isa", ISAS)
def test_bad_band_is_refused(isa):
    average, sd, mass, weight, grid, prior, band = problem(4, 3, 16, 2)
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        call(average, sd, mass, weight, grid, prior, np.full(4, 2, dtype=np.int32), isa)
