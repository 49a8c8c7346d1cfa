"""From arguments to an exit code.

Exit codes: 0 done; 1 something failed that is not the caller's fault, or the answer is no (a demo that does not beat
its yardstick, an audit or a verification that fails); 2 bad usage or bad input; 3 refused by the budget of the data
set; 130 interrupted. Results go to standard output, progress and errors to standard error.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence

from .. import __version__, runtime_info
from . import audit, budget, config, demo, lda, logistic, network, privacy, transform, verify
from .arguments import Parser, command
from .output import say
from .record import recorded


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; None takes the arguments of the process. Returns the exit code."""
    debug = False
    try:
        args = build_parser().parse_args(argv)
        debug = args.debug
        code = recorded(args, _explained)
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        # argparse leaves this way, after --help with 0, after an error with 2.
        return stop.code if isinstance(stop.code, int) else 1
    except BrokenPipeError:
        # The reader of a pipe has seen enough; flushing at exit would say so again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (Exception, KeyboardInterrupt) as error:
        if debug and isinstance(error, Exception):
            raise
        message, code = _explained(error)
        # A fit that ended early notes what it spent.
        say(". ".join([f"error: {message}", *getattr(error, "__notes__", ())]))
        return code


def _explained(error: BaseException) -> tuple[str, int]:
    """What an error says to the caller, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, (ValueError, ImportError)):
        return str(error), getattr(error, "exit_code", 2) if isinstance(error, ValueError) else 1
    if isinstance(error, OSError):
        given = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError)
        where = f"{error.filename}: " if error.filename is not None else ""
        return where + (error.strerror or str(error)), 2 if isinstance(error, given) else 1
    if isinstance(error, MemoryError):
        # This package's own say what would be needed; a subclass is numpy's and speaks of the data.
        own = f": {error}" if type(error) is MemoryError and str(error) else ""
        return f"not enough memory{own}", 1
    # The text of an unforeseen error may hold data; its type does not.
    return f"internal error ({type(error).__name__}); --debug shows where", 1


def build_parser() -> Parser:
    """The parser of all commands; each module's ``add`` adds its own."""
    parser = Parser("vips-fast", description="Differentially private variational Bayes (VIPS).", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"vips-fast {__version__}", help="print the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo.add(commands)
    fit = commands.add_parser("fit", help="fit a model", description="Fit a model and write it to a folder.")
    models = fit.add_subparsers(dest="family", required=True, metavar="MODEL", parser_class=config.JobParser)
    for family in (lda, logistic, network):
        family.add(commands, models)
    for module in (config, transform, privacy, budget, verify, audit):
        module.add(commands)
    command(commands, "info", info, "version, instruction sets, threads")
    return parser


def info(args: Namespace) -> int:
    """Print what a report of a problem should say."""
    import platform

    import numpy
    import scipy

    from ..report import table

    known = runtime_info()
    rows = [
        ("vips_fast", known["version"]), ("instruction set", known["isa"]),
        ("available", ", ".join(known["isas_available"])), ("threads", known["n_threads"]),
        ("Python", platform.python_version()), ("numpy", numpy.__version__), ("scipy", scipy.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    print(table(rows))
    return 0
