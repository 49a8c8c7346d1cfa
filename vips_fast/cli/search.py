"""``search``: a model whose settings a private search has chosen; one charge for all of its runs."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engine.planner import Planner
from ..jobs import Job, Reading, Source, beside
from ..jobs.places import check_place
from ..models.persistence import write_into
from ..models.search import PrivateSearch
from ..store.atomic import PUBLIC, new_folder, put_in_place, write_file
from .forecast import show_forecast
from .jobs import given, job_of, settings_of, warnings_said
from .messages import report
from .options import read_tried
from .output import warn_of_delta
from .record import fit_object, object_line

SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "poisson": None}


def run_search(args: argparse.Namespace, cls: type[Any], source_of: Callable[[], Source]) -> int:
    """Search, and write the chosen model to its folder, which appears whole or not at all."""
    start = time.perf_counter()
    for option in args.command.options:
        if not option.searched and getattr(args, option.dest):
            raise ValueError(f"{option.names[-1]}: expected without it in a search")
    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier is required, or --budget")
    if source_of().purchases:
        raise ValueError("--vocab: expected a public vocabulary in a search")
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
    with warnings_said():
        search.fit(X, y, inputs=found.inputs, budget=args.budget, on_forecast=show_forecast(args), **whose, **public)
    best = search.best_estimator_
    _write(best, out, {**beside.written(best, found.n_words), beside.PRIVACY: beside.statement(best)})
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


def _write(model: Any, out: Path, files: dict[str, str]) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = new_folder(out.absolute())
    try:
        write_into(model._fitted(), folder)
        for name, text in files.items():
            write_file(folder / name, lambda file, text=text: file.write(text.encode()), PUBLIC)
        put_in_place(folder, out.absolute())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
