"""Quadratic bounds: a curvature for each visible unit, common to all records."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from ...engine.model import Release, array_of, diagnose, reuse
from ...engine.result import Public
from ...engine.units import unpack_block
from ...kernels import native, pg_mean
from ...kernels.psd import diagonals, floor_spectrum
from ...kernels.sbn import record_blocks, workspaces
from ...kernels.threads import one_blas_thread, run_blocks
from .network import BLOCK, BLOCK_SOLVE, NetworkModel, OfRows, Scratch, Settings, Sums, row_weights
from .priors import hidden_bias
from .score import PixelPrediction

#: The center of the visible units is a multiple of 2^-12, so that sums about it are integers.
_CENTER_BITS = 12

#: Fine integers of the mean image: 2^30 is a record's 1, so that a row of a unit can be a small part of it.
IMAGE_BITS = 30

#: Fine integers of z - E[z] are below 2^20, as `sbn_gram` needs.
_LATENT_BITS = 20

#: Shares of the noise of the blocks, relative to the block y x z (1). The mean of z and its covariance have K and K
#: (K - 1) / 2 entries against J K, and are averaged over all of them. So they get little of the norm.
_SHARES = {"mean": 0.1, "cross": 1.0, "covariance": 0.15}

#: One of this many entries of the first block counts rows, so that a row has a norm of about 1/8 there.
_COUNTED = 64

#: That number counts if it is this many standard deviations above 0: of units of one row it is only noise, and is
#: ignored.
_CLEAR = 5.0

#: Variances of z stay above this.
_LEAST_VARIANCE = 0.01

#: Least curvature of Jaakkola's bound: its value at |psi| = 10.
_LEAST_CURVATURE = 0.05


class QuadraticModel(NetworkModel):
    """The bounds "jaakkola" and "bohning".

    The mean image comes first, then statistics about the released means.

    Notes
    -----
    *Fine integers.* A record contributes 2 y_n - 1 in the first steps. Afterwards, with
    v_n the clipped and truncated z_n - zeta as integers, v_n, y_n x v_n and the upper
    off-diagonal of v_n v_n'. These are plain sums, so any split of the records gives the
    same. The center of y is taken off in `parts`: sum_n (y_n - m) x v_n = sum_n y_n x v_n
    - m x sum_n v_n, in integers, as m is a multiple of 2^-12.

    *Units of several rows.* In the first steps a unit contributes the mean of its rows; see `NetworkModel`. Afterwards
    it is t times the sum of its m rows' blocks, 0 < t <= 1. They are trunc(t v_r), y_r x trunc(t v_r) and w_r w_r',
    w_r = trunc(sqrt(t) v_r). In the first entries of the block of the first steps, which is idle by then, stands t m -
    1 if that is positive. So the M-step can divide by how many rows the sums hold. The factor t is the largest that
    keeps the joint norm at ``keep``. Without several rows it is 1, and nothing is there. The norm comes from inner
    products: with G_rs = v_r . v_s and H_rs = (y_r - m) . (y_s - m) the blocks' squares are sum G, sum G H and (sum
    G^2 - sum_k (sum_r v_rk^2)^2) / 2. It is computed anew for the truncated integers. G and H are integers below 2^53
    (m is a multiple of 2^-12), exact in any order. Their sums are pairwise within 512 x 512 blocks. For fewer than 2^20
    rows the errors are below 2^-30 of the sum of the terms' sizes. That is at most (sum_r |v_r|)^2 for G and J times
    that for G H. 2^-30 of it is added, and for the squares the factor 1 + 2^-20 is more than enough.

    *Capacity.* |v_nk| <= 2^20, so no entry of a record passes 2^40 in the products v_nk v_nl, nor 2^32 in the `parts`
    of y_n x v_n. So 2^22 records stay within 2^62. A unit of several rows may put all its norm in one block, which is
    1 / 0.15 times the part of a record there. So the capacity is 2^19 of them.

    *Sensitivity.* The first steps' block is (2 y - 1) / sqrt(J), of norm 1. Afterwards ||v_n|| <= C_z min(1, C_y /
    ||y_n - m||) bounds the blocks by C_z, C_z C_y and C_z^2 sqrt((1 - 1/K) / 2), the last because the strict upper
    triangle of v v' has half of ||v||^4 - sum_k v_k^4, and sum_k v_k^4 >= ||v||^4 / K. Each is divided by its bound,
    times its share, and the whole by the root of the sum of squared shares: norm 1. So adding or removing a record
    moves the sum by at most 1, replacing one by at most 2 (entries have signs).
    """

    capacity = 2**22
    at_root = (*NetworkModel.at_root, "covariance", "_image")
    published: ClassVar[dict[str, str]] = {
        "components": "w",
        "weight_variances": "variances",
        "weight_covariance": "covariance",
        "hidden_bias": "b",
        "hidden_covariance": "hidden_covariance",
        "visible_bias": "c",
        "expansion": "expansion",
        "curvature": "curvature",
        "mean_image": "mean_image",
    }

    def __init__(self, settings: Settings, public: Public, bound: str, mean_steps: int):
        J, K = public.n_features, settings.n_hidden
        blocks = dict(image=J, mean=K, cross=J * K, covariance=K * (K - 1) // 2)
        super().__init__(settings, public, blocks, 0.0, K + J * K + K * K)
        self.bound, self.mean_steps = bound, mean_steps
        # Entries of the first block that say, afterwards, how many rows the sums hold.
        self._counting = -(-J // _COUNTED) if settings.joint and settings.private else 0
        if self._counting:
            self.capacity = 2**19
        self._image = np.zeros(J)
        # If nothing is clipped, bounds that no record passes set the grid.
        self.latent_bound, self.visible_bound = math.sqrt(K), math.sqrt(J)
        if settings.private:
            self.latent_bound = float(self.options.latent_clip) * math.sqrt(K) / 2
        self._begin(np.full(J, 0.5), math.sqrt(J) / 2)

    def _begin(self, mean: np.ndarray, spread: float) -> None:
        """Make the public start of the network for a mean image."""
        J, K = self.n_visible, self.n_hidden
        self.mean_image = mean
        if self.bound == "bohning":
            self.expansion, self.curvature = logit(mean), np.full(J, 0.25)
        else:
            self.expansion, self.curvature = np.zeros(J), common_curvature(np.zeros(J), mean)
        if self.settings.private:
            self.visible_bound = float(self.options.visible_clip) * spread
        # w . (y - m) then has a spread of about 1.
        self.w = self.start_weights / spread
        self.variances, self.covariance = np.zeros((J, K)), np.zeros((K, K))
        self.zeta, self.b, self.hidden_covariance = np.full(K, 0.5), np.zeros(K), 0.25 * np.eye(K)
        self.c = self._mean_log_odds() - self.w @ self.zeta
        self._derive()

    def _derive(self) -> None:
        """Compute the E-step's tables of the parameters, once for all records."""
        bits = np.ldexp(self.mean_image, _CENTER_BITS)
        self._center_units = np.rint(bits).astype(np.int64)
        self.center = np.ldexp(self._center_units.astype(np.float64), -_CENTER_BITS)
        self._gram, self._linear = self.terms(self.w)
        self._z_start = expit(self.b)

    def terms(self, w: np.ndarray, share: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Compute the E-step's tables for weights of some visible units.

        Units may be left out; ``share`` is the part kept.
        """
        return quadratic_terms(w, self.covariance * share, self.c, self.expansion, self.curvature, self.b)

    @property
    def has_score(self) -> bool:
        """Whether half of the columns can predict the other half."""
        return self.n_visible > 1

    def gain_score(self) -> PixelPrediction:
        return PixelPrediction([self])

    def sensitivity(self, relation: str) -> float:
        """Return 1 for add or remove, 2 for replace; see the notes."""
        return 1.0 if relation == "add_remove" else 2.0

    def unit(self, name: str) -> float:
        """Grids relative only to the public bound of z - E[z]."""
        if name == "image":
            return 2.0**-IMAGE_BITS
        latent = math.ldexp(1.0, math.frexp(self.latent_bound)[1] - _LATENT_BITS)
        return {"mean": latent, "cross": math.ldexp(latent, -_CENTER_BITS), "covariance": latent * latent}[name]

    def multiplier(self, name: str) -> float:
        """Divide a block's share by its bound."""
        if name == "image":
            return self.retained / math.sqrt(self.n_visible)
        # The covariance is empty for K = 1, where any bound will do.
        C, half = self.latent_bound, math.sqrt(0.5 * (1 - 1 / max(self.n_hidden, 2)))
        bound = {"mean": C, "cross": C * self.visible_bound, "covariance": C * C * half}[name]
        return _SHARES[name] * self.retained / math.sqrt(sum(share**2 for share in _SHARES.values())) / bound

    def parts(self, fine: np.ndarray) -> dict[str, np.ndarray]:
        """Return the sums, with y x v about the center of y."""
        out = {name: fine[part] for name, part in self.blocks.items()}
        cross = out["cross"].reshape(self.n_visible, self.n_hidden)
        out["cross"] = cross * (1 << _CENTER_BITS) - self._center_units[:, None] * out["mean"]
        return out

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: Scratch) -> None:
        """Add 2 y - 1, or sums of products.

        The products are of y and the clipped z - zeta.
        """
        rows, _, starts = unpack_block(block, words)
        self.add_rows(rows, starts, row_weights(starts), out, scratch)

    def add_rows(self, rows: np.ndarray, starts: OfRows, weights: OfRows, out: np.ndarray, scratch: Scratch) -> None:
        """Contribute rows, each times its weight or its unit's share.

        The unit's share holds if units of several rows are clipped jointly.
        """
        sums = {name: out[part] for name, part in self.blocks.items()}
        blocks = record_blocks(len(rows), BLOCK)
        if self.step >= self.mean_steps:
            self._joint(rows, starts, weights, sums, scratch)
        elif weights is None:
            for first, last in blocks:
                part = rows[first:last].sum(axis=0, dtype=np.int64)
                sums["image"] += (2 * part - (last - first)) << IMAGE_BITS
        else:
            # Whole numbers below 2^40, which doubles add exactly in any order.
            ones = np.floor(np.ldexp(weights, IMAGE_BITS))
            for first, last in blocks:
                part = 2 * (ones[first:last] @ rows[first:last]) - ones[first:last].sum()
                sums["image"] += part.astype(np.int64)

    def _joint(self, rows: np.ndarray, starts: OfRows, weights: OfRows, sums: Sums, scratch: Scratch) -> None:
        blocks = record_blocks(len(rows), BLOCK)
        if weights is None:
            for first, last in blocks:
                v = self._clipped(rows[first:last], scratch)
                self._add(rows[first:last], v, v, sums, scratch)
            return
        v = np.concatenate([self._clipped(rows[first:last], scratch).copy() for first, last in blocks])
        if self._counting and starts is not None:
            for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
                if last - first > 1:
                    share = self._share(rows[first:last], v[first:last])
                    weights[first:last] = share
                    held = math.floor(math.ldexp(max(share * (last - first) - 1, 0.0), IMAGE_BITS))
                    sums["image"][: self._counting] += held
        linear, roots = np.trunc(v * weights[:, None]), np.trunc(v * np.sqrt(weights)[:, None])
        for first, last in blocks:
            self._add(rows[first:last], linear[first:last], roots[first:last], sums, scratch)

    def _share(self, y: np.ndarray, v: np.ndarray) -> float:
        """Find a unit's largest weight t, up to 2^-12; see the notes."""
        m, retained = len(y), self.retained
        counted = self._counting * self.multiplier("image") ** 2
        # The larger root of t^2 square + counted (t m - 1)^2 = keep^2.
        whole = self._square(y, v, v) + counted * m * m
        inner = (counted * m) ** 2 - whole * (counted - retained * retained)
        share = min(1.0, (counted * m + math.sqrt(max(inner, 0.0))) / whole) if whole > 0 else 1.0
        while True:
            square = self._square(y, np.trunc(v * share), np.trunc(v * math.sqrt(share)))
            if (square + counted * max(share * m - 1, 0.0) ** 2) * (1 + 2.0**-20) <= retained * retained:
                return share
            share *= 1 - 2.0**-12

    def _square(self, y: np.ndarray, linear: np.ndarray, roots: np.ndarray) -> float:
        """Compute one unit's squared joint norm from inner products of rows."""
        scale = {name: (self.multiplier(name) * self.unit(name)) ** 2 for name in ("mean", "cross", "covariance")}
        total, blocks = 0.0, record_blocks(len(y), BLOCK)
        centered = [np.ldexp(y[i:e].astype(np.float64), _CENTER_BITS) - self._center_units for i, e in blocks]
        for (i, e), left in zip(blocks, centered, strict=True):
            for (j, f), right in zip(blocks, centered, strict=True):
                gram, other = linear[i:e] @ linear[j:f].T, left @ right.T
                total += scale["mean"] * float(gram.sum()) + scale["cross"] * float((gram * other).sum())
                total += 0.5 * scale["covariance"] * float(((roots[i:e] @ roots[j:f].T) ** 2).sum())
        total -= 0.5 * scale["covariance"] * float(((roots * roots).sum(axis=0) ** 2).sum())
        reach = float(np.sqrt((linear * linear).sum(axis=1)).sum()) ** 2
        return total + 2.0**-30 * reach * (scale["mean"] + scale["cross"] * 4.0**_CENTER_BITS * self.n_visible)

    def _clipped(self, y: np.ndarray, scratch: Scratch) -> np.ndarray:
        """v of some rows, in a buffer of the thread."""
        J, K, n = self.n_visible, self.n_hidden, len(y)
        area = reuse(scratch, "quadratic", lambda: workspaces("quadratic", J, K, 1)[0])
        z, v = (a[:n] for a in reuse(scratch, "latent", lambda: np.empty((2, BLOCK, K))))
        norms, lengths = (a[:n] for a in reuse(scratch, "norms", lambda: np.empty((2, BLOCK))))
        native.sbn_quadratic(y, self.w, self._gram, self._linear, self._z_start, int(self.options.n_sweeps), area, z)
        factor: np.ndarray | None = None
        clip = 0.0
        if self.settings.private:
            native.sbn_visible_norms(y, self.center, norms)
            clip = self.latent_bound
            factor = np.minimum(1.0, self.visible_bound / np.maximum(norms, self.visible_bound))
        native.sbn_clip(z, self.zeta, factor, clip, self.unit("mean"), v, lengths)
        diagnose(scratch, clipped=0 if factor is None else np.count_nonzero((factor < 1.0) | (lengths > clip)))
        return np.asarray(v)

    def _add(self, y: np.ndarray, linear: np.ndarray, roots: np.ndarray, sums: Sums, scratch: Scratch) -> None:
        J, K = self.n_visible, self.n_hidden
        sums["mean"] += linear.sum(axis=0).astype(np.int64)
        native.sbn_cross(y, linear, sums["cross"].reshape(J, K))
        native.sbn_gram(roots, reuse(scratch, "gram", lambda: workspaces("gram", J, K, 1)[0]), sums["covariance"])

    def update(self, release: Release) -> None:
        """Update the mean image, or the network from the averaged statistics."""
        # Matrices of this size gain nothing from BLAS threads, which only get in the way of ours.
        with one_blas_thread(self.n_hidden):
            if self.step < self.mean_steps:
                self._update_mean(release)
            else:
                self._update_joint(release)
            self.step += 1
            self._derive()

    def _update_mean(self, release: Release) -> None:
        # The block holds 2 y - 1.
        self._image = self._image + (0.5 + 0.5 * self.read(release, "image")) / self.mean_steps
        if self.step + 1 < self.mean_steps:
            return
        sd = 0.5 * release.noise_sd / self.exact_multiplier("image") / math.sqrt(self.mean_steps)
        # E[m (1 - m)] under the noise falls short by its variance.
        spread = float((self._image * (1 - self._image)).sum() + self.n_visible * sd * sd)
        self._begin(self._shares(sd), math.sqrt(min(max(spread, 1.0), self.n_visible / 4 + 1)))

    def _shares(self, sd: float) -> np.ndarray:
        """Estimate the mean image, (J,), from a noised release.

        Shares that the noise hides are alike.
        """
        middle, apart = float(self._image.mean()), max(float(self._image.var()) - sd * sd, 0.0)
        trusted = apart / (apart + sd * sd) if sd > 0 else 1.0
        shares = middle + trusted * (self._image - middle)
        return np.clip(shares, self.least_pixel, 1 - self.least_pixel)

    def _mean_log_odds(self) -> np.ndarray:
        """E[psi_j] where the bound's slope in c_j is zero."""
        return np.asarray(self.expansion + (self.mean_image - expit(self.expansion)) / self.curvature)

    def _update_joint(self, release: Release) -> None:
        J, K, zeta = self.n_visible, self.n_hidden, self.zeta
        # Rows that the sums hold, on average over the units.
        held = 1.0
        if self._counting:
            more = float(self.read(release, "image")[: self._counting].mean())
            sd = release.noise_sd / self.exact_multiplier("image") / math.sqrt(self._counting)
            held += more if more > _CLEAR * sd else 0.0
        mean = np.clip(zeta + self.read(release, "mean") / held, self.least_hidden, 1 - self.least_hidden)
        upper = np.zeros((K, K))
        upper[np.triu_indices(K, 1)] = self.read(release, "covariance") / held
        covariance = upper + upper.T - np.outer(mean - zeta, mean - zeta)
        # E[z^2] = E[z]: the diagonal about the mean.
        np.fill_diagonal(covariance, mean * (1 - mean))
        fresh = np.concatenate([mean, self.read(release, "cross") / held, covariance.reshape(-1)])
        rate = self._schedule.rate(self.step - self.mean_steps) if self._average.initial_weight < 1 else 1.0
        # Its noise is the one of an entry of the covariance.
        noise_sd = release.noise_sd / self.exact_multiplier("covariance") / held
        self._average.add_values(fresh, Release(release.step, release.units, release.scale, noise_sd), rate)
        mean, cross, covariance = np.split(self._average.values, [K, K + J * K])
        cross, variance = cross.reshape(J, K), self._average.noise_sd**2
        # The noise's own spectrum ends at 2 sqrt(K) sd (the semicircle law). Below that an eigenvalue says nothing, and
        # too small a one would blow W up.
        repaired = floor_spectrum(covariance.reshape(K, K), max(_LEAST_VARIANCE, 2 * math.sqrt(K * variance)))
        shorten = None
        if self.bound == "jaakkola":
            ratio = self.exact_multiplier("covariance") / self.exact_multiplier("cross")
            energy, shorten = denoised_energy(cross, repaired, variance * ratio**2)
            self.curvature = common_curvature(energy, self.mean_image)
        self._solve(cross, repaired, shorten)
        # The repair takes from the correlations and adds to the diagonal; the variances of z are known.
        scale = np.sqrt(mean * (1 - mean) / np.diag(repaired))
        self.hidden_covariance = np.clip(repaired * np.outer(scale, scale), -0.25, 0.25)
        self.zeta = mean.copy()
        self.b = hidden_bias(mean, self.n_records, self.options.bias_variance)
        self.c = self._mean_log_odds() - self.w @ mean

    def _solve(self, cross: np.ndarray, covariance: np.ndarray, shorten: np.ndarray | None) -> None:
        """Solve for q(W), without c.

        With the center of z at its mean, c drops out of the equations of W. ``shorten`` is None or the factor of each
        unit's weights.
        """
        n, curvature = self.n_records, self.curvature
        if self.settings.weight_prior == "gaussian":
            # One decomposition serves all visible units: their matrices differ only in kappa_j, and the prior is
            # isotropic.
            values, vectors = np.linalg.eigh(covariance)
            spread = 1.0 / (n * curvature[:, None] * values + self.prior.precision[0, 0])
            w = n * (cross @ vectors * spread) @ vectors.T
            variances = spread @ (vectors**2).T
            total = (vectors * (curvature @ spread)) @ vectors.T
        else:
            w, variances = np.empty_like(cross), np.empty_like(cross)
            blocks = record_blocks(self.n_visible, BLOCK_SOLVE)
            totals = np.empty((len(blocks), *covariance.shape))

            def work(block: int, worker: int) -> None:
                first, last = blocks[block]
                own = curvature[first:last, None, None]
                precision = n * own * covariance
                diagonals(precision)[...] += self.prior.precision[first:last]
                sigma = np.linalg.inv(precision)
                w[first:last] = n * np.matmul(sigma, cross[first:last, :, None])[:, :, 0]
                variances[first:last] = diagonals(sigma)
                totals[block] = (own * sigma).sum(axis=0)

            run_blocks(len(blocks), self.settings.n_threads, work)
            # In the order of the blocks, so that the sum does not depend on the threads.
            total = totals.sum(axis=0)
        if shorten is not None:
            w *= shorten[:, None]
        self.w, self.variances, self.covariance = np.ascontiguousarray(w), variances, total
        self.prior.update(w * w + variances)

    def state(self) -> dict[str, np.ndarray]:
        """Return network, averages, and the centers of the next statistics."""
        own = {"image": self._image, "hidden_mean": self.zeta, "visible_bound": np.array([self.visible_bound])}
        return super().state() | own

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        zeta, image = array_of(state, "hidden_mean", (self.n_hidden,)), array_of(state, "image", (self.n_visible,))
        (visible_bound,) = array_of(state, "visible_bound", (1,)).tolist()
        curvature, mean = (array_of(state, name) for name in ("curvature", "mean_image"))
        if not (visible_bound > 0 and curvature.min() > 0 and mean.min() > 0 and mean.max() < 1):
            raise ValueError("state: bound, curvature or mean image are out of their ranges")
        super().restore(state)
        self.zeta, self._image, self.visible_bound = zeta, image, visible_bound
        self._derive()


