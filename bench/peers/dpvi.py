"""Differentially private variational inference by clipped noisy gradients."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vips_fast.checks import check_number
from vips_fast.data.types import Vector
from vips_fast.engine.model import array_of
from vips_fast.engine.result import Public
from vips_fast.kernels.logistic import Rows
from vips_fast.models.estimator import ArraySpec
from vips_fast.models.readouts import Published

from .dpsgd import dense
from .scores import ScoreClassifier, ScoreModel


class DPVIModel(ScoreModel):
    """Compute the gradient in theta = (mean, log sd). Through m = mean + sd eta it is (score, score eta sd)."""

    def __init__(self, public: Public, settings: Mapping[str, Any]):
        super().__init__(public, settings)
        self._squares = np.zeros(2 * self._d)

    def _width(self) -> int:
        return 2 * self._d

    def _start(self) -> np.ndarray:
        return np.concatenate([np.zeros(self._d), np.full(self._d, math.log(float(self._settings["initial_sd"])))])

    def _take(self) -> None:
        # Rows (x, x * eta sd); with the center (mean, 1) their product is x . (mean + eta sd).
        mean, log_sd = self._theta[: self._d], self._theta[self._d :]
        self._eta = self._draws(0) * np.exp(log_sd)
        self._center = np.concatenate([mean, np.ones(self._d)])
        self._moment = np.outer(self._center, self._center)

    def _rows(self, block: Rows) -> Rows:
        d = self._d
        if block.indptr is None:
            X = dense(block, d)
            return block._replace(n_features=2 * d, values=np.hstack([X, X * self._eta]).reshape(-1))
        old = np.ones(len(block.indices)) if block.unit else block.values
        sizes = np.diff(block.indptr)
        place = np.arange(len(old)) + np.repeat(block.indptr[:-1], sizes)
        second = place + np.repeat(sizes, sizes)
        indices, values = np.empty(2 * len(old), np.int32), np.empty(2 * len(old))
        indices[place], values[place] = block.indices, old
        indices[second], values[second] = block.indices + d, old * self._eta[block.indices]
        return block._replace(n_features=2 * d, indptr=2 * block.indptr, indices=indices, values=values, unit=False)

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
        return super().state() | {"squares": self._squares.copy()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        squares = array_of(state, "squares", self.shape)
        super().restore(state)
        self._squares = squares

    def result(self) -> dict[str, np.ndarray]:
        """Mean and standard deviation of q."""
        average = self._kept.mean(axis=0)
        return {"mean": average[: self._d], "sd": np.exp(average[self._d :])}


@dataclass(kw_only=True, eq=False, repr=False)
class DPVILogisticRegression(ScoreClassifier):
    """Differentially private variational inference by clipped noisy gradients.

    Jälkö, Dikmen & Honkela 2017.

    q(m) is a product of normals, of means ``mean_`` and standard deviations ``sd_``, the intercept last. The gradient
    of the variational bound with respect to means and log standard deviations goes through one draw m = mean + sd eta a
    step, common to the minibatch. A record's part, (score, score eta sd), is clipped to an L2 norm of ``clip_norm``;
    steps are Adagrad's, of ``learning_rate``, from standard deviations of ``initial_sd``. Means and log standard
    deviations of the second half of the steps are averaged. `ScoreClassifier` describes the other parameters;
    ``random_state`` seeds eta, which is public.
    """

    _kind = DPVIModel
    learning_rate: float = 0.3
    initial_sd: float = 0.1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("learning_rate", "initial_sd"):
            check_number(name, getattr(self, name), 0, math.inf, low_open=True, high_open=True)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        d = public.n_features + bool(self.fit_intercept)
        return {"mean": ArraySpec((d,)), "sd": ArraySpec((d,), low=0.0)}

    mean_ = Published[Vector]("mean", "Means of q.")
    sd_ = Published[Vector]("sd", "Standard deviations of q.")

    def _samples(self) -> np.ndarray:
        # Antithetic draws: their mean is exact.
        eta = np.random.default_rng(0).normal(size=(50, len(self.mean_))) * self.sd_
        return np.asarray(self.mean_ + np.concatenate([eta, -eta]))
