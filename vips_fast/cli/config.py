"""``--config``, a fit's arguments from a file, and ``config``, which checks such a file.

A job file is TOML: ``command``, such as ``"fit lda"``, and a table ``options`` with the names of the command's options,
INPUT included, with ``-`` or ``_``. Arguments on the command line come first. A path in the file is relative to the
folder of the file, so that a job means the same wherever it is started.
"""

from __future__ import annotations

import argparse
import errno
import os
import shlex
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..models.family import fitted_at_the_shell
from .arguments import Kind, Parser, command
from .records import is_word, public_words

if TYPE_CHECKING:
    from ..engine.planner import Cost

#: What the options that hold paths are called in usage lines.
_PATHS = ("FILE", "DIR", "INPUT")


def add(commands: Any) -> None:
    """Add the command."""
    what = "the command that a job file stands for"
    parser = command(commands, "config", config, what)
    parser.add_argument("file", metavar="FILE", help="job file (TOML)")
    what = "check settings, files and the budget, and say what would run and cost; reads no data and spends nothing"
    parser.add_argument("--check", action="store_true", help=what)


def config(args: argparse.Namespace) -> int:
    """Print the command of a job file, or check it."""
    from .main import build_parser

    words = _read(args.file)[0].split()
    job = build_parser().parse_args([*words, "--config", args.file])
    if not args.check:
        print(shlex.join(["vips-fast", *words, *job.job_file]))
        return 0
    job.check = True
    return int(job.run(job))


def check(args: argparse.Namespace, model: Any) -> int:
    """Whether a fit could begin, and what it would charge, from settings, public numbers and the budget alone.

    Raises OSError or ValueError as the fit would, BudgetExceededError where the budget does not hold it.
    """
    from ..accounting.printing import rounded_down
    from ..data.shards import bin_count
    from ..engine.budget import Budget
    from ..engine.checkpoint import RUN
    from .fit import check_transcript, finished, unit_of
    from .folder import check_place
    from .forecast import foreseen
    from .runs import refusal, run_folder, spent

    named = "input", "vocab", "stop_words", "labels", "names", "held", "groups", "schema", "prior_model", "word_vectors"
    for name in named:
        paths = getattr(args, name, None) or []
        for path in [paths] if isinstance(paths, str) else paths:
            if not is_word(path):
                _exists(path)
    words = getattr(args, "features", None)
    if words is None and getattr(args, "vocab", None) is not None:
        words = len(public_words(args) or ()) or None
    inputs = args.input if isinstance(args.input, list) else [args.input]
    rows = [("fit", f"{type(model).__name__} of {' '.join(inputs)}, to {args.out}")]
    check_transcript(args)
    out, kept = Path(args.out), run_folder(Path(args.out))
    if (kept / RUN).exists():
        if not args.resume:
            raise ValueError(refusal(kept))
        rows.append(("cost", f"what is left of the run in {kept}: {spent(kept)}"))
    elif args.resume and finished(out, model, args) is not None:
        rows.append(("cost", f"none: {out} holds the finished model"))
    else:
        check_place(out, args.force)
        known = {"unit": unit_of(args), "n_bins": bin_count(args.input)}
        rows += _cost(model, model.cost(words, budget=args.budget, **known))
        rows += foreseen(args, model, words)
    if args.budget is not None:
        budget = Budget(args.budget)
        rows.append(("budget", f"{rounded_down(budget.left)} of {budget.epsilon:g} left for {budget.dataset}"))
    print("\n".join(f"{name:<8}{text}" for name, text in rows))
    return 0


def _cost(model: Any, cost: Cost | None) -> list[tuple[str, str]]:
    """What a fit will do and cost, as far as public numbers say it."""
    from ..accounting import SelfComposedEvent, epsilon
    from ..accounting.printing import rounded_up

    if not model.private or model.noise_multiplier == 0:
        return [("cost", "NOT PRIVATE: no noise is added")]
    if cost is None:
        numbers = "records" if model.n_records is None else "steps, features or vocab"
        return [("cost", f"known when the data have been read; with {numbers} given it is known beforehand")]
    event, steps, delta = cost.event, cost.count, cost.delta
    figure = rounded_up(epsilon(SelfComposedEvent(event, steps), delta))
    return [
        ("plan", f"{steps} releases, each {event}"),
        ("cost", f"epsilon = {figure} at delta = {delta:g} ({event.neighbors})"),
    ]


def _exists(path: str) -> None:
    if not os.access(path, os.R_OK):
        os.stat(path)  # says why, where it is not there
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


