"""A public prior for data of any number of columns. The module also has documents that the prior fits."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from vips_fast import LatentDirichletAllocation, PublicPrior
from vips_fast.engine.model import Release
from vips_fast.models.estimator import ArraySpec
from vips_fast.models.lda.public_topics import LENGTHS, SCORE, TOPICS, WORDS, PublicTopicsModel
from vips_fast.models.lda.records import unit_words


def prior_of(n_words, n_topics=4, seed=0, shuffled=False):
    """Topics of words in turn. Word v is four times as frequent in topic v mod K."""
    ratios = np.ones((n_topics, n_words))
    ratios[np.arange(n_words) % n_topics, np.arange(n_words)] = 30.0
    if shuffled:
        ratios = ratios[:, np.random.default_rng(seed).permutation(n_words)]
    frequencies = 1.0 / (3.0 + np.arange(n_words))
    return PublicPrior([f"w{v}" for v in range(n_words)], ratios, np.ones(n_topics), frequencies, "a test")


def documents(n, n_words, n_topics=4, length=40, seed=1):
    """Documents of one or two of the prior's topics each."""
    rng = np.random.default_rng(seed)
    topics = prior_of(n_words, n_topics).topics()
    shares = rng.dirichlet(np.full(n_topics, 0.2), n)
    return sp.csr_array(np.array([rng.multinomial(length, share @ topics) for share in shares], dtype=np.int32))


class Prior(LatentDirichletAllocation):
    """A topic model that makes its public prior for given columns."""

    def _prior(self, n_words):
        return prior_of(max(n_words, 16), int(self.n_components)) if n_words >= 16 else None


class WithOwn(PublicTopicsModel):
    """Public topics that topics of the records' own stand beside, however few records there are."""

    def _affordable_topics(self):
        return 3


class OwnPrior(Prior):
    """A topic model with a public prior, and topics of its own."""

    kind = WithOwn

    def _array_specs(self, public):
        return {"components": ArraySpec((-1, public.n_features), low=0.0)}

    def _model(self, public, schedule=None):
        model = super()._model(public, schedule)
        if not isinstance(model, PublicTopicsModel):
            return model
        settings, public, prior = model._settings, model._public, model._prior
        return self.kind(settings, public, prior, model._n_steps, model._given_length)


class TwoScores(WithOwn):
    """Two steps of score, a public number."""

    def _score_plan(self):
        return 2, False


class Fixed(OwnPrior):
    """A run of so many scores as public numbers say."""

    kind = TwoScores


class ScoresByRecords(WithOwn):
    """As many steps of score as the records say, by words that no release has."""

    _words = 0

    def contribute(self, block, words, out, scratch):
        type(self)._words += int(unit_words(block, words, self.n_words).counts.sum())
        super().contribute(block, words, out, scratch)

    def _score_plan(self):
        return (2 if self._words else 1), False

    def _begin(self):
        self._plan_score()
        super()._begin()


class Peeking(OwnPrior):
    """A run of so many scores as the records say."""

    kind = ScoresByRecords


class Begun(PublicTopicsModel):
    """A run whose first step is of the kind ``first``: what comes before it is made up, and public."""

    first = LENGTHS

    def __init__(self, settings, public, prior, total_steps, *more):
        super().__init__(settings, public, prior, 20, *more)
        self._go_to_first()

    def prepare(self, mechanism, sampler):
        super().prepare(mechanism, sampler)
        self._go_to_first()

    def _affordable_topics(self):
        return 3 if self.first == TOPICS else 0

    def _go_to_first(self):
        while self.kind != self.first:
            units = np.zeros(self.shape, np.int64)
            units.reshape(-1)[3:6] = 10**6
            if self.kind != LENGTHS:
                units.reshape(-1)[::2] = 1000
            self.update(Release(self._done, units, 1e-3, 1e-3))


class Lengths(OwnPrior):
    """A run of lengths, of documents that have no word outside the vocabulary, or hardly any other."""

    kind = Begun

    def _read(self, X, y=None):
        corpus, facts = super()._read(X, y)
        if corpus._shards is None:
            counts, _, starts = corpus._parts
            sums = np.diff(np.concatenate(([0], np.cumsum(counts)))[starts])
            corpus.outside = 10**6 * (sums % 2)
        return corpus, facts

    def _prior(self, n_words):
        known = super()._prior(n_words)
        if known is None:
            return None
        # Some words are so rare that nobody should have them.
        frequencies = known.frequencies * np.where(np.arange(len(known.words)) % 4 == 1, 1e-8, 1.0)
        return PublicPrior(known.words, known.ratios, known.weights, frequencies, "a test")


class Words(Lengths):
    """A run of histograms of words."""

    kind = type("BegunWords", (Begun,), {"first": WORDS})


class Topics(Lengths):
    """A run of topics of the records' own."""

    kind = type("BegunTopics", (Begun,), {"first": TOPICS})


class Scores(Lengths):
    """A run of scores."""

    kind = type("BegunScore", (Begun,), {"first": SCORE})


class Compares(Lengths):
    """A run of scores that only compare priors."""

    kind = type("BegunComparing", (Begun,), {"first": SCORE, "_score_plan": lambda self: (1, True)})


class Counting(LatentDirichletAllocation):
    """A topic model whose first step releases a histogram. The histogram counts words, however few steps there are."""

    def _model_settings(self, public, schedule):
        settings = super()._model_settings(public, schedule)
        noised = schedule is not None and schedule.whole and schedule.noise_multiplier > 0
        return replace(settings, histograms=1) if noised else settings
