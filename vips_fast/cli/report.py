"""``report`` and ``show``: what a saved model holds and promises, from the model's folder alone."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .arguments import add_model, command, ending, whole
from .folder import kind_in, read_key
from .output import output_file, width

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator


def add(commands: Any) -> None:
    """Add the commands."""
    what = "write a report of a model as one HTML page, from released quantities alone; needs no data"
    parser = command(commands, "report", report, what)
    _add_common(parser)
    parser.add_argument("-o", "--out", metavar="FILE", type=ending(".html"), required=True, help="an .html file")
    parser.add_argument("--audit", metavar="FILE", help="report of an audit, as vips-fast audit --json wrote it")
    parser.add_argument("--budget", metavar="FILE", help="the budget that paid, to say what is left of it")
    what = "the fit's transcript: the model is made again from it, and the report says whether it follows"
    parser.add_argument("--transcript", metavar="DIR", help=what)

    parser = command(commands, "show", show, "print the short form of a model's report; needs no data")
    _add_common(parser)


def _add_common(parser: Any) -> None:
    add_model(parser, "fit, or by a vocabulary's save")
    parser.add_argument("--words", type=whole, default=10, help="words a topic, default 10")
    parser.add_argument("--vocab", metavar="FILE", help="words of a topic model's columns; default: those in DIR")
    parser.add_argument("--class", dest="kind", metavar="MODULE:CLASS", help="class of a model of your own")


def load(args: Namespace) -> tuple[PrivateEstimator, dict[str, Any]]:
    """The model of a command's arguments, and the public inputs of its report."""
    from ..models.rebuild import class_given

    cls = kind_in(args.model) if args.kind is None else class_given(args.kind)
    model = cls.load(args.model, verify=None if args.verify_key is None else read_key("--verify-key", args.verify_key))
    known = texts.public_names(model, texts.naming(model, Path(args.model)))
    if args.vocab is not None:
        from ..data import load_vocabulary

        known = {"words": load_vocabulary(args.vocab)}
    missing = [
        f"{name}: the model was saved by a version that did not write it."
        for name in (texts.STATEMENT,)
        if not (Path(args.model) / name).exists()
    ]
    return model, {**known, "n_words": args.words, "signed": args.verify_key is not None, "missing": missing}


def report(args: Namespace) -> int:
    """Write a model's report."""
    from ..report import html_report

    model, known = load(args)
    if args.audit is not None:
        try:
            known["audit"] = json.loads(Path(args.audit).read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(f"--audit {args.audit}: expected a JSON file, as vips-fast audit --json writes") from None
    if args.budget is not None:
        from ..engine.budget import Budget

        known["budget"] = _checked(Budget(args.budget).show(), model, args.budget)
    if args.transcript is not None:
        from ..models.rebuild import verify

        known["verified"] = verify(args.model, args.transcript, cls=type(model))
    text = html_report(model, **known)
    with output_file(args.out) as part:
        part.write_text(text, "utf-8")
    print(f"Written to {args.out}.")
    return 0


def _checked(budget: dict[str, Any], model: PrivateEstimator, path: str) -> dict[str, Any]:
    """What a budget says, if it is of the data set that the model was charged to."""
    charged = model.ledger_.budget
    if charged is None or charged.get("dataset") != budget["dataset"]:
        there = "no budget" if charged is None else f"that of {charged.get('dataset')}"
        raise ValueError(f"--budget {path}: is that of {budget['dataset']}; the model was charged to {there}")
    return budget


def show(args: Namespace) -> int:
    """Print a model's report in short."""
    from ..report import make_dossier, short_report

    model, known = load(args)
    print(short_report(make_dossier(model, **known), width()))
    return 0
