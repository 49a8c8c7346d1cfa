"""Noised sums of clipped scores, the base of DPVI, DP-SGLD and sampling.

The score of a record is the gradient of its log-likelihood, (y - sigmoid(x . theta)) x. All three are the package's own
loop with another M-step. The contributions come from the logistic regression kernel: around the center theta and with
<m m^T> = theta theta^T its linear statistic is the score.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vips_fast.checks import check_flag, check_number
from vips_fast.engine.loop import Progress
from vips_fast.engine.model import Model, Release, array_of, steps_of
from vips_fast.engine.plan import RunSchedule
from vips_fast.engine.result import Public
from vips_fast.kernels import native
from vips_fast.kernels.logistic import Rows, factor_spacing, workspace
from vips_fast.models.estimator import ArraySpec

from .linear import LinearClassifier


class ScoreModel(Model):
    """Clipped scores as the engine's statistic.

    Subclasses choose the point and the step.

    ``settings`` are the estimator's, by name. All randomness here is a function of the public seed
    and of the step: only the releases' own noise hides the records.
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
        """Take the lattice, and the gradient's noise. The gradient is of the whole data's log-likelihood."""
        self._spacing, self._batch = mechanism.spacing, sampler.expected_batch_size
        self._noise = mechanism.noise_sd * self._n / self._batch

    def _draws(self, purpose: int) -> np.ndarray:
        return np.random.default_rng([self._seed, self._step, purpose]).normal(size=self._d)

    def _take(self) -> None:
        """Choose the point of the next step's scores."""
        self._center = self._theta
        self._moment = np.outer(self._center, self._center)

    def _rows(self, block: Rows) -> Rows:
        """Return the rows that multiply the residual."""
        return block

    def contribute(self, block: Rows, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add the truncated clipped scores."""
        block, width = self._rows(block), self.shape[0]
        work = workspace(width, block.indptr is None)
        linear, quadratic = np.empty((2, block.n_rows))
        native.logistic_weights(
            width,
            block.indptr,
            block.indices,
            block.values,
            block.y,
            None,
            self._moment,
            self._center,
            1e100,
            1.0,
            1.0,
            math.inf,
            self.clip,
            self._spacing,
            factor_spacing(self.clip),
            False,
            work,
            linear,
            quadratic,
            None,
            None,
            block.unit,
        )
        native.logistic_accumulate(
            width, 0, width, block.indptr, block.indices, block.values, linear, quadratic, work, out, None, block.unit
        )

    def update(self, release: Release) -> None:
        """Take one step with the noised gradient.

        It is the gradient of the log-likelihood. The result is made of the second half.
        """
        self._theta = self._move(release.values * self._n)
        if self._step >= self._n_steps // 2:
            self._kept = np.vstack([self._kept, self._theta])
        self._step += 1
        self._take()

    @abstractmethod
    def _move(self, gradient: np.ndarray) -> np.ndarray:
        """Compute the parameters after a step with this gradient."""

    def state(self) -> dict[str, np.ndarray]:
        return {"theta": self._theta.copy(), "kept": self._kept.copy(), "step": np.array([float(self._step)])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        theta, kept, step = array_of(state, "theta", self.shape), array_of(state, "kept"), steps_of(state)
        if kept.ndim != 2 or kept.shape[1] != len(theta):
            raise ValueError(f"state: 'kept' has shape {kept.shape}, expected rows of {len(theta)}")
        self._theta, self._kept, self._step = theta, kept, step
        self._take()

    def result(self) -> dict[str, np.ndarray]:
        """Return the kept iterates."""
        return {"samples": self._kept}


@dataclass(kw_only=True, eq=False, repr=False)
class ScoreClassifier(LinearClassifier):
    """Base of the three estimators.

    ``clip_norm`` is the L2 bound of a record's score; ``random_state`` seeds the randomness that hides nothing, and
    the minibatches of a fit that is not private. Other parameters are as in `vips_fast.BayesianLogisticRegression`.
    """

    _kind: ClassVar[type[ScoreModel]]
    clip_norm: float = 1.0
    prior_precision: float = 1.0
    n_steps: int = 200
    sampling: str = "poisson"
    relation: str | None = None
    batch_size: float | None = None
    noise_multiplier: float | None = None
    n_jobs: int | None = None
    callback: Callable[[Progress], None] | None = None

    def _check_parameters(self) -> None:
        for name in ("clip_norm", "prior_precision"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)
        check_flag("fit_intercept", self.fit_intercept)
        super()._check_parameters()
        if self.sampling != "full" and self.batch_size is None:
            raise ValueError(f"batch_size=None: expected a number with sampling={self.sampling!r}")

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        return self._kind(public, self._settings())

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        n_kept = int(self.n_steps) - int(self.n_steps) // 2
        return {"samples": ArraySpec((n_kept, public.n_features + bool(self.fit_intercept)))}
