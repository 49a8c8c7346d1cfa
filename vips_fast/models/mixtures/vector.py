"""Mixture over sentence vectors, with the words of each component."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy import sparse

from ...checks import check_number
from ...data.arrays import dense_array
from ...data.types import Array, Cells, Column, Data, Matrix, Vector
from ..conjugate import ConjugateEstimator, affine, parameter, softmax, within
from ..several import clear_deviations

#: Grid of a vector's and of the projection's entries, as shares of their largest: products of the two are integers of
#: at most 40 bits. Sums of up to `_MOST_COLUMNS` of them are exact in doubles, in any order.
_GRID = 2.0**20
_MOST_COLUMNS = 2**13
#: Norm of the block of words, if the block of vectors has norm 1.
_WORD_SHARE = 0.5


@dataclass(kw_only=True, repr=False, eq=False)
class VectorMixture(ConjugateEstimator):
    """Clusters of documents by their sentence vectors.

    It is a mixture of round Gaussians that share one variance.

    Vectors are scaled down to an L2 norm of at most 1, after the projection. Divide longer ones by a public number.
    With a ``vocabulary``, ``fit(X, y)`` takes which words each document holds. The same releases that fit the clusters
    tell how many documents of each cluster hold each word (`keywords`).

    Parameters
    ----------
    n_components : int
    projection : int, (D, d) array or None
        Public matrix that X of D columns is multiplied by. It is an array; or the number d of dimensions, for a random
        orthonormal frame. The frame depends only on D and d, times sqrt(D / d), so that lengths stay as they are on
        average. Or it is None, which takes X as it is. The noise of a center grows with sqrt(d): 16 to 64 are usual.
    vocabulary : sequence of str or None
        Public, or released (`PrivateVocabulary`), words of the columns of ``y``, which are arrays in memory: shards
        cannot store them.
    max_words : int
        Public L: the words of a document that holds more than L different ones weigh less, as L in all.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    Take a projected vector x with ||x|| <= 1, responsibilities r and, of V words, those t in {0, 1}^V that the document
    holds. These are scaled down to ||t|| <= sqrt(L). The statistics are the blocks (w r_k), (r_k x_j), (w ||x||^2) and
    (b r_k t_v / sqrt(L)). Here public w^2 = 1 / (2 sqrt(d)) and b = 1/2, or 0 without words. As sum_k r_k^2 <= 1, the
    squared norm is at most w^2 + 1 + w^2 + b^2. It is reached by a vector of norm 1 and L words in one certain
    component. So the bound is sqrt(1 + 2 w^2 + b^2), the sensitivity to adding or removing a record. Entries have
    signs, so replacing one costs twice that. The w is where the noise of a count and of a center do equal harm to a
    center half way to 1.

    Projecting is exact. Entries are truncated to a grid, their products are integers, and their sums stay below 2^53.
    So a document's projected vector is the same bits in any company. Multiplying matrices is no door around the bound.
    Counts of words above 1 are taken as 1.

    The noise of a release is known, and taken out. The length that it adds to a center is subtracted (James & Stein
    1961). Each center moves towards the mean of all records by the share of its squared distance that is noise.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import VectorMixture
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(6000) % 2
    >>> X = np.where(z[:, None] == 1, 0.4, -0.4) + 0.1 * rng.normal(size=(6000, 4))
    >>> held = np.stack([z == 0, z == 1], axis=1)
    >>> model = VectorMixture(2, vocabulary=["cough", "wheel"], max_words=2, epsilon=2.0, random_state=0)
    >>> sorted(model.fit(X, held).keywords())
    [['cough'], ['wheel']]
    >>> np.sort(model.word_shares(["wheel"])[:, 0]).round().tolist()
    [0.0, 1.0]
    >>> bool((model.predict_proba(X).argmax(axis=1) == z).mean() in (0.0, 1.0))
    True
    """

    n_components: int = field(default=10, kw_only=False)
    projection: Any = None
    vocabulary: Sequence[str] | None = None
    max_words: int = 50

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        constant, linear, scales = parameters[:3]  # log of the weighted density at x: constant + linear x, and a term
        count_weight, word_weight, most = scales[0], scales[1], scales[2]
        n_components, d = linear.shape
        n, n_columns = records.shape
        norm, inverse, each = np.zeros(n), np.zeros(n), np.zeros(n)
        for j in range(d):
            for i in range(n):
                norm[i] += records[i, j] * records[i, j]
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(norm[i]), 1.0)
        for j in range(d):
            for i in range(n):
                records[i, j] *= inverse[i]
        for j in range(d, n_columns):
            for i in range(n):
                records[i, j] = min(max(records[i, j], 0.0), 1.0)
                each[i] += records[i, j] * records[i, j]
        for i in range(n):
            each[i] = word_weight / math.sqrt(max(each[i], most))
        affine(out, constant, linear, records)
        softmax(out, n_components)
        first_word, n_words = n_components * (1 + d) + 1, n_columns - d
        for k in range(n_components):
            for j in range(d):
                for i in range(n):
                    out[i, n_components + k * d + j] = out[i, k] * records[i, j]
            for j in range(n_words):
                for i in range(n):
                    out[i, first_word + k * n_words + j] = out[i, k] * each[i] * records[i, d + j]
            for i in range(n):
                out[i, k] *= count_weight
        for i in range(n):
            out[i, first_word - 1] = count_weight * norm[i] * inverse[i] * inverse[i]

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + n_columns) + 1

    def norm_bound(self, n_columns: int) -> float:
        square = 1.0 + 2.0 * self._count_weight(n_columns) ** 2 + (_WORD_SHARE**2 if self._n_words else 0.0)
        return math.sqrt(square) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_number("max_words", self.max_words, 1, 2**20, integer=True)
        words = self.vocabulary
        if words is not None and (isinstance(words, str) or len(words) == 0 or len(set(words)) < len(words)):
            raise ValueError("vocabulary: expected a sequence of one or more different words, or None")
        if self.projection is not None:
            matrix = np.asarray(self.projection)
            if matrix.ndim == 0:
                check_number("projection", self.projection, 1, _MOST_COLUMNS, integer=True)
            elif matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "iuf":
                raise ValueError(f"projection has shape {matrix.shape}: expected (D, d), a number d, or None")
            elif not np.isfinite(matrix).all() or not 1e-100 < abs(matrix).max() < 1e100:
                raise ValueError("projection: expected finite numbers, not all of them 0")

    def records(self, X: Data, y: Column | None = None) -> Cells:
        """Return projected vectors, and words as further columns; float32."""
        drop = self._options.invalid == "drop"
        vectors = dense_array(X, "X", drop)
        if vectors.ndim != 2 or vectors.shape[1] == 0 or vectors.dtype.kind not in "biuf":
            raise ValueError(f"X has shape {vectors.shape} and dtype {vectors.dtype}: expected numbers, (n, d), d >= 1")
        vectors = self._projected(np.ascontiguousarray(vectors, dtype=np.float64))
        if (y is None) != (self.vocabulary is None):
            raise ValueError("y: expected the words of each document with a vocabulary, and None without one")
        if y is None:
            return vectors
        words = cast(Any, y).toarray() if sparse.issparse(y) else dense_array(y, "y", drop)
        if words.shape != (len(vectors), self._n_words):
            raise ValueError(
                f"y has shape {words.shape}: expected {(len(vectors), self._n_words)}, a column for each word"
            )
        return np.concatenate([vectors, words.astype(np.float32)], axis=1)

    def _projected(self, vectors: np.ndarray) -> np.ndarray:
        """Project vectors to d numbers.

        Each step but the product acts on single rows, and the product is exact.
        """
        with np.errstate(all="ignore"):  # a warning would tell of a value
            if self.projection is None:
                return vectors.astype(np.float32)
            matrix = self._matrix(vectors.shape[1])
            unit = abs(matrix).max() / _GRID
            largest = abs(vectors).max(axis=1, keepdims=True)
            largest = np.where(largest > 0, largest, 1.0)
            product = np.trunc(vectors / largest * _GRID) @ np.trunc(matrix / unit)
            return np.asarray((product * (unit / _GRID) * largest).astype(np.float32))

    def _matrix(self, n_columns: int) -> np.ndarray:
        matrix = np.asarray(self.projection)
        if matrix.ndim == 0:
            d = int(matrix)
            if d > n_columns:
                raise ValueError(f"projection={d}: expected at most the {n_columns} columns of X")
            normal = np.random.default_rng([n_columns, d]).standard_normal((n_columns, d))
            matrix = np.linalg.qr(normal)[0] * math.sqrt(n_columns / d)
        if len(matrix) != n_columns:
            raise ValueError(f"X has {n_columns} columns: expected {len(matrix)}, the rows of projection")
        if n_columns > _MOST_COLUMNS:
            raise ValueError(f"X has {n_columns} columns: expected at most {_MOST_COLUMNS} for a projection")
        return matrix.astype(np.float64)

    @property
    def _n_words(self) -> int:
        return 0 if self.vocabulary is None else len(self.vocabulary)

    def _count_weight(self, n_columns: int) -> float:
        return float((4.0 * (n_columns - self._n_words)) ** -0.25)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        k, d = self.n_components, n_columns - self._n_words
        if d < 1:
            raise ValueError(f"records of {n_columns} numbers: expected more than the {self._n_words} words")
        means = rng.normal(0, 1, (k, d)) * (0.5 / math.sqrt(d))
        words = np.zeros((k, self._n_words))
        return self._parameters(np.full(k, 1.0 / k), means, 0.25 / d, words, 0.0)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, n, d = self.n_components, self.n_records_, self.n_columns_ - self._n_words
        weight = self._count_weight(self.n_columns_)
        counts = np.maximum(mean[:k] / weight, 0.0)  # noise may have taken a count below 0
        counts = counts / counts.sum() if counts.sum() > 0 else np.full(k, 1.0 / k)  # responsibilities add up to 1
        first = mean[k : k + k * d].reshape(k, d)
        held = np.maximum(counts, max(noise_sd / weight, 1.0 / n))[:, None]
        center = first.sum(axis=0)
        apart = first / held - center
        square = (apart**2).sum(axis=1, keepdims=True)
        noise = d * (noise_sd / held) ** 2
        kept = np.maximum(1.0 - noise / np.maximum(square, 1e-300), 0.0)
        means = center + kept * apart
        means /= np.maximum(np.sqrt((means**2).sum(axis=1, keepdims=True)), 1.0)
        # What is left of the mean squared length between centers, whose noise is taken out of it too.
        energy = np.clip(mean[k + k * d] / weight, 0.0, 1.0)
        between = (counts[:, None] * kept * square).sum() + center @ center
        variance = max(energy - between, 0.05 * energy, 1e-6) / d
        words = mean[k + k * d + 1 :].reshape(k, -1) * (math.sqrt(self.max_words) / _WORD_SHARE)
        words_sd = noise_sd * math.sqrt(self.max_words) / _WORD_SHARE
        weights = (1.0 + n * counts) / (k + n)  # with a Dirichlet prior of ones
        return self._parameters(weights, means, variance, words, words_sd)

    def _parameters(
        self, weights: np.ndarray, means: np.ndarray, variance: float, words: np.ndarray, words_sd: float
    ) -> tuple[Any, ...]:
        """Make the E-step's parameters, then the readable ones.

        The latter are weights, means, variance, and the words with the noise in them.
        """
        constant = np.log(weights) - (means**2).sum(axis=1) / (2 * variance)
        share = _WORD_SHARE if self._n_words else 0.0
        scales = [self._count_weight(means.shape[1] + self._n_words), share, float(self.max_words)]
        return constant, means / variance, scales, weights, means, [variance], words, [words_sd]

    def component_weights(self, parameters: tuple[Array, ...]) -> Array:
        """Return the weights, for a score."""
        return parameters[3]

    def scored_columns(self, records: Matrix) -> Matrix:
        """Scale vectors down to norm 1, and leave words out.

        Each row is scaled by itself.
        """
        return within(records[:, : records.shape[1] - self._n_words], 1.0)

    def column_logs(self, values: Vector, column: int, parameters: tuple[Array, ...]) -> Matrix:
        """Compute a coordinate's log-densities by component, (n, K).

        They hold up to a constant.
        """
        return cast(Matrix, -((values[:, None] - parameters[4][:, column]) ** 2) / (2.0 * parameters[5]))

    weights_ = parameter(3, "(K,) weights.")
    means_ = parameter(4, "(K, d) centers, of projected vectors.")
    variance_ = parameter(5, "(1,) the variance of each coordinate around its center.")
    word_counts_ = parameter(6, "(K, V) documents of each component that hold each word, as a share of all documents.")

    def predict_proba(self, X: Any) -> Matrix:
        """Compute (n, K) responsibilities of public vectors."""
        rows = len(np.asarray(self._held(X)))
        words = np.zeros((rows, self._n_words), dtype=np.uint8) if self._n_words else None
        r = self.expected_statistics(X, words)[:, : self.n_components]
        return cast(Matrix, r / r.sum(axis=1, keepdims=True))

    def word_shares(self, words: Sequence[str]) -> Matrix:
        """Estimate the shares of documents with each word, by component.

        The result is (K, m) for m words, in [0, 1].

        Raises ValueError for a word that is not in the vocabulary.
        """
        if missing := [word for word in words if word not in (self.vocabulary or ())]:
            raise ValueError(f"words={missing[:3]!r}: expected words of the vocabulary")
        at = [list(self.vocabulary or ()).index(word) for word in words]
        shares = self.word_counts_[:, at] / np.maximum(self.weights_, 1e-300)[:, None]
        return cast(Matrix, np.clip(shares, 0.0, 1.0))

    def keywords(self, n_words: int = 10) -> list[list[str]]:
        """List at most ``n_words`` words that a component's documents hold more often.

        Words are ordered by the difference between a component's count of them and its share of all counts. It is in
        standard deviations of the noise and of the count itself. Words that do not stand clear of both, among all words
        of all components, are not taken (`vips_fast.models.several`): a component that is short of keywords is small,
        or the budget is.
        """
        n_words = check_number("n_words", n_words, 1, 2**20, integer=True)
        if self.vocabulary is None:
            raise ValueError("vocabulary=None: expected a fit with a vocabulary and the words of each document")
        counts, weights = self.word_counts_, self.weights_[:, None]
        expected = weights * np.maximum(counts.sum(axis=0), 0.0)
        sd = np.sqrt(self.parameters_[7][0] ** 2 * (1 + weights**2 * len(weights)) + expected / self.n_records_)
        excess = (counts - expected) / np.maximum(sd, 1e-300)
        best, least = np.argsort(-excess, axis=1, kind="stable")[:, :n_words], clear_deviations(excess.size)
        return [[self.vocabulary[j] for j in row if excess[k, j] >= least] for k, row in enumerate(best)]
