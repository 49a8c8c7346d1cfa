"""Runs of equal steps as events. The accounting's properties are tried on them."""

import math

import mpmath
import numpy as np
from hypothesis import settings

from vips_fast import accounting as acc

# Timings vary on shared machines; the same examples on every run.
QUIET = settings(deadline=None, derandomize=True)


def poisson(q, z, steps=1):
    return acc.SelfComposedEvent(acc.PoissonSampledEvent(q, acc.GaussianEvent(z)), steps)


def fixed(size, n, z, steps=1):
    return acc.SelfComposedEvent(acc.WithoutReplacementEvent(size, n, acc.GaussianEvent(z)), steps)


def exact_delta(mu, eps):
    """Delta of Gaussian noise, in 80 digits."""
    with mpmath.workdps(80):
        mu, eps = mpmath.mpf(mu), mpmath.mpf(eps)
        return mpmath.ncdf(mu / 2 - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / 2 - eps / mu)


def exact_group_profile(z, epsilon):
    """Exact delta of two equal rows of one person in two minibatches of an epoch, by sums over both outputs."""
    mu, (x, h) = 1.0 / z, np.linspace(-9.0, 9.0, 1801, retstep=True)
    weight = np.exp(-0.5 * x * x) * h / math.sqrt(2 * math.pi)
    same, apart = np.exp(2 * mu * x - 2 * mu * mu), np.exp(mu * x - 0.5 * mu * mu)
    ratio = 0.25 * (same[:, None] + same) + 0.5 * apart[:, None] * apart
    both = np.outer(weight, weight)
    assert abs(np.sum(both * ratio) - 1.0) < 1e-9
    gains = (ratio - math.exp(epsilon), 1.0 - math.exp(epsilon) * ratio)
    return max(float(np.sum(both * np.maximum(gain, 0.0))) for gain in gains)
