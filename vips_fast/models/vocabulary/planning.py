"""Plan a vocabulary's share of epsilon, and forecast its release, from public numbers only.

A vocabulary takes half of epsilon. As the squares of 1/noise add up, that raises the topics' noise by 15 % only. Say
that topics know half a nat of each token in it, beyond how common it is, and lose 0.15 nats for each factor e of noise.
Then from 500 to 400,000 persons, at epsilon from .5 to 4, no other share gains more than 0.016 nats a token. Rounds and
the most tokens of a person are those of `PrivateVocabulary`: of 4 or 8 rounds with 300 or 1,000 tokens, the best covers
at most 1.4 percentage points more.

The forecast takes tokens to be used as the law of Zipf and Mandelbrot says, with a heavier head; stop words are left
out. The r-th commonest of V has a frequency in proportion to (r + 300)^-1.25 (1 + 40 / (r + 10)) sqrt(1 - r / (V + 1)).
The root is for the rare end of a closed list (after the beta law of Martinez-Mekler et al. 2009). The number of
different tokens of a person is lognormal, and which they are is left to the frequencies. `VocabularyModel` itself makes
the rounds, from expected sums of some classes of ranks, each with some draws of the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy

from ...accounting import SelfComposedEvent, calibrate_noise_multiplier, gaussian_noise_multiplier
from ...accounting.solver import halve_brackets
from ...checks import check_number
from ...engine.model import Release
from ...mechanisms import GaussianMechanism
from .model import LARGEST_LATER, ThresholdSampler, VocabularyModel

#: Share of delta that the threshold may let through.
THRESHOLD_SHARE = 0.25
#: Share of epsilon for a vocabulary.
SHARE = 0.5
#: Rounds, and the most tokens of a person.
ROUNDS, MOST_TOKENS = 4, 1000
#: Different tokens that there are, where a list does not say it.
_OPEN = 1_000_000
_EXPONENT, _OFFSET, _HEAD = 1.25, 300.0, 40.0
#: Standard deviation of the logarithm of the number of different tokens that a person holds.
_SPREAD = 1.0
#: Classes of ranks, of persons by how much they hold, and draws of the noise for each rank.
_RANKS, _CROWD, _DRAWS = 128, 8, 24


@dataclass(frozen=True)
class VocabularyPlan:
    """Settings for `PrivateVocabulary`, the noise and event of all rounds, and what to expect.

    ``words`` are released tokens, ``token_share`` their share of all that are used, and ``extra_noise`` is the noise of
    the topics over that with a public vocabulary, about.
    """

    epsilon: float
    n_rounds: int
    max_tokens: int
    max_features: int
    noise_multiplier: float
    event: SelfComposedEvent
    words: float
    token_share: float
    extra_noise: float

    def parameters(self) -> dict[str, Any]:
        """Return keyword arguments for the estimator."""
        return {name: getattr(self, name) for name in ("epsilon", "n_rounds", "max_tokens", "max_features")}


def plan_vocabulary(
    n_records: int,
    epsilon: float,
    delta: float,
    *,
    tokens: float = 100.0,
    n_words: int = _OPEN,
    max_features: int = 8000,
    share: float | None = None,
    n_rounds: int = ROUNDS,
    max_tokens: int = MOST_TOKENS,
) -> VocabularyPlan:
    """Split epsilon between a vocabulary and the topics that are fitted to it.

    ``epsilon`` and ``delta`` are for both together, ``share`` of epsilon for the vocabulary (None is `SHARE`).
    ``tokens`` is a public guess of the different tokens that a person holds, in the median, and ``n_words`` how many
    there can be.
    """
    check_number("vocab_share", share, 0, 1, low_open=True, optional=True)
    part = epsilon * (SHARE if share is None else share)
    sampler = ThresholdSampler(n_records, n_rounds, max_tokens, THRESHOLD_SHARE * delta)
    z = calibrate_noise_multiplier(sampler.event, part, delta, count=n_rounds)
    # In R rounds the noise is sqrt(R) times the noise of one.
    each = math.sqrt(n_rounds) * gaussian_noise_multiplier(part, _without_leak(delta))
    words, covered = forecast(sampler, each, tokens, n_words, max_features) if 1 <= each <= 2.0**17 else (0.0, 0.0)
    alone, both = gaussian_noise_multiplier(epsilon, delta), gaussian_noise_multiplier(epsilon, _without_leak(delta))
    left = both**-2 - n_rounds * z**-2
    extra = left**-0.5 / alone if left > 0 else math.inf
    event = SelfComposedEvent(sampler.event(z), n_rounds)
    return VocabularyPlan(part, n_rounds, max_tokens, max_features, z, event, words, covered, extra)


def _without_leak(delta: float) -> float:
    return delta * (1 - THRESHOLD_SHARE)


@lru_cache(maxsize=16)
def _crowd(tokens: float, n_words: int) -> tuple[np.ndarray, ...]:
    """Describe the usual crowd.

    Gives the words of each class of ranks, the frequency of one of them, the tokens held by each class of persons, and
    the probability that one of that class holds one of these words, (classes of persons, classes of ranks).
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
    """Forecast the number of released tokens, at most ``size``, and their share of all that are used.

    ``tokens`` are the different ones that a person holds, in the median, of ``n_words``. Raises ValueError if the noise
    multiplier is out of the range of `VocabularyModel.prepare`.
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
    """Sum the expected weights of each token over one person of each class: the mean of a later round."""
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
