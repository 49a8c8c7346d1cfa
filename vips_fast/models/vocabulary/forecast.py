"""Forecast a vocabulary's release from public numbers only.

Tokens are taken to be used as the law of Zipf and Mandelbrot says, with a heavier head. Stop words are left out. The
r-th commonest of V has a frequency in proportion to (r + 300)^-1.25 (1 + 40 / (r + 10)) sqrt(1 - r / (V + 1)). The root
is for the rare end of a closed list (after the beta law of Martinez-Mekler et al. 2009). The number of different tokens
of a person is lognormal, and which they are is left to the frequencies. ``docs/vocabulary.md`` names the
corpora that the constants were fitted on, and others with forecast and release side by side. `VocabularyModel` itself
makes the rounds, from expected sums: of some classes of ranks, each with some draws of the noise.
"""

from functools import lru_cache

import numpy as np
import scipy

from ...accounting.solver import halve_brackets
from ...engine.model import Release
from ...mechanisms import GaussianMechanism
from .model import VocabularyModel
from .threshold import LARGEST_LATER, ThresholdSampler

_EXPONENT, _OFFSET, _HEAD = 1.25, 300.0, 40.0
#: Standard deviation of the logarithm of the number of different tokens that a person holds.
_SPREAD = 1.0
#: Classes of ranks, of persons by how much they hold, and draws of the noise for each rank.
_RANKS, _CROWD, _DRAWS = 128, 8, 24


@lru_cache(maxsize=16)
def _crowd(tokens: float, n_words: int) -> tuple[np.ndarray, ...]:
    """Describe the usual crowd of words and persons.

    The results are words of each class of ranks, frequency of one of them, and tokens held by each class of persons.
    The last is the probability that one of that class holds one of these words, (classes of persons, classes of ranks).
    """
    ends = np.unique(np.geomspace(1, n_words + 1, _RANKS).astype(np.int64))
    words, rank = np.diff(ends).astype(float), (ends[:-1] + ends[1:] - 1) / 2
    frequency = (rank + _OFFSET) ** -_EXPONENT * np.sqrt(1 - rank / (n_words + 1)) * (1 + _HEAD / (rank + 10))
    frequency /= words @ frequency
    held = np.minimum(tokens * np.exp(_SPREAD * scipy.special.ndtri((np.arange(_CROWD) + 0.5) / _CROWD)), 0.8 * n_words)

    def holds(length: np.ndarray) -> np.ndarray:
        return np.asarray(-np.expm1(-np.exp(length)[:, None] * frequency))

    # The logarithm of the number of words, of these frequencies, that a person of each class would have to write.
    low, high = halve_brackets(
        lambda length: holds(length) @ words < held, np.full(_CROWD, -20.0), np.full(_CROWD, 60.0), 59
    )
    return words, frequency, held, holds(0.5 * (low + high))


def forecast(
    sampler: ThresholdSampler, noise_multiplier: float, tokens: float, n_words: int, size: int
) -> tuple[float, float]:
    """Forecast the number of released tokens, and their share.

    The share is of all tokens that are used.

    Parameters
    ----------
    sampler : ThresholdSampler
        The plan: persons, rounds, most tokens of a person, and the threshold's tokens.
    noise_multiplier : float
    tokens : float
        Different tokens that a person holds, in the median.
    n_words : int
        Different tokens that there are.
    size : int
        Most tokens, the commonest first.

    Raises
    ------
    ValueError
        If the noise multiplier is out of the range of `VocabularyModel.prepare`.
    """
    words, frequency, held, holds = _crowd(float(tokens), n_words)
    kept = np.minimum(held, sampler.max_tokens)
    rank = np.repeat(np.arange(len(words)), _DRAWS)
    many, holds = words[rank] / _DRAWS, (holds * (kept / held)[:, None])[:, rank]
    model, each = VocabularyModel(sampler), sampler.n_records / _CROWD
    model.prepare(GaussianMechanism(noise_multiplier, 1.0, 1.0), sampler)
    for step in range(sampler.n_rounds):
        if step == 0:
            first = 1 / np.sqrt(kept + 1)
            sums = first @ holds
            everybody = first.sum()
        else:
            sums, everybody = _served(model._wanted[1:] * model._spacing, many, holds), 0.0
        # The normal's quantiles, dealt out anew in each round; the same at each call.
        draws = scipy.special.ndtri((np.random.default_rng(step).permutation(len(rank)) + 0.5) / len(rank))
        found = np.concatenate(([everybody * each], sums * each + noise_multiplier * draws))
        model.update(Release(step, np.rint(found / model._spacing).astype(np.int64), 1.0, 1.0))
    passed = model._total[1:] * model._spacing >= model.threshold
    found = many * passed
    # Ranks come commonest first.
    found *= np.clip((size - np.cumsum(found)) / np.maximum(found, 1e-9) + 1, 0, 1)
    return float(found.sum()), float(found @ frequency[rank])


def _served(wanted: np.ndarray, many: np.ndarray, holds: np.ndarray) -> np.ndarray:
    """Compute a token's expected weight, one person of each class.

    The weights are summed: `VocabularyModel.contribute` in the mean.
    """
    order = np.argsort(wanted)
    order = order[wanted[order] > 0]
    weights, holds = np.minimum(wanted[order], LARGEST_LATER), holds[:, order]
    load = np.cumsum(holds * (many[order] * weights**2), axis=1)
    fits = load <= 1.0
    used = np.where(fits, load, 0.0).max(axis=1, initial=0.0)
    given = np.where(4 * used[:, None] <= 1.0, np.minimum(2 * weights, LARGEST_LATER), weights) * fits
    sums = np.zeros(len(wanted))
    sums[order] = (holds * given).sum(axis=0)
    return sums
