"""The one fit–progress–save of all models."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import texts
from .folder import output_folder
from .output import warn_of_delta
from .progress import ProgressLine
from .settings import estimator_arguments, given_settings

if TYPE_CHECKING:
    from ..models.estimator import PrivateEstimator


@dataclass(frozen=True)
class Job:
    """What a family of models adds to a fit.

    Attributes
    ----------
    data : tuple
        Arguments of the estimator's ``fit``.
    files : callable(model) -> mapping
        Text files to write beside the model, by name; ``privacy.txt`` is written for all.
    shown : callable(model) -> str
        What to print above the statement; may be empty.
    """

    data: tuple[Any, ...]
    files: Callable[[Any], Mapping[str, str]] = lambda model: {}
    shown: Callable[[Any], str] = lambda model: ""


def run_fit(args: argparse.Namespace, cls: type[PrivateEstimator], read: Callable[[Any], Job]) -> int:
    """Fit a model and write its folder, which appears whole or not at all.

    Settings are checked and the place of the result is made sure before data are read, and everything is refused
    that can be before anything is spent.

    Parameters
    ----------
    args : Namespace
    cls : estimator class
    read : callable(estimator) -> Job
        Reads the data; may set parameters of the estimator that depend on public inputs.
    """
    from ..engine.durable import write_file
    from ..engine.transcript import TranscriptWriter
    from ..models import persistence

    settings = estimator_arguments(cls, given_settings(cls, args))
    model: Any = (cls.paper if args.paper else cls)(**settings)
    model._check_parameters()
    out = Path(args.out)
    if args.transcript is not None:
        TranscriptWriter(args.transcript, first=True)  # refuses a folder that is in use
        if Path(args.transcript).resolve().is_relative_to(out.resolve()):
            raise ValueError(f"--transcript {args.transcript}: expected a folder outside of --out {out}")
    with output_folder(out, args.force) as folder:
        job = read(model)
        with ProgressLine("fit") as progress:
            model.set_params(callback=None if args.quiet else progress)
            model.fit(*job.data, transcript=args.transcript)
        persistence.write_into(model._fitted(), folder)
        statement = texts.statement(model)
        for name, text in {**job.files(model), texts.PRIVACY: statement}.items():
            data = text.encode()
            write_file(folder / name, lambda file, data=data: file.write(data))
    shown = job.shown(model)
    print(f"{shown}\n\n{statement}Written to {out}." if shown else f"{statement}Written to {out}.")
    privacy = model.privacy_
    if privacy.private:
        warn_of_delta(privacy.delta, privacy.n_records)
    return 0
