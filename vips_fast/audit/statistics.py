"""Confidence bounds of audits; each holds at the stated error probability."""

import math

import numpy as np


def clopper_pearson(successes: float, trials: float, error: float) -> tuple[float, float]:
    """Bound a proportion exactly, each side failing with probability ``error``.

    Clopper & Pearson 1934. Numbers that are not whole belong to an effective sample (Korn & Graubard 1998), and the
    bounds are no longer exact.
    """
    from scipy.special import betaincinv

    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, error))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1.0 - error))
    return low, high


def mu_interval(first: np.ndarray, second: np.ndarray, error: float) -> tuple[float, float, float]:
    """Estimate Gaussian-DP mu between two normal samples: value, lower and upper end.

    mu = |difference of means| / sd of the projected releases of two neighboring data sets. The estimate's standard
    error is sqrt(1/n + 1/m + mu^2 / (2 (n + m))): delta method with the sample sd. Each end may fail with probability
    ``error``.
    """
    from scipy.special import ndtri

    n, m = len(first), len(second)
    variance = ((n - 1) * first.var(ddof=1) + (m - 1) * second.var(ddof=1)) / (n + m - 2)
    gap = abs(float(first.mean() - second.mean()))
    if variance == 0.0:
        mu = math.inf if gap > 0 else 0.0
        return mu, mu, mu
    mu = gap / math.sqrt(variance)
    half = -float(ndtri(error)) * math.sqrt(1 / n + 1 / m + mu * mu / (2 * (n + m)))
    return mu, max(0.0, mu - half), mu + half


def delta_lower_bound(
    with_record: np.ndarray, without: np.ndarray, epsilon: float, threshold: float, error: float
) -> float:
    """Compute a lower bound of delta(epsilon) from the test {score > threshold}.

    P(score > t | with) - e^epsilon P(score > t | without), Clopper-Pearson on both,
    with probability ``error`` of failing in all. Not below 0.
    """
    high = clopper_pearson(int((without > threshold).sum()), len(without), error / 2)[1]
    low = clopper_pearson(int((with_record > threshold).sum()), len(with_record), error / 2)[0]
    return max(0.0, low - math.exp(epsilon) * high)
