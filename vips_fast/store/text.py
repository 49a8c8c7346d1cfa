"""Make text from strangers safe for a terminal or page."""

import contextlib
import os
import sys
from typing import IO

#: Control characters, surrogates, separators of lines, marks and overrides of direction, each with its replacement.
_ESCAPED = {
    code: ascii(chr(code))[1:-1]
    for first, last in (
        (0x00, 0x1F),
        (0x7F, 0x9F),
        (0x61C, 0x61C),
        (0x200E, 0x200F),
        (0x2028, 0x202E),
        (0x2066, 0x2069),
        (0xD800, 0xDFFF),
    )
    for code in range(first, last + 1)
    if chr(code) not in "\t\n"
}


def printable(text: str) -> str:
    """Escape the characters that drive a terminal or turn text around.

    Line breaks and tabs stay.

    >>> printable("red\x1b[2J \u202eder") == r"red\x1b[2J \u202eder"
    True
    """
    return text.translate(_ESCAPED)


def put(stream: IO[str] | None, text: str) -> bool:
    """Write to a stream at once.

    A stream that fails is closed, because its rest would fail again at exit.
    """
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


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error; a closed pipe does not end the command."""
    put(sys.stderr, text + end)


def rewrite(text: str) -> None:
    """Write over the present line of standard error."""
    put(getattr(sys.stderr, "stream", sys.stderr), "\r" + printable(text))
