"""A score of topics: how well half of a unit predicts the other.

Statistics that were made with topics look like these topics, so they cannot judge them. A likelihood can. For each unit
the score has the nats by which the topics predict one half of its words better than word frequencies do, the topic
proportions being inferred from the other half. It has them for several candidates: topics with a prior of proportions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from ...engine.units import GOLDEN, mixed
from ...kernels import native
from ...kernels.lda import scaled_table

#: The bound of a unit's nats; words to which a longer half is brought. Most units lose a little and some gain much, so
#: a bound of 5 nats would hide the gain; at 20 the mean over the bound is largest on posts.
_NATS, _WORDS = 20.0, 60.0
#: How far the prior of proportions follows the topics' weights, from 0 to 1.
_BY_WEIGHT = 0.8
#: Most distinct words of a unit that count.
_DISTINCT = 256.0
#: A candidate other than the usual one has to be better by so many standard deviations of the noise.
_CLEAR = 2.0
#: Standard deviations to either side that hold 90 % of normal noise.
_NINETY = 1.6449
#: Room for rounding, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9
_MAX_ITER, _TOL = 50, 1e-2
#: Predicted words at a time.
_CHUNK = 4096


class FoundGain(NamedTuple):
    """The share of perplexity that topics save, and its 90 % interval.

    It is measured against released word frequencies. Half of a unit's words are predicted from the other half. The
    interval is about the noise.
    """

    gain: float
    low: float
    high: float


class HalfPrediction:
    """Contributions to a score.

    ``candidates`` are pairs of word probabilities of topics, (K, V), and of a Dirichlet prior of a document's
    proportions, (K,); ``masses``, (V,), are the word frequencies that they are compared with. All are released. A
    contribution has `cells` entries, all at least 0: for each candidate the nats won, for each the nats lost, the
    number of predicted words, and that of distinct words.
    """

    def __init__(self, candidates: Sequence[tuple[np.ndarray, np.ndarray]], masses: np.ndarray):
        known = {id(topics): topics for topics, _ in candidates}
        parts = {
            key: (scaled_table(topics, np.float32), np.ascontiguousarray((topics / masses).T, np.float32))
            for key, topics in known.items()
        }
        self._candidates = [(*parts[id(topics)], alpha) for topics, alpha in candidates]
        self._factor = _BELOW / (_NATS * (len(candidates) + 2) ** 0.5)

    @property
    def cells(self) -> int:
        """Number of entries of a contribution."""
        return 2 * len(self._candidates) + 2

    def contributions(
        self, unit: np.ndarray, columns: np.ndarray, counts: np.ndarray, words: np.ndarray, clip: float
    ) -> np.ndarray:
        """Compute (n_units, cells) contributions with an L2 norm of at most ``clip``.

        Entry i is the count of word ``columns[i]`` in unit ``unit[i]``; units ascend. ``words``, (n_units,) uint64,
        are the units' random words, which divide their words in halves. A unit's row is a function of its own entries
        and word.
        """
        n_units = len(words)
        known = halved(counts, mixed(words[unit] + columns.astype(np.uint64) * GOLDEN))
        asked = counts - known
        total = np.bincount(unit, weights=asked, minlength=n_units)
        shown, told = known > 0, asked > 0
        ends = np.concatenate(([0], np.cumsum(np.bincount(unit[shown], minlength=n_units))))
        # A unit with one half only says nothing.
        both = (np.diff(ends) > 0) & (total > 0)
        share = np.where(both, np.minimum(1.0, _WORDS / np.maximum(total, 1.0)), 0.0)
        out = np.zeros((n_units, self.cells))
        for number, (table, ratios, alpha) in enumerate(self._candidates):
            theta = _proportions(table, ratios.shape[1], ends, columns[shown], known[shown], alpha)
            logs = _logs(ratios, theta, unit[told], columns[told])
            nats = np.bincount(unit[told], weights=asked[told] * logs, minlength=n_units) * share
            nats = np.clip(nats, -_NATS, _NATS)
            out[:, number], out[:, len(self._candidates) + number] = np.maximum(nats, 0.0), np.maximum(-nats, 0.0)
        distinct = np.bincount(unit, minlength=n_units)
        out[:, -2] = _NATS * share * total / _WORDS
        out[:, -1] = _NATS * np.minimum(distinct / _DISTINCT, 1.0)
        out *= clip * self._factor
        return out


def proportions_prior(alpha: float, weights: np.ndarray) -> np.ndarray:
    """Make a Dirichlet prior of proportions from the topics' weights.

    Its parameters, (K,), have the mean ``alpha``. Topics that are rare in all text are rare in a document.
    """
    equal = 1.0 / len(weights)
    return np.asarray(alpha * ((1.0 - _BY_WEIGHT) * equal + _BY_WEIGHT * weights / weights.sum()) / equal)


def _proportions(
    table: np.ndarray, n_topics: int, ends: np.ndarray, columns: np.ndarray, counts: np.ndarray, alpha: np.ndarray
) -> np.ndarray:
    """Infer topic proportions of units, (n_units, K) float32."""
    gamma = np.empty((len(ends) - 1, n_topics))
    size = native.lda_workspace(n_topics, int(np.diff(ends).max(initial=0)), True)
    work = np.empty(size // 8 + 1).view(np.uint8)
    columns = columns.astype(np.int32)
    native.lda_estep(ends, columns, counts, table, alpha, _TOL, _MAX_ITER, 0.0, 1.0, work, gamma, None, None, None)
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True), np.float32)


def _logs(ratios: np.ndarray, theta: np.ndarray, unit: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Compute logarithms of the words' probabilities over their masses."""
    out = np.empty(len(unit))
    for first in range(0, len(unit), _CHUNK):
        part = slice(first, first + _CHUNK)
        out[part] = np.einsum("nk,nk->n", theta[unit[part]], ratios[columns[part]])
    return np.asarray(np.log(np.maximum(out, 1e-30)))


