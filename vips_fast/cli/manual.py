"""Write the manual page ``vips-fast(1)``, from the table of ``--help``.

setup.py writes it for the wheel.
"""

import re
from collections.abc import Iterable

from .messages import Exit
from .options import Command
from .parser import usage
from .tables import PROGRAM

#: Variables of the environment, for all commands.
ENVIRONMENT = (
    ("VIPS_FAST_ISA", "instruction set of the kernels: portable, baseline, avx2 or avx512; default: the best there is"),
    ("VIPS_FAST_NUM_THREADS", "threads of a fit that does not say how many"),
    ("COLUMNS", "width of what is printed"),
)


def page(version: str) -> str:
    """Write the page in the man macros of roff."""
    lines = [
        f'.TH VIPS-FAST 1 "" "vips_fast {version}" "User Commands"',
        ".nh",
        ".ad l",
        ".SH NAME",
        rf"vips\-fast \- {_plain(PROGRAM.summary).rstrip('.')}",
        ".SH SYNOPSIS",
        _plain(usage(PROGRAM)),
        ".SH COMMANDS",
    ]
    for command in list(PROGRAM.all())[1:]:
        lines += [f".SS vips\\-fast {_plain(command.words)}", _plain(sentence(command)), ".PP", _plain(usage(command))]
        lines += _options(command)
        if not command.inner:
            lines += [".PP", "Examples:", *_verbatim(command.lines)]
    lines += [".SH OPTIONS", *_options(PROGRAM), ".SH EXIT STATUS"]
    lines += _list((str(int(code)), code.meaning) for code in Exit)
    lines += [".SH ENVIRONMENT", *_list(ENVIRONMENT), ".SH EXAMPLES", *_verbatim(PROGRAM.lines)]
    return "\n".join(lines) + "\n"


def sentence(command: Command) -> str:
    """Describe a command in a sentence."""
    text = command.summary
    return text[:1].upper() + text[1:] + "." * (not text.endswith("."))


def _options(command: Command) -> list[str]:
    return _list((option.typed(), option.help) for option in command.options)


def _list(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in pairs for line in (".TP", rf"\fB{_plain(name)}\fR", _plain(text) or r"\&")]


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".RS 4", *(line for text in lines for line in (".br", _plain(text))), ".RE"]


def _plain(text: str) -> str:
    """Escape a text for roff: backslashes, hyphens, and requests.

    A line that roff would read as a request is one.
    """
    text = re.sub(r"\s+", " ", text).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
