"""An append-only log, chained by hashes, on the disk before `append` returns.

The ledger of a run, the budget of a data set and the ledger in a transcript are such logs. A log's file has one line a
record: canonical JSON of the record and its hash. The record holds its number and the hash of the one before. The first
line, of fixed width, names the kind of log and counts the records. An append writes the record at the end, then the
first line, and one fsync brings both to the disk.

**The rule for torn ends.** Let n be the number of appends that have returned, c the count in the first line, and k the
number of whole records. The fsync of the n-th append covered the first line, so c >= n; and c <= n + 1. If k >= c, no
record is lost whose append had returned. So an end with c <= k <= c + 1 is *clean*; also with k = c and bytes of a
further record: they are of an append that never returned, and nothing was done on its account. The next append cuts
them off. Any other end with k >= c - 1 is *torn*. Then k >= n - 1: at most one record is lost whose append had
returned. The reader counts everything reserved as spent, which covers that record:

- a budget counts each open reservation in full. A lost release, or the end of a run, belongs to a reservation that is
  still open in the records that are left. A lost reservation paid for nothing yet, as its first release would be a
  further record.
- a ledger counts one release of its plan. The first record is the plan's; before it nothing is spent.

If k < c - 1, or a further line follows the first one that is not whole, more may be lost than anyone can bound. Then
the log is *damaged*, and refused. So is a first line that does not hold its own checksum.

A process that is killed between a record and the first line leaves k = c + 1. The next append first brings the first
line up to k, so that no number of kills leads further.

An older copy of a whole file is a valid file. Only a hash that was written down elsewhere shows it (`Log.heads`).
"""

import errno
import hashlib
import json
import os
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from .atomic import naming, write_at
from .limits import parse_json

Record = dict[str, Any]

#: Head of a log without records.
NO_HEAD = "0" * 64
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False, default=repr)
_MAGIC = b"vips_fast log 1"
_WIDTH = len(_MAGIC) + 1 + 8 + 1 + 12 + 1 + 8 + 1


class LogDamagedError(ValueError):
    """A changed log: nobody can tell how much was spent."""


def canonical_json(value: Any) -> bytes:
    """Encode a value as JSON in one spelling, other types by repr."""
    return _ENCODER.encode(value).encode()


def json_digest(value: Any) -> str:
    """Return the SHA-256 of a value's `canonical_json`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class Chain:
    """Records in memory, each chained by a hash to all before it.

    ``records`` hold their number and the hash before them; ``heads`` are the hashes after each of them.
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.heads: list[str] = []

    @property
    def head(self) -> str:
        """Hash of the last record, which stands for all records."""
        return self.heads[-1] if self.heads else NO_HEAD

    def copy(self) -> "Chain":
        """Return a chain in memory with the same records."""
        other = Chain()
        other.records, other.heads = list(self.records), list(self.heads)
        return other

    def link(self, record: Record) -> tuple[Record, str]:
        """Return a record as `append` would write it, and the next head."""
        linked = dict(record, number=len(self.records), before=self.head)
        return linked, json_digest(linked)

    def append(self, record: Record) -> Record:
        """Append a record; return it with number and hash before it."""
        linked, head = self.link(record)
        self.write(linked, head)
        self.records.append(linked)
        self.heads.append(head)
        return linked

    def write(self, record: Record, head: str) -> None:
        """Bring a linked record to the disk, before it is in memory."""

    @property
    def stored(self) -> bool:
        """Whether the file, if any, surely holds these records and no other."""
        return True


def _first_line(kind: str, count: int) -> bytes:
    text = b"%s %-8s %012d" % (_MAGIC, kind.encode(), count)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _line(record: Record, head: str) -> bytes:
    return canonical_json({"hash": head, "record": record}) + b"\n"


def encode(kind: str, records: Iterable[Record] = ()) -> bytes:
    """Return the bytes of a new log with these records."""
    chain = Chain()
    for record in records:
        chain.append(record)
    lines = [_line(*pair) for pair in zip(chain.records, chain.heads, strict=True)]
    return b"".join([_first_line(kind, len(lines)), *lines])


