"""The one fit of all models at the shell: from arguments to a job, from its outcome to lines and an exit code."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from typing import Any

from ..accounting import rounded_up
from ..engine.budget import BudgetExceededError
from ..jobs import Job, Outcome, Source, Status, beside
from ..report.html import environment
from .config import check
from .exits import Exit, ExitWith
from .jobs import given, job_of, settings_of
from .messages import report, say
from .output import warn_of_delta, warn_of_taints
from .record import fit_object, object_line
from .search import run_search


def run_fit(args: argparse.Namespace, cls: type[Any], source_of: Callable[[], Source]) -> int:
    """Run the job, or the search, that the arguments describe."""
    if getattr(args, "search", None) is not None:
        return run_search(args, cls, source_of)
    start, source = time.perf_counter(), source_of()
    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None and args.private is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier --non-private is required, or --budget")
    model = (cls.paper if args.paper else cls)(**settings_of(cls, given(cls, args)))
    model._check_parameters()
    if args.report:
        environment()  # refused now if the page cannot be made
    job = job_of(args, model, source)
    if args.check:
        return check(args, job)
    outcome = _ran(job)
    model = outcome.model
    if args.json:
        said = object_line(fit_object(args, model, time.perf_counter() - start))
    else:
        said = _said(outcome)
    if model.private:
        warn_of_taints(model)
        promise = model.privacy_
        counted = promise.unit if promise.rows_per_unit is None else "record"
        warn_of_delta(promise.delta, promise.n_records, counted)
    if report(said):
        return Exit.DONE
    say(f"error: {args.out} is written; its report cannot be printed")
    return Exit.UNREPORTED


def _ran(job: Job) -> Outcome:
    """Run a job; its error ends with the exit code that says what was spent."""
    try:
        return job.run()
    except Exception as error:
        if job.status is Status.KEPT:
            raise ExitWith(Exit.KEPT) from error
        if job.status is Status.SPENT and isinstance(error, (ValueError, OSError)):
            if not isinstance(error, BudgetExceededError):
                raise ExitWith(Exit.FAILED) from error  # bad input is for errors before anything was spent
        raise


def _said(outcome: Outcome) -> str:
    """The lines about an outcome."""
    closing = outcome.note or f"Written to {outcome.out}."
    if outcome.words is not None:
        words = f"{outcome.model.n_features_in_} words were purchased"
        closing += f" Its {words} for epsilon = {rounded_up(outcome.words.privacy_.epsilon)}."
    lines = [said for said in (outcome.shown, beside.verdict(outcome.model)) if said]
    lines.append(beside.statement(outcome.model) + closing)
    if outcome.budget is not None:
        # The model is written and paid for, even if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            lines.append(beside.describe_budget(outcome.budget))
    return "\n".join(lines)
