"""Job files: the arguments of a command in TOML.

A job file has ``command``, such as ``"fit lda"``, and a table ``options``. It has the names of the command's options,
INPUT included, with ``-`` or ``_``. A path in it is relative to the folder of the file, so a job means the same from
any folder.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..store.toml import read_toml, shown
from .options import Command, Option
from .tables import PROGRAM

_COMMANDS = {one.words: one for one in PROGRAM.all() if any(option.key == "config" for option in one.options)}


@dataclass(frozen=True)
class JobFile:
    """A command, and the options that the file gives to it."""

    path: str
    command: Command
    values: dict[Option, Any]

    def beside(self, given: dict[str, Any]) -> dict[str, Any]:
        """Select the values that hold beside the command line's options.

        They stand by their options' ``dest``; ``given`` are the command line's. An option on the command line comes
        first, and also replaces the options that it excludes.
        """
        replaced = {
            option
            for group in self.command.alternatives
            if any(one.dest in given for one in group.options)
            for option in group.options
        }
        return {option.dest: value for option, value in self.values.items() if option not in replaced} | given


def load(path: str) -> JobFile:
    """Read a job file.

    Raises OSError if it cannot be read, and ValueError for any error in it.
    """
    job = read_toml(path)
    for name in job:
        if name not in ("command", "options"):
            raise ValueError(f"{path}: {name}: unknown key; expected command and options")
    words, options = job.get("command"), job.get("options")
    if not isinstance(words, str) or words not in _COMMANDS:
        raise ValueError(f"{path}: command = {_shown(words)}: expected one of {', '.join(_COMMANDS)}")
    if not isinstance(options, dict):
        raise ValueError(f"{path}: options = {_shown(options)}: expected a table of the options of {words}")
    return JobFile(path, _COMMANDS[words], _values(path, _COMMANDS[words], options))


def _values(path: str, command: Command, options: dict[str, Any]) -> dict[Option, Any]:
    known = {option.key: option for option in command.options if option.key != "config"}
    values: dict[Option, Any] = {}
    seen = set()
    for name, value in options.items():
        option = known.get(name.replace("-", "_"))
        if option is None:
            raise ValueError(f"{path}: {name}: unknown key; expected one of {', '.join(sorted(known))}")
        if option in seen:
            raise ValueError(f"{path}: {name}: given twice; expected it with - or with _")
        seen.add(option)
        typed = _typed(f"{path}: {name} = {_shown(value)}", option, value)
        if option.path:
            several = isinstance(typed, list)
            typed = [_beside(path, option, one) for one in typed] if several else _beside(path, option, typed)
        if typed is not None:
            values[option] = typed
    for group in command.alternatives:
        members = [option.key for option in group.options if option in values]
        if len(members) > 1:
            raise ValueError(f"{path}: {' and '.join(members)}: expected only one of them")
    return values


def _beside(path: str, option: Option, value: str) -> str:
    """Take a path relative to the file's folder; a word stays unless it is a path there."""
    found = Path(path).parent / value
    return value if option.is_word(value) and not found.exists() else str(found)


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else shown(value)


def _typed(where: str, option: Option, value: Any) -> Any:
    """Check a TOML value; None for a switch that is false.

    Raises ValueError for a value of a wrong type.
    """
    if option.switch:
        if not isinstance(value, bool):
            raise ValueError(f"{where}: expected true or false")
        return option.const if value else None
    expected = f"one of {', '.join(map(str, option.choices))}" if option.choices else option.kind.expected
    several = bool(option.repeated or option.nargs == "+")
    if several:
        expected += ", or a list of them"
    items = value if several and isinstance(value, list) else [value]
    if not items:
        raise ValueError(f"{where}: expected {expected}")
    typed = [_one(option, item, lambda: ValueError(f"{where}: expected {expected}")) for item in items]
    return typed if several else typed[0]


def _one(option: Option, item: Any, refused: Callable[[], ValueError]) -> Any:
    try:
        typed = option.kind.value(str(item))
    except ValueError:
        raise refused() from None
    # A number in quotes is a text, and a text without quotes is no TOML: neither stands for the other.
    if typed != item or (option.choices and typed not in option.choices):
        raise refused()
    return typed
