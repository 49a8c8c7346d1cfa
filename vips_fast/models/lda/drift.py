"""Topics that drift over public periods: records, sums with their sensitivity, read-out, and the estimator.

*Reading.* The release has sums S of words v in topics k and periods p (`DriftModel`), with a noise of known
variance s^2 in each entry. A topic's sum in a period is T = sum_v S, its noise has the variance w.

*Shares.* The share of a word in a topic and a period is S / T. To first order its noise has the variance (s^2 (1 - 2 x)
+ x^2 w) / T^2 at a share of x. Intervals are of each period by itself, so they hold whatever the words do.

*Change.* The mean change of a share from a period to the next is by least squares. Its interval knows the noise, and
the choice of documents: a share x of T has the further variance D x / T. Its dispersion D is common to a topic's words,
and is found from what lies off their lines, beyond the noise. So words that move in curves widen it. With two periods
there is no D, and the interval is for the noise. A word *moved* if 0 is outside of its interval at the level 1 - (1 -
level) / (K V) (`vips_fast.models.several`). So with a probability of about ``level`` no word is listed that only chance
moved.

*Topics of a period* are the topics b that the sums were made with, and a deviation from them. A topic's size t in a
period is the least-squares factor of b in the sums, which noise moves less than T. The deviations d = S / t - b of a
word are a random walk over the periods with a start of variance a and steps of variance q. Both are in units of the
noise. They have a prior on a grid, which EM learns from all words of a topic (`_shrink`). So
the words of a topic that did not move keep b, and the words that moved follow the months beside them. The size is found
once more with the result in place of b.

Intervals of shares are about the records in the fit: they know the noise, and not which other documents could have been
written. Sums are of clipped contributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np
import scipy

from ...checks import check_number
from ...data.frames import public_places
from ...data.shards import ShardedCorpus
from ...data.types import Array, Column, Data, Matrix
from ...engine.model import Model, Release
from ...engine.plan import RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import HopelessWarning
from ..inputs import column_names
from ..parameters import Bookkeeping
from ..readouts import kept
from ..several import clear_deviations
from .model import EntryScales, LdaModel, LdaSettings, ScaledAverage, word_scales
from .planning import DOC_LENGTH, LdaOptions, default_clip, fitting_prior, usual_distinct_words
from .records import Documents

#: Standard deviations of its noise that a topic's sum must have, for its shares of a period to be read.
_CLEAR = 4.0
#: Times that the sizes of topics are found: with the topics as they were, and then as they are.
_ROUNDS = 2
#: Rounds of EM for a common prior.
_EM_ROUNDS = 30
#: Share of its mean probability that a word has in a topic at least.
_LEAST = 1e-6
#: First words of a topic that a forecast is about. It is hopeless if a word cannot be seen to move by this much of
#: its share: a word that comes anew, or goes, moves by twice its mean share.
_FIRST, _MOST = 10, 2.0


class DatedDocuments(Documents):
    """Documents with a word of its own for each period.

    Column p V + v is word v in period p. A document of another period has no words, so it contributes nothing.
    """

    def __init__(self, X: Any, y: Any, periods: tuple[str, ...], invalid: str, kind: str):
        if isinstance(X, ShardedCorpus):
            raise ValueError("X: shards have no periods; give counts in memory")
        if y is None:
            raise ValueError("y=None: expected the period of each row of X")
        super().__init__(X, invalid, kind)
        labels = np.asarray(y, dtype=object).reshape(-1)
        if len(labels) != self.n_rows:
            raise ValueError(f"y has {len(labels)} values: expected {self.n_rows}, a period for each row of X")
        places = public_places(np.array([str(one) for one in labels.tolist()], dtype=object), periods)
        if self.n_features * len(periods) >= 2**31:
            raise ValueError(f"X: {self.n_features} words in {len(periods)} periods; expected fewer than 2^31 together")
        counts, indices, indptr = self._parts
        place = np.repeat(places, np.diff(indptr))
        kept = place >= 0
        ends = np.concatenate(([0], np.cumsum(kept)))[indptr].astype(indptr.dtype)
        self._parts = counts[kept], (indices + place * self.n_features)[kept].astype(np.int32), ends
        self._native = counts.dtype == np.int32


class DriftModel(LdaModel):
    """Sums (P V, K) of words by period and topic, with topics that stay.

    ``topics``, (K, V), are public or were released; ``settings`` are of `LdaModel`, for the words of all periods.

    Notes
    -----
    *Sensitivity.* This is a step of `LdaModel`, over a vocabulary with each word once for each period. A document's
    words become words of its own period, a function of the document and of public lists. The table of topics is a
    function of ``topics``, and so are the scales. The proof there assumed only that these are public. All documents of
    a unit, of any periods, are added up and clipped once. So a person's contribution has entries >= 0 and an L2 norm of
    at most a N, however many periods the person is in. Nothing is assumed about persons who return.
    """

    def __init__(self, settings: LdaSettings, public: Public, topics: np.ndarray, n_periods: int):
        super().__init__(settings, replace(public, n_features=topics.shape[1] * n_periods))
        self.n_periods = n_periods
        weights = np.tile(topics.T, (n_periods, 1))
        self._fill_table(weights)
        if self._exponent > 0.0:
            words = word_scales(weights.sum(axis=1), self._exponent)
            sizes = weights.sum(axis=0) / weights.sum()
            self._scales = EntryScales(words, self._table, sizes, 0.0, self._n_threads)
            self._weight, self._floor = self._scales.weight, self._scales.floor
        self._average = ScaledAverage(np.zeros(self.shape))

    def entry_scales(self) -> np.ndarray:
        """Return a period's scales of entries, (K, V)."""
        n_words = len(self._table) // self.n_periods
        if self._scales is None:
            return np.ones((self.n_topics, n_words))
        table = self._table[:n_words, : self.n_topics]
        return np.asarray(self._scales.word[:n_words, None] * np.sqrt(table + self._floor)).T

    def update(self, release: Release) -> None:
        """Average the releases; the topics stay as they are."""
        self._average.add(release, 1.0 / (release.step + 1), self._scales, self._n_threads)

    @property
    def has_score(self) -> bool:
        """Whether the sums can be scored: no."""
        return False

    def result(self) -> dict[str, np.ndarray]:
        """Give sums, (P, K, V), per unit, and their noise's deviation, (K, V).

        The noise is the same in each period.
        """
        values = self._average.values.reshape(self.n_periods, -1, self.n_topics)
        sd = np.broadcast_to(self._average.noise_sd, self.shape)[: values.shape[1]]
        return {"sums": np.ascontiguousarray(values.transpose(0, 2, 1)), "noise_sd": np.ascontiguousarray(sd.T)}

    def state(self) -> dict[str, np.ndarray]:
        """Return the averaged releases."""
        return self._average.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        average = ScaledAverage(np.zeros(self.shape))
        average.restore(state)
        self._average = average


