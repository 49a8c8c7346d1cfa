"""Read corpora: raw records in batches, from files, folders, standard input or memory, and counts in a file of scipy.

CSV that is not plain and JSON Lines are read with Python's own modules, whose errors can be given a line and quote no
cell. Errors of pyarrow's reader of CSV quote the row, or give no line. It lets a quote out of place pass, takes all
rows behind an open quote as one cell, knows no ``sep=;``, and refuses a row larger than its block.

Other formats of counts have readers elsewhere: MatrixMarket `scipy.io.mmread`, svmlight
`sklearn.datasets.load_svmlight_file`. `scipy.sparse.save_npz` stores what they read.

Parquet needs pyarrow (the extra "tables"), Excel openpyxl (the extra "excel"). Messages name the file, the line or row
and the column, never a cell.
"""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ..checks import check_choice, missing_package
from ..store.limits import json_records, most_expanded, parse_json
from ..store.npz import read_npz
from ._files import BadLine, broken_gzip, expanded, naming, refuse_foreign, refuse_stateful, refuse_utf16
from .arrays import csr_arrays, new_csr
from .counts import Corpus, check_counts
from .delimited import (
    BAD,
    BATCH_ROWS,
    WINDOWS,
    Rows,
    batches_of,
    csv_batches,
    declared_delimiter,
    places_of,
    read_header,
    split_lines,
    text_lines,
)
from .excel import is_excel, sheet_rows
from .frames import is_missing, is_stream, table_columns
from .groups import Numbering
from .schema import BROKEN
from .vocabulary import Vocabulary, count_matrix, public_vocabulary

