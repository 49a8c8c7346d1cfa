"""The ledger of one run on disk, and the lock of the folder that holds it.

``ledger.jsonl`` has one line of canonical JSON for each record of a `Ledger`, together
with the hash that the chain has there. A line is written and brought to the disk before
the ledger in memory has the record, and so before the key of its step's noise is drawn.

*Why nothing is under-counted.* A release needs its noise, the noise needs a key, and the key is drawn after
`LedgerFile.append` has returned, which is after fsync. So at any moment at which a release exists, its line is whole
and on the disk. What a crash can leave behind in addition is one line that was being written: whole, in part, or as
bytes that mean nothing. A whole one counts as what it says; anything else counts as a release, although none was made.
Lines before the last one had been brought to the disk before the last one was begun, so a crash cannot hurt them. If
one of them is damaged, something else has happened, and the file is refused. A last line that is damaged may hide as
many releases as have room in it (a flipped line end makes one line of two), and so many are counted.

What no file can show is that its end was cut off at a line's end, or that an older copy
was put back. A checkpoint shows it as far as its own count of records goes.
"""

import errno
import fcntl
import json
import os
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..store.atomic import naming, replace_file, sync_folder
from .ledger import Ledger, canonical_json
from .plan import RunPlan

LEDGER, LOCK = "ledger.jsonl", "lock"

#: What a record that does not hold raises while it is read.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

#: Locks that this process holds. A forked child closes its copies, or the lock would live as long as the child.
_held: "weakref.WeakSet[FolderLock]" = weakref.WeakSet()


class FolderLock:
    """An exclusive lock on a folder for as long as this process lives or `close` is not called.

    The system frees the lock of a dead process by itself; the file stays, since whoever removed it could remove the
    lock of the next one. ``before`` says who had it last, and since when; None for nobody.

    Raises BlockingIOError if somebody else has it; the message says who, and since when.
    """

    def __init__(self, folder: Path):
        path = folder / LOCK
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            with naming(path):
                try:
                    fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise BlockingIOError(
                        errno.EWOULDBLOCK,
                        f"in use by {_holder(self._descriptor)}; expected a folder that no other fit is using",
                        str(folder),
                    ) from None
                if not os.path.samestat(os.fstat(self._descriptor), os.stat(path)):
                    raise FileNotFoundError(errno.ENOENT, "removed by another fit just now; try again", str(folder))
                self.before = _holder(self._descriptor) if os.fstat(self._descriptor).st_size else None
                now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, canonical_json({"pid": os.getpid(), "started": now}) + b"\n", 0)
        except BaseException:
            self.close()
            raise
        _held.add(self)

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor is not None

    def close(self) -> None:
        """Free the lock, at once: a program that another thread is starting may still have a copy of the descriptor."""
        if self._descriptor is not None:
            with suppress(OSError):  # closing frees it too
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close this process's descriptor; the lock stays with others that have it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def _holder(descriptor: int) -> str:
    try:
        said = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {int(said['pid'])} since {str(said['started'])[:20]}"
    except (OSError, *_BROKEN):
        return "another process"


def _forget_locks() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_locks)


class LedgerFile:
    """Writer and reader of ``ledger.jsonl``; the caller holds the folder's lock."""

    def __init__(self, path: Path):
        self.path = path
        self._descriptor: int | None = None

    def create(self) -> None:
        """Make the empty file, on the disk."""
        with naming(self.path):
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
        sync_folder(self.path.parent)

    def attach(self, ledger: Ledger) -> Ledger:
        """Have every further record of a ledger written ahead; returns the ledger."""
        with naming(self.path):
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        ledger.write_ahead(self.append)
        return ledger

    def append(self, record: dict[str, Any], head: str) -> None:
        """Bring a record to the disk; when this returns, it is there.

        Raises OSError if the system cannot. What it wrote all the same counts as spent, and the file takes no more
        records before it has been read again: after a failed fsync nobody knows what the disk holds.
        """
        descriptor = self._descriptor
        if descriptor is None:
            raise OSError(errno.EIO, "the ledger takes no records after an error", str(self.path))
        self._descriptor = None
        try:
            with naming(self.path):
                left = memoryview(_line(record, head))
                while left:
                    left = left[os.write(descriptor, left) :]
                os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def close(self) -> None:
        """Take no more records."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def read(self, plan: RunPlan) -> Ledger:
        """The ledger, with a torn last line as spent releases; the file says so too when this returns.

        ``plan`` is that of the run that the file is about, for the event of a line that is torn. Raises ValueError if a
        line before the last one is damaged; the message names it.
        """
        with naming(self.path):
            content = self.path.read_bytes()
        ledger, lines = Ledger(), content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        good = 0
        for number, line in enumerate(lines):
            known = ledger.copy() if number == len(lines) - 1 else ledger
            if replay_line(ledger, line):
                good += len(line) + 1
            elif number < len(lines) - 1:
                raise ValueError(
                    f"{self.path}, line {number + 1}: damaged, and not the last line; expected the record that follows "
                    "on the line before. What was spent cannot be read from this file"
                )
            else:
                ledger = known
        if good == len(content):
            return ledger
        if len(content) > good:
            _count_torn(ledger, len(content) - good, plan)
        # In one step: cutting the torn line off before its release is written would leave
        # a moment at which it counts as nothing.
        replace_file(self.path, lambda file: [file.write(_line(*pair)) for pair in ledger.chain()])
        return ledger


def _line(record: dict[str, Any], head: str) -> bytes:
    return canonical_json({"hash": head, "record": record}) + b"\n"


def replay_line(ledger: Ledger, line: bytes) -> bool:
    """Append the record of a line; False where it is not, to the byte, the line that this ledger would write."""
    try:
        record = json.loads(line)["record"]
        return _line(record, ledger.replay(record)) == line + b"\n"
    except _BROKEN:
        return False


def _count_torn(ledger: Ledger, n_bytes: int, plan: RunPlan) -> None:
    """Count one release for a torn line, or as many as have room in it."""
    if ledger.plan is None:
        # The first line is the plan's; a release can only hide behind it.
        ledger.open(plan.public())
        n_bytes -= len(_line(*ledger.chain()[0]))
    event, mechanism = plan.event, plan.mechanism
    if event is None:
        return  # without noise there is nothing to count
    before = len(ledger.chain())
    ledger.intend(event, clip_norm=mechanism.clip_norm, sensitivity=mechanism.sensitivity)
    room = len(_line(*ledger.chain()[before]))
    for _ in range(-(-n_bytes // room) - 1):
        ledger.intend(event, clip_norm=mechanism.clip_norm, sensitivity=mechanism.sensitivity)
