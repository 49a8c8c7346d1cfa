"""Mixture over sentence vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ...checks import check_number
from ...data.arrays import dense_array
from ...data.types import Array, Cells, Column, Data, Matrix, Vector
from ..conjugate import ConjugateEstimator, affine, parameter, softmax, within

#: Grid of a vector's and of the projection's entries, as shares of their largest: products of the two are integers of
#: at most 40 bits. Sums of up to `_MOST_COLUMNS` of them are exact in doubles, in any order.
_GRID = 2.0**20
_MOST_COLUMNS = 2**13


@dataclass(kw_only=True, repr=False, eq=False)
class VectorMixture(ConjugateEstimator):
    """Clusters of documents by their sentence vectors.

    It is a mixture of round Gaussians that share one variance.

    Vectors are scaled down to an L2 norm of at most 1, after the projection. Divide longer ones by a public number.
    `vips_fast.DocumentClusters` tells the words of clusters too, where public vectors are at hand.

    Parameters
    ----------
    n_components : int
    projection : int, (D, d) array or None
        Public matrix that X of D columns is multiplied by. It is an array; or the number d of dimensions, for a random
        orthonormal frame. The frame depends only on D and d, times sqrt(D / d), so that lengths stay as they are on
        average. Or it is None, which takes X as it is. The noise of a center grows with sqrt(d): 16 to 64 are usual.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    Take a projected vector x with ||x|| <= 1 and responsibilities r. The statistics are the blocks (w r_k), (r_k x_j)
    and (w ||x||^2), with public w^2 = 1 / (2 sqrt(d)). As sum_k r_k^2 <= 1, the squared norm is at most w^2 + 1 + w^2.
    It is reached by a vector of norm 1 in one certain component. So the bound is sqrt(1 + 2 w^2), the sensitivity to
    adding or removing a record. Entries have signs, so replacing one costs twice that. The w is where the noise of a
    count and of a center do equal harm to a center half way to 1.

    Projecting is exact. Entries are truncated to a grid, their products are integers, and their sums stay below 2^53.
    So a document's projected vector is the same bits in any company. Multiplying matrices is no door around the bound.

    The noise of a release is known, and taken out. The length that it adds to a center is subtracted (James & Stein
    1961). Each center moves towards the mean of all records by the share of its squared distance that is noise.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import VectorMixture
    >>> rng = np.random.default_rng(0)
    >>> z = np.arange(6000) % 2
    >>> X = np.where(z[:, None] == 1, 0.4, -0.4) + 0.1 * rng.normal(size=(6000, 4))
    >>> model = VectorMixture(2, epsilon=2.0, random_state=0).fit(X)
    >>> np.abs(model.means_).round(1).tolist()
    [[0.4, 0.4, 0.4, 0.4], [0.4, 0.4, 0.4, 0.4]]
    >>> bool((model.predict_proba(X).argmax(axis=1) == z).mean() in (0.0, 1.0))
    True
    """

    n_components: int = field(default=10, kw_only=False)
    projection: Any = None

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        constant, linear, scale = parameters[:3]  # log of the weighted density at x: constant + linear x, and a term
        n_components, d = linear.shape
        n = len(records)
        norm, inverse = np.zeros(n), np.zeros(n)
        for j in range(d):
            for i in range(n):
                norm[i] += records[i, j] * records[i, j]
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(norm[i]), 1.0)
        for j in range(d):
            for i in range(n):
                records[i, j] *= inverse[i]
        affine(out, constant, linear, records)
        softmax(out, n_components)
        for k in range(n_components):
            for j in range(d):
                for i in range(n):
                    out[i, n_components + k * d + j] = out[i, k] * records[i, j]
            for i in range(n):
                out[i, k] *= scale[0]
        for i in range(n):
            out[i, n_components * (1 + d)] = scale[0] * norm[i] * inverse[i] * inverse[i]

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + n_columns) + 1

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(1.0 + 2.0 * self._count_weight(n_columns) ** 2) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        if self.projection is not None:
            matrix = np.asarray(self.projection)
            if matrix.ndim == 0:
                check_number("projection", self.projection, 1, _MOST_COLUMNS, integer=True)
            elif matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "iuf":
                raise ValueError(f"projection has shape {matrix.shape}: expected (D, d), a number d, or None")
            elif not np.isfinite(matrix).all() or not 1e-100 < abs(matrix).max() < 1e100:
                raise ValueError("projection: expected finite numbers, not all of them 0")

    def records(self, X: Data, y: Column | None = None) -> Cells:
        """Return projected vectors, float32."""
        vectors = dense_array(X, "X", self._options.invalid == "drop")
        if vectors.ndim != 2 or vectors.shape[1] == 0 or vectors.dtype.kind not in "biuf":
            raise ValueError(f"X has shape {vectors.shape} and dtype {vectors.dtype}: expected numbers, (n, d), d >= 1")
        if y is not None:
            raise ValueError("y: expected None")
        return self._projected(np.ascontiguousarray(vectors, dtype=np.float64))

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

    def _count_weight(self, n_columns: int) -> float:
        return float((4.0 * n_columns) ** -0.25)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        k, d = self.n_components, n_columns
        means = rng.normal(0, 1, (k, d)) * (0.5 / math.sqrt(d))
        return self._parameters(np.full(k, 1.0 / k), means, 0.25 / d)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, n, d = self.n_components, self.n_records_, self.n_columns_
        weight = self._count_weight(d)
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
        weights = (1.0 + n * counts) / (k + n)  # with a Dirichlet prior of ones
        return self._parameters(weights, means, variance)

    def _parameters(self, weights: np.ndarray, means: np.ndarray, variance: float) -> tuple[Any, ...]:
        """Make the E-step's parameters, then weights, means and variance."""
        constant = np.log(weights) - (means**2).sum(axis=1) / (2 * variance)
        return constant, means / variance, [self._count_weight(means.shape[1])], weights, means, [variance]

    def component_weights(self, parameters: tuple[Array, ...]) -> Array:
        """Return the weights, for a score."""
        return parameters[3]

    def scored_columns(self, records: Matrix) -> Matrix:
        """Scale vectors down to norm 1, each by itself."""
        return within(records, 1.0)

    def column_logs(self, values: Vector, column: int, parameters: tuple[Array, ...]) -> Matrix:
        """Compute a coordinate's log-densities by component, (n, K).

        They hold up to a constant.
        """
        return cast(Matrix, -((values[:, None] - parameters[4][:, column]) ** 2) / (2.0 * parameters[5]))

    weights_ = parameter(3, "(K,) weights.")
    means_ = parameter(4, "(K, d) centers, of projected vectors.")
    variance_ = parameter(5, "(1,) the variance of each coordinate around its center.")

    def predict_proba(self, X: Any) -> Matrix:
        """Compute (n, K) responsibilities of public vectors."""
        r = self.expected_statistics(X)[:, : self.n_components]
        return cast(Matrix, r / r.sum(axis=1, keepdims=True))
