"""Score topics: half of a unit's words predict the other.

For each unit the score compares predictions of one half of its words, by the topics and by word frequencies. It has the
nats that the topics gain. The topic proportions are inferred from the other half (`vips_fast.engine.gain`). It has them
for several candidates: topics with a prior of proportions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.gain import MOST, GainScore
from ...engine.units import GOLDEN, scramble
from ...kernels import native
from ...kernels.lda import scaled_table
from .records import word_counts

#: How far the prior of proportions follows the topics' weights, from 0 to 1.
_BY_WEIGHT = 0.8
#: Most distinct words of a unit that count.
DISTINCT = 256.0
_MAX_ITER, _TOL = 50, 1e-2
#: Predicted words at a time.
_CHUNK = 4096


class HalfPrediction(GainScore):
    """Contributions to a score of topics.

    ``candidates`` are pairs of word probabilities of topics, (K, V), and of a Dirichlet prior of a document's
    proportions, (K,). ``masses``, (V,), are the word frequencies that they are compared with. All are released. The
    last entry of a contribution is the square of the nats if the topics are ``finished``, else the number of distinct
    words.
    """

    def __init__(self, candidates: Sequence[tuple[np.ndarray, np.ndarray]], masses: np.ndarray, finished: bool = False):
        known = {id(topics): topics for topics, _ in candidates}
        parts = {
            key: (scaled_table(topics, np.float32), np.ascontiguousarray((topics / masses).T, np.float32))
            for key, topics in known.items()
        }
        self._candidates = [(*parts[id(topics)], alpha) for topics, alpha in candidates]
        self.n_candidates, self._finished, self._n_words = len(candidates), finished, len(masses)

    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        """Contributions of the units of a block."""
        entries = word_counts(block, words, self._n_words)
        kept = asked[entries[0]]
        unit, columns, counts = (entry[kept] for entry in entries)
        return self.contributions(unit, columns, counts, words, clip)

    def contributions(
        self, unit: np.ndarray, columns: np.ndarray, counts: np.ndarray, words: np.ndarray, clip: float
    ) -> np.ndarray:
        """Compute (n_units, cells) contributions with an L2 norm of at most ``clip``.

        Entry i is the count of word ``columns[i]`` in unit ``unit[i]``; units ascend. ``words``, (n_units,) uint64,
        are the units' random words, which divide their words in halves. A unit's row is a function of its own entries
        and word.
        """
        n_units = len(words)
        known = halved(counts, scramble(words[unit] + columns.astype(np.uint64) * GOLDEN))
        asked = counts - known
        total = np.bincount(unit, weights=asked, minlength=n_units)
        shown, told = known > 0, asked > 0
        ends = np.concatenate(([0], np.cumsum(np.bincount(unit[shown], minlength=n_units))))
        # A unit with one half only says nothing.
        both = (np.diff(ends) > 0) & (total > 0)
        share = np.where(both, np.minimum(1.0, MOST / np.maximum(total, 1.0)), 0.0)
        nats = np.empty((n_units, self.n_candidates))
        seen, seen_counts = columns[shown].astype(np.int32), known[shown]
        told_unit, told_columns, told_counts = unit[told], columns[told], asked[told]
        for number, (table, ratios, alpha) in enumerate(self._candidates):
            theta = _proportions(table, ratios.shape[1], ends, seen, seen_counts, alpha)
            logs = _logs(ratios, theta, told_unit, told_columns)
            nats[:, number] = np.bincount(told_unit, weights=told_counts * logs, minlength=n_units) * share
        distinct = np.minimum(np.bincount(unit, minlength=n_units) / DISTINCT, 1.0)
        return self.clip_rows(nats, share * total / MOST, None if self._finished else distinct, clip)


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
