"""The one entry to all corpora: raw records, and counts in a file of scipy.

Other formats of counts have readers elsewhere: MatrixMarket `scipy.io.mmread`, svmlight
`sklearn.datasets.load_svmlight_file`. `scipy.sparse.save_npz` stores what they read.
"""

import os
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ..checks import check_choice
from ..store.npz import read_npz
from ._files import naming
from .arrays import csr_arrays, new_csr
from .corpus import Corpus
from .counts import check_counts
from .records import RECORD_FORMATS, Records, source_name
from .vocabulary import Vocabulary, public_vocabulary

#: Names of the formats that documents are read in: counts, then records.
FORMATS = ("npz", *RECORD_FORMATS)

PathLike = str | os.PathLike[str]

_INDEX_NAMES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}


def load_corpus(
    path: Any,
    vocabulary: Vocabulary | None = None,
    format: str | None = None,
    *,
    text: str | Sequence[str] | None = None,
    person: str | None = None,
    analyzer: Any = None,
    vocabulary_size: int = 8000,
    encoding: str = "utf-8",
    invalid: str = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Corpus:
    """Read a corpus of any known format.

    Parameters
    ----------
    path : path-like, "-", table or iterable of str
        Counts in a file, or raw records wherever `vips_fast.data.records.read_batches` takes them from.
    vocabulary : sequence of str, path-like, "public:LANGUAGE" or None
        The words of the columns (`vips_fast.data.vocabulary.public_vocabulary`). Needed for raw records.
    format : {"npz", "csv", "jsonl", "parquet", "xlsx", "folder"}
        "npz" is a matrix of counts, as `scipy.sparse.save_npz` writes it. None takes a file whose name ends in .npz as
        one, and tells the others by their contents.
    text : str, sequence of str or None
        Columns of the text; None is "text".
    person, encoding, progress
        See `vips_fast.data.records.Records`.
    analyzer, vocabulary_size
        See `vips_fast.data.vocabulary.public_vocabulary`.
    invalid : {"raise", "drop"}
        What to do about a document that holds an invalid count (see `check_counts`), a broken record (see
        `read_batches`) or one without a person. "drop" makes it a document of no words and says nothing about it. A
        file that is broken as a whole is refused in any case.

    Raises OSError if the file does not open. Raises ValueError if it is not a valid file of its format, or if the
    vocabulary is missing or of another length.
    """
    if holds_records(path, format, text, person):
        if vocabulary is None:
            raise ValueError(f"{source_name(path)}: raw records need a public vocabulary; give vocabulary=")
        records = Records(path, ("text",) if text is None else text, person, format, encoding, invalid, progress)
        return records.corpus(vocabulary, analyzer, vocabulary_size=vocabulary_size)
    words = None if vocabulary is None else public_vocabulary(vocabulary)
    matrix = read_sparse_matrix(path)
    with naming(path):
        counts = check_counts(matrix, name="the matrix", invalid=invalid)
        if words is not None and len(words) != counts.shape[1]:
            raise ValueError(f"has {counts.shape[1]} words, but the vocabulary has {len(words)}")
    return Corpus(counts, words, Path(path).name)


def holds_records(path: Any, format: str | None = None, text: Any = None, person: str | None = None) -> bool:
    """Tell whether `load_corpus` would read raw records, and not counts.

    Raises ValueError for an unknown format, and for columns of counts.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    counts = format == "npz" or (format is None and isinstance(path, (str, os.PathLike)) and str(path)[-4:] == ".npz")
    if counts and (text is not None or person is not None):
        raise ValueError(f"{path}: format npz has counts, no columns of text and persons")
    return not counts


def read_sparse_matrix(path: PathLike) -> Any:
    """Read a matrix of numbers as CSR from a file of CSR, CSC or COO that `scipy.sparse.save_npz` wrote."""
    arrays = read_npz(path, names=("format", "shape", "data", *chain(*_INDEX_NAMES.values())))
    with naming(path):
        try:
            kind, (n_rows, width) = arrays["format"].item().decode(), arrays["shape"].tolist()
            data, first, second = (arrays[name] for name in ("data", *_INDEX_NAMES[kind]))
            if kind != "csr" and n_rows >= 10**6 + 1000 * len(data):  # the row offsets would take all memory
                raise ValueError
            if data.dtype.kind not in "biuf":
                raise ValueError
            parts = SimpleNamespace(format=kind, shape=(n_rows, width), data=data)
            vars(parts).update(zip(_INDEX_NAMES[kind], (first, second), strict=True))
            return new_csr(csr_arrays(parts, "it"), parts.shape)
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            raise ValueError("expected a CSR, CSC or COO matrix as scipy.sparse.save_npz writes it") from None
