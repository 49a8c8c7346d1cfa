"""Words from text over a given vocabulary, as the paper tokenises them."""

from __future__ import annotations

import re
from itertools import repeat

import numpy as np
from scipy import sparse

from vips_fast.data.corpus import Corpus
from vips_fast.data.counts import check_counts

__all__ = ["count_texts", "words_of"]

_SPACES = re.compile(r"[\s-]+")


def _table():
    table = bytearray(range(256))
    for upper in range(ord("A"), ord("Z") + 1):
        table[upper] = upper + 32
    separators = b" \t\n\r\v\f\x1c\x1d\x1e\x1f-"
    for byte in separators:
        table[byte] = ord(" ")
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return bytes(table), bytes(b for b in range(256) if b not in letters + separators)


_LOWER, _DROP = _table()


def words_of(text):
    """The words of a text, as the paper's code splits it.

    Lower case; white space and hyphens separate words; every other character
    that is not one of a to z is dropped (so "don't" becomes "dont").  This is
    ``parse_doc_list`` of onlineldavb, which the paper's code uses.

    Parameters
    ----------
    text : str

    Returns
    -------
    list of bytes
    """
    if not text.isascii():
        # Unicode has further white space, and capitals whose lower case is in
        # a to z (the Kelvin sign).
        text = _SPACES.sub(" ", text).lower()
    return text.encode("ascii", "ignore").translate(_LOWER, _DROP).split()


def word_index(vocabulary):
    """Column of each word that the tokenisation can produce.

    Vocabulary words go through the same normalisation as the texts.  Where two
    of them become one, the first has the counts; a word that becomes empty or
    several words (such as "1987" or "vice-president") never occurs.
    """
    index = {}
    for column, word in enumerate(vocabulary):
        normal = words_of(word)
        if len(normal) == 1:
            index.setdefault(normal[0], column)
    if not index:
        raise ValueError("vocabulary has no word made of letters a to z")
    return index


def count_texts(texts, vocabulary, source=""):
    """Count the vocabulary's words in each text.

    Words outside the vocabulary are dropped silently: the vocabulary is public
    and what is not in it leaves no trace.

    Parameters
    ----------
    texts : iterable of str
        One document each; empty ones stay, as empty documents.
    vocabulary : sequence of str
    source : str
        Where the texts come from, for the corpus.

    Returns
    -------
    Corpus

    Raises
    ------
    ValueError
        If there are no texts or no usable words in the vocabulary.
    TypeError
        If a text is not a string.
    """
    vocabulary = tuple(vocabulary)
    column = word_index(vocabulary).get
    pieces, lengths = [], []
    for text in texts:
        if not isinstance(text, str):
            raise TypeError("texts must hold strings only")
        words = words_of(text)
        columns = np.fromiter(map(column, words, repeat(-1)), np.int32, len(words))
        columns = columns[columns >= 0]
        pieces.append(columns)
        lengths.append(columns.shape[0])
    if not pieces:
        raise ValueError("texts is empty; expected at least one document")
    return Corpus(_counts(pieces, lengths, len(vocabulary)), vocabulary, source)


def _counts(pieces, lengths, n_features):
    indices = np.concatenate(pieces)
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    ones = np.ones(indices.shape[0], np.int32)
    return check_counts(
        sparse.csr_array((ones, indices, indptr), shape=(len(lengths), n_features)),
        name="texts",
    )
