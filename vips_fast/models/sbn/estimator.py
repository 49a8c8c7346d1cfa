"""Private sigmoid belief networks: parameters and read-outs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import numpy as np
from scipy.special import expit

from ...checks import check_choice, check_memory, check_number, public_seed
from ...data.frames import to_frame
from ...data.rows import binary_records
from ...data.shards import ShardedCorpus
from ...data.types import Bits, Data, Matrix, RandomState, Vector
from ...engine.averaging import Schedule
from ...engine.backend import ACCUMULATOR_BYTES
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule
from ...engine.result import Public
from ...kernels.sbn import sbn_quadratic
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import by_signal, noise_of_mean
from ..parameters import Bookkeeping, Call, Common
from ..plots import plot_images
from ..readouts import Published, Transformer, by_pieces, kept
from .network import BLOCK, BLOCK_SOLVE, NetworkModel, NetworkOptions, Settings
from .quadratic import QuadraticModel, quadratic_terms
from .readings import READ_SWEEPS, Normal, drawn, hidden_normal, record_bounds
from .records import BinaryRecords

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .paper import PaperSigmoidBeliefNetwork


#: Limits of a network's signal: no run below the first gained 1 % over shares of columns, most from the second on
#: gained 2 %.
_LEAST_SIGNAL, _ENOUGH_SIGNAL = 4.0, 10.0


class PaperParameters(Common, total=False):
    """Keywords of `vips_fast.SigmoidBeliefNetwork.paper`: the fields of `PaperSigmoidBeliefNetwork`."""

    weight_prior: str
    options: NetworkOptions | None
    sensitivity: str
    clip: float


class NetworkEstimator(PrivateEstimator):
    """Parameters and binary records that all estimators of belief networks share."""

    _options_type: ClassVar[type] = NetworkOptions
    #: The mean image and one step more.
    _least_steps: ClassVar[int] = 2

    n_components: int
    weight_prior: str

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_choice("weight_prior", self.weight_prior, ("tpbn", "gaussian"))
        self._check_privacy_parameters()
        check_number("n_steps", self.n_steps, self._least_steps, 2**31, integer=True)
        self._options.check()

    def _records(
        self, Y: Any, n_features: int | None = None, invalid: str = "raise", least_rows: int = 1
    ) -> tuple[np.ndarray, np.ndarray | None]:
        expected_by = type(self).__name__
        return binary_records(Y, n_features, name="Y", invalid=invalid, expected_by=expected_by, least_rows=least_rows)

    def _rows(self, Y: Any) -> tuple[Any, np.ndarray | None]:
        """Read rows of an array or of shards, and which can contribute."""
        if not isinstance(Y, ShardedCorpus):
            return self._records(Y, invalid=self.invalid, least_rows=0)
        if Y.kind != "binary":
            raise ValueError(f"Y: shards of {Y.kind}: expected binary records")
        usable = Y.usable
        if usable is not None and self.invalid == "raise":
            raise ValueError("Y: expected rows that were all usable when the shards were written")
        return Y, usable

    def _network_settings(self, joint: bool) -> Settings:
        threads = resolve_n_threads(self.n_jobs)
        return Settings(int(self.n_components), self.weight_prior, self._options, bool(self.private), threads, joint)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        if not self.private or not schedule.noise_multiplier or self._options.learning_offset is not None:
            return None
        n_steps = schedule.n_steps - schedule.measured - max(1, schedule.horizon // 10)
        if n_steps < 1:
            return None
        noise = noise_of_mean(schedule, model, Schedule(0.0, float(self._options.learning_decay)), n_steps)
        # A hidden unit has its part of a record's norm, and the noise's largest singular value stands against it.
        J, K = public.n_features, int(self.n_components)
        classes = 1 if public.classes is None else len(public.classes)
        signal = 1.0 / (noise * classes * math.sqrt(K) * (math.sqrt(J) + math.sqrt(K)))
        return by_signal(signal, _LEAST_SIGNAL, _ENOUGH_SIGNAL, "hidden causes of columns")

    def _record_bounds(self, Y: Any, networks: Sequence[Mapping[str, np.ndarray]]) -> list[Vector]:
        """Compute `record_bounds` of the rows of Y under each network."""
        rows, _ = self._records(self._held(Y), self.n_features_in_)
        return [record_bounds(rows, one, self._options.dtype, resolve_n_threads(self.n_jobs)) for one in networks]


@dataclass(kw_only=True, repr=False, eq=False)
class SigmoidBeliefNetwork(NetworkEstimator, Transformer):
    """Sigmoid belief network with one hidden layer whose parameters may be published.

    z_k ~ Bern(sigmoid(b_k)), y_j ~ Bern(sigmoid(w_j . z + c_j)), fitted by variational Bayes. Each record's expected
    sufficient statistics are clipped, summed exactly and released with Gaussian noise, in one draw a step. Everything
    after that is post-processing (Park et al. 2020, section 7). `paper` makes their own Algorithm 6.

    Parameters
    ----------
    n_components : int
        Number of hidden units K.
    weight_prior : {"tpbn", "gaussian"}
        Prior of the weights: three-parameter beta normal shrinkage (appendix 5), or
        independent normals of variance ``options.weight_variance``.
    bound : {"jaakkola", "bohning"}
        Lower bound of the logistic likelihood. It has one curvature for each visible unit, common to all records, so
        the K x K matrices of all visible units are one. "jaakkola" is the bound of Jaakkola & Jordan (2000), which is
        also the paper's Polya-Gamma bound, at the curvature that is best given the releases. "bohning" expands log(1 +
        e^psi) with the constant curvature 1/4 (Bohning 1992) about the log odds of the released mean image.
    n_steps : int
        Releases, at least 2. The first max(1, n_steps // 10) of them release the mean image only.
    options : NetworkOptions or None
        The rest of the numerics; None takes the defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    A step releases, in one draw, sum_n (v_n, (y_n - m) x v_n, upper off-diagonal of v_n v_n') with v_n the clipped z_n
    - zeta; m and zeta are the released means of y and z, so their use costs nothing. The diagonal of E[z z'] is E[z]
    and is not released twice. The sensitivity is proven in `vips_fast.models.sbn.quadratic`, and the part that rounding
    adds in `vips_fast.models.sbn.network`.

    Let S be the released covariance of z, a_j the covariance of y_j and z, and m_j the mean of y_j. Jaakkola's bound is
    largest at w_j = S^-1 a_j / kappa_j, E[psi_j] = (m_j - 1/2) / kappa_j and t_j^2 = E[psi_j^2], kappa_j = tanh(t_j /
    2) / (2 t_j). Then t_j kappa_j = (a_j' S^-1 a_j + (m_j - 1/2)^2)^(1/2), so that t_j = 2 artanh of twice that root.
    The noise's part of a_j' S^-1 a_j, which is known on average, is taken off, and w_j is shortened to the length that
    is left.

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
    >>> bool(model.score(images) < 0), 0 <= model.pixel_accuracy(images) <= 1
    (True, True)

    One step at a time, with the given noise; and the paper's Algorithm 6.

    >>> SigmoidBeliefNetwork(2, noise_multiplier=9.0).partial_fit(images).n_steps_
    1
    >>> SigmoidBeliefNetwork.paper(2, private=False, n_steps=2).fit_transform(images).shape
    (200, 2)
    """

    _bounds: ClassVar[tuple[str, ...]] = ("jaakkola", "bohning")
    _block: ClassVar[int] = BLOCK
    _kind: ClassVar[type[NetworkModel]] = QuadraticModel

    n_components: int = field(default=50, kw_only=False)
    weight_prior: str = "tpbn"
    bound: str = "jaakkola"
    n_steps: int | None = 10
    options: NetworkOptions | None = None

    @classmethod
    def paper(cls, n_components: int = 50, **parameters: Unpack[PaperParameters]) -> PaperSigmoidBeliefNetwork:
        """Make the Polya-Gamma bound of Algorithm 6, with its variants.

        The paper is Park et al. (2020). Parameters are as in `vips_fast.models.sbn.paper.PaperSigmoidBeliefNetwork`.
        """
        from .paper import PaperSigmoidBeliefNetwork

        return PaperSigmoidBeliefNetwork(n_components, **parameters)

    def fit(self, Y: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit to binary records.

        Y, an array of shape (n, J) or a ShardedCorpus, has entries 0 and 1 (or booleans), one record a row. ``y`` is
        ignored. `vips_fast.models.parameters.Bookkeeping` has the keywords. Raises ValueError or MemoryError if a
        parameter or the data are out of range, or the run would pass ``epsilon``. It also does so if the statistics
        would not fit the memory. Nothing is spent then.
        """
        return self._fit(Y, y, **call)

    def partial_fit(self, Y: Data, y: object = None, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of Y, as in `fit`.

        The parameters are as there.
        """
        return self._fit(Y, y, partial=True, **call)

    def _check_parameters(self) -> None:
        check_choice("bound", self.bound, self._bounds)
        super()._check_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[BinaryRecords, dict[str, Any]]:
        rows, usable = self._rows(X)
        return BinaryRecords(rows, usable, self._block, resolve_n_threads(self.n_jobs)), {"n_features": rows.shape[1]}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        self._check_memory(public.n_features)
        return self._build(self._network_settings(self._joint(public)), public, schedule)

    def _build(self, settings: Settings, public: Public, schedule: RunSchedule | None) -> NetworkModel:
        return QuadraticModel(settings, public, self.bound, max(1, self._steps_of(schedule) // 10))

    def _entries(self, n_visible: int) -> int:
        """Count about the entries of the statistic."""
        K = int(self.n_components)
        return n_visible * (K + 2) + K * K

    def _check_memory(self, n_visible: int) -> None:
        """Refuse, before anything is spent, statistics that the machine cannot hold."""
        K, entries, threads = int(self.n_components), self._entries(n_visible), resolve_n_threads(self.n_jobs)
        # Sums, release, averages and their state; each thread's sums; the systems that it solves.
        need = 8 * (5 * entries + 4 * threads * BLOCK_SOLVE * K * K)
        need += max(8 * entries, min(8 * threads * entries, ACCUMULATOR_BYTES))
        what = f"n_components={K}: the statistics of {n_visible} visible units need about {need / 2**30:.0f} GiB with "
        check_memory(f"{what}{threads} threads", need, "; expected fewer components or threads")

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return self._kind.specs(public.n_features, int(self.n_components))

    hidden_bias_ = Published[Vector]("hidden_bias", "b, shape (K,).")
    visible_bias_ = Published[Vector]("visible_bias", "c, shape (J,).")
    mean_image_ = Published[Vector]("mean_image", "Mean of the records by the first releases, shape (J,).")

    def transform(self, Y: Data) -> Matrix:
        """Compute q(z_k = 1) of records, float64, shape (n, K).

        The bound is the one that the model was fitted with. Y is (n, J) of 0 and 1. They describe Y: publish them only
        if Y may be published.
        """
        self._fitted()
        return cast(Matrix, to_frame(self, self._hidden(self._held(Y)), Y))

    @by_pieces(np.concatenate)
    def _hidden(self, Y: Any) -> np.ndarray:
        return self._latent(self._records(Y, self.n_features_in_)[0])

    def fit_transform(self, Y: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Matrix:
        """Fit, then give Y's q(z) (which describe Y: they are not private)."""
        return self.fit(Y, **call).transform(Y)

    def _latent(self, Y: np.ndarray) -> np.ndarray:
        arrays, weights = self._fitted().arrays, self.components_.T
        names = ("weight_covariance", "visible_bias", "expansion", "curvature", "hidden_bias")
        terms, start = quadratic_terms(weights, *(arrays[name] for name in names)), expit(self.hidden_bias_)
        return sbn_quadratic(Y, weights, *terms, start, n_sweeps=READ_SWEEPS, n_threads=resolve_n_threads(self.n_jobs))

    def reconstruct(self, Y: Data) -> Matrix:
        """Compute probabilities of the visible units: (n, J).

        They are given each record's own E[z]: sigmoid(E[w_j] . E[z] + E[c_j]).
        """
        return np.asarray(expit(np.asarray(self.transform(Y)) @ self.components_ + self.visible_bias_))

    def pixel_accuracy(self, Y: Data) -> float:
        """Compute the share of correctly reconstructed entries, cut at 1/2 (section 7.1)."""
        return float(((self.reconstruct(Y) > 0.5) == (self._records(Y)[0] > 0)).mean())

    @by_pieces(sum)
    def score(self, Y: Data, y: object = None) -> float:
        """Compute the variational lower bound of log p(Y), in nats.

        It is a sum over public records, without noise.

        The Polya-Gamma bound at its best xi, log p(y_j | psi_j) >= (y_j - 1/2) E[psi_j] - log(2 cosh(t_j / 2)), t_j^2 =
        E[psi_j^2], less the divergence of q(z) from its prior. Parameters are at their posterior mean and variance.
        """
        return float(self._record_bounds(Y, [self._fitted().arrays])[0].sum())

    def plot(self, shape: tuple[int, int] | None = None) -> Figure:
        """Draw the weights of each hidden unit as an image, with matplotlib.

        Grey is 0, black is positive. ``shape`` is height and width, None for square images. Raises ImportError
        without matplotlib; ValueError if the shape has another number of pixels than there are columns.
        """
        return plot_images(self, self.components_, shape)

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Bits:
        """Draw records from the model, uint8, shape (n_samples, J).

        ``random_state`` seeds the draws. Hidden units have their released means and covariance, which normals cut at
        thresholds reproduce (Emrich & Piedmonte 1991). The records' own q(z) are not independent of each other, as the
        model's prior would have it. The paper's bound does not release a covariance; there they are independent.
        """
        n_samples = check_number("n_samples", n_samples, 0, 2**40, integer=True)
        generator = np.random.default_rng(public_seed(random_state))
        return drawn(self._fitted().arrays, self._hidden_normal(), n_samples, generator)

    @kept
    def _hidden_normal(self) -> Normal | None:
        return hidden_normal(self._fitted().arrays)
