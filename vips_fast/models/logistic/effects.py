"""Show coefficients as effects, in the columns' own units.

They name the outcome, and are odds ratios, or are on probabilities.

Everything here is computed from a fitted `BayesianLogisticRegression`, so it costs no privacy. Functions that take rows
describe these rows too: give them public or held-out ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, ndtri

from ...checks import check_number
from ...data.schema import Change, Schema
from ..family import SCHEMA
from ..inputs import column_names
from ..several import clear_deviations

#: Draws from the posterior for marginal effects.
_DRAWS = 400
#: Least standard deviation of a logit under the prior, and the share of a coefficient's own that is still "known".
_PRIOR_LOGIT, _SHARE_OF_PRIOR = 2.0, 1 / 3
#: A wide interval counts if its effect is this many standard deviations from 0.
_FAR = 4.0
#: Steps that a read-out wants near the last center; fewest steps of a run with intervals, with the one that measures.
#: With 5 the centers are still on their way, and intervals held .84.
LEAST_STEPS, FEWEST_STEPS = 2, 10
#: A known effect's second moment is above 0 by this many standard deviations of its noise.
SEEN = 5.0


class Interval(NamedTuple):
    """A posterior mean and the central interval around it.

    If the releases say too little (`known_changes`), the interval is the whole line, or for a ratio 0 to infinity.
    """

    mean: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether the interval has an end."""
        return math.isfinite(self.high)

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
        A change in the column's own units: "+1", or "yes instead of no". Empty for a category's reference.
    log_ratio : Interval
        How much the change adds to the log odds or the log rate.
    ratio : Interval
        By how much the change multiplies the odds or the rate: the exponentials of ``log_ratio``.
    whole : Interval
        ``log_ratio`` of the change that ``label`` names: of a number with a schema, from one bound to the other. By it
        columns of different units compare.
    label : str
        Column and change, as a reader names them: "age from 18 to 90".
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
    whole: Interval
    label: str
    clear: bool

    @property
    def known(self) -> bool:
        """Whether the releases say enough about it: see `known_changes`."""
        return self.log_ratio.known


class Outcome(NamedTuple):
    """A class, its coefficients' row, and their sign for it.

    Effects are about the class.
    """

    label: str
    row: int
    sign: float


def outcomes(model: Any) -> list[Outcome]:
    """List the classes that effects are about.

    They have the order that ``classes`` states, or are sorted.

    Of two classes it is the second; of more, each against the rest. A regression of counts has one, the count.
    """
    if model._fitted().public.classes is None:
        return [Outcome("count", 0, 1.0)]
    labels, stated = model.classes_.tolist(), model._as_fitted().classes
    order = labels if stated is None else np.asarray(stated).tolist()
    if len(labels) > 2:
        return [Outcome(str(label), labels.index(label), 1.0) for label in order]
    return [Outcome(str(order[1]), 0, 1.0 if order[1] == labels[1] else -1.0)]


def changes(model: Any) -> Sequence[Change]:
    """List the columns' changes, by the schema or +1 each.

    The schema is the model's. Without one the change is +1 of each encoded column.
    """
    text = model.inputs_.get(SCHEMA)
    if text is None:
        return [Change("+1", ((j, 1.0),)) for j in range(model.n_features_in_)]
    return Schema.parse(text).changes


def names(model: Any) -> Sequence[str]:
    """Name the encoded columns; numbers if nothing names them."""
    return column_names(model._fitted().public) or [f"x{j + 1}" for j in range(model.n_features_in_)]


def too_few_steps(model: Any) -> int:
    """Give the number of steps of a run that is too short for intervals; 0 if it is not."""
    state = model._fitted().state
    steps = len(state.get("path", state.get("class0.path", ())))
    return steps if model._as_fitted().private and 0 < steps < FEWEST_STEPS - 1 else 0


