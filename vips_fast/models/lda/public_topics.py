"""Public topics, told by a few releases what the records are about.

A language's topics are public (`vips_fast.models.lda.prior`). The records say three things about them, in this order:

1. *Lengths* (one step). A histogram of units' counted words, of eleven cells. It sets the clip of the next steps and
   the scale of the last, and shows how many units have a counted word at all. A twelfth cell has the share of a unit's
   words that the vocabulary has no column for.
2. *Words*. A histogram of words, averaged over the steps. It is read by the mixture of public topics that fits it, and
   one distribution of the words' ratios to it (`read_words`). Public topics times these ratios are the topics.
3. *Score* (one to four steps in twenty). Half of a unit's words predict the other half, with each of a few Dirichlet
   priors of the topic proportions (`HalfPrediction`). Beside it stands how much better the records' own exact word
   frequencies predict than the released ones (`frequency_gain`). Both together are the verdict. If the lengths show
   that the noise would hide it, one step only compares the priors, or none if that would not tell either. Words have
   the other steps.

With very many units, or few words in use (`_OWN_SIGNAL`), most steps of words become steps of topics of the records'
own, fitted by `vips_fast.models.lda.model.LdaModel`; the public topics stay beside them.

All read-outs are post-processing of releases. docs/panel.md has what each part wins.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import scipy

from ...engine.gain import JUDGES, NINETY, FoundGain, Score, ask
from ...engine.model import Model, Release, array_of, diagnose
from ...engine.plan import RunForecast
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import GOLDEN, UnitBlock, scramble
from ...kernels.lattice import LDA_MAX_SPACING, LDA_MIN_SPACING, checked_spacing
from ...kernels.threads import one_blas_thread
from ...mechanisms import GaussianMechanism
from ..several import clear_deviations
from ..verdict import Verdict
from .model import LdaModel, LdaSettings, WordHistogram
from .planning import DIFFERENT, soft_steps
from .prior import PublicPrior, word_probabilities
from .records import DocumentBlock, UnitWords, unit_words, words_outside
from .score import COMPARED, HalfPrediction, proportions_prior

#: Kinds of steps.
LENGTHS, WORDS, TOPICS, SCORE = range(4)
#: Least counted words of each cell of the lengths. A unit without any is in none: it contributes nothing to any step.
LENGTH_CELLS = np.array([1, 2, 4, 7, 12, 20, 35, 60, 105, 180, 315])
#: Part of a unit's squared norm in that step for the share of its words that are not counted.
_OUTSIDE = 0.15
#: A unit of usual length times this has the norm of the clip.
_FILLS = 0.8
#: The power of a unit's counts in the histogram, and of public word frequencies in its scales: words come in bursts.
_POWER, _SCALE = 0.5, 0.25
#: The ridge of topic weights: their relative standard deviation, times the root of the number of topics; and rounds.
_RIDGE, _SWEEPS = 1.0, 200
#: Totals of the Dirichlet prior of proportions that the score compares: the middle one, taken without a score, and as
#: many times less and more. The peak between them is taken (docs/panel.md).
TOTALS = (6.0, 1.5, 24.0)
#: Parts of a unit's squared norm in a score: predictions, the exact frequencies' gain, the number of words for it.
_PARTS = (0.35, 0.6, 0.05)
#: The bound of the number of predictions and of the squares, over that of nats, if a gain is told, which is over it.
_REST = 0.4
#: Most nats that one more occurrence of a word may say for exact frequencies, or against them; occurrences that each
#: word has before the records.
_MOST, _BEFORE = 4.0, 0.2
#: Integer units of a nat.
_NAT = 2**20
#: Words of a unit over the noise of a used word, summed over units, and counted words of a usual unit, from which
#: topics of the records' own win (docs/panel.md): shorter texts say little about which words go together.
_OWN_SIGNAL, _OWN_LENGTH = 7.0, 12.0
#: Of topics of the records' own the first step, after lengths and four of words; the share of public topics beside
#: them; their `TOTALS`, and the fewest.
_FIRST_OWN, _BESIDE, _OWN_TOTALS, _FEWEST = 5, 0.1, (3.0, 1.0, 9.0), 10
#: Spread of the estimate of a gain beside noise and chance, in nats a word: texts differ from what the score assumes
#: (docs/panel.md).
_MISS = 0.03
#: Noise in nats a word that a score of few steps may have; from which on a score would say nothing, and words have its
#: steps; up to which a score that only compares tells the best prior of proportions; and that says nothing of a gain.
_TELLS, _HIDES, _TELLS_TOTAL, _NOTHING = 0.025, 0.15, 0.03, 50.0
#: How far a mean number of words is known from exact lengths: 7 % are the usual miss on the panel.
_BY_LENGTHS = 0.1
#: The least mean number of words, over the expected one: whatever is divided by a mean at this bound is not known.
_FEW = 0.1
#: A cell of the lengths that is this many standard deviations above 0 shows that the noise does not hide them.
_SHOWN = 3.0
#: Nats a word from the best mixture of public topics, from which on the words are hardly of its language.
_UNLIKE = 0.8
#: Sets the choice of kept words apart from the choice of units that a score asks.
_KEPT = np.array([2], np.uint64) * GOLDEN
#: Slopes of `frequency_gain` are computed so many at a time: a slope's bits do not depend on how many there are.
_SLOPES = 4096


# ------------------------------------------------------------------ reading a histogram of words

_LOG = np.linspace(-4.0, 7.0, 61)
_RATIOS = np.exp(_LOG)
#: The ratios before the records: log-normal with mean 1; it counts as many words as this in the fit.
_SPREAD, _COUNTS_AS, _ROUNDS = 0.8, 30.0, 60


class WordsRead(NamedTuple):
    """A noised histogram of words, read with public topics.

    ``topics``, (K, V), with ``weights``, (K,), are public topics times the ratios of the words; ``masses``, (V,), are
    words' shares, with the deviation ``spread`` of their logarithms. ``mixture``, (V,), are the public topics that fit
    the histogram, and ``total`` is its sum.
    """

    topics: np.ndarray
    weights: np.ndarray
    masses: np.ndarray
    spread: np.ndarray
    mixture: np.ndarray
    total: float

    @property
    def used_words(self) -> float:
        """As many words of equal shares have the perplexity of the masses."""
        return math.exp(-float((self.masses * np.log(self.masses)).sum()))


def read_words(x: np.ndarray, sd: np.ndarray, topics: np.ndarray, weights: np.ndarray) -> WordsRead:
    """Read a noised histogram ``x`` with noise ``sd``, (V,) each, by public ``topics``, (K, V), and ``weights``.

    The histogram is N(c g_v s_v, sd_v²), where g is the best mixture of the topics and c its total (`topic_weights`).
    The ratios s_v have one distribution, on a grid of logarithms, fitted by EM to all words. It starts as a log-normal
    distribution of mean 1, which counts as `_COUNTS_AS` words. A word's mass is c g_v times its posterior mean. Where
    noise hides words, their ratios are 1.
    """
    with one_blas_thread(0, scipy=False):  # bits do not depend on how many threads a BLAS takes
        mix, total = topic_weights(x, sd, topics, weights)
        mixture = mix @ topics
        base = total * mixture
        start = np.exp(-0.5 * ((_LOG + _SPREAD**2 / 2) / _SPREAD) ** 2)
        start /= start.sum()
        likely = base[:, None] * _RATIOS  # in one array: new memory takes longer than the numbers
        np.subtract(x[:, None], likely, out=likely)
        likely /= sd[:, None]
        likely *= likely
        likely *= -0.5
        likely -= likely.max(axis=1, keepdims=True)
        np.exp(likely, out=likely)
        prior = start
        for _ in range(_ROUNDS):
            counts = prior * ((1.0 / (likely @ prior)) @ likely)
            prior = (counts + _COUNTS_AS * start) / (len(x) + _COUNTS_AS)
        likely *= prior
        mass = likely.sum(axis=1)
        first, second = likely @ _RATIOS / mass, likely @ _RATIOS**2 / mass
        masses = mixture * first
        fitted = topics * first
        rows = fitted.sum(axis=1)
        shares = mix * rows
        return WordsRead(
            fitted / rows[:, None],
            shares / shares.sum(),
            masses / masses.sum(),
            np.sqrt(np.log(np.maximum(second / first**2, 1.0))),
            mixture,
            total,
        )


def topic_weights(x: np.ndarray, sd: np.ndarray, topics: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Estimate topic weights, (K,), which sum to 1, of a noised histogram, and its total c > 0; see `read_words`."""
    total = max(float(x.sum()), float(np.sqrt((sd * sd).sum())))
    scaled = topics / sd
    ridge = 1.0 / (_RIDGE**2 * weights / len(weights) * total**2)
    gram = scaled @ scaled.T
    gram[np.diag_indices_from(gram)] += ridge
    aim = scaled @ (x / sd) + ridge * total * weights
    found, inverse = total * weights, 1.0 / np.diag(gram)
    slope = gram @ found - aim
    for _ in range(_SWEEPS):
        largest = 0.0
        for k in range(len(found)):
            moved = max(found[k] - slope[k] * inverse[k], 0.0) - found[k]
            if moved:
                found[k] += moved
                slope += moved * gram[k]
                largest = max(largest, abs(moved))
        if largest <= 1e-6 * total:
            break
    # No topic of weight 0: it could not come back.
    found = np.maximum(found, 1e-3 * max(float(found.sum()), 1e-3 * total) * weights)
    return found / found.sum(), float(found.sum())


