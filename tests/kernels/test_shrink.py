"""Read-out of noised statistics: what the means must do; test_reference.py has the twin."""

import numpy as np
import pytest
from inputs import shrink_means, shrinking

from vips_fast.kernels import native

ISAS = native.isas_available()
NO_BAND = np.zeros(20, dtype=np.int32)


@pytest.mark.parametrize("isa", ISAS)
def test_clear_statistics_come_through_unchanged(isa):
    # 10^4 times the noise, between the grid's points: a prior of points would be up to a quarter off.
    grid = np.concatenate(([0.0], np.geomspace(0.05, 8, 15))).astype(np.float32)
    ratio = np.linspace(0.06, 7.5, 80).reshape(10, 8)
    prior = np.full((1, 16), 1 / 16, dtype=np.float32)
    means, _ = shrink_means(ratio * 1e4, 1.0, np.full(10, 8e4), np.full(8, 1 / 8), grid, prior, NO_BAND[:10], isa)
    np.testing.assert_allclose(means, ratio * 1e4, rtol=2e-3)


@pytest.mark.parametrize("isa", ISAS)
def test_far_below_zero_is_zero(isa):
    average, sd, *rest, _ = shrinking(np.random.default_rng(0), 20, 5, 16, 1)
    means, _ = shrink_means(np.full(average.shape, -50.0), sd, *rest, NO_BAND, isa)
    assert (means >= 0).all() and np.isfinite(means).all()
    # 170 noise standard deviations below 0: only what is lost in the noise could be behind it.
    assert (means <= 0.1 * sd).all()


@pytest.mark.parametrize("isa", ISAS)
def test_bad_band_is_refused(isa):
    *rest, _ = shrinking(np.random.default_rng(0), 4, 3, 16, 2)
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        shrink_means(*rest, np.full(4, 2, dtype=np.int32), isa)
