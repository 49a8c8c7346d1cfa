"""Read TOML, also a stranger's: the only door to `tomllib`.

`tomllib` follows brackets by recursion, and keeps every beginning of a dotted key: 60 kB of ``a.a.a`` take 3.6 GB. So a
scan comes first. It finds the strings and comments of a text as `tomllib` does, up to the first error in it, and counts
brackets, dots and values elsewhere.
"""

import os
import re
import tomllib
from typing import Any

from .limits import read_text

#: Characters of a text; its keys and values; brackets that are open at once; parts of a key. A schema has about 6 keys
#: for a column, and a key takes up to 1 kB of memory.
MOST_CHARACTERS, MOST_VALUES, MOST_DEPTH, MOST_PARTS = 1 << 23, 1 << 18, 32, 16
#: Characters of a value in a message.
_SHOWN = 200
_NEXT = re.compile("[][{}.,=\n\"'#]")
#: What may end a string, by its mark.
_IN_TEXT = {
    mark: re.compile(pattern)
    for mark, pattern in (('"', r'["\\\n]'), ('"""', r'"""|\\'), ("'", r"['\n]"), ("'''", "'''"))
}


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table in a text of TOML.

    Raises ValueError, with the fault in one line, if it is none, or is larger or deeper than such a text is for.

    >>> parse_toml("ward = ['north', 'south']")
    {'ward': ['north', 'south']}
    >>> parse_toml("a" + ".a" * 20 + " = 1")
    Traceback (most recent call last):
    ValueError: not a TOML file: a key of more than 16 parts; expected fewer dots
    """
    try:
        _check(text)
        found = tomllib.loads(text)
        _check_integers(found)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a TOML file: {' '.join(str(error).split())}") from None
    return found


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the table in a file of TOML; OSError, or ValueError as `parse_toml`, with the path."""
    text = read_text(path, MOST_CHARACTERS)
    try:
        return parse_toml(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def shown(value: Any) -> str:
    """Write the beginning of a value, for a message."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _check(text: str) -> None:
    """Refuse a text that would take much to parse."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"more than {MOST_CHARACTERS} characters; expected a smaller file")
    position = depth = dots = values = 0
    while found := _NEXT.search(text, position):
        mark, position = found.group(), found.end()
        if mark in "\"'":
            position = _end_of_text(text, found.start(), mark)
        elif mark == "#":
            position = len(text) if (end := text.find("\n", position)) < 0 else end
        elif mark == ".":
            dots, values = dots + 1, values + 1
        else:
            depth = max(0, depth + (mark in "[{") - (mark in "]}"))
            dots, values = 0, values + (mark in "[{,=")
        if dots >= MOST_PARTS:
            raise ValueError(f"a key of more than {MOST_PARTS} parts; expected fewer dots")
        if depth > MOST_DEPTH:
            raise ValueError(f"more than {MOST_DEPTH} brackets within each other; expected fewer")
        if values > MOST_VALUES:
            raise ValueError(f"more than {MOST_VALUES} keys and values; expected fewer")


def _check_integers(table: dict[str, Any]) -> None:
    """Refuse integers of more than 64 bits, which TOML does not have; others could not be printed."""
    values: list[Any] = [table]
    while values:
        value = values.pop()
        if isinstance(value, (dict, list)):
            values.extend(value.values() if isinstance(value, dict) else value)
        elif type(value) is int and value.bit_length() > 63:
            raise ValueError("an integer of more than 64 bits; expected a smaller number")


def _end_of_text(text: str, start: int, quote: str) -> int:
    """Find the end of the string at a place; the end of the whole text if it is not closed."""
    long = text.startswith(3 * quote, start)
    mark = 3 * quote if long else quote
    position = start + len(mark)
    while found := _IN_TEXT[mark].search(text, position):
        if found.group() == "\n":
            return len(text)  # tomllib stops here
        if found.group() == mark:
            more = 2 if long else 0  # a long string may end in quotes of its own
            return found.end() + next(k for k in range(more, -1, -1) if text.startswith(k * quote, found.end()))
        position = found.end() + 1
    return len(text)
