"""Make public vectors with installed packages: words and invented documents.

A sentence model makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...data.sentences import SentenceEncoder
from ...data.tokens import Analyzer
from ...data.types import Cells
from ...data.vocabulary import coarse_words, public_vocabulary, stop_words
from ...data.wordpieces import DIGESTS
from ...store.cache import cached, key_of
from ..lda.prior import PublicPrior
from ..lda.prior_building import load_prior, packaged_key
from .knowledge import PublicVectors, public_vectors

#: A function from texts to vectors, (n, D).
Encode = Callable[[Sequence[str]], Cells]
#: Raise it when the same sources make other vectors: stored ones are then made again.
_VERSION = 1
#: Words that are counted; invented documents, their words, and the share of them of a document's first topic.
_WORDS, _DOCUMENTS, _LENGTH, _FIRST = 5000, 1000, 25, 0.8


def packaged_vectors(
    encode: Encode | None = None, *, name: str | None = None, progress: Callable[[int, int], None] | None = None
) -> PublicVectors:
    """Make or load public vectors of English from installed packages only.

    Public documents are invented: 25 words of one or two topics of `vips_fast.load_prior` ("public:en"). ``encode``
    gives the vectors of texts, and None is `vips_fast.data.SentenceEncoder`, whose vectors are stored in the folder of
    the prior. Making them takes less than a minute, and ``progress`` gets the numbers of finished and of all texts.
    Raises ImportError if a package is missing.
    """
    if encode is not None:
        prior = load_prior("public:en")
        return _made(encode, prior, name or "a given encoder, of invented documents", progress)
    encoder, prior = SentenceEncoder(), load_prior("public:en")
    source = f"{encoder.name}, of invented documents by {prior.source}, without coarse words"
    key = key_of(_VERSION, source, prior.digest, DIGESTS, packaged_key())
    return cached(
        "vectors-en",
        key,
        lambda: _made(encoder, prior, source, progress),
        PublicVectors.to_bytes,
        PublicVectors.from_bytes,
    )


def _made(encode: Encode, prior: PublicPrior, name: str, progress: Callable[[int, int], None] | None) -> PublicVectors:
    analyzer = Analyzer("unicode", 1, "mixed", 1, (*stop_words("public:en"), *coarse_words("public:en")))
    words, documents = public_vocabulary("public:en", analyzer, size=_WORDS), invented_documents(prior)
    texts = [*documents, *words]
    found = encode.of_public(texts, progress) if isinstance(encode, SentenceEncoder) else encode(texts)
    return public_vectors(found[: len(documents)], words, found[len(documents) :], name=name)


def invented_documents(prior: PublicPrior, n_documents: int = _DOCUMENTS, random_state: int = 0) -> list[str]:
    """Draw public documents from a public prior.

    Each has words of one topic. Once each topic had its own, documents have words of two.
    """
    rng, topics, words = np.random.default_rng(random_state), prior.topics(), np.array(prior.words)
    texts = []
    for number in range(n_documents):
        first = number if number < prior.n_topics else rng.choice(prior.n_topics, p=prior.weights)
        law = topics[first]
        if number >= prior.n_topics:
            law = _FIRST * law + (1.0 - _FIRST) * topics[rng.choice(prior.n_topics, p=prior.weights)]
        texts.append(" ".join(rng.choice(words, size=_LENGTH, p=law / law.sum()).tolist()))
    return texts
