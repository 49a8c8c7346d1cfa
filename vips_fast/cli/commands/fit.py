"""Fit models: from arguments to a job and its outcome.

All models share this fit. An outcome becomes lines and an exit code.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import Any

from ...accounting import rounded_up
from ...engine.budget import Budget, BudgetExceededError
from ...jobs import Job, Outcome, Source, Status, beside
from ...report import paragraph
from ...report.html import environment
from ...store.text import put
from ..arguments import Fit
from ..messages import Exit, object_line, say, width
from ..output import at_shell, privacy_object, warn_of_delta, warn_of_drops, warn_of_taints
from .jobs import given, job_of, settings_of


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
        "paths": {"model": args.out, "transcript": args.transcript, "log": args.log_file},
        "budget": paid,
    }


def run_fit(args: Fit, cls: type[Any], source_of: Callable[[], Source], **more: Any) -> int:
    """Run the job of the arguments; ``more`` are settings that the command has made."""
    start, source = time.perf_counter(), source_of()
    targets = {args.budget, args.epsilon, args.target_attack_success, args.noise_multiplier}
    if targets == {None} and not args.non_private:
        raise ValueError(
            "one of the arguments --epsilon --attack-success --noise-multiplier --non-private is required, or --budget"
        )
    model = cls(**settings_of(cls, given(cls, args) | more))
    model._check_parameters()
    warn_of_drops(model._options.invalid, getattr(args, "schema", None))
    if args.report:
        environment()  # refused now if the page cannot be made
    job = job_of(args, model, source)
    outcome = _ran(job)
    model = outcome.model
    if args.json:
        said = object_line(_fit_object(args, model, time.perf_counter() - start))
    else:
        said = _said(outcome)
    if model.private:
        warn_of_taints(model)
        warn_of_delta(model.privacy_)
    if put(sys.stdout, said + "\n"):
        return Exit.DONE
    say(f"error: {args.out} is written; its report cannot be printed")
    return Exit.UNREPORTED


def _ran(job: Job) -> Outcome:
    """Run a job; an error has the exit code for the spending."""
    try:
        return job.run()
    except Exception as error:
        code = None
        if job.status is Status.KEPT:
            code = Exit.KEPT
        elif job.status is Status.SPENT and not isinstance(error, BudgetExceededError):
            code = Exit.FAILED  # bad input is for errors before anything was spent
        if code is not None:
            # An error of any class stays what it is, for --debug and its message; `main` reads what it finds here.
            error.exit_code = code  # type: ignore[attr-defined]
        raise


def _said(outcome: Outcome) -> str:
    """List the lines about an outcome."""
    model, verdict = outcome.model, outcome.model.verdict_.text
    closing = outcome.note or f"Written to {outcome.out}."
    if outcome.words is not None:
        words = f"{(n := model.n_features_in_)} {'words were' if n > 1 else 'word was'} purchased"
        closing += f" Its {words} for epsilon = {rounded_up(outcome.words.privacy_.epsilon)}."
    wrapped = paragraph(verdict, width())
    lines = [outcome.shown.replace(verdict, wrapped, 1)] if outcome.shown else []
    if verdict not in outcome.shown:
        lines.insert(0, wrapped)
    lines = [at_shell(model, text) for text in (*lines, beside.statement(model))]
    lines[-1] += closing
    if outcome.budget is not None:
        # The model is written and paid for, even if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            lines.append(beside.describe_budget(outcome.budget))
    return "\n".join(lines)
