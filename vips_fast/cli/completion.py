"""``completion``: the script that completes the commands of ``vips-fast`` in a shell."""

from argparse import Namespace

from ..checks import missing_package
from .options import Place
from .parser import build_parser


def completion(args: Namespace) -> int:
    """Print a shell's script; the package shtab makes it from the parser."""
    try:
        import shtab
    except ImportError:
        raise missing_package("vips-fast completion", "shtab", "completion") from None
    parser = build_parser(complete={Place.FILE: shtab.FILE, Place.FOLDER: shtab.DIRECTORY})
    print(shtab.complete(parser, args.shell))
    return 0
