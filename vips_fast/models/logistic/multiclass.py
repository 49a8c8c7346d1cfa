"""Regression of more than two classes, each against the rest, with one release a step."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import expit, log_expit

from ...engine.gain import Score
from ...engine.model import Release, diagnose, reuse, room
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels import native
from ...kernels.logistic import Lattice, Rows, pg_mean, triangle_size, workspace
from ...mechanisms import GaussianMechanism
from ..per_class import PerClassModel
from .model import LogisticModel, LogisticSettings, SandwichModel, unit_squares
from .posterior import FACTORS, cholesky, class_probabilities, factor_of_gain
from .records import row_products
from .score import NATS, OutcomePrediction, Prediction

#: The factor of logits whose gain is measured, over (K - 1)/K: noise makes a cautious mean too short.
_USUAL = 1.25
#: Draws of records for the gain that a factor leads to.
_DRAWS = 1000

#: Frobenius norm of the K curvatures p_k (1 - p_k) of a record over its largest <xi>: 1.65 at most if its
#: probabilities add up to 1. A record beyond it is scaled down to it.
STACKED = 1.7


class ClassModel(LogisticModel):
    """The posterior of one class against the rest. All classes share its bounds."""

    stacked = STACKED

    def __init__(self, public: Public, settings: LogisticSettings):
        assert public.classes is not None
        self._n_classes = len(public.classes)
        self._nats_scale = math.sqrt(math.log2(self._n_classes))
        super().__init__(public, settings)
        #: The factor of all logits, the base rate's log odds from the first step, and the share of the optimism that is
        #: left with the factor, 0 before it was found.
        self._factor = np.zeros(3)

    def _residual_bound(self, first: bool) -> float:
        # The norm of a record's residuals where all classes are equally likely: weights begin there, as with two.
        return 2 * super()._residual_bound(first) * math.sqrt(1 - 1 / self._n_classes)

    def unit_scales(self, first: bool) -> tuple[float, float]:
        linear, quadratic = super().unit_scales(first)
        return (linear, quadratic) if self.private else (linear * math.sqrt(self._n_classes), quadratic)

    def _slack(self, spacing: float) -> float:
        return math.sqrt(self._n_classes) * super()._slack(spacing)

    def _follow(self, gradient: np.ndarray, noise_sd: float) -> None:
        """Follow nothing: all classes have one factor, which the measured gain tells."""

    def first_base(self) -> float:
        """Log odds of the base rate that the first step released."""
        return float(self.path["center"][1, -1] * self._constant if len(self.path["center"]) > 1 else self._base[0])

    @property
    def prediction(self) -> Prediction:
        factor, base, share = self._factor.tolist()
        optimism, offset = (share or 1.0) * factor * self._optimism, float(log_expit(base)) - factor * base
        return Prediction(factor * self._mean, np.empty((self.n_features, 0)), optimism, float(self._base[0]), offset)


class PersonsClassModel(ClassModel, SandwichModel):
    """`ClassModel` with the squares of persons' gradients."""


