"""Negative binomial regression of counts, by the statistics of logistic regression."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from scipy.special import expit, gammaln, logit, logsumexp

from ...checks import check_number
from ...data.arrays import dense_array
from ...data.shards import ShardedCorpus
from ...data.types import Array, Column, Data, Vector
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...store.text import printable
from ..parameters import Bookkeeping, Call
from ..readouts import by_pieces
from .findings import findings
from .options import LogisticSettings
from .records import read_events, usable_rows
from .regression import Outcomes, Regression
from .sandwich import SandwichModel
from .score import OutcomePrediction
from .spectrum import NODES, WEIGHTS

#: Mean count over the largest that a forecast expects.
_EXPECTED = 0.2
#: A count beyond the largest is brought to this part of it: a number that is not whole, which tells it from others.
_CUT = 1.0 - 2.0**-40


@dataclass(kw_only=True, repr=False, eq=False)
class CountRegression(Regression):
    """Bayesian regression of counts, with rate ratios.

    The model is negative binomial: E[y | x] = exp(x . w), Var = mean + ``dispersion`` mean^2. Let r = 1 / dispersion,
    and the logit x . m = x . w - log r. Then y is the number of successes of y + r trials. So a Polya-Gamma variable
    PG(y + r, x . m) makes it conjugate (Polson, Scott & Windle 2013, section 3.3). Then s1 = ((y - r)/2 - <xi> x . m0)
    x and s2 = <xi> x x^T are the statistics of `vips_fast.BayesianLogisticRegression`, which has the likelihood's own
    curvature for s2 after the first step.

    Parameters
    ----------
    largest : float
        Public M: counts above it are set to it, so that effects are on the mean of the counts cut there. Noise is in
        proportion to it. So state a number that a count hardly ever passes. The last step of a fit counts the share
        that does, and the fit says it.
    dispersion : float
        Public. Intervals correct it as far as noise lets them: releases also have the squares of the records'
        gradients (`vips_fast.models.logistic.sandwich.SandwichModel`). A value that is too small makes intervals too
        narrow where the noise hides these.
    row_norm, fit_intercept, options
        As in `vips_fast.BayesianLogisticRegression`; ``options.residual_clip`` is not used.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    *Sensitivity.* It is the proof of `SandwichModel` for b = M + r: a record has y + r <= b trials. Let t = tanh(c/2)
    (x . m0)/c, |t| <= 1. The factor of x in s1 is y (1 - t)/2 - r (1 + t)/2, between -r and M. So no single record is
    scaled down beyond its row: C1 is made for max(M, r) R. The rows of a person are scaled down together, by a factor
    that depends on their counts too.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import CountRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.6, 0.0]))
    >>> model = CountRegression(largest=10, row_norm=np.sqrt(2), epsilon=4.0).fit(X, y)
    >>> first = model.effects()[0]
    >>> bool(first.ratio.low > 1), first.outcome, first.change
    (True, 'count', '+1')
    >>> model.predict(X).shape, bool(model.score(X, y) < 0)
    ((20000,), True)
    >>> CountRegression(noise_multiplier=9.0).partial_fit(X, y).n_steps_
    1
    """

    _estimator_type: ClassVar[str] = "regressor"
    _ratio: ClassVar[str] = "rate ratio"
    _claim: ClassVar[tuple[str, str]] = ("the columns predict the counts", "than their mean does, by perplexity")

    largest: float = 20.0
    dispersion: float = 1.0

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit to rows and their counts.

        X is as in `vips_fast.BayesianLogisticRegression.fit`; ``y``, shape (n,), holds whole numbers from 0, and None
        stands for the labels of shards. `vips_fast.models.parameters.Bookkeeping` has the keywords.

        Raises ValueError, TypeError or MemoryError if a parameter or the data are unusable, the run would overspend, or
        the statistics do not fit the machine. Nothing has been spent then.
        """
        self._fit(X, y, **call)
        for text in findings(self):
            warnings.warn(printable(text), stacklevel=2)
        return self

    def partial_fit(self, X: Data, y: Column, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of X.

        Give a ``noise_multiplier``.
        """
        return self._fit(X, y, partial=True, **call)

    def _check_parameters(self) -> None:
        check_number("largest", self.largest, 1, 1e9)
        check_number("dispersion", self.dispersion, 1e-6, 1e6)
        super()._check_parameters()

    @property
    def _headline(self) -> str:
        return f"Mean of the counts, cut at {float(self._as_fitted().largest):g}"

    @property
    def _has_score(self) -> bool:
        return self.fit_intercept

    @property
    def intercept_(self) -> Vector:
        """Posterior mean of the log rate at 0, shape (1,)."""
        return super().intercept_ + math.log(self._as_fitted()._size)

    @property
    def _size(self) -> float:
        """Trials r that every record has beside its count."""
        return 1 / float(self.dispersion)

    @property
    def n_trials(self) -> float:
        """The most trials of a record, M + r."""
        return float(self.largest) + self._size

    @property
    def _trials_bound(self) -> float:
        return self.n_trials

    @property
    def _expected_trials(self) -> float:
        # The curvature is r p, in a forecast of trials with p (1 - p) of 0.2 in the mean.
        mean = _EXPECTED * float(self.largest)
        return 5 * self._size * mean / (mean + self._size)

    def _read_outcomes(self, y: Any, n: int) -> Outcomes:
        y, problems = read_events(dense_array(y, "y", self._options.invalid == "drop"), n)
        y = np.where(y > float(self.largest), float(self.largest) * _CUT, y)
        return y, y + self._size, problems, {}

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> CountModel:
        return CountModel(public, self._model_settings(schedule), self._size)

    @by_pieces(np.concatenate)
    def predict(self, X: Data) -> Array:
        """Predict the mean count of each row, float64, (n,)."""
        matrix, scale = self._rows_of(X)
        logits = self._mean(matrix, scale) + self._variance(matrix, scale) / 2
        return np.asarray(self._as_fitted()._size * np.exp(np.minimum(logits, 700.0)))

    def score(self, X: Data, y: Column | None = None) -> float:
        """Compute the mean log probability of public counts, without noise."""
        y = X.labels if y is None and isinstance(X, ShardedCorpus) else y
        logits = self.decision_function(X)
        counts, problems = read_events(y, len(logits))
        usable_rows(problems, "raise")
        r = self._as_fitted()._size
        log = gammaln(counts + r) - gammaln(r) - gammaln(counts + 1)
        return float(np.mean(log - counts * np.logaddexp(0, -logits) - r * np.logaddexp(0, logits)))

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools may expect (needs scikit-learn)."""
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags(poor_score=True)
        tags.target_tags.required = tags.target_tags.positive_only = tags.input_tags.sparse = True
        return tags


class CountModel(SandwichModel):
    """`SandwichModel` for y successes of y + ``size`` trials."""

    # Counts are predicted by their mean.
    _calibrates = False
    # A weight would depend on the count by way of the trials; no single record needs one.
    label_free = False

    def __init__(self, public: Public, settings: LogisticSettings, size: float):
        self._size = size
        super().__init__(public, settings)

    def gain_score(self) -> OutcomePrediction:
        return OutcomePrediction([self.prediction], self._bound, self._b, self._n, counts=True)

    def _log_odds(self, logits: np.ndarray, sd: float) -> float:
        # The mean count over r is the mean of the odds, of probabilities that are predicted.
        predicted = logit(expit(logits[:, None] + sd * NODES) @ WEIGHTS)
        return float(logsumexp(predicted, b=WEIGHTS))

    def _residual_bound(self, first: bool) -> float:
        return max(self._b - self._size, self._size) / self._b

    def _usual_slope(self) -> float:
        mean = _EXPECTED * (self._b - self._size)
        return self._size * mean / (mean + self._size)

    def _share_of_labels(self, mean: np.ndarray, rows: np.ndarray, length: float) -> float:
        # No count is scaled down.
        return 1.0

    def _first_center(self, gradient: float, noise_sd: float) -> np.ndarray:
        """Take the mean count from the first gradient.

        It is sum (y - r)/2 x.
        """
        unit = self._n * self._constant / 2
        most = self._b - self._size
        mean = min(max(self._size + gradient / unit, 3 * noise_sd / unit, 1e-3 * most), most)
        point = np.zeros(self.n_features)
        point[-1] = math.log(mean / self._size) / self._constant
        return point
