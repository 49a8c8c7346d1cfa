"""Run ``audit``: try to break a model's privacy guarantee."""

from ... import audit
from ...models.family import family_named
from ..arguments import Audit
from ..messages import print_object, say
from .jobs import given, settings_of


def run(args: Audit) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    layers = None if args.layers is None else [layer.strip().upper() for layer in args.layers.split(",")]
    # Two topics have scales of entries that hardly differ.
    args.n_components = args.n_components or (4 if args.family == "lda" else 2)
    cls = family_named(args.family).estimator()
    report = audit.audit(
        args.family,
        settings_of(cls, given(cls, args)),
        layers=layers,
        full=args.full,
        callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
    )
    code = 0 if report.passed else 1
    if args.json:
        print_object(report.to_dict(), code)
    else:
        print(report.text())
    return code
