"""Keep public data that can be made again in the user's cache folder, ``$XDG_CACHE_HOME`` or ``~/.cache``.

A file begins with a line of its key and its SHA-256. The key is the digest of all that the content was made of, so a
file of another version or other sources is not taken, and neither is a damaged one: both are made again.
"""

import errno
import functools
import hashlib
import json
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

from .atomic import PUBLIC, make_folder, replace_file
from .limits import read_bytes

_Made = TypeVar("_Made")
_MAGIC, _MOST = b"vips_fast cache 1", 1 << 28


def cache_folder() -> Path:
    """Find the folder; OSError if the user has no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vips_fast"
    except RuntimeError:
        raise FileNotFoundError(errno.ENOENT, "no home of the user; set XDG_CACHE_HOME to a folder") from None


def key_of(*sources: Any) -> str:
    """Compute the key of content that is made of JSON values: versions, digests and settings."""
    return hashlib.sha256(json.dumps(sources, sort_keys=True).encode()).hexdigest()


def store(path: Path, key: str, content: bytes) -> None:
    """Write a file for `stored`; OSError if the system cannot."""
    make_folder(path.parent)
    line = b"%s %s %s\n" % (_MAGIC, key.encode(), hashlib.sha256(content).hexdigest().encode())
    replace_file(path, lambda file: file.write(line + content), PUBLIC)


def stored(path: Path, key: str, read: Callable[[bytes], _Made]) -> _Made:
    """Return what ``read`` makes of a file's content; nobody may change it, since others get the same.

    Raises ValueError if the file is of another key, or damaged, and OSError if there is none.
    """
    with path.open("rb") as file:
        line = file.readline(256)
    if not line.startswith(b"%s %s " % (_MAGIC, key.encode())):
        raise ValueError(f"{path}: damaged, or of another version or source")
    return cast(_Made, _content(path, line, read))


@functools.lru_cache(maxsize=2)
def _content(path: Path, line: bytes, read: Callable[[bytes], _Made]) -> _Made:
    """Read a file with this first line, which has the digest of the content: one read before needs no second time."""
    first, _, content = read_bytes(path, _MOST).partition(b"\n")
    if first + b"\n" != line or first.split(b" ")[-1] != hashlib.sha256(content).hexdigest().encode():
        raise ValueError(f"{path}: damaged, or of another version or source")
    return read(content)


def cached(
    name: str, key: str, make: Callable[[], _Made], write: Callable[[_Made], bytes], read: Callable[[bytes], _Made]
) -> _Made:
    """Read what ``make`` would make from a file, or make it and write the file.

    Any number of threads and processes may do so at once. A file that cannot be read or written costs time, and a
    warning, but no error.
    """
    name = f"{name}-{key[:16]}"
    with suppress(OSError, ValueError):
        return stored(cache_folder() / name, key, read)
    made = make()
    try:
        store(cache_folder() / name, key, write(made))
    except OSError as error:
        why = f"not stored ({error.strerror}), so it is made again next time; set XDG_CACHE_HOME to a folder for it"
        warnings.warn(f"{name}: {why}", stacklevel=3)
    return made
