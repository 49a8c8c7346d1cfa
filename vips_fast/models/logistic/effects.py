"""Show coefficients as effects, in the columns' own units: odds ratios, or differences of probabilities.

Everything here is computed from a fitted regression, so it costs no privacy. Functions that take rows describe these
rows too: give them public or held-out ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from scipy.special import expit, ndtri

from ...checks import check_number
from ...data.schema import Change, Schema
from ..family import SCHEMA
from ..inputs import column_names
from ..several import clear_deviations
from .posterior import second_moment

#: Draws from the posterior for marginal effects.
_DRAWS = 400
#: Least standard deviation of a logit under the prior, and the share of a coefficient's own that is still "known".
_PRIOR_LOGIT, _SHARE_OF_PRIOR = 2.0, 1 / 3
#: A wide interval counts if its effect is this many standard deviations from 0.
_FAR = 4.0
#: From this log ratio on, of a value or of one standard deviation, an effect that has one end is large.
_LARGE = math.log(3)
#: Fewest steps of a run with intervals, with the one that measures. With 5 the centers are still on their way, and
#: intervals held .84.
FEWEST_STEPS = 10
#: A known effect's curvature is above 0 by this many standard deviations of its noise, of which the second are added to
#: the curvature beforehand: a direction that no record has, as beside a column for each value, is none of an effect.
_SEEN, _RIDGE = 4.2, 1.5
#: A log odds ratio above the first has two ends if both classes are seen beside the value and beside 0: their number is
#: above 0 by the second many standard deviations of its noise.
_STEEP, _BOTH = 1.5, 2.5
#: The number of records is told if it is above 0 by so many.
_COUNTED = 5.0
#: A column's spread is read from the releases if its variance is above 0 by this many.
_SPREAD_SEEN = 4.0
#: Standard deviation of 0 and 1 with equal shares, and of numbers that fill their bounds evenly, over the bounds' way.
_OF_HALVES, _OF_EVEN = 0.5, 12**-0.5
#: A class of a smaller share does not occur, unless its number of records is above 0 by so many standard deviations of
#: its noise, and above the third number. Its released log odds are beyond the last.
_ABSENT, _TOLD, _FEW, _RARE = 0.006, 4.0, 2.0, 2.0
#: Spread of the logits of classes that are almost separated, and a column's share of its square that names it.
_SEPARATED, _MOSTLY = 5.0, 0.25


class Interval(NamedTuple):
    """A posterior mean and the central interval around it.

    If the releases say too little (`Reading.known`), the interval is the whole line, or for a ratio 0 to infinity. If
    they say only that an effect is large (`Effect.large`), it has one end.
    """

    mean: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the interval has two ends."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


class Effect(NamedTuple):
    """The effect of an encoded column on an outcome.

    Attributes
    ----------
    outcome : str
        The class whose log odds change, or "count", whose log rate does.
    name : str
        The encoded column.
    coefficient : Interval
        Its coefficient.
    change : str
        A change in the column's own units: "+10", or "yes instead of no". Empty for a category's reference.
    log_ratio : Interval
        How much the change adds to the log odds or the log rate.
    ratio : Interval
        By how much the change multiplies the odds or the rate: the exponentials of ``log_ratio``.
    standard : Interval
        ``log_ratio`` for one standard deviation of the column (`Reading.spreads`). By it columns of different units
        compare.
    label : str
        Column and change, as a reader names them: "age +10".
    clear : bool
        Whether the effect stands clear of the noise among all effects of the model (`vips_fast.models.several`). The
        intervals are each for itself: with 100 columns that say nothing, about ten intervals of 90 % leave out 0, and
        no effect is clear in nine fits of ten.
    """

    outcome: str
    name: str
    coefficient: Interval
    change: str
    log_ratio: Interval
    ratio: Interval
    standard: Interval
    label: str
    clear: bool

    @property
    def known(self) -> bool:
        """Whether the releases say enough about it: see `Reading.known`."""
        return self.log_ratio.known

    @property
    def large(self) -> bool:
        """Whether the releases say only that it is at least so large, as of a value whose records have one class."""
        return not self.known and self.log_ratio.clear

    @property
    def column(self) -> str:
        """The column, as a reader names it."""
        return self.label[: len(self.label) - len(self.change)].rstrip()


class Outcome(NamedTuple):
    """A class, its coefficients' row, and their sign for it. Effects are about the class."""

    label: str
    row: int
    sign: float


