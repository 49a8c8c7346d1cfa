"""Lock a file for one process, for budgets and run folders.

The system frees the lock when its process ends. A forked child closes its copy, or the lock would live as long as the
child.
"""

import errno
import fcntl
import json
import os
import stat
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from .atomic import naming
from .limits import parse_json

#: Seconds after which a wait names the holder.
_SPEAKS = 1.0

_held: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock(AbstractContextManager["Lock"]):
    """A lock on a file until `close`, or until the process ends.

    A ``shared`` lock is for reading: other readers may hold it too, and the file may be read-only. With ``create`` it
    locks a folder by a file in it, which is created if it is missing; messages name the folder. Only its owner can read
    the file, as someone who can read it can lock it. It has a note of the holder, and stays when the lock is freed:
    removing it could remove the next holder's lock. ``limit`` are seconds to wait; after one a warning names the
    holder. ``pause`` is called between two attempts; an exception ends the wait.

    Raises BlockingIOError with the holder's name if the lock is not free in time; OSError if the file does not open, or
    is a pipe.
    """

    def __init__(
        self,
        path: Path,
        *,
        shared: bool = False,
        create: bool = False,
        limit: float = 0.0,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        self.path, self._how = path.parent if create else path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._descriptor: int | None = None
        # A pipe would not open before somebody writes to it.
        flags = os.O_CLOEXEC | os.O_NONBLOCK | (os.O_RDONLY if shared else os.O_RDWR)
        # A link in the place of a new file could lead to someone else's.
        flags |= os.O_CREAT | os.O_NOFOLLOW if create else 0
        self._began, self._spoke = time.monotonic(), False
        while self._descriptor is None:
            self._descriptor = os.open(path, flags, 0o600)
            _held.add(self)
            try:
                with naming(path):
                    if stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
                        raise OSError(errno.EINVAL, "is a pipe; expected a file", str(path))
                    self._acquire(limit, pause)
                    same = os.path.samestat(os.fstat(self._descriptor), os.stat(path))
                    if same and create:
                        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                        note = json.dumps({"pid": os.getpid(), "started": now}).encode() + b"\n"
                        os.ftruncate(self._descriptor, 0)
                        os.pwrite(self._descriptor, note, 0)
            except BaseException:
                self.close()
                raise
            if not same:
                self.close()  # another file took the name during the wait

    def _acquire(self, limit: float, pause: Callable[[], object]) -> None:
        while True:
            try:
                return fcntl.flock(self.descriptor, self._how | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = time.monotonic() - self._began
                if waited >= limit:
                    after = f" for {waited:.0f} s" if limit else ""
                    who = f"in use by {_holder(self.descriptor)}{after}; wait until it has ended, or stop it"
                    raise BlockingIOError(errno.EWOULDBLOCK, who, str(self.path)) from None
            if waited > _SPEAKS and not self._spoke:
                self._spoke = True
                who = f"{self.path}: in use by {_holder(self.descriptor)}; waiting up to {limit:.0f} s"
                warnings.warn(who, RuntimeWarning, stacklevel=2)
            pause()
            time.sleep(min(0.02, 0.001 + waited / 10))

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return self._descriptor is not None

    @property
    def descriptor(self) -> int:
        """Descriptor of the locked file."""
        if self._descriptor is None:
            raise ValueError(f"{self.path}: its lock is closed; take it again")
        return self._descriptor

    def close(self) -> None:
        """Free the lock at once, even if another program shares the descriptor."""
        if self._descriptor is not None:
            with suppress(OSError):  # closing frees it too
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self.forget()

    def forget(self) -> None:
        """Close this process's descriptor; the lock stays with others that share it."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __exit__(self, *error: object) -> None:
        self.close()


def _holder(descriptor: int) -> str:
    """Name the process that holds a file's lock, by its note in the file or by the system."""
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
        note = parse_json(os.pread(descriptor, 1000, 0))
        return f"process {int(note['pid'])} since {str(note['started'])[:20]}"
    end = f":{os.fstat(descriptor).st_ino}"
    with suppress(OSError):
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            words = line.split()  # "7: FLOCK ADVISORY WRITE 4711 08:01:123 0 EOF"; a waiter has "->" in front
            if words[1] == "FLOCK" and words[5].endswith(end) and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another process"


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


os.register_at_fork(after_in_child=_forget_all)
