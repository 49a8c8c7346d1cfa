"""Noised histograms of words, and their read-out with public topics.

A step that releases masses adds up one number for each word. A unit's word counts are taken to a power, because words
come in bursts, and divided by public scales. Units above a public norm are scaled down to it. This norm is then the
clip. All functions of this module but `add_histogram` are post-processing.

With a public prior the power is 1/2 and the scales are d_v = (f_v / max f)^(1/4). Nearly every unit contributes a
direction. Without one the power is 3/4, the norm is a usual document's, and the scales follow the histograms before
(`vips_fast.models.lda.scaling`). On eight corpora exact sums of this kind predict words 0 to 3 % worse than exact
frequencies do. Sums of documents that were brought to one length are 1 to 10 % worse, and 1/2 loses up to 6 %. With
much noise 1/2 is 1 % better. A norm that suits the documents gains 30 % on those of six words. If nobody says a length,
the norm is half of the usual document's. Documents of six words are then predicted 5 % better, and seven corpora of
longer ones level within 0.2 %. Persons have several documents, so theirs stays. If topics stand clear of the noise, the
norm is four times the usual one and the power is 1. Persons who write much then have more of their due weight.

The read-out with public topics has three parts. Topic weights a >= 0 are found by least squares of the noised histogram
on the public topics. They are weighted by the noise, with a ridge toward the weights that the prior has. Their mixture
is the base g. The masses are c g_v s_v with a prior of s for each band of c g_v over the noise. It starts as a
log-normal distribution with mean one and is learned by EM. Its mean follows the band's, as far as the noise shows it.
Where noise hides a word, its mass is the base's.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...engine.model import Release, array_of
from ...kernels import native
from ...kernels.psd import one_blas_thread
from .records import UnitWords, unit_words
from .shrinkage import KnownMasses, frequency_bands

#: The power of word frequencies in the scales; above the norm, in scaled units, a unit contributes its direction.
_SCALE, LONG_HISTOGRAM = 0.25, 8.0
#: The power of counts with public frequencies, and without them; the norm if topics stand clear, and otherwise if no
#: length of single documents is known, over the usual one.
_WITH_PRIOR, COUNT_POWER, CLEAR_NORM, UNKNOWN_NORM = 0.5, 0.75, 4.0, 0.5
#: The ridge of topic weights: their relative standard deviation, times the root of the number of topics.
_RIDGE, _SWEEPS = 1.0, 200
#: Points of log s, its standard deviation at the start, the words that the start counts as, and rounds of EM.
_POINTS, _LOWEST, _HIGHEST, _SD, _START, _ROUNDS = 61, -4.0, 7.0, 0.4, 30.0, 60
#: How far the mean of s in a band may be from 1: its standard deviation before the band is looked at.
_MEAN_SD = 0.3
_BANDS = np.arange(-6, 8)
#: Words that are read at a time.
_CHUNK = 1024
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

    def __init__(self, scales: np.ndarray, clip: float, power: float = _WITH_PRIOR, long: float = LONG_HISTOGRAM):
        self._first_scales, self.scales, self._clip, self._power, self._long = scales, scales, clip, power, long
        self._sum, self._precision, self.count = np.zeros(len(scales)), np.zeros(len(scales)), 0

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, spacing: float) -> None:
        """Add a block's units to the first V entries.

        They are truncated toward zero on the noise's lattice.
        """
        n_words = len(self._sum)
        units, sums = unit_words(block, words, n_words), out.reshape(-1)[:n_words]
        add_histogram(units, self.scales, self._clip, self._power, self._long, spacing, sums)

    def add(self, release: Release) -> None:
        """Add a release, whose first V entries are a histogram.

        Its weight is the inverse of its variance.
        """
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


def clear_words(frequencies: np.ndarray, n_units: float, distinct_words: float, noise: float) -> int:
    """Forecast the words of a histogram that stand above noise.

    They stand two standard deviations above it.

    ``frequencies``, (V,), are public; a unit has ``distinct_words`` of the words, and ``noise`` is the standard
    deviation of the histogram's entries, over the clip.
    """
    scales = histogram_scales(frequencies)
    held = np.minimum(1.0, distinct_words * frequencies)
    sums = n_units * held / (scales * max(math.sqrt(float((held / scales**2).sum())), LONG_HISTOGRAM))
    return int((sums > 2.0 * noise).sum())


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


def word_masses(x: np.ndarray, sd: np.ndarray, base: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Estimate masses from a noised histogram.

    ``base``, (V,), are the masses that are expected.

    Returns posterior means, (V,) > 0, brought to the sum 1, and the posterior standard deviations of their logarithms.
    """
    log = np.linspace(_LOWEST, _HIGHEST, _POINTS)
    grid = np.exp(log)
    start = np.exp(-0.5 * ((log + _SD**2 / 2) / _SD) ** 2)
    band = np.digitize(np.log2(base / sd), _BANDS)
    out, spread = np.empty((2, len(x)))
    for number in np.unique(band):
        words = np.flatnonzero(band == number)
        likelihood = np.empty((len(words), _POINTS))
        for first in range(0, len(words), _CHUNK):
            part = words[first : first + _CHUNK]
            z = -0.5 * ((x[part, None] - base[part, None] * grid) / sd[part, None]) ** 2
            likelihood[first : first + _CHUNK] = np.exp(z - z.max(axis=1, keepdims=True))
        mean = _band_mean(x[words], sd[words], base[words])
        prior = usual = _with_mean(start, log, mean)
        for _ in range(_ROUNDS):
            share = 1.0 / np.einsum("vg,g->v", likelihood, prior)
            counts = prior * np.einsum("v,vg->g", share, likelihood)
            prior = _with_mean(counts + _START * usual, log, mean)
        total, first_moment, second = (np.einsum("vg,g->v", likelihood, prior * grid**power) for power in range(3))
        out[words] = base[words] * first_moment / total
        spread[words] = np.sqrt(np.log(np.maximum(second * total / first_moment**2, 1.0)))
    return out / out.sum(), spread


