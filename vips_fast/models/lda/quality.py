"""Read-outs of topics: gain, coherence, diversity, intrusion, pictures."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from ...data.corpus import Corpus
from ...data.counts import documents
from ...data.types import Data, Matrix, Vector
from ...data.vocabulary import first_names
from ...engine.gain import FoundGain
from ..inputs import column_names
from ..plots import plot_topics
from ..readouts import Transformer, by_pieces, kept
from ..several import clear_deviations
from ..verdict import Verdict
from .coherence import coherence, topic_diversity, warn_of_documents, word_intrusion
from .model import LdaModel
from .public_topics import PublicTopicsModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: First words by which a topic of names is known.
_SHOWN = 10
#: How far the loss of a run's word frequencies may be from its estimate by the noise: a share of it, and nats.
_LOSS_SPREAD, _LOSS_MISS = 0.4, 0.04


class PyLdaVis(TypedDict):
    """Keywords of ``pyLDAvis.prepare``."""

    topic_term_dists: Matrix
    doc_topic_dists: Matrix
    doc_lengths: Vector
    vocab: list[str]
    term_frequency: Vector


def over_frequencies(found: FoundGain, loss: float) -> FoundGain:
    """Convert a gain over a run's own word frequencies to the records'.

    ``loss`` is the nats a word that exact frequencies would save, by the noise in the released ones.
    """

    def less(gain: float, nats: float) -> float:
        return max(1 - (1 - gain) * math.exp(min(nats, 9.0)), -1.0)

    spread = _LOSS_SPREAD * loss + _LOSS_MISS
    return FoundGain(less(found.gain, loss), less(found.low, loss + spread), less(found.high, loss - spread))


class TopicQuality(Transformer):
    """Read-outs of ``components_`` and of public documents."""

    @property
    @abstractmethod
    def components_sd_(self) -> Matrix:
        """Standard deviation that the noise leaves in each entry of ``components_``."""

    @abstractmethod
    def _proportions(self, X: Any) -> Matrix:
        """Topic proportions of documents."""

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
        units. With a `PublicPrior` the exact frequencies' part is released
        (`vips_fast.models.lda.public_topics.frequency_gain`); without one it is estimated from the noise in the
        released frequencies. None without a score.
        """
        restored = self._restored()
        if isinstance(restored, PublicTopicsModel):
            return restored.found_gain
        found = super().found_gain_
        return None if found is None else over_frequencies(found, restored.frequency_loss())

    @property
    @kept
    def verdict_(self) -> Verdict:
        """The worth of the topics in words, from releases only: `found_gain_`, and how much was counted."""
        unit, restored = self._fitted().privacy.unit, self._restored()
        if isinstance(restored, PublicTopicsModel):
            shares = restored.empty, restored.outside
            return Verdict.of_topics(
                self.found_gain_, unit, *shares, hidden=restored.hides_gain, unlike=restored.unlike_public_text
            )
        return Verdict.of_topics(self.found_gain_, unit)

    @kept
    def _clear(self) -> np.ndarray:
        """Tell which entries of ``components_`` stand clear of the noise, (K, V).

        All entries are candidates: the first words of a topic were chosen by the noise, too. Public topics share one
        release of words, in which each word is one candidate; a forecast counts by the same rule.
        """
        restored = self._restored()
        found = restored.deviations()
        lift = self._lifts()[0]
        different = len(found) if lift is None else int(np.isnan(lift).sum()) + 1
        return np.asarray(found >= clear_deviations(different * found.shape[1]))

    @property
    def lift_(self) -> Vector | None:
        """How many times its share in public text each topic has in the records, (K,); None without a public prior.

        NaN for topics of the records' own.
        """
        return self._lifts()[0]

    @property
    def word_lift_(self) -> Vector | None:
        """How many times as often as in the fitted mixture of public topics the records use each word, (V,)."""
        return self._lifts()[1]

    @kept
    def _lifts(self) -> tuple[Vector | None, Vector | None]:
        restored = self._restored()
        if not isinstance(restored, PublicTopicsModel):
            return None, None
        shares, public = restored.public_part
        with np.errstate(invalid="ignore"):
            lift = np.where(public > 0.0, shares / shares.sum() / public, np.nan)
        return lift, restored.read_out.masses / restored.read_out.mixture

    @kept
    def _word_scores(self) -> Matrix:
        """Score a topic's words for showing, (K, V): by probability, or by how far they are above public text."""
        restored = self._restored()
        if not isinstance(restored, PublicTopicsModel):
            return np.asarray(self.components_)
        return np.asarray(np.exp(restored.above_public_text[0]))  # above 0, as weights are

    @kept
    def _topic_order(self) -> tuple[np.ndarray, int]:
        """Order topics for showing; the second is the number of those that say what the records are about.

        Without a public prior the largest topic is first, and all are counted. With one it is the topic with the most
        nats above public text: its share of the words beyond its share of public text, times its nats a word
        (`PublicTopicsModel.above_public_text`). Topics whose first words are names, half of `_SHOWN` or more, come
        last. Counted are topics of the records' own and public ones that the records raise, without those of names.
        """
        shares, (lift, _) = self.components_.sum(axis=1) / self.components_.sum(), self._lifts()
        restored = self._restored()
        if lift is None or not isinstance(restored, PublicTopicsModel):
            return np.argsort(-shares, kind="stable"), len(shares)
        beyond = np.where(np.isnan(lift), shares, shares - shares / np.maximum(lift, 1e-9))
        worth = np.where(beyond > 0.0, beyond * restored.above_public_text[1], beyond)
        raised, words = ~(lift <= 1.0), column_names(self._fitted().public)
        if words is not None:
            listed = np.isin(words, list(first_names()))
            first = np.argsort(-self._word_scores(), axis=1, kind="stable")[:, :_SHOWN]
            of_names = 2 * listed[first].sum(axis=1) >= first.shape[1]
            worth, raised = np.where(of_names, worth.min() - 1.0, worth), raised & ~of_names
        return np.argsort(-worth, kind="stable"), max(1, int(np.count_nonzero(raised)))

    def _stated_errors(self) -> Matrix:
        """Give ``components_sd_``, but NaN for topics that other noise would not have found.

        They are all topics of the records' own. There ``components_sd_`` is only about the noise of the last releases:
        equal fits lie some eight times as far apart (docs/topics.md).
        """
        lift = self._lifts()[0]
        return np.where(np.isnan(lift)[:, None] if lift is not None else True, np.nan, self.components_sd_)

    def coherence(
        self,
        X_public: Data | Corpus | Iterable[Sequence[str]],
        measure: str = "npmi",
        n_words: int = 10,
        *,
        window: int | None = None,
        vocabulary: Sequence[str] | None = None,
    ) -> Vector:
        """Coherence of each topic on **public** documents, float64, shape (K,).

        X_public, a Corpus, sparse matrix or array of counts (D, V), has a window for each document. With a
        ``vocabulary``, the words of the model's columns, it is an iterable of documents instead, which are sequences of
        tokens. Windows of ``window`` tokens slide over them; None is 10 ("npmi") or 110 ("c_v").
        `vips_fast.models.lda.coherence` has the measures. They are about the first ``n_words`` words of each topic.

        A figure about private documents is not covered by any statement. Whether documents are public cannot be seen,
        so that a private model warns (`PublicDataWarning`). Raises ValueError if there are no documents, or their
        columns or the vocabulary do not fit the model.
        """
        components = self.components_
        if self._fitted().ledger.private:
            warn_of_documents("coherence")
        return coherence(components, X_public, measure, n_words, window, vocabulary)

    def topic_diversity(self, n_words: int = 25) -> float:
        """Compute the share of different words among topics' first words."""
        return topic_diversity(self.components_, n_words)

    def word_intrusion(
        self, n_words: int = 5, random_state: int | np.random.Generator | None = 0
    ) -> list[tuple[list[int], int]]:
        """Shuffle each topic's first words with an intruder, and give its place."""
        return word_intrusion(self.components_, n_words, random_state)

    def plot(self, vocabulary: Sequence[str] | None = None, n_words: int = 10) -> Figure:
        """Draw the first words of topics in the order that a report has, public topics with one standard error.

        Pale bars do not stand clear of the noise. Raises ImportError without matplotlib; ValueError if the vocabulary
        has not a word for each column.
        """
        return self._plot(vocabulary, n_words, None)

    def _plot(self, vocabulary: Sequence[str] | None, n_words: int, most: int | None) -> Figure:
        """Draw at most so many topics, of those that a terminal shows."""
        order, number = self._topic_order()
        shown = (order if most is None else order[: min(most, number)]).tolist()
        parts = self.components_, self._stated_errors(), self._clear(), self._word_scores()
        return plot_topics(self, *parts, vocabulary, n_words, shown)

    def to_pyldavis(self, X_public: Data, vocabulary: Sequence[str] | None = None) -> PyLdaVis:
        """Make the keywords of ``pyLDAvis.prepare`` from **public** documents (D, V).

        The numbers about topics are released ones. ``topic_term_dists`` (K, V) and ``term_frequency`` (V,) follow from
        only the released topics. The topics' shares (``doc_topic_dists``, (D, K), ``doc_lengths``, (D,)) describe the
        public documents. Documents without words are left out. ``vocab`` are the words, None names them by their
        columns, "#k". Raises ValueError if the documents or the words do not fit the model, or no document has words;
        warns as `coherence`.
        """
        components = self.components_
        if self._fitted().ledger.private:
            warn_of_documents("to_pyldavis")
        names = [f"#{v}" for v in range(components.shape[1])] if vocabulary is None else list(vocabulary)
        if len(names) != components.shape[1]:
            raise ValueError(f"vocabulary has {len(names)} words; expected {components.shape[1]}")
        counts = documents(X_public, self.n_features_in_, name="X_public", expected_by=type(self).__name__)
        lengths = np.asarray(counts.sum(axis=1)).reshape(-1)
        if not lengths.any():
            raise ValueError("X_public has no words")
        return {
            "topic_term_dists": components / components.sum(axis=1, keepdims=True),
            "doc_topic_dists": self._proportions(counts[lengths > 0]),
            "doc_lengths": lengths[lengths > 0],
            "vocab": names,
            "term_frequency": components.sum(axis=0),
        }

    @by_pieces(sum)
    def _n_words(self, X: Any) -> int:
        return int(documents(X, expected_by=type(self).__name__).data.sum(dtype=np.int64))
