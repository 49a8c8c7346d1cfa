"""A disk that fails. Each call of the system in turn, in one of several ways."""

import errno
import fcntl
import io
import os
import re
import signal
from itertools import count

from runs import die, in_child

from vips_fast.store import atomic

#: Ways to fail: an error (of a write: after half of it, but for EINTR), half a write without one, the process's end.
#: No code takes another way for one error of the disk than for others, but to name it, so ENOSPC stands for all.
FAULTS = {code: getattr(errno, code) for code in ("ENOSPC", "EINTR")} | {"short": None, "killed": die}
CALLS = ("open", "write", "pwrite", "ftruncate", "fsync", "rename", "link", "mkdir", "unlink", "rmdir")
CALLS += ("posix_fallocate",)


class FaultyDisk:
    """Lets the ``target``-th call that concerns a folder fail, which is ``failed`` then; others do not wait for it.

    ``calls`` has each that could fail: its name, and the file's without numbers.
    """

    def __init__(self, patch, folder, target, fault):
        self.folder, self.left, self.failed, self.calls = str(folder), target, None, []
        self.fault = {**FAULTS, "full": errno.ENOSPC}[fault]  # "full" is a disk that stays so, of `advised`
        for owner, names in ((os, CALLS), (fcntl, ["flock"])):
            for name in names:
                patch.setattr(owner, name, self.failing(getattr(owner, name), name))
        patch.setattr(atomic, "open", Opened, raising=False)
        exchange = atomic._exchange
        patch.setattr(atomic, "_exchange", lambda *paths: not self.hit("exchange", paths[0]) and exchange(*paths))

    def hit(self, name, where):
        place = os.readlink(f"/proc/self/fd/{where}") if isinstance(where, int) else os.path.abspath(where)
        if not place.startswith(self.folder) or (self.fault is None and "write" not in name):
            return False
        self.calls.append((name, re.sub(r"[0-9a-f]*\d[0-9a-f]*", "#", place.removeprefix(self.folder))))
        self.left -= 1
        if self.left:
            return False
        self.failed = name
        return True

    def failing(self, original, name):
        def call(where, *more, **options):
            label = "unlock" if name == "flock" and more[0] == fcntl.LOCK_UN else name
            if not self.hit(label, options.get("dir_fd") or (more[0] if name == "link" else where)):
                return None if name == "fsync" else original(where, *more, **options)
            if "write" in name and self.fault != errno.EINTR:
                half = original(where, bytes(more[0])[: len(more[0]) // 2], *more[1:])
                if self.fault is None:
                    return half
            if self.fault is die:
                die()
            raise OSError(self.fault, os.strerror(self.fault), *([] if isinstance(where, int) else [str(where)]))

        return call


class Opened(io.BufferedWriter):
    """``open(descriptor, "wb")`` in calls that can fail."""

    def __init__(self, descriptor, mode):
        assert mode == "wb"
        super().__init__(Raw(descriptor, mode))


class Raw(io.FileIO):
    def write(self, data):
        return os.write(self.fileno(), data)


def targets(tmp_path, monkeypatch, fault, prepare, work, before):
    """Number the first call of each kind: of a name and a file, after the same names and files of those ``before``."""
    folder = tmp_path / f"{fault}-0"
    folder.mkdir()
    made = prepare(folder)
    with monkeypatch.context() as patch:
        disk = FaultyDisk(patch, folder, 0, fault)
        work(made)
    first = {}
    for number in range(1, len(disk.calls) + 1):
        first.setdefault(tuple(disk.calls[max(0, number - 1 - before) : number]), number)
    return first.values()


def each_fault(tmp_path, monkeypatch, fault, prepare, work, before=1):
    """Do ``work(prepare(folder))`` with another failing call each time, one of each kind of `targets`.

    If ``before`` is None, every call fails once, until none is left. Yields the folder, its content, the name of the
    call, and the OSError that came of it, or None.
    """
    every = before is None
    for target in count(1) if every else targets(tmp_path, monkeypatch, fault, prepare, work, before):
        folder = tmp_path / f"{fault}-{target}"
        folder.mkdir()
        made, error = prepare(folder), None
        with monkeypatch.context() as patch:
            if FAULTS[fault] is die:

                def job(folder=folder, made=made, target=target):
                    FaultyDisk(patch, folder, target, fault)
                    work(made)
                    os._exit(0)

                ended = in_child(job)
                assert ended in (0, signal.SIGKILL)
                failed = "killed" if ended else None
            else:
                disk = FaultyDisk(patch, folder, target, fault)
                try:
                    work(made)
                except OSError as raised:
                    error = raised
                failed = disk.failed
        if failed is None:
            assert error is None and target > 1
            if every:
                return
            continue  # as fresh noise may take a write less than before
        assert error is None or (error.errno == FAULTS[fault] and str(folder) in str(error) and "\n" not in str(error))
        yield folder, made, failed, error
