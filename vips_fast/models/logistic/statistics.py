"""The released statistics of logistic regression: settings, contributions, their bounds and their lattices."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...checks import check_flag, check_number
from ...engine.lattice import Fraction, rounded
from ...engine.model import Model, Release, array_of, diagnose, reuse, room
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels import native
from ...kernels.lattice import checked_spacing
from ...kernels.logistic import Lattice, Rows, factor_spacing, triangle_size, unpack_upper, workspace
from ...kernels.threads import one_blas_thread
from ...mechanisms import GaussianMechanism
from ..parameters import Options

#: Share of the squared contribution bound that goes to the linear statistic. The first is of step one, the second of
#: the others, where both are released around a center.
LINEAR_SHARE = (0.3, 0.95)


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
    linear_share : float, pair of float, or None
        How the noise is split. It is the share of the squared bound of a contribution that s1 may use, in the first
        step and in the others (or in all). The noise of s1 has a standard deviation in proportion to share^-1/2, the
        noise of s2 to (1 - share)^-1/2. None is (0.3, 0.95), or (0.3, 0.6) if public numbers say that the noise of s1
        is small. A spherical q(m) has no s2.
    residual_clip : float or None
        A record's s1 is bounded by residual_clip * b * row norm. (The largest that can be is 1.) A weight that does not
        depend on its y does that. At 0.5 and less the weight is in proportion to 1/max(p, 1 - p), p the released
        model's probability for the record. None is 0.5, or 1, so that no record has a weight, if public numbers (of
        records and columns, row_norm, the noise) say that the noise of s1 is small.
    noise_aware : bool
        True makes the posterior of m given the noised statistics. False takes the statistics as if they had no noise
        (Eq. 54), but for eigenvalues that the noise can hide. Not used with covariance="spherical".
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
    linear_share: float | Sequence[float] | None = None
    residual_clip: float | None = None
    noise_aware: bool = True
    measure_gain: bool | None = None

    def __post_init__(self) -> None:
        check_number("intercept_scaling", self.intercept_scaling, 1e-12, 1e12, optional=True)
        for name in ("prior_shape", "prior_rate"):
            check_number(name, getattr(self, name), 0, 1e12, low_open=True)
        check_number("residual_clip", self.residual_clip, 0, 1, low_open=True, optional=True)
        check_flag("noise_aware", self.noise_aware)
        if self.measure_gain is not None:
            check_flag("measure_gain", self.measure_gain)
        _ = self.shares  # reading them checks them

    def _default_share(self) -> float | Sequence[float]:
        return LINEAR_SHARE

    @property
    def shares(self) -> tuple[float, float]:
        """The linear statistic's share in the first step and in the others."""
        share = self._default_share() if self.linear_share is None else self.linear_share
        pair = tuple(share) if isinstance(share, (tuple, list)) else (share, share)
        if len(pair) != 2:
            raise ValueError(f"linear_share={share!r}: expected a number or a pair")
        first = check_number("linear_share", pair[0], 0, 1, low_open=True, high_open=True)
        return first, check_number("linear_share", pair[1], 0, 1, low_open=True)


@dataclass(frozen=True)
class LogisticSettings:
    """Settings that a model takes from its estimator; `BayesianLogisticRegression` has the names."""

    constant: float  #: The entry that is appended to each row for the intercept; 0 without one.
    row_norm: float
    n_trials: float
    n_steps: int
    private: bool
    options: LogisticOptions


