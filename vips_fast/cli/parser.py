"""Parse a command line by `vips_fast.cli.tables`, and write its help."""

import argparse
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import __version__
from .jobfile import load
from .messages import Exit, say
from .options import TEXT, Command, Entry, Group, Kind, OneOf, Option
from .tables import PROGRAM, VERSION


class Parser(argparse.ArgumentParser):
    """An argparse for one command.

    Errors take one line, and the help fits the terminal.
    """

    command: Command = PROGRAM

    def format_usage(self) -> str:
        """Show everything that the command requires."""
        return "\n".join([*wrapped(usage(self.command), "usage: ", " " * 11), ""])

    def format_help(self) -> str:
        """Show argparse's help with examples, or with the exit codes.

        The program's help has the exit codes.
        """
        self.usage = self.format_usage().removeprefix("usage: ").rstrip().replace("%", "%%")
        text = super().format_help()
        self.usage = None
        ends = [] if self.command.words else [table()]
        return "\n".join([text, examples(self.command), *ends])

    def error(self, message: str) -> NoReturn:
        """Print the error and leave with exit code 2."""
        say(f"error: {message} (see {self.prog} --help)")
        raise SystemExit(2)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse a command line; None takes it from the process.

    ``argv`` has the words after the program's name. The result has each option by its ``dest``, and the command as
    ``command``. Raises SystemExit as argparse does, and ValueError or OSError for a job file of ``--config`` that is
    not good.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    if not any(word.partition("=")[0] == "--config" for word in words):
        return build_parser().parse_args(words)
    given = vars(build_parser(bare=True).parse_args(words))
    command: Command = given["command"]
    if (path := given.get("config")) is None:
        return build_parser().parse_args(words)
    job = load(path)
    if job.command is not command:
        found = f"{path}: command = {job.command.words!r}"
        raise ValueError(f"{found}: expected {command.words!r}; run vips-fast {job.command.words}")
    known = job.beside(given)
    missing = [
        option.value if option.positional else option.flags
        for option in command.options
        if option.required and option.dest not in known
    ]
    for one in command.alternatives:
        if one.required and not any(option.dest in known for option in one.options):
            missing.append(" or ".join(option.flags for option in one.options))
    if missing:
        names = ", ".join(missing)
        parser = Parser(command.prog)
        parser.error(f"the following arguments are required: {names}: expected here or in {path}")
    defaults = {one.dest: one.default for one in (*PROGRAM.options, *command.options) if one is not VERSION}
    return argparse.Namespace(**{**defaults, **known})


def build_parser(*, bare: bool = False) -> Parser:
    """Build the parser of the whole table.

    A ``bare`` one requires nothing and has no defaults: it finds only the given words.
    """
    parser = Parser("vips-fast", description=PROGRAM.summary, allow_abbrev=False)
    _Builder(bare).fill(parser, PROGRAM)
    return parser


@dataclass(frozen=True)
class _Builder:
    """Fills parsers from commands; see `build_parser`."""

    bare: bool

    def fill(self, parser: Parser, command: Command) -> None:
        """Add a command's options and its inner commands."""
        parser.command = command
        for entry in command.entries:
            if isinstance(entry, Group):
                titled = parser.add_argument_group(entry.title)
                for one in entry.entries:
                    self._enter(titled, one)
            else:
                self._enter(parser, entry)
        if not command.inner:
            parser.set_defaults(command=command, **command.presets)
            return
        inner = parser.add_subparsers(required=True, metavar=command.metavar, parser_class=Parser)
        for below in command.inner:
            name, text = below.words.rpartition(" ")[2], below.summary
            self.fill(inner.add_parser(name, help=text, description=text, allow_abbrev=False), below)

    def _enter(self, place: Any, entry: Entry) -> None:
        if isinstance(entry, Option):
            self._add(place, entry)
        elif isinstance(entry, OneOf):
            inside = place.add_mutually_exclusive_group(required=entry.required and not self.bare)
            for option in entry.options:
                self._add(inside, option)

    def _add(self, place: Any, option: Option) -> None:
        """Add an argument to argparse's parser or group."""
        words = [option.dest] if option.positional else option.names
        if option is VERSION:
            place.add_argument(*words, action="version", version=f"vips-fast {__version__}", help=option.help)
            return
        default = list(option.default) if option.repeated and option.default is not None else option.default
        more: dict[str, Any] = {
            "help": option.help.replace("%", "%%"),
            "metavar": "" if option.switch else option.value,
            "choices": option.choices,
            "nargs": option.nargs,
            "dest": "" if option.positional else option.dest,
            "action": "append" if option.repeated else "",
        }
        if option.switch:
            more |= {"action": "store_const", "const": option.const}
        elif option.kind is not TEXT:
            more["type"] = _type(option.kind)
        given = {name: value for name, value in more.items() if value not in ("", ())}
        action = place.add_argument(*words, default=argparse.SUPPRESS if self.bare else default, **given)
        action.required = not self.bare and option.required


def _type(kind: Kind) -> Callable[[str], Any]:
    """Give argparse a type that shows only messages of its own."""

    def value(text: str) -> Any:
        try:
            return kind.value(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value


def columns() -> int:
    """Count the characters of a line of help; argparse leaves two."""
    return max(58, shutil.get_terminal_size().columns - 2)


def usage(command: Command) -> str:
    """Show a command with all that it requires, and ``[options]``."""
    needed = {option: group for group in command.alternatives if group.required for option in group.options}
    words: dict[str, None] = {}  # in order, each once
    for option in command.options:
        if option in needed:
            words[f"({' | '.join(one.typed() for one in needed[option].options)})"] = None
        elif option.required and not option.positional:
            words[option.typed()] = None
    places = [option.typed() for option in command.options if option.positional]
    # Every command has --help.
    return " ".join([command.prog, *words, "[options]", *places, *[f"{command.metavar} ..."] * bool(command.inner)])


def wrapped(text: str, first: str, then: str, end: str = "") -> list[str]:
    """Wrap a text without breaking words; ``end`` follows lines but last."""
    lines = textwrap.wrap(
        text,
        columns() - len(end),
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line + end for line in lines[:-1]] + lines[-1:]


def examples(command: Command) -> str:
    """Show a command's examples, with continuation lines as in a shell."""
    lines = [line for example in command.lines for line in wrapped(example, "  ", "      ", " \\")]
    return "\n".join(["examples:", *lines, ""])


def rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Show names, each with its text beside it."""
    known = list(pairs)
    indent = max(len(name) for name, _ in known) + 4
    return [line for name, text in known for line in wrapped(text, f"  {name:<{indent - 2}}", " " * indent)]


def table() -> str:
    """Show the codes and their meanings, for ``--help``."""
    return "\n".join(["exit codes:", *rows((f"{code:3d}", code.meaning) for code in Exit), ""])
