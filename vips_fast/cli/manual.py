"""The manual page ``vips-fast(1)``, from the same parser as ``--help``; setup.py writes it for the wheel."""

import argparse
import re
from collections.abc import Iterable

from .exits import Exit
from .help import EXAMPLES, argument, commands, usage

#: Variables of the environment, for all commands.
ENVIRONMENT = (
    ("VIPS_FAST_ISA", "instruction set of the kernels: portable, baseline, avx2 or avx512; default: the best there is"),
    ("VIPS_FAST_NUM_THREADS", "threads of a fit that does not say how many"),
    ("COLUMNS", "width of what is printed"),
)


def page(parser: argparse.ArgumentParser, version: str) -> str:
    """The page in the man macros of roff."""
    lines = [
        f'.TH VIPS-FAST 1 "" "vips_fast {version}" "User Commands"',
        ".nh",
        ".ad l",
        ".SH NAME",
        rf"vips\-fast \- {_plain(parser.description or '').rstrip('.')}",
        ".SH SYNOPSIS",
        _plain(usage(parser)),
        ".SH COMMANDS",
    ]
    for name, one in commands(parser):
        if name:
            lines += [f".SS vips\\-fast {_plain(name)}", _sentence(one.description), ".PP", _plain(usage(one))]
            lines += _arguments(one)
            if not any(isinstance(action, argparse._SubParsersAction) for action in one._actions):
                lines += [".PP", "Examples:", *_verbatim(EXAMPLES.get(name, ()))]
    lines += [".SH OPTIONS", *_arguments(parser), ".SH EXIT STATUS"]
    lines += _list((str(int(code)), code.meaning) for code in Exit)
    lines += [".SH ENVIRONMENT", *_list(ENVIRONMENT), ".SH EXAMPLES", *_verbatim(EXAMPLES[""])]
    return "\n".join(lines) + "\n"


def _arguments(parser: argparse.ArgumentParser) -> list[str]:
    shown = [a for a in parser._actions if a.dest != "help" and not isinstance(a, argparse._SubParsersAction)]
    formatter = parser._get_formatter()
    return _list((argument(action), formatter._expand_help(action) if action.help else "") for action in shown)


def _list(pairs: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, text in pairs for line in (".TP", rf"\fB{_plain(name)}\fR", _plain(text) or r"\&")]


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".RS 4", *(line for text in lines for line in (".br", _plain(text))), ".RE"]


def _sentence(text: str | None) -> str:
    text = (text or "").strip()
    return _plain(text[:1].upper() + text[1:] + "." * (not text.endswith(".")))


def _plain(text: str) -> str:
    """Text that roff takes as it stands: its backslashes and hyphens, and no line that it would read as a request."""
    text = re.sub(r"\s+", " ", text).strip().replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{text}" if text.startswith((".", "'")) else text
