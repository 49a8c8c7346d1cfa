"""How well the columns predict the outcome: the score that the last step may measure."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit, log_expit

from ...data.schema import moved_to_bounds
from ...data.types import Vector
from ...engine.gain import JUDGES, NINETY, FoundGain, RowScore
from ...kernels.logistic import Rows
from .posterior import mean_sigmoid
from .records import LogisticRecords, entries_of, row_products

#: Products of entries of this many bits are added exactly, in any order, for rows and columns of norm 1.
_BITS = 24
_LEAST = 1e-300
#: The least and the largest bound of a record's nats, of two classes. Few records gain or lose more than 2; but of a
#: rare outcome these are the ones that its columns tell.
NATS = 2.0, 4.0
#: With more columns the step counts no values beyond bounds: a block's contributions would be large.
_MOST_COUNTED = 256
#: Standard deviation of the error that normal logits make in the log odds of a base rate, as on sixteen public tables;
#: and in the log of a mean count, as on five, beside what the coefficients' covariance says.
_OTHER_LAW, _OF_COUNTS = 0.2, 0.1
#: Standard deviation of the optimism's error, over it: on seventeen public tables of several classes.
_UNSURE = 0.5


class Prediction(NamedTuple):
    """The law of coefficients, for predictions: their mean, and columns whose outer products add up to the covariance.

    The nats that a fit gains on its own records in all, and the log odds of the base rate, belong to it. Of several
    classes the mean has the factor of their logits, and ``offset`` is what `class_logits` adds.
    """

    mean: np.ndarray
    spread: np.ndarray
    optimism: float
    base: float
    offset: float = 0.0


def nats_bound(noise_sd: float, clip: float, n: float, fraction: float, scale: float, most: float) -> float:
    """Bound a record's nats, from public numbers.

    A bound b brings the mean nats of m records noise of about b ``noise_sd`` / (``clip`` m), and cuts what is above it,
    which is a bias. The largest bound is taken whose noise, 1/(2 sqrt(m)), is no more than the choice of records makes
    the mean of usual nats vary. ``scale`` says how much larger nats are than those of two classes, and ``most`` how
    many times that the bound may be.
    """
    asked = fraction * min(n, JUDGES)
    return scale * min(max(math.sqrt(asked) * clip / (2 * max(noise_sd, _LEAST)), NATS[0]), most)


def saved_share(found: FoundGain, law: Vector, seen: Vector, sd: float) -> FoundGain:
    """Find the share of the base rates' log loss that a measured gain saves, with its interval.

    ``law`` are the base rates of all classes that the score compared with, by normal logits. ``seen`` are the shares
    that the same step counted, with noise of ``sd``: of the second of two classes, or of each of more. They are joined
    by their precision.

    Notes
    -----
    Let s be the shares, q the ``law`` and m the nats. The gain is g = 1 - (sum -s_k log q_k - m) / sum -s_k log s_k. An
    error of s_k moves it by log q_k - (1 - g) log s_k, over the log loss, but for what moves all classes alike.
    """
    two = len(seen) == 1
    trust = 1 / (1 + (sd / (_OTHER_LAW * law * (1 - law))) ** 2)
    share = np.maximum(law + trust * ((np.append(1 - seen, seen) if two else seen) - law), law / 4)
    share /= share.sum()
    loss = max(float(-share @ np.log(share)), 1e-6)
    more = float(-share @ np.log(law)) - loss
    # Noise may make nats that no prediction has. A share of -1 stands for any below it.
    least = -max(loss, math.log(2))
    nats = [-math.log1p(-min(each, 1 - 1e-12)) if each > -1 else least for each in found]
    gain, low, high = [(one - more) / loss for one in nats]
    slope = np.log(law) - (1 - gain) * np.log(share)
    moved = np.sqrt(trust) * (slope - share @ slope)
    doubt = NINETY * sd / loss * (abs(float(moved[1] - moved[0])) if two else math.sqrt(float(moved @ moved)))
    low, high = gain - math.hypot(gain - low, doubt), gain + math.hypot(high - gain, doubt)
    # A gain of 1 is a prediction without error.
    return FoundGain(*(min(max(one, -1.0), 1.0) for one in (gain, low, high)))


def base_mean(base: float, variance: float, mean: float, sd: float, size: float) -> tuple[float, ...]:
    """Find the logit of the mean count, how many nats the score's own base loses beside it, and the error of these.

    At last come the mean count itself, and the error of its logarithm.

    ``base`` is the logit that the score compared with, by normal logits, whose error has this ``variance``. ``mean`` is
    the mean count that the same step released, with noise of ``sd``; ``size`` the mean of r. The two are joined by
    their precision, as in `saved_share`. An error e that is left in the log mean costs r p e^2 / 2 nats.
    """
    law = math.exp(base) * size
    trust = 1 / (1 + sd**2 / (law**2 * (_OF_COUNTS**2 + variance)))
    left = math.sqrt(trust) * sd
    joined = max(law + trust * (mean - law), left, law / 16)
    logit, left = math.log(joined / size), left / joined
    cost = 0.5 * size * float(expit(logit)) * left**2
    won, lost = (float(log_expit(side * logit) - log_expit(side * base)) for side in (1, -1))
    error = math.hypot((logit - base) * joined * left, math.sqrt(3) * cost)
    return logit, joined * won + size * lost, error, joined, left


def nats_of_mean(mean: float) -> float:
    """Find the nats that a count's gain is measured in: 1, or of a mean below 1 what a count loses by it."""
    return mean * (1 - math.log(mean)) if 0 < mean < 1 else 1.0


