"""Read-outs of topics: gain, coherence, diversity, intrusion, pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from ...data.corpus import Corpus
from ...data.counts import documents
from ...data.types import Data, Matrix, Vector
from ...engine.gain import FoundGain
from ..hierarchy import Hierarchy, hellinger, plot_hierarchy
from ..plots import plot_topics
from ..readouts import Transformer, by_pieces, kept
from ..several import clear_deviations
from ..verdict import Verdict
from .coherence import coherence, topic_diversity, warn_of_documents, word_intrusion
from .forecast import over_frequencies
from .model import LdaModel
from .prior_model import PriorLdaModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PyLdaVis(TypedDict):
    """Keywords of ``pyLDAvis.prepare``."""

    topic_term_dists: Matrix
    doc_topic_dists: Matrix
    doc_lengths: Vector
    vocab: list[str]
    term_frequency: Vector


#: Below this share from the records, topics are called public knowledge.
_MOSTLY_PUBLIC = 0.25


class TopicQuality(Transformer):
    """Read-outs of ``components_`` and of public documents."""

    @property
    @abstractmethod
    def components_sd_(self) -> Matrix:
        """Standard deviation that the noise leaves in each entry of ``components_``."""

    @abstractmethod
    def _proportions(self, X: Any) -> Matrix:
        """Topic proportions of documents."""

    @abstractmethod
    def _restored(self) -> LdaModel | PriorLdaModel:
        """Restore the model as the last release left it."""

    @property
    def found_gain_(self) -> FoundGain | None:
        """The topics' gain over released word frequencies, with 90 % interval.

        Half of a unit's words are predicted from the other half; see `vips_fast.models.fitted.Fitted.found_gain_`.
        With a `PublicPrior` the score also decides, so that it is made in any run of at least three steps.
        """
        found, share = self._judged()
        return super().found_gain_ if share is None else found

    @property
    def verdict_(self) -> Verdict:
        """The worth of the topics in words, from releases only.

        It counts the different words among the first 10 of each topic that stand clear of the noise. With a probability
        of 90 % each of them is in the records, however many words were looked at (`vips_fast.models.several`). With
        three of them for each topic, the topics can be read. `found_gain_` is over the run's own word frequencies,
        which noise makes worse; the verdict takes off their loss by the posterior of the word masses.
        """
        return self._kept_verdict()

    @kept
    def _kept_verdict(self) -> Verdict:
        components, errors, unit = self.components_, self.components_sd_, self._fitted().privacy.unit
        best = np.argsort(-components, axis=1, kind="stable")[:, :10]
        known = np.take_along_axis(self._clear(), best, 1)
        clear = len(np.unique(best[known])) if (errors > 0).any() else None
        claim, over = f"half of a {unit}'s words predict the other half", "word frequencies do"
        enough = min(3 * len(components), components.shape[1] // 2)
        weights = components.sum(axis=1)
        share = float(self.from_records_ @ weights / weights.sum())
        if self._judged()[1] is None or share == 1.0:
            gain = self.found_gain_
            if gain is not None and isinstance(restored := self._restored(), LdaModel):
                gain = over_frequencies(gain, restored.frequency_loss())
            found = Verdict.of(gain, claim, over=over, clear=clear, enough=enough, feature="different word")
            public = " The public topics were not used." if self._judged()[1] is not None and found.found else ""
        else:
            # Words of public topics are known without the records: that they stand clear of the noise says little.
            gain = self.found_gain_
            # The run's word frequencies are partly public ones, too. The score does not show how far these are off.
            careful = None if gain is None else over_frequencies(gain, self._restored().frequency_loss())
            found = Verdict.of(gain, claim, over=over, careful=careful)
            mostly = (
                "The topics are mostly public knowledge" if share < _MOSTLY_PUBLIC else "The topics are partly public"
            )
            public = f" {mostly}; {share:.0%} of their probability comes from the records." if found.found else ""
        return replace(found, text=found.text + public)

    @kept
    def _clear(self) -> np.ndarray:
        """Tell which entries of ``components_`` stand clear of the noise, (K, V).

        All entries are candidates: the first words of a topic were chosen by the noise, too.
        """
        found = self._restored().deviations()
        return np.asarray(found >= clear_deviations(found.size))

    @property
    def from_records_(self) -> Vector:
        """The share of each topic that comes from the records, (K,).

        0 for a topic that is the public one, 1 for one that was fitted without it: half of the sum of the absolute
        differences from the public topic's probabilities.
        """
        share = self._judged()[1]
        return np.ones(len(self.components_)) if share is None else share

    @kept
    def _judged(self) -> tuple[FoundGain | None, Vector | None]:
        restored = self._restored()
        return (restored.found_gain, restored.from_records) if isinstance(restored, PriorLdaModel) else (None, None)

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
        """Draw each topic's first words with one standard error.

        Pale bars do not stand clear of the noise. Raises ImportError without matplotlib; ValueError if the vocabulary
        has not a word for each column.
        """
        return plot_topics(self, self.components_, self.components_sd_, self._clear(), vocabulary, n_words)

    def hierarchy(self) -> Hierarchy:
        """Join topics by their mean Hellinger distances; ValueError for one topic."""
        return Hierarchy.of(hellinger(self.components_))

    def plot_hierarchy(self, names: Sequence[str] | None = None) -> Figure:
        """Draw the topics' hierarchy and map.

        ``names`` are names of the K topics; None numbers them. Raises ImportError without matplotlib; ValueError if
        there is not a name for each of at least two topics.
        """
        return plot_hierarchy(self, self.hierarchy(), names or [str(k + 1) for k in range(len(self.components_))])

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
