"""Files of text: opening them, and reading whole lines."""

import codecs
import contextlib
import gzip
import io
import os
import zlib
from collections.abc import Iterable, Iterator

BinaryFile = gzip.GzipFile | io.BufferedReader

_GZIP = b"\x1f\x8b"
#: First bytes of files that no reader takes: what they are, and what to do.
_FOREIGN = {
    b"%PDF": ("a PDF file", "save its text as .txt or CSV"),
    b"PK\x03\x04": ("a zip archive", "unpack it, and give the file or folder in it"),
    b"7z\xbc\xaf": ("a 7z archive", "unpack it, and give the file or folder in it"),
    b"BZh": ("a bzip2 file", "expand it first: bunzip2 FILE"),
    b"\xfd7zXZ": ("an xz file", "expand it first: unxz FILE"),
    b"\x28\xb5\x2f\xfd": ("a zstd file", "expand it first: unzstd FILE"),
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
    b"%%MatrixMarket": ("a MatrixMarket file", "store scipy.io.mmread(FILE) with scipy.sparse.save_npz"),
}


class BadLine(ValueError):
    """A line that has the wrong form; `line` counts from 1."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}")


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


def refuse_stateful(encoding: str) -> None:
    """Raise ValueError for an encoding whose bytes may change how all later ones are read: one record could."""
    with contextlib.suppress(LookupError):
        if codecs.lookup(encoding).name.startswith(("iso2022", "hz", "utf-7")):
            raise ValueError(
                f"encoding={encoding!r}: a broken record would change how later ones are read; expected another, such "
                "as utf-8, with invalid='drop'"
            )


def expanded(raw: io.BufferedReader) -> BinaryFile:
    """Expand a gzip file, which its first bytes tell, as it is read; return any other as it is."""
    return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == _GZIP else raw


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


def whole_lines(
    pieces: Iterable[str], most: int, broken: str | None = None, done: list[int] | None = None
) -> Iterator[str]:
    """Cut pieces of a text behind the ends of lines.

    Lines that end in CR alone, as on old Macs, get LF. ``done[0]`` counts the lines that were yielded. A line of more
    than ``most`` characters is replaced by ``broken``, or raises BadLine.
    """
    open_: list[str] = []
    old_mac, done = None, [0] if done is None else done
    for piece in pieces:
        if old_mac is None:  # no line has ended yet
            after_cr = bool(open_) and open_[-1].endswith("\r")
            old_mac = False if "\n" in piece else True if after_cr or "\r" in piece[:-1] else None
            if old_mac and after_cr:
                piece, open_ = "".join([*open_, piece]), []
        piece = piece.replace("\r", "\n") if old_mac else piece
        end = piece.rfind("\n") + 1
        if end:
            block = "".join([*open_, piece[:end]])
            done[0] += block.count("\n")
            yield block
            open_ = []
        open_.append(piece[end:])
        if sum(map(len, open_)) > most:
            if broken is None:
                raise BadLine(done[0] + 1, f"more than {most} characters")
            open_ = [broken]
    if rest := "".join(open_):
        yield rest.replace("\r", "\n") if old_mac is None else rest
