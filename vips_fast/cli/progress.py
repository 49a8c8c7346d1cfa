"""Progress of a fit: one line that is rewritten on a terminal, at most twenty lines in a log."""

from __future__ import annotations

import math
import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from ..engine.loop import Progress

#: Seconds between two updates on a terminal, and lines of a log.
_PAUSE, _LINES = 0.1, 20


class ProgressLine:
    """A fit's callback, which asks the accountant for epsilon only where a line is shown.

    Parameters
    ----------
    label : str
        What each line begins with.
    """

    def __init__(self, label: str):
        self._label, self._terminal = label, sys.stderr.isatty()
        self._next, self._length = 0.0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._length:
            print(file=sys.stderr, flush=True)

    def __call__(self, progress: Progress) -> None:
        """Show a line, if one is due."""
        if progress.step < progress.n_steps and not self._due(progress):
            return
        start = time.perf_counter()
        text = f"{self._label}: step {progress.step} of {progress.n_steps}"
        epsilon = progress.epsilon
        if math.isfinite(epsilon):
            from ..engine.statement import round_up

            text += f", epsilon {round_up(epsilon, 3)}"
        text += f", {progress.seconds:.1f} s"
        if not self._terminal:
            print(text, file=sys.stderr, flush=True)
            return
        # A line that wraps could not be rewritten.
        text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self._length}}", end="", file=sys.stderr, flush=True)
        self._length = len(text)
        # Where epsilon is slow to compute, showing it still takes less than a tenth of the time.
        now = time.perf_counter()
        self._next = now + max(_PAUSE, 10 * (now - start))

    def _due(self, progress: Progress) -> bool:
        if self._terminal:
            return time.perf_counter() >= self._next
        return progress.step % math.ceil(progress.n_steps / _LINES) == 0
