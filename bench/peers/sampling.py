"""Variational inference by sampling, and the Bayesian accountant that goes with it."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy.special import expit

from vips_fast.checks import check_number
from vips_fast.engine.backend import Backend, Threads
from vips_fast.engine.result import Public
from vips_fast.kernels.logistic import Rows
from vips_fast.kernels.threads import resolve_n_threads
from vips_fast.models.estimator import ArraySpec
from vips_fast.models.parameters import BudgetLike
from vips_fast.models.readouts import Published

from .dpsgd import dense
from .scores import ScoreClassifier, ScoreModel
from .theorems import BayesianAccountant, BayesianGuarantee

#: Orders lambda among which the Bayesian accountant's result is the least.
_ORDERS = (1, 2, 4, 8, 16, 32, 64, 128)


class SamplingModel(ScoreModel):
    """Gradient steps whose release's noise is the spread of samples of q."""

    accountants: tuple[BayesianAccountant, ...] = ()

    def prepare(self, mechanism: Any, sampler: Any) -> None:
        """Prepare as the base, with Bayesian accountants of all orders."""
        super().prepare(mechanism, sampler)
        if self._settings["bayesian_pairs"]:
            q = self._batch / self._n
            run = q, mechanism.noise_sd, self._n_steps
            self.accountants = tuple(BayesianAccountant(*run, order) for order in _ORDERS)

    def clipped(self, block: Rows) -> np.ndarray:
        """Scores of a block as numbers, clipped."""
        X = dense(block, self._d)
        scores = (block.y - expit(X @ self._theta))[:, None] * X
        return np.asarray(scores / np.maximum(1.0, np.linalg.norm(scores, axis=1) / self.clip)[:, None])

    def _step_size(self, step: int) -> float:
        return float(self._settings["learning_rate"]) / self._n / math.sqrt(1 + step)

    def _move(self, gradient: np.ndarray) -> np.ndarray:
        # Step sizes fall as t^-1/2; the noise of the release is the spread of q's mean of samples.
        return self._theta + self._step_size(self._step) * (gradient - self._alpha * self._theta)

    def result(self) -> dict[str, np.ndarray]:
        """Give the kept iterates, q's last spread, and the Bayesian accountant's figures."""
        scale = self._step_size(self._step - 1) * self._noise * math.sqrt(self._settings["n_samples"])
        arrays = super().result() | {"scale": np.array([scale])}
        if self.accountants:
            delta = self._settings["delta"]
            delta = min(1e-5, 0.1 / self._n) if delta is None else float(delta)
            best = min((accountant.guarantee(delta) for accountant in self.accountants), key=lambda g: g.epsilon_mu)
            arrays["bayesian"] = np.array([best.epsilon_mu, best.delta_mu, best.order, best.steps, best.pairs_per_step])
        return arrays


class _PairsBackend(Threads):
    """Threads that also give record pairs to the Bayesian accountants. There are some pairs in each step."""

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


@dataclass(kw_only=True, eq=False, repr=False)
class VariationalSamplingLogisticRegression(ScoreClassifier):
    """Variational inference that releases samples of q, not its parameters.

    The source is Triastcyn & Faltings 2019. In each step q is a normal whose mean is one gradient step from the mean of
    the last step's samples, and ``n_samples`` samples of it are released. No noise is added to the gradient: the
    samples' spread hides it. And their mean, which is all that is used of them, is the clipped gradient step plus
    normal noise of the spread over sqrt(n_samples). So a step is one Gaussian release, and ``posterior_scale_`` is the
    spread, in the last step, that the target needs.

    The article's q continues from its own parameters, which were never released. But it counts each step's divergence
    as if only that step's gradient separated two data sets; that is no guarantee. Starting from the released samples
    makes the count right.

    Its parameters are the base's and two more. A ``learning_rate``: a step is learning_rate / sqrt(t) on the mean
    gradient of a record. ``bayesian_pairs``, the pairs of records a step for the Bayesian accountant; 0 leaves it out.
    Its result, ``bayesian_``, the least over a fixed list of orders, is a data-dependent statement about a random
    record, not differential privacy. It is itself private, and asking for it marks the model NOT PRIVATE.
    """

    _kind = SamplingModel
    learning_rate: float = 10.0
    n_samples: int = 10
    bayesian_pairs: int = 0

    def fit(self, X: Any, y: Any, *, transcript: str | Path | None = None, budget: BudgetLike = None) -> Self:
        """Fit as `LinearClassifier.fit`, without transcript for ``bayesian_pairs``.

        With them the model cannot be made again from a transcript.
        """
        if self.bayesian_pairs and transcript is not None:
            raise ValueError("transcript: expected None with bayesian_pairs, whose figures are not in the releases")
        return super().fit(X, y, transcript=transcript, budget=budget)

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
        why = "bayesian_pairs: computed from pairs of training records without noise"
        return (*([why] if self.bayesian_pairs else []), *super()._taints())

    def _backend(self) -> Backend:
        n_threads = resolve_n_threads(self.n_jobs)
        return _PairsBackend(n_threads, int(self.bayesian_pairs)) if self.bayesian_pairs else Threads(n_threads)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        specs = super()._array_specs(public) | {"scale": ArraySpec((1,), low=0.0)}
        return specs | ({"bayesian": ArraySpec((5,))} if self.bayesian_pairs else {})

    posterior_scale_ = Published[float]("scale", "Standard deviation of q in the last step.", 0)

    @property
    def bayesian_(self) -> BayesianGuarantee | None:
        """The Bayesian accountant's guarantee; None without ``bayesian_pairs``."""
        figures = self._fitted().arrays.get("bayesian")
        if figures is None:
            return None
        epsilon, delta, order, steps, pairs = figures.tolist()
        return BayesianGuarantee(epsilon, delta, int(order), int(steps), int(pairs))
