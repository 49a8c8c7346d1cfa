"""Noised histograms of words.

A step that releases masses adds up one number for each word. A unit's word counts are taken to a power, because words
come in bursts, and divided by public scales. Units above a public norm are scaled down to it. This norm is then the
clip. All functions of this module but `add_histogram` are post-processing.

With a public prior (`vips_fast.models.lda.public_topics`) the power is 1/2, the scales are d_v = (f_v / max f)^(1/4),
and the norm is that of a unit of the released length. Without one the power is 3/4, the norm is a usual document's, and
the scales follow the histograms before (`.model.EntryScales`). On eight corpora exact sums of this kind
predict words 0 to 3 % worse than exact frequencies do. Sums of documents that were brought to one length are 1 to 10 %
worse. If nobody says a length, the norm is half of the usual document's. Documents of six words are then predicted 5 %
better, and seven corpora of longer ones level within 0.2 %. Persons have several documents, so theirs stays. If topics
stand clear of the noise, the norm is four times the usual one and the power is 1. Persons who write much then have more
of their due weight.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engine.model import Release, array_of
from ...kernels import native
from .records import UnitWords, unit_words

#: The power of word frequencies in the scales; above the norm, in scaled units, a unit contributes its direction.
_SCALE, LONG_HISTOGRAM = 0.25, 8.0
#: The power of counts without public frequencies; the norm if topics stand clear, and otherwise if no
#: length of single documents is known, over the usual one.
COUNT_POWER, CLEAR_NORM, UNKNOWN_NORM = 0.75, 4.0, 0.5
#: The ridge of topic weights: their relative standard deviation, times the root of the number of topics.
_RIDGE, _SWEEPS = 1.0, 200
#: Standard deviations above the noise that no release reaches, even with the least noise that there is.
_MOST_CLEAR = 1e30
#: Margin for the rounding of norms, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9


def histogram_scales(frequencies: np.ndarray) -> np.ndarray:
    """Compute d, (V,), in (0, 1], from public word frequencies."""
    return np.asarray((frequencies / frequencies.max()) ** _SCALE)


def add_histogram(
    units: UnitWords, scales: np.ndarray, clip: float, power: float, long: float, spacing: float, out: np.ndarray
) -> None:
    """Add units' contributions to a histogram, (V,) int64.

    Counts are taken to a ``power`` and divided by the word's scale. From a norm of ``long`` on, a unit contributes its
    direction. A unit's values are a function of its own entries, in their order, are at least 0 and have an L2 norm of
    at most ``clip``. They are added in units of ``spacing``, truncated toward zero.
    """
    ends, columns, counts = units
    # The spacing is a power of two, so that the factor is exact.
    native.word_histogram(ends, columns, counts**power, scales, clip * _BELOW, long, 1.0 / spacing, out)


class WordHistogram:
    """The average of released histograms of words.

    Contributions have an L2 norm of at most ``clip``.

    ``scales``, (V,), ``power`` and ``long`` are as in `add_histogram`, and public. They are the first release's scales;
    later ones may have others.
    """

    def __init__(self, scales: np.ndarray, clip: float, power: float, long: float):
        self._first_scales, self.scales, self._clip, self._power, self._long = scales, scales, clip, power, long
        self._sum, self._precision, self.count = np.zeros(len(scales)), np.zeros(len(scales)), 0

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, spacing: float) -> None:
        """Add a block's units to the first V entries. They are truncated toward zero on the noise's lattice."""
        n_words = len(self._sum)
        units, sums = unit_words(block, words, n_words), out.reshape(-1)[:n_words]
        add_histogram(units, self.scales, self._clip, self._power, self._long, spacing, sums)

    def add(self, release: Release) -> None:
        """Add a release, whose first V entries are a histogram. Its weight is the inverse of its variance."""
        unit = self.scales * (self._long / (self._clip * _BELOW))
        precision = np.maximum(release.noise_sd * unit, 1e-15) ** -2.0
        self._sum += precision * (release.units.reshape(-1)[: len(self._sum)] * (release.scale * unit))
        self._precision += precision
        self.count += 1

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean histogram and its noise, (V,) each.

        Raises ValueError if a release was not finite, or out of all proportion to its noise.
        """
        if not self.count:
            return np.zeros(len(self._sum)), np.full(len(self._sum), 1e-15)
        mean, sd = self._sum / self._precision, self._precision**-0.5
        if not (np.abs(mean) < _MOST_CLEAR * sd).all():
            raise ValueError("release: expected finite numbers")
        return mean, sd

    def state(self) -> dict[str, np.ndarray]:
        """Give arrays for `restore`."""
        sums = np.stack([self._sum, self._precision])
        return {"histogram": sums, "histograms": np.array([float(self.count)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Take a `state`; ValueError if it is not one."""
        (count,) = array_of(state, "histograms", (1,)).tolist()
        sums = array_of(state, "histogram", (2, len(self._sum)))
        if not 0 <= count < 2**31 or count != int(count) or sums[1].min() < 0 or (count and not sums[1].min()):
            raise ValueError("state: 'histograms' is out of its range")
        (self._sum, self._precision), self.count, self.scales = sums, int(count), self._first_scales


def topic_weights(x: np.ndarray, sd: np.ndarray, topics: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Estimate topic weights of a noised histogram and its total.

    Returns weights, (K,), which sum to 1, and c > 0.

    ``x`` and ``sd`` are the histogram and its noise, (V,), ``topics`` word probabilities (K, V), ``weights`` (K,).
    """
    total = max(float(x.sum()), float(np.sqrt((sd * sd).sum())))
    scaled = topics / sd
    ridge = 1.0 / (_RIDGE**2 * weights / len(weights) * total**2)
    gram = scaled @ scaled.T
    gram[np.diag_indices_from(gram)] += ridge
    aim = scaled @ (x / sd) + ridge * total * weights
    found, inverse = total * weights, 1.0 / np.diag(gram)
    slope = gram @ found - aim
    for _ in range(_SWEEPS):
        largest = 0.0
        for k in range(len(found)):
            moved = max(found[k] - slope[k] * inverse[k], 0.0) - found[k]
            if moved:
                found[k] += moved
                slope += moved * gram[k]
                largest = max(largest, abs(moved))
        if largest <= 1e-6 * total:
            break
    # No topic of weight 0: it could not come back.
    found = np.maximum(found, 1e-3 * max(float(found.sum()), 1e-3 * total) * weights)
    return found / found.sum(), float(found.sum())
