"""Run folder of a job, ``OUT.run``, beside the model's own folder.

It exists until the fit has ended. It is the folder of `vips_fast.engine.checkpoint`, with more files:

- ``job.json``: the plan of the job, the times of change of its files, the digest of the columns, and the head of the
  result's ledger, each written before what it says begins. No digest of records: it would tell neighbors apart
- ``model``: the whole result, after the fit and before it has its place in OUT
- ``words``: the folder of the vocabulary purchase, a run of its own with a ledger; its result is ``words/model``. Until
  the purchase ends, its start and its releases say what never leaves, in files for only your account

A job is *planned*, *reserved*, at a *round* of its purchase, at a *step*, has its *result*, is *published* (`state`).
No other model has the head of the result's ledger. The ledgers of purchase and fit record reservations, rounds and
steps, also before each begins. So after any kill these files tell the state, and ``resume=True`` continues from it.
Files with other names stay, and nothing reads them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ..accounting import rounded_up
from ..engine.budget import Budget, check_payer
from ..engine.checkpoint import LEDGER, LOCK, RELEASES, RUN, RunFolder, UsedUpError, ledger_in, lock_folder
from ..engine.interrupts import Stopped, uninterrupted
from ..engine.ledger import Ledger
from ..engine.releases import RELEASE
from ..engine.transcript import files_of, read_transcript
from ..models.persistence import MODEL_FILES, own_files, write_into
from ..store.atomic import (
    PUBLIC,
    delete,
    make_folder,
    new_folder,
    put_in_place,
    replace_file,
    replacing_folder,
    sweep,
    sync_folder,
    write_file,
)
from ..store.limits import parse_json, read_bytes
from ..store.log import canonical_json, json_digest
from ..store.owned import check_owned, foreign
from ..store.owned import remove as remove_own
from . import beside
from .places import check_place, copy_model, kind_in

JOB, MODEL, WORDS = "job.json", "model", "words"


def run_folder(out: Path) -> Path:
    """Name the run folder of a model's folder."""
    return Path(os.path.abspath(out) + ".run")


def _own(name: str) -> bool:
    """Tell whether a job gives a name to something in its run folder; see `vips_fast.store.owned`."""
    first, _, rest = name.rstrip("/").partition("/")
    if first == WORDS and rest:
        first, _, rest = rest.partition("/")
    parts = (one for one in JobFolder.OWN if first == one or (first.startswith(f".{one}.") and first.endswith(".part")))
    place = next(parts, "")
    inside = {MODEL: rest in MODEL_FILES, RELEASES: bool(RELEASE.fullmatch(rest))}
    return place != "" and (not rest or inside.get(place, False))


def _facts(folder: Path) -> dict[str, Any]:
    """Read what ``job.json`` says; nothing without a readable one."""
    path = folder / JOB
    with suppress(OSError, ValueError):
        if path.is_file() and not path.is_symlink() and isinstance(facts := parse_json(read_bytes(path)), dict):
            return facts
    return {}


def _ledgers(folder: Path) -> list[tuple[Ledger, bool, str]]:
    """Read the ledgers of fit and purchase.

    With each come whether its torn end counts as a release, and the name of a part of this work.
    """
    (fit, torn), words = ledger_in(folder), folder / WORDS
    found = [(fit, torn, "step")]
    if words.is_symlink():
        return found
    if (words / LEDGER).exists():
        found.append((*ledger_in(words), "round"))
    return found


def state(folder: Path) -> str:
    """Describe how far the job of a run folder is."""
    if belongs(folder.with_suffix(""), folder):
        return "published"
    if belongs(folder / MODEL, folder):
        return "result"
    for ledger, _, unit in _ledgers(folder):
        if ledger.plan is not None and len(ledger):
            n_steps = ledger.plan["n_steps"]
            return f"{unit} {min(len(ledger) - ledger.lost, n_steps)} of {n_steps}"
        if ledger.budget is not None:
            return "reserved"
    return "planned"


def spent(folder: Path) -> str:
    """Describe the spending of a run, and the budget that paid.

    A release that the budget has a record of, and the ledger not yet, was cut short.
    """
    (ledger, *_), *others = ledgers = _ledgers(folder)
    if ledger.plan is None and others:
        ledger = others[0][0]
    counts = []
    for one, torn, unit in ledgers:
        cut = torn or _count_charged(folder, one) > len(one)
        if len(one) or cut or one is ledger:
            what = " of its vocabulary" if unit == "round" else ""
            counts.append(f"{len(one)} release{'s' * (len(one) != 1)}{what}" + " and one that was cut short" * cut)
    text, plan, event = " and ".join(counts), ledger.plan, ledger.event()
    if plan is not None and event is not None and ledger.private:
        text += f" (epsilon = {rounded_up(ledger.epsilon(plan['delta']), 4)} at delta = {plan['delta']:g})"
    budget = ledger.budget
    return f"{text} spent" + (f" of the budget of {budget['dataset']}" if budget else "")


