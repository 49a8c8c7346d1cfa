"""Read topics that drift out of released sums by period: post-processing.

The release has sums S of words v in topics k and periods p (`vips_fast.models.lda.drift_model`), with a noise of known
variance s^2 in each entry. A topic's sum in a period is T = sum_v S, its noise has the variance w.

*Shares.* The share of a word in a topic and a period is S / T. To first order its noise has the variance (s^2 (1 - 2 x)
+ x^2 w) / T^2 at a share of x. Intervals are of each period by itself, so they hold whatever the words do.

*Change.* The mean change of a share from a period to the next is by least squares. Its interval knows the noise, and
the choice of documents: a share x of T has the further variance D x / T. Its dispersion D is common to a topic's words,
and is found from what lies off their lines, beyond the noise. So words that move in curves widen it. With two periods
there is no D, and the interval is for the noise. A word *moved* if 0 is outside of its interval at the level 1 - (1 -
level) / (K V) (`vips_fast.models.several`). So with a probability of about ``level`` no word is listed that only chance
moved.

*Topics of a period* are the topics b that the sums were made with, and a deviation from them. A topic's size t in a
period is the least-squares factor of b in the sums, which noise moves less than T. The deviations d = S / t - b of a
word are a random walk over the periods with a start of variance a and steps of variance q. Both are in units of the
noise. They have a prior on a grid, which EM learns from all words of a topic (`vips_fast.models.smoothing.shrink`). So
the words of a topic that did not move keep b, and the words that moved follow the months beside them. The size is found
once more with the result in place of b.

Intervals of shares are about the records in the fit: they know the noise, and not which other documents could have been
written. Sums are of clipped contributions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from ...data.types import Array, Matrix
from ..several import clear_deviations
from ..smoothing import shrink

#: Standard deviations of its noise that a topic's sum must have, for its shares of a period to be read.
_CLEAR = 4.0
#: Times that the sizes of topics are found: with the topics as they were, and then as they are.
_ROUNDS = 2


@dataclass(frozen=True)
class Drift:
    """Words of topics over periods.

    Attributes
    ----------
    periods : tuple of str
        Names of the P periods, in order.
    words : tuple of str
        Names of the V words.
    topics : (P, K, V) array
        Probability of each word in each topic and period; rows sum to 1.
    low, high : (P, K, V) arrays
        Ends of intervals for the share without noise; 0 and 1 where noise hides the topic.
    change : (K, V) array
        Mean change of a share from a period to the next.
    change_low, change_high : (K, V) arrays
        Ends of intervals of the changes, which hold for all words together.
    """

    periods: tuple[str, ...]
    words: tuple[str, ...]
    topics: Array
    low: Array
    high: Array
    change: Matrix
    change_low: Matrix
    change_high: Matrix

    def moved(self) -> list[tuple[int, int]]:
        """List (topic, word) of the words that moved, the clearest first."""
        sure = np.maximum(self.change_low, -self.change_high)
        order = np.argsort(-sure, axis=None, kind="stable")
        return [(int(k), int(v)) for k, v in zip(*np.unravel_index(order, sure.shape), strict=True) if sure[k, v] > 0]

    def rows(self) -> list[list[Any]]:
        """List the shares of the words that moved, below a head."""
        rows: list[list[Any]] = [["topic", "word", "period", "share", "low", "high"]]
        for k, v in self.moved():
            for t, period in enumerate(self.periods):
                numbers = (float(array[t, k, v]) for array in (self.topics, self.low, self.high))
                rows.append([k + 1, self.words[v], period, *numbers])
        return rows


def read_drift(
    sums: Array, noise_sd: Matrix, topics: Matrix, periods: tuple[str, ...], words: tuple[str, ...], level: float
) -> Drift:
    """Read sums (P, K, V) with their noise (K, V), made with ``topics`` (K, V)."""
    variances = np.broadcast_to(noise_sd**2, sums.shape)
    totals, noise = sums.sum(axis=2), variances.sum(axis=2)
    clear = totals > _CLEAR * np.sqrt(noise)
    totals = np.where(clear, totals, np.maximum(totals, _CLEAR * np.sqrt(noise) + 1e-300))
    shares = sums / totals[:, :, None]
    of_shares = (variances * (1.0 - 2.0 * shares) + shares**2 * noise[:, :, None]) / totals[:, :, None] ** 2
    of_shares = np.maximum(of_shares, 1e-300)
    half = float(scipy.special.ndtri(0.5 + level / 2)) * np.sqrt(of_shares)
    low, high = (
        np.where(clear[:, :, None], np.clip(shares + sign * half, 0, 1), end) for sign, end in ((-1, 0), (1, 1))
    )
    factors = _factors(len(sums))
    change = np.einsum("p,pkv->kv", factors, shares)
    found = np.stack(
        [_follow(sums[:, k], noise_sd[k] ** 2, topics[k], clear[:, k]) for k in range(len(topics))], axis=1
    )
    chance = of_shares + _chance(shares, of_shares, found / totals[:, :, None])
    widths = clear_deviations(change.size, sides=2, level=level) * np.sqrt(np.einsum("p,pkv->kv", factors**2, chance))
    widths[~clear.all(axis=0)] = math.inf
    return Drift(periods, words, found, low, high, change, change - widths, change + widths)


def change_width(n_periods: int, n_entries: int, level: float) -> float:
    """Find the half width of a change's interval, over a share's noise."""
    return clear_deviations(n_entries, sides=2, level=level) * float(np.linalg.norm(_factors(n_periods)))


def _factors(n_periods: int) -> np.ndarray:
    """Make the factors of the mean change by least squares."""
    steps = np.arange(n_periods) - (n_periods - 1) / 2
    return np.asarray(steps / (steps @ steps))


def _chance(shares: Array, noise: Array, counted: Array) -> Array:
    """Estimate the variance of shares by the choice of documents, (P, K, V)."""
    if len(shares) < 3:
        return np.zeros_like(shares)
    factors = _factors(len(shares))
    steps = factors / (factors @ factors)
    rest = shares - shares.mean(axis=0) - steps[:, None, None] * np.einsum("p,pkv->kv", factors, shares)
    apart, weights = (rest**2).sum(axis=0) / (len(shares) - 2), 1.0 / noise.mean(axis=0)
    dispersion = (apart * weights - 1.0).sum(axis=1) / (counted.mean(axis=0) * weights).sum(axis=1)
    return np.asarray(np.maximum(dispersion, 0.0)[:, None] * counted)


def _follow(sums: Matrix, scale: np.ndarray, start: np.ndarray, clear: np.ndarray) -> Matrix:
    """Find a topic's words, (P, V), in each period.

    ``scale``, (V,), are the variances of the noise.
    """
    found = np.tile(start, (len(sums), 1))
    if not scale.all():
        return np.where(clear[:, None], sums / np.maximum(sums.sum(axis=1), 1e-300)[:, None], start)
    if not clear.any():
        return found
    seen = np.flatnonzero(clear)
    for _ in range(_ROUNDS):
        shape = found[seen] / scale
        sizes = (sums[seen] * shape).sum(axis=1) / (found[seen] * shape).sum(axis=1)
        seen, sizes = seen[sizes > 0], sizes[sizes > 0]
        if not len(seen):
            break
        deviations = (sums[seen] / sizes[:, None] - start) / np.sqrt(scale)
        found[seen] = np.maximum(start + shrink(deviations, sizes**-2.0, seen) * np.sqrt(scale), start * 1e-3)
        found /= found.sum(axis=1, keepdims=True)
    return found
