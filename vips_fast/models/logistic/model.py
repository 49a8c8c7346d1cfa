"""Logistic regression from noised statistics: settings, contributions with their proof, steps and read-out."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit, logit

from ...checks import check_flag, check_number
from ...engine.gain import OTHERWISE
from ...engine.model import Model, Release, array_of, diagnose, reuse, room
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels import native
from ...kernels.lattice import checked_spacing
from ...kernels.logistic import Lattice, Rows, factor_spacing, triangle_size, unpack_upper, workspace
from ...kernels.threads import one_blas_thread
from ...mechanisms import Fraction, GaussianMechanism, rounded
from ..parameters import Options
from .posterior import (
    FACTORS,
    NODES,
    WEIGHTS,
    Spectrum,
    calibrating_factor,
    cholesky,
    posterior_given,
    second_moment,
    shrink,
)
from .score import NATS, OutcomePrediction, Prediction, nats_bound

#: Share of the squared contribution bound that goes to the linear statistic. The first is of step one, the second of
#: the others, where both are released around a center.
LINEAR_SHARE = (0.3, 0.95)
#: Variance of the noise over that of outcomes, in the gradient's entry of a usual column, which is small: also where an
#: outcome of 2 % has a tenth of the variance that plans assume.
_SMALL = 0.002
#: Mean of p (1 - p) that plans assume; fewest steps of an average; the bound of |s1| over b R if noise is not small.
_SLOPE, _FEWEST, _TIGHT = 0.2, 3, 0.5
#: Share of s1 in the squared bound of later steps if the averaged gradient's noise has at most the second number of the
#: outcomes' variance. Then the noise in s2 is what makes intervals wide and hides which columns go together.
_EVEN_SHARE, _HIDDEN = 0.6, 0.08
#: Largest change of a row's logit by one step of the center, if columns are alike; and by one column alone.
_REACH, _REACH_OF_ONE = 1.2, 3.0
#: Standard deviation of a logit under the prior in a step: that of the read-out's most likely one.
_STEP_LOGITS = 2.0
#: By how much, of what it is for normal rows, the curvature along the logits may differ for others.
_OTHER_LAW = 1.0
#: By how many standard deviations of its noise the curvature's trace differs from the average's where centers are on
#: their way.
_MOVED = 4.0
#: Largest log odds of a base rate, and of any fit: their probabilities are still neither 0 nor 1.
_MOST_ODDS, _ALL_ODDS = 30.0, 36.0
#: Norm of the squares over the bound of a contribution. It makes the noise of s1 and s2 0.5 % larger.
SQUARES = 0.1
#: Share of s1 in the squared bound for units. Over 20 steps s2 has the noise that (0.3, 0.95) would give it.
UNIT_SHARE = 0.92
#: Spread of the ratio of a gradient's variance to the model's, before anything is released; least ratio.
_SPREAD, _LEAST = 1.0, 0.02


@dataclass(frozen=True)
class LogisticOptions(Options):
    """Options of `vips_fast.BayesianLogisticRegression`.

    Parameters
    ----------
    intercept_scaling : float or None
        The constant that is appended to each row for the intercept. It counts in the
        norm: rows are bounded by hypot(row_norm, intercept_scaling). None is 0.3 row_norm, and
        1 with private=False, which has no bound.
    prior_shape, prior_rate : float
        a0 and b0 of alpha's Gamma prior. A spherical q(m) takes their ratio for alpha.
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished regression in place of improving it. Then
        ``found_gain_`` says how much better the columns predict than the base rate does. It costs no epsilon. None
        measures runs of at least 10 steps. Not used without an intercept, or with covariance="spherical", whose rows
        predict mostly themselves.

    Raises ValueError if an option is out of its range.
    """

    intercept_scaling: float | None = None
    prior_shape: float = 0.01
    prior_rate: float = 0.01
    measure_gain: bool | None = None

    def __post_init__(self) -> None:
        check_number("intercept_scaling", self.intercept_scaling, 1e-12, 1e12, optional=True)
        for name in ("prior_shape", "prior_rate"):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        check_flag("measure_gain", self.measure_gain, optional=True)


@dataclass(frozen=True)
class LogisticSettings:
    """Settings that a model takes from its estimator; `BayesianLogisticRegression` has the names."""

    constant: float  #: The entry that is appended to each row for the intercept; 0 without one.
    row_norm: float
    most_trials: float  #: b: 1 of labels, more of counts.
    n_steps: int
    private: bool
    partial: bool  #: Whether the posterior of every step is asked for, as by `partial_fit`.
    options: LogisticOptions


@dataclass
class Law:
    """Variances of the noise in entries (of a matrix off its diagonal), and how many steps tell what."""

    rows: float = 0.0  #: Of the rows' second moment.
    late: float = 0.0  #: Of the average of later s2.
    matrix: float = 0.0  #: Of what both tell of the curvature.
    gradient: float = 0.0  #: Of the averaged gradient.
    count: int = 0  #: Steps whose gradients and centers are averaged.
    unmoved: int = 0  #: Steps since the curvature last moved.


@dataclass
class Along:
    """What `calibrating_factor` needs: averages over the steps of m . g, m and the centers, m being the mean before."""

    agreement: float  #: Of m . g.
    variance: float  #: Of the noise in it.
    mean: np.ndarray
    center: np.ndarray


class LogisticStatistics(Model):
    """The statistics s1 and s2 of records, around a released center.

    With a Polya-Gamma variable xi for each record the model is conjugate. The expected statistics are s1 = (y - b/2 -
    <xi> x . m0) x and s2 = <xi> x x^T (Eqs. 47-50, around the center m0, which is the same model in m - m0). With a
    center s2 is b p (1 - p) x x^T, p = sigmoid(x . m0): the curvature of the likelihood, which is less than its
    bound's. The noise of s2 then multiplies m - m0, not m.

    A contribution is (s1/C1, s2/C2), s2 with its Frobenius norm, scaled down to L2 norm ``clip`` if it is longer.

    Notes
    -----
    *Fine lattice.* s1/C1 is truncated toward zero to multiples of the noise's spacing g. s2/C2 = f f^T is truncated
    through its factor f, toward zero to integers a in units of h (`factor_spacing`). So a contribution is a a^T,
    exactly. Truncation makes no norm larger, and the kernel checks g^2 |q|^2 + (h^2 |a|^2)^2 <= L^2 in integers. An
    entry of a a^T is at most |a|^2 <= L/h^2 < 2^41, so sums of 2^21 records stay below 2^62 (`capacity`). Nothing is
    rounded before they are finished, so they are additive.

    *Curvature.* With a center the joint clip counts s2 with <xi> >= b p (1 - p). Its factor f has b p (1 - p), and the
    integers that the kernel checks are of this f.

    *Units of several rows.* The rows of a unit are weighted as records and then all by one factor u, their a by
    sqrt(u). So the unit's sum, (u s1/C1, u s2/C2) but for truncation, has a norm of at most L. The kernel
    `logistic_units` takes u from the inner products of the unit's rows, with the worst labels if ``label_free``. It
    then checks the truncated integers themselves. Let q and A be the unit's sums of q_r and a_r a_r^T. Then g^2 |q|^2 +
    h^4 |A|^2 <= L^2. Here |A|^2 is the sum of (a_r . a_s)^2 over pairs of rows. Each term is an exact integer, and the
    sum is rounded up. A unit's contribution has all properties of a record's, but A has a rank above 1. Entries of A
    are at most |A|, so the capacity is the same number of units.

    *Rounding.* `round` brings the finished sum of the D = d (d + 1)/2 entries of the triangle to the noise's lattice,
    those off the diagonal times sqrt(2) (rounded down). These are coordinates in the orthonormal basis {E_ii, (E_ij +
    E_ji)/sqrt(2)}, whose Euclidean norm is the Frobenius norm. It is exact, so two sums that differ by x differ by at
    most |x| + 1 in each coordinate afterwards, in units of g. Their distance grows by at most e = sqrt(D) g.

    *The slack is absorbed.* Let t = 1 - e / clip and C1, C2 be divided by t before anything is clipped, at L = t clip.
    Every contribution is t times its size without that, the short ones too. Adding or removing a record moves the sum
    by at most t clip + e = clip. Suppose that without rounding replacing one moved it by at most B. It now moves it by
    at most t B + e = B - e (B/clip - 1), which is at most B because B >= clip. (Clipping at clip - e would leave short
    contributions as they are, and a pair of them would move by up to B + e.)
    """

    #: The arrays of a state, and the attributes that hold them.
    kept: ClassVar[dict[str, str]] = {"weights": "_mean", "covariance": "_covariance", "point": "point"}
    #: Records are scaled down by a weight that does not depend on their own y.
    label_free = True
    #: Coordinates of entries off the diagonal over the entries themselves.
    off_diagonal = math.sqrt(2.0)
    #: Most records whose sums fit int64 on the fine lattice.
    capacity = 2**21
    #: Norm of (s1, s2) over the bound of a contribution; below 1 the rest is for other parts.
    own_part = 1.0
    clip = 1.0
    at_root = ("_mean", "_covariance", "_rows", "_late", "path")

    def __init__(self, public: Public, settings: LogisticSettings):
        self.options, options, constant = settings.options, settings.options, settings.constant
        self._n, self.n_features = public.n_records, public.n_features + (constant > 0)
        self._b, self._n_steps = settings.most_trials, settings.n_steps
        #: The largest factor of x x^T in s2. The first step has it for all rows.
        self._weight = self._b / 4
        self.private, self._constant, self._partial = settings.private, constant, settings.partial
        self._of_records = public.unit == "record"
        self.shape = (self.n_features + triangle_size(self.n_features),)
        if self.private:
            self._bound = math.hypot(settings.row_norm, constant)
        else:
            # Both parts are at most 1 in their units: no record reaches the joint norm.
            self._bound, self.clip = (public.scale or 1.0) * (1 + 1e-12), 1.5
        self._grid = factor_spacing(self.clip)
        self.step = 0
        self._prior = float(options.prior_shape), float(options.prior_rate)
        self._mean, self.point = np.zeros(self.n_features), np.zeros(self.n_features)
        self._covariance = np.zeros((self.n_features, self.n_features))

    @abstractmethod
    def _blocks(self, first: bool) -> tuple[float, float]:
        """Give the bounds of |s1|/C1 and |s2|/C2, in the first step or the others."""

    def _residual_bound(self, first: bool) -> float:
        """Bound |s1| over b R. Beyond that records are scaled down, or it is the most there is."""
        return _TIGHT

    def unit_scales(self, first: bool) -> tuple[float, float]:
        """C1 and C2 of the first step, or of the others."""
        linear, quadratic = self._b * self._bound, self._weight * self._bound**2
        if not self.private:
            return linear, quadratic
        linear_bound, bound = self._blocks(first)
        return self._residual_bound(first) * linear / linear_bound, quadratic / bound

    def sensitivity(self, relation: str) -> float:
        """Return the clip to add or remove, twice that to replace."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def _slack(self, spacing: float) -> float:
        """Bound how far rounding can move two sums apart."""
        return math.sqrt(triangle_size(self.n_features)) * spacing

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take lattice and scale; refuse noise whose lattice is too coarse for the dimension."""
        spacing = checked_spacing(mechanism.spacing, self.clip)
        slack = self._slack(spacing) if self.private else 0.0
        kept = self.clip - slack
        if slack > 0.25 * self.clip or kept < 4 * spacing:
            raise ValueError(
                f"noise_multiplier={mechanism.noise_multiplier:.4g}: too large for {self.n_features} features, the "
                f"rounding of their second moments would take {slack / self.clip:.0%} of a contribution; expected at "
                "most 25 %"
            )
        self._noise_free = mechanism.noise_multiplier == 0
        self._fraction = sampler.expected_batch_size / self._n
        #: Of the first step and of later ones.
        self.lattices = []
        for linear, quadratic in map(self.unit_scales, (True, False)):
            own = self.own_part * kept
            scales = linear * self.clip / own, quadratic * self.clip / own
            self.lattices.append(Lattice(self._bound, self._b, *scales, own, spacing, self._grid))
        unit = self._grid * self._grid / spacing
        self._on, self._off = Fraction.below(unit), Fraction.below(unit * self.off_diagonal)
        #: The factor off the diagonal as it is, a little below sqrt(2), and where the diagonal is.
        self._ratio, i = self._off.value / unit, np.arange(self.n_features)
        self._diagonal = self.n_features + i * (2 * self.n_features - i + 1) // 2

    @property
    def lattice(self) -> Lattice:
        """The lattice of this step."""
        return self.lattices[min(self.step, 1)]

    def _around(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """What <xi> of a record is made of: <m m^T>, (d, d), of q(m) without a center, and m0, (d,); at first None."""
        return None, self.point if self.step else None

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; ``block`` is a `vips_fast.kernels.logistic.Rows` or units of them."""
        block, _, starts = unpack_block(block, words)
        self._add(block, starts, out, scratch)

    def _add(self, block: Rows, starts: np.ndarray | None, out: np.ndarray, scratch: dict[str, Any]) -> np.ndarray:
        """Add the contributions of rows, or of units that begin at ``starts``; return the rows' factors of s1."""
        # Without privacy nothing is scaled down, and a unit is the sum of its rows.
        several = self.private and starts is not None and bool((np.diff(starts) > 1).any())
        n, d = block.n_rows, self.n_features
        linear, quadratic, norms = room(scratch, "weights", 3, n)
        work, lattice = reuse(scratch, "workspace", workspace, d, block.indptr is None), self.lattice
        indptr, indices, values, unit = block.indptr, block.indices, block.values, block.unit
        state = *self._around(), *lattice, self.label_free
        measured = norms if several or "diagnostics" in scratch else None
        native.logistic_weights(
            d, indptr, indices, values, block.y, block.trials, *state, work, linear, quadratic, None, measured, unit
        )
        if several and starts is not None:
            native.logistic_units(starts, d, indptr, indices, values, *state, work, linear, quadratic, norms, unit)
        triangle = out[d : d + triangle_size(d)]
        native.logistic_accumulate(d, 0, d, indptr, indices, values, linear, quadratic, work, out[:d], triangle, unit)
        if "diagnostics" in scratch:
            diagnose(scratch, clipped=(norms > lattice.clip_norm).sum())
        return np.asarray(linear)

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See the class's notes; ``spacing`` is the one of `prepare`."""
        d = self.n_features
        sums = np.empty(len(fine), dtype=np.int64)
        sums[:d] = fine[:d]
        sums[d:] = rounded(fine[d:], self._off)
        sums[self._diagonal] = rounded(fine[self._diagonal], self._on)
        return sums

    def _unpack(self, values: np.ndarray) -> np.ndarray:
        """Unpack s2/C2 as a symmetric matrix from the values of a release."""
        return unpack_upper(values[self.n_features :], self.n_features, 1 / self._ratio)

    def update(self, release: Release) -> None:
        with one_blas_thread(self.n_features):
            self._update(release)

    @abstractmethod
    def _update(self, release: Release) -> None:
        """Compute the next posterior from a release."""

    def _places(self) -> dict[str, tuple[dict[str, Any], str]]:
        """Where the numbers and arrays of a state are, by their names in it."""
        return {name: (vars(self), attribute) for name, attribute in self.kept.items()}

    def state(self) -> dict[str, np.ndarray]:
        arrays = {name: np.array(owner[key], float, ndmin=1) for name, (owner, key) in self._places().items()}
        return {"progress": np.array([self.step, *self._prior]), **arrays}

    def _shape(self, name: str, state: Mapping[str, np.ndarray]) -> tuple[int, ...]:
        """Shape that an array of a state has to have."""
        owner, key = self._places()[name]
        return np.shape(owner[key]) or (1,)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step, shape, rate = array_of(state, "progress", (3,)).tolist()
        if step != int(step) or step < 0 or not (shape > 0 and rate > 0):
            raise ValueError("state: 'progress' is out of its range")
        places = self._places()
        arrays = {name: array_of(state, name, self._shape(name, state)) for name in places}
        self.step, self._prior = int(step), (shape, rate)
        for name, (owner, key) in places.items():
            old, new = owner[key], arrays[name]
            owner[key] = new if isinstance(old, np.ndarray) else type(old)(new[0])

    def result(self) -> dict[str, np.ndarray]:
        """Mean and covariance of q(m), and q(alpha)'s shape and rate."""
        return {"weights": self._mean, "covariance": self._covariance, "prior": np.array(self._prior)}


