"""Read TOML, also a stranger's: the only door to `tomllib`.

`tomllib` keeps every beginning of a dotted key: 60 kB of ``a.a.a`` take 3.6 GB. A key stands in one line, so the dots
of each line are counted first, wherever they stand; and so are the marks of values.
"""

import os
import tomllib
from typing import Any

from .limits import read_text

#: Characters of a text; marks of its keys and values; the squares of the dots of its lines, which a long key takes 4
#: bytes each for. A schema has about 6 keys for a column, and a key takes up to 1 kB of memory.
MOST_CHARACTERS, MOST_VALUES, MOST_SQUARES = 1 << 23, 1 << 18, 1 << 24


def parse_toml(text: str) -> dict[str, Any]:
    """Return the table in a text of TOML.

    Raises ValueError, with the fault in one line, if it is none, or is larger than such a text is.

    >>> parse_toml("ward = ['north', 'south']")
    {'ward': ['north', 'south']}
    >>> parse_toml("a" + ".a" * 5000 + " = 1")
    Traceback (most recent call last):
    ValueError: not a TOML file: too many dots in its lines; expected shorter ones
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


def _check(text: str) -> None:
    """Refuse a text that would take much to parse."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"more than {MOST_CHARACTERS} characters; expected a smaller file")
    if sum(map(text.count, ".,={[")) > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} keys and values; expected fewer")
    if sum(line.count(".") ** 2 for line in text.split("\n")) > MOST_SQUARES:
        raise ValueError("too many dots in its lines; expected shorter ones")


def _check_integers(table: dict[str, Any]) -> None:
    """Refuse integers of more than 64 bits, which TOML does not have; others could not be printed."""
    values: list[Any] = [table]
    while values:
        value = values.pop()
        if isinstance(value, (dict, list)):
            values.extend(value.values() if isinstance(value, dict) else value)
        elif type(value) is int and value.bit_length() > 63:
            raise ValueError("an integer of more than 64 bits; expected a smaller number")