# ------------------------------------------------------------------ read-out


@dataclass(frozen=True)
class Drift:
    """Words of topics over periods.

    Attributes
    ----------
    periods : tuple of str
        Names of the P periods, in order.
    words : tuple of str
        Names of the V words.
    topics : (P, K, V) array
        Probability of each word in each topic and period; rows sum to 1.
    low, high : (P, K, V) arrays
        Ends of intervals for the share without noise; 0 and 1 where noise hides the topic.
    change : (K, V) array
        Mean change of a share from a period to the next.
    change_low, change_high : (K, V) arrays
        Ends of intervals of the changes, which hold for all words together.
    """

    periods: tuple[str, ...]
    words: tuple[str, ...]
    topics: Array
    low: Array
    high: Array
    change: Matrix
    change_low: Matrix
    change_high: Matrix

    def moved(self) -> list[tuple[int, int]]:
        """List (topic, word) of the words that moved, the clearest first."""
        sure = np.maximum(self.change_low, -self.change_high)
        order = np.argsort(-sure, axis=None, kind="stable")
        return [(int(k), int(v)) for k, v in zip(*np.unravel_index(order, sure.shape), strict=True) if sure[k, v] > 0]

    def rows(self) -> list[list[Any]]:
        """List the shares of the words that moved, below a head."""
        rows: list[list[Any]] = [["topic", "word", "period", "share", "low", "high"]]
        for k, v in self.moved():
            for t, period in enumerate(self.periods):
                numbers = (float(array[t, k, v]) for array in (self.topics, self.low, self.high))
                rows.append([k + 1, self.words[v], period, *numbers])
        return rows


