"""Read lines of text files, and tables with a delimiter, whose columns the first line names.

A kernel finds the cells of plain rows. Python's own reader takes over at the first other row: it judges whether CSV is
valid, and its errors have the number of a line.

Names of columns are public: they are the same for every record that the table could hold. So messages list them. The
first line of a file without a header is a record. Such a line is not shown if it does not look like names.
"""

import codecs
import contextlib
import csv
import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain, tee
from typing import Any

import numpy as np

from ..kernels import native
from ._files import BadLine, whole_lines
from .schema import BROKEN

#: Most rows of a batch, and about its characters.
BATCH_ROWS, _BATCH_SIZE = 4096, 1 << 20
#: Characters of a line or a cell. A quote that is not closed makes a cell of all that follows.
_MAX_CELL = 1 << 28
_CHUNK = 1 << 20
#: Stands in a line for bytes that are not of the encoding, with invalid="drop": no decoder makes it.
BAD = "\udc80"
#: Advice about the encoding that is most often another one.
WINDOWS = "expected another encoding=, such as cp1252 of Windows or mac-roman of old Macs"
#: Excel's first line that names the delimiter.
_DECLARED = re.compile(r'"?sep=(.)"?\r?\n', re.I)
#: Bytes of an unfinished row that are searched again with the next lines.
_MOST_OPEN = 4 << 20

Rows = Iterator[tuple[int, Sequence[Any]]]
#: The lines of rows, if their cells can be wrong, and columns by name.
Batch = tuple[Sequence[int], dict[str, list[Any]]]


class _BadRow(BadLine):
    """A row that is no CSV with some delimiter."""


def _mark_bytes(error: UnicodeError) -> tuple[str, int]:
    """Put the mark of bad bytes in their place."""
    assert isinstance(error, UnicodeDecodeError)  # the handler is named for decoding only
    return BAD, error.end


codecs.register_error("vips_fast.bad", _mark_bytes)


def text_lines(file: Any, encoding: str, read: list[int], drop: bool = False) -> Iterator[str]:
    """Yield a text file's lines with their breaks, many at a time, as `whole_lines` does.

    ``read[0]`` counts the bytes. With ``drop`` a line that holds other bytes, or too many, holds `BAD`.
    """
    done = [0]

    def texts() -> Iterator[str]:
        decoder, known = None, encoding
        while True:
            raw = file.read(_CHUNK)
            read[0] += len(raw)
            if decoder is None:
                marked = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                known = "utf-16" if marked else "utf-8-sig" if raw.startswith(codecs.BOM_UTF8) else known
                try:
                    decoder = codecs.getincrementaldecoder(known)("vips_fast.bad" if drop else "strict")
                except LookupError:
                    raise ValueError(f"encoding {known!r} is not known") from None
            try:
                text = decoder.decode(raw, not raw)
            except UnicodeDecodeError as error:
                good = error.object[: error.start].decode(known, "ignore")
                ends = good.count("\n") or good.count("\r")  # of old Macs
                raise BadLine(done[0] + ends + 1, f"not {known} text; {WINDOWS}") from None
            except UnicodeError:  # of a file with half a mark, or none, that was said to have one
                raise ValueError(
                    f"has no mark of the order of its bytes; expected encoding='{known}-le' or '{known}-be'"
                ) from None
            yield text
            if not raw:
                return

    yield from whole_lines(texts(), _MAX_CELL, BAD if drop else None, done)


def split_lines(blocks: Iterable[str]) -> Iterator[str]:
    """Split blocks of lines into lines, each with its break."""
    return chain.from_iterable(io.StringIO(lines, newline="\n") for lines in blocks)


