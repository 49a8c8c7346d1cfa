"""Private sigmoid belief networks: parameters, read-outs, E-step, clip, sensitivity, M-step.

`SigmoidBeliefNetwork` is the estimator and `QuadraticModel` the algorithm. The article's Algorithm 6, with a curvature
for each record, stays near the mean image under privacy; `bench/peers/vips.py` runs it for comparison.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, Unpack, cast

import numpy as np
from scipy.special import expit, logit, ndtri

from ...checks import check_flag, check_memory, check_number, public_seed
from ...data.arrays import binary_records, select
from ...data.frames import to_frame
from ...data.shards import ShardedCorpus
from ...data.types import Bits, Data, Matrix, RandomState, Vector
from ...engine.backend import ACCUMULATOR_BYTES
from ...engine.model import Model, Release, RunningAverage, Schedule, array_of, diagnose, reuse, steps_of
from ...engine.plan import RunForecast, RunSchedule
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import Selection, unpack_block
from ...kernels import native, pg_mean
from ...kernels.psd import diagonals, floor_spectrum, psd_project
from ...kernels.sbn import record_blocks, sbn_pg, sbn_quadratic, workspaces
from ...kernels.threads import one_blas_thread, resolve_n_threads, run_blocks
from ...mechanisms import Fraction, GaussianMechanism, rounded
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import by_signal, noise_of_mean
from ..parameters import Bookkeeping, Call, Options
from ..readouts import Published, Transformer, by_pieces, kept
from .score import BLOCK, PixelPrediction

Scratch = dict[str, Any]  #: Buffers of one thread.
Sums = dict[str, np.ndarray]  #: Sums of each block.
OfRows = np.ndarray | None  #: An entry for each row, or none.
Normal = tuple[np.ndarray, np.ndarray]  #: Thresholds and a factor; see `thresholded_normal`.

#: Visible units whose K x K systems are solved at a time.
BLOCK_SOLVE = 32

#: Limits of a network's signal: no run below the first gained 1 % over shares of columns, most from the second on
#: gained 2 %.
_LEAST_SIGNAL, _ENOUGH_SIGNAL = 4.0, 10.0

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

#: Bounds of two norms. That of z - E[z] is in units of sqrt(K) / 2 (reached by z in {0, 1} around 1/2). The one of
#: y - E[y] is in units of the root mean square sqrt(sum_j m_j (1 - m_j)) that the released mean image m implies. A
#: record's contribution is scaled to them.
LATENT_CLIP, VISIBLE_CLIP = 0.9, 1.15

#: Step sizes 1, 1, 1/2, 1/3, … after the mean image: the first update, made with random weights, is forgotten.
_RATE = Schedule(0.0, 1.0)

#: Sweeps of the read-outs, which start afresh and are not part of a release.
READ_SWEEPS = 12

#: Records whose Polya-Gamma means are in memory at a time.
_SCORED = 4096

#: Correlations of hidden units stay within the first, and the eigenvalues of their normals' matrix above the second.
_WIDEST, _LEAST_EIGENVALUE = 0.99, 1e-3


@dataclass(frozen=True)
class NetworkOptions(Options):
    """Numerics of a belief network, which few fits need to change.

    Parameters
    ----------
    n_sweeps : int
        Sweeps of the mean-field update of q(z), each from the same public start.
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished network in place of improving it. Then
        ``found_gain_`` says how well half of a record's columns predict the other half. It costs no epsilon. None
        measures runs of at least 10 steps.
    """

    n_sweeps: int = 4
    measure_gain: bool | None = None

    def check(self) -> None:
        """Raise a ValueError for a number out of its range."""
        check_number("n_sweeps", self.n_sweeps, 1, 2**31 - 1, integer=True)
        check_flag("measure_gain", self.measure_gain, optional=True)


class NetworkEstimator(PrivateEstimator):
    """Parameters and binary records that all estimators of belief networks share."""

    _options_type: ClassVar[type] = NetworkOptions

    n_components: int

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        super()._check_parameters()
        check_number("n_steps", self.n_steps, 2, 2**31, integer=True)  # the mean image and one step more
        self._options.check()

    def _records(
        self, Y: Any, n_features: int | None = None, invalid: str = "raise", least_rows: int = 1
    ) -> tuple[np.ndarray, np.ndarray | None]:
        expected_by = type(self).__name__
        return binary_records(Y, n_features, name="Y", invalid=invalid, expected_by=expected_by, least_rows=least_rows)

    def _rows(self, Y: Any) -> tuple[Any, np.ndarray | None]:
        """Read rows of an array or of shards, and which can contribute."""
        if not isinstance(Y, ShardedCorpus):
            return self._records(Y, invalid=self._options.invalid, least_rows=0)
        if Y.kind != "binary":
            raise ValueError(f"Y: shards of {Y.kind}: expected binary records")
        usable = Y.usable
        if usable is not None and self._options.invalid == "raise":
            raise ValueError("Y: expected rows that were all usable when the shards were written")
        return Y, usable

    def _network_settings(self, public: Public, schedule: RunSchedule | None, joint: bool = False) -> Settings:
        """Take the settings of a model; refuse, before anything is spent, one that the machine cannot hold."""
        J, K, threads = public.n_features, int(self.n_components), resolve_n_threads(self.n_jobs)
        classes = 1 if public.classes is None else len(public.classes)
        # Sums, release, averages, priors and their state; the systems that threads solve; each thread's sums.
        entries = classes * (J * (K + 2) + K * K)
        need = 8 * (12 * entries + 4 * threads * BLOCK_SOLVE * K * K)
        need += max(8 * entries, min(8 * threads * entries, ACCUMULATOR_BYTES))
        what = f"{J} visible units" + (f" and {classes} classes" if classes > 1 else "")
        text = f"n_components={K}: the statistics of {what} need about {need / 2**30:.0f} GiB with {threads} threads"
        check_memory(text, need, "; expected fewer components or threads")
        mean_steps = max(1, self._steps_of(schedule) // 10)
        return Settings(K, int(self._options.n_sweeps), bool(self.private), threads, joint, mean_steps)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        if not self.private or not schedule.noise_multiplier:
            return None
        n_steps = schedule.n_steps - schedule.measured - max(1, schedule.horizon // 10)
        if n_steps < 1:
            return None
        noise = noise_of_mean(schedule, model, _RATE, n_steps)
        # A hidden unit has its part of a record's norm, and the noise's largest singular value stands against it.
        J, K = public.n_features, int(self.n_components)
        classes = 1 if public.classes is None else len(public.classes)
        signal = 1.0 / (noise * classes * math.sqrt(K) * (math.sqrt(J) + math.sqrt(K)))
        return by_signal(signal, _LEAST_SIGNAL, _ENOUGH_SIGNAL, "hidden causes of columns")

    def _networks(self) -> Sequence[Mapping[str, np.ndarray]]:
        """Select the arrays of each network."""
        return [self._fitted().arrays]

    def _record_bounds(self, Y: Any) -> list[Vector]:
        """Compute `record_bounds` of the rows of Y under each network."""
        rows, _ = self._records(self._held(Y), self.n_features_in_)
        return [record_bounds(rows, one, resolve_n_threads(self.n_jobs)) for one in self._networks()]

    @kept
    def _hidden_normals(self) -> list[Normal]:
        """Compute `thresholded_normal` of each network's hidden units."""
        return [thresholded_normal(expit(one["hidden_bias"]), one["hidden_covariance"]) for one in self._networks()]


