"""Fit more than two classes, each against the rest.

A step has one release.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit

from ...engine.model import Release, diagnose, reuse, room
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels import native
from ...kernels.logistic import Lattice, pg_mean, workspace
from ...mechanisms import GaussianMechanism
from ..per_class import PerClassModel
from .model import LogisticModel
from .options import LogisticSettings
from .posterior import calibrating_factor, second_moment
from .score import OutcomePrediction
from .spectrum import LEAST_CURVATURE

#: Draws of records for the mean curvature of a class.
_DRAWS = 1000
#: A class against the rest has no linear log odds. So these widen its intervals: a factor of its covariance, and the
#: error of a coefficient over the length of all. Chosen on two simulated designs of 5,000 to 80,000 records.
_WIDER, _ERROR = 1.2, 0.01


class ClassModel(LogisticModel):
    """The posterior of one class against the rest.

    All classes share its bounds.
    """

    # A record's weight and the common curvature depend on the logits of all classes.
    _reads_by_law = False

    def __init__(self, public: Public, settings: LogisticSettings):
        assert public.classes is not None
        self._n_classes = len(public.classes)
        super().__init__(public, settings)
        #: Curvature of this class over the common one, once the posteriors of all classes tell it.
        self.share: float | None = None

    def _curvature(self, moment: float) -> float:
        return super()._curvature(moment) if self.share is None else self.share

    def _read_out(self, ratio: float) -> tuple[np.ndarray, np.ndarray]:
        mean, covariance = super()._read_out(ratio)
        if self._last() and self.private and self.options.noise_aware and not self._noise_free:
            covariance *= _WIDER
            covariance.flat[:: self.n_features + 1] += _ERROR**2 * float(mean @ mean)
        return mean, covariance

    def records(self, draws: np.ndarray, shrunk: bool = False) -> np.ndarray | None:
        """Draw records of the released law, (n, d).

        ``draws``, (n, d), are standard normal. With ``shrunk`` the second moments are those of the read-out of two
        classes. None before a posterior, without noise, or without a constant, which tells the scale.
        """
        spectrum = self._spectrum
        if spectrum is None or self._matrix is None or not self._constant:
            return None
        if shrunk:
            sd = self._noise_of(self._precision)
            S, _ = second_moment(self._matrix, sd, sd * self._ratio, True, about_means=True)
        else:
            S = spectrum.matrix(spectrum.likely, spectrum.bulk_likely)
        moments = S * (self._constant**2 / max(float(S[-1, -1]), 1e-300))
        mean = moments[-1] / self._constant
        values, vectors = np.linalg.eigh(moments - np.outer(mean, mean))
        return np.asarray(mean + (np.sqrt(np.maximum(values, 0.0)) * draws) @ vectors.T)

    def logits(self, rows: np.ndarray, moments: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Compute this class's logits of records, (n,).

        The posterior's spread is added by standard normal draws.

        ``moments``, (d, d), are the records' second ones.
        """
        spread = math.sqrt(max(float(np.vdot(moments, self._covariance)), 0.0))
        return np.asarray(rows @ self._mean + spread * draws)

    @property
    def n_records(self) -> int:
        """The public number of records."""
        return self._n

    @property
    def finished(self) -> bool:
        """Whether the last step is done."""
        return self.step >= self._n_steps

    @property
    def along(self) -> np.ndarray:
        """Averages for `calibrating_factor`, (d + 2,)."""
        return self._along

    def calibrate(self, factor: float) -> None:
        """Take the factor of logits.

        Its variance is left out: the mean of each class by itself, divided by their sum, would level the classes.
        """
        self._factor = np.array([factor, 0.0])

    def _residual_bound(self) -> float:
        # If all classes are equally likely, a record's residuals with its worst label have a norm of at least sqrt(1 -
        # 1/K). At a residual_clip of 0.5, as with two classes, that is where the weights begin.
        return 2 * self.options.residual_clip * math.sqrt(1 - 1 / self._n_classes)

    def _unit_scales(self, share: float) -> tuple[float, float]:
        linear, quadratic = super()._unit_scales(share)
        return (linear, quadratic) if self.private else (linear * math.sqrt(self._n_classes), quadratic)


