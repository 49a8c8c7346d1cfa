"""The one fit–progress–save of all models, and how settings reach an estimator."""

from __future__ import annotations

import argparse
import contextlib
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .config import check
from .folder import output_folder
from .output import warn_of_delta, warn_of_taints
from .progress import ProgressLine
from .record import fit_object, print_object

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator


@dataclass(frozen=True)
class Job:
    """What a family of models adds to a fit."""

    #: Arguments of the estimator's ``fit``.
    data: tuple[Any, ...]
    #: Text files to write beside the fitted model, by name; ``privacy.txt`` is written for all.
    files: Callable[[Any], Mapping[str, str]] = lambda model: {}
    #: What to print above the statement, in whole lines.
    shown: Callable[[Any], str] = lambda model: ""


def run_fit(args: argparse.Namespace, cls: type[Any], read: Callable[[Any], Job]) -> int:
    """Fit a model and write its folder, which appears whole or not at all.

    Settings are checked and the places of the results are made sure before ``read(estimator)`` is called, which reads
    the data and may set parameters that depend on public inputs.
    """
    start = time.perf_counter()
    from ..engine.checkpoint import open_folder
    from ..engine.durable import write_file
    from ..engine.transcript import TranscriptWriter
    from ..models.persistence import write_into
    from ..models.spending import Spending

    if args.budget is None and args.target_epsilon is None and args.noise_multiplier is None and args.private is None:
        raise ValueError("one of the arguments --epsilon --noise-multiplier --non-private is required, or --budget")
    model = (cls.paper if args.paper else cls)(**settings_of(cls, given(cls, args)))
    model._check_parameters()
    out, transcript = Path(args.out), None if args.transcript is None else Path(args.transcript).resolve()
    if transcript is not None:
        TranscriptWriter(transcript, first=True)  # refuses a folder that is in use
        if transcript.is_relative_to(out.resolve()):
            raise ValueError(f"--transcript {args.transcript}: expected a folder that is not inside --out {out}")
    kept = None if args.checkpoint is None else Path(args.checkpoint).resolve()
    if kept is not None and kept.is_relative_to(out.resolve()):
        raise ValueError(f"--checkpoint {args.checkpoint}: expected a folder that is not inside --out {out}")
    if args.check:
        return check(args, model)
    with (
        output_folder(out, args.force) as folder,
        open_folder(kept, args.resume, args.checkpoint_every) or nullcontext() as run,
        Spending(model, args.budget, folder=run) as spending,
    ):
        # The folder of the run is locked before the data are read: a second job does not begin.
        job = read(model)
        with ProgressLine("fit") as progress:
            model.set_params(callback=None if args.quiet else progress).fit(
                *job.data, transcript=transcript, checkpoint=run, budget=spending
            )
        write_into(model._fitted(), folder)
        shown, statement = job.shown(model), texts.statement(model)
        for name, text in {**job.files(model), texts.PRIVACY: statement}.items():
            write_file(folder / name, lambda file, text=text: file.write(text.encode()))
    if args.json:
        print_object(fit_object(args, model, spending.budget, time.perf_counter() - start))
    else:
        print(f"{shown}\n{statement}Written to {out}." if shown else f"{statement}Written to {out}.")
        if spending.budget is not None:
            # The model is written and paid for: a budget that cannot be read now takes nothing back.
            with contextlib.suppress(OSError, ValueError):
                print(texts.charged(spending.budget))
    if model.private:
        warn_of_taints(model)
        warn_of_delta(model.privacy_.delta, model.privacy_.n_records)
    return 0


def setting_names(cls: type[PrivateEstimator]) -> tuple[set[str], set[str]]:
    """Names of an estimator's parameters, and of the fields of its ``options``."""
    options = cls._options_type
    return set(cls._parameter_names()), set() if options is None else {field.name for field in fields(options)}


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