def _csv_rows(
    lines: Iterator[str], delimiter: str, drop: bool = False, done: int = 0, n_cells: int = 0
) -> Iterator[tuple[int, list[str] | None]]:
    """Yield each row's last line number and cells, without blank lines.

    ``done`` lines stand before these. With ``drop`` the cells are None for the first line of a row that is not valid,
    or takes several lines and has not ``n_cells``: a stray quote that another record's quote closes. The next row
    begins behind that line.
    """
    # The limit is the whole process's: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CELL))
    before, again, taken = done, deque[str](), list[str]()

    def fed() -> Iterator[str]:
        while (line := again.popleft() if again else next(lines, None)) is not None:
            taken.append(line)
            yield line

    what = f"not valid CSV: a quote out of place or not closed, or a cell of more than {_MAX_CELL} characters"
    while True:
        reader = csv.reader(fed() if drop else lines, delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if len(taken) > 1 and len(row) != n_cells:
                    break
                done = done + len(taken) if drop else before + reader.line_num
                taken.clear()
                if row:
                    yield done, row
            else:
                return
        except csv.Error:
            if not drop:
                raise _BadRow(before + reader.line_num, what) from None
        again.extendleft(reversed(taken[1:]))
        taken.clear()
        done += 1
        yield done, None


def read_header(
    lines: Iterator[str], columns: Sequence[str] = (), declared: str | None = None
) -> tuple[str, list[str]]:
    """Find the delimiter, by the columns unless it is ``declared``, and the header."""
    found: dict[str, list[str]] = {}
    for delimiter in DELIMITERS if declared is None else (declared,):
        lines, ahead = tee(lines)  # a header may be quoted over several lines, which the next attempt needs too
        with contextlib.suppress(_BadRow):
            found[delimiter] = next((row for _, row in _csv_rows(ahead, delimiter) if row), [])
            if columns and set(columns) <= set(found[delimiter]):
                return delimiter, found[delimiter]
    if not found:
        next(_csv_rows(lines, declared or ",", done=int(declared is not None)))  # says why not
    delimiter = declared or find_delimiter(found)
    return delimiter, found[delimiter]


def declared_delimiter(blocks: Iterator[str]) -> tuple[str | None, Iterator[str]]:
    """Take the delimiter that Excel's first line ``sep=;`` names, if there is one."""
    first = next((block for block in blocks if block), "")
    if (found := _DECLARED.match(first)) is None:
        return None, chain([first], blocks)
    if found[1] not in DELIMITERS:
        raise BadLine(1, f"says that {found[1]!r} is between columns; expected commas, semicolons, tabs or bars")
    return found[1], chain([first[found.end() :]], blocks)


def csv_batches(blocks: Iterator[str], columns: Sequence[str], drop: bool) -> Iterator[Batch]:
    """Yield the rows of a CSV file in batches.

    ``blocks`` are its lines, some at a time. Raises ValueError without the columns, and (unless ``drop``) for a row
    that is not valid.
    """
    taken: list[str] = []

    def kept() -> Iterator[str]:
        for block in blocks:
            taken.append(block)
            yield block

    declared, blocks = declared_delimiter(blocks)
    delimiter, header = read_header(split_lines(kept()), columns, declared)
    places, open_, done, n_before = places_of(columns, header), b"", int(declared is not None), 1
    last = ""
    for last in chain(["".join(taken)], blocks):
        try:
            open_ += last.encode()
        except UnicodeEncodeError:  # `BAD`
            break
        last = ""
        begins, ends, (n_rows, used, n_lines, odd) = _plain_cells(open_, delimiter, len(header))
        wanted = [_cell_texts(open_[:used], begins[n_before:, place], ends[n_before:, place]) for place in places]
        for first in range(0, n_rows - n_before, BATCH_ROWS):
            yield (), {name: own[first : first + BATCH_ROWS] for name, own in zip(columns, wanted, strict=True)}
        open_, done, n_before = open_[used:], done + n_lines, max(0, n_before - n_rows)
        # Very many lines of one row are not searched again and again.
        if odd or len(open_) > _MOST_OPEN:
            break
    rows = _csv_rows(split_lines(chain([open_.decode() + last], blocks)), delimiter, drop, done, len(header))
    if n_before:
        next(rows)
    yield from batches_of(_checked_rows(rows, places, len(header), drop), columns)


def _checked_rows(
    rows: Iterator[tuple[int, list[str] | None]], places: Sequence[int], n_cells: int, drop: bool
) -> Rows:
    """Yield the wanted cells of each row, if it is whole."""
    for number, row in rows:
        if row is not None and len(row) == n_cells and not (drop and any(BAD in cell for cell in row)):
            yield number, [row[place] for place in places]
        elif drop:
            yield number, [BROKEN] * len(places)
        else:
            what = "as in the header; double quotes hold a cell together"
            raise BadLine(number, f"{len(row or ())} cells; expected {n_cells}, {what}")


def _plain_cells(text: bytes, delimiter: str, n_columns: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Find the first plain rows' cells, as `csv_cells` does.

    Returns the begins and ends of cells, int64 of shape (n_rows, n_columns), and the kernel's summary.
    """
    # A row has a byte for each cell.
    n_cells = (1 + min(text.count(b"\n"), len(text) // n_columns)) * n_columns
    begins, ends, summary = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64), np.zeros(4, np.int64)
    if text:
        native.csv_cells(text, ord(delimiter), n_columns, begins, ends, summary)
    n = int(summary[0])
    return begins.reshape(-1, n_columns)[:n], ends.reshape(-1, n_columns)[:n], summary.tolist()


def _cell_texts(data: bytes, begins: np.ndarray, ends: np.ndarray) -> list[str]:
    places = zip(begins.tolist(), ends.tolist(), strict=True)
    if data.isascii():
        text = data.decode("ascii")
        return [text[a:b] if b >= 0 else text[a : -1 - b].replace('""', '"') for a, b in places]
    return [(data[a:b] if b >= 0 else data[a : -1 - b].replace(b'""', b'"')).decode() for a, b in places]


def batches_of(rows: Rows, columns: Sequence[str]) -> Iterator[Batch]:
    """Batch rows, each batch with the lines that it is on."""
    numbers: list[int] = []
    cells: list[Sequence[Any]] = []
    size = 0

    def batch() -> Batch:
        return numbers, {name: list(column) for name, column in zip(columns, zip(*cells, strict=True), strict=True)}

    for number, row in rows:
        numbers.append(number)
        cells.append(row)
        for cell in row:
            size += len(cell) if isinstance(cell, str) else 0
        if len(cells) >= BATCH_ROWS or size >= _BATCH_SIZE:
            yield batch()
            numbers, cells, size = [], [], 0
    if cells:
        yield batch()


#: Delimiters of CSV, and their names.
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: The most characters of a name, and of names in a message.
_LONGEST, _SHOWN = 60, 400
#: Signs of another delimiter in a header of one column.
_OTHERS = re.compile(r"[:^~\x00-\x1f]|\S {2,}\S")


def find_delimiter(headers: Mapping[str, Sequence[str]]) -> str:
    """Choose the delimiter that makes the most columns of the header.

    Raises ValueError if two delimiters make equally many columns, or another character seems to be the delimiter.
    """
    most = max(map(len, headers.values()))
    best = [delimiter for delimiter, names in headers.items() if len(names) == most]
    if most > 1 and len(best) > 1:
        named = " and ".join(DELIMITERS[delimiter] for delimiter in best)
        raise ValueError(f"{named} make {most} columns of the header each; expected one kind of delimiter")
    if most == 1 and _OTHERS.search(headers[best[0]][0].strip()):
        raise ValueError("the header is one column; expected commas, semicolons, tabs or bars between columns")
    return best[0]


def places_of(columns: Sequence[str], names: Sequence[Any]) -> list[int]:
    """Find the places of columns; ValueError names missing ones."""
    listed = list(names)
    for name in columns:
        if listed.count(name) > 1:
            raise ValueError(f"{listed.count(name)} of its {len(listed)} columns are named {name!r}; expected one")
        if name not in listed:
            raise ValueError(missing_column(name, listed))
    return list(map(listed.index, columns))


def missing_column(name: str, names: Sequence[Any]) -> str:
    """Write the message about a column that is not there; a name may be a text that was given in its place."""
    missing = f"no column {name!r}" if are_names([name]) else "no column of that name"
    if not are_names(names):
        return f"{missing}, and its first line looks like a record; expected a header with names of columns"
    known = {str(one).casefold(): str(one) for one in names}
    near = get_close_matches(name.casefold(), known, 1, 0.7)
    near = near or [key for key in known if len(name) > 2 and name.casefold() in key][:1]
    text = ", ".join(map(repr, names))
    if len(text) > _SHOWN:
        text = f"{text[:_SHOWN].rpartition(', ')[0]}, …"
    guess = f"; did you mean {known[near[0]]!r}?" if near else ""
    other = "; if the texts have another name, give text=" * (name == "text")  # which nobody need have said
    return f"{missing}{guess} It has {text}{other}" if guess else f"{missing}; it has {text}{other}"


def are_names(names: Sequence[Any]) -> bool:
    """Tell whether these can be names of columns, not a record's cells."""
    texts = [str(name).strip() for name in names]
    filled = [text for text in texts if text]
    short = all(len(text) <= _LONGEST and len(text.split()) <= 6 and "\n" not in text for text in filled)
    worded = all(any(map(str.isalpha, text)) for text in filled)
    return bool(filled) and short and worded and len(set(filled)) == len(filled)
