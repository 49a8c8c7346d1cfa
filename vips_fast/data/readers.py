"""Readers of count files, and the one entry to all corpora.

The whole file is checked before a corpus is returned. Text is read plain, gzip, bzip2 or xz. A broken file raises a
one-line ValueError that names the file and, where the fault is in its form, the line. The contents of a line are never
shown, since they are private.
"""

import io
import os
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..checks import check_choice
from ..store.limits import most_expanded
from ..store.npz import read_npz
from ._files import BadLine, blocks, broken_gzip, naming, open_text, parse
from .arrays import check_invalid, csr_arrays
from .corpus import Corpus
from .counts import check_counts
from .excel import is_excel
from .records import RECORD_FORMATS, Records, opened
from .vocabulary import Vocabulary, public_vocabulary

COUNT_FORMATS = ("npz", "mtx", "docword", "ldac", "svmlight", "svmlight0")
#: Names of the formats that documents are read in: counts, then records.
FORMATS = (*COUNT_FORMATS, *RECORD_FORMATS)

PathLike = str | os.PathLike[str]

#: Numbers that `parse` takes, a count that no check takes, what no lines of integers and of other numbers hold, and a
#: line of LDA-C.
_INTEGER, _TOO_MANY = re.compile(rb"[0-9]{1,18}"), b"9" * 18
_NO_INTEGERS, _NO_NUMBERS = re.compile(rb"[^0-9+\-\s]"), re.compile(rb"[^0-9+\-.eE\snaifNAIF]")
_LDAC = re.compile(rb"[0-9]{1,18}( [0-9]{1,9}:[0-9]{1,15})*")

_INDEX_NAMES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}


