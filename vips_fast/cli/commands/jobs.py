"""Make a job from arguments: settings, source, forecast, terminal."""

from __future__ import annotations

import ast
import contextlib
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any

from ...engine.cluster import connected
from ...engine.plan import RunForecast
from ...jobs import Job, Material, Reading, Source
from ...jobs.progress import ProgressLine
from ...models.estimator import PrivateEstimator
from ..arguments import Audit, Fit
from ..inputs import read_labels
from ..messages import say
from ..signature import in_options


@dataclass(frozen=True)
class ReadBy:
    """A source that a function of the command reads."""

    path: str
    function: Callable[[Any], Material]
    person: str | None = None
    sets: frozenset[str] = frozenset()
    purchases: bool = False

    def read(self, reading: Reading) -> Material:
        """Read the records."""
        return self.function(reading.model)


def job_of(args: Fit, model: Any, source: Source) -> Job:
    """Make the job of the arguments."""
    job = Job(
        model,
        source,
        args.out,
        groups=None if args.groups is None else read_labels(args.groups, model._options.invalid),
        **args.take("budget", "transcript", "unit", "resume", "force", "report"),
        backend=lambda: _cluster(args),
        on_forecast=show_forecast(args),
        progress=lambda: nullcontext() if args.quiet else ProgressLine("fit"),
        on_warning=lambda text: say(f"warning: {in_options(type(args), text)}"),
    )
    for option, value in (("--unit", args.unit), ("--set rows_per_group:", model._options.rows_per_group)):
        if value is not None and job.unit_name == "record":
            which = "--person COLUMN or --groups FILE, which say whose each record is"
            alone = "; if each is of another one, leave it out: the statement is then about one record"
            raise ValueError(f"{option} {value}: expected only with {which}{alone}")
    return job


def _cluster(args: Fit) -> contextlib.AbstractContextManager[Any]:
    """Make the backend of the arguments; None means the fit's threads."""
    if args.workers is None:
        return contextlib.nullcontext()
    return connected(args.workers) if isinstance(args.workers, str) else connected(n_workers=args.workers)


def setting_names(cls: type[PrivateEstimator]) -> tuple[set[str], set[str]]:
    """Return the names of an estimator's parameters and ``options``."""
    return set(cls._parameter_names()), {one.name for one in fields(cls._options_type)}


def given(cls: type[PrivateEstimator], args: Fit | Audit) -> dict[str, Any]:
    """Collect the command line's settings of an estimator, by name."""
    # An option with a file may have a setting's name; the job reads the file.
    options = {option.name: option for option in args.options()}
    known = set.union(*setting_names(cls)) - {name for name, option in options.items() if option.kind.path}
    values = {name: value for name, value in vars(args).items() if name in known and value is not None}
    if getattr(args, "non_private", False):
        values["private"] = False
    for text in args.set:
        name, equals, said = text.partition("=")
        if not equals:
            raise ValueError(f"--set {text}: expected NAME=VALUE")
        if (option := options.get(name.removeprefix("options."))) is not None:
            raise ValueError(f"--set {name}: expected {option.flag}")
        with contextlib.suppress(ValueError, SyntaxError):
            values[name] = ast.literal_eval(said)
            continue
        values[name] = said  # no Python literal is a text
    return values


def settings_of(cls: type[PrivateEstimator], values: Mapping[str, Any]) -> dict[str, Any]:
    """Split values into an estimator's parameters and fields of ``options``.

    A field is named ``name`` or ``options.name``. The result has the arguments of the estimator. Raises a ValueError
    for a name that is neither.
    """
    parameters, in_options = setting_names(cls)
    options = {name.removeprefix("options."): value for name, value in values.items() if name not in parameters}
    for name in set(options) - in_options:
        known = ", ".join(sorted(parameters | in_options))
        raise ValueError(f"{name!r} is not a setting of {cls.__name__}: expected one of {known}")
    arguments = {name: value for name, value in values.items() if name in parameters}
    return {**arguments, "options": cls._options_type.of(options)} if options else arguments


def show_forecast(args: Fit) -> Callable[[RunForecast], None]:
    """Show a run's forecast before it spends anything; refuse a hopeless one.

    ``--quiet`` is about progress: what is spent on is always said. ``--anyway`` makes the refusal a warning.
    """

    def show(forecast: RunForecast) -> None:
        if forecast.warning is None:
            say(in_options(type(args), forecast.text))
            if args.confirm is not None:
                args.confirm(forecast)
        elif args.anyway:
            warnings.warn(forecast.text, forecast.warning, stacklevel=2)
        else:
            why = forecast.text.removesuffix(".")
            raise ValueError(f"{why}; nothing was spent on it; expected other settings, or --anyway")

    return show
