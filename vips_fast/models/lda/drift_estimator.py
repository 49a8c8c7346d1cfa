"""Topics that drift over public periods: settings and read-outs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, Unpack

import numpy as np

from ...checks import check_number
from ...data.types import Column, Data, Matrix
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import HopelessWarning
from ..inputs import column_names
from ..parameters import Bookkeeping
from ..readouts import kept
from .drift_model import DatedDocuments, DriftModel
from .drifting import Drift, change_width, read_drift
from .model import LdaSettings
from .options import LdaOptions
from .planning import DOC_LENGTH, default_clip, fitting_prior, usual_distinct_words

#: Share of its mean probability that a word has in a topic at least.
_LEAST = 1e-6
#: First words of a topic that a forecast is about. It is hopeless if a word cannot be seen to move by this much of
#: its share: a word that comes anew, or goes, moves by twice its mean share.
_FIRST, _MOST = 10, 2.0


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
    options : LdaOptions or None
        Numerics of the documents' topics. A ``word_clip`` of None is 1, no bound.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    The sensitivity is proven at `vips_fast.models.lda.drift_model.DriftModel`. Persons may come in several periods; the
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
    >>> found.topics[:, 0, 0].round(1).tolist(), model.topic_names
    ([0.5, 0.4, 0.3, 0.2], ('1', '2'))
    """

    _options_type: ClassVar[type] = LdaOptions

    periods: Sequence[str] = field(default=(), kw_only=False)
    topics: Matrix | None = None
    doc_length: int | None = None
    clip: float | None = None
    options: LdaOptions | None = None
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
        found = DatedDocuments(X, y, tuple(self.periods), self.invalid, type(self).__name__)
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
        rows = self.rows_per_group if self._joint(public) else 1
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

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Numbers of the topics from 1."""
        return tuple(str(k + 1) for k in range(len(self._as_fitted()._known_topics())))

    def drift(self, *, level: float = 0.9) -> Drift:
        """Follow the words of the topics over the periods.

        ``level`` in (0, 1) is of the intervals. It costs nothing (`vips_fast.models.lda.drifting`).
        """
        return self._drift(check_number("level", level, 0, 1, low_open=True, high_open=True))

    @kept
    def _drift(self, level: float) -> Drift:
        result, own = self._fitted(), self._as_fitted()
        topics, arrays = own._known_topics(), result.arrays
        words = column_names(result.public) or tuple(f"#{v}" for v in range(topics.shape[1]))
        topics /= topics.sum(axis=1, keepdims=True)
        return read_drift(arrays["sums"], arrays["noise_sd"], topics, tuple(own.periods), words, level)
