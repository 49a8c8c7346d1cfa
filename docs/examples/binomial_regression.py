"""Binomial regression with a logit link."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit

from vips_fast.checks import check_number
from vips_fast.data.arrays import dense_array
from vips_fast.data.types import Array, Cells, Column, Data, Vector
from vips_fast.kernels import unpack_upper
from vips_fast.models.conjugate import ConjugateEstimator, check_bound, parameter


@dataclass(kw_only=True, repr=False, eq=False)
class BinomialRegression(ConjugateEstimator):
    """Variational Bayes for binomial regression, by Polya-Gamma variables.

    The model is y ~ Binomial(n, sigmoid(x^T w)), w ~ N(0, I / ``precision``).

    Algorithm 4 of Park et al. (2020): given w, E[xi] = n tanh(c/2) / (2 c) with
    c^2 = x^T E[w w^T] x; given the xi, q(w) is normal.

    Parameters
    ----------
    n_trials : int
        Public largest number of trials b of a record.
    radius : float
        Public R: rows of X are scaled down to an L2 norm of at most R.
    precision : float
        Of the prior of the coefficients.
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    `fit` takes X (n, d) and y, either (n,) successes out of ``n_trials`` or (n, 2) successes and trials.

    Statistics of a record are (y - n/2) x / (b R) and the upper triangle of E[xi] x x^T / (b R^2). The triangle has its
    off-diagonal times sqrt(2). With 0 <= y <= n <= b, |y - n/2| <= b/2, so the first has a norm of at most 1/2.
    E[xi] <= n/4 <= b/4 and ||x x^T||_F = ||x||^2, so the second has a norm of at most 1/4. The bound is sqrt(1/4 +
    1/16) = sqrt(5)/4, approached by ||x|| = R, y in {0, n}, n = b as E[w w^T] -> 0. Entries have signs: replacing a
    record costs sqrt(5)/2.
    """

    n_trials: int = field(default=1, kw_only=False)
    radius: float = 1.0
    precision: float = 1.0

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        second_moment, scale = parameters[:2]
        d = len(second_moment)
        n = len(records)
        inverse, xi = np.zeros(n), np.zeros(n)
        trials, half = records[:, d + 1], records[:, d]
        for j in range(d):
            for i in range(n):
                inverse[i] += records[i, j] * records[i, j]
        for i in range(n):
            inverse[i] = 1.0 / max(math.sqrt(inverse[i]), scale[0])
            trials[i] = min(max(trials[i], 0.0), scale[1])
            half[i] = (min(max(half[i], 0.0), trials[i]) - trials[i] / 2) / scale[1]
        for a in range(d):
            moment = np.zeros(n)
            for j in range(d):
                for i in range(n):
                    moment[i] += second_moment[a, j] * records[i, j]
            for i in range(n):
                xi[i] += moment[i] * records[i, a] * ((inverse[i] * scale[0]) * (inverse[i] * scale[0]))
        for i in range(n):
            c = math.sqrt(max(xi[i], 0.0))
            xi[i] = trials[i] * (0.25 if c < 1e-4 else math.tanh(c / 2) / (2 * c)) / scale[1]
        at = d
        for a in range(d):
            for i in range(n):
                out[i, a] = half[i] * (records[i, a] * inverse[i])
            for j in range(a, d):
                weight = 1.0 if a == j else math.sqrt(2.0)
                for i in range(n):
                    x = records[i, a] * inverse[i]
                    out[i, at] = xi[i] * x * (records[i, j] * inverse[i]) * weight
                at += 1

    def records(self, X: Data, y: Column | None = None) -> Cells:
        if y is None:
            raise ValueError("y=None: expected successes, or successes and trials, a row for each of X")
        y = dense_array(y, "y", self._options.invalid == "drop")
        if y.ndim == 1:
            y = np.column_stack([y, np.full(len(y), self.n_trials)])
        if y.ndim != 2 or y.shape[1] != 2:
            raise ValueError("y: expected successes (n,), or successes and trials (n, 2)")
        return super().records(X, y)

    def n_statistics(self, n_columns: int) -> int:
        d = n_columns - 2
        return d + d * (d + 1) // 2

    def norm_bound(self, n_columns: int) -> float:
        return math.sqrt(5.0) / 4 * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        check_number("n_trials", self.n_trials, 1, 2**53, integer=True)
        for name in ("radius", "precision"):
            check_bound(name, getattr(self, name))

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        d = n_columns - 2
        return self._parameters(np.zeros(d), np.eye(d) / self.precision)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        d = len(parameters[2])
        total = mean * (self.n_records_ * self.n_trials)
        curvature = unpack_upper(total[d:] * self.radius**2, d, math.sqrt(0.5))
        values, vectors = np.linalg.eigh(curvature)  # noise may have taken an eigenvalue below 0
        covariance = (vectors / (np.maximum(values, 0.0) + self.precision)) @ vectors.T
        return self._parameters(covariance @ total[:d] * self.radius, covariance)

    def _parameters(self, coefficients: np.ndarray, covariance: np.ndarray) -> tuple[Any, ...]:
        second_moment = np.outer(coefficients, coefficients) + covariance
        return second_moment, [self.radius, self.n_trials], coefficients, covariance

    coef_ = parameter(2, "(d,) expected coefficients.")
    covariance_ = parameter(3, "(d, d) their covariance.")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute the (n,) probability of a success at public rows, sigmoid(x^T E[w])."""
        return np.asarray(expit(np.asarray(self._held(X), dtype=float) @ self.coef_))
