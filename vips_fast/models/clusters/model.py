"""Private clusters of documents, from public prototypes of their sentence vectors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ...checks import check_number
from ...data.arrays import check_new_records
from ...data.types import Array, Cells, Column, Data, Labels, Matrix, Vector
from ...engine.model import Model
from ...engine.plan import RunForecast, RunSchedule
from ...engine.result import Public
from ...store.words import several
from ..forecast import HopelessWarning
from ..mixture import GRID, Mixture, count_weight
from ..readouts import kept
from .knowledge import PublicVectors, weighted_centers

#: Noise of a share over the mean share up to which releases can move the centers.
_MOVES = 0.4
#: Two words are forms of one if their first letters are the same and their cosine is above this.
_FORMS, _LETTERS = 0.7, 3
#: Length of a mean of documents that differ, over a prototype's length (docs/clusters.md).
_LENGTH = 0.4
#: Mean square of a document's distance to its center, at first; lengths are at most 1.
_SPREAD = 0.8
#: Responsibilities are those of this part of the variance: documents near two centers would draw them together.
_SHARP = 0.3
#: What a cluster keeps of the public share that it had; the variance between a center and its start.
_KEPT, _APART = 0.02, 1e-3


@dataclass(kw_only=True, repr=False, eq=False)
class DocumentClusters(Mixture):
    """Clusters of documents by their sentence vectors, with public words for each.

    A `GaussianMixture` that starts at clusters of public prototypes, and whose centers leave them as far as the
    releases stand clear of the noise.

    Parameters
    ----------
    n_components : int
        Number of clusters K.
    public : PublicVectors
        Public prototypes, directions and words (`vips_fast.public_vectors`).
    **options
        Of `ConjugateEstimator`.

    Notes
    -----
    `vips_fast.models.mixture.Mixture` has the statistics, and the proof of their bound. ``X`` has a sentence vector for
    each document, which has to be a function of the document's own text (`vips_fast.data.SentenceEncoder`). Its
    projection is exact (`PublicVectors.project`), so it is the same bits in any company.

    The words of a cluster are public ones with vectors near its center: a function of released numbers, at no charge.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import DocumentClusters, PublicVectors
    >>> public = PublicVectors(np.eye(3), np.eye(3), np.ones(3), ["cough", "wheel", "rent"], np.eye(3), "an example")
    >>> vectors = np.eye(3)[np.arange(6000) % 2]
    >>> model = DocumentClusters(2, public=public, epsilon=4.0, random_state=0).fit(vectors)
    >>> model.means_.shape, len(set(model.predict(np.eye(2, 3))))
    ((2, 3), 2)
    >>> sorted(model.keywords(1))
    [['cough'], ['wheel']]
    """

    _knowledge = "public", PublicVectors

    n_components: int = field(default=20, kw_only=False)
    public: PublicVectors | None = None

    def check_parameters(self) -> None:
        super().check_parameters()
        known = self._known
        if self.n_components > (most := len(known.weights)):
            raise ValueError(f"n_components={self.n_components}: expected at most {most}, the prototypes")

    @property
    def _known(self) -> PublicVectors:
        if not isinstance(self.public, PublicVectors):
            given = type(self.public).__name__
            raise ValueError(f"public: expected PublicVectors, such as public_vectors() makes, got {given}")
        return self.public

    def records(self, X: Data, y: Column | None = None) -> Cells:
        """Return projected vectors, float32."""
        known, vectors = self._known, self._rows(X, y)
        if vectors.shape[1] != (columns := len(known.projection)):
            of = f"vectors of the encoder of {known.name!r}"
            raise ValueError(f"X has shape {vectors.shape}: expected (n, {columns}), {of}")
        found = known.project(vectors) / GRID  # whole numbers of 20 bits: float32 has them exactly
        return np.where(np.isfinite(vectors).all(axis=1, keepdims=True), found, np.nan).astype(np.float32)

    def start(self, n_columns: int, rng: np.random.Generator) -> tuple[Array, ...]:
        known = self._known
        rows = _LENGTH * (known.prototypes @ known.projection)
        means, cluster = weighted_centers(rows, known.weights, self.n_components, rng)
        weights = np.bincount(cluster, known.weights, self.n_components)
        return *self._parameters(weights, means, _SPREAD / n_columns), weights, means

    def _parameters(self, weights: np.ndarray, means: np.ndarray, variance: float) -> tuple[Any, ...]:
        return *super()._parameters(weights, means, _SHARP * variance)[:5], [variance]

    def mstep(self, mean: Vector, noise_sd: float, parameters: tuple[Array, ...]) -> tuple[Array, ...]:
        """Move centers and shares from their start as far as the sums show.

        A share, and a center, is the posterior mean with a normal prior at the start. The prior's variance comes from
        all of them.
        """
        k, n, d = self.n_components, self.n_records_, self.n_columns_
        shares, start = parameters[6:8]
        weight = count_weight(d)
        mean, noise_sd = self._of_rows(mean, noise_sd)
        counts, sd = mean[:k] / weight, noise_sd / weight
        known = max(float(counts.sum()), sd * k**0.5, 1e-300) * shares
        spread = max(float(((counts - known) ** 2).mean()), 1e-300)
        counts = known + max(1.0 - sd**2 / spread, 0.0) * (counts - known)
        counts = np.maximum(counts, _KEPT * known)
        held = np.maximum(counts, sd)[:, None]
        means, noises = mean[k : k + k * d].reshape(k, d) / held, (noise_sd / held[:, 0]) ** 2
        each = 1.0 / (noises + _APART)
        apart = ((means - start) ** 2).mean(axis=1) - noises
        variance = max(float(each @ apart / each.sum()), 1e-8)
        means = start + (variance / (variance + noises))[:, None] * (means - start)
        means /= np.maximum(np.sqrt((means**2).sum(axis=1, keepdims=True)), 1.0)
        counts = counts / counts.sum()
        energy = float(np.clip(mean[k + k * d] / weight, 0.0, 1.0))
        inside = max(energy - float((counts[:, None] * means**2).sum()), 0.05 * energy, 1e-6) / d
        return *self._parameters((1.0 + n * counts) / (k + n), means, inside), shares, start

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        """Forecast the noise in a share, and whether releases can move the clusters."""
        noise = self._noise_of_mean(schedule, model) / count_weight(public.n_columns or 1)
        if not noise:
            return None
        hides, hopeless = noise * self.n_components, noise >= 0.5  # any share lies within .5 of a half
        told = "releases can move the clusters" if hides <= _MOVES else "only the shares of public clusters can be told"
        told = "mostly noise; no cluster's share can be told" if hopeless else told
        text = f"forecast: {told}, each with noise of about {noise:.1%} (one standard deviation)"
        if hides > _MOVES:
            text += (
                f". What helps: {'' if hopeless else 'fewer clusters, '}more {several(public.unit)} or a larger epsilon"
            )
        return RunForecast(1.0 / (1.0 + hides), text, HopelessWarning if hopeless else None)

    # ------------------------------------------------------------ read-outs

    def predict(self, X: Data) -> Labels:
        """Find the clusters of documents by their vectors, (n,), from 0: the nearest centers.

        They describe X: publish them only if X may be published. A document's cluster is a function of its own vector,
        bit for bit: products are of whole numbers, whose sums are exact.
        """
        rows = self._as_fitted()._array(X, None).astype(np.float64) * GRID
        check_new_records(X, rows)
        centers = np.trunc(np.clip(self.means_, -1.0, 1.0) * GRID)
        nearness = rows @ (2.0 * centers).T - (centers * centers).sum(axis=1)
        return cast(Labels, nearness.argmax(axis=1))

    @kept
    def _nearness(self) -> Matrix:
        """Compute, (K, V), cosines of words to each center, less their means over the centers."""
        known, means = self._as_fitted()._known, self.means_
        # Exact products: the same order of the same words everywhere.
        near = known.project(known.word_vectors) @ np.trunc(np.clip(means, -1.0, 1.0) * GRID).T / GRID**2
        near = near.T / np.maximum(np.sqrt((means * means).sum(axis=1)), 1e-6)[:, None]
        return cast(Matrix, near - near.mean(axis=0))

    def keywords(self, n_words: int = 10) -> list[list[str]]:
        """List public words of each cluster, at most ``n_words``, best first.

        Their vectors are nearer to its center than to others. Of several forms of a word the best is listed.
        """
        n_words = check_number("n_words", n_words, 1, 2**20, integer=True)
        known, found = self._as_fitted()._known, list[list[str]]()
        for scores in self._nearness():
            taken = list[int]()
            for v in np.argsort(-scores, kind="stable")[: np.count_nonzero(scores > 0)].tolist():
                # Forms of a word begin alike and have similar vectors.
                same = [u for u in taken if known.words[u][:_LETTERS] == known.words[v][:_LETTERS]]
                if not same or (known.word_vectors[same] * known.word_vectors[v]).sum(axis=1).max() < _FORMS:
                    taken.append(v)
                if len(taken) == n_words:
                    break
            found.append([known.words[v] for v in taken])
        return found
