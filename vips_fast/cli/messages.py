"""Write lines to the terminal, and choose the exit code. A command survives if its lines cannot be written."""

import contextlib
import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from enum import IntEnum
from os import PathLike
from typing import IO, Any

from ..store.text import printable, put, tell


class Exit(IntEnum):
    """Exit codes, each with its meaning."""

    meaning: str

    DONE = 0, "done"
    FAILED = 1, "failed: memory, disk, an internal error; or the answer is no (verify, audit, demo)"
    BAD_INPUT = 2, "bad usage, bad input or a hopeless forecast, or another job has the folder; nothing is spent"
    REFUSED = 3, "refused by the budget; nothing more is spent"
    KEPT = 4, "fitted and kept in OUT.run, but OUT could not be written; continue with --resume"
    UNREPORTED = 5, "written to OUT, but the report could not be printed"
    HANGUP = 129, "stopped by SIGHUP; continue with --resume"
    INTERRUPTED = 130, "stopped by SIGINT (Ctrl-C); continue with --resume"
    TERMINATED = 143, "stopped by SIGTERM; continue with --resume"

    def __new__(cls, code: int, meaning: str = "") -> "Exit":
        """Make a number with a meaning."""
        one = int.__new__(cls, code)
        one._value_, one.meaning = code, meaning
        return one


class Shown:
    """A stream for text from anywhere; no character drives a terminal."""

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
    """Escape control characters in standard output and standard error."""
    before: Any = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (None if stream is None else Shown(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def say(message: str) -> None:
    """Write one line to standard error."""
    tell("vips-fast: " + " ".join(message.split()))


def print_written(place: str | PathLike[str], text: str) -> int:
    """Print what a command wrote to a place, which stays if this cannot be printed; return the exit code."""
    if put(sys.stdout, f"{text}\n"):
        return Exit.DONE
    say(f"error: {place} is written; its report cannot be printed")
    return Exit.UNREPORTED


def width() -> int:
    """Count the characters of a line on this terminal."""
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))


def object_line(said: dict[str, Any], code: int = 0, error: str | None = None) -> str:
    """Write the object of ``--json`` in one line."""
    said = dict(said, exit=Exit(code).name.lower(), error=error)
    # JSON has no infinite numbers, and Python's reader takes them for what it is told.
    finite = json.JSONDecoder(parse_constant=lambda _: None).decode(json.dumps(said))
    return json.dumps(finite, allow_nan=False, sort_keys=True)


def print_object(said: dict[str, Any], code: int = 0, error: str | None = None) -> None:
    """Print the object of ``--json``."""
    print(object_line(said, code, error), flush=True)
