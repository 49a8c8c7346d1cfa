"""Words from text over a given vocabulary, as the paper tokenises them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np
from scipy import sparse

from .corpus import Corpus

_SPACES = re.compile(r"[\s-]+")
_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_SEPARATORS = b" \t\n\r\v\f\x1c\x1d\x1e\x1f-"
_LOWER = bytes.maketrans(_LETTERS.upper() + _SEPARATORS, _LETTERS + b" " * len(_SEPARATORS))
_DROPPED = bytes(set(range(256)) - set(_LETTERS + _LETTERS.upper() + _SEPARATORS))


def words_of(text: str) -> list[bytes]:
    """The words of a text, as the paper's code splits it.

    Lower case; white space and hyphens separate words; every other character that is not one of a to z is dropped (so
    "don't" becomes "dont"). This is ``parse_doc_list`` of onlineldavb, which the paper's code uses.
    """
    if not text.isascii():
        # Unicode has further white space, and capitals whose lower case is in a to z (the Kelvin sign).
        text = _SPACES.sub(" ", text).lower()
    return text.encode("ascii", "ignore").translate(_LOWER, _DROPPED).split()


def word_index(vocabulary: Iterable[str]) -> dict[bytes, int]:
    """Column of each word that the tokenisation can produce.

    Vocabulary words go through the same normalisation as the texts. Where two of them become one, the first has the
    counts; a word that becomes empty or several words (such as "1987" or "vice-president") never occurs. Raises
    ValueError if no word can occur.
    """
    index: dict[bytes, int] = {}
    for column, word in enumerate(vocabulary):
        normal = words_of(word)
        if len(normal) == 1:
            index.setdefault(normal[0], column)
    if not index:
        raise ValueError("vocabulary has no word made of letters a to z")
    return index


def count_texts(texts: Iterable[str], vocabulary: Sequence[str], source: str = "") -> Corpus:
    """Count the vocabulary's words in each text, a document; empty ones stay, as empty documents.

    Words outside the vocabulary are dropped silently: the vocabulary is public and what is not in it leaves no trace.
    `source` says in the corpus where the texts come from. Raises ValueError if there are no texts or no usable words in
    the vocabulary, and TypeError if a text is not a string.
    """
    vocabulary = tuple(vocabulary)
    column = word_index(vocabulary).get
    documents, indptr = [], [0]
    for text in texts:
        if not isinstance(text, str):
            raise TypeError("texts must hold strings only")
        words = words_of(text)
        columns = np.fromiter(map(column, words, repeat(-1)), np.int32, len(words))
        documents.append(columns[columns >= 0])
        indptr.append(indptr[-1] + len(documents[-1]))
    if not documents:
        raise ValueError("texts is empty; expected at least one document")
    indices = np.concatenate(documents)
    ones = np.ones(len(indices), np.int32)
    counts = sparse.csr_array((ones, indices, indptr), shape=(len(documents), len(vocabulary)))
    return Corpus(counts, vocabulary, source)