def load_corpus(
    path: Any,
    vocabulary: Vocabulary | None = None,
    format: str | None = None,
    *,
    n_features: int | None = None,
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
    format : {"npz", "mtx", "docword", "ldac", "svmlight", "svmlight0", "csv", "jsonl", "parquet", "xlsx", "folder"}
        None looks at the contents, and only at those of a file of counts if no ``text`` is given. The columns of
        "svmlight" are numbered from 1, as by LIBSVM and gensim, those of "svmlight0" from 0, as by scikit-learn.
    n_features : int or None
        Number of words, for formats that do not say it (LDA-C, svmlight) and as a check for the others.
    text : str, sequence of str or None
        Columns of the text; None is "text".
    person, encoding, progress
        See `vips_fast.data.records.Records`.
    analyzer, vocabulary_size
        See `vips_fast.data.vocabulary.public_vocabulary`.
    invalid : {"raise", "drop"}
        What to do about a document that holds an invalid count (see `check_counts`), a broken line or a word beyond the
        last. It is also about a broken record (see `read_batches`) or one without a person. "drop" makes it a document
        of no words and says nothing about it. A file that is broken as a whole is refused in any case. Examples are a
        missing header, cut gzip data, a line of MatrixMarket that is no entry, and an npz matrix whose arrays do not
        fit together.

    Raises OSError if the file does not open. Raises ValueError if it is not a valid file of its format or the format is
    unknown, or if the vocabulary is missing or of another length.
    """
    if holds_records(path, format, text, person):
        if vocabulary is None:
            raise ValueError(f"{_name(path)}: raw records need a public vocabulary; give vocabulary=")
        records = Records(path, ("text",) if text is None else text, person, format, encoding, invalid, progress)
        corpus = records.corpus(vocabulary, analyzer, vocabulary_size=vocabulary_size)
    else:
        words = None if vocabulary is None else public_vocabulary(vocabulary)
        matrix = _count_matrix(path, format or _guess(Path(path)), words, n_features, check_invalid(invalid))
        with naming(path):
            counts = check_counts(matrix, name="the matrix", invalid=invalid)
            if words is not None and len(words) != counts.shape[1]:
                raise ValueError(f"has {counts.shape[1]} words, but the vocabulary has {len(words)}")
        corpus = Corpus(counts, words, _name(path))
    if n_features is not None and n_features != corpus.n_features:
        raise ValueError(f"{path}: has {corpus.n_features} words; expected {n_features}")
    return corpus


def holds_records(path: Any, format: str | None = None, text: Any = None, person: str | None = None) -> bool:
    """Tell whether `load_corpus` would read raw records, and not counts.

    Raises ValueError for an unknown format, for columns of counts, and if the format is unknown; OSError if the
    file does not open.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    columns = text is not None or person is not None
    if format in COUNT_FORMATS and columns:
        raise ValueError(f"{path}: format {format} has counts, no columns of text and persons")
    if columns or not isinstance(path, (str, os.PathLike)) or path == "-":
        return format not in COUNT_FORMATS
    return (format or _guess(Path(path))) in RECORD_FORMATS


def _count_matrix(
    path: PathLike, format: str, words: tuple[str, ...] | None, n_features: int | None, drop: bool
) -> Any:
    """Read the matrix of a file of counts, whose values are not checked."""
    if format == "npz":
        return _stored_matrix(path)
    with naming(path):
        if format == "mtx":
            return _market_matrix(path)
        if format == "docword":
            return _docword_matrix(path, drop)
        n_features = _n_features(format, words, n_features)
        return _lines_matrix(path, format, n_features, drop)


def _market_matrix(path: PathLike) -> Any:
    """Read a matrix of MatrixMarket, coordinates or a dense array, of any numbers."""
    most = max(os.path.getsize(path), most_expanded(os.path.getsize(path)))
    with open_text(path) as file, broken_gzip():
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"expands to more than {most} bytes; expected a file that is not compressed")
    body = io.BytesIO(data)
    kind = body.readline().lower().split()
    lines = (line for line in body if line.strip() and not line.startswith(b"%"))
    sizes = [int(size) for size in next(lines, b"").split() if _INTEGER.fullmatch(size)]
    # scipy would make room for what a header says. An entry takes four bytes at least, a number two.
    if len(sizes) not in (2, 3) or not 0 < min(sizes[:2]) <= max(sizes[:2]) < 2**31:
        raise ValueError("not a MatrixMarket file of 1 to 2**31 - 1 rows and columns")
    n_entries = sizes[2] if len(sizes) == 3 else sizes[0] * sizes[1]
    if n_entries > len(data) // (4 if len(sizes) == 3 else 2) or _has_too_many_rows(sizes[0], n_entries):
        raise ValueError("has fewer entries than its header says")
    wrong = "not a whole MatrixMarket file; expected lines of row, column and count"
    field = kind[3] if len(kind) > 3 else b""
    # scipy would take 2e3 for the integer 2, and 2,5 or 2D3 for the number 2.
    whole = field in (b"pattern", b"integer", b"unsigned-integer")
    if other := (_NO_INTEGERS if whole else _NO_NUMBERS).search(data, body.tell()):
        raise BadLine(data.count(b"\n", 0, other.start()) + 1, wrong)
    if b"\0" in data:
        raise ValueError("not a MatrixMarket file: holds a zero byte")
    # scipy passes over what follows an entry on its line, and looks for the end without a bound.
    values = {b"pattern": 0, b"complex": 2}.get(field, 1)
    _check_widths(body, data.count(b"\n", 0, body.tell()) + 1, values + 2 * (len(sizes) == 3), wrong)
    from scipy.io import mmread  # loads slowly

    try:
        return mmread(io.BytesIO(data + b"\n"))
    except (ValueError, OverflowError) as error:
        at = re.match(r"Line [0-9]+: ", str(error))  # what follows may quote the file
        where = at[0].lower() if at else ""
        raise ValueError(f"{where}{wrong}") from None


def _check_widths(body: Any, line: int, width: int, wrong: str) -> None:
    """Raise BadLine for a line, the first being ``line``, that is neither blank nor has ``width`` words."""
    for block in blocks(body, 1 << 22):
        codes = np.frombuffer(block, np.uint8)
        within = (codes != 10) & (codes != 32) & (codes != 9) & (codes != 13)
        begins = within & ~np.concatenate(([False], within[:-1]))
        edges = np.concatenate(([0], np.flatnonzero(codes == 10) + 1, [len(block)]))
        words = np.diff(np.concatenate(([0], np.cumsum(begins)))[edges])
        if (bad := (words > 0) & (words != width)).any():
            raise BadLine(line + int(bad.argmax()), wrong)
        line += len(edges) - 2


def read_sparse_matrix(path: PathLike) -> Any:
    """Read a matrix of any numbers in CSR form, from .npz or MatrixMarket; errors as in `load_corpus`."""
    if Path(path).suffix != ".npz":
        with naming(path):
            return sparse.csr_array(_market_matrix(path))
    stored = _stored_matrix(path)
    with naming(path):
        matrix = sparse.csr_array(csr_arrays(stored, "the matrix"), shape=stored.shape)
    matrix.sum_duplicates()
    return matrix


