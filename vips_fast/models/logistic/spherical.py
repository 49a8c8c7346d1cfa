"""Logistic regression of many columns, from releases of gradients only: one number for each column."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ...engine.model import Model, Release, array_of, diagnose
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels.logistic import Rows, pg_mean
from ...mechanisms import GaussianMechanism
from .model import LogisticSettings, base_rate, unit_sums
from .records import row_products

#: What the bound of a row's contribution, and of a unit's, is multiplied with before anything is truncated.
ROW_MARGIN, UNIT_MARGIN = 1 - 2.0**-20, 1 - 2.0**-21
#: Largest number of columns: rounding errors of a norm then stay far below the margins.
MAX_COLUMNS = 2**24
#: Largest step over 1 / (n R^2 / 4), which is safe for any rows; and the farthest it may bring a logit, beside noise.
LONGEST, REACH = 256.0, 40.0
#: Standard deviation that the noise of all steps may bring to the logit of a row at its bound.
LOGIT_NOISE = 1.5
#: Weights of the average: step t has one in proportion to t^3 (Shamir & Zhang 2013, polynomial decay).
DECAY = 3.0


class SphericalModel(Model):
    """First-order variational inference, q(m) = N(mean, v I), from noised sums of one entry for each entry of m.

    The Polya-Gamma variable of a record has E[xi] = tanh(c/2) / (2c) and c^2 = E[(x . m)^2] = (x . m0)^2 + v |x|^2
    (Eq. 50 of Park et al. 2020). The gradient of the bound with respect to the mean of q(m) at m0 is sum_n s_n -
    <alpha> m0, with s = (y - 1/2 - E[xi] x . m0) x (Eqs. 47-49). Only sum_n s_n is released, and the mean moves along
    it. The variance v of q(m) is that which the noise has brought to each coefficient; <alpha> stays at its prior mean.

    Notes
    -----
    *Clip.* A row x beyond the bound R is scaled down to it, x'. Its residual r = y - 1/2 - E[xi] x' . m0 has |r| <= e =
    1/2 + E[xi] |x' . m0|, whatever its label is. Its weight is w = min(1, C/e), C = 1/2: without labels, so that the
    likelihood is not biased. The contribution is w r x' / (C R), of a norm of at most 1 = ``clip``.

    *Sensitivity.* In real numbers |w r| |x'| <= C R. Each stored entry of the contribution is computed in float64,
    multiplied with 1 - 2^-20, divided by the lattice's spacing g (a power of two) and truncated toward zero, which
    makes no entry larger. The square |x|^2 is a sum of k <= 2^24 terms >= 0, with a relative error of at most (k + 1)
    2^-53 <= 2^-28. The other operations, fewer than 16, add 2^-49. (E[xi] |x . m0| is the same number in e and in r up
    to its sign, so no error in it matters. If r is not finite, the contribution is zero.) So the integers have a norm
    of at most (1 - 2^-20) (1 + 2^-27) / g < 1 / g. Adding or removing a record moves the exact sum by at most 1,
    replacing one by at most 2. Opposite rows of one label reach it but for the margin.

    *Units of several rows.* The integers of a unit's rows are added exactly. The sum Q is multiplied with u <= min(1,
    (1 - 2^-21) / (g |Q|)) and truncated again. The result is a function of only the unit, with a norm of at most 1 / g
    by the same count of roundings. So every claim about a record holds for a unit, whatever the number of its rows.
    In the first step u is 1/m for m rows: the base rate is that of persons. Later it brings the sum of w e |x'| to the
    clip, which is at least |Q| but for truncation, so that no label enters it. (By |Q| alone rows that agree on a rare
    label were scaled down more than others: of 5 %, 3 % were predicted.)

    *Purity.* Sums over the entries of a row are taken one after the other in their order (`row_products`), and all
    else is elementwise. So a contribution has the same bits in any block.

    *Step.* After the first release, which gives the weight of the constant (the base rate), m moves by eta times the
    gradient. The noise brings a variance of about T eta^2 sd^2 to each coefficient in T steps. And eta is such that its
    root, times R, is `LOGIT_NOISE`, but at most `LONGEST` / (n R^2 / 4). It is halved if a release's inner product
    with the one before is negative by three standard deviations of its noise: steps too long for the rows' curvature
    end. `REACH` bounds how far they go until then, since gradients far away are too small to come back. The published
    mean is the average of the path with weights in proportion to t^3. All this is post-processing.
    """

    #: The arrays of a state, and the attributes that hold them.
    kept: ClassVar[dict[str, str]] = {"weights": "_mean", "point": "_point", "last": "_last"}
    at_root = ("_mean", "_last")

    def __init__(self, public: Public, settings: LogisticSettings):
        constant, private, options = settings.constant, settings.private, settings.options
        self._n, self._d = public.n_records, public.n_features + (constant > 0)
        self._n_steps, self._private, self._constant = settings.n_steps, private, constant
        self.shape, self.clip = (self._d,), 1.0
        self._bound = math.hypot(settings.row_norm, constant) if private else (public.scale or 1.0) * (1 + 1e-12)
        self._residual = 0.5 if private else 1.0
        self._prior = float(options.prior_shape), float(options.prior_rate)
        self._mean, self._point, self._last = np.zeros(self._d), np.zeros(self._d), np.zeros(self._d)
        # Variance of the noise in a coefficient of the point and of the mean, and their covariance.
        self._variance = self._mean_variance = self._shared = 0.0
        self._step, self._halvings = 0, 0

    def signal(self, noise: float) -> float:
        """Compute the mean gradient's entry if all rows agree, over its noise.

        ``noise`` is the sd in an entry of the mean of the steps' sums of contributions.
        """
        length = math.sqrt(max(self._bound**2 - self._constant**2, 0.0))
        return self._n * length / (4 * self._residual * self._bound * noise)

    def sensitivity(self, relation: str) -> float:
        """Return the clip to add or remove, twice that to replace."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        self._spacing = mechanism.spacing

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """See `Model.contribute`; ``block`` is a `vips_fast.kernels.logistic.Rows` or units of them."""
        block, _, starts = unpack_block(block, words)
        # What is not finite becomes zero, silently: a warning would tell of the record.
        with np.errstate(all="ignore"):
            factors, most, clipped = self._factors(block)
            sums = sparse.csr_array(unit_sums(block, starts, factors))
            if self._private and starts is not None and (np.diff(starts) > 1).any():
                bounds = unit_sums(block._replace(values=np.abs(block.values)), starts, most)
                share = 1 / np.maximum(np.diff(starts), 1) if self._step == 0 and self._constant else self._room(bounds)
                share = np.repeat(np.minimum(share, self._room(sums)), np.diff(sums.indptr))
                sums.data = np.trunc(sums.data * share).astype(np.int64)
        np.add.at(out, sums.indices, sums.data)
        diagnose(scratch, clipped=clipped)

    def _factors(self, block: Rows) -> tuple[np.ndarray, np.ndarray, int]:
        """Compute the factors of rows on the lattice, and the most they are by any label, (n,). Count short rows."""
        norm, (logit,) = row_products(block, self._point[None])
        shrink = np.minimum(1.0, self._bound / norm) if self._private else np.ones(len(norm))
        logit = logit * shrink
        xi = pg_mean(np.sqrt(logit * logit + self._variance * (shrink * norm) ** 2))
        # Without overflow E[xi] |logit| <= 1/2.
        half = xi * np.abs(logit)
        residual = block.y - (0.5 + np.copysign(half, logit))
        weight = np.minimum(1.0, self._residual / np.maximum(0.5 + half, np.abs(residual)))
        both = weight * np.array([residual, 0.5 + half]) * shrink / (self._residual * self._bound)
        both *= ROW_MARGIN / self._spacing
        factors, most = np.where(np.isfinite(norm + both[0]), both, 0.0)
        return factors, most, int((weight < 1).sum())

    def _room(self, sums: Any) -> np.ndarray:
        """Compute what brings sums, the rows of a matrix, to the clip."""
        square = np.maximum(sparse.csr_array(sums, dtype=float).power(2).sum(axis=1), 1.0)
        return np.asarray(np.minimum(1.0, UNIT_MARGIN * self.clip / self._spacing / np.sqrt(square)))

    def update(self, release: Release) -> None:
        unit = self._n * self._residual * self._bound
        gradient, sd = release.values * unit, release.noise_sd * unit
        if self._step == 0 and self._constant:
            # All logits are 0 then, and so the weights min(1, 2 C).
            unit = self._n * self._constant * min(1.0, 2 * self._residual)
            self._point = base_rate(self._constant, self._d, unit, float(gradient[-1]), sd)
            self._mean, self._step = self._point.copy(), 1
            return
        alpha, last = self._prior[0] / self._prior[1], self._last
        slack = 3 * sd * math.sqrt(gradient @ gradient + last @ last)
        if last.any() and gradient @ last < -slack:
            self._halvings += 1
        longest = LONGEST / (self._n * self._bound**2 / 4 + alpha)
        noise = self._bound * math.sqrt(self._n_steps) * sd
        rate = min(longest, LOGIT_NOISE / noise if noise > 0 else math.inf, 1 / alpha) * 0.5**self._halvings
        way = self._bound * math.sqrt(max(float(gradient @ gradient) - self._d * sd**2, 0.0))
        rate = min(rate, REACH / max(way, 1e-300))
        decay, self._last = 1 - rate * alpha, gradient
        self._point = decay * self._point + rate * gradient
        self._variance = decay**2 * self._variance + (rate * sd) ** 2
        self._shared *= decay
        # The weights of the average as a recursion, and their effect on the noise.
        t = self._step + (self._constant == 0)
        new = min(1.0, (DECAY + 1) / (t + DECAY))
        self._mean = self._mean + new * (self._point - self._mean)
        self._mean_variance = (
            (1 - new) ** 2 * self._mean_variance + 2 * new * (1 - new) * self._shared + new**2 * self._variance
        )
        self._shared = (1 - new) * self._shared + new * self._variance
        self._step += 1

    def state(self) -> dict[str, np.ndarray]:
        law = np.array([self._step, self._halvings, self._variance, self._mean_variance, self._shared], dtype=float)
        return {"law": law, **{name: getattr(self, attribute).copy() for name, attribute in self.kept.items()}}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        law = array_of(state, "law", (5,)).tolist()
        if min(law) < 0 or law[0] != int(law[0]) or law[1] != int(law[1]) or law[1] > 1000:
            raise ValueError("state: 'law' is out of its range")
        arrays = {a: array_of(state, name, self.shape) for name, a in self.kept.items()}
        self._step, self._halvings = int(law[0]), int(law[1])
        self._variance, self._mean_variance, self._shared = law[2:]
        vars(self).update(arrays)

    def result(self) -> dict[str, np.ndarray]:
        """Mean of q(m), its variance, and alpha's shape and rate."""
        return {"weights": self._mean, "covariance": np.array([self._mean_variance]), "prior": np.array(self._prior)}