def _band_mean(x: np.ndarray, sd: np.ndarray, base: np.ndarray) -> float:
    """Estimate the mean of s over words; 1 if noise hides it."""
    known = _MEAN_SD**2 / (_MEAN_SD**2 + float(sd @ sd) / float(base.sum()) ** 2)
    return min(max(1.0 + known * (float(x.sum() / base.sum()) - 1.0), 0.1), math.exp(_HIGHEST) / 2)


def _with_mean(weights: np.ndarray, log: np.ndarray, mean: float) -> np.ndarray:
    """Tilt weights on exp(log) to a mean, by a power of it."""
    low, high = -20.0, 20.0
    for _ in range(50):
        middle = (low + high) / 2
        tilted = weights * np.exp(middle * log)
        tilted /= tilted.sum()
        low, high = (low, middle) if tilted @ np.exp(log) > mean else (middle, high)
    return np.asarray(tilted)


class HistogramReadOut:
    """A noised histogram, read with public topics.

    ``x`` and ``sd`` are the histogram and its noise, (V,); ``topics``, (K, V), and ``weights``, (K,), are public.
    ``masses``, (V,), are the words' shares of all text, with the standard deviations ``spread`` of their logarithms;
    ``weights``, (K,), the topics' shares. Topic k of ``topics``, (K, V), uses word v as its public topic does, times
    the word's mass over the mixture of public topics. So the topics' mixture has the masses. ``known`` is the
    histogram, for the read-out of other topics.
    """

    def __init__(self, x: np.ndarray, sd: np.ndarray, topics: np.ndarray, weights: np.ndarray):
        # Bits are not to hang on how many threads a BLAS takes.
        with one_blas_thread(0, scipy=False):
            mixture, total = topic_weights(x, sd, topics, weights)
            base = mixture @ topics
            self._total, self._sd = total, sd
            self.masses, self.spread = word_masses(x, sd, total * base)
            self.known = KnownMasses(x, sd, frequency_bands(base), total * self.masses)
            fitted = topics * (self.masses / base)
            rows = fitted.sum(axis=1)
            self.weights, self.topics = mixture * rows, fitted / rows[:, None]

    def loss(self, times: float = 1.0) -> float:
        """Estimate the nats a word that the masses lose.

        Tell how much better exact masses would predict a word, by the posterior of the masses. ``times`` is how many
        such histograms there will be.
        """
        information = (times - 1.0) * (self._total * self.masses / self._sd) ** 2
        variance = 1.0 / (1.0 / np.maximum(self.spread**2, 1e-12) + information)
        return float(self.masses @ variance) / 2