@dataclass(kw_only=True, repr=False, eq=False)
class SigmoidBeliefNetwork(NetworkEstimator, Transformer):
    """Sigmoid belief network with one hidden layer whose parameters may be published.

    z_k ~ Bern(sigmoid(b_k)), y_j ~ Bern(sigmoid(w_j . z + c_j)), fitted by variational Bayes. Each record's
    expected sufficient statistics are clipped, summed exactly and released with Gaussian noise, in one draw a step.
    Everything after that is post-processing (Park et al. 2020, section 7). The
    weights have a standard normal prior: the shrinkage of appendix 5 moves pixel accuracy by less than .0001, and the
    accuracy of classifiers of samples by half a percent at epsilon .5, by nothing at 1.

    Parameters
    ----------
    n_components : int
        Number of hidden units K.
    n_steps : int
        Releases, at least 2. The first max(1, n_steps // 10) of them release the mean image only.
    options : NetworkOptions, dict or None
        The rest of the numerics; None takes the defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    A step releases, in one draw, sum_n (v_n, (y_n - m) x v_n, upper off-diagonal of v_n v_n') with v_n the clipped z_n
    - zeta; m and zeta are the released means of y and z, so their use costs nothing. The diagonal of E[z z'] is E[z]
    and is not released twice. `QuadraticModel` has the proof of the sensitivity, and of the part that
    rounding adds.

    The lower bound of the logistic likelihood is that of Jaakkola & Jordan (2000), which is also the paper's
    Polya-Gamma bound. It has one curvature for each visible unit, common to all records, so that the K x K matrices of
    all visible units are one. Let S be the released covariance of z, a_j the covariance of y_j and z, and m_j the mean
    of y_j. The bound is largest at w_j = S^-1 a_j / kappa_j, E[psi_j] = (m_j - 1/2) / kappa_j and t_j^2 = E[psi_j^2],
    kappa_j = tanh(t_j / 2) / (2 t_j). Then t_j kappa_j = (a_j' S^-1 a_j + (m_j - 1/2)^2)^(1/2), so that t_j = 2 artanh
    of twice that root. The noise's part of a_j' S^-1 a_j, which is known on average, is taken off, and w_j is shortened
    to the length that is left.

    Columns that never vary are ordinary data. ``components_`` are the posterior means of the weights, (K, J).

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import SigmoidBeliefNetwork
    >>> images = np.random.default_rng(0).integers(0, 2, (200, 9))
    >>> model = SigmoidBeliefNetwork(2, epsilon=5.0, n_steps=3).fit(images)
    >>> model.components_.shape, model.sample(4, random_state=0).shape
    ((2, 9), (4, 9))
    >>> model.transform(images).shape, model.reconstruct(images).shape
    ((200, 2), (200, 9))
    >>> bool(model.score(images) < 0)
    True

    One step at a time, with the given noise.

    >>> SigmoidBeliefNetwork(2, noise_multiplier=9.0).partial_fit(images).n_steps_
    1
    """

    n_components: int = field(default=50, kw_only=False)
    n_steps: int | None = 10

    def fit(self, Y: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit to binary records.

        Y, an array of shape (n, J) or a ShardedCorpus, has entries 0 and 1 (or booleans), one record a row. ``y`` is
        ignored. `vips_fast.models.parameters.Bookkeeping` has the keywords. Raises ValueError or MemoryError if a
        parameter or the data are out of range, or the run would pass ``epsilon``. It also does so if the statistics
        would not fit the memory. Nothing is spent then.
        """
        return self._fit(Y, y, **call)

    def partial_fit(self, Y: Data, y: object = None, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of Y, as in `fit`. The parameters are as there."""
        return self._fit(Y, y, partial=True, **call)

    def _read(self, X: Any, y: Any = None) -> tuple[BinaryRecords, dict[str, Any]]:
        rows, usable = self._rows(X)
        return BinaryRecords(rows, usable, BLOCK, resolve_n_threads(self.n_jobs)), {"n_features": rows.shape[1]}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        return QuadraticModel(self._network_settings(public, schedule, public.unit != "record"), public)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return QuadraticModel.specs(public.n_features, int(self.n_components))

    hidden_bias_ = Published[Vector]("hidden_bias", "b, shape (K,).")
    visible_bias_ = Published[Vector]("visible_bias", "c, shape (J,).")
    mean_image_ = Published[Vector]("mean_image", "Mean of the records by the first releases, shape (J,).")

    def transform(self, Y: Data) -> Matrix:
        """Compute q(z_k = 1) of records, float64, shape (n, K). Publish them only if Y, (n, J), may be published."""
        self._fitted()
        return cast(Matrix, to_frame(self, self._latent(self._held(Y)), Y))

    @by_pieces(np.concatenate)
    def _latent(self, Y: Any) -> np.ndarray:
        arrays, weights, (rows, _) = self._fitted().arrays, self.components_.T, self._records(Y, self.n_features_in_)
        names = ("weight_covariance", "visible_bias", "curvature", "hidden_bias")
        terms, start = quadratic_terms(weights, *(arrays[name] for name in names)), expit(self.hidden_bias_)
        n_threads = resolve_n_threads(self.n_jobs)
        return sbn_quadratic(rows, weights, *terms, start, n_sweeps=READ_SWEEPS, n_threads=n_threads)

    def reconstruct(self, Y: Data) -> Matrix:
        """Compute sigmoid(E[w_j] . E[z] + E[c_j]), (n, J), with each record's own E[z]."""
        return np.asarray(expit(np.asarray(self.transform(Y)) @ self.components_ + self.visible_bias_))

    @by_pieces(sum)
    def score(self, Y: Data, y: object = None) -> float:
        """Compute the variational lower bound of log p(Y), in nats: a sum over public records, without noise.

        It is the Polya-Gamma bound at its best xi, log p(y_j | psi_j) >= (y_j - 1/2) E[psi_j] - log(2 cosh(t_j / 2)),
        t_j^2 = E[psi_j^2], less the divergence of q(z) from its prior. Parameters are at their posterior mean and
        variance.
        """
        return float(self._record_bounds(Y)[0].sum())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Bits:
        """Draw records from the model, uint8, shape (n_samples, J); ``random_state`` seeds the draws.

        Hidden units have their released means and covariance, nearly, by normals cut at thresholds. The model's prior
        would draw them independently, which the records' own q(z) are not.
        """
        n_samples = check_number("n_samples", n_samples, 0, 2**40, integer=True)
        generator = np.random.default_rng(public_seed(random_state))
        return drawn(self._fitted().arrays, self._hidden_normals()[0], n_samples, generator)


# --------------------------------------------------------------------------------------- the algorithm


@dataclass(frozen=True)
class Settings:
    """Settings that a model takes from its estimator."""

    n_hidden: int
    n_sweeps: int
    private: bool
    n_threads: int
    joint: bool  # whether a unit contributes several rows together
    mean_steps: int  # first releases, which are of the mean image only


def share_after_rounding(model: Model, mechanism: GaussianMechanism) -> float:
    """Compute the factor retained of `QuadraticModel`."""
    slack = 1.001 * math.sqrt(model.shape[0]) * mechanism.spacing
    if slack > 0.5 * model.clip:
        noise, lost = mechanism.noise_multiplier, slack / model.clip
        raise ValueError(
            f"noise_multiplier={noise:.4g}: too large for {model.shape[0]} statistics, whose rounding would take "
            f"{lost:.0%} of a contribution; expected at most 50 %: less noise a step, or fewer components"
        )
    return 1.0 - slack / model.clip


def row_weights(starts: np.ndarray | None) -> np.ndarray | None:
    """Weigh each row of a unit of m rows by 1/m. None if m is always 1."""
    sizes = np.diff([0] if starts is None else starts)
    if sizes.max(initial=0) <= 1:
        return None
    return 1.0 / np.repeat(sizes, sizes)


class QuadraticModel(Model):
    """Jaakkola's bound: the mean image first, then statistics about the released means.

    Notes
    -----
    *Fine integers.* A record contributes 2 y_n - 1 in the first steps. Afterwards, with
    v_n the clipped and truncated z_n - zeta as integers, v_n, y_n x v_n and the upper
    off-diagonal of v_n v_n'. These are plain sums, so any split of the records gives the
    same. The center of y is taken off in `round`: sum_n (y_n - m) x v_n = sum_n y_n x v_n
    - m x sum_n v_n, in integers, as m is a multiple of 2^-12.

    *Rounding.* A block of the statistic is a multiplier times the value of its fine integers. The multipliers hold the
    factor retained = 1 - slack / clip. The slack is a little more than sqrt(d) g for d entries on a lattice of spacing
    g. Let D be the distance that neighbors could reach without that factor: `sensitivity`, at least ``clip``. Sums of
    neighbors are then at most retained D apart, whatever the records, since the factor shrinks every contribution and
    not only clipped ones. Each is rounded once, exactly, from its exact fine sum: in each coordinate the distance grows
    by at most one lattice unit. So the rounded sums are at most retained D + sqrt(d) g <= D - slack + sqrt(d) g <= D
    apart. Slack passes sqrt(d) g by a thousandth, and g is at least 2^-31 of the clip. That is far more than the error
    of the multipliers in double precision. As the multipliers are rounded *down* to fractions p / 2^k, the statistics
    read back are divided by those fractions themselves.

    *Units of several rows.* Sums are read as means per unit. In the first steps each of a unit's m rows weighs 1/m,
    so that the unit contributes the mean of its rows' contributions as records: a point of the convex hull of
    records' contributions, with no norm and no distance of two points larger than among records. The weight enters
    before truncation, which makes no norm larger; its own rounding, below 2^-52, is covered by the thousandth of
    slack. Afterwards a unit contributes t times the sum of its m rows' blocks, 0 < t <= 1. They are trunc(t v_r),
    y_r x trunc(t v_r) and w_r w_r', w_r = trunc(sqrt(t) v_r). In the first entries of the block of the first steps,
    which is idle by then, stands t m - 1 if that is positive. So the M-step can divide by how many rows the sums
    hold. The factor t is the largest that keeps the joint norm at ``keep``. Without several rows it is 1, and
    nothing is there. The norm comes from inner products: with G_rs = v_r . v_s and H_rs = (y_r - m) . (y_s - m) the
    blocks' squares are sum G, sum G H and (sum G^2 - sum_k (sum_r v_rk^2)^2) / 2. It is computed anew for the
    truncated integers. G and H are integers below 2^53 (m is a multiple of 2^-12), exact in any order. Their sums
    are pairwise within 512 x 512 blocks. For fewer than 2^20 rows the errors are below 2^-30 of the sum of the
    terms' sizes. That is at most (sum_r |v_r|)^2 for G and J times that for G H. 2^-30 of it is added, and for the
    squares the factor 1 + 2^-20 is more than enough.

    *Capacity.* |v_nk| <= 2^20, so no entry of a record passes 2^40 in the products v_nk v_nl, nor 2^32 in those of y_n
    and v_n about the center. So 2^22 records stay within 2^62. A unit of several rows may put all its norm in one
    block, which is 1 / 0.15 times the part of a record there. So the capacity is 2^19 of them.

    *Sensitivity.* The first steps' block is (2 y - 1) / sqrt(J), of norm 1. Afterwards ||v_n|| <= C_z min(1, C_y /
    ||y_n - m||) bounds the blocks by C_z, C_z C_y and C_z^2 sqrt((1 - 1/K) / 2), the last because the strict upper
    triangle of v v' has half of ||v||^4 - sum_k v_k^4, and sum_k v_k^4 >= ||v||^4 / K. Each is divided by its bound,
    times its share, and the whole by the root of the sum of squared shares: norm 1. So adding or removing a record
    moves the sum by at most 1, replacing one by at most 2 (entries have signs).
    """

    clip = 1.0
    capacity = 2**22
    #: Released probabilities stay this far from 0 and 1.
    least_pixel, least_hidden = 1e-3, 0.02
    at_root = ("start_weights", "_average", "variances", "covariance", "_image")
    #: The published arrays' attributes, shapes and ranges; of the first two the axes are turned.
    published: ClassVar[dict[str, tuple[str, str, float, float]]] = {
        "components": ("w", "KJ", -math.inf, math.inf),
        "weight_variances": ("variances", "KJ", 0.0, math.inf),
        "weight_covariance": ("covariance", "KK", -math.inf, math.inf),
        "hidden_bias": ("b", "K", -math.inf, math.inf),
        "hidden_covariance": ("hidden_covariance", "KK", -0.25, 0.25),
        "visible_bias": ("c", "J", -math.inf, math.inf),
        "curvature": ("curvature", "J", 0.0, 0.25),
        "mean_image": ("mean_image", "J", 0.0, 1.0),
    }

    def __init__(self, settings: Settings, public: Public):
        J, K = public.n_features, settings.n_hidden
        self.settings = settings
        self.n_visible, self.n_hidden, self.n_records = J, K, public.n_records
        self._average = RunningAverage(np.zeros(K + J * K + K * K))
        self.step, self.mean_steps = 0, settings.mean_steps
        #: Where each block of the statistic lies.
        self.blocks: dict[str, slice] = {}
        first = 0
        for name, size in dict(image=J, mean=K, cross=J * K, covariance=K * (K - 1) // 2).items():
            self.blocks[name] = slice(first, first + size)
            first += size
        self.shape = (first,)
        self.start_weights = np.random.default_rng(public.seed).standard_normal((J, K))
        self.retained, self.spacing = 1.0, 1.0
        # Entries of the first block that say, afterwards, how many rows the sums hold.
        self._counting = -(-J // _COUNTED) if settings.joint and settings.private else 0
        if self._counting:
            self.capacity = 2**19
        self._image = np.zeros(J)
        # If nothing is clipped, bounds that no record passes set the grid.
        self.latent_bound, self.visible_bound = math.sqrt(K), math.sqrt(J)
        if settings.private:
            self.latent_bound = LATENT_CLIP * math.sqrt(K) / 2
        self._begin(np.full(J, 0.5), math.sqrt(J) / 2)

    def _begin(self, mean: np.ndarray, spread: float) -> None:
        """Make the public start of the network for a mean image."""
        J, K = self.n_visible, self.n_hidden
        self.mean_image = mean
        self.curvature = common_curvature(np.zeros(J), mean)
        if self.settings.private:
            self.visible_bound = VISIBLE_CLIP * spread
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
        """Compute the E-step's tables for the weights of a ``share`` of the visible units; others are 0."""
        return quadratic_terms(w, self.covariance * share, self.c, self.curvature, self.b)

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
        """Return a fine integer's value in natural units: a power of two, relative only to the bound of z - E[z]."""
        if name == "image":
            return 2.0**-IMAGE_BITS
        latent = math.ldexp(1.0, math.frexp(self.latent_bound)[1] - _LATENT_BITS)
        return {"mean": latent, "cross": math.ldexp(latent, -_CENTER_BITS), "covariance": latent * latent}[name]

    def multiplier(self, name: str) -> float:
        """Return the statistic that one natural unit of a block gives: its share over its bound."""
        if name == "image":
            return self.retained / math.sqrt(self.n_visible)
        # The covariance is empty for K = 1, where any bound will do.
        C, half = self.latent_bound, math.sqrt(0.5 * (1 - 1 / max(self.n_hidden, 2)))
        bound = {"mean": C, "cross": C * self.visible_bound, "covariance": C * C * half}[name]
        return _SHARES[name] * self.retained / math.sqrt(sum(share**2 for share in _SHARES.values())) / bound

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Lower the bounds by the error of rounding to the lattice."""
        self.retained, self.spacing = share_after_rounding(self, mechanism), mechanism.spacing

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Round exact sums, of y x v about the center of y, times their multipliers to the lattice."""
        parts = {name: fine[place] for name, place in self.blocks.items()}
        cross = parts["cross"].reshape(self.n_visible, self.n_hidden) * (1 << _CENTER_BITS)
        parts["cross"] = (cross - self._center_units[:, None] * parts["mean"]).reshape(-1)
        out = np.zeros(self.shape, dtype=np.int64)
        for name, place in self.blocks.items():
            out[place] = rounded(parts[name], self._fraction(name, spacing))
        return out

    def _fraction(self, name: str, spacing: float) -> Fraction:
        return Fraction.below(self.multiplier(name) * self.unit(name) / spacing)

    def exact_multiplier(self, name: str) -> float:
        """Find the fraction just below `multiplier` that `round` uses."""
        return self._fraction(name, self.spacing).value * (self.spacing / self.unit(name))

    def read(self, release: Release, name: str) -> np.ndarray:
        """Compute a block's noised mean per record, in natural units."""
        return release.units[self.blocks[name]] * (release.scale / self.exact_multiplier(name))

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: Scratch) -> None:
        """Add 2 y - 1, or sums of products. The products are of y and the clipped z - zeta."""
        rows, _, starts = unpack_block(block, words)
        self.add_rows(rows, starts, row_weights(starts), out, scratch)

    def add_rows(self, rows: np.ndarray, starts: OfRows, weights: OfRows, out: np.ndarray, scratch: Scratch) -> None:
        """Contribute rows, each times its weight; or times its unit's share, if several rows are clipped jointly."""
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
        area = reuse(scratch, "quadratic", workspaces, "quadratic", J, K, 1)[0]
        z, v = (a[:n] for a in reuse(scratch, "latent", np.empty, (2, BLOCK, K)))
        norms, lengths = (a[:n] for a in reuse(scratch, "norms", np.empty, (2, BLOCK)))
        native.sbn_quadratic(y, self.w, self._gram, self._linear, self._z_start, self.settings.n_sweeps, area, z)
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
        native.sbn_gram(roots, reuse(scratch, "gram", workspaces, "gram", J, K, 1)[0], sums["covariance"])

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
        """Estimate the mean image, (J,), from a noised release. Shares that the noise hides are alike."""
        middle, apart = float(self._image.mean()), max(float(self._image.var()) - sd * sd, 0.0)
        trusted = apart / (apart + sd * sd) if sd > 0 else 1.0
        shares = middle + trusted * (self._image - middle)
        return np.clip(shares, self.least_pixel, 1 - self.least_pixel)

    def _mean_log_odds(self) -> np.ndarray:
        """E[psi_j] where the bound's slope in c_j is zero."""
        return np.asarray((self.mean_image - 0.5) / self.curvature)

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
        rate = _RATE.rate(self.step - self.mean_steps) if self._average.initial_weight < 1 else 1.0
        # Its noise is the one of an entry of the covariance.
        noise_sd = release.noise_sd / self.exact_multiplier("covariance") / held
        self._average.add_values(fresh, Release(release.step, release.units, release.scale, noise_sd), rate)
        mean, cross, covariance = np.split(self._average.values, [K, K + J * K])
        cross, variance = cross.reshape(J, K), self._average.noise_sd**2
        # The noise's own spectrum ends at 2 sqrt(K) sd (the semicircle law). Below that an eigenvalue says nothing, and
        # too small a one would blow W up.
        repaired = floor_spectrum(covariance.reshape(K, K), max(_LEAST_VARIANCE, 2 * math.sqrt(K * variance)))
        ratio = self.exact_multiplier("covariance") / self.exact_multiplier("cross")
        energy, shorten = denoised_energy(cross, repaired, variance * ratio**2)
        self.curvature = common_curvature(energy, self.mean_image)
        self._solve(cross, repaired, shorten)
        # The repair takes from the correlations and adds to the diagonal; the variances of z are known.
        scale = np.sqrt(mean * (1 - mean) / np.diag(repaired))
        self.hidden_covariance = np.clip(repaired * np.outer(scale, scale), -0.25, 0.25)
        self.zeta = mean.copy()
        self.b = logit(mean)
        self.c = self._mean_log_odds() - self.w @ mean

    def _solve(self, cross: np.ndarray, covariance: np.ndarray, shorten: np.ndarray) -> None:
        """Solve for q(W); with the center of z at its mean, c drops out. ``shorten`` scales each unit's weights."""
        n, curvature = self.n_records, self.curvature
        w, variances = np.empty_like(cross), np.empty_like(cross)
        blocks = record_blocks(self.n_visible, BLOCK_SOLVE)
        totals = np.empty((len(blocks), *covariance.shape))

        def work(block: int, worker: int) -> None:
            first, last = blocks[block]
            own = curvature[first:last, None, None]
            precision = n * own * covariance
            diagonals(precision)[...] += 1.0  # of the prior
            sigma = np.linalg.inv(precision)
            w[first:last] = n * np.matmul(sigma, cross[first:last, :, None])[:, :, 0]
            variances[first:last] = diagonals(sigma)
            totals[block] = (own * sigma).sum(axis=0)

        run_blocks(len(blocks), self.settings.n_threads, work)
        w *= shorten[:, None]
        # In the order of the blocks, so that the sum does not depend on the threads.
        self.w, self.variances, self.covariance = np.ascontiguousarray(w), variances, totals.sum(axis=0)

    @classmethod
    def specs(cls, n_visible: int, n_hidden: int) -> dict[str, ArraySpec]:
        """Return shape and range of each published array."""
        size = {"J": n_visible, "K": n_hidden}
        return {
            name: ArraySpec(tuple(size[axis] for axis in axes), low, high)
            for name, (_, axes, low, high) in cls.published.items()
        }

    def result(self) -> dict[str, np.ndarray]:
        arrays = {name: getattr(self, attribute) for name, (attribute, *_) in self.published.items()}
        return {name: np.ascontiguousarray(self._turned(name, array)) for name, array in arrays.items()}

    def _turned(self, name: str, array: np.ndarray) -> np.ndarray:
        return array.T if self.published[name][1] == "KJ" else array

    def state(self) -> dict[str, np.ndarray]:
        """Return all inputs of the next step: network, averages, and the centers of the next statistics."""
        own = {"image": self._image, "hidden_mean": self.zeta, "visible_bound": np.array([self.visible_bound])}
        averages = {**self._average.state(), "step": np.array([float(self.step)])}
        return {**self.result(), **averages, **own}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        step, arrays = steps_of(state), {}
        zeta, image = array_of(state, "hidden_mean", (self.n_hidden,)), array_of(state, "image", (self.n_visible,))
        (visible_bound,) = array_of(state, "visible_bound", (1,)).tolist()
        for name, spec in self.specs(self.n_visible, self.n_hidden).items():
            arrays[name] = array_of(state, name, spec.shape)
            if not spec.low <= arrays[name].min() <= arrays[name].max() <= spec.high:
                raise ValueError(f"state: {name!r} is out of its range")
        curvature, mean = arrays["curvature"], arrays["mean_image"]
        # No mean image has another bound; products with one, or with its inverse, could pass all doubles.
        bounded = 0.5 <= visible_bound <= 2 * math.sqrt(self.n_visible + 4)
        if not (bounded and curvature.min() > 0 and mean.min() > 0 and mean.max() < 1):
            raise ValueError("state: bound, curvature or mean image are out of their ranges")
        self._average.restore(state)
        for name, (attribute, *_) in self.published.items():
            setattr(self, attribute, np.ascontiguousarray(self._turned(name, arrays[name])))
        self.step, self.zeta, self._image, self.visible_bound = step, zeta, image, visible_bound
        self._derive()


def quadratic_terms(
    w: np.ndarray, covariance: np.ndarray, c: np.ndarray, curvature: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """``gram`` and ``linear`` of `sbn_quadratic`.

    log p(y_j | psi) >= (y_j - 1/2) psi - kappa_j psi^2 / 2 + constant. With psi = w . z + c and kappa_j E[w_j w_j']
    summed over j the coefficient of z_k is b_k + w_k . (y - 1/2 - kappa c) - gram_kk / 2 - sum_{l != k} gram_kl z_l.
    ``covariance`` is the sum over j of kappa_j times the weights' posterior covariances.
    """
    gram = (w.T * curvature) @ w + covariance
    linear = b - w.T @ (0.5 + curvature * c) - 0.5 * np.diag(gram)
    return np.ascontiguousarray(gram), np.ascontiguousarray(linear)


def denoised_energy(cross: np.ndarray, covariance: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute a_j' S^-1 a_j of each row, less what noise of ``variance`` in its entries adds on average.

    The second result is the factor that brings S^-1 a_j to the length that is left.
    """
    inverse = np.linalg.inv(covariance)
    raw = np.einsum("jk,jk->j", cross @ inverse, cross)
    energy = np.maximum(raw - variance * np.trace(inverse), 0.0)
    return energy, np.sqrt(energy / np.maximum(raw, 1e-300))


def common_curvature(energy: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Compute kappa_j of Jaakkola's bound at its best common t_j; see the notes of `SigmoidBeliefNetwork`.

    ``energy`` is a_j' S^-1 a_j; y_j's variance bounds it, so the root is at most 1/2.
    """
    root = np.sqrt(energy + (mean - 0.5) ** 2)
    t = 2.0 * np.arctanh(np.minimum(2.0 * root, 0.99999))
    return np.asarray(np.maximum(_LEAST_CURVATURE, pg_mean(t)))


# ------------------------------------------------------------------------------------------- read-outs


def record_bounds(Y: np.ndarray, arrays: Mapping[str, np.ndarray], n_threads: int) -> Vector:
    """Compute the lower bound of each record's log p(y), float64, (n,); see `SigmoidBeliefNetwork.score`."""
    w, variances, b, c = (arrays[name] for name in ("components", "weight_variances", "hidden_bias", "visible_bias"))
    parameters = w.T, w.T**2 + variances.T, c, np.zeros(len(c)), b, expit(b)
    log_on, log_off = -np.logaddexp(0.0, -b), -np.logaddexp(0.0, b)
    bounds = np.empty(len(Y))
    for first, last in record_blocks(len(Y), _SCORED):
        part = Y[first:last]
        z = sbn_pg(part, *parameters, n_sweeps=READ_SWEEPS, n_threads=n_threads).z
        psi = z @ w + c
        square = psi**2 + (z * (1 - z)) @ w**2 + z @ variances
        t = np.sqrt(np.maximum(square, 0.0))
        # log(2 cosh(t/2)) without overflow.
        likelihood = ((part - 0.5) * psi - t / 2 - np.log1p(np.exp(-t))).sum(axis=1)
        q, r = np.clip(z, 1e-300, 1.0), np.clip(1 - z, 1e-300, 1.0)
        prior = z * (np.log(q) - log_on) + (1 - z) * (np.log(r) - log_off)
        bounds[first:last] = likelihood - prior.sum(axis=1)
    return bounds


def thresholded_normal(mean: np.ndarray, covariance: np.ndarray) -> Normal:
    """Find thresholds h, (K,), and a factor L, (K, K), for binary variables with given moments.

    With standard normals u, z = (L u < h) has E[z] = ``mean``.
    Normals with correlation sin(pi r / 2) have signs with correlation r. Away from means of 1/2 that is close: in
    samples of digits, classifiers saw no difference to correlations that are found pair by pair. The matrix is made
    positive definite, which moves the covariances of z if they could not all be had together; the means stay.
    """
    K, sd = len(mean), np.sqrt(mean * (1 - mean))
    correlation = np.sin(0.5 * math.pi * np.clip(covariance / np.outer(sd, sd), -_WIDEST, _WIDEST))
    np.fill_diagonal(correlation, 1.0)
    with one_blas_thread(K):
        correlation = psd_project(0.5 * (correlation + correlation.T), _LEAST_EIGENVALUE)
        scale = 1.0 / np.sqrt(np.diag(correlation))
        return ndtri(mean), np.linalg.cholesky(correlation * np.outer(scale, scale))


def drawn(arrays: Mapping[str, np.ndarray], normal: Normal, n_samples: int, rng: np.random.Generator) -> Bits:
    """Draw records from a network and its hidden units' `thresholded_normal`: uint8, (n_samples, J)."""
    thresholds, factor = normal
    z = rng.standard_normal((n_samples, len(thresholds))) @ factor.T < thresholds
    chance = expit(z.astype(np.float64) @ arrays["components"] + arrays["visible_bias"])
    return np.asarray(rng.random(chance.shape) < chance, dtype=np.uint8)


# --------------------------------------------------------------------------------------------- records


class BinaryRecords:
    """Binary records as the engine takes them; see `vips_fast.engine.model.Records`.

    ``rows``, (n, J) uint8, is C-contiguous, or a `ShardedCorpus`. Blocks are of equal size, of at most ``block``
    records, and enough for all ``n_threads`` unless they were tiny. ``labels``, (n,) uint8, are a block's last column.
    """

    def __init__(
        self, rows: Any, usable: np.ndarray | None, block: int, n_threads: int, labels: np.ndarray | None = None
    ):
        self._rows, self.usable, self.n_rows = rows, usable, rows.shape[0]
        self._block, self._n_threads, self._labels = block, n_threads, labels

    def subset(self, rows: np.ndarray) -> BinaryRecords | Selection:
        if isinstance(self._rows, ShardedCorpus):
            return Selection(self, rows)
        usable, labels = (None if array is None else array[rows] for array in (self.usable, self._labels))
        return BinaryRecords(select(self._rows, rows), usable, self._block, self._n_threads, labels)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        n, threads = len(rows), self._n_threads
        blocks = -(-n // self._block)
        blocks = max(1, min(-(-blocks // threads) * threads, -(-n // 64)))
        return np.asarray(np.arange(blocks + 1) * n // blocks)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Select these records, by a view if they follow each other and have no labels."""
        shards = isinstance(self._rows, ShardedCorpus)
        records = np.asarray(self._rows.take(rows) if shards else select(self._rows, rows))
        return records if self._labels is None else np.column_stack([records, self._labels[rows]])
