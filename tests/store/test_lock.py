"""The lock: its holder, waiting processes, and its effect on a file."""

import errno
import fcntl
import os
import signal
import stat
import threading
import time
import warnings
from contextlib import nullcontext

import pytest
from fuzz import at_once
from runs import holding

from vips_fast.accounting import GaussianEvent
from vips_fast.engine import budget as budgets
from vips_fast.engine.budget import Budget
from vips_fast.engine.interrupts import Stopped, stoppable, uninterrupted
from vips_fast.store import lock as locks
from vips_fast.store.lock import Lock

EVENT = GaussianEvent(20.0, "add_remove")


def locked(path):
    """Start a process that may only read the file, and locks it."""
    return holding(lambda holds: (fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH), holds()))


@pytest.fixture
def budget(tmp_path):
    return Budget.create(tmp_path / "b", 3.0, 1e-6, dataset="ward7")


def test_a_wait_names_the_holder_and_ends(budget, monkeypatch):
    monkeypatch.setattr(locks, "_SPEAKS", 0.1)
    monkeypatch.setattr(budgets, "_WAIT", 2.0)
    with locked(budget.path) as child:
        assert budget.spent == 0.0  # readers do not wait for each other
        with pytest.warns(RuntimeWarning, match=rf"b: in use by process {child}; waiting up to 2 s"):
            with pytest.raises(BlockingIOError, match=rf"in use by process {child} for \d+ s") as error:
                budget.reserve(EVENT, 1)
        assert "\n" not in str(error.value) and str(budget.path) in str(error.value)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        budget.reserve(EVENT, 1).close()


@pytest.mark.parametrize("inside", [False, True])
def test_a_wait_obeys_a_signal(budget, inside):
    """A signal that waits elsewhere ends a waiting charge. Nothing is half done while it waits."""
    with locked(budget.path), stoppable():
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
        begun = time.monotonic()
        with pytest.raises(Stopped), uninterrupted() if inside else nullcontext():
            timer.start()
            budget.reserve(EVENT, 1)
        timer.join()
        assert time.monotonic() - begun < 10
    assert budget.show()["runs"] == []


def test_who_can_read_a_file_cannot_block_it(budget, tmp_path):
    """Only the owner can open these files. A lock needs an open file."""
    Lock(tmp_path / "lock", create=True).close()
    for path in (budget.path, tmp_path / "lock"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError) as error:
        Lock(tmp_path / "lock", create=True)
    assert error.value.errno == errno.ELOOP and (tmp_path / "other").read_text() == "mine"


@pytest.mark.parametrize("shared", [False, True])
def test_a_pipe_is_refused_and_not_waited_for(shared, tmp_path):
    """It opens when somebody writes to it, and until then no signal ended ``budget show`` of one."""
    os.mkfifo(tmp_path / "pipe")
    with at_once(), pytest.raises(OSError, match="is a pipe; expected a file"):
        Lock(tmp_path / "pipe", shared=shared)


def test_a_file_that_is_replaced_during_the_wait_is_locked_anew(tmp_path):
    """A waiting process locks the file that has the name. It does not lock one that had it."""
    path = tmp_path / "file"
    path.touch()
    with Lock(path) as first:
        got = []
        waiting = threading.Thread(target=lambda: got.append(Lock(path, limit=30)))
        waiting.start()
        time.sleep(0.1)
        path.unlink()
        path.touch()
        first.close()
    waiting.join()
    with got[0] as second:
        assert os.path.samestat(os.fstat(second.descriptor), path.stat())
    assert not second.held
    with pytest.raises(ValueError, match="its lock is closed"):
        os.fstat(second.descriptor)


@pytest.mark.parametrize("note", [b"[]", b"\xff", b'{"pid": "x", "started": 1}', b'{"pid": 1e999, "started": 1}'])
def test_a_note_that_is_none_is_passed_over(tmp_path, note):
    with Lock(tmp_path / "lock", create=True) as held:
        os.ftruncate(held.descriptor, 0)
        os.pwrite(held.descriptor, note, 0)
        with pytest.raises(BlockingIOError, match=f"in use by process {os.getpid()};"):
            Lock(tmp_path / "lock", create=True)
