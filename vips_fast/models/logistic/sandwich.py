"""Logistic regression that releases squares too, so that its intervals are about the sampling of persons."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...engine.model import Release
from ...engine.result import Public
from ...kernels.logistic import Rows
from .model import LogisticModel
from .posterior import shrink
from .statistics import LogisticSettings

#: Norm of the squares over the bound of a contribution. It makes the noise of s1 and s2 0.5 % larger.
SQUARES = 0.1
#: Share of s1 in the squared bound for units. Over 20 steps s2 has the noise that (0.3, 0.95) would give it.
UNIT_SHARE = 0.92
#: Spread of the ratio of a gradient's variance to the model's, before anything is released.
_SPREAD = 1.0
#: Least ratio.
_LEAST = 0.02


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
    at most L, and the rest of the proof holds. Only s2 is rounded, and s3 is on the noise's lattice already. A release
    has the same event.

    *Capacity.* t_j is at most L / g, as other entries of s1.
    """

    own_part = math.sqrt(1 - SQUARES**2)
    kept: ClassVar[dict[str, str]] = {**LogisticModel.kept, "squares": "_squares", "squares_law": "_squares_law"}

    def __init__(self, public: Public, settings: LogisticSettings):
        super().__init__(public, settings)
        self._split = self.shape[0]
        self.shape = (self._split + self.n_features,)
        # Sums of squares of the units' gradients, and the variance of their noise.
        self._squares, self._squares_law = np.zeros(self.n_features), np.zeros(1)

    @property
    def _shares(self) -> tuple[float, float]:
        # Equal ones scale a unit's rows down alike in all steps, so that S is a sum of one kind of terms.
        if self._of_records or self.options.linear_share is not None:
            return super()._shares
        return UNIT_SHARE, UNIT_SHARE

    def _add(self, block: Rows, starts: np.ndarray | None, out: np.ndarray, scratch: dict[str, Any]) -> np.ndarray:
        linear = super()._add(block, starts, out[: self._split], scratch)
        starts = np.arange(block.n_rows + 1) if starts is None else starts
        sums = unit_sums(block, starts, linear)
        factor = SQUARES * self.lattice.spacing / (self.lattice.clip_norm / self.own_part) * (1 - 2**-40)
        squares = (sums.astype(np.float64) ** 2 * factor).astype(np.int64)
        out[self._split :] += np.asarray(squares.sum(axis=0)).reshape(-1)
        return linear

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """See `LogisticStatistics.round`; the squares are on the noise's lattice already."""
        squares = fine[self._split :].astype(np.int64)
        return np.concatenate([super().round(fine[: self._split], spacing), squares])

    def _update(self, release: Release) -> None:
        unit = self._n * self.lattice.scale_linear**2 * self.lattice.clip_norm / (self.own_part * SQUARES)
        super()._update(Release(release.step, release.units[: self._split], release.scale, release.noise_sd))
        rate = self._rate_now
        self._squares += rate * (release.values[self._split :] * unit - self._squares)
        self._squares_law = (1 - rate) ** 2 * self._squares_law + (rate * release.noise_sd * unit) ** 2

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        if "squares_law" in state and (np.asarray(state["squares_law"]) < 0).any():
            raise ValueError("state: 'squares_law' is out of its range")
        super().restore(state)

    def _labels(self, expected: np.ndarray) -> np.ndarray:
        own = np.diag(expected)
        own = np.where(own > 0, own, 1.0)  # a column that no record has
        ratio, noise = self._squares / own, float(self._squares_law[0]) / own**2
        if noise.any():
            # One more ratio, 1 with the standard deviation _SPREAD, stands for earlier knowledge.
            ratio = shrink(np.append(ratio, 1.0), np.append(noise, _SPREAD**2), common=True)[0][:-1]
        root = np.sqrt(np.maximum(ratio, _LEAST))
        return np.asarray(expected * np.outer(root, root))


def unit_sums(block: Rows, starts: np.ndarray, linear: np.ndarray) -> Any:
    """Sum the truncated s1 of units, int64, (units, d), dense or CSR."""
    d = block.n_features
    if block.indptr is None:
        # A row that is not finite has the weight 0.
        rows = np.where(linear[:, None] == 0, 0.0, block.values.reshape(-1, d))
        entries = (linear[:, None] * rows).astype(np.int64)
        sums, several = np.zeros((len(starts) - 1, d), np.int64), np.diff(starts) > 0
        if several.any():
            sums[several] = np.add.reduceat(entries, starts[:-1][several], axis=0)
        return sums
    rows = np.repeat(linear, np.diff(block.indptr))
    entries = (rows if block.unit else rows * np.where(rows == 0, 0.0, block.values)).astype(np.int64)
    sums = sparse.csr_array((entries, block.indices, block.indptr[starts]), shape=(len(starts) - 1, d))
    sums.sum_duplicates()
    return sums