class OneVsRestModel(PerClassModel):
    """K classes, each against the rest, whose gradients and curvatures are clipped and released together.

    Class k has the model of `LogisticModel` for y_k = [y = k], around its own released center m_k. A record's
    contribution is the stack (s1_1/C1, …, s1_K/C1, s2_1/C2, …, s2_K/C2). Here s1_k = (y_k - p_k) x and s2_k = v_k
    max_j <xi_j> x x^T / B. With v_k = p_k (1 - p_k) / max_j <xi_j> that is the curvature of class k over B = `STACKED`.
    No <xi_k> depends on a label, so that s2 is the same whatever y is. In the first step all classes have the same, and
    only the first one's is released, with v_1 = B.

    Notes
    -----
    *Clip.* Let r_k be the residual of class k if the record is not of it, and r_k + 1 if it is. The stack of the linear
    parts has the norm |x| (sum r_k^2 + 1 + 2 r_y)^(1/2). That is at most |x| w with w^2 = sum r_k^2 + 1 + 2 max r_k. A
    record is weighted by t = min(1, L (1 - 2^-20) / (w^2 |x|^2 / C1^2 + max <xi>^2 |x|^4 / C2^2)^(1/2)), all its 2 K
    parts alike. No label enters the weight, so the weighted likelihood is not biased. There is **one** clip, since K
    clips at L would let a record move the sum by sqrt(K) L.

    *Sensitivity.* The stack is one vector: the record's 2 K parts lie in different coordinates, the last K in the
    orthonormal basis of symmetric matrices. The v_k are all scaled down alike until sum v_k^2 <= B^2 (1 - 2^-30)^2, a
    rule without labels. So the K matrices have together at most the Frobenius norm of max <xi> x x^T, which the weight
    was made for. In real numbers the norm of the stack is at most L (1 - 2^-20). Squares, products and
    roots are computed in float64 with a relative error of at most (d + 2 K + 16) 2^-53 < 2^-36 for d <= 2^15 and K <=
    2^10. The products w_k x_j and f x_j have 2^-53. Truncation toward zero makes no entry larger. So the integers have
    a norm of at most L (1 - 2^-20) (1 + 2^-34) < L. Adding or removing a record therefore moves the exact sum by at
    most L and replacing one by at most 2 L. L and the rounding of the finished triangle, which happens once, are as in
    `LogisticStatistics`, whose proof continues from here. L = clip - sqrt(K D) g, and the K D entries of the
    triangles are rounded. Capacity is the same, as an entry of the integers is bounded as there.

    *Units of several rows.* Rows are weighted as records, and then all by u = min(1, L (1 - 2^-20) / sum of their
    bounds). By the triangle inequality the unit's sum has a norm of at most that, whatever the rows are. The squares of
    the K gradients' stack are a further part, by the proof of `SandwichModel`, which bounds them by the stack's norm.
    """

    capacity = LogisticModel.capacity
    at_root = ("classes",)
    # The factor follows the first score, so the gain with it is measured by a second.
    n_scores = 2

    def __init__(self, public: Public, settings: LogisticSettings):
        assert public.classes is not None
        made = ClassModel if public.unit == "record" else PersonsClassModel
        self.classes: list[ClassModel] = [made(public, settings) for _ in public.classes]
        first = self.classes[0]
        self.n_classes, self.n_features = len(self.classes), first.n_features
        self.clip, self.private = first.clip, first.private
        self.shape = (self.n_classes * first.shape[0],)
        self.step = 0
        self._centers: np.ndarray | None = None

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
        """Take step and centers, (K, d), from the classes."""
        self.step = self.classes[0].step
        self._centers = np.stack([one.point for one in self.classes]) if self.step else None

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; ``block`` is a `vips_fast.kernels.logistic.Rows` or units of them."""
        block, words, starts = unpack_block(block, words)
        n, d, K = block.n_rows, self.n_features, self.n_classes
        *factors, quadratic, norms = parts = room(scratch, "factors", K + 2, n)
        work, size = reuse(scratch, "workspace", workspace, d, block.indptr is None), triangle_size(d)
        indptr, indices, values = block.indptr, block.indices, block.values
        units = starts if self.private else None
        state = units, None, self._centers, *self.lattice, True
        native.logistic_classes(
            d, indptr, indices, values, block.y, *state, work, parts[:K], quadratic, norms, block.unit
        )
        with np.errstate(all="ignore"):
            own = self._curvatures(block) * quadratic
        for k, linear in enumerate(factors):
            first = K * d + k * size
            triangle = out[first : first + size] if k == 0 or self.step else None
            native.logistic_accumulate(
                d, 0, d, indptr, indices, values, linear, own[k], work, out[k * d : (k + 1) * d], triangle, block.unit
            )
            if self.shape[0] > K * (d + size):
                out[K * (d + size) + k * d :][:d] += unit_squares(block, starts, linear, self.lattice)
        diagnose(scratch, clipped=(norms > self.lattice.clip_norm).sum())

    def _curvatures(self, block: Rows) -> np.ndarray:
        """Compute the roots of v_k / B for records of a block, (K, n); see the class's notes.

        Beside `row_products` all is elementwise.
        """
        if self._centers is None:
            return np.ones((self.n_classes, block.n_rows))
        norm, logits = row_products(block, self._centers)
        logits *= np.minimum(1.0, self.lattice.row_norm / norm)
        p = expit(logits)
        v = p * (1 - p) / pg_mean(logits).max(axis=0)
        square = np.zeros(block.n_rows)
        for one in v:
            square += one * one
        v *= np.minimum(1.0, STACKED * (1 - 2.0**-30) / np.sqrt(np.maximum(square, 1e-300))) / STACKED
        return np.sqrt(np.where(v <= 1.0, v, 0.0))

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See `LogisticStatistics.round`; the gradients are on the noise's lattice already."""
        sums = np.empty(self.shape, dtype=np.int64)
        for k, one in enumerate(self.classes):
            parts = self._parts(k)
            sums[parts] = one.round(fine[parts], spacing)
        return sums

    def _parts(self, k: int) -> np.ndarray:
        """Places of a class's gradient, curvature and squares in a release."""
        d, size, K = self.n_features, triangle_size(self.n_features), self.n_classes
        parts = (0, d), (K * d, size), (K * (d + size), self.shape[0] // K - d - size)
        return np.concatenate([first + np.arange(k * part, (k + 1) * part) for first, part in parts])

    def update(self, release: Release) -> None:
        """See `Model.update`: each class takes its gradient and curvature."""
        first, finishes = release.step == 0, self.classes[0].finishes
        own = slice(self.n_features, self.n_features + triangle_size(self.n_features))
        for k, one in enumerate(self.classes):
            places = self._parts(k)
            if first:
                places[own] = self._parts(0)[own]
            one.update(Release(release.step, release.units[places], release.scale, release.noise_sd))
        if finishes:
            self._set_factor((1 - 1 / self.n_classes) * (1.0 if self.classes[0]._noise_free else _USUAL))
        self._set_state()

    def _set_factor(self, factor: float, left: float = 0.0) -> None:
        """Set the factor of all logits, beside the first base rates: later ones take logits for normal."""
        for one in self.classes:
            one._factor = np.array([factor, one.first_base(), left])

    @property
    def _nats(self) -> float:
        """The bound of a record's nats. With a larger one rows that are not normal would move the factor."""
        first = self.classes[0]
        return first.nats if first._factor[2] else NATS[0] * first._nats_scale

    def judged(self, score: Score) -> None:
        """Find the factor of all logits from the measured gain, and how much of the optimism is left with it.

        Draws of normal rows, of the released second moment, say what gain the measured probabilities have if those of
        another factor are true (`factor_of_gain`). The usual one is (K - 1)/K.
        """
        first, k = self.classes[0], self.n_features - 1
        rows = first._second_moment_of_rows()
        middle = rows[:k, k] / first._constant
        # A Cholesky factor, for eigenvectors turn with the last bits of a matrix; and a fixed seed.
        root = cholesky(rows[:k, :k] - np.outer(middle, middle))
        draws = np.random.default_rng(0).standard_normal((_DRAWS, k)) @ root + middle
        means = np.stack([one._mean for one in self.classes])
        logits = draws @ means[:, :k].T + first._constant * means[:, k]
        bases, released = np.array([(one.first_base(), one._base[0]) for one in self.classes]).T
        ratios = class_probabilities(logits, first._factor[0], bases) / class_probabilities(0 * logits, 0.0, released)
        most, usual = math.exp(self._nats), 1 - 1 / self.n_classes
        nats = np.log(np.clip(ratios, 1 / most, most))
        truths = (class_probabilities(logits, usual * factor, bases) for factor in [0.0, *FACTORS])
        gains = np.array([float((truth * nats).sum()) / _DRAWS for truth in truths])
        factor = usual * factor_of_gain(score, gains)
        left, curved = (float((p * (1 - p)).sum()) for p in (class_probabilities(logits, factor, bases), expit(logits)))
        self._set_factor(factor, left / max(curved, 1e-3 * left, 1e-300))

    @property
    def has_score(self) -> bool:
        """Whether there are base rates to compare with."""
        return self.classes[0].has_score

    def gain_score(self) -> OutcomePrediction:
        first = self.classes[0]
        return OutcomePrediction([one.prediction for one in self.classes], first._bound, first._n, self._nats)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self._set_state()
