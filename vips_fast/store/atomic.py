"""Write files and folders whole or not at all, also after crashes.

A file or folder in the making has a name of its own, ``.NAME.PROCESS.TOKEN.part``. A killed process may leave it
behind. Whoever next writes NAME removes it, if the process has ended for certain.
"""

import ctypes
import errno
import logging
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from .owned import Owner, check_owned, is_empty, remove, remove_part
from .process import is_dead_tag, tag

_log = logging.getLogger(__name__)

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
#: Bytes that are written in one piece.
_BLOCK = 1 << 20
#: Permissions of a file that is published, less the umask. All others are for their owner only.
PUBLIC = 0o666
#: Names of `part_of`, and with an end.
_TAG = r"[0-9]+-[0-9]+(-[0-9a-f]{8}){3}"
_PART = re.compile(rf"\.(?P<name>.+)\.(?P<tag>{_TAG})\.[0-9a-f]{{8}}\.(part|old)(\.[^.]+)?", re.DOTALL)
#: Folders that end with this process, so that nothing in them has to survive a crash: their files are not synced.
PASSING = set[Path]()


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to errors of the system that name none."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, os.strerror(error.errno), str(path)) from error


@contextmanager
def _created(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Open a new file in place of any with this name; at the end it is on the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with naming(path):
        try:
            descriptor = os.open(path, flags, mode)
        except FileExistsError:
            os.unlink(path)
            descriptor = os.open(path, flags, mode)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            if PASSING.isdisjoint(path.parents):
                os.fsync(file.fileno())


def write_file(path: Path, write: Callable[..., Any], mode: int = 0o600) -> None:
    """Write a new file by ``write(binary file)``, to the disk.

    The file takes the place of one with this name. A symbolic link in the place is replaced, not followed.
    """
    with _created(path, mode) as file:
        write(file)


def write_at(descriptor: int, data: bytes, position: int) -> None:
    """Write all of the data at a position of an open file."""
    while data:
        done = os.pwrite(descriptor, data, position)
        data, position = data[done:], position + done


@contextmanager
def replacing(path: Path, mode: int = 0o600) -> Iterator[BinaryIO]:
    """Open a new file, which takes the name ``path`` once it is written and on the disk.

    The name holds the old file or the whole new one at any crash, and no two writers share a part. A symbolic link in
    the place is replaced, not followed. Raises OSError, before anything is written, if the name is in no folder, or
    that of a folder, a pipe or a device.
    """
    _refuse_others(path)
    part = part_of(path)
    try:
        with _created(part, mode) as file:
            yield file
        os.rename(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.filename == str(part):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    sync_folder(path.parent)
    sweep(path)


def replace_file(path: Path, write: Callable[..., Any], mode: int = 0o600) -> None:
    """Write or replace a file by ``write(binary file)``, as `replacing` does."""
    with replacing(path, mode) as file:
        write(file)


def replace_text(path: Path, text: str) -> None:
    """Write or replace a text for others to read, as `replacing` does."""
    replace_file(path, lambda file: file.write(text.encode()), PUBLIC)


def _refuse_others(path: Path) -> None:
    """Refuse a name in no folder, or that leads to something else than a file; a rename would put a file there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"no such folder: {path.parent}", str(path))
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            what = "is a folder, a pipe or a device; expected the name of a file"
            raise OSError(errno.EINVAL, what, str(path))


def reserve(path: Path, size: int, spare: int = 0) -> None:
    """Make the part of a new file in full size, for `fill`: its space is then taken.

    ``spare`` bytes more are taken and given back, so the disk had them a moment ago, for what is written before.
    Raises OSError if the disk cannot give all this.
    """
    part = path.with_name(f".{path.name}.part")

    def take(file: Any) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size + spare)
        else:  # as on macOS
            file.writelines(bytes(min(_BLOCK, size + spare - first)) for first in range(0, size + spare, _BLOCK))
            file.flush()
        os.ftruncate(file.fileno(), size)

    try:
        write_file(part, take)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def fill(path: Path, write: Callable[..., Any]) -> None:
    """Write a file into the space that `reserve` took, and give it its name.

    If that fails, the file is written once more, elsewhere on the disk. Raises OSError if that fails too.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        with naming(path), open(os.open(part, flags), "wb") as file:
            write(file)
            file.flush()
            os.ftruncate(file.fileno(), file.tell())
            os.fsync(file.fileno())
        os.rename(part, path)
        sync_folder(path.parent)
    except OSError:
        replace_file(path, write)


def create_file(path: Path, data: bytes) -> None:
    """Create a file for only its owner to read, whole or not.

    Raises FileExistsError if the name is taken, and never replaces it.
    """
    taken = FileExistsError(errno.EEXIST, "exists already and is never replaced; use another name", str(path))
    if path.exists() or path.is_symlink():
        raise taken
    _refuse_others(path)
    part = part_of(path)
    try:
        try:
            write_file(part, lambda file: file.write(data))
            os.link(part, path)  # unlike a rename, it never replaces a file that another process put there meanwhile
        finally:
            part.unlink(missing_ok=True)
    except FileExistsError:
        raise taken from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    sync_folder(path.parent)
    sweep(path)


def delete(path: Path) -> None:
    """Remove a file, a link or a whole folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Bring a folder's entries to the disk, if the system can."""
    if not PASSING.isdisjoint((path, *path.parents)):
        return
    with naming(path):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems have nothing to sync
                raise
        finally:
            os.close(descriptor)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and its parents, on the disk. ``mode`` are its permissions, less the umask."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(mode, exist_ok=True)
        sync_folder(path.parent)


def part_of(path: Path) -> Path:
    """Return a name beside ``path`` for its part in the making."""
    return path.with_name(f".{path.name}.{tag()}.{secrets.token_hex(4)}.part")


def leftovers(folder: Path, name: str | None = None) -> list[Path]:
    """List the parts, of any name or of one, that killed processes left.

    A part of another machine or container in a shared folder may be in the making, and is not listed.
    """
    found = ((path, _PART.fullmatch(path.name)) for path in sorted(folder.iterdir()))
    return [path for path, of in found if of and name in (None, of["name"]) and is_dead_tag(of["tag"])]


def sweep(path: Path) -> None:
    """Remove what killed writers of this path left.

    Call it once the path is whole: before, an old folder that had to make place may be the only one.
    """
    with suppress(OSError):
        for part in leftovers(path.parent, path.name):
            remove_part(part)


def new_folder(path: Path) -> Path:
    """Make an empty folder beside ``path``, for `put_in_place`."""
    folder = part_of(path)
    try:
        folder.mkdir()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    return folder


@contextmanager
def replacing_folder(path: Path, owner: Owner | None = None) -> Iterator[Path]:
    """Open an empty folder to fill; at the end it is put in place.

    An error before that removes it again. Errors as `put_in_place`.
    """
    make_folder(path.parent)
    folder = new_folder(path)
    made = os.lstat(folder)
    try:
        yield folder
        put_in_place(folder, path, owner)
    except BaseException:
        # Once the two are exchanged, the old folder has this name.
        with suppress(OSError):
            if os.path.samestat(made, os.lstat(folder)):
                shutil.rmtree(folder, ignore_errors=True)
        raise


def put_in_place(folder: Path, path: Path, owner: Owner | None = None) -> None:
    """Give a finished folder its name, and remove the old one if it is ours (`vips_fast.store.owned`).

    Everything in it reaches the disk first. On Linux the two are exchanged in one step, so a whole folder is there at
    any moment. Elsewhere the old one is renamed first, and a crash between the two renames leaves both under other
    names. Without an ``owner`` no folder is replaced, except an empty one.

    Raises ValueError, with both folders as they were, if the old one is not ours or holds anything else, and
    FileExistsError if another process put a folder there meanwhile.
    """
    for place, _, _ in os.walk(folder, topdown=False):
        sync_folder(Path(place))
    old = None
    if owner is None or not os.path.lexists(path) or is_empty(path):
        try:
            os.rename(folder, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            meanwhile = "another process wrote it meanwhile; take another place, or remove it"
            raise FileExistsError(errno.EEXIST, meanwhile, str(path)) from None
    else:
        own, old = check_owned(path, owner), folder
        if not _exchange(folder, path):
            old = part_of(path).with_suffix(".old")
            os.rename(path, old)
            try:
                os.rename(folder, path)
            except BaseException:
                os.rename(old, path)
                raise
    sync_folder(path.parent)
    _log.info("written: %s", path)
    if old is not None:
        with suppress(OSError):
            remove(old, own)
            if old.exists():  # what came since the look at it stays, where it is seen
                os.rename(old, path.with_name(f"{path.name}.{secrets.token_hex(4)}.kept"))
    sweep(path)


def link_file(path: Path, place: Path) -> None:
    """Give a file that is never changed a second name or, on another file system, copy it."""
    try:
        os.link(path, place)
    except OSError:
        with path.open("rb") as file:
            write_file(place, lambda out: shutil.copyfileobj(file, out))


def _exchange(first: Path, second: Path) -> bool:
    """Swap two names atomically; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    names = os.fsencode(first), os.fsencode(second)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)
