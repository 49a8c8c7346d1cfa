"""Derive the command line from classes: a field is an argument, its type a check, the docstring the help.

A command is a subclass of `Arguments` that names its words and its function. Fields that several commands take stand in
a base of their own. Parser and help follow from them. Nothing numerical is imported here or in
`vips_fast.cli.arguments`, so ``--help`` needs no model.
"""

import argparse
import inspect
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NoReturn,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)


class BadValueError(argparse.ArgumentTypeError, ValueError):
    """A value is not of the kind of its argument; argparse shows the messages of no other ValueError."""


@dataclass(frozen=True)
class Kind:
    """What a value must be; with a ``path``, "file" or "folder", it is one."""

    convert: Callable[[str], Any] = str
    good: Callable[[Any], bool] = lambda value: True
    expected: str = "a text"
    path: str = ""

    def value(self, text: str) -> Any:
        """Convert a text; raise BadValueError with the text and the expected form."""
        try:
            value = self.convert(text)
        except ValueError:
            value = None
        if value is None or not self.good(value):
            raise BadValueError(f"{text!r}: expected {self.expected}")
        return value


T = TypeVar("T")
#: In place of a default, of what has to be given.
MISSING = object()
#: Marks an argument by position; another text in its place is the argument's word.
PLACE = "by position"
Place = Annotated[T, PLACE]
#: Flags that are not the name of their field without ``n_`` or ``target_``.
_FLAGS = {"random_state": "seed"}


@dataclass(frozen=True, eq=False)
class Option:
    """One argument, as `Arguments.options` reads it from a field."""

    name: str
    #: Its word on the command line; its name by position.
    flag: str
    kind: Kind
    default: Any
    help: str
    metavar: str
    group: str
    positional: bool
    switch: bool
    #: It may be given several times.
    repeated: bool
    #: It takes one or more values.
    several: bool

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is MISSING

    def typed(self) -> str:
        """Show it as a user types it: ``--out DIR``, ``INPUT``."""
        name = f"{self.metavar} [{self.metavar} ...]" if self.several else self.metavar
        if self.positional:
            return name if self.required else f"[{name}]"
        return self.flag if self.switch else f"{self.flag} {name}"


@dataclass_transform(kw_only_default=True)
class Arguments:
    """The arguments of a command; a subclass is one command, or a part that several have.

    A subclass is written as a dataclass. It is none, for making dozens of them takes longer than ``--help`` may.
    """

    #: The words behind ``vips-fast``, and the function of `vips_fast.cli.commands` that runs them.
    command: ClassVar[str] = ""
    function: ClassVar[str] = ""
    _title: ClassVar[str] = ""
    _one_of: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **given: Any) -> None:
        #: Show the traceback of an error.
        self.debug = False
        #: It is asked, with the forecast of a fit, before anything is spent; an error ends the fit.
        self.confirm: Callable[[Any], None] | None = None
        for option in self.options():
            setattr(self, option.name, given.get(option.name, option.default))

    def __init_subclass__(
        cls, command: str = "", function: str = "", title: str = "", one_of: tuple[str, ...] = ()
    ) -> None:
        """Take what a class says of itself.

        Its fields have the ``title`` in the help. Of the fields ``one_of`` only one may be given.
        """
        super().__init_subclass__()
        cls.command, cls.function, cls._title, cls._one_of = command, function, title, one_of
        if command:
            COMMANDS[command] = cls

    @classmethod
    @cache
    def options(cls) -> tuple[Option, ...]:
        """Read the options from the fields: its own ones first, then those of its bases."""
        found, said = dict[str, Option](), cls._said()
        for kind in cls.__mro__:
            for name, form in inspect.get_annotations(kind).items():
                origin: Any = get_origin(form)
                if origin is not ClassVar and name not in found:
                    about = kind.__dict__.get("_title", ""), *said.get(name, ("", ""))
                    found[name] = _option(name, form, getattr(cls, name, MISSING), *about)
        # One that takes any number of values is the last.
        return tuple(sorted(found.values(), key=lambda option: option.positional and option.several))

    @classmethod
    def _said(cls) -> dict[str, tuple[str, str]]:
        """Read each field's value name and help from the docstrings, whose lines are ``name (VALUE): help``."""
        said: dict[str, tuple[str, str]] = {}
        for kind in cls.__mro__:
            for name, value, text in _ENTRY.findall(inspect.cleandoc(kind.__dict__.get("__doc__") or "")):
                said.setdefault(name, (value, " ".join(text.split())))
        return said

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return inspect.cleandoc(cls.__doc__ or "").partition("\n")[0].removesuffix(".")

    @classmethod
    def examples(cls) -> list[str]:
        """List the docstring's examples, which begin with the program's name, as a user types them."""
        found = re.findall(r"(?m)^vips-fast .*(?:\n +.*)*", inspect.cleandoc(cls.__doc__ or ""))
        return [" ".join(line.split()) for line in found]

    def take(self, *names: str) -> dict[str, Any]:
        """Return the given ones of some fields, for a call whose parameters have their names and the defaults."""
        return {name: value for name in names if (value := getattr(self, name)) is not None}


