"""``report`` and ``show``: the contents and the guarantee of a saved model, from its folder."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

from ..data import load_vocabulary
from ..engine.budget import Budget
from ..jobs.places import kind_in
from ..models.estimator import PrivateEstimator
from ..models.rebuild import class_given, compare
from ..report import html_report, make_dossier, short_report
from .folder import read_key
from .messages import width
from .output import output_file


def load(args: Namespace) -> tuple[PrivateEstimator, dict[str, Any]]:
    """Load the model of a command's arguments, and the public inputs of its report."""
    cls = kind_in(args.model) if args.kind is None else class_given(args.kind)
    model = cls.load(args.model, verify=None if args.verify_key is None else read_key("--verify-key", args.verify_key))
    known = {} if args.vocab is None else {"words": load_vocabulary(args.vocab)}
    return model, {**known, "n_words": args.words, "signed": args.verify_key is not None}


def report(args: Namespace) -> int:
    """Write a model's report."""
    model, known = load(args)
    if args.audit is not None:
        try:
            known["audit"] = json.loads(Path(args.audit).read_bytes())
        except (ValueError, RecursionError):
            raise ValueError(f"--audit {args.audit}: expected a JSON file, as vips-fast audit --json writes") from None
    if args.budget is not None:
        known["budget"] = _checked(Budget(args.budget).show(), model, args.budget)
    if args.transcript is not None:
        known["verified"] = compare(model, args.model, args.transcript)
    text = html_report(model, **known)
    with output_file(args.out) as part:
        part.write_text(text, "utf-8")
    print(f"Written to {args.out}.")
    return 0


def _checked(budget: dict[str, Any], model: PrivateEstimator, path: str) -> dict[str, Any]:
    """Check that the model was charged to this budget's data set. Raises ValueError if not."""
    charged = model.ledger_.budget
    if charged is None or charged.get("dataset") != budget["dataset"]:
        there = "no budget" if charged is None else f"that of {charged.get('dataset')}"
        raise ValueError(f"--budget {path}: is that of {budget['dataset']}; the model was charged to {there}")
    return budget


def show(args: Namespace) -> int:
    """Print a model's report in short."""
    model, known = load(args)
    print(short_report(make_dossier(model, **known), width()))
    return 0
