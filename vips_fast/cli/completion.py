"""``completion``: what a shell needs to complete the commands of ``vips-fast``."""

from argparse import Namespace
from typing import Any

from .arguments import command
from .help import commands as all_commands

#: Arguments with these names are files or folders.
_FILES = {"FILE", "INPUT", "TABLE"}
_FOLDERS = {"DIR", "OUT", "OUT.run"}


def add(commands: Any) -> None:
    what = "print the script that completes the commands in a shell"
    parser = command(commands, "completion", completion, what)
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def completion(args: Namespace) -> int:
    """Print a shell's script; the package shtab makes it from the parser."""
    from .main import build_parser

    try:
        import shtab
    except ImportError:
        from ..checks import missing_package

        raise missing_package("vips-fast completion", "shtab", "completion") from None
    parser = build_parser()
    for _, one in all_commands(parser):
        for action in one._actions:
            if action.metavar in _FILES | _FOLDERS:
                action.complete = shtab.FILE if action.metavar in _FILES else shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell))
    return 0
