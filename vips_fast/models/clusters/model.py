"""Private clusters of documents from public prototypes: settings, read-outs, steps, sensitivity.

A cluster starts as some of the public prototypes. The first steps release votes: how many documents are nearest to each
prototype. The prototypes of a cluster are averaged by them. Later steps release how many documents each cluster has,
and the sum of their projected vectors. These move the centers. The last steps release the words of each cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, Unpack, cast

import numpy as np
from scipy import sparse

from ...checks import check_number
from ...data.arrays import dense_array, not_finite_text
from ...data.types import Column, Data, Labels, Matrix, Vector
from ...engine.averaging import Schedule
from ...engine.model import Model, Release, array_of, diagnose
from ...engine.plan import RunForecast, RunSchedule, Terms
from ...engine.result import Public
from ...engine.sampling import Sampler
from ...engine.units import UnitBlock, unpack_block
from ...kernels.lattice import checked_spacing
from ...mechanisms import GaussianMechanism
from ...store.words import several
from ..estimator import ArraySpec, PrivateEstimator
from ..forecast import noise_of_mean
from ..lda.records import Documents
from ..parameters import Bookkeeping
from ..readouts import Published, kept
from ..verdict import Verdict
from .knowledge import GRID, PublicVectors, check_public, weighted_centers

#: Steps of a fit.
_STEPS = 12
#: Excess of a word in a cluster, over its expected count, for each unit of cosine: about, before counts tell.
_LIFT = 5.0
#: Shares say little if their noise is larger than the mean share, times this.
_MOST_SHARE_NOISE = 1.0
#: Two words are forms of one if their first letters are the same and their cosine is above this.
_FORMS, _LETTERS = 0.7, 3
#: Where settings name the source of public knowledge.
_SOURCE = "public_prior_source"
#: What a document counts in its cluster, where its vector has a norm of at most 1. Words count by the root of their
#: counts. Above it a unit contributes a direction.
COUNT, _NORM = 0.25, 4.0
#: Shares of the steps that release votes and words; the power of the step size.
_VOTES, _WORDS, _DECAY = 1 / 6, 1 / 4, 0.7
#: Noise of a count over the count; above it votes of prototypes say more than vectors (docs/clusters.md).
_MOST_NOISE = 0.1
#: Length of a mean of documents that differ, over a prototype's length (docs/clusters.md).
_LENGTH = 0.4
#: What a prototype or a cluster keeps of the public share that it had; the variance between a center and its start.
_KEPT, _APART = 0.02, 1e-3
#: Standard errors of chance that deviations of votes, vectors or words have to exceed.
_CHANCE = 3.0
#: Margin for the rounding of norms, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9
#: Documents of a block.
_BLOCK = 1024


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

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        """Forecast the noise in a share, and whether releases can move the clusters."""
        assert isinstance(model, ClusterModel)
        if schedule.noise_multiplier == 0:
            return None
        vectors, noise = model.expected_worth(schedule)
        told = "releases can move the clusters" if vectors else "only the shares of public clusters can be told"
        text = f"forecast: {told}, each with noise of about {noise:.1%} (one standard deviation)"
        hidden = noise * model.n_clusters > _MOST_SHARE_NOISE
        if hidden or not vectors:
            text += f". What helps: more {several(public.unit)}, a larger epsilon or fewer clusters"
        return RunForecast(1.0 / (1.0 + noise * model.n_clusters), text, None, "noise" if hidden else "")

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
            return Verdict("", None, "")
        moved = vectors and released.moved
        error = f"Noise in a share: about {noise:.1%} (one standard deviation)."
        unit = self._fitted().privacy.unit
        if moved and self._words_differ():
            text = f"Verdict: useful. Releases moved the clusters, and their words differ. {error}"
            return Verdict("useful", None, text)
        if moved:
            found = "Releases moved the clusters, but show no difference between their words"
            remedy = f"more {several(unit)}, a larger epsilon, fewer clusters or documents with other words"
            return Verdict("weak", None, f"Verdict: weak. {found}. {error} To improve: {remedy}.")
        remedy = f"more {several(unit)}, a larger epsilon or fewer clusters would let releases move the clusters"
        if vectors:
            found = f"The noise hides whether the clusters are elsewhere than those of public documents. {error}"
            return Verdict("noise", None, f"Verdict: mostly noise. {found} To improve: {remedy}.")
        text = f"The clusters are those of public documents; only their shares are from releases. {error}"
        if noise * self.n_components > _MOST_SHARE_NOISE:
            return Verdict("noise", None, f"Verdict: mostly noise. {text} Shares and words say little: {remedy}.")
        return Verdict("weak", None, f"Verdict: weak. {text} To improve: {remedy}.")

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


@dataclass(frozen=True)
class ClusterSteps:
    """How many steps release votes, vectors and words, in this order."""

    votes: int
    vectors: int
    words: int

    @classmethod
    def planned(
        cls, n_steps: int, n_records: int, noise_multiplier: float, n_clusters: int, counted: bool
    ) -> ClusterSteps:
        """Decide from public numbers.

        Where noise would hide the centers, votes take the place of vectors: all events are the same.
        """
        words = min(round(_WORDS * n_steps), n_steps - 1) if counted else 0
        votes = max(round(_VOTES * n_steps), 1)
        vectors = max(n_steps - words - votes, 0)
        noise = noise_multiplier * n_clusters / max(n_records, 1) / max(vectors, 1) ** 0.5
        if vectors == 0 or noise > _MOST_NOISE:
            return cls(n_steps - words, 0, words)
        return cls(n_steps - words - vectors, vectors, words)


class ClusterModel(Model):
    """Clusters that start from public prototypes.

    Notes
    -----
    *Sensitivity.* By the kind of the step, a contribution is one of three vectors. Each is a function of the unit's own
    documents and of released numbers. Each has an L2 norm of at most the clip C, 1. Adding or removing a unit moves a
    sum by at most C. Replacing one moves it by at most 2 C: coordinates have signs.

    *Votes.* The numbers of the unit's documents that are nearest to each prototype, divided by their norm if it is
    above 1.

    *Vectors.* The first has for each cluster the number of the unit's documents times a public weight, and the sum of
    their projected vectors. It is divided by the norm of all these if it is above 1.

    *Words.* For each cluster and word the root of how often the unit's documents in this cluster have the word. It is
    divided by the norm of all these or by a public number, whichever is larger.

    *Purity and lattice.* A document's prototype and coordinates are exact (`PublicVectors.project`), and so are its
    distances to centers: products of whole numbers, whose sums stay below 2^53. Sums over a unit are of whole numbers
    too. Contributions are truncated toward zero to the noise's lattice, which raises no norm; `_BELOW` is above the
    rounding of norms.
    """

    at_root = ("_votes", "_vectors", "_words", "_start")

    def __init__(self, *, public: PublicVectors, n_clusters: int, n_words: int, steps: ClusterSteps, seed: int):
        self.clip, self.n_clusters, self.n_words = 1.0, n_clusters, n_words
        self._public, self._steps, self._seed = public, steps, seed
        self._rows = _LENGTH * (public.prototypes @ public.projection)
        #: The public clusters, and the one of each prototype.
        self._divided = self._divide(public.weights)
        self.n_directions = public.projection.shape[1]
        self._cells = public.n_prototypes, n_clusters * (1 + self.n_directions), n_clusters * n_words
        self.shape = (max(self._cells),)
        self._spacing, self._done = 1.0, 0
        #: Sums of released means and of the variances of their noise; vectors are a weighted average.
        self._votes, self._vectors, self._words = (np.zeros(cells) for cells in self._cells)
        self._variances = np.zeros(3)
        self._begin()

    def sensitivity(self, relation: str) -> float:
        """Return the clip, or twice the clip to replace a unit."""
        return self.clip * (1.0 if relation == "add_remove" else 2.0)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self._spacing = checked_spacing(mechanism.spacing, self.clip)

    @property
    def _kind(self) -> int:
        """The kind of the next step: votes, vectors or words."""
        ends = np.cumsum([self._steps.votes, self._steps.vectors])
        return int(np.searchsorted(ends, self._done, side="right"))

    # -- contributions

    def contribute(
        self, block: VectorBlock | UnitBlock, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]
    ) -> None:
        """Add contributions of the kind of this step; see the notes."""
        (documents, rows), _, starts = unpack_block(block, words)
        unit = np.arange(len(rows)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        kind = self._kind
        if kind == 0:
            cells, values = _votes(unit, documents.nearest[rows], len(words), self._cells[0])
        elif kind == 1:
            coordinates = documents.coordinates[rows].astype(np.float64)
            cells, values = vector_sums(unit, self.clusters(coordinates), coordinates, len(words), self.n_clusters)
        else:
            cluster = self.clusters(documents.coordinates[rows].astype(np.float64))
            document, column, counts = documents.words(rows)
            cells, values = _words(
                unit[document], cluster[document] * self.n_words + column, counts, len(words), self._cells[2]
            )
        np.add.at(out, cells.reshape(-1), np.trunc(values * (self.clip / self._spacing)).astype(np.int64).reshape(-1))
        if "diagnostics" in scratch:
            diagnose(scratch, clipped=0, norm_sum=0)

    def clusters(self, coordinates: np.ndarray) -> np.ndarray:
        """Find the nearest centers."""
        return nearest_centers(coordinates, self.centers)

    # -- updates

    def update(self, release: Release) -> None:
        """Take a release."""
        kind = self._kind
        values = release.values[: self._cells[kind]]
        if kind == 1:
            rate = (1.0 + self._done - self._steps.votes) ** -_DECAY
            self._vectors += rate * (values - self._vectors)
            self._variances[1] = (1 - rate) ** 2 * self._variances[1] + (rate * release.noise_sd) ** 2
        else:
            (self._votes if kind == 0 else self._words)[:] += values
            self._variances[kind] += release.noise_sd**2
        self._done += 1
        self._begin()

    def _begin(self) -> None:
        """Find the clusters that the releases so far say."""
        if self._done <= self._steps.votes:
            self.shares, (centers, cluster) = self._prototype_shares(), self._divided
            if self._steps.vectors and self._done == self._steps.votes:
                # Vectors move the centers from here, so that a division by votes does no harm.
                centers, cluster = self._divide(self.shares)
            weights, sums = np.bincount(cluster, self.shares, self.n_clusters), np.zeros_like(centers)
            np.add.at(sums, cluster, self._rows * self.shares[:, None])
            self._start = np.where(weights[:, None] > 0, sums / np.maximum(weights, 1e-300)[:, None], centers), weights
            self.centers, self.weights = self._start
        elif self._done <= self._steps.votes + self._steps.vectors:
            self.centers, self.weights = self._move_centers()

    def _divide(self, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Divide the prototypes into clusters by their shares."""
        return weighted_centers(self._rows, shares, self.n_clusters, np.random.default_rng(self._seed))

    def _prototype_shares(self) -> np.ndarray:
        """Estimate prototypes' shares of documents, from public ones and votes.

        Votes that may be the noise's only leave the public shares.
        """
        known = self._public.weights
        if self._done == 0:
            return np.asarray(known)
        sd = float(self._variances[0]) ** 0.5
        total = max(float(self._votes.sum()), sd * len(known) ** 0.5, 1e-300)
        votes, noise = self._votes / total, (sd / total) ** 2
        chance = 1.0 + _CHANCE * (2.0 / len(known)) ** 0.5
        apart = max(float(((votes - known) ** 2).mean()) - noise * chance, 0.0)
        shares = np.maximum(known + apart / max(apart + noise, 1e-300) * (votes - known), _KEPT * known)
        return np.asarray(shares / shares.sum())

    def _move_centers(self) -> tuple[np.ndarray, np.ndarray]:
        """Move centers and their shares as far as vectors show."""
        sums = self._vectors.reshape(self.n_clusters, -1)
        return move_centers(*self._start, sums, float(self._variances[1]) ** 0.5)

    # -- results

    @property
    def word_law(self) -> tuple[np.ndarray, float]:
        """Return the released words of each cluster, with their noise.

        They are (K, V) means of all steps.
        """
        done = max(self._done - self._steps.votes - self._steps.vectors, 0)
        if not done:
            return np.zeros((self.n_clusters, self.n_words)), 0.0
        means = self._words.reshape(self.n_clusters, self.n_words) / done
        return means, float(self._variances[2]) ** 0.5 / done

    @property
    def moved(self) -> bool:
        """Whether vectors moved the clusters, and not only their noise.

        Of a cluster with sums c of documents and s of vectors, s - c start is noise if no vector is elsewhere. It has
        the covariance sd^2 (1 + start start'), in units where a document adds 1 to c. One test of all K d numbers,
        at three standard deviations of chance.
        """
        if not self._steps.vectors or not self._variances[1]:
            return self._steps.vectors > 0
        sums, start = self._vectors.reshape(self.n_clusters, -1), self._start[0] / COUNT
        apart = sums[:, 1:] - sums[:, :1] * start
        along = (apart * start).sum(axis=1) ** 2 / (1.0 + (start * start).sum(axis=1))
        squares = float(((apart * apart).sum(axis=1) - along).sum()) / float(self._variances[1])
        return bool(squares > apart.size + _CHANCE * (2.0 * apart.size) ** 0.5)

    @property
    def worth(self) -> tuple[bool, float]:
        """Tell whether there are releases of vectors; give a share's noise."""
        moved = self._steps.vectors > 0
        number = self.n_clusters if moved else len(self._votes)
        sd = float(self._variances[int(moved)]) ** 0.5 / (
            COUNT if moved else max(min(self._done, self._steps.votes), 1)
        )
        # A cluster has the votes of some prototypes; a unit has about one.
        return moved, sd * (number / self.n_clusters) ** 0.5

    def expected_worth(self, schedule: RunSchedule) -> tuple[bool, float]:
        """Tell what `worth` will be, from public numbers."""
        if self._steps.vectors:
            return True, noise_of_mean(schedule, self, Schedule(1.0, _DECAY), self._steps.vectors) / COUNT
        noise = noise_of_mean(schedule, self, Schedule(1.0, 1.0), self._steps.votes)
        return False, noise * (len(self._votes) / self.n_clusters) ** 0.5

    def result(self) -> dict[str, np.ndarray]:
        """Give centers, shares, prototypes' shares, and words with their noise."""
        words, sd = self.word_law
        found = {"means": self.centers, "weights": self.weights, "prototype_weights": self.shares}
        return {**found, "word_counts": words, "word_counts_sd": np.array([sd])}

    # -- state

    def state(self) -> dict[str, np.ndarray]:
        """Give the released sums."""
        sums = {"votes": self._votes.copy(), "vectors": self._vectors.copy(), "words": self._words.copy()}
        steps = self._steps
        return {
            "cluster_steps": np.array([self._done, steps.votes, steps.vectors, steps.words, *self._variances]),
            **sums,
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        numbers = array_of(state, "cluster_steps", (7,))
        counts = [int(number) for number in numbers[:4]]
        if numbers.min() < 0 or numbers[:4].max() >= 2**31 or counts != numbers[:4].tolist() or counts[1] < 1:
            raise ValueError("state: 'cluster_steps' is out of its range")
        sums = [array_of(state, name, getattr(self, f"_{name}").shape) for name in ("votes", "vectors", "words")]
        self._votes, self._vectors, self._words = sums
        done, self._steps, self._variances = counts[0], ClusterSteps(*counts[1:]), numbers[4:].copy()
        # The start is of the votes, the centers are of all vectors.
        self._done = min(done, self._steps.votes)
        self._begin()
        self._done = done
        if self._steps.vectors and done > self._steps.votes:
            self.centers, self.weights = self._move_centers()


def nearest_centers(coordinates: np.ndarray, centers: np.ndarray) -> np.ndarray:
    """Find the nearest of (K, d) centers, (n,).

    Coordinates are in units of 1 / GRID.
    """
    whole = np.trunc(np.clip(centers, -1.0, 1.0) * GRID)
    nearness = coordinates @ (2.0 * whole).T
    nearness -= (whole * whole).sum(axis=1)
    return np.asarray(nearness.argmax(axis=1))


def vector_sums(
    unit: np.ndarray, cluster: np.ndarray, coordinates: np.ndarray, n_units: int, n_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sum counts and coordinates over each unit's documents of a cluster.

    The result is cells and values, (m, 1 + d). A unit's values have an L2 norm of at most 1.
    """
    n_documents, n_directions = coordinates.shape
    keys = unit * n_clusters + cluster
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[:n_documents])
    keys, ends = keys[first], np.append(first, n_documents)
    # A sparse product is many times as fast as sums at indices. Sums of whole numbers are exact in any order.
    together = sparse.csr_array((np.ones(n_documents), order, ends), shape=(len(keys), n_documents))
    values = np.empty((len(keys), 1 + n_directions))
    values[:, 0] = COUNT * GRID * np.diff(ends)
    values[:, 1:] = together @ coordinates
    values /= GRID
    of_unit = keys // n_clusters
    values *= _shortening(of_unit, (values * values).sum(axis=1), n_units, 1.0)[:, None]
    cells = (keys % n_clusters)[:, None] * (1 + n_directions) + np.arange(1 + n_directions)
    return cells, values


def move_centers(start: np.ndarray, shares: np.ndarray, sums: np.ndarray, sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Move centers and their shares as far as sums show.

    ``start``, (K, d), and ``shares``, (K,), are from before. ``sums``, (K, 1 + d), come from `vector_sums`, with noise
    of ``sd``. A center is the posterior mean, with a normal prior at the start. The prior's variance comes from all
    centers.
    """
    counts = sums[:, 0] / COUNT
    total = max(float(counts.sum()), sd / COUNT * len(start) ** 0.5, 1e-300)
    known = total * shares
    spread, noise = max(float(((counts - known) ** 2).mean()), 1e-300), (sd / COUNT) ** 2
    counts = known + max(1.0 - noise / spread, 0.0) * (counts - known)
    counts = np.maximum(counts, np.maximum(_KEPT * known, sd / COUNT))
    means, noises = sums[:, 1:] / counts[:, None], (sd / counts) ** 2
    apart = ((means - start) ** 2).mean(axis=1) - noises
    each = 1.0 / (noises + _APART)
    variance = max(float(each @ apart / each.sum()), 1e-8)
    centers = start + (variance / (variance + noises))[:, None] * (means - start)
    lengths = np.sqrt((centers * centers).sum(axis=1, keepdims=True))
    return np.asarray(centers / np.maximum(lengths, 1.0)), np.asarray(counts / counts.sum())


def _shortening(of_unit: np.ndarray, squares: np.ndarray, n_units: int, least: float) -> np.ndarray:
    """Compute factors that bring norms of units above ``least`` to 1."""
    norms = np.sqrt(np.bincount(of_unit, weights=squares, minlength=n_units))
    return np.asarray((_BELOW / np.maximum(norms, least))[of_unit])


def _votes(unit: np.ndarray, prototype: np.ndarray, n_units: int, n_prototypes: int) -> tuple[np.ndarray, np.ndarray]:
    """Count each unit's documents of a prototype: cells and values."""
    keys, counts = np.unique(unit * n_prototypes + prototype, return_counts=True)
    of_unit = keys // n_prototypes
    return keys % n_prototypes, counts * _shortening(of_unit, (counts * counts).astype(np.float64), n_units, 1.0)


def _words(
    unit: np.ndarray, cell: np.ndarray, counts: np.ndarray, n_units: int, n_cells: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bring the roots of each unit's counts to the bound."""
    keys, place = np.unique(unit * n_cells + cell, return_inverse=True)
    sums = np.maximum(np.bincount(place, weights=counts, minlength=len(keys)), 0.0)
    of_unit = keys // n_cells
    return keys % n_cells, np.sqrt(sums) * _shortening(of_unit, sums, n_units, _NORM)


class VectorBlock(NamedTuple):
    """Some documents; nothing is copied."""

    documents: VectorDocuments
    rows: np.ndarray


def read_vectors(X: Any, name: str, public: PublicVectors, invalid: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Check sentence vectors; vectors that are not finite become 0.

    Returns them, (n, D), and which rows were finite, or None if all were. ValueError names the argument.
    """
    vectors = dense_array(X, name, invalid == "drop")
    columns = len(public.projection)
    if vectors.ndim != 2 or vectors.shape[1] != columns or vectors.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {vectors.shape} and dtype {vectors.dtype}: expected numbers, (n, {columns}), vectors of "
            f"the encoder of {public.name!r}"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if finite.all():
        return vectors, None
    if invalid == "raise":
        raise ValueError(f"{name}: expected finite numbers, {not_finite_text(X, vectors)}")
    return np.where(finite[:, None], vectors, 0.0), finite


class VectorDocuments:
    """Documents by their nearest prototypes, projected vectors and words.

    ``usable`` says which documents have a finite vector, and is None if all do.
    """

    def __init__(self, X: Any, y: Any, public: PublicVectors, invalid: str, kind: str):
        vectors, self.usable = read_vectors(X, "X", public, invalid)
        self.n_rows = len(vectors)
        self.nearest = np.empty(self.n_rows, np.int32)
        self.coordinates = np.empty((self.n_rows, public.projection.shape[1]), np.int32)
        for first in range(0, self.n_rows, _BLOCK):
            part = slice(first, first + _BLOCK)
            self.nearest[part], self.coordinates[part] = public.nearest(vectors[part]), public.project(vectors[part])
        self._words: Any = None
        if y is not None:
            self._words = Documents(y, invalid, kind)
            if (self._words.n_rows, self._words.n_features) != (self.n_rows, len(public.words)):
                shape = self._words.n_rows, self._words.n_features
                expected = f"{(self.n_rows, len(public.words))}, a column for each word of {public.name!r}"
                raise ValueError(f"y has shape {shape}: expected {expected}")

    @property
    def counted(self) -> bool:
        """Whether there are words."""
        return self._words is not None

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Find boundaries of blocks of equally many documents."""
        return np.append(np.arange(0, len(rows), _BLOCK), len(rows))

    def block(self, rows: np.ndarray) -> VectorBlock:
        """Make the block of these documents."""
        return VectorBlock(self, rows)

    def subset(self, rows: np.ndarray) -> VectorDocuments:
        """See `vips_fast.engine.model.Records`."""
        other = copy(self)
        other.n_rows, other.nearest, other.coordinates = len(rows), self.nearest[rows], self.coordinates[rows]
        other.usable = None if self.usable is None else self.usable[rows]
        other._words = None if self._words is None else self._words.subset(rows)
        return other

    def words(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List documents' words: number among these, word and count."""
        if self._words is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, offsets, columns, values = self._words.arrays(rows)
        lengths = offsets[rows + 1] - offsets[rows]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        at = np.repeat(offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        return np.repeat(np.arange(len(rows)), lengths), columns[at].astype(np.int64), values[at].astype(np.float64)
