"""Open zip archives that somebody else may have written, such as ``.npz`` and ``.xlsx``.

Each claim of an archive is compared with another number first, and what it may expand to is bounded.
"""

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Any

#: Bytes of the largest directory of an archive: enough for 300,000 members at 50 bytes each.
_MAX_DIRECTORY = 1 << 24
#: Errors that zipfile, zlib and the parsers of contents raise at broken bytes.
BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


class RefusedError(Exception):
    """The fault of a file, in words."""


class _Limited(io.BufferedReader):
    """A file whose directory is read only if it is small. zipfile reads it at once, and takes 13 times its size."""

    def read(self, size: int | None = -1, /) -> bytes:
        unlimited = size is None or size < 0
        data = super().read(_MAX_DIRECTORY + 1 if unlimited else min(size or 0, _MAX_DIRECTORY + 1))
        if len(data) > _MAX_DIRECTORY:
            raise RefusedError(f"has a directory of more than {_MAX_DIRECTORY} bytes; expected fewer members")
        return data


@contextmanager
def open_archive(raw: Any) -> Iterator[zipfile.ZipFile]:
    """Open the archive in a binary file, which stays open.

    Raises `RefusedError` or an error of `BROKEN` if it is none, or its directory is too large or shorter than it says.
    """
    file = _Limited(raw)
    try:
        with zipfile.ZipFile(file) as archive:
            # Unlike zipfile, this refuses a directory shorter than its end says.
            file.seek(-22 - len(archive.comment), os.SEEK_END)
            number, there = int.from_bytes(file.read(12)[10:], "little"), len(archive.infolist())
            if number != min(there, 0xFFFF):
                raise RefusedError(f"has {there} members in its directory; expected {number} by its end")
            yield archive
    finally:
        with suppress(ValueError):
            file.detach()


def check_members(members: Collection[zipfile.ZipInfo], limit: int) -> None:
    """Refuse members that are encrypted or compressed otherwise than by deflate, or expand to more than a limit."""
    for member in members:
        if member.flag_bits & 0x1:
            raise RefusedError(f"member {member.filename!r} is encrypted; expected a plain archive")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RefusedError(f"member {member.filename!r} is compressed by another method than deflate")
    needed = sum(member.file_size for member in members)
    if needed > limit:
        raise RefusedError(f"expands to {needed} bytes; expected at most {limit}")
