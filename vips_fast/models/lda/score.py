"""A score of public topics by the records: how well half of a unit's words is predicted from the other half.

Statistics that were made with topics look like these topics, so they cannot judge them. A likelihood can. For each unit
the score has the nats by which the topics predict one half of its words better than word frequencies do, the topic
proportions being inferred from the other half. It has them for several priors of the proportions.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from ...engine.units import GOLDEN, mixed
from ...kernels import native
from ...kernels.lda import scaled_table

#: The bound of a unit's nats; words to which a longer half is brought. Most units lose a little and some gain much, so
#: a bound of 5 nats would hide the gain; at 20 the mean over the bound is largest on posts.
_NATS, _WORDS = 20.0, 60.0
#: A prior of proportions other than the middle one has to be better by so many standard deviations of the noise.
_CLEAR = 2.0
#: Room for rounding, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9
_MAX_ITER, _TOL = 50, 1e-2
#: Predicted words at a time.
_CHUNK = 4096


class HalfPrediction:
    """Contributions to the score, from public topics.

    ``topics``, (K, V), and ``masses``, (V,), are word probabilities, ``alphas`` the Dirichlet priors of a document's
    proportions that are compared. A contribution has `cells` entries, all at least 0: for each prior the nats won, for
    each the nats lost, and the number of predicted words.
    """

    def __init__(self, topics: np.ndarray, masses: np.ndarray, alphas: tuple[float, ...]):
        self._alphas, self._table = alphas, scaled_table(topics, np.float32)
        self._ratios = np.ascontiguousarray((topics / masses).T, np.float32)
        self._factor = _BELOW / (_NATS * (len(alphas) + 1) ** 0.5)

    @property
    def cells(self) -> int:
        """Number of entries of a contribution."""
        return 2 * len(self._alphas) + 1

    def contributions(
        self, owner: np.ndarray, columns: np.ndarray, counts: np.ndarray, words: np.ndarray, clip: float
    ) -> np.ndarray:
        """Compute (n_units, cells) contributions with an L2 norm of at most ``clip``.

        Entry i is the count of word ``columns[i]`` in unit ``owner[i]``; owners ascend. ``words``, (n_units,) uint64,
        are the units' random words, which divide their words in halves. A unit's row is a function of its own entries
        and word.
        """
        n_units = len(words)
        known = halved(counts, mixed(words[owner] + columns.astype(np.uint64) * GOLDEN))
        asked = counts - known
        total = np.bincount(owner, weights=asked, minlength=n_units)
        shown, told = known > 0, asked > 0
        ends = np.concatenate(([0], np.cumsum(np.bincount(owner[shown], minlength=n_units))))
        # A unit with one half only says nothing.
        both = (np.diff(ends) > 0) & (total > 0)
        share = np.where(both, np.minimum(1.0, _WORDS / np.maximum(total, 1.0)), 0.0)
        out = np.zeros((n_units, self.cells))
        for number, alpha in enumerate(self._alphas):
            theta = self._proportions(ends, columns[shown], known[shown], alpha)
            logs = self._logs(theta, owner[told], columns[told])
            nats = np.bincount(owner[told], weights=asked[told] * logs, minlength=n_units) * share
            nats = np.clip(nats, -_NATS, _NATS)
            out[:, number], out[:, len(self._alphas) + number] = np.maximum(nats, 0.0), np.maximum(-nats, 0.0)
        out[:, -1] = _NATS * share * total / _WORDS
        out *= clip * self._factor
        return out

    def _proportions(self, ends: np.ndarray, columns: np.ndarray, counts: np.ndarray, alpha: float) -> np.ndarray:
        n_topics, n_units = self._ratios.shape[1], len(ends) - 1
        gamma = np.empty((n_units, n_topics))
        size = native.lda_workspace(n_topics, int(np.diff(ends).max(initial=0)), True)
        work = np.empty(size // 8 + 1).view(np.uint8)
        alphas, columns = np.full(n_topics, alpha), columns.astype(np.int32)
        native.lda_estep(
            ends, columns, counts, self._table, alphas, _TOL, _MAX_ITER, 0.0, 1.0, work, gamma, None, None, None
        )
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True), np.float32)

    def _logs(self, theta: np.ndarray, owner: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Logarithms of the words' probabilities over their masses."""
        out = np.empty(len(owner))
        for first in range(0, len(owner), _CHUNK):
            part = slice(first, first + _CHUNK)
            out[part] = np.einsum("nk,nk->n", theta[owner[part]], self._ratios[columns[part]])
        return np.asarray(np.log(np.maximum(out, 1e-30)))


def halved(counts: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Draw Binomial(n, 1/2) for counts n, (N,) whole floats, with one uint64 each; of what is above 64, half."""
    drawn = np.minimum(counts, 64.0)
    mask = np.uint64(2**64 - 1) >> (64 - drawn).astype(np.uint64)
    heads = np.bitwise_count(bits & np.where(drawn > 0, mask, np.uint64(0)))
    return np.asarray(heads + np.floor((counts - drawn) / 2))


@dataclass(frozen=True)
class Score:
    """A released score: for each prior of proportions the mean nats a unit, with one noise, and the mean words.

    ``nats`` has a mean for each of ``alphas``, ``sd`` the noise in each, ``words`` the mean number of predicted words.
    """

    alphas: tuple[float, ...]
    nats: np.ndarray
    sd: float
    words: float

    @classmethod
    def read(cls, alphas: tuple[float, ...], values: np.ndarray, noise_sd: float, clip: float) -> Self:
        """Read a score from the noised mean of contributions."""
        number, factor = len(alphas), _NATS * (len(alphas) + 1) ** 0.5 / (clip * _BELOW)
        nats = np.asarray(values) * factor
        words = nats[2 * number] * _WORDS / _NATS
        return cls(alphas, nats[:number] - nats[number : 2 * number], noise_sd * factor * 2**0.5, float(words))

    @property
    def best(self) -> int:
        """The number of the prior of proportions to take: the middle one, unless another is clearly better."""
        best, middle = int(np.argmax(self.nats)), len(self.alphas) // 2
        return best if self.nats[best] - self.nats[middle] > _CLEAR * 2**0.5 * self.sd else middle

    @property
    def trusted(self) -> bool:
        """Whether the topics predict better than word frequencies, or the noise hides that they do not."""
        return bool(self.nats[self.best] > -self.sd)

    def gain(self, deviations: float = 0.0) -> float:
        """Share of perplexity that the topics save, from the nats shifted by standard deviations of their noise."""
        nats = self.nats[self.best] + deviations * self.sd
        return float(1.0 - np.exp(-nats / max(self.words, 1.0)))
