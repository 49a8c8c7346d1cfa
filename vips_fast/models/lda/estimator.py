"""Private latent Dirichlet allocation: settings and read-outs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, cast

import numpy as np
import scipy

from ...checks import check_number
from ...data.arrays import largest
from ...data.counts import documents
from ...data.frames import to_frame
from ...data.types import Array, Data, Matrix, Vector
from ...data.vocabulary import first_names
from ...engine.gain import FoundGain, Score
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...engine.sampling import make_sampler, resolve_sampling
from ...kernels.lda import estep_blocks, scaled_table
from ...kernels.threads import resolve_n_threads
from ..estimator import ArraySpec
from ..inputs import column_names
from ..parameters import Bookkeeping, Call, Common
from ..plots import plot_topics
from ..readouts import Transformer, by_pieces, kept
from ..several import clear_deviations
from ..verdict import Verdict
from .model import CLEAR_NORM, COUNT_POWER, UNKNOWN_NORM, LdaModel, LdaSettings
from .planning import (
    BROUGHT_TO,
    CLEAR,
    DEFAULT_STEPS,
    DIFFERENT,
    DOC_LENGTH,
    MOST_TOPICS,
    READ_OUTS,
    LdaOptions,
    Plan,
    TopicCase,
    default_batch_size,
    default_clip,
    fitting_prior,
    histogram_steps,
    soft_steps,
    usual_length,
    whole_epochs,
)
from .prior import PublicPrior
from .public_topics import PublicTopicsModel, forecast_words
from .records import Documents
from .score import proportions_prior

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .paper import PaperLatentDirichletAllocation


class PaperParameters(Common, total=False):
    """Keywords of `vips_fast.LatentDirichletAllocation.paper`: the fields of `PaperLatentDirichletAllocation`."""

    public_prior: PublicPrior | None
    doc_length: int | None
    clip: float | None
    sensitivity: str


#: First words by which a topic of names is known.
_SHOWN = 10
#: How far the loss of a run's word frequencies may be from its estimate by the noise: a share of it, and nats.
_LOSS_SPREAD, _LOSS_MISS = 0.4, 0.04
#: Where the E-step of a read-out stops at the latest, in mean |change of γ|, and its fewest rounds. Stopped as early as
#: in a fit, it makes the bound of perplexity up to 2 % worse.
_READ_OUT_TOL, _READ_OUT_ROUNDS = 1e-3, 100


def over_frequencies(found: FoundGain, loss: float) -> FoundGain:
    """Convert a gain over a run's own word frequencies to the records'.

    ``loss`` is the nats a word that exact frequencies would save, by the noise in the released ones.
    """
    spread = _LOSS_SPREAD * loss + _LOSS_MISS
    less = zip(found, (loss, loss + spread, loss - spread), strict=True)
    return FoundGain(*(max(1 - (1 - gain) * math.exp(min(nats, 9.0)), -1.0) for gain, nats in less))


@dataclass(kw_only=True, repr=False, eq=False)
class LatentDirichletAllocation(Transformer):
    """Latent Dirichlet allocation whose topics may be published.

    This is online variational Bayes. Each document's expected sufficient statistics are clipped to an L2 norm of ``clip
    * doc_length``, summed exactly, and released with Gaussian noise (Park et al. 2020, section 4 and Algorithm 3). They
    are averaged, never cut at 0, and read out by the empirical-Bayes mean of
    `vips_fast.models.lda.model.ProductShrinkage`.

    Parameters
    ----------
    n_components : int
        Number of topics K; `vips_fast.plan` for None topics says how many are worth while.
    public_prior : PublicPrior or None
        K public topics of the V words, in the order of the columns. Nothing in it may come from the private records.
        The releases are then lengths, words and a score, by which these topics are read
        (`vips_fast.models.lda.public_topics`). Without privacy it is not used.
    doc_length : int or None
        N: about how many words a usual document has, without stop words. Public. Every document is brought to exactly N
        words. None is 80, or 40 beside a public prior; without privacy it leaves them as they are.
    clip : float or None
        a in (0, 1]: a document's contribution is scaled down to an L2 norm of at most a N (Eq. 29). None is
        0.48 N^−0.425, or without a doc_length 0.050. With ``groups`` it bounds the sum of a person's documents, and
        None is up to 1.4 times that.
    n_steps : int or None
        Minibatches, each one release. None is 20, or 40 to 60 if `vips_fast.plan` expects the statistics to stand clear
        of the noise, or 30 of half of the records. Without privacy it is two epochs, and at least 40.
    batch_size : float or None
        (Expected) documents of a minibatch. None is a quarter of the records, or half of them if a target asks for more
        noise, at least 100,000, at most all. Without privacy it is 256 in memory, or a 256th of the records.
    options : LdaOptions, dict or None
        Further numerics; None is their defaults.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    Without privacy, minibatches of records in memory are by default drawn by "random_allocation", in epochs in random
    order; the last may be left before its end. Documents of at most 32 different words, taken as they are, have two
    rounds of collapsed updates (CVB0, Asuncion et al. 2009): a word's topics go by those of the document's other words
    (docs/topics.md).

    The sensitivity is proven at `vips_fast.models.lda.model.LdaModel`. Empty documents contribute zero and are counted
    as records. ``components_`` are λ, the topics' variational Dirichlet parameters, (K, V). ``diagnostics_`` say for
    each step how many documents were drawn (``records``), how many ``clipped``, and the ``norm_sum`` before clipping.

    Examples
    --------
    200 documents of 8 words. Draws are fresh each time, so shapes are shown.

    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation
    >>> counts = np.random.default_rng(0).integers(0, 5, (200, 8))
    >>> model = LatentDirichletAllocation(2, doc_length=20, noise_multiplier=5.0, n_steps=3)
    >>> model.fit(counts, unit="patient", groups=np.arange(200) // 2).components_.shape
    (2, 8)
    >>> print(model.privacy_)
    (..., 1e-05)-differential privacy with respect to adding or removing one patient of 100, for this fit alone ...

    Read-outs describe the documents that they are asked about, here public ones.

    >>> public = np.random.default_rng(1).integers(0, 5, (50, 8))
    >>> model.transform(public).shape, bool(model.score(public) < 0), bool(model.perplexity(public) > 1)
    ((50, 2), True, True)

    One more step, and the article's own algorithm.

    >>> model.partial_fit(counts, groups=np.arange(200) // 2, unit="patient").n_steps_
    4
    >>> LatentDirichletAllocation.paper(2, private=False, n_steps=2, doc_length=20).fit_transform(counts).shape
    (200, 2)
    """

    _options_type: ClassVar[type] = LdaOptions
    _knowledge = "public_prior", PublicPrior
    _usual_steps = DEFAULT_STEPS

    n_components: int = field(default=10, kw_only=False)
    public_prior: PublicPrior | None = None
    doc_length: int | None = None
    clip: float | None = None

    @classmethod
    def paper(cls, n_components: int = 10, **parameters: Unpack[PaperParameters]) -> PaperLatentDirichletAllocation:
        """Make the article's own algorithm (`vips_fast.models.lda.paper`), for comparison."""
        from .paper import PaperLatentDirichletAllocation

        return PaperLatentDirichletAllocation(n_components, **parameters)

    # ------------------------------------------------------------- fitting

    def fit(self, X: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit the topics to documents.

        X, a sparse matrix or array of any format, shape (D, V), holds counts: integers ≥ 0 of any width. Or it is a
        `vips_fast.data.ShardedCorpus`, documents on disk. ``y`` is ignored; `vips_fast.models.parameters.Bookkeeping`
        has the keywords. Raises ValueError if a parameter or X is unusable, or the run would overspend; RuntimeError if
        another thread is fitting this estimator. Nothing has been spent then, nor where
        `vips_fast.models.lda.HopelessWarning` warns that the topics will be noise, by public numbers.
        """
        return self._fit(X, **call)

    def partial_fit(self, X: Data, y: object = None, **call: Unpack[Call]) -> Self:
        """Do one more step from all rows of X.

        Each call (`vips_fast.models.parameters.Call`) is one release over all of X. ``epsilon`` bounds all calls
        together, so give a ``noise_multiplier``. Other parameters and errors are as in `fit`; a transcript continues.
        """
        return self._fit(X, partial=True, **call)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**20, integer=True)
        if (prior := self.public_prior) is not None:
            if not isinstance(prior, PublicPrior):
                remedy = "vips_fast.load_prior(...).restricted_to(words) gives one"
                raise ValueError(f"public_prior: {type(prior).__name__}; expected a PublicPrior; {remedy}")
            if self.n_components != prior.n_topics:
                expected = f"expected {prior.n_topics}, the topics of public_prior"
                raise ValueError(f"n_components={self.n_components}: {expected}")
        check_number("doc_length", self.doc_length, 1, 2**31 - 1, integer=True, optional=True)
        check_number("clip", self.clip, 0, 1, low_open=True, optional=True)
        self._options.check()
        super()._check_parameters()

    def _read(self, X: Any, y: Any = None) -> tuple[Documents, dict[str, Any]]:
        corpus = Documents(X, self._options.invalid, type(self).__name__)
        facts: dict[str, Any] = {"n_features": corpus.n_features}
        if self._length is None:
            facts["scale"] = float(corpus.largest())
        return corpus, facts

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> Model:
        settings, prior = self._model_settings(public, schedule), self._prior(public.n_features)
        if prior is None:
            return LdaModel(settings, public)
        length = self.doc_length or usual_length(public.n_features)
        return PublicTopicsModel(settings, public, prior, self._steps_of(schedule), length)

    def _prior(self, n_words: int) -> PublicPrior | None:
        """Return the public prior of a private fit."""
        prior = self.public_prior
        if prior is None or not self.private or self.noise_multiplier == 0:
            return None
        if len(prior.words) != n_words:
            raise ValueError(f"public_prior has {len(prior.words)} words: expected {n_words}, those of X")
        return prior

    def _model_settings(self, public: Public, schedule: RunSchedule | None) -> LdaSettings:
        case, n_topics = self._case(public, self._terms, schedule), int(self.n_components)
        options, length, histograms, soft, clear = self._options, self._length, 0, 0, False
        if self._plain:
            decay, tol = options.learning_decay, options.mean_change_tol
            decay, tol = 0.5 if decay is None else decay, 0.1 if tol is None else tol
            options = replace(options, learning_decay=decay, mean_change_tol=tol)
        z = 0.0 if schedule is None else schedule.noise_multiplier
        if schedule is not None and z > 0 and length is not None:
            signal, decay = case.signal(z, options.learning_decay)
            options = replace(options, learning_decay=decay)
            if schedule.whole and self.public_prior is None:
                clear = signal >= CLEAR * n_topics
                histograms, soft = histogram_steps(schedule.n_steps, n_topics, signal), soft_steps(schedule.n_steps)
        usual = (self.doc_length or usual_length(public.n_features)) / math.sqrt(case.distinct_words)
        known = self.doc_length is not None or public.unit != "record"
        given = options.doc_topic_prior
        return LdaSettings(
            n_topics,
            alpha=fitting_prior(self.doc_length, n_topics) if given is None else float(given),
            doc_length=None if length is None else int(length),
            clip=(case.clip if self.private else 1.0) * float(length or public.scale or 1),
            clips=bool(self.private),
            options=options,
            n_threads=resolve_n_threads(self.n_jobs),
            histograms=histograms,
            soft_steps=soft,
            long_histogram=usual * (CLEAR_NORM if clear else 1.0 if known else UNKNOWN_NORM),
            count_power=1.0 if clear else COUNT_POWER,
        )

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        # Without the topics of a public prior that records do not confirm, there are fewer.
        n_topics = int(self.n_components) if self.public_prior is None else -1
        return {"components": ArraySpec((n_topics, public.n_features), low=0.0)}

    def _schedule(self, public: Public, terms: Terms) -> RunSchedule | None:
        size, bins, n, n_steps, plain = self.batch_size, public.n_bins, public.n_records, self.n_steps, self._plain
        sampling, planned_size = resolve_sampling(self.sampling, self._options.relation, bins), None
        if plain and bins is None:
            # Nothing is accounted for: minibatches of 256 or n/256, and each document comes up as often as any other.
            if self.sampling is None and self._options.relation is None:
                sampling = "random_allocation"
            if size is None and sampling != "full":
                size = min(n, max(256, n // 256))
        if terms.noised and not plain:
            if n_steps is None and not public.n_features:
                return None
            case = self._case(public, terms).decided()
            n_steps, planned_size = case.n_steps, case.size
        if size is None and sampling != "full" and not (bins and sampling == "random_allocation"):
            size = planned_size or default_batch_size(n)
        sampler = make_sampler(sampling, self._options.relation, n, size, bins)
        if n_steps is None:  # two epochs without privacy
            epochs = max(DEFAULT_STEPS * 2, round(2 * n / sampler.expected_batch_size)) if plain else DEFAULT_STEPS
            n_steps = whole_epochs(sampler, epochs)
        return RunSchedule(sampler, int(n_steps), int(n_steps))

    def _case(self, public: Public, terms: Terms, schedule: RunSchedule | None = None) -> TopicCase:
        """State the settings and public numbers that decide the plan; of a schedule, its minibatches and steps."""
        n, given = public.n_records, self._options.distinct_words
        length = self.doc_length or usual_length(public.n_features)
        allocates = resolve_sampling(self.sampling, self._options.relation, public.n_bins) == "random_allocation"
        size, n_steps, sampler = n if self.sampling == "full" else self.batch_size, self.n_steps, None
        if schedule is not None:
            sampler, n_steps = schedule.sampler, schedule.horizon
            size = min(sampler.expected_batch_size, n)
        rows = 1 if public.unit == "record" else self._options.rows_per_group
        return TopicCase(
            n,
            max(public.n_features, 1),
            int(self.n_components),
            distinct_words=max(1.0, length**DIFFERENT) if given is None else given,
            clip=default_clip(self.doc_length, rows) if self.clip is None else self.clip,
            target=terms.target(n),
            size=size,
            noise_multiplier=terms.noise_multiplier,
            n_steps=n_steps,
            # If a budget decides the noise, minibatches are the same before it has and after.
            may_enlarge=size is None and terms.epsilon is not None,
            sampling="random_allocation" if allocates else "poisson",
            n_bins=public.n_bins if allocates else None,
            sampler=sampler,
        )

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        """Forecast a fit; None without noise."""
        if schedule.noise_multiplier == 0:
            return None
        if isinstance(model, PublicTopicsModel):
            noise = schedule.noise_multiplier * public.n_records / schedule.sampler.expected_batch_size
            return forecast_words(
                model._prior, public.n_records, noise / math.sqrt(0.8 * schedule.n_steps), self.doc_length
            )
        # The forecast was not fitted on a paper's sensitivity below the proven one.
        noise = schedule.noise_multiplier * model.sensitivity(schedule.sampler.relation) / model.clip
        case = replace(self._case(public, self._terms, schedule), n_steps=schedule.n_steps)
        return case.planned(noise, self._options.learning_decay).run_forecast()

    @property
    def _plain(self) -> bool:
        """Tell whether the defaults are for a fit without privacy."""
        return not self.private

    @property
    def _length(self) -> int | None:
        """Words that documents are brought to; None takes them as they are."""
        if self.doc_length is not None or self._plain:
            return self.doc_length
        # Beside public topics the records' own are no better with more words.
        return BROUGHT_TO if self.public_prior is None else DOC_LENGTH

    # ------------------------------------------------------------ read-outs

    @kept
    def _restored(self) -> LdaModel | PublicTopicsModel:
        """Restore the model as the last release left it; read-outs leave it so."""
        result = self._fitted()
        model = cast(LdaModel | PublicTopicsModel, self._as_fitted()._model(result.public))
        model.restore(result.state)
        return model

    @property
    @kept
    def found_gain_(self) -> FoundGain | None:
        """The topics' gain over the records' own word frequencies, from releases, with a 90 % interval.

        Half of a unit's words are predicted from the other half. The interval is about the noise and the choice of
        units. With a `PublicPrior` the exact frequencies' part is released; else it is estimated from the noise in the
        released ones. None without a score.
        """
        if isinstance(restored := self._restored(), PublicTopicsModel):
            return restored.found_gain
        found = super().found_gain_
        return None if found is None else over_frequencies(found, restored.frequency_loss())

    @property
    @kept
    def verdict_(self) -> Verdict:
        """The worth of the topics in words, from releases only: `found_gain_`, and how much was counted."""
        unit, restored = self._fitted().privacy.unit, self._restored()
        if isinstance(restored, PublicTopicsModel):
            return restored.verdict(unit)
        return Verdict.of_topics(self.found_gain_, unit)

    @kept
    def _clear(self) -> np.ndarray:
        """Tell which entries of ``components_`` stand clear of the noise, (K, V); all are candidates.

        Public topics share one release of words, in which each word is one candidate; a forecast counts by this rule.
        """
        found, lift = self._restored().deviations(), self.lift_
        different = len(found) if lift is None else int(np.isnan(lift).sum()) + 1
        return np.asarray(found >= clear_deviations(different * found.shape[1]))

    @property
    @kept
    def lift_(self) -> Vector | None:
        """How many times its share in public text each topic has in the records, (K,); None without a public prior.

        NaN for topics of the records' own.
        """
        return self._restored().lift

    @kept
    def _word_scores(self) -> Matrix:
        """Score a topic's words for showing, (K, V): by probability, or by how far they are above public text."""
        above = self._restored().above_public_text
        return np.asarray(self.components_ if above is None else np.exp(above[0]))  # above 0, as weights are

    @kept
    def _topic_order(self) -> tuple[np.ndarray, int]:
        """Order topics for showing; the second is the number of those that say what the records are about.

        Without a public prior the largest topic is first, and all are counted. With one it is the topic with the most
        nats above public text: its share of the words beyond its share of public text, times its nats a word. Topics
        with names for half of their first words come last. Counted are topics of the records' own and public ones that
        the records raise, without those of names.
        """
        shares, lift, above = self.components_.sum(axis=1), self.lift_, self._restored().above_public_text
        shares = shares / self.components_.sum()
        if lift is None or above is None:
            return np.argsort(-shares, kind="stable"), len(shares)
        beyond = np.where(np.isnan(lift), shares, shares - shares / np.maximum(lift, 1e-9))
        worth = np.where(beyond > 0.0, beyond * above[1], beyond)
        raised, words = ~(lift <= 1.0), column_names(self._fitted().public)
        if words is not None:
            listed = np.isin(words, list(first_names()))
            first = largest(self._word_scores(), _SHOWN)
            of_names = 2 * listed[first].sum(axis=1) >= first.shape[1]
            worth, raised = np.where(of_names, worth.min() - 1.0, worth), raised & ~of_names
        return np.argsort(-worth, kind="stable"), max(1, int(np.count_nonzero(raised)))

    def plot(self, vocabulary: Sequence[str] | None = None, n_words: int = 10, n_topics: int | None = None) -> Figure:
        """Draw the first words of topics in the order that a report has, public topics with one standard error.

        With ``n_topics`` at most so many, of those that a terminal shows. Pale bars do not stand clear of the noise.
        Raises ImportError without matplotlib; ValueError if the vocabulary has not a word for each column.
        """
        check_number("n_topics", n_topics, 1, 10**6, integer=True, optional=True)
        order, number = self._topic_order()
        shown = (order if n_topics is None else order[: min(n_topics, number)]).tolist()
        parts = self.components_, self.components_sd_, self._clear(), self._word_scores()
        return plot_topics(self, *parts, vocabulary, n_words, shown)

    @kept
    def _log_topics(self, mean: str) -> Matrix:
        """Compute E[log beta] or log E[beta], (K, V), under q(beta) of ``components_``."""
        log = np.log if mean == "arithmetic" else scipy.special.digamma
        return cast(Matrix, log(self.components_) - log(self.components_.sum(axis=1, keepdims=True)))

    @property
    @kept
    def components_sd_(self) -> Matrix:
        """Standard deviation that the noise leaves in each entry of ``components_``, float64, shape (K, V).

        A topic's sum counts as given (`vips_fast.models.lda.public_topics.PublicTopicsModel.relative_spread`). It is 0
        without noise, and NaN for topics of the records' own: with other noise other topics would have been found.
        """
        found = np.asarray(self.components_ * self._restored().relative_spread)
        found.flags.writeable = False
        return found

    def components_interval(self, level: float = 0.9) -> Array:
        """Compute central intervals of ``components_``: float64, shape (K, V, 2).

        ``level`` is in (0, 1). Divided by ``components_.sum(axis=1)`` they are intervals of the words' probabilities.
        They are lognormal, with the deviations of ``components_sd_`` (NaN where these are), and only about the noise:
        they say nothing of other documents that could have been drawn.
        """
        check_number("level", level, 0, 1, low_open=True, high_open=True)
        ends = scipy.special.ndtri(np.array([0.5 - level / 2, 0.5 + level / 2]))
        sd = np.sqrt(np.log1p(self._restored().relative_spread ** 2))[:, :, None]
        return np.asarray(self.components_[:, :, None] * np.exp(ends * sd - sd**2 / 2))

    @kept
    def _table(self, dtype: str, mean: str) -> np.ndarray:
        elog = self._log_topics(mean)
        return scaled_table(np.exp(elog - elog.max(axis=0)), np.dtype(dtype))

    @kept
    def _fitted_alpha(self) -> float | np.ndarray:
        result, model = self._fitted(), self._as_fitted()
        if self.public_prior is not None and isinstance(restored := self._restored(), PublicTopicsModel):
            return restored.alpha
        if model._plain and model._options.doc_topic_prior is None:
            # With 4/N for each topic the total would be the larger, the shorter documents are: short texts were then
            # taken for mixtures of all topics (docs/panel.md, the column without privacy).
            return proportions_prior(math.sqrt(len(self.components_)), self.components_.sum(axis=1))
        alpha, score = model._model_settings(result.public, None).alpha, result.state.get("score")
        return alpha * READ_OUTS[0 if score is None else Score.restore(score).best()]

    def _posterior(self, X: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """Return counts, gamma and log topics for unchecked documents."""
        corpus = documents(self._held(X), self.n_features_in_, expected_by=type(self).__name__)
        options = self._options
        elog, indptr = self._log_topics(options.topic_mean), corpus.indptr.astype(np.int64)
        gamma = np.empty((corpus.shape[0], elog.shape[0]))

        def block_of(first: int, last: int, worker: int) -> tuple[np.ndarray, np.ndarray]:
            part = slice(int(indptr[first]), int(indptr[last]))
            return corpus.indices[part].astype(np.int32, copy=False), corpus.data[part].astype(np.float64)

        estep_blocks(
            indptr,
            block_of,
            self._table(options.dtype, options.topic_mean),
            np.full(elog.shape[0], self._fitted_alpha(), np.float64),
            tol=_READ_OUT_TOL if options.mean_change_tol is None else min(options.mean_change_tol, _READ_OUT_TOL),
            word_tol=0.0,
            max_iter=max(int(options.max_doc_update_iter), _READ_OUT_ROUNDS),
            clip_norm=None,
            spacing=1.0,
            n_threads=resolve_n_threads(self.n_jobs),
            gamma=gamma,
        )
        return corpus, gamma, elog

    def transform(self, X: Data) -> Matrix:
        """Topic proportions of documents, float64, shape (D, K); rows sum to 1.

        X is a sparse matrix or array of counts, (D, V), taken as it is. The proportions describe X: publish them only
        if X may be published.
        """
        return cast(Matrix, to_frame(self, self._proportions(X), X))

    @by_pieces(np.concatenate)
    def _proportions(self, X: Any) -> Matrix:
        gamma = self._posterior(X)[1]
        return np.asarray(gamma / gamma.sum(axis=1, keepdims=True))

    @by_pieces(sum)
    def score(self, X: Data, y: object = None) -> float:
        """Compute the variational lower bound of log p(X), in nats, for public test documents X.

        It is the numerator of Eq. 32: the sum over documents of E[log p(n, theta, z | lambda)] - E[log q(theta, z)].
        With a ``topic_mean`` of "arithmetic" it is the bound of log p(X | E[beta]).
        """
        corpus, gamma, elog = self._posterior(X)
        alpha, n_topics = self._fitted_alpha(), elog.shape[0]
        elog_theta = scipy.special.digamma(gamma) - scipy.special.digamma(gamma.sum(axis=1, keepdims=True))
        total = 0.0
        step = max(1, 4_000_000 // n_topics)
        for first in range(0, len(corpus.indices), step):
            last = min(first + step, len(corpus.indices))
            documents = np.searchsorted(corpus.indptr, np.arange(first, last), side="right") - 1
            s = elog_theta[documents] + elog[:, corpus.indices[first:last]].T
            top = s.max(axis=1)
            total += float(corpus.data[first:last] @ (top + np.log(np.exp(s - top[:, None]).sum(axis=1))))
        total += float(
            ((alpha - gamma) * elog_theta + scipy.special.gammaln(gamma) - scipy.special.gammaln(alpha)).sum()
        )
        whole = n_topics * alpha if isinstance(alpha, float) else alpha.sum()
        total += float((scipy.special.gammaln(whole) - scipy.special.gammaln(gamma.sum(axis=1))).sum())
        return total

    def perplexity(self, X: Data) -> float:
        """Bound the perplexity a word of public test documents, from above (Eq. 32; Hoffman et al. 2010)."""
        return math.exp(-self.score(X) / max(1, self._n_words(X)))

    @by_pieces(sum)
    def _n_words(self, X: Any) -> int:
        return int(documents(X, expected_by=type(self).__name__).data.sum(dtype=np.int64))


def plan(
    n_records: int,
    n_features: int | None,
    n_components: int | None,
    *,
    unit: str = "record",
    n_bins: int | None = None,
    vocab_share: float | None = None,
    **parameters: Any,
) -> Plan:
    """Plan a private topic model, with forecast, from public numbers only.

    ``n_records`` and ``n_features`` are the documents (or persons, with another ``unit``) and the words of the data to
    come. With an n_features of None, `PrivateVocabulary` purchases the words from the same budget, and they are as many
    as are expected. With an n_components of None there are as many topics as are worthwhile, from 5 to 50, chosen
    together with purchased words. ``n_bins`` are the bins that shards were written in, and ``vocab_share`` is the share
    of epsilon of a vocabulary; None for half. Without a target and a noise multiplier it is for epsilon = 1.
    Further ``parameters`` are those of `LatentDirichletAllocation` that are fixed already. Raises ValueError if a
    number is out of its range.

    Examples
    --------
    >>> from vips_fast import LatentDirichletAllocation, plan
    >>> planned = plan(400_000, 7_702, 50, epsilon=1.0)
    >>> planned.n_steps, planned.batch_size, planned.hopeless
    (30, 200000, False)
    >>> print(planned.forecast())
    forecast: ...
    >>> model = LatentDirichletAllocation(50, epsilon=1.0, **planned.parameters())

    How many topics are worth while, at a small epsilon:

    >>> plan(100_000, 7_702, None, doc_length=100, epsilon=0.3).n_components
    13
    """
    own = LatentDirichletAllocation(MOST_TOPICS if n_components is None else n_components, **parameters)
    own._check_parameters()
    check_number("n_records", n_records, 1, 2**31 if n_features is None else 2**53, integer=True)
    check_number("n_features", n_features, 1, 2**53, integer=True, optional=True)
    check_number("vocab_share", vocab_share, 0, 1, low_open=True, optional=True)
    if n_features is not None and vocab_share is not None:
        raise ValueError(f"vocab_share={vocab_share!r}: expected None with a number of words")
    case = own._case(Public(int(n_features or 0), int(n_records), seed=0, unit=unit, n_bins=n_bins), own._terms)
    if n_features is None:
        case = case.purchase(vocab_share, n_components)
    elif n_components is None:
        some = replace(case, n_steps=case.n_steps or DEFAULT_STEPS).decided()
        case = replace(case, n_components=some.worthwhile_topics(some.calibrated()))
    case = case.decided()
    return case.planned(case.calibrated(), own._options.learning_decay)
