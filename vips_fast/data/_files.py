"""Files of text: opening, reading whole lines, and parsing integers in blocks."""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from ..kernels import native

BinaryFile = gzip.GzipFile | io.BufferedReader

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Memory of a decompressor. xz -9 takes 65 MiB; a stranger's file may ask for 4 GiB.
_MOST_MEMORY = 1 << 28
#: First bytes of files that no reader takes: what they are, and what to do.
_FOREIGN = {
    b"%PDF": ("a PDF file", "save its text as .txt or CSV"),
    b"PK\x03\x04": ("a zip archive", "unpack it, and give the file or folder in it"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it, and give the file or folder in it"),
    b"Rar!": ("a RAR archive", "unpack it, and give the file or folder in it"),
    b"\xd0\xcf\x11\xe0": ("an old Office file (.xls or .doc)", "save it as .xlsx, CSV or .txt"),
    b"SQLite format 3": ("an SQLite database", "export the table as CSV"),
    b"$FL2": ("an SPSS file", "export it as CSV"),
    b"<stata_dta>": ("a Stata file", "export it as CSV"),
    b"RDX": ("an R workspace", "export the table with write.csv(x, row.names = FALSE)"),
    b"X\n\0\0": ("an R object (.rds)", "export the table with write.csv(x, row.names = FALSE)"),
    b"ARROW1": ("an Arrow file (Feather)", "save it as Parquet"),
    b"\x89HDF": ("an HDF5 file", "save the table as Parquet or CSV"),
    b"\x93NUMPY": ("a NumPy array", "save counts with scipy.sparse.save_npz"),
    b"\x80\x04\x95": ("a pickle, which may run code and is never loaded", "save the table as Parquet or CSV"),
    b"\x80\x05\x95": ("a pickle, which may run code and is never loaded", "save the table as Parquet or CSV"),
    b"<!DOCTYPE": ("a web page", "save the table as CSV"),
    b"<html": ("a web page", "save the table as CSV"),
    b"<?xml": ("an XML file", "save the table as CSV"),
}

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


def refuse_foreign(head: bytes) -> None:
    """Raise ValueError, with the remedy, if a file's first bytes are of a format that no reader takes."""
    for magic, (what, remedy) in _FOREIGN.items():
        if head.startswith(magic):
            raise ValueError(f"looks like {what}; {remedy}")
    if head[257:262] == b"ustar":
        raise ValueError("looks like a tar archive; unpack it, and give the file or folder in it")


def refuse_utf16(head: bytes, encoding: str) -> None:
    """Raise ValueError if first bytes look like UTF-16 without a mark: every other byte of Latin text is zero."""
    for name, high, low in (("utf-16-le", head[1::2], head[::2]), ("utf-16-be", head[::2], head[1::2])):
        told = "16" in encoding or head[:2] in (b"\xff\xfe", b"\xfe\xff")
        if not told and 0 not in low and 2 * high.count(0) > len(high):
            raise ValueError(f"looks like UTF-16 without a mark; expected encoding={name!r}")


class _Expanded(io.RawIOBase):
    """The bytes that decompressors make of a file's, one for each of its streams."""

    def __init__(self, raw: io.BufferedReader, name: str, decompressor: Callable[[], Any]) -> None:
        self._raw, self._name, self._new, self._own = raw, name, decompressor, decompressor()

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with some bytes; 0 at the end."""
        try:
            while True:
                given = self._raw.read(1 << 16) if self._own.eof or self._own.needs_input else b""
                if self._own.eof:
                    # Zeros may fill up a file behind its last stream.
                    rest = (self._own.unused_data + given).lstrip(b"\0")
                    if not rest and not given:
                        return 0
                    if not rest:
                        continue
                    self._own, given = self._new(), rest
                elif not given and self._own.needs_input:
                    raise EOFError
                if data := self._own.decompress(given, len(buffer)):
                    buffer[: len(data)] = data
                    return len(data)
        except (OSError, EOFError, lzma.LZMAError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk
            what = "broken or cut off, or take too much memory to expand"
            raise ValueError(f"the {self._name} data are {what}") from None


def expanded(raw: io.BufferedReader) -> BinaryFile:
    """Expand a gzip, bzip2, xz or zstd file as it is read; return any other as it is.

    Its first bytes tell which it is. Raises ValueError for zstd, with the remedy, before Python 3.14.
    """
    head = raw.peek(6)[:6]
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=raw)
    if head.startswith(b"BZh"):
        return io.BufferedReader(_Expanded(raw, "bzip2", bz2.BZ2Decompressor))
    if head.startswith(b"\xfd7zXZ\x00"):
        new = lzma.LZMADecompressor
        return io.BufferedReader(_Expanded(raw, "xz", lambda: new(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY)))
    if head.startswith(_ZSTD):
        try:
            zstd = import_module("compression.zstd")
        except ImportError:
            raise ValueError("looks like zstd, which needs Python 3.14; expand it first: unzstd FILE") from None
        return io.BufferedReader(_Expanded(raw, "zstd", zstd.ZstdDecompressor))
    return raw


@contextlib.contextmanager
def open_text(path: str | os.PathLike[str]) -> Iterator[BinaryFile]:
    """Open a file for reading bytes, as `expanded`; refuse a format that no reader takes."""
    with open(path, "rb") as raw:
        file = expanded(raw)
        with broken_gzip():
            head = file.peek(512)[:512]
        refuse_foreign(head)
        yield file


@contextlib.contextmanager
def broken_gzip() -> Iterator[None]:
    """Raise ValueError in place of the errors of gzip."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ValueError("the gzip data are broken or cut off") from None


def blocks(file: BinaryFile, size: int = _BLOCK) -> Iterator[bytes]:
    """Yield the file in blocks of whole lines, as `whole_lines` does.

    Raises ValueError if the file is compressed and its data are broken, or a line has more than 256 MiB.
    """
    with broken_gzip():
        yield from whole_lines(iter(lambda: file.read(size), b""), _MAX_LINE)


def whole_lines(pieces: Iterable[Any], most: int, broken: Any = None, done: list[int] | None = None) -> Iterator[Any]:
    """Cut pieces of bytes or of text behind the ends of lines.

    Lines that end in CR alone, as on old Macs, get LF. ``done[0]`` counts the lines that were yielded. A line of more
    than ``most`` bytes or characters is replaced by ``broken``, or raises BadLine.
    """
    open_: list[Any] = []
    old_mac, done = None, [0] if done is None else done
    for piece in pieces:
        lf, cr, unit = (b"\n", b"\r", "bytes") if isinstance(piece, bytes) else ("\n", "\r", "characters")
        if old_mac is None:  # no line has ended yet
            after_cr = bool(open_) and open_[-1].endswith(cr)
            old_mac = False if lf in piece else True if after_cr or cr in piece[:-1] else None
            if old_mac and after_cr:
                piece, open_ = piece[:0].join([*open_, piece]), []
        piece = piece.replace(cr, lf) if old_mac else piece
        end = piece.rfind(lf) + 1
        if end:
            block = piece[:0].join([*open_, piece[:end]])
            done[0] += block.count(lf)
            yield block
            open_ = []
        open_.append(piece[end:])
        if sum(map(len, open_)) > most:
            if broken is None:
                raise BadLine(done[0] + 1, f"more than {most} {unit}")
            open_ = [broken]
    if any(open_):
        rest = open_[0][:0].join(open_)
        yield rest.replace(cr, lf) if old_mac is None else rest


def parse(block: bytes, first_line: int) -> Integers:
    """Parse whole lines of unsigned integers between blanks.

    `first_line` is the number of the block's first line, for messages. Raises BadLine at any other byte, and at numbers
    of more than 18 digits.
    """
    n = (len(block) + 1) // 2
    values, lines, joined = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, bool)
    summary = np.zeros(4, np.int64)
    if block:
        native.integers(block, False, values, lines, joined.view(np.uint8), summary)
    found, line_feeds, _, stopped = summary.tolist()
    if stopped < len(block):
        what = "expected non-negative integers"
        if block[stopped : stopped + 1].isdigit():
            what = "a number has more than 18 digits"
        raise BadLine(first_line + line_feeds, what)
    n_lines = line_feeds + (bool(block) and not block.endswith(b"\n"))
    return Integers(values[:found], lines[:found], n_lines)
