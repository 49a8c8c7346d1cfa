"""Readers of count files and texts.

Every reader checks the whole file before it returns.  A broken file raises a
one-line ValueError that names the file and, where the fault is in its form, the
line; the contents of a line are never shown, since they are private.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
from scipy import sparse

from vips_fast.data._integers import BadLine, blocks, open_text, parse
from vips_fast.data.corpus import Corpus
from vips_fast.data.counts import check_counts
from vips_fast.data.text import count_texts

__all__ = [
    "FORMATS",
    "load_corpus",
    "load_vocabulary",
    "read_docword",
    "read_folder",
    "read_jsonl",
    "read_ldac",
    "read_npz",
]

FORMATS = ("npz", "docword", "ldac", "jsonl", "folder")


def load_corpus(path, vocabulary=None, format=None, *, n_features=None, field="text"):
    """Read a corpus of any known format.

    Parameters
    ----------
    path : path-like
        A file or a folder.
    vocabulary : sequence of str, path-like or None
        The words of the columns, or a file with one a line.  Needed for texts.
    format : {"npz", "docword", "ldac", "jsonl", "folder"} or None
        None looks at the contents.
    n_features : int or None
        Number of words, for formats that do not say it (LDA-C) and as a check
        for the others.
    field : str
        The field with the text in JSON Lines.

    Returns
    -------
    Corpus

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not a valid file of its format, the format cannot be told, or
        the vocabulary is missing or of another length.
    """
    if format is None:
        format = _guess(Path(path))
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}; expected one of {', '.join(FORMATS)}")
    if format == "npz":
        corpus = read_npz(path, vocabulary)
    elif format == "docword":
        corpus = read_docword(path, vocabulary)
    elif format == "ldac":
        return read_ldac(path, vocabulary, n_features)
    else:
        if vocabulary is None:
            raise ValueError(
                f"{path}: reading texts needs a public vocabulary; give vocabulary="
            )
        if format == "jsonl":
            corpus = read_jsonl(path, vocabulary, field)
        else:
            corpus = read_folder(path, vocabulary)
    if n_features is not None and n_features != corpus.n_features:
        raise ValueError(f"{path}: has {corpus.n_features} words; expected {n_features}")
    return corpus


def load_vocabulary(path):
    """Read a vocabulary: one word a line, line k (from 0) is column k.

    Parameters
    ----------
    path : path-like
        UTF-8 text, plain or gzip.

    Returns
    -------
    tuple of str

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is empty, not UTF-8, or has a blank or repeated line.
    """
    with _errors(path), open_text(path) as file:
        try:
            text = b"".join(blocks(file)).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("is not UTF-8 text") from None
        words = [line.strip() for line in text.rstrip().split("\n")]
        seen = {}
        for number, word in enumerate(words, 1):
            if not word:
                raise ValueError(
                    "is empty" if len(words) == 1 else f"line {number}: blank; expected a word"
                )
            if word in seen:
                raise ValueError(f"line {number}: repeats line {seen[word]}")
            seen[word] = number
    return tuple(words)


def read_npz(path, vocabulary=None):
    """Read counts from an ``.npz`` file.

    Either written by `scipy.sparse.save_npz` (CSR, CSC or COO), or with arrays
    ``data``, ``indices``, ``indptr`` and ``shape`` of a CSR matrix.  Pickled
    objects are never loaded.

    Parameters
    ----------
    path : path-like
    vocabulary : sequence of str, path-like or None

    Returns
    -------
    Corpus

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not such a file or holds no matrix of counts.
    """
    words = _words(vocabulary)
    with _errors(path), open(path, "rb") as file:
        arrays = _npz_arrays(file)
        kind = arrays.get("format", np.asarray(b"csr"))
        kind = kind.tobytes().replace(b"\0", b"").decode("ascii", "replace")
        names = {
            "csr": ("data", "indices", "indptr", "shape"),
            "csc": ("data", "indices", "indptr", "shape"),
            "coo": ("data", "row", "col", "shape"),
        }.get(kind)
        if names is None:
            raise ValueError("holds no CSR, CSC or COO matrix")
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ValueError(f"has no array named {missing[0]!r}; expected {', '.join(names)}")
        data, first, second, shape = (arrays[name] for name in names)
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
            raise ValueError("array 'shape' is not a pair of sizes")
        shape = (int(shape[0]), int(shape[1]))
        if max(shape) >= 2**31:
            raise ValueError("array 'shape' has a size of 2**31 or more")
        for name, array in zip(names, (data, first, second)):
            if array.ndim != 1 or array.dtype.kind not in ("biuf" if name == "data" else "iu"):
                raise ValueError(f"array {name!r} is not a one-dimensional array of numbers")
        if kind == "coo":
            if not data.shape == first.shape == second.shape:
                raise ValueError("arrays 'data', 'row' and 'col' have different lengths")
            for name, array, size in (("row", first, shape[0]), ("col", second, shape[1])):
                if array.size and (array.min() < 0 or array.max() >= size):
                    raise ValueError(f"array {name!r} has an index outside 'shape'")
            matrix = sparse.coo_array((data, (first, second)), shape=shape)
        else:
            major = shape[0] if kind == "csr" else shape[1]
            if second.shape[0] != major + 1 or second[0] != 0:
                raise ValueError("array 'indptr' does not fit 'shape'")
            if data.shape != first.shape or int(second[-1]) != data.shape[0]:
                raise ValueError("arrays 'data', 'indices' and 'indptr' do not fit together")
            build = sparse.csr_array if kind == "csr" else sparse.csc_array
            matrix = build((data, first, second), shape=shape)
        return _corpus(matrix, words, path)


def read_docword(path, vocabulary=None):
    """Read counts in the format of UCI's bag-of-words collection.

    Three lines with the number of documents, of words and of entries, then a
    line "document word count" for each entry, numbered from 1.  Plain or gzip.

    Parameters
    ----------
    path : path-like
    vocabulary : sequence of str, path-like or None

    Returns
    -------
    Corpus

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not such a file.
    """
    words = _words(vocabulary)
    with _errors(path), open_text(path) as file:
        header, next_line = [], 1
        rows, columns, counts = [], [], []
        for block in blocks(file):
            numbers = parse(block, next_line)
            values, lines = numbers.values, numbers.lines + next_line
            next_line += numbers.n_lines
            while len(header) < 3 and values.shape[0]:
                if lines[0] != len(header) + 1 or np.count_nonzero(lines[:2] == lines[0]) != 1:
                    raise BadLine(len(header) + 1, "expected one number of the header")
                header.append(int(values[0]))
                values, lines = values[1:], lines[1:]
                if len(header) == 3:
                    _check_header(*header)
            if values.shape[0]:
                entries = _triples(values, lines)
                for name, place, limit in (("document", 0, header[0]), ("word", 1, header[1])):
                    bad = (entries[:, place] < 1) | (entries[:, place] > limit)
                    if bad.any():
                        raise BadLine(
                            int(lines[3 * bad.argmax()]),
                            f"a {name} number outside 1 to {limit}, which line {place + 1} says",
                        )
                rows.append((entries[:, 0] - 1).astype(np.int32))
                columns.append((entries[:, 1] - 1).astype(np.int32))
                small = entries[:, 2].max() < 2**31
                counts.append(entries[:, 2].astype(np.int32 if small else np.int64))
        if len(header) < 3:
            raise ValueError("ends inside its header of three lines")
        rows, columns, counts = (
            np.concatenate(parts) if parts else np.zeros(0, np.int32)
            for parts in (rows, columns, counts)
        )
        if rows.shape[0] != header[2]:
            raise ValueError(
                f"has {'fewer' if rows.shape[0] < header[2] else 'more'} entries than line 3 says"
            )
        matrix = sparse.coo_array((counts, (rows, columns)), shape=tuple(header[:2]))
        return _corpus(matrix, words, path)


def read_ldac(path, vocabulary=None, n_features=None):
    """Read counts in the format of Blei's LDA-C.

    One document a line: "N word:count word:count ...", N being the number of
    pairs, words numbered from 0.  Plain or gzip.  The file does not say how
    many words there are, and the largest number in it depends on the documents,
    so the number must be given.

    Parameters
    ----------
    path : path-like
    vocabulary : sequence of str, path-like or None
    n_features : int or None
        Number of words V; the vocabulary's length where that is given.

    Returns
    -------
    Corpus

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is not such a file, or neither `vocabulary` nor `n_features` is
        given, or they disagree.
    """
    words = _words(vocabulary)
    if words is None and n_features is None:
        raise ValueError(
            f"{path}: an LDA-C file does not say how many words there are; "
            "give vocabulary= or n_features="
        )
    if words is not None and n_features not in (None, len(words)):
        raise ValueError(f"vocabulary has {len(words)} words; expected {n_features}")
    n_words = len(words) if words is not None else n_features
    if not 1 <= n_words < 2**31:
        raise ValueError(f"n_features is {n_words}; expected 1 to 2**31 - 1")
    with _errors(path), open_text(path) as file:
        columns, counts, lengths, next_line = [], [], [], 1
        for block in blocks(file):
            numbers = parse(block, next_line, colons=True)
            lengths.append(_ldac_lines(numbers, next_line, columns, counts))
            next_line += numbers.n_lines
        lengths = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
        # Blank lines at the end are marked -1; anywhere else they are a fault.
        blank = lengths < 0
        n_documents = int(np.flatnonzero(~blank)[-1]) + 1 if not blank.all() else 0
        if blank[:n_documents].any():
            raise BadLine(int(blank.argmax()) + 1, "blank; an empty document is the line 0")
        columns = np.concatenate(columns) if columns else np.zeros(0, np.int64)
        counts = np.concatenate(counts) if counts else np.zeros(0, np.int64)
        if columns.size and columns.max() >= n_words:
            raise ValueError(
                f"has a word number above {n_words - 1}, the last of {n_words} words"
            )
        indptr = np.zeros(n_documents + 1, np.int64)
        np.cumsum(lengths[:n_documents], out=indptr[1:])
        matrix = sparse.csr_array(
            (counts, columns.astype(np.int32), indptr), shape=(n_documents, n_words)
        )
        return _corpus(matrix, words, path)


def read_jsonl(path, vocabulary, field="text"):
    """Read texts from JSON Lines: one object a line, its text in one field.

    Parameters
    ----------
    path : path-like
        UTF-8, plain or gzip.  Blank lines are passed over.
    vocabulary : sequence of str or path-like
    field : str

    Returns
    -------
    Corpus
        One document a line, tokenised as `words_of` says.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If a line is not an object with a string in `field`.
    """

    def texts(file):
        number = 0
        for block in blocks(file):
            lines = block.split(b"\n")
            if not lines[-1]:
                lines.pop()
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    record = json.loads(line.decode("utf-8-sig"))
                    text = record[field]
                except (ValueError, LookupError, TypeError, RecursionError):
                    text = None
                if not isinstance(text, str):
                    raise BadLine(number, f"expected a JSON object with a string in {field!r}")
                yield text

    words = _words(vocabulary)
    with _errors(path), open_text(path) as file:
        return count_texts(texts(file), words, _name(path))


def read_folder(path, vocabulary):
    """Read texts from the ``.txt`` files of a folder and its subfolders.

    Parameters
    ----------
    path : path-like
    vocabulary : sequence of str or path-like

    Returns
    -------
    Corpus
        One document a file, in the order of their paths, tokenised as
        `words_of` says.  Bytes that are not UTF-8 are dropped, as every
        character outside a to z is.

    Raises
    ------
    OSError
        If the folder or a file cannot be read.
    ValueError
        If it has no ``.txt`` files.
    """
    words = _words(vocabulary)
    root = Path(path)
    if not root.is_dir():
        raise NotADirectoryError(f"{path}: not a folder")
    names = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, files in os.walk(root)
        for name in files
        if name.endswith(".txt")
    )
    if not names:
        raise ValueError(f"{path}: has no .txt files")
    return count_texts(
        ((root / name).read_text("utf-8", errors="ignore") for name in names),
        words,
        _name(path),
    )


class _errors:
    """Puts the file's name in front of a ValueError's message."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None and issubclass(kind, ValueError):
            message = f"{self.path}: {error}"
        elif kind is not None and issubclass(kind, MemoryError):
            message = f"{self.path}: does not fit the memory"
        else:
            return False
        raise ValueError(message) from None