def histogram_scales(frequencies: np.ndarray) -> np.ndarray:
    """Compute d, (V,), in (0, 1], from public word frequencies."""
    return np.asarray((frequencies / frequencies.max()) ** _SCALE)


class Chosen(NamedTuple):
    """A score's choice: whether topics are the records' ``own``, their prior's ``total``; nats of a unit, and noise."""

    own: bool
    total: float
    nats: float
    noise: float


def peak(below: float, middle: float, above: float, noise: float) -> float:
    """Tell where in [−1, 1] the parabola through three noised values at −1, 0 and 1 has its peak.

    ``noise`` is the standard deviation of each difference to the middle. The bend counts for twice that more, so that
    noise alone does not put the peak at an end (docs/panel.md).
    """
    slope, bend = (above - below) / 2.0, below + above - 2.0 * middle - 2.0 * noise
    return float(min(max(-slope / bend, -1.0), 1.0)) if bend < 0.0 else math.copysign(1.0, slope)


# ------------------------------------------------------------------ the gain of exact word frequencies


def frequency_gain(counts: np.ndarray, expected: np.ndarray) -> int:
    """How much better exact word frequencies predict the records than expected ones, in units of 1/`_NAT` nats.

    ``counts``, (V,) int64, say how many units have each word; ``expected``, (V,) float64, how many should. It is the
    sum over words v and over t < counts_v of the ratio (b = `_BEFORE`)

        h_v(t) = clip( (t+1) log(t + b) − t log(t − 1 + b) − log expected_v − 1 )   in [−`_MOST`, `_MOST`].

    Without the clip the sum over t < c is c log(c − 1 + b) − c log expected_v − c: each of the c units predicts the
    word by the c − 1 others and the b occurrences before them. So nobody is predicted by her own words. By the 1 that
    is taken off, a word as frequent as expected has ratios of about 0, and it hardly matters how many words there are.

    Notes
    -----
    *Sensitivity.* Each h is an integer in [−`_MOST`, `_MOST`] times `_NAT`. So one more unit, which has at most M
    words, changes the sum by at most M `_MOST`, and replacing a unit changes it by at most 2 M `_MOST`.
    """
    t = np.arange(-(-int(counts.max(initial=0)) // _SLOPES) * _SLOPES, dtype=np.float64)
    slopes = (t + 1) * np.log(t + _BEFORE) - t * np.log(np.maximum(t - 1 + _BEFORE, _BEFORE))
    # Ascending, so that the clip cuts off a first and a last part of them.
    steps = np.maximum.accumulate(np.rint(slopes * _NAT).astype(np.int64))
    sums = np.concatenate(([0], np.cumsum(steps)))
    center = np.rint((np.log(expected) + 1.0) * _NAT).astype(np.int64)
    most = int(_MOST * _NAT)
    first = np.minimum(np.searchsorted(steps, center - most), counts)
    last = np.maximum(np.minimum(np.searchsorted(steps, center + most), counts), first)
    inside = sums[last] - sums[first] - (last - first) * center
    return sum(((counts - last - first) * most + inside).tolist())


def clipped_off(expected: np.ndarray) -> float:
    """Nats that the clip of `frequency_gain` takes off if all words, (V,), are as frequent as ``expected``.

    Added to a gain, the clip changes it only where a word is about e^`_MOST` times as frequent as expected, or as rare.
    """
    usual = np.minimum(expected, JUDGES).astype(np.int64)  # no unit has a word twice
    nats = np.log(np.maximum(usual - 1, 0) + _BEFORE) - np.log(expected) - 1.0
    return float(usual @ nats) - frequency_gain(usual, expected) / _NAT


def expected_log(shares: np.ndarray, words: float) -> float:
    """Compute the mean log-probability of a word by frequencies that are counted from so many other ``words``.

    The true ``shares`` are (V,). Counts are Poisson, and each word has `_BEFORE` occurrences before them.
    """
    t, rates = np.arange(400.0), np.geomspace(1e-6, 200.0, 400)
    chances = np.exp(t * np.log(rates[:, None]) - rates[:, None] - scipy.special.gammaln(t + 1.0))
    logs = np.interp(np.log(words * shares), np.log(rates), chances @ np.log(t + _BEFORE))
    logs = np.where(words * shares > rates[-1], np.log(words * shares), logs)
    return float(shares @ logs) - math.log(words + _BEFORE * len(shares))


def kept_words(units: UnitWords, words: np.ndarray, most: int) -> np.ndarray:
    """Tell which entries of units are kept, at most ``most`` of each, bool.

    A unit keeps a run of its words, round the end, from a place that its random word chooses: each word is as likely.
    """
    lengths = np.diff(units.ends)
    unit = np.repeat(np.arange(len(lengths)), lengths)
    start = (scramble(words + _KEPT) % np.maximum(lengths, 1).astype(np.uint64)).astype(np.int64)
    place = np.arange(len(unit)) - units.ends[unit]
    return np.asarray((place - start[unit]) % np.maximum(lengths, 1)[unit] < most)


# ------------------------------------------------------------------ the lengths


class Lengths:
    """What the first release says of units' lengths. Before it, and where noise hides it, they are as ``stated``.

    ``cells``, (11,), are the units in each cell, with ``noise`` in each, and ``outside`` is the mean share of a unit's
    words that are not counted. ``median`` are the counted words of the median unit that has any. ``kept`` are the most
    words of a unit that count for the gain of exact frequencies, ``mean_kept`` those that it is expected to keep, each
    once, and how far that is known, and ``all_over_kept`` its different words over these. ``halves`` are the most words
    of a half that count in a score, and the bound of its nats. ``mean_predicted`` are the words of a unit that are
    expected to be predicted, none if a half is empty, and how far that is known.
    """

    def __init__(
        self, n_records: int, stated: float, cells: np.ndarray | None = None, noise: float = 0.0, outside: float = 0.0
    ) -> None:
        self._n_records, self.noise, self.outside = n_records, noise, outside
        self.cells = cells = np.zeros(len(LENGTH_CELLS)) if cells is None else cells
        if cells.max() > _SHOWN * noise:
            counts = np.maximum(cells, 0.0)
            below = np.concatenate(([0.0], np.cumsum(counts / counts.max())))
            edges = np.log(np.append(LENGTH_CELLS, 2 * LENGTH_CELLS[-1]))
            self.median, long = np.exp(np.interp([0.5, 0.9], below / below[-1], edges)).tolist()
            words = np.append((LENGTH_CELLS[:-1] + LENGTH_CELLS[1:] - 1) / 2.0, 1.5 * LENGTH_CELLS[-1])
            shares = counts / max(n_records, cells.max())
            self._shares = shares / max(shares.sum(), 1.0)
        else:
            self.median = long = stated
            words, self._shares = np.array([stated]), None
        most = max(long / 2.0, 2.0)
        self.halves = most, min(most, 6.0 * math.sqrt(most))
        self.kept = math.ceil(self.median)
        self.mean_kept = self._mean(np.minimum(words**DIFFERENT, self.kept))
        self.all_over_kept = max(self._mean(words**DIFFERENT)[0] / self.mean_kept[0], 1.0)
        self.mean_predicted = self._mean(np.minimum(words / 2.0, most) * (1.0 - 2.0 ** (1.0 - words)))

    def _mean(self, each: np.ndarray) -> tuple[float, float]:
        """Average a number of ``each`` length, with its standard deviation."""
        if self._shares is None:
            stated = max(float(each[0]), 0.1)
            return stated, stated
        mean, noise = max(float(self._shares @ each), 0.1), self.noise / self._n_records * math.sqrt(each @ each)
        return mean, math.hypot(_BY_LENGTHS * mean, noise)

    def shares(self) -> tuple[tuple[float, float] | None, ...]:
        """Shares of units with no counted word, of a unit's words that are not counted, of units with two that are.

        Each has its noise; None if not released. The second is about 0 if nobody counted such words, as in a matrix of
        no texts.
        """
        if not self.noise:
            return None, None, None
        noise, empty = self.noise / self._n_records, 1.0 - float(self.cells.sum()) / self._n_records
        of_outside = noise * ((1.0 - _OUTSIDE) / _OUTSIDE) ** 0.5
        two = float(self.cells[1:].sum()) / self._n_records, noise * math.sqrt(len(self.cells) - 1)
        return (empty, noise * math.sqrt(len(self.cells))), (self.outside, of_outside), two


# ------------------------------------------------------------------ the forecast


def forecast_words(prior: PublicPrior, n_records: int, noise: float, length: float | None) -> RunForecast:
    """How many words can stand clear of the noise (`vips_fast.models.several`), from public numbers only.

    ``noise`` is the standard deviation of an entry of the histogram over the clip; ``length`` are the counted words of
    a usual unit. Without it three lengths are told, since the records' own is not known before the first release.
    """
    scales, total, clear = histogram_scales(prior.frequencies), len(prior.words), []
    for words in (length,) if length is not None else (10.0, 40.0, 160.0):
        held = np.minimum(1.0, words * prior.frequencies)
        norm = math.sqrt(float(held @ scales**-2.0))
        clear.append(int((n_records * held / scales > clear_deviations(total) * noise * _FILLS * norm).sum()))
    told, stand = [f"{float(f'{number:.2g}'):,.0f}" for number in clear], "can stand clear of the noise"
    if not clear[-1]:
        about = f"no single word of {total:,} {stand}"
    elif length is not None:
        about = f"{told[0]} of {total:,} words {stand} in texts of {length:g} counted words"
    else:
        about = f"of {total:,} words {told[0]}, {told[1]} or {told[2]} {stand} in texts of 10, 40 or 160 counted words"
    return RunForecast(clear[len(clear) // 2] / total, f"forecast: public topics, weighted by the records; {about}")


# ------------------------------------------------------------------ the model


class PublicTopicsModel(Model):
    """Public topics and the three kinds of releases.

    ``settings`` are of the model of own topics. ``usual_length`` are the counted words of a usual unit.

    Notes
    -----
    *Sensitivity.* Let C be the clip. In every kind of step but the score, a unit's contribution has entries ≥ 0 and an
    L2 norm of at most C. So adding or removing a unit moves the sum by at most C, and replacing it by at most √2 C, as
    ‖a − b‖² ≤ ‖a‖² + ‖b‖² for entries ≥ 0. Truncation toward zero raises no norm.

    - Lengths: let N = ⌊C / g⌋ be the clip in lattice units g. The cell of the words outside has at most B =
      ⌊√`_OUTSIDE` N⌋ units, as a share is in [0, 1] (`vips_fast.data.counts.given_outside`), and one other cell has A =
      ⌊√(N² − B²)⌋. So the squares add up to at most N².
    - Words: `WordHistogram` divides by the norm over C, or by more. Its scales and norm are public or released.
    - Own topics: `LdaModel`'s proof holds, in the first V J entries.
    - Score: let p₁ + p₂ + p₃ = 1 be `_PARTS`. The predictions move by at most √p₁ C, and √2 times that for replacing
      (`GainScore.clip_rows`). The number of kept words is at most M, and its entry at most √p₃ C. The third entry is a
      function of counts: with G = `frequency_gain` in integers and A = ⌊√p₂ C / g⌋ − 1 lattice units g it is ⌊A G / D⌋.
      D is the most that G changes: M `_MOST` for adding or removing a unit; √2 M `_MOST` for replacing one, which
      then changes G by at most √2 D. So the entry moves by at most A + 1 units, that is √p₂ C, and for replacing
      by at most √2 A + 1 ≤ √2 (A + 1) units. The squares add up to C², and to 2 C² for replacing. If a score only
      compares, the predictions have p₁ = 1, and there is nothing else.

    *Choices.* The choice among kinds of steps, the clips' scales and the candidates are functions of earlier releases
    and of public numbers. A unit's halves, its kept words and whether it is asked depend on its own random word.
    """

    #: Parts of updates, and what is computed from the releases before.
    at_root = ("_prior", "_settings", "_public", "read_out")

    def __init__(
        self, settings: LdaSettings, public: Public, prior: PublicPrior, total_steps: int, usual_length: float
    ) -> None:
        self.clip, self.n_words, self.n_records = settings.clip, public.n_features, public.n_records
        self.n_topics = prior.n_topics
        self._prior, self._settings, self._public = prior, settings, public
        given = settings.options.doc_topic_prior
        self._totals = TOTALS if given is None else (float(given) * prior.n_topics,)
        self._n_steps, self._given_length = total_steps, float(usual_length)
        self._scales = histogram_scales(prior.frequencies)
        self._mechanism: tuple[GaussianMechanism, Sampler] | None = None
        self._spacing, self._batch, self._adds = 1.0, float(self.n_records), True
        #: Share of units that a score asks.
        self._share = min(1.0, JUDGES / self.n_records)
        self._scored, self._scored_noise, self._scores = np.zeros(0), 0.0, 0
        self._done = 0
        self._own: LdaModel | None = None
        self._take_lengths()
        self._plan_score()
        self._begin()

    def contributor(self) -> Self:
        """Make a copy for another process, without the parts of updates."""
        other = super().contributor()
        other._own = None if self._own is None else self._own.contributor()
        return other

    def sensitivity(self, relation: str) -> float:
        """Return the bound; see the notes."""
        return self.clip * (1.0 if relation == "add_remove" else 2**0.5)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._mechanism, self._adds = (mechanism, sampler), sampler.relation == "add_remove"
        self._spacing = checked_spacing(mechanism.spacing, self.clip, low=LDA_MIN_SPACING, high=LDA_MAX_SPACING)
        self._batch = float(sampler.expected_batch_size)
        if self._own is not None:
            self._own.prepare(mechanism, sampler)
        self._plan_score()
        self._begin()

    # -- the order of steps

    def _plan_score(self) -> None:
        """Choose the steps of the score, when lengths, noise or the topics' own steps have changed."""
        steps, self._compares = self._score_plan()
        self._first_score: float = self._n_steps - steps if steps else math.inf
        self._half = self._score(self._compares)

    def _score_plan(self) -> tuple[int, bool]:
        """Plan the steps of the score, as few as tell the gain, and whether it only compares priors of proportions."""
        if self._n_steps < 3:
            return 0, False
        most = max(1, round(0.2 * self._n_steps))
        noise = self._noise_of_score(self._score(False)) / math.sqrt(most)
        if noise < _HIDES:
            enough = math.ceil(most * (noise / _TELLS) ** 2) or most  # no noise is known before the lengths are
            return min(enough, most), False
        tells = len(self._compared) > 1 and self._noise_of_score(self._score(True)) < _TELLS_TOTAL
        return int(tells), tells

    def _score(self, compares: bool) -> HalfPrediction:
        """Make a score of topics with each total; the records' own have one candidate more, without them."""
        own = self._own is not None
        score = HalfPrediction(len(self._compared) + own, alike=not own, compares=compares)
        score.most, nats = self._lengths.halves
        score.nats = nats * (COMPARED if compares else 1.0)
        if not compares:
            score.rest = _REST
        score.replaces = not self._adds
        return score

    def _noise_of_score(self, score: HalfPrediction) -> float:
        """Deviation that the noise of one step leaves in the nats a word; 0 before lengths are known."""
        lengths = self._lengths
        noise = lengths.noise / self.n_records / self._share
        nats = noise * score.nats * score.norm / lengths.mean_predicted[0]
        if score.compares:
            return nats
        kept = noise * _MOST * lengths.kept / lengths.mean_kept[0]
        return math.hypot(nats / math.sqrt(_PARTS[0]), kept / math.sqrt(_PARTS[1]))

    def _begin(self) -> None:
        """Choose the kind of the next step, and prepare it."""
        if self._done == 0 and self._n_steps >= 5:
            self.kind, size = LENGTHS, len(LENGTH_CELLS) + 1
        elif self._done >= self._first_score:
            self.kind, size = SCORE, self._half.cells + (0 if self._compares else 2)
            read, own = self.read_out, self._own is not None
            if not self._half.candidates:
                self._half.take(*self._candidates(own, self._compared), read.masses)
                if own:
                    self._half.take(*self._candidates(False, self._totals[:1]), read.masses)
        elif self._own is None:
            self.kind, size = WORDS, self.n_words
        else:
            self.kind, size = TOPICS, self.n_words * self._own.n_topics
        self.shape = (size,)

    @property
    def _counts(self) -> bool:
        """Whether the step also counts words, for the gain of their exact frequencies."""
        return self.kind == SCORE and not self._compares

    @property
    def fine_shape(self) -> tuple[int, ...]:
        """The shape; in a score of the gain the numbers of units that have each word, too."""
        return (self.shape[0] + self.n_words,) if self._counts else self.shape

    # -- contributions

    def contribute(
        self, block: DocumentBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add contributions of the kind of this step; see the notes."""
        if self.kind == TOPICS:
            assert self._own is not None
            self._own.contribute(block, words, out.reshape(self._own.shape), scratch)
            return
        units = unit_words(block, words, self.n_words)
        if self.kind == LENGTHS:
            unit = np.repeat(np.arange(len(words)), np.diff(units.ends))
            totals = np.bincount(unit, units.counts, len(words))
            cells = np.searchsorted(LENGTH_CELLS, totals[totals > 0], side="right") - 1
            of_length, of_outside = self._length_units
            out[:-1] += np.bincount(cells, minlength=len(LENGTH_CELLS)) * of_length
            outside = words_outside(block, words)
            shares = outside / np.maximum(outside + totals, 1.0)
            out[-1] += np.trunc(shares * of_outside).astype(np.int64).sum()
        elif self.kind == WORDS:
            self._histogram.contribute(units, out, self._spacing)
        else:
            told = self._half.cells
            asked = ask(words, self._share)
            rows = self._half.contributions(units, words, self._predictions_bound, asked)
            out[:told] += np.trunc(rows / self._spacing).astype(np.int64).sum(axis=0)
            if self._counts:
                kept = kept_words(units, words, self._lengths.kept) & np.repeat(asked, np.diff(units.ends))
                out[told] += self._kept_units * int(np.count_nonzero(kept))
                out[told + 2 :] += np.bincount(units.columns[kept], minlength=self.n_words)
        diagnose(scratch, clipped=0, norm_sum=0)

    def round(self, fine: np.ndarray, spacing: float) -> np.ndarray:
        """Bring the counts of a score to one entry, exactly; see the notes."""
        if not self._counts:
            return super().round(fine, spacing)
        cells, (units, most) = self._half.cells, self._gain_parts
        found = super().round(fine[: cells + 2].copy(), spacing)
        found[cells + 1] = frequency_gain(fine[cells + 2 :].astype(np.int64), self._expected) * units // most
        return found

    @property
    def _length_units(self) -> tuple[int, int]:
        """Lattice units of a unit's cell of the lengths, and the most of its cell of the words outside."""
        whole = int(self.clip / self._spacing)
        outside = int(_OUTSIDE**0.5 * whole)
        return math.isqrt(whole**2 - outside**2), outside

    @property
    def _predictions_bound(self) -> float:
        """The bound of a unit's predictions in a score."""
        return self.clip * (1.0 if self._compares else _PARTS[0] ** 0.5)

    @property
    def _kept_units(self) -> int:
        """Lattice units that a kept word counts."""
        return int(self.clip * _PARTS[2] ** 0.5 / (self._spacing * self._lengths.kept))

    @property
    def _gain_parts(self) -> tuple[int, int]:
        """A and D of the notes: the most that a unit changes the gain, in lattice units of its entry, and in itself."""
        of_word = math.ceil(_MOST * (1.0 if self._adds else 2**0.5) * _NAT)
        return max(int(self.clip * _PARTS[1] ** 0.5 / self._spacing) - 1, 0), self._lengths.kept * of_word

    # -- updates

    def update(self, release: Release) -> None:
        """Take a release."""
        if self.kind == LENGTHS:
            of_length = self.clip * (1.0 - _OUTSIDE) ** 0.5
            cells = release.values[:-1] * self.n_records / of_length
            noise = release.noise_sd * self.n_records / of_length
            outside = float(release.values[-1] / (self.clip * _OUTSIDE**0.5))
            if not (np.isfinite(cells).all() and np.isfinite([noise, outside]).all()):
                raise ValueError("release: expected finite numbers")
            self._take_lengths(cells, noise, outside)
            self._plan_score()
        elif self.kind == SCORE:
            self._scored = release.values + (self._scored if self._scores else 0.0)
            self._scored_noise, self._scores = release.noise_sd, self._scores + 1
        elif self.kind == TOPICS:
            assert self._own is not None
            units = release.units.reshape(self._own.shape)
            self._own.update(replace(release, step=self._done - _FIRST_OWN, units=units))
        else:
            self._histogram.add(release)
            vars(self).pop("read_out", None)
        self._done += 1
        if self._done == _FIRST_OWN < self._first_score and (number := self._affordable_topics()):
            self._own = self._topics_model(number)
            self._plan_score()
        self._begin()

    def _take_lengths(self, cells: np.ndarray | None = None, noise: float = 0.0, outside: float = 0.0) -> None:
        """Take the lengths, and make the histogram of words for them, which is new."""
        self._lengths = Lengths(self.n_records, self._given_length, cells, noise, outside)
        norm = math.sqrt(self._lengths.median * (self._prior.frequencies @ self._scales**-2.0))
        self._histogram = WordHistogram(self._scales, self.clip, _POWER, _FILLS * norm)
        vars(self).pop("read_out", None)

    @property
    def _judges(self) -> float:
        """Units that a score asks, expected."""
        return self._batch * self._share

    @property
    def _expected(self) -> np.ndarray:
        """Units that are expected to keep each word in a score, (V,)."""
        return self._judges * self._lengths.mean_kept[0] * self.read_out.masses

    # -- topics of the records' own

    @property
    def _own_steps(self) -> int:
        """Steps that are left for topics of the records' own; some runs have none."""
        return int(min(self._first_score, self._n_steps)) - _FIRST_OWN

    def _own_signal(self) -> float:
        """Words of a unit over the noise of a used one, over all units; 0 if no steps are left or texts are short."""
        left, short = self._own_steps, self._lengths.median < _OWN_LENGTH
        if left < 5 or short or self._mechanism is None or self._mechanism[0].noise_multiplier == 0:
            return 0.0
        mechanism, sampler = self._mechanism
        noise = mechanism.noise_sd / self.clip / sampler.expected_batch_size * self.n_records / math.sqrt(left)
        return float(self.n_records * math.sqrt(self._lengths.median) / (self.read_out.used_words * noise))

    def _affordable_topics(self) -> int:
        """Number of topics of the records' own that stand clear of the noise; 0 if public ones win."""
        if (signal := self._own_signal()) < _OWN_SIGNAL:
            return 0
        return min(self.n_topics, max(round(1.5 * signal * self.read_out.used_words / self.n_words), _FEWEST))

    def _topics_model(self, number: int) -> LdaModel:
        settings = replace(
            self._settings,
            n_topics=number,
            alpha=(self._totals[0] if len(self._totals) == 1 else _OWN_TOTALS[0]) / number,
            histograms=0,  # words were counted before, in a state of the same names
            soft_steps=soft_steps(self._own_steps),
        )
        model = LdaModel(settings, self._public, self._histogram.mean())
        if self._mechanism is not None:
            model.prepare(*self._mechanism)
        return model

    # -- candidates, and what the score says

    @cached_property
    def read_out(self) -> WordsRead:
        """The histogram so far, read with public topics; before there is one, the public topics."""
        x, sd = self._histogram.mean()
        topics, weights = self._prior.topics(), self._prior.weights
        if self._histogram.count:
            return read_words(x, sd, topics, weights)
        masses = weights @ topics
        return WordsRead(topics, weights, masses, np.zeros(len(masses)), masses, 0.0)

    @property
    def _compared(self) -> tuple[float, ...]:
        """Totals of proportions that the score compares; a given one stays alone."""
        return self._totals if self._own is None or len(self._totals) == 1 else _OWN_TOTALS

    def _candidates(self, own: bool, totals: tuple[float, ...]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Topics, (J, V), and a Dirichlet prior of proportions of each total, (J,)."""
        topics, weights = self.read_out.topics, self.read_out.weights
        priors = [proportions_prior(total, weights) for total in totals]
        if own:
            assert self._own is not None
            mine = self._own.result()["components"]
            topics, sums = np.concatenate([word_probabilities(mine), topics]), mine.sum(axis=1)
            for number, total in enumerate(totals):
                among = (1.0 - _BESIDE) * proportions_prior(total, sums), _BESIDE * priors[number]
                priors[number] = np.concatenate(among)
        return topics, priors

    @property
    def _score_mean(self) -> tuple[np.ndarray, float]:
        """The mean of the released scores over the units that are asked, and the noise in an entry."""
        return self._scored / (self._scores * self._share), self._scored_noise / math.sqrt(self._scores) / self._share

    @property
    def _score_read(self) -> Score | None:
        """The released predictions."""
        if not self._scores:
            return None
        half, (values, noise) = self._half, self._score_mean
        score = Score.read(values[: half.cells], noise, self._predictions_bound, self._judges, half)
        predicted, predicted_sd = _joined(score.predicted, score.predicted_sd, *self._lengths.mean_predicted)
        return replace(score, predicted=predicted, predicted_sd=predicted_sd)

    @property
    def _chosen(self) -> "Chosen":
        """What the score chooses: the peak of its totals, or public topics alone."""
        score, totals = self._score_read, self._compared
        if score is None:
            return Chosen(self._own is not None, totals[0], 0.0, 0.0)
        nats = np.append(0.0, score.nats) if self._compares else score.nats
        if self._own is not None and nats.argmax() == len(totals):
            return Chosen(False, self._totals[0], float(nats[-1]), score.noise(len(totals)))
        place = peak(nats[1], nats[0], nats[2], score.sd) if len(totals) > 1 else 0.0
        total = totals[0] * (totals[-1] / totals[0]) ** place
        parts = np.array([1.0 - place**2, (place**2 - place) / 2.0, (place**2 + place) / 2.0])[: len(totals)]
        noise = score.sd * math.sqrt(1.0 + parts[1:] @ parts[1:])
        return Chosen(self._own is not None, total, float(parts @ nats[: len(totals)]), noise)

    @property
    def frequency_loss(self) -> tuple[float, float]:
        """Nats a word by which exact frequencies predict better than released ones; and their deviation by noise."""
        kept_unit, lengths, (units, most) = self._kept_units * self._spacing, self._lengths, self._gain_parts
        gain_unit = units * self._spacing / (most / _NAT)
        if not kept_unit or not gain_unit:
            return 0.0, _NOTHING  # the noise hides a whole unit
        values, noise = self._score_mean
        kept, kept_sd = _joined(values[-2] / kept_unit, noise / kept_unit, *lengths.mean_kept)
        gain = values[-1] / gain_unit + clipped_off(self._expected) / self._judges
        gain_sd = noise / gain_unit
        # The frequencies of the words add up to 1 with the occurrences before the records.
        words = self._judges * kept
        total = words + _BEFORE * self.n_words
        loss = gain / kept + 1.0 - math.log(total / (self._judges * lengths.mean_kept[0])) + self._knows_its_own
        spread = math.hypot(gain_sd, (gain / kept + words / total) * kept_sd) / kept
        # Exact frequencies have all words of all units. If these were drawn one by one, they would gain ``more`` by
        # them; if a unit's further words are its own, nothing.
        further = self.n_records / self._judges * lengths.all_over_kept
        more = expected_log(self.read_out.masses, words * further) - expected_log(self.read_out.masses, words)
        return float(loss + more / 2.0), math.hypot(spread, more / 2.0)

    @property
    def _knows_its_own(self) -> float:
        """Nats a word by which released frequencies predict the units better that they were read from than others.

        A mass is its posterior's mean, whose slope by the histogram is the posterior's variance over the noise's. So
        with a relative variance r² an occurrence, 1/n of the histogram x, adds x r² / sd² / n to the logarithm of the
        mass, and 1 / x / n without noise.
        """
        read, sd = self.read_out, self._histogram.mean()[1]
        x = read.total * read.masses
        slopes = np.minimum(x * np.expm1(read.spread**2) / sd**2, 1.0 / x)
        return float(read.masses @ slopes) / self.n_records

    @property
    def gained_nats(self) -> tuple[float, float] | None:
        """Nats a word that the topics gain over the records' own exact word frequencies; None if no score tells it.

        Also their deviation by noise and by the choice of units. They are those over released frequencies, less what
        exact ones gain over these: ratios of released means, whose variances add.
        """
        score = self._score_read
        if score is None or self._compares or score.predicted <= _FEW * self._lengths.mean_predicted[0]:
            return None  # the last: hardly a unit has a word to predict, so there is no ratio
        (loss, loss_noise), chosen = self.frequency_loss, self._chosen
        rate = chosen.nats / score.predicted
        variance = (chosen.noise**2 + score.more**2 + (rate * score.predicted_sd) ** 2) / score.predicted**2
        return rate - loss, math.sqrt(variance + loss_noise**2)

    @property
    def found_gain(self) -> FoundGain | None:
        """The gain over the records' own exact word frequencies, with its 90 % interval; None without a score."""
        return None if (found := self.gained_nats) is None else gain_of(*found)

    def verdict(self, unit: str) -> Verdict:
        """Judge the topics, and say if the counted words are few, or used otherwise than in public text.

        The distance is the Kullback-Leibler divergence of the released shares from the fitted mixture, in nats a word:
        at most .9 in English of the panel, 1.9 and more in German under English words. Noise lowers it.
        """
        read, language = self.read_out, None
        if self._histogram.count:
            nats = float(read.masses @ np.log(read.masses / read.mixture * read.mixture.sum()))
            language = self._prior.language if nats > _UNLIKE else None
        found, hidden = self.found_gain, self._lengths.noise > 0.0  # with lengths, a run has a score if it can tell
        empty, outside, two = self._lengths.shares()
        return Verdict.of_topics(found, unit, empty, outside, found is None and hidden, language, two)

    # -- results

    @property
    def alpha(self) -> np.ndarray:
        """The Dirichlet prior of a document's proportions, (J,)."""
        chosen = self._chosen
        return self._candidates(chosen.own, (chosen.total,))[1][0]

    @property
    def _taken(self) -> LdaModel | None:
        """Topics of the records' own, if they stand in the result."""
        return self._own if self._own is not None and self._chosen.own else None

    @property
    def _public_rows(self) -> np.ndarray:
        """Dirichlet parameters of the public topics, (K, V), as if all words of the result were theirs."""
        read, own = self.read_out, self._taken
        total = self.n_records * self._lengths.median if own is None else float(own.result()["components"].sum())
        return np.asarray(np.maximum(total * read.weights[:, None] * read.topics, 1e-12))

    def result(self) -> dict[str, np.ndarray]:
        """Give ``components``, (J, V) Dirichlet parameters, the records' own topics first."""
        rows, own, share = self._public_rows, self._taken, 1.0 - _BESIDE
        if own is None:
            return {"components": rows}
        return {"components": np.concatenate([share * own.result()["components"], (1.0 - share) * rows])}

    @property
    def lift(self) -> np.ndarray:
        """How many times its share in public text each public topic has among them, (J,); NaN for the records' own."""
        weights, own = self.read_out.weights, 0 if self._taken is None else self._taken.n_topics
        return np.append(np.full(own, np.nan), weights / weights.sum() / self._prior.weights)

    @property
    def above_public_text(self) -> tuple[np.ndarray, np.ndarray]:
        """How a topic's words are above public text: nats of each word, (J, V), and nats a word of each topic, (J,).

        A word of probability p and public frequency f has p log(p / f). A public topic's nats are the public topic's
        own, which have no noise; a topic of words that everybody writes has few.
        """
        frequencies, public = self._prior.frequencies, word_probabilities(self._prior.topics())
        rows = word_probabilities(self.result()["components"])
        nats = rows * np.log(rows / frequencies)
        of_public = (public * np.log(public / frequencies)).sum(axis=1)
        own = len(rows) - len(public)
        return nats, np.append(nats[:own].sum(axis=1), of_public)

    @property
    def relative_spread(self) -> np.ndarray:
        """Standard deviations of the words' shares by the noise, over the shares, (J, V).

        The ratio of a word has its posterior's variance and that of rounding to the grid. A share is a ratio over a sum
        of ratios: to first order its relative variance is (1 − 2 p_v) r_v² + Σ_u p_u² r_u², with relative deviations r
        of the ratios. Public topics are given, and the records' own have NaN: other noise would have found others.
        docs/topics.md has how far the shares of equal fits lie apart.
        """
        sd, ratios = self._histogram.mean()[1], np.zeros(self.n_words)
        if self._histogram.count and sd.any():
            ratios = np.expm1(self.read_out.spread**2) + (_LOG[1] - _LOG[0]) ** 2 / 12.0
        public = self._public_rows
        shares = public / public.sum(axis=1, keepdims=True)
        common = (shares**2 * ratios).sum(axis=1, keepdims=True)
        spread, own = np.sqrt((1.0 - 2.0 * shares) * ratios + common), self._taken
        return spread if own is None else np.concatenate([np.full((own.n_topics, self.n_words), np.nan), spread])

    def deviations(self) -> np.ndarray:
        """Compute (J, V) releases in standard deviations of their noise, as `LdaModel.deviations`.

        Of a public topic the histogram tells which of its words the records have, not how the topic uses them.
        """
        sums, sd = self._histogram.mean()
        found, own = np.tile(sums / sd, (self._prior.n_topics, 1)), self._taken
        return found if own is None else np.concatenate([own.deviations(), found])

    # -- state

    def state(self) -> dict[str, np.ndarray]:
        """Give lengths, histograms, scores and the state of topics of the records' own."""
        own = 0 if self._own is None else self._own.n_topics
        numbers = [self._done, own, self._scores, self._lengths.noise, self._scored_noise]
        numbers += [self._spacing, self._batch, float(self._adds)]
        state = {
            "public_steps": np.array(numbers, np.float64),
            "lengths": np.append(self._lengths.cells, self._lengths.outside),
            "scored": self._scored,
            **self._histogram.state(),
        }
        return state if self._own is None else {**state, **self._own.state()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        numbers = array_of(state, "public_steps", (8,))
        done, own, scores = (int(number) for number in numbers[:3])
        length_noise, scored_noise, spacing, batch, adds = numbers[3:].tolist()
        whole = (done, own, scores) == tuple(numbers[:3]) and done < 2**31 and own <= self.n_topics and scores <= done
        known = spacing > 0.0 and batch > 0.0 and adds in (0.0, 1.0)
        if numbers.min() < 0 or not whole or not known or (own and done < _FIRST_OWN):
            raise ValueError("state: 'public_steps' is out of its range")
        self._done, self._scores, self._scored_noise = done, scores, scored_noise
        if self._mechanism is None:
            # For reading only. A run that goes on keeps the numbers of its own plan.
            self._spacing, self._batch, self._adds = spacing, batch, bool(adds)
        *cells, outside = array_of(state, "lengths", (len(LENGTH_CELLS) + 1,)).tolist()
        self._own = None
        self._take_lengths(np.array(cells), length_noise, outside)
        self._histogram.restore(state)
        self._plan_score()
        if own:
            self._own = self._topics_model(own)
            self._own.restore(state)
            self._plan_score()
        if scores:
            self._compares = array_of(state, "scored").shape == (self._score(True).cells,)
            self._half = self._score(self._compares)
        size = self._half.cells + (0 if self._compares else 2)
        self._scored = array_of(state, "scored", (size if scores else 0,))
        self._begin()


def _joined(released: float, noise: float, expected: float, spread: float) -> tuple[float, float]:
    """Join a released mean of words and the one that the lengths let expect; give it with its deviation."""
    weight = spread**2 / (spread**2 + noise**2)
    return max(expected + weight * (released - expected), _FEW * expected), math.sqrt(weight) * noise


def gain_of(nats: float, sd: float, miss: float = _MISS) -> FoundGain:
    """Convert nats a word, with what is known of their spread, to a gain with its 90 % interval."""
    spread = NINETY * math.hypot(sd, miss)
    gains = (1.0 - math.exp(min(side * spread - nats, 1.0)) for side in (0, 1, -1))
    return FoundGain(*(max(gain, -1.0) for gain in gains))
