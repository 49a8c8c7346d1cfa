"""``audit``: try to break the privacy claim of a model and its settings."""

import contextlib
from argparse import Namespace
from typing import Any

from ..models.family import family_named, with_adapter
from .arguments import add_sampling, command, positive, whole
from .fit import given, settings_of
from .output import output_file, say


def add(commands: Any) -> None:
    parser = command(commands, "audit", run, "try to break the privacy claim of a model and its settings")
    parser.add_argument("family", nargs="?", default="lda", choices=with_adapter(), help="default lda")
    parser.add_argument("--layers", metavar="A,B,…", help="some of the layers A, B, C, D, E, G and H, default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about a minute (default)")
    size.add_argument("--full", action="store_true", help="the sizes of the documentation, minutes")
    what = "in place of the layers: guess from published topics which documents were in the corpus (lda alone)"
    size.add_argument("--attack", action="store_true", help=what)
    what = "documents to attack, which must be public: CSR .npz or UCI docword; default: invented ones"
    parser.add_argument("--documents", metavar="FILE", help=what)
    parser.add_argument("--models", type=whole, metavar="N", help="shadow models of the attack, default 64")
    add_sampling(parser, "poisson")
    what = "topics or units, default 2; topics 4, of an attack 10"
    parser.add_argument("--components", dest="n_components", type=whole, help=what)
    parser.add_argument("--clip", type=positive, help="as for fit")
    parser.add_argument("--noise-multiplier", type=positive, help="of layer E, default 1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of the estimator or of its options"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")


def run(args: Namespace) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    import json

    from ..audit import audit

    if args.attack and (args.family != "lda" or args.layers is not None):
        raise ValueError("--attack: expected lda, and no --layers")
    for name in ("documents", "models"):
        if getattr(args, name) is not None and not args.attack:
            raise ValueError(f"--{name}: expected with --attack alone")
    layers = None if args.layers is None else [layer.strip().upper() for layer in args.layers.split(",")]
    # Two topics have scales of entries that hardly differ.
    args.n_components = args.n_components or (10 if args.attack else 4 if args.family == "lda" else 2)
    cls = family_named(args.family).estimator()
    settings = settings_of(cls, given(cls, args) | dict(map(_setting, args.set)))
    with contextlib.nullcontext() if args.json is None else output_file(args.json) as part:
        report: Any
        if args.attack:
            report = _attack(cls(**settings), args)
        else:
            report = audit(
                args.family,
                settings,
                layers=layers,
                full=args.full,
                callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
            )
        if part is not None:
            part.write_text(json.dumps(report.to_dict(), indent=1) + "\n", "utf-8")
    print(report.text())
    return 0 if report.passed else 1


def _attack(estimator: Any, args: Namespace) -> Any:
    """The membership attack on a file's documents, or on invented ones."""
    from ..audit import invented_documents, membership_attack
    from ..data import load_corpus

    X = invented_documents() if args.documents is None else load_corpus(args.documents).counts
    n_models = args.models or 64

    def told(done: int) -> None:
        if done % 16 == 0:
            say(f"{done} of {n_models} shadow models done")

    return membership_attack(estimator, X, n_models=n_models, callback=told)


def _setting(text: str) -> tuple[str, Any]:
    """Name and value of ``--set NAME=VALUE``; what is no Python literal is a text."""
    import ast

    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"--set {text}: expected NAME=VALUE")
    with contextlib.suppress(ValueError, SyntaxError):
        return name, ast.literal_eval(value)
    return name, value
