"""From arguments to an exit code.

Exit codes are those of `Exit`. Results go to standard output, progress and errors to standard error.
"""

import errno
import io
import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from .. import __version__, runtime_info
from ..models.family import fitted_at_the_shell, resolve
from . import (
    audit,
    budget,
    coherence,
    completion,
    config,
    demo,
    finish,
    predict,
    privacy,
    report,
    schema,
    search,
    shard,
    transform,
    vectors,
    verify,
)
from .arguments import Parser, command
from .exits import Exit, table
from .output import flush, say
from .record import recorded


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; None takes the arguments of the process. Returns the exit code."""
    debug = False
    _open_streams()
    try:
        args = build_parser().parse_args(argv)
        debug = args.debug
        from ..engine.interrupts import stoppable  # not for --help, which shall not wait for it

        with stoppable():
            code = recorded(args, _explained)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except SystemExit as stop:
        # argparse leaves this way, after --help with 0, after an error with 2.
        return stop.code if isinstance(stop.code, int) else Exit.FAILED
    except (Exception, KeyboardInterrupt) as error:
        if debug and isinstance(error, Exception):
            raise
        silent = isinstance(error, BrokenPipeError) and error.filename is None and not hasattr(error, "exit_code")
        message, code = _explained(error)
        flush()  # what a stream that fails has left would fail again at exit
        if not silent:  # otherwise the reader of a pipe has seen enough
            # A fit that ended early notes what it spent.
            say(". ".join([f"error: {message}", *getattr(error, "__notes__", ())]))
        return code


def _open_streams() -> None:
    """Make sure that no file takes the number of a stream that is closed, and that no character fails on a terminal."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _explained(error: BaseException) -> tuple[str, int]:
    """What an error says to the caller, and the exit code."""
    message, code = _message(error)
    return message, getattr(error, "exit_code", code)


def _message(error: BaseException) -> tuple[str, int]:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted", Exit.INTERRUPTED
    if isinstance(error, (ValueError, ImportError)):
        return str(error), Exit.BAD_INPUT if isinstance(error, ValueError) else Exit.FAILED
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        # This package's own say what would be needed; a subclass is numpy's and speaks of the data.
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
    # The text of an unforeseen error may hold data; its type does not.
    return f"internal error ({type(error).__name__}); --debug shows where", Exit.FAILED


class Program(Parser):
    """The parser of all commands."""

    def ending(self) -> str:
        """The exit codes."""
        return table()


def build_parser() -> Parser:
    """The parser of all commands; each module's ``add`` adds its own."""
    what = "Differentially private variational Bayes (VIPS)."
    parser = Program("vips-fast", description=what, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"vips-fast {__version__}", help="print the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    demo.add(commands)
    fit = commands.add_parser("fit", help="fit a model", description="Fit a model and write it to a folder.")
    models = fit.add_subparsers(dest="family", required=True, metavar="MODEL", parser_class=config.JobParser)
    for family in fitted_at_the_shell():
        resolve(family.shell).add(commands, models)
    search.add(commands, [resolve(family.shell) for family in fitted_at_the_shell(searched=True)])
    for module in (
        config,
        finish,
        schema,
        shard,
        vectors,
        predict,
        transform,
        privacy,
        budget,
        verify,
        audit,
        report,
        coherence,
        completion,
    ):
        module.add(commands)
    command(commands, "info", info, "version, instruction sets, threads")
    return parser


def info(args: Namespace) -> int:
    """Print what a report of a problem should say."""
    import platform

    import numpy
    import scipy

    from ..report import table as columns

    known = runtime_info()
    rows = [
        ("vips_fast", known["version"]),
        ("instruction set", known["isa"]),
        ("available", ", ".join(known["isas_available"])),
        ("threads", known["n_threads"]),
        ("Python", platform.python_version()),
        ("numpy", numpy.__version__),
        ("scipy", scipy.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    print(columns(rows))
    return 0
