"""Mixture of Gaussians with diagonal covariances."""

import math

import numpy as np
from scipy.special import digamma, logsumexp

from ..base import check_number
from ..conjugate import ConjugateEstimator


class GaussianMixture(ConjugateEstimator):
    """Variational Bayes for a Gaussian mixture with diagonal covariances (Bishop 2006, section 10.2).

    Mixture weights have a Dirichlet(``weight_prior``) prior; mean and precision of
    each component and column a normal-gamma prior: gamma(``shape_prior``,
    ``rate_prior``) and a normal around 0 worth ``mean_prior`` records.

    Parameters
    ----------
    n_components : int
    radius : float
        Public R: records are scaled down to an L2 norm of at most R.
    weight_prior, mean_prior, shape_prior, rate_prior : float
    means_init : (K, d) array or None
        Public first means; None draws them.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    Statistics of a record x with responsibilities r: (r_k, r_k x_j / R, r_k x_j^2 / R^2).
    Their squared norm is sum_k r_k^2 (1 + ||x||^2 / R^2 + sum_j x_j^4 / R^4). With
    ||x|| <= R, sum x^4 <= (sum x^2)^2 <= R^4; with r a distribution, sum r^2 <= 1. So it
    is at most 3, reached by x = R e_1 and one certain component: the bound is sqrt(3),
    the sensitivity to adding or removing a record. Entries have signs, so replacing
    one costs 2 sqrt(3).
    """

    def __init__(
        self, n_components=2, *, radius=1.0, weight_prior=1.0, mean_prior=1e-3, shape_prior=1.0, rate_prior=1e-3,
        means_init=None, **options,
    ):
        super().__init__(**options)
        self.n_components, self.radius, self.means_init = n_components, radius, means_init
        self.weight_prior, self.mean_prior = weight_prior, mean_prior
        self.shape_prior, self.rate_prior = shape_prior, rate_prior

    @staticmethod
    def statistics(record, parameters, scratch, out):
        constant, linear, quadratic, radius = parameters[:4]  # log of the weighted density at R u: constant + linear u + quadratic u^2
        n_components, d = linear.shape
        norm = 0.0
        for j in range(d):
            norm += record[j] * record[j]
        inverse = 1.0 / max(math.sqrt(norm), radius[0])  # 1/R, or 1/||x|| for a record outside
        for j in range(d):
            record[j] *= inverse
        top = -math.inf
        for k in range(n_components):
            s = constant[k]
            for j in range(d):
                s += (linear[k, j] + quadratic[k, j] * record[j]) * record[j]
            scratch[k] = s
            top = max(top, s)
        total = 0.0
        for k in range(n_components):
            scratch[k] = math.exp(scratch[k] - top)
            total += scratch[k]
        second = n_components * d
        for k in range(n_components):
            r = scratch[k] / total
            out[k] = r
            at = n_components + k * d
            for j in range(d):
                first = r * record[j]
                out[at + j] = first
                out[at + second + j] = first * record[j]

    def n_statistics(self, n_columns):
        return self.n_components * (1 + 2 * n_columns)

    def n_scratch(self, n_columns):
        return self.n_components

    def norm_bound(self, n_columns):
        return math.sqrt(3.0) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self):
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        for name in ("radius", "weight_prior", "mean_prior", "shape_prior", "rate_prior"):
            check_number(name, getattr(self, name), 0, 1e100, low_open=True)

    def start(self, n_columns, rng):
        spread = self.radius / math.sqrt(n_columns)
        means = self.means_init
        if means is None:
            means = rng.normal(0, 0.5 * spread, (self.n_components, n_columns))
        variance = np.full((self.n_components, n_columns), (0.5 * spread) ** 2)
        counts = np.full(self.n_components, self.n_records_ / self.n_components)
        return self._parameters(counts, np.asarray(means, dtype=float), variance * counts[:, None])

    def mstep(self, mean, noise_sd, parameters):
        k, d = self.n_components, self.n_columns_
        total = mean * self.n_records_
        counts = np.maximum(total[:k], 0.0)  # noise may have taken a count below 0
        first = total[k : k + k * d].reshape(k, d) * self.radius
        second = total[k + k * d :].reshape(k, d) * self.radius**2
        means = np.clip(first / (counts[:, None] + self.mean_prior), -self.radius, self.radius)
        spread = second - means * first * 2 + counts[:, None] * means**2 + self.mean_prior * means**2
        return self._parameters(counts, means, np.maximum(spread, 0.0))

    def _parameters(self, counts, means, spread):
        """What the E-step needs (expected natural parameters), then weights, means and variances."""
        alpha, kappa = self.weight_prior + counts, self.mean_prior + counts[:, None]
        shape, rate = self.shape_prior + counts[:, None] / 2, self.rate_prior + spread / 2
        precision = shape / rate
        log_precision = digamma(shape) - np.log(rate)
        constant = digamma(alpha) - digamma(alpha.sum())
        constant = constant + 0.5 * (log_precision - math.log(2 * math.pi) - 1 / kappa - precision * means**2).sum(axis=1)
        linear, quadratic = precision * means * self.radius, -precision / 2 * self.radius**2
        return constant, linear, quadratic, [self.radius], alpha / alpha.sum(), means, 1 / precision

    # read-outs
    weights_ = property(lambda self: self.parameters_[4], doc="(K,) expected weights.")
    means_ = property(lambda self: self.parameters_[5], doc="(K, d) expected means.")
    variances_ = property(lambda self: self.parameters_[6], doc="(K, d) reciprocals of the expected precisions.")

    def predict_proba(self, X):
        """(n, K) responsibilities of public records."""
        return self.expected_statistics(X)[:, : self.n_components]

    def score(self, X, y=None):
        """Mean log-density of public records under the expected parameters, in nats."""
        self._check_fitted()
        X = np.asarray(X, dtype=float)
        log = np.log(self.weights_) - 0.5 * np.log(2 * math.pi * self.variances_).sum(axis=1)
        log = log - 0.5 * (X**2 @ (1 / self.variances_).T - 2 * X @ (self.means_ / self.variances_).T)
        return float(logsumexp(log - 0.5 * (self.means_**2 / self.variances_).sum(axis=1), axis=1).mean())
