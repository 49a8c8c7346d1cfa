"""Bounds of what a file from a stranger may take: its bytes, and what they expand to."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Bytes of the largest file that is read whole.
_MOST = 1 << 24
#: The most values of a JSON text. A ledger takes 13 a release; an empty list takes 2 bytes of text, and 64 of memory.
MOST_VALUES = 1 << 23
#: The most bytes that a compressed file may expand to, or the most times its size if that is more. Counts of words
#: expand to about 4 times their size, sheets to 10 times, and deflate can reach 1,032 times.
_SMALL, _RATIO = 1 << 28, 100
_BLANKS = re.compile(r"[ \t\r\n]*")


def most_expanded(size: int) -> int:
    """Return the most bytes that a compressed file of a size may expand to."""
    return max(_SMALL, _RATIO * size)


def read_bytes(path: str | os.PathLike[str], most: int = _MOST) -> bytes:
    """Read a file of at most ``most`` bytes; ValueError, with the path, for a larger one."""
    with Path(path).open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path}: has more than {most} bytes; expected a smaller file")
    return data


def file_digest(path: str | os.PathLike[str]) -> str:
    """Compute the SHA-256 of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: str | os.PathLike[str], most: int = _MOST) -> str:
    """Read a text in UTF-8 as `read_bytes`; ValueError, with the path, for other bytes."""
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        # The error's own text quotes bytes of the file.
        raise ValueError(f"{path}: is not UTF-8 text; convert the file to UTF-8") from None


def parse_json(data: str | bytes) -> Any:
    """Read a JSON value; ValueError, without any of the text, if it is none.

    An object with a key that stands twice is none: readers differ in which of the two values they take. Nor is one that
    is nested too deeply, or has more than `MOST_VALUES` values.

    >>> parse_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ValueError: not a JSON file: a key stands twice in an object
    """
    if len(data) > MOST_VALUES:
        marks: Any = (",", "[", "{") if isinstance(data, str) else (b",", b"[", b"{")
        if sum(map(data.count, marks)) > MOST_VALUES:
            raise ValueError(f"not a JSON file: has more than {MOST_VALUES} values")
    try:
        return json.loads(data, object_pairs_hook=_object)
    except _TwiceError:
        raise ValueError("not a JSON file: a key stands twice in an object") from None
    except RecursionError:
        raise ValueError("not a JSON file: too many brackets within each other") from None
    except ValueError:
        raise ValueError("not a JSON file") from None


def json_records(text: str) -> Iterator[tuple[int, Any]]:
    """Read the values of a JSON array one by one, each with the place that it begins at.

    An object with a key that stands twice is None. Raises ValueError as `parse_json`, and for a text of more than 2**28
    characters: JSON Lines has no largest size.

    >>> list(json_records('[{"a": 1}, 2]'))
    [(1, {'a': 1}), (11, 2)]
    """
    if len(text) > _SMALL or text.count("[") + text.count("{") > MOST_VALUES:
        raise ValueError("a JSON array of this size is not read; expected JSON Lines, one object a line")
    decoder = json.JSONDecoder(object_pairs_hook=_object_or_none)
    place, mark = _after_blanks(text, 0), "["
    try:
        while text[place : place + 1] == mark:
            place = _after_blanks(text, place + 1)
            if mark == "[" and text[place : place + 1] == "]":
                break
            value, end = decoder.raw_decode(text, place)
            yield place, value
            place, mark = _after_blanks(text, end), ","
    except RecursionError:
        raise ValueError("not a JSON file: too many brackets within each other") from None
    except json.JSONDecodeError:
        raise ValueError("not a JSON file") from None
    if text[place : place + 1] != "]" or _after_blanks(text, place + 1) < len(text):
        raise ValueError("not a JSON file")


def _after_blanks(text: str, place: int) -> int:
    found = _BLANKS.match(text, place)
    assert found is not None
    return found.end()


def _object_or_none(pairs: list[tuple[str, Any]]) -> dict[str, Any] | None:
    found = dict(pairs)
    return found if len(found) == len(pairs) else None


class _TwiceError(Exception):
    """A key stands twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError
    return found
