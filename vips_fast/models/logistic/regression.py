"""What regressions of classes and of counts share: reading rows, forecast, coefficients and intervals."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse, special

from ...checks import check_flag, check_memory, check_number
from ...data.arrays import dense_array, not_finite_text
from ...data.shards import ShardedCorpus
from ...data.types import Array, Data, Matrix, Vector
from ...engine.gain import FoundGain, MeasuredModel
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule
from ...engine.result import Public
from ...kernels.logistic import MAX_FEATURES, triangle_size
from ...kernels.threads import resolve_n_threads
from ...store.text import printable
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import by_signal
from ..readouts import Attribute, Published, by_pieces
from ..verdict import Verdict
from .effects import Effect, reading
from .findings import Told, findings
from .forecast import forecast
from .model import LogisticModel, LogisticOptions, LogisticSettings
from .multiclass import OneVsRestModel
from .records import LogisticRecords, LogisticShards, Problem, check_scale, design, not_finite, usable_rows
from .spherical import MAX_COLUMNS, SphericalModel

#: Limits of a spherical regression's signal, fitted on articles of Reuters: below the first only a topic of a third of
#: them was ranked better than .6, from the second on every topic better than .7.
_SIGNALS = 4.0, 100.0
#: The constant for the intercept over row_norm. It makes every row longer, and noise is in proportion to that: on the
#: panel of tables no other of .12, .2, .5 and 1 ranks better in more cells.
CONSTANT = 0.3
#: Outcomes, numbers of trials, invalid ones of them, and public facts.
Outcomes = tuple[np.ndarray, np.ndarray | None, list[Problem], dict[str, Any]]


@dataclass(kw_only=True, repr=False, eq=False)
class Regression(PrivateEstimator):
    """A regression by Polya-Gamma variables, for any outcomes."""

    _options_type: ClassVar[type] = LogisticOptions
    #: What the exponential of a coefficient is.
    _ratio: ClassVar[str] = "odds ratio"
    #: What a verdict says that the columns do, and better than what.
    _claim: ClassVar[tuple[str, str]] = ("the columns predict the outcome", "than its base rate does, by log loss")

    row_norm: float = 1.0
    fit_intercept: bool = True
    n_steps: int | None = 20
    sampling: str = "full"

    def _check_parameters(self) -> None:
        check_number("row_norm", self.row_norm, 1e-12, 1e12)
        check_flag("fit_intercept", self.fit_intercept)
        super()._check_parameters()
        if self.sampling not in ("full", "random_allocation", None) and self.batch_size is None:
            raise ValueError(f"batch_size=None: expected a number with sampling={self.sampling!r}")

    @property
    @abstractmethod
    def n_trials(self) -> float:
        """The most trials of a record."""

    @property
    def _weight_bound(self) -> float:
        """The largest factor of x x^T in a record's curvature."""
        return float(self.n_trials) / 4

    @property
    @abstractmethod
    def _headline(self) -> str:
        """Name the outcome of the effects."""

    @property
    def _expected_trials(self) -> float:
        """Trials of a record, for a forecast."""
        return float(self.n_trials)

    @property
    def _full(self) -> bool:
        """Whether the covariance is a matrix."""
        return True

    @property
    def _has_score(self) -> bool:
        return self.fit_intercept and self._full

    def _warned(self) -> Self:
        """Warn of what the releases show; the caller is what the user calls."""
        for text in findings(self):
            warnings.warn(printable(text), stacklevel=3)
        return self

    @abstractmethod
    def _read_outcomes(self, y: Any, n: int) -> Outcomes:
        """Read the outcomes of ``n`` rows."""

    @property
    def _constant(self) -> float:
        """Entry of the intercept's column; 0 without one."""
        given = self._options.intercept_scaling
        usual = CONSTANT * self.row_norm if self.private else 1.0
        return float(usual if given is None else given) if self.fit_intercept else 0.0

    def _read(self, X: Any, y: Any = None, **more: Any) -> tuple[Any, dict[str, Any]]:
        shards = X if isinstance(X, ShardedCorpus) else None
        given = X if shards is None else shards.matrix(np.arange(0))
        X = given if sparse.issparse(given) else dense_array(given, "X", self._options.invalid == "drop")
        matrix = design(X, self._constant, MAX_FEATURES if self._full else MAX_COLUMNS)
        n, d = matrix.shape
        if shards is not None:
            n, y = shards.n_rows, shards.labels if y is None else y
        if y is None and shards is not None:
            raise ValueError(f"X: shards of {shards.kind}: expected shards of rows with labels, or y")
        if y is None:
            raise ValueError(f"y=None: {type(self).__name__} requires y to be passed, but the target y is None")
        outcomes, trials, problems, facts = self._read_outcomes(y, n, **more)
        if self._full:
            _check_memory(d, resolve_n_threads(self.n_jobs), n_models(facts.get("classes")))
        records: LogisticRecords | LogisticShards
        if shards is None:
            bad = not_finite(matrix)
            problems.append((bad, f"X: expected finite values, {not_finite_text(given, matrix)}" if bad.any() else ""))
            records = LogisticRecords.of(matrix, outcomes, trials, usable_rows(problems, self._options.invalid))
        else:
            if shards.usable is not None:
                problems.append((~shards.usable, "X: expected rows that were all usable when the shards were written"))
            usable = usable_rows(problems, self._options.invalid)
            records = LogisticShards(shards, self._constant, outcomes, trials, usable)
        facts["n_features"] = d - (self._constant > 0)
        if not self.private:
            facts["scale"] = check_scale(given, records.largest(), self._constant, self._full)
        return records, facts

    def _model_settings(self, schedule: RunSchedule | None) -> LogisticSettings:
        # The last step is the model's last, or the score's.
        steps = self._steps_of(schedule) - (schedule is not None and schedule.measured)
        private, bound, partial = bool(self.private), float(self.row_norm), schedule is not None and not schedule.whole
        return LogisticSettings(self._constant, bound, float(self.n_trials), steps, private, partial, self._options)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        model = model.model if isinstance(model, MeasuredModel) else model
        if not self.private or not schedule.noise_multiplier:
            return None
        share = schedule.sampler.expected_batch_size / public.n_records
        sd = schedule.noise_multiplier * model.sensitivity(schedule.sampler.relation) / share
        n_steps = schedule.horizon - schedule.measured
        if isinstance(model, SphericalModel):
            return by_signal(model.signal(sd / math.sqrt(n_steps)), *_SIGNALS, "columns that tell the classes", "")
        if not isinstance(model, (LogisticModel, OneVsRestModel)):
            return None
        one = model if isinstance(model, LogisticModel) else model.classes[0]
        one.plan(sd * share, share)
        (_, first), (linear, other) = one.unit_scales(True), one.unit_scales(False)
        noise = sd * linear / math.sqrt(one.averaged)
        precision = first**-2 + (n_steps - 1) * other**-2
        hidden = sd / math.sqrt(precision) if precision else math.inf
        n = public.n_records * self._expected_trials
        return forecast(n, public.n_features, float(self.row_norm), noise, hidden, self._ratio)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        d = public.n_features + (self._constant > 0)
        shapes, k = {"weights": (d,), "covariance": (d, d), "prior": (2,)}, n_models(public.classes)
        specs = {name: ArraySpec(shape if k == 1 else (k, *shape)) for name, shape in shapes.items()}
        if not self._full:
            specs["covariance"] = ArraySpec((1,), low=0.0)
        return {**specs, "prior": replace(specs["prior"], low=0.0)}

    # With K > 2 classes a read-out has one entry for each of them; with two it is the second's.

    @property
    def coef_(self) -> Matrix:
        """Posterior mean of the coefficients, shape (1, d), or (K, d)."""
        return np.atleast_2d(self._fitted().arrays["weights"])[:, : self.n_features_in_]

    @property
    def intercept_(self) -> Vector:
        """Posterior mean of the intercept, shape (1,), or (K,)."""
        return np.atleast_2d(self._fitted().arrays["weights"])[:, -1] * self._as_fitted()._constant

    #: The constant's weight is intercept / intercept_scaling.
    covariance_ = Published[Array](
        "covariance", "Posterior covariance of coefficients and constant, (d, d), (K, d, d), or (1,): the variance"
    )

    @property
    def _spherical(self) -> bool:
        return self.covariance_.shape == (1,)

    prior_shape_ = Attribute["np.float64 | Vector"](
        lambda self: self._fitted().arrays["prior"].T[0], doc="a_N of q(alpha) (Eq. 53), a float, or an array (K,)."
    )
    prior_rate_ = Attribute["np.float64 | Vector"](
        lambda self: self._fitted().arrays["prior"].T[1], doc="b_N of q(alpha) (Eq. 53), a float, or an array (K,)."
    )

    @property
    def prior_precision_(self) -> np.float64 | Vector:
        """<alpha> = a_N / b_N, the expected precision of the coefficients."""
        return self.prior_shape_ / self.prior_rate_

    def _rows_of(self, X: Any) -> tuple[Any, np.ndarray]:
        """Append the constant, and compute the factors of long rows."""
        fitted, X = self._as_fitted(), self._held(X)
        constant = fitted._constant
        matrix = design(X, constant, MAX_COLUMNS)
        d = matrix.shape[1] - (constant > 0)
        if d != self.n_features_in_:
            raise ValueError(
                f"X has {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input"
            )
        if not_finite(matrix).any():
            raise ValueError(f"X: expected finite values, {not_finite_text(X, matrix)}")
        if not fitted.private:
            return matrix, np.ones(matrix.shape[0])
        bound = float(np.hypot(float(fitted.row_norm), constant))
        return matrix, np.minimum(1.0, bound / np.maximum(np.sqrt(_row_products(matrix, matrix)), bound))

    @by_pieces(np.concatenate)
    def decision_function(self, X: Data) -> Array:
        """Compute the posterior mean of x . m for rows. It is (n,) or (n, K)."""
        return self._mean(*self._rows_of(X))

    def _mean(self, matrix: Any, scale: np.ndarray) -> np.ndarray:
        return np.asarray((np.asarray(matrix @ self._fitted().arrays["weights"].T).T * scale).T)

    @by_pieces(np.concatenate)
    def decision_variance(self, X: Data) -> Array:
        """Compute the posterior variance of x . m: (n,) or (n, K)."""
        return self._variance(*self._rows_of(X))

    def _variance(self, matrix: Any, scale: np.ndarray) -> np.ndarray:
        if self._spherical:
            return np.asarray(self.covariance_[0] * _row_products(matrix, matrix) * scale**2)
        d, shape = matrix.shape[1], self.covariance_.shape[:-2]
        result = np.empty((math.prod(shape), matrix.shape[0]))
        for first in range(0, matrix.shape[0], 4096):
            part = matrix[first : first + 4096]
            for row, covariance in zip(result, self.covariance_.reshape(-1, d, d), strict=True):
                row[first : first + 4096] = _row_products(part, part @ covariance)
        return np.asarray((np.maximum(result, 0.0) * scale**2).reshape(*shape, -1).T)

    def credible_interval(self, level: float = 0.9) -> Array:
        """Compute central posterior intervals, (d, 2) or (K, d, 2).

        ``level`` is their level. The interval of a coefficient that the releases say too little about is the whole
        line: see `vips_fast.models.logistic.effects.Reading.known`.
        """
        found = reading(self).limits(level)
        return found if len(found) > 1 else found[0]

    def effects(self, level: float = 0.9) -> list[Effect]:
        """Compute effects in the columns' own units, with intervals.

        ``level`` is in (0, 1). Units and reference values come from the schema, if the fit had it among its ``inputs``;
        without one a change is +1 of a column. See `vips_fast.models.logistic.effects.Effect`.
        """
        return reading(self).effects(level)

    @property
    def found_gain_(self) -> FoundGain | None:
        """The measured gain of the model, with its 90 % interval (`vips_fast.engine.gain`).

        It is the share of the base rate's log loss that the columns save, as a release tells; of counts, the share of
        perplexity. The last step of a fit measures it. None without noise or an intercept, with few steps, after
        ``partial_fit``, or with ``measure_gain=False``.
        """
        found = super().found_gain_
        if found is None or (loss := self._base_loss()) is None:
            return found
        # Noise may make nats that no prediction has: a gain of 1 is a prediction without error.
        return FoundGain(*(min(max(-math.log1p(-min(share, 1 - 1e-12)) / loss, -1.0), 1.0) for share in found))

    def _base_loss(self) -> float | None:
        """Compute the log loss of the released base rate, in nats."""
        state, classes = self._fitted().state, self._fitted().public.classes
        if classes is None:
            return None
        names = ["base"] if len(classes) <= 2 else [f"class{k}.base" for k in range(len(classes))]
        shares = special.expit(np.array([float(state[name][0]) for name in names]))
        shares = np.append(shares, 1 - shares) if len(shares) == 1 else shares / shares.sum()
        return max(-float(special.xlogy(shares, shares).sum()), 1e-6)

    @property
    def verdict_(self) -> Verdict:
        """Judge the regression in words, from releases only: what it predicts, and which effects are known."""
        return Verdict.of_outcomes(self.found_gain_, Told.of(self).sentence, *self._claim)


def _row_products(a: Any, b: Any) -> np.ndarray:
    """Multiply rows of two matrices; the first is dense or sparse."""
    return np.asarray(a.multiply(b).sum(axis=1)).reshape(-1) if sparse.issparse(a) else np.einsum("ij,ij->i", a, b)


def n_models(classes: np.ndarray | None) -> int:
    """Count the models: one for two classes, or else one for each."""
    return 1 if classes is None or len(classes) <= 2 else len(classes)


def _check_memory(n_features: int, n_threads: int, models: int) -> None:
    """Refuse statistics that the machine cannot hold, from public numbers."""
    triangle = 8 * triangle_size(n_features) * models
    # Triangles are one for each thread (as far as the backend gives one), the rounded sum, the release and its values.
    # Squares are the model's own with their temporaries, and the copies in the result.
    threads = max(1, min(n_threads, 2**31 // triangle))
    need = (threads + 3) * triangle + 9 * 8 * n_features**2 * models
    check_memory(f"{n_features} features: the statistics need about {need / 2**30:.1f} GiB", need)
