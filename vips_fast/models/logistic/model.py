"""The steps of logistic regression: from noised statistics to the next center, and at last to the posterior."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from ...engine.model import Release, array_of
from ...engine.sampling import Sampler
from ...kernels.logistic import pg_mean
from ...kernels.threads import one_blas_thread
from ...mechanisms import GaussianMechanism
from .posterior import FACTORS, Observed, calibrating_factor, posterior_given, second_moment, solved, weighted
from .score import OutcomePrediction, Prediction
from .spectrum import LARGE, NODES, WEIGHTS, Spectrum, inverse
from .statistics import LogisticStatistics, base_rate

#: Variance of the noise over that of outcomes, in the gradient's entry of a usual column, which is small.
_SMALL = 0.02
#: Mean of p (1 - p) that plans assume; fewest steps of an average; the bound of |s1| over b R if noise is not small.
_SLOPE, _FEWEST, _TIGHT = 0.2, 3, 0.5
#: Share of s1 in the squared bound of later steps if noise is small.
_QUIET_SHARE = 0.6
#: Largest change of a row's logit by one step of the center, if columns are alike; and by one column alone.
_REACH, _REACH_OF_ONE = 1.2, 3.0
#: Standard deviation of the mean curvature's change between the average and the last steps, before it is seen.
_CHANGE = 0.3
#: By how much, of what it is for normal rows, the curvature along the logits may differ for others.
_OTHER_LAW = 1.0
#: Largest eigenvalue of noise over the mean curvature in an average that is no longer.
_PART = 0.1
#: Largest log odds of a base rate.
_MOST_ODDS = 30.0
#: Root mean square logit from the last centers, beyond their own, of a step that counts.
_NEAR = 0.3


class LogisticModel(LogisticStatistics):
    """Newton's method from released statistics, and the posterior given them.

    In the first step <xi> is b/4 for all records: s2 is the rows' second moment. Its constant tells the base rate, from
    which the center starts. From then on s1 is the weighted gradient of the log likelihood at the center, and s2 is its
    curvature there, the sum of w b p (1 - p) x x^T. The center moves by Newton steps. Gradient, center and curvature
    are averaged over the last steps: as many as bring the noise's variance to `_SMALL` of the outcomes', and at most
    all after the first quarter. So without noise the read-out is the maximum a posteriori estimate, whatever the
    records are, and with noise it solves an equation whose expectation is 0 at the true coefficients.
    """

    kept: ClassVar[dict[str, str]] = {
        **LogisticStatistics.kept,
        "gradient": "_gradient",
        "at": "_at",
        "base": "_base",
        "along": "_along",
        "factor": "_factor",
    }
    #: What s2 was divided by in later steps, for a stack of several.
    stacked: ClassVar[float] = 1.0
    #: Whether releases calibrate logits.
    _calibrates: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._gradient, self._at = np.zeros(self.n_features), np.zeros(self.n_features)
        #: Log odds of the released base rate.
        self._base = np.zeros(1)
        #: How far m . g is from that of a calibrated m, its variance, and m . H m.
        self.told = 0.0, 0.0, 0.0
        # See `calibrating_factor`. A factor of 0 means no factor.
        self._along, self._factor = np.zeros(2 * self.n_features + 2), np.zeros(2)
        # Variance of the noise in an entry of the gradient; the variance of sampling, over the curvature.
        self._variance = self._sampling = 0.0
        # The rows' second moment, the average of later s2, and variances of the noise off their diagonals.
        self._rows: np.ndarray | None = None
        self._late: np.ndarray | None = None
        self._variances = np.zeros(2)
        # What both tell of the curvature, with its precision (0 without noise), and that when its spectrum was taken.
        self._matrix: np.ndarray | None = None
        self._precision = self._seen = 0.0
        self._spectrum: Spectrum | None = None
        #: Steps that counted in the read-out; 0 before it.
        self._counted = 0
        # Center, gradient, and variances of its noise and of sampling, a row a step.
        self._path = np.empty((0, 2 * self.n_features + 3))
        self._quiet = False
        self.plan(0.0, 1.0)

    def plan(self, noise_sd: float, fraction: float) -> None:
        """Choose bound and averaging from public numbers.

        ``noise_sd`` is that of an entry of the sum of contributions, and ``fraction`` the share of records in a step.
        """
        first = max(2, self._n_steps // 4)
        square = max(self._bound**2 - self._constant**2, self._bound**2 / self.n_features)
        outcomes = self._n * self._usual_slope() * square / self.n_features

        def noise(bound: float) -> float:
            """Variance in a step's gradient over the outcomes'."""
            self._tight = bound
            linear = self.unit_scales(False)[0] if self.private else 0.0
            return (noise_sd / fraction * linear) ** 2 / outcomes + (1 / fraction - 1)

        steps = max(self._n_steps - first, 1)
        self._quiet = True  # the shares that it would have
        if not noise(1.0) <= _SMALL * steps:
            self._quiet = False
            noise(_TIGHT)
        self._burn, self.averaged = first, steps

    @property
    def _shares(self) -> tuple[float, float]:
        first, other = super()._shares
        return (first, _QUIET_SHARE) if self._quiet and self.options.linear_share is None else (first, other)

    def _usual_slope(self) -> float:
        return _SLOPE * self._b

    def rate(self, step: int, fewest: int = 1) -> float:
        """Share of a step in the averages of gradients and centers, over ``fewest`` steps at least."""
        return 1.0 if step <= self._burn else max(1 / (1 + step - self._burn), 1 / fewest)

    def _fewest(self, noise_sd: float) -> int:
        """Find how many steps bring the gradient's noise to `_SMALL` of the outcomes', by the released curvature."""
        if self._late is None or self._noise_free:
            return _FEWEST
        outcomes = self._usual(self._late)
        noise = noise_sd**2 / outcomes + (1 / self._fraction - 1)
        return max(_FEWEST, math.ceil(min(noise / _SMALL, self._n_steps)))

    def _usual(self, curvature: np.ndarray) -> float:
        """Mean curvature of a column, not of the constant."""
        own = curvature.diagonal()
        own = own[:-1] if self._constant and len(own) > 1 else own
        return max(float(own.mean()), 1e-300)

    def _residual_bound(self, first: bool) -> float:
        if self.options.residual_clip is not None:
            return self.options.residual_clip
        # The first step's residuals are 1/2.
        return _TIGHT if first else self._tight

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        self.plan(mechanism.noise_sd, sampler.expected_batch_size / self._n)
        super().prepare(mechanism, sampler)

    def _reads_out(self) -> bool:
        """Whether the last step knows the laws of outcomes and noise."""
        return self.options.noise_aware and self.n_features <= LARGE

    def _next_point(self, point: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Choose the next center."""
        return point

    def _update(self, release: Release) -> None:
        linear, quadratic = self.lattice.scale_linear, self.lattice.scale_quadratic
        values, noise = release.values, release.noise_sd * self._n
        fresh, noise_gradient = values[: self.n_features] * (self._n * linear), noise * linear
        self._follow(fresh, noise_gradient)
        exact = self._noise_free and self._fraction == 1
        rate = self._rate_now = 1.0 if exact else self.rate(self.step, self._fewest(noise_gradient))
        self._gradient += rate * (fresh - self._gradient)
        self._at += rate * ((np.zeros(self.n_features) if self.center() is None else self.point) - self._at)
        self._variance = (1 - rate) ** 2 * self._variance + (rate * noise_gradient) ** 2
        self._sampling = (1 - rate) ** 2 * self._sampling + rate**2 * (1 / self._fraction - 1)
        trace = 0.0
        if math.isfinite(quadratic):
            scale = quadratic * (self.stacked if self.step else 1.0)
            seen = self._unpack(values) * (self._n * scale)
            trace = float(np.trace(seen))
            self._average_matrix(seen, noise * scale / self._ratio, exact)
        mean, covariance = self._read_out()
        point = self._newton(fresh, noise_gradient)
        alpha, sampled = None, 1 / self._fraction - 1
        if self._reads_out():
            self._path = np.vstack([self._path, [*self.point, *fresh, noise_gradient**2, sampled, trace]])
        if self._last() and self.step > 0 and self._reads_out():
            rows = self._second_moment_of_rows()
            mean, covariance, alpha = self._final(mean, rows)
            self._base = self._mean_rate(mean, covariance, rows)
        self._set_posterior(mean, covariance, self._next_point(point, mean))
        if alpha is not None:
            self._prior = self._prior[0], self._prior[0] / alpha

    def _follow(self, fresh: np.ndarray, noise_sd: float) -> None:
        """Add a step to the averages of `calibrating_factor`."""
        known = self._calibrates and self.options.noise_aware and self.n_features <= LARGE
        if self.step > 0 and noise_sd > 0 and known:
            rate, mean = 3 / (self.step + 2), self._mean
            now = np.array([mean @ fresh, 0.0, *mean, *self.point])
            variance = (1 - rate) ** 2 * self._along[1] + rate**2 * noise_sd**2 * float(mean @ mean)
            self._along += rate * (now - self._along)
            self._along[1] = variance

    def _final(self, start: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Compute the last step's q(m), and alpha, from the laws of noise and outcomes."""
        assert self._matrix is not None
        sd, about = self._noise_of(self._precision), self._constant > 0
        H, hidden = second_moment(self._matrix, sd, sd * self._ratio, about, about_means=True)
        center, gradient, variance, sampling = self._converged(rows)
        doubt = np.zeros(self.n_features)
        if self._late is not None and math.isfinite(self.lattice.scale_quadratic):
            H *= self._recent(float(np.trace(self._matrix)))
            H, doubt = self._along_logits(H, rows, center)
        length = math.sqrt(float(np.trace(rows)))
        labels = self._labels(self._share_of_labels(start, rows, length) * H)
        if self._along[2:].any():
            mean, average = np.split(self._along[2:], 2)
            curved = mean @ H
            known = float(self._along[1] + mean @ (labels + self._sampling * H) @ mean)
            self.told = float(self._along[0] - curved @ (mean - average)), known, float(curved @ mean)
            self._factor = calibrating_factor(self.told[0], known, (self.told[2] * (FACTORS - 1)).tolist())
        observed = Observed(center, gradient, variance, sampling, H, hidden, labels, start, length, doubt)
        prior = float(self.options.prior_shape), float(self.options.prior_rate)
        return posterior_given(observed, prior, start)

    def _mean_rate(self, mean: np.ndarray, covariance: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Find the log odds of the mean probability at coefficients, (1,): the base rate as all steps tell it.

        A score compares with it. Of a rare outcome the first step alone tells a rate that noise may have made, beside
        which a model without effects would look useful. It takes normal logits.
        """
        if not self._constant:
            return self._base
        center = float(rows[-1] @ mean) / self._constant
        logits = center + math.sqrt(max(float(mean @ rows @ mean) - center**2, 0.0)) * NODES
        found = self._log_odds(logits, math.sqrt(max(float((covariance * rows).sum()), 0.0)))
        return np.clip([found], -_MOST_ODDS, _MOST_ODDS) if not math.isnan(found) else self._base

    def _log_odds(self, logits: np.ndarray, sd: float) -> float:
        """Log odds of the mean probability of logits at `NODES`, whose posterior has about the ``sd``."""
        return float(logit(WEIGHTS @ expit(logits)))

    def _converged(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, float, float]:
        """Average centers and gradients, with their laws, over the last steps.

        They are as many as `_fewest` asks for, but none from before the centers came near to the last quarter's.
        """
        d, n_steps = self.n_features, len(self._path)
        points = self._path[:, :d]
        tail = max(n_steps // 4, 2)
        way = points - points[-tail:].mean(axis=0)
        square = np.einsum("ti,ij,tj->t", way, rows, way)
        far = np.flatnonzero(square > 4 * square[-tail:].mean() + _NEAR**2)
        first = max(self._burn, int(far[-1]) + 1 if len(far) else 0)
        count = max(min(n_steps - first, self._fewest(math.sqrt(self._path[-1, -3]))), 1)
        self._counted = count
        center, gradient, noise = np.split(self._path[-count:].mean(axis=0), [d, 2 * d])
        return center, gradient, float(noise[0]) / count, float(noise[1]) / count

    def _along_logits(self, H: np.ndarray, rows: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Correct the curvature along the direction that logits spread in, and tell how uncertain that is.

        Rows that have little curvature are the ones with large logits. So along u, the covariance of rows and logits,
        the curvature is less than elsewhere: an error that noise hides in single entries, and which scales all effects
        alike. Normal rows tell by how much, and the release as far as noise lets it. The second result is u, as long
        as the standard deviation of u . H u.
        """
        assert self._late is not None
        k = self.n_features - (self._constant > 0)
        middle = rows[:k, -1] / self._constant if k < len(rows) else np.zeros(k)
        u = (rows[:k, :k] - np.outer(middle, middle)) @ mean[:k]
        spread = float(mean[:k] @ u)
        if not self._calibrates or spread <= 0 or self._variances[1] == 0:
            return H, np.zeros(len(H))
        center = float(middle @ mean[:k]) + (self._constant * float(mean[-1]) if k < len(rows) else 0.0)
        logits = center + math.sqrt(spread) * NODES
        slope = expit(logits) * expit(-logits)
        share = float(WEIGHTS @ (slope * NODES**2)) / max(float(WEIGHTS @ slope), 1e-300)
        u = np.append(u / np.linalg.norm(u), np.zeros(len(H) - k))
        now, seen, noise = float(u @ H @ u), float(u @ self._late @ u), 2 * self._variances[1]
        guess, error = share * now, max((_OTHER_LAW * (1 - share) * now) ** 2, 1e-12 * now**2)
        found = (guess / error + seen / noise) / (1 / error + 1 / noise)
        # A fall below the first bound would leave a matrix that is not positive definite.
        found = min(max(found, now - 0.9 / max(float(u @ solved(H, u)), 1e-300)), 2 * now)
        return H + (found - now) * np.outer(u, u), u * (1 / error + 1 / noise) ** -0.25

    def _recent(self, whole: float) -> float:
        """Give the mean curvature of the steps that count over that of the average, whose trace is ``whole``.

        It tells as far as noise lets it; the curvature falls or grows on the way of the centers.
        """
        if whole <= 0:
            return 1.0  # noise hides all
        found = float(self._path[-self._counted :, -1].mean())
        noise = 2 * self.n_features * self._variances[1] * 0.75 * len(self._path) / self._counted
        trust = 1 / (1 + (min(math.sqrt(noise) / whole, 1e100) / _CHANGE) ** 2)
        ratio = min(max(found / whole, 0.0), 4.0)
        return float(min(max(1 + trust * (ratio - 1), 0.25), 2.0))

    def _second_moment_of_rows(self) -> np.ndarray:
        """Estimate the mean of x x^T, (d, d), from the first release."""
        assert self._rows is not None
        sd = math.sqrt(self._variances[0])
        rows, _ = second_moment(self._rows, sd, sd * self._ratio, self._constant > 0, about_means=True)
        if self._constant and rows[-1, -1] <= 0:
            return rows  # not a record
        # The constant tells the number of rows.
        return rows * (self._constant**2 / rows[-1, -1] if self._constant else 4 / (self._b * self._n))

    def _share_of_labels(self, mean: np.ndarray, rows: np.ndarray, length: float) -> float:
        """Compute the mean of w^2 p (1 - p) over that of w p (1 - p), for the clip's weights w.

        It takes rows of one length and normal logits. Where weights differ much, noise is most of the variance.
        """
        if not self.private or not self._of_records or self._quiet:
            return 1.0
        center = float(rows[-1] @ mean) / self._constant if self._constant else 0.0
        logits = center + math.sqrt(max(float(mean @ rows @ mean) - center**2, 0.0)) * NODES
        xi, lattice = self._b * pg_mean(logits), self.lattices[1]
        linear, quadratic = length / lattice.scale_linear, length**2 / lattice.scale_quadratic
        norms = np.hypot((self._b / 2 + xi * np.abs(logits)) * linear, xi * quadratic)
        w, slope = np.minimum(1.0, lattice.clip_norm / np.maximum(norms, 1e-300)), expit(logits) * expit(-logits)
        return float(WEIGHTS @ (w * w * slope) / (WEIGHTS @ (w * slope)))

    def _labels(self, expected: np.ndarray) -> np.ndarray:
        """Correct the outcomes' expected variance, (d, d), by the releases."""
        return expected

    def _set_point(self, point: np.ndarray) -> None:
        # m is the center itself: s1 is the gradient of the likelihood, and s2 its curvature.
        self.point = point

    def _average_matrix(self, fresh: np.ndarray, sd: float, exact: bool) -> None:
        """Average the later s2, and join them with the first to an estimate of the curvature.

        With a common factor r, r times the first is that too, but for an unknown error of variance t. Where outcomes
        are rare it has far less noise. Both are averaged by their precision, t by the moments of their difference.
        """
        if self._rows is None:
            self._rows, self._variances[0] = fresh, sd**2
            self._take(fresh.copy(), sd**-2 if sd > 0 else 0.0)
            return
        rate = 1.0
        if self._late is not None and not exact:
            # As many steps as bring the noise's largest eigenvalue to a tenth of the mean one.
            mean = self._usual(self._late)
            rate = max(2 / (self.step + 1), min(1.0, len(fresh) ** -0.5 * _PART * mean / max(2 * sd, 1e-300)) ** 2)
        self._late = fresh if self._late is None else self._late + rate * (fresh - self._late)
        self._variances[1] = (1 - rate) ** 2 * self._variances[1] + (rate * sd) ** 2
        if sd == 0:
            self._take(self._late.copy(), 0.0)
            return
        self._take(*self._joined(self._rows, self._late))

    def _joined(self, rows: np.ndarray, late: np.ndarray) -> tuple[np.ndarray, float]:
        """Join the rows' second moment and the curvature, and give the precision of an entry.

        The constant's entries, which are far larger than noise and others, are the curvature's own.
        """
        share = 4 * float(expit(self._base[0]) * expit(-self._base[0]))
        k = len(rows) - 1 if self._constant and len(rows) > 1 else len(rows)
        first, second = rows[:k, :k], late[:k, :k]
        traces = [float(np.trace(matrix)) for matrix in (rows, late, first, second)]
        # A trace that noise brought to 0 or less tells nothing.
        whole = min(max(traces[1] / traces[0], 0.25 * share), 1.0) if traces[0] > 0 else 1.0
        ratio = whole
        if traces[2] > 0:
            # The columns' own ratio is near that of all, within a fifth.
            noise = math.sqrt(2 * k * self._variances[1]) / traces[2]
            trust = 1 / (1 + (5 * noise / whole) ** 2) if noise < 1e100 else 0.0
            found = min(max(traces[3] / traces[2], 0.0), 1.0)
            ratio = min(max(whole + trust * (found - whole), 0.25 * share), 1.0)
        noise, variance = ratio**2 * self._variances[0], self._variances[1]
        guess = ratio * first
        apart = second - guess
        # The diagonal has twice the noise, and two standard deviations of the mean are no difference. They may
        # hide one: that counts where outcomes are rare, for the first then has hardly any noise of its own.
        error = 2 * (variance + noise) / k
        other = max(float((apart**2).mean()) - (1 + 1 / k) * (variance + noise) - 2 * error, 0.0)
        most = other + error * max(1 - 4 * noise / variance, 0.0)
        trust = (noise + other) / (noise + other + variance)
        joined = late.copy()
        joined[:k, :k] = ratio * first + trust * apart
        return joined, 1 / (trust**2 * variance + (1 - trust) ** 2 * (noise + most))

    def _take(self, matrix: np.ndarray, precision: float) -> None:
        """Take an estimate of the curvature, and its spectrum."""
        self._matrix, self._precision = matrix, precision
        renewed = self._spectrum is None or self.n_features <= LARGE or self._last() or precision == 0
        if renewed or precision > 1.1 * self._seen:
            # Above that dimension only when the noise has fallen by 5 %.
            self._seen = precision
            self._spectrum = Spectrum(matrix, self._noise_of(precision))

    @staticmethod
    def _noise_of(precision: float) -> float:
        return 0.0 if precision == 0 else precision**-0.5

    def _known(self) -> Spectrum:
        assert self._spectrum is not None  # made in the first step
        return self._spectrum

    def _last(self) -> bool:
        return self.step + 1 >= self._n_steps

    def _read_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute q(m) given the averages.

        They are the gradient + S (m0 - m) seen with noise, and the prior.
        """
        spectrum, alpha, aware = self._known(), self._alpha, self.options.noise_aware

        def parts(values: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            """Return posterior precision, and the mean's two factors.

            They are factors of the gradient and of the center in the mean.
            """
            curvature = np.asarray(values)
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
            return mean, self._aware_covariance()
        if aware:
            top, bulk = parts(spectrum.likely), parts(spectrum.bulk_likely)
        return mean, spectrum.matrix(1 / top[0], float(1 / bulk[0]))

    def _aware_covariance(self) -> np.ndarray:
        """Posterior covariance with the likely curvature of each column.

        A column of few records has little curvature though the noise could hide more.
        """
        assert self._matrix is not None
        L = self._known().likely_matrix(self._matrix, self._precision**-0.5 * self._ratio)
        # Let c be an eigenvalue of L and noise of variance v + k c in the gradient. The precision is alpha + c^2 / (v +
        # (1 + k) c).
        seen = L * (1 + self._sampling)
        seen.flat[:: self.n_features + 1] += self._variance
        precision = weighted(seen, L)
        precision.flat[:: self.n_features + 1] += self._alpha
        return inverse(precision)

    def _first_center(self, gradient: float, noise_sd: float) -> np.ndarray:
        """Find the center after the first step from the constant's entry."""
        unit = self._n * self._b * self._constant
        return base_rate(self._constant, self.n_features, unit, gradient, noise_sd)

    def _newton(self, gradient: np.ndarray, noise_sd: float) -> np.ndarray:
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
            return 1 / (curvature + alpha + damping / curvature) if curvature > 0 else 1 / alpha

        top = np.array([gain(value) for value in spectrum.upper])
        bulk = gain(spectrum.bulk_upper) if len(spectrum.upper) < self.n_features else 0.0
        change = spectrum.apply(top, bulk, gradient - alpha * self.point)
        size = self._length() * np.abs(change)
        # As far as noise is not what moves it, the columns may share the way.
        signal = max(1 - len(size) * noise_sd**2 / max(float(gradient @ gradient), 1e-300), 0.0)
        most = max(_REACH * math.sqrt(len(size)) * signal, _REACH_OF_ONE)
        reach = max(float(np.linalg.norm(size)) / most, float(size.max()) / _REACH_OF_ONE)
        point: np.ndarray = self.point + change / max(reach, 1.0)
        return point

    def _length(self) -> float:
        """Root mean square length of rows, or their bound if noise hides it."""
        assert self._rows is not None
        total, noise = float(np.trace(self._rows)), math.sqrt(2 * self.n_features * self._variances[0])
        unit = self._rows[-1, -1] / self._constant**2 if self._constant else self._n * self._b / 4
        shown = unit > 5 * noise / self._bound**2
        return min(self._bound, math.sqrt((total + 2 * noise) / unit)) if shown and total > 0 else self._bound

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
        matrices = {
            name: np.empty((0, 0)) if matrix is None else matrix.copy()
            for name, matrix in (("matrix", self._matrix), ("rows", self._rows), ("late", self._late))
        }
        law = np.array([self._variance, self._sampling, self._precision, self._seen, *self._variances, self._counted])
        spectrum = empty if self._spectrum is None or self.n_features <= LARGE else self._spectrum.state()
        return {**super().state(), **matrices, "law": law, "path": self._path.copy(), **spectrum}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        d = self.n_features
        law, spectrum = array_of(state, "law", (7,)), Spectrum.from_state(state, d)
        matrices = {name: array_of(state, name) for name in ("matrix", "rows", "late")}
        for name, matrix in matrices.items():
            if matrix.shape not in ((0, 0), (d, d)):
                raise ValueError(f"state: '{name}' has shape {matrix.shape}, expected ({d}, {d})")
        if (law < 0).any():
            raise ValueError("state: 'law' is out of its range")
        path = array_of(state, "path")
        if path.ndim != 2 or path.shape[1] != 2 * d + 3:
            raise ValueError(f"state: 'path' has shape {path.shape}, expected (steps, {2 * d + 3})")
        super().restore(state)
        self._path = path
        self._variance, self._sampling, self._precision, self._seen = law[:4].tolist()
        self._variances, self._counted = law[4:6].copy(), int(law[6])
        self._matrix, self._rows, self._late = (
            matrix if matrix.size else None for matrix in (matrices[name] for name in ("matrix", "rows", "late"))
        )
        self._spectrum = None
        if self._matrix is not None:
            with one_blas_thread(d):
                self._spectrum = spectrum if d > LARGE else Spectrum(self._matrix, self._noise_of(self._precision))
