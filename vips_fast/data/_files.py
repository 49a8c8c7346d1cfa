"""Files of text: opening, reading whole lines, and parsing integers in blocks."""

import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..kernels import native

BinaryFile = gzip.GzipFile | io.BufferedReader

_BLOCK = 8 << 20
# A compressed file of a megabyte can expand to a line of a gigabyte.
_MAX_LINE = 1 << 28


class BadLine(ValueError):
    """A line that has the wrong form; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True)
class Integers:
    """The numbers of a block of whole lines."""

    values: np.ndarray  # int64, in order
    lines: np.ndarray  # int64, line of each number, from 0 within the block
    joined: np.ndarray  # bool, whether only a colon is between it and the number before
    n_colons: int
    n_lines: int


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Prefix the message of a ValueError or MemoryError with the path."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    except MemoryError as error:
        raise MemoryError(f"{path}: not enough memory to read it. {error}".rstrip()) from None


def open_text(path: str | os.PathLike[str]) -> BinaryFile:
    """Open a plain or gzip file for reading bytes.

    Its first bytes tell which it is.
    """
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
    """Parse whole lines of unsigned integers between blanks or, with `colons`, colons.

    `first_line` is the number of the block's first line, for messages. Raises BadLine at any other byte, and at numbers
    of more than 18 digits.
    """
    n = (len(block) + 1) // 2
    values, lines, joined = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, bool)
    summary = np.zeros(4, np.int64)
    if block:
        native.integers(block, colons, values, lines, joined.view(np.uint8), summary)
    found, line_feeds, n_colons, stopped = summary.tolist()
    if stopped < len(block):
        what = "expected non-negative integers" + (" and colons" if colons else "")
        if block[stopped : stopped + 1].isdigit():
            what = "a number has more than 18 digits"
        raise BadLine(first_line + line_feeds, what)
    n_lines = line_feeds + (bool(block) and not block.endswith(b"\n"))
    return Integers(values[:found], lines[:found], joined[:found], n_colons, n_lines)