def known_changes(model: Any, of: Sequence[Change]) -> np.ndarray:
    """Find the changes that the releases say enough about.

    Gives a mask (K, changes).

    The rule is public. Under the narrowest prior a logit has a standard deviation of 2. The interval is at most a third
    as wide as under that, or it is four standard deviations from 0. And the noise in the column's second moment is at
    most a fifth of that moment. Intervals divide by a curvature that is in proportion to it. Models that release no
    matrix have intervals of the noise only, and all their changes count as known.
    """
    result, one, mean = model._fitted(), model._as_fitted(), np.atleast_2d(model._fitted().arrays["weights"])
    matrix, law = (result.state.get(name, result.state.get(f"class0.{name}")) for name in ("matrix", "law"))
    made = np.ones((len(mean), len(of)), dtype=bool)
    if matrix is None or law is None or not one.private or matrix.shape != (mean.shape[1],) * 2:
        return made
    constant, moments = one._constant, matrix.diagonal()
    noise = 0.0 if law[2] == 0 else math.sqrt(2 / law[2])
    # Fewer steps near the last center than a read-out wants: the centers were still on their way.
    settled = not (0 < law[-1] < LEAST_STEPS) and not too_few_steps(model)
    length = math.hypot(one.row_norm, constant)
    if constant and moments[-1] > 0:
        # A row and its constant have the same weight.
        length = min(length, constant * math.sqrt(max(float(moments.sum() / moments[-1]), 1.0)))
    for j, change in enumerate(of):
        places, weights = _parts(change)
        limit = (_SHARE_OF_PRIOR * _PRIOR_LOGIT / length) ** 2 * float(weights @ weights)
        seen = settled and bool((moments[places] >= SEEN * noise).all())
        for k, own in enumerate(mean):
            far = (float(weights @ own[places]) / _FAR) ** 2
            made[k, j] = seen and variance_of(model, k, places, weights) <= max(limit, far)
    return made


def limits(model: Any, level: float) -> np.ndarray:
    """Compute the limits of the coefficients' central intervals, (K, d, 2)."""
    check_number("level", level, 0, 1, low_open=True, high_open=True)
    d = model.n_features_in_
    if model._spherical:
        variance = np.full((1, d), model.covariance_[0])
    else:
        variance = np.atleast_2d(np.diagonal(model.covariance_, axis1=-2, axis2=-1)[..., :d])
    sure = known_changes(model, [Change("+1", ((j, 1.0),)) for j in range(d)])
    half = np.where(sure, ndtri(0.5 + level / 2) * np.sqrt(variance), np.inf)
    return np.stack([model.coef_ - half, model.coef_ + half], axis=-1)


def _parts(change: Change) -> tuple[np.ndarray, np.ndarray]:
    """Split a change into columns and weights."""
    places, weights = np.array([place for place, _ in change.weights], dtype=int), [w for _, w in change.weights]
    return places, np.array(weights, dtype=float)


def effects(model: Any, level: float) -> list[Effect]:
    """Compute the effects of all columns, outcome by outcome."""
    ends, named, own, made = limits(model, level), names(model), changes(model), []
    reach, sure = float(ndtri(0.5 + level / 2)), known_changes(model, own)
    stated = outcomes(model)
    least = clear_deviations(len(stated) * sum(bool(change.text) for change in own), sides=2)
    for outcome, k, sign in stated:
        mean, (low, high) = sign * model.coef_[k], np.sort(sign * ends[k], axis=1).T
        for j, (name, change) in enumerate(zip(named, own, strict=True)):
            places, weights = _parts(change)
            sd = math.sqrt(variance_of(model, k, places, weights)) if sure[k, j] else math.inf
            center, half = float(weights @ mean[places]), reach * sd
            log_ratio = Interval(center, center - half, center + half)
            whole = Interval(*(change.reach * v for v in log_ratio))
            label = f"{name.partition('=')[0]} {change.whole or change.text}" if change.beside else name
            with np.errstate(over="ignore"):
                ratio = Interval(*np.exp(log_ratio).tolist())
            coefficient = Interval(float(mean[j]), float(low[j]), float(high[j]))
            clear = bool(change.text) and abs(center) > least * sd
            made.append(Effect(outcome, name, coefficient, change.text, log_ratio, ratio, whole, label, clear))
    return made


def variance_of(model: Any, k: int, places: np.ndarray, weights: np.ndarray) -> float:
    """Compute a weighted sum's posterior variance, of the k-th outcome's coefficients."""
    if model._spherical:
        return float(model.covariance_[0] * (weights @ weights))
    d = model.covariance_.shape[-1]
    part = model.covariance_.reshape(-1, d, d)[k][np.ix_(places, places)]
    return max(float(weights @ part @ weights), 0.0)