class OneVsRestModel(PerClassModel):
    """K classes, each against the rest, released together.

    K gradients and one curvature are clipped and released together.

    Class k has the model of `LogisticModel` for y_k = [y = k], around its own released center m_k. A record's
    contribution is the stack (s1_1/C1, …, s1_K/C1, s2/C2). Here s1_k = (y_k - 1/2 - <xi_k> x . m_k) x, and there is
    **one** s2 = max_k <xi_k> x x^T. No <xi_k> depends on a label, so that s2 is the same whatever y is. The classes
    share it, and it bounds the curvature of each (Newton steps are not longer than a class's own, and stay safe). Its
    noise is 1/sqrt(K) of the noise of K matrices under one clip, and intervals are as narrow as for the sharpest class.

    Notes
    -----
    *Clip.* Let r_k be the residual of class k if the record is not of it, and r_k + 1 if it is. The stack of the linear
    parts has the norm |x| (sum r_k^2 + 1 + 2 r_y)^(1/2). That is at most |x| w with w^2 = sum r_k^2 + 1 + 2 max r_k. A
    record is weighted by t = min(1, L (1 - 2^-20) / (w^2 |x|^2 / C1^2 + max <xi>^2 |x|^4 / C2^2)^(1/2)), all its K + 1
    parts alike. No label enters the weight, so the weighted likelihood is not biased. There is **one** clip, since K
    clips at L would let a record move the sum by sqrt(K) L.

    *Sensitivity.* The stack is one vector: the record's K + 1 parts lie in different coordinates, the last in the
    orthonormal basis of symmetric matrices. In real numbers its norm is at most L (1 - 2^-20). Squares, products and
    roots are computed in float64 with a relative error of at most (d + 2 K + 16) 2^-53 < 2^-36 for d <= 2^15 and K <=
    2^10. The products w_k x_j and f x_j have 2^-53. Truncation toward zero makes no entry larger. So the integers have
    a norm of at most L (1 - 2^-20) (1 + 2^-34) < L. Adding or removing a record therefore moves the exact sum by at
    most L and replacing one by at most 2 L. L and the rounding of the finished triangle, which happens once, are as in
    `LogisticStatistics`, whose proof continues from here. L = clip - sqrt(D) g, and only the D entries of the one
    triangle are rounded. Capacity is the same, as an entry of the integers is bounded as there.

    *Units of several rows.* Rows are weighted as records, and then all by u = min(1, L (1 - 2^-20) / sum of their
    bounds). By the triangle inequality the unit's sum has a norm of at most that, whatever the rows are. (The norm of
    the sum itself is smaller if rows point in different directions. So a person with many rows has less influence than
    the bound allows.)

    *Post-processing.* Probabilities of the classes are divided by their sum.
    """

    capacity = LogisticModel.capacity
    at_root = ("classes",)

    def __init__(self, public: Public, settings: LogisticSettings):
        assert public.classes is not None
        self.classes: list[ClassModel] = [ClassModel(public, settings) for _ in public.classes]
        first = self.classes[0]
        self.n_classes, self.n_features = len(self.classes), first.n_features
        self.clip, self.private = first.clip, first.private
        self.shape = (first.shape[0] + (self.n_classes - 1) * self.n_features,)
        self.step = 0
        self._centers: np.ndarray | None = None
        self._moments: np.ndarray | None = None
        self._of_records = public.unit == "record"

    def sensitivity(self, relation: str) -> float:
        """Return the clip to add or remove, twice that to replace."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        for one in self.classes:
            one.prepare(mechanism, sampler)
        self.lattices = self.classes[0].lattices

    @property
    def lattice(self) -> Lattice:
        """The lattice of this step, common to the classes."""
        return self.lattices[min(self.step, 1)]

    def _set_state(self) -> None:
        """Take the next state from the classes.

        It has step, centers (K, d) and moments (K, d, d), for the next contributions.
        """
        self.step, self._centers, self._moments = self.classes[0].step, None, None
        if self.step:
            self._centers = np.stack([one.point for one in self.classes])
            self._moments = np.stack([one.moment for one in self.classes if one.moment is not None])
            for one, moment in zip(self.classes, self._moments, strict=True):
                one.moment = moment  # not held twice

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; ``block`` is a `vips_fast.kernels.logistic.Rows` or units of them."""
        block, words, starts = unpack_block(block, words)
        n, d, K = block.n_rows, self.n_features, self.n_classes
        *factors, quadratic, norms = parts = room(scratch, "factors", K + 2, n)
        work = reuse(scratch, "workspace", lambda: workspace(d, block.indptr is None))
        indptr, indices, values = block.indptr, block.indices, block.values
        # Without privacy nothing is scaled down, and a unit is the sum of its rows.
        units = starts if self.private else None
        state = units, self._moments, self._centers, *self.lattice, True
        native.logistic_classes(
            d, indptr, indices, values, block.y, *state, work, parts[:K], quadratic, norms, block.unit
        )
        curved = math.isfinite(self.lattice.scale_quadratic)
        for k, linear in enumerate(factors):
            triangle = out[K * d :] if curved and k == K - 1 else None
            sums = out[k * d : (k + 1) * d]
            native.logistic_accumulate(
                d, 0, d, indptr, indices, values, linear, quadratic, work, sums, triangle, block.unit
            )
        diagnose(scratch, clipped=(norms > self.lattice.clip_norm).sum())

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See `LogisticStatistics.round`; the gradients are on the noise's lattice already."""
        split = (self.n_classes - 1) * self.n_features
        sums = np.empty(self.shape, dtype=np.int64)
        sums[:split], sums[split:] = fine[:split], self.classes[0].round(fine[split:], spacing)
        return sums

    def _set_shares(self) -> None:
        """Find each class's curvature over the common one.

        It is p (1 - p) over the largest <xi> of the classes.

        Means are taken over normal records with the moments of the last released matrix: `_DRAWS` fixed draws.
        """
        draws = np.random.default_rng(0).standard_normal((_DRAWS, self.n_features + 1))
        if (rows := self.classes[0].records(draws[:, :-1])) is not None:
            moments = rows.T @ rows / len(rows)
            logits = [one.logits(rows, moments, draws[:, -1]) for one in self.classes]
            common = float(pg_mean(np.stack(logits)).max(axis=0).mean())
            for one, own in zip(self.classes, logits, strict=True):
                one.share = max(LEAST_CURVATURE, float((expit(own) * expit(-own)).mean()) / common)

    def _calibrate(self) -> None:
        """Find the factor of all classes' logits: `calibrating_factor`, for draws of records.

        The last step's centers stand for all. Labels have the predicted probabilities, which add up to 1. Units of
        several rows have no factor, for the releases do not tell how many rows they have.
        """
        along, lattice = np.stack([one.along for one in self.classes]), self.lattice
        rows = self.classes[0].records(np.random.default_rng(0).standard_normal((_DRAWS, self.n_features)), True)
        if rows is None or self._centers is None or self._moments is None or not along[:, 2:].any():
            return
        logits, length = rows @ along[:, 2:].T, np.sqrt((rows * rows).sum(axis=1))
        square = np.stack([((rows @ moment) * rows).sum(axis=1) for moment in self._moments], axis=1)
        xi = pg_mean(np.sqrt(np.maximum(square, 0.0)))
        residual = -0.5 - xi * (rows @ self._centers.T)
        worst = np.sqrt(np.maximum((residual**2).sum(axis=1) + 1 + 2 * residual.max(axis=1), 0.0))
        norms = np.hypot(worst * length / lattice.scale_linear, xi.max(axis=1) * length**2 / lattice.scale_quadratic)
        weight = np.minimum(1.0, lattice.clip_norm / np.maximum(norms, 1e-300))
        n = self.classes[0].n_records

        def expected(factor: float) -> tuple[float, float]:
            p = expit(factor * logits)
            p /= p.sum(axis=1, keepdims=True)
            mean = (p * logits).sum(axis=1)
            spread = weight**2 * ((p * logits**2).sum(axis=1) - mean**2)
            return n * float((weight * (mean + (residual * logits).sum(axis=1))).mean()), n * float(spread.mean())

        factor, _ = calibrating_factor(float(along[:, 0].sum()), float(along[:, 1].sum()), expected, expected(1.0)[1])
        for one in self.classes:
            one.calibrate(factor)

    def update(self, release: Release) -> None:
        """See `Model.update`: each class takes its gradient and the common curvature."""
        d, units = self.n_features, release.units
        if self.classes[0].options.noise_aware:
            self._set_shares()
        for k, one in enumerate(self.classes):
            own = np.concatenate([units[k * d : (k + 1) * d], units[self.n_classes * d :]])
            one.update(Release(release.step, own, release.scale, release.noise_sd))
        if self.classes[0].finished and self._of_records:
            self._calibrate()
        self._set_state()

    @property
    def has_score(self) -> bool:
        """Whether there are base rates to compare with."""
        return self.classes[0].has_score

    def gain_score(self) -> OutcomePrediction:
        first = self.classes[0]
        return OutcomePrediction([one.prediction for one in self.classes], first._bound, 1.0, first._n)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self._set_state()
