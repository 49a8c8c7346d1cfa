"""What to spend on a vocabulary, and what to expect of it, from public numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...accounting import SelfComposedEvent, calibrate_noise_multiplier
from ...checks import check_number
from .threshold import ThresholdSampler, threshold_for

#: Share of delta that the threshold may let through.
THRESHOLD_SHARE = 0.25
#: Shares of epsilon that are tried, and the share of the persons that a token may need.
_SHARES, _ENOUGH = (0.1, 0.15, 0.2, 0.3), 0.01


@dataclass(frozen=True)
class VocabularyPlan:
    """What `PrivateVocabulary` will do.

    Attributes
    ----------
    target_epsilon : float
        For the vocabulary alone.
    noise_multiplier, threshold : float
        Noise in a token's weight in each round, and what the weights of all rounds have to pass; nobody weighs more
        than 1 in a round, over all tokens.
    holders : int
        About how many persons have to hold a token. As if all rounds were like the first: later ones need fewer.
    """

    target_epsilon: float
    noise_multiplier: float
    threshold: float
    holders: int

    def text(self) -> str:
        """One line."""
        return (
            f"vocabulary: epsilon = {self.target_epsilon:.3g}; expect the words that some {self.holders} persons use, "
            "and some rarer ones"
        )


def holders_needed(noise_multiplier: float, sampler: ThresholdSampler, tokens: float) -> int:
    """About how many persons have to hold a token for it to be released, if each holds so many."""
    threshold = threshold_for(sampler.delta, noise_multiplier, sampler.max_tokens, sampler.n_rounds)
    return math.ceil(threshold * math.sqrt(min(tokens, sampler.max_tokens) + 1) / sampler.n_rounds)


def plan_vocabulary(
    n_records: int, target_epsilon: float, target_delta: float, *, tokens: float = 100.0, n_steps: int = 4,
    max_tokens: int = 1000, share: float | None = None,
) -> VocabularyPlan:  # fmt: skip
    """Split epsilon between a vocabulary and what is fitted to it.

    Parameters
    ----------
    n_records : int
        Public number of persons.
    target_epsilon, target_delta : float
        For both together (`fit(..., after=vocabulary)`).
    tokens : float
        Distinct tokens that a person holds: a public guess.
    n_steps, max_tokens : int
        Of `PrivateVocabulary`.
    share : float or None
        Of epsilon, for the vocabulary. None takes the least of 10, 15, 20 and 30 % with which tokens that 1 % of the
        persons hold are expected, and 30 % where none is enough.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    check_number("n_records", n_records, 1, 2**31, integer=True)
    check_number("target_epsilon", target_epsilon, 0, math.inf, low_open=True, high_open=True)
    check_number("target_delta", target_delta, 0, 1, low_open=True, high_open=True)
    check_number("tokens", tokens, 1, math.inf)
    if share is not None:
        check_number("share", share, 0, 1, low_open=True)
    sampler = ThresholdSampler(n_records, n_steps, max_tokens, THRESHOLD_SHARE * target_delta)
    for part in _SHARES if share is None else (share,):
        epsilon = part * target_epsilon
        z = calibrate_noise_multiplier(lambda z: SelfComposedEvent(sampler.event(z), n_steps), epsilon, target_delta)
        holders = holders_needed(z, sampler, tokens)
        if holders <= _ENOUGH * n_records:
            break
    return VocabularyPlan(epsilon, z, threshold_for(sampler.delta, z, max_tokens, n_steps), holders)
