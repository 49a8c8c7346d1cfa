"""What a fitted regression tells: effects in the columns' own units, which of them are known, and problems, in words.

Everything here is computed from a fitted regression, so it costs no privacy. Functions that take rows describe these
rows too: give them public or held-out ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from scipy.special import ndtri

from ...checks import check_number
from ...data.schema import Change, Schema
from ...engine.gain import JUDGES
from ...store.words import counted, decimals
from ..family import SCHEMA
from ..inputs import column_names
from ..several import clear_deviations
from .posterior import second_moment

#: Least standard deviation of a logit under the prior, and the share of a coefficient's own that is still "known".
_PRIOR_LOGIT, _SHARE_OF_PRIOR = 2.0, 1 / 3
#: A wide interval counts if its effect is this many standard deviations from 0.
_FAR = 4.0
#: From this log ratio on, of a value or of one standard deviation, an effect that has one end is large.
_LARGE = math.log(3)
#: Fewest steps of a run with intervals, with the one that measures; and the most that logits may grow, from one half of
#: the averaged centers to the other. With 5 steps the centers are still on their way, and intervals held .84. And the
#: mean square by which log rates at the centers may be apart: beyond it intervals of counts held .80, and else .87.
FEWEST_STEPS, _GROWTH, _APART = 10, 0.8, 0.2
#: Fewest records of the rarer class: with 30, intervals held .63.
_FEWEST_RECORDS = 60
#: A known effect's curvature is above 0 by this many standard deviations of its noise, of which the second are added to
#: the curvature beforehand: a direction that no record has, as beside a column for each value, is none of an effect.
_SEEN, _RIDGE = 4.2, 1.5
#: Noise hides a direction that it leaves less than the first share of the estimated curvature: in the release, or if
#: `_CLEAR` standard deviations of the error are taken off. A direction hides changes, and consists of columns, whose
#: square has more than the second share along it: at most some 30.
_LEFT, _ALONG = 0.5, 0.03
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

#: Effects that a list begins with, and names of those that have no interval.
MOST_LISTED, _MOST_NAMED = 10, 5
#: The largest ratio that is told of a large effect.
_MOST_TOLD = 1000.0
#: How much longer than the bound rows have to be for a finding; the log odds ratio of a value that tells the class: in
#: simulations 4.1 and more if all its records had one, and 3.4 if the true ratio was 20.
_LONGER, _TELLING = 1.1, 4.0
#: Standard deviations of the noise that a finding stands clear of; those of a 90 % interval.
_CLEAR, _NINETY = 3.0, 1.645
#: Probability that no warning is made by noise alone: fits are many.
_SURELY = 1 - 1e-6
#: A share of moved values that is not told; noise in the ratio of counts' variance to the stated one that hides it.
_NEXT_TO_NONE, _HIDES = 0.001, 0.5


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

    The intervals are each for itself: with 100 columns that say nothing, about ten intervals of 90 % leave out 0, and
    no effect is clear in nine fits of ten.
    """

    outcome: str  #: The class whose log odds change, or "count", whose log rate does.
    name: str  #: The encoded column.
    coefficient: Interval  #: Its coefficient.
    change: str  #: Of the column, in its own units: "+10", "yes instead of no"; empty for a category's reference.
    log_ratio: Interval  #: How much the change adds to the log odds or the log rate.
    ratio: Interval  #: By how much the change multiplies the odds or the rate: the exponentials of ``log_ratio``.
    #: ``log_ratio`` for one standard deviation of the column (`Reading.spreads`): by it columns of all units compare.
    standard: Interval
    label: str  #: Column and change, as a reader names them: "age +10"; of a reference "smoker=no".
    #: Whether the effect stands clear of the noise among all effects of the model (`vips_fast.models.several`).
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
        derived["reading"] = Reading(model, model._as_fitted())
    found: Reading = derived["reading"]
    return found


