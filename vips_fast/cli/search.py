"""``search``: a model whose settings a private search has chosen; one charge for all of its runs."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .folder import check_place
from .forecast import foretold
from .messages import report
from .options import read_tried
from .output import read_labels, warn_of_delta
from .record import fit_object, object_line

if TYPE_CHECKING:
    from .fit import Job

SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "poisson": None}


def run_search(
    args: argparse.Namespace, cls: type[Any], read: Callable[[Any, Any], Job], buys: Callable[[], bool]
) -> int:
    """Search, and write the chosen model to its folder, which appears whole or not at all."""
    from ..models.search import PrivateSearch
    from .fit import given, settings_of, unit_of, warnings_said

    start = time.perf_counter()
    for option in args.command.options:
        if not option.searched and getattr(args, option.dest):
            raise ValueError(f"{option.names[-1]}: expected without it in a search")
    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier is required, or --budget")
    if buys():
        raise ValueError("--vocab: expected a public vocabulary in a search")
    tried, out, unit = read_tried(args.command, args.tried), Path(args.out), unit_of(args)
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
    job = read(model, None)
    groups = job.groups if args.groups is None else read_labels(args.groups)
    public: dict[str, Any] = {}
    if args.public is not None:
        own, args.input = args.input, args.public
        judged = read(cls(**model.get_params(deep=False)), None).data
        args.input = own
        public = {"X_public": judged[0], "y_public": judged[1] if len(judged) > 1 else None}
    whose = {} if groups is None else {"groups": groups, "unit": unit}
    X, y = job.data if len(job.data) == 2 else (job.data[0], None)
    with warnings_said():
        search.fit(X, y, budget=args.budget, on_forecast=foretold(args), **whose, **public)
    best = search.best_estimator_
    _write(best, out, {**job.files(best), texts.PRIVACY: texts.statement(best)})
    warn_of_delta(best.privacy_.delta, best.privacy_.n_records)
    if args.json:
        said = fit_object(args, best, time.perf_counter() - start)
        said |= {"chosen": search.best_params_, "score": search.best_score_}
        report(object_line(said))
        return 0
    chosen = ", ".join(f"{name} {value}" for name, value in search.best_params_.items())
    lines = [job.shown(best), texts.statement(best) + f"Chosen: {chosen}; score {search.best_score_:.4g}."]
    report("\n".join([*filter(None, lines), f"Written to {out}."]))
    return 0


def _write(model: Any, out: Path, files: dict[str, str]) -> None:
    from ..models.persistence import write_into
    from ..store.atomic import new_folder, put_in_place, write_file

    out.parent.mkdir(parents=True, exist_ok=True)
    folder = new_folder(out.absolute())
    try:
        write_into(model._fitted(), folder)
        for name, text in files.items():
            write_file(folder / name, lambda file, text=text: file.write(text.encode()))
        put_in_place(folder, out.absolute())
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
