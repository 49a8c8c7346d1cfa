"""Smooth shares over periods by a random walk, from released sums."""

from dataclasses import dataclass

import numpy as np

from ...data.types import Matrix
from ..smoothing import smoothed
from .readout import share_covariance, share_intervals


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
        shares = smoothed(shares.T, of_shares).T
    return Course(periods, np.clip(shares, 0.0, 1.0), *share_intervals(sums, np.diag(covariance), level))
