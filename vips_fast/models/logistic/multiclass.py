"""Logistic regression of more than two classes: one against the rest, as one release a step."""

import math
from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np

from ...engine.model import Model, Release, diagnose
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import opened
from ...kernels import native
from ...kernels.blr import workspace
from ...mechanisms import GaussianMechanism
from .model import LogisticModel

#: What the bound of a contribution is multiplied with before anything is truncated: see `OneVsRestModel`.
MARGIN = 1 - 2.0**-20


class ClassModel(LogisticModel):
    """The posterior of one class against the rest; its bounds are those of all classes together."""

    # A record's weight and the common curvature depend on the logits of all classes.
    _reads_by_law = False

    def __init__(self, public: Public, **settings: Any):
        assert public.classes is not None
        self._n_classes = len(public.classes)
        super().__init__(public, **settings)

    def _residual_bound(self) -> float:
        # With its worst label the residuals of a record have a norm of at least sqrt(1 - 1/K), where all classes are as
        # likely: at a residual_clip of 0.5, as with two classes, that is where the weights begin.
        return 2 * self.options.residual_clip * math.sqrt(1 - 1 / self._n_classes)

    def _unit_scales(self, share: float) -> tuple[float, float]:
        linear, quadratic = super()._unit_scales(share)
        return (linear, quadratic) if self._private else (linear * math.sqrt(self._n_classes), quadratic)


