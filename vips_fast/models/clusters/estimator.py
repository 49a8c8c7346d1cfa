"""Private clusters of documents: settings and read-outs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, Unpack, cast

import numpy as np

from ...checks import check_number
from ...data.types import Column, Data, Labels, Matrix, Vector
from ...engine.plan import RunSchedule, Terms
from ...engine.result import Public
from ...store.words import several
from ..estimator import ArraySpec, PrivateEstimator
from ..parameters import Bookkeeping
from ..readouts import Published, kept
from ..verdict import Verdict
from .knowledge import GRID, PublicVectors, check_public
from .model import ClusterModel, ClusterSteps
from .records import VectorDocuments

#: Steps of a fit.
_STEPS = 12
#: Excess of a word in a cluster, over its expected count, for each unit of cosine: about, before counts tell.
_LIFT = 5.0
#: Standard errors of chance that the words' deviations have to exceed.
_CHANCE = 3.0
#: Shares say little if their noise is larger than the mean share, times this.
_MOST_NOISE = 1.0
#: Two words are forms of one if their first letters are the same and their cosine is above this.
_FORMS, _LETTERS = 0.7, 3
#: Where settings name the source of public knowledge.
_SOURCE = "public_prior_source"


@dataclass(kw_only=True, repr=False, eq=False)
class DocumentClusters(PrivateEstimator):
    """Clusters of documents by their sentence vectors, with the words of each.

    Clusters start from public prototypes. The first releases tell how many documents are near each prototype. Later
    ones move the centers, and the last ones tell the words of each cluster. Where public numbers say that the noise
    would hide the centers, the releases tell about prototypes only.

    Parameters
    ----------
    n_components : int
        Number of clusters K.
    public : PublicVectors
        Public prototypes, directions and words (`vips_fast.public_vectors`).
    n_steps : int or None
        Releases; None is 12.
    **common
        `vips_fast.models.estimator.PrivateEstimator`.

    Notes
    -----
    The sensitivity is proven at `vips_fast.models.clusters.model.ClusterModel`. ``X`` has a sentence vector for each
    document, which has to be a function of the document's own text (`vips_fast.data.SentenceEncoder`). ``y`` has the
    counts of the public words, or is None. ``private=False`` adds no noise and keeps the bound of contributions.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import DocumentClusters, PublicVectors
    >>> public = PublicVectors(np.eye(3), np.eye(3), np.ones(3), ["cough", "wheel", "rent"], np.eye(3), "an example")
    >>> z = np.arange(6000) % 2
    >>> vectors, words = np.eye(3)[z], np.eye(3, dtype=int)[z]
    >>> model = DocumentClusters(2, public=public, epsilon=4.0, random_state=0).fit(vectors, words)
    >>> model.means_.shape, len(set(model.predict(np.eye(2, 3))))
    ((2, 3), 2)
    >>> sorted(model.keywords(1))
    [['cough'], ['wheel']]
    """

    n_components: int = field(default=20, kw_only=False)
    public: PublicVectors | None = None

    def fit(self, X: Data, y: Column | None = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit the clusters to documents.

        ``X``, (n, D), are their sentence vectors, and ``y``, (n, V) counts of the public words, sparse or an array, or
        None. `vips_fast.models.parameters.Bookkeeping` has the keywords. Raises ValueError if a parameter, X or y is
        unusable, or the run would overspend. Nothing has been spent then.
        """
        return self._fit(X, y, **call)

    def _check_parameters(self) -> None:
        check_number("n_components", self.n_components, 1, 2**16, integer=True)
        known = self._known
        if self.n_components > known.n_prototypes:
            raise ValueError(f"n_components={self.n_components}: expected at most {known.n_prototypes}, the prototypes")
        self._check_privacy_parameters()

    @property
    def _known(self) -> PublicVectors:
        return check_public(self.public)

    @property
    def vocabulary(self) -> Sequence[str]:
        """The public words."""
        return self._known.words

    def _settings(self) -> dict[str, Any]:
        settings, known = super()._settings(), self._known
        del settings["public"]
        return {**settings, **known.settings(), _SOURCE: known.source}

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any]) -> Self:
        own = dict(settings)
        del own[_SOURCE]
        known = PublicVectors.of_settings(own)
        return super()._from_settings({**own, "public": known})

    def _read(self, X: Any, y: Any = None) -> tuple[VectorDocuments, dict[str, Any]]:
        found = VectorDocuments(X, y, self._known, self._options.invalid, type(self).__name__)
        columns = len(self._known.words) if found.counted else 0
        return found, {"n_features": len(self._known.projection), "n_columns": columns}

    def _horizon(self, public: Public, terms: Terms) -> int:
        return _STEPS if self.n_steps is None else int(self.n_steps)

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> ClusterModel:
        noise = 0.0 if schedule is None else schedule.noise_multiplier
        n_words, n_clusters = public.n_columns or 0, int(self.n_components)
        steps = ClusterSteps.planned(
            self._horizon(public, self._terms), public.n_records, noise, n_clusters, n_words > 0
        )
        return ClusterModel(public=self._known, n_clusters=n_clusters, n_words=n_words, steps=steps, seed=public.seed)

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        k, known = int(self.n_components), self._known
        return {
            "means": ArraySpec((k, known.projection.shape[1])),
            "weights": ArraySpec((k,), low=0.0, high=1.0),
            "prototype_weights": ArraySpec((known.n_prototypes,), low=0.0, high=1.0),
            "word_counts": ArraySpec((k, public.n_columns or 0)),
            "word_counts_sd": ArraySpec((1,), low=0.0),
        }

    means_ = Published[Matrix]("means", "(K, d) centers, of projected vectors.")
    weights_ = Published[Vector]("weights", "(K,) shares of the documents.")
    prototype_weights_ = Published[Vector]("prototype_weights", "(P,) shares of the public prototypes.")
    word_counts_ = Published[Matrix]("word_counts", "(K, V) released words, as means per record, with their noise.")

    def predict(self, X: Data) -> Labels:
        """Find the clusters of documents by their vectors, (n,), from 0.

        They describe X: publish them only if X may be published.
        """
        documents = VectorDocuments(X, None, self._as_fitted()._known, "raise", type(self).__name__)
        return cast(Labels, self._released().clusters(documents.coordinates.astype(np.float64)))

    def _released(self) -> ClusterModel:
        result = self._fitted()
        model = self._as_fitted()._model(result.public)
        model.restore(result.state)
        return model

    @property
    def verdict_(self) -> Verdict:
        """Judge the clusters in words, from releases only.

        Without releases of vectors they are clusters of public documents, and only their shares are private.
        """
        released = self._released()
        vectors, noise = released.worth
        if not noise:
            return Verdict("", None, None, "")
        moved = vectors and released.moved
        error = f"Noise in a share: about {noise:.1%} (one standard deviation)."
        unit = self._fitted().privacy.unit
        if moved and self._words_differ():
            text = f"Verdict: useful. Releases moved the clusters, and their words differ. {error}"
            return Verdict("useful", None, None, text)
        if moved:
            found = "Releases moved the clusters, but show no difference between their words"
            remedy = f"more {several(unit)}, a larger epsilon, fewer clusters or documents with other words"
            return Verdict("weak", None, None, f"Verdict: weak. {found}. {error} To improve: {remedy}.")
        remedy = f"more {several(unit)}, a larger epsilon or fewer clusters would let releases move the clusters"
        if vectors:
            found = f"The noise hides whether the clusters are elsewhere than those of public documents. {error}"
            return Verdict("noise", None, None, f"Verdict: mostly noise. {found} To improve: {remedy}.")
        text = f"The clusters are those of public documents; only their shares are from releases. {error}"
        if noise * self.n_components > _MOST_NOISE:
            return Verdict("noise", None, None, f"Verdict: mostly noise. {text} Shares and words say little: {remedy}.")
        return Verdict("weak", None, None, f"Verdict: weak. {text} To improve: {remedy}.")

    @kept
    def _words_differ(self) -> bool:
        """Test whether the released counts show different words in the clusters.

        It is a test of independence at three standard deviations. The variance of a count among n records is at most
        its mean over n, since a record's entries are at most 1.
        """
        counts, sd = self.word_counts_, float(self._fitted().arrays["word_counts_sd"][0])
        total = float(counts.sum())
        if min(counts.shape) < 2 or total < 5.0 * sd * counts.size**0.5:
            return False
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
        variance = sd**2 + np.maximum(expected, 0.0) / self._fitted().public.n_records
        free = (counts.shape[0] - 1) * (counts.shape[1] - 1)
        squares = float(((counts - expected) ** 2 / variance).sum())
        return bool(squares > free + _CHANCE * (2.0 * free) ** 0.5)

    @kept
    def _word_scores(self) -> Matrix:
        """Estimate, (K, V), how far clusters' words differ from all words.

        The distance is in standard deviations of the noise.

        Words with vectors like a cluster's center are expected in it. How far that holds, and how far a word may be
        from it, is learned from all released cells.
        """
        known, means = self._as_fitted()._known, self.means_
        words = known.project(known.word_vectors)
        # Exact products: the same order of the same words everywhere.
        near = words @ np.trunc(np.clip(means, -1.0, 1.0) * GRID).T / GRID**2
        near = near.T / np.maximum(np.sqrt((means * means).sum(axis=1)), 1e-6)[:, None]
        near -= near.mean(axis=0)
        counts, sd = self.word_counts_, float(self._fitted().arrays["word_counts_sd"][0])
        if not counts.size:
            return cast(Matrix, near)
        totals, noise = counts.sum(axis=0), len(counts) * sd**2
        mean = max(float(totals.mean()), 1e-12)
        trusted = max(1.0 - noise / max(float(((totals - mean) ** 2).mean()), 1e-300), 0.0)
        totals = np.maximum(mean + trusted * (totals - mean), 0.05 * mean)
        shares = np.maximum(self.weights_, 1e-3)[:, None]
        expected = shares / shares.sum() * totals
        scale = np.sqrt(sd**2 + expected / self._fitted().public.n_records)
        excess, predicted = (counts - expected) / scale, near * expected / scale
        slope = (excess * predicted).sum() + _LIFT**-1
        # Where the noise hides all words, those near the centers are left.
        slope = max(float(slope / ((predicted * predicted).sum() + _LIFT**-2)), _LIFT / 10)
        predicted = slope * predicted
        # Even by chance the mean of squares of noise is above 1 too.
        rest = max(float(((excess - predicted) ** 2).mean()) - 1.0 - _CHANCE * (2.0 / excess.size) ** 0.5, 0.0)
        return cast(Matrix, predicted + rest / (1.0 + rest) * (excess - predicted))

    def keywords(self, n_words: int = 10) -> list[list[str]]:
        """List the public words of each cluster, at most ``n_words``, best first.

        They are the words that its documents have more often than others', as far as the releases show it. As far as
        they do not, they are words with vectors near its center. Of several forms of a word the best is listed.
        """
        n_words = check_number("n_words", n_words, 1, 2**20, integer=True)
        scores, words = self._word_scores(), self._as_fitted().vocabulary
        order = np.argsort(-scores, axis=1, kind="stable").tolist()
        found = [self._forms_once((v for v in row if scores[k, v] > 0), n_words) for k, row in enumerate(order)]
        return [[words[v] for v in row] for row in found]

    def _forms_once(self, best: Iterable[int], n_words: int) -> list[int]:
        """Take words in order, but no second form of one.

        Words are forms of each other if they begin alike and have similar vectors.
        """
        known, taken = self._as_fitted()._known, list[int]()
        for v in best:
            same = [u for u in taken if known.words[u][:_LETTERS] == known.words[v][:_LETTERS]]
            if not same or (known.word_vectors[same] * known.word_vectors[v]).sum(axis=1).max() < _FORMS:
                taken.append(v)
            if len(taken) == n_words:
                break
        return taken
