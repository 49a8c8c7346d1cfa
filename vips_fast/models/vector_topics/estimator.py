"""Private topics of words and sentence vectors: settings and read-outs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, Unpack, cast

import numpy as np

from ...checks import check_number
from ...data.frames import to_frame
from ...data.types import Data, Labels, Matrix, Vector
from ...engine.measured import MeasuredModel
from ...engine.model import Model
from ...engine.request import RunForecast, RunSchedule
from ...engine.result import Public
from ..clusters.knowledge import GRID, PublicVectors, check_public
from ..clusters.records import read_vectors
from ..fitted import ArraySpec
from ..lda import LatentDirichletAllocation
from ..lda.model import LdaModel
from ..lda.prior_model import PriorLdaModel
from ..parameters import Bookkeeping, Call
from ..readouts import Published
from .model import VectorTopicModel
from .records import DocumentsWithVectors

#: Where settings name the source of public knowledge.
_SOURCE = "public_prior_source"


@dataclass(kw_only=True, repr=False, eq=False)
class VectorTopics(LatentDirichletAllocation):
    """Topics of documents that have words and a sentence vector each.

    A topic has word probabilities and a center of vectors. Both are in the same releases. The centers start where the
    topics' words are, by public vectors of words, and the documents' vectors move them. A document's topic follows from
    its vector and its words (`predict`).

    Parameters
    ----------
    n_components, **common
        As for `LatentDirichletAllocation`, ``public_prior`` included.
    public : PublicVectors
        The words of the columns with their vectors, directions and prototypes (`vips_fast.public_vectors`).
    vector_share : float
        The vectors' share of the squared clip, in (0, 1). More of it makes the centers more exact and the words less.

    Notes
    -----
    The sensitivity is proven at `vips_fast.models.vector_topics.model.VectorTopicModel`. A document's vector has to be
    a function of its own text (`vips_fast.data.SentenceEncoder`). A document without known words contributes nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PublicVectors, VectorTopics
    >>> words = [f"word{v}" for v in range(4)]
    >>> public = PublicVectors(np.eye(4), np.eye(4), np.ones(4), words, np.eye(4), "an example")
    >>> z = np.arange(6000) % 2
    >>> counts, vectors = 5 * np.eye(4, dtype=int)[z], np.eye(4)[z]
    >>> model = VectorTopics(2, public=public, doc_length=5, epsilon=4.0, n_steps=4, random_state=0)
    >>> model.fit(counts, vectors).components_.shape, model.centers_.shape
    ((2, 4), (2, 4))
    >>> model.predict(counts[:2], vectors[:2]).shape, model.transform(counts[:3], vectors[:3]).shape
    ((2,), (3, 2))

    One more step, and a fit with its proportions.

    >>> model = VectorTopics(2, public=public, doc_length=5, noise_multiplier=5.0, n_steps=4)
    >>> model.fit_transform(counts, vectors).shape, model.partial_fit(counts, vectors).n_steps_
    ((6000, 2), 5)
    """

    public: PublicVectors | None = None
    vector_share: float = 0.25

    def fit(self, X: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Self:
        """Fit the topics to documents.

        ``X``, (n, V), are counts of the public words, sparse or an array in memory, and ``y``, (n, D), sentence vectors
        of the same documents. `vips_fast.models.parameters.Bookkeeping` has the keywords. Raises ValueError if a
        parameter, X or y is unusable, or the run would overspend. Nothing has been spent then.
        """
        return self._fit(X, y, **call)

    def partial_fit(self, X: Data, y: object = None, **call: Unpack[Call]) -> Self:
        """Do one more step from all rows of X and y.

        See `LatentDirichletAllocation.partial_fit`.
        """
        return self._fit(X, y, partial=True, **call)

    def fit_transform(self, X: Data, y: object = None, **call: Unpack[Bookkeeping]) -> Matrix:
        """Fit, then give the documents' topic proportions, which are not private."""
        return self.fit(X, y, **call).transform(X, y)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("vector_share", self.vector_share, 0, 1, low_open=True, high_open=True)
        known = check_public(self.public)
        if self.public_prior is not None and tuple(self.public_prior.words) != tuple(known.words):
            raise ValueError(
                f"public_prior: other words than those of {known.name!r}; expected "
                "public_prior.restricted_to(public.words)"
            )

    @property
    def vocabulary(self) -> Sequence[str]:
        """The public words."""
        return check_public(self.public).words

    def _settings(self) -> dict[str, Any]:
        settings, known = super()._settings(), check_public(self.public)
        del settings["public"]
        source = "; ".join((*filter(None, [settings.get(_SOURCE)]), known.source))
        return {**settings, **known.settings(), _SOURCE: source}

    @classmethod
    def _from_settings(cls, settings: Mapping[str, Any]) -> Self:
        own = dict(settings)
        known = PublicVectors.of_settings(own)
        if own.get("public_prior") is None:
            del own[_SOURCE]
        return super()._from_settings({**own, "public": known})

    def _read(self, X: Any, y: Any = None) -> tuple[DocumentsWithVectors, dict[str, Any]]:
        corpus = DocumentsWithVectors(X, y, check_public(self.public), self.invalid, type(self).__name__)
        facts: dict[str, Any] = {"n_features": corpus.n_features}
        if self._length is None:
            facts["scale"] = float(corpus.largest())
        return corpus, facts

    # The words have a part of the clip, at the noise of the whole.

    def _of_words(self, schedule: RunSchedule | None) -> RunSchedule | None:
        """Return the schedule with the noise multiplier of the words' part."""
        if schedule is None:
            return None
        return replace(schedule, noise_multiplier=schedule.noise_multiplier / math.sqrt(1.0 - self.vector_share))

    def _model(self, public: Public, schedule: RunSchedule | None = None) -> VectorTopicModel:
        words = super()._model(public, self._of_words(schedule))
        return VectorTopicModel(
            cast(LdaModel | PriorLdaModel, words), check_public(self.public), float(self.vector_share)
        )

    def _forecast(self, public: Public, schedule: RunSchedule, model: Model) -> RunForecast | None:
        model = model.model if isinstance(model, MeasuredModel) else model
        words = cast(VectorTopicModel, model).words
        return super()._forecast(public, cast(RunSchedule, self._of_words(schedule)), words)

    def _restored(self) -> LdaModel | PriorLdaModel:
        result = self._fitted()
        model = self._as_fitted()._model(result.public)
        model.restore(result.state)
        return model.words

    def _array_specs(self, public: Public) -> dict[str, ArraySpec]:
        specs, d = super()._array_specs(public), check_public(self.public).projection.shape[1]
        n_topics = specs["components"].shape[0]
        return {
            **specs,
            "centers": ArraySpec((n_topics, d)),
            "vector_shares": ArraySpec((n_topics,), low=0.0, high=1.0),
        }

    centers_ = Published[Matrix]("centers", "(K, d) centers of the topics' projected vectors.")
    vector_shares_ = Published[Vector]("vector_shares", "(K,) shares of the documents whose vector is of the topic.")

    # ------------------------------------------------------------ read-outs

    def transform(self, X: Data, y: object = None) -> Matrix:
        """Estimate documents' topic proportions by words and vectors.

        They are float64 (n, K), and rows sum to 1. Without ``y`` they follow from the words. They describe X: publish
        them only if X may be published.
        """
        if y is None:
            return super().transform(X)
        gamma, shares = self._of_both(X, y)
        gamma = gamma + shares
        return cast(Matrix, to_frame(self, gamma / gamma.sum(axis=1, keepdims=True), X))

    def predict(self, X: Data, y: object) -> Labels:
        """Find the topic of each document by words and vector.

        ``X`` and ``y`` are as in `fit`. Topics, (n,), are counted from 0. They describe X and y.
        """
        return cast(Labels, self._of_both(X, y)[1].argmax(axis=1))

    def _of_both(self, X: Any, y: object) -> tuple[np.ndarray, np.ndarray]:
        """Infer proportions by words, and the topic of the vector.

        Returns Dirichlet parameters and probabilities, (n, K) each.

        A topic's probability before the vector is the expected proportion. The variance of a vector about its center is
        the same in all directions. Together they make up for the rest of a length of 1.
        """
        known = check_public(self._as_fitted().public)
        vectors = read_vectors(y, "y", known, "raise")[0]
        gamma = self._posterior(X)[1]
        if len(vectors) != len(gamma):
            raise ValueError(f"y has {len(vectors)} rows: expected {len(gamma)}, one for each document of X")
        rows, centers = known.project(vectors) / GRID, self.centers_
        squares = (centers * centers).sum(axis=1)
        variance = max(1.0 - float(self.vector_shares_ @ squares), 0.1) / centers.shape[1]
        log = np.log(gamma) + (rows @ centers.T - squares / 2) / variance
        shares = np.exp(log - log.max(axis=1, keepdims=True))
        return gamma, shares / shares.sum(axis=1, keepdims=True)
