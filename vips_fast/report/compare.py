"""Compare two topic models by their published topics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .text import match_topics, top_words


@dataclass(frozen=True)
class MatchedTopics:
    """A topic of one model, paired with a topic of the other.

    ``overlap`` is the sum over words of the smaller of the two probabilities, in [0, 1]: 1 less the distance in total
    variation. ``shared`` are the first words that both have, in the order of the first model.
    """

    topic: int
    other: int
    overlap: float
    shared: tuple[str, ...]


def compare_topics(
    components: Any, other: Any, vocabulary: Sequence[str] | None = None, n_words: int = 10
) -> list[MatchedTopics]:
    """Pair and compare the topics of two models over the same words.

    ``components`` and ``other`` have shapes (K, V) and (L, V); `match_topics` makes min(K, L) pairs. Raises ValueError
    as `top_words` and `match_topics`.
    """
    first, second = (np.asarray(c, np.float64) / np.sum(c, axis=1, keepdims=True) for c in (components, other))
    words, beside = top_words(first, vocabulary, n_words), top_words(second, vocabulary, n_words)
    return [
        MatchedTopics(
            k,
            pair,
            float(np.minimum(first[k], second[pair]).sum()),
            tuple(word for word in words[k] if word in set(beside[pair])),
        )
        for k, pair in enumerate(match_topics(first, second))
        if pair is not None
    ]


def mean_overlap(pairs: Sequence[MatchedTopics]) -> float:
    """Average the overlap of matched topics, in [0, 1]."""
    return sum(pair.overlap for pair in pairs) / len(pairs)


def over_the_same_words(
    components: np.ndarray, words: Sequence[str] | None, other: np.ndarray, other_words: Sequence[str] | None
) -> tuple[np.ndarray, np.ndarray, Sequence[str] | None]:
    """Bring the topics of both models to one list of words.

    The list has the first model's words, then the second's other words; it is returned last. A word that a model does
    not have has probability 0 in it. Without the words of both, columns are compared as they are; then ValueError if
    their numbers differ.
    """
    if words is None or other_words is None or tuple(words) == tuple(other_words):
        if components.shape[1] != other.shape[1]:
            raise ValueError(
                f"topics over {components.shape[1]} and over {other.shape[1]} columns: expected as many, or the words "
                "of both models"
            )
        return components, other, words if words is not None else other_words
    both = list(dict.fromkeys([*words, *other_words]))
    column = {word: k for k, word in enumerate(both)}
    spread = []
    for values, own in ((components, words), (other, other_words)):
        wide = np.zeros((len(values), len(both)))
        wide[:, [column[word] for word in own]] = values
        spread.append(wide)
    return spread[0], spread[1], both