def largest(found: Sequence[Effect], most: int = 10) -> list[Effect]:
    """Select the largest effects that stand clear of the noise."""
    return sorted((one for one in found if one.clear), key=lambda one: -abs(one.whole.mean))[:most]


def marginal(model: Any, X: Any, level: float) -> list[tuple[str, str, str, Interval]]:
    """Compute average marginal effects on a probability over public rows.

    The effect of "+1" of a number is the average slope of the probability. The effect of another change is the average
    difference between rows that are set to one side of it and to the other. Draws of the coefficients from their
    posterior, from a fixed seed, give the interval. It is the whole line if the change is not known (`known_changes`).
    Returns outcome, column, change and effect.
    """
    check_number("level", level, 0, 1, low_open=True, high_open=True)
    if len(model.classes_) > 2:
        raise ValueError(f"{len(model.classes_)} classes: expected a model of two classes for marginal effects")
    ((label, _, sign),), named, tail = outcomes(model), names(model), (1 - level) / 2
    (matrix, scale), mean = model._rows_of(X), model._fitted().arrays["weights"]
    covariance = model.covariance_[0] * np.eye(len(mean)) if model._spherical else model.covariance_
    values, vectors = np.linalg.eigh(covariance)
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(mean))) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    m = sign * np.vstack([mean, mean + draws]).T
    told = [(name, change) for name, change in zip(named, changes(model), strict=True) if change.text]
    sums, n = np.zeros((len(told), _DRAWS + 1)), matrix.shape[0]
    if n == 0:
        raise ValueError("X has no rows: expected at least one")
    for first in range(0, n, 1024):
        part = matrix[first : first + 1024]
        rows = np.asarray(part.toarray() if sparse.issparse(part) else part) * scale[first : first + 1024, None]
        logits = rows @ m
        slope = (expit(logits) * expit(-logits)).sum(axis=0)
        for sum_, (_, change) in zip(sums, told, strict=True):
            if change.text == "+1":
                sum_ += slope * sum(weight * m[place] for place, weight in change.weights)
                continue
            without = logits - rows[:, list(change.beside)] @ m[list(change.beside)]
            to, start = (sum(max(side * w, 0.0) * m[place] for place, w in change.weights) for side in (1, -1))
            sum_ += (expit(without + to) - expit(without + start)).sum(axis=0)
    ends = np.quantile(sums[:, 1:] / n, (tail, 1 - tail), axis=1).T
    ends[~known_changes(model, [change for _, change in told])[0]] = -np.inf, np.inf
    return [
        (label, name, change.text, Interval(float(sum_[0] / n), *own))
        for (name, change), sum_, own in zip(told, sums, ends.tolist(), strict=True)
    ]


def calibration(model: Any, X: Any, y: Any, bins: int) -> list[tuple[float, Interval, int]]:
    """Compare predicted probabilities of the outcome with public labels.

    Rows are sorted by their probability and cut into ``bins`` parts. Returns each part's mean probability, the share of
    the outcome in it with Wilson's 90 % interval, and the number of rows.
    """
    check_number("bins", bins, 1, 1000, integer=True)
    if len(model.classes_) > 2:
        raise ValueError(f"{len(model.classes_)} classes: expected a model of two classes for a calibration curve")
    p, labels = model.predict_proba(X), np.asarray(y)
    with suppress(ValueError):  # whose text would show a label
        labels = labels.astype(model.classes_.dtype if model.classes_.dtype.kind != "U" else str)
    if labels.shape != (len(p),) or not np.isin(labels, model.classes_).all():
        raise ValueError(f"y has shape {labels.shape}: expected ({len(p)},), labels of the model's classes")
    column = int(outcomes(model)[0].sign > 0)
    predicted, hit = p[:, column], labels == model.classes_[column]
    made, z = [], float(ndtri(0.95))
    for rows in np.array_split(np.argsort(predicted, kind="stable"), bins):
        if n := len(rows):
            share = float(hit[rows].mean())
            center = (share + z * z / (2 * n)) / (1 + z * z / n)
            half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
            made.append((float(predicted[rows].mean()), Interval(share, center - half, center + half), n))
    return made
