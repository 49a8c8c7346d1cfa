"""Negative binomial regression of counts, by the statistics of logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
from scipy.special import expit, gammaln, log_expit, logsumexp

from ...checks import check_number
from ...data.arrays import DROP, dense_array
from ...data.shards import ShardedCorpus
from ...data.types import Array, Column, Data, Vector
from ...engine.gain import NINETY, FoundGain, Score
from ...engine.plan import RunSchedule
from ...engine.result import Public
from ...kernels.logistic import Rows
from ..parameters import Bookkeeping, Call
from ..readouts import by_pieces
from .estimator import Outcomes, Regression
from .model import LogisticSettings, SandwichModel
from .posterior import FACTORS, WEIGHTS, factor_of_gain
from .records import Problem, read_column, read_events, row_products, usable_rows
from .score import NATS, OutcomePrediction, Prediction, base_mean, nats_of_mean

#: Mean count over the largest that a forecast expects.
_EXPECTED = 0.2
#: A record's largest residual, over that of a record of the mean count that a forecast expects.
_OF_USUAL = 2.0
#: Logits that noise makes are cut, so that factors of them are finite.
_MOST_LOGIT = 30.0
#: A count beyond the largest is brought to this part of it: a number that is not whole, which tells it from others.
_CUT = 1.0 - 2.0**-40


@dataclass(kw_only=True, repr=False, eq=False)
class CountRegression(Regression):
    """Bayesian regression of counts, with rate ratios.

    The model is negative binomial: E[y | x] = exp(x . w), Var = mean + ``dispersion`` mean^2. Let r = 1 / dispersion,
    and the logit x . m = x . w - log r. Then y is the number of successes of y + r trials. So a Polya-Gamma variable
    PG(y + r, x . m) makes it conjugate (Polson, Scott & Windle 2013, section 3.3). The statistics are those of
    `vips_fast.BayesianLogisticRegression`: the gradient s1 = (y (1 - p) - r p) x of the log likelihood, p being the
    sigmoid of x . m0, and for s2 the expectation r p x x^T of its curvature. A count may have (y + r)/4 as its own
    curvature, and the noise follows the largest one; the expected one is at most r. A record whose residual may be
    large, since its mean is small beside M, has a weight below 1. The weight depends on x and released numbers only.

    With an exposure e, such as days at risk, E[y | x, e] = e exp(x . w): an offset of log e, with the coefficient 1.
    Let E be ``largest_exposure``. A record then has r e/E trials beside its count, and the logit x . m = x . w + log E
    - log r. So counts of a person's first and second half of a year are independent given x, and are one count of the
    year: Var = mean + ``dispersion`` mean^2 E/e.

    Parameters
    ----------
    largest : float
        Public M: counts above it are set to it, so that effects are on the mean of the counts cut there. Noise is in
        proportion to it. So state a number that a count hardly ever passes. The last step of a fit counts the share
        that does, and the fit says it.
    dispersion : float
        Public. Intervals correct it as far as noise lets them: releases also have the squares of the records'
        gradients (`vips_fast.models.logistic.model.SandwichModel`). A value that is too small makes intervals too
        narrow where the noise hides these.
    row_norm, fit_intercept, options
        As in `vips_fast.BayesianLogisticRegression`.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    *Sensitivity.* It is the proof of `SandwichModel`, whose kernel clips whatever record it is given. It is given 4 c
    trials with f + 2 c successes around the center 0, f and c being the factors of x and of x x^T. So s1 = f x and s2 =
    c x x^T. In the first step f = (y - r)/2 and c = r. Later f = w (y (1 - p) - r p) and c = w r p, with the weight w =
    min(1, t/(1 - p)), where t is public. So -r <= f <= t M, and f <= M/2 in the first step; and 0 <= c <= r. C1 is made
    for max(t M, r) R, and C2 for r R^2: no single record is scaled down beyond its row. The rows of a person are scaled
    down together, by a factor that depends on their counts too. An exposure 0 < e <= E takes r e/E for r in
    f and c, so that every bound holds whatever the exposures are. A factor is computed from the row alone, in one
    order, so that it has the same bits in any block.

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

    Person-years, of at most five for each record:

    >>> years = rng.uniform(0.5, 5, len(X))
    >>> yearly = CountRegression(largest=10, largest_exposure=5, row_norm=np.sqrt(2), epsilon=4.0)
    >>> yearly.fit(X, rng.poisson(years * np.exp(X @ [0.6, 0.0] - 1)), years).predict(X, years).shape
    (20000,)
    """

    _estimator_type: ClassVar[str] = "regressor"
    _ratio: ClassVar[str] = "rate ratio"
    _claim: ClassVar[tuple[str, str]] = ("the columns predict the counts", "than their mean does, by likelihood")

    largest: float = 20.0
    dispersion: float = 1.0
    largest_exposure: float | None = None

    def fit(
        self, X: Data, y: Column | None = None, exposure: npt.ArrayLike | None = None, **call: Unpack[Bookkeeping]
    ) -> Self:
        """Fit to rows and their counts.

        X is as in `vips_fast.BayesianLogisticRegression.fit`; ``y``, shape (n,), holds whole numbers from 0, and None
        stands for the labels of shards. ``exposure``, shape (n,), holds numbers above 0, at most ``largest_exposure``.
        `vips_fast.models.parameters.Bookkeeping` has the keywords; errors are as there.
        """
        return self._fit(X, y, exposure=exposure, **call)._warned()

    def partial_fit(self, X: Data, y: Column, exposure: npt.ArrayLike | None = None, **call: Unpack[Call]) -> Self:
        """Do one more step, from all rows of X. Give a ``noise_multiplier``."""
        return self._fit(X, y, exposure=exposure, partial=True, **call)

    def _check_parameters(self) -> None:
        check_number("largest", self.largest, 1, 1e9)
        check_number("dispersion", self.dispersion, 1e-6, 1e6)
        check_number("largest_exposure", self.largest_exposure, 1e-12, 1e12, optional=True)
        super()._check_parameters()

    @property
    def _headline(self) -> str:
        fitted = self._as_fitted()
        what = "Mean of the counts" if fitted.largest_exposure is None else "Counts for one unit of exposure"
        return f"{what}, cut at {float(fitted.largest):g}"

    @property
    def intercept_(self) -> Vector:
        """Posterior mean of the log rate at 0, shape (1,)."""
        fitted = self._as_fitted()
        return super().intercept_ + math.log(fitted._size / (fitted.largest_exposure or 1.0))

    @property
    def _size(self) -> float:
        """Trials r of a record beside its count, at the largest exposure."""
        return 1 / float(self.dispersion)

    @property
    def _trials(self) -> tuple[float, float, float, float]:
        # The curvature is r p, in a forecast of trials with p (1 - p) of 0.2 in the mean.
        most, size, mean = float(self.largest), self._size, _EXPECTED * float(self.largest)
        return most + size, size, 5 * size * mean / (mean + size), mean

    def _read_outcomes(self, y: Any, n: int, exposure: Any = None) -> Outcomes:
        y, problems = read_events(dense_array(y, "y", self._options.invalid == "drop"), n)
        y = np.where(y > float(self.largest), float(self.largest) * _CUT, y)
        share, bad = self._share_of(exposure, n)
        return y, y + self._size * share, problems + bad, {}

    def _share_of(self, exposure: Any, n: int) -> tuple[Any, list[Problem]]:
        """Read exposures over the largest, (n,), and their problems; 1 without any."""
        most = self.largest_exposure
        if (exposure is None) != (most is None):
            asked = "None without exposure" if exposure is None else "the public number that no exposure passes"
            raise ValueError(f"largest_exposure={most!r}: expected {asked}")
        if exposure is None or most is None:
            return 1.0, []
        found = read_column("exposure", dense_array(exposure, "exposure", self._options.invalid == "drop"), n)
        # A part that is no number above 0 in float64 would be a record of no trials.
        bad = ~((found / float(most) > 0) & (found <= most))
        said = (
            f"exposure: expected numbers above 0, at most largest_exposure={most:g}; leave other records out by {DROP}"
        )
        return np.where(bad, 1.0, found / float(most)), [(bad, said)]

    @property
    def found_gain_(self) -> FoundGain | None:
        """As of other regressions, over the mean count that the same step released (`base_mean`).

        It is the perplexity of a count that the columns save. By a small mean m a count loses about m (1 - log m) nats,
        which is all that columns can save: below a mean of 1 that is the unit.
        """
        found = super().found_gain_
        if found is None:
            return None
        _, more, error, mean, left = self._fitted().state["mean"].tolist()
        # Noise may make nats that no prediction has.
        gain, low, high = (-math.log1p(-min(share, 1 - 1e-12)) - more for share in found)
        doubt, unit = NINETY * math.hypot(error, gain * left * (mean < 1)), nats_of_mean(mean)
        ends = gain, gain - math.hypot(gain - low, doubt), gain + math.hypot(high - gain, doubt)
        return FoundGain(*(-math.expm1(-max(nats / unit, -math.log(2.0))) for nats in ends))

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> CountModel:
        return CountModel(public, self._model_settings(schedule), self._size, self.largest_exposure is not None)

    def predict(self, X: Data, exposure: npt.ArrayLike | None = None) -> Array:
        """Predict the mean count of each row, float64, (n,).

        What a log mean has beside that of the released mean count is multiplied by the factor that the measured gain
        tells (`vips_fast.models.logistic.posterior.factor_of_gain`): where noise hides all effects it is near 0.
        ``exposure`` is a number or (n,); without it the mean is for one unit of exposure.
        """
        fitted = self._as_fitted()
        if exposure is not None and fitted.largest_exposure is None:
            raise ValueError("exposure: expected None for a fit without exposure")
        # At the largest exposure.
        rates, unit = fitted._size * np.exp(np.minimum(self._calibrated(X), 700.0)), np.ones(1)
        if exposure is not None:
            given = dense_array(exposure, "exposure")
            unit = read_column("exposure", np.full(len(rates), given) if given.ndim == 0 else given, len(rates))
            if not ((unit > 0) & np.isfinite(unit)).all():
                raise ValueError("exposure: expected numbers above 0")
        return np.asarray(rates * (unit / (fitted.largest_exposure or 1.0)))

    @by_pieces(np.concatenate)
    def _calibrated(self, X: Data) -> Array:
        """Compute the logits of predictions, (n,)."""
        matrix, scale = self._rows_of(X)
        logits, state = self._mean(matrix, scale), self._fitted().state
        factor, base = float(state["factor"][0]), state["mean"][0] * scale
        return base + factor * (logits - base) if factor > 0 else logits

    def score(self, X: Data, y: Column | None = None, exposure: npt.ArrayLike | None = None) -> float:
        """Compute the mean log probability of public counts, without noise."""
        y = X.labels if y is None and isinstance(X, ShardedCorpus) else y
        logits, fitted = self._calibrated(X), self._as_fitted()
        counts, problems = read_events(y, len(logits))
        share, bad = fitted._share_of(exposure, len(logits))
        usable_rows(problems + bad, "raise")
        r = fitted._size * share
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
    """`SandwichModel` for y successes of y + ``size`` trials, or with ``exposed`` of fewer: a part of ``size``."""

    # The measured gain calibrates counts, which are predicted by their mean.
    _calibrates = False
    # A weight would depend on the count by way of the trials; no single record needs one.
    label_free = False
    # A large count says more than an outcome, and the largest say most of what columns tell.
    _nats_scale, _most_nats = 2.0, 16.0
    kept: ClassVar[dict[str, str]] = SandwichModel.kept | {"mean": "_counted"}

    def __init__(self, public: Public, settings: LogisticSettings, size: float, exposed: bool = False):
        self._size, self._exposed = size, exposed
        super().__init__(public, settings)
        self._weight = size
        #: `base_mean` of a fit that was measured.
        self._counted = np.zeros(5)

    @property
    def _most_left(self) -> float:
        """The largest 1 - p of a record that has the weight 1; of all if noise is small."""
        usual = self._size / (self._size + _EXPECTED * (self._b - self._size))
        return min(1.0, _OF_USUAL * usual) if not self._quiet else 1.0

    def _around(self) -> tuple[None, None]:
        """See `LogisticStatistics`; `_add` gives the kernel records that have the center in them."""
        return None, None

    def _add(self, block: Rows, starts: np.ndarray | None, out: np.ndarray, scratch: dict[str, Any]) -> np.ndarray:
        with np.errstate(all="ignore"):  # a record that is not finite contributes nothing
            size = block.trials - block.y
            if self.step:
                norm, (logits,) = row_products(block, self.point[None])
                p = expit(logits * np.minimum(1.0, self._bound / norm) if self.private else logits)
                weight = np.minimum(1.0, self._most_left / (1 - p))
                residual, curvature = weight * (block.y * (1 - p) - size * p), weight * size * p
            else:
                residual, curvature = (block.y - size) / 2, size
            # So many trials and successes have this gradient and curvature around 0.
            block = block._replace(y=residual + 2 * curvature, trials=4 * curvature)
        return super()._add(block, starts, out, scratch)

    def gain_score(self) -> OutcomePrediction:
        # Nats of counts of a small mean m vary by about its root.
        mean = min(math.exp(float(self._base[0])) * self._usual_size(), 1.0)
        nats = max(self.nats * math.sqrt(mean), NATS[0] * self._nats_scale)
        return OutcomePrediction([self.prediction], self._bound, self._n, nats, largest=self._b - self._size)

    def judged(self, score: Score) -> None:
        """Join the mean count with the released one, and find the factor of what logits have beside it.

        Normal logits say what gain the measured means have if those of another factor are true (`factor_of_gain`).
        """
        base, most, rows = float(self._base[0]), _MOST_LOGIT, self._second_moment_of_rows()
        assert score.shares is not None
        mean, sd = (share * (self._b - self._size) for share in (float(score.shares[-1]), score.shares_sd))
        middle = rows[-1] / self._constant
        variance = float(middle @ self._covariance @ middle)
        size = self._size
        if self._exposed and self._of_records and score.predicted <= 1:
            size = min(self._usual_size() / score.predicted, size)  # of the units that have a record
        elif self._exposed:
            # The first curvature adds up a person's rows, whose mean the score takes: only the rate tells their size.
            size = _likely_size(mean * math.exp(-base), (sd * math.exp(-base)) ** 2, size)
        self._counted = np.array(base_mean(base, variance, mean, sd, size))
        logits, own = np.clip(self._normal_logits(rows), -most, most), float(self._counted[0])
        won, lost = (log_expit(side * logits) - log_expit(side * base) for side in (1, -1))
        means = (np.exp(own + factor * (logits - own)) for factor in [0.0, *FACTORS])
        gains = size * np.array([float(WEIGHTS @ (mean * won + lost)) for mean in means])
        self._factor = np.array([factor_of_gain(score, gains), 0.0])

    @property
    def prediction(self) -> Prediction:
        """The mean count at the posterior mean of the coefficients."""
        return super().prediction._replace(spread=np.empty((self.n_features, 0)))

    def _log_odds(self, logits: np.ndarray) -> float:
        # The mean count over r is the mean of the odds.
        return float(logsumexp(logits, b=WEIGHTS))

    def _residual_bound(self, first: bool) -> float:
        left = 0.5 if first else self._most_left
        return max(left * (self._b - self._size), self._size) / self._b

    def _labels(self, expected: np.ndarray, average: Any) -> np.ndarray:
        # A weight is in it twice, and once in the curvature.
        weight = min(1.0, self._most_left * (1.0 + math.exp(float(self._base[0]))))
        return super()._labels(weight * expected, average)

    def _usual_slope(self) -> float:
        mean = _EXPECTED * (self._b - self._size)
        return self._size * mean / (mean + self._size)

    def _usual_size(self) -> float:
        """Find the mean of r. The first curvature, sum r x x^T, tells it where exposures differ."""
        if not self._exposed:
            return self._size
        unit = self._n * self._constant**2
        return _likely_size(float(self._rows[-1, -1]) / unit, 2 * self._law.rows / unit**2, self._size)

    def _first_center(self, gradient: float, noise_sd: float) -> np.ndarray:
        """Take the mean count from the first gradient.

        It is sum (y - r)/2 x.
        """
        unit = self._n * self._constant / 2
        most, size = self._b - self._size, self._usual_size()
        mean = min(max(size + gradient / unit, 3 * noise_sd / unit, 1e-3 * most), most)
        point = np.zeros(self.n_features)
        point[-1] = math.log(mean / size) / self._constant
        return point


def _likely_size(found: float, noise: float, most: float) -> float:
    """Join a mean of r, ``found`` with ``noise``, with the even law from 0 to ``most`` by their precision.

    Noise alone may bring it to 0, where any mean count seems to be of a high rate.
    """
    variance = most**2 / 12
    trust = variance / (variance + noise)
    return min(max(trust * found + (1 - trust) * most / 2, math.sqrt(trust * noise), 0.01 * most), most)
