"""Parse a command line, and show the help of the program."""

import sys
from collections.abc import Sequence
from typing import Any

from . import arguments as _arguments  # noqa: F401  # its classes enter themselves in COMMANDS
from .messages import Exit
from .signature import COMMANDS, Arguments, Parser, examples, load, nearest, rows, wrapped

SUMMARY = "Fit models to private records under differential privacy, by variational Bayes."
USAGE = "vips-fast [options] COMMAND ..."  # the page of all commands shows it, too
EXAMPLES = (
    "vips-fast start notes.csv",
    "vips-fast demo",
    "vips-fast fit lda notes.parquet --text note --person patient --topics 20 --epsilon 2 --out topics",
    "vips-fast fit blr table.csv --schema schema.toml --label income --epsilon 0.5 --out model",
)
_OPTIONS = {
    "-h, --help": "show this help message and exit",
    "--version": "print versions, instruction sets and threads",
    "--debug": "show the traceback of an error",
}


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
        args: Arguments = COMMANDS[name](**_values(COMMANDS[name], words))
        args.debug = debug
        return args
    first, _, last = name.rpartition(" ")
    if last in ("-h", "--help") or name == "--version":
        print(load("version:info")() if name == "--version" else program_help(family or list(COMMANDS)))
        raise SystemExit(0)
    choices = dict.fromkeys(one.split()[1 if family else 0] for one in family or COMMANDS)
    if last == "" or not first and family:
        message = "the following arguments are required: COMMAND"
    elif last.startswith("-"):
        message = f"unrecognized arguments: {last}"
    else:
        message = f"invalid choice: {last!r}{nearest(last, choices)} (choose from {', '.join(choices)})"
    raise ValueError(f"{message} (see vips-fast {f'{first or last} ' if family else ''}--help)")


def _values(command: type[Arguments], words: list[str]) -> dict[str, Any]:
    """Parse a command's own words."""
    parser = Parser(command)
    known = parser.read(words)
    if missing := [one.flag for one in command.options() if one.required and one.name not in known]:
        parser.error(f"the following arguments are required: {', '.join(missing)}")
    for must, some in command.exclusive():
        if must and not any(one.name in known for one in some):
            parser.error(f"one of the arguments {' '.join(one.flag for one in some)} is required")
    return known


def program_help(names: Sequence[str]) -> str:
    """Show some commands of the program."""
    lines = [f"usage: {USAGE}", "", *wrapped(SUMMARY, "", ""), "", "commands:"]
    lines += rows((name, COMMANDS[name].summary()) for name in names)
    lines += ["", "options:", *rows(_OPTIONS.items()), ""]
    lines += [examples(EXAMPLES), "exit codes:", *rows((f"{code:3d}", code.meaning) for code in Exit), ""]
    return "\n".join(lines)
