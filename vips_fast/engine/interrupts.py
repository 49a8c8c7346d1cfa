"""End a process by signals when nothing is half done.

A signal's handler runs between any two instructions of the main thread. So within `stoppable` the first SIGTERM, SIGINT
or SIGHUP raises `Stopped` there, unless an `uninterrupted` block is running. Then it raises at its end, or as soon as
the block waits for others (`stop_if_asked`). A second signal ends the process at once, by the system's own means.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: A second signal within these seconds repeats the same request: `timeout` and systemd do that.
_TOGETHER = 0.1


class Stopped(KeyboardInterrupt):
    """A signal asks the process to end: ``signum``."""

    def __init__(self, signum: int):
        super().__init__(f"stopped by {signal.Signals(signum).name}")
        self.signum = signum


_depth = 0
#: Time of the first signal; and its number, until `Stopped` is raised for it.
_since: float | None = None
_waiting: int | None = None


def _handle(signum: int, frame: FrameType | None) -> None:
    global _since, _waiting
    now = time.monotonic()
    if _since is None:
        _since, _waiting = now, signum
        if not _depth:
            stop_if_asked()
    elif now - _since > _TOGETHER:
        signal.signal(signum, signal.SIG_DFL)
        signal.raise_signal(signum)


@contextmanager
def stoppable() -> Iterator[None]:
    """Let signals raise `Stopped` in this block; ignored ones stay ignored.

    A signal is ignored under nohup, for example.
    """
    global _since, _waiting
    before = {}
    if threading.current_thread() is threading.main_thread():
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):
                before[signum] = signal.signal(signum, _handle)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        _since = _waiting = None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay `Stopped` to the block's end; its failure comes first."""
    global _depth
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread handles signals
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
    if not _depth:
        stop_if_asked()


def stop_if_asked() -> None:
    """Raise `Stopped` now for a signal that waits. Call it between two attempts, with nothing half done."""
    global _waiting
    if _waiting is not None and threading.current_thread() is threading.main_thread():
        signum, _waiting = _waiting, None
        raise Stopped(signum)
