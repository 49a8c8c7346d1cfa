"""Keep a fit's releases, so that anyone can make its model again.

A release is public, and a model is a function of its releases and of public numbers. So a reader of the transcript can
rebuild the model without the data and compare it with the published one. A transcript is a folder with a folder for
each run, ``run-0000``, …, which holds

    run.jsonl             a log: class, settings, public facts and inputs, plan; in the end the ledger's records of it
    run.npz               settings that are arrays, classes
    release-000000.npz    each release, …

A resumed run writes the releases after its checkpoint anew; only the ledger has the lost ones. If the model of a
further run was not saved, as after a kill, the next run puts that run aside as ``lost-…``. Its own model does not
follow from it.
"""

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..store.atomic import replace_file, sync_folder, write_file
from ..store.folder import Folder
from ..store.limits import parse_json
from ..store.log import Log, LogDamagedError, Record, encode
from ..store.npz import write_npz
from .ledger import Ledger
from .model import Release
from .plan import RunPlan
from .result import FORMAT, Public, array_digest, joined, parted

RUN, _KIND = "run.jsonl", "run"


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
                    at = plan.event_at(step, first)
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
        return _releases(self.path, range(self.done), self.n_steps)


def _releases(path: Path, numbers: range, first_step: int) -> Iterator[Release]:
    with Folder(path, follow=False) as folder:
        yield from (_release(folder, number, first_step) for number in numbers)


def _release(folder: Folder, number: int, first_step: int) -> Release:
    name = f"release-{number:06d}.npz"
    if not folder.holds(name):
        raise ValueError(f"{folder.path / name}: missing; the transcript is not complete")
    arrays = folder.arrays(name)
    try:
        units, law = arrays["units"], arrays["law"]
        if units.dtype != np.int64 or law.dtype != np.float64 or law.shape != (2,):
            raise ValueError
        return Release(first_step + number, units, float(law[0]), float(law[1]))
    except (KeyError, ValueError):
        raise ValueError(f"{folder.path / name}: not a release that this version wrote") from None


class TranscriptWriter:
    """Writes one run into the folder of a transcript.

    A ``first`` run needs a new or an empty folder; others are appended to it. With ``resume`` the run may be there
    already. Raises FileExistsError if a first run finds something there.
    """

    def __init__(self, path: str | Path, *, first: bool, resume: bool = False):
        self._root, self._first = Path(path), first
        # A run that ended before its first release has left nothing to keep.
        taken = self._root.exists() and (not self._root.is_dir() or [*self._root.iterdir()] != self._unused())
        if first and not resume and taken:
            raise FileExistsError(f"transcript {self._root}: expected a new or an empty folder")
        #: Digest of each release so far.
        self.digests: list[str] = []

    def begin(
        self,
        kind: str,
        settings: Mapping[str, Any],
        public: Public,
        plan: dict[str, Any],
        *,
        done: int = 0,
        **facts: Any,
    ) -> None:
        """Write everything known before the first release, or find it there.

        The folder then holds the releases of the ``done`` steps. Raises ValueError if another run is there, or a
        release of those steps is missing.
        """
        number = 0 if self._first else self._further(facts["follows"])
        self._path = self._root / _run_name(number)
        plain, arrays = parted(settings, public)
        run = {"format": FORMAT, "model": kind, "settings": plain, "public": public.to_dict(), "plan": plan, **facts}
        run["inputs"] = dict(public.inputs)
        self._run = {"run": parse_json(json.dumps(run, allow_nan=False, default=list))}
        path = self._path / RUN
        there = Log.of(path, _KIND).records if path.exists() else []
        if (any(self._path.glob("release-*")) or done) and [one.get("run") for one in there[:1]] != [self._run["run"]]:
            raise ValueError(f"transcript {self._root}: expected that of the run, with the {done} steps that were done")
        if done:
            self.digests = [release_digest(one) for one in _releases(self._path, range(done), 0)]
            return
        self._path.mkdir(parents=True, exist_ok=True)
        write_file(self._path / "run.npz", lambda file: write_npz(file, arrays))
        self._write([])

    def _further(self, follows: str | None) -> int:
        """Find a further run's number; set aside runs it does not continue."""
        folders = _run_folders(self._root)
        lost = [number for number, path in enumerate(folders) if _follows(path) == follows]
        number = min(lost, default=len(folders) - len(self._unused()))
        for path in folders[number:]:
            # A run without a release is written anew.
            if path != folders[number] or path not in self._unused():
                os.rename(path, path.with_name(f"lost-{secrets.token_hex(4)}-{path.name}"))
        return number

    def _unused(self) -> list[Path]:
        """List the last run if it stopped before its first release."""
        last = _run_folders(self._root)[-1:]
        return [path for path in last if not any(path.glob("release-*"))]

    def _write(self, records: list[Record]) -> None:
        data = encode(_KIND, [self._run, *({"ledger": record} for record in records)])
        replace_file(self._path / RUN, lambda file: file.write(data))

    def __call__(self, release: Release) -> None:
        """Write one release."""
        arrays = {"units": release.units, "law": _law(release)}
        write_file(self._path / f"release-{len(self.digests):06d}.npz", lambda file: write_npz(file, arrays))
        # A checkpoint that is written next counts on it.
        sync_folder(self._path)
        self.digests.append(release_digest(release))

    def finish(self, ledger: Ledger, n_before: int) -> None:
        """Write the run's records: those after a ledger's first ``n_before``.

        The ledger is not closed yet.
        """
        self._write(ledger.records[n_before:])


def _law(release: Release) -> np.ndarray:
    return np.array([release.scale, release.noise_sd])


def release_digest(release: Release) -> str:
    """Compute the digest of a release in the ledger's closing record."""
    return array_digest(release.units) + array_digest(_law(release))[:16]


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


def _run_name(number: int) -> str:
    return f"run-{number:04d}"


def _run_folders(root: Path) -> list[Path]:
    """List the runs' folders, up to the first missing number."""
    found: list[Path] = []
    while (path := root / _run_name(len(found))).is_dir():
        found.append(path)
    return found


def _follows(path: Path) -> Any:
    """Read the head that a run continued; None without a whole record."""
    try:
        return Log.of(path / RUN, _KIND).records[0]["run"]["follows"]
    except (OSError, ValueError, LookupError, TypeError):
        return object()


def _read_run(path: Path) -> Run:
    try:
        with Folder(path, follow=False) as folder:
            arrays, (first, *rest) = folder.arrays("run.npz"), _log(folder).records
    except FileNotFoundError as error:
        raise ValueError(f"{error.filename}: missing; the transcript is not complete") from None
    try:
        run, inputs = first["run"], first["run"]["inputs"]
        texts = all(isinstance(text, str) for text in inputs.values())
        if run["format"] != FORMAT or not isinstance(run["plan"]["n_steps"], int) or not texts:
            raise ValueError
        settings, public = joined(run["settings"], run["public"], inputs, arrays)
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
        raise ValueError(f"{path / RUN}: not a run that this version wrote") from None


def _log(folder: Folder) -> Log:
    """Read the log of a run; ValueError if its end is missing."""
    folder.json_bytes(RUN)  # refuses one that is too large
    with folder.open(RUN) as file:
        log = Log(folder.path / RUN, _KIND)
        log.read(file.fileno())
    log.detach()
    if log.torn or not log.records:
        raise LogDamagedError(f"{log.path}: its last record is missing; the transcript is not complete")
    return log
