"""Public knowledge of a sentence model: prototypes of documents, directions and words.

Everything here comes from public text. So it costs no privacy, and a model may use it before any release.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ...checks import check_number
from ...data.embeddings import DIGESTS, SentenceEncoder
from ...data.tokens import Analyzer
from ...data.types import Cells, Matrix, Vector
from ...data.vocabulary import coarse_words, public_vocabulary, stop_words
from ...kernels.threads import one_blas_thread
from ...store.cache import cached, key_of
from ..lda.prior import PublicPrior, load_prior, packaged_key
from ..mixture import GRID, MOST_COLUMNS, exact_product
from ..public import PublicKnowledge

_ROUNDS, _STARTS = 30, 3
_ARRAYS = ("projection", "prototypes", "weights", "word_vectors")
#: A function from texts to vectors, (n, D).
Encode = Callable[[Sequence[str]], Cells]
#: Raise it when the same sources make other vectors: stored ones are then made again.
_VERSION = 1
#: Words that are counted; invented documents, their words, and the share of them of a document's first topic.
_WORDS, _DOCUMENTS, _LENGTH, _FIRST = 5000, 1000, 25, 0.8


@dataclass(frozen=True, eq=False)
class PublicVectors(PublicKnowledge):
    """Public prototypes of documents, by their sentence vectors, for `DocumentClusters`.

    Parameters
    ----------
    projection : array of shape (D, d)
        Vectors of D numbers are multiplied by it; their length should become at most about 1.
    prototypes : array of shape (P, D)
        Kinds of public documents, brought to length 1.
    weights : array of shape (P,)
        Their shares of the public documents, above 0; brought to the sum 1.
    words : sequence of str, length V
        Public words, in the order of the counts of a fit.
    word_vectors : array of shape (V, D)
        The words' own vectors, brought to length 1.
    name : str
        The source, as the privacy statement names it.

    Raises ValueError for other shapes or numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PublicVectors
    >>> public = PublicVectors(np.eye(3, 2), np.eye(2, 3), [1, 1], ["cough", "wheel"], np.eye(2, 3), "an example")
    >>> public
    PublicVectors('an example', 2 prototypes, 2 words)
    """

    _arrays, _writer = _ARRAYS, "PublicVectors.save"

    projection: Matrix
    prototypes: Matrix
    weights: Vector
    words: Sequence[str]
    word_vectors: Matrix
    name: str

    def __post_init__(self) -> None:
        words, arrays = tuple(map(str, self.words)), {n: np.asarray(getattr(self, n), np.float64) for n in _ARRAYS}
        columns, directions = len(arrays["projection"]), arrays["projection"].shape[-1]
        n_prototypes = len(arrays["weights"])
        shapes = (columns, directions), (n_prototypes, columns), (n_prototypes,), (len(words), columns)
        for (name, array), shape in zip(arrays.items(), shapes, strict=True):
            if array.shape != shape or not array.size or not np.isfinite(array).all():
                raise ValueError(f"{name}: shape {array.shape}; expected finite numbers of shape {shape}")
        if columns > MOST_COLUMNS or not 1 <= directions <= columns:
            raise ValueError(f"projection: shape {shapes[0]}; expected (D, d), d <= D <= {MOST_COLUMNS}")
        if len(set(words)) < len(words):
            raise ValueError(f"words: {len(words) - len(set(words))} of {len(words)} are repeated; give each word once")
        if arrays["weights"].min() <= 0:
            raise ValueError("weights: expected numbers above 0")
        # A sum of 1 is left, so that numbers that are read back keep their bits.
        total = arrays["weights"].sum()
        arrays["weights"] = arrays["weights"] / (total if abs(total - 1.0) > 1e-9 else 1.0)
        for name, array in arrays.items():
            array = unit_rows(array) if name in ("prototypes", "word_vectors") else array
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "name", str(self.name))

    def __repr__(self) -> str:
        return f"PublicVectors({self.name!r}, {len(self.weights)} prototypes, {len(self.words)} words)"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of numbers and words, without the name."""
        found = hashlib.sha256("\n".join(self.words).encode())
        for name in _ARRAYS:
            found.update(np.ascontiguousarray(getattr(self, name), "<f8").tobytes())
        return found.hexdigest()

    def project(self, vectors: Matrix) -> np.ndarray:
        """Multiply vectors by the projection; scale long ones to length 1: (n, d) whole numbers, in units of 1 / GRID.

        A row is a function of its own vector, bit for bit: the product is exact, and all else acts on single rows.
        """
        rows = exact_product(vectors, self.projection)
        square = (rows * rows).sum(axis=1, keepdims=True)
        return np.asarray(np.trunc(rows * (GRID / np.sqrt(np.maximum(square, 1.0)))))


def unit_rows(rows: Matrix) -> Matrix:
    """Divide rows by lengths that are not about 0 or 1."""
    lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return np.array(rows / np.where((lengths > 0) & (abs(lengths - 1.0) > 1e-9), lengths, 1.0))