#: All commands, by their words.
COMMANDS: dict[str, type[Arguments]] = {}
_ENTRY = re.compile(r"(?m)^(\w+)(?: \(([^)]+)\))?: (.*(?:\n +.*)*)")


def _option(field: str, kind: Any, default: Any, group: str, value: str, text: str) -> Option:
    """Read a field: its type has the kind and the number of values."""
    marks, repeated, several, form = list[Any](), False, False, ""
    while args := get_args(kind):
        origin = get_origin(kind)
        if origin is Annotated:
            marks += kind.__metadata__
        elif origin is Literal:
            form, known = f"{{{','.join(map(str, args))}}}", tuple(args)
            marks.append(Kind(type(args[0]), known.__contains__, f"one of {', '.join(map(str, args))}"))
        repeated, several = repeated or origin is tuple, several or origin is list
        kind = next(arg for arg in args if arg is not type(None)) if origin in (Union, UnionType) else args[0]
    checks = [mark for mark in marks if isinstance(mark, Kind)]
    named = [mark for mark in marks if isinstance(mark, str) and mark != PLACE]
    key = named[0] if named else _FLAGS.get(field, re.sub("^(n|target)_", "", field))
    path = checks[0].path if checks and PLACE not in marks else ""
    shown = value or _PATHS.get(path) or form or key.upper()
    return Option(
        name=field,
        flag=shown if PLACE in marks else "--" + key.replace("_", "-"),
        kind=checks[0] if checks else Kind(kind),
        default=default,
        help=text,
        metavar=shown,
        group=group,
        positional=PLACE in marks,
        switch=kind is bool,
        repeated=repeated,
        several=several,
    )


_PATHS = {"file": "FILE", "folder": "DIR"}


def refuse_unused(args: Arguments, names: Iterable[str], why: str) -> None:
    """Raise ValueError if one of the fields is given; ``why`` says when it is expected."""
    options = [one for one in args.options() if one.name in names]
    if given := [one.flag for one in options if getattr(args, one.name) != one.default]:
        raise ValueError(f"{', '.join(given)}: {why}")


def load(where: str) -> Any:
    """Import ``"module:name"`` of `vips_fast.cli`, only when it is needed. No other place delays an import."""
    module, _, name = where.partition(":")
    return getattr(import_module(f"{__package__}.{module}"), name)


class Parser(argparse.ArgumentParser):
    """An argparse of one command; it finds the given words alone, and leaves defaults to the class."""

    def __init__(self, command: type[Arguments]) -> None:
        super().__init__(
            f"vips-fast {command.command}",
            "\n".join(wrapped(usage(command), "usage: ", " " * 11)).removeprefix("usage: ").replace("%", "%%"),
            "\n".join(wrapped(command.summary(), "", "")),
            examples(command.examples()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.command, places, groups = command, dict[tuple[str, ...], Any](), dict[str, Any]()
        exclusive = [kind.__dict__.get("_one_of", ()) for kind in command.__mro__]
        one_of = {name: names for names in exclusive for name in names}
        for option in command.options():
            title = option.group
            if title not in groups:
                groups[title] = self.add_argument_group(title) if title else self
            place, names = groups[title], one_of.get(option.name, ())
            if names and names not in places:
                places[names] = place.add_mutually_exclusive_group()
            self._add(places.get(names, place), option)

    def _add(self, place: Any, option: Option) -> None:
        more: dict[str, Any] = {"help": option.help.replace("%", "%%"), "default": None}
        if option.switch:
            more |= {"action": "store_true"}
        else:
            more |= {"type": option.kind.value, "metavar": option.metavar}
        if option.repeated:
            more |= {"action": "append"}
        if option.positional:
            place.add_argument(option.name, nargs="*" if option.several else "?", **more)
        else:
            place.add_argument(option.flag, dest=option.name, **more | ({"nargs": "+"} if option.several else {}))

    def read(self, words: list[str]) -> dict[str, Any]:
        """Parse the words; refuse an unknown option with the nearest known one, and a lack of required ones."""
        # Options may stand between the arguments by position.
        found, unknown = self.parse_known_intermixed_args(words)
        options = self.command.options()
        if unknown:
            near = [nearest(word.partition("=")[0], [one.flag for one in options]) for word in unknown]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, near), '')}")
        given = {name: value for name, value in vars(found).items() if value not in (None, [])}
        if missing := [one.flag for one in options if one.required and one.name not in given]:
            self.error(f"the following arguments are required: {', '.join(missing)}")
        return given

    def print_help(self, file: Any = None) -> None:
        """Print the help; unlike argparse's own, this fails if it cannot be written."""
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> NoReturn:
        """Raise a ValueError."""
        raise ValueError(f"{message} (see {self.prog} --help)")


