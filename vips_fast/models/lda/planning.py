"""Plan a private topic model from public numbers only.

Nothing here looks at a document, so following the plan costs no privacy. The rules were fitted once, on simulated
corpora of Wikipedia articles; their reasons:

- *Batch.* With the accountant of Poisson sampling, the noise in the average of T steps grows little while q = S/n >=
  1/4 (for 1/4 in place of 1 it is 2 % at epsilon = 0.3, and 15 % at 2), and the work falls with q. So S = n/4, but at
  least 100,000. If the statistics do not stand clear of the noise, half of the documents in each of 30 steps are 1 %
  better.
- *Steps.* At such a q the noise in the average hardly depends on T, and the work grows with it. If the statistics stand
  well above the noise, the topics still gain while each document is used some 15 times, in 40 to 60 steps; else 20 are
  enough. How far they stand above it depends on a document's distinct words, not on its length.
- *Clip.* A document of m distinct words, all equally often and all of one topic, has a contribution of norm N/sqrt(m).
  Clipping at 0.48 of that for an m of N^0.85 takes half off the noise. It loses little signal, because no word may take
  more than 0.3 of the clip. A person's documents share topics and words: 1.4 times a document's clip is best or near it
  for 2.3 posts and for 8 sections a person.
- *Step size.* rho_t = (1 + t)^-kappa. If the statistics stand well above the noise, kappa = 0.5 forgets the first
  topics faster. Else 0.7 averages more noise away.
- *Topics.* Where the noise is large fewer are better: about twice the signal x (below), and at most 50, as more were
  not tried. Sections of articles at x = 8, 23 and 42 were best with 20, 20 and 50.
- *Words.* A purchased vocabulary takes the number of words with which most tokens stand clear of the noise
  (`vips_fast.models.vocabulary.planning`).

The forecast is what public numbers say for certain: how many words of a topic can stand clear of the noise. Let s be
the noise of an entry of the averaged sums, in units of a document's clip. The sum of n documents for a mean word is x =
n min(sqrt(m), 1/a) / (V s) times that: a clip of a N leaves min(1, a sqrt(m)) of a document's N words, if m are
distinct. By Zipf's law the v-th commonest of V words has a share of 1/(v H), H = ln V + 0.58. In one of K topics its
sum stands two standard deviations above the noise if v <= x V / (2 H K).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypedDict

from ...accounting import ComposedEvent, calibrate_noise_multiplier
from ...accounting.calibration import Target
from ...checks import check_choice, check_flag, check_number
from ...engine.model import Schedule, averaged_variance
from ...engine.plan import RunForecast
from ...engine.sampling import Sampler, make_sampler, n_events, run_event
from ...store.words import counted
from ..forecast import HopelessWarning, factor
from ..parameters import Options
from ..vocabulary.planning import VocabularyPlan, plan_vocabulary

#: Least (expected) minibatch, its share of the records; that share, and the steps, if statistics do not stand clear.
_LEAST_BATCH, _BATCH_SHARE, _NOISY_SHARE, _NOISY_STEPS = 100_000, 0.25, 0.5, 30
#: Steps of a fit that does not say; if statistics are clear at kappa = 0.7, within bounds as many as use a record 15
#: times.
DEFAULT_STEPS, _MORE_STEPS, _MOST_STEPS, _USES = 20, 40, 60, 15
#: Words of a usual document, those that a document is brought to, and the longest that the clip suits, if nobody says.
#: Topics of documents that are brought to more words are sharper: in 14 cells of ten corpora 80 words are .8 % better
#: than 40 on average (-3.6 to +1.8 %), and 160 are .7 % (-6.2 to +4.0 %). Leaving out any corpus with a large effect
#: leaves 80 the best.
DOC_LENGTH, BROUGHT_TO, _LONG = 40, 80, 200
#: The longest document whose words decide the prior of its proportions, and the prior's weight in words.
_SHORT, _PRIOR_WORDS = 10, 4.0
#: The priors of new documents' proportions that the score of a private fit compares, over the fit's: noise makes topics
#: more alike than they are, and a document of one seems to be of several. On 23 cells of 11 corpora with 5 to 50 topics
#: the best of the three was within 1.3 % of the best prior, and a bound of perplexity needs the fit's own.
READ_OUTS = (1.0, 4.0, 16.0)
#: The clip of a document over N^0.425; that of a person's documents over it; the share that one word may take.
_CLIP, _PERSON, WORD_CLIP = 0.48, 1.4, 0.3
#: Contributions are scaled by this power of the words' shares.
WORD_SCALE = 0.25
#: The signal of a topic from which on it stands clear of the noise: for kappa = 0.5, and for more steps.
CLEAR = 2.4
#: Share of the steps that release histograms of words, and the share if noise hides masses; the least such noise in
#: nats; fewest steps of a run that has some; and the signal that needs only one, larger where topics stand clear, as
#: histograms then have a larger norm and more noise.
_COUNTED, _COUNTED_NOISY, _NOISY_MASSES, _LEAST_STEPS, _ENOUGH, _ENOUGH_CLEAR = 0.15, 0.25, 0.12, 10, 35.0, 100.0
#: Share of the steps whose topics enter the next E-step softly.
_SOFT = 0.2
#: Topics for each unit of the signal, if they are left to the plan; the fewest and the most of them. The last is the
#: words from which on there are that many: posts over 500 words were best with 5 to 20, where 2 x is 26 to 100.
_TOPICS, _FEWEST, MOST_TOPICS, _USUAL_WORDS = 2.0, 5, 50, 3000
#: Below this noise multiplier no target is met, and epsilon takes long to compute.
_LEAST_NOISE = 1e-3
#: Different words of a text of N words, as a power of N; fewest and most words of a vocabulary that is purchased.
DIFFERENT, _LEAST_WORDS, _MOST_WORDS = 0.9, 50, 50_000
#: A purchase of fewer words is refused; a topic with fewer clear words is noise, or hard to name.
FEW_WORDS, HOPELESS, _NAMED_WORDS = 10, 5.0, 10.0


@dataclass(frozen=True)
class LdaOptions(Options):
    """Settings of `LatentDirichletAllocation` that few users need to touch.

    Attributes
    ----------
    learning_decay, learning_offset : float
        κ and τ₀ of the step size (τ₀ + t)^−κ, t = 0, 1, …. A decay of None is chosen by `vips_fast.plan`, and is 0.5
        without privacy; an offset of 1 forgets the initial topics at once.
    length_method : {"scale", "resample"}
        How a document is brought to N words: "scale" multiplies its counts by N over their sum, which gives smaller
        norms. "resample" draws N words from its own bag with replacement, anew at each visit (section 4.2).
    word_clip : float
        A bound, as a share in (0, 1] of the clip, for one word's part of a unit's contribution, so that no word takes
        the share of all others; 1 is no bound.
    word_scale : float
        b in [0, 0.5]: contributions and noise are scaled by this power of the words' shares, and by the root of topics'
        shares of a word (`vips_fast.models.lda.model.entry_scales`); 0 gives entries the same noise.
    topic_mean : {"arithmetic", "geometric"}
        What stands for a topic's word probabilities in the E-step and in the read-outs: exp(E[log β]), which the bound
        asks for (Hoffman et al. 2010, Eq. 5), or E[β], as in variational EM (Blei et al. 2003). Rare words weigh less
        in the former, which costs perplexity where λ is small (Asuncion et al. 2009), and which has no collapsed
        updates. Read-outs follow `set_params` after a fit.
    distinct_words : float or None
        Distinct words of a usual document (or of all that a person wrote), public, for the plan and its forecast. None
        is ``doc_length ** 0.9``.
    dtype : {"float32", "float64"}
        Precision of the E-step.
    max_doc_update_iter : int
        Most E-step rounds for a document, each an evaluation of φ; at least 100 in read-outs. Collapsed updates are two
        rounds, whatever this and the next are.
    mean_change_tol : float or None
        The E-step of a document stops when mean |change of γ| is below this; 0 runs a fixed number of rounds. None is
        0.1 in fits without privacy. Else it stops when the sum of the changes is below 1 % of the document's words.
        Read-outs stop at 0.001, or at this if it is less.
    doc_topic_prior : float or None
        Dirichlet prior α of a document's topic proportions. None is 1/K in the fit (at least 4/N if N is at most 10).
        In the read-outs of a private fit it is that, or 4 or 16 times that if the score of its last step shows it to
        be better. Without privacy it goes by the topics' weights, with a total of the root of K.
    topic_word_prior : float or None
        Dirichlet prior η of a topic's word probabilities; None is 1/K.
    measure_gain : bool or None
        Whether the last step of a private `fit` measures the finished topics in place of improving them, for
        ``found_gain_``. It costs no epsilon, and 2.6 % more noise at 20 steps. None measures runs of at least 10 steps.
        A run with a `PublicPrior` has scores of its own, which this does not turn off.
    """

    learning_decay: float | None = None
    learning_offset: float = 1.0
    length_method: Literal["scale", "resample"] = "scale"
    word_clip: float = WORD_CLIP
    word_scale: float = WORD_SCALE
    topic_mean: Literal["arithmetic", "geometric"] = "arithmetic"
    distinct_words: float | None = None
    dtype: Literal["float32", "float64"] = "float32"
    max_doc_update_iter: int = 100
    mean_change_tol: float | None = None
    doc_topic_prior: float | None = None
    topic_word_prior: float | None = None
    measure_gain: bool | None = None

    def check(self) -> None:
        """Raise a ValueError for a number out of its range."""
        check_number("learning_decay", self.learning_decay, 0, 1, optional=True)
        check_number("learning_offset", self.learning_offset, 0, 1e9)
        check_choice("length_method", self.length_method, ("scale", "resample"))
        check_number("word_clip", self.word_clip, 0, 1, low_open=True)
        check_number("word_scale", self.word_scale, 0, 0.5)
        check_choice("topic_mean", self.topic_mean, ("arithmetic", "geometric"))
        check_number("distinct_words", self.distinct_words, 1, 2**31 - 1, optional=True)
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_number("max_doc_update_iter", self.max_doc_update_iter, 0, 2**31 - 1, integer=True)
        check_number("mean_change_tol", self.mean_change_tol, 0, math.inf, high_open=True, optional=True)
        check_flag("measure_gain", self.measure_gain, optional=True)
        check_number("doc_topic_prior", self.doc_topic_prior, 1e-30, 1e6, optional=True)
        check_number("topic_word_prior", self.topic_word_prior, 0, 1e6, low_open=True, optional=True)


class PlanParameters(TypedDict):
    """Parameters of `LatentDirichletAllocation` that a plan sets."""

    batch_size: float
    n_steps: int
    clip: float
    options: LdaOptions


@dataclass(frozen=True)
class Plan:
    """Settings for `LatentDirichletAllocation`, and what they promise.

    ``batch_size``, ``n_steps``, ``clip`` and ``learning_decay`` are the estimator's, and ``noise_multiplier`` is what
    the calibration will give. ``signal_to_noise`` is the mean mass of a word in a topic, after the clip, over the
    standard deviation of the noise in the final statistics. By Zipf's law ``readable_words`` of a topic can stand clear
    of the noise, and ``told`` is the share of a document's words that can, without the number of topics. The plan is
    for ``distinct_words`` of a document, ``n_components`` topics and ``n_features`` words, which ``vocabulary``
    purchases unless it is None.

    Examples
    --------
    >>> from vips_fast import Plan, plan
    >>> planned: Plan = plan(500, 7_702, 50, epsilon=0.1)
    >>> planned.hopeless, sorted(planned.parameters())
    (True, ['batch_size', 'clip', 'n_steps', 'options'])
    >>> print(planned.forecast())
    forecast: mostly noise; no word of a topic can stand clear of it, of 7,702. What helps: ...
    """

    batch_size: float
    n_steps: int
    clip: float
    learning_decay: float
    noise_multiplier: float
    signal_to_noise: float
    readable_words: float
    told: float
    distinct_words: float
    n_components: int
    n_features: int
    vocabulary: VocabularyPlan | None = None

    def parameters(self) -> PlanParameters:
        """Keyword arguments for the estimator."""
        options = LdaOptions(learning_decay=self.learning_decay, distinct_words=self.distinct_words)
        return {"batch_size": self.batch_size, "n_steps": self.n_steps, "clip": self.clip, "options": options}

    @property
    def hopeless(self) -> bool:
        """Tell if topics or a purchase can have next to no words."""
        few = self.vocabulary is not None and self.vocabulary.words < FEW_WORDS
        return few or self.readable_words < min(HOPELESS, self.n_features)

    def forecast(self) -> str:
        """Say in one line how many words can stand clear of the noise, and what helps if they are few."""
        bought = self.vocabulary
        if bought is not None and bought.words < FEW_WORDS:
            said = f"about {bought.words:.0f} words can be purchased, too few for topics"
        else:
            number = float(f"{self.readable_words:.2g}")
            words = counted(number, "word", ",.0f") if number >= 0.5 else "no word"
            of = f"{self.n_features:,}" if bought is None else f"about {self.n_features} purchased ones"
            if self.readable_words >= min(_NAMED_WORDS, self.n_features):
                return f"forecast: {words} of a topic can stand clear of the noise, of {of}"
            head, noise = ("mostly noise; ", "it") if self.hopeless else ("", "the noise")
            said = f"{head}{words} of a topic can stand clear of {noise}, of {of}"
        if bought is not None:
            public = "a public prior (public_prior=), or a public vocabulary (vocab=)"
            return f"forecast: {said}. What helps: {public}; more persons; rows as the unit; more epsilon"
        times = factor(_NAMED_WORDS / self.readable_words) if self.readable_words else "many"
        return (
            f"forecast: {said}. What helps: {times} times the records or the epsilon have ten words of each topic; "
            "fewer topics; topics of public documents as a prior"
        )

    def run_forecast(self) -> RunForecast:
        """Give the `forecast` with its share and its warning."""
        return RunForecast(self.told, self.forecast(), HopelessWarning if self.hopeless else None)


def default_batch_size(n_records: int, share: float = _BATCH_SHARE) -> int:
    """Choose n/4 of n documents: at least 100,000, at most all."""
    return min(n_records, max(_LEAST_BATCH, math.ceil(share * n_records)))


def whole_epochs(sampler: Sampler, n_steps: int) -> int:
    """Find the least number of steps that fills epochs, from n_steps."""
    return math.ceil(n_steps / sampler.n_batches) * sampler.n_batches


def default_clip(doc_length: int | None, rows_per_group: int | None = 1) -> float:
    """Choose the clip: 0.48 N^-0.425 for one document, at most 1; up to 1.4 times that for a person with several.

    Without a length it is that for 200 words: a small clip does not cost short documents, and a large one does long
    ones.
    """
    rows = math.inf if rows_per_group is None else rows_per_group
    return float(min(1.0, _CLIP * (doc_length or _LONG) ** -0.425) * min(_PERSON, rows**0.25))


def usual_length(n_features: int) -> float:
    """Estimate a usual document's number of common words: 8 to 40.

    They are among V common ones, by the law of `vips_fast.models.vocabulary.planning`: posts have 7, 14 and 20 of the
    500, 2,000 and 5,000 commonest words. A V of 0 stands for words that are yet to be purchased: all.
    """
    if not n_features:
        return float(DOC_LENGTH)
    told, all_told = 1 - (n_features / 300 + 1) ** -0.25, 1 - (10**6 / 300 + 1) ** -0.25
    return DOC_LENGTH * float(min(1.0, max(0.2, told / all_told)))


def fitting_prior(doc_length: int | None, n_topics: int) -> float:
    """Choose the Dirichlet prior α of proportions in a fit: 1/K.

    Documents of N <= 10 words tell too little of their topics to keep these apart, so it is at least 4/N for them, at
    most 2. In four of five cells with 5 to 17 topics the perplexity was 1 to 6 % lower, in one 1 % higher.
    """
    usual = 1.0 / n_topics
    return usual if doc_length is None or doc_length > _SHORT else max(usual, min(_PRIOR_WORDS / doc_length, 2.0))


def histogram_steps(n_steps: int, n_topics: int, signal: float) -> int:
    """Choose how many first steps release a histogram of words.

    Short runs have none. A longer one has at least one: topics' sums are of documents that were brought to one length,
    so they do not have the masses of words. At the signal x, masses lose about K / (4 x^2) nats a word by the noise of
    K topics. From `_NOISY_MASSES` nats on, a quarter of the steps are histograms, below it 15 %. With h of them word
    frequencies lose about 40 / (h x^2) nats. It takes no more than bring that to 0.033: each further one costs topics
    more than it saves. 97,750 sections at epsilon = 2 had a perplexity 0.7 % lower with one than with three.
    """
    if n_steps < _LEAST_STEPS:
        return 0
    share = _COUNTED_NOISY if n_topics > 4.0 * _NOISY_MASSES * signal**2 else _COUNTED
    enough = _ENOUGH_CLEAR if signal >= CLEAR * n_topics else _ENOUGH
    return min(round(share * n_steps), math.ceil((enough / max(signal, 1.0)) ** 2))


def soft_steps(n_steps: int) -> int:
    """Choose how many first steps of topics are softened (`vips_fast.models.lda.model.LdaModel`): a fifth.

    On sections of articles (K = 50, epsilon = 2) four of 20 steps predict about 2 % better than none, two .7 %, and
    three, five or six 1.2 to 2 %. The power 3/4 of shares in place of 1/2 is level.
    """
    return int(_SOFT * n_steps)


def _harmonic(n: float) -> float:
    """Sum 1/v up to v = n, for any n >= 0."""
    return math.log(n) + 0.58 if n > 1 else 0.58 * n


def clear_words(signal: float, n_features: int) -> float:
    """Count the words that stand two standard deviations clear of the noise, by Zipf's law."""
    return min(signal * n_features / (2 * _harmonic(n_features)), n_features)


