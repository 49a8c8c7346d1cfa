"""Topics that have a center of sentence vectors beside their words.

Document d has words and a vector x_d, projected by a public matrix. Its proportions theta_d are Dirichlet. Each word
has a topic drawn from theta_d, and so has the vector: c_d. Given its topic, x_d is normal about the topic's center.
The words' part is a topic model as it is (`vips_fast.models.lda`). The vectors' part of a step releases how many
vectors are nearest to each topic's center, and their sum.

A center starts where the topic's words are. It is one step from the mean of all vectors, toward the mean vector of the
topic's words, less the mean of all topics' words. Word vectors are public, and topics are public or released. So a
start costs nothing, and releases of vectors move it (`vips_fast.models.clusters.model.move_centers`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ...engine.model import Model, Release, array_of
from ...engine.sampling import Sampler
from ...engine.units import unpack_block
from ...kernels.psd import one_blas_thread
from ...mechanisms import GaussianMechanism
from ..clusters.knowledge import PublicVectors, unit_rows
from ..clusters.model import COUNT, move_centers, nearest_centers, vector_sums
from ..lda.model import LdaModel
from ..lda.prior import word_probabilities
from ..lda.prior_model import PriorLdaModel

#: Length of a center's step from the mean of all vectors, as of clusters' starts, and the power of the step size.
_LENGTH, _DECAY = 0.4, 0.7
#: Room for the rounding of norms, so that no contribution is above the clip.
_BELOW = 1.0 - 1e-9


class VectorTopicModel(Model):
    """Topics of words, each with a center of vectors.

    ``words`` is the topic model of the words, with V words and up to K topics. ``share`` in (0, 1) is the vectors'
    share of the squared clip.

    Notes
    -----
    *Sensitivity.* A contribution has two blocks. The words' block has an L2 norm of at most sqrt(1 - share) C, which
    ``words`` proves for its own clip. The vectors' has a norm of at most sqrt(share) C. They are different entries, so
    both together have a norm of at most C. So a unit that is added or removed moves the sum by at most C. It is one
    release, with one noise. Replacing a unit moves the words' block by at most the sensitivity R that ``words`` proves.
    It moves the vectors' by at most twice its bound, since coordinates have signs: sqrt(R^2 + 4 share C^2) in all.

    *Vectors.* For each topic a unit's block has the number of its documents nearest to its center, times a public
    weight. It also has the sum of their projected vectors. All of it is divided by its norm if that is above 1
    (`vips_fast.models.clusters.model.vector_sums`), and multiplied by sqrt(share) C. It is a function of the unit's own
    documents and of the centers. Those are functions of public word vectors, of released topics and of earlier releases
    of this block. A person's documents are added before the norm is taken.

    *Purity and lattice.* Coordinates and distances are exact sums of whole numbers, as `ClusterModel` says.
    Contributions are truncated toward zero, which raises no norm; `_BELOW` is above the rounding of norms.
    """

    at_root = ("_sums", "_word_vectors", "_mean")

    def __init__(self, words: LdaModel | PriorLdaModel, public: PublicVectors, share: float):
        self.words, self._share = words, share
        self.clip = words.clip / math.sqrt(1.0 - share)
        self._bound = math.sqrt(share) * self.clip * _BELOW
        self.n_words, self.n_topics = words.shape
        self.n_directions = public.projection.shape[1]
        self._cells = self.n_words * self.n_topics
        self.shape = (self._cells + self.n_topics * (1 + self.n_directions),)
        self._word_vectors = public.word_vectors @ public.projection
        self._mean = public.weights @ (public.prototypes @ public.projection)
        self._spacing = 1.0
        #: A weighted average of released sums, the variance of its noise, its releases, and the kind of their topics.
        self._sums, self._variance, self._count, self._own = self._nothing(), 0.0, 0, self._fits_own
        self._begin()

    def _nothing(self) -> np.ndarray:
        return np.zeros((self.n_topics, 1 + self.n_directions))

    def contributor(self) -> Self:
        """Make a copy for another process, without the updates' parts."""
        other = super().contributor()
        other.words = self.words.contributor()
        return other

    def sensitivity(self, relation: str) -> float:
        """Return the bound; see the notes."""
        if relation == "add_remove":
            return self.clip
        return math.hypot(self.words.sensitivity(relation), 2.0 * math.sqrt(self._share) * self.clip)

    def prepare(self, mechanism: GaussianMechanism, sampler: Sampler) -> None:
        """Take the lattice."""
        self.words.prepare(mechanism, sampler)
        self._spacing = mechanism.spacing

    # -- contributions

    def contribute(self, block: Any, words: np.ndarray, out: np.ndarray, scratch: dict[str, Any]) -> None:
        """Add the words' contributions and the vectors'; see the notes."""
        self.words.contribute(block, words, out[: self._cells].reshape(self.n_words, self.n_topics), scratch)
        (documents, rows), _, starts = unpack_block(block, words)
        unit = np.arange(len(rows)) if starts is None else np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        kept = documents.with_words(rows)
        unit, coordinates = unit[kept], documents.coordinates[rows[kept]].astype(np.float64)
        topic = nearest_centers(coordinates, self.centers[: self._present])
        cells, values = vector_sums(unit, topic, coordinates, len(words), self.n_topics)
        values *= self._bound / self._spacing
        # Whole numbers are the values truncated toward zero.
        np.add.at(out[self._cells :], cells.reshape(-1), values.astype(np.int64).reshape(-1))

    # -- updates

    def update(self, release: Release) -> None:
        """Take a release of both blocks."""
        unit = release.scale / self._bound
        values, sd = release.units[self._cells :] * unit, release.noise_sd / self._bound
        part = release.units[: self._cells].reshape(self.n_words, self.n_topics)
        self.words.update(Release(release.step, part, release.scale, release.noise_sd))
        # What was released of vectors is about the topics that there were.
        rate = (1.0 + self._count) ** -_DECAY
        self._sums += rate * (values.reshape(self._sums.shape) - self._sums)
        self._variance = (1.0 - rate) ** 2 * self._variance + (rate * sd) ** 2
        self._count += 1
        if self._fits_own != self._own:
            self._sums, self._variance, self._count, self._own = self._nothing(), 0.0, 0, self._fits_own
        self._begin()

    @property
    def _fits_own(self) -> bool:
        return isinstance(self.words, LdaModel) or self.words.fits_own

    def _begin(self) -> None:
        """Find the centers of the topics that the next step is about."""
        words = self.words
        weights = words.result()["components"] if isinstance(words, LdaModel) else words.present
        self._present = len(weights)
        self.centers, self.shares = self._placed(weights, self._present)

    def _placed(self, weights: np.ndarray, n_moved: int) -> tuple[np.ndarray, np.ndarray]:
        """Find centers (J, d) and shares (J,) of topics.

        ``weights``, (J, V), are the topics' words. Releases were about the first ``n_moved`` topics.
        """
        shares = weights.sum(axis=1) / weights.sum()
        with one_blas_thread(0, scipy=False):  # bits are not to hang on how many threads a BLAS takes
            rows = word_probabilities(weights) @ self._word_vectors
            start = self._middle() + _LENGTH * unit_rows(rows - shares @ rows)
        if self._count and n_moved:
            part = slice(n_moved)
            given = shares[part] / shares[part].sum()
            start[part], found = move_centers(start[part], given, self._sums[part], self._variance**0.5)
            shares[part] = found * shares[part].sum()
        return start, shares

    def _middle(self) -> np.ndarray:
        """Estimate the mean of all vectors, (d,).

        As far as noise hides it, it is the public mean.
        """
        if not self._count:
            return self._mean
        total, known = self._sums.sum(axis=0), self._variance * self.n_topics
        count = max(float(total[0]) / COUNT, known**0.5 / COUNT, 1e-300)
        mean, noise = total[1:] / count, known / count**2
        apart = max(float(((mean - self._mean) ** 2).mean()) - noise, 0.0)
        return np.asarray(self._mean + apart / max(apart + noise, 1e-300) * (mean - self._mean))

    # -- results

    @property
    def has_score(self) -> bool:
        """Whether the words' topics can be scored."""
        return self.words.has_score

    def gain_score(self) -> Any:
        """Score the words' topics."""
        return self.words.gain_score()

    def result(self) -> dict[str, np.ndarray]:
        """Give ``components``, and each topic's center and share of vectors."""
        found, centers, shares = self.words.result(), self.centers, self.shares
        if isinstance(self.words, PriorLdaModel) and self._own:
            taken = self._present if self.words.takes_present else 0
            centers, shares = self._placed(found["components"], taken)
        return {**found, "centers": centers, "vector_shares": shares}

    # -- state

    def state(self) -> dict[str, np.ndarray]:
        """Give the words' state and the released sums of vectors."""
        steps = np.array([float(self._count), self._variance, float(self._own)])
        return {**self.words.state(), "vector_sums": self._sums.copy(), "vector_steps": steps}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        count, variance, own = array_of(state, "vector_steps", (3,)).tolist()
        if not (0 <= count < 2**31 and count == int(count) and variance >= 0 and own in (0.0, 1.0)):
            raise ValueError("state: 'vector_steps' is out of its range")
        sums = array_of(state, "vector_sums", self._sums.shape)
        self.words.restore(state)
        self._sums, self._variance, self._count, self._own = sums, variance, int(count), bool(own)
        self._begin()
