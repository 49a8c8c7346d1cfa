"""Runs of equal steps as events. The accounting's properties are tried on them."""

import mpmath
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
