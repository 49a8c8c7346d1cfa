"""The one fit–progress–save of all models, and how settings reach an estimator."""

from __future__ import annotations

import argparse
import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .config import check
from .exits import Exit
from .folder import check_place, kind_in
from .forecast import foretold
from .messages import report, say
from .output import read_labels, warn_of_delta, warn_of_taints
from .progress import ProgressLine
from .record import fit_object, object_line
from .search import run_search

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator
    from .runs import JobFolder


@dataclass(frozen=True)
class Job:
    """What a family of models adds to a fit."""

    #: Arguments of the estimator's ``fit``.
    data: tuple[Any, ...]
    #: Text files to write beside the fitted model, by name; ``privacy.txt`` is written for all.
    files: Callable[[Any], Mapping[str, str]] = lambda model: {}
    #: What to print above the statement, in whole lines.
    shown: Callable[[Any], str] = lambda model: ""
    #: Whose each record is, where the data say it; ``--groups`` says it otherwise.
    groups: Any = None
    #: The private vocabulary that the columns were bought with, if they were.
    after: Any = None


def run_fit(
    args: argparse.Namespace,
    cls: type[Any],
    read: Callable[[Any, JobFolder], Job],
    buys: Callable[[], bool] = lambda: False,
) -> int:
    """Fit a model and write its folder, which appears whole or not at all.

    Settings are checked and the places of the results are made sure before ``read(estimator, run)`` is called, which
    reads the data and may set parameters that depend on public inputs, and keep in the run's folder what it has bought.
    Where ``buys()``, it charges the budget itself, before anything is reserved for the fit.
    """
    if getattr(args, "search", None) is not None:
        return run_search(args, cls, read, buys)
    start = time.perf_counter()
    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None and args.private is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier --non-private is required, or --budget")
    model = (cls.paper if args.paper else cls)(**settings_of(cls, given(cls, args)))
    model._check_parameters()
    if args.report:
        from ..report.html import environment

        environment()  # refused now, where it cannot be made
    if args.check:
        return check(args, model)
    model, shown, closing, budget = _fitted(args, model, read, buys)
    if args.json:
        said = object_line(fit_object(args, model, time.perf_counter() - start))
    else:
        said = _said(model, shown, closing, budget)
    if model.private:
        warn_of_taints(model)
        promise = model.privacy_
        counted = promise.unit if promise.rows_per_unit is None else "record"
        warn_of_delta(promise.delta, promise.n_records, counted)
    if report(said):
        return Exit.DONE
    say(f"error: {args.out} is written; its report cannot be printed")
    return Exit.UNREPORTED


def _fitted(
    args: argparse.Namespace, model: Any, read: Callable[[Any, JobFolder], Job], buys: Callable[[], bool]
) -> tuple[Any, str, str, Any]:
    """The fitted model, which has its place in ``--out``; what to print above and below its statement; the budget."""
    from ..data.shards import bin_count
    from ..engine.budget import Budget
    from ..engine.planner import Planner
    from .runs import MODEL, JobFolder, belongs, run_folder, tidy

    out, transcript, unit = Path(args.out), check_transcript(args), unit_of(args)
    kept = run_folder(out)
    tidy(out)
    if args.resume and not kept.exists() and (done := finished(out, model, args)) is not None:
        return done, "", f"{out} holds the finished model; nothing was spent.", None
    check_place(out, args.force)
    # The folder of the run is locked before the data are read: a second job does not begin.
    with JobFolder(out, resume=args.resume, every=args.checkpoint_every) as run:
        try:
            if belongs(kept / MODEL, kept) and (done := finished(kept / MODEL, model, args)) is not None:
                run.publish(out, args.force)
                return done, "", f"Written to {out}; nothing more was spent.", None
            args.planner, budget = Planner(), None if args.budget is None else Budget(args.budget)
            if budget is not None and not run.begun and not buys():
                # A fit that the budget refuses does not read the data, if public numbers say so.
                known = {"unit": unit, "n_bins": bin_count(args.input)}
                model.cost(budget=budget, planner=args.planner, **known)
            with _cluster(args) as args.backend, warnings_said():
                job = read(model, run)
                groups = job.groups if args.groups is None else read_labels(args.groups)
                if groups is None and args.person is not None:
                    raise ValueError(f"--person {args.person}: this input has no columns; expected --groups FILE")
                if groups is None and model.private:
                    _warn_of_persons(args.input)
                bought = {} if job.after is None else {"after": job.after}
                with ProgressLine("fit") as progress:
                    model.set_params(callback=None if args.quiet else progress).fit(
                        *job.data,
                        groups=groups,
                        unit=None if groups is None else unit,
                        transcript=transcript,
                        checkpoint=run,
                        budget=budget,
                        planner=args.planner,
                        on_forecast=foretold(args),
                        backend=args.backend,
                        **bought,
                    )
            try:
                files = {**job.files(model), texts.PRIVACY: texts.statement(model)}
                run.store(model, {**files, **(_report_file(model, files) if args.report else {})})
                run.publish(out, args.force)
            except Exception as error:
                error.exit_code = Exit.KEPT  # type: ignore[attr-defined]
                raise
        except BaseException as error:
            error.__notes__ = [advice] if (advice := run.advice) else []
            if run.drawn and isinstance(error, (ValueError, OSError)) and not hasattr(error, "exit_code"):
                error.exit_code = Exit.FAILED  # type: ignore[union-attr]  # bad input is what nothing was spent for
            raise
    closing = f"Written to {out}."
    if job.after is not None:
        closing += f" Its {model.n_features_in_} words were bought for epsilon = {job.after.privacy_.epsilon:.3g}."
    return model, job.shown(model), closing, budget


