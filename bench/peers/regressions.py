"""Private logistic regressions of a few lines, beside ours on the panel of tables.

Rows have an L2 norm of at most 1, and get the constant 1. A guarantee is for adding or removing a record: every method
is one Gaussian mechanism, or several with the exact accountant. The noise is numpy's: these are rows of a table, and no
releases.
"""

import math
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from vips_fast.accounting import gaussian_noise_multiplier

#: Norm of a row with its constant.
LONGEST = math.sqrt(2.0)


def design(X: Any) -> np.ndarray:
    """Append the constant to rows, which no data lengthen beyond norm 1."""
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, dtype=float)
    X = X / np.maximum(np.linalg.norm(X, axis=1), 1.0)[:, None]
    return np.hstack([X, np.ones((len(X), 1))])


class Linear:
    """What all of them do with their weights."""

    weights: np.ndarray

    def decision_function(self, X: Any) -> np.ndarray:
        return np.asarray(design(X) @ self.weights)

    def predict_proba(self, X: Any) -> np.ndarray:
        p = expit(self.decision_function(X))
        return np.stack([1 - p, p], axis=1)


@dataclass
class GradientDescent(Linear):
    """Noised gradients of all records, each clipped to ``clip`` (Song, Chaudhuri & Sarwate 2013; Abadi et al. 2016).

    The result is the mean of the second half of the way. `tuned` chooses on simulated rows of the same size.
    """

    epsilon: float
    delta: float
    rate: float = 4.0
    clip: float = 0.5
    steps: int = 40

    def fit(self, X: Any, y: np.ndarray, seed: int = 0) -> Self:
        rng, X = np.random.default_rng([seed, 1]), design(X)
        noise = self.clip * gaussian_noise_multiplier(self.epsilon, self.delta) * math.sqrt(self.steps)
        lengths, w, self.weights = np.linalg.norm(X, axis=1), np.zeros(X.shape[1]), np.zeros(X.shape[1])
        late = self.steps - self.steps // 2
        for step in range(self.steps):
            residual = y - expit(X @ w)
            residual *= np.minimum(1.0, self.clip / np.maximum(lengths * np.abs(residual), 1e-12))
            w = w + self.rate * (X.T @ residual + noise * rng.normal(size=len(w))) / len(y)
            if step >= self.steps - late:
                self.weights = self.weights + w / late
        return self

    @classmethod
    def tuned(cls, n: int, d: int, epsilon: float, delta: float, runs: int = 2) -> "GradientDescent":
        """Take the settings with the best mean AUC on simulated rows of this size."""
        best, found = -1.0, cls(epsilon, delta)
        tables = [simulated(n, d, run) for run in range(runs)]
        for rate, clip, steps in product((1.0, 4.0, 16.0, 64.0), (0.2, 0.5, 1.0), (10, 40)):
            one, aucs = cls(epsilon, delta, rate, clip, steps), []
            for run, (X, y, unseen, labels) in enumerate(tables):
                aucs.append(roc_auc_score(labels, one.fit(X, y, run).decision_function(unseen)))
            if np.mean(aucs) > best:
                best, found = float(np.mean(aucs)), one
        return found


def simulated(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Draw rows to tune on, and unseen ones: half of the columns are rare or usual 0/1, half are numbers in [-1, 1]."""
    rng = np.random.default_rng([seed, n, d])
    X = np.clip(rng.normal(size=(n + 2000, d)) / 2, -1, 1)
    half = d // 2
    X[:, :half] = rng.random((len(X), half)) < np.geomspace(0.02, 0.5, half)
    X /= math.sqrt(d)
    logits = X @ rng.normal(size=d)
    logits = (logits - logits.mean()) / logits.std() - 1.0
    y = (rng.random(len(X)) < expit(logits)).astype(int)
    return X[:n], y[:n], X[n:], y[n:]


@dataclass
class OneRelease(Linear):
    """Shrink one release of the sum of x (y - 1/2), with the curvature of rows in no direction.

    Weights are normal with a variance that the release itself tells. The curvature n |x|^2 / (4 d) is public.
    """

    epsilon: float
    delta: float

    def fit(self, X: Any, y: np.ndarray, seed: int = 0) -> Self:
        rng, X = np.random.default_rng([seed, 2]), design(X)
        noise = 0.5 * LONGEST * gaussian_noise_multiplier(self.epsilon, self.delta)
        seen = X.T @ (y - 0.5) + noise * rng.normal(size=X.shape[1])
        n, d = len(y), X.shape[1] - 1
        signal = max(float(np.mean(seen[:-1] ** 2)) - noise**2, 0.0)
        self.weights = seen * signal / (signal + noise**2) / (n / (4 * d))
        share = min(max(0.5 + seen[-1] / n, 0.01), 0.99)
        self.weights[-1] = math.log(share / (1 - share))
        return self
