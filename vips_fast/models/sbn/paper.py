"""Algorithm 6 of Park et al. (2020): the Polya-Gamma bound, with a curvature for each record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from ...checks import check_choice, check_number
from ...engine.model import Model, Release, diagnose, reuse
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...engine.units import unpack_block
from ...kernels import native, pg_mean
from ...kernels.psd import diagonals, solve_repaired
from ...kernels.sbn import MAX_PAIR_SCALE, record_blocks, visible_table, workspaces
from ...kernels.threads import one_blas_thread, resolve_n_threads, run_blocks
from ..estimator import ArraySpec
from .network import (
    BLOCK_SOLVE,
    NetworkModel,
    OfRows,
    Scratch,
    Settings,
    SigmoidBeliefNetwork,
    Sums,
    hidden_bias,
    polya_gamma_means,
    row_weights,
)
from .score import BLOCK

#: Records of a block of the second moments: the number that their kernel sums before it goes to main memory.
MOMENTS_BLOCK = 1024

#: Grids of q(z = 1) and of <xi>, which is at most 1/4.
_UNIT_Z, _UNIT_XI = 2.0**-20, 2.0**-23

#: Least share of a visible unit's curvature that its bias keeps to itself.
_LEAST_OWN = 0.01

#: A weight or bias beyond this saturates its pixel; noise may drive one there.
_LARGEST_WEIGHT = 1e3


@dataclass(kw_only=True, repr=False, eq=False)
class PaperSigmoidBeliefNetwork(SigmoidBeliefNetwork):
    """Sigmoid belief network of Algorithm 6, made by `SigmoidBeliefNetwork.paper`.

    Parameters
    ----------
    sensitivity : {"proven", "paper"}
        "paper" is the paper's construction: seven blocks, each scaled by its own sensitivity, noise for a joint
        sensitivity of sqrt(7). The proven joint sensitivity of its six noisy blocks is sqrt(6).
    clip : float
        a in (0, 1]: a record's contribution is scaled down to a share a of the largest
        possible joint norm; 1 never does.
    **common
        Of `SigmoidBeliefNetwork`; every step releases all statistics.

    Notes
    -----
    The curvature <xi_nj> of a record's likelihood makes a K x K matrix for each visible unit. With privacy this bound
    stays near the mean image. Almost all of the J K (K + 3) / 2 numbers released are second moments, each at most 1/4.
    At ordinary budgets the noise's spectrum in a K x K block ends above the block's own largest eigenvalue. So the
    repair leaves a multiple of the identity and the weights shrink. MNIST, K = 50, epsilon = 3.34, every image in each
    of 10 steps: pixel accuracy .87 (mean image .844, `SigmoidBeliefNetwork` .961).
    """

    sensitivity: str = "proven"
    clip: float = 1.0

    _least_steps = 1
    _block = MOMENTS_BLOCK

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("sensitivity", self.sensitivity, ("proven", "paper"))
        check_number("clip", self.clip, 0, 1, low_open=True)
        if self.sensitivity == "paper" and self.clip != 1:
            raise ValueError(f"clip={self.clip!r}: expected 1 with sensitivity='paper', which does not clip")

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        J, K = public.n_features, int(self.n_components)
        self._check_memory(J * (K * (K + 1) // 2 + 2 * K + 2), f"{J} visible units")
        settings = self._network_settings(self._joint(public))
        return PolyaGammaModel(settings, public, float(self.clip), self.sensitivity == "paper")

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return PolyaGammaModel.specs(public.n_features, int(self.n_components))

    def _sensitivity(self, model: Model, relation: str) -> float | None:
        # The paper's, one for each of seven blocks (Eq. 72).
        return math.sqrt(7.0) if self.sensitivity == "paper" else None

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> None:
        return None

    def _latent(self, Y: np.ndarray) -> np.ndarray:
        arrays = self._fitted().arrays
        return polya_gamma_means(Y, arrays, self._options.dtype, resolve_n_threads(self.n_jobs))


class PolyaGammaModel(NetworkModel):
    """The six noisy blocks of the complete-data statistic.

    Notes
    -----
    *Sensitivity.* The blocks s_1, s_3, ..., s_7 of Algorithm 6 are divided by their largest norms. These are sqrt(K),
    sqrt(J), sqrt(J)/4, sqrt(JK)/4, sqrt(JK) and sqrt(JK(K-1)/2)/4. The last is for the upper off-diagonal of s_7, whose
    diagonal is s_5. All entries lie between 0 and their largest value, and all blocks are largest at once. So adding,
    removing or replacing a record moves the sum by at most sqrt(6), which is reached. With ``clip`` a, replacing one
    moves it by at most min(sqrt(2) a, 1) sqrt(6), as ||x - y||^2 <= ||x||^2 + ||y||^2 for entries >= 0. Block s_2 is a
    function of released parameters and gets no noise, but for the paper's construction. There it is a block without
    contributions.

    *Fine integers.* A record contributes z and xi truncated to multiples of 2^-20 and 2^-23, and their products with y.
    It also contributes xi times pair products of z truncated to multiples of 2^-22. Every product is one of truncated
    factors >= 0, so no norm grows.

    *Capacity.* A second moment is at most 2^21 2^22 = 2^43 a record, all others less: 2^19 records stay within 2^62.
    """

    capacity = 2**19
    at_root = (*NetworkModel.at_root, "w", "mean_image")
    published: ClassVar[dict[str, str]] = {
        "components": "w",
        "weight_variances": "variances",
        "hidden_bias": "b",
        "visible_bias": "c",
        "visible_variance": "c_variance",
        "mean_image": "mean_image",
    }

    def __init__(self, settings: Settings, public: Public, clip: float, paper: bool):
        J, K = public.n_features, settings.n_hidden
        pairs = K * (K - 1) // 2
        self.paper = paper
        if paper:
            blocks = dict(s1=K, s2=K, s3=J, s4=J, s5=J * K, s6=J * K, s7=J * (pairs + K))
        else:
            blocks = dict(s1=K, s3=J, s4=J, s5=J * K, s6=J * K, s7=J * pairs)
        # Largest norms, all six reached by a record of ones with z = 1 and psi = 0.
        self.largest = {
            "s1": math.sqrt(K),
            "s2": math.sqrt(K) / 4,
            "s3": math.sqrt(J),
            "s4": math.sqrt(J) / 4,
            "s5": math.sqrt(J * K) / 4,
            "s6": math.sqrt(J * K),
            "s7": math.sqrt(J) * K / 4 if paper else math.sqrt(J * max(pairs, 1)) / 4,
        }
        self.clip = clip * math.sqrt(6.0)
        super().__init__(settings, public, blocks, 1.0, sum(blocks.values()))
        self._fine = dict(z=K, xi=J, cross=J * (K + 1), moments=J * (pairs + K))
        # Where s_5 lies among the pairs k <= l.
        self._diagonal = np.cumsum([0, *range(K, 1, -1)])
        self._beside = np.isin(np.arange(pairs + K), self._diagonal, invert=True)
        self.w = 0.1 * self.start_weights
        self.variances = np.zeros((J, K))
        self.c, self.c_variance, self.b = np.zeros(J), np.zeros(J), np.zeros(K)
        self.mean_image = np.full(J, 0.5)
        self._derive()

    def _derive(self) -> None:
        """Compute the E-step's tables of the parameters, once for all records."""
        dtype = self.options.dtype
        w, w2 = visible_table(self.w, dtype), visible_table(self.w**2 + self.variances, dtype)
        c, c_variance, b, start = (x.astype(dtype) for x in (self.c, self.c_variance, self.b, expit(self.b)))
        self._terms = w, w2, c, c_variance, b, start, int(self.options.n_sweeps)

    def sensitivity(self, relation: str) -> float:
        """Return a sqrt(6) to add or remove a record.

        Replacing one has min(sqrt(2) a, 1) sqrt(6).
        """
        return self.clip if relation == "add_remove" else min(math.sqrt(2.0) * self.clip, math.sqrt(6.0))

    @property
    def fine_shape(self) -> tuple[int, ...]:
        """Shape of z, xi, y x (z, 1) and pairs.

        The pairs are all k <= l for each visible unit.
        """
        return (sum(self._fine.values()),)

    def unit(self, name: str) -> float:
        """Constant grids."""
        if name in ("s5", "s7"):
            return _UNIT_XI / MAX_PAIR_SCALE
        return _UNIT_XI if name == "s4" else _UNIT_Z

    def multiplier(self, name: str) -> float:
        """Invert a block's largest norm."""
        return self.retained / self.largest[name]

    def _views(self, fine: np.ndarray) -> dict[str, np.ndarray]:
        ends = np.cumsum(list(self._fine.values()))
        views = dict(zip(self._fine, np.split(fine, ends[:-1]), strict=True))
        for name in ("cross", "moments"):
            views[name] = views[name].reshape(self.n_visible, -1)
        return views

    def parts(self, fine: np.ndarray) -> dict[str, np.ndarray]:
        """List the noisy blocks; s_2 has no contributions."""
        sums = self._views(fine)
        cross, moments = sums["cross"], sums["moments"]
        return {
            "s1": sums["z"],
            "s3": cross[:, -1],
            "s4": sums["xi"],
            "s5": moments[:, self._diagonal],
            "s6": cross[:, :-1],
            "s7": moments if self.paper else np.compress(self._beside, moments, axis=1),
        }

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: Scratch) -> None:
        """Add the sums of products of y, z and xi."""
        J, K, sums = self.n_visible, self.n_hidden, self._views(out)
        rows, _, starts = unpack_block(block, words)
        weights = row_weights(starts)
        area = reuse(scratch, "moments", lambda: workspaces("moments", J, K, 1)[0])
        z, x = reuse(scratch, "factors", lambda: (np.empty((MOMENTS_BLOCK, K)), np.empty((MOMENTS_BLOCK, J))))
        for first, last in record_blocks(len(rows), MOMENTS_BLOCK):
            y = rows[first:last]
            for i, e in record_blocks(len(y), BLOCK):
                share = None if weights is None else weights[first + i : first + e]
                self._factors_of(y[i:e], share, z[i:e], x[i:e], sums, scratch)
            native.sbn_moments(
                x[: len(y)], z[: len(y)], 0, K * (K + 1) // 2, float(MAX_PAIR_SCALE), area, sums["moments"]
            )

    def _factors_of(
        self, y: np.ndarray, share: OfRows, z: np.ndarray, x: np.ndarray, sums: Sums, scratch: Scratch
    ) -> None:
        """Compute q(z) and <xi> of some records; add other sums.

        <xi> is in units.
        """
        J, K, n = self.n_visible, self.n_hidden, len(y)
        kind = "pg_f32" if self.options.dtype == "float32" else "pg_f64"
        area = reuse(scratch, "pg", lambda: workspaces(kind, J, K, 1)[0])
        own = reuse(scratch, "own", lambda: (np.empty((BLOCK, J)), *np.ones((2, BLOCK, K + 1))))
        xi, ones, v = (a[:n] for a in own)
        native.sbn_pg(y, *self._terms, area, z, xi)
        np.clip(z, 0.0, 1.0, out=z)
        factor = self._shrinkage(y, z, xi)
        diagnose(scratch, clipped=0 if factor is None else np.count_nonzero(factor < 1.0))
        if share is not None:
            # All blocks are linear in these two.
            factor = share if factor is None else factor * share
        ones[:, :K] = z
        native.sbn_clip(ones, None, factor, 0.0, _UNIT_Z, v, None)
        native.sbn_clip(xi, None, factor, 0.0, _UNIT_XI, x, None)
        native.sbn_cross(y, v, sums["cross"])
        sums["z"] += v[:, :K].sum(axis=0).astype(np.int64)
        sums["xi"] += x.sum(axis=0).astype(np.int64)

    def _shrinkage(self, y: np.ndarray, z: np.ndarray, xi: np.ndarray) -> np.ndarray | None:
        """Scale each record's whole contribution to a norm of ``clip``.

        Its joint norm is then at most that. Every block is a product of a record's own factors, so the joint norm needs
        only sums of squares. None if nothing can be longer.
        """
        if self.clip >= math.sqrt(6.0) or not self.settings.private:
            return None
        zz, xx = (z * z).sum(axis=1), (xi * xi).sum(axis=1)
        on = y.sum(axis=1, dtype=np.float64)
        pairs = np.maximum(zz * zz - (z**4).sum(axis=1), 0.0) / 2
        squares = {"s1": zz, "s3": on, "s4": xx, "s5": xx * zz, "s6": on * zz, "s7": xx * pairs}
        square = sum(part / self.largest[name] ** 2 for name, part in squares.items())
        # The margin is above the rounding of the sums of squares.
        norm = np.sqrt(square) * (1 + 1e-9)
        return np.asarray(np.minimum(1.0, self.clip / np.maximum(norm, self.clip)))

    def update(self, release: Release) -> None:
        """Update by appendix 5 from the running average, in largest norms."""
        fresh = np.empty(self.shape)
        for name, part in self.blocks.items():
            np.multiply(
                release.units[part], release.scale / (self.exact_multiplier(name) * self.largest[name]), out=fresh[part]
            )
        law = Release(release.step, release.units, release.scale, release.noise_sd / self.retained)
        self._average.add_values(fresh, law, self._schedule.rate(self.step))
        self._maximize()
        self.step += 1
        self._derive()

    def _block(self, name: str) -> np.ndarray:
        return self._average.values[self.blocks[name]] * self.largest[name]

    def _maximize(self) -> None:
        J, K, n, sd = self.n_visible, self.n_hidden, self.n_records, self._average.noise_sd
        z, y = self._block("s1"), self._block("s3")
        xi = np.clip(self._block("s4"), 1e-3, 0.25)
        xi_z, y_z = (self._block(name).reshape(J, -1) for name in ("s5", "s6"))
        upper = self._average.values[self.blocks["s7"]].reshape(J, -1)
        # PSD repair: to the edge of the known noise's spectrum.
        least = max(1e-6, 2 * math.sqrt(K) * sd * self.largest["s7"])
        c_variance = 1.0 / (1.0 / self.options.bias_variance + n * xi)
        # q(w) for a given c is first + c times second. Neither z nor y is cut here: the
        # equations would contradict each other, and a unit that is all but always on drift away.
        right = np.stack([y_z - 0.5 * z, -xi_z], axis=2)
        lines, variances = np.empty((J, K, 2)), np.empty((J, K))
        blocks = record_blocks(J, BLOCK_SOLVE)

        def work(block: int, worker: int) -> None:
            part = slice(*blocks[block])
            moments = self._moments(upper[part], xi_z[part])
            lines[part], variances[part] = solve_repaired(
                moments, least, self.prior.precision[part] / n, right[part], lapack
            )

        with one_blas_thread(K) as lapack:
            run_blocks(len(blocks), self.settings.n_threads, work)
        variances /= n
        first, second = lines[:, :, 0], lines[:, :, 1]
        # Eqs. 87 and 88 at their joint fixed point. (The print of 88 has a factor 1/2 before the last term, which does
        # not follow from the bound.) ``own`` is the rest of xi when z is known, >= 0 but for noise and close to 0 where
        # some z hardly varies.
        own = np.maximum(xi + (second * xi_z).sum(axis=1), _LEAST_OWN * xi)
        c = n * (y - 0.5 - (first * xi_z).sum(axis=1)) / (1.0 / self.options.bias_variance + n * own)
        c = np.clip(c, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        w = np.clip(first + c[:, None] * second, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
        self.w, self.variances, self.c, self.c_variance = w, variances, c, c_variance
        self.mean_image = np.clip(y, self.least_pixel, 1 - self.least_pixel)
        self.b = self._hidden_bias(np.clip(z, self.least_hidden, 1 - self.least_hidden))
        self.prior.update(w * w + variances)

    def _moments(self, upper: np.ndarray, diagonal: np.ndarray) -> np.ndarray:
        """Build K x K matrices of some visible units.

        They are given on and right of their diagonals.
        """
        K, first = self.n_hidden, 0
        moments = np.zeros((len(upper), K, K))
        skip = 0 if self.paper else 1
        for k in range(K - skip):
            last = first + K - k - skip
            np.multiply(upper[:, first:last], self.largest["s7"], out=moments[:, k, k + skip :])
            first = last
        if not self.paper:
            diagonals(moments)[...] = diagonal
        return moments

    def _hidden_bias(self, z: np.ndarray) -> np.ndarray:
        """Compute the hidden bias by Eqs. 85 and 86.

        The paper's construction adds noise to the public xi^(1).
        """
        n, variance = self.n_records, self.options.bias_variance
        if not self.paper:
            return hidden_bias(z, n, variance)
        xi = np.clip(pg_mean(self.b) + self._block("s2") * n, 1e-3, 0.25)
        return np.asarray((z - 0.5) / (1.0 / (variance * n) + xi))

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        super().restore(state)
        self._derive()