def _report_file(model: Any, files: Mapping[str, str]) -> dict[str, str]:
    """The report beside a fitted model; none, and a word of it, where it fails: the model is worth more."""
    try:
        return {texts.REPORT: texts.report(model, files)}
    except Exception as error:
        say(f"warning: no report ({type(error).__name__}); vips-fast report makes it from the written model")
        return {}


def _cluster(args: argparse.Namespace) -> contextlib.AbstractContextManager[Any]:
    """The backend that the arguments name; None is the fit's own threads."""
    if args.scheduler is None and args.workers is None:
        return contextlib.nullcontext()
    from ..engine.cluster import connected

    return connected(args.scheduler, args.workers)


def _warn_of_persons(source: str) -> None:
    """Say that a column of the input is called after persons and repeats."""
    from ..data.frames import PERSON_COLUMNS, names_persons, repeats
    from ..data.records import column_names, read_batches

    if not Path(source).is_file() or Path(source).suffix in (".npy", ".npz"):
        return
    try:
        names = column_names(source)
    except (ValueError, OSError, ImportError):
        names = list(PERSON_COLUMNS)  # JSON Lines have no header, and counts no names
    for name in filter(names_persons, names):
        with contextlib.suppress(ValueError, OSError, ImportError):
            if repeats(batch[name] for batch in read_batches(source, [name])):
                warnings.warn(f"column {name!r} repeats: rows of one person? give --person {name}", stacklevel=2)


def unit_of(args: argparse.Namespace) -> str:
    """What neighbours of this fit differ by."""
    if args.groups is not None and args.person is not None:
        raise ValueError("--person: leave out --groups")
    from ..data.shards import says_persons

    if args.groups is None and args.person is None and not says_persons(args.input):
        for option, value in (("--unit", args.unit), ("--rows-per-group", args.rows_per_group)):
            if value is not None:
                which = "--groups or --person, which say whose each record is"
                raise ValueError(f"{option} {value}: expected only with {which}")
        return "record"
    return args.unit or "person"


def check_transcript(args: argparse.Namespace) -> Path | None:
    """Where the transcript goes, or None; raises a ValueError or OSError where it cannot."""
    from ..engine.transcript import TranscriptWriter
    from .runs import run_folder

    if args.transcript is None:
        return None
    path, out = Path(args.transcript).resolve(), Path(args.out)
    TranscriptWriter(path, first=True, resume=args.resume)  # refuses a folder that is in use
    for other in (out.resolve(), run_folder(out).resolve()):
        if path.is_relative_to(other):
            raise ValueError(f"--transcript {args.transcript}: expected a folder that is not inside --out {other}")
    return path


def finished(folder: Path, model: Any, args: argparse.Namespace) -> Any:
    """The model in a folder, if it is of the settings of an unfitted one; None if it is of others and may be replaced.

    Raises a ValueError that names both sides where it may not. Settings are compared but for what the data, or what is
    left of a budget, decide.
    """
    from ..models.settings import same

    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    there = kind_in(folder).load(folder)
    mine, theirs = ({"model": type(one).__name__, **one.get_params()} for one in (model, there))
    made = any(getattr(args, name, None) for name in ("prior_model", "word_vectors"))
    free = {"n_jobs", "callback", "classes", *(["topic_word_prior"] if made else [])}
    if args.budget is not None:
        free |= {name for name in ("target_delta", "noise_multiplier") if mine[name] is None}
    for name in sorted(mine.keys() - free):
        if not same(mine[name], theirs.get(name)):
            if args.force and folder == Path(args.out):
                return None
            raise ValueError(
                f"{folder} holds a finished model with {name} = {theirs.get(name)!r}, this fit has {mine[name]!r}; "
                "expected the same with --resume"
            )
    return there


@contextlib.contextmanager
def warnings_said() -> Iterator[None]:
    """Let a warning be a line on standard error that cannot fail."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


def _said(model: Any, shown: str, closing: str, budget: Any) -> str:
    lines = [shown] if shown else []
    lines.append(texts.statement(model) + closing)
    if budget is not None:
        # The model is written and paid for: a budget that cannot be read now takes nothing back.
        with contextlib.suppress(OSError, ValueError):
            lines.append(texts.charged(budget))
    return "\n".join(lines)


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
