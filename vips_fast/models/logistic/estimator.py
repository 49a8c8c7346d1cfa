"""`BayesianLogisticRegression`: parameters, fit and predictions, after Algorithms 4 and 5 of Park et al. 2020."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import numpy as np
import numpy.typing as npt
from scipy.special import expit

from ...checks import check_choice, check_number, stated_classes
from ...data.arrays import dense_array
from ...data.shards import ShardedCorpus
from ...data.types import Column, Data, Labels, Matrix
from ...engine.model import Model
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ..parameters import Bookkeeping, Call, Common, Options
from ..plots import plot_coefficients
from ..readouts import Classifier, by_pieces
from .effects import Interval, marginal, reading
from .model import LogisticModel, SandwichModel
from .multiclass import OneVsRestModel
from .posterior import NODES, WEIGHTS, class_probabilities
from .records import read_counts, read_labels, usable_rows
from .regression import Outcomes, Regression, n_models
from .spherical import SphericalModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .paper import PaperLogisticRegression


class PaperParameters(Common, total=False):
    """Keywords of `vips_fast.BayesianLogisticRegression.paper`: its parameters, and the fields of `PaperOptions`."""

    row_norm: float
    fit_intercept: bool
    classes: npt.ArrayLike | None
    n_trials: float
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

    The model is p(y | x, m) = Binomial(b, sigmoid(x . m)), m ~ N(0, 1/alpha I), alpha ~ Gamma(prior_shape, prior_rate)
    (Eq. 43). With a Polya-Gamma variable xi for each record it is conjugate. In each step the expected statistics are
    s1 = (y - b/2 - <xi> x . m0) x and s2 = <xi> x x^T. (Eqs. 47-50, around a released estimate m0, which is the same
    model in m - m0. After the first step s2 = b p (1 - p) x x^T, the likelihood's own curvature at m0, which is at most
    that.) The records' statistics are clipped, summed exactly and released with Gaussian noise, both in one
    release. Everything after that is post-processing. With a center the noise of s2 multiplies m - m0, not m.

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
    n_trials : float
        b: the number of trials of each record, or the public bound of ``trials`` in
        `fit`. 1 is classification, more is regression of counts.
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
    *Sensitivity.* A record's contribution is (s1/C1, s2/C2), s2 with its Frobenius norm, scaled down to norm 1. So
    adding or removing a record moves the sum by at most 1 and replacing one by at most 2. Sums are exact, and the most
    that their rounding to the noise's lattice can add is taken off beforehand
    (`vips_fast.models.logistic.model.LogisticStatistics`).

    *Persons.* With ``groups``, two classes and a full covariance, intervals are about the sampling of persons, whose
    rows may be alike (`vips_fast.models.logistic.model.SandwichModel`).

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
    n_trials: float = 1
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

    def fit(
        self, X: Data, y: Column | None = None, trials: npt.ArrayLike | None = None, **call: Unpack[Bookkeeping]
    ) -> Self:
        """Fit to rows and their labels or counts.

        X, an array or scipy sparse matrix, shape (n, d), or a ShardedCorpus, holds finite numbers. ``y``, shape (n,),
        has two labels of any kind, or with ``n_trials`` other than 1 numbers of successes, in [0, trials]. None stands
        for the labels of the shards. ``trials``, shape (n,), has numbers of trials, at most ``n_trials``, None for
        ``n_trials`` of all. `vips_fast.models.parameters.Bookkeeping` has the keywords.

        Raises ValueError, TypeError or MemoryError if a parameter or the data are unusable, the run would overspend, or
        the statistics do not fit the machine. Nothing has been spent then.
        """
        return self._fit(X, y, trials=trials, **call)._warned()

    def partial_fit(self, X: Data, y: Column, trials: npt.ArrayLike | None = None, **call: Unpack[Call]) -> Self:
        """Do one more step from all rows of X.

        The rows hold both labels of the calls before. Each call (`vips_fast.models.parameters.Call`) is one release;
        give a ``noise_multiplier``. Other parameters and errors are as in `fit`.
        """
        return self._fit(X, y, trials=trials, partial=True, **call)

    def _check_parameters(self) -> None:
        check_number("n_trials", self.n_trials, 1e-3, 1e9)
        check_choice("covariance", self.covariance, self._covariances)
        self._known_classes()
        super()._check_parameters()

    def _known_classes(self) -> np.ndarray | None:
        """Sort the labels of ``classes``."""
        known = stated_classes(self.classes, self._most_classes)
        if known is not None and len(known) > 2 and self.covariance == "spherical":
            raise ValueError(f"classes={self.classes!r}: expected two with covariance='spherical'")
        if known is not None and len(known) > 2 and self.n_trials != 1:
            raise ValueError(f"n_trials={self.n_trials!r}: expected 1 with more than two classes")
        return known

    def _read_outcomes(self, y: Any, n: int, trials: Any = None) -> Outcomes:
        drop = self._options.invalid == "drop"
        if self.n_trials != 1 or trials is not None:
            classes = np.array([0, 1])
            y, trials = dense_array(y, "y", drop), None if trials is None else dense_array(trials, "trials", drop)
            return *read_counts(y, trials, float(self.n_trials), n), {"classes": classes}
        classes, successes, problems = read_labels(y, n, self._options.invalid, self._known_classes())
        return successes, None, problems, {"classes": classes}

    @property
    def _full(self) -> bool:
        return self.covariance == "full"

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        settings = self._model_settings(schedule)
        if self.covariance == "spherical":
            return SphericalModel(public, settings)
        if n_models(public.classes) > 1:
            return OneVsRestModel(public, settings)
        return (LogisticModel if public.unit == "record" else SandwichModel)(public, settings)

    @by_pieces(np.concatenate)
    def predict_proba(self, X: Data) -> Matrix:
        """Predict probabilities of the classes, or of failure and success.

        Of two classes, with noise, it is the expectation of sigmoid(c x . m) over the factor c that calibrates the
        posterior mean m (`vips_fast.models.logistic.posterior.calibrating_factor`). Else it is the expectation of
        sigmoid(x . m) over the posterior of m, or the value at its mean if the covariance is spherical. More classes
        have `vips_fast.models.logistic.posterior.class_probabilities`. float64, shape (n, K).
        """
        matrix, scale = self._rows_of(X)
        mean, state = self._mean(matrix, scale), self._fitted().state
        if mean.ndim == 2:
            factors, bases = np.stack([state[f"class{k}.factor"] for k in range(mean.shape[1])], axis=1)
            return class_probabilities(mean, float(factors[0]), bases)
        factor, variance = state.get("factor", (0.0, 0.0))
        if factor > 0:
            mean, sd = factor * mean, np.sqrt(variance) * np.abs(mean)
        else:
            # A spherical q(m) is too wide where rows have told of m, and the path's short steps have shrunk its mean.
            sd = np.zeros(mean.shape) if self._spherical else np.sqrt(self._variance(matrix, scale))
        parts = [slice(first, first + 4096) for first in range(0, max(len(mean), 1), 4096)]
        found = [(expit(mean[part, None] + sd[part, None] * NODES) * WEIGHTS).sum(axis=-1) for part in parts]
        p = np.concatenate(found)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Data) -> Labels:
        """Predict the more probable class of each row."""
        if len(self.classes_) > 2:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        return np.asarray(self.classes_[(self.decision_function(X) > 0).astype(int)])

    def score(self, X: Data, y: Column | None = None, trials: npt.ArrayLike | None = None) -> float:
        """Score public rows, without noise: accuracy, or on counts the mean log predictive probability of a trial."""
        n_trials = float(self._as_fitted().n_trials)
        if n_trials == 1 and trials is None:
            return self._accuracy(X, y)
        p = np.clip(self.predict_proba(X)[:, 1], 1e-300, 1 - 1e-16)
        y = X.labels if y is None and isinstance(X, ShardedCorpus) else y
        y, trials, problems = read_counts(y, trials, n_trials, len(p))
        usable_rows(problems, "raise")
        b = np.full(len(y), n_trials) if trials is None else trials
        return float((y * np.log(p) + (b - y) * np.log1p(-p)).sum() / b.sum())

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
        """Average marginal effects on the probability of the outcome over rows X.

        The result describes X: give public or held-out rows. See `vips_fast.models.logistic.effects.marginal`.
        """
        return marginal(self, X, level)

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
