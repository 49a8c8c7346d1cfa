"""Run ``audit``: try to break a model's privacy guarantee."""

from typing import Any

from ... import audit
from ...models.family import family_named
from ..arguments import Audit
from ..messages import print_object, say
from .fit import given, setting_names, settings_of


def run(args: Audit) -> int:
    """Audit a model class with settings; 0 if it passes, else 1."""
    cls = family_named(args.family).estimator()
    usual: dict[str, Any] = {"sampling": "poisson"}
    if "n_components" in setting_names(cls)[0]:
        usual["n_components"] = 4 if args.family == "lda" else 2  # two topics have scales of entries that hardly differ
    report = audit.audit(
        args.family,
        settings_of(cls, usual | given(cls, args)),
        layers=None if args.layers is None else [layer.upper() for layer in args.layers],
        full=args.full,
        callback=lambda result: say(f"layer {result.layer} done, {result.seconds:.1f} s"),
    )
    code = 0 if report.passed else 1
    if args.json:
        print_object(report.to_dict(), code)
    else:
        print(report.text())
    return code
