"""Score a model by predicting a unit's part from the rest.

The score is in nats, over a prediction that knows nothing of the unit, such as word frequencies. Statistics that were
made with a model look like this model, so they cannot judge it. A likelihood can. The last step of a run releases the
score of its model (`MeasuredModel`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ..accounting import Relation
from ..mechanisms import GaussianMechanism
from .model import BELOW, Model, Release, array_of, diagnose
from .sampling import Sampler
from .units import scramble, unpack_block

#: The bound of a unit's nats. Most units lose a little and some gain much, so a bound of 5 nats would hide the gain. At
#: 20 the mean over the bound is largest on posts.
NATS = 20.0
#: A unit with more predictions is brought to this number.
MOST = 60.0
#: Another candidate has to be better than the usual one by this many standard deviations of the noise, and by this many
#: nats a prediction: 1 % of perplexity.
_CLEAR, _WORTH = 2.0, 0.01
#: Standard deviations to either side that hold 90 % of a normal distribution.
NINETY = 1.6449
#: Numbers of a score have squares.
_LARGEST = 1e100
#: The least number of predictions, where noise leaves less.
_LEAST = 1.0

#: Units that a score asks, about. More would take time, and the noise of these is small.
JUDGES = 20_000
#: Standard deviations of its noise by which a released number of records differs from the stated one if it does.
OTHERWISE = 3.0
#: Fewest steps of a run whose last one is a score, unless its settings ask for one.
MEASURED = 10


class FoundGain(NamedTuple):
    """The share of perplexity that a model saves, with its interval.

    The gain is measured against a released prediction that knows nothing of the unit. The 90 % interval is about the
    noise and about the units that the data hold by chance. A number below -1 is given as -1.
    """

    gain: float
    low: float
    high: float


class GainScore(ABC):
    """Contributions of units to a score of J candidates, the usual one first.

    A contribution has J + 2 entries: the nats of the usual candidate, the nats that each other one has more, the number
    of predictions, and the square of the nats. The last two are at least 0. So are ``n_shares`` further ones: what else
    the step counts, as shares of units.
    """

    #: Candidates that are compared.
    n_candidates: int = 1
    #: The bound of a unit's nats, and the predictions that it is brought to; 1 predicts one thing of each unit.
    nats: float = NATS
    most: float = MOST
    #: The bounds of a difference and of each of the last two entries, over the bound of nats.
    reach: float = 1.0
    rest: float = 0.5
    #: Further entries, the bound of the norm of a row of them, and the weight of one over the bound of nats.
    n_shares: int = 0
    shares_norm: float = 1.0
    shares: float = 1 / 3
    #: Whether neighbors replace a unit; else one has a unit more.
    replaces: bool = False
    #: What is taken off the nats of each unit, since the fit had it, and the standard deviation of the error in that.
    optimism: float = 0.0
    unsure: float = 0.0

    @property
    def cells(self) -> int:
        """Number of entries of a contribution."""
        return self.n_candidates + 2 + self.n_shares

    @property
    def norm(self) -> float:
        """The bound of a contribution whose nats are at most 1; see `clip_rows`."""
        signed = 1.0 + (self.n_candidates - 1) * self.reach**2
        shares = self.shares * self.shares_norm if self.n_shares else 0.0
        return float(((2.0 if self.replaces else 1.0) * signed + 2.0 * self.rest**2 + shares**2) ** 0.5)

    @abstractmethod
    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        """Compute (n_units, cells) contributions; `clip_rows` bounds them.

        A unit that is not ``asked`` has a row of zeros. A row is a function of the unit's own records and random word,
        and of released parameters.
        """

    def clip_rows(
        self, nats: np.ndarray, predicted: np.ndarray, clip: float, shares: np.ndarray | None = None
    ) -> np.ndarray:
        """Bound contributions, (n, cells).

        ``nats`` are (n, J); ``predicted``, (n,), are shares of ``most``. Rows with an invalid number are 0. ``shares``,
        (n, n_shares), are at least 0, and a row of them has a norm of at most ``shares_norm``.

        Notes
        -----
        *Sensitivity.* Let A be the largest norm of the first J entries, which have a sign, and D that of the others,
        which are at least 0. In units of ``nats``, A^2 = 1 + (J - 1) reach^2 and D^2 = 2 rest^2, with shares more by
        the square of theirs. A row is brought to the clip C over `norm` times that. If neighbors differ by one unit
        more, the norm is A^2 + D^2: the sum moves by at most C. If they replace a unit, the sum moves by x - y, with
        ||x - y||^2 <= 4 A^2 + 2 D^2. The norm is 2 A^2 + D^2, and the sum moves by at most sqrt(2) C. Truncation toward
        zero raises neither A nor D.
        """
        most, last = self.nats, self.n_candidates
        nats = np.clip(nats, -most, most)
        out = np.empty((len(nats), self.cells))
        out[:, 0] = nats[:, 0]
        out[:, 1:last] = np.clip(nats[:, 1:] - nats[:, :1], -self.reach * most, self.reach * most)
        out[:, last] = most * self.rest * predicted
        out[:, last + 1] = self.rest / most * nats[:, 0] ** 2
        out[:, last + 2 :] = 0.0 if shares is None else most * self.shares * shares
        out *= clip * BELOW / (most * self.norm)
        out[~np.isfinite(out).all(axis=1)] = 0.0
        return out


class RowScore(GainScore):
    """A score of units of rows: their nats add up, and are brought to ``most`` predictions."""

    @abstractmethod
    def predict(self, records: Any, words: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the nats and the number of predictions of some of the rows of a block, (kept,) each.

        They are functions of the row and of its random word. A row whose nats are not finite says nothing.
        """

    def unit_shares(self, records: Any, unit: np.ndarray, kept: np.ndarray, n_units: int) -> np.ndarray | None:
        """Compute the units' further entries, (n_units, n_shares)."""
        return None

    def rows(self, block: Any, words: np.ndarray, asked: np.ndarray, clip: float) -> np.ndarray:
        records, row_words, starts = unpack_block(block, words)
        n_units = len(words)
        unit = np.arange(n_units) if starts is None else np.repeat(np.arange(n_units), np.diff(starts))
        kept = np.flatnonzero(asked[unit])
        with np.errstate(all="ignore"):
            nats, predicted = self.predict(records, row_words, kept)
        valid = np.isfinite(nats)
        total, sums = (
            np.bincount(unit[kept], weights=np.where(valid, each, 0.0), minlength=n_units) for each in (predicted, nats)
        )
        nats = sums * np.minimum(1.0, self.most / np.maximum(total, 1.0)) - np.where(total > 0, self.optimism, 0.0)
        shares = self.unit_shares(records, unit, kept, n_units)
        return self.clip_rows(nats[:, None], np.minimum(total, self.most) / self.most, clip, shares)


