"""Read and write ``.npz`` files, also untrusted ones.

An ``.npz`` file is a zip archive of ``.npy`` files. `read_npz` compares each claim of the archive with another number
first. It compares the sizes in the directory with a cap, and the shape and type in the head of each array with its
size. Python objects are never loaded.
"""

import ast
import errno
import math
import os
import re
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from ..checks import machine_memory
from .archive import BROKEN, RefusedError, check_members, open_archive
from .atomic import PUBLIC, replace_file
from .limits import most_expanded

_MAX_HEADER = 10_000
_BLOCK = 1 << 20
_NAME = re.compile(r"[\w.-]+")
_TYPES = "biufcSUmM"


def read_npz(
    path: str | os.PathLike[str],
    *,
    max_bytes: int | None = None,
    names: Collection[str] | None = None,
    file: BinaryIO | None = None,
) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` file, contiguous, in the machine's order.

    The file is written by `numpy.savez`, `numpy.savez_compressed` or `write_npz`. The arrays may take ``max_bytes`` in
    memory; None means 256 MiB, or 100 times the size of the file if that is more. ``names`` are the arrays to read if
    the file has them; others are ignored, and may be of any size and type. None reads all. With an open ``file``, which
    is closed, ``path`` is its name in messages.

    Raises OSError if the system cannot read the file. Raises ValueError if it is not such a file, is damaged, or holds
    an array of Python objects or with fields. It also does so if the file is larger than ``max_bytes`` once expanded
    (the message has the path and the fault, never a value). Raises MemoryError with the size of the arrays if the
    machine has less.
    """
    needed, raw = 0, file or open(path, "rb", buffering=0)
    try:
        size = raw.seek(0, os.SEEK_END)
        with raw, open_archive(raw) as archive:
            members = _members(archive, names)
            needed = sum(member.file_size for member in members.values())
            check_members(members.values(), most_expanded(size) if max_bytes is None else max_bytes)
            if needed > machine_memory():  # asking the system for it might end the process
                raise MemoryError
            return {name: _array(archive, member, name) for name, member in members.items()}
    except RefusedError as error:
        raise ValueError(f"{path}: {error}") from None
    except MemoryError:
        raise MemoryError(f"{path}: its arrays need {needed} bytes, and there is not as much memory") from None
    except OSError as error:
        # A directory that points outside the file makes an impossible seek.
        if error.errno != errno.EINVAL:
            raise
    except BROKEN:
        pass
    raise ValueError(f"{path}: damaged, or not an .npz file; expected a zip archive of numpy arrays")


def write_npz(file: str | os.PathLike[str] | IO[bytes], arrays: Mapping[str, Any]) -> None:
    """Write arrays to an ``.npz`` file, the same bytes for same arrays.

    Names, of letters, digits, dots, hyphens and underscores, are sorted, the archive holds no times, and arrays are
    written in C order, little-endian, without compression. Raises ValueError if a name has another character, or an
    array is one that `read_npz` refuses.
    """
    checked = {}
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        if not _NAME.fullmatch(name):
            raise ValueError(f"array name {name!r}: expected letters, digits, dots, hyphens and underscores")
        if array.dtype.kind not in _TYPES:
            raise ValueError(f"array {name!r} has dtype {array.dtype}: expected numbers, booleans, strings or times")
        checked[name] = np.require(array, array.dtype.newbyteorder("<"), "C")
    if isinstance(file, (str, os.PathLike)):
        replace_file(Path(file), lambda opened: _write(opened, checked), PUBLIC)
    else:
        _write(file, checked)


def _write(file: IO[bytes], checked: Mapping[str, np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in checked.items():
            member = zipfile.ZipInfo(name + ".npy")
            member.create_system, member.external_attr = 3, 0o644 << 16
            with archive.open(member, "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _members(archive: zipfile.ZipFile, names: Collection[str] | None) -> dict[str, zipfile.ZipInfo]:
    """Return the wanted members by the names of their arrays."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if names is not None and name not in names:
            continue
        if name == member.filename:
            raise RefusedError(f"holds {name!r}, which is not an array; expected names that end in .npy")
        if name in members:
            raise RefusedError(f"holds the array {name!r} twice; expected one")
        members[name] = member
    return members


def _head(stream: IO[bytes], member_size: int, name: str) -> tuple[tuple[int, ...], np.dtype, bool]:
    """Read an array's shape, type and order (Fortran's?) and compare them with the size of its member."""
    version = np.lib.format.read_magic(stream)
    width = 2 if version == (1, 0) else 4
    size = int.from_bytes(stream.read(width), "little")
    if version not in ((1, 0), (2, 0), (3, 0)) or size > _MAX_HEADER:
        raise RefusedError(f"array {name!r} has a head of an unknown form; expected one that numpy writes")
    try:
        head = ast.literal_eval(stream.read(size).decode("utf-8" if version == (3, 0) else "latin-1"))
    except MemoryError:
        # Python's parser raises this for brackets that are nested too deeply.
        raise ValueError from None
    descr, shape = head["descr"], head["shape"]
    if not isinstance(descr, str):
        raise RefusedError(f"array {name!r} has fields; expected numbers, booleans, strings or times")
    dtype = np.dtype(descr)
    if dtype.hasobject:
        raise RefusedError(f"array {name!r} holds Python objects; expected numbers (pickled arrays are refused)")
    if dtype.kind not in _TYPES or dtype.itemsize == 0:
        raise RefusedError(f"array {name!r} has dtype {dtype}; expected numbers, booleans, strings or times")
    if type(shape) is not tuple or len(shape) > 32 or not all(type(n) is int and n >= 0 for n in shape):
        raise RefusedError(f"array {name!r} has no valid shape; expected a tuple of sizes")
    found, expected = member_size - np.lib.format.MAGIC_LEN - width - size, math.prod(shape) * dtype.itemsize
    if found != expected:
        raise RefusedError(f"array {name!r} takes {found} bytes; expected {expected} by its shape and dtype")
    return shape, dtype, bool(head["fortran_order"])


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """Read an array, and refuse values that could do harm."""
    with archive.open(member) as stream:
        shape, dtype, fortran = _head(stream, member.file_size, name)
        array: np.ndarray = np.empty(math.prod(shape), dtype)
        values = array.view(np.uint8)
        for first in range(0, len(values), _BLOCK):
            block = values[first : first + _BLOCK]
            content = stream.read(len(block))
            if len(content) != len(block):
                raise EOFError
            block[:] = np.frombuffer(content, np.uint8)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise RefusedError(f"array {name!r} has a byte that is neither true nor false; expected booleans")
    if not dtype.isnative:
        array = array.byteswap(inplace=True).view(dtype.newbyteorder("="))
    if dtype.kind == "U" and array.view(np.uint32).max(initial=0) > 0x10FFFF:
        raise RefusedError(f"array {name!r} has a character outside Unicode; expected text")
    if fortran:
        return np.ascontiguousarray(array.reshape(shape[::-1]).T)
    return array.reshape(shape)