def quadratic_terms(
    w: np.ndarray, covariance: np.ndarray, c: np.ndarray, expansion: np.ndarray, curvature: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``gram`` and ``linear`` of `sbn_quadratic`.

    log p(y_j | psi) >= (y_j - sigmoid(e_j)) (psi - e_j) - kappa_j (psi - e_j)^2 / 2 + constant (Jaakkola: e_j = 0);
    with psi = w . z + c, r = c - e and kappa_j E[w_j w_j'] summed over j the coefficient of z_k is b_k + w_k . (y -
    sigmoid(e) - kappa r) - gram_kk / 2 - sum_{l != k} gram_kl z_l. ``covariance`` is the sum over j of kappa_j times
    the weights' posterior covariances.
    """
    gram = (w.T * curvature) @ w + covariance
    linear = b - w.T @ (expit(expansion) + curvature * (c - expansion)) - 0.5 * np.diag(gram)
    return np.ascontiguousarray(gram), np.ascontiguousarray(linear)


def denoised_energy(cross: np.ndarray, covariance: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute a_j' S^-1 a_j of each row without its noise.

    Taken off is the part that noise of ``variance`` in its entries adds on average. The second result is the factor
    that brings S^-1 a_j to the length that is left.
    """
    inverse = np.linalg.inv(covariance)
    raw = np.einsum("jk,jk->j", cross @ inverse, cross)
    energy = np.maximum(raw - variance * np.trace(inverse), 0.0)
    return energy, np.sqrt(energy / np.maximum(raw, 1e-300))


def common_curvature(energy: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Compute kappa_j of Jaakkola's bound at its best common t_j.

    See the notes of `SigmoidBeliefNetwork`. ``energy`` is a_j' S^-1 a_j; y_j's variance bounds it, so the root is at
    most 1/2.
    """
    root = np.sqrt(energy + (mean - 0.5) ** 2)
    t = 2.0 * np.arctanh(np.minimum(2.0 * root, 0.99999))
    return np.asarray(np.maximum(_LEAST_CURVATURE, pg_mean(t)))
