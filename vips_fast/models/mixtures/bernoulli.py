"""Mixture of products of Bernoulli distributions (latent classes)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from scipy.special import digamma, logsumexp

from ...checks import check_number
from ...data.types import Array, Matrix, Vector
from ..conjugate import ConjugateEstimator, affine, check_bound, parameter, softmax


@dataclass(kw_only=True, repr=False, eq=False)
class BernoulliMixture(ConjugateEstimator):
    """Variational Bayes for a Beta-Bernoulli mixture of binary records.

    The records may be answers of a survey.

    Parameters
    ----------
    n_components : int
    center : float
        Public c in [0, 1] that answers are measured from: 0.5, or 0 where ones are rare.
    radius : float or None
        Public R: x - c is scaled down to an L2 norm of at most R. None is the most that there can be, max(c, 1 - c)
        sqrt(d). Suppose each record has at most m ones, as with one column for each choice of m questions. Then
        ``center=0`` and ``radius=m**0.5`` bring the least noise. A record with more of them weighs less.
    pseudocount : float
        Parameters of the Dirichlet prior of the weights and of the Beta priors of the columns' probabilities.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    Statistics of a record x in [0, 1]^d with responsibilities r are (w r_k, r_k (x_j - c) / R). Here ||x - c|| <= R,
    and public w^2 = 1 / (2 sqrt(d)). Their squared norm is sum_k r_k^2 (w^2 + ||x - c||^2 / R^2) <= w^2 + 1, as sum
    r^2 <= 1. The bound is sqrt(1 + w^2). It is reached by ||x - c|| = R and one certain component, so at c = 1/2 by
    every binary record. Replacing a record costs sqrt(2) times that with c = 0, where entries are >= 0, and else twice.
    Entries of x outside of [0, 1] are moved to its ends first.

    From c = 1/2 ones and zeros lie equally far, at half the length of a record of ones seen from 0. A count is one
    number against d, so it may have more of the noise. Together that is less than half of the noise of blocks (r_k, r_k
    x_j / sqrt(d)).

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import BernoulliMixture
    >>> answers = np.tile([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1]], (3000, 1))
    >>> model = BernoulliMixture(2, epsilon=2.0, random_state=0).fit(answers)
    >>> np.sort(model.probabilities_[:, 0]).round(1).tolist()
    [0.0, 1.0]
    >>> model.predict_proba(answers[:2]).shape, bool(model.score(answers) > -1.0)
    ((2, 2), True)
    """

    @property
    def nonnegative(self) -> bool:
        # From 0 answers are counted as they are.
        return self.center == 0

    n_components: int = field(default=2, kw_only=False)
    center: float = 0.5
    radius: float | None = None
    pseudocount: float = 1.0

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        constant, slope, scales = parameters[:3]  # log of the weighted probability: constant + slope x
        n_components, d = slope.shape
        center, radius, count_weight = scales[0], scales[1], scales[2]
        n = len(records)
        inverse = np.zeros(n)
        for j in range(d):
            for i in range(n):
                records[i, j] = min(max(records[i, j], 0.0), 1.0)
                inverse[i] += (records[i, j] - center) * (records[i, j] - center)
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(inverse[i]), radius)
        affine(out, constant, slope, records)
        softmax(out, n_components)
        for k in range(n_components):
            for j in range(d):
                at = n_components + k * d + j
                for i in range(n):
                    out[i, at] = out[i, k] * inverse[i] * (records[i, j] - center)
            for i in range(n):
                out[i, k] *= count_weight

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + n_columns)

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(1.0 + self._count_weight(n_columns) ** 2) * (1 + 1e-12)  # the bound, and rounding

    def _count_weight(self, n_columns: int) -> float:
        return float((4.0 * n_columns) ** -0.25)

    def _radius(self, n_columns: int) -> float:
        # The margin keeps the longest binary records inside when their squares are added up.
        return self.radius or max(self.center, 1.0 - self.center) * math.sqrt(n_columns) * (1 + 1e-13)

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_number("center", self.center, 0, 1)
        check_bound("pseudocount", self.pseudocount)
        if self.radius is not None:
            check_bound("radius", self.radius)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        share = self.n_records_ / self.n_components
        ones = rng.uniform(0.25, 0.75, (self.n_components, n_columns)) * share
        return self._parameters(np.full(self.n_components, share), ones)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, d = self.n_components, self.n_columns_
        counts = np.maximum(mean[:k], 0.0) / self._count_weight(d) * self.n_records_  # noise may take a count below 0
        apart = mean[k:].reshape(k, d) * self._radius(d) * self.n_records_
        return self._parameters(counts, np.clip(apart + self.center * counts[:, None], 0.0, counts[:, None]))

    def _parameters(self, counts: np.ndarray, ones: np.ndarray) -> tuple[Any, ...]:
        alpha, a, b = self.pseudocount + counts, self.pseudocount + ones, self.pseudocount + counts[:, None] - ones
        log_one, log_zero = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
        constant = digamma(alpha) - digamma(alpha.sum()) + log_zero.sum(axis=1)
        d = ones.shape[1]
        scales = [float(self.center), self._radius(d), self._count_weight(d)]
        return constant, log_one - log_zero, scales, alpha / alpha.sum(), a / (a + b)

    def component_weights(self, parameters: tuple[Array, ...]) -> Array:
        """Return the weights, for a score."""
        return parameters[3]

    def scored_columns(self, records: Matrix) -> Matrix:
        """Bring records to [0, 1]."""
        return np.clip(records, 0.0, 1.0)

    def column_logs(self, values: Vector, column: int, parameters: tuple[Array, ...]) -> Matrix:
        """Compute log-probabilities of a column by component, (n, K)."""
        ones = parameters[4][:, column]
        return cast(Matrix, values[:, None] * np.log(ones) + (1.0 - values[:, None]) * np.log1p(-ones))

    weights_ = parameter(3, "(K,) expected weights.")
    probabilities_ = parameter(4, "(K, d) expected probabilities of a 1.")

    def predict_proba(self, X: Any) -> Matrix:
        """Compute (n, K) responsibilities of public records."""
        r = self.expected_statistics(X)[:, : self.n_components]
        return cast(Matrix, r / r.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-probability of public binary records, in nats.

        Under the expected parameters.
        """
        X = np.asarray(self._held(X), dtype=float)
        log_one, log_zero = np.log(self.probabilities_), np.log1p(-self.probabilities_)
        log = X @ (log_one - log_zero).T + log_zero.sum(axis=1) + np.log(self.weights_)
        return float(logsumexp(log, axis=1).mean())
