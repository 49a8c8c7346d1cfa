"""Define the table of options: kinds, options, groups and commands.

`vips_fast.cli.tables` holds the table. The parser, the job file and the help follow from it.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of values: texts that ``convert`` turns into good values."""

    convert: Callable[[str], Any]
    good: Callable[[Any], bool]
    expected: str

    def value(self, text: str) -> Any:
        """Convert a text.

        For a bad one, raises ValueError with the text and the expected form.
        """
        try:
            value = self.convert(text)
        except ValueError:
            value = None
        if value is None or not self.good(value):
            raise ValueError(f"{text!r}: expected {self.expected}")
        return value


TEXT = Kind(str, lambda v: True, "a text")
POSITIVE = Kind(float, lambda v: 0 < v < math.inf, "a number above 0")
PROBABILITY = Kind(float, lambda v: 0 < v < 1, "a number between 0 and 1")
WHOLE = Kind(int, lambda v: v >= 1, "a whole number of at least 1")
INTEGER = Kind(int, lambda v: True, "a whole number")


def ending(*suffixes: str) -> Kind:
    """Make the kind of file names with one of these endings."""
    return Kind(str, lambda v: v.endswith(suffixes), f"a name that ends in {' or '.join(suffixes)}")


@dataclass(frozen=True, eq=False)
class Option:
    """One argument of a command."""

    #: Its words, such as ``"-o --out"``; an argument by position has a name without dashes.
    flags: str
    help: str = ""
    kind: Kind = TEXT
    _: KW_ONLY
    #: Its name among the parsed arguments; by default the last of its words.
    dest: str = ""
    default: Any = None
    #: The value of a switch, which takes none; None for all other options.
    const: Any = None
    choices: tuple[Any, ...] = ()
    #: The name of its value in the help; by default the choices, or its own name.
    metavar: str = ""
    #: "?" if its value may be left out, "+" for one or more values.
    nargs: str = ""
    #: It may be given more than once.
    repeated: bool = False
    required: bool = False
    #: "file" or "folder" if its value is a path. A job file may then have it relative to the file's own folder.
    path: str = ""
    #: Words that stand for something else in place of a path; one with a colon is a prefix.
    words: tuple[str, ...] = ()
    #: It is a parameter of the estimator, or a field of its ``options``, of the name ``dest``.
    setting: bool = False

    def __post_init__(self) -> None:
        if not self.dest:
            object.__setattr__(self, "dest", self.key)
        if self.positional and not self.nargs:
            object.__setattr__(self, "required", True)

    @property
    def names(self) -> list[str]:
        """Its words."""
        return self.flags.split()

    @property
    def positional(self) -> bool:
        """Whether it is an argument by position."""
        return not self.flags.startswith("-")

    @property
    def key(self) -> str:
        """Its name in a job file."""
        return self.names[-1].lstrip("-").replace("-", "_")

    @property
    def value(self) -> str:
        """Return the value's name in the help; "" if choices replace it."""
        return self.metavar or ("" if self.choices else self.key if self.positional else self.key.upper())

    @property
    def switch(self) -> bool:
        """Whether it takes no value."""
        return self.const is not None

    def is_word(self, text: str) -> bool:
        """Tell whether a value is a word in place of a path."""
        return any(text.startswith(word) if word.endswith(":") else text == word for word in self.words)

    def typed(self) -> str:
        """Show it as a user types it: ``--out DIR``, ``INPUT``."""
        option = "" if self.positional else self.names[-1]
        if self.switch:
            return option
        name = self.value or "{" + ",".join(map(str, self.choices)) + "}"
        return f"{option} { {'+': f'{name} [{name} ...]', '?': f'[{name}]'}.get(self.nargs, name) }".strip()


def switch(flags: str, help: str, **more: Any) -> Option:
    """Make an option without a value, False unless given."""
    return Option(flags, help, default=False, const=True, **more)


def setting(flags: str, help: str, kind: Kind = TEXT, **more: Any) -> Option:
    """Make an option that is a setting of the estimator."""
    return Option(flags, help, kind, setting=True, **more)


def file(flags: str, help: str, kind: Kind = TEXT, metavar: str = "FILE", **more: Any) -> Option:
    """Make an option whose value is a file."""
    return Option(flags, help, kind, path="file", metavar=metavar, **more)


