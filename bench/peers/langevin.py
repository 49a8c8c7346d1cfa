"""Differentially private stochastic gradient Langevin dynamics."""

import math
from dataclasses import dataclass

import numpy as np

from vips_fast.checks import check_number
from vips_fast.engine.result import Public
from vips_fast.models.estimator import ArraySpec
from vips_fast.models.readouts import Published

from .scores import ScoreClassifier, ScoreModel


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
        """Return the kept iterates and the step size."""
        return super().result() | {"step_size": np.array([self.step_size])}


@dataclass(kw_only=True, eq=False, repr=False)
class DPSGLDLogisticRegression(ScoreClassifier):
    """Differentially private stochastic gradient Langevin dynamics (Wang, Fienberg & Smola 2015).

    theta moves by (step / 2) (gradient of the log posterior) + N(0, step); the gradient comes from a minibatch's
    clipped scores. The noise that privacy needs is part of Langevin's own. The step is at most 4 / sd^2, where sd
    measures the noise on the whole data's gradient, and the rest of the variance ``step`` is added. The second half of
    the iterates are the posterior's samples.

    ``step_size`` None is 1 / (n C^2 / 4 + prior_precision), C being clip_norm, at most 10, or without privacy the
    longest row's norm; or less if privacy asks for it: ``step_size_`` is the one taken. `ScoreClassifier` describes
    the other parameters; ``random_state`` seeds Langevin's noise, which hides nothing.
    """

    _kind = SGLDModel
    step_size: float | None = None
    n_steps: int = 500

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("step_size", self.step_size, 0, math.inf, low_open=True, high_open=True, optional=True)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        return super()._array_specs(public) | {"step_size": ArraySpec((1,), low=0.0)}

    step_size_ = Published[float]("step_size", "The steps' size.", 0)