def ask(words: np.ndarray, share: float) -> np.ndarray:
    """Choose a share of units by their words, bool; apart from what scores choose by ``words`` + k `GOLDEN`."""
    return np.asarray(scramble(~words) >> np.uint64(11) < np.uint64(share * 2**53))


@dataclass(frozen=True)
class Score:
    """A released score.

    ``nats`` are the mean nats that a unit gains, for each candidate, (J,). ``sd`` is the noise in the first, and in the
    difference of each other to it. ``predicted`` is the mean number of predictions of a unit, and ``predicted_sd`` the
    noise in it. ``more`` is the standard deviation of the nats by the choice of units and by what was taken off.
    ``shares`` are what else was counted, with noise of ``shares_sd`` in each.
    """

    nats: np.ndarray
    sd: float
    predicted: float
    predicted_sd: float
    more: float
    shares: np.ndarray | None = None
    shares_sd: float = 0.0

    @classmethod
    def read(cls, values: np.ndarray, noise_sd: float, clip: float, units: float, score: GainScore) -> Self:
        """Read a score from the noised mean of contributions, (`GainScore.cells`,).

        ``units`` is the number of units that were expected to be asked; ``score`` made the contributions.
        """
        factor = score.nats * score.norm / (clip * BELOW)
        nats, last = np.asarray(values) * factor, len(values) - score.n_shares - 2
        predicted, square = (nats[last : last + 2] / (score.nats * score.rest)).tolist()
        shares = nats[last + 2 :] / (score.nats * score.shares) if score.n_shares else None
        nats, sd = np.concatenate([nats[:1], nats[0] + nats[1:last]]), noise_sd * factor
        noise, shares_sd, held = sd * score.most / (score.nats * score.rest), sd / (score.nats * score.shares), 1.0
        if score.most == 1:
            # As many units as are stated, unless the release shows that more or fewer have a record.
            known = abs(predicted - 1.0) <= OTHERWISE * noise
            held, noise = (1.0, 0.0) if known else (max(predicted, noise), noise)
            nats, predicted = nats - score.optimism * (1.0 - held), held
            shares, shares_sd = None if shares is None else shares / held, shares_sd / held
        more = (
            max(square * score.nats**2 - float(nats[0]) ** 2 / held, 0.0) / units + (held * score.unsure) ** 2
        ) ** 0.5
        return cls(nats, sd, predicted * score.most, noise, more, shares, shares_sd)

    @classmethod
    def restore(cls, state: np.ndarray, shares: np.ndarray | None = None) -> Self:
        """Restore a score from its `state`, and its shares from `shares_state`."""
        return cls(state[:-4], *state[-4:].tolist(), *(() if shares is None else (shares[:-1], float(shares[-1]))))

    def state(self) -> np.ndarray:
        """Give the score as an array, (J + 4,)."""
        return np.array([*self.nats, self.sd, self.predicted, self.predicted_sd, self.more])

    def shares_state(self) -> dict[str, np.ndarray]:
        """Give the shares and their noise as an array, (`GainScore.n_shares` + 1,), if there are any."""
        return {} if self.shares is None else {"shares": np.append(self.shares, self.shares_sd)}

    def best(self) -> int:
        """Choose a candidate: the usual one, unless that gains nothing or another is clearly better."""
        best = int(np.argmax(self.nats))
        sure = self.nats[best] - self.nats[0] > max(_CLEAR * self.sd, _WORTH * self.predicted)
        return best if sure or self.nats[0] <= 0 else 0

    def noise(self, candidate: int) -> float:
        """Standard deviation that the noise leaves in a candidate's nats."""
        return self.sd * (2**0.5 if candidate else 1.0)

    def found(self, candidate: int = 0) -> FoundGain:
        """Compute the share of perplexity that a candidate saves."""
        nats, predicted = float(self.nats[candidate]), max(self.predicted, min(_LEAST, self.predicted_sd))
        spread = self.noise(candidate) ** 2 + self.more**2
        ends = _ratio_ends(nats, predicted, spread, self.predicted_sd**2)
        rates = np.clip(np.array([nats / predicted, *ends]), -NATS, NATS)
        return FoundGain(*np.maximum(1.0 - np.exp(-rates), -1.0).tolist())


