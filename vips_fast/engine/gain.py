"""Score a model by predicting a unit's part from the rest.

The score is in nats, over a prediction that knows nothing of the unit, such as word frequencies. Statistics that were
made with a model look like this model, so they cannot judge it. A likelihood can.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

#: The bound of a unit's nats. Most units lose a little and some gain much, so a bound of 5 nats would hide the gain. At
#: 20 the mean over the bound is largest on posts.
NATS = 20.0
#: A unit with more predictions is brought to this number.
MOST = 60.0
#: Another candidate has to be better than the usual one by this many standard deviations of the noise.
_CLEAR = 2.0
#: Standard deviations to either side that hold 90 % of a normal distribution.
_NINETY = 1.6449
#: The least released number of predictions: more than the 1 that is known.
_BARELY = 1.0 + 1e-9
#: Margin for rounding, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9


class FoundGain(NamedTuple):
    """The share of perplexity that a model saves, with its interval.

    The gain is measured against a released prediction that knows nothing of the unit. The 90 % interval is about the
    noise and, for a finished model, about the units that the data hold by chance. A number below -1 is given as -1.
    """

    gain: float
    low: float
    high: float


class GainScore(ABC):
    """Contributions of units to a score of J candidates.

    A contribution has 2 J + 2 entries, all at least 0. The first are the nats won, one for each candidate, and then the
    nats lost. The last are the number of predictions and, for a finished model, the square of the nats.
    """

    #: Candidates that are compared.
    n_candidates: int = 1
    #: The bound of a unit's nats, and the predictions that it is brought to; 1 predicts one thing of each unit.
    nats: float = NATS
    most: float = MOST
    #: The bound of each of the last two entries, over the bound of nats.
    rest: float = 1.0

    @property
    def cells(self) -> int:
        """Number of entries of a contribution."""
        return 2 * self.n_candidates + 2

    @abstractmethod
    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        """Compute (n_units, cells) contributions with an L2 norm of at most ``clip``.

        A unit that is not ``asked`` has a row of zeros. A row is a function of the unit's own records and random word,
        and of released parameters.
        """

    def clip_rows(self, nats: np.ndarray, predicted: np.ndarray, more: np.ndarray | None, clip: float) -> np.ndarray:
        """Bound contributions, (n, cells), to an L2 norm of at most ``clip``.

        ``nats`` are (n, J); ``predicted``, (n,), are shares of ``most``. ``more``, (n,), is at most 1; None takes the
        largest square of the nats. Rows with an invalid number are 0. Let r = ``rest``. An entry of nats is at most the
        clip over the root of J + 2 r^2, and one of a candidate's two entries is 0. The last two are at most r times
        that. So the norm is at most the clip.
        """
        count, most = self.n_candidates, self.nats
        nats = np.clip(nats, -most, most)
        out = np.empty((len(nats), self.cells))
        out[:, :count], out[:, count:-2] = np.maximum(nats, 0.0), np.maximum(-nats, 0.0)
        out[:, -2] = most * self.rest * predicted
        out[:, -1] = most * self.rest * (np.max((nats / most) ** 2, axis=1) if more is None else more)
        out *= clip * (_BELOW / (most * (count + 2 * self.rest**2) ** 0.5))
        out[~np.isfinite(out).all(axis=1)] = 0.0
        return out


@dataclass(frozen=True)
class Score:
    """A released score.

    ``nats`` are the mean nats that a unit gains, for each candidate, (J,), and ``sd`` is the noise in each of them.
    ``predicted`` is the mean number of predictions of a unit. ``more`` is the standard deviation of the nats by the
    choice of units. For a model that is not finished it is the last entry, as a share.
    """

    nats: np.ndarray
    sd: float
    predicted: float
    more: float

    @classmethod
    def read(
        cls,
        values: np.ndarray,
        noise_sd: float,
        clip: float,
        units: float | None = None,
        score: type[GainScore] | GainScore = GainScore,
    ) -> Self:
        """Read a score from the noised mean of contributions, (2J + 2,).

        A finished model's score has the expected number of ``units`` that were asked. ``score`` made them.
        """
        number, most, rest = (len(values) - 2) // 2, score.nats, score.rest
        factor = most * (number + 2 * rest**2) ** 0.5 / (clip * _BELOW)
        nats = np.asarray(values) * factor
        predicted, more = nats[-2] * score.most / (most * rest), nats[-1] / (most * rest)
        nats = nats[:number] - nats[number : 2 * number]
        if units is not None:
            more = (max(more * most**2 - float(nats.max()) ** 2, 0.0) / units) ** 0.5
        predicted = 1.0 if score.most == 1 else max(float(predicted), _BARELY)
        return cls(nats, noise_sd * factor * 2**0.5, predicted, float(more))

    @classmethod
    def restore(cls, state: np.ndarray) -> Self:
        """Restore a score from its `state`."""
        return cls(state[:-3], *state[-3:].tolist())

    def state(self) -> np.ndarray:
        """Give the score as an array, (J + 3,)."""
        return np.array([*self.nats, self.sd, self.predicted, self.more])

    def best(self, usual: int) -> int:
        """Choose a candidate.

        It is the usual one, unless that gains nothing or another is clearly better.
        """
        best = int(np.argmax(self.nats))
        sure = self.nats[best] - self.nats[usual] > _CLEAR * 2**0.5 * self.sd
        return best if sure or self.nats[usual] <= 0 else usual

    def found(self, candidate: int = 0, finished: bool = True) -> FoundGain:
        """Compute the share of perplexity that a candidate saves."""
        nats, predicted = float(self.nats[candidate]), self.predicted
        spread = self.sd**2 + (self.more**2 if finished else 0.0)
        # One prediction is known, not released.
        noise = 0.0 if predicted == 1.0 else (self.sd * MOST / NATS) ** 2 / 2.0
        ends = _ratio_ends(nats, predicted, spread, noise)
        rates = np.clip(np.array([nats / predicted, *ends]), -NATS, NATS)
        return FoundGain(*np.maximum(1.0 - np.exp(-rates), -1.0).tolist())


def _ratio_ends(top: float, bottom: float, top_variance: float, bottom_variance: float) -> tuple[float, float]:
    """Compute Fieller's 90 % interval of a ratio of two means.

    The means have independent normal errors. It has the rates r with (top - r bottom)^2 <= z^2 (var + r^2 var'). That
    holds for the true one with probability 0.9, however large the errors are. If the bottom may be 0, an end is
    infinite (Fieller 1954).
    """
    z = _NINETY**2
    a, b, c = bottom**2 - z * bottom_variance, top * bottom, top**2 - z * top_variance
    root = max(b * b - a * c, 0.0) ** 0.5
    if a > 0.0:
        return (b - root) / a, (b + root) / a
    if c <= 0.0 or a == 0.0:
        return -np.inf, np.inf
    return ((b - root) / a, np.inf) if top > 0.0 else (-np.inf, (b + root) / a)
