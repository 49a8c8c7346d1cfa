"""The file of a budget: records that are on the disk before anything they pay for is drawn.

The first line, of fixed width, says how many records there are. Each record is one line: the length of its text, the
hash that chains it to all before it, and the text, canonical JSON. A record is written as one piece at the end, the
first line is brought up to it, and both are brought to the disk by one fsync before `append` returns. Whoever decides
about a charge holds an exclusive lock (flock) on the file for as long.

What a crash leaves. Let n be the number of appends that have returned. The first line says c with c >= n, since the
fsync that the n-th append waited for covered the first line, and c <= n + 1. A cut or damaged end leaves k whole
records. *Torn* is called an end with k >= c - 1 that is not clean: bytes after the k-th record, or k = c - 1. Then
k >= n - 1: at most *one* record whose append has returned is lost. Whatever it was, to count every open reservation as
spent to the full covers it: a release or the end of a run belongs to a reservation that is open in what is left; a
reservation or a declared list paid for nothing yet, as its first release would have been a further record. If
k < c - 1, or anything before the last record is damaged, more may be lost than can be bounded: the file is refused.

An older copy of the whole file is a valid file. Only a head that was written down elsewhere tells: every fitted model
keeps the one of its run, and `head in heads` is the comparison. If all of that is rolled back too, nothing can tell.

It takes a local file system, or one whose flock, write and fsync hold across machines.
"""

import errno
import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..store.atomic import naming, part_of, sync_folder
from .ledger import canonical_json

_MAGIC = b"vips_fast budget 1"
_FIRST = len(_MAGIC) + 1 + 12 + 1 + 8 + 1
_NO_HEAD = "0" * 64
_MAX_RECORD = 1 << 24


class BudgetDamagedError(ValueError):
    """A budget's file is not as it was written, and what was spent cannot be told from it."""


def _first_line(count: int) -> bytes:
    text = b"%s %012d" % (_MAGIC, count)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _line(record: dict[str, Any], before: str) -> tuple[bytes, str]:
    text = canonical_json(record)
    head = hashlib.sha256(before.encode() + text).hexdigest()
    return b"%08d %s %s\n" % (len(text), head.encode(), text), head


def create(path: Path, record: dict[str, Any]) -> None:
    """Make a new file with its first record, whole or not at all; FileExistsError if the name is taken."""
    line, _ = _line(record, _NO_HEAD)
    taken = FileExistsError(errno.EEXIST, "exists already; a budget is never replaced", str(path))
    if path.exists() or path.is_symlink():
        raise taken
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(path.parent))
    with _unnamed(path) as (descriptor, name), naming(path):
        _write(descriptor, _first_line(1) + line, 0)
        os.fsync(descriptor)
        try:
            # Unlike a rename, a link never replaces what another process put there meanwhile.
            os.link(name, path, src_dir_fd=descriptor, follow_symlinks=True)
        except FileExistsError:
            raise taken from None
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
    sync_folder(path.parent)


@contextmanager
def _unnamed(path: Path) -> Iterator[tuple[int, str]]:
    """A new file without a name in the folder of ``path``, and what it can be linked by: a crash leaves nothing.

    Where the file system has no such files, it has the name of a part, which is removed at the end.
    """
    try:
        descriptor, part = os.open(path.parent, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o644), None
        name = f"/proc/self/fd/{descriptor}"
    except (AttributeError, OSError) as error:
        if getattr(error, "errno", errno.EISDIR) not in (errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL):
            raise
        part = part_of(path)
        descriptor, name = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), str(part)
    try:
        yield descriptor, name
    finally:
        os.close(descriptor)
        if part is not None:
            part.unlink()


#: Descriptors that hold a lock now. A forked child closes its copies, or the lock would live as long as the child.
_open: set[int] = set()


def _forked() -> None:
    for descriptor in _open:
        with suppress(OSError):
            os.close(descriptor)
    _open.clear()


os.register_at_fork(after_in_child=_forked)


