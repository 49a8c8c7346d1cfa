"""Run ``audit``: try to break a model's privacy guarantee."""

import contextlib
import json

from ... import audit
from ...models.family import family_named
from ..arguments import Audit
from ..messages import say
from ..output import output_file
from .jobs import given, settings_of


def run(args: Audit) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    layers = None if args.layers is None else [layer.strip().upper() for layer in args.layers.split(",")]
    # Two topics have scales of entries that hardly differ.
    args.n_components = args.n_components or (4 if args.family == "lda" else 2)
    cls = family_named(args.family).estimator()
    settings = settings_of(cls, given(cls, args))
    with contextlib.nullcontext() if args.json is None else output_file(args.json) as file:
        report = audit.audit(
            args.family,
            settings,
            layers=layers,
            full=args.full,
            callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
        )
        if file is not None:
            file.write((json.dumps(report.to_dict(), indent=1) + "\n").encode())
    print(report.text())
    return 0 if report.passed else 1