class Reading:
    """What a fitted regression's releases tell of its rows and effects."""

    def __init__(self, model: Any, fitted: Any):
        result = model._fitted()
        self.public, self.state, self.one = result.public, result.state, fitted
        self.d, self.private, self.constant = model.n_features_in_, bool(fitted.private), float(fitted._constant)
        #: Coefficients with the constant's, (K, d) or (K, d + 1), and their covariances; or a variance.
        self.weights = np.atleast_2d(result.arrays["weights"])
        self.covariance = result.arrays["covariance"]
        #: The mean precision of the coefficients' prior, (K,).
        self.alphas = np.divide(*np.atleast_2d(result.arrays["prior"]).T)
        self.spherical = self.covariance.ndim == 1
        self.labels = [] if self.public.classes is None else self.public.classes.tolist()
        self.schema = Schema.parse(model.inputs_[SCHEMA]) if SCHEMA in model.inputs_ else None
        #: Names of the encoded columns; numbers if nothing names them.
        self.names = column_names(self.public) or [f"x{j + 1}" for j in range(self.d)]
        #: What was released about each row of coefficients: the state of its model.
        starts = [f"class{k}." for k in range(len(self.weights))] if len(self.weights) > 1 else [""]
        names = [name.removeprefix(starts[0]) for name in self.state if name.startswith(starts[0])]
        self.released = [{name: self.state[start + name] for name in names} for start in starts]
        #: Whether matrices were released; those of many columns are not.
        self.full = bool(self.released[0].get("rows", np.empty(0)).size)
        #: Number of steps of a private run whose matrices were released, or 0; and whether they are too few.
        self.steps = len(self.released[0]["path.noise"]) if self.full and self.private else 0
        self.too_few = 0 < self.steps < FEWEST_STEPS - 1
        #: Each estimated curvature, its entries' variances, and the noise in the released one's diagonal.
        self.curvatures = []
        for one in self.released if self.full else []:
            sd = math.sqrt(one["law.matrix"].item())
            curvature, hidden = second_moment(one["matrix"], sd, math.sqrt(2) * sd, self.constant > 0)
            errors = np.outer(curvature.diagonal(), curvature.diagonal()) * hidden
            self.curvatures.append((curvature, errors, math.sqrt(2) * sd))

    @cached_property
    def moments(self) -> Moments | None:
        """The rows' moments; None if noise hides the number of records, or no matrix was released."""
        if not self.full:
            return None
        matrix, constant = self.released[0]["rows"], self.constant
        mass = float(matrix[-1, -1]) / constant**2 if constant else self.public.n_records * self.one._trials[1]
        noise = math.sqrt(2 * self.released[0]["law.rows"].item())
        if mass <= _COUNTED * noise / (constant or 1.0) ** 2:
            return None
        means = matrix[-1] / (mass * constant) if constant else np.zeros(len(matrix))
        return Moments(matrix / mass, noise / mass, mass, means, matrix.diagonal() / mass - means**2)

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
    def parts(self) -> Any:
        """How much each change moves every coefficient's column, (changes, D), sparse."""
        made = np.array([(j, place, size) for j, one in enumerate(self.changes) for place, size in one.weights])
        rows, places, sizes = made.reshape(-1, 3).T
        return sparse.csr_array((sizes, (rows.astype(int), places.astype(int))), (self.d, self.weights.shape[1]))

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
            found = np.array(
                [_OF_EVEN * one.per_unit * next(reach) if one.step else _OF_HALVES for one in self.changes]
            )
        if self.moments is None:
            return found, np.zeros(self.d, dtype=bool)
        variance = self.moments.variances[: self.d]
        told = variance > _SPREAD_SEEN * self.moments.noise
        return np.where(told, np.sqrt(np.maximum(variance, 0.0)), found), told

    @cached_property
    def flat(self) -> np.ndarray:
        """The columns of nearly one value other than 0, (D,): as far as noise tells, less than a hundredth varies."""
        found = np.zeros(self.weights.shape[1], dtype=bool)
        if self.moments is not None:
            variance, square = self.moments.variances[: self.d], self.moments.matrix.diagonal()[: self.d]
            found[: self.d] = (variance < _SPREAD_SEEN * self.moments.noise) & (variance < 0.01 * square)
        return found

    @cached_property
    def separating(self) -> tuple[bool, np.ndarray]:
        """Whether columns almost separate two classes, and those that make most of the logits' spread, (D,).

        Their coefficients say only how completely.
        """
        if len(self.weights) > 1 or self.moments is None or not self.constant or not self.labels:
            return False, np.zeros(self.weights.shape[1], dtype=bool)
        (weights,), moments = self.weights, self.moments
        square = float(weights @ moments.matrix @ weights) - float(moments.means @ weights) ** 2
        own = weights**2 * moments.variances  # of the constant it is 0
        return square > _SEPARATED**2, (own > _MOSTLY * square) & (square > _SEPARATED**2)

    @cached_property
    def absent(self) -> dict[int, Any]:
        """The rows of coefficients that are about a class that does not occur, as far as noise tells, and the class.

        The curvature's entry of the constant is the sum of p (1 - p): about the number of records of a rare class. Such
        a class has a small share of the records, and not more of them than noise may have made. The sum is small, too,
        of a class that columns tell: that one occurs if the last step counted it, clear of its noise.
        """
        absent: dict[int, Any] = {}
        if self.moments is None or not self.constant or not self.labels:
            return absent
        *_, sd = counted = self.state.get("shares", np.full(1 + len(self.labels), np.nan))
        shares = counted[-1 - len(self.weights) : -1]
        shares = np.append(1 - shares, shares) if len(shares) == 1 else shares
        for k, own in enumerate(self.weights):
            released = self.released[k]
            count = float(released["matrix"][-1, -1]) / self.constant**2
            # Of the curvature, and of the gradient that the share of the class was read from.
            late, gradient = (released[f"law.{name}"].item() for name in ("late", "gradient"))
            noise = math.hypot(math.sqrt(2 * late) / self.constant**2, math.sqrt(gradient) / self.constant)
            # Of classes that columns separate the curvature is small, too.
            rare = abs(float(released["base"][0])) > _RARE and count < _ABSENT * 4 * self.moments.mass
            if rare and count < max(_TOLD * noise, _FEW):
                place = k if len(self.weights) > 1 else int(float(self.moments.matrix[-1] @ own) < 0)
                if not shares[place] > max(_ABSENT, _TOLD * sd):
                    absent[k] = self.labels[place]
        return absent

    @cached_property
    def on_the_way(self) -> np.ndarray:
        """The rows of coefficients whose averaged centers were still on their way, (K,).

        The read-out takes the gradient for linear between the centers and the result, and the curvature for one. So
        what is left of a long way is as wrong as the curvature has changed along it, for all effects: the centers show
        how long it was. From the first half of the averaged ones to the second, logits grow along the result, in their
        root mean square over the records, by at most `_GROWTH`. Noise moves each center, too. The curvature of counts
        follows their rate: where centers are far apart, the gradients' average is not the one at the average center.
        """
        moments, counts = self.moments, not self.labels
        found = np.full(len(self.weights), self.too_few or (self.steps > 0 and moments is None and counts))
        if not self.steps or moments is None:
            return found
        for k, own in enumerate(self.weights):
            centers = self.released[k]["path.center"][-int(self.released[k]["law.count"].item()) :]
            half = max(len(centers) // 2, 1)
            way, along = centers[-half:].mean(axis=0) - centers[:half].mean(axis=0), moments.matrix @ own
            square = max(float(own @ along), moments.noise * float(own @ own))
            found[k] |= abs(float(along @ way)) > _GROWTH * math.sqrt(square)
            apart = centers - centers.mean(axis=0)
            found[k] |= counts and float(((apart @ moments.matrix) * apart).sum(axis=1).mean()) > _APART
        return found

    @cached_property
    def known(self) -> np.ndarray:
        """Whether the releases say enough about each outcome and change, (K, changes); see `_known`."""
        return self._known(self.parts)

    def _known(self, parts: Any) -> np.ndarray:
        """Find the changes that the releases say enough about, a mask (K, changes).

        The rule is public. Under the narrowest prior a logit has a standard deviation of 2. The interval is at most a
        third as wide as under that, or it is four standard deviations from 0. And noise does not hide the curvature
        that the interval rests on. Let H be the curvature's estimate and w the change. The effect is read along v =
        H^-1 w, and an H that is too large along v makes the interval too narrow. So `_CLEAR` standard deviations of the
        error of v . H v leave `_LEFT` of it. (By `second_moment` an entry's error is at most the noise, and less where
        columns are alike. One that is not may be among them: with the ridge it is `_SEEN` above 0, whatever they say.)
        And w has no part in a direction that only the prior tells: see `_hidden`. The centers have arrived: see
        `on_the_way`. The sum of p (1 - p), about the number of records of the rarer class, is at least
        `_FEWEST_RECORDS`. A column that is nearly one value has no effect apart from the constant's, and one that tells
        the label none that ends: see `_endless`. Beside a value that is not known, but whose log odds ratio seems to be
        above `_TELLING`, no number is. Models that release no matrix have intervals of the noise only, and all their
        changes are known.
        """
        made = np.ones((len(self.weights), parts.shape[0]), dtype=bool)
        sizes, squares = abs(parts), parts.multiply(parts).sum(axis=1)
        made[list(self.absent)] = False
        made[:, sizes @ (self.separating[1] | self.flat) > 0] = False
        if self.full:
            # A small part is that of one of many columns for values. A schema's changes have none in such a set.
            least = (_ALONG if self.schema is None else _SHARE_OF_PRIOR**2) * squares
            made &= [((parts @ hidden) ** 2).max(axis=1, initial=0.0) <= least for hidden in self._hidden]
        if not self.private or not self.full:
            return made
        made[self.on_the_way] = False
        for k, own in enumerate(self.weights):
            (curvature, errors, noise), moments = self.curvatures[k], self.released[k]["matrix"].diagonal()
            few = bool(self.labels and self.constant) and moments[-1] < _FEWEST_RECORDS * self.constant**2
            made[k] &= not few
            length = math.hypot(self.one.row_norm, self.constant)
            if self.constant and moments[-1] > 0:
                # A row and its constant have the same weight.
                length = min(length, self.constant * math.sqrt(max(float(moments.sum() / moments[-1]), 1.0)))
            usual = (_SHARE_OF_PRIOR * _PRIOR_LOGIT / length) ** 2 * squares
            made[k] &= self.variances(k, parts) <= np.maximum(usual, (parts @ own / _FAR) ** 2)
            if noise and made[k].any():
                along = parts @ np.linalg.inv(curvature + _RIDGE * noise * np.eye(len(curvature)))
                shown, square = (along * (along @ curvature)).sum(axis=1), along**2
                # Entries off the diagonal come in pairs, which have one error.
                variance = (square * (2 * square @ errors - square * errors.diagonal())).sum(axis=1)
                made[k] &= (1 - _LEFT) * shown >= _CLEAR * np.sqrt(variance)
                made[k] &= parts.multiply(along).sum(axis=1) >= _SEEN * noise * square.sum(axis=1)
                of_value = sizes @ self._sizes > 0
                for j in np.flatnonzero(made[k] & of_value).tolist():
                    made[k, j] = not self._endless(k, parts[[j]])
                # How the curvature of a separated value's records goes with numbers is hidden, and draws these to 0.
                size = sizes @ self._sizes / np.maximum(sizes @ (self._sizes > 0), 1)
                if (~made[k] & (np.abs(parts @ own) * size > _TELLING)).any():
                    made[k] &= of_value
        return made

    @cached_property
    def _hidden(self) -> list[np.ndarray]:
        """The directions of each outcome that only the prior tells, unit columns of a matrix (D, number).

        Let M be the released curvature, and H the estimate, which is shrunk toward a common correlation. Among many
        columns H takes two copies of one for two that differ; and along a set of columns of which each record has one,
        small errors of many entries add up. But u . M u has the noise of an entry of M's diagonal for every unit
        vector u. So M is asked along what the others do not tell of a column, (H + `_RIDGE` noise I)^-1 e; where M and
        H differ by more than the largest noise of so many entries, it is with M's. A direction is hidden if u . M u is
        below the noise, the precision of the prior, or `_LEFT` of u . H u.
        """
        found = []
        for (curvature, _, noise), released, alpha in zip(self.curvatures, self.released, self.alphas, strict=True):
            matrix, d = released["matrix"], len(curvature)
            clear = np.abs(matrix - curvature) > noise * math.sqrt(math.log(max(d * (d - 1) / 2, 1)))
            clear.flat[:: d + 1] = False
            apart = max(float(np.trace(curvature)), alpha) * self._values
            along = np.linalg.inv(np.where(clear, matrix, curvature) + apart + max(_RIDGE * noise, alpha) * np.eye(d))
            along /= np.linalg.norm(along, axis=0)
            shown, estimated = (np.einsum("ij,ij->j", along, (h + apart) @ along) for h in (matrix, curvature))
            found.append(along[:, shown < np.maximum(_LEFT * estimated, max(noise, alpha))])
        return found

    @cached_property
    def _values(self) -> np.ndarray:
        """The projection on what each record has once: a category's columns less the constant, (D, D).

        A schema's changes are from one value to another and have no part in it.
        """
        sets = [] if self.schema is None else [one.beside for one in self.changes if not one.text]
        each = np.zeros((self.weights.shape[1], len(sets) if self.constant else 0))
        for column, places in zip(each.T, sets, strict=False):
            column[list(places)], column[-1] = 1.0, -1 / self.constant
        each = np.linalg.qr(each)[0]
        return np.asarray(each @ each.T)

    @cached_property
    def _sizes(self) -> np.ndarray:
        """The value c of each column of 0 and c, (D,), and 0 of others.

        A schema tells it. Without one it is the second moment over the mean, which numbers on both sides of 0 have
        beyond the bound of rows.
        """
        found = np.zeros(self.weights.shape[1])
        if self.schema is not None:
            found[: self.d] = [change.step == 0 for change in self.changes]
        elif self.moments is not None and self.constant:
            means = self.moments.means[: self.d]
            size = self.moments.matrix.diagonal()[: self.d] / np.where(means > 0, means, np.inf)
            found[: self.d] = np.where(size <= float(self.one.row_norm), size, 0.0)
        return found

    def _endless(self, k: int, part: Any) -> bool:
        """Tell whether a change may have an infinite effect: all records of a value may be of one class.

        The prior keeps the estimate finite then, and noise may hide that nothing else does. Let u have u . x = 1 for
        the records of a value, and 0 for others. At the centers the gradient is g = sum (y - p) x and the curvature H =
        sum p (1 - p) x x^T. So of these records sum p - u . g = sum (1 - y) are not of the class, and sum (1 - p) + u .
        g are. Both are at least u . H u -+ u . g. The change is endless if that is not clear of its noise for the class
        that becomes rare.

        Of counts g = sum (y (1 - p) - r p) x and H = sum r p x x^T, so that u . H u + u . g = sum y (1 - p), of the
        records that may have no events. A mean count has no infinite effect upward.
        """
        released, late = self.released[k], self.released[k]["late"]
        if not late.size:
            return False
        gradient = released["path.gradient"][-int(released["law.count"].item()) :].mean(axis=0)
        noises = released["law.late"].item(), released["law.gradient"].item()
        steep = (part @ self.weights[k]).item()
        for place, weight in zip(part.indices.tolist(), part.data.tolist(), strict=True):
            size = float(self._sizes[place])
            if not abs(steep) * size > _STEEP:
                continue
            of_value = np.zeros(len(late))
            of_value[place] = 1 / size
            groups = [(of_value, math.copysign(1.0, weight * steep))]
            if part.nnz == 1 and self.constant:
                of_zero = -of_value
                of_zero[-1] = 1 / self.constant
                groups.append((of_zero, -groups[0][1]))
            for u, side in groups if self.labels else [one for one in groups if one[1] < 0]:
                square = float(u @ u)
                noise = math.sqrt(2 * noises[0] * square**2 + noises[1] * square)
                if float(u @ late @ u) - side * float(u @ gradient) < _BOTH * noise:
                    return True
        return False

    def variances(self, k: int, parts: Any) -> np.ndarray:
        """Compute the posterior variances of changes, (changes,), of the k-th outcome's coefficients."""
        if self.spherical:
            return np.asarray(self.covariance[0] * parts.multiply(parts).sum(axis=1))
        covariance = self.covariance if self.covariance.ndim == 2 else self.covariance[k]
        return np.asarray(np.maximum(parts.multiply(parts @ covariance).sum(axis=1), 0.0))

    def limits(self, level: float) -> np.ndarray:
        """Compute the limits of the coefficients' central intervals, (K, d, 2)."""
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        d, known = self.d, self.known
        if self.schema is not None:
            # A number's coefficient is known if its change is, and a value's by itself.
            each = self._known(sparse.eye_array(d, self.weights.shape[1], format="csr"))
            known = np.where([change.step != 0 for change in self.changes], known, each)
        own = self.covariance if self.spherical else self.covariance.diagonal(axis1=-2, axis2=-1)[..., :d]
        half = np.where(known, ndtri(0.5 + level / 2) * np.sqrt(np.maximum(own, 0.0)), np.inf)
        own = self.weights[:, :d]
        return np.stack([own - half, own + half], axis=-1)

    def effects(self, level: float) -> list[Effect]:
        """Compute the effects of all columns, outcome by outcome.

        An effect that is not known, but four standard deviations from 0, has a one-sided interval, with the ``level``'s
        end toward 0, if this is large. Where the outcome hardly varies the curvature is next to nothing and hidden by
        noise, so that nothing bounds such an effect on the other side; and the posterior is drawn toward 0.
        """
        ends, reach, made = self.limits(level), float(ndtri(0.5 + level / 2)), []
        least = clear_deviations(len(self.outcomes) * sum(bool(one.text) for one in self.changes), sides=2)
        steps, per_unit = np.array([(one.step, one.per_unit) for one in self.changes], dtype=float).T
        units = self.spreads[0] / np.where(steps, per_unit * steps, 1.0)
        told = (abs(self.parts) @ self.flat == 0) & (self.full or self.spherical) & (not self.too_few)
        for outcome, k, sign in self.outcomes:
            mean, (low, high) = sign * self.weights[k], np.sort(sign * ends[k], axis=1).T
            center, sd, sure = self.parts @ mean, np.sqrt(self.variances(k, self.parts)), self.known[k]
            end = (abs(center) - reach * sd) * np.where(steps, units, 1.0)
            large = told & (k not in self.absent) & (abs(center) > _FAR * sd) & (end > _LARGE)
            from_ = np.where(sure | (large & (center > 0)), center - reach * sd, -np.inf)
            to = np.where(sure | (large & (center < 0)), center + reach * sd, np.inf)
            clear = sure & (abs(center) > least * sd)
            logs = np.stack([center, from_, to], axis=1)
            with np.errstate(over="ignore"):
                table = np.column_stack([mean[: self.d], low, high, logs, np.exp(logs), units[:, None] * logs])
            for name, change, row, stands in zip(self.names, self.changes, table.tolist(), clear, strict=True):
                own, log, ratio, standard = map(Interval._make, (row[:3], row[3:6], row[6:9], row[9:]))
                column = name.partition("=")[0] if change.beside and change.text else name
                label, stands = f"{column} {change.text}".rstrip(), bool(stands and change.text)
                made.append(Effect(outcome, name, own, change.text, log, ratio, standard, label, stands))
        return made

    @cached_property
    def told(self) -> list[Effect]:
        """The effects with intervals of 90 %, for lists and findings."""
        return self.effects(0.9)


# ------------------------------------------------------------------------------------------------ in words


class Told(NamedTuple):
    """What a regression tells about its effects, for every door.

    ``known`` are those with an interval, the largest first by one standard deviation of the column, and ``unknown`` the
    others, in their order. Effects on classes that do not occur (``absent``) are in neither.
    """

    known: list[Effect]
    unknown: list[Effect]
    absent: list[str]

    @classmethod
    def of(cls, model: Any, names: Sequence[str] | None = None) -> Told:
        """Sort the effects of a fitted regression; ``names`` replace those of its columns."""
        read = reading(model)
        every, absent = read.told, [label for label, k, _ in read.outcomes if k in read.absent]
        if names is not None:
            own = (names[j % len(names)] for j in range(len(every)))
            every = [
                one._replace(name=name, label=f"{name} {one.change}" if one.label.startswith(one.name) else one.label)
                for one, name in zip(every, own, strict=True)
            ]
        told = [one for one in every if one.change and one.outcome not in absent]
        known = sorted((one for one in told if one.known), key=lambda one: -abs(one.standard.mean))
        return cls(known, [one for one in told if not one.known], list(map(str, read.absent.values())))

    @property
    def any(self) -> bool:
        """Whether something is known of an effect."""
        return bool(self.known) or any(one.large for one in self.unknown)

    @property
    def sentence(self) -> str:
        """Count the effects that are known, and the intervals that leave out a ratio of 1."""
        n, apart = len(self.known), sum(one.log_ratio.clear for one in self.known)
        large, every = sum(one.large for one in self.unknown), n + len(self.unknown)
        if not every:
            return ""
        if not n:
            told = "none is known"
        elif n == 1:
            told = f"1 is known, and its 90 % interval {'leaves out' if apart else 'holds'} a ratio of 1"
        else:
            some = f"the 90 % interval{'s' * (apart > 1)} of {apart} leave{'s' * (apart == 1)} out a ratio of 1"
            told = f"{n} are known, and {some if apart else 'all their 90 % intervals hold a ratio of 1'}"
        more = f"; {large} {'is' if large == 1 else 'are'} only known to be large" if large else ""
        return f"Of {counted(every, 'effect')} {told}{more}."

    def lines(self, ratio: str, most: int | None = MOST_LISTED, more: str = "") -> list[str]:
        """List the known effects, at most ``most`` of them, and name the others. ``more`` says where the rest is."""
        several = len({one.outcome for one in [*self.known, *self.unknown]}) > 1
        shown, lines = self.known[:most], []

        def name_of(one: Effect) -> str:
            return f"{one.outcome}: {one.label}" if several else one.label

        for one in shown:
            mean, low, high = ratio_texts(one.ratio)
            with np.errstate(over="ignore"):
                of_sd, *_ = ratio_texts(Interval._make(np.exp(one.standard).tolist()))
            ends = f"[{low}, {high}]{' *' if one.clear else ''}"
            lines.append(f"  {mean:>8}  {ends:<20}  {of_sd:>6}  {name_of(one)}")
        for one in [one for one in self.unknown if one.large][:most]:
            up = one.log_ratio.mean > 0
            end = ratio_text(min(one.ratio.low, _MOST_TOLD) if up else max(one.ratio.high, 1 / _MOST_TOLD))
            end = f"at {'least' if up else 'most'} {end}"
            lines.insert(0, f"  {'large':>8}  {end:<20}  {'':>6}  {name_of(one)}")
        if lines:
            lines.insert(0, f"  {ratio:>8}  {'90 % interval':<20}  {'one sd':>6}  change")
        if rest := len(self.known) - len(shown):
            lines.append(f"  … and {rest} more{f' ({more})' if more else ''}")
        if any(one.clear for one in self.known):
            lines.append("* leaves out 1 also if the intervals are to hold for all effects together.")
        if unknown := [one for one in self.unknown if not one.large]:
            n, whole, named = len(unknown), len(self.known) + len(self.unknown), _some(map(name_of, unknown))
            lines.append(f"Not known, without interval: {n} of {whole} effects ({named}).")
        return lines


def ratio_texts(one: Interval) -> list[str]:
    """Write a known ratio and its ends with the same decimals, of which no end that is not 1 loses that.

    Ends that are a hundredfold apart are written each for itself.

    >>> ratio_texts(Interval(0.99988, 0.781, 1.28)), ratio_texts(Interval(1.5, 1.004, 2.1))
    (['1.00', '0.78', '1.28'], ['1.500', '1.004', '2.100'])
    """
    apart = [abs(end - 1) for end in one[1:] if abs(end - 1) >= 1e-8]
    if not 0 < one.low < one.high < 100 * one.low or not apart or one.high > 1e6:
        return list(map(ratio_text, one))
    digits = max(decimals(*one), -math.floor(math.log10(min(apart))))
    return [f"{value:,.{digits}f}" for value in one]


def ratio_text(value: float) -> str:
    """Write a ratio with three digits, or as many as show two of its distance from 1.

    >>> ratio_text(1.6834), ratio_text(1.0634), ratio_text(0.99997), ratio_text(1.0), ratio_text(1234.5)
    ('1.68', '1.063', '0.99997', '1', '1,230')
    """
    if not math.isfinite(value) or not value or abs(value - 1) < 1e-8:
        return f"{value:.0f}"
    size, apart = (math.floor(math.log10(v)) for v in (value, abs(value - 1)))
    digits = 3 if value > 100 else max(3, size - apart + 2)
    return f"{float(f'{value:.{digits}g}'):,.{max(digits, size + 1)}g}"


def _some(names: Iterable[str]) -> str:
    """List the first names."""
    listed = list(dict.fromkeys(names))
    return ", ".join(listed[:_MOST_NAMED]) + ", …" * (len(listed) > _MOST_NAMED)


def counted_findings(model: Any, level: float = 0.99) -> list[str]:
    """Say what the last step counted: values beyond bounds, counts that were cut; and whether dispersion is known.

    With probability ``level`` no share is said that only noise made. Columns of 0 and 1 have no bounds.
    """
    read, found = reading(model), []
    counts, one = not read.labels, read.one
    if "shares" in read.state:
        *shares, sd = read.state["shares"].tolist()
        n = read.public.n_records
        # Of very many columns no values were counted.
        told = len(shares) - len(read.outcomes) >= len(read.names)
        values = (
            "values are beyond its bounds and were moved to them, which bends its effect; expected wider public "
            'bounds, or beyond = "missing" or "refuse" in the schema'
        )
        numbers = zip(read.names, read.changes, shares if told else (), strict=False)
        own = [(name, share, values) for name, change, share in numbers if change.step]
        if counts and told:
            cut = "counts are above it and were cut: effects are on cut counts' mean; expected a larger public bound"
            own.append((f"largest={float(one.largest):g}", shares[-2], cut))
        least = max(clear_deviations(len(own), level=level) * sd, _NEXT_TO_NONE)
        for name, share, what in own:
            if share > least:
                chance = math.sqrt(share * max(1 - share, 0.0) / min(n, JUDGES)) * (n > JUDGES)
                error = _NINETY * math.hypot(sd, chance)
                found.append(f"{name}: about {share:.1%} (± {max(error, 0.0005):.1%}) of the {what}")
    if counts and read.private and read.full:
        noise, curvature = math.sqrt(float(read.state["squares_noise"][0])), read.state["matrix"].diagonal()
        # A curvature that noise brought to 0 or less hides it, too.
        if noise > _HIDES * float(np.linalg.norm(np.maximum(curvature, 0.0))):
            found.append(
                f"dispersion={float(one.dispersion):g}: the noise hides whether counts are spread more than that, so "
                "intervals rest on it; expected more records or epsilon, a smaller largest=, or a dispersion known to "
                "be large enough"
            )
    return found


@np.errstate(all="ignore")
def findings(model: Any) -> list[str]:
    """List problems that releases show or leave open, with remedies.

    The first released s2, S = sum of b/4 x x^T, says more than the coefficients. Its trace over its entry of the
    constant is at most the rows' mean square length before they are scaled down: longer ones weigh less in both.
    Its last row gives the mean of the logits, and S itself their spread. The law of the noise in S is known.
    """
    read, told, found = reading(model), Told.of(model), counted_findings(model, _SURELY)
    moments, binary = read.moments, len(read.weights) == 1 and bool(read.constant)
    if binary and read.private and (read.full or read.spherical):
        bound, square, error = float(read.one.row_norm), math.nan, 0.0
        if moments is not None:
            square, error = float(moments.matrix.diagonal()[:-1].sum()), _CLEAR * moments.noise * math.sqrt(read.d)
        if square - error > (_LONGER * bound) ** 2:
            found.append(
                f"row_norm={bound:g}: rows are {math.sqrt(square):.2g} long or more and were scaled down, which biases "
                "coefficients; expected a public bound above that, such as the schema's largest row norm"
            )
        elif read.schema is None and not square + error <= (_LONGER * bound) ** 2:
            found.append(
                f"row_norm={bound:g}: the noise hides whether rows are longer and were scaled down, which would bias "
                "coefficients; expected a bound that follows from public facts, such as a schema"
            )
    separated, by_these = read.separating
    if separated:  # that is why nothing is known
        mostly = [read.names[j] for j in np.flatnonzero(by_these)]
        by = f" (mostly {', '.join(mostly[:_MOST_NAMED])})" if mostly else ""
        found.append(
            f"classes {read.labels}: almost separated by the columns{by}, so that coefficients say only how "
            "completely; expected no column that tells the label: leave it out"
        )
        return found
    rare = [
        f"classes: {name!r} occurs in hardly any record, so that no effect on it can be seen; expected classes "
        "that occur: join it with another, or check its spelling"
        for name in read.absent.values()
    ]
    if rare and binary:
        return found + rare
    # Of values whose records have nearly all one class the curvature is next to nothing: noise hides their intervals.
    telling = [
        one
        for one, change in zip(read.told, read.changes, strict=False)
        if binary and moments and read.labels and change.text and not change.step
        if abs(one.log_ratio.mean) > _TELLING and (one.clear or not one.known)
    ]
    named = {one.name for one in telling}
    if telling:  # numbers beside it have no intervals, whatever the data say
        named |= {name for name, change in zip(read.names, read.changes, strict=True) if change.step}
    several = len({one.outcome for one in [*told.known, *told.unknown]}) > 1
    unknown = [
        f"{one.outcome}: {one.name}" if several else one.name
        for one in told.unknown
        if one.name not in named and not one.large
    ]
    if unknown:
        what = (
            f"the data say little or nothing about {len(unknown)} of {len(told.known) + len(told.unknown)}, so they "
            f"have no intervals ({_some(unknown)}); expected {'more records or epsilon, or ' * read.private}fewer "
            "columns, without those that hardly vary or follow from others"
        )
        if read.too_few or (read.labels and read.on_the_way.all()):
            least = FEWEST_STEPS if read.too_few else 2 * model.n_steps_
            what = (
                f"n_steps={model.n_steps_} is too few for intervals, since the centers are still on their way; "
                f"expected {least} or more, or as many calls of partial_fit"
            )
        found.insert(0, f"effects: {what}")
    found += rare
    if telling:
        listed = ", ".join(f"{one.name.partition('=')[0]} {one.change}" for one in telling[:_MOST_NAMED])
        found.append(
            f"effects: nearly all records of a value have one class ({listed}), so that its odds ratio says only that "
            "it is large, and numbers beside it may have no intervals; expected values with records of both classes: "
            "leave the column out, or join the value with another"
        )
    return found