class LogisticStatistics(Model):
    """The statistics s1 and s2 of records, around a released center.

    s1 = (y - b/2 - <xi> x . m0) x, s2 = <xi> x x^T, and m0 is the center. With a center s2 is b p (1 - p) x x^T, p =
    sigmoid(x . m0): the curvature of the likelihood, which is less than its bound's.

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
    at_root = ("_mean", "_covariance", "_gradient", "_at", "_matrix", "_rows", "_late", "_spectrum")

    def __init__(self, public: Public, settings: LogisticSettings):
        self.options, options, constant = settings.options, settings.options, settings.constant
        self._n, self.n_features = public.n_records, public.n_features + (constant > 0)
        self._b, self._n_steps = settings.n_trials, settings.n_steps
        self.private, self._constant = settings.private, constant
        self._of_records = public.unit == "record"
        self.shape = (self.n_features + triangle_size(self.n_features),)
        if self.private:
            self._bound, self.clip = math.hypot(settings.row_norm, constant), self._private_clip()
        else:
            # Both parts are at most 1 in their units: no record reaches the joint norm.
            self._bound, self.clip = (public.scale or 1.0) * (1 + 1e-12), 1.5
        self._grid = factor_spacing(self.clip)
        self.step = 0
        self._prior = float(options.prior_shape), float(options.prior_rate)
        self._mean, self.point = np.zeros(self.n_features), np.zeros(self.n_features)
        self._covariance = np.zeros((self.n_features, self.n_features))
        #: <m m^T> of q(m) around the center, (d, d); None if m is the center, or 0 before the first step.
        self.moment: np.ndarray | None = None

    def _private_clip(self) -> float:
        return 1.0

    @property
    def _shares(self) -> tuple[float, float]:
        """Give s1's shares of the squared bound: first step, others."""
        return self.options.shares

    def _block_bounds(self, share: float) -> tuple[float, float]:
        """Bound |s1|/C1 and |s2|/C2, by the linear statistic's share.

        The share is of the squared bound.
        """
        return math.sqrt(share), math.sqrt(1 - share)

    def _residual_bound(self, first: bool) -> float:
        """Bound |s1| over b R.

        Beyond that records are scaled down, or it is the most there is.
        """
        return 0.5 if self.options.residual_clip is None else self.options.residual_clip

    def unit_scales(self, first: bool) -> tuple[float, float]:
        """C1 and C2 of the first step, or of the others; an infinite one leaves its part out."""
        share = self._shares[0 if first else 1]
        linear, quadratic = self._b * self._bound, self._b * self._bound**2 / 4
        if not self.private:
            return linear, quadratic
        linear_bound, bound = self._block_bounds(share)
        return self._residual_bound(first) * linear / linear_bound, quadratic / bound if bound > 0 else math.inf

    def sensitivity(self, relation: str) -> float:
        """Return the clip to add or remove, twice that to replace."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def _slack(self, spacing: float) -> float:
        """Bound how far rounding can move two sums apart."""
        return math.sqrt(triangle_size(self.n_features)) * spacing

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take lattice and scale; refuse noise that is too coarse.

        Its lattice would be too coarse for the dimension.
        """
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
        #: The factor off the diagonal as it is, a little below sqrt(2).
        self._ratio = self._off.value / unit

    @property
    def lattice(self) -> Lattice:
        """The lattice of this step."""
        return self.lattices[min(self.step, 1)]

    def center(self) -> np.ndarray | None:
        """m0 of this step, (d,); None before the first."""
        return self.point if self.step else None

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
        work, lattice = reuse(scratch, "workspace", lambda: workspace(d, block.indptr is None)), self.lattice
        indptr, indices, values, unit = block.indptr, block.indices, block.values, block.unit
        state = self.moment, self.center(), *lattice, self.label_free
        measured = norms if several or "diagnostics" in scratch else None
        native.logistic_weights(
            d, indptr, indices, values, block.y, block.trials, *state, work, linear, quadratic, None, measured, unit
        )
        if several and starts is not None:
            native.logistic_units(starts, d, indptr, indices, values, *state, work, linear, quadratic, norms, unit)
        triangle = out[d : d + triangle_size(d)] if math.isfinite(lattice.scale_quadratic) else None
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
        i = np.arange(d)
        diagonal = d + i * (2 * d - i + 1) // 2
        sums[diagonal] = rounded(fine[diagonal], self._on)
        return sums

    def _unpack(self, values: np.ndarray) -> np.ndarray:
        """Unpack s2/C2 as a symmetric matrix from the values of a release."""
        return unpack_upper(values[self.n_features :], self.n_features, 1 / self._ratio)

    @property
    def _alpha(self) -> float:
        """<alpha>, the expected precision of the coefficients."""
        return self._prior[0] / self._prior[1]

    def _set_posterior(self, mean: np.ndarray, covariance: np.ndarray, point: np.ndarray) -> None:
        """Set q(m), q(alpha) and the next E-step's center.

        q(m) = N(mean, covariance), and q(alpha) follows by Eq. 53.
        """
        options = self.options
        self._mean, self._covariance = np.ascontiguousarray(mean), np.ascontiguousarray(covariance)
        rate = options.prior_rate + 0.5 * (mean @ mean + np.trace(self._covariance))
        self._prior = options.prior_shape + self.n_features / 2, float(rate)
        self.step += 1
        self._set_point(point)

    def _set_point(self, point: np.ndarray) -> None:
        self.point = point
        self.moment = self._covariance + np.outer(point, point) if self.step else None

    def update(self, release: Release) -> None:
        with one_blas_thread(self.n_features):
            self._update(release)

    @abstractmethod
    def _update(self, release: Release) -> None:
        """Compute the next posterior from a release."""

    def state(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, attribute).copy() for name, attribute in self.kept.items()}
        return {"progress": np.array([self.step, *self._prior]), **arrays}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step, shape, rate = array_of(state, "progress", (3,)).tolist()
        if step != int(step) or step < 0 or not (shape > 0 and rate > 0):
            raise ValueError("state: 'progress' is out of its range")
        arrays = {a: array_of(state, name, getattr(self, a).shape) for name, a in self.kept.items()}
        self.step, self._prior = int(step), (shape, rate)
        vars(self).update(arrays)
        self._set_point(self.point)

    def result(self) -> dict[str, np.ndarray]:
        """Mean and covariance of q(m), and q(alpha)'s shape and rate."""
        return {"weights": self._mean, "covariance": self._covariance, "prior": np.array(self._prior)}


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