def read_drift(
    sums: Array, noise_sd: Matrix, topics: Matrix, periods: tuple[str, ...], words: tuple[str, ...], level: float
) -> Drift:
    """Read sums (P, K, V) with their noise (K, V), made with ``topics`` (K, V)."""
    variances = np.broadcast_to(noise_sd**2, sums.shape)
    totals, noise = sums.sum(axis=2), variances.sum(axis=2)
    clear = totals > _CLEAR * np.sqrt(noise)
    totals = np.where(clear, totals, np.maximum(totals, _CLEAR * np.sqrt(noise) + 1e-300))
    shares = sums / totals[:, :, None]
    of_shares = (variances * (1.0 - 2.0 * shares) + shares**2 * noise[:, :, None]) / totals[:, :, None] ** 2
    of_shares = np.maximum(of_shares, 1e-300)
    half = float(scipy.special.ndtri(0.5 + level / 2)) * np.sqrt(of_shares)
    low, high = (
        np.where(clear[:, :, None], np.clip(shares + sign * half, 0, 1), end) for sign, end in ((-1, 0), (1, 1))
    )
    factors = _factors(len(sums))
    change = np.einsum("p,pkv->kv", factors, shares)
    found = np.stack(
        [_follow(sums[:, k], noise_sd[k] ** 2, topics[k], clear[:, k]) for k in range(len(topics))], axis=1
    )
    chance = of_shares + _chance(shares, of_shares, found / totals[:, :, None])
    widths = clear_deviations(change.size, sides=2, level=level) * np.sqrt(np.einsum("p,pkv->kv", factors**2, chance))
    widths[~clear.all(axis=0)] = math.inf
    return Drift(periods, words, found, low, high, change, change - widths, change + widths)


def change_width(n_periods: int, n_entries: int, level: float) -> float:
    """Find the half width of a change's interval, over a share's noise."""
    return clear_deviations(n_entries, sides=2, level=level) * float(np.linalg.norm(_factors(n_periods)))


def _factors(n_periods: int) -> np.ndarray:
    """Make the factors of the mean change by least squares."""
    steps = np.arange(n_periods) - (n_periods - 1) / 2
    return np.asarray(steps / (steps @ steps))


def _chance(shares: Array, noise: Array, counted: Array) -> Array:
    """Estimate the variance of shares by the choice of documents, (P, K, V)."""
    if len(shares) < 3:
        return np.zeros_like(shares)
    factors = _factors(len(shares))
    steps = factors / (factors @ factors)
    rest = shares - shares.mean(axis=0) - steps[:, None, None] * np.einsum("p,pkv->kv", factors, shares)
    apart, weights = (rest**2).sum(axis=0) / (len(shares) - 2), 1.0 / noise.mean(axis=0)
    dispersion = (apart * weights - 1.0).sum(axis=1) / (counted.mean(axis=0) * weights).sum(axis=1)
    return np.asarray(np.maximum(dispersion, 0.0)[:, None] * counted)


def _follow(sums: Matrix, scale: np.ndarray, start: np.ndarray, clear: np.ndarray) -> Matrix:
    """Find a topic's words, (P, V), in each period.

    ``scale``, (V,), are the variances of the noise.
    """
    found = np.tile(start, (len(sums), 1))
    if not scale.all():
        return np.where(clear[:, None], sums / np.maximum(sums.sum(axis=1), 1e-300)[:, None], start)
    if not clear.any():
        return found
    seen = np.flatnonzero(clear)
    for _ in range(_ROUNDS):
        shape = found[seen] / scale
        sizes = (sums[seen] * shape).sum(axis=1) / (found[seen] * shape).sum(axis=1)
        seen, sizes = seen[sizes > 0], sizes[sizes > 0]
        if not len(seen):
            break
        deviations = (sums[seen] / sizes[:, None] - start) / np.sqrt(scale)
        found[seen] = np.maximum(start + _shrink(deviations, sizes**-2.0, seen) * np.sqrt(scale), start * 1e-3)
        found /= found.sum(axis=1, keepdims=True)
    return found