def _stored_matrix(path: PathLike) -> Any:
    """Read a matrix that `scipy.sparse.save_npz` wrote (CSR, CSC or COO), or the four arrays of a CSR matrix.

    Other arrays of the file are not read, pickled objects are never loaded, and indices are not looked at.
    """
    arrays = read_npz(path, names=("format", "data", "indices", "indptr", "row", "col", "shape"))
    with naming(path):
        kind = arrays.get("format", np.array("csr")).tobytes().replace(b"\0", b"").decode("ascii", "replace")
        if kind not in _INDEX_NAMES:
            raise ValueError("holds no CSR, CSC or COO matrix")
        names = ("data", *_INDEX_NAMES[kind], "shape")
        for name in names:
            if name not in arrays:
                raise ValueError(f"has no array named {name!r}; expected {', '.join(names)}")
        data, first, second, shape = (arrays[name] for name in names)
        if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
            raise ValueError("array 'shape' is not a pair of sizes")
        if shape.max() >= 2**31:
            raise ValueError("array 'shape' has a size of 2**31 or more")
        for name in names[:3]:
            if arrays[name].ndim != 1 or arrays[name].dtype.kind not in ("biuf" if name == "data" else "iu"):
                raise ValueError(f"array {name!r} is not a one-dimensional array of numbers")
        sizes = (int(shape[0]), int(shape[1]))
        matrix: Any
        if kind == "coo":
            if _has_too_many_rows(sizes[0], len(data)):
                raise ValueError("array 'shape' has more than a thousand documents for each entry")
            matrix = sparse.coo_array(sizes)
            matrix.row, matrix.col = first, second
        else:
            if len(second) != sizes[kind == "csc"] + 1 or second[-1] != len(data) or len(first) != len(data):
                raise ValueError("arrays 'data', 'indices', 'indptr' and 'shape' do not fit together")
            matrix = getattr(sparse, f"{kind}_array")(sizes)
            matrix.indices, matrix.indptr = first, second
        # Assigned and not given to scipy, whose compiled loops trust index arrays: the checks come first.
        matrix.data = data
        return matrix


def _docword_matrix(path: PathLike, drop: bool) -> Any:
    """Read counts in UCI's bag-of-words format.

    Three lines with the number of documents, of words and of entries, or one line with all three, then a line
    "document word count" for each entry, numbered from 1.
    """
    header: list[int] = []
    with open_text(path) as file:
        counts, rows, columns = _joined(list(_docword_entries(file, header, drop)), np.int32)
    return sparse.coo_array((counts, (rows, columns)), shape=(header[0], header[1]))


def docword_pieces(path: PathLike) -> Iterator[sparse.coo_array]:
    """Yield the documents of a docword file in order, counts unchecked.

    Raises as `load_corpus` does, and ValueError if the lines of the file are not in the order of the documents.
    """
    with naming(path), open_text(path) as file:
        header: list[int] = []
        held, done = (np.zeros(0, np.int32),) * 3, 0
        for part in chain(_docword_entries(file, header), [None]):
            counts, rows, columns = held if part is None else map(np.concatenate, zip(held, part, strict=True))
            if len(rows) and (rows[0] < done or (rows[1:] < rows[:-1]).any()):
                raise ValueError("its lines are not in the order of the documents; expected them sorted")
            # The last document may continue in the next block.
            last = header[0] if part is None else int(rows[-1])
            n = int(np.searchsorted(rows, last))
            if last > done:
                yield sparse.coo_array((counts[:n], (rows[:n] - done, columns[:n])), shape=(last - done, header[1]))
            held, done = (counts[n:], rows[n:], columns[n:]), last