@dataclass(frozen=True)
class TopicCase:
    """Settings and public numbers that decide the plan of a topic model.

    ``size``, the records of a minibatch, and ``n_steps`` are None for the default, which `decided` finds, with the
    ``sampler``; all else needs the three. ``may_enlarge`` says whether half of the records may be taken in each step if
    the statistics are noisy.
    """

    n_records: int
    n_features: int
    n_components: int
    distinct_words: float
    clip: float
    target: Target
    size: float | None = None
    noise_multiplier: float | None = None
    n_steps: int | None = None
    may_enlarge: bool = False
    sampling: str = "poisson"
    n_bins: int | None = None
    vocabulary: VocabularyPlan | None = None
    sampler: Sampler | None = None

    def decided(self) -> TopicCase:
        """Choose minibatches and steps, by whether the statistics stand clear of the noise.

        They do if the noise where they just do meets the target: one value of epsilon, and no calibration.
        """
        n, size = self.n_records, self.size
        if size is None:
            size = n / self.n_bins if self.n_bins else default_batch_size(n)
        sampler = make_sampler(self.sampling, None, n, size, n_bins=self.n_bins)
        case = replace(self, size=size, sampler=sampler)
        if self.n_steps is not None:
            return case
        steps = min(max(_MORE_STEPS, math.ceil(_USES * n / sampler.expected_batch_size)), _MOST_STEPS)
        longer = replace(case, n_steps=whole_epochs(sampler, steps))
        least = longer.signal(1.0, 0.7)[0] / (CLEAR * self.n_components)
        if self.noise_multiplier is not None:
            clear = self.noise_multiplier <= least
        elif least < _LEAST_NOISE:
            clear = False
        else:
            purchase = () if self.vocabulary is None else (self.vocabulary.event,)
            topics = run_event(sampler, least, longer.n_steps or 1)
            clear = self.target.spent(ComposedEvent((*purchase, topics))) <= self.target.epsilon
        if clear:
            return longer
        larger = default_batch_size(n, _NOISY_SHARE)
        if self.may_enlarge and self.noise_multiplier is None and self.sampling == "poisson" and larger > size:
            # With the noise given, a larger minibatch would change epsilon.
            return replace(self, size=larger, n_steps=_NOISY_STEPS).decided()
        return replace(case, n_steps=whole_epochs(sampler, DEFAULT_STEPS))

    def calibrated(self) -> float:
        """Calibrate the noise multiplier."""
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        assert self.sampler is not None
        before = None if self.vocabulary is None else self.vocabulary.event
        count, target = n_events(self.sampler, range(self.n_steps or 1)), self.target
        return calibrate_noise_multiplier(self.sampler.event, target.epsilon, target.delta, count=count, before=before)

    def signal(self, noise_multiplier: float, decay: float | None) -> tuple[float, float]:
        """Compute x, the sum of all documents for a mean word over the noise of one entry; and kappa, if not given."""
        assert self.sampler is not None
        share = min(self.sampler.expected_batch_size / self.n_records, 1.0)
        kept = min(math.sqrt(min(self.distinct_words, self.n_features)), 1 / self.clip)
        for kappa in (0.5, 0.7) if decay is None else (float(decay),):
            noise = noise_multiplier / share * math.sqrt(averaged_variance(Schedule(1.0, kappa), self.n_steps or 1))
            signal = self.n_records * kept / (self.n_features * noise) if noise > 0 else math.inf
            if signal >= CLEAR * self.n_components:
                break
        return signal, kappa

    def planned(self, noise_multiplier: float, decay: float | None) -> Plan:
        """Make the plan with this noise; None chooses the step size."""
        assert self.size is not None and self.n_steps is not None
        (signal, decay), K, V = self.signal(noise_multiplier, decay), self.n_components, self.n_features
        clear, told = clear_words(signal / K, V), _harmonic(clear_words(signal, V)) / _harmonic(V)
        run = self.size, self.n_steps, self.clip, decay, noise_multiplier
        return Plan(*run, signal / K, clear, told, self.distinct_words, K, V, self.vocabulary)

    def purchase(self, share: float | None, topics: int | None) -> TopicCase:
        """Choose words to purchase, their epsilon and the topics' number: most tokens then stand clear of the noise."""
        best, most = (-math.inf, self), _LEAST_WORDS
        while most <= _MOST_WORDS:
            vocabulary = plan_vocabulary(
                self.n_records,
                self.target.epsilon,
                self.target.delta,
                tokens=self.distinct_words,
                share=share,
                max_features=most,
            )
            held = max(1.0, self.distinct_words * vocabulary.token_share)
            words = max(1, round(vocabulary.words))
            case = replace(self, n_features=words, distinct_words=held, may_enlarge=False).decided()
            z = case.calibrated() * vocabulary.extra_noise
            case = replace(case, n_components=topics or case.worthwhile_topics(z))
            if (worth := case.planned(z, None).told * vocabulary.token_share) > best[0]:
                chosen = replace(self, n_features=words, distinct_words=held, n_components=case.n_components)
                best = worth, replace(chosen, vocabulary=vocabulary)
            if vocabulary.words < 0.8 * most:
                break  # there are no more
            most *= 2
        return best[1]

    def worthwhile_topics(self, noise_multiplier: float) -> int:
        """Choose the number of topics for the signal with this noise."""
        number = _TOPICS * self.signal(noise_multiplier, 0.7)[0] * min(1.0, math.sqrt(self.n_features / _USUAL_WORDS))
        return round(min(max(number, _FEWEST), MOST_TOPICS))