def _shrink(deviations: np.ndarray, noise: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Shrink deviations (P, E) from 0 with noise variances (P,).

    The model is a random walk at ``times``, (P,), with a start N(0, a) and steps of variance q, both in units of the
    mean noise. Deviations of all E have a common prior of (a, q) on a grid with 0, which EM learns. The result averages
    the posterior means over the grid.
    """
    walk = np.minimum.outer(times, times) - times[0] + 0.0
    starts, steps = ((0.0, *np.geomspace(low, 10.0, 7)) for low in (1e-2, 1e-3))
    logs, gains = [], []
    for prior in (a * np.ones_like(walk) + q * walk for a in starts for q in steps):
        prior *= noise.mean()
        whole = prior + np.diag(noise)
        inverse = np.linalg.inv(whole)
        gains.append(prior @ inverse)
        square = (deviations * (inverse @ deviations)).sum(axis=0)
        logs.append(-0.5 * (np.linalg.slogdet(whole)[1] + square))
    table = np.array(logs)
    likelihood = np.exp(table - table.max(axis=0))
    prior = np.full(len(gains), 1.0 / len(gains))
    for _ in range(_EM_ROUNDS):
        joint = likelihood * prior[:, None]
        prior = (joint / joint.sum(axis=0)).mean(axis=1)
    weights = likelihood * prior[:, None]
    weights /= weights.sum(axis=0)
    found = np.zeros_like(deviations)
    for weight, gain in zip(weights, gains, strict=True):
        found += weight * (gain @ deviations)
    return found


# ------------------------------------------------------------------ the estimator


@dataclass(kw_only=True, repr=False, eq=False)
class DriftingTopics(PrivateEstimator):
    """How the words of topics move over public periods, such as months.

    One release has the words of every topic in every period. Each topic of a period is the topic given, moved as far as
    the release shows it (`drift`).

    Parameters
    ----------
    periods : sequence of str
        The periods in order, at least two. They are **public**: never take them from the records. A document of another
        period contributes nothing.
    topics : (K, V) array
        Words of the topics, such as ``model.components_``. They are public or were released: give ``after=model`` to
        `fit` if they come from the same persons.
    doc_length, clip : int or None, float or None
        As in `LatentDirichletAllocation`. A person's documents of all periods are clipped together.
    n_steps : int or None
        Releases; None is 1.
    options : LdaOptions, dict or None
        Numerics of the documents' topics. A ``word_clip`` of None is 1, no bound.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    The sensitivity is proven at `DriftModel`. Persons may come in several periods; the
    guarantee is the same for them. A period without documents is a period of noise, and keeps the topics given.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import DriftingTopics
    >>> topics = np.array([[0.5, 0.1, 0.4, 0, 0, 0], [0, 0, 0, 0.4, 0.3, 0.3]])
    >>> rng, months = np.random.default_rng(0), np.arange(20000) % 4
    >>> moved = [topics + np.outer([1, 0], [-0.1 * m, 0.1 * m, 0, 0, 0, 0]) for m in range(4)]
    >>> counts = np.array([rng.multinomial(20, moved[m][i % 2]) for i, m in enumerate(np.repeat(np.arange(4), 5000))])
    >>> names = np.repeat(["May", "June", "July", "August"], 5000)
    >>> model = DriftingTopics(["May", "June", "July", "August"], topics=topics, doc_length=20, epsilon=1.0)
    >>> found = model.fit(counts, names).drift()
    >>> found.topics.shape, sorted(v for _, v in found.moved()[:2])
    ((4, 2, 6), [0, 1])
    >>> found.topics[:, 0, 0].round(1).tolist()
    [0.5, 0.4, 0.3, 0.2]
    """

    _options_type: ClassVar[type] = LdaOptions

    periods: Sequence[str] = field(default=(), kw_only=False)
    topics: Matrix | None = None
    doc_length: int | None = None
    clip: float | None = None
    sampling: str | None = "full"

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Release the words of topics by period.

        ``X``, (n, V), are counts of words and ``y``, (n,), the documents' periods.
        `vips_fast.models.parameters.Bookkeeping` has the keywords: ``groups`` are the persons, and with ``after=model``
        the statement includes the model; ``epsilon`` is of the drift alone. Raises ValueError if a parameter, X or y
        is unusable, or the run would overspend. Nothing has been spent then.
        """
        return self._fit(X, y, **call)

    def _check_parameters(self) -> None:
        names, plain = self.periods, isinstance(self.periods, Sequence) and not isinstance(self.periods, str)
        if not plain or len(names) < 2 or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise ValueError(f"periods={names!r}: expected at least two different texts, public and in order")
        self._known_topics()
        if self.doc_length is not None:
            check_number("doc_length", self.doc_length, 1, 2**31 - 1, integer=True)
        check_number("clip", self.clip, 0, 1, low_open=True, optional=True)
        self._options.check()
        self._check_privacy_parameters()

    def _known_topics(self) -> Matrix:
        """Return the topics' probabilities of words, none of them 0."""
        topics = np.asarray([] if self.topics is None else self.topics, np.float64)
        fits = topics.ndim == 2 and topics.size and np.isfinite(topics).all() and (topics >= 0).all()
        if not fits or not topics.sum(axis=1).all():
            raise ValueError(
                f"topics of shape {topics.shape}: expected (K, V) weights of words >= 0, such as model.components_"
            )
        return np.asarray(topics + _LEAST * topics.mean(axis=1, keepdims=True))

    def _settings(self) -> dict[str, Any]:
        topics = np.array(self.topics, np.float64)
        return {**super()._settings(), "periods": list(self.periods), "topics": topics}

    def _read(self, X: Any, y: Any = None) -> tuple[DatedDocuments, dict[str, Any]]:
        found = DatedDocuments(X, y, tuple(self.periods), self._options.invalid, type(self).__name__)
        n_words = self._known_topics().shape[1]
        if found.n_features != n_words:
            raise ValueError(f"X has {found.n_features} columns: expected {n_words}, a column for each word of topics")
        return found, {"n_features": n_words}

    @property
    def _has_score(self) -> bool:
        return False

    def _horizon(self, public: Public, terms: Terms) -> int:
        return 1 if self.n_steps is None else int(self.n_steps)

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> DriftModel:
        topics, length = self._known_topics(), int(self.doc_length or DOC_LENGTH)
        rows = self._options.rows_per_group if self._joint(public) else 1
        share = default_clip(length, rows) if self.clip is None else self.clip
        options, prior = self._options, self._options.doc_topic_prior
        # A bound for each word would hold the words back that grow.
        options = replace(options, word_clip=1.0) if options.word_clip is None else options
        settings = LdaSettings(
            len(topics),
            alpha=fitting_prior(length, len(topics)) if prior is None else float(prior),
            eta=1.0,
            doc_length=length,
            clip=share * length,
            clips=bool(self.private),
            options=options,
            n_threads=resolve_n_threads(self.n_jobs),
        )
        return DriftModel(settings, public, topics, len(self.periods))

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        assert isinstance(model, DriftModel)
        sampler, length = schedule.sampler, int(self.doc_length or DOC_LENGTH)
        if schedule.noise_multiplier == 0:
            return None
        topics, (n_topics, n_words) = self._known_topics(), (model.n_topics, public.n_features)
        per_unit = schedule.noise_multiplier * model.sensitivity(sampler.relation) / sampler.expected_batch_size
        noise = public.n_records * per_unit / schedule.n_steps**0.5 * model.entry_scales()
        # Words that a unit contributes at its clip, and their sum by topic in a period.
        words = min(float(length), model.clip * usual_distinct_words(length) ** 0.5)
        sums = public.n_records * words * topics.sum(axis=1) / topics.sum() / len(self.periods)
        needed = change_width(len(self.periods), n_topics * n_words, 0.9) * noise / sums[:, None]
        first = np.argsort(-topics, axis=1)[:, :_FIRST]
        shares = np.take_along_axis(topics / topics.sum(axis=1, keepdims=True), first, axis=1)
        needed = np.take_along_axis(needed, first, axis=1) * (len(self.periods) - 1)
        least, part = float(np.median(needed)), float(np.median(needed / shares))
        hopeless = part > _MOST
        of_it = f"{part:.0%} of it" if part < 10 else "many times what it is"
        helps = " Use more records, a larger epsilon, fewer topics or fewer periods." if hopeless else ""
        text = (
            f"Forecast: a word of a topic's first {_FIRST} is seen to move if its share changes by {100 * least:.2g} "
            f"percentage points from {self.periods[0]} to {self.periods[-1]}, {of_it}.{helps}"
        )
        return RunForecast(1.0 / (1.0 + part), text, HopelessWarning if hopeless else None)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        shape = len(self.periods), len(self._known_topics()), public.n_features
        return {"sums": ArraySpec(shape), "noise_sd": ArraySpec(shape[1:], low=0.0)}

    # ------------------------------------------------------------ read-outs

    def drift(self, *, level: float = 0.9) -> Drift:
        """Follow the words of the topics over the periods.

        ``level`` in (0, 1) is of the intervals. It costs nothing (see the module).
        """
        return self._drift(check_number("level", level, 0, 1, low_open=True, high_open=True))

    @kept
    def _drift(self, level: float) -> Drift:
        result, own = self._fitted(), self._as_fitted()
        topics, arrays = own._known_topics(), result.arrays
        words = column_names(result.public) or tuple(f"#{v}" for v in range(topics.shape[1]))
        topics /= topics.sum(axis=1, keepdims=True)
        return read_drift(arrays["sums"], arrays["noise_sd"], topics, tuple(own.periods), words, level)
