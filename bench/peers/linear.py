"""Reading and read-outs of the linear classifiers of this folder."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit

from vips_fast.engine.loop import Progress
from vips_fast.kernels.logistic import MAX_FEATURES
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.logistic.records import LogisticRecords, design, not_finite, read_labels, usable_rows
from vips_fast.models.parameters import BudgetLike


@dataclass(kw_only=True, eq=False, repr=False)
class LinearClassifier(PrivateEstimator):
    """Two classes, rows dense or sparse, and parameters ``(coefficients, intercept)``."""

    _estimator_type = "classifier"
    _most_columns: ClassVar[int] = MAX_FEATURES
    # Parameters of the package's estimators that a baseline need not have.
    sampling: str = field(default="full", init=False)
    relation: str | None = field(default=None, init=False)
    batch_size: float | None = field(default=None, init=False)
    n_steps: int | None = field(default=1, init=False)
    noise_multiplier: float | None = field(default=None, init=False)
    invalid: str = field(default="raise", init=False)
    n_jobs: int | None = field(default=None, init=False)
    callback: Callable[[Progress], None] | None = field(default=None, init=False)
    # Those that all have.
    fit_intercept: bool = True
    epsilon: float | None = None
    delta: float | None = None
    private: bool = True
    n_records: int | None = None
    random_state: Any = None

    @property
    def _constant(self) -> float:
        return float(self.fit_intercept)

    def fit(self, X: Any, y: Any, *, transcript: str | Path | None = None, budget: BudgetLike = None) -> Self:
        """Fit to rows X, (n, d), dense or sparse, and two labels.

        Raises ValueError or TypeError if a parameter or the data are unusable, or the run would overspend; nothing is
        spent.
        """
        return self._fit(X, y, transcript=transcript, budget=budget)

    def _read(self, X: Any, y: Any = None, **extra: Any) -> tuple[Any, dict[str, Any]]:
        matrix = design(X, self._constant, self._most_columns)
        n, d = matrix.shape
        classes, target, problems = read_labels(y, n, "raise")
        usable_rows([*problems, (not_finite(matrix), "X: expected finite values, found NaN or infinity")], "raise")
        records = LogisticRecords.of(matrix, target)
        facts: dict[str, Any] = {"n_features": d - (self._constant > 0), "classes": classes}
        if not self.private:
            facts["scale"] = records.largest()[0] or 1.0
        return records, facts

    def _samples(self) -> np.ndarray:
        """Kept parameters, a row each."""
        return self._fitted().arrays["samples"]

    @property
    def coef_(self) -> np.ndarray:
        """Mean of the kept coefficients, shape (1, d)."""
        d = self.n_features_in_
        return np.asarray(self._samples()[:, :d].mean(axis=0, keepdims=True))

    @property
    def intercept_(self) -> np.ndarray:
        """Mean of the kept intercepts, shape (1,)."""
        samples, d = self._samples(), self.n_features_in_
        return samples[:, d:].mean(axis=0) if samples.shape[1] > d else np.zeros(1)

    @property
    def classes_(self) -> np.ndarray:
        """The two labels, sorted."""
        classes = self._fitted().public.classes
        assert classes is not None
        return classes

    def _margins(self, X: Any, samples: np.ndarray) -> np.ndarray:
        matrix, d = design(self._held(X), 0.0, self._most_columns), self.n_features_in_
        if matrix.shape[1] != d:
            raise ValueError(f"X has shape {matrix.shape}: expected (n, {d})")
        value = np.asarray(matrix @ samples[:, :d].T)
        return value + samples[:, d] if samples.shape[1] > d else value

    def decision_function(self, X: Any) -> np.ndarray:
        """x . theta at the mean of the kept parameters, shape (n,)."""
        return np.asarray(self._margins(X, self._samples().mean(axis=0, keepdims=True))[:, 0])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute probabilities of the two classes, (n, 2). They are averaged over the kept parameters."""
        p = expit(self._margins(X, self._samples())).mean(axis=1)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the more probable class of each row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def score(self, X: Any, y: Any) -> float:
        """Accuracy."""
        return float((self.predict(X) == np.asarray(y)).mean())
