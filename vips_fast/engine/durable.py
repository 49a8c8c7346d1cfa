"""Files and folders that are there whole or not at all, also after a crash."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_log = logging.getLogger(__name__)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_file(path: Path, write: Callable) -> None:
    """Write a file by ``write(binary file)`` and bring its bytes to the disk."""
    with open(path, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Bring a folder's entries to the disk, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some file systems have nothing to sync for a folder
    finally:
        os.close(descriptor)


def new_folder(path: Path) -> Path:
    """An empty folder beside ``path``, readable like any other, to be filled and put in its place."""
    folder = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    folder.chmod(0o755)
    return folder


def put_in_place(folder: Path, path: Path) -> None:
    """Give a finished folder its name; what had the name is removed afterwards.

    An existing folder is exchanged for the new one in one step where the system offers
    that (Linux), so that a whole one is there at any moment, whatever happens.
    Elsewhere the old one is renamed first, and a crash between the two renames leaves
    both under other names.
    """
    sync_folder(folder)
    replaces = path.exists()
    if not replaces:
        os.rename(folder, path)
    elif not _exchange(folder, path):
        old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".old", dir=path.parent))
        os.rename(path, old / path.name)
        os.rename(folder, path)
        folder = old
    sync_folder(path.parent)
    _log.info("written: %s", path)
    if replaces:
        shutil.rmtree(folder, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names atomically; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    return rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0
