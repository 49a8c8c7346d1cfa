"""Lines for the terminal; a command continues if they cannot be written."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

from ..store.text import printable


class Shown:
    """A stream that shows text from anywhere: no character of it drives a terminal."""

    def __init__(self, stream: IO[str]):
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text, with control characters escaped."""
        return self.stream.write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts."""
        for line in lines:
            self.write(line)


@contextlib.contextmanager
def shown_streams() -> Iterator[None]:
    """Escape control characters in everything that a command writes to standard output and standard error."""
    before: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (None if stream is None else Shown(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error. A closed pipe or a full device does not end the command."""
    _put(sys.stderr, text + end)


def rewrite(text: str) -> None:
    """Write over the present line of standard error."""
    _put(getattr(sys.stderr, "stream", sys.stderr), "\r" + printable(text))


def say(message: str) -> None:
    """Write one line to standard error."""
    tell("vips-fast: " + " ".join(message.split()))


def report(text: str) -> bool:
    """Write lines to standard output at once; False if that fails."""
    return _put(sys.stdout, text + "\n")


def flush() -> None:
    """Write the buffer of standard output, or drop it if that fails."""
    _put(sys.stdout, "")


def _put(stream: IO[str] | None, text: str) -> bool:
    """Write to a stream at once; close one that fails, because its rest would fail again at exit."""
    if stream is None:
        return False
    try:
        stream.write(text)
        stream.flush()
        return True
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), stream.fileno())
        return False


def width() -> int:
    """Count the characters of a line on this terminal."""
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))