def halved(counts: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Draw Binomial(n, 1/2) for counts n, with a uint64 each.

    Counts, (N,), are whole floats; the part of a count above 64 is divided evenly.
    """
    drawn = np.minimum(counts, 64.0)
    mask = np.uint64(2**64 - 1) >> (64 - drawn).astype(np.uint64)
    heads = np.bitwise_count(bits & np.where(drawn > 0, mask, np.uint64(0)))
    return np.asarray(heads + np.floor((counts - drawn) / 2))


@dataclass(frozen=True)
class Score:
    """A released score.

    ``nats`` are the mean nats that a unit's predicted words gain over word frequencies, for each candidate, (J,);
    ``sd`` is the noise in each of them, ``words`` the mean number of predicted words, at most 60 of a unit, and
    ``distinct_words`` that of different words, at most 256 of a unit.
    """

    nats: np.ndarray
    sd: float
    words: float
    distinct_words: float

    @classmethod
    def read(cls, values: np.ndarray, noise_sd: float, clip: float) -> Self:
        """Read a score from the noised mean of contributions, (2J + 2,)."""
        number = (len(values) - 2) // 2
        factor = _NATS * (number + 2) ** 0.5 / (clip * _BELOW)
        nats = np.asarray(values) * factor
        words, distinct = nats[-2] * _WORDS / _NATS, nats[-1] * _DISTINCT / _NATS
        nats = nats[:number] - nats[number : 2 * number]
        return cls(nats, noise_sd * factor * 2**0.5, max(float(words), 1.0), max(float(distinct), 1.0))

    @classmethod
    def restore(cls, state: np.ndarray) -> Self:
        """Restore a score from its `state`."""
        return cls(state[:-3], *state[-3:].tolist())

    def state(self) -> np.ndarray:
        """Give the score as an array, (J + 3,)."""
        return np.array([*self.nats, self.sd, self.words, self.distinct_words])

    def best(self, usual: int) -> int:
        """Choose a candidate: the usual one, unless another is clearly better."""
        best = int(np.argmax(self.nats))
        return best if self.nats[best] - self.nats[usual] > _CLEAR * 2**0.5 * self.sd else usual

    def found(self, candidate: int) -> FoundGain:
        """Compute the share of perplexity that a candidate saves."""
        nats = self.nats[candidate] + np.array([0.0, -_NINETY, _NINETY]) * self.sd
        return FoundGain(*(1.0 - np.exp(-nats / self.words)).tolist())
