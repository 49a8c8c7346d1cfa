"""Show progress on a terminal, in a notebook or in a log."""

import math
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..accounting.printing import rounded_up
from ..engine.loop import Progress
from ..store.text import rewrite, tell

#: Least seconds between two updates on a terminal; most lines of a log.
_PAUSE, _LINES = 0.1, 20


def is_watched() -> bool:
    """Tell whether standard error is a terminal or a notebook."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or type(stream).__module__.startswith("ipykernel"))


class _Line(AbstractContextManager[Any]):
    """A line of standard error that shows the progress of some work."""

    def __init__(self, label: str):
        self._label, self._terminal = label, is_watched()
        self._next, self._length = -math.inf, 0

    def __exit__(self, *error: Any) -> None:
        if self._length:
            tell("")

    def _show(self, text: str) -> None:
        text = f"{self._label}: {text}"
        if not self._terminal:
            tell(text)
            return
        # A line that wraps could not be rewritten.
        text = text[: shutil.get_terminal_size().columns - 1]
        rewrite(f"{text:<{self._length}}")
        self._length = len(text)


class ReadingLine(_Line):
    """Show the progress of a reader.

    It passes the bytes read and their number, or 0 if it is unknown; or texts, by ``unit``.

    Nothing is shown within a second of the first call; in a log, a line follows when the time has doubled.
    """

    _start: float | None = None

    def __init__(self, label: str, unit: str = "MB"):
        super().__init__(label)
        self._unit = unit

    def __call__(self, read: int, size: int) -> None:
        """Show a line, if one is due."""
        now = time.perf_counter()
        if self._start is None:
            self._start, self._next = now, now + 1
        if now >= self._next or (read == size and self._length):
            done, whole = (f"{n / 1e6:,.1f}" if self._unit == "MB" else f"{n:,}" for n in (read, size))
            self._show(f"{done}{f' of {whole}' if size else ''} {self._unit}, {now - self._start:.1f} s")
            self._next = now + (_PAUSE if self._terminal else now - self._start)


def reading(shown: bool, unit: str = "MB") -> Callable[[str], AbstractContextManager[Any]]:
    """Choose whether a line shows the progress of a reader."""
    return lambda label: ReadingLine(label, unit) if shown else nullcontext()


class ProgressLine(_Line):
    """A fit's callback. It computes epsilon, which takes an accountant, only for a line that it shows."""

    def __call__(self, progress: Progress) -> None:
        """Show a line, if one is due."""
        start = time.perf_counter()
        due = start >= self._next if self._terminal else progress.step % math.ceil(progress.n_steps / _LINES) == 0
        if not due and progress.step < progress.n_steps:
            return
        epsilon = progress.epsilon
        spent = f", epsilon {rounded_up(epsilon, 3)}" if math.isfinite(epsilon) else ""
        self._show(f"step {progress.step} of {progress.n_steps}{spent}, {progress.seconds:.1f} s")
        # Even if epsilon is slow to compute, showing it takes less than a tenth of the time.
        now = time.perf_counter()
        self._next = now + max(_PAUSE, 10 * (now - start))
