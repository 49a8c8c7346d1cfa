"""The program itself: ``info``, ``completion`` and ``config``."""

import argparse
import platform
import shlex

import numpy
import scipy

from ... import runtime_info
from ...checks import missing_package
from ...report import table
from ..jobfile import load
from ..options import Place
from ..parser import build_parser, parse


def info(args: argparse.Namespace) -> int:
    """Print versions, instruction sets and threads."""
    known = runtime_info()
    rows = [
        ("vips_fast", known["version"]),
        ("instruction set", known["isa"]),
        ("available", ", ".join(known["isas_available"])),
        ("threads", known["n_threads"]),
        ("Python", platform.python_version()),
        ("numpy", numpy.__version__),
        ("scipy", scipy.__version__),
        ("machine", f"{platform.system()} {platform.machine()}"),
    ]
    print(table(rows))
    return 0


def completion(args: argparse.Namespace) -> int:
    """Print a shell's script; the package shtab makes it from the parser."""
    try:
        import shtab
    except ImportError:
        raise missing_package("vips-fast completion", "shtab", "completion") from None
    parser = build_parser(complete={Place.FILE: shtab.FILE, Place.FOLDER: shtab.DIRECTORY})
    print(shtab.complete(parser, args.shell))
    return 0


def config(args: argparse.Namespace) -> int:
    """Print the command of a job file, or check it."""
    job = load(args.file)
    words = job.command.words.split()
    parsed = parse([*words, "--config", args.file])
    if not args.check:
        print(shlex.join(["vips-fast", *words, *job.arguments()]))
        return 0
    parsed.check = True
    args.command = parsed.command  # whose options an error is about
    return int(job.command.load()(parsed))