def _npz_arrays(file):
    try:
        if not zipfile.is_zipfile(file):
            raise ValueError
        file.seek(0)
        wanted = ("format", "data", "indices", "indptr", "row", "col", "shape")
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in wanted if name in archive.files}
    except Exception:
        # zipfile, zlib and numpy's header parser raise a dozen kinds of errors
        # on broken bytes; all of them mean the same to the reader.
        raise ValueError("is not a readable .npz file (pickled arrays are refused)") from None


def _check_header(n_documents, n_words, n_entries):
    if n_words >= 2**31:
        raise BadLine(2, "more than 2**31 - 1 words")
    # Row offsets take memory whether or not a row has entries, so a mistaken
    # first line could ask for all there is.
    if n_documents >= min(2**31, 10**6 + 1000 * n_entries):
        raise BadLine(1, "more than 2**31 - 1 documents or than a thousand for each entry")


def _triples(values, lines):
    """Entries of a docword block, shape (n, 3), once its lines have three numbers each."""
    n = values.shape[0]
    whole = n - n % 3
    first, second, third = (lines[k:whole:3] for k in range(3))
    good = (first == second) & (second == third)
    good[1:] &= first[1:] > third[:-1]
    if not good.all():
        at = int((~good).argmax())
        raise BadLine(int(first[at]), "expected three numbers: document word count")
    if whole != n:
        raise BadLine(int(lines[whole]), "expected three numbers: document word count")
    return values.reshape(-1, 3)


