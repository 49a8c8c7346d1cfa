"""Read files ahead, so that computation does not wait for the disk."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

#: Stretches that are nearer to each other are requested as one: a disk passes over this distance as fast as it finds a
#: place.
_GAP = 1 << 17

#: Files, and first bytes and ends of their rows.
Places = Callable[[np.ndarray], Iterator[tuple[Path, np.ndarray, np.ndarray]]]


class ReadAhead:
    """A thread that requests the next rows' pages, ``window`` at once."""

    def __init__(self, places: Places, window: int):
        self._places, self._window = places, window
        self._lock = threading.Lock()
        self._rows, self._asked = np.empty(0, np.int64), 0

    def expect(self, rows: np.ndarray) -> None:
        """Announce the next rows, in ascending order."""
        with self._lock:
            self._rows, self._asked = rows, 0
        self.reached(int(rows[0]))

    def reached(self, row: int) -> None:
        """Note that a row was read; request the next window in time."""
        with self._lock:
            end = int(np.searchsorted(self._rows, row)) + self._window
            part = self._rows[self._asked : end]
            if len(part) < min(self._window // 2, len(self._rows) - self._asked) or not len(part):
                return
            self._asked += len(part)
        if hasattr(os, "posix_fadvise"):
            threading.Thread(target=self._ask, args=(part,), name="read ahead", daemon=True).start()

    def _ask(self, rows: np.ndarray) -> None:
        try:
            for path, first, last in self._places(rows):
                starts = np.concatenate(([True], first[1:] - last[:-1] > _GAP))
                ends = np.append(np.flatnonzero(starts)[1:] - 1, len(last) - 1)
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    for a, b in zip(first[starts].tolist(), last[ends].tolist(), strict=True):
                        os.posix_fadvise(descriptor, a, b - a, os.POSIX_FADV_WILLNEED)
                finally:
                    os.close(descriptor)
        except (OSError, ValueError):
            return  # who takes the rows will say it
