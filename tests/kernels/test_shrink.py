"""Read-out of noised statistics: properties of the means; test_reference.py has the twin."""

import numpy as np
import pytest
from inputs import shrink_means, shrinking

from vips_fast.kernels import native

ISAS = native.isas_available()


@pytest.mark.parametrize("isa", ISAS)
def test_clear_statistics_come_through_unchanged(isa):
    # 10^4 times the noise, between the grid's points: a prior of points would be up to a quarter off.
    grid = np.concatenate(([0.0], np.geomspace(0.05, 8, 15))).astype(np.float32)
    ratio = np.linspace(0.06, 7.5, 80).reshape(10, 8)
    prior = np.full((1, 16), 1 / 16, dtype=np.float32)
    expected = np.full(ratio.shape, 1e4, dtype=np.float32)
    means, _ = shrink_means(ratio * 1e4, expected, grid, prior, np.empty(0), isa)
    np.testing.assert_allclose(means, ratio * 1e4, rtol=2e-3)


@pytest.mark.parametrize("isa", ISAS)
def test_far_below_zero_is_zero(isa):
    x, *rest = shrinking(np.random.default_rng(0), 20, 5, 16, 1)
    means, _ = shrink_means(np.full(x.shape, -170.0), *rest, isa)
    assert (means >= 0).all() and np.isfinite(means).all()
    # 170 noise standard deviations below 0: only a mean lost in the noise could be behind it.
    assert (means <= 0.1).all()


@pytest.mark.parametrize("isa", ISAS)
def test_an_edge_belongs_to_the_band_above_it(isa):
    """As by numpy.searchsorted from the right. Edges are float64, and expected values float32."""
    edges = np.array([0.1, 1.0, 1e3 / 3])
    near = edges.astype(np.float32)
    expected = np.concatenate([np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(1e9))])[:, None]
    grid, prior = np.array([0.0, 1.0], dtype=np.float32), np.full((4, 2), 0.5, dtype=np.float32)
    _, responsibility = shrink_means(np.ones((9, 1)), expected, grid, prior, edges, isa)
    counts = np.bincount(np.searchsorted(edges, expected[:, 0], side="right"), minlength=4)
    np.testing.assert_allclose(responsibility.sum(axis=1), counts, rtol=1e-6)
