"""``search``: a model whose settings a private search has chosen; one charge for all of its runs."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .arguments import Kind, Parser, probability
from .config import JobParser
from .folder import check_place
from .forecast import foretold
from .output import read_labels, report, warn_of_delta
from .record import fit_object, object_line

if TYPE_CHECKING:
    from .fit import Job

SHAPES = {"geometric": 1.0, "logarithmic": 0.0, "poisson": None}
#: Options of a fit that mean nothing to a search, and what they are called.
_REFUSED = {
    "transcript": "--transcript",
    "resume": "--resume",
    "checkpoint_every": "--checkpoint-every",
    "paper": "--paper",
    "report": "--report",
    "scheduler": "--scheduler",
    "workers": "--workers",
    "prior_model": "--prior-model",
    "word_vectors": "--word-vectors",
}
_mean = Kind(float, lambda v: 1 <= v <= 1000, "a number from 1 to 1000")


def add(commands: Any, families: Any) -> None:
    """Add the command, with the models of ``fit`` and their options."""
    what = "fit a model with settings that a private search chooses"
    parser = commands.add_parser("search", help=what, description=f"{what}; all its runs are in the one statement.")
    models = parser.add_subparsers(dest="family", required=True, metavar="MODEL", parser_class=JobParser)
    for family in families:
        known = set(models.choices)
        # What else a family adds stands among the commands already.
        family.add(Parser(add_help=False).add_subparsers(), models)
        (name,) = set(models.choices) - known
        _options(models.choices[name])


def _options(parser: Parser) -> None:
    group = parser.add_argument_group("search")
    what = "an option of the fit and the values to try, separated by commas; given more than once, all combinations"
    group.add_argument("--try", dest="tried", metavar="NAME=V,V", action="append", required=True, help=what)
    group.add_argument("--runs", type=_mean, default=10.0, help="mean of the random number of runs, default 10")
    what = "distribution of that number, default geometric"
    group.add_argument("--distribution", choices=tuple(SHAPES), default="geometric", help=what)
    what = "share of the persons that are held out for a private score, default .2"
    group.add_argument("--held-out", type=probability, default=0.2, help=what)
    what = "PUBLIC data, of the form of INPUT, to judge runs by, without noise, in place of a private score"
    group.add_argument("--public", metavar="FILE", help=what)
    for action in parser._actions:
        if action.dest in ("n_components", "bound"):
            action.required = False  # may stand in --try
    parser.set_defaults(search=parser)


def _values(parser: Parser, said: list[str]) -> dict[str, list[Any]]:
    """What is to be tried, by the names of the estimator's parameters."""
    actions = {option.lstrip("-"): action for action in parser._actions for option in action.option_strings}
    found: dict[str, list[Any]] = {}
    for one in said:
        name, equals, values = one.partition("=")
        action = actions.get(name.replace("_", "-"))
        if not equals or action is None or action.nargs == 0:
            raise ValueError(f"--try {one}: expected NAME=VALUE,VALUE with the name of an option that takes a value")
        try:
            kind: Any = action.type or str
            found[action.dest] = [kind(value) for value in values.split(",")]
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"--try {one}: {error}") from None
        if action.choices is not None and not set(found[action.dest]) <= set(action.choices):
            raise ValueError(f"--try {one}: expected values of {', '.join(map(str, action.choices))}")
    return found


def run_search(
    args: argparse.Namespace, cls: type[Any], read: Callable[[Any, Any], Job], buys: Callable[[], bool]
) -> int:
    """Search, and write the chosen model to its folder, which appears whole or not at all."""
    from ..models.search import PrivateSearch
    from .fit import given, settings_of, unit_of, warnings_said

    start = time.perf_counter()
    for name, option in _REFUSED.items():
        if getattr(args, name, None):
            raise ValueError(f"{option}: expected without it in a search")
    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier is required, or --budget")
    if buys():
        raise ValueError("--vocab: expected a public vocabulary in a search")
    tried, out, unit = _values(args.search, args.tried), Path(args.out), unit_of(args)
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
