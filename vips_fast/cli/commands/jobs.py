"""Make a job from arguments: settings, source, forecast, terminal."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...accounting import Relation, SelfComposedEvent, attack_success, epsilon
from ...accounting.printing import right_guesses, rounded_down, rounded_up
from ...engine.budget import Budget
from ...engine.checkpoint import RUN
from ...engine.cluster import connected
from ...engine.planner import Cost
from ...engine.request import RunForecast
from ...jobs import Job, Material, Reading, Source
from ...jobs.folder import refusal, run_folder, spent
from ...jobs.progress import ProgressLine
from ...models.estimator import PrivateEstimator
from ...models.family import family_of
from ..inputs import read_labels, text_file
from ..messages import say
from ..options import in_options


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
    """Make the job of the arguments."""
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
        on_warning=lambda text: say(f"warning: {in_options(args.command, text)}"),
    )
    for option, value in (("--unit", args.unit), ("--rows-per-group", args.rows_per_group)):
        if value is not None and job.unit_name == "record":
            which = "--groups or --person, which say whose each record is"
            raise ValueError(f"{option} {value}: expected only with {which}")
    return job


def _cluster(args: argparse.Namespace) -> contextlib.AbstractContextManager[Any]:
    """Make the backend of the arguments; None means the fit's threads."""
    if args.scheduler is None and args.workers is None:
        return contextlib.nullcontext()
    return connected(args.scheduler, args.workers)


def setting_names(cls: type[PrivateEstimator]) -> tuple[set[str], set[str]]:
    """Return the names of an estimator's parameters and ``options``."""
    options = cls._options_type
    return set(cls._parameter_names()), set() if options is None else {one.name for one in fields(options)}


def given(cls: type[PrivateEstimator], args: argparse.Namespace) -> dict[str, Any]:
    """Collect the command line's settings of an estimator, by name."""
    # An option with a file may have a setting's name; the job reads the file.
    known = set.union(*setting_names(cls)) - {option.dest for option in args.command.options if option.path}
    return {name: value for name, value in vars(args).items() if name in known and value is not None}


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
    return {**arguments, "options": cls._options_type(**options)} if options and cls._options_type else arguments


def show_forecast(args: argparse.Namespace) -> Callable[[RunForecast], None]:
    """Show a run's forecast before it spends anything; refuse a hopeless one.

    ``--quiet`` keeps the forecast back, ``--anyway`` makes the refusal a warning.
    """

    def show(forecast: RunForecast) -> None:
        if forecast.warning is None:
            if not args.quiet:
                say(forecast.text)
            getattr(args, "confirm", lambda forecast: None)(forecast)
        elif args.anyway:
            warnings.warn(forecast.text, forecast.warning, stacklevel=2)
        else:
            raise _refusal(forecast.text)

    return show


def _refusal(why: str) -> ValueError:
    return ValueError(f"{why}; nothing was spent on it; expected other settings, or --anyway")


def forecast_rows(args: argparse.Namespace, model: Any, words: int | None) -> list[tuple[str, str]]:
    """Show the forecast of a checked fit, if its arguments say enough."""
    if family_of(model).name != "lda" or args.paper or not model.private or args.public_prior:
        return []
    if None in (words, model.n_records) or not (model.epsilon or model.target_attack_success or model.noise_multiplier):
        return []
    planned = model.plan(int(model.n_records or 1), int(words or 1))
    if planned.hopeless and not args.anyway:
        raise _refusal(planned.forecast())
    return [("expect", planned.forecast().partition(": ")[2])]


def check(args: argparse.Namespace, job: Job) -> int:
    """Check that a fit could begin, and print its charge.

    Raises OSError or ValueError as the fit would, BudgetExceededError where the budget does not hold it.
    """
    model = job.model
    for option in args.command.options:
        path = getattr(args, option.dest)
        if option.reads and path is not None and not option.is_word(path):
            _exists(path)
    words = getattr(args, "features", None)
    if words is None and getattr(args, "vocab", None) is not None:
        words = len(text_file(args).public_words() or ()) or None
    inputs = args.input if isinstance(args.input, list) else [args.input]
    rows = [("fit", f"{type(model).__name__} of {' '.join(inputs)}, to {args.out}")]
    job.check_transcript()
    kept = run_folder(Path(args.out))
    if (kept / RUN).exists():
        if not args.resume:
            raise ValueError(refusal(kept))
        rows.append(("cost", f"what is left of the run in {kept}: {spent(kept)}"))
    elif args.resume and job.finished(Path(args.out)) is not None:
        rows.append(("cost", f"none: {args.out} holds the finished model"))
    else:
        rows += _cost(job, job.check(words))
        rows += forecast_rows(args, model, words)
    if args.budget is not None:
        budget = Budget(args.budget)
        rows.append(
            ("budget", f"{rounded_down(budget.left)} of {rounded_up(budget.epsilon)} left for {budget.dataset}")
        )
    print("\n".join(f"{name:<8}{text}" for name, text in rows))
    return 0


def _cost(job: Job, cost: Cost | None) -> list[tuple[str, str]]:
    """Describe a fit's work and cost, as far as public numbers do.

    A purchase before the fit takes its part of both, so the attacker's share is not known yet.
    """
    model = job.model
    if not model.private or model.noise_multiplier == 0:
        return [("cost", "NOT PRIVATE: no noise is added")]
    if cost is None:
        numbers = "records" if model.n_records is None else "steps, features or vocab"
        return [("cost", f"known when the data have been read; with {numbers} given it is known beforehand")]
    event, steps, delta = cost.event, cost.count, cost.delta
    run = SelfComposedEvent(event, steps)
    risk = right_guesses(attack_success(run), job.unit_name, event.relation == Relation.ADD_REMOVE)
    return [
        ("plan", f"{steps} releases, each {event}"),
        ("cost", f"epsilon = {rounded_up(epsilon(run, delta))} at delta = {delta:g} ({event.relation})"),
        *[("risk", risk)] * (not job.source.purchases),
    ]


def _exists(path: str) -> None:
    if not os.access(path, os.R_OK):
        os.stat(path)  # says why, if it is not there
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
