"""Mixture of Gaussians with diagonal covariances."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import digamma, logsumexp

from ...checks import check_number
from ...data.types import Array, Matrix, Vector
from ..conjugate import ConjugateEstimator, check_bound, parameter, softmax, within
from ..parameters import Options


@dataclass(frozen=True)
class GaussianMixtureOptions(Options):
    """Priors of a `GaussianMixture`.

    Mixture weights have a Dirichlet(``weight_prior``) prior. Mean and precision of each component and column have a
    normal-gamma prior. That is gamma(``shape_prior``, ``rate_prior``) and a normal around 0 worth ``mean_prior``
    records.
    """

    weight_prior: float = 1.0
    mean_prior: float = 1e-3
    shape_prior: float = 1.0
    rate_prior: float = 1e-3


@dataclass(kw_only=True, repr=False, eq=False)
class GaussianMixture(ConjugateEstimator):
    """Variational Bayes for a Gaussian mixture with diagonal covariances.

    The source is Bishop 2006, section 10.2.

    Parameters
    ----------
    n_components : int
    radius : float
        Public R: records are scaled down to an L2 norm of at most R.
    means_init : (K, d) array or None
        Public first means; None draws them.
    options : GaussianMixtureOptions, dict or None
        The priors; None takes the defaults.
    **common
        Of `ConjugateEstimator`.

    Notes
    -----
    Statistics of a record x with responsibilities r: (r_k, r_k x_j / R, r_k x_j^2 / R^2). Their squared norm is sum_k
    r_k^2 (1 + ||x||^2 / R^2 + sum_j x_j^4 / R^4). With ||x|| <= R, sum x^4 <= (sum x^2)^2 <= R^4; with r a
    distribution, sum r^2 <= 1. So it is at most 3, reached by x = R e_1 and one certain component. The bound is
    sqrt(3), the sensitivity to adding or removing a record. Entries have signs, so replacing one costs 2 sqrt(3).

    The noise of a release is known, and the M-step allows for it. As in `VectorMixture`, the length that it adds to a
    mean is taken off: an estimate of James & Stein (1961). The columns' sums of squared deviations are shrunk toward
    their component's mean in the same way. None is below the noise in that mean. Otherwise a component that noise
    leaves no variance takes no record, and in the end one takes all.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import GaussianMixture
    >>> X = np.tile([[-1.0, 0.5], [1.0, -0.5]], (3000, 1)) + 0.1 * np.random.default_rng(0).normal(size=(6000, 2))
    >>> model = GaussianMixture(2, radius=2.0, epsilon=8.0, random_state=0).fit(X)
    >>> np.sort(model.means_[:, 0]).round().tolist()
    [-1.0, 1.0]
    >>> model.predict_proba(X[:2]).shape, bool(np.isfinite(model.score(X)))
    ((2, 2), True)
    """

    _options_type: ClassVar[type] = GaussianMixtureOptions
    # Variances take more records than the centers of the other mixtures.
    _signals: ClassVar[tuple[float, float]] = (4.0, 60.0)

    n_components: int = field(default=2, kw_only=False)
    radius: float = 1.0
    means_init: Any = None

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        # The log of the weighted density at R u is constant + linear u + quadratic u^2.
        constant, linear, quadratic, radius = parameters[:4]
        n_components, d = linear.shape
        n = len(records)
        inverse = np.zeros(n)
        for j in range(d):
            for i in range(n):
                inverse[i] += records[i, j] * records[i, j]
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(inverse[i]), radius[0])  # 1/R, or 1/||x|| for a record outside
        for j in range(d):
            for i in range(n):
                records[i, j] *= inverse[i]
        for k in range(n_components):
            for i in range(n):
                out[i, k] = constant[k]
            for j in range(d):
                for i in range(n):
                    out[i, k] += (linear[k, j] + quadratic[k, j] * records[i, j]) * records[i, j]
        softmax(out, n_components)
        second = n_components * d
        for k in range(n_components):
            for j in range(d):
                at = n_components + k * d + j
                for i in range(n):
                    first = out[i, k] * records[i, j]
                    out[i, at] = first
                    out[i, at + second] = first * records[i, j]

    @property
    def _sought(self) -> str:
        return f"clusters as far apart as radius={self.radius:g}"

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * (1 + 2 * n_columns)

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(3.0) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_bound("radius", self.radius)
        for name in ("weight_prior", "mean_prior", "shape_prior", "rate_prior"):
            check_bound(name, getattr(self._options, name))

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        spread, shape = self.radius / math.sqrt(n_columns), (self.n_components, n_columns)
        means = np.asarray(self.means_init, dtype=float)
        if self.means_init is None:
            means = rng.normal(0, 0.5 * spread, shape)
        if means.shape != shape:
            raise ValueError(f"means_init has shape {means.shape}: expected {shape}")
        counts = np.full(self.n_components, self.n_records_ / self.n_components)
        return self._parameters(counts, means, np.full(shape, (0.5 * spread) ** 2) * counts[:, None])

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, d, mean_prior = self.n_components, self.n_columns_, self._options.mean_prior
        total = mean * self.n_records_
        noise = noise_sd * self.n_records_
        counts = np.maximum(total[:k], noise)
        first = total[k : k + k * d].reshape(k, d) * self.radius
        second = total[k + k * d :].reshape(k, d) * self.radius**2
        means = first / (counts[:, None] + mean_prior)
        if noise:
            center = first.sum(axis=0) / counts.sum()
            means = _shrunk(means, center, d * (noise * self.radius / counts[:, None]) ** 2)
        means = np.clip(means, -self.radius, self.radius)
        spread = second - means * first * 2 + counts[:, None] * means**2 + mean_prior * means**2
        if noise:
            apart = noise * self.radius**2
            spread = _shrunk(spread, spread.mean(axis=1, keepdims=True), (d - 1) * apart**2)
            spread = np.maximum(spread, apart / math.sqrt(d))
        return self._parameters(counts, means, np.maximum(spread, 0.0))

    def _parameters(self, counts: np.ndarray, means: np.ndarray, spread: np.ndarray) -> tuple[Any, ...]:
        """Make the E-step's expected natural parameters, then the readable ones.

        The latter are weights, means and variances.
        """
        prior = self._options
        alpha, kappa = prior.weight_prior + counts, prior.mean_prior + counts[:, None]
        shape, rate = prior.shape_prior + counts[:, None] / 2, prior.rate_prior + spread / 2
        precision = shape / rate
        log_precision = digamma(shape) - np.log(rate)
        log_density = 0.5 * (log_precision - math.log(2 * math.pi) - 1 / kappa - precision * means**2).sum(axis=1)
        constant = digamma(alpha) - digamma(alpha.sum()) + log_density
        linear, quadratic = precision * means * self.radius, -precision / 2 * self.radius**2
        return constant, linear, quadratic, [self.radius], alpha / alpha.sum(), means, 1 / precision

    def component_weights(self, parameters: tuple[Array, ...]) -> Array:
        """Return the weights, for a score."""
        return parameters[4]

    def scored_columns(self, records: Matrix) -> Matrix:
        """Scale records down to the radius, row by row."""
        return within(records, self.radius)

    def column_logs(self, values: Vector, column: int, parameters: tuple[Array, ...]) -> Matrix:
        """Compute a column's log-densities by component, (n, K).

        They hold up to a constant.
        """
        means, variances = parameters[5][:, column], parameters[6][:, column]
        return cast(Matrix, -((values[:, None] - means) ** 2) / (2.0 * variances) - 0.5 * np.log(variances))

    weights_ = parameter(4, "(K,) expected weights.")
    means_ = parameter(5, "(K, d) expected means.")
    variances_ = parameter(6, "(K, d) reciprocals of the expected precisions.")

    def predict_proba(self, X: Any) -> Matrix:
        """Compute (n, K) responsibilities of public records."""
        return cast(Matrix, self.expected_statistics(X)[:, : self.n_components])

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the mean log-density of public records, in nats.

        Under the expected parameters.
        """
        X = np.asarray(self._held(X), dtype=float)
        log = np.log(self.weights_) - 0.5 * np.log(2 * math.pi * self.variances_).sum(axis=1)
        log = log - 0.5 * (X**2 @ (1 / self.variances_).T - 2 * X @ (self.means_ / self.variances_).T)
        return float(logsumexp(log - 0.5 * (self.means_**2 / self.variances_).sum(axis=1), axis=1).mean())


def _shrunk(values: Array, center: Array, square_of_noise: Any) -> Array:
    """Shrink rows toward their centers by the share of their squared distance that is noise."""
    square = np.maximum(((values - center) ** 2).sum(axis=1, keepdims=True), 1e-300)
    return np.asarray(center + np.maximum(1.0 - square_of_noise / square, 0.0) * (values - center))
