"""`BayesianLogisticRegression`, after Algorithms 4 and 5 of Park et al. 2020, and what regressions of counts share."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import expit, softmax

from ...checks import check_choice, check_flag, check_memory, check_number, stated_classes
from ...data.arrays import check_new_records, not_finite_text
from ...data.shards import ShardedCorpus
from ...data.types import Array, Column, Data, Labels, Matrix, Vector
from ...engine.gain import FoundGain, MeasuredModel
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule
from ...engine.result import Public
from ...kernels.logistic import MAX_FEATURES, triangle_size
from ...kernels.threads import resolve_n_threads
from ...store.text import printable
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import by_signal
from ..parameters import Bookkeeping, Call, Common, Options
from ..plots import plot_coefficients
from ..readouts import Classifier, Published, by_pieces
from ..verdict import Verdict
from .effects import Effect, Interval, Told, findings, reading
from .forecast import forecast
from .model import LogisticModel, LogisticOptions, LogisticSettings, SandwichModel
from .multiclass import OneVsRestModel
from .posterior import class_logits, mean_sigmoid
from .records import LogisticRecords, LogisticShards, Problem, check_scale, design, not_finite, read_labels, usable_rows
from .score import saved_share
from .spherical import MAX_COLUMNS, SphericalModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .paper import PaperLogisticRegression

#: Limits of a spherical regression's signal, fitted on articles of Reuters: below the first only a topic of a third of
#: them was ranked better than .6, from the second on every topic better than .7.
_SIGNALS = 4.0, 100.0
#: The constant for the intercept over row_norm. It makes every row longer, and noise is in proportion to that: on the
#: panel of tables no other of .12, .2, .5 and 1 ranks better in more cells.
CONSTANT = 0.3
#: Draws from the posterior for marginal effects.
_DRAWS = 400
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
    def _trials(self) -> tuple[float, float, float, float]:
        """A record's most trials, its curvature's largest factor of x x^T; trials and mean that forecasts expect."""
        return 1.0, 0.25, 1.0, 0.0

    @property
    @abstractmethod
    def _headline(self) -> str:
        """Name the outcome of the effects."""

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
        shards, invalid = isinstance(X, ShardedCorpus), self._options.invalid
        given = X.matrix(np.arange(0)) if shards else X
        matrix = design(given, self._constant, MAX_FEATURES if self._full else MAX_COLUMNS, invalid == "drop")
        y, d = X.labels if shards and y is None else y, matrix.shape[1]
        if y is None and shards:
            raise ValueError(f"X: shards of {X.kind}: expected shards of rows with labels, or y")
        if y is None:
            raise ValueError(f"y=None: {type(self).__name__} requires y to be passed, but the target y is None")
        outcomes, trials, problems, facts = self._read_outcomes(y, X.n_rows if shards else matrix.shape[0], **more)
        if self._full:
            models = n_models(facts.get("classes"))
            triangle = 8 * triangle_size(d) * models
            # Triangles are one for each thread (as far as the backend gives one), the rounded sum, the release and its
            # values. Squares are the model's own with their temporaries, and the copies in the result.
            threads = max(1, min(resolve_n_threads(self.n_jobs), 2**31 // triangle))
            need = (threads + 3) * triangle + 9 * 8 * d**2 * models
            check_memory(f"{d} features: the statistics need about {need / 2**30:.1f} GiB", need)
        if not shards:
            bad = not_finite(matrix)
            problems.append((bad, f"X: expected finite values, {not_finite_text(given, matrix)}" if bad.any() else ""))
        elif X.usable is not None:
            problems.append((~X.usable, "X: expected rows that were all usable when the shards were written"))
        usable = usable_rows(problems, invalid)
        if shards:
            records: LogisticRecords = LogisticShards(X, self._constant, outcomes, trials, usable)
        else:
            records = LogisticRecords.of(matrix, outcomes, trials, usable)
        facts["n_features"] = d - (self._constant > 0)
        if not self.private:
            facts["scale"] = check_scale(given, records.largest(), self._constant, self._full)
        return records, facts

    def _model_settings(self, schedule: RunSchedule | None, n_scores: int = 1) -> LogisticSettings:
        # The last steps are the model's, or scores.
        steps = max(self._steps_of(schedule) - n_scores * (schedule is not None and schedule.measured), 1)
        private, bound, partial = bool(self.private), float(self.row_norm), schedule is not None and not schedule.whole
        return LogisticSettings(self._constant, bound, self._trials[0], steps, private, partial, self._options)

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        model = model.model if isinstance(model, MeasuredModel) else model
        if not self.private or not schedule.noise_multiplier:
            return None
        share = schedule.sampler.expected_batch_size / public.n_records
        sd = schedule.noise_multiplier * model.sensitivity(schedule.sampler.relation) / share
        n_steps = max(schedule.horizon - model.n_scores * schedule.measured, 1)
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
        n = public.n_records * self._trials[2]
        return forecast(n, public.n_features, float(self.row_norm), noise, hidden, self._trials[3])

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

    @property
    def prior_precision_(self) -> np.float64 | Vector:
        """<alpha> = a_N / b_N (Eq. 53), the expected precision of the coefficients: a float, or an array (K,)."""
        shape, rate = self._fitted().arrays["prior"].T
        return cast("np.float64 | Vector", shape / rate)

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
        check_new_records(X, matrix)
        if not fitted.private:
            return matrix, np.ones(matrix.shape[0])
        bound = float(np.hypot(float(fitted.row_norm), constant))
        return matrix, np.minimum(1.0, bound / np.maximum(np.sqrt(_row_products(matrix, matrix)), bound))

    @by_pieces(np.concatenate)
    def decision_function(self, X: Data) -> Array:
        """Compute the posterior mean of x . m for rows, (n,).

        Of K > 2 classes it is the logarithm of `predict_proba`, but for what all classes share, (n, K). `predict`
        decides by it.
        """
        mean = self._mean(*self._rows_of(X))
        return self._class_logits(mean) if mean.ndim == 2 else mean

    def _class_logits(self, mean: np.ndarray) -> np.ndarray:
        state = self._fitted().state
        factors, bases = np.stack([state[f"class{k}.factor"][:2] for k in range(mean.shape[1])], axis=1)
        return class_logits(mean, float(factors[0]), bases)

    def _mean(self, matrix: Any, scale: np.ndarray) -> np.ndarray:
        return np.asarray((np.asarray(matrix @ self._fitted().arrays["weights"].T).T * scale).T)

    @by_pieces(np.concatenate)
    def decision_variance(self, X: Data) -> Array:
        """Compute the posterior variance of x . m: (n,), or (n, K) for each of several classes against the rest."""
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
        found, state, classes = super().found_gain_, self._fitted().state, self._fitted().public.classes
        if found is None or classes is None:
            return found
        number = n_models(classes)
        bases = np.concatenate([state["base"] if number == 1 else state[f"class{k}.base"] for k in range(number)])
        rates, (*seen, sd) = expit(bases), state["shares"][-number - 1 :].tolist()
        law = np.append(1 - rates, rates) if number == 1 else rates / rates.sum()
        return saved_share(found, law, np.array(seen), sd)

    @property
    def verdict_(self) -> Verdict:
        """Judge the regression in words, from releases only: what it predicts, and which effects are known."""
        fitted = self._fitted()
        held = float(fitted.state["score"][-3]) if "score" in fitted.state else 1.0
        return Verdict.of_outcomes(self.found_gain_, Told.of(self).sentence, *self._claim, fitted.public.unit, held)


class PaperParameters(Common, total=False):
    """Keywords of `vips_fast.BayesianLogisticRegression.paper`: its parameters, and the fields of `PaperOptions`."""

    row_norm: float
    fit_intercept: bool
    classes: npt.ArrayLike | None
    covariance: str
    intercept_scaling: float | None
    prior_shape: float
    prior_rate: float
    linear_share: float
    learning_decay: float
    learning_offset: float
    measure_gain: bool | None
    form: str
    sensitivity: str


@dataclass(kw_only=True, repr=False, eq=False)
class BayesianLogisticRegression(Regression, Classifier):
    """Bayesian logistic regression whose posterior may be published.

    The model is p(y | x, m) = Bernoulli(sigmoid(x . m)), m ~ N(0, 1/alpha I), alpha ~ Gamma(prior_shape, prior_rate)
    (Eq. 43). In each step the records' gradients and curvatures around a released estimate are clipped, summed exactly
    and released with Gaussian noise, both in one release: `vips_fast.models.logistic.model.LogisticStatistics` has them
    and proves their bound. Everything after that is post-processing.

    Parameters
    ----------
    row_norm : float
        Public bound of the rows' L2 norm (without the intercept). Rows beyond it are scaled down to it, in ``fit`` and
        in prediction; nothing is divided by the data's own maximum. Not used with ``private=False``.
    fit_intercept : bool
    classes : sequence of labels, or None
        The labels, which are public: two, or more, and then each against the rest
        (`vips_fast.models.logistic.multiclass.OneVsRestModel`). None takes the two of y as public, so that a fit to
        labels of another number is refused. An unattended job states them, and a record with another label is then
        invalid like others.
    covariance : {"full", "spherical"}
        The posterior's covariance. "full" releases d + d (d + 1)/2 numbers a step. "spherical" is for many columns,
        such as words: N(mean, v I), two classes, and d numbers a step. Its work grows with the stored entries of sparse
        rows (`vips_fast.models.logistic.spherical.SphericalModel`). The variance v comes from the noise, so intervals
        show its effect. Probabilities are taken at the mean. Take 50 steps or more.
    options : LogisticOptions, dict or None
        Numerical settings; None takes their defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    *Persons.* With ``groups`` and a full covariance, intervals are about the sampling of persons, whose rows may be
    alike (`vips_fast.models.logistic.model.SandwichModel`).

    *Figures.* ``diagnostics_`` say for each step how many ``records`` were drawn and how many ``clipped``.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import BayesianLogisticRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 2))
    >>> y = np.where(X[:, 0] > 0, "yes", "no")
    >>> model = BayesianLogisticRegression(epsilon=5.0, n_steps=3, classes=["no", "yes"]).fit(X, y)
    >>> model.coef_.shape, model.credible_interval(0.9).shape
    ((1, 2), (2, 2))
    >>> model.predict_proba(X).shape, model.decision_function(X).shape, model.decision_variance(X).shape
    ((300, 2), (300,), (300,))
    >>> set(model.predict(X).tolist()) <= {"no", "yes"}, 0 <= model.score(X, y) <= 1
    (True, True)
    >>> model.privacy_.epsilon <= 5.0
    True

    Effects of the columns on the second class as ``classes`` states them.

    >>> model.outcome_, model.effects()[0].change, model.marginal_effects(X)[0][:3]
    ('yes', '+1', ('yes', 'x1', '+1'))

    One step at a time, with the given noise; and the paper's Algorithm 5.

    >>> daily = BayesianLogisticRegression(noise_multiplier=20.0, classes=["no", "yes"])
    >>> daily.partial_fit(X, y).partial_fit(X, y).n_steps_
    2
    >>> BayesianLogisticRegression.paper(private=False, n_steps=2).fit(X, y).coef_.shape
    (1, 2)
    """

    _most_classes: ClassVar[int] = 1024
    _covariances: ClassVar[tuple[str, ...]] = ("full", "spherical")

    classes: npt.ArrayLike | None = None
    covariance: str = "full"

    @classmethod
    def paper(cls, **parameters: Unpack[PaperParameters]) -> PaperLogisticRegression:
        """Make the paper's Algorithm 5, or ablations toward this class.

        It takes this class's parameters, and the fields of `vips_fast.models.logistic.PaperOptions` by their names.
        """
        from .paper import PaperLogisticRegression, PaperOptions

        given = cast(dict[str, Any], parameters)
        names = vars(PaperOptions()).keys() - vars(Options()).keys()
        own = {name: given.pop(name) for name in names if name in given}
        options = PaperOptions.of(dict(given.pop("options", None) or {}) | own)
        return PaperLogisticRegression(options=options, **given)

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit to rows and their labels.

        X, an array or scipy sparse matrix, shape (n, d), or a ShardedCorpus, holds finite numbers. ``y``, shape (n,),
        has labels of any kind; None stands for the labels of the shards. `vips_fast.models.parameters.Bookkeeping` has
        the keywords.

        Raises ValueError, TypeError or MemoryError if a parameter or the data are unusable, the run would overspend, or
        the statistics do not fit the machine. Nothing has been spent then.
        """
        return self._fit(X, y, **call)._warned()

    def partial_fit(self, X: Data, y: Column, **call: Unpack[Call]) -> Self:
        """Do one more step from all rows of X.

        The rows hold both labels of the calls before. Each call (`vips_fast.models.parameters.Call`) is one release;
        give a ``noise_multiplier``. Other parameters and errors are as in `fit`.
        """
        return self._fit(X, y, partial=True, **call)

    def _check_parameters(self) -> None:
        check_choice("covariance", self.covariance, self._covariances)
        self._known_classes()
        super()._check_parameters()

    def _known_classes(self) -> np.ndarray | None:
        """Sort the labels of ``classes``."""
        known = stated_classes(self.classes, self._most_classes)
        if known is not None and len(known) > 2 and self.covariance == "spherical":
            raise ValueError(f"classes={self.classes!r}: expected two with covariance='spherical'")
        return known

    def _read_outcomes(self, y: Any, n: int) -> Outcomes:
        classes, successes, problems = read_labels(y, n, self._options.invalid, self._known_classes())
        return successes, None, problems, {"classes": classes}

    @property
    def _full(self) -> bool:
        return self.covariance == "full"

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        made: type[LogisticModel | SphericalModel | OneVsRestModel]
        if self.covariance == "spherical":
            made = SphericalModel
        elif n_models(public.classes) > 1:
            made = OneVsRestModel
        else:
            made = LogisticModel if public.unit == "record" else SandwichModel
        return made(public, self._model_settings(schedule, made.n_scores))

    @by_pieces(np.concatenate)
    def predict_proba(self, X: Data) -> Matrix:
        """Predict probabilities of the classes.

        Of two classes, with noise, it is the expectation of sigmoid(c x . m) over the factor c that calibrates the
        posterior mean m (`vips_fast.models.logistic.posterior.calibrating_factor`). Else it is the expectation of
        sigmoid(x . m) over the posterior of m, or the value at its mean if the covariance is spherical. More classes
        have `vips_fast.models.logistic.posterior.class_logits`. float64, shape (n, K).
        """
        matrix, scale = self._rows_of(X)
        mean, state = self._mean(matrix, scale), self._fitted().state
        if mean.ndim == 2:
            return np.asarray(softmax(self._class_logits(mean), axis=1))
        factor, variance = state.get("factor", (0.0, 0.0))
        if factor > 0:
            mean, sd = factor * mean, np.sqrt(variance) * np.abs(mean)
        else:
            # A spherical q(m) is too wide where rows have told of m, and the path's short steps have shrunk its mean.
            sd = np.zeros(mean.shape) if self._spherical else np.sqrt(self._variance(matrix, scale))
        p = mean_sigmoid(mean, sd)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Data) -> Labels:
        """Predict the more probable class of each row."""
        found = self.decision_function(X)
        return np.asarray(self.classes_[found.argmax(axis=1) if found.ndim == 2 else (found > 0).astype(int)])

    def score(self, X: Data, y: Column | None = None) -> float:
        """Compute accuracy on public rows and labels, without noise. None takes the labels of shards."""
        return self._accuracy(X, y)

    @property
    def outcome_(self) -> str | float | None:
        """The class whose log odds `effects` are about: of two the second as ``classes`` states them, or as they sort.

        ``classes_`` is sorted, as scikit-learn expects, and ``coef_`` is about ``classes_[1]``. The signs of the two
        differ if ``classes`` states the labels in another order. None with more classes: each one has effects.
        """
        labels = self.classes_.tolist()
        return None if len(labels) > 2 else labels[int(reading(self).outcomes[0].sign > 0)]

    @property
    def _headline(self) -> str:
        if len(self.classes_) > 2:
            return "Odds of each class against the rest"
        (other,) = (label for label in self.classes_.tolist() if label != self.outcome_)
        return f"Odds of {self.outcome_!s} against {other!s}"

    def marginal_effects(self, X: Data, level: float = 0.9) -> list[tuple[str, str, str, Interval]]:
        """Compute average marginal effects on the probability of the outcome over rows X: give public or held-out ones.

        The effect of a number is the average slope of the probability times the change. The effect of another change is
        the average difference between rows that are set to one side of it and to the other. Draws of the coefficients
        from their posterior, from a fixed seed, give the interval. It is the whole line if the change is not known
        (`vips_fast.models.logistic.effects.Reading.known`). The result has outcome, column, change and effect.
        """
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        if len(self.classes_) > 2:
            raise ValueError(f"{len(self.classes_)} classes: expected a model of two classes for marginal effects")
        read, tail = reading(self), (1 - level) / 2
        ((label, _, sign),) = read.outcomes
        (matrix, scale), mean = self._rows_of(X), self._fitted().arrays["weights"]
        covariance = self.covariance_[0] * np.eye(len(mean)) if self._spherical else self.covariance_
        values, vectors = np.linalg.eigh(covariance)
        draws = np.random.default_rng(0).standard_normal((_DRAWS, len(mean))) * np.sqrt(np.maximum(values, 0))
        m = sign * np.vstack([mean, mean + draws @ vectors.T]).T
        told = [(j, change) for j, change in enumerate(read.changes) if change.text]
        to, from_ = read.parts.maximum(0.0) @ m, (-read.parts).maximum(0.0) @ m
        sums, n = np.zeros((len(told), _DRAWS + 1)), matrix.shape[0]
        if n == 0:
            raise ValueError("X has no rows: expected at least one")
        for first in range(0, n, 1024):
            part = matrix[first : first + 1024]
            rows = np.asarray(part.toarray() if sparse.issparse(part) else part) * scale[first : first + 1024, None]
            logits = rows @ m
            slope = (expit(logits) * expit(-logits)).sum(axis=0)
            for sum_, (j, change) in zip(sums, told, strict=True):
                if change.step:
                    sum_ += slope * (to[j] - from_[j])
                    continue
                without = logits - rows[:, list(change.beside)] @ m[list(change.beside)]
                sum_ += (expit(without + to[j]) - expit(without + from_[j])).sum(axis=0)
        ends = np.quantile(sums[:, 1:] / n, (tail, 1 - tail), axis=1).T
        ends[~read.known[0, [j for j, _ in told]]] = -np.inf, np.inf
        return [
            (label, read.names[j], change.text, Interval(float(sum_[0] / n), *own))
            for (j, change), sum_, own in zip(told, sums, ends.tolist(), strict=True)
        ]

    def plot(self, names: Sequence[str] | None = None, most: int = 30, level: float = 0.9) -> Figure:
        """Draw the ``most`` largest coefficients; intervals that hold 0 are pale.

        ``names`` are the columns' names. None takes the names of the fitted frame, or numbers. Raises ImportError
        without matplotlib; ValueError if there are not as many names as columns.
        """
        limits = self.credible_interval(level).reshape(*self.coef_.shape, 2)
        labels, known = self.classes_.tolist(), self._fitted().public.feature_names if names is None else names
        titles = [str(label) for label in labels] if len(limits) > 1 else [f"{labels[1]} against {labels[0]}"]
        return plot_coefficients(self, self.coef_, limits, titles, known, most)

    def __sklearn_tags__(self) -> Any:
        tags, known = super().__sklearn_tags__(), self._known_classes()
        tags.classifier_tags.multi_class = known is not None and len(known) > 2
        return tags


def _row_products(a: Any, b: Any) -> np.ndarray:
    """Multiply rows of two matrices; the first is dense or sparse."""
    return np.asarray(a.multiply(b).sum(axis=1)).reshape(-1) if sparse.issparse(a) else np.einsum("ij,ij->i", a, b)


def n_models(classes: np.ndarray | None) -> int:
    """Count the models: one for two classes, or else one for each."""
    return 1 if classes is None or len(classes) <= 2 else len(classes)
