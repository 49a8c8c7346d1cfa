"""``verify`` and ``sign``: compare a model with its releases, and sign it."""

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..jobs import beside
from ..jobs.places import MODEL_FILES, kind_in
from ..models import rebuild
from ..models.persistence import ARRAYS, META, SIGNATURE
from ..models.privacy_file import PRIVACY_FILE
from ..models.rebuild import VerifyCheck
from ..store.folder import Folder
from .folder import load_model, read_key
from .output import output_file
from .record import print_object


def verify(args: Namespace) -> int:
    """Compare a model with one made from its releases; 0 if all is equal, else 1."""
    folder = Path(args.model)
    cls = kind_in(folder) if args.kind is None else rebuild.class_given(args.kind)
    model = cls.load(folder, verify=None if args.verify_key is None else read_key("--verify-key", args.verify_key))
    report = rebuild.compare(model, folder, args.transcript)
    report = rebuild.VerifyReport((*report.checks, *_text_files(model, folder)))
    code = 0 if report.ok else 1
    if args.json:
        print_object({"model": args.model, "ok": report.ok, "checks": [asdict(one) for one in report.checks]}, code)
    else:
        print(report.text())
    return code


def _text_files(model: Any, path: Path) -> list[VerifyCheck]:
    """Check the files beside the model: each follows from it."""
    checks, compared = [], {ARRAYS, META, SIGNATURE, PRIVACY_FILE, *model.inputs_}
    with Folder(path) as folder:
        for name in folder.names():
            if name not in compared:
                detail = "" if name in MODEL_FILES else "not a file that fit writes"
                checks.append(VerifyCheck(name, not detail and beside.follows(model, folder, name), detail))
    return checks


def sign(args: Namespace) -> int:
    """Write a model's signature beside it."""
    key = read_key("--key", args.key)
    model = load_model(args.model, kind_in(args.model), "fit")
    signature = Path(args.model) / "model.sig"
    with output_file(signature) as part:
        part.write_bytes(model.sign(key))
    print(f"Written to {signature}.")
    return 0
