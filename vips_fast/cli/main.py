"""From words on the command line to an exit code: parse them, run the command, show the help of the program.

`Exit` lists the codes. Results go to standard output, progress and errors to standard error.
"""

import errno
import functools
import io
import os
import sys
from collections.abc import Sequence

from ..store.text import put
from . import arguments as _arguments  # noqa: F401  # its classes enter themselves in COMMANDS
from .messages import Exit, say, shown_streams
from .signature import COMMANDS, Arguments, Parser, examples, in_options, load, nearest, rows, wrapped

SUMMARY = "Fit models to private records under differential privacy, by variational Bayes."
USAGE = "vips-fast [options] COMMAND ..."  # the page of all commands shows it, too
EXAMPLES = (
    "vips-fast start notes.csv",
    "vips-fast demo",
    "vips-fast fit lda notes.parquet --text note --person patient --language en --epsilon 2 --out topics",
    "vips-fast fit blr table.csv --schema schema.toml --label income --epsilon 0.5 --out model",
)
_OPTIONS = {
    "-h, --help": "show this help message and exit",
    "--version": "print versions, instruction sets and threads",
    "--debug": "show the traceback of an error",
}
#: Errors of a path that the user gave, which a look at it explains.
_GIVEN = (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError, BlockingIOError)


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
        unnamed = isinstance(error, OSError) and error.filename is None
        # The rest of a broken stream would fail again at exit.
        if not put(sys.stdout, "") and sys.stdout is not None and unnamed:
            message = f"standard output: {message}"
        if not (unnamed and isinstance(error, BrokenPipeError)):  # otherwise the reader of a pipe has seen enough
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
    # What cannot be written, since its folder is not there, says so.
    if args is not None and isinstance(error, FileNotFoundError) and "no such folder: " not in message:
        message = _absent(args, message)
    # A fit that ended early notes its spending, and how to resume it.
    message = ". ".join([message, *getattr(error, "__notes__", ())])
    if args is not None:
        message = in_options(type(args), message)
    return message, getattr(error, "exit_code", code)


def _absent(args: Arguments, message: str) -> str:
    """Name the argument whose file is not there, and say what it is; another message stays."""
    for option in args.options():
        given = getattr(args, option.name)
        for text in [given] if isinstance(given, str) else given if isinstance(given, (list, tuple)) else ():
            places = (text, os.path.abspath(text), os.path.realpath(text))
            named = message.startswith(tuple(place + end for place in places for end in (": ", os.sep)))
            if text and named and not os.path.lexists(text):
                return f"{option.flag} {text}: no such file or folder; expected {option.help.partition(';')[0]}"
    return message


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
        where = f"{error.filename}: " if error.filename is not None else ""
        return where + (error.strerror or str(error)), Exit.BAD_INPUT if isinstance(error, _GIVEN) else Exit.FAILED
    # The text of an unexpected error may hold data; its type does not.
    return f"internal error ({type(error).__name__}); --debug shows where", Exit.FAILED


def parse(argv: Sequence[str] | None = None) -> Arguments:
    """Parse a command line; None takes it from the process.

    ``argv`` has the words after the program's name. Raises SystemExit after ``--help``, and ValueError for bad words.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    debug = words[:1] == ["--debug"]
    words = words[debug:]
    family = [name for name in COMMANDS if words and name.startswith(f"{words[0]} ")]
    name, words = " ".join(words[: 2 if family else 1]), words[2 if family else 1 :]
    if name in COMMANDS:
        args: Arguments = COMMANDS[name](**Parser(COMMANDS[name]).read(words))
        args.debug = debug
        return args
    first, _, last = name.rpartition(" ")
    if last in ("-h", "--help") or name == "--version":
        print(load("version:info")() if name == "--version" else program_help(family or list(COMMANDS)))
        raise SystemExit(0)
    choices = dict.fromkeys(one.split()[1 if family else 0] for one in family or COMMANDS)
    if last == "" or (family and (not first or last.startswith("-"))):
        message = "the following arguments are required: COMMAND"
    elif last.startswith("-"):
        message = f"unrecognized arguments: {last}"
    else:
        whole = [f" (did you mean {one}?)" for one in COMMANDS if one.endswith(f" {last}")]
        near = whole[0] if len(whole) == 1 and not family else nearest(last, choices)
        message = f"invalid choice: {last!r}{near} (choose from {', '.join(choices)})"
    raise ValueError(f"{message} (see vips-fast {f'{first or last} ' if family else ''}--help)")


def program_help(names: Sequence[str]) -> str:
    """Show some commands of the program."""
    lines = [f"usage: {USAGE}", "", *wrapped(SUMMARY, "", ""), "", "commands:"]
    lines += rows((name, COMMANDS[name].summary()) for name in names)
    lines += ["", "options:", *rows(_OPTIONS.items()), ""]
    lines += [examples(EXAMPLES), "exit codes:", *rows((f"{code:3d}", code.meaning) for code in Exit), ""]
    return "\n".join(lines)
