"""A night of a running sum, as a job.

It reads the records, counts them and publishes the tables so far. A night has no run folder: its private folder
(`vips_fast.engine.nights`) has the lock, and records the release before it leaves the process. Run a job that was
killed again, with the same records. It publishes the very release that was recorded, or else counts the night.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..engine.budget import Budget
from ..engine.nights import NightsFolder
from ..engine.planner import Cost, Planner
from ..engine.transcript import TranscriptWriter
from .folder import write_model
from .job import Job, Outcome, Reading, Status, warn_of_persons
from .places import check_place, kind_in


@dataclass
class NightJob(Job):
    """From a night's records to the published tables so far.

    Parameters
    ----------
    night : str
        Name of the night, public.
    state : path
        The private folder of the nights.
    **others
        As for `Job`. ``model`` is a `vips_fast.NightlyTables` with the settings of these nights; ``out`` holds the
        tables of the nights before, and then those with this night. With ``resume``, a night that ``out`` has already
        spends nothing; without it, the night is refused.
    """

    night: str = ""
    state: str | Path = ""

    def free(self) -> str:
        """See `Job.free`; only the first night has a cost."""
        names = self._names(self._so_far())
        if self.night in names:
            if not self.resume:
                raise self._counted()
            return f"{self.out} has night {self.night} already"
        return "the first night paid for all nights" if names else ""

    def check(self, n_features: int | None = None) -> Cost | None:
        """See `Job.check`, for the first night."""
        self.model._check_parameters()
        return self._cost(Planner(), None if self.budget is None else Budget.of(self.budget), n_features)

    def _counted(self) -> ValueError:
        return ValueError(f"night={self.night!r}: is counted already; expected the name of a new night, or resume=True")

    def check_transcript(self) -> Path | None:
        """See `Job.check_transcript`; the nights share one folder."""
        if self.transcript is None:
            return None
        path, out = Path(self.transcript).resolve(), Path(self.out)
        TranscriptWriter(path, first=not out.exists(), resume=True)
        for other in (out.resolve(), Path(self.state).resolve()):
            if path.is_relative_to(other):
                raise ValueError(f"transcript={self.transcript}: expected a folder that is not inside {other}")
        return path

    def finished(self, folder: Path) -> Any:
        """Load the tables that hold this night already, or None."""
        tables = self._so_far()
        return tables if self.night in self._names(tables) else None

    @staticmethod
    def _names(tables: Any) -> tuple[str, ...]:
        return () if tables._result is None else tuple(tables.night_names)

    def _so_far(self) -> Any:
        """Load the tables of earlier nights, with the settings given now."""
        out = Path(self.out)
        check_place(out, force=True)
        if not out.is_dir() or not any(out.iterdir()):
            return self.model
        kind: Any = type(self.model)
        if kind_in(out) is not kind:
            raise ValueError(f"out={out}: holds a {kind_in(out).__name__}; expected the tables of the nights before")
        usual, given = kind().get_params(), self.model.get_params()
        return kind.load(out).set_params(**{name: given[name] for name in given if given[name] != usual[name]})

    def run(self) -> Outcome:
        """Count the night, or bring an earlier run's night to its end.

        Raises as `Job.run`. An error after the night was recorded has a note that says how to publish it.
        """
        out, transcript = Path(self.out), self.check_transcript()
        if self.resume and (done := self.finished(out)) is not None:
            self.status = Status.PUBLISHED
            return Outcome(done, out, note=f"{out} has night {self.night} already; nothing was spent.")
        with NightsFolder(self.state) as folder:
            tables = self._so_far()  # with the lock, so that no other night comes between
            try:
                return self._add(tables, folder, out, transcript)
            except BaseException as error:
                if folder.drawn:
                    self.status = Status.SPENT
                    error.__notes__ = [f"Night {self.night} is in {self.state}; the same line again publishes it"]
                raise

    def _add(self, tables: Any, folder: NightsFolder, out: Path, transcript: Path | None) -> Outcome:
        if self.night in self._names(tables):
            raise self._counted()
        budget = None if self.budget is None else Budget.of(self.budget)
        with self.backend() as backend, self._warnings():
            known = self.groups, self.unit_name, self._spent, self.on_forecast
            material = self.source.read(Reading(tables, None, Planner(), budget, backend, *known))
            groups = material.groups if self.groups is None else self.groups
            if groups is None and tables.private:
                warn_of_persons(self.source.path, tables.invalid)
            first: dict[str, Any] = {} if tables._result else {"after": material.after}
            with self.progress() as callback:
                tables.set_params(callback=callback or tables.callback).add_night(
                    self.night,
                    *material.data,
                    state=folder,
                    transcript=transcript,
                    groups=groups,
                    unit=None if groups is None else self.unit_name,
                    budget=budget,
                    inputs=material.inputs,
                    on_forecast=self.on_forecast,
                    **first,
                )
            write_model(tables, out, material.n_words, self._report(tables) if self.report else {})
        self.status = Status.PUBLISHED
        return Outcome(tables, out, material.shown(tables), None, budget)
