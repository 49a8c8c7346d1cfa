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
from ...kernels.threads import one_blas_thread

#: Most factors of the covariance: 8 are worse on sections of articles, more than 16 no better.
_FACTORS = 16
#: Eigenvalues count from this many times the edge: with few topics and heavy tails, chance passes the edge itself.
_CLEAR = 1.5
#: Rounds to find the factors' part of the diagonal, from none and from an earlier step's; and the largest share of a
#: change that is left after a round.
_FIRST_ROUNDS, _ROUNDS, _MOST_LEFT = 5, 2, 0.9
#: Variance of ratios that the words' weights suppose, so that the commonest words do not speak for all.
_SPREAD = np.float32(0.3)
#: Least variance of a topic's ratios that is its own.
_LEAST_OWN = 0.05
#: Up to so many topics all eigenpairs are found, and beyond it only those of the factors, by Lanczos' iteration.
_ALL_PAIRS = 256
#: A deviation above is beyond any doubt; and topics whose squares of shares add up to less have no covariance.
_MOST_DEVIATION, _LEAST_SQUARES = np.float32(3e7), 1e-30


def add_squares(base: np.ndarray) -> np.ndarray:
    """Sum the squares of the shares w base over words, (K,), for ``base``, (n, K) float32.

    The weight of an entry is w = base / (1 + 0.3 base^2).
    """
    squares = base * base
    squares /= 1 + _SPREAD * squares
    return np.asarray(np.einsum("vk,vk->k", squares, squares, dtype=np.float64))


class Moments:
    """Sums over words of products of topics' deviations, and how exact these are.

    With x = base r + N(0, 1), a deviation is w (x - base), and its topic's scale the root of the sum of squares of w
    base (`add_squares`). ``products`` are sums of products of deviations over their scales, (K, K), without the noise's
    own part on the diagonal. Entry (k, l) is the covariance of r_k and r_l times the cosine of the angle between the
    topics' shares: where topics share few words, less is known, and the covariance counts less. ``errors`` sums the
    variances of the entries off the diagonal.
    """

    def __init__(self, squares: np.ndarray):
        self._inverse = np.zeros(len(squares), dtype=np.float32)
        np.divide(1.0, np.sqrt(squares), out=self._inverse, where=squares > _LEAST_SQUARES, casting="same_kind")
        self.products, self.errors = np.zeros((len(squares), len(squares))), 0.0

    def add(self, x: np.ndarray, base: np.ndarray) -> None:
        """Add words' ``x`` and ``base``, (n, K) float32."""
        weight = base / (1 + _SPREAD * (base * base))
        weight *= self._inverse
        deviation = x - base
        deviation *= weight
        np.clip(deviation, -_MOST_DEVIATION, _MOST_DEVIATION, out=deviation)
        self.products += deviation.T @ deviation
        self.products.flat[:: len(self.products) + 1] -= np.einsum("vk,vk->k", weight, weight)
        deviation *= deviation
        sums = deviation.sum(axis=1, dtype=np.float64)
        self.errors += float(sums @ sums - np.einsum("vk,vk->", deviation, deviation, dtype=np.float64))

    def join(self, other: "Moments") -> None:
        """Add the sums of other words."""
        self.products += other.products
        self.errors += other.errors


def _largest(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest eigenvalues of a symmetric matrix, ascending, and their vectors."""
    if len(matrix) > _ALL_PAIRS:
        from scipy.sparse.linalg import ArpackError, eigsh

        try:
            start = np.random.default_rng(0).standard_normal(len(matrix))
            values, vectors = eigsh(matrix, _FACTORS, which="LA", v0=start, ncv=4 * _FACTORS, maxiter=30, tol=1e-10)
            order = np.argsort(values)
            return values[order], vectors[:, order]
        except ArpackError:  # none, or not all, found: such as of a matrix of zeros
            pass
    values, vectors = np.linalg.eigh(matrix)
    return values[-_FACTORS:], vectors[:, -_FACTORS:]


class TopicFactors:
    """The covariance of a word's ratios, L L' + diag(own).

    ``loadings`` are L, (K, q), and ``own`` has shape (K,).

    ``moments`` are of all words; their products are overwritten. L is to give the entries off the diagonal (principal
    factors: the diagonal comes from L in the round before). Rounds start from ``start``, (K,), the ``shared`` part of
    the diagonal of an earlier step, or zeros. Every other round extrapolates it: five rounds then come as near to its
    limit as ten plain ones.

    Ratios without a covariance would have a spectrum with the edge e, 2 sqrt(K) standard deviations of an entry (the
    semicircle law). Eigenvalues that lie clear of it count, shrunk to (lambda^2 - e^2)^(1/2). That is best in squares
    for a matrix of low rank seen through such noise (Gavish & Donoho 2017). Where topics do not go together, nothing is
    predicted.
    """

    def __init__(self, moments: Moments, start: np.ndarray):
        covariance = moments.products
        variances = np.diag(covariance).copy()
        edge = _CLEAR * 2.0 * math.sqrt(max(moments.errors, 0.0) / len(variances))
        most, before = np.maximum(variances, 0.0), 0.0
        self.shared = np.minimum(start, most)
        # The threads are ours, and bits are not to hang on how many of its own a BLAS takes.
        with one_blas_thread(0, scipy=len(covariance) > _ALL_PAIRS):
            for number in range(_ROUNDS if start.any() else _FIRST_ROUNDS):
                np.fill_diagonal(covariance, self.shared)
                values, vectors = _largest(covariance)
                kept = values > edge
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
