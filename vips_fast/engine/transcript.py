"""Keep a fit's releases, so that anyone can make its model again.

A release is public, and a model is a function of its releases and of public numbers. So a reader of the transcript can
rebuild the model without the data and compare it with the published one. A transcript is a folder with a folder for
each run, ``run-0000``, …, which holds

    run.jsonl             a log: class, settings, public facts and inputs, plan; then the ledger's records of the run
    run.npz               settings that are arrays, classes
    release-000000.npz    each release, …, as `vips_fast.engine.releases` stores it

The folder of a run appears when the run is done, whole or not at all. Until then its releases are in the run's own
folder (`vips_fast.engine.checkpoint`), from which a killed run resumes, and the transcript gets links to these files.
Without such a folder they are in a part beside their place. Of lost releases only the ledger has a record. If the
model of a further run was not saved, as after a kill, the next run puts that run aside as ``lost-…``. Its own model
does not follow from it, and its statement does not count it: a transcript to publish is one without. So does a run
that finds another one in its place at its end. Only the same run, with the same releases, is ever replaced.
"""

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..store.atomic import delete, link_file, make_folder, new_folder, put_in_place, sweep, write_file
from ..store.folder import Folder
from ..store.limits import parse_json
from ..store.log import Log, LogDamagedError, Record, encode
from ..store.npz import write_npz
from ..store.owned import Own, is_empty, named
from .ledger import Ledger
from .model import Release
from .plan import RunPlan
from .releases import release_digest, release_name, release_of, release_writer, unsealed
from .result import FORMAT, Public, joined, parted
from .sampling import starts_event

if TYPE_CHECKING:
    from .checkpoint import RunFolder

RUN, ARRAYS, _KIND = "run.jsonl", "run.npz", "run"
#: Names of a run's files, except the releases'.
TRANSCRIPT_FILES = frozenset((RUN, ARRAYS))


@dataclass(frozen=True)
class Run:
    """One run of a transcript."""

    path: Path
    kind: str
    settings: Mapping[str, Any]
    public: Public
    #: As in the ledger's plan record.
    plan: dict[str, Any]
    taints: tuple[str, ...]
    #: Head of the ledger that the run continued.
    follows: str | None
    #: Steps done before the run.
    n_steps: int
    #: Whether it was a call of ``partial_fit``.
    partial: bool
    #: Those of the ledger from this run, without the one that closes it.
    records: tuple[Record, ...]

    def ledger(self, before: Ledger, plan: RunPlan) -> Ledger:
        """Return the ledger with this run's records, compared with its plan.

        Raises ValueError if no run of this plan writes one of the records, or the run's steps made other releases.
        """
        ledger, event, lost = before.copy(), plan.event, before.lost
        known: dict[str, Any] = {"plan": plan.public()}
        if event is not None:
            known |= {"clip_norm": plan.mechanism.clip_norm, "sensitivity": plan.mechanism.sensitivity}
        step, first = 0, True
        try:
            for record in self.records:
                ledger.replay(record)
                if record["kind"] == "resume":
                    step, first = record["step"], True
                elif record["kind"] == "release" and event is not None:
                    # A torn line of the ledger is counted in full.
                    at = plan.event_of(starts_event(plan.sampler, step, first))
                    if at is None or record["event"] not in (at.to_dict(), event.to_dict()):
                        raise ValueError
                    step, first = step + 1, False
                other = record["kind"] == "release" and record.get("part") != plan.part
                if other or record["kind"] == "close" or any(record[k] != known[k] for k in record if k in known):
                    raise ValueError
            n_releases = 0 if event is None else self.done + ledger.lost - lost
            if len(ledger) - len(before) != n_releases or not set(plan.taints) <= set(ledger.taints):
                raise ValueError
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            raise ValueError(f"{self.path / RUN}: its records are not those of a run of this plan") from None
        return ledger

    @property
    def done(self) -> int:
        """Number of steps done: all planned, or all that were affordable."""
        ends = [record.get("n_steps") for record in self.records if record.get("kind") == "resume"]
        return int([self.plan["n_steps"], *ends][-1])

    def releases(self) -> Iterator[Release]:
        """Return the releases in order; ValueError if one is missing or malformed."""
        with Folder(self.path, follow=False) as folder:
            for number in range(self.done):
                name, step = release_name(number), self.n_steps + number
                path = self.path / name
                if not folder.holds(name):
                    raise ValueError(f"{path}: missing; the transcript is not complete")
                arrays, said = folder.arrays(name), "expected a release as fit wrote it"
                release = release_of(unsealed(arrays, path, said), arrays, path, said)
                if release.step != step:
                    raise ValueError(f"{path}: is of step {release.step}; expected that of {step}")
                yield release


