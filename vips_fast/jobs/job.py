"""A job: purchase words, fit, write the result, publish it.

A job runs once from Python and from the shell alike. Its run folder, ``OUT.run``, is locked before the data are read
and holds everything that was spent. So ``resume=True`` continues a job that was stopped or killed.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol

from ..checks import same
from ..data.frames import named_columns, names_persons, reads_once, repeats
from ..data.records import column_names, read_batches
from ..data.shards import bin_count, says_persons
from ..engine.budget import Budget, check_payer
from ..engine.checkpoint import raised
from ..engine.transcript import TranscriptWriter, read_transcript
from ..models.caveats import warn
from ..models.family import ASKED
from ..models.inputs import asked
from ..report import html_report
from ..report.dossier import kept_releases
from ..store.atomic import replace_text
from . import beside
from .folder import MODEL, JobFolder, belongs, differing, run_folder, tidy, unlike
from .places import check_place, kind_in

if TYPE_CHECKING:
    from ..engine.backend import Backend
    from ..engine.ledger import Ledger
    from ..engine.loop import Progress
    from ..engine.plan import RunForecast
    from ..models.vocabulary import PrivateVocabulary


class PurchaseError(ValueError):
    """A vocabulary purchase left no words. Its epsilon is spent."""


class Status(enum.Enum):
    """How far a job is."""

    PLANNED = "nothing was spent"
    SPENT = "releases were made"
    KEPT = "the model is in the run folder, and not at its place"
    PUBLISHED = "the model is at its place"


@dataclass(frozen=True)
class Material:
    """Records of a job, and the files that its source publishes."""

    #: Arguments of the estimator's ``fit``.
    data: tuple[Any, ...]
    #: Public texts that give the numbers their meaning; see the ``inputs`` of a fit.
    inputs: Mapping[str, str] = field(default_factory=dict)
    #: Label of the person of each record.
    groups: Any = None
    #: The purchase that chose the columns.
    words: PrivateVocabulary | None = None
    #: An earlier fit to the same records, which the statement includes.
    after: Any = None


@dataclass(frozen=True)
class Reading:
    """Means of a source while it reads."""

    model: Any
    #: None for a job without one, which purchases nothing.
    folder: JobFolder | None
    budget: Budget | None
    backend: Backend | None
    groups: Any
    unit: str
    #: Called when a purchase has spent something.
    on_spent: Callable[[], None]
    #: Called with the forecast of a purchase that is hopeless, before it is made; may raise.
    on_forecast: Callable[[RunForecast], None] | None = None


#: A setting's name, its value in a finished model, and in this job.
Difference = tuple[str, Any, Any]


class Source(Protocol):
    """Origin of the records of a job."""

    @property
    def path(self) -> Any:
        """Path of the records, or the records."""

    @property
    def person(self) -> str | None:
        """Column of the persons."""

    @property
    def sets(self) -> frozenset[str]:
        """Parameters that the source sets on the model, from public inputs."""

    def unlike(self, model: Any) -> Iterable[Difference]:
        """Compare how a finished model's records were read with this source, which reads none."""

    @property
    def purchases(self) -> bool:
        """Whether the source purchases a vocabulary."""

    def read(self, reading: Reading) -> Material:
        """Read the records; keep a purchase in the run folder."""


@dataclass(frozen=True)
class Outcome:
    """Result of a job: the fitted model, and its folder."""

    model: Any
    out: Path | None
    #: The vocabulary purchase.
    words: PrivateVocabulary | None = None
    #: The budget that paid; None if nothing was spent.
    budget: Budget | None = None
    #: Work that an earlier run had done; "" if this run did everything.
    note: str = ""

    @property
    def shown(self) -> str:
        """Lines that show the model."""
        return beside.shown(self.model)


