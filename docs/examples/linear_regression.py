"""Linear regression with intervals that know the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from vips_fast.checks import check_flag, check_number
from vips_fast.data.types import Array, Cells, Column, Data, Matrix, Vector
from vips_fast.kernels import unpack_upper
from vips_fast.models.conjugate import ConjugateEstimator, check_bound, parameter

_ROUNDS = 30


@dataclass(kw_only=True, repr=False, eq=False)
class LinearRegression(ConjugateEstimator):
    """Bayesian linear regression from one release of second moments.

    The model is y ~ N(x^T w + c, s^2), and the moments are of (x, 1, y).

    Parameters
    ----------
    radius : float
        Public R. A row of X that is longer is scaled down to it, together with its 1 and its y. The line stays the
        same, and the record counts less.
    largest : float
        Public B: then y is clipped to [-B, B], which bends the line. State the range of y.
    fit_intercept : bool
    precision : float
        Of the normal prior of the coefficients, in units of B / R: 1 lets a row of length R move y by about B.
    **options
        Of `ConjugateEstimator`; ``n_steps`` is 1 by default, and more steps average as many releases.

    Notes
    -----
    *Bound.* Let f = min(1, R / |x|). A record is z = (f x / R, f, min(max(f y / B, -1), 1)). So |z|^2 <= 3, or 2
    without an intercept. Its statistics are the upper triangle of z z^T with the off-diagonal times sqrt(2), of norm
    |z|^2. It is reached by |x| = R, |y| = B.

    *Intervals.* (Bernstein & Sheldon 2019, who sample; this iterates.) The release has S = sum of u u^T and r = sum of
    t u, with z = (u, t). Its noise is E and e, of sd v on the diagonal of z z^T, and v / sqrt(2) off it. For the true m
    r - S m = sum of (t - u^T m) u + e - E m: a normal vector of covariance N = s^2 S + v^2 / 2 ((1 + |m|^2) I + m m^T),
    since Var (E m)_i = v^2 m_i^2 + v^2 / 2 (|m|^2 - m_i^2) and Cov = v^2 / 2 m_i m_j. So the posterior precision is S
    N^-1 S + ``precision``, with m and s^2 iterated. Eigenvalues of S that the noise can hide are raised to it. A
    squared residual counts f^2, so s^2 is their sum over the released sum of f^2: persons may have several rows, if
    their errors are independent. Without an intercept that sum is not released, and the number of units stands for it.
    Then a unit is to be one row, no longer than R.

    Examples
    --------
    >>> import numpy as np
    >>> from linear_regression import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (5000, 2)) / np.sqrt(2)
    >>> y = 2 * X[:, 0] + 1 + 0.3 * rng.normal(size=5000)
    >>> model = LinearRegression(largest=4.0, epsilon=2.0).fit(X, y)
    >>> low, high = model.credible_interval(0.999999)[0]
    >>> bool(low < 2 < high), model.predict(X).shape
    (True, (5000,))
    """

    radius: float = 1.0
    largest: float = 1.0
    fit_intercept: bool = True
    precision: float = 1.0
    n_steps: int | None = 1
    sampling: str | None = "full"

    @staticmethod
    def statistics(records: Any, parameters: Any, out: Any) -> None:
        scale = parameters[0]
        n, d = len(records), records.shape[1] - 1
        f, one = np.zeros(n), np.zeros(n)
        for j in range(d):
            for i in range(n):
                f[i] += records[i, j] * records[i, j]
        for i in range(n):
            f[i] = 1.0 / max(math.sqrt(f[i]), scale[0])
            one[i] = f[i] * scale[0] * scale[2]
            records[i, d] = min(max(records[i, d] * f[i] * scale[0] / scale[1], -1.0), 1.0)
        for j in range(d):
            for i in range(n):
                records[i, j] *= f[i]
        at = 0
        for a in range(d + 2):
            for b in range(a, d + 2):
                weight = 1.0 if a == b else math.sqrt(2.0)
                for i in range(n):
                    left = one[i] if a == d else records[i, min(a, d)]
                    right = one[i] if b == d else records[i, min(b, d)]
                    out[i, at] = left * right * weight
                at += 1

    def records(self, X: Data, y: Column | None = None) -> Cells:
        if y is None or np.asarray(y).ndim != 1:
            raise ValueError("y: expected numbers, shape (n,)")
        return super().records(X, y)

    def n_statistics(self, n_columns: int) -> int:
        return (n_columns + 1) * (n_columns + 2) // 2

    def norm_bound(self, n_columns: int) -> float:
        return (2.0 + bool(self.fit_intercept)) * (1 + 1e-12)  # the bound, and rounding

    def check_parameters(self) -> None:
        for name in ("radius", "largest", "precision"):
            check_bound(name, getattr(self, name))
        check_flag("fit_intercept", self.fit_intercept)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        return self._parameters(np.zeros(n_columns), np.eye(n_columns) / self.precision, 1.0)

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        d = self.n_columns_
        n, v = self.n_records_, noise_sd * self.n_records_
        moments = unpack_upper(mean * n, d + 1, math.sqrt(0.5))
        used = d if self.fit_intercept else d - 1
        r, q = moments[:used, d], float(moments[d, d])
        values, vectors = np.linalg.eigh(moments[:used, :used])
        floor = max(v, 1e-12 * n)
        S = (vectors * np.maximum(values, floor)) @ vectors.T
        weights = max(float(moments[d - 1, d - 1]), floor) if self.fit_intercept else n
        m, s2 = np.zeros(used), max(q, floor) / weights
        for _ in range(_ROUNDS):
            noise = s2 * S + v * v / 2 * ((1 + m @ m) * np.eye(used) + np.outer(m, m))
            trusted = np.linalg.solve(noise, S).T
            covariance = np.linalg.inv(trusted @ S + self.precision * np.eye(used))
            m = covariance @ trusted @ r
            s2 = max(q - 2 * m @ r + m @ S @ m, v * (1 + m @ m), 1e-12 * n) / weights
        whole = np.zeros((d, d))
        whole[:used, :used] = (covariance + covariance.T) / 2
        return self._parameters(np.append(m, np.zeros(d - used)), whole, s2)

    def _parameters(self, m: np.ndarray, covariance: np.ndarray, s2: float) -> tuple[Any, ...]:
        units = np.append(np.full(len(m) - 1, self.largest / self.radius), self.largest)
        scale = [self.radius, self.largest, float(self.fit_intercept)]
        return scale, m * units, covariance * np.outer(units, units), [s2 * self.largest**2]

    @property
    def coef_(self) -> Vector:
        """Posterior mean of the coefficients, shape (d,)."""
        return np.asarray(self.parameters_[1][:-1])

    @property
    def intercept_(self) -> float:
        """Posterior mean of the intercept."""
        return float(self.parameters_[1][-1])

    covariance_ = parameter(2, "Posterior covariance of coefficients and intercept, shape (d + 1, d + 1).")

    def credible_interval(self, level: float = 0.9) -> Matrix:
        """Compute central posterior intervals of the coefficients.

        ``level`` is in (0, 1), and the shape (d, 2).
        """
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        half = ndtri(0.5 + level / 2) * np.sqrt(np.diag(self.covariance_)[:-1])
        return np.stack([self.coef_ - half, self.coef_ + half], axis=1)

    def predict(self, X: Data) -> Vector:
        """Predict the mean of y for public rows, shape (n,)."""
        return np.asarray(np.asarray(self._held(X), dtype=float) @ self.coef_ + self.intercept_)