class OutcomePrediction(RowScore):
    """Contributions to a score of a logistic regression.

    A unit's nats are the mean, over its rows, of log p - log p0. Here p is the predictive probability of the outcome
    that occurred, and p0 is the one by the released base rate. ``models`` has one posterior, or one for each class.
    ``bound`` is the largest norm of a row, ``n`` the public number of units, ``nats`` the `nats_bound`. Counts have a
    ``largest``; one beyond it was brought to a number that is not whole.

    The step also counts, for each column, the share of values that were moved to a bound (`moved_to_bounds`), and of
    counts the share that was cut. At last comes the mean outcome: of two classes the share of the second, of more the
    share of each, of counts their mean over the largest.

    Notes
    -----
    *Bound.* A row of the score is a function of the unit's own rows, labels and word, and of released numbers. Nats are
    cut at ``nats`` on both sides. A row with j moved values has the entry j^(-1/2) for each of them, a vector of norm
    1, or 0 without one; a unit has the mean over its rows, whose norm is at most 1. The mean outcome has entries of its
    own, of which a row has one, at most 1, and makes the norm at most sqrt(2). `GainScore.clip_rows` proves the rest.

    *Optimism.* The coefficients were fitted to the same units. Let m be the posterior mean. By Efron (2004) a fit's own
    records are predicted better than others by sum_i cov(y_i, x_i . m) nats in all. If m is calibrated by a factor, it
    is that times the factor. Let g be the noised gradient, H the curvature and T the trust in g that the noise leaves.
    Then m = C T g for the covariance C = (T H + alpha I)^-1. Labels give g the covariance H. So the sum is tr(C T H) =
    d - alpha tr C, with the d of Akaike's criterion for a weak prior. Each unit's nats are lowered by it over n. A
    person's are the mean of m rows, whose labels bring the variance J (`SandwichModel`), at most m H where they are
    alike: it is multiplied by the mean ratio of J to m H. Where columns nearly separate the classes, labels bring less
    than H: of several classes it is multiplied by sum p (1 - p) over that of the classes against the rest, on the draws
    that tell the factor.

    *Purity.* Norms of rows are added entry by entry (`row_products`), products are of integers below 2^53 in all, and
    the rest is elementwise. So a unit's row has the same bits in any block.
    """

    most, rest = 1.0, 0.25

    def __init__(self, models: Sequence[Prediction], bound: float, n: int, nats: float, largest: float = 0.0):
        self._bound, self._largest, self.nats = bound, largest, nats
        d = len(models[0].mean)
        self._moves = d <= _MOST_COUNTED
        self.n_shares = (d + (largest > 0)) * self._moves + len(models)
        self.shares_norm = math.sqrt(2)
        self._tables, self._units = [], []
        for one in models:
            table = np.column_stack([one.mean, one.spread])
            unit = float(np.sqrt((table * table).sum(axis=0).max())) or 1.0
            self._tables.append(np.trunc(np.ldexp(table / unit, _BITS)))
            self._units.append(np.ldexp(unit * bound, -2 * _BITS))
        bases = np.array([one.base for one in models])
        share = expit(bases)
        self._base = np.log(share / share.sum() if len(models) > 1 else np.append(1.0 - share, share))
        self._offset = np.array([one.offset for one in models])
        self.optimism = sum(one.optimism for one in models) / n
        self.unsure = 0.0 if largest else _UNSURE * self.optimism

    def unit_shares(self, block: Rows, unit: np.ndarray, kept: np.ndarray, n_units: int) -> np.ndarray:
        """Compute units' shares of moved values and of cut counts, and their mean outcome, (n_units, n_shares)."""
        n, moved = block.n_rows, moved_to_bounds(block.values[: 0 if block.unit or not self._moves else None])
        if block.indptr is None:
            row, column = np.nonzero(moved.reshape(n, -1)) if len(moved) else (np.empty(0, np.int64),) * 2
        else:
            here = np.flatnonzero(moved)
            row, column = np.searchsorted(block.indptr, here, side="right") - 1, block.indices[here]
        if self._largest and self._moves:
            cut = np.flatnonzero(block.y != np.floor(block.y))
            row, column = np.append(row, cut), np.append(column, np.full(len(cut), self.n_shares - 2))
        asked = np.zeros(n, dtype=bool)
        asked[kept] = True
        row, column = row[asked[row]], column[asked[row]]
        share, number = 1 / np.sqrt(np.bincount(row, minlength=n)[row]), np.bincount(unit[kept], minlength=n_units)
        if (several := len(self._tables)) > 1:
            won, y = kept, np.ones(len(kept))
            place = self.n_shares - several + block.y[kept].astype(np.int64)
        else:
            won = np.flatnonzero(asked & (block.y > 0))
            y, place = np.minimum(block.y[won] / (self._largest or 1.0), 1.0), np.full(len(won), self.n_shares - 1)
        row, share, column = np.append(row, won), np.append(share, y), np.append(column, place)
        found = np.bincount(unit[row] * self.n_shares + column, share, n_units * self.n_shares)
        return found.reshape(n_units, self.n_shares) / np.maximum(number, 1)[:, None]

    def predict(self, block: Rows, words: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        block = LogisticRecords(block).block(kept)
        n, y, shape = len(kept), block.y, (len(kept), block.n_features)
        norm, _ = row_products(block, np.empty((0, block.n_features)))
        scale = np.ldexp(1.0 / np.maximum(norm, self._bound), _BITS)
        if block.indptr is None:
            matrix: Any = np.trunc(block.values.reshape(shape) * scale[:, None])
        else:
            row_of, columns, values = entries_of(block)
            matrix = sparse.csr_array((np.trunc(values * scale[row_of]), columns, block.indptr), shape)
        found = [np.asarray(matrix @ table) * unit for table, unit in zip(self._tables, self._units, strict=True)]
        if len(found) > 1:
            logits = np.stack([one[:, 0] for one in found], axis=1) + self._offset
            logits -= logits.max(axis=1)[:, None]
            place, whole = y.astype(np.int64), np.zeros(n)
            for column in np.exp(logits).T:
                whole += column
            return logits[np.arange(n), place] - np.log(whole) - self._base[place], np.ones(n)
        variance = np.zeros(n)
        for column in found[0].T[1:]:
            variance += column * column
        one = np.clip(mean_sigmoid(found[0][:, 0], np.sqrt(variance)), _LEAST, 1 - 1e-16)
        trials = 1.0 if block.trials is None else block.trials
        won, lost = np.log(one) - self._base[1], np.log1p(-one) - self._base[0]
        return y * won + (trials - y) * lost, np.ones(n)
