"""Fit and search models: from arguments to a job and its outcome.

All models share this fit and this search. An outcome becomes lines and an exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...accounting import rounded_up
from ...engine.budget import BudgetExceededError
from ...engine.planner import Planner
from ...jobs import Job, Outcome, Reading, Source, Status, beside
from ...jobs.folder import write_model
from ...jobs.places import check_place
from ...models.search import PrivateSearch
from ...report.html import environment
from ..messages import Exit, ExitWith, object_line, report, say
from ..options import read_tried
from ..output import fit_object, warn_of_delta, warn_of_taints
from .jobs import check, given, job_of, settings_of, show_forecast, warnings_said

SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "poisson": None}


def run_fit(
    args: argparse.Namespace, cls: type[Any], source_of: Callable[[], Source], make: Callable[..., Job] = job_of
) -> int:
    """Run the job that ``make`` makes of the arguments, or the search."""
    if getattr(args, "search", None) is not None:
        return run_search(args, cls, source_of)
    start, source = time.perf_counter(), source_of()
    if _untargeted(args) and args.private is None:
        raise ValueError(
            "one of the arguments --epsilon --attack-success --noise-multiplier --non-private is required, or --budget"
        )
    model = (cls.paper if args.paper else cls)(**settings_of(cls, given(cls, args)))
    model._check_parameters()
    if args.report:
        environment()  # refused now if the page cannot be made
    job = make(args, model, source)
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
        privacy = model.privacy_
        counted = privacy.unit if privacy.rows_per_unit is None else "record"
        warn_of_delta(privacy.delta, privacy.n_records, counted)
    if report(said):
        return Exit.DONE
    say(f"error: {args.out} is written; its report cannot be printed")
    return Exit.UNREPORTED


def _untargeted(args: argparse.Namespace) -> bool:
    """Tell whether no argument sets the amount of noise."""
    return {args.budget, args.epsilon, args.target_attack_success, args.noise_multiplier} == {None}


def _ran(job: Job) -> Outcome:
    """Run a job; an error exits with a code for the spending."""
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
    """List the lines about an outcome."""
    closing = outcome.note or f"Written to {outcome.out}."
    if outcome.words is not None:
        words = f"{outcome.model.n_features_in_} words were purchased"
        closing += f" Its {words} for epsilon = {rounded_up(outcome.words.privacy_.epsilon)}."
    lines = [outcome.shown] if outcome.shown else []
    if (verdict := outcome.model.verdict_.text) and verdict not in outcome.shown:
        lines.insert(0, verdict)
    lines.append(beside.statement(outcome.model) + closing)
    if outcome.budget is not None:
        # The model is written and paid for, even if the budget cannot be read now.
        with contextlib.suppress(OSError, ValueError):
            lines.append(beside.describe_budget(outcome.budget))
    return "\n".join(lines)


def run_search(args: argparse.Namespace, cls: type[Any], source_of: Callable[[], Source]) -> int:
    """Search, and write the chosen model to its folder.

    The folder appears whole or not at all.
    """
    start = time.perf_counter()
    for option in args.command.options:
        if not option.searched and getattr(args, option.dest):
            raise ValueError(f"{option.names[-1]}: expected without it in a search")
    if _untargeted(args):
        raise ValueError("one of the arguments --epsilon --attack-success --noise-multiplier is required, or --budget")
    if source_of().purchases:
        raise ValueError("--vocab private: expected a public vocabulary in a search, such as --vocab public:en")
    tried, out = read_tried(args.command, args.tried), Path(args.out)
    for name, values in tried.items():
        if getattr(args, name, None) is None:
            setattr(args, name, values[0])  # whatever reads the data by it finds a value
    model = cls(**settings_of(cls, given(cls, args)))
    search = PrivateSearch(
        model,
        tried,
        mean_runs=args.runs,
        shape=SHAPES[args.distribution],
        held_out=args.held_out,
        score="private" if args.public is None else "public",
    )
    search.check()
    check_place(out, args.force)
    job = job_of(args, model, source_of())
    found = job.source.read(_reading(job))
    groups = found.groups if job.groups is None else job.groups
    public: dict[str, Any] = {}
    if args.public is not None:
        own, args.input = args.input, args.public
        other = replace(job, model=cls(**model.get_params(deep=False)), source=source_of())
        judged = other.source.read(_reading(other)).data
        args.input = own
        public = {"X_public": judged[0], "y_public": judged[1] if len(judged) > 1 else None}
    whose = {} if groups is None else {"groups": groups, "unit": job.unit_name}
    X, y = found.data if len(found.data) == 2 else (found.data[0], None)
    with warnings_said(args):
        search.fit(X, y, inputs=found.inputs, budget=args.budget, on_forecast=show_forecast(args), **whose, **public)
    best = search.best_estimator_
    write_model(best, out, found.n_words)
    warn_of_delta(best.privacy_.delta, best.privacy_.n_records)
    if args.json:
        said = fit_object(args, best, time.perf_counter() - start)
        said |= {"chosen": search.best_params_, "score": search.best_score_}
        report(object_line(said))
        return 0
    chosen = ", ".join(f"{name} {value}" for name, value in search.best_params_.items())
    lines = [found.shown(best), beside.statement(best) + f"Chosen: {chosen}; score {search.best_score_:.4g}."]
    report("\n".join([*filter(None, lines), f"Written to {out}."]))
    return 0


def _reading(job: Job) -> Reading:
    """Let a source read, without a run folder: a search purchases nothing."""
    return Reading(job.model, None, Planner(), None, None, job.groups, job.unit_name, lambda: None)