class LogisticModel(LogisticStatistics):
    """Newton's method from released statistics, and the posterior given them.

    In the first step <xi> is b/4 for all records: s2 is the rows' second moment. Its constant tells the base rate, from
    which the center starts. From then on s1 is the weighted gradient of the log likelihood at the center, and s2 is its
    curvature there, the sum of w b p (1 - p) x x^T. The center moves by Newton steps, cautiously where noise hides the
    curvature. Gradients and centers are averaged over the last steps (`_averages`). So without noise the read-out is
    the maximum a posteriori estimate, whatever the records are, and with noise it solves an equation whose expectation
    is 0 at the true coefficients.
    """

    kept: ClassVar[dict[str, str]] = LogisticStatistics.kept | {
        name: f"_{name}" for name in ("base", "factor", "rows", "late", "matrix")
    }
    #: What s2 was divided by in later steps, for a stack of several.
    stacked: ClassVar[float] = 1.0
    #: Whether releases calibrate logits; and whether the curvature's average begins anew where it has moved.
    _calibrates: ClassVar[bool] = True
    _moves: ClassVar[bool] = True
    #: See `nats_bound`.
    _nats_scale, _most_nats = 1.0, NATS[1]

    def __init__(self, public: Public, settings: LogisticSettings):
        super().__init__(public, settings)
        d = self.n_features
        #: Log odds of the released base rate.
        self._base = np.zeros(1)
        # See `calibrating_factor`. A factor of 0 means no factor; it is of coefficients that have a 1.
        self._along, self._factor = Along(0.0, 0.0, np.zeros(d), np.zeros(d)), np.zeros(2)
        # The rows' second moment, the average of later s2, and what both tell of the curvature; (0, 0) before them.
        self._rows = self._late = self._matrix = np.empty((0, 0))
        self._law = Law()
        #: What each step gave, for averages, a row a step; noise and sampling are variances of the gradient.
        self.path: dict[str, np.ndarray] = {"center": np.empty((0, d)), "gradient": np.empty((0, d))}
        self.path["noise"], self.path["sampling"] = np.empty(0), np.empty(0)
        self._spectrum: Spectrum | None = None
        self.plan(0.0, 1.0)

    def plan(self, noise_sd: float, fraction: float) -> None:
        """Choose bounds and averaging from public numbers.

        ``noise_sd`` is that of an entry of the sum of contributions, and ``fraction`` the share of records in a step.
        """
        self._burn = max(2, self._n_steps // 4)
        self.averaged = max(self._n_steps - self._burn, 1)
        square = max(self._bound**2 - self._constant**2, self._bound**2 / self.n_features)
        outcomes = self._n * self._usual_slope() * square / self.n_features

        def noise() -> float:
            # Variance in the averaged gradient over the outcomes'.
            linear = self.unit_scales(False)[0] if self.private else 0.0
            return ((noise_sd / fraction * linear) ** 2 / outcomes + (1 / fraction - 1)) / self.averaged

        self._quiet = self._even = True
        self._quiet = noise() <= _SMALL
        self._even = noise() <= _HIDDEN
        self.nats = nats_bound(noise_sd, self.clip, self._n, fraction, self._nats_scale, self._most_nats)

    def _blocks(self, first: bool) -> tuple[float, float]:
        share = LINEAR_SHARE[0] if first else _EVEN_SHARE if self._even else LINEAR_SHARE[1]
        return math.sqrt(share), math.sqrt(1 - share)

    def _usual_slope(self) -> float:
        return _SLOPE * self._b

    def _residual_bound(self, first: bool) -> float:
        return 1.0 if self._quiet and not first else _TIGHT

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        self.plan(mechanism.noise_sd, sampler.expected_batch_size / self._n)
        super().prepare(mechanism, sampler)

    def _update(self, release: Release, **more: Any) -> None:
        """See `LogisticStatistics._update`; ``more`` belongs to the path."""
        lattice, values, noise = self.lattice, release.values, release.noise_sd * self._n
        gradient = values[: self.n_features] * (self._n * lattice.scale_linear)
        noise_sd = noise * lattice.scale_linear
        if self.step > 0:
            self._follow(gradient, noise_sd)
        own = {"center": self.point, "gradient": gradient, "noise": noise_sd**2, "sampling": 1 / self._fraction - 1}
        for name, value in (own | more).items():
            self.path[name] = np.append(self.path[name], [value], axis=0)
        scale = lattice.scale_quadratic * (self.stacked if self.step else 1.0)
        self._average(self._unpack(values) * (self._n * scale), noise * scale / self._ratio)
        self._spectrum = spectrum = self._spectrum or Spectrum(self._matrix, math.sqrt(self._law.matrix))
        mean = self._averages()
        # Of the gradient + S (m0 - m), seen with noise. The curvature is the largest that there could be: too large a
        # step is worse than too small a one.
        alpha = (self._length / _STEP_LOGITS) ** 2
        pull = mean["gradient"] + spectrum.times(mean["center"])
        self._mean = spectrum.solve(pull, alpha, mean["noise"], mean["sampling"])
        point = self._newton(gradient, noise_sd, spectrum, alpha)
        if self.finishes:
            self._read_out(mean)
        self.step, self.point = self.step + 1, point

    @property
    def finishes(self) -> bool:
        """Whether this step's posterior is published."""
        return self._partial or self.step + 1 >= self._n_steps

    # ---- averages over the steps

    def _average(self, fresh: np.ndarray, sd: float) -> None:
        """Average the later s2, and join them with the first to an estimate of the curvature.

        Far from the result the curvature is another one. If the new one's trace is clear of the average's, this begins
        anew: with earlier ones in it, steps would be too short, and so would the read-out's way from the centers.
        (Beside columns that nearly measure one thing twice as many effects are known by that.)
        """
        if not self._rows.size:
            self._rows = self._matrix = fresh
            self._law.rows = self._law.matrix = sd**2
            self._spectrum = None
            return
        rate, exact = 1.0, self._noise_free and self._fraction == 1  # neither noise nor sampling moves a step
        moved = not self._late.size or exact
        variance = self._law.late
        if not moved and self._moves and self._fraction == 1:
            noise = math.sqrt(2 * len(fresh) * (sd**2 + variance))
            moved = abs(float(np.trace(fresh) - np.trace(self._late))) > _MOVED * noise
        self._law.unmoved = 1 if moved else self._law.unmoved + 1
        if not moved:
            rate = max(2 / (self.step + 1), variance / max(variance + sd**2, 1e-300))
        self._late = self._late + rate * (fresh - self._late) if self._late.size else fresh
        self._law.late = (1 - rate) ** 2 * variance + (rate * sd) ** 2
        # An average of many changes little: its eigenvalues are found anew when it has twice as many.
        if self.step < 4 or self.step & (self.step - 1) == 0 or moved or self.finishes:
            self._matrix, self._law.matrix = self._joined() if sd > 0 else (self._late, 0.0)
            self._spectrum = None

    def _joined(self) -> tuple[np.ndarray, float]:
        """Join the first s2 and the later ones to an estimate of the curvature; give the variance of an entry, too.

        With a common factor r, r times the first is the curvature but for an unknown error of variance t. Where
        outcomes are rare it has far less noise. Both are averaged by their precision, t by the moments of their
        difference. The constant's entries, which are far larger than noise and others, are the later ones' own.
        """
        k = self.n_features - 1 if self._constant and self.n_features > 1 else self.n_features
        before, after = float(np.trace(self._rows)), float(np.trace(self._late))
        least = float(expit(self._base[0]) * expit(-self._base[0]))
        # A trace that noise brought to 0 or less tells nothing.
        ratio = min(max(after / before, least), 1.0) if before > 0 else 1.0
        noise, variance = ratio**2 * self._law.rows, self._law.late
        apart = self._late[:k, :k] - ratio * self._rows[:k, :k]
        # The diagonal has twice the noise, and two standard deviations of the mean are no difference. They may hide
        # one: that counts where outcomes are rare, for the first then has hardly any noise of its own.
        error = 2 * (variance + noise) / k
        other = max(float((apart**2).mean()) - (1 + 1 / k) * (variance + noise) - 2 * error, 0.0)
        most = other + error * max(1 - 4 * noise / variance, 0.0)
        trust = (noise + other) / (noise + other + variance)
        joined = self._late.copy()
        joined[:k, :k] -= (1 - trust) * apart
        return joined, trust**2 * variance + (1 - trust) ** 2 * (noise + most)

    def _averages(self) -> dict[str, Any]:
        """Average the steps after the first quarter: those since the curvature last moved, or half if that is more.

        Variances are those of the averages.
        """
        count = max(len(self.path["noise"]) - self._burn, 1)
        count = min(count, max(math.ceil(count / 2), self._law.unmoved, _FEWEST))
        # Added one after the other, so that the bits do not depend on how an array is divided.
        mean = {name: each[-count:].cumsum(axis=0)[-1] / count for name, each in self.path.items()}
        for name in ("noise", "sampling"):
            mean[name] /= count
        self._law.gradient, self._law.count = float(mean["noise"]), count
        return mean

    def _second_moment_of_rows(self) -> np.ndarray:
        """Estimate the mean of x x^T, (d, d), from the first release."""
        sd = math.sqrt(self._law.rows)
        rows, _ = second_moment(self._rows, sd, sd * self._ratio, self._constant > 0)
        if self._constant and rows[-1, -1] <= 0:
            return rows  # not a record
        return rows * (self._constant**2 / rows[-1, -1] if self._constant else 1 / (self._weight * self._n))

    # ---- the next center

    def _newton(self, gradient: np.ndarray, noise_sd: float, spectrum: Spectrum, alpha: float) -> np.ndarray:
        """Compute the next center: one Newton step, damped where the noise of one release says less than the prior."""
        if self.step == 0 and self._constant:
            start = self._first_center(gradient[-1], noise_sd)
            self._base = start[-1:] * self._constant
            return start
        change = spectrum.solve(gradient - alpha * self.point, alpha, noise_sd**2)
        size = self._length * np.abs(change)
        # As far as noise is not what moves it, the columns may share the way.
        signal = max(1 - len(size) * noise_sd**2 / max(float(gradient @ gradient), 1e-300), 0.0)
        most = max(_REACH * math.sqrt(len(size)) * signal, _REACH_OF_ONE)
        reach = max(math.sqrt(float(size @ size)) / most, float(size.max()) / _REACH_OF_ONE)
        return np.asarray(self.point + change / max(reach, 1.0))

    def _first_center(self, gradient: float, noise_sd: float) -> np.ndarray:
        """Find the center after the first step from the constant's entry."""
        unit = self._n * self._b * self._constant * self._rows_of_unit()
        return base_rate(self._constant, self.n_features, unit, gradient, noise_sd)

    def _rows_of_unit(self) -> float:
        """Rows over the stated units: 1, unless the first curvature shows other constants, or more squares."""
        one = self._n * self._weight * self._constant**2
        found, sd = float(self._rows[-1, -1]) / one, math.sqrt(2 * self._law.rows) / one
        found = max(found, float(np.trace(self._rows)) / (self._n * self._weight * self._bound**2))
        return max(found, 0.01) if abs(found - 1) > OTHERWISE * sd + 1e-3 else 1.0

    @cached_property
    def _length(self) -> float:
        """Root mean square length of rows, or their bound if noise hides it."""
        total, noise = float(np.trace(self._rows)), math.sqrt(2 * self.n_features * self._law.rows)
        unit = self._rows[-1, -1] / self._constant**2 if self._constant else self._n * self._weight
        shown = unit > 5 * noise / self._bound**2 and total > 0
        return float(min(self._bound, math.sqrt((total + 2 * noise) / unit)) if shown else self._bound)

    # ---- the read-out

    def _follow(self, gradient: np.ndarray, noise_sd: float) -> None:
        """Add a step to the averages of `calibrating_factor`."""
        if self._calibrates and noise_sd > 0:
            rate, mean, along = 3 / (self.step + 2), self._mean, self._along
            along.agreement += rate * (float(mean @ gradient) - along.agreement)
            along.variance = (1 - rate) ** 2 * along.variance + rate**2 * noise_sd**2 * float(mean @ mean)
            along.mean = along.mean + rate * (mean - along.mean)
            along.center = along.center + rate * (self.point - along.center)

    def _read_out(self, average: Any) -> None:
        """Set q(m) and alpha from the laws of noise and outcomes, and the factor of logits; see `_averages`."""
        sd = math.sqrt(self._law.matrix)
        H, hidden = second_moment(self._matrix, sd, sd * self._ratio, self._constant > 0)
        rows = self._second_moment_of_rows()
        H, doubt = self._along_logits(H, rows, average["center"])
        labels, length = self._labels(H, average) + average["sampling"] * H, math.sqrt(float(np.trace(rows)))
        m, agreement = self._along.mean, self._along.agreement
        if m.any():
            curved = m @ H
            seen, variance = agreement - curved @ (m - self._along.center), self._along.variance + m @ labels @ m
            self._factor = calibrating_factor(float(seen), float(variance), float(curved @ m) * (FACTORS - 1))
        prior, center = (float(self.options.prior_shape), float(self.options.prior_rate)), average["center"]
        gradient = average["gradient"], average["noise"], labels
        self._mean, self._covariance, alpha = posterior_given(
            *gradient, H, hidden, doubt, center, self._mean, length, prior
        )
        self._prior = prior[0], prior[0] / alpha
        if self._constant and self.step > 0:
            # A score compares with the base rate as all steps tell it, by normal logits. Of a rare outcome the first
            # step alone tells a rate that noise may have made, beside which a model without effects would look useful.
            found = self._log_odds(self._normal_logits(rows))
            self._base = self._base if math.isnan(found) else np.clip([found], -_MOST_ODDS, _MOST_ODDS)

    def _along_logits(self, H: np.ndarray, rows: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Correct the curvature along the direction that logits spread in, and tell how uncertain that is.

        Rows that have little curvature are the ones with large logits. So along u, the covariance of rows and logits,
        the curvature is less than elsewhere: an error that noise hides in single entries, and which scales all effects
        alike. Normal rows tell by how much, and the release as far as noise lets it. The second result is u, as long
        as the standard deviation of u . H u.
        """
        k = self.n_features - (self._constant > 0)
        middle = rows[:k, -1] / self._constant if k < len(rows) else np.zeros(k)
        u = (rows[:k, :k] - np.outer(middle, middle)) @ mean[:k]
        spread = float(mean[:k] @ u)
        if not self._calibrates or spread <= 0 or not self._late.size or self._law.late == 0:
            return H, np.zeros(len(H))
        center = float(middle @ mean[:k]) + (self._constant * float(mean[-1]) if k < len(rows) else 0.0)
        logits = center + math.sqrt(spread) * NODES
        slope = expit(logits) * expit(-logits)
        share = float(WEIGHTS @ (slope * NODES**2)) / max(float(WEIGHTS @ slope), 1e-300)
        u = np.append(u / np.linalg.norm(u), np.zeros(len(H) - k))
        now, seen, noise = float(u @ H @ u), float(u @ self._late @ u), 2 * self._law.late
        guess, error = share * now, max((_OTHER_LAW * (1 - share) * now) ** 2, 1e-12 * now**2)
        found = (guess / error + seen / noise) / (1 / error + 1 / noise)
        # A fall below the first bound would leave a matrix that is not positive definite.
        found = min(max(found, now - 0.9 / max(float(u @ linalg.lapack.dpotrs(cholesky(H), u)[0]), 1e-300)), 2 * now)
        return H + (found - now) * np.outer(u, u), u * (1 / error + 1 / noise) ** -0.25

    def _labels(self, expected: np.ndarray, average: Any) -> np.ndarray:
        """Correct the outcomes' expected variance, (d, d), by the releases."""
        return expected

    def _normal_logits(self, rows: np.ndarray) -> np.ndarray:
        """Compute the logits at `NODES` of normal rows that have this second moment."""
        mean = self._mean
        center = float(rows[-1] @ mean) / self._constant
        return np.asarray(center + math.sqrt(max(float(mean @ rows @ mean) - center**2, 0.0)) * NODES)

    def _log_odds(self, logits: np.ndarray) -> float:
        """Log odds of the mean probability of logits at `NODES`."""
        return float(logit(WEIGHTS @ expit(logits)))

    @property
    def has_score(self) -> bool:
        """Whether there is a base rate to compare with."""
        return self._constant > 0

    def gain_score(self) -> OutcomePrediction:
        return OutcomePrediction([self.prediction], self._bound, self._n, self.nats)

    @property
    def _optimism(self) -> float:
        return max(self.n_features - self._prior[0] / self._prior[1] * float(np.trace(self._covariance)), 0.0)

    @property
    def prediction(self) -> Prediction:
        """The finished prediction, for a score."""
        optimism = self._optimism
        factor, variance = self._factor.tolist()
        if factor == 0:
            return Prediction(self._mean, cholesky(self._covariance).T, optimism, float(self._base[0]))
        spread = math.sqrt(variance) * self._mean[:, None]
        return Prediction(factor * self._mean, spread, factor * optimism, float(self._base[0]))

    def _places(self) -> dict[str, tuple[dict[str, Any], str]]:
        parts = {"law": vars(self._law), "along": vars(self._along), "path": self.path}
        return super()._places() | {f"{part}.{name}": (own, name) for part, own in parts.items() for name in own}

    def _shape(self, name: str, state: Mapping[str, np.ndarray]) -> tuple[int, ...]:
        if name in ("rows", "late", "matrix"):
            return (self.n_features, self.n_features) if array_of(state, name).size else (0, 0)
        if name.startswith("path."):
            return len(array_of(state, "path.noise")), *super()._shape(name, state)[1:]
        return super()._shape(name, state)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        if min(float(array_of(state, f"law.{name}", (1,))[0]) for name in vars(self._law)) < 0:
            raise ValueError("state: 'law' is out of its range")
        if np.abs(array_of(state, "base", (1,))).max() > _ALL_ODDS:
            raise ValueError("state: 'base' is out of its range")
        super().restore(state)
        self._spectrum = None
        vars(self).pop("_length", None)


class SandwichModel(LogisticModel):
    """`LogisticModel` with released variances of units' gradients.

    The model knows the variance J of the sum of the rows' gradients if rows are independent and their outcomes have the
    stated law. Rows of one person are often alike, and counts more spread than stated. So each release has d more
    numbers: s3_j, the sum of squares of the units' gradients in column j. At read-out sqrt(s3_j / J_jj) scales row and
    column j of J. It is the "sandwich" of Huber (1967), by units (Liang & Zeger 1986). It has the model's correlations.
    Ratios that the noise hides are shrunk toward a common one, and this toward 1.

    Notes
    -----
    *Sensitivity.* Let L be the bound of `LogisticStatistics` on a contribution, so that with it neighbors are at most
    clip (or 2 clip) apart after rounding. Here (s1, s2) is clipped at L' = sqrt(1 - c^2) L, c = `SQUARES`, by the same
    proof. A unit's integers q, the sum of its rows' s1 in units of g, keep g |q| <= L' < L. Its third part has the
    entries t_j = trunc(c g q_j^2 / L (1 - 2^-40)) in units of g, which are >= 0. Products have relative errors below
    2^-48, so g t_j <= c (g q_j)^2 / L. The norm of a vector is at most the sum of its absolute entries: g |t| <= c g^2
    |q|^2 / L <= c L. The parts lie in different coordinates, and L'^2 + (c L)^2 = L^2. So a contribution has a norm of
    at most L, and the rest of the proof holds. Only s2 is rounded, and s3 is on the noise's lattice already.

    *Capacity.* t_j is at most L / g, as other entries of s1.
    """

    own_part = math.sqrt(1 - SQUARES**2)
    # The curvature of counts follows each noised center, and few steps would leave the squares to noise.
    _moves = False
    kept: ClassVar[dict[str, str]] = LogisticModel.kept | {n: f"_{n}" for n in ("squares", "squares_noise", "alike")}

    def __init__(self, public: Public, settings: LogisticSettings):
        super().__init__(public, settings)
        self._split = self.shape[0]
        self.shape = (self._split + self.n_features,)
        # The averages at read-out, and the variance of their noise; and the share of the optimism that units leave.
        self._squares, self._squares_noise, self._alike = np.zeros(self.n_features), np.zeros(1), np.ones(1)
        self.path["squares"], self.path["squares_noise"] = np.empty((0, self.n_features)), np.empty(0)

    def _blocks(self, first: bool) -> tuple[float, float]:
        # Equal ones scale a unit's rows down alike in all steps, so that S is a sum of one kind of terms.
        units = math.sqrt(UNIT_SHARE), math.sqrt(1 - UNIT_SHARE)
        return super()._blocks(first) if self._of_records else units

    def _add(self, block: Rows, starts: np.ndarray | None, out: np.ndarray, scratch: dict[str, Any]) -> np.ndarray:
        linear = super()._add(block, starts, out[: self._split], scratch)
        out[self._split :] += unit_squares(block, starts, linear, self.lattice)
        return linear

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See `LogisticStatistics.round`; the squares are on the noise's lattice already."""
        squares = fine[self._split :].astype(np.int64)
        return np.concatenate([super().round(fine[: self._split], spacing), squares])

    def _update(self, release: Release, **more: Any) -> None:
        unit = self._n * self.lattice.scale_linear**2 * self.lattice.clip_norm / (self.own_part * SQUARES)
        own = {"squares": release.values[self._split :] * unit, "squares_noise": (release.noise_sd * unit) ** 2}
        super()._update(Release(release.step, release.units[: self._split], release.scale, release.noise_sd), **own)

    def _labels(self, expected: np.ndarray, average: Any) -> np.ndarray:
        self._squares, self._squares_noise = average["squares"], average["squares_noise"].reshape(1) / self._law.count
        own = np.where((own := np.diag(expected)) > 0, own, 1.0)  # 0 of a column that no record has
        ratio, noise = self._squares / own, self._squares_noise / own**2
        if noise.any():
            # One more ratio, 1 with the standard deviation _SPREAD, stands for earlier knowledge.
            ratio = shrink(np.append(ratio, 1.0), np.append(noise, _SPREAD**2), common=True)[0][:-1]
        ratio = np.maximum(ratio, _LEAST)
        if self._constant and not self._of_records:
            self._alike = np.minimum(ratio.mean(keepdims=True) / self._rows_of_unit(), 1.0)
        root = np.sqrt(ratio)
        return np.asarray(expected * np.outer(root, root))

    @property
    def _optimism(self) -> float:
        return super()._optimism * float(self._alike[0])


def unit_sums(block: Rows, starts: np.ndarray | None, linear: np.ndarray) -> Any:
    """Sum the truncated s1 of units, int64, (units, d), dense or CSR.

    Units begin at ``starts``, (units + 1,); None is of a unit for each row.
    """
    d = block.n_features
    if block.indptr is None:
        # A row that is not finite has the weight 0.
        rows = np.where(linear[:, None] == 0, 0.0, block.values.reshape(-1, d))
        entries = (linear[:, None] * rows).astype(np.int64)
        if starts is None:
            return entries
        sums, several = np.zeros((len(starts) - 1, d), np.int64), np.diff(starts) > 0
        if several.any():
            sums[several] = np.add.reduceat(entries, starts[:-1][several], axis=0)
        return sums
    rows = np.repeat(linear, np.diff(block.indptr))
    entries = (rows if block.unit else rows * np.where(rows == 0, 0.0, block.values)).astype(np.int64)
    ends = block.indptr if starts is None else block.indptr[starts]
    sums = sparse.csr_array((entries, block.indices, ends), shape=(len(ends) - 1, d))
    sums.sum_duplicates()
    return sums


def unit_squares(block: Rows, starts: np.ndarray | None, linear: np.ndarray, lattice: Lattice) -> np.ndarray:
    """Sum the squares of `unit_sums` by column, (d,); see `SandwichModel`."""
    factor = SQUARES * lattice.spacing / (lattice.clip_norm / SandwichModel.own_part) * (1 - 2**-40)
    squares = (unit_sums(block, starts, linear).astype(np.float64) ** 2 * factor).astype(np.int64)
    return np.asarray(squares.sum(axis=0)).reshape(-1)


def base_rate(constant: float, d: int, unit: float, gradient: float, noise_sd: float) -> np.ndarray:
    """Find the first center, (d,), from the share of successes.

    Only the constant has a weight. ``gradient`` is the constant's entry of the first gradient, sum (y - b/2) x, which
    is ``unit`` / 2 if all trials succeed. ``noise_sd`` is its noise. The noise hides directions where later steps are
    too short to correct an error. A start from there keeps the part that all records have in common out of them.
    """
    least = min(0.5, max(3 * noise_sd / unit, 1e-3))
    share = min(max(0.5 + gradient / unit, least), 1 - least)
    point = np.zeros(d)
    point[-1] = math.log(share / (1 - share)) / constant
    return point