class BudgetFile:
    """Reader and writer of one file; `locked` gives the records that are new since the last look.

    ``heads`` are the heads after each record read so far; ``torn`` says whether the end was torn at the last look (see
    the module's text).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.forget()

    def forget(self) -> None:
        """Read everything again at the next look."""
        self.heads: list[str] = []
        self.torn = False
        self._end = _FIRST
        self._last = b""
        self._descriptor = -1

    @contextmanager
    def locked(self, *, write: bool) -> Iterator[list[dict[str, Any]]]:
        """Hold the lock, shared or exclusive; gives the new records.

        Raises BudgetDamagedError if the file is damaged before its end, or is no longer the one that was read; OSError
        if it cannot be opened.
        """
        while True:
            descriptor = os.open(self.path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
            _open.add(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
                if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                    break
            except BaseException:
                self._close(descriptor)
                raise
            self._close(descriptor)  # another file took the name while this one waited
        self._descriptor = descriptor
        try:
            yield self._read(descriptor)
        finally:
            self._descriptor = -1
            self._close(descriptor)

    @staticmethod
    def _close(descriptor: int) -> None:
        if descriptor in _open:  # a forked child has closed it
            _open.discard(descriptor)
            os.close(descriptor)

    def _read(self, descriptor: int) -> list[dict[str, Any]]:
        size = os.fstat(descriptor).st_size
        first = os.pread(descriptor, _FIRST, 0)
        digits = first[len(_MAGIC) + 1 : len(_MAGIC) + 13]
        if not digits.isdigit() or first != _first_line(int(digits)):
            kind = "its first line is damaged" if first.startswith(_MAGIC[:9]) else "not a budget of this version"
            raise BudgetDamagedError(f"{self.path}: {kind}")
        begin = self._end - len(self._last)
        data = os.pread(descriptor, max(size - begin, 0), begin)
        if not data.startswith(self._last):
            raise BudgetDamagedError(
                f"{self.path}: record {len(self.heads) - 1} is not the one that was read before; was an older copy put "
                "back?"
            )
        records, position = [], len(self._last)
        while position < len(data):
            stop = data.find(b"\n", position) + 1
            found = self._record(data[position:stop]) if stop else None
            if found is None:
                break
            record, head = found
            records.append(record)
            self.heads.append(head)
            self._last = data[position:stop]
            position = stop
        self._end = begin + position
        whole, count = len(self.heads), int(digits)
        rest = data[position:]
        lost = whole < count - 1 or whole > count + 1 or not whole
        if lost or len(rest.splitlines()) > 1:
            raise BudgetDamagedError(
                f"{self.path}: record {whole} is damaged or missing, of {count}; restore the file from a copy that "
                "holds the head of its last model"
            )
        self.torn = bool(rest) or whole == count - 1
        return records

    def _record(self, line: bytes) -> tuple[dict[str, Any], str] | None:
        """The record in a line and its head; None if it is not whole."""
        if len(line) < 8 + 1 + 64 + 1 + 2 + 1 or len(line) > _MAX_RECORD:
            return None
        before = self.heads[-1] if self.heads else _NO_HEAD
        try:
            record = json.loads(line[74:-1])
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or record.get("number") != len(self.heads):
            return None
        again, head = _line(record, before)
        return (record, head) if again == line else None

    def append(self, record: dict[str, Any]) -> None:
        """Write one record; it is on the disk when this returns. Only within ``locked(write=True)``.

        Raises OSError if it cannot be written. The file is then as before, where the system lets it; if not, its end is
        torn and counts as spent.
        """
        line, head = _line(dict(record, number=len(self.heads)), self.heads[-1])
        descriptor, count = self._descriptor, len(self.heads)
        try:
            if self.torn:
                os.ftruncate(descriptor, self._end)
            _write(descriptor, line, self._end)
            _write(descriptor, _first_line(count + 1), 0)
            os.fsync(descriptor)
        except BaseException:
            # What is on the disk now is not known: it is read anew at the next look.
            with suppress(OSError):
                if not self.torn:
                    os.ftruncate(descriptor, self._end)
                    _write(descriptor, _first_line(count), 0)
                    os.fsync(descriptor)
            raise
        self.heads.append(head)
        self.torn = False
        self._end += len(line)
        self._last = line


def _write(descriptor: int, data: bytes, position: int) -> None:
    while data:
        done = os.pwrite(descriptor, data, position)
        data, position = data[done:], position + done
