"""From arguments to an exit code.

Exit codes: 0 done; 1 something failed that is not the caller's fault, or the answer is no (a demo that does not beat
its yardstick, an audit or a verification that fails); 2 bad usage or bad input; 130 interrupted. Results go to standard
output, progress and errors to standard error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import audit, demo, info, lda, logistic, network, privacy, transform, verify
from .arguments import Parser, command
from .output import say


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : sequence of str or None
        The arguments; None takes those of the process.

    Returns
    -------
    int
        The exit code: 0, 1, 2 or 130, see the module.
    """
    debug = False
    try:
        args = build_parser().parse_args(argv)
        debug = args.debug
        code = args.run(args)
        sys.stdout.flush()
        return int(code)
    except SystemExit as stop:
        # argparse leaves this way, after --help with 0, after an error with 2.
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        say("error: interrupted")
        return 130
    except BrokenPipeError:
        # The reader of a pipe has seen enough; flushing at exit would say so again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        message, code = _explained(error)
        say(f"error: {message}")
        return code


def _explained(error: Exception) -> tuple[str, int]:
    """What an error says to the caller, and the exit code."""
    if isinstance(error, ValueError):
        return str(error), 2
    if isinstance(error, OSError):
        given = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
        where = f"{error.filename}: " if error.filename is not None else ""
        return where + (error.strerror or str(error)), 2 if isinstance(error, given) else 1
    if isinstance(error, MemoryError):
        # This package's own say what would be needed; a subclass is numpy's and speaks of the data.
        own = type(error) is MemoryError and str(error)
        return f"not enough memory: {error}" if own else "not enough memory", 1
    if isinstance(error, ImportError):
        return str(error), 1
    # The text of an unforeseen error may hold data; its type does not.
    return f"internal error ({type(error).__name__}); --debug shows where", 1


class _Version(argparse.Action):
    def __call__(self, *arguments: Any) -> None:
        from vips_fast import __version__

        print(f"vips-fast {__version__}")
        raise SystemExit(0)


def build_parser() -> Parser:
    """The parser of all commands."""
    parser = Parser(
        prog="vips-fast", description="Differentially private variational Bayes (VIPS).", allow_abbrev=False
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo.add(commands)
    fit = commands.add_parser("fit", help="fit a model", description="Fit a model and write it to a folder.")
    models = fit.add_subparsers(dest="family", required=True, metavar="MODEL")
    for family in (lda, network, logistic):
        family.add_fit(models)
    for family in (lda, logistic, network, transform, privacy, verify, audit):
        family.add(commands)
    command(commands, "info", info.run, "version, instruction sets, threads")
    return parser