class JobParser(Parser):
    """The parser of a fit: what the file of ``--config`` says stands between its arguments and their defaults."""

    _file: str | None = None

    def error(self, message: str) -> NoReturn:
        """As for all; an argument that is required may stand in the job file."""
        missing = self._file is not None and "required" in message
        super().error(f"{message}: expected here or in {self._file}" if missing else message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[argparse.Namespace, list[str]]:  # type: ignore[override]
        """As argparse's; raises ValueError or OSError for a job file that cannot be used."""
        first = Parser(self.prog, add_help=False, allow_abbrev=False)
        first.add_argument("--config")
        self._file = path = first.parse_known_args(args)[0].config
        if path is None:
            return super().parse_known_args(args, namespace)
        words, options = _read(path)
        own = self.prog.partition(" ")[2]
        if words != own:
            raise ValueError(f"{path}: command = {words!r}: expected {own!r}, the command that it is given to")
        actions = {_key(action): action for action in self._actions if action.dest not in ("help", "config")}
        given: dict[argparse.Action, Any] = {}
        for name, value in options.items():
            action = actions.get(name.replace("-", "_"))
            if action is None:
                raise ValueError(f"{path}: {name}: unknown key; expected one of {', '.join(sorted(actions))}")
            if action in given:
                raise ValueError(f"{path}: {name}: given twice; expected it with - or with _")
            typed = _typed(f"{path}: {name} = {_shown(value)}", action, value)
            if action.metavar in _PATHS:
                typed = _map(typed, lambda text: _resolved(Path(path).parent, text))
            if typed is not None:
                given[action] = typed
        before = {action: action.default for action in given}
        for action, typed in given.items():
            action.default, action.required = typed, False
        parsed, rest = super().parse_known_args(args, namespace)
        for group in self._mutually_exclusive_groups:
            members = [action for action in group._group_actions if action in given]
            if len(members) > 1:
                raise ValueError(f"{path}: {' and '.join(map(_key, members))}: expected only one of them")
            others = [action for action in group._group_actions if action not in given]
            if members and any(getattr(parsed, action.dest) != action.default for action in others):
                setattr(parsed, members[0].dest, before[members[0]])
        parsed.job_file = [word for action, value in given.items() for word in _words(action, value)]
        return parsed, rest


def _read(path: str) -> tuple[str, dict[str, Any]]:
    """The command of a job file, and its options."""
    try:
        with open(path, "rb") as file:
            job = tomllib.load(file)
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not a TOML file: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from None
    for name in job:
        if name not in ("command", "options"):
            raise ValueError(f"{path}: {name}: unknown key; expected command and options")
    words, options = job.get("command"), job.get("options")
    fits = tuple(f"fit {one.command}" for one in fitted_at_the_shell())
    if words not in fits:
        raise ValueError(f"{path}: command = {_shown(words)}: expected one of {', '.join(fits)}")
    if not isinstance(options, dict):
        raise ValueError(f"{path}: options = {_shown(options)}: expected a table of the options of {words}")
    return str(words), options


def _key(action: argparse.Action) -> str:
    """The name of an argument in a job file."""
    long = next((text for text in action.option_strings if text.startswith("--")), action.dest)
    return long.removeprefix("--").replace("-", "_")


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)


def _typed(where: str, action: argparse.Action, value: Any) -> Any:
    """A value of TOML as the argument's; None for a flag that is false. Raises ValueError for one of a wrong type."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValueError(f"{where}: expected true or false")
        return action.const if value else None
    convert = action.type if isinstance(action.type, Kind) else Kind(str, lambda text: True, "a text")
    expected, number = convert.expected, action.nargs
    if action.choices is not None:
        expected = f"one of {', '.join(map(str, action.choices))}"

    def one(item: Any) -> Any:
        try:
            typed = convert(str(item))
        except argparse.ArgumentTypeError:
            typed = None
        # A number in quotes is a text, and a text without them no TOML: neither stands for the other.
        if typed is None or typed != item or (action.choices is not None and typed not in action.choices):
            raise ValueError(f"{where}: expected {expected}")
        return typed

    if number is None:
        return one(value)
    items = value if isinstance(value, list) else [value]
    expected = f"{expected}, or a list of them" if number == "+" else f"a list of {number}, each {expected}"
    if not items or (isinstance(number, int) and len(items) != number):
        raise ValueError(f"{where}: expected {expected}")
    return [one(item) for item in items]


def _map(value: Any, change: Any) -> Any:
    return [change(item) for item in value] if isinstance(value, list) else change(value)


def _resolved(folder: Path, text: str) -> str:
    path = folder / text
    return text if is_word(text) and not path.exists() else str(path)


def _words(action: argparse.Action, value: Any) -> list[str]:
    """An argument as words of a command line."""
    values = [] if action.nargs == 0 else [str(item) for item in (value if isinstance(value, list) else [value])]
    return [f"--{_key(action).replace('_', '-')}", *values] if action.option_strings else values