class TranscriptWriter:
    """Writes one run into the folder of a transcript.

    A ``first`` run needs a new or an empty folder; others are appended to it. With ``resume`` the run may be there
    already. Raises FileExistsError if a first run finds something there.
    """

    def __init__(self, path: str | Path, *, first: bool, resume: bool = False):
        self._root, self._first = Path(path).absolute(), first
        if self._root.is_dir():
            sweep(self._root / _run_name(0))  # of a killed run without a folder
        if self._root.exists() and not (self._root.is_dir() and (resume or not first or is_empty(self._root))):
            raise FileExistsError(self._taken)
        #: Digest of each release so far.
        self.digests: list[str] = []
        #: The run in the making.
        self._part: Path | None = None

    def begin(
        self,
        kind: str,
        settings: Mapping[str, Any],
        public: Public,
        plan: dict[str, Any],
        ledger: Ledger,
        *,
        n_before: int,
        folder: "RunFolder | None" = None,
        **facts: Any,
    ) -> None:
        """Take everything known before the first release.

        The ``folder`` of the run gets the releases. Raises ValueError if another run is in the transcript; but the run
        that is there may be this one.
        """
        self._ledger, self._n_before, self._folder = ledger, n_before, folder
        plain, self._arrays = parted(settings, public)
        run = {"format": FORMAT, "model": kind, "settings": plain, "public": public.to_dict(), "plan": plan, **facts}
        run["inputs"] = dict(public.inputs)
        self._run = {"run": parse_json(json.dumps(run, allow_nan=False, default=list))}
        self._path = self._root / _run_name(0 if self._first else self._further(facts["follows"]))
        if folder is None:
            if self._path.exists():  # since this object was made
                raise FileExistsError(self._taken)
            make_folder(self._root)
            self._part = new_folder(self._path)
        elif self._path.exists():
            self._check_mine([release_digest(release) for release in folder.found()])
        else:  # a place that cannot be written is found before anything is spent
            at = self._path if self._root.exists() else self._root
            make_folder(at.parent)
            new_folder(at).rmdir()
            sweep(at)

    @property
    def _taken(self) -> str:
        return f"transcript {self._root}: expected a new or an empty folder"

    def _mine(self, path: Path) -> Own:
        """Tell what an earlier attempt at this run put in its place; ValueError if another run is there."""
        return named(_run_files(self._check_mine(self.digests)))

    def _check_mine(self, known: list[str]) -> int:
        """Count the releases of the run in this one's place; ValueError if it is another, by the ``known`` digests."""
        found = [release_digest(release) for release in _read_run(self._path).releases()]
        same = _read_log(self._path).records[0].get("run") == self._run["run"]
        if not same or any(a != b for a, b in zip(found, known, strict=False)):
            raise ValueError(f"transcript {self._root}: holds another run; expected a new or an empty folder")
        return len(found)

    def _further(self, follows: str | None) -> int:
        """Find a further run's number; set aside runs it does not continue."""
        folders = list[Path]()
        while (path := self._root / _run_name(len(folders))).is_dir():
            folders.append(path)
        number = min((k for k, path in enumerate(folders) if _follows(path) == follows), default=len(folders))
        for path in folders[number:]:
            _put_aside(path)
        return number

    def __call__(self, release: Release) -> None:
        """Take one release, which the folder of the run has, if there is one."""
        if self._part is not None:
            write = release_writer(release, self._ledger, "")
            write_file(self._part / release_name(len(self.digests)), write)
        self.digests.append(release_digest(release))

    def finish(self) -> None:
        """Put the whole run in its place: its releases, and the ledger's records of it, which is not closed yet."""
        make_folder(self._root)
        self._part = part = self._part or new_folder(self._path)
        if self._folder is not None:
            for name in map(release_name, range(len(self.digests))):
                link_file(self._folder.releases / name, part / name)
        records = self._ledger.records[self._n_before :]
        data = encode(_KIND, [self._run, *({"ledger": record} for record in records)])
        write_file(part / ARRAYS, lambda file: write_npz(file, self._arrays))
        write_file(part / RUN, lambda file: file.write(data))
        if self._folder is None and self._path.exists():
            _put_aside(self._path)  # another process put it there since `begin`
        put_in_place(part, self._path, self._mine)
        self._part = None

    def close(self) -> None:
        """Remove what a run that ended early has left."""
        if self._part is not None:
            with suppress(OSError):
                delete(self._part)