def _ldac_lines(numbers, first_line, columns, counts):
    """Check the form of LDA-C lines and append their columns and counts.

    Returns the number of pairs of each line, -1 for blank ones.
    """
    wrong = "expected N word:count ... with N pairs"
    values, lines = numbers.values, numbers.lines
    per_line = np.bincount(lines, minlength=numbers.n_lines)
    offsets = np.cumsum(per_line) - per_line
    place = np.arange(values.shape[0]) - offsets[lines]
    is_count = (place > 0) & (place % 2 == 0)
    # A count follows its word after one colon and nothing else; whatever comes
    # before any other number holds no colon (checked by their total).
    joined = (numbers.before == ord(":")) & (numbers.gap == 1)
    bad = joined != is_count
    if bad.any():
        raise BadLine(first_line + int(lines[bad.argmax()]), wrong)
    filled = per_line > 0
    pairs = np.full(numbers.n_lines, -1, np.int64)
    pairs[filled] = values[offsets[filled]]
    bad = filled & (per_line != 1 + 2 * pairs)
    if bad.any():
        raise BadLine(first_line + int(bad.argmax()), wrong)
    if numbers.n_colons != np.count_nonzero(is_count):
        raise ValueError("has a colon in the wrong place")
    columns.append(values[place % 2 == 1])
    counts.append(values[is_count])
    return pairs


