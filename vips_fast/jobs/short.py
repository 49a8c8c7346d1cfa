"""Run jobs of `PrivateTopics` and `PrivateClusters`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ..data.frames import named_columns
from .job import Job, Status
from .progress import ProgressLine


def as_table(data: Any, columns: Sequence[str]) -> Any:
    """Turn a list of texts into a table; leave the rest."""
    if isinstance(data, (str, os.PathLike)) or named_columns(data):
        return data
    return {columns[0]: list(data)}


def run_job(
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
    names it. ``shown`` adds a line with the progress. Raises the errors of `Job.run`.
    """
    own = None if out is not None else Path(tempfile.mkdtemp(prefix="vips_fast-"))
    place = Path(out or "") if own is None else own / "model"
    job = Job(model, source, place, budget=None if budget is None else os.fspath(budget), resume=resume)
    job.progress = lambda: ProgressLine("fit") if shown else nullcontext()
    try:
        return job.run().model
    except BaseException as error:
        if own is not None and job.status is not Status.PLANNED:
            error.add_note(f"The run is kept: give out={str(job.out)!r} too")
            own = None
        raise
    finally:
        if own is not None:
            shutil.rmtree(own)
