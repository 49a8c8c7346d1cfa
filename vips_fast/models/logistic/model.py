"""Compute logistic regression's posterior from noised statistics, knowing the noise."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from ...engine.averaging import Schedule
from ...engine.model import Release, array_of
from ...kernels.psd import one_blas_thread
from .posterior import Observed, Path, Records, factor_by_law, posterior_given, second_moment
from .score import OutcomePrediction, Prediction
from .spectrum import LARGE, Spectrum, curvature_ratio, inverse
from .statistics import LogisticStatistics, base_rate


class LogisticModel(LogisticStatistics):
    """Algorithm 4 around a released center, without projected averages.

    The source is Park et al. (2020).

    The gradients s1 and the points that they were taken at are averaged at the schedule's rate. The matrices s2 are
    averaged with the precision that each has. At read-out the known law of the noise says which eigenvalues of S, the
    average of s2, it can hide. Then q(m) is the posterior given the averages, as gradient + S (at - m) with noise, and
    the prior. The next center is one Newton step.
    """

    kept: ClassVar[dict[str, str]] = {
        **LogisticStatistics.kept,
        "gradient": "_gradient",
        "at": "_at",
        "base": "_base",
        "along": "_along",
        "factor": "_factor",
    }
    #: Whether the last step's read-out knows how records were weighted; whether it calibrates logits.
    _reads_by_law: ClassVar[bool] = True
    _calibrates: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._gradient, self._at = np.zeros(self.n_features), np.zeros(self.n_features)
        #: Log odds of the released base rate.
        self._base = np.zeros(1)
        # See `calibrating_factor`. A factor of 0 means no factor.
        self._along, self._factor = np.zeros(self.n_features + 2), np.zeros(2)
        # Variance of the noise in an entry of the gradient; the variance of sampling, over the curvature.
        self._variance = self._sampling = 0.0
        # S with its precision off the diagonal (0 without noise), and the precision when its spectrum was taken.
        self._matrix: np.ndarray | None = None
        self._precision = self._seen = 0.0
        self._spectrum: Spectrum | None = None
        # What the last step's read-out knows of all steps: a center, and its shares in gradient and matrix.
        self._path = np.empty((0, self.n_features + 2))

    def _averaging(self, offset: float, decay: float | None) -> Schedule:
        if not self._is_by_law():
            return super()._averaging(offset, decay)
        # Early centers are far from any estimate; the other steps count alike.
        return Schedule(offset - max(2, self._n_steps // 4), 1.0 if decay is None else float(decay))

    def _is_by_law(self) -> bool:
        return self._reads_by_law and self.options.noise_aware and self.n_features <= LARGE

    def _curvature(self, moment: float) -> float:
        """Compute S's factor for the likelihood's own curvature.

        ``moment`` is tr(<m m^T> S) of the last posterior.
        """
        return curvature_ratio(moment / self._n, self._b)

    def _next_point(self, point: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Choose the point of the next step's <xi> and s1."""
        return point

    def _update(self, release: Release) -> None:
        linear, quadratic = self.lattice.scale_linear, self.lattice.scale_quadratic
        values, noise = release.values, release.noise_sd * self._n
        fresh, noise_gradient = values[: self.n_features] * (self._n * linear), noise * linear
        self._follow(fresh, noise_gradient)
        exact = self._noise_free and self._fraction == 1
        rate = rate_of_matrix = 1.0 if exact or self.step == 0 else self._rate.rate(self.step)
        self._gradient += rate * (fresh - self._gradient)
        self._at += rate * ((np.zeros(self.n_features) if self.center() is None else self.point) - self._at)
        self._variance = (1 - rate) ** 2 * self._variance + (rate * noise_gradient) ** 2
        self._sampling = (1 - rate) ** 2 * self._sampling + rate**2 * (1 / self._fraction - 1)
        if exact:
            mean, covariance, point = self._exact(self._unpack(values) * (self._n * quadratic))
        else:
            if math.isfinite(quadratic):
                sd = noise * quadratic / self._ratio
                rate_of_matrix = self._average_matrix(self._unpack(values), self._n * quadratic, sd, rate)
            else:
                rate_of_matrix = 0.0
            ratio = 1.0
            if self.options.noise_aware and self.step > 0:
                ratio = self._curvature(self._moment_of_last())
            mean, covariance = self._read_out(ratio)
            point = self._newton(ratio, fresh, noise_gradient)
        if self._is_by_law():
            self._path[:, -2:] *= 1 - rate, 1 - rate_of_matrix
            self._path = np.vstack([self._path, [*self.point, rate, rate_of_matrix]])
            if self._last() and self.step > 0:
                mean, covariance = self._final(mean, self._unpack(values) * (self._n * quadratic) if exact else None)
        self._set_posterior(mean, covariance, self._next_point(point, mean))

    def _follow(self, fresh: np.ndarray, noise_sd: float) -> None:
        """Add a step to the averages of `calibrating_factor`."""
        known = self._calibrates and self.options.noise_aware and self.n_features <= LARGE
        if self.step > 0 and noise_sd > 0 and known:
            rate, mean = 3 / (self.step + 2), self._mean
            now = np.array([mean @ fresh, 0.0, *mean])
            variance = (1 - rate) ** 2 * self._along[1] + rate**2 * noise_sd**2 * float(mean @ mean)
            self._along += rate * (now - self._along)
            self._along[1] = variance

    def _final(self, mean: np.ndarray, exact: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Compute the last step's q(m) from the laws of noise.

        The laws of records count too: `vips_fast.models.logistic.posterior`.
        """
        matrix, sd = self._matrix if exact is None else exact, self._noise_of(self._precision)
        assert matrix is not None
        S, hidden = second_moment(matrix, sd, sd * self._ratio, self._constant > 0, about_means=True)
        used = self._path[:, -2:].any(axis=1)
        *points, gradient, shares = self._path[used].T
        scales = np.array([self.lattices[min(t, 1)][2:4] for t in range(len(self._path))])[used]
        steps = np.array(points).T, gradient, shares, scales[:, 0], scales[:, 1]
        path = self._law(Path(*steps, self.lattice.clip_norm if self.private else math.inf, self._b))
        records = Records.of(S, path, self._constant, self._n)
        if self._along[2:].any():
            self._factor = factor_by_law(records, path, self._along, self._sampling)
        prior = float(self.options.prior_shape), float(self.options.prior_rate)
        observed = Observed(records, path, self._gradient, self._variance, self._sampling, hidden, mean, self._labels)
        return posterior_given(observed, prior, mean)

    def _law(self, path: Path) -> Path:
        """Describe the weights and trials of records on the steps' way."""
        return path

    def _labels(self, expected: np.ndarray) -> np.ndarray:
        """Correct the labels' expected variance, (d, d), by the releases.

        It is the variance of the labels' sum.
        """
        return expected

    def _exact(self, curvature: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute read-out and Newton step without noise, from all records."""
        if self.options.noise_aware and self.step > 0:
            moment = self._mean @ curvature @ self._mean + np.vdot(curvature, self._covariance)
            curvature *= self._curvature(float(moment))
        right = self._gradient + curvature @ self._at
        curvature.flat[:: self.n_features + 1] += self._alpha
        covariance = inverse(curvature)
        return covariance @ right, covariance, self.point + covariance @ (self._gradient - self._alpha * self.point)

    def _set_point(self, point: np.ndarray) -> None:
        super()._set_point(point)
        if self.step and self._is_by_law():
            # At the center itself, s1 is the gradient of the likelihood.
            self.moment = np.outer(point, point)

    def _average_matrix(self, fresh: np.ndarray, scale: float, sd: float, rate: float) -> float:
        """Average the noised s2 by precision, and take the spectrum.

        Returns the weight.
        """
        fresh *= scale
        total = 0.0
        if sd > 0:
            total = self._precision + sd**-2
            rate = sd**-2 / total
        if self._matrix is None:
            self._matrix, rate = fresh, 1.0
        else:
            fresh -= self._matrix
            fresh *= rate
            self._matrix += fresh
        self._precision = total
        renewed = self._spectrum is None or self.n_features <= LARGE or self._last() or sd == 0
        if renewed or total > 1.1 * self._seen:
            # Above that dimension only when the noise has fallen by 5 %.
            self._seen = total
            self._spectrum = Spectrum(self._matrix, self._noise_of(total))
        return rate

    @staticmethod
    def _noise_of(precision: float) -> float:
        return 0.0 if precision == 0 else precision**-0.5

    def _known(self) -> Spectrum:
        assert self._spectrum is not None  # made in the first step
        return self._spectrum

    def _last(self) -> bool:
        return self.step + 1 >= self._n_steps

    def _moment_of_last(self) -> float:
        """tr(<m m^T> S) of the last posterior."""
        spectrum = self._known()
        size = self._mean @ spectrum.apply(spectrum.likely, spectrum.bulk_likely, self._mean)
        inside = np.einsum("ij,ij->j", spectrum.vectors, self._covariance @ spectrum.vectors)
        size += inside @ (spectrum.likely - spectrum.bulk_likely) + spectrum.bulk_likely * np.trace(self._covariance)
        return float(size)

    def _read_out(self, ratio: float) -> tuple[np.ndarray, np.ndarray]:
        """Compute q(m) given the averages.

        They are the gradient + S (m0 - m) seen with noise, and the prior.
        """
        spectrum, alpha, aware = self._known(), self._alpha, self.options.noise_aware

        def parts(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """Return posterior precision, and the mean's two factors.

            They are factors of the gradient and of the center in the mean.
            """
            curvature = np.asarray(values) * ratio
            if not aware:
                return curvature + alpha, np.ones_like(curvature), curvature
            noise = self._variance + self._sampling * curvature
            trust = np.divide(curvature, curvature + noise, out=np.ones_like(curvature), where=curvature + noise > 0)
            return trust * curvature + alpha, trust, trust * curvature

        # If the noise hides the curvature, the mean moves as if it were the largest there could be. Too large a step is
        # worse than too small a one.
        top, bulk = parts(spectrum.upper), parts(spectrum.bulk_upper)
        mean = spectrum.apply(top[1] / top[0], float(bulk[1] / bulk[0]), self._gradient)
        mean += spectrum.apply(top[2] / top[0], float(bulk[2] / bulk[0]), self._at)
        if aware and not self._noise_free and (self.n_features <= LARGE or self._last()):
            return mean, self._aware_covariance(ratio)
        if aware:
            top, bulk = parts(spectrum.likely), parts(spectrum.bulk_likely)
        return mean, spectrum.matrix(1 / top[0], float(1 / bulk[0]))

    def _aware_covariance(self, ratio: float) -> np.ndarray:
        """Posterior covariance with the likely curvature of each column.

        A column of few records has little curvature though the noise could hide more.
        """
        assert self._matrix is not None
        L = self._known().likely_matrix(self._matrix, self._precision**-0.5 * self._ratio)
        L *= ratio
        # Let c be an eigenvalue of L and noise of variance v + k c in the gradient. The precision is alpha + c^2 / (v +
        # (1 + k) c).
        seen = L * (1 + self._sampling)
        seen.flat[:: self.n_features + 1] += self._variance
        root = linalg.cholesky(seen, lower=True, overwrite_a=True)
        half = linalg.solve_triangular(root, L, lower=True, overwrite_b=True)
        precision = half.T @ half
        precision.flat[:: self.n_features + 1] += self._alpha
        return inverse(precision)

    def _first_center(self, gradient: float, noise_sd: float) -> np.ndarray:
        """Find the center after the first step from the constant's entry."""
        unit = self._n * self._b * self._constant
        return base_rate(self._constant, self.n_features, unit, gradient, noise_sd)

    def _newton(self, ratio: float, gradient: np.ndarray, noise_sd: float) -> np.ndarray:
        """Compute the next center: one Newton step.

        It takes the largest curvature there could be. It is damped where the noise of one release says less than the
        prior.
        """
        if self.step == 0 and self._constant:
            start = self._first_center(gradient[-1], noise_sd)
            self._base = start[-1:] * self._constant
            return start
        spectrum, alpha = self._known(), self._alpha
        damping = alpha * noise_sd**2 if self.options.noise_aware else 0.0

        def gain(curvature: float) -> float:
            return curvature / (curvature * curvature + alpha * curvature + damping) if curvature > 0 else 1 / alpha

        top = np.array([gain(ratio * value) for value in spectrum.upper])
        bulk = gain(ratio * spectrum.bulk_upper) if len(spectrum.upper) < self.n_features else 0.0
        point: np.ndarray = self.point + spectrum.apply(top, bulk, gradient - alpha * self.point)
        return point

    @property
    def has_score(self) -> bool:
        """Whether there is a base rate to compare with."""
        return self._constant > 0

    def gain_score(self) -> OutcomePrediction:
        return OutcomePrediction([self.prediction], self._bound, self._b, self._n)

    @property
    def prediction(self) -> Prediction:
        """The finished prediction, for a score."""
        optimism = max(self.n_features - self._alpha * float(np.trace(self._covariance)), 0.0)
        return Prediction.of(self._mean, self._covariance, self._factor, optimism, float(self._base[0]))

    def state(self) -> dict[str, np.ndarray]:
        """Return the state; see `Model.state`.

        A spectrum is stored if the matrix has moved on since it was taken.
        """
        empty = {"vectors": np.empty((self.n_features, 0)), "eigenvalues": np.empty((2, 0)), "bulk": np.zeros(2)}
        matrix = np.empty((0, 0)) if self._matrix is None else self._matrix.copy()
        law = np.array([self._variance, self._sampling, self._precision, self._seen])
        spectrum = empty if self._spectrum is None or self.n_features <= LARGE else self._spectrum.state()
        return {**super().state(), "matrix": matrix, "law": law, "path": self._path.copy(), **spectrum}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        d = self.n_features
        law, matrix, spectrum = array_of(state, "law", (4,)), array_of(state, "matrix"), Spectrum.from_state(state, d)
        if matrix.shape not in ((0, 0), (d, d)):
            raise ValueError(f"state: 'matrix' has shape {matrix.shape}, expected ({d}, {d})")
        if (law < 0).any():
            raise ValueError("state: 'law' is out of its range")
        path = array_of(state, "path")
        if path.ndim != 2 or path.shape[1] != d + 2:
            raise ValueError(f"state: 'path' has shape {path.shape}, expected (steps, {d + 2})")
        super().restore(state)
        self._path = path
        self._variance, self._sampling, self._precision, self._seen = law.tolist()
        self._matrix = self._spectrum = None
        if matrix.size:
            self._matrix = matrix
            with one_blas_thread(d):
                self._spectrum = spectrum if d > LARGE else Spectrum(matrix, self._noise_of(self._precision))
