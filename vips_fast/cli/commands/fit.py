"""Fit models, all of them alike: from arguments to a job, and from its outcome to lines and an exit code."""

from __future__ import annotations

import ast
import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from ...accounting import rounded_up
from ...engine.budget import Budget, BudgetExceededError
from ...engine.cluster import connected
from ...engine.plan import RunForecast
from ...jobs import Job, Material, Outcome, Reading, Source, Status, beside
from ...jobs.job import Difference
from ...jobs.progress import ProgressLine
from ...models.estimator import PrivateEstimator
from ...report import paragraph
from ...report.html import environment
from ..arguments import Audit, Fit, Tabulate
from ..inputs import read_labels
from ..messages import Exit, object_line, print_written, say, width
from ..output import at_shell, privacy_object, warn_of_delta, warn_of_drops, warn_of_taints
from ..signature import ALSO, in_options


@dataclass(frozen=True)
class ReadBy:
    """A source that a function of the command reads."""

    path: str
    function: Callable[[Any], Material]
    person: str | None = None
    sets: frozenset[str] = frozenset()
    #: Compares a finished model with the arguments, which no setting holds.
    unlike: Callable[[Any], Iterable[Difference]] = lambda model: ()
    purchases: bool = False

    def read(self, reading: Reading) -> Material:
        """Read the records."""
        return self.function(reading.model)


#: Options that say how records are read, which no setting of a model holds, or only if they are given.
_ASKED = """
classes encoding exposure groups label largest largest_exposure radius row_norm threshold vectors vocab_share
""".split()


def run_fit(args: Fit, cls: type[Any], source: Source, note: str = "", **more: Any) -> int:
    """Run the job of the arguments; ``note`` ends what is printed, ``more`` are settings that the command has made."""
    start = time.perf_counter()
    targets = {args.budget, args.epsilon, args.noise_multiplier}
    if targets == {None} and not args.non_private:
        raise ValueError("one of the arguments --epsilon --noise-multiplier --non-private is required, or --budget")
    model = cls(**settings_of(cls, given(cls, args) | more))
    model._check_parameters()
    warn_of_drops(model._options.invalid, getattr(args, "schema", None))
    if args.report:
        environment()  # refused now if the page cannot be made
    job = Job(
        model,
        source,
        args.out,
        groups=None if args.groups is None else read_labels(args.groups, model._options.invalid),
        **args.take("budget", "transcript", "unit", "resume", "force", "report"),
        asked=_asked(args),
        files={name: path for name in _side_files(args) if (path := getattr(args, name, None)) is not None},
        backend=lambda: _cluster(args.workers),
        on_forecast=partial(_show_forecast, args),
        progress=lambda: contextlib.nullcontext() if args.quiet else ProgressLine("fit"),
        on_warning=lambda text: say(f"warning: {in_options(type(args), text)}"),
    )
    try:
        outcome = job.run()
    except Exception as error:
        # Bad input is for errors before anything was spent. An error of any class stays what it is, for --debug and
        # its message; `main` reads what it finds here.
        code = {Status.KEPT: Exit.KEPT, Status.SPENT: Exit.FAILED}.get(job.status)
        if code is not None and (code is Exit.KEPT or not isinstance(error, BudgetExceededError)):
            error.exit_code = code  # type: ignore[attr-defined]
        raise
    model = outcome.model
    if args.json:
        said = object_line(_fit_object(args, model, time.perf_counter() - start))
    else:
        said = _said(outcome, args.out, note)
    if model.private:
        warn_of_taints(model)
        warn_of_delta(model.privacy_)
    return print_written(args.out, said)


def _asked(args: Fit) -> dict[str, Any]:
    """Collect the options about the reading of records that are not the default; of files the names."""
    # The text columns of a topic model or of clusters are in its folder already.
    names = [*_ASKED, "text"] if isinstance(args, Tabulate) else _ASKED
    files = _side_files(args)
    return {
        one.name: os.path.basename(os.path.abspath(value)) if one.name in files else value
        for one in args.options()
        if one.name in names and (value := getattr(args, one.name)) != one.default
    }


def _side_files(args: Fit) -> list[str]:
    """Name the options that are files beside the records; a table's labels are a column."""
    return ["groups", "vectors"] + ["label", "exposure"] * (getattr(args, "schema", None) is None)


def _cluster(workers: int | str | None) -> contextlib.AbstractContextManager[Any]:
    """Make the backend; None means the fit's threads."""
    if workers is None:
        return contextlib.nullcontext()
    return connected(workers) if isinstance(workers, str) else connected(n_workers=workers)


def _show_forecast(args: Fit, forecast: RunForecast) -> None:
    """Show a run's forecast before it spends anything; refuse a hopeless one.

    ``--quiet`` is about progress: what is spent on is always said. ``--anyway`` makes the refusal a warning.
    """
    if forecast.warning is None:
        say(in_options(type(args), forecast.text))
        if args.confirm is not None:
            args.confirm(forecast)
    elif args.anyway:
        warnings.warn(forecast.text, forecast.warning, stacklevel=2)
    else:
        why = forecast.text.removesuffix(".")
        raise ValueError(f"{why}; nothing was spent on it; expected other settings, or --anyway")


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
        own = name.removeprefix("options.")
        if (option := options.get(own, options.get(ALSO.get(own, "")))) is not None:
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


def _fit_object(args: Fit, model: Any, seconds: float) -> dict[str, Any]:
    """Describe a fit for ``--json``, with seconds for the operator. The guarantee does not cover the seconds."""
    paid: dict[str, Any] | None = None
    if args.budget is not None:
        paid = {"file": args.budget, "spent": None, "left": None}
        # The model is written and paid for, also if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            budget = Budget(args.budget)
            paid |= {"spent": budget.spent, "left": budget.left}
    return {
        "model": type(model).__name__,
        **privacy_object(model),
        "steps": model.n_steps_,
        "seconds": round(seconds, 3),
        "paths": {"model": args.out, "transcript": args.transcript},
        "budget": paid,
    }


def _said(outcome: Outcome, out: str, note: str) -> str:
    """List the lines about an outcome, with its place as it was typed; ``note`` follows that of a new model."""
    model, verdict, shown = outcome.model, outcome.model.verdict_.text, outcome.shown
    closing = (outcome.note or f"Written to {outcome.out}.").replace(str(outcome.out), out, 1)
    if outcome.words is not None:
        words = f"{(n := model.n_features_in_)} {'words were' if n > 1 else 'word was'} purchased"
        closing += f" Its {words} for epsilon = {rounded_up(outcome.words.privacy_.epsilon)}."
    wrapped = paragraph(verdict, width())
    lines = [wrapped] * (verdict not in shown) + [shown.replace(verdict, wrapped, 1)] * bool(shown)
    lines = [at_shell(model, text) for text in (*lines, beside.statement(model))]
    lines[-1] += closing + f" {note}" * bool(note)
    if outcome.budget is not None:
        # The model is written and paid for, even if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            lines.append(beside.describe_budget(outcome.budget))
    return "\n".join(lines)
