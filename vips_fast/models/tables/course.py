"""Smooth shares over periods by a random walk, from released sums."""

from dataclasses import dataclass

import numpy as np

from ...data.types import Matrix
from .readout import share_covariance, share_intervals

#: Variances of a step of the walk that are tried, as shares of the mean variance of the noise, and their number.
_LEAST, _MOST, _TRIED = 1e-4, 1e3, 29


@dataclass(frozen=True)
class Course:
    """Shares of topics in each period.

    Attributes
    ----------
    periods : tuple of str
        Names of the P periods, in order.
    shares : (P, K) array
        Smoothed or not.
    low, high : (P, K) arrays
        Ends of intervals for the share without noise.
    """

    periods: tuple[str, ...]
    shares: Matrix
    low: Matrix
    high: Matrix


def course_of(periods: tuple[str, ...], sums: np.ndarray, covariance: np.ndarray, level: float, smooth: bool) -> Course:
    """Make the course of sums (P, K).

    Their noise has a covariance (P, P) in each topic.

    Intervals are not smoothed. So they have their level whatever the shares do, and a smoothed share may be off their
    middle.
    """
    shares, of_shares = share_covariance(sums, covariance)
    if smooth and len(periods) > 2:
        shares = np.column_stack([smoothed(*one) for one in zip(shares.T, of_shares, strict=True)])
    return Course(periods, np.clip(shares, 0.0, 1.0), *share_intervals(sums, np.diag(covariance), level))


def smoothed(values: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Smooth values (P,) with noise of a known covariance (P, P).

    The model is a random walk with a flat start and steps of variance q (Durbin & Koopman 2012, chapter 2, for
    independent noise). Given q, the posterior is normal. It is solved here as a whole, since the noise of periods is
    correlated. q has a flat prior on a grid of its logarithm. The result averages the posterior means over the grid by
    the likelihood of the values.
    """
    n = len(values)
    scale = float(np.trace(noise)) / n
    walk, ones = np.minimum.outer(np.arange(n), np.arange(n)).astype(np.float64), np.ones(n)
    logs, means = [], []
    for q in scale * np.geomspace(_LEAST, _MOST, _TRIED):
        whole = q * walk + noise
        of_ones, of_values = np.linalg.solve(whole, np.column_stack([ones, values])).T
        start = float(ones @ of_values) / float(ones @ of_ones)
        rest = of_values - start * of_ones
        logs.append(-0.5 * (np.linalg.slogdet(whole)[1] + np.log(ones @ of_ones) + (values - start) @ rest))
        means.append(start + q * (walk @ rest))
    weights = np.exp(np.array(logs) - max(logs))
    return np.asarray(weights @ np.array(means) / weights.sum())
