"""Score topics: half of a unit's words predict the other (`vips_fast.engine.gain`).

A score has the nats that topics gain over word frequencies in predicting one half of a unit's words, with proportions
that are inferred from the other half; for several candidates, topics with a prior of proportions.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ...engine.gain import GainScore
from ...kernels import native
from ...kernels.lda import scaled_table
from .records import UnitWords, unit_words

#: The bound of the difference that a prior of proportions makes for the same topics, over the bound of nats.
REACH = 0.25
#: The same if only such differences are told.
COMPARED = 0.125
#: The part of a prior of proportions that is equal for all topics.
_EQUAL = 0.1
_MAX_ITER, _TOL = 50, 1e-2


class HalfPrediction(GainScore):
    """Contributions to a score of ``count`` candidates, which `take` gives.

    ``alike`` are candidates of the same topics with other priors. If the score only ``compares``, the nats are those
    that each candidate has more than the first.
    """

    rest = 0.25
    #: Tables of topics for the E-step, their ratios to the word frequencies, and priors.
    candidates: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]] = ()

    def __init__(self, count: int, alike: bool = True, compares: bool = False):
        self.n_candidates, self.compares = count - compares, compares
        self.reach = REACH if alike and not compares else 1.0

    def take(self, topics: np.ndarray, priors: Sequence[np.ndarray], masses: np.ndarray) -> Self:
        """Take one more candidate for each prior of proportions. All are released.

        ``topics``, (K, V), are word probabilities, the ``priors`` Dirichlet priors of a document's proportions, (K,)
        each. ``masses``, (V,), are the word frequencies that they are compared with.
        """
        ratios, table = np.empty(topics.T.shape, np.float32), scaled_table(topics, np.float32)
        np.divide(topics.T, masses[:, None], out=ratios, casting="same_kind")
        self.candidates = [*self.candidates, *((table, ratios, prior) for prior in priors)]
        return self

    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        """Contributions of the units of a block."""
        return self.contributions(unit_words(block, words, len(self.candidates[0][0])), words, clip, asked)

    def contributions(
        self, units: UnitWords, words: np.ndarray, clip: float, asked: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute (n_units, cells) contributions, which `clip_rows` bounds.

        ``words``, (n_units,) uint64, are the units' random words, which divide their words in halves. A unit that is
        not ``asked``, (n_units,) bool, has a row of zeros. A unit's row is a function of its own entries and word.
        """
        n_units = len(words)
        shown, told = _halves(units, words, asked)
        told_unit = np.repeat(np.arange(n_units), np.diff(told.ends))
        total = np.bincount(told_unit, weights=told.counts, minlength=n_units)
        # A unit with one half only says nothing.
        both = (np.diff(shown.ends) > 0) & (total > 0)
        share = np.where(both, np.minimum(1.0, self.most / np.maximum(total, 1.0)), 0.0)
        nats, ratio = np.empty((n_units, len(self.candidates))), np.empty(len(told.columns))
        for number, (table, ratios, alpha) in enumerate(self.candidates):
            theta = _proportions(table, ratios.shape[1], shown, alpha)
            native.word_ratios(told.ends, told.columns, theta, ratios, ratio)
            logs = np.log(np.maximum(ratio, 1e-30))
            nats[:, number] = np.bincount(told_unit, weights=told.counts * logs, minlength=n_units) * share
        if self.compares:
            nats = nats[:, 1:] - nats[:, :1]
        return self.clip_rows(nats, share * total / self.most, clip)


def proportions_prior(total: float, weights: np.ndarray) -> np.ndarray:
    """Make a Dirichlet prior of proportions with a ``total``, by topic weight, (K,); a tenth of it is equal for all.

    Topics that are rare in all text are rare in a document.
    """
    return np.asarray(total * ((1.0 - _EQUAL) * weights / weights.sum() + _EQUAL / len(weights)))


def _halves(units: UnitWords, words: np.ndarray, asked: np.ndarray | None) -> list[UnitWords]:
    """Divide units' words in two by their random words."""
    first, second = (UnitWords(*map(np.empty_like, units)) for _ in range(2))
    chosen = None if asked is None else asked.view(np.uint8)
    native.split_words(*units, words, chosen, *first, *second)
    return [
        UnitWords(half.ends, half.columns[: half.ends[-1]], half.counts[: half.ends[-1]]) for half in (first, second)
    ]


def _proportions(table: np.ndarray, n_topics: int, units: UnitWords, alpha: np.ndarray) -> np.ndarray:
    """Infer topic proportions of units, (n_units, K) float32."""
    ends, columns, counts = units
    gamma = np.empty((len(ends) - 1, n_topics))
    size = native.lda_workspace(n_topics, int(np.diff(ends).max(initial=0)), True)
    work = np.empty(size // 8 + 1).view(np.uint8)
    native.lda_estep(ends, columns, counts, table, alpha, _TOL, 0.0, _MAX_ITER, 0.0, 1.0, work, gamma, None, None, None)
    return np.asarray(gamma / gamma.sum(axis=1, keepdims=True), np.float32)