class Log(Chain):
    """A chain in a file of one kind; `read` before you append.

    The caller holds a lock on the file, or on its folder. ``torn`` tells whether the end was torn at the last `read`.

    Raises LogDamagedError from `read`, and OSError if the system fails.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind
        self.forget()

    @classmethod
    def of(cls, path: Path, kind: str, *, strict: bool = True) -> Self:
        """Read a log once, without appending to it.

        Unless ``strict``, the records before a damage are read, and the log is then torn.
        """
        log = cls(path, kind)
        with naming(path):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                log.read(descriptor)
            except LogDamagedError:
                if strict:
                    raise
                log.torn = True
            finally:
                os.close(descriptor)
        log.detach()
        return log

    def forget(self) -> None:
        """Read everything again at the next `read`."""
        super().__init__()
        self.torn = self._rest = False
        self._descriptor: int | None = None
        self._count, self._end, self._last = 0, _WIDTH, b""

    def detach(self) -> None:
        """Append no more to the descriptor of the last `read`."""
        self._descriptor = None

    def read(self, descriptor: int) -> list[Record]:
        """Read the new records since the last `read`, for later appends."""
        with naming(self.path):
            first = os.pread(descriptor, _WIDTH, 0)
            begin = self._end - len(self._last)
            data = os.pread(descriptor, max(os.fstat(descriptor).st_size - begin, 0), begin)
        digits = first[-22:-10]
        if not digits.isdigit() or first != _first_line(self.kind, int(digits)):
            ours = first.startswith(_first_line(self.kind, 0)[: len(_MAGIC) + 9])
            what = "its first line is damaged" if ours else f"not a {self.kind} of this version"
            other = "" if ours else "use the version of vips_fast that wrote it, or "
            raise LogDamagedError(f"{self.path}: {what}; {other}restore a whole copy of the file")
        if not data.startswith(self._last):
            raise LogDamagedError(
                f"{self.path}: record {len(self.heads) - 1} is not the one that was read before; was an older copy put "
                "back?"
            )
        known, position = len(self.records), len(self._last)
        while position < len(data):
            stop = data.find(b"\n", position) + 1
            if not stop or not self._take(data[position:stop]):
                break
            self._last, position = data[position:stop], stop
        self._count, self._end = int(digits), begin + position
        whole, rest = len(self.records), data[position:]
        if whole < self._count - 1 or len(rest.splitlines()) > 1:
            raise LogDamagedError(
                f"{self.path}: record {whole} is damaged or missing, of {self._count}, so what was spent cannot be "
                "known; restore a whole copy of the file"
            )
        self._rest = bool(rest)
        self.torn = not self._count <= whole <= self._count + (not rest)
        self._descriptor = descriptor
        return self.records[known:]

    def _take(self, line: bytes) -> bool:
        """Take in the next record; False if the line is another spelling."""
        try:
            record, head = self.link(parse_json(line)["record"])
            whole = _line(record, head) == line
        except (ValueError, KeyError, TypeError, RecursionError):
            return False
        if whole:
            self.records.append(record)
            self.heads.append(head)
        return whole

    @property
    def stored(self) -> bool:
        """Whether the file surely holds these records and no other; it is read anew."""
        try:
            there = Log.of(self.path, self.kind)
        except (OSError, ValueError):
            return False
        return not there.torn and there.heads == self.heads

    def write(self, record: Record, head: str) -> None:
        """Bring a linked record to the disk before this returns.

        Raises OSError if the system cannot. The file is then as before, if the system allows; else its end is torn. The
        log takes no more records before the next `read`: a failed fsync leaves the disk in an unknown state.
        """
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            raise OSError(errno.EIO, "the log takes no records before it is read again", str(self.path))
        line, count = _line(record, head), len(self.records)
        with naming(self.path):
            try:
                if self.torn or self._rest:
                    os.ftruncate(descriptor, self._end)
                if self._count < count:
                    write_at(descriptor, _first_line(self.kind, count), 0)
                    os.fsync(descriptor)
                write_at(descriptor, line, self._end)
                write_at(descriptor, _first_line(self.kind, count + 1), 0)
                os.fsync(descriptor)
            except BaseException:
                with suppress(OSError):
                    if not self.torn:
                        os.ftruncate(descriptor, self._end)
                        write_at(descriptor, _first_line(self.kind, count), 0)
                        os.fsync(descriptor)
                raise
        self.torn = self._rest = False
        self._count, self._end, self._last = count + 1, self._end + len(line), line
        self._descriptor = descriptor
