"""Factor analysis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from probabilistic_pca import ProbabilisticPCA

from vips_fast.data.types import Array, Vector
from vips_fast.kernels import floor_spectrum, unpack_upper


@dataclass(kw_only=True, repr=False, eq=False)
class FactorAnalysis(ProbabilisticPCA):
    """Factor analysis around a public center.

    The model is x - c = W z + noise (Rubin & Thayer 1982, by its EM).

    z ~ N(0, I), noise ~ N(0, diag(psi)): unlike in probabilistic PCA, each column has a variance of its own. The
    parameters are the same as of `ProbabilisticPCA`.

    Notes
    -----
    Statistics of a centered record x, scaled down to ||x|| <= R, with latent mean m = E[z], scaled down to ||m|| <= B:
    x m^T / (R B) and the upper triangle of m m^T / B^2 as in `ProbabilisticPCA`, and the squares x_j^2 / R^2 of the
    columns. The L2 norm of the squares is at most their sum, ||x||^2 / R^2 <= 1. So the bound is sqrt(3) as there,
    reached by a record along one column. A unit is to be one row, as there.
    """

    def n_statistics(self, n_columns: int) -> int:
        return self.n_components * n_columns + self.n_components * (self.n_components + 1) // 2 + n_columns

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        if self.n_components > n_columns:
            raise ValueError(f"n_components={self.n_components}: expected at most {n_columns}, the columns of X")
        spread = self.radius / math.sqrt(n_columns)
        loadings = rng.normal(0, 0.3 * spread, (n_columns, self.n_components))
        return self._factors(loadings, np.full(n_columns, (0.5 * spread) ** 2))

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        k, d = self.n_components, self.n_columns_
        bound = parameters[1][1]
        cross = mean[: k * d].reshape(d, k) * (self.radius * bound)
        latent = unpack_upper(mean[k * d : -d] * bound**2, k, math.sqrt(0.5))
        latent = floor_spectrum(latent, 0.0) + parameters[4]  # noise may have taken an eigenvalue below 0
        ridge = self._options.ridge * float(parameters[5].mean()) / self.n_records_
        loadings = np.linalg.solve(latent + np.eye(k) * ridge, cross.T).T
        square = mean[-d:] * self.radius**2
        # Below the noise of the squares a variance looks like 0.
        rest = square - 2 * (loadings * cross).sum(1) + ((loadings @ latent) * loadings).sum(1)
        return self._factors(loadings, np.maximum(rest, noise_sd * self.radius**2))

    def _factors(self, loadings: Array, variances: Array) -> tuple[Any, ...]:
        k, d, numerics = self.n_components, self.n_columns_, self._options
        # No column of records within the radius has a variance above its square; noise may have made more of it.
        variances = np.clip(variances, numerics.min_variance * self.radius**2 / d, self.radius**2)
        left, values, right = np.linalg.svd(loadings, full_matrices=False)
        loadings = (left * np.minimum(values, self.radius)) @ right
        covariance = np.linalg.inv(np.eye(k) + (loadings.T / variances) @ loadings)
        center = np.zeros(d) if self.center is None else np.broadcast_to(np.asarray(self.center, dtype=float), (d,))
        bound = math.sqrt(k) + 3.0 if numerics.latent_radius is None else numerics.latent_radius
        return covariance @ (loadings.T / variances), [self.radius, bound], center, loadings, covariance, variances

    @property
    def variances_(self) -> Array:
        """(d,) psi."""
        return self.parameters_[5]

    @property
    def noise_variance_(self) -> float:
        """Mean of psi."""
        return float(self.variances_.mean())

    def get_covariance(self) -> np.ndarray:
        """Compute the (d, d) covariance of the model, W W^T + diag(psi)."""
        return np.asarray(self.loadings_ @ self.loadings_.T + np.diag(self.variances_))