def _ratio_ends(top: float, bottom: float, top_variance: float, bottom_variance: float) -> tuple[float, float]:
    """Compute Fieller's 90 % interval of a ratio of two means.

    The means have independent normal errors. It has the rates r with (top - r bottom)^2 <= z^2 (var + r^2 var'). That
    holds for the true one with probability 0.9, however large the errors are (Fieller 1954). If the bottom may be 0,
    one end is infinite at least; then nothing is told, since noise alone has a sign.
    """
    z = NINETY**2
    a, b, c = bottom**2 - z * bottom_variance, top * bottom, top**2 - z * top_variance
    root = max(b * b - a * c, 0.0) ** 0.5
    return ((b - root) / a, (b + root) / a) if a > 0.0 else (-np.inf, np.inf)


class MeasuredModel(Model):
    """A model whose run ends with a score of it.

    Notes
    -----
    *Sensitivity.* All steps but the last are the model's, whose proof holds. In the last step adding or removing a unit
    moves the sum by at most a bound B, and replacing one by at most sqrt(2) B, whatever the unit holds
    (`GainScore.clip_rows`). B is at most the mechanism's sensitivity, divided by sqrt(2) for replacing, so the noise of
    every step covers the score. The model that is scored is a function of earlier releases. The unit's own random word
    decides whether it is asked, and which part of it is predicted. So the last step has the event of all others. The
    plan, the ledger, a budget and a transcript treat it like them. The same holds for each of `Model.n_scores`.

    *Cost.* The run has one step less for the model itself: at 20 steps its noise is 2.6 % larger.
    """

    at_root = ("model", "measured")
    #: The score of the last step, while it is asked.
    score: GainScore | None
    measured: Score | None

    def __init__(self, model: Model, n_steps: int, n_records: int):
        # A run of two steps has one for the model.
        self.model, self._n_steps, self._first = model, n_steps, max(n_steps - model.n_scores, 1)
        self.clip, self.capacity = model.clip, model.capacity
        self._bound, self._units, self._spacing, self._replaces = model.clip, float(n_records), 1.0, False
        self._share = min(1.0, JUDGES / n_records)
        self._done, self.measured = 0, None
        self._begin()

    def _begin(self) -> None:
        """Prepare the next step."""
        self.score = None
        if self._first <= self._done < self._n_steps:
            self.score = self.model.gain_score()
            assert self.score is not None, "only models that have a score are measured"
            self.score.replaces = self._replaces
        self.shape = self.model.shape if self.score is None else (self.score.cells,)

    def contributor(self) -> Self:
        other = super().contributor()
        if self.score is None:
            other.model = self.model.contributor()
        return other

    @property
    def fine_shape(self) -> tuple[int, ...]:
        return self.model.fine_shape if self.score is None else self.shape

    def sensitivity(self, relation: Relation) -> float:
        return self.model.sensitivity(relation)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take lattice, bound of the score and size of a minibatch."""
        self.model.prepare(mechanism, sampler)
        self._replaces = sampler.relation != Relation.ADD_REMOVE
        bound = mechanism.sensitivity / (2**0.5 if self._replaces else 1.0)
        self._bound, self._spacing = min(self.clip, bound), mechanism.spacing
        self._units = float(sampler.expected_batch_size)
        self._begin()

    def asked(self, words: np.ndarray) -> np.ndarray | None:
        return None if self.score is None or self._share == 1 else ask(words, self._share)

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add the model's contributions, or those to its score; see the notes."""
        if self.score is None:
            self.model.contribute(block, words, out, scratch)
        else:
            rows = self.score.rows(block, words, ask(words, self._share), self._bound)
            # Truncated toward zero on the noise's lattice.
            out.reshape(-1)[: self.score.cells] += np.trunc(rows / self._spacing).astype(np.int64).sum(axis=0)
            diagnose(scratch, clipped=0, norm_sum=0)

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Round as the model does; a score is on the lattice already."""
        return self.model.round(fine, spacing) if self.score is None else super().round(fine, spacing)

    def update(self, release: Release) -> None:
        """Update the model, or read the score."""
        if self.score is None:
            self.model.update(release)
        else:
            values = release.units.reshape(-1)[: self.score.cells] * (release.scale / self._share)
            noise_sd, units = release.noise_sd / self._share, self._units * self._share
            self.measured = Score.read(values, noise_sd, self._bound, units, self.score)
            if self._done == self._first:
                self.model.judged(self.measured)
        self._done += 1
        self._begin()

    def end(self) -> None:
        self.model.end()

    def state(self) -> dict[str, np.ndarray]:
        """Give the model's state, the steps done and the score."""
        more = {"measured_steps": np.array([float(self._done)])}
        if self.measured is not None:
            more |= {"score": self.measured.state(), **self.measured.shares_state()}
        return {**self.model.state(), **more}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        (done,) = array_of(state, "measured_steps", (1,)).tolist()
        if done != int(done) or not 0 <= done < 2**31:
            raise ValueError("state: 'measured_steps' is expected to be a whole number")
        self.model.restore(state)
        self._done = int(done)
        self.measured = released_score(self.model, state) if done > self._first else None
        self._begin()

    def result(self) -> dict[str, np.ndarray]:
        return self.model.result()


def released_score(model: Model, state: Mapping[str, np.ndarray]) -> Score:
    """Restore the score of a restored model from the state of its run; ValueError if that holds none of this model."""
    asked = model.gain_score() if model.has_score else None
    if asked is None:
        raise ValueError("state: has a score, which this model has not")
    numbers = array_of(state, "score", (asked.n_candidates + 4,))
    shares = array_of(state, "shares", (asked.n_shares + 1,)) if asked.n_shares else None
    score = Score.restore(numbers, shares)
    least = min(score.sd, score.predicted_sd, score.more, score.shares_sd)
    if least < 0 or max(score.predicted, score.predicted_sd) <= 0 or np.abs(numbers).max() > _LARGEST:
        raise ValueError("state: 'score' is out of its range")
    return score


def measured_gain(state: Mapping[str, np.ndarray]) -> FoundGain | None:
    """Read the found gain of a state's best candidate. Returns None if no step measured it."""
    if "score" not in state:
        return None
    score = Score.restore(array_of(state, "score"))
    return score.found(score.best())
