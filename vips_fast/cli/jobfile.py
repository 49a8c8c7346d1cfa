"""Job files: the arguments of a fit in TOML.

A job file has ``command``, such as ``"fit lda"``, and a table ``options``. It has the names of the command's options,
INPUT included, with ``-`` or ``_``. Values mean what they mean on the command line. A path is relative to the folder of
the file, so a job means the same from any folder.
"""

import os
from typing import Any

from ..store.toml import read_toml, shown
from .arguments import Fit
from .signature import COMMANDS, Arguments, Option, Parser, is_path, nearest

_FITS = [words for words, one in COMMANDS.items() if issubclass(one, Fit)]


def read_job(path: str, command: type[Arguments]) -> dict[str, Any]:
    """Read a command's arguments from a job file.

    Raises OSError if it cannot be read, and ValueError for any error in it.
    """
    job = read_toml(path)
    for name in job:
        if name not in ("command", "options"):
            raise ValueError(f"{path}: {name}: unknown key; expected command and options")
    words, options = job.get("command"), job.get("options")
    if words not in _FITS:
        raise ValueError(f"{path}: command = {_shown(words)}: expected one of {', '.join(_FITS)}")
    if words != command.command:
        raise ValueError(f"{path}: command = {words!r}: expected {command.command!r}; run vips-fast {words}")
    if not isinstance(options, dict):
        raise ValueError(f"{path}: options = {_shown(options)}: expected a table of the options of {words}")
    known = {option.key: option for option in command.options() if option.key != "config"}
    given, places, seen = list[str](), dict[str, str](), set[str]()
    for name, value in options.items():
        if (option := known.get(key := name.replace("-", "_"))) is None:
            listed = ", ".join(sorted(known))
            raise ValueError(f"{path}: {name}: unknown key{nearest(key, known)}; expected one of {listed}")
        if key in seen:
            raise ValueError(f"{path}: {name}: given twice; expected it with - or with _")
        seen.add(key)
        texts = _texts(path, name, option, value)
        if option.positional:
            places[option.name] = texts[0]
        elif option.several:
            given += [option.flag, *texts]
        else:
            given += [option.flag] * bool(value) if option.switch else [f"{option.flag}={text}" for text in texts]
    try:
        return Parser(command).read(given) | places
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _texts(path: str, name: str, option: Option, value: Any) -> list[str]:
    """Write a value as the words of a command line."""
    where = f"{path}: {name} = {_shown(value)}"
    if option.switch != isinstance(value, bool):
        raise ValueError(f"{where}: expected {'true or false' if option.switch else option.kind.expected}")
    values = value if isinstance(value, list) else [value]
    plural = option.several or option.repeated
    if (not plural and values is value) or not values or not all(isinstance(one, str | int | float) for one in values):
        raise ValueError(f"{where}: expected {option.kind.expected}{', or a list of them' * plural}")
    folder = os.path.dirname(path)
    paths = [str(one) for one in values]
    return [os.path.join(folder, one) if is_path(option.kind, one, folder) else one for one in paths]


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else shown(value)
