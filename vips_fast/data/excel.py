"""Read Excel files (.xlsx), also untrusted ones.

Such a file is a zip archive of XML texts. Each is read from front to end by expat; of a sheet only the present row
stays in memory, with the cells that it has, so a gap costs nothing. Document types are refused, so no entity expands.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self
from xml.parsers import expat
from zipfile import ZipFile

from ..store.archive import BROKEN, RefusedError, check_members, open_archive
from ..store.limits import most_expanded

#: The largest sheet of Excel.
_MOST_ROWS, _MOST_COLUMNS = 1 << 20, 1 << 14
#: The most texts that cells share, elements within each other, different names of elements and attributes, bytes of a
#: tag, and formats of cells and sheets.
_MOST_TEXTS, _MOST_DEPTH, _MOST_NAMES, _MOST_TAG, _MOST_FORMATS = 1 << 23, 64, 4096, 1 << 20, 1 << 16
_CHUNK = 1 << 16
_CSV = "save the sheet as CSV"
_LETTERS = re.compile(r"([A-Z]{1,3})[0-9]+")
#: Characters that XML cannot hold are written by their codes, and so is the low line of such a code.
_CODE = re.compile(r"_x00([0-7][0-9A-Fa-f])_")
#: Built-in formats of dates and times, and of durations; signs of both in others. Quoted and bracketed parts are none.
_DATES, _DURATIONS = {*range(14, 23), *range(27, 37), *range(50, 59), 45, 47}, {46}
_ASIDE, _DATE = re.compile(r'"[^"]*"|\[(?!hh?\]|mm?\]|ss?\])[^]]*\]'), re.compile(r"(?<![_\\])[dmhysDMHYS]")
_DURATION = re.compile(r"\[(hh?|mm?|ss?)\]", re.I)
_EPOCH, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)

#: The name of an element without its prefix, and its attributes.
_Begin = Callable[[str, dict[str, str]], None]


def is_excel(path: Any) -> bool:
    """Tell whether a path has the name of an Excel file."""
    return isinstance(path, (str, os.PathLike)) and Path(path).suffix.lower() in (".xlsx", ".xlsm", ".xls")


def sheet_rows(file: Any) -> Iterator[tuple[int, dict[int, Any]]]:
    """Read the rows of the only sheet with cells: their numbers, and their cells by columns from 0.

    The first row is the header. A row without cells is passed over, and so are the empty cells of others. ``file`` is
    binary and open.

    Raises ValueError if it is no .xlsx file, has several sheets, or is larger than a sheet of Excel can be.
    """
    size = file.seek(0, 2)
    with _faults(), open_archive(file) as archive:
        names = archive.namelist()
        if len(set(names)) < len(names):
            raise RefusedError("holds a part twice; expected .xlsx as Excel writes it")
        limit = most_expanded(size)
        check_members(archive.infolist(), limit)
        book = _Book.read(archive, limit)
        sheets = [name for name in book.sheets if next(book.rows(name), None) is not None]
        if len(sheets) != 1:
            raise RefusedError(f"has {len(sheets)} sheets with cells; expected one: {_CSV}")
        yield from book.rows(sheets[0])


def header(row: Mapping[int, Any]) -> list[Any]:
    """List the names of columns in the first row of `sheet_rows`; None where it has a gap."""
    return [row.get(place) for place in range(max(row, default=-1) + 1)]


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except RefusedError as error:
        raise ValueError(str(error)) from None
    except (*BROKEN, OSError, expat.ExpatError):
        # Damaged archives end in errors of many kinds, and some quote the file.
        raise ValueError("not a whole Excel file; expected .xlsx, or CSV") from None


class _Book:
    """The sheets of a file, and what their cells share."""

    def __init__(self, archive: ZipFile, sheets: list[str], texts: list[str], formats: "_Formats", limit: int) -> None:
        self._archive, self.sheets, self._texts, self._formats, self._left = archive, sheets, texts, formats, limit

    @classmethod
    def read(cls, archive: ZipFile, limit: int) -> Self:
        """Read all but the sheets."""
        start = {kind: path for kind, path, _ in _related(archive, "")}
        place = start["officeDocument"]
        kinds = {number: (kind, path) for kind, path, number in _related(archive, place)}
        wanted, formats = list[str](), _Formats()

        def begin(name: str, given: dict[str, str]) -> None:
            if name == "workbookPr" and given.get("date1904", "0") not in ("0", "false"):
                formats.epoch = _EPOCH_1904
            elif name == "sheet":
                wanted.append(next(value for key, value in given.items() if key.endswith(":id")))

        _parse(archive, place, begin)
        paths = dict(kinds.values())
        texts = _shared_texts(archive, paths["sharedStrings"]) if "sharedStrings" in paths else []
        if "styles" in paths:
            formats.read(archive, paths["styles"])
        found = (kinds[number] for number in wanted if number in kinds)
        sheets = [path for kind, path in found if kind == "worksheet" and path in archive.NameToInfo]
        return cls(archive, sheets, texts, formats, limit)

    def rows(self, name: str) -> Iterator[tuple[int, dict[int, Any]]]:
        """Read the rows of a sheet."""
        sheet = _Sheet(self._cell)
        for _ in _chunks(self._archive, name, sheet.begin, sheet.end, sheet.data):
            yield from sheet.done
            sheet.done.clear()

    def _cell(self, kind: str, style: int, text: str) -> Any:
        """Return the value of a cell that is not empty."""
        if kind == "s":
            text = self._texts[int(text)]
            self._left -= len(text)  # a long text may stand in each cell
            if self._left < 0:
                raise RefusedError(f"its cells share too much text for a file of this size; {_CSV}")
            return text
        if kind == "n":
            number = float(text) if set(text) & {".", "e", "E"} else int(text)
            return self._formats.value(style, number)
        if kind == "b":
            return bool(int(text))
        return datetime.fromisoformat(text) if kind == "d" else _decoded(text)


class _Sheet:
    """What a parser has found of a sheet."""

    def __init__(self, value: Callable[[str, int, str], Any]) -> None:
        self._value, self._number, self._column, self._row = value, 0, -1, dict[int, Any]()
        self._kind, self._style, self._parts = "n", 0, list[str]()
        self._reads, self._aside = False, False
        #: The rows that are whole.
        self.done = list[tuple[int, dict[int, Any]]]()

    def begin(self, name: str, given: dict[str, str]) -> None:
        """Begin an element."""
        if name == "c":
            self._begin_cell(given)
        elif name == "row":
            number = float(given.get("r", self._number + 1))
            if not number.is_integer() or not self._number < number <= _MOST_ROWS:
                raise RefusedError(f"a row that is not in order, or beyond row {_MOST_ROWS}, the last of Excel; {_CSV}")
            self._number, self._column, self._row = int(number), -1, {}
        elif name == "rPh":
            self._aside = True  # how a text is spoken
        else:
            self._reads = name in ("v", "t") and not self._aside

    def _begin_cell(self, given: dict[str, str]) -> None:
        place, column = given.get("r"), self._column + 1
        if place is not None:
            letters = _LETTERS.fullmatch(place.upper())
            if letters is None:
                raise RefusedError(f"a cell without a column and a row; {_CSV}")
            column = -1
            for letter in letters[1]:
                column = 26 * (column + 1) + ord(letter) - ord("A")
        if not self._column < column < _MOST_COLUMNS:
            raise RefusedError(f"a cell that is not in order, or beyond column XFD, the last of Excel; {_CSV}")
        self._column, self._kind, self._style = column, given.get("t", "n"), int(given.get("s", 0))
        self._parts.clear()

    def end(self, name: str) -> None:
        """End an element."""
        self._reads = False
        if name == "c":
            text = "".join(self._parts)
            if text or self._kind == "inlineStr" and self._parts:
                self._row[self._column] = self._value(self._kind, self._style, text)
        elif name == "row" and self._row:
            self.done.append((self._number, self._row))
        elif name == "rPh":
            self._aside = False

    def data(self, text: str) -> None:
        """Take the text of an element."""
        if self._reads:
            self._parts.append(text)


def _shared_texts(archive: ZipFile, path: str) -> list[str]:
    """Read the texts that cells share, in their order."""
    found, parts, inside = list[str](), list[str](), {"t": False, "rPh": False}

    def begin(name: str, given: dict[str, str]) -> None:
        if name in inside:
            inside[name] = True

    def end(name: str) -> None:
        if name in inside:
            inside[name] = False
        elif name == "si":
            found.append(_decoded("".join(parts)))
            parts.clear()
            if len(found) > _MOST_TEXTS:
                raise RefusedError(f"has more than {_MOST_TEXTS} texts; {_CSV}")

    def data(text: str) -> None:
        if inside["t"] and not inside["rPh"]:
            parts.append(text)

    _parse(archive, path, begin, end, data)
    return found


class _Formats:
    """Which cells are dates, times and durations: numbers of days in the file."""

    def __init__(self) -> None:
        self.epoch, self._dates, self._durations, self._styles = _EPOCH, set(_DATES), set(_DURATIONS), list[int]()

    def read(self, archive: ZipFile, path: str) -> None:
        """Read the formats of styles."""
        within = list[str]()

        def begin(name: str, given: dict[str, str]) -> None:
            if name == "numFmt" and len(code := given.get("formatCode", "").split(";")[0]) < 256:
                number = int(given["numFmtId"])
                if _DURATION.search(code := _ASIDE.sub("", code)):
                    self._durations.add(number)
                elif _DATE.search(code):
                    self._dates.add(number)
            elif name == "xf" and within[-1:] == ["cellXfs"]:
                self._styles.append(int(given.get("numFmtId", 0)))
            if len(self._styles) + len(self._dates) + len(self._durations) > _MOST_FORMATS:
                raise RefusedError(f"has more than {_MOST_FORMATS} formats of cells; {_CSV}")
            within.append(name)

        _parse(archive, path, begin, lambda name: within.pop())

    def value(self, style: int, number: float) -> Any:
        """Return a number, or what it stands for in this style."""
        kind = self._styles[style] if 0 < style < len(self._styles) else 0
        try:
            if kind in self._durations:
                return timedelta(milliseconds=round(number * 86_400_000))
            if kind not in self._dates:
                return number
            day, part = divmod(number, 1)
            rest = timedelta(milliseconds=round(part * 86_400_000))
            if 0 <= number < 1 and not rest.days:
                return (datetime.min + rest).time()
            # Excel counts a 29th of February 1900.
            return self.epoch + timedelta(days=day + (0 < number < 60 and self.epoch == _EPOCH)) + rest
        except (OverflowError, ValueError):
            return "#VALUE!"


def _decoded(text: str) -> str:
    return _CODE.sub(lambda found: chr(int(found[1], 16)), text) if "_x00" in text else text


def _related(archive: ZipFile, path: str) -> list[tuple[str, str, str]]:
    """Read the relations of a part: kinds, paths and numbers."""
    found, (folder, name) = list[tuple[str, str, str]](), posixpath.split(path)

    def begin(element: str, given: dict[str, str]) -> None:
        if element == "Relationship" and given.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, given["Target"]))[1:]
            found.append((given["Type"].rpartition("/")[2], target.lstrip("/"), given["Id"]))
            if len(found) > _MOST_FORMATS:
                raise RefusedError(f"has more than {_MOST_FORMATS} parts; {_CSV}")

    _parse(archive, posixpath.join(folder, "_rels", f"{name}.rels"), begin)
    return found


def _parse(
    archive: ZipFile,
    name: str,
    begin: _Begin,
    end: Callable[[str], Any] = lambda name: None,
    data: Callable[[str], None] | None = None,
) -> None:
    for _ in _chunks(archive, name, begin, end, data):
        pass


def _chunks(
    archive: ZipFile, name: str, begin: _Begin, end: Callable[[str], Any], data: Callable[[str], None] | None
) -> Iterator[None]:
    """Parse a part in pieces, and stop after each; functions take what is found."""
    parser, depth, done = expat.ParserCreate(), 0, 0

    def begins(tag: str, given: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > _MOST_DEPTH:
            raise RefusedError(f"has XML of more than {_MOST_DEPTH} elements within each other; {_CSV}")
        begin(tag.rpartition(":")[2], given)

    def ends(tag: str) -> None:
        nonlocal depth
        depth -= 1
        end(tag.rpartition(":")[2])

    def has_type(*_: Any) -> None:
        raise RefusedError(f"has XML with a document type, which may hide what it expands to; {_CSV}")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begins, ends, data
    parser.StartDoctypeDeclHandler = has_type
    with archive.open(name) as stream:
        while piece := stream.read(_CHUNK):
            parser.Parse(piece)
            done += len(piece)
            # expat keeps a tag that has not ended, and each name.
            if done - parser.CurrentByteIndex > _MOST_TAG or len(parser.intern) > _MOST_NAMES:
                raise RefusedError(f"has XML with a tag of more than {_MOST_TAG} bytes, or of many names; {_CSV}")
            yield
        parser.Parse(b"", True)
        yield