def folder(flags: str, help: str, metavar: str = "DIR", **more: Any) -> Option:
    """Make an option whose value is a folder."""
    return Option(flags, help, path="folder", metavar=metavar, **more)


class OneOf:
    """Options that exclude each other."""

    def __init__(self, *options: Option, required: bool = False) -> None:
        self.options, self.required = options, required


class Group:
    """Options under a title in the help."""

    def __init__(self, title: str, *entries: "Entry") -> None:
        self.title, self.entries = title, entries


Entry = Option | OneOf | Group


@dataclass(frozen=True, eq=False)
class Command:
    """A command, or a family of commands: ``inner``."""

    #: Its words behind the program's name, such as ``"fit lda"``.
    words: str
    summary: str
    entries: tuple[Entry, ...] = ()
    #: What can follow its words. A family shows the first of each inner command.
    examples: tuple[str, ...] = ()
    #: The function of `vips_fast.cli.commands` that runs it, ``"module:function"``; by default both are called as its
    #: first and last word.
    run: str = ""
    inner: "tuple[Command, ...]" = ()
    #: The name of the inner commands in the help.
    metavar: str = "COMMAND"
    #: More parsed arguments, which no option sets.
    presets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prog(self) -> str:
        """The whole command."""
        return f"vips-fast {self.words}".strip()

    @property
    def options(self) -> tuple[Option, ...]:
        """All its options."""
        known = [entry.options if isinstance(entry, OneOf) else (entry,) for entry in _flat(self.entries)]
        return tuple(option for options in known for option in options)

    @property
    def alternatives(self) -> tuple[OneOf, ...]:
        """Its sets of options that exclude each other."""
        return tuple(entry for entry in _flat(self.entries) if isinstance(entry, OneOf))

    @property
    def lines(self) -> list[str]:
        """Its examples, as a user types them."""
        if self.inner and not self.examples:
            return [command.lines[0] for command in self.inner]
        return [f"{self.prog} {example}".strip() for example in self.examples]

    def all(self) -> "Iterator[Command]":
        """Give this command and all commands inside it."""
        yield self
        for command in self.inner:
            yield from command.all()

    def load(self) -> Callable[[Any], int]:
        """Import the function that runs it."""
        words = self.words.split()
        function: Callable[[Any], int] = load(f"commands.{self.run or f'{words[0]}:{words[-1]}'}")
        return function


def command(words: str, summary: str, *entries: Entry, **more: Any) -> Command:
    """Make a command of its options."""
    return Command(words, summary, entries, **more)


def _flat(entries: tuple[Entry, ...]) -> Iterator[Option | OneOf]:
    for entry in entries:
        if isinstance(entry, Group):
            yield from _flat(entry.entries)
        else:
            yield entry


def load(where: str) -> Any:
    """Import ``"module:name"`` of `vips_fast.cli`, only when it is needed.

    No other place delays an import.
    """
    module, _, name = where.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)


#: Names of parameters that messages use for an option of another ``dest``.
_ALSO = {"vocabulary": "vocab", "n_features": "features"}
_PARAMETER = re.compile(r"(?<![\w.])([a-z_]+)=(True\b|False\b|None\b|'[^']*')?")


def in_options(command: Command, text: str) -> str:
    """Write a message's parameters, ``name=value``, as the command's options.

    >>> one = command("tool", "", setting("--topics", "", dest="n_components"), switch("--resume", ""))
    >>> in_options(one, "n_components=0: expected more, or resume=True with other_name=0")
    '--topics 0: expected more, or --resume with other_name=0'
    """
    known = {option.dest: option for option in command.options if not option.positional}

    def typed(found: re.Match[str]) -> str:
        option, value = known.get(found[1]) or known.get(_ALSO.get(found[1], "")), found[2]
        if option is None or (option.switch and value != repr(option.const)):
            return found[0]
        word = option.names[-1]
        if value == "None":
            return f"no {word}"
        bare = not value and text[found.end() : found.end() + 1] in (*" ,;:.)", "")
        return word if option.switch or bare else f"{word} {(value or '').strip(chr(39))}"

    return _PARAMETER.sub(typed, text).replace(": expected None", ": leave it out")
