"""Threshold of a released vocabulary, and event of one round."""

import math

import numpy as np
import scipy

from ...accounting import ApproximateDPEvent, ComposedEvent, GaussianEvent, PrivacyEvent
from ...engine.sampling import FullSampler

#: No weight of a round after the first is larger.
LARGEST_LATER = 0.25
#: No threshold lets more delta through; `VocabularyModel` needs it for runs with fewer rounds than planned.
LARGEST_DELTA = 0.05


def _bounds(max_tokens: int, n_rounds: int) -> tuple[np.ndarray, np.ndarray]:
    t = np.arange(1, max_tokens + 1, dtype=np.float64)
    return t, 1.0 / np.sqrt(t) + (n_rounds - 1) * LARGEST_LATER


def threshold_delta(threshold: float, sigma: float, max_tokens: int, n_rounds: int = 1) -> float:
    """Bound the probability that a token of only one person is released.

    ``max over 1 <= t <= max_tokens of 1 - Phi((threshold - 1/sqrt(t) - (R - 1)/4) / (sigma sqrt(R)))^t`` with R rounds.
    For one round this is Gopi et al. 2020, "Differentially private set union", theorem 4; `VocabularyModel` proves it.
    ``sigma`` is the standard deviation of the noise in a token's weight in each round.
    """
    t, held = _bounds(max_tokens, n_rounds)
    below = t * scipy.special.log_ndtr((threshold - held) / (sigma * math.sqrt(n_rounds)))
    return float(-np.expm1(below).min())


def threshold_for(delta: float, sigma: float, max_tokens: int, n_rounds: int = 1) -> float:
    """Find the smallest threshold, within 1e-12, with `threshold_delta` at most ``delta``."""
    t, held = _bounds(max_tokens, n_rounds)
    # Phi(x)^t >= 1 - delta, read from the upper tail.
    tail = -np.expm1(np.log1p(-delta) / t)
    found = float((-scipy.special.ndtri(tail) * sigma * math.sqrt(n_rounds) + held).max())
    while threshold_delta(found, sigma, max_tokens, n_rounds) > delta:
        found += 1e-12 * abs(found)
    return found


class ThresholdSampler(FullSampler):
    """Sampler of all persons in each round, charged for the threshold.

    ``n_records`` is the public number of persons, ``delta`` the probability that a token of only one person is
    released. Each round is charged with its share x of it, an (0, x) event beside the Gaussian's, with
    1 - (1 - x)^n_rounds >= delta.
    """

    name = "vocabulary"

    def __init__(self, n_records: int, n_rounds: int, max_tokens: int, delta: float) -> None:
        super().__init__(n_records)
        self.n_rounds, self.max_tokens, self.delta = n_rounds, max_tokens, delta
        self.round_delta = math.nextafter(-math.expm1(math.log1p(-delta) / n_rounds) * (1 + 1e-14), 1.0)

    def event(self, noise_multiplier: float) -> PrivacyEvent:
        """Return the event of one round."""
        leak = ApproximateDPEvent(0.0, self.round_delta, self.relation)
        return ComposedEvent((GaussianEvent(noise_multiplier, self.relation), leak))
