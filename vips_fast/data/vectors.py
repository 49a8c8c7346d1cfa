"""Vectors of words from files of public ones."""

from collections.abc import Sequence

import numpy as np

from ._files import BadLine, blocks, naming, open_text
from .types import WordVectors
from .vocabulary import PathLike

#: Bytes of the longest first line, by which d is known.
_MOST_LINE = 1 << 20


def load_word_vectors(path: PathLike, words: Sequence[str]) -> WordVectors:
    """Read vectors of ``words`` from word2vec's, fastText's or GloVe's files.

    The file is plain or gzip. Each line holds a word and its d numbers, with spaces between. A first line of two whole
    numbers, the number of words and d, is passed over. Returns float32 of shape (len(words), d). Words are compared as
    they are, and the first line of a word counts. A word that is not in the file has a row of NaN.

    Raises OSError if the file does not open. Raises ValueError if it holds no vectors. It also does so if a line of one
    of the words has fewer numbers than the first line, or numbers that are not finite.
    """
    columns = {word.encode(): v for v, word in enumerate(words)}
    found: dict[int, np.ndarray] = {}
    d = number = 0
    with naming(path), open_text(path) as file:
        for block in blocks(file):
            for line in block.split(b"\n"):
                number += 1
                word = line.partition(b" ")[0]
                if d == 0:
                    if len(line) > _MOST_LINE:
                        raise BadLine(number, f"more than {_MOST_LINE} bytes; expected a word and its numbers")
                    fields = line.split()
                    if not fields or (number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields)):
                        continue
                    d = len(_vector(line, len(fields) - 1, number))
                v = columns.get(word)
                # A line of more fields belongs to a phrase which begins with the word.
                if v is not None and v not in found and len(line.split()) <= d + 1:
                    found[v] = _vector(line, d, number)
            if d > 0 and len(found) == len(columns):
                break
            number -= block.endswith(b"\n")
        if d == 0:
            raise ValueError("is empty; expected lines of a word and its numbers")
    out = np.full((len(words), d), np.nan, dtype=np.float32)
    for v, vector in found.items():
        out[v] = vector
    return out


def _vector(line: bytes, d: int, number: int) -> np.ndarray:
    """Return the d numbers behind the word of a line."""
    fields = line.split()
    try:
        vector = np.array(fields[1:], dtype=np.float32)
    except ValueError:
        vector = np.empty(0, dtype=np.float32)
    if len(vector) != d or d < 1 or not np.isfinite(vector).all():
        raise BadLine(number, f"expected a word and {max(d, 1)} finite numbers")
    return vector
