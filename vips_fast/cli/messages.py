"""Lines for the terminal; a command continues if they cannot be written."""

import contextlib
import os
import shutil
import sys
from typing import IO


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error. A closed pipe or a full device does not end the command."""
    _put(sys.stderr, text + end)


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