RECORD_FORMATS = ("csv", "jsonl", "parquet", "xlsx", "folder")
#: Names of the formats that documents are read in: counts, then records.
FORMATS = ("npz", *RECORD_FORMATS)
_INDEX_NAMES = {"csr": ("indices", "indptr"), "csc": ("indices", "indptr"), "coo": ("row", "col")}
#: Types of Arrow that Parquet can hold as a dictionary.
_STRINGS = ("string", "large_string", "binary", "large_binary")
#: The beginning of an object of JSON, or of an array of objects.
_JSON = re.compile(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{")
#: Rows of a batch of Parquet: few at a time, as a row has no largest size.
_PARQUET_ROWS = 512
_TABLE = "a table, such as {'note': texts, 'patient': persons}"
#: Columns of a folder of texts: a file's content, its path in the folder, and the first part of the path.
_FOLDER_COLUMNS = ("text", "path", "folder")


def read_batches(
    source: Any,
    columns: Sequence[str],
    *,
    texts: Sequence[str] = (),
    format: str | None = None,
    encoding: str = "utf-8",
    invalid: str = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[dict[str, list[Any]]]:
    """Read columns of records, some rows at a time.

    Parameters
    ----------
    source : path-like, "-", table or iterable of str
        A file: CSV with a header line, JSON Lines or an array of JSON objects, each plain or gzip; Parquet; Excel. A
        folder, whose .txt files at any depth are records with the columns ``text``, ``path`` and ``folder`` (the first
        part of the path). "-" is standard input. A pandas or polars frame, a pyarrow table, or a mapping from names to
        sequences. A query of DuckDB, a lazy frame of polars, a record batch reader or another object with
        ``__arrow_c_stream__``, which is read batch by batch. Or any iterable of strings, which are the only column.
    columns : sequence of str
        The wanted columns. Each batch is a dictionary of their values, lists of equal lengths.
    texts : sequence of str
        Those of them that must hold strings or nothing (None). Cells of CSV are strings always, of other formats as
        they are.
    format : {"csv", "jsonl", "parquet", "xlsx", "folder"} or None
        None looks at the contents, and takes the rest as CSV, with commas, semicolons, tabs or bars by its header.
    encoding : str
        Of text files. A mark at the beginning of a file that says UTF-8 or UTF-16 comes first.
    invalid : {"raise", "drop"}
        What to do about a record that is broken in its form: bytes that are not of the encoding, a row of another
        length than the header, a quote out of place, a cell or line of more than 2**28 characters, JSON that is no
        object with the wanted fields, a cell of ``texts`` that is no string. "drop" says nothing: the cells of such a
        record become `vips_fast.data.schema.BROKEN`, its ``texts`` None. A row that is not valid CSV ends with its
        first line, so that it takes no other record with it.
    progress : function or None
        Called after each batch of a file or folder with the bytes read, of its compressed form, and its size. Of
        standard input the size is 0, and the bytes come from its text.

    Raises OSError if a file does not open, ImportError if a package is missing. Raises ValueError if the source lacks
    the columns, is empty, or is no whole gzip or Parquet file, and with "raise" if a record is broken.
    """
    drop, columns = check_choice("invalid", invalid, ("raise", "drop")) == "drop", list(columns)
    check_choice("format", format, (*RECORD_FORMATS, None))
    is_file, read, size, tell = isinstance(source, (str, os.PathLike)), [0], 0, None
    with naming(source_name(source)) if is_file else contextlib.nullcontext(), contextlib.ExitStack() as stack:
        if not is_file:
            batches, progress = _in_memory(source, columns, drop), None
        elif source != "-" and Path(source).is_dir():
            root, paths = Path(source), _texts_in(Path(source))
            size = sum(os.path.getsize(root / path) for path in paths)
            batches = batches_of(_folder(root, paths, columns, encoding, drop, read), columns)
        else:
            raw, file, format = stack.enter_context(opened(source, format, encoding))
            if source != "-":
                size, tell = os.fstat(raw.fileno()).st_size, raw.tell
            if format == "xlsx":
                batches = batches_of(_sheet(raw, columns), columns)
            elif format == "parquet":
                batches, tell = _parquet(raw, columns, texts, drop, read, size), None
            else:
                if drop:
                    refuse_stateful(encoding)
                blocks = text_lines(file, encoding, read, drop)
                if format == "csv":
                    batches = csv_batches(blocks, columns, drop)
                else:
                    batches = batches_of(_json(split_lines(blocks), columns, drop), columns)
        for numbers, batch in batches:
            _check_texts(numbers, batch, texts, drop)
            yield batch
            if progress is not None:
                progress(tell() if tell else read[0], size)


def column_names(source: Any, encoding: str = "utf-8", keys: bool = False) -> list[str]:
    """Name the columns of a file with header, or a table; no row is looked at.

    JSON has no header: with ``keys`` it is the names in its first record. Raises OSError or ValueError if the source
    cannot be read, is empty, or is JSON without ``keys``.
    """
    if not isinstance(source, (str, os.PathLike)):
        return table_columns(source) or []
    if source != "-" and Path(source).is_dir():
        return list(_FOLDER_COLUMNS)
    with naming(source_name(source)), opened(source, None, encoding) as (_, file, format):
        if format == "parquet":
            with _whole_parquet() as parquet:
                return list(parquet.ParquetFile(file).schema_arrow.names)
        if format == "xlsx":
            return [str(name or "") for name in next(sheet_rows(file))[1]]
        if format == "jsonl":
            if not keys:
                raise ValueError("JSON has no header; expected CSV or Parquet")
            _, first = next(_json_values(split_lines(text_lines(file, encoding, [0]))), (1, None))
            if not isinstance(first, dict):
                raise ValueError("its first record is no JSON object")
            return list(first)
        declared, blocks = declared_delimiter(text_lines(file, encoding, [0], drop=True))
        names = read_header(split_lines(blocks), declared=declared)[1]
        if any(BAD in name for name in names):
            raise BadLine(1, f"not {encoding} text; {WINDOWS}")
        return names


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file, or each in a folder, is UTF-8, or marked UTF-16.

    This reads all of it. The answer depends on the records. Parquet and Excel files know their encoding.
    """
    with naming(path):
        try:
            if (root := Path(path)).is_dir():
                for one in _texts_in(root):
                    with open(root / one, "rb") as file:
                        for _ in text_lines(file, "utf-8", [0]):
                            pass
                return True
            with opened(path) as (_, file, format):
                for _ in text_lines(file, "utf-8", [0]) if format in ("csv", "jsonl") else ():
                    pass
        except BadLine as error:
            return "not utf-8 text" not in str(error)
        return True


@contextlib.contextmanager
def opened(
    source: str | os.PathLike[str], format: str | None = None, encoding: str = "utf-8"
) -> Iterator[tuple[Any, Any, str]]:
    """Open a file or standard input: as it is, expanded, and the format, by name and beginning if it is None.

    Raises ValueError if the file is empty, or of a format or an encoding that no reader takes.
    """
    with broken_gzip(), contextlib.nullcontext(sys.stdin.buffer) if source == "-" else open(source, "rb") as raw:
        file: Any = expanded(cast(Any, raw))
        head = file.peek(512)[:512]
        if not head:
            raise ValueError("is empty")
        if format is None:
            # A name decides first: a broken first record would make another file of all others.
            named = str(source).lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
            other = "jsonl" if named or _JSON.match(head) else "csv"
            format = "xlsx" if is_excel(source) else "parquet" if head.startswith(b"PAR1") else other
        if format != "xlsx":
            refuse_foreign(head)
        if format in ("csv", "jsonl"):
            refuse_utf16(head, encoding)
        if format in ("parquet", "xlsx") and (source == "-" or file is not raw):
            raise ValueError(f"{format} must be read from a file of its own; expected CSV or JSON Lines here")
        yield raw, file, format


@dataclass(frozen=True)
class Records:
    """Raw texts and, if a column has them, their persons.

    ``text`` are the columns of the text; several are joined with a line break, and a null is an empty text. ``person``
    is the column of persons' labels (`vips_fast.data.groups.canonical_label`), or None. All else is as for
    `read_batches`. Raises ValueError if one column is both.
    """

    source: Any
    text: Sequence[str] = ("text",)
    person: str | None = None
    format: str | None = None
    encoding: str = "utf-8"
    invalid: str = "raise"
    progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.text, str):
            object.__setattr__(self, "text", (self.text,))
        if not (isinstance(self.text, (list, tuple)) and isinstance(self.person, str | None)):
            raise ValueError(f"text, person: expected names of columns, not the columns; put these into {_TABLE}")
        if self.person in self.text:
            raise ValueError(f"person={self.person}: the column of the text; expected another one")

    @property
    def name(self) -> str:
        """Name of the source, without folders."""
        return os.path.basename(source_name(self.source))

    def batches(self) -> Iterator[tuple[list[str], list[Any] | None]]:
        """Yield texts and persons' numbers, from the beginning if it can.

        Numbers are by the first appearance of persons. Raises as `read_batches` does, and ValueError if there are no
        records or a record has no person. With invalid="drop" it is then an empty one of person -1, nobody.
        """
        columns = [*self.text, *([] if self.person is None else [self.person])]
        first, numbering = 1, Numbering("drop")
        for batch in read_batches(
            self.source,
            list(dict.fromkeys(columns)),
            texts=self.text,
            format=self.format,
            encoding=self.encoding,
            invalid=self.invalid,
            progress=self.progress,
        ):
            cells = [[text or "" for text in batch[name]] for name in self.text]
            texts = cells[0] if len(cells) == 1 else list(map("\n".join, zip(*cells, strict=True)))
            persons = None if self.person is None else numbering(batch[self.person]).tolist()
            for place in (place for place, number in enumerate(persons or ()) if number < 0):
                if self.invalid == "raise":
                    raise ValueError(f"{source_name(self.source)}: record {first + place}: {no_person(self.person)}")
                texts[place] = ""
            first += len(texts)
            yield texts, persons
        if first == 1:
            raise ValueError(f"{source_name(self.source)}: has no records")


def no_person(column: str | None) -> str:
    """Say that a record has no person in a column, and what helps."""
    how = "fill it in, or leave such records out, as invalid='drop' does"
    return f"no person in column {column!r}; expected a text or a number: {how}"


def source_name(source: Any) -> str:
    """Name where records come from, for messages."""
    if not isinstance(source, (str, os.PathLike)):
        return "records"
    return "standard input" if source == "-" else os.fspath(source)


def load_corpus(
    path: Any,
    vocabulary: Vocabulary | None = None,
    format: str | None = None,
    *,
    text: str | Sequence[str] | None = None,
    person: str | None = None,
    analyzer: Any = None,
    encoding: str = "utf-8",
    invalid: str = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Corpus:
    """Read a corpus of any known format.

    Parameters
    ----------
    path : path-like, "-", table or iterable of str
        Counts in a file, or raw records wherever `read_batches` takes them from.
    vocabulary : sequence of str, path-like, "public:LANGUAGE" or None
        The words of the columns (`vips_fast.data.vocabulary.public_vocabulary`). Needed for raw records.
    format : {"npz", "csv", "jsonl", "parquet", "xlsx", "folder"}
        "npz" is a matrix of counts, as `scipy.sparse.save_npz` writes it. None takes a file whose name ends in .npz as
        one, and tells the others by their contents.
    text : str, sequence of str or None
        Columns of the text; None is "text".
    person, encoding, progress
        See `Records`.
    analyzer
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
        columns, persons = public_vocabulary(vocabulary, analyzer), list[np.ndarray]()
        counts = count_matrix(_texts(records, persons), columns, analyzer)
        return Corpus(counts, columns, records.name, groups=np.concatenate(persons) if persons else None)
    words = None if vocabulary is None else public_vocabulary(vocabulary)
    matrix = read_sparse_matrix(path)
    with naming(path):
        counts = check_counts(matrix, name="the matrix", invalid=invalid)
        if words is not None and len(words) != counts.shape[1]:
            raise ValueError(f"has {counts.shape[1]} words, but the vocabulary has {len(words)}")
    return Corpus(counts, words, Path(path).name)


def _texts(records: Records, persons: list[np.ndarray]) -> Iterator[list[str]]:
    """Yield the texts of each batch, and append its persons' numbers, if a column has them."""
    for texts, numbers in records.batches():
        if numbers is not None:
            persons.append(np.array(numbers, np.int64))
        yield texts


def holds_records(path: Any, format: str | None = None, text: Any = None, person: str | None = None) -> bool:
    """Tell whether `load_corpus` would read raw records, and not counts.

    Raises ValueError for an unknown format, and for columns of counts.
    """
    check_choice("format", format, (*FORMATS, None))
    counts = format == "npz" or (format is None and isinstance(path, (str, os.PathLike)) and str(path)[-4:] == ".npz")
    if counts and (text is not None or person is not None):
        raise ValueError(f"{path}: format npz has counts, no columns of text and persons")
    return not counts


def read_sparse_matrix(path: str | os.PathLike[str]) -> Any:
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


def _sheet(file: Any, columns: Sequence[str]) -> Rows:
    rows = sheet_rows(file)
    places = places_of(columns, next(rows)[1])
    for number, row in rows:
        yield number, [row[place] if place < len(row) else None for place in places]


def _json(lines: Iterator[str], columns: Sequence[str], drop: bool) -> Rows:
    for n, record in _json_values(lines, drop):
        try:
            cells = [record[name] for name in columns]
            if drop and any(isinstance(cell, str) and BAD in cell for cell in cells):
                raise ValueError
        except (ValueError, LookupError, TypeError):
            if not drop:
                names = ", ".join(map(repr, columns))
                wanted = f"expected a JSON object with {names}, each key once"
                if "text" in columns:  # which nobody need have said
                    wanted += "; if the texts have another key, give text="
                raise BadLine(n, wanted) from None
            cells = [BROKEN] * len(columns)
        yield n, cells


def _json_values(lines: Iterator[str], drop: bool = False) -> Iterator[tuple[int, Any]]:
    """Read a value a line, None for one that is not valid, or those of an array; each with the line it begins on."""
    filled = ((n, line) for n, line in enumerate(lines, 1) if line.strip())
    number, first = next(filled, (1, ""))
    if first.lstrip().startswith("["):
        text, before = "".join([first, *lines]), 0
        for place, value in json_records(text):
            number += text.count("\n", before, place)
            before = place
            yield number, value
        return
    for n, line in chain([(number, first)] if first else (), filled):
        value = None
        with contextlib.suppress(ValueError):
            value = parse_json("" if drop and BAD in line else line)
        yield n, value


def _texts_in(root: Path) -> list[str]:
    paths = sorted(
        os.path.relpath(os.path.join(folder, name), root)
        for folder, _, files in os.walk(root)
        for name in files
        if name.endswith(".txt")
    )
    if not paths:
        raise ValueError("has no .txt files")
    return paths


def _folder(
    root: Path, paths: Sequence[str], columns: Sequence[str], encoding: str, drop: bool, read: list[int]
) -> Rows:
    places = places_of(columns, _FOLDER_COLUMNS)
    for number, path in enumerate(paths, 1):
        with naming(path), open(root / path, "rb") as file:
            text = "".join(text_lines(file, encoding, read, drop))
        cells = None if drop and BAD in text else text, path, path.partition(os.sep)[0]
        yield number, [cells[place] for place in places]


def _check_texts(numbers: Sequence[int], batch: dict[str, list[Any]], texts: Sequence[str], drop: bool) -> None:
    """Empty the texts of a row that has a cell of another type among them, or raise `BadLine`."""
    for name in texts:
        for place, cell in enumerate(batch[name]):
            if not (cell is None or isinstance(cell, str)):
                if is_missing(cell):  # NaN, as Python writes it to JSON
                    batch[name][place] = None
                    continue
                if not drop:
                    what = f"expected a text in column {name!r}, got one of type {type(cell).__name__}"
                    remedy = "convert the column to texts, or save the table as CSV, whose cells are all read as texts"
                    if isinstance(cell, dict):
                        remedy = "pandas writes rows by to_json(orient='records'), and json_normalize flattens fields"
                    raise BadLine(numbers[place], f"{what}; {remedy}")
                for other in texts:
                    batch[other][place] = None


@contextlib.contextmanager
def _whole_parquet() -> Iterator[Any]:
    """Give the package that reads Parquet files; its errors for a damaged one become a ValueError."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise missing_package("a Parquet file", "pyarrow", "tables") from None
    try:
        yield parquet
    except (ArrowException, OSError, UnicodeDecodeError):
        raise ValueError("not a whole Parquet file") from None


def _parquet(
    file: Any, columns: Sequence[str], texts: Sequence[str], drop: bool, read: list[int], size: int
) -> Iterator[tuple[Any, dict[str, list[Any]]]]:
    """Yield batches of rows; ``read[0]`` counts the file's bytes by rows."""
    first, left = 1, most_expanded(size)
    with _whole_parquet() as parquet:
        schema = parquet.ParquetFile(file, pre_buffer=False).schema_arrow
        # Equal texts share memory as they do in the file.
        shared = [name for name, kind in zip(schema.names, schema.types, strict=True) if str(kind) in _STRINGS]
        table = parquet.ParquetFile(file, pre_buffer=False, read_dictionary=shared)
        places = places_of(columns, schema.names)
        if (expanded := _expanded(table.metadata, columns)) > left:
            raise ValueError(f"expands to {expanded} bytes; expected at most {left} of a file of this size")
        for name, place in zip(columns, places, strict=True):
            kind = str(schema.types[place])
            if name in texts and not any(word in kind for word in ("string", "null")):
                raise ValueError(f"column {name!r} is of type {kind}; expected text")
        for part in table.iter_batches(_PARQUET_ROWS, columns=list(columns), use_threads=False):
            try:
                batch = {name: _cells(part.column(name), drop) for name in columns}
            except UnicodeDecodeError:
                raise ValueError(f"row {first} or one of the next {_PARQUET_ROWS}: not UTF-8 text") from None
            left -= sum(len(cell) for name in texts for cell in batch[name] if isinstance(cell, str))
            if left < 0:
                raise ValueError("its rows share too much text for a file of this size; expected it as CSV")
            rows = range(first, first + part.num_rows)
            first += part.num_rows
            read[0] = size * (first - 1) // table.metadata.num_rows
            yield rows, batch


def _expanded(metadata: Any, columns: Sequence[str]) -> int:
    """Sum the bytes that columns take in a Parquet file before its compression."""
    total = 0
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        total += sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.split(".")[0] in columns)
    return total


def _cells(column: Any, drop: bool) -> list[Any]:
    """Make a list of a Parquet column; ``drop`` makes bad UTF-8 `BROKEN`."""
    if hasattr(column, "dictionary"):
        codes, places = np.unique(column.indices.cast("int64").fill_null(-1).to_numpy(), return_inverse=True)
        known = _cells(column.dictionary.take(codes[codes >= 0]), drop)
        known = [None] * (len(codes) - len(known)) + known
        return [known[place] for place in places.tolist()]
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        if not drop:
            raise
    return [None if cell is None else _decode(cell) for cell in column.cast("large_binary").to_pylist()]


def _decode(cell: bytes) -> Any:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        return BROKEN


def _in_memory(source: Any, columns: Sequence[str], drop: bool) -> Iterator[tuple[Any, dict[str, list[Any]]]]:
    """Read a table or an iterable of texts in batches."""
    names = table_columns(source)
    if names is None:
        if len(columns) != 1 or not isinstance(source, Iterable) or getattr(source, "ndim", 1) != 1:
            what = f"records of type {type(source).__name__} have no columns"
            raise ValueError(f"{what}; expected texts and no person=, a file, or {_TABLE}")
        yield from batches_of(((k, (text,)) for k, text in enumerate(source, 1)), columns)
        return
    with naming("records"):
        places_of(columns, names)
        if is_stream(source):
            yield from _stream(source, columns, drop)
            return
        cells = {name: source[name] for name in columns}
        if len(set(map(len, cells.values()))) > 1:
            raise ValueError("columns are of different lengths")
        n_rows = len(cells[columns[0]])
        for first in range(0, n_rows, BATCH_ROWS):
            last = min(n_rows, first + BATCH_ROWS)
            yield range(first + 1, last + 1), _rows(cells, first, last)


def _stream(source: Any, columns: Sequence[str], drop: bool) -> Iterator[tuple[Any, dict[str, list[Any]]]]:
    """Read a query, a lazy frame or a stream, in batches.

    A source that fails on its way raises ValueError, since its rows until then are not the table. Its own message may
    quote cells, and is not repeated.
    """
    try:
        import pyarrow
    except ImportError:
        raise missing_package("a stream of Arrow", "pyarrow", "tables") from None
    first = 1
    try:
        if hasattr(source, "collect_batches"):
            frames = source.select(columns).collect_batches(chunk_size=BATCH_ROWS, maintain_order=True)
            parts = (part for frame in frames for part in frame.to_arrow().to_batches(BATCH_ROWS))
        else:
            parts = iter(pyarrow.RecordBatchReader.from_stream(source))
        for part in parts:
            for start in range(0, part.num_rows, BATCH_ROWS):
                some = part.slice(start, BATCH_ROWS)
                yield range(first, first + some.num_rows), {n: _cells(some.column(n), drop) for n in columns}
                first += some.num_rows
    except Exception as error:  # of any library's own kind
        raise ValueError(f"the stream broke off ({type(error).__name__}); expected a whole table") from None


def _rows(cells: dict[str, Any], first: int, last: int) -> dict[str, list[Any]]:
    """List some cells of each column; a missing cell is None."""
    found = {}
    for name, column in cells.items():
        part = column.iloc[first:last] if hasattr(column, "iloc") else column[first:last]
        if hasattr(part, "iloc"):
            part = part.astype(object).where(part.notna(), None)
        for convert in ("to_pylist", "to_list", "tolist"):
            if hasattr(part, convert):
                part = getattr(part, convert)()
                break
        found[name] = list(part)
    return found