def weighted_centers(
    rows: Matrix, weights: Vector, n_centers: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Divide weighted public rows by k-means: centers (K, d), and each row's.

    They are the best of a few starts by k-means++ (Arthur & Vassilvitskii 2007).
    """
    best: tuple[np.ndarray, np.ndarray] | None = None
    least = math.inf
    with one_blas_thread(0, scipy=False):  # bits are not to hang on how many threads a BLAS takes
        squares = (rows * rows).sum(axis=1)
        for _ in range(_STARTS):
            centers, far = np.empty((n_centers, rows.shape[1])), np.ones(len(rows))
            for k in range(n_centers):
                chance = weights * (far if far @ weights > 0 else 1.0)
                centers[k] = rows[rng.choice(len(rows), p=chance / chance.sum())]
                apart = ((rows - centers[k]) ** 2).sum(axis=1)
                far = apart if k == 0 else np.minimum(far, apart)
            for _ in range(_ROUNDS):
                distances = (centers * centers).sum(axis=1) - 2.0 * rows @ centers.T
                nearest = distances.argmin(axis=1)
                mass = np.bincount(nearest, weights, n_centers)
                sums = np.zeros_like(centers)
                np.add.at(sums, nearest, rows * weights[:, None])
                # A center without rows stays at its place.
                centers = np.where(mass[:, None] > 0, sums / np.maximum(mass, 1e-300)[:, None], centers)
            loss = float(weights @ (distances.min(axis=1) + squares))
            if loss < least:
                least, best = loss, (centers, nearest)
    assert best is not None
    return best


def public_vectors(
    documents: Cells | Matrix,
    words: Sequence[str],
    word_vectors: Cells | Matrix,
    *,
    n_prototypes: int = 300,
    n_directions: int = 64,
    name: str = "public documents",
    random_state: int = 0,
) -> PublicVectors:
    """Make public knowledge from sentence vectors of **public** documents and words.

    Parameters
    ----------
    documents : array of shape (n, D)
        Vectors of public documents, at least some hundreds, of the encoder that reads the private ones.
    words, word_vectors : sequence of str, array of shape (V, D)
        Public words, and their vectors by the same encoder.
    n_prototypes, n_directions : int
        Clusters of the documents, and principal directions to use: at most all.
    name : str
        The source, as the privacy statement names it.

    Raises ValueError for other shapes, or numbers that are not finite.

    >>> import numpy as np
    >>> from vips_fast import public_vectors
    >>> rng = np.random.default_rng(0)
    >>> documents = np.eye(2, 4)[np.arange(40) % 2] + 0.1 * rng.normal(size=(40, 4))
    >>> public_vectors(documents, ["cough", "wheel"], np.eye(2, 4), n_prototypes=2, n_directions=2)
    PublicVectors('public documents', 2 prototypes, 2 words)
    """
    rows = np.asarray(documents, np.float64)
    if rows.ndim != 2 or rows.shape[0] < 2 or not np.isfinite(rows).all():
        raise ValueError(f"documents: shape {rows.shape}; expected finite vectors of two or more public documents")
    check_number("n_prototypes", n_prototypes, 1, 10**5, integer=True)
    check_number("n_directions", n_directions, 1, MOST_COLUMNS, integer=True)
    rows = unit_rows(rows)
    with one_blas_thread(0):
        projection = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][:n_directions].T
    n_prototypes = min(int(n_prototypes), len(rows))
    centers, nearest = weighted_centers(rows, np.ones(len(rows)), n_prototypes, np.random.default_rng(random_state))
    weights: Vector = np.asarray(np.bincount(nearest, minlength=n_prototypes) + 0.5, np.float64)
    return PublicVectors(np.ascontiguousarray(projection), centers, weights, words, np.asarray(word_vectors), name)


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
    made = partial(_made, encoder, prior, source, progress)
    return cached("vectors-en", key, made, PublicVectors.to_bytes, PublicVectors.from_bytes)


def _made(encode: Encode, prior: PublicPrior, name: str, progress: Callable[[int, int], None] | None) -> PublicVectors:
    analyzer = Analyzer("unicode", 1, "mixed", 1, (*stop_words("public:en"), *coarse_words("public:en")))
    words, documents = public_vocabulary("public:en", analyzer, size=_WORDS), invented_documents(prior)
    texts = [*documents, *words]
    found = encode.of_public(texts, progress) if isinstance(encode, SentenceEncoder) else encode(texts)
    return public_vectors(found[: len(documents)], words, found[len(documents) :], name=name)


def invented_documents(prior: PublicPrior, n_documents: int = _DOCUMENTS, random_state: int = 0) -> list[str]:
    """Draw public documents from a public prior: one of each topic's words, and then of two topics'."""
    rng, topics, words = np.random.default_rng(random_state), prior.topics(), np.array(prior.words)
    texts = []
    for number in range(n_documents):
        first = number if number < prior.n_topics else rng.choice(prior.n_topics, p=prior.weights)
        law = topics[first]
        if number >= prior.n_topics:
            law = _FIRST * law + (1.0 - _FIRST) * topics[rng.choice(prior.n_topics, p=prior.weights)]
        texts.append(" ".join(rng.choice(words, size=_LENGTH, p=law / law.sum()).tolist()))
    return texts
