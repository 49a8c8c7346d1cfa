"""Make text from strangers safe for a terminal, a page or a spreadsheet."""

import contextlib
import csv
import io
import os
import sys
from collections.abc import Iterable
from typing import IO, Any

#: Control characters, surrogates, separators of lines, marks and overrides of direction, each with its replacement.
_ESCAPED = {
    code: ascii(chr(code))[1:-1]
    for first, last in (
        (0x00, 0x1F),
        (0x7F, 0x9F),
        (0x61C, 0x61C),
        (0x200E, 0x200F),
        (0x2028, 0x202E),
        (0x2066, 0x2069),
        (0xD800, 0xDFFF),
    )
    for code in range(first, last + 1)
    if chr(code) not in "\t\n"
}
#: The same within a line.
_IN_LINE = _ESCAPED | {ord(char): ascii(char)[1:-1] for char in "\t\n"}


def printable(text: str, lines: bool = True) -> str:
    r"""Escape the characters that drive a terminal or turn text around.

    Line breaks and tabs stay, unless the text is a single word or name: ``lines=False``.

    >>> printable("red\x1b[2J \u202eder") == r"red\x1b[2J \u202eder"
    True
    """
    return text.translate(_ESCAPED if lines else _IN_LINE)


#: First characters of a cell that a spreadsheet computes; the wide ones are those of Japanese keyboards.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    r"""Write rows as CSV, with cells that drive neither a terminal nor a spreadsheet.

    Text that would be a formula gets an apostrophe in front, as spreadsheets do it themselves; numbers stay.

    >>> csv_text([["=1+1", "-1.5", "-x", "\x1b[2J"]])
    "'=1+1,-1.5,'-x,\\x1b[2J\n"
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.startswith(_FORMULA):
        try:
            float(value)
        except ValueError:
            value = "'" + value
    return printable(value)


def put(stream: IO[str] | None, text: str) -> bool:
    """Write to a stream at once. A stream that fails is closed, because its rest would fail again at exit."""
    if stream is None:
        return False
    try:
        stream.write(text)
        stream.flush()
        return True
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        return False


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error; a closed pipe does not end the command."""
    put(sys.stderr, text + end)


def rewrite(text: str) -> None:
    """Write over the present line of standard error."""
    put(getattr(sys.stderr, "stream", sys.stderr), "\r" + printable(text))
