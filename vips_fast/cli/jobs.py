"""From arguments to a job: the settings of its model, its source, and how it talks to a terminal."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any

from ..engine.cluster import connected
from ..jobs import Job, Material, Reading, Source
from ..models.estimator import PrivateEstimator
from .forecast import show_forecast
from .messages import say
from .output import read_labels
from .progress import ProgressLine


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


def job_of(args: argparse.Namespace, model: Any, source: Source) -> Job:
    """The job that the arguments describe."""
    if args.groups is not None and args.person is not None:
        raise ValueError("--person: leave out --groups")
    job = Job(
        model,
        source,
        args.out,
        budget=args.budget,
        transcript=args.transcript,
        groups=None if args.groups is None else read_labels(args.groups, model.invalid),
        unit=args.unit,
        resume=args.resume,
        force=args.force,
        report=args.report,
        checkpoint_every=args.checkpoint_every,
        backend=lambda: _cluster(args),
        on_forecast=show_forecast(args),
        progress=lambda: nullcontext() if args.quiet else ProgressLine("fit"),
        on_warning=lambda text: say(f"warning: {text}"),
    )
    for option, value in (("--unit", args.unit), ("--rows-per-group", args.rows_per_group)):
        if value is not None and job.unit_name == "record":
            which = "--groups or --person, which say whose each record is"
            raise ValueError(f"{option} {value}: expected only with {which}")
    return job


def _cluster(args: argparse.Namespace) -> contextlib.AbstractContextManager[Any]:
    """The backend that the arguments name; None is the fit's own threads."""
    if args.scheduler is None and args.workers is None:
        return contextlib.nullcontext()
    return connected(args.scheduler, args.workers)


@contextlib.contextmanager
def warnings_said() -> Iterator[None]:
    """Let a warning be a line on standard error that cannot fail."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


def setting_names(cls: type[PrivateEstimator]) -> tuple[set[str], set[str]]:
    """Names of an estimator's parameters, and of the fields of its ``options``."""
    options = cls._options_type
    return set(cls._parameter_names()), set() if options is None else {one.name for one in fields(options)}


def given(cls: type[PrivateEstimator], args: argparse.Namespace) -> dict[str, Any]:
    """What the command line says of an estimator's settings, by their names."""
    known = set.union(*setting_names(cls))
    return {name: value for name, value in vars(args).items() if name in known and value is not None}


def settings_of(cls: type[PrivateEstimator], values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an estimator from parameters and fields of its ``options``, these as ``name`` or ``options.name``.

    Raises a ValueError for a name that is neither.
    """
    parameters, in_options = setting_names(cls)
    options = {name.removeprefix("options."): value for name, value in values.items() if name not in parameters}
    for name in set(options) - in_options:
        known = ", ".join(sorted(parameters | in_options))
        raise ValueError(f"{name!r} is not a setting of {cls.__name__}: expected one of {known}")
    arguments = {name: value for name, value in values.items() if name in parameters}
    return {**arguments, "options": cls._options_type(**options)} if options and cls._options_type else arguments