class Moments(NamedTuple):
    """The released mean of x x^T over the records, the noise in an entry of it, and the sum of the records' weights.

    ``means`` and ``variances`` are of each column and of the constant, which tells means: without one they are 0.
    """

    matrix: np.ndarray
    noise: float
    mass: float
    means: np.ndarray
    variances: np.ndarray


def reading(model: Any) -> Reading:
    """Read a fitted regression once."""
    derived = model._fitted().derived
    if "reading" not in derived:
        derived["reading"] = Reading(model)
    found: Reading = derived["reading"]
    return found


class Reading:
    """What a fitted regression's releases tell of its rows and effects."""

    def __init__(self, model: Any):
        result, one = model._fitted(), model._as_fitted()
        self.public, self.state, self.one = result.public, result.state, one
        self.d, self.private, self.constant = model.n_features_in_, bool(one.private), float(one._constant)
        #: Coefficients with the constant's, (K, d) or (K, d + 1), and their covariances; or a variance.
        self.weights = np.atleast_2d(result.arrays["weights"])
        self.covariance = result.arrays["covariance"]
        self.spherical = self.covariance.ndim == 1
        self.labels = [] if self.public.classes is None else self.public.classes.tolist()
        self.schema = Schema.parse(model.inputs_[SCHEMA]) if SCHEMA in model.inputs_ else None
        #: Whether records are of one of several classes, not of counts.
        self.classifies = bool(self.labels) and float(one.n_trials) == 1
        #: Whether matrices were released; those of many columns are not.
        self.full = self._stored("rows") is not None and self._stored("rows").size > 0
        self.moments = self._moments() if self.full else None
        steps = len(self._stored("path")) if self.full else 0
        #: Number of steps of a run that is too short for intervals, since centers were still on their way; or 0.
        self.too_few = steps if self.private and steps < FEWEST_STEPS - 1 else 0
        places = [np.array([place for place, _ in one.weights], dtype=int) for one in self.changes]
        #: The columns and weights of each change.
        self.parts = [(at, np.array([w for _, w in one.weights])) for at, one in zip(places, self.changes, strict=True)]

    def _stored(self, name: str, k: int = 0) -> Any:
        return self.state.get(f"class{k}.{name}" if len(self.weights) > 1 else name)

    def _moments(self) -> Moments | None:
        """None if noise hides the number of records."""
        matrix, constant = self._stored("rows"), self.constant
        mass = float(matrix[-1, -1]) / constant**2 if constant else self.public.n_records * self.one._weight_bound
        noise = math.sqrt(2 * float(self._stored("law")[0]))
        if mass <= _COUNTED * noise / (constant or 1.0) ** 2:
            return None
        means = matrix[-1] / (mass * constant) if constant else np.zeros(len(matrix))
        return Moments(matrix / mass, noise / mass, mass, means, matrix.diagonal() / mass - means**2)

    @cached_property
    def names(self) -> Sequence[str]:
        """Names of the encoded columns; numbers if nothing names them."""
        return column_names(self.public) or [f"x{j + 1}" for j in range(self.d)]

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """The classes that effects are about, in the order that ``classes`` states, or sorted.

        Of two classes it is the second; of more, each against the rest. A regression of counts has one, the count.
        """
        labels = self.labels
        if not labels:
            return [Outcome("count", 0, 1.0)]
        order = labels if self.one.classes is None else np.asarray(self.one.classes).tolist()
        if len(labels) > 2:
            return [Outcome(str(label), labels.index(label), 1.0) for label in order]
        return [Outcome(str(order[1]), 0, 1.0 if order[1] == labels[1] else -1.0)]

    @cached_property
    def changes(self) -> Sequence[Change]:
        """The columns' changes, by the schema or +1 each.

        A missing number without a stated center is compared with the released mean of the others, of three digits.
        """
        if self.schema is None:
            return [Change("+1", ((j, 1.0),), step=1.0, per_unit=1.0) for j in range(self.d)]
        made = list(self.schema.changes)
        for j, change in enumerate(made):
            if change.number is None or self.moments is None or not self.constant:
                continue
            missing, mean = (float(self.moments.means[place]) for place in (j, change.number))
            mean = min(max(mean / max(1.0 - missing, 0.05), -1.0), 1.0)
            center = float(f"{change.middle + mean / change.per_unit:.3g}")
            weights = (*change.weights, (change.number, -(center - change.middle) * change.per_unit))
            made[j] = change._replace(text=f"missing instead of {center:g}, the mean", weights=weights)
        return made

    @cached_property
    def spreads(self) -> tuple[np.ndarray, np.ndarray]:
        """The encoded columns' standard deviations, (d,), and which of them the releases tell.

        Where noise hides them they are from public bounds: as of numbers that fill their bounds evenly, and of 0 and 1
        with equal shares. Without bounds rows are as long as ``row_norm``, of columns that are alike.
        """
        if self.schema is None:
            found = np.full(self.d, float(self.one.row_norm) / math.sqrt(self.d))
        else:
            numbers = (column for column in self.schema.columns if column.kind == "number")
            reach = iter([cast(float, column.high) - cast(float, column.low) for column in numbers])
            known = [_OF_EVEN * own.per_unit * next(reach) if own.step else _OF_HALVES for own in self.changes]
            found = np.array(known)
        if self.moments is None:
            return found, np.zeros(self.d, dtype=bool)
        variance = self.moments.variances[: self.d]
        told = variance > _SPREAD_SEEN * self.moments.noise
        return np.where(told, np.sqrt(np.maximum(variance, 0.0)), found), told

    @cached_property
    def flat(self) -> np.ndarray:
        """The columns of nearly one value other than 0, (d,): as far as noise tells, less than a hundredth varies."""
        if self.moments is None:
            return np.zeros(self.d, dtype=bool)
        variance, square = self.moments.variances[: self.d], self.moments.matrix.diagonal()[: self.d]
        return np.asarray((variance < _SPREAD_SEEN * self.moments.noise) & (variance < 0.01 * square))

    @cached_property
    def separating(self) -> tuple[bool, np.ndarray]:
        """Whether columns almost separate two classes, and those that make most of the logits' spread, (d,).

        Their coefficients say only how completely.
        """
        if len(self.weights) > 1 or self.moments is None or not self.constant or not self.classifies:
            return False, np.zeros(self.d, dtype=bool)
        (weights,), moments = self.weights, self.moments
        square = float(weights @ moments.matrix @ weights) - float(moments.means @ weights) ** 2
        own = (weights**2 * moments.variances)[: self.d]
        return square > _SEPARATED**2, (own > _MOSTLY * square) & (square > _SEPARATED**2)

    @cached_property
    def absent(self) -> dict[int, Any]:
        """The rows of coefficients that are about a class that does not occur, as far as noise tells, and the class.

        The curvature's entry of the constant is the sum of p (1 - p): about the number of records of a rare class. Such
        a class has a small share of the records, and not more of them than noise may have made.
        """
        absent: dict[int, Any] = {}
        if self.moments is None or not self.constant or not self.classifies:
            return absent
        for k, own in enumerate(self.weights):
            law, count = self._stored("law", k), float(self._stored("matrix", k)[-1, -1]) / self.constant**2
            # Of the curvature, and of the gradient that the share of the class was read from.
            noise = math.hypot(math.sqrt(2 * law[1]) / self.constant**2, math.sqrt(law[3]) / self.constant)
            # Of classes that columns separate the curvature is small, too.
            rare = abs(float(self._stored("base", k)[0])) > _RARE and count < _ABSENT * 4 * self.moments.mass
            if rare and count < max(_TOLD * noise, _FEW):
                place = k if len(self.weights) > 1 else int(float(self.moments.matrix[-1] @ own) < 0)
                absent[k] = self.labels[place]
        return absent

    @cached_property
    def known(self) -> np.ndarray:
        """Whether the releases say enough about each outcome and change, (K, changes); see `_known`."""
        return self._known(self.parts)

    def _known(self, parts: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Find the changes that the releases say enough about, a mask (K, changes).

        The rule is public. Under the narrowest prior a logit has a standard deviation of 2. The interval is at most a
        third as wide as under that, or it is four standard deviations from 0. And noise does not hide the curvature
        that the interval rests on. Let H be the curvature and w the change. The effect is read along v = H^-1 w, where
        the curvature is v . H v / |v|^2 = v . w / |v|^2, with the noise of an entry of the diagonal whatever v is. It
        stands above that by `_SEEN`. (Of columns that others do not go with it is the column's own.) A column that is
        nearly one value has no effect apart from the constant's, and one that tells the label none that ends: see
        `_endless`. Models that release no matrix have intervals of the noise only, and all their changes are known.
        """
        made = np.ones((len(self.weights), len(parts)), dtype=bool)
        made[list(self.absent)] = False
        hidden = self.separating[1] | self.flat
        made[:, [bool(hidden[places].any()) for places, _ in parts]] = False
        if not self.private or not self.full:
            return made
        made &= not self.too_few
        for k, own in enumerate(self.weights):
            matrix, sd = self._stored("matrix", k), math.sqrt(float(self._stored("law", k)[2]))
            moments, noise = matrix.diagonal(), math.sqrt(2) * sd
            length = math.hypot(self.one.row_norm, self.constant)
            if self.constant and moments[-1] > 0:
                # A row and its constant have the same weight.
                length = min(length, self.constant * math.sqrt(max(float(moments.sum() / moments[-1]), 1.0)))
            made[k] &= [
                self.variance(k, places, weights)
                <= max(
                    (_SHARE_OF_PRIOR * _PRIOR_LOGIT / length) ** 2 * float(weights @ weights),
                    (float(weights @ own[places]) / _FAR) ** 2,
                )
                for places, weights in parts
            ]
            if noise and made[k].any():
                curvature = second_moment(matrix, sd, noise, self.constant > 0)[0]
                inverted = np.linalg.inv(curvature + _RIDGE * noise * np.eye(len(matrix)))
                for j in np.flatnonzero(made[k]).tolist():
                    places, weights = parts[j]
                    along = inverted[:, places] @ weights
                    seen = float(along[places] @ weights) >= _SEEN * noise * float(along @ along)
                    made[k, j] = seen and not self._endless(k, places, weights)
        return made

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The value c of each column of 0 and c, (d,), and nan of others.

        A schema tells it. Without one it is the second moment over the mean, which numbers on both sides of 0 have
        beyond the bound of rows.
        """
        if self.schema is not None:
            return np.where([change.step == 0 for change in self.changes], 1.0, np.nan)
        if self.moments is None or not self.constant:
            return np.full(self.d, np.nan)
        means = self.moments.means[: self.d]
        size = self.moments.matrix.diagonal()[: self.d] / np.where(means > 0, means, np.nan)
        return np.where(size <= float(self.one.row_norm), size, np.nan)

    def _endless(self, k: int, places: np.ndarray, weights: np.ndarray) -> bool:
        """Tell whether a change may have an infinite effect: all records of a value may be of one class.

        The prior keeps the estimate finite then, and noise may hide that nothing else does. Let u have u . x = 1 for
        the records of a value, and 0 for others. At the centers the gradient is g = sum (y - p) x and the curvature H =
        sum p (1 - p) x x^T. So of these records sum p - u . g = sum (1 - y) are not of the class, and sum (1 - p) + u .
        g are. Both are at least u . H u -+ u . g. The change is endless if that is not clear of its noise for the class
        that becomes rare.
        """
        law, late = self._stored("law", k), self._stored("late", k)
        if not self.labels or not late.size:
            return False
        gradient = self._stored("path", k)[-int(law[4]) :, len(late) : 2 * len(late)].mean(axis=0)
        steep = float(weights @ self.weights[k][places])
        for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
            size = float(self._sizes[place])
            if not abs(steep) * size > _STEEP:
                continue
            of_value = np.zeros(len(late))
            of_value[place] = 1 / size
            groups = [(of_value, math.copysign(1.0, weight * steep))]
            if len(places) == 1 and self.constant:
                of_zero = -of_value
                of_zero[-1] = 1 / self.constant
                groups.append((of_zero, -groups[0][1]))
            for u, side in groups:
                square = float(u @ u)
                noise = math.sqrt(2 * float(law[1]) * square**2 + float(law[3]) * square)
                if float(u @ late @ u) - side * float(u @ gradient) < _BOTH * noise:
                    return True
        return False

    def variance(self, k: int, places: np.ndarray, weights: np.ndarray) -> float:
        """Compute a weighted sum's posterior variance, of the k-th outcome's coefficients."""
        if self.spherical:
            return float(self.covariance[0] * (weights @ weights))
        d = self.covariance.shape[-1]
        part = self.covariance.reshape(-1, d, d)[k][np.ix_(places, places)]
        return max(float(weights @ part @ weights), 0.0)

    def limits(self, level: float) -> np.ndarray:
        """Compute the limits of the coefficients' central intervals, (K, d, 2)."""
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        if self.spherical:
            variance = np.full((1, self.d), self.covariance[0])
        else:
            variance = np.atleast_2d(np.diagonal(self.covariance, axis1=-2, axis2=-1)[..., : self.d])
        sure = self.known
        if self.schema is not None:
            sure = self._known([(np.array([j]), np.ones(1)) for j in range(self.d)])
        half = np.where(sure, ndtri(0.5 + level / 2) * np.sqrt(variance), np.inf)
        own = self.weights[:, : self.d]
        return np.stack([own - half, own + half], axis=-1)

    def effects(self, level: float) -> list[Effect]:
        """Compute the effects of all columns, outcome by outcome.

        An effect that is not known, but four standard deviations from 0, has a one-sided interval, with the ``level``'s
        end toward 0, if this is large. Where the outcome hardly varies the curvature is next to nothing and hidden by
        noise, so that nothing bounds such an effect on the other side; and the posterior is drawn toward 0.
        """
        ends, (sds, _), made = self.limits(level), self.spreads, []
        reach = float(ndtri(0.5 + level / 2))
        least = clear_deviations(len(self.outcomes) * sum(bool(one.text) for one in self.changes), sides=2)
        settled = (self.full or self.spherical) and not self.too_few
        for outcome, k, sign in self.outcomes:
            mean, (low, high) = sign * self.weights[k], np.sort(sign * ends[k], axis=1).T
            for j, (name, change, (places, weights)) in enumerate(
                zip(self.names, self.changes, self.parts, strict=True)
            ):
                sd, center = math.sqrt(self.variance(k, places, weights)), float(weights @ mean[places])
                unit = float(sds[j] / (change.per_unit * change.step) if change.step else sds[j])
                end = (abs(center) - reach * sd) * (unit if change.step else 1.0)
                told = settled and k not in self.absent and not self.flat[places].any()
                sure, large = bool(self.known[k, j]), told and abs(center) > _FAR * sd and end > _LARGE
                log_ratio = Interval(
                    center,
                    center - reach * sd if sure or (large and center > 0) else -math.inf,
                    center + reach * sd if sure or (large and center < 0) else math.inf,
                )
                label = f"{name.partition('=')[0] if change.beside else name} {change.text}"
                ratio = Interval(*map(ratio_of, log_ratio))
                coefficient = Interval(float(mean[j]), float(low[j]), float(high[j]))
                standard = Interval(*(unit * value for value in log_ratio))
                clear = bool(change.text) and sure and abs(center) > least * sd
                made.append(Effect(outcome, name, coefficient, change.text, log_ratio, ratio, standard, label, clear))
        return made

    @cached_property
    def told(self) -> list[Effect]:
        """The effects with intervals of 90 %, for lists and findings."""
        return self.effects(0.9)


def ratio_of(log: float) -> float:
    """Exponentiate a log ratio; infinity if it is too large for a float."""
    with np.errstate(over="ignore"):
        return float(np.exp(log))


def marginal(model: Any, X: Any, level: float) -> list[tuple[str, str, str, Interval]]:
    """Compute average marginal effects on a probability over public rows.

    The effect of a number is the average slope of the probability times the change. The effect of another change is the
    average difference between rows that are set to one side of it and to the other. Draws of the coefficients from
    their posterior, from a fixed seed, give the interval. It is the whole line if the change is not known
    (`Reading.known`). Returns outcome, column, change and effect.
    """
    check_number("level", level, 0, 1, low_open=True, high_open=True)
    if len(model.classes_) > 2:
        raise ValueError(f"{len(model.classes_)} classes: expected a model of two classes for marginal effects")
    read, tail = reading(model), (1 - level) / 2
    ((label, _, sign),) = read.outcomes
    (matrix, scale), mean = model._rows_of(X), model._fitted().arrays["weights"]
    covariance = model.covariance_[0] * np.eye(len(mean)) if model._spherical else model.covariance_
    values, vectors = np.linalg.eigh(covariance)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(mean))) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    m = sign * np.vstack([mean, mean + draws]).T
    told = [(name, change) for name, change in zip(read.names, read.changes, strict=True) if change.text]
    sums, n = np.zeros((len(told), _DRAWS + 1)), matrix.shape[0]
    if n == 0:
        raise ValueError("X has no rows: expected at least one")
    for first in range(0, n, 1024):
        part = matrix[first : first + 1024]
        rows = np.asarray(part.toarray() if sparse.issparse(part) else part) * scale[first : first + 1024, None]
        logits = rows @ m
        slope = (expit(logits) * expit(-logits)).sum(axis=0)
        for sum_, (_, change) in zip(sums, told, strict=True):
            if change.step:
                sum_ += slope * sum(weight * m[place] for place, weight in change.weights)
                continue
            without = logits - rows[:, list(change.beside)] @ m[list(change.beside)]
            to, start = (sum(max(side * w, 0.0) * m[place] for place, w in change.weights) for side in (1, -1))
            sum_ += (expit(without + to) - expit(without + start)).sum(axis=0)
    ends = np.quantile(sums[:, 1:] / n, (tail, 1 - tail), axis=1).T
    ends[~read.known[0, [bool(change.text) for change in read.changes]]] = -np.inf, np.inf
    return [
        (label, name, change.text, Interval(float(sum_[0] / n), *own))
        for (name, change), sum_, own in zip(told, sums, ends.tolist(), strict=True)
    ]
