"""Baselines that release noised sums of clipped scores: DPVI, DP-SGLD, variational inference by sampling.

The score of a record is the gradient of its log-likelihood, (y - sigmoid(x . theta)) x.
All three are the package's own loop with another M-step. The contributions come from the
logistic regression kernel: around the centre theta and with <m m^T> = theta theta^T its
linear statistic is the score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from ..accounting import BayesianAccountant, BayesianGuarantee
from ..checks import check_flag, check_number
from ..engine.backend import Backend, Threads
from ..engine.loop import Progress
from ..engine.model import Model, Release, array_of
from ..engine.result import Public
from ..kernels import native
from ..kernels.threads import resolve_n_threads
from ..models.estimator import ArraySpec
from ..models.logistic.records import Block
from ..models.logistic.statistics import factor_grid
from .dpsgd import dense
from .linear import LinearClassifier

#: Orders lambda among which the Bayesian accountant's result is the least.
_ORDERS = (1, 2, 4, 8, 16, 32, 64, 128)


class ScoreModel(Model):
    """Clipped scores as the engine's statistic; subclasses say where they are taken and what is done with them.

    ``settings`` are the estimator's, by name. What is random here is a function of the public seed
    and of the step: the releases' own noise is all that hides the records.
    """

    def __init__(self, public: Public, settings: Mapping[str, Any]):
        self._n, self._seed, self._settings = public.n_records, public.seed, settings
        self._d = public.n_features + bool(settings["fit_intercept"])
        self._alpha, self._n_steps = float(settings["prior_precision"]), int(settings["n_steps"])
        self._longest = public.scale
        # Without privacy a bound that no score passes.
        self.clip = float(settings["clip_norm"]) if public.scale is None else 1e3 * max(1.0, public.scale)
        self.shape = (self._width(),)
        self._theta, self._kept, self._step = self._start(), np.empty((0, self._width())), 0
        self._take()

    def _width(self) -> int:
        return self._d

    def _start(self) -> np.ndarray:
        return np.zeros(self._width())

    def sensitivity(self, relation: str) -> float:
        """C for adding or removing a record, 2 C for replacing one."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def prepare(self, mechanism: Any, sampler: Any) -> None:
        """Take the lattice, and the noise on the gradient of the whole data's log-likelihood."""
        self._spacing, self._batch = mechanism.spacing, sampler.expected_batch_size
        self._noise = mechanism.noise_sd * self._n / self._batch

    def _draws(self, purpose: int) -> np.ndarray:
        return np.random.default_rng([self._seed, self._step, purpose]).normal(size=self._d)

    def _take(self) -> None:
        """The point of the next step's scores."""
        self._center = self._theta
        self._moment = np.outer(self._center, self._center)

    def _rows(self, block: Block) -> Block:
        """The rows that multiply the residual."""
        return block

    def contribute(self, block: Block, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add the truncated clipped scores."""
        block, width = self._rows(block), self.shape[0]
        work = np.empty(native.blr_workspace(width, block.indptr is None) // 8 + 1).view(np.uint8)
        linear, quadratic = np.empty((2, block.n_rows))
        native.blr_weights(
            width, block.indptr, block.indices, block.values, block.y, None, self._moment, self._center, 1e100, 1.0,
            1.0, math.inf, self.clip, self._spacing, factor_grid(self.clip), False, work, linear, quadratic, None, None,
            block.unit,
        )
        native.blr_accumulate(
            width, 0, width, block.indptr, block.indices, block.values, linear, quadratic, work, out, None, block.unit
        )

    def update(self, release: Release) -> None:
        """One step with the noised gradient of the log-likelihood; the second half of the iterates is kept."""
        self._theta = self._move(release.values * self._n)
        if self._step >= self._n_steps // 2:
            self._kept = np.vstack([self._kept, self._theta])
        self._step += 1
        self._take()

    def _move(self, gradient: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def state(self) -> dict[str, np.ndarray]:
        """See `Model.state`."""
        return {"theta": self._theta.copy(), "kept": self._kept.copy(), "step": np.array([float(self._step)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """See `Model.restore`."""
        theta, kept, step = array_of(state, "theta", self.shape), array_of(state, "kept"), array_of(state, "step", (1,))
        if kept.ndim != 2 or kept.shape[1] != len(theta):
            raise ValueError(f"state: 'kept' has shape {kept.shape}, expected rows of {len(theta)}")
        self._theta, self._kept, self._step = theta, kept, int(step[0])
        self._take()

    def result(self) -> dict[str, np.ndarray]:
        """The kept iterates."""
        return {"samples": self._kept}


class ScoreClassifier(LinearClassifier):
    """What the three estimators have in common."""

    _kind: ClassVar[type[ScoreModel]]

    def _check_parameters(self) -> None:
        for name in ("clip_norm", "prior_precision"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)
        check_flag("fit_intercept", self.fit_intercept)
        self._check_privacy_parameters()
        if self.sampling != "full" and self.batch_size is None:
            raise ValueError(f"batch_size=None: expected a number with sampling={self.sampling!r}")

    def _model(self, public: Public) -> Model:
        return self._kind(public, self._settings())

    def _n_kept(self) -> int:
        return int(self.n_steps) - int(self.n_steps) // 2

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return {"samples": ArraySpec((self._n_kept(), public.n_features + bool(self.fit_intercept)))}


# ----------------------------------------------------------------- DPVI


class DPVIModel(ScoreModel):
    """theta = (mean, log sd); the gradient through m = mean + sd eta is (score, score eta sd)."""

    def __init__(self, public: Public, settings: Mapping[str, Any]):
        super().__init__(public, settings)
        self._squares = np.zeros(2 * self._d)

    def _width(self) -> int:
        return 2 * self._d

    def _start(self) -> np.ndarray:
        return np.concatenate([np.zeros(self._d), np.full(self._d, math.log(float(self._settings["initial_sd"])))])

    def _take(self) -> None:
        # Rows (x, x * eta sd); with the centre (mean, 1) their product is x . (mean + eta sd).
        mean, log_sd = self._theta[: self._d], self._theta[self._d :]
        self._eta = self._draws(0) * np.exp(log_sd)
        self._center = np.concatenate([mean, np.ones(self._d)])
        self._moment = np.outer(self._center, self._center)

    def _rows(self, block: Block) -> Block:
        d = self._d
        if block.indptr is None:
            X = dense(block, d)
            return block._replace(values=np.hstack([X, X * self._eta]).reshape(-1))
        old = np.ones(len(block.indices)) if block.unit else block.values
        sizes = np.diff(block.indptr)
        place = np.arange(len(old)) + np.repeat(block.indptr[:-1], sizes)
        second = place + np.repeat(sizes, sizes)
        indices, values = np.empty(2 * len(old), np.int32), np.empty(2 * len(old))
        indices[place], values[place] = block.indices, old
        indices[second], values[second] = block.indices + d, old * self._eta[block.indices]
        return block._replace(indptr=2 * block.indptr, indices=indices, values=values, unit=False)

    def _move(self, gradient: np.ndarray) -> np.ndarray:
        d, theta = self._d, self._theta.copy()
        # Prior and entropy: E log N(m | 0, 1/alpha) = -alpha (mean^2 + sd^2) / 2, entropy = sum log sd.
        gradient[:d] -= self._alpha * theta[:d]
        gradient[d:] += 1 - self._alpha * np.exp(2 * theta[d:])
        gradient /= self._n
        self._squares += gradient**2
        theta += float(self._settings["learning_rate"]) * gradient / np.sqrt(self._squares + 1e-16)
        theta[d:] = np.clip(theta[d:], -20.0, 5.0)
        return theta

    def state(self) -> dict[str, np.ndarray]:
        """See `Model.state`."""
        return super().state() | {"squares": self._squares.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """See `Model.restore`."""
        squares = array_of(state, "squares", self.shape)
        super().restore(state)
        self._squares = squares

    def result(self) -> dict[str, np.ndarray]:
        """Mean and standard deviation of q."""
        average = self._kept.mean(axis=0)
        return {"mean": average[: self._d], "sd": np.exp(average[self._d :])}


class DPVILogisticRegression(ScoreClassifier):
    """Differentially private variational inference by clipped noisy gradients (Jälkö, Dikmen & Honkela 2017).

    q(m) is a product of normals; the gradient of the variational bound with respect to
    means and log standard deviations goes through one draw m = mean + sd eta a step,
    common to the minibatch. A record's part, (score, score eta sd), is clipped to an L2
    norm of ``clip_norm``; steps are Adagrad's. Means and log standard deviations of the
    second half of the steps are averaged.

    Parameters
    ----------
    clip_norm : float
    prior_precision : float
    learning_rate : float
        Adagrad's.
    initial_sd : float
        Standard deviations that q starts with.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier
        As in `vips_fast.BayesianLogisticRegression`.
    private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds eta, which is public, and the minibatches of a fit that is not private.

    Attributes
    ----------
    mean_, sd_ : ndarray
        q's, the intercept last.
    """

    _kind = DPVIModel

    def __init__(
        self, *, clip_norm: float = 1.0, prior_precision: float = 1.0, learning_rate: float = 0.3,
        initial_sd: float = 0.1, n_steps: int = 200, sampling: str = "poisson", neighbors: str | None = None,
        batch_size: float | None = None,
        target_epsilon: float | None = None, target_delta: float | None = None, noise_multiplier: float | None = None,
        fit_intercept: bool = True, private: bool = True, n_records: int | None = None, n_jobs: int | None = None,
        random_state: Any = None, callback: Callable[[Progress], None] | None = None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.learning_rate = learning_rate
        self.initial_sd = initial_sd
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("learning_rate", "initial_sd"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        d = public.n_features + bool(self.fit_intercept)
        return {"mean": ArraySpec((d,)), "sd": ArraySpec((d,), low=0.0)}

    @property
    def mean_(self) -> np.ndarray:
        """Means of q."""
        return self._fitted().arrays["mean"]

    @property
    def sd_(self) -> np.ndarray:
        """Standard deviations of q."""
        return self._fitted().arrays["sd"]

    def _samples(self) -> np.ndarray:
        # Antithetic draws: their mean is exact.
        eta = np.random.default_rng(0).normal(size=(50, len(self.mean_))) * self.sd_
        return self.mean_ + np.concatenate([eta, -eta])


# -------------------------------------------------------------- DP-SGLD


class SGLDModel(ScoreModel):
    """Langevin steps, the privacy's noise being part of Langevin's own."""

    @property
    def step_size(self) -> float:
        """Of every step."""
        step = self._settings["step_size"]
        if step is None:
            # Curvature is at most N C^2 / 4 + alpha: scores are no longer than C where p is near 1/2.
            longest = min(self.clip, 10.0) if self._longest is None else self._longest
            step = 1.0 / (self._n * longest**2 / 4 + self._alpha)
        # The private noise, (step / 2) sd, may not pass Langevin's sqrt(step).
        return float(min(step, 4.0 / self._noise**2) if self._noise > 0 else step)

    def _move(self, gradient: np.ndarray) -> np.ndarray:
        step = self.step_size
        rest = max(step - (0.5 * step * self._noise) ** 2, 0.0)
        drift = 0.5 * step * (gradient - self._alpha * self._theta)
        return self._theta + drift + math.sqrt(rest) * self._draws(1)

    def result(self) -> dict[str, np.ndarray]:
        """The kept iterates and the step size."""
        return super().result() | {"step_size": np.array([self.step_size])}


class DPSGLDLogisticRegression(ScoreClassifier):
    """Differentially private stochastic gradient Langevin dynamics (Wang, Fienberg & Smola 2015).

    theta moves by (step / 2) (gradient of the log posterior) + N(0, step), the gradient
    being that of a minibatch's clipped scores. The noise that privacy needs is part of
    Langevin's own: the step is at most 4 / sd^2, sd being that of the noise on the whole
    data's gradient, and what is left of the variance ``step`` is added. The second half of
    the iterates are the posterior's samples.

    Parameters
    ----------
    clip_norm : float
    prior_precision : float
    step_size : float or None
        None is 1 / (n C^2 / 4 + prior_precision), C being clip_norm, at most 10, or without
        privacy the longest row's norm; or less where privacy asks for it.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier
        As in `vips_fast.BayesianLogisticRegression`.
    private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds Langevin's noise, which hides nothing, and the minibatches of a fit that is not private.

    Attributes
    ----------
    step_size_ : float
        The steps' size.
    """

    _kind = SGLDModel

    def __init__(
        self, *, clip_norm: float = 1.0, prior_precision: float = 1.0, step_size: float | None = None,
        n_steps: int = 500, sampling: str = "poisson", neighbors: str | None = None, batch_size: float | None = None,
        target_epsilon: float | None = None, target_delta: float | None = None, noise_multiplier: float | None = None,
        fit_intercept: bool = True, private: bool = True, n_records: int | None = None, n_jobs: int | None = None,
        random_state: Any = None, callback: Callable[[Progress], None] | None = None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.step_size = step_size
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.step_size is not None:
            check_number("step_size", self.step_size, 0, math.inf, low_open=True, high_open=True)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return super()._array_specs(public) | {"step_size": ArraySpec((1,), low=0.0)}

    @property
    def step_size_(self) -> float:
        """The steps' size."""
        return float(self._fitted().arrays["step_size"][0])


# ------------------------------------- variational inference by sampling


class SamplingModel(ScoreModel):
    """Gradient steps whose release's noise is the spread of samples of q."""

    accountants: tuple[BayesianAccountant, ...] = ()

    def prepare(self, mechanism: Any, sampler: Any) -> None:
        """As the base's, and the Bayesian accountants of all orders."""
        super().prepare(mechanism, sampler)
        if self._settings["bayesian_pairs"]:
            q = self._batch / self._n
            run = q, mechanism.noise_sd, self._n_steps
            self.accountants = tuple(BayesianAccountant(*run, order) for order in _ORDERS)

    def clipped(self, block: Block) -> np.ndarray:
        """Scores of a block as numbers, clipped."""
        X = dense(block, self._d)
        scores = (block.y - expit(X @ self._theta))[:, None] * X
        return scores / np.maximum(1.0, np.linalg.norm(scores, axis=1) / self.clip)[:, None]

    def _step_size(self, step: int) -> float:
        return float(self._settings["learning_rate"]) / self._n / math.sqrt(1 + step)

    def _move(self, gradient: np.ndarray) -> np.ndarray:
        # Step sizes fall as t^-1/2; the noise of the release is the spread of q's mean of samples.
        return self._theta + self._step_size(self._step) * (gradient - self._alpha * self._theta)

    def result(self) -> dict[str, np.ndarray]:
        """The kept iterates, q's last spread, and what the Bayesian accountant says."""
        scale = self._step_size(self._step - 1) * self._noise * math.sqrt(self._settings["n_samples"])
        arrays = super().result() | {"scale": np.array([scale])}
        if self.accountants:
            delta = self._settings["target_delta"]
            delta = min(1e-5, 0.1 / self._n) if delta is None else float(delta)
            best = min((accountant.guarantee(delta) for accountant in self.accountants), key=lambda g: g.epsilon_mu)
            arrays["bayesian"] = np.array([best.epsilon_mu, best.delta_mu, best.order, best.steps, best.pairs_per_step])
        return arrays


class _PairsBackend(Threads):
    """Threads, and in each step some pairs of records for the Bayesian accountants."""

    def __init__(self, n_threads: int, n_pairs: int):
        super().__init__(n_threads)
        self._n_pairs, self._generator = n_pairs, np.random.default_rng()

    def sum(
        self, model: Any, records: Any, rows: np.ndarray, words: np.ndarray, figures: dict[str, float] | None = None
    ) -> np.ndarray:
        """See `Backend.sum`."""
        chosen, where = np.unique(self._generator.integers(0, records.n_rows, 2 * self._n_pairs), return_inverse=True)
        scores = model.clipped(records.block(chosen))[where]
        distances = np.linalg.norm(scores[: self._n_pairs] - scores[self._n_pairs :], axis=1)
        for accountant in model.accountants:
            accountant.step(distances)
        return super().sum(model, records, rows, words, figures)


class VariationalSamplingLogisticRegression(ScoreClassifier):
    """Variational inference that releases samples of q in place of its parameters (Triastcyn & Faltings 2019).

    In each step q is a normal whose mean is one gradient step from the mean of the last
    step's samples, and ``n_samples`` samples of it are released. No noise is added to the
    gradient: the samples' spread hides it, and their mean, which is all that is used of
    them, is the clipped gradient step plus normal noise of the spread over
    sqrt(n_samples). So a step is one Gaussian release, and ``posterior_scale_`` is the
    spread that the target needs.

    The article's q goes on from its own parameters, which were never released, but counts
    each step's divergence as if only that step's gradient separated two data sets; that is
    no guarantee. Starting from the released samples makes the count right.

    Parameters
    ----------
    clip_norm, prior_precision, learning_rate : float
        A step is learning_rate / sqrt(t) on the mean gradient of a record.
    n_samples : int
        Samples of q a step.
    bayesian_pairs : int
        Pairs of records a step for the Bayesian accountant; 0 leaves it out. Its result
        is a data-dependent statement about a random record, not differential privacy; it
        is itself private, and asking for it marks the model NOT PRIVATE.
    n_steps, sampling, neighbors, batch_size, target_epsilon, target_delta, noise_multiplier
        As in `vips_fast.BayesianLogisticRegression`.
    private, n_records, n_jobs, callback
        As in `vips_fast.BayesianLogisticRegression`.
    fit_intercept : bool
    random_state : int, numpy Generator, RandomState or None
        Seeds the minibatches of a fit that is not private.

    Attributes
    ----------
    posterior_scale_ : float
        Standard deviation of q in the last step.
    bayesian_ : `vips_fast.accounting.BayesianGuarantee` or None
        Least over a fixed list of orders.
    """

    _kind = SamplingModel

    def __init__(
        self, *, clip_norm: float = 1.0, prior_precision: float = 1.0, learning_rate: float = 10.0, n_samples: int = 10,
        bayesian_pairs: int = 0, n_steps: int = 200, sampling: str = "poisson", neighbors: str | None = None,
        batch_size: float | None = None, target_epsilon: float | None = None, target_delta: float | None = None,
        noise_multiplier: float | None = None, fit_intercept: bool = True, private: bool = True,
        n_records: int | None = None, n_jobs: int | None = None, random_state: Any = None,
        callback: Callable[[Progress], None] | None = None,
    ):
        self.clip_norm = clip_norm
        self.prior_precision = prior_precision
        self.learning_rate = learning_rate
        self.n_samples = n_samples
        self.bayesian_pairs = bayesian_pairs
        self.n_steps = n_steps
        self.sampling = sampling
        self.neighbors = neighbors
        self.batch_size = batch_size
        self.target_epsilon = target_epsilon
        self.target_delta = target_delta
        self.noise_multiplier = noise_multiplier
        self.fit_intercept = fit_intercept
        self.private = private
        self.n_records = n_records
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.callback = callback

    def fit(self, X: Any, y: Any, *, transcript: str | Path | None = None) -> Self:
        """See `LinearClassifier.fit`; with ``bayesian_pairs`` the model cannot be made again from a transcript."""
        if self.bayesian_pairs and transcript is not None:
            raise ValueError("transcript: expected None with bayesian_pairs, whose figures are not in the releases")
        return super().fit(X, y, transcript=transcript)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("learning_rate", self.learning_rate, 0, math.inf, low_open=True, high_open=True)
        check_number("n_samples", self.n_samples, 1, 2**31, integer=True)
        pairs = check_number("bayesian_pairs", self.bayesian_pairs, 0, 2**31, integer=True)
        if pairs in (1, 2):
            raise ValueError(f"bayesian_pairs={pairs}: expected 0 or at least 3")
        if pairs and (self.sampling == "without_replacement" or not self.private or self.noise_multiplier == 0):
            raise ValueError(f"bayesian_pairs={pairs}: expected 0 without noise or with sampling='without_replacement'")

    def _taints(self) -> tuple[str, ...]:
        return ("bayesian_pairs: figures of pairs of training records were opened",) if self.bayesian_pairs else ()

    def _backend(self) -> Backend:
        n_threads = resolve_n_threads(self.n_jobs)
        return _PairsBackend(n_threads, int(self.bayesian_pairs)) if self.bayesian_pairs else Threads(n_threads)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        specs = super()._array_specs(public) | {"scale": ArraySpec((1,), low=0.0)}
        return specs | ({"bayesian": ArraySpec((5,))} if self.bayesian_pairs else {})

    @property
    def posterior_scale_(self) -> float:
        """Standard deviation of q in the last step."""
        return float(self._fitted().arrays["scale"][0])

    @property
    def bayesian_(self) -> BayesianGuarantee | None:
        """What the Bayesian accountant says, where it was asked."""
        figures = self._fitted().arrays.get("bayesian")
        if figures is None:
            return None
        epsilon, delta, order, steps, pairs = figures.tolist()
        return BayesianGuarantee(epsilon, delta, int(order), int(steps), int(pairs))
