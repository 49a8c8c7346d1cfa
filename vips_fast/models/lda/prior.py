"""Public knowledge of a language: word frequencies, and topics as ratios to them.

Everything here comes from public text. So it costs no privacy, and a model may use it before any release.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Self

import numpy as np

from ...data.types import Matrix, Vector, WordVectors
from ...store.npz import read_npz, write_npz

#: The version of the file; the fields that are arrays of numbers.
_FORMAT = 1
_ARRAYS = ("ratios", "weights", "frequencies")
#: The fewest topics and words: a score of candidates takes this many cells of a release.
_LEAST_TOPICS, _LEAST_WORDS = 2, 16


@dataclass(frozen=True, eq=False)
class PublicPrior:
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
            raise ValueError(
                f"public prior of {n_topics} topics and {n_words} words: expected at least {_LEAST_TOPICS} topics and "
                f"{_LEAST_WORDS} words"
            )
        if len(set(words)) < n_words:
            raise ValueError(f"words: {n_words - len(set(words))} of {n_words} are repeated; give each word once")
        shapes = (n_topics, n_words), (n_topics,), (n_words,)
        for name, array, shape in zip(_ARRAYS, given, shapes, strict=True):
            if array.shape != shape or array.dtype.kind not in "fiu":
                raise ValueError(f"{name}: {array.dtype} of shape {array.shape}; expected numbers of shape {shape}")
            if not (np.isfinite(array).all() and (array > 0).all()):
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicPrior) and (self.digest, self.name) == (other.digest, other.name)

    def __hash__(self) -> int:
        return hash(self.digest)

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
        column = {word: v for v, word in enumerate(self.words)}
        at = np.array([column.get(str(word), -1) for word in vocabulary], dtype=np.int64)
        known = at >= 0
        if 2 * known.sum() < len(at):
            raise ValueError(
                f"public_prior {self.name!r} knows {known.sum()} of {len(at)} words: expected half; give a prior of "
                "the records' language"
            )
        ratios = np.where(known, self.ratios[:, at], np.float32(1.0))
        frequencies = np.where(known, self.frequencies[at], np.median(self.frequencies[at[known]]))
        return type(self)(tuple(vocabulary), ratios, self.weights, frequencies, self.name, self.language)

    def save(self, path: str | os.PathLike[str] | IO[bytes]) -> None:
        """Write an ``.npz`` file; equal priors give equal bytes."""
        arrays = {name: np.asarray(getattr(self, name)) for name in ("words", "name", "language", *_ARRAYS)}
        write_npz(path, {"public_prior": np.array(_FORMAT), **arrays})

    def to_bytes(self) -> np.ndarray:
        """Return a file's bytes, uint8, for the settings of a fit."""
        file = io.BytesIO()
        self.save(file)
        return np.frombuffer(file.getvalue(), np.uint8)

    @classmethod
    def from_bytes(cls, content: np.ndarray) -> Self:
        """Read the bytes of `to_bytes`; ValueError for others."""
        if not isinstance(content, np.ndarray) or content.dtype != np.uint8 or content.ndim != 1:
            raise ValueError("public_prior: expected the bytes of a prior")
        return cls._of_arrays("public_prior", read_npz("public_prior", file=io.BytesIO(content.tobytes())))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by `save`.

        Raises ValueError with the fault of another file, OSError if there is no file.
        """
        return cls._of_arrays(path, read_npz(path))

    @classmethod
    def _of_arrays(cls, path: str | os.PathLike[str], arrays: dict[str, np.ndarray]) -> Self:
        try:
            if arrays["public_prior"].tolist() != _FORMAT:
                raise ValueError(f"another version of the format; expected {_FORMAT}: build the prior again")
            ratios, weights, frequencies = (arrays[name] for name in _ARRAYS)
            words, name, language = (arrays[name].tolist() for name in ("words", "name", "language"))
            return cls(words, ratios, weights, frequencies, name, language)
        except KeyError as missing:
            raise ValueError(f"{path}: has no array {missing}; expected a file of vips-fast prior") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None


def _brought_to_one(values: np.ndarray, total: np.ndarray | float) -> np.ndarray:
    """Divide by sums, but for those of 1, so that a prior that is read back keeps its bits."""
    return np.array(values / np.where(np.abs(np.asarray(total) - 1.0) > 1e-5, total, 1.0))


def word_probabilities(weights: np.ndarray) -> Matrix:
    """Divide each row of (K, V) weights by its sum, as float64."""
    rows = np.asarray(weights, np.float64)
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))
