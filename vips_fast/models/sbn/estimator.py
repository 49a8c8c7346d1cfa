"""Private sigmoid belief networks: parameters and read-outs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from ...checks import check_choice, check_number
from ...data.rows import binary_records
from ...engine.backend import ACCUMULATOR_BYTES
from ...engine.checkpoint import RunFolder
from ...engine.model import Model
from ...engine.result import Public
from ...kernels.sbn import record_blocks, sbn_pg, sbn_quadratic
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec, PrivateEstimator
from ..settings import public_seed
from ..spending import Payer
from .network import BLOCK, BLOCK_SOLVE, NetworkModel, NetworkOptions, Settings
from .quadratic import QuadraticModel, quadratic_terms
from .records import BinaryRecords

#: Sweeps of the read-outs, which start afresh and are not part of a release.
_READ_SWEEPS = 12

#: Records whose Polya-Gamma means are held at a time.
_SCORED = 4096


class SigmoidBeliefNetwork(PrivateEstimator):
    """Sigmoid belief network with one hidden layer whose parameters may be published.

    z_k ~ Bern(sigmoid(b_k)), y_j ~ Bern(sigmoid(w_j . z + c_j)), fitted by
    variational Bayes in which each record's expected sufficient statistics are
    clipped, summed exactly and released with Gaussian noise in one draw a step;
    everything after that is post-processing (Park et al. 2020, section 7). Their own
    Algorithm 6 is what `paper` makes.

    Parameters
    ----------
    n_components : int
        Number of hidden units K.
    weight_prior : {"tpbn", "gaussian"}
        Prior of the weights: three-parameter beta normal shrinkage (appendix 5), or
        independent normals of variance ``options.weight_variance``.
    bound : {"jaakkola", "bohning"}
        Lower bound of the logistic likelihood, with one curvature for each visible unit,
        common to all records, so that the K x K matrices of all visible units are one.
        "jaakkola" is the bound of Jaakkola & Jordan (2000), which is also the paper's
        Polya-Gamma bound, at the curvature that is best given what was released.
        "bohning" expands log(1 + e^psi) with the constant curvature 1/4 (Bohning 1992)
        about the log odds of the released mean image.
    batch_size : float or None
        (Expected) records of a minibatch; None takes all.
    n_steps : int
        Releases, at least 2. The first max(1, n_steps // 10) of them release the mean
        image only.
    invalid : {"raise", "drop"}
        What happens to a record with an entry other than 0 and 1: it is refused, or
        contributes nothing, and nobody is told.
    options : NetworkOptions or None
        The rest of the numerics; None takes the defaults.
    sampling, neighbors, n_records, target_epsilon, target_delta, noise_multiplier, \
private, n_jobs, random_state, callback
        As in `LatentDirichletAllocation`.

    Attributes
    ----------
    components_ : ndarray, float64, shape (K, J)
        Posterior means of the weights.
    hidden_bias_, visible_bias_ : ndarray, float64, shapes (K,) and (J,)
        b and c.
    mean_image_ : ndarray, float64, shape (J,)
        Released mean of the records.
    privacy_, ledger_, n_steps_, n_features_in_, diagnostics_
        As in `LatentDirichletAllocation`.

    Notes
    -----
    A step releases, in one draw, sum_n (v_n, (y_n - m) x v_n, upper off-diagonal of
    v_n v_n') with v_n the clipped z_n - zeta; m and zeta are the released means of y and
    z, so their use costs nothing. The diagonal of E[z z'] is E[z] and is not released
    twice. The sensitivity is proven in `vips_fast.models.sbn.quadratic`, what rounding
    adds to it in `vips_fast.models.sbn.network`.

    With S the released covariance of z, a_j that of y_j and z, and m_j the mean of y_j,
    Jaakkola's bound is largest at w_j = S^-1 a_j / kappa_j, E[psi_j] = (m_j - 1/2) /
    kappa_j and t_j^2 = E[psi_j^2], kappa_j = tanh(t_j / 2) / (2 t_j). Then
    t_j kappa_j = (a_j' S^-1 a_j + (m_j - 1/2)^2)^(1/2), so that t_j = 2 artanh of twice
    that root. The noise's part of a_j' S^-1 a_j, which is known on average, is taken off,
    and w_j is shortened to the length that is left.

    Columns that never vary are ordinary data.
    """

    _options_type: ClassVar[type | None] = NetworkOptions
    _bounds: ClassVar[tuple[str, ...]] = ("jaakkola", "bohning")
    #: The mean image and one step more.
    _least_steps: ClassVar[int] = 2
    _block: ClassVar[int] = BLOCK

    def __init__(
        self, n_components: int = 50, *, weight_prior: str = "tpbn", bound: str = "jaakkola", sampling: str = "poisson",
        neighbors: str | None = None, batch_size: float | None = None, n_steps: int = 10, n_records: int | None = None,
        target_epsilon: float | None = None, target_delta: float | None = None, noise_multiplier: float | None = None,
        private: bool = True, invalid: str = "raise", n_jobs: int | None = None, random_state: Any = None,
        callback: Callable[[Any], None] | None = None, options: NetworkOptions | None = None,
    ):
        self.n_components = n_components
        self.weight_prior = weight_prior
        self.bound = bound
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.n_steps = n_steps
        self.n_records = n_records
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.private = private
        self.invalid = invalid
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback
        self.options = options

    @classmethod
    def paper(cls, n_components: int = 50, **parameters: Any) -> SigmoidBeliefNetwork:
        """Algorithm 6 of Park et al. (2020): the Polya-Gamma bound, with the paper's own variants.

        Parameters
        ----------
        n_components : int
        **parameters
            Of `vips_fast.models.sbn.paper.PaperSigmoidBeliefNetwork`: ``sensitivity``,
            ``clip``, and those of this class but ``bound``.

        Returns
        -------
        PaperSigmoidBeliefNetwork
        """
        from .paper import PaperSigmoidBeliefNetwork

        return PaperSigmoidBeliefNetwork(n_components, **parameters)

    # ------------------------------------------------------------------ fit

    def fit(
        self, Y: Any, y: Any = None, *, transcript: str | Path | None = None,
        checkpoint: str | Path | RunFolder | None = None, resume: bool = False, checkpoint_every: int | None = None,
        budget: Payer = None,
    ) -> Self:
        """Fit to binary records.

        Parameters
        ----------
        Y : array, shape (n, J)
            Entries 0 and 1 (or booleans), one record a row.
        y : ignored
        transcript : str or path, or None
            Folder to keep the releases in, from which the model can be made again
            without the data (`vips_fast.verify`).
        budget : str, path, Budget or None
            The budget of the data set, which pays for the run (`vips_fast.engine.budget`).
        checkpoint : path or None
            Folder that keeps the run as it goes: its ledger, written ahead of each release, and its last checkpoint.
        resume : bool
            Whether a run that is in the folder goes on; lost steps are done and paid for again.
        checkpoint_every : int or None
            Steps between checkpoints; None spaces them so that they take less than 2 % of the time.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or the data are out of range, or the run would pass
            ``target_epsilon``. Nothing is spent.
        MemoryError
            Before the run, if the statistics would not fit the memory. Nothing is spent.
        """
        return self._fit(
            Y, y, transcript=transcript, checkpoint=checkpoint, resume=resume,
            checkpoint_every=checkpoint_every, budget=budget,
        )

    def partial_fit(
        self, Y: Any, y: Any = None, *, part: str | None = None, n_records: int | None = None,
        transcript: str | Path | None = None, budget: Payer = None,
    ) -> Self:  # fmt: skip
        """One more step, from all rows of Y; other parameters and errors as in `fit`.

        Parameters
        ----------
        part : str or None
            Name of the part of the data set that Y is, if each record lies in one part only. Calls about different
            parts compose in parallel: epsilon is that of the worst part. Calls about one part, and those without a
            part, which are about all records, compose in sequence. Nothing checks it; the statement says that it is
            assumed.
        n_records : int or None
            Public number of records of this call, which sums are scaled by. None takes ``batch_size``; if that is
            None too, the estimator's ``n_records`` as that of each part, or the number of rows where neither is given.
        """
        return self._fit(Y, y, partial=True, part=part, n_records=n_records, transcript=transcript, budget=budget)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        check_choice("bound", self.bound, self._bounds)
        check_choice("weight_prior", self.weight_prior, ("tpbn", "gaussian"))
        self._check_privacy_parameters()
        check_number("n_steps", self.n_steps, self._least_steps, 2**31, integer=True)
        if not isinstance(self.options, (NetworkOptions, type(None))):
            raise ValueError(f"options={self.options!r}: expected NetworkOptions or None")
        options = self._numerics
        for name in ("weight_variance", "bias_variance"):
            check_number(name, getattr(options, name), 0, 1e12, low_open=True)
        if options.phi is not None:
            check_number("phi", options.phi, 0, 1e12, low_open=True)
        check_number("n_sweeps", options.n_sweeps, 1, 2**31 - 1, integer=True)
        check_number("learning_decay", options.learning_decay, 0, 1)
        if options.learning_offset is not None:
            check_number("learning_offset", options.learning_offset, 0, math.inf, high_open=True)
        check_number("latent_clip", options.latent_clip, 0, 2, low_open=True)
        check_number("visible_clip", options.visible_clip, 0, 100, low_open=True)
        check_choice("dtype", options.dtype, ("float32", "float64"))

    @property
    def _numerics(self) -> NetworkOptions:
        return NetworkOptions() if self.options is None else self.options

    def _records(
        self, Y: Any, n_features: int | None = None, invalid: str = "raise", least_rows: int = 1
    ) -> tuple[np.ndarray, np.ndarray | None]:
        owner = type(self).__name__
        return binary_records(Y, n_features, name="Y", invalid=invalid, owner=owner, least_rows=least_rows)

    def _read(self, X: Any, y: Any = None, **extra: Any) -> tuple[BinaryRecords, dict[str, Any]]:
        rows, usable = self._records(X, invalid=self.invalid, least_rows=0)
        return BinaryRecords(rows, usable, self._block, resolve_n_threads(self.n_jobs)), {"n_features": rows.shape[1]}

    def _model(self, public: Public) -> Model:
        self._check_memory(public.n_features)
        settings = Settings(
            int(self.n_components), self.weight_prior, self._numerics, bool(self.private),
            resolve_n_threads(self.n_jobs),
        )
        return self._build(settings, public)

    def _build(self, settings: Settings, public: Public) -> NetworkModel:
        return QuadraticModel(settings, public, self.bound, max(1, self._resolve_n_steps(public) // 10))

    def _entries(self, n_visible: int) -> int:
        """Entries of the statistic, about."""
        K = int(self.n_components)
        return n_visible * (K + 2) + K * K

    def _check_memory(self, n_visible: int) -> None:
        """Refuse, before anything is spent, statistics that the machine cannot hold."""
        try:
            have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, ValueError, OSError):
            return
        K, entries, threads = int(self.n_components), self._entries(n_visible), resolve_n_threads(self.n_jobs)
        # Sums, release, averages and their state; each thread's sums; the systems that it solves.
        need = 8 * (5 * entries + 4 * threads * BLOCK_SOLVE * K * K)
        need += max(8 * entries, min(8 * threads * entries, ACCUMULATOR_BYTES))
        if need > have:
            raise MemoryError(
                f"n_components={K}: the statistics of {n_visible} visible units need about {need / 2**30:.0f} GiB with "
                f"{threads} threads, and the machine has {have / 2**30:.0f} GiB; expected fewer components or threads"
            )

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        J, K = public.n_features, int(self.n_components)
        return {
            "components": ArraySpec((K, J)), "weight_variances": ArraySpec((K, J), 0.0),
            "weight_covariance": ArraySpec((K, K)), "hidden_bias": ArraySpec((K,)), "visible_bias": ArraySpec((J,)),
            "expansion": ArraySpec((J,)), "curvature": ArraySpec((J,), 0.0, 0.25),
            "mean_image": ArraySpec((J,), 0.0, 1.0),
        }

    # ------------------------------------------------------------ read-outs

    @property
    def components_(self) -> np.ndarray:
        """Posterior means of the weights, shape (K, J)."""
        return self._fitted().arrays["components"]

    @property
    def hidden_bias_(self) -> np.ndarray:
        """b, shape (K,)."""
        return self._fitted().arrays["hidden_bias"]

    @property
    def visible_bias_(self) -> np.ndarray:
        """c, shape (J,)."""
        return self._fitted().arrays["visible_bias"]

    @property
    def mean_image_(self) -> np.ndarray:
        """Released mean of the records, shape (J,)."""
        return self._fitted().arrays["mean_image"]

    def transform(self, Y: Any) -> np.ndarray:
        """q(z_k = 1) of records, under the bound the model was fitted with.

        Parameters
        ----------
        Y : array, shape (n, J)
            Entries 0 and 1.

        Returns
        -------
        ndarray, float64, shape (n, K)
            They describe Y: publish them only if Y may be published.
        """
        self._fitted()
        return self._latent(self._records(Y, self.n_features_in_)[0])

    def fit_transform(self, Y: Any, y: Any = None) -> np.ndarray:
        """Fit, then give Y's q(z) (which describe Y: they are not private)."""
        return self.fit(Y).transform(Y)

    def _latent(self, Y: np.ndarray) -> np.ndarray:
        arrays = self._fitted().arrays
        terms = quadratic_terms(
            self.components_.T, arrays["weight_covariance"], self.visible_bias_, arrays["expansion"],
            arrays["curvature"], self.hidden_bias_,
        )
        return sbn_quadratic(
            Y, self.components_.T, *terms, expit(self.hidden_bias_), n_sweeps=_READ_SWEEPS,
            n_threads=resolve_n_threads(self.n_jobs),
        )

    def _visible_variance(self) -> np.ndarray:
        """Posterior variances of the visible biases, where the bound has them."""
        return self._fitted().arrays.get("visible_variance", np.zeros(self.n_features_in_))

    def _polya_gamma(self, Y: np.ndarray) -> np.ndarray:
        """q(z = 1) under the Polya-Gamma bound."""
        w, variances = self.components_.T, self._fitted().arrays["weight_variances"].T
        return sbn_pg(
            Y, w, w**2 + variances, self.visible_bias_, self._visible_variance(), self.hidden_bias_,
            expit(self.hidden_bias_), n_sweeps=_READ_SWEEPS, dtype=self._numerics.dtype,
            n_threads=resolve_n_threads(self.n_jobs),
        ).z

    def reconstruct(self, Y: Any) -> np.ndarray:
        """Probabilities of the visible units given each record's own E[z].

        Parameters
        ----------
        Y : array, shape (n, J)

        Returns
        -------
        ndarray, float64, shape (n, J)
            sigmoid(E[w_j] . E[z] + E[c_j]).
        """
        return np.asarray(expit(self.transform(Y) @ self.components_ + self.visible_bias_))

    def pixel_accuracy(self, Y: Any) -> float:
        """Share of entries that the reconstruction, cut at 1/2, has right (section 7.1).

        Parameters
        ----------
        Y : array, shape (n, J)
            Public test records: nothing is noised here.
        """
        self._fitted()
        Y = self._records(Y, self.n_features_in_)[0]
        return float(((self.reconstruct(Y) > 0.5) == (Y > 0)).mean())

    def score(self, Y: Any, y: Any = None) -> float:
        """Variational lower bound of log p(Y), in nats.

        The Polya-Gamma bound at its best xi, log p(y_j | psi_j) >= (y_j - 1/2) E[psi_j]
        - log(2 cosh(t_j / 2)), t_j^2 = E[psi_j^2], less the divergence of q(z) from its
        prior, with parameters at their posterior mean and variance.

        Parameters
        ----------
        Y : array, shape (n, J)
            Public test records: nothing is noised here.

        Returns
        -------
        float
            Sum over records.
        """
        self._fitted()
        Y = self._records(Y, self.n_features_in_)[0]
        w, variances, b = self.components_, self._fitted().arrays["weight_variances"], self.hidden_bias_
        log_on, log_off = -np.logaddexp(0.0, -b), -np.logaddexp(0.0, b)
        total = 0.0
        for first, last in record_blocks(len(Y), _SCORED):
            part = Y[first:last]
            z = self._polya_gamma(part)
            psi = z @ w + self.visible_bias_
            square = psi**2 + self._visible_variance() + (z * (1 - z)) @ w**2 + z @ variances
            t = np.sqrt(np.maximum(square, 0.0))
            # log(2 cosh(t/2)) without overflow.
            total += float(((part - 0.5) * psi - t / 2 - np.log1p(np.exp(-t))).sum())
            q, r = np.clip(z, 1e-300, 1.0), np.clip(1 - z, 1e-300, 1.0)
            total -= float((z * (np.log(q) - log_on) + (1 - z) * (np.log(r) - log_off)).sum())
        return total

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Records drawn from the model.

        Parameters
        ----------
        n_samples : int
        random_state : int, numpy Generator, RandomState or None

        Returns
        -------
        ndarray, uint8, shape (n_samples, J)
        """
        self._fitted()
        n_samples = check_number("n_samples", n_samples, 0, 2**40, integer=True)
        generator = np.random.default_rng(public_seed(random_state))
        z = generator.random((n_samples, len(self.hidden_bias_))) < expit(self.hidden_bias_)
        chance = expit(z.astype(np.float64) @ self.components_ + self.visible_bias_)
        return np.asarray(generator.random(chance.shape) < chance, dtype=np.uint8)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of `transform`'s columns."""
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{k}" for k in range(len(self.hidden_bias_))], dtype=object)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64"]),
            input_tags=InputTags(sparse=True, positive_only=True),
            non_deterministic=bool(self.private),
        )
