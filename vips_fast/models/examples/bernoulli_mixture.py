"""Mixture of products of Bernoulli distributions (latent classes)."""

import math
from typing import Any

import numpy as np
from scipy.special import digamma

from ...checks import check_number
from ..conjugate import ConjugateEstimator, check_bound, parameter


class BernoulliMixture(ConjugateEstimator):
    """Variational Bayes for a Beta-Bernoulli mixture of binary records.

    Parameters
    ----------
    n_components : int
    weight_prior : float
        Of the Dirichlet prior of the weights.
    one_prior, zero_prior : float
        Of the Beta prior of the probability that a column is 1.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    Statistics of a record x in {0, 1}^d with responsibilities r: (r_k, r_k x_j / sqrt(d)). Their squared norm is sum_k
    r_k^2 (1 + ||x||^2 / d) <= 2, as ||x||^2 <= d and sum r^2 <= 1: the bound is sqrt(2), reached by x = (1, ..., 1) and
    one certain component. Entries are >= 0, so replacing a record costs sqrt(2) sqrt(2) = 2. Entries of x outside of
    [0, 1] are moved to its ends first.
    """

    nonnegative = True

    def __init__(
        self, n_components: int = 2, *, weight_prior: float = 1.0, one_prior: float = 1.0, zero_prior: float = 1.0,
        **options: Any,
    ):
        super().__init__(**options)
        self.n_components, self.weight_prior = n_components, weight_prior
        self.one_prior, self.zero_prior = one_prior, zero_prior

    @staticmethod
    def statistics(record: Any, parameters: Any, scratch: Any, out: Any) -> None:
        constant, slope = parameters[:2]  # log of the weighted probability: constant + slope x
        n_components, d = slope.shape
        for j in range(d):
            record[j] = min(max(record[j], 0.0), 1.0)
        top = -math.inf
        for k in range(n_components):
            s = constant[k]
            for j in range(d):
                s += slope[k, j] * record[j]
            scratch[k] = s
            top = max(top, s)
        total = 0.0
        for k in range(n_components):
            scratch[k] = math.exp(scratch[k] - top)
            total += scratch[k]
        inverse = 1.0 / math.sqrt(d)
        for k in range(n_components):
            r = scratch[k] / total
            out[k] = r
            for j in range(d):
                out[n_components + k * d + j] = r * record[j] * inverse

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + n_columns)

    def n_scratch(self, n_columns: int) -> int:
        return self.n_components

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(2.0) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        for name in ("weight_prior", "one_prior", "zero_prior"):
            check_bound(name, getattr(self, name))

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Any, ...]:
        share = self.n_records_ / self.n_components
        ones = rng.uniform(0.25, 0.75, (self.n_components, n_columns)) * share
        return self._parameters(np.full(self.n_components, share), ones)

    def mstep(self, mean: np.ndarray, noise_sd: float, parameters: tuple[np.ndarray, ...]) -> tuple[Any, ...]:
        total = mean * self.n_records_
        counts = np.maximum(total[: self.n_components], 0.0)  # noise may have taken a count below 0
        ones = total[self.n_components :].reshape(self.n_components, -1) * math.sqrt(self.n_columns_)
        return self._parameters(counts, np.clip(ones, 0.0, counts[:, None]))

    def _parameters(self, counts: np.ndarray, ones: np.ndarray) -> tuple[Any, ...]:
        alpha, a = self.weight_prior + counts, self.one_prior + ones
        b = self.zero_prior + counts[:, None] - ones
        log_one, log_zero = digamma(a) - digamma(a + b), digamma(b) - digamma(a + b)
        constant = digamma(alpha) - digamma(alpha.sum()) + log_zero.sum(axis=1)
        return constant, log_one - log_zero, alpha / alpha.sum(), a / (a + b)

    weights_ = parameter(2, "(K,) expected weights.")
    probabilities_ = parameter(3, "(K, d) expected probabilities of a 1.")

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, K) responsibilities of public records."""
        return self.expected_statistics(X)[:, : self.n_components]
