"""Runs of equal steps as events. The accounting's properties are tried on them."""

from hypothesis import settings

from vips_fast import accounting as acc

# Timings vary on shared machines; the same examples on every run.
QUIET = settings(deadline=None, derandomize=True)


def poisson(q, z, steps=1):
    return acc.SelfComposedEvent(acc.PoissonSampledEvent(q, acc.GaussianEvent(z)), steps)


def fixed(size, n, z, steps=1):
    return acc.SelfComposedEvent(acc.WithoutReplacementEvent(size, n, acc.GaussianEvent(z)), steps)