def read_transcript(path: str | Path) -> list[Run]:
    """Read the runs of a transcript, in order.

    Raises FileNotFoundError if there is no such folder; ValueError if it holds no run, or one that is malformed.
    """
    path = Path(path)
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: no such folder; expected a transcript that fit wrote")
    runs: list[Run] = []
    with Folder(path) as folder:
        while folder.holds(_run_name(len(runs))):
            runs.append(_read_run(path / _run_name(len(runs))))
    if not runs:
        raise ValueError(f"{path}: holds no run; expected a transcript that fit wrote")
    return runs


def files_of(runs: Iterable[Run]) -> Own:
    """Tell which files a transcript has of its runs; see `vips_fast.store.owned`."""
    # The number of steps is a text in a file; a run has no more releases than its folder has files.
    each = ((run.path, min(run.done, len(os.listdir(run.path)))) for run in runs)
    return named({f"{path.name}/{name}" for path, done in each for name in _run_files(done)})


def _run_files(n_releases: int) -> set[str]:
    return {*TRANSCRIPT_FILES, *map(release_name, range(n_releases))}


def _run_name(number: int) -> str:
    return f"run-{number:04d}"


def _put_aside(path: Path) -> None:
    os.rename(path, path.with_name(f"lost-{secrets.token_hex(4)}-{path.name}"))


def _follows(path: Path) -> Any:
    """Read the head that a run continued; None without a whole record."""
    try:
        return _read_log(path).records[0]["run"]["follows"]
    except (OSError, ValueError, LookupError, TypeError):
        return object()


def _read_run(path: Path) -> Run:
    try:
        with Folder(path, follow=False) as folder:
            arrays = folder.arrays(ARRAYS)
        first, *rest = _read_log(path).records
    except FileNotFoundError as error:
        raise ValueError(f"{error.filename}: missing; the transcript is not complete") from None
    try:
        run, inputs = first["run"], first["run"]["inputs"]
        texts = all(isinstance(text, str) for text in inputs.values())
        if run["format"] != FORMAT or not isinstance(run["plan"]["n_steps"], int) or not texts:
            raise ValueError
        settings, public = joined(run["settings"], run["public"], inputs, arrays)
        if public.to_dict() != run["public"]:
            raise ValueError
        return Run(
            path,
            run["model"],
            settings,
            public,
            run["plan"],
            tuple(run["taints"]),
            run["follows"],
            run["n_steps"],
            run["partial"],
            tuple(dict(record["ledger"]) for record in rest),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        what = "not a run that this version wrote; expected a whole one, and the version of vips_fast that wrote it"
        raise ValueError(f"{path / RUN}: {what}") from None


def _read_log(path: Path) -> Log:
    """Read the log of a run; ValueError if its end is missing."""
    with Folder(path, follow=False) as folder:
        folder.json_lines(RUN)  # refuses one that is too large
        with folder.open(RUN) as file:
            log = Log(path / RUN, _KIND)
            log.read(file.fileno())
    log.detach()
    if log.torn or not log.records:
        raise LogDamagedError(f"{log.path}: its last record is missing; the transcript is not complete")
    return log