@dataclass
class Job:
    """From records to a published folder; ``status`` tells how far `run` came, also after an error."""

    #: A `PrivateEstimator` that is not fitted; `run` fits it.
    model: Any
    #: Such as `vips_fast.jobs.TextFile`.
    source: Source
    #: Folder of the published model, which appears whole or not at all. The run folder ``OUT.run`` lies beside it. With
    #: None the model stays in memory: only for a job that nothing has to be kept for, neither a budget nor a purchase.
    out: str | Path | None = None
    #: The budget of the data set.
    budget: str | Path | Budget | None = None
    #: New folder for the releases, outside ``out``.
    transcript: str | Path | None = None
    #: Label of the person of each record, if the source does not give it.
    groups: Any = None
    #: Name of a person in the statement; None is "person".
    unit: str | None = None
    #: Options that say how the records are read and that no setting holds, such as an encoding; the column of persons
    #: joins them. They are published with the model, and a resumed job has to have the same.
    asked: Mapping[str, Any] = field(default_factory=dict)
    #: Files beside the records by name, such as those of labels and persons. A resumed run warns of files that have
    #: another time of change than when it began: its sums would be of two data sets.
    files: Mapping[str, str | os.PathLike[str]] = field(default_factory=dict)
    #: Whether to resume a stopped job; a finished one spends nothing.
    resume: bool = False
    #: Whether a model at ``out`` is replaced.
    force: bool = False
    #: Whether ``report.html`` is written too.
    report: bool = False
    #: Gives the backend for the sums, such as `vips_fast.engine.cluster.connected`.
    backend: Callable[[], AbstractContextManager[Backend | None]] = nullcontext
    #: Called before anything is spent on topics; may raise. None logs the forecast, or warns.
    on_forecast: Callable[[RunForecast], None] | None = None
    #: Gives the callback of the fit.
    progress: Callable[[], AbstractContextManager[Callable[[Progress], None] | None]] = nullcontext
    #: Called with the text of each warning; None leaves warnings to Python.
    on_warning: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        # Absolute, since a program may go to another folder while the job runs.
        self.out, self.status = None if self.out is None else Path(os.path.abspath(self.out)), Status.PLANNED
        if isinstance(self.budget, (str, os.PathLike)):
            self.budget = Path(os.path.abspath(self.budget))
        if self.source.person is not None:
            self.asked = {"person": self.source.person, **self.asked}
        if self.out is None and (self.resume or self.budget is not None or self.source.purchases):
            raise ValueError("out=None: expected a folder, since budget, purchase and resume=True need what it keeps")
        named = self.groups is not None or self.source.person is not None
        self._own = named or says_persons(self.source.path)
        for name, value in (("unit", self.unit), ("rows_per_group", self.model._options.rows_per_group)):
            if value is not None and not self._own:
                which = "person= or groups=, which say whose each record is"
                alone = "if each is of another one, leave it out: the statement is then about one record"
                raise ValueError(f"{name}={value}: expected only with {which}; {alone}")

    @property
    def unit_name(self) -> str:
        """The privacy unit of this fit."""
        return (self.unit or "person") if self._own else "record"

    def _times(self) -> dict[str, int]:
        """Find the times of change of the records' file and those beside it, which say nothing of what is in them."""
        paths = {"records": self.source.path, **self.files}
        named = {name: path for name, path in paths.items() if isinstance(path, (str, os.PathLike))}
        return {name: os.stat(path).st_mtime_ns for name, path in named.items() if os.path.isfile(path)}

    def run(self) -> Outcome:
        """Run the job, or bring it to its end.

        Raises ValueError, TypeError or OSError if settings, data or places are unusable, BudgetExceededError if the
        budget does not pay. ``status`` then tells how far the job came; the notes of the error tell how to resume.
        """
        if self.out is None:
            material = self._fit(None, self.transcript)
            return Outcome(self.model, None, material.words)
        out, kept = Path(self.out), run_folder(Path(self.out))
        transcript = None if self.transcript is None else Path(self.transcript).resolve()
        for other in (out.resolve(), kept.resolve()):
            if transcript is not None and transcript.is_relative_to(other):
                raise ValueError(f"transcript={self.transcript}: expected a folder that is not inside out={other}")
        tidy(out)
        if self.resume and not kept.exists() and (done := self.finished(out)) is not None:
            self.status = Status.PUBLISHED
            self._add_report(done, out)
            path = self.source.path if isinstance(self.source.path, str) else "the data"
            unread = " and ".join(map(str, (path, *self.files.values()))) + (" were" if self.files else " was")
            return Outcome(done, out, note=f"{out} holds the finished model; {unread} not read, and nothing was spent.")
        paid = self.budget.path if isinstance(self.budget, Budget) else self.budget
        beside_it = self.source.path, paid, self.transcript, *self.files.values()
        check_place(out, self.force, [path for path in beside_it if isinstance(path, (str, os.PathLike))])
        # The run folder is locked before the data are read: a second job does not begin.
        facts: dict[str, Any] = {"model": type(self.model).__name__, "asked": dict(self.asked), "times": self._times()}
        facts["transcript"] = None if transcript is None else str(transcript)
        with JobFolder(out, resume=self.resume, budget=self._payer, purchases=self.source.purchases, **facts) as folder:
            try:
                if folder.changed:
                    with self._warnings():
                        what = f"{' and '.join(folder.changed)}: changed since the run began that resume=True continues"
                        warnings.warn(f"{what}; expected the same records, or another place for others", stacklevel=2)
                if transcript is not None:  # after the run folder, whose refusal says how to resume
                    TranscriptWriter(transcript, first=True, resume=self.resume)  # refuses a folder that is in use
                return self._run(folder, out, kept, transcript)
            except BaseException as error:
                error.__notes__ = [advice] if (advice := folder.advice(error)) else []
                if folder.drawn and self.status is Status.PLANNED:
                    self.status = Status.SPENT
                raise

    def _run(self, folder: JobFolder, out: Path, kept: Path, transcript: Path | None) -> Outcome:
        if belongs(kept / MODEL, kept) and (done := self.finished(kept / MODEL)) is not None:
            self.status = Status.KEPT
            folder.publish(out, self.force)
            self.status = Status.PUBLISHED
            self._add_report(done, out)
            return Outcome(done, out, note=f"Written to {out}; nothing more was spent.")
        model, material = self.model, self._fit(folder, transcript)
        self.status = Status.KEPT
        folder.store(model, {**beside.texts(model), **(self._report(model) if self.report else {})})
        folder.publish(out, self.force)
        self.status = Status.PUBLISHED
        return Outcome(model, out, material.words, self._payer)

    @property
    def _payer(self) -> Budget | None:
        return None if self.budget is None else Budget.of(self.budget)

    def _fit(self, folder: JobFolder | None, transcript: str | Path | None) -> Material:
        """Read the records and fit the model, which a folder keeps."""
        model, budget = self.model, self._payer
        if budget is not None and not (folder is not None and folder.begun) and not self.source.purchases:
            # A fit that the budget refuses does not read the data, if public numbers say so.
            n_bins = bin_count(self.source.path)
            model.cost(None, unit=self.unit_name, n_bins=n_bins, budget=budget)
        with self.backend() as backend, self._warnings():
            known = self.groups, self.unit_name, self._spent, self.on_forecast
            reading = Reading(model, folder, budget, backend, *known)
            material = self.source.read(reading)
            groups = material.groups if self.groups is None else self.groups
            if groups is None and self.source.person is not None:
                raise ValueError(f"person={self.source.person}: this input has no columns; expected groups=")
            if groups is None and model.private:
                warn_of_persons(self.source.path, model._options.invalid)
            with self.progress() as callback:
                model.fit(
                    *material.data,
                    groups=groups,
                    unit=None if groups is None else self.unit_name,
                    inputs={
                        **material.inputs,
                        **({ASKED: f"{json.dumps(self.asked, sort_keys=True)}\n"} if self.asked else {}),
                    },
                    transcript=transcript,
                    checkpoint=folder,
                    budget=budget,
                    on_forecast=self.on_forecast,
                    backend=backend,
                    callback=callback,
                    **({} if (after := material.words or material.after) is None else {"after": after}),
                )
        return material

    def _spent(self) -> None:
        self.status = Status.SPENT

    def _add_report(self, model: Any, out: Path) -> None:
        """Write the report beside a model that an earlier job made, if it is wanted and not there."""
        if self.report and not (out / beside.REPORT).exists():
            for name, text in self._report(model).items():
                replace_text(out / name, text)

    def _report(self, model: Any) -> dict[str, str]:
        """Write the report; if it fails, warn and keep the model."""
        try:
            return {beside.REPORT: html_report(model)}
        except Exception as error:
            with self._warnings():
                text = f"no report ({type(error).__name__}); vips-fast show makes it from the written model"
                warnings.warn(text, stacklevel=2)
            return {}

    @contextlib.contextmanager
    def _warnings(self) -> Iterator[None]:
        if (on_warning := self.on_warning) is None:
            yield
            return
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: on_warning(str(message))
            yield

    def finished(self, folder: Path) -> Any:
        """Load a finished model with the settings of this job.

        Returns None if there is no model, or one with other settings that may be replaced. Raises ValueError, with
        both values, if it may not be replaced, or if another budget paid for it. Settings that the data or the budget
        decide are not compared, nor records that are not there.
        """
        if not folder.is_dir() or not any(folder.iterdir()):
            return None
        there = kind_in(folder).load(folder)
        found = next((one for one in self._differences(there) if not same(one[2], one[1])), None)
        if found is not None and self.force and folder == self.out:
            return None
        # Before the settings that a budget decides, which differ without it.
        check_payer(there.ledger_, self._payer, f"the model in {folder}")
        if found is None:
            return there
        raise ValueError(unlike(f"{folder} holds a finished model", *found))

    def _differences(self, there: Any) -> Iterator[Difference]:
        """List what may differ from a finished model, each with both values."""
        mine, theirs = ({"model": type(one).__name__, **one._settings()} for one in (self.model, there))
        free = {"n_jobs", *self.source.sets}
        if self.budget is not None:
            free |= {name for name in ("delta", "noise_multiplier") if mine[name] is None}
        if raised(theirs, mine) and there.privacy_.lost and there.privacy_.epsilon > theirs["epsilon"]:
            free.add("epsilon")  # it paid for a release that was lost
        yield from ((name, theirs.get(name), mine[name]) for name in sorted(mine.keys() - free))
        if self.transcript is not None and not _keeps(self.transcript, there.ledger_):
            kept = None if kept_releases(there.ledger_) is None else "another folder"
            yield "transcript", kept, str(self.transcript)
        yield from differing(asked(there._fitted().public), self.asked)
        if not isinstance(self.source.path, (str, os.PathLike)) or os.path.exists(self.source.path):
            yield "unit", there.privacy_.unit, self.unit_name
            yield from self.source.unlike(there)


def _keeps(transcript: str | Path, ledger: Ledger) -> bool:
    """Tell whether a transcript's last run is the one that ended a ledger, by their records."""
    try:
        last = list(read_transcript(transcript)[-1].records)
    except (OSError, ValueError):
        return False
    return [record for record in ledger.records if record["kind"] != "close"][-len(last) :] == last


def warn_of_persons(source: Any, invalid: str) -> None:
    """Warn if a column looks like a person identifier and has repeats. With ``invalid="drop"`` its name decides."""
    if isinstance(source, (str, os.PathLike)):
        if not Path(source).is_file() or Path(source).suffix in (".npy", ".npz"):
            return
        try:
            names = column_names(source, keys=invalid != "drop")
        except (ValueError, OSError, ImportError):
            names = []  # counts have no names
    else:
        names = list(named_columns(source) or ())
    for name in filter(names_persons, names):
        with contextlib.suppress(ValueError, OSError, ImportError):
            known = invalid == "drop" or reads_once(source)
            if known or repeats(batch[name] for batch in read_batches(source, [name])):
                said = "looks like a person's" if known else "repeats"
                warn(f"column {name!r} {said}: rows of one person? give person={quote(name)}")
