"""Probabilistic principal component analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from vips_fast.checks import check_number
from vips_fast.data.types import Array, Vector
from vips_fast.kernels import floor_spectrum, unpack_upper
from vips_fast.models.conjugate import ConjugateEstimator, check_bound, parameter
from vips_fast.models.parameters import Options


@dataclass(frozen=True)
class ProbabilisticPCAOptions(Options):
    """Numerics of a `ProbabilisticPCA`.

    Attributes
    ----------
    latent_radius : float or None
        Public B. E[z] of a record is scaled down to an L2 norm of at most B. None is sqrt(n_components) + 3. A standard
        normal vector hardly ever passes that.
    min_variance : float
        Least s^2, as a share of R^2 / d.
    ridge : float
        Precision of the normal prior of the columns of W.
    """

    latent_radius: float | None = None
    min_variance: float = 1e-4
    ridge: float = 1e-3


@dataclass(kw_only=True, repr=False, eq=False)
class ProbabilisticPCA(ConjugateEstimator):
    """Probabilistic PCA around a public center.

    The model is x - c = W z + noise (Tipping & Bishop 1999, by its EM).

    z ~ N(0, I), noise ~ N(0, s^2 I); the columns of W have a normal prior around 0.

    Parameters
    ----------
    n_components : int
    radius : float
        Public R: centered records are scaled down to an L2 norm of at most R.
    center : (d,) array or None
        Public c; None is 0.
    options : ProbabilisticPCAOptions, dict or None
        The numerics; None takes the defaults.
    **common
        Of `ConjugateEstimator`.

    Notes
    -----
    A centered record x has the latent mean m = E[z]. Its statistics are x m^T / (R B), the upper triangle of m m^T /
    B^2 with its off-diagonal times sqrt(2), and ||x||^2 / R^2. With ||x|| <= R and ||m|| <= B each block has an L2 norm
    of at most 1. (||x m^T||_F = ||x|| ||m||; the sqrt(2) makes the triangle's norm the matrix's Frobenius norm.) So the
    bound is sqrt(3), reached if both norms are. Entries have signs: replacing a record costs 2 sqrt(3). The posterior
    covariance of z is a function of the released parameters and is added in the M-step.

    A unit is to be one row: the covariance of z counts once a unit, and no number of rows is released. So of persons of
    several rows, or of a wrong `n_records`, loadings and variances are of another scale. Give the option
    ``rows_per_group=1`` then.
    """

    _options_type: ClassVar[type] = ProbabilisticPCAOptions

    n_components: int = field(default=2, kw_only=False)
    radius: float = 1.0
    center: Any = None

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        project, scale, center = parameters[:3]  # E[z] = project x
        k, d = project.shape
        n = len(records)
        norm, shrink, inverse = np.zeros(n), np.zeros(n), np.zeros(n)
        latent = np.zeros((k, n))
        for j in range(d):
            for i in range(n):
                records[i, j] -= center[j]
                norm[i] += records[i, j] * records[i, j]
        for i in range(n):
            shrink[i] = scale[0] / max(math.sqrt(norm[i]), scale[0])
        for j in range(d):
            for i in range(n):
                records[i, j] *= shrink[i]
        for a in range(k):
            for j in range(d):
                for i in range(n):
                    latent[a, i] += project[a, j] * records[i, j]
            for i in range(n):
                inverse[i] += latent[a, i] * latent[a, i]
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(inverse[i]), scale[1])
        at = k * d + k * (k + 1) // 2
        several = out.shape[1] > at + 1  # factor analysis has the square of each column
        for j in range(d):
            place = at + j if several else at
            for i in range(n):
                records[i, j] /= scale[0]
                out[i, place] += records[i, j] * records[i, j]
            for a in range(k):
                for i in range(n):
                    out[i, j * k + a] = records[i, j] * (latent[a, i] * inverse[i])
        at = k * d
        for a in range(k):
            for b in range(a, k):
                weight = 1.0 if a == b else math.sqrt(2.0)
                for i in range(n):
                    out[i, at] = latent[a, i] * inverse[i] * latent[b, i] * inverse[i] * weight
                at += 1

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * n_columns + self.n_components * (self.n_components + 1) // 2 + 1

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(3.0) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**15, integer=True)
        check_bound("radius", self.radius)
        options = self._options
        check_bound("min_variance", options.min_variance)
        check_bound("ridge", options.ridge)
        if options.latent_radius is not None:
            check_bound("latent_radius", options.latent_radius)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        if self.n_components > n_columns:
            raise ValueError(f"n_components={self.n_components}: expected at most {n_columns}, the columns of X")
        spread = self.radius / math.sqrt(n_columns)
        return self._parameters(rng.normal(0, 0.3 * spread, (n_columns, self.n_components)), (0.5 * spread) ** 2)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, d = self.n_components, self.n_columns_
        bound = parameters[1][1]
        cross = mean[: k * d].reshape(d, k) * (self.radius * bound)
        latent = unpack_upper(mean[k * d : -1] * bound**2, k, math.sqrt(0.5))
        latent = floor_spectrum(latent, 0.0) + parameters[4]  # noise may have taken an eigenvalue below 0
        ridge = self._options.ridge * parameters[5][0] / self.n_records_
        loadings = np.linalg.solve(latent + np.eye(k) * ridge, cross.T).T
        square = mean[-1] * self.radius**2
        variance = (square - 2 * (loadings * cross).sum() + ((loadings @ latent) * loadings).sum()) / d
        return self._parameters(loadings, float(variance))

    def _parameters(self, loadings: np.ndarray, variance: float) -> tuple[Any, ...]:
        k, d, numerics = self.n_components, self.n_columns_, self._options
        # Records within the radius have a covariance whose trace, and so each eigenvalue, is at most its
        # square; noise may have made more of it.
        variance = min(max(variance, numerics.min_variance * self.radius**2 / d), self.radius**2 / d)
        left, values, right = np.linalg.svd(loadings, full_matrices=False)
        values = np.minimum(values, self.radius)
        loadings = (left * values) @ right
        project = right.T @ ((values / (values**2 + variance))[:, None] * left.T)
        inverse = right.T @ ((1 / (values**2 + variance))[:, None] * right)
        center = np.zeros(d) if self.center is None else np.broadcast_to(np.asarray(self.center, dtype=float), (d,))
        bound = math.sqrt(k) + 3.0 if numerics.latent_radius is None else numerics.latent_radius
        return project, [self.radius, bound], center, loadings, variance * inverse, [variance]

    loadings_ = parameter(3, "(d, n_components) W.")

    @property
    def noise_variance_(self) -> float:
        """s^2."""
        return float(self.parameters_[5][0])

    def get_covariance(self) -> np.ndarray:
        """Compute the model's (d, d) covariance, W W^T + s^2 I."""
        return np.asarray(self.loadings_ @ self.loadings_.T + self.noise_variance_ * np.eye(len(self.loadings_)))

    def transform(self, X: Any) -> np.ndarray:
        """Compute (n, n_components) latent means of public records."""
        return np.asarray((np.asarray(self._held(X), dtype=float) - self.parameters_[2]) @ self.parameters_[0].T)
