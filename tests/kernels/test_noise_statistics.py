"""Rounded Gaussian noise as a sample: moments, distribution, low bytes, symmetry, correlation.

p-values are asserted above 10^-6. The keys are fixed, so that a passing test stays
passing; the last test draws under fresh keys.
"""

import math

import numpy as np
import pytest
from scipy import stats

from vips_fast.kernels import add_rounded_gaussian, rounded_gaussian, symmetric_gaussian

LEAST_P = 1e-6
SCALE = 2.0**22.5
CI, FULL = 10**6, 10**7
SIZES = [CI, pytest.param(FULL, marks=pytest.mark.slow)]


def draws(n, seed=0, scale=SCALE):
    return rounded_gaussian(scale, n, unsafe_test_key=bytes([seed]) * 32)


def two_sided(z):
    return 2 * stats.norm.sf(abs(z))


@pytest.mark.parametrize("n", SIZES)
def test_draws_are_standard_normal(n):
    x = draws(n) / SCALE
    assert two_sided(x.mean() * math.sqrt(n)) > LEAST_P
    # Rounding adds 1/12 step^2 to the variance: 10^-15 of it here.
    assert two_sided((x @ x - n) / math.sqrt(2 * n)) > LEAST_P
    assert stats.kstest(x, stats.norm.cdf, mode="asymp").pvalue > LEAST_P
    assert stats.ks_2samp(x[x > 0], -x[x < 0], mode="asymp").pvalue > LEAST_P


@pytest.mark.parametrize("n", SIZES)
def test_low_bytes_are_uniform(n):
    """The low 16 bits are uniform at fine steps.

    At 6 million steps a standard deviation, far beyond the sight of n draws.
    """
    x = draws(n, 4)
    for shift in (0, 8):
        assert stats.chisquare(np.bincount(x >> shift & 255, minlength=256)).pvalue > LEAST_P
    # Each residue class modulo 8 of the element's number separately: they are the kernel's lanes.
    for lane in range(16):
        assert stats.chisquare(np.bincount(x[lane::16] & 255, minlength=256)).pvalue > LEAST_P


@pytest.mark.parametrize("n", SIZES)
def test_no_correlation_between_entries(n):
    """Values, squares and low bytes at several lags.

    Those of pairs, lanes and groups; Box-Muller pairs share a radius.
    """
    x = draws(n, 7)
    values = x / SCALE
    for series in (values, (values**2 - 1) / math.sqrt(2), ((x & 255) - 127.5) / math.sqrt((256**2 - 1) / 12)):
        for lag in (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 32, 64, 127, 128, 129, 1024, 65536):
            assert two_sided(series[lag:] @ series[:-lag] / math.sqrt(n - lag)) > LEAST_P, lag


def test_no_correlation_between_keys():
    """Two releases, also when their keys differ in one bit only."""
    x = draws(CI, 9) / SCALE
    for other in (bytes([9]) * 31 + b"\x08", b"\x0b" + bytes([9]) * 31, bytes([10]) * 32):
        y = rounded_gaussian(SCALE, CI, unsafe_test_key=other) / SCALE
        assert two_sided(x @ y / math.sqrt(CI)) > LEAST_P
        assert (x != y).mean() > 0.999


@pytest.mark.parametrize("form", ["orthonormal", "analyze_gauss"])
def test_symmetric_noise_has_the_stated_variances(form):
    d = 800
    noise = symmetric_gaussian(d, SCALE, form=form, unsafe_test_key=b"\3" * 32) / SCALE
    off = noise[np.triu_indices(d, 1)] * (math.sqrt(2) if form == "orthonormal" else 1.0)
    diagonal = np.diag(noise)
    for sample in (off, diagonal):
        n = len(sample)
        assert two_sided((sample @ sample - n) / math.sqrt(2 * n)) > LEAST_P
        assert stats.kstest(sample, stats.norm.cdf, mode="asymp").pvalue > LEAST_P


def test_fresh_keys_give_standard_normals():
    """No known key: 64 releases together. Fails once in 10^6 runs if all is well."""
    x = np.concatenate([rounded_gaussian(SCALE, 5000) for _ in range(32)]).astype(float)
    for _ in range(32):
        sums = np.zeros(5000, dtype=np.int64)
        add_rounded_gaussian(sums, SCALE)
        x = np.append(x, sums)
    assert stats.kstest(x / SCALE, stats.norm.cdf, mode="asymp").pvalue > LEAST_P