def _words(vocabulary):
    if vocabulary is None:
        return None
    if isinstance(vocabulary, (str, os.PathLike)):
        return load_vocabulary(vocabulary)
    words = tuple(vocabulary)
    if not all(isinstance(word, str) for word in words):
        raise TypeError("vocabulary must hold strings only")
    return words


def _corpus(matrix, words, path):
    data = matrix.data
    if data.dtype == np.int64 and data.min(initial=0) >= 0 and data.max(initial=0) < 2**31:
        matrix.data = data.astype(np.int32)
    counts = check_counts(matrix, name="the matrix")
    if words is not None and len(words) != counts.shape[1]:
        raise ValueError(
            f"has {counts.shape[1]} words, but the vocabulary has {len(words)}"
        )
    return Corpus(counts, words, _name(path))


def _name(path):
    return Path(path).name or str(path)


def _guess(path):
    if path.is_dir():
        return "folder"
    unknown = ValueError(
        f"{path}: cannot tell the format; give format= one of {', '.join(FORMATS)} "
        "(texts: a folder of .txt files or JSON Lines)"
    )
    with _errors(path), open(path, "rb") as file:
        if file.read(4) == b"PK\x03\x04":
            return "npz"
        with open_text(path) as text:
            head = next(blocks(text, 1 << 16), b"")
    head = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"{"):
        return "jsonl"
    lines = [line.split() for line in head.split(b"\n")]
    while lines and not lines[-1]:
        lines.pop()
    long = next((line for line in lines if len(line) > 1), None)
    if long is not None and b":" in long[1]:
        return "ldac"
    single = [len(line) == 1 and line[0].isdigit() for line in lines[:3]]
    if single == [True] * 3 and (len(lines) == 3 or lines[3] == long and len(long) == 3):
        return "docword"
    raise unknown