def nearest(word: str, known: Iterable[str]) -> str:
    """Tell the nearest known word, or nothing."""
    found = get_close_matches(word, list(known), 1)
    return f" (did you mean {found[0]}?)" if found else ""


def usage(command: type[Arguments]) -> str:
    """Show a command with all that it requires, and ``[options]``."""
    options = command.options()
    words = [option.typed() for option in options if option.required and not option.positional]
    places = [option.typed() for option in options if option.positional]
    return " ".join([f"vips-fast {command.command}", *words, "[options]", *places])


def wrapped(text: str, first: str, then: str, end: str = "") -> list[str]:
    """Wrap a text without breaking words; ``end`` follows lines but last."""
    width = max(58, shutil.get_terminal_size().columns - 2) - len(end)  # argparse leaves two
    how: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
    lines = textwrap.wrap(text, width, initial_indent=first, subsequent_indent=then, **how)
    return [line + end for line in lines[:-1]] + lines[-1:]


def examples(lines: Iterable[str]) -> str:
    """Show examples, with continuation lines as in a shell; an option stays with its value."""
    joined = (re.sub(r"(--[\w-]+) (?!-)", "\\1\0", one) for one in lines)
    shown = (line.replace("\0", " ") for one in joined for line in wrapped(one, "  ", "      ", " \\"))
    return "\n".join(["examples:", *shown, ""])


def rows(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Show names, each with its text beside it."""
    known = list(pairs)
    indent = max(len(name) for name, _ in known) + 4
    for name, text in known:
        yield from wrapped(text, f"  {name:<{indent - 2}}", " " * indent)


#: Names of parameters that messages use for a field of another name.
ALSO = {"vocabulary": "vocab", "n_features": "features", "private": "non_private", "n_components": "topics"}
ALSO |= {
    "n_topics": "topics",
    "y": "label",
    "persons": "groups",
    "names": "vocab",
    "titles": "names",
    "n_words": "words",
}
#: Arguments of Python that messages begin with, as in "X has 2 features" and "layers: 'Q' is not one of".
_SUBJECT = re.compile(r"(X|y|exposure|groups|persons|names|titles|layers)(?= has |: )")
_IN_OPTIONS = re.compile(r"""options=\{["'](\w+)["']: ["'](\w+)["']\}""")
_DROPPING = re.compile(r" (by|with) options=\{.invalid.: .drop.\}")
_PARAMETER = re.compile(r"(?<![\w.])([a-z_]+)=(True\b|False\b|None\b|'[^']*')?")


def in_options(command: type[Arguments], text: str, kept: tuple[str, ...] = ()) -> str:
    """Write a message's first word, and its parameters, ``name=value``, as the command's options.

    What begins with a text of ``kept``, such as a column's name and value, is no parameter.
    """
    known = {option.name: option for option in command.options() if not option.positional}
    text = text if "invalid" in known else _DROPPING.sub("", text)  # what reads new records drops none
    text = text if "force" in known else text.replace("; force=True replaces a model in it", "; expected another place")
    text = _IN_OPTIONS.sub(r"\1='\2'", text)
    if found := _SUBJECT.match(text):
        option = known.get(found[1]) or known.get(ALSO.get(found[1], ""))
        subject = "INPUT" if found[1] == "X" or option is None else option.flag
        text = subject + text[found.end() :]

    def typed(found: re.Match[str]) -> str:
        option, value = known.get(found[1]) or known.get(ALSO.get(found[1], "")), found[2] or ""
        if (
            option is None
            or text.startswith(kept, found.start())
            or (option.switch and value != repr(found[1] != "private"))
        ):
            return found[0]
        if value == "None":
            return f"no {option.flag}"
        bare = not value and text[found.end() : found.end() + 1] in (*" ,;:.)", "")
        return option.flag if option.switch or bare else f"{option.flag} {value and shlex.quote(value.strip(chr(39)))}"

    return _PARAMETER.sub(typed, text).replace(": expected None", ": leave it out")
