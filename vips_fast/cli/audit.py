"""``audit``: try to break the privacy claim of a model and its settings."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from .arguments import add_sampling, command, positive, whole
from .output import output_file, say
from .settings import estimator_arguments, given_settings


def add(commands: Any) -> None:
    """Add ``audit``."""
    parser = command(commands, "audit", run, "try to break the privacy claim of a model and its settings")
    parser.add_argument("family", nargs="?", default="lda", metavar="MODEL", help="lda (default), sbn or blr")
    parser.add_argument("--layers", default="A,B,C,D,E", help="some of A,B,C,D,E, default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about a minute (default)")
    size.add_argument("--full", action="store_true", help="the sizes of the documentation, minutes")
    add_sampling(parser, "poisson")
    parser.add_argument(
        "--components", dest="n_components", metavar="N", type=whole, default=2, help="topics or units, default 2"
    )
    parser.add_argument("--clip", metavar="X", type=positive, help="as for fit")
    parser.add_argument("--noise-multiplier", metavar="X", type=positive, help="of layer E, default 1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE",
        help="another setting of the estimator, or of its options",
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")


def run(args: argparse.Namespace) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    import json

    from ..audit import ADAPTERS, LAYERS, audit

    if args.family not in ADAPTERS:
        raise ValueError(f"{args.family}: expected one of {', '.join(ADAPTERS)}")
    layers = [layer.strip().upper() for layer in args.layers.split(",")]
    if not set(layers) <= set(LAYERS):
        raise ValueError(f"--layers {args.layers}: expected some of {','.join(LAYERS)}")
    cls = ADAPTERS[args.family].estimator_type
    settings = estimator_arguments(cls, {**given_settings(cls, args), **dict(map(_setting, args.set))})
    with contextlib.ExitStack() as stack:
        # Made first, so that an audit of minutes does not end at a file that cannot be written.
        file = None if args.json is None else stack.enter_context(output_file(Path(args.json)))
        report = audit(
            args.family, settings, layers=layers, full=args.full,
            callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
        )
        if file is not None:
            file.write((json.dumps(report.to_dict(), indent=1) + "\n").encode())
    print(report.text())
    return 0 if report.passed else 1


def _setting(text: str) -> tuple[str, Any]:
    """Name and value of ``--set NAME=VALUE``; what is no Python literal is a text."""
    import ast

    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: expected NAME=VALUE")
    with contextlib.suppress(ValueError, SyntaxError):
        return name, ast.literal_eval(value)
    return name, value
