"""Read folders that somebody else may have written: published models and transcripts.

A `Folder` opens its path once, and its files relative to it, so a folder that is exchanged meanwhile is read whole. It
opens only regular files. A link would lead out of the folder, and a pipe or a device may block forever, so both are
refused without waiting. Sizes are bounded before a byte is read, and a name in a file is never imported.
"""

import errno
import os
import stat
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .limits import MOST_VALUES, parse_json
from .npz import read_npz

#: Bytes of the largest text that is read: JSON, a log, words, a schema. A ledger takes 400 bytes a release.
MOST_TEXT = 1 << 27
#: Entries of the largest folder that is listed.
_MOST_ENTRIES = 10_000
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
#: Errors of `os.open` for links, sockets and folders in place of a file.
_NOT_FILES = errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV


class Folder(AbstractContextManager["Folder"]):
    """An open folder, whose contents are not trusted.

    With ``follow=False`` the folder itself may not be a link. Raises OSError, with the path, if it cannot open.
    """

    def __init__(self, path: str | os.PathLike[str], *, follow: bool = True) -> None:
        self.path = Path(path)
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW)
        self._descriptor = os.open(self.path, flags)

    def __exit__(self, *error: object) -> None:
        os.close(self._descriptor)

    def holds(self, name: str) -> bool:
        """Tell whether the folder has an entry of this name."""
        with suppress(FileNotFoundError):
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
            return True
        return False

    def names(self) -> list[str]:
        """List the entries, sorted; ValueError if there are more than 10,000."""
        with os.scandir(self._descriptor) as entries:
            found = sorted(entry.name for entry in islice(entries, _MOST_ENTRIES + 1))
        if len(found) > _MOST_ENTRIES:
            raise ValueError(f"{self.path}: more than {_MOST_ENTRIES} entries; expected the folder as fit wrote it")
        return found

    def open(self, name: str) -> BinaryIO:
        """Open a regular file for reading.

        Raises FileNotFoundError or another OSError with the path; ValueError if the entry is anything but a file.
        """
        return open(self.path / name, "rb", opener=lambda path, flags: self._open(name))

    def _open(self, name: str) -> int:
        path = self.path / name
        try:
            descriptor = os.open(name, _FLAGS, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in _NOT_FILES:
                raise _not_a_file(path) from None
            gone = isinstance(error, FileNotFoundError)
            why = "missing; expected the folder as it was written" if gone else os.strerror(error.errno or 0)
            raise OSError(error.errno, why, str(path)) from None
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
        raise _not_a_file(path)

    def read(self, name: str, most: int = MOST_TEXT) -> bytes:
        """Read a file of at most ``most`` bytes; raise ValueError beyond."""
        with self.open(name) as file:
            data = file.read(most + 1)
            if len(data) > most:
                raise ValueError(f"{file.name}: is larger than {most} bytes; expected the file as fit wrote it")
            return data

    def text(self, name: str) -> str:
        """Read a text as `read`; ValueError unless it is UTF-8."""
        data = self.read(name)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"{self.path / name}: is not UTF-8 text") from None

    def json_lines(self, name: str) -> bytes:
        """Read JSON, one value a line, not parsed; ValueError if all lines together have too many values."""
        data = self.read(name)
        if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
            raise ValueError(f"{self.path / name}: has more than {MOST_VALUES} values; expected the file of a fit")
        return data

    def json(self, name: str) -> Any:
        """Read a JSON value; errors as `read` and `parse_json`."""
        data = self.read(name)
        try:
            return parse_json(data)
        except ValueError as error:
            raise ValueError(f"{self.path / name}: {error}") from None

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """Read the arrays that `write_npz` wrote.

        They are not compressed, so they are no larger than the file. Errors as `open` and `read_npz`.
        """
        file = self.open(name)
        return read_npz(self.path / name, max_bytes=os.fstat(file.fileno()).st_size, file=file)


def _not_a_file(path: Path) -> ValueError:
    return ValueError(f"{path}: is a link, a folder, a pipe or a device; expected a file")
