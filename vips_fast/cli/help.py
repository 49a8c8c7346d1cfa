"""The shape of ``--help``: a short usage, examples to paste, no line wider than the terminal."""

import shutil
import textwrap
from collections.abc import Iterable

from .options import Command


def columns() -> int:
    """Count the characters of a line of help on this terminal; argparse leaves two at the end, too."""
    return max(58, shutil.get_terminal_size().columns - 2)


def usage(command: Command) -> str:
    """Show a command with everything that it requires; ``[options]`` stands for the rest."""
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
    """Wrap a text into lines, without breaking a word; ``end`` follows each line but the last."""
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
    """Show a command's examples; a long one continues in the next line, as a shell takes it."""
    lines = [line for example in command.lines for line in wrapped(example, "  ", "      ", " \\")]
    return "\n".join(["examples:", *lines, ""])


def rows(pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Show names, each with its text beside it."""
    known = list(pairs)
    indent = max(len(name) for name, _ in known) + 4
    return [line for name, text in known for line in wrapped(text, f"  {name:<{indent - 2}}", " " * indent)]
