"""From arguments to an exit code.

`Exit` lists the codes. Results go to standard output, progress and errors to standard error.
"""

import errno
import functools
import io
import os
import sys
from collections.abc import Sequence

from ..store.text import put
from .messages import Exit, say, shown_streams
from .parser import parse
from .signature import Arguments, in_options, load


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. With None it takes the arguments of the process."""
    _open_streams()
    with shown_streams():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    args = None
    try:
        args = parse(argv)
        # Loaded only now, because --help does without it.
        code: int = load("commands:record_end")(args, functools.partial(_explain, args))
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as stop:
        # argparse leaves this way: after --help with 0, after an error with 2.
        return stop.code if isinstance(stop.code, int) else Exit.FAILED
    except (Exception, KeyboardInterrupt) as error:
        if args and args.debug and isinstance(error, Exception):
            raise
        message, code = _explain(args, error)
        silent = isinstance(error, BrokenPipeError) and error.filename is None
        put(sys.stdout, "")  # the rest of a broken stream would fail again at exit
        if not silent:  # otherwise the reader of a pipe has seen enough
            say(f"error: {message}")
        return code


def _open_streams() -> None:
    """Keep files off closed streams' numbers; let terminals show all characters."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explain(args: Arguments | None, error: BaseException) -> tuple[str, int]:
    """Give an error's message, with options for parameters, and its exit code."""
    message, code = _message(error)
    # A fit that ended early notes its spending, and how to resume it.
    message = ". ".join([message, *getattr(error, "__notes__", ())])
    if args is not None:
        message = in_options(type(args), message)
    return message, getattr(error, "exit_code", code)


def _message(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        # A `Stopped` knows its signal.
        return str(error) or "interrupted", 128 + getattr(error, "signum", 2)
    if isinstance(error, ValueError) and type(error).__name__ == "BudgetExceededError":
        return str(error), Exit.REFUSED
    if isinstance(error, (ValueError, ImportError)):
        return str(error), Exit.BAD_INPUT if isinstance(error, ValueError) else Exit.FAILED
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        # This package's own errors name the needed memory; a subclass is numpy's and speaks of the data.
        own = f": {error}" if type(error) is MemoryError and str(error) else ""
        return f"not enough memory{own}", Exit.FAILED
    if isinstance(error, OSError):
        given = (
            FileNotFoundError,
            FileExistsError,
            PermissionError,
            IsADirectoryError,
            NotADirectoryError,
            BlockingIOError,
        )
        where = f"{error.filename}: " if error.filename is not None else ""
        return where + (error.strerror or str(error)), Exit.BAD_INPUT if isinstance(error, given) else Exit.FAILED
    # The text of an unexpected error may hold data; its type does not.
    return f"internal error ({type(error).__name__}); --debug shows where", Exit.FAILED
