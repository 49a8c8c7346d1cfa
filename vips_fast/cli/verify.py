"""``verify`` and ``sign``: a model held against its releases, and vouched for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .arguments import add_model, command
from .folder import kind_in, load_model, model_files, read_key
from .output import output_file

if TYPE_CHECKING:
    from ..models.rebuild import VerifyCheck


def add(commands: Any) -> None:
    """Add ``verify`` and ``sign``."""
    parser = command(
        commands, "verify", verify, "make a model again from its releases, without the data, and compare every file"
    )
    add_model(parser, "vips-fast fit")
    parser.add_argument("--transcript", metavar="DIR", required=True, help="folder that fit --transcript wrote")
    parser.add_argument(
        "--class", dest="kind", metavar="MODULE:CLASS", help="for a model of your own: where its class can be imported"
    )
    parser = command(commands, "sign", sign, "sign a model: arrays, settings and ledger, not the text files beside them")
    parser.add_argument("model", metavar="DIR", help="folder written by vips-fast fit")
    parser.add_argument("--key", metavar="FILE", required=True, help="Ed25519 private key (PEM, without a password)")


def verify(args: argparse.Namespace) -> int:
    """Compare a model with what its releases lead to; 0 if all is equal, else 1."""
    from ..models import rebuild

    folder = Path(args.model)
    cls = kind_in(folder) if args.kind is None else rebuild.class_of(args.kind)
    model = load_model(args.model, cls, "vips-fast fit", args.verify_key)
    report = rebuild.verify(folder, args.transcript, cls=cls)
    report = rebuild.VerifyReport((*report.checks, *_text_files(model, folder)))
    print(report.text())
    return 0 if report.ok else 1


def _text_files(model: Any, folder: Path) -> list[VerifyCheck]:
    """The files beside the model: what is neither made again nor an input has no place there."""
    from ..models import persistence
    from ..models.rebuild import VerifyCheck

    checks = []
    for name in sorted(entry.name for entry in folder.iterdir()):
        if name in (persistence.ARRAYS, persistence.META, persistence.SIGNATURE):
            continue
        if name == texts.VOCABULARY:
            checks.append(VerifyCheck(name, True, "a public input, taken as it is"))
        elif name in model_files():
            checks.append(VerifyCheck(name, texts.follows(model, folder, name)))
        else:
            checks.append(VerifyCheck(name, False, "not a file that fit writes"))
    return checks


def sign(args: argparse.Namespace) -> int:
    """Write a model's signature beside it."""
    from ..models import persistence

    key = read_key("--key", args.key)
    model = load_model(args.model, kind_in(args.model), "vips-fast fit")
    signature = Path(args.model) / persistence.SIGNATURE
    with output_file(signature) as file:
        file.write(model.sign(key))
    print(f"Written to {signature}.")
    return 0
