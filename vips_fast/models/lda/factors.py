"""Predict a word's entry in one topic from the others.

Topics that use a word more than the corpus does are not found at random. If a topic of ships uses a word, topics of
coasts and of war do so more often than others. So the ratios r_vk of a word (`vips_fast.models.lda.shrinkage`) have a
covariance over topics. It is estimated from all words of a release, and an entry has a conditional mean given the
word's other entries. All of it is post-processing of released numbers.
"""

import math

import numpy as np

from ...kernels import native
from ...kernels.memory import zeros_on_line

#: Most factors of the covariance: 8 are worse on sections of articles, more than 16 no better.
_FACTORS = 16
#: Eigenvalues count from this many times the edge: with few topics and heavy tails, chance passes the edge itself.
_CLEAR = 1.5
#: Rounds to find the factors' part of the diagonal, from none and from an earlier step's; and the largest share of a
#: change that is left after a round.
_FIRST_ROUNDS, _ROUNDS, _MOST_LEFT = 5, 2, 0.9
#: Variance of ratios that the words' weights suppose, so that the commonest words do not speak for all.
_SPREAD = 0.3
#: Least variance of a topic's ratios that is its own.
_LEAST_OWN = 0.05


def add_moments(x: np.ndarray, base: np.ndarray, sums: np.ndarray) -> None:
    """Add to the sums over words, (3, K, K), that `TopicFactors` takes.

    ``x`` and ``base`` are float32. `vips_fast.kernels.reference.topic_moments` says which sums.
    """
    n_topics = x.shape[1]
    work = zeros_on_line((n_topics + 15) * (3 * n_topics + 28), np.float32)
    native.topic_moments(_SPREAD, x, base, work, sums)


class TopicFactors:
    """The covariance of a word's ratios, L L' + diag(own).

    ``loadings`` are L, (K, q), and ``own`` has shape (K,).

    ``sums`` are what `add_moments` adds over all words. The first over the second is the covariance. L is to give its
    entries off the diagonal (principal factors: the diagonal comes from L in the round before). Rounds start from
    ``start``, (K,), the ``shared`` part of the diagonal of an earlier step, or zeros. Every other round extrapolates
    it: five rounds then come as near to its limit as ten plain ones.

    Ratios without a covariance would have a spectrum with the edge e, 2 sqrt(K) standard deviations of an entry (the
    semicircle law). Eigenvalues that lie clear of it count, shrunk to (lambda^2 - e^2)^(1/2). That is best in squares
    for a matrix of low rank seen through such noise (Gavish & Donoho 2017). Where topics do not go together, nothing is
    predicted.
    """

    def __init__(self, sums: np.ndarray, start: np.ndarray):
        products, shares, squares = sums
        shares = np.maximum(shares, 1e-300)
        covariance = products / shares
        variances = np.diag(covariance).copy()
        errors = squares / shares**2
        np.fill_diagonal(errors, 0.0)
        edge = _CLEAR * 2.0 * math.sqrt(errors.sum() / len(errors))
        most, before = np.maximum(variances, 0.0), 0.0
        self.shared = np.minimum(start, most)
        for number in range(_ROUNDS if start.any() else _FIRST_ROUNDS):
            np.fill_diagonal(covariance, self.shared)
            values, vectors = np.linalg.eigh(covariance)
            kept = np.flatnonzero(values > edge)[-_FACTORS:]
            self.loadings = vectors[:, kept] * (values[kept] ** 2 - edge**2) ** 0.25
            shared = np.minimum((self.loadings**2).sum(axis=1), most)
            change, self.shared = shared - self.shared, shared
            size = float(np.sqrt(change @ change))
            if size == 0.0:
                break
            if number % 2 and before > 0.0:
                # Changes shrink by one factor: continue to their limit.
                left = min(size / before, _MOST_LEFT)
                self.shared = np.clip(shared + left / (1.0 - left) * change, 0.0, most)
            before = size
        self.own = np.maximum(variances - (self.loadings**2).sum(axis=1), _LEAST_OWN)

    def predict(self, x: np.ndarray, base: np.ndarray, sd: np.ndarray, mass: np.ndarray) -> np.ndarray:
        """Compute ``base`` times conditional means of the ratios, (n, K) float32.

        Each mean is given the word's other entries ``x``, and at least 0.1. A word's predictions are scaled so that
        they keep its ``mass``, (n,). The kernel takes the words' q x q systems by Woodbury's identity.
        """
        n_topics, q = self.loadings.shape
        out = np.empty(base.shape, dtype=np.float32)
        work = zeros_on_line(8 * (4 * n_topics + 30 + q * (q + 2)), np.float64)
        native.topic_ratios(x, base, sd, mass, np.ascontiguousarray(self.loadings), self.own, work, out)
        return out
