"""Files and folders that are there whole or not at all, also after a crash; errors name the path.

What is being made has a name of its own, ``.NAME.PROCESS.TOKEN.part``, until it is whole. A process that is killed may
leave that behind; `leftovers` finds it.
"""

import ctypes
import errno
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .holder import is_dead_tag, tag

_log = logging.getLogger(__name__)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let an error of the system name the file that it is about."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


def write_file(path: Path, write: Callable[..., Any]) -> None:
    """Write a file by ``write(binary file)`` and bring its bytes to the disk."""
    with naming(path), open(path, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, write: Callable[..., Any]) -> None:
    """Write a file that is there as it was or as it shall be, at any moment and after any crash."""
    part = path.with_name(f".{path.name}.part")
    try:
        write_file(part, write)
        os.rename(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Bring a folder's entries to the disk, where the system can; a ledger that it forgets would be an under-count."""
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems have nothing to sync
                raise
        finally:
            os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, on the disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """A name beside ``path`` for what shall have its name once it is whole."""
    return path.with_name(f".{path.name}.{tag()}.{secrets.token_hex(4)}.part")


def leftovers(folder: Path) -> list[Path]:
    """What processes that were killed have left in a folder; it may be removed.

    A process is judged on this machine: parts that another machine is making in a shared folder look left behind.
    """
    parts = (path for path in sorted(folder.iterdir()) if path.name.startswith(".") and path.name.endswith(".part"))
    return [path for path in parts if len(words := path.name.split(".")) > 4 and is_dead_tag(words[-3])]


def new_folder(path: Path) -> Path:
    """An empty folder beside ``path``, to be filled and put in its place."""
    folder = part_of(path)
    folder.mkdir()
    return folder


def put_in_place(folder: Path, path: Path) -> None:
    """Give a finished folder its name; what had the name is removed afterwards.

    An existing folder is exchanged for the new one in one step where the system offers that (Linux), so that a whole
    one is there at any moment, whatever happens. Elsewhere the old one is renamed first, and a crash between the two
    renames leaves both under other names.
    """
    sync_folder(folder)
    replaces = path.exists()
    if not replaces:
        os.rename(folder, path)
    elif not _exchange(folder, path):
        old = part_of(path).with_suffix(".old")
        os.rename(path, old)
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
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