def _docword_entries(
    file: Any, header: list[int], drop: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield counts, documents and words, from 0, by blocks of lines.

    With ``drop`` the document of a broken line is invalid, if the line names one.
    """
    next_line, n_entries = 1, 0
    for block in blocks(file):
        before = list(header)
        try:
            entries, n_lines = _docword_block(block, next_line, header)
        except BadLine:
            if not drop:
                raise
            lines, head, header[:] = block.split(b"\n"), 3 - len(before), before
            head = 1 if not before and len(lines[0].split()) == 3 else head
            _docword_block(b"\n".join([*lines[:head], b""]), next_line, header)
            block = b"\n".join([*[b""] * head, *(_docword_line(line, header) for line in lines[head:])])
            entries, n_lines = _docword_block(block, next_line, header)
        next_line += n_lines
        if len(entries):
            count_type = np.int32 if entries[:, 2].max() < 2**31 else np.int64
            rows, columns = (entries[:, :2] - 1).astype(np.int32).T
            n_entries += len(entries)
            yield entries[:, 2].astype(count_type), rows, columns
    if len(header) < 3:
        raise ValueError("ends inside its header of three lines")
    if n_entries != header[2] and not drop:
        raise ValueError(f"has {'fewer' if n_entries < header[2] else 'more'} entries than its header says")


def _docword_block(block: bytes, first_line: int, header: list[int]) -> tuple[np.ndarray, int]:
    """Yield entries of blocks of lines, with numbers of lines.

    Entries have shape (n, 3) and count from 1.
    """
    numbers = parse(block, first_line)
    values, lines = numbers.values, numbers.lines + first_line
    if not header and first_line == 1 and np.count_nonzero(lines[:4] == 1) == 3:
        header[:] = values[:3].tolist()
        values, lines = values[3:], lines[3:]
        _check_header(*header)
    while len(header) < 3 and len(values):
        if lines[0] != len(header) + 1 or np.count_nonzero(lines[:2] == lines[0]) != 1:
            raise BadLine(len(header) + 1, "expected one number of the header")
        header.append(int(values[0]))
        values, lines = values[1:], lines[1:]
        if len(header) == 3:
            _check_header(*header)
    entries = _triples(values, lines)
    for name, place in (("document", 0), ("word", 1)) if len(entries) else ():
        bad = (entries[:, place] < 1) | (entries[:, place] > header[place])
        if bad.any():
            what = f"a {name} number that is not from 1 to what the header says"
            raise BadLine(int(lines[3 * bad.argmax()]), what)
    return entries, numbers.n_lines


def _docword_line(line: bytes, header: Sequence[int]) -> bytes:
    """Replace a broken entry by an invalid count, or by nothing."""
    fields = line.split()
    if not fields or not _INTEGER.fullmatch(fields[0]) or not 1 <= int(fields[0]) <= header[0]:
        return b""
    good = len(fields) == 3 and all(map(_INTEGER.fullmatch, fields)) and 1 <= int(fields[1]) <= header[1]
    return line if good else fields[0] + b" 1 " + _TOO_MANY


def count_pieces(
    path: PathLike,
    vocabulary: Vocabulary | None = None,
    format: str | None = None,
    *,
    n_features: int | None = None,
    invalid: str = "raise",
) -> tuple[tuple[str, ...] | None, Iterator[Any]]:
    """Return the words of a count file, if any, and its documents.

    Arguments and errors are the same as of `load_corpus`, with errors of `docword_pieces` as it is read. With
    ``invalid="drop"``, which insists on no order, a docword file is read as a whole.
    """
    if (format or _guess(Path(path))) == "docword" and invalid == "raise":
        return None if vocabulary is None else public_vocabulary(vocabulary), docword_pieces(path)
    corpus = load_corpus(path, vocabulary, format, n_features=n_features, invalid=invalid)
    return corpus.vocabulary, iter([corpus.counts])


def _lines_matrix(path: PathLike, format: str, n_features: int, drop: bool) -> Any:
    """Read counts in the formats that have a document in each line.

    svmlight and LIBSVM: "label word:count word:count ..."; the label is not used, and blank lines and remarks are no
    documents. LDA-C, by Blei: "N word:count word:count ...", N being the number of pairs, words numbered from 0.
    """
    ldac, counts, columns, indptr = format == "ldac", array("d"), array("i"), [0]
    blank = 0  # the first of the last blank lines, which LDA-C has at its end only
    with open_text(path) as file:
        for number, line in enumerate(chain.from_iterable(map(io.BytesIO, blocks(file))), 1):
            fields = line.split() if ldac else line.partition(b"#")[0].split()
            if not fields:
                blank = blank or number
                continue
            if blank and ldac:
                if not drop:
                    raise BadLine(blank, "blank; an empty document is the line 0")
                indptr += [len(columns)] * (number - blank)
            blank = 0
            try:
                found = _pairs(fields, n_features) if ldac else _labelled(fields, format == "svmlight", n_features)
            except ValueError as error:
                if not drop:
                    raise BadLine(number, str(error)) from None
                found = [], []
            columns.extend(found[0])
            counts.extend(found[1])
            indptr.append(len(columns))
    arrays = np.frombuffer(counts), np.frombuffer(columns, np.int32), np.array(indptr, np.int64)
    return sparse.csr_array(arrays, shape=(len(indptr) - 1, n_features))


def _pairs(fields: list[bytes], n_features: int) -> tuple[list[int], Sequence[float]]:
    """Return the columns, from 0, and the counts of a line of LDA-C."""
    text = b" ".join(fields)
    if not _LDAC.fullmatch(text) or int(fields[0]) != len(fields) - 1:
        raise ValueError("expected N word:count ... with N pairs")
    numbers = list(map(int, text.replace(b":", b" ").split()))
    if max(columns := numbers[1::2], default=0) >= n_features:
        raise ValueError(f"a word number above {n_features - 1}, the last of {n_features} words")
    return columns, numbers[2::2]


def _labelled(fields: list[bytes], first: int, n_features: int) -> tuple[list[int], list[float]]:
    """Return the columns, from 0, and the counts of a line of svmlight, whose words are numbered from ``first``."""
    if fields[1:2] and fields[1].startswith(b"qid:"):
        del fields[1]
    pairs = [field.partition(b":") for field in fields[1:]]
    try:
        float(fields[0])
        columns, counts = [int(word) - first for word, _, _ in pairs], [float(count) for _, _, count in pairs]
    except ValueError:
        raise ValueError("expected label word:count word:count ...") from None
    if not all(0 <= column < n_features for column in columns):
        other = "format='svmlight0' is numbered from 0" if first else "format='svmlight' is numbered from 1"
        raise ValueError(f"a word number that is not from {first} to {n_features - 1 + first}; {other}")
    return columns, counts


def _n_features(format: str, words: tuple[str, ...] | None, n_features: int | None) -> int:
    """Find the number of words, which the file does not say: the largest in it depends on the documents."""
    if words is not None:
        if n_features not in (None, len(words)):
            raise ValueError(f"vocabulary has {len(words)} words; expected {n_features}")
        n_features = len(words)
    if n_features is None:
        kind = "an LDA-C" if format == "ldac" else "an svmlight"
        raise ValueError(f"{kind} file does not say how many words there are; give vocabulary= or n_features=")
    if not 1 <= n_features < 2**31:
        raise ValueError(f"n_features is {n_features}; expected 1 to 2**31 - 1")
    return n_features


def _joined(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], dtype: Any) -> Iterator[np.ndarray]:
    """Return the three arrays whose parts are given."""
    return map(np.concatenate, zip(*parts or [(np.zeros(0, dtype),) * 3], strict=True))


def _has_too_many_rows(n_documents: int, n_entries: int) -> bool:
    """Tell whether the row offsets would take all memory."""
    return n_documents >= min(2**31, 10**6 + 1000 * n_entries)


def _check_header(n_documents: int, n_words: int, n_entries: int) -> None:
    if n_words >= 2**31:
        raise BadLine(2, "more than 2**31 - 1 words")
    if _has_too_many_rows(n_documents, n_entries):
        raise BadLine(1, "more than 2**31 - 1 documents or than a thousand for each entry")


def _triples(values: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Reshape a docword block to (n, 3), three numbers a line."""
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


def _name(path: Any) -> str:
    return (Path(path).name or str(path)) if isinstance(path, (str, os.PathLike)) else "records"


def _guess(path: Path) -> str:
    """Return the format that a file's beginning looks like."""
    if path.is_dir():
        return "folder"
    with open(path, "rb") as raw:
        if raw.read(4) == b"PK\x03\x04" and not is_excel(path):
            return "npz"
    with naming(path), opened(path) as (_, file, format):
        if format != "csv":
            return format
        head = next(blocks(file, 1 << 16), b"").removeprefix(b"\xef\xbb\xbf").lstrip()
    if head.startswith(b"%%MatrixMarket"):
        return "mtx"
    lines = [line.split() for line in head.split(b"\n") if not line.startswith(b"#")]
    while lines and not lines[-1]:
        lines.pop()
    long = next((line for line in lines if len(line) > 1), None)
    if long is not None and b":" in long[1]:
        # The first number of LDA-C counts the pairs; a label of svmlight rarely does. No line decides alone.
        paired = [line[0] == b"%d" % (len(line) - 1) for line in lines if line]
        if 2 * sum(paired) >= len(paired):
            return "ldac"
        what = "format='svmlight', with words from 1 as LIBSVM and gensim write them, or 'svmlight0', from 0 as"
        raise ValueError(f"{path}: looks like svmlight; give {what} scikit-learn does")
    single = [len(line) == 1 and line[0].isdigit() for line in lines[:3]]
    if lines and all(len(line) == 3 and all(map(_INTEGER.fullmatch, line)) for line in lines[:4]):
        (n, width, _), *entries = [tuple(map(int, line)) for line in lines[:4]]
        if all(document <= n and word <= width for document, word, _ in entries):
            return "docword"
    if single == [True] * 3 and (len(lines) == 3 or (long is not None and lines[3] == long and len(long) == 3)):
        return "docword"
    raise ValueError(
        f"{path}: cannot tell the format; give text=, the column of the texts, or format= one of {', '.join(FORMATS)}"
    )