def _count_charged(folder: Path, ledger: Ledger) -> int:
    """Count a ledger's releases in the budget, 0 if unreadable."""
    path, runs = _facts(folder).get("budget"), {charge["run"] for charge, _ in ledger.charges}
    if isinstance(path, str) and runs:
        with suppress(OSError, ValueError):
            return sum(run["counted"] for run in Budget(path).show()["runs"] if run["run"] in runs)
    return 0


def belongs(model: Path, folder: Path) -> bool:
    """Tell whether a model is the result of a run, by folders."""
    head = _facts(folder).get("head")
    if head is None or not model.is_dir() or not any(model.iterdir()):
        return False
    with suppress(OSError, ValueError):
        return bool(kind_in(model).load(model).ledger_.head == head)
    return False


def differing(kept: Any, asked: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Compare options by name: the kept value and the one that is asked for; what is not there is None."""
    kept = kept if isinstance(kept, dict) else {}
    return ((name, kept.get(name), asked.get(name)) for name in sorted(kept.keys() | asked.keys()))


def unlike(what: str, name: str, theirs: Any, mine: Any) -> str:
    """Explain why something kept is not what a job asks for."""

    def shown(value: Any) -> str:
        if value is None:
            return "none"
        text = repr(value)
        return f"another {type(value).__name__}" if isinstance(value, np.ndarray) or len(text) > 100 else text

    a, b = shown(theirs), shown(mine)
    how = f"{name} unlike this fit's" if a == b else f"{name} = {a}, this fit has {b}"
    return f"{what} with {how}; expected the same with resume=True, or another place for another model"


def refusal(folder: Path) -> str:
    """Explain why a new fit may not use this run folder."""
    give_up = "or remove that folder to give it up: what is spent stays spent"
    if belongs(folder / MODEL, folder):
        return f"{folder}: holds a finished fit; expected resume=True to write it at no cost, {give_up}"
    stopped = f"holds a run that was stopped at {state(folder)}, with {spent(folder)}"
    return f"{folder}: {stopped}; expected resume=True, {give_up}"


def remove(folder: Path) -> None:
    """Remove a run folder, except what a job has not put there. The caller has its lock."""
    with uninterrupted():
        if foreign(folder, _own):
            last = (JOB, LOCK)  # by these the rest is known for a run's after a crash
            remove_own(folder, lambda name: name == RUN)
            remove_own(folder, lambda name: name not in last and _own(name))
            for name in last:
                delete(folder / name)
            return
        gone = new_folder(folder)
        os.rename(folder, gone)
        remove_own(gone, _own)
        sweep(folder)


def tidy(out: Path) -> None:
    """Remove the run folder that a killed process left beside a model."""
    folder = run_folder(out)
    if folder.is_dir() and belongs(out, folder):
        with lock_folder(folder):
            remove(folder)


def write_model(model: Any, out: Path) -> None:
    """Write a model and its texts, whole or not at all."""
    out = Path(os.path.abspath(out))
    check_place(out, force=True)
    with replacing_folder(out, own_files) as folder:
        _fill(folder, model, beside.texts(model))


def _fill(folder: Path, model: Any, files: Mapping[str, str]) -> None:
    write_into(model._fitted(), folder)
    for name, text in files.items():
        write_file(folder / name, lambda file, text=text: file.write(text.encode()), PUBLIC)


def releases_folder(out: str | Path) -> Path:
    """Place the releases of a job beside its folder, unless the caller has a place for them."""
    return Path(os.path.abspath(out) + ".releases")


def copy_releases(transcript: Path, out: str | Path) -> None:
    """Copy a transcript beside a model's folder; it replaces no folder but a transcript."""
    target = releases_folder(out)
    if not transcript.is_dir() or target == transcript:
        return
    if target.exists():
        check_owned(target, lambda path: files_of(read_transcript(path)))
        shutil.rmtree(target)
    shutil.copytree(transcript, target)


class JobFolder(RunFolder):
    """Run folder of a job, locked while this object is open.

    The folder of the job that writes ``out``. It stays until the model has its place, unless it is closed before
    anything was spent. ``resume`` is as for `RunFolder`; ``job.json`` gets what is ``planned``.

    Raises BlockingIOError if another fit is writing to the same place. Raises FileExistsError if the folder is not a
    job's. Raises ValueError if a run has not ended and ``resume`` is False, or another ``budget`` pays for it, or only
    one of it and this job ``purchases`` a vocabulary, or it was ``asked`` by other options.
    """

    OWN = RunFolder.OWN | {JOB, MODEL, WORDS}
    _fresh = False

    def __init__(
        self, out: Path, *, resume: bool, budget: Budget | None = None, purchases: bool = False, **planned: Any
    ):
        super().__init__(run_folder(out), resume=True)
        try:
            if (self.begun or self._purchased) and not resume:
                raise ValueError(refusal(self.path))
            for ledger, _, _ in _ledgers(self.path):
                check_payer(ledger, budget, f"the run in {self.path}")
            if self._purchased != purchases and (self.begun or self._purchased):
                # Words that one of them purchased would be in no statement of the other.
                has = "a vocabulary purchase" if self._purchased else "no vocabulary purchase"
                raise ValueError(f"{self.path}: holds a run with {has}; expected the same vocab, or another place")
            others = differing(_facts(self.path).get("asked"), planned.get("asked", {}))
            if (self.begun or self._purchased) and (other := next((one for one in others if one[1] != one[2]), None)):
                raise ValueError(unlike(f"{self.path} holds a run", *other))
            kept = _facts(self.path).get("times") if self.begun or self._purchased else None
            times = differing(kept, planned.get("times", {}))
            #: Files of the job that have another time of change than when the run here began.
            self.changed = [name for name, then, now in times if None not in (then, now) and then != now]
            self._note(budget=None if budget is None else str(budget.path), **planned)
        except BaseException:
            self.close()
            raise
        self._fresh = not self.begun

    def _look(self, resume: bool) -> None:
        if self.path.is_symlink():
            raise FileExistsError(f"{self.path}: is a symbolic link, which no job makes; remove it")
        if not (self.path / JOB).exists():
            names = (path.name for path in self.path.iterdir())
            others = sorted(name for name in names if name != LOCK and not name.startswith(f".{JOB}."))
            if others:
                raise FileExistsError(f"{self.path}: holds {others[0]!r}, and no {JOB}; expected another place")
        super()._look(resume)

    def _note(self, **facts: Any) -> None:
        """Bring facts to ``job.json``, unless it has them."""
        known = _facts(self.path)
        if not facts.items() <= known.items():
            replace_file(self.path / JOB, lambda file: file.write(canonical_json({**known, **facts})))

    @property
    def words(self) -> Path:
        """Place of the run's vocabulary purchase."""
        return self.path / WORDS

    def forget_words(self) -> None:
        """Remove the run's vocabulary purchase."""
        remove_own(self.words, lambda name: _own(f"{WORDS}/{name}"))

    @property
    def _purchased(self) -> bool:
        """Whether the purchase has spent something."""
        return any(len(ledger) + torn for ledger, torn, _ in _ledgers(self.path)[1:])

    def keep_columns(self, names: Iterable[str]) -> bool:
        """Keep the digest of the columns; False if the run has others."""
        digest = json_digest(list(names))
        if not self.begun:
            self._note(columns=digest)
        return bool(_facts(self.path).get("columns") == digest)

    def store(self, model: Any, files: Mapping[str, str]) -> None:
        """Write the result and its texts, whole and synced to disk."""
        part, place = self.path / f".{MODEL}.part", self.path / MODEL
        for old in (part, place):
            delete(old)
        part.mkdir()
        _fill(part, model, files)
        sync_folder(part)
        self._note(head=model.ledger_.head)
        os.rename(part, place)
        sync_folder(self.path)

    def publish(self, out: Path, force: bool) -> None:
        """Move the result to its place, remove and unlock the folder: the next fit may have one of the same name.

        Raises ValueError if something else is in the place; OSError if the system cannot.
        """
        check_place(out, force)
        make_folder(out.parent)
        try:
            with uninterrupted():
                try:
                    put_in_place(self.path / MODEL, out, own_files)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    with replacing_folder(out, own_files) as copy:
                        copy_model(self.path / MODEL, copy)
                with suppress(OSError):
                    remove(self.path)
        except Stopped:
            if self.path.exists():
                raise
            # All is done: a better answer than the stop that was just requested.
        self._lock.close()

    def advice(self, error: BaseException) -> str:
        """Say which command uses this folder after an error, or ""."""
        if not self.path.exists() or not self._worth:
            return ""
        if belongs(self.path / MODEL, self.path):
            return f"The result is kept in {self.path}: the same job with resume=True writes it, at no cost"
        give_up = f"Removing {self.path} gives the run up"
        if isinstance(error, UsedUpError):
            return give_up
        if self._ledger is not None and self.whole == 0 and self._left() <= 0:
            return f"{spent(self.path)}: {self.used_up()}. {give_up}"
        return f"{spent(self.path)}; the same job with resume=True continues the run in {self.path}"

    @property
    def _worth(self) -> bool:
        """Whether something would be lost with this folder."""
        drawn = self._ledger is not None and len(self._ledger) > 0
        return not self._fresh or self.whole > 0 or drawn or self._purchased

    def close(self) -> None:
        """Unlock the folder; remove it if nothing would be lost."""
        if self._lock.held and self.path.exists():
            if not self._worth:
                with suppress(OSError):
                    remove(self.path)
        super().close()
