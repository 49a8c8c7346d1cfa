"""The short ways to a job: `PrivateTopics` and `PrivateClusters`."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from ..data.frames import named_columns
from .folder import releases_folder
from .job import Job, Source, Status
from .progress import ProgressLine, is_watched


@dataclass(eq=False, repr=False)
class TextJob:
    """A job whose records are texts, by the settings of its guarantee."""

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    n_records: int | None = None
    invalid: str = "raise"
    budget: str | os.PathLike[str] | None = None
    progress: bool | None = None
    n_jobs: int | None = None
    random_state: int | None = None
    releases_: Path = field(init=False)

    def _settings(self) -> dict[str, Any]:
        """Give the settings that the model takes, too."""
        return {
            **{name: getattr(self, name) for name in ("epsilon", "delta", "n_records", "n_jobs", "random_state")},
            "options": {"invalid": self.invalid},
        }

    @property
    def _shown(self) -> bool:
        return is_watched() if self.progress is None else self.progress

    def _run(self, model: Any, source: Source, out: str | os.PathLike[str] | None, resume: bool) -> Any:
        """Run the job and return its fitted model.

        Without ``out`` only the releases are kept, in a temporary folder that goes with this object. If a budget or a
        purchase is to be kept, the job has a temporary place, too: it stays if the job fails after it spent something,
        and the error names it. Raises the errors of `Job.run`.
        """
        if resume and out is None:
            raise ValueError("resume=True: expected out= with it, beside which the run is kept")
        own = None if out is not None else Path(tempfile.mkdtemp(prefix="vips_fast-"))
        place = Path(out or "") if own is None else own / "model"
        self.releases_ = releases_folder(place)
        paid = None if self.budget is None else os.fspath(self.budget)
        kept = None if own is not None and paid is None and not source.purchases else place
        job = Job(model, source, kept, budget=paid, transcript=self.releases_, resume=resume)
        job.progress = lambda: ProgressLine("fit") if self._shown else nullcontext()
        try:
            fitted = job.run().model
        except BaseException as error:
            if own is not None and job.status is not Status.PLANNED:
                error.add_note(f"The run is kept: give out={str(job.out)!r} too")
            elif own is not None:
                shutil.rmtree(own)
            raise
        if own is not None:
            shutil.rmtree(place, ignore_errors=True)  # its model is here
            weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)
        return fitted


def as_table(data: Any, columns: Sequence[str]) -> Any:
    """Turn a list of texts into a table; leave the rest."""
    if isinstance(data, (str, os.PathLike)) or named_columns(data):
        return data
    return {columns[0]: list(data)}