class OneVsRestModel(Model):
    """K classes, each against the rest: K gradients and one curvature, clipped and released together.

    Class k has the model of `LogisticModel` for y_k = [y = k], around its own released centre m_k. A record's
    contribution is the stack (s1_1/C1, …, s1_K/C1, s2/C2) with s1_k = (y_k - 1/2 - <xi_k> x . m_k) x and **one**
    s2 = max_k <xi_k> x x^T. No <xi_k> depends on a label, so that s2 is the same whatever y is, and the classes share
    it: it bounds the curvature of each (Newton steps are not longer than a class's own, and stay safe), its noise is
    1/sqrt(K) of that of K matrices under one clip, and intervals are those of the sharpest class.

    Notes
    -----
    *Clip.* With r_k the residual of class k if the record is not of it, r_k + 1 if it is, the stack of the linear
    parts has the norm |x| (sum r_k^2 + 1 + 2 r_y)^(1/2), at most |x| w with w^2 = sum r_k^2 + 1 + 2 max r_k. A record
    is weighted by t = min(1, L (1 - 2^-20) / (w^2 |x|^2 / C1^2 + max <xi>^2 |x|^4 / C2^2)^(1/2)), all its K + 1 parts
    alike: a weight that no label enters, so that the weighted likelihood is not biased, and **one** clip, since K
    clips at L would let a record move the sum by sqrt(K) L.

    *Sensitivity.* The stack is one vector: the record's K + 1 parts lie in different coordinates, the last in the
    orthonormal basis of symmetric matrices. In real numbers its norm is at most L (1 - 2^-20). Squares, products and
    roots are computed in float64 with a relative error of at most (d + 2 K + 16) 2^-53 < 2^-36 for d <= 2^15 and K <=
    2^10, the products w_k x_j and f x_j with 2^-53, and truncation toward zero makes no entry larger: so the integers
    have a norm of at most L (1 - 2^-20) (1 + 2^-34) < L. Adding or removing a record therefore moves the exact sum by
    at most L and replacing one by at most 2 L. L and the rounding of the finished triangle, which happens once, are
    those of `LogisticStatistics`, whose proof goes on from here: L = clip - sqrt(D) g, and only the D entries of
    the one triangle are rounded. Capacity is the same, as an entry of the integers is bounded as there.

    *Units of several rows.* Rows are weighted as records, and then all by u = min(1, L (1 - 2^-20) / sum of their
    bounds): by the triangle inequality the unit's sum has a norm of at most that, whatever the rows are. (The norm of
    the sum itself is smaller where rows point in different directions: who has many is heard less than needed.)

    *Post-processing.* Probabilities of the classes are divided by their sum.
    """

    capacity = LogisticModel.capacity

    def __init__(self, public: Public, **settings: Any):
        assert public.classes is not None
        self._each = [ClassModel(public, **settings) for _ in public.classes]
        self._first, self._k = self._each[0], len(self._each)
        self._d, self.clip = self._first._d, self._first.clip
        self.shape = (self._first.shape[0] + (self._k - 1) * self._d,)

    def sensitivity(self, relation: str) -> float:
        """The clip for adding or removing a record, twice that for replacing one."""
        return self._first.sensitivity(relation)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        for one in self._each:
            one.prepare(mechanism, sampler)

    # ------------------------------------------------------------- E-step

    def contributor(self) -> Self:
        other = copy(self)
        other._each = [one.contributor() for one in self._each]
        other._first = other._each[0]
        return other

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; ``block`` is a `vips_fast.kernels.blr.Rows` or units of them."""
        block, words, starts = opened(block, words)
        first, d, n = self._first, self._d, block.n_rows
        if "workspace" not in scratch:
            scratch["workspace"] = workspace(d, block.indptr is None)
        work = scratch["workspace"]
        shrink, length, residuals, xi = self._residuals(block, work)
        scale_linear, scale_quadratic = first._current_scales()
        with np.errstate(all="ignore"):  # what is not finite becomes zero
            square, most = np.zeros(n), np.full(n, -math.inf)
            for r in residuals:
                square += r * r
                most = np.maximum(most, r)
            linear = np.sqrt(np.maximum(square + 1 + 2 * most, 0)) * length / scale_linear
            quadratic = xi * length * length / scale_quadratic
            norms, target = np.sqrt(linear * linear + quadratic * quadratic), first._kept * MARGIN
            weight = self._joint_weights(norms, target, starts)
            good = np.isfinite(norms) & np.isfinite(weight) & (shrink > 0)
            weight = np.where(good, weight, 0.0)
            factor = np.where(good, np.sqrt(weight * xi / scale_quadratic) * shrink / first._grid, 0.0)
        rows = (block.indptr, block.indices, block.values)
        for k, r in enumerate(residuals):
            part = np.where(good, weight * (r + (block.y == k)) * shrink / scale_linear / first._spacing, 0.0)
            last = k == self._k - 1 and math.isfinite(scale_quadratic)
            native.blr_accumulate(
                d,
                0,
                d,
                *rows,
                part,
                factor,
                work,
                out[k * d : (k + 1) * d],
                out[self._k * d :] if last else None,
                block.unit,
            )
        diagnose(scratch, clipped=(norms > target).sum())

    def _residuals(self, block: Any, work: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], np.ndarray]:
        """Factors that bring rows to their bound, their lengths then, residuals of a record of no class, max <xi>.

        The kernel gives them to the bit as functions of the row alone: it takes -1/2 - <xi> x . m for y = 0, over a
        scale so large that it clips nothing.
        """
        first, n = self._first, block.n_rows
        scale, none, unused = 4 * first._bound / first._kept, np.zeros(n), np.empty(n)

        def of(moment: np.ndarray | None, center: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            linear, xi, norms = np.empty(n), np.empty(n), np.empty(n)
            native.blr_weights(
                self._d,
                block.indptr,
                block.indices,
                block.values,
                none,
                None,
                moment,
                center,
                first._bound,
                1.0,
                scale,
                math.inf,
                first._kept,
                first._spacing,
                first._grid,
                False,
                work,
                linear,
                unused,
                xi,
                norms,
                block.unit,
            )
            return linear * (scale * first._spacing), xi, norms

        base, _, norms = of(None, None)
        shrink, largest, residuals = -2 * base, np.zeros(n), []
        for one in self._each:
            linear, xi, _ = of(one._moment, one._center())
            residuals.append(np.divide(linear, shrink, out=np.zeros(n), where=shrink > 0))
            largest = np.maximum(largest, xi)
        return shrink, 2 * scale * norms, residuals, largest

    def _joint_weights(self, norms: np.ndarray, target: float, starts: np.ndarray | None) -> np.ndarray:
        """What rows are multiplied with so that every unit's sum is at most ``target`` long."""
        if not self._first._private:
            return np.ones(len(norms))
        weights = np.minimum(1.0, target / np.maximum(norms, target))
        if starts is None:
            return weights
        owner = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        total = np.bincount(owner, weights * np.where(np.isfinite(norms), norms, 0.0), len(starts) - 1)
        return weights * np.minimum(1.0, target / np.maximum(total, target))[owner]

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See `LogisticStatistics.round`; the gradients are on the noise's lattice already."""
        split = (self._k - 1) * self._d
        sums = np.empty(self.shape, dtype=np.int64)
        sums[:split], sums[split:] = fine[:split], self._first.round(fine[split:], spacing)
        return sums

    # ------------------------------------------------------------- M-step

    def update(self, release: Release) -> None:
        """See `Model.update`: each class takes its gradient and the common curvature."""
        d, units = self._d, release.units
        for k, one in enumerate(self._each):
            own = np.concatenate([units[k * d : (k + 1) * d], units[self._k * d :]])
            one.update(Release(release.step, own, release.scale, release.noise_sd))

    def state(self) -> dict[str, np.ndarray]:
        return {f"class{k}.{name}": array for k, one in enumerate(self._each) for name, array in one.state().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        before = [one.state() for one in self._each]
        try:
            for k, one in enumerate(self._each):
                start = f"class{k}."
                one.restore({n.removeprefix(start): array for n, array in state.items() if n.startswith(start)})
            if len({one._step for one in self._each}) > 1:
                raise ValueError("state: the classes are not at one step")
        except ValueError:
            for one, old in zip(self._each, before, strict=True):
                one.restore(old)
            raise

    def result(self) -> dict[str, np.ndarray]:
        """Those of each class, stacked: shapes (K, d), (K, d, d) and (K, 2)."""
        each = [one.result() for one in self._each]
        return {name: np.stack([result[name] for result in each]) for name in each[0]}
