"""``audit``: try to break the privacy claim of a model and its settings."""

import contextlib
from argparse import Namespace
from typing import Any

from .arguments import add_sampling, command, positive, whole
from .fit import given, settings_of
from .output import output_file, say


def add(commands: Any) -> None:
    parser = command(commands, "audit", run, "try to break the privacy claim of a model and its settings")
    parser.add_argument("family", nargs="?", default="lda", choices=("lda", "sbn", "blr"), help="default lda")
    parser.add_argument("--layers", metavar="A,B,…", help="some of the layers A, B, C, D, E and G, default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about a minute (default)")
    size.add_argument("--full", action="store_true", help="the sizes of the documentation, minutes")
    add_sampling(parser, "poisson")
    parser.add_argument("--components", dest="n_components", type=whole, default=2, help="topics or units, default 2")
    parser.add_argument("--clip", type=positive, help="as for fit")
    parser.add_argument("--noise-multiplier", type=positive, help="of layer E, default 1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the estimator or of its options"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")


def run(args: Namespace) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    import json

    from ..audit import ADAPTERS, LAYERS, audit

    layers = LAYERS if args.layers is None else [layer.strip().upper() for layer in args.layers.split(",")]
    cls = ADAPTERS[args.family].estimator_type
    settings = settings_of(cls, given(cls, args) | dict(map(_setting, args.set)))
    with contextlib.nullcontext() if args.json is None else output_file(args.json) as part:
        report = audit(
            args.family, settings, layers=layers, full=args.full,
            callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
        )
        if part is not None:
            part.write_text(json.dumps(report.to_dict(), indent=1) + "\n", "utf-8")
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
