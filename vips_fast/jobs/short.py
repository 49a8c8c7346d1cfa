"""Run jobs of `PrivateTopics` and `PrivateClusters`."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..data.frames import named_columns
from .folder import releases_folder
from .job import Job, Status
from .progress import ProgressLine


def as_table(data: Any, columns: Sequence[str]) -> Any:
    """Turn a list of texts into a table; leave the rest."""
    if isinstance(data, (str, os.PathLike)) or named_columns(data):
        return data
    return {columns[0]: list(data)}


def run_job(
    owner: Any,
    model: Any,
    source: Any,
    *,
    out: str | os.PathLike[str] | None,
    budget: str | os.PathLike[str] | None,
    resume: bool,
    shown: bool,
) -> Any:
    """Run a job and return its fitted model.

    Without ``out`` its folder is a temporary one. It stays if the job fails after it spent something, and the error
    names it. The releases lie beside it; temporary ones go with ``owner``. ``shown`` adds a line with the progress.
    Raises the errors of `Job.run`.
    """
    own = None if out is not None else Path(tempfile.mkdtemp(prefix="vips_fast-"))
    place = Path(out or "") if own is None else own / "model"
    owner.releases_ = releases_folder(place)
    paid = None if budget is None else os.fspath(budget)
    job = Job(model, source, place, budget=paid, transcript=owner.releases_, resume=resume)
    job.progress = lambda: ProgressLine("fit") if shown else nullcontext()
    try:
        fitted = job.run().model
    except BaseException as error:
        if own is not None and job.status is not Status.PLANNED:
            error.add_note(f"The run is kept: give out={str(job.out)!r} too")
        elif own is not None:
            shutil.rmtree(own)
        raise
    if own is not None:
        shutil.rmtree(place)
        weakref.finalize(owner, shutil.rmtree, own, ignore_errors=True)
    return fitted
