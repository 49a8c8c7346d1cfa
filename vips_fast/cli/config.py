"""``config``: the command of a job file, and the check of one."""

from __future__ import annotations

import argparse
import errno
import os
import shlex
from pathlib import Path
from typing import Any

from ..accounting import SelfComposedEvent, epsilon
from ..accounting.printing import rounded_down, rounded_up
from ..engine.budget import Budget
from ..engine.checkpoint import RUN
from ..engine.planner import Cost
from ..jobs import Job
from ..jobs.folder import refusal, run_folder, spent
from .forecast import forecast_rows
from .jobfile import load
from .parser import parse
from .records import text_file


def config(args: argparse.Namespace) -> int:
    """Print the command of a job file, or check it."""
    job = load(args.file)
    words = job.command.words.split()
    parsed = parse([*words, "--config", args.file])
    if not args.check:
        print(shlex.join(["vips-fast", *words, *job.arguments()]))
        return 0
    if "search" in parsed:
        raise ValueError(f"{args.file}: command = {job.command.words!r}: expected a fit with --check")
    parsed.check = True
    return int(job.command.load()(parsed))


def check(args: argparse.Namespace, job: Job) -> int:
    """Check that a fit could begin, and print its charge, from settings, public numbers and the budget.

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
    out, kept = Path(args.out), run_folder(Path(args.out))
    if (kept / RUN).exists():
        if not args.resume:
            raise ValueError(refusal(kept))
        rows.append(("cost", f"what is left of the run in {kept}: {spent(kept)}"))
    elif args.resume and job.finished(out) is not None:
        rows.append(("cost", f"none: {out} holds the finished model"))
    else:
        rows += _cost(model, job.check(words))
        rows += forecast_rows(args, model, words)
    if args.budget is not None:
        budget = Budget(args.budget)
        rows.append(
            ("budget", f"{rounded_down(budget.left)} of {rounded_up(budget.epsilon)} left for {budget.dataset}")
        )
    print("\n".join(f"{name:<8}{text}" for name, text in rows))
    return 0


def _cost(model: Any, cost: Cost | None) -> list[tuple[str, str]]:
    """Describe the work and the cost of a fit, as far as public numbers give them."""
    if not model.private or model.noise_multiplier == 0:
        return [("cost", "NOT PRIVATE: no noise is added")]
    if cost is None:
        numbers = "records" if model.n_records is None else "steps, features or vocab"
        return [("cost", f"known when the data have been read; with {numbers} given it is known beforehand")]
    event, steps, delta = cost.event, cost.count, cost.delta
    figure = rounded_up(epsilon(SelfComposedEvent(event, steps), delta))
    return [
        ("plan", f"{steps} releases, each {event}"),
        ("cost", f"epsilon = {figure} at delta = {delta:g} ({event.relation})"),
    ]


def _exists(path: str) -> None:
    if not os.access(path, os.R_OK):
        os.stat(path)  # says why, if it is not there
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
