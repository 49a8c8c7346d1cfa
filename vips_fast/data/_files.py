"""Files of text: opening them, reading them by whole lines, and parsing integers, many at a time.

A count file of tens of millions of entries is read as bytes and parsed with array operations: one pass for each digit
instead of one Python object for each number.
"""

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

BinaryFile = gzip.GzipFile | io.BufferedReader

_BLOCK = 8 << 20
# A compressed file of a megabyte can expand to a line of a gigabyte.
_MAX_LINE = 1 << 28
# 18 digits always fit an int64.
_MAX_DIGITS = 18

_DIGIT, _SPACE, _COLON, _OTHER = 0, 1, 2, 3
_CLASS = np.full(256, _OTHER, np.uint8)
_CLASS[list(b"0123456789")] = _DIGIT
_CLASS[list(b" \t\r\n")] = _SPACE
_CLASS[ord(":")] = _COLON


class BadLine(ValueError):
    """A line that has the wrong form; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True)
class Integers:
    """The numbers of a block of whole lines."""

    values: np.ndarray  # int64, in order
    lines: np.ndarray  # int64, line of each number, from 0 within the block
    before: np.ndarray  # uint8, byte in front of each number (newline for the first)
    gap: np.ndarray  # int64, number of bytes between it and the previous number
    n_colons: int
    n_lines: int


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the path in front of what a ValueError or a MemoryError says."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    except MemoryError as error:
        raise MemoryError(f"{path}: not enough memory to read it. {error}".rstrip()) from None


def open_text(path: str | os.PathLike[str]) -> BinaryFile:
    """Open a plain or gzip file for reading bytes; its first bytes say which of the two it is."""
    with open(path, "rb") as file:
        magic = file.read(2)
    return gzip.open(path, "rb") if magic == b"\x1f\x8b" else open(path, "rb")


def blocks(file: BinaryFile, size: int = _BLOCK) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines.

    Raises ValueError if the file is compressed and its data are broken, or a line has more than 256 MiB.
    """
    rest = b""
    while True:
        try:
            piece = file.read(max(size, len(rest)))
        except (gzip.BadGzipFile, EOFError, zlib.error):
            raise ValueError("the gzip data are broken or cut off") from None
        if not piece:
            if rest:
                yield rest
            return
        piece = rest + piece
        end = piece.rfind(b"\n") + 1
        if end:
            yield piece[:end]
        rest = piece[end:]
        if len(rest) > _MAX_LINE:
            raise ValueError(f"has a line of more than {_MAX_LINE} bytes")


def parse(block: bytes, first_line: int, colons: bool = False) -> Integers:
    """Parse a block of whole lines of unsigned decimal integers, which blanks or (with `colons`) colons separate.

    `first_line` is the number of the block's first line, for messages. Raises BadLine at any other byte, and at numbers
    of more than 18 digits.
    """
    raw = np.frombuffer(block, np.uint8)
    kind = _CLASS[raw]
    bad = kind == _OTHER if colons else kind >= _COLON
    if bad.any():
        line = first_line + block.count(b"\n", 0, int(bad.argmax()))
        raise BadLine(line, "expected non-negative integers" + (" and colons" if colons else ""))
    digit = (kind == _DIGIT).view(np.int8)
    edges = np.diff(digit, prepend=np.int8(0), append=np.int8(0))
    starts = np.flatnonzero(edges == 1)
    ends = np.flatnonzero(edges == -1)
    lengths = ends - starts
    newlines = np.cumsum(raw == 10)
    lines = newlines[starts]
    longest = int(lengths.max(initial=0))
    if longest > _MAX_DIGITS:
        at = int((lengths > _MAX_DIGITS).argmax())
        raise BadLine(first_line + int(lines[at]), "a number has more than 18 digits")

    values, shortest = np.zeros(len(starts), np.int64), int(lengths.min(initial=0))
    for place in range(longest):
        more = slice(None) if place < shortest else np.flatnonzero(lengths > place)
        values[more] = values[more] * 10 + (raw[starts[more] + place] - np.uint8(48))
    before = np.full(len(starts), 10, np.uint8)
    gap = np.zeros(len(starts), np.int64)
    before[1:] = raw[starts[1:] - 1]
    gap[1:] = starts[1:] - ends[:-1]
    if len(starts) and starts[0] > 0:
        before[0], gap[0] = raw[starts[0] - 1], starts[0]
    n_lines = int(newlines[-1]) + (not block.endswith(b"\n")) if block else 0
    n_colons = int(np.count_nonzero(kind == _COLON)) if colons else 0
    return Integers(values, lines, before, gap, n_colons, n_lines)
