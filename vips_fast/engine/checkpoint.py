"""Keep the releases of a run, so that a killed run resumes with what it paid for.

The folder of a run holds

    lock              note of the process that uses the folder now (`vips_fast.store.lock`)
    run.json          the run's random name; class, settings, public facts, plan, versions: a resume has to agree
    ledger.jsonl      the log of every release, written ahead (`vips_fast.store.log`)
    releases/         the release of each step, on the disk before anything else uses it
    start.npz         the start, of a model that has a secret one (`Model.secret_start`)

and never a key of noise, a minibatch or a sum before its noise. A model is a function of its releases and of public
numbers, so a resumed run makes its state again from them, and the folder says nothing that the model would not say. A
vocabulary alone has a secret start, and releases about tokens that its result leaves out.

*Why nothing is under-counted.* A release needs its noise, and the noise needs a key. The key is drawn after the append
to the ledger has returned, which is after fsync. So a release that exists has its record on the disk. Spent is the
number of releases among the records of ``ledger.jsonl``, and one more if its end is torn. ``ledger.jsonl`` is there,
empty, before ``run.json``, and ``run.json`` before the first record. So a folder that lacks one of the two is refused:
someone has tampered with it. A release that lies whole in the folder is used, and its step is neither drawn nor paid
for again. A step whose release is not there draws new randomness (with a test key: the same) and has a record of its
own in the ledger. The lost step's record stays.

*Why a kept release costs no privacy.* A release r of step t is one draw of a mechanism whose event is in the ledger:
its file names that record, hash by hash, and is refused if the ledger lacks it, as a shortened or another run's ledger
does. All that follows is a function of r, of earlier releases and of public numbers, in the first process as in the
resumed one. So whatever both show together is post-processing of r. A step whose file is not whole is another matter.
Its r may have been seen, in this file's bytes or in a copy of the folder that was taken in time, and nothing here can
prove the contrary. So a new draw is a second release, with a record and a charge of its own.

*Why little is lost.* The file for the next release is made, in full size, before the release is charged: a disk without
room is noticed while nothing is spent. A file gets its name only when it is whole, and what a killed process left of
one is removed by the next run.

*Which releases go on.* A release belongs to the state that it was made from. The run goes on through the files of the
first steps. If the ledger has a resume at a step or before it, behind the record of that step's file, the step was lost
and done again. Such a file belongs to a state that is no more, also if it is restored later.
"""

import errno
import json
import logging
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from ..accounting import PrivacyEvent, rounded_up
from ..accounting.calibration import Target
from ..accounting.solver import find_integer
from ..kernels import native
from ..store.atomic import delete, fill, make_folder, naming, replace_file, reserve
from ..store.limits import parse_json
from ..store.lock import Lock
from ..store.log import Log, LogDamagedError, canonical_json, encode, json_digest
from ..store.npz import write_npz
from .ledger import Ledger, bounded_run
from .model import Model, Release
from .plan import RunPlan
from .releases import MORE, opened, release_name, release_of, release_writer, sealed
from .result import Public, plain
from .sampling import n_events

_log = logging.getLogger(__name__)

FORMAT = 1
LEDGER, LOCK, RUN, START, RELEASES = "ledger.jsonl", "lock", "run.json", "start.npz", "releases"

#: Settings that may differ between the parts of a run: the result does not depend on them.
_FREE = ("n_jobs", "epsilon")
_KIND = "ledger"
_WRITTEN = "expected the start of a run as it was written"
#: The advice about a damaged release.
_AGAIN = "restore it, or remove it: its step is then done, and paid for, again"
#: Bytes for the records of ledger and budget, which are written between the space and the release.
_RECORDS = 1 << 16


def versions() -> dict[str, str]:
    """Return the versions that the bits of a run depend on."""
    from .. import __version__

    return {"vips_fast": __version__, "numpy": np.__version__, "instruction set": native.isa()}


class UsedUpError(ValueError):
    """A run without a whole step, whose target pays for no further one."""


def forget_states(path: Path) -> None:
    """Remove the releases, and the start, of a run whose result is elsewhere."""
    (path / START).unlink(missing_ok=True)
    delete(path / RELEASES)


def lock_folder(path: Path) -> Lock:
    """Lock a run's folder; BlockingIOError names the process that has it."""
    return Lock(path / LOCK, create=True)


def ledger_in(folder: Path, *, strict: bool = False) -> tuple[Ledger, bool]:
    """Read a run's ledger, changing nothing; tell if its end is torn.

    A torn end counts as a release. If the ledger is missing or damaged, it is read as far as it is whole; with
    ``strict`` OSError or LogDamagedError is raised.
    """
    path = folder / LEDGER
    if not strict and (path.is_symlink() or not path.exists()):
        return Ledger(), False
    log = Log.of(path, _KIND, strict=strict)
    ledger = _ledger_of(log)
    return ledger, log.torn and ledger.plan is not None


def _ledger_of(log: Log) -> Ledger:
    try:
        return Ledger.of(log.records)
    except ValueError as error:
        raise LogDamagedError(f"{log.path}: {error}") from None


def settle_ledger(log: Log, descriptor: int, plan: RunPlan) -> Ledger:
    """Read a run's ledger and count a torn end as one release.

    The file counts it too, and the ledger writes ahead to its log.
    """
    log.read(descriptor)
    ledger = _ledger_of(log).write_to(log)
    # Before the plan's record nothing is spent, and without noise there is nothing to count.
    if log.torn and ledger.plan is not None and plan.event is not None:
        mechanism = plan.mechanism
        ledger.intend(plan.event, clip_norm=mechanism.clip_norm, sensitivity=mechanism.sensitivity, part=plan.part)
    return ledger


class RunFolder:
    """The folder of one run, locked while this object is open.

    With ``resume`` its run is resumed.

    Raises BlockingIOError if another fit is using the folder; FileExistsError if there is a run and ``resume`` is
    False, or there are other files.
    """

    #: Names of the files in the folder. Beside one may lie its part in the making, which a killed process left.
    OWN: ClassVar[frozenset[str]] = frozenset((LEDGER, RUN, START, LOCK, RELEASES))

    def __init__(self, path: str | Path, *, resume: bool = False):
        self.path = Path(path).absolute()  # a program may go to another folder while it runs
        #: Folder of the releases.
        self.releases = self.path / RELEASES
        if self.path.exists() and not self.path.is_dir():
            raise FileExistsError(f"checkpoint {self.path}: expected a folder or a new name")
        make_folder(self.path, 0o700)
        self._ledger: Ledger | None = None
        self._run = ""
        self._plan: RunPlan | None = None
        self._target: Target | None = None
        #: Steps whose releases are on the disk, in order.
        self.whole = 0
        # Releases of earlier attempts, and steps that these kept.
        self._at_first, self._found = 0, 0
        self._lock = lock_folder(self.path)
        self._log, self._descriptor = Log(self.path / LEDGER, _KIND), -1
        try:
            self._look(resume)
        except BaseException:
            self.close()
            raise

    def _look(self, resume: bool) -> None:
        """Refuse a folder with other files, or without some of a run's."""
        for name in sorted(self.OWN):
            if (self.path / name).is_symlink() or (self.path / name).is_fifo():
                raise ValueError(f"{self.path / name}: is a symbolic link or a pipe, which no fit makes; remove it")
        ledger, run = self.path / LEDGER, self.path / RUN
        #: Whether a run has begun here.
        self.begun = run.exists()
        if not self.begun:
            if ledger.exists() and ledger.read_bytes() != encode(_KIND):
                raise FileNotFoundError(f"{run}: missing, beside a {LEDGER}; expected both")
        if self.begun and not ledger.exists():
            raise FileNotFoundError(f"{ledger}: missing, beside {RUN}; what was spent cannot be known")
        if self.begun and not resume:
            raise FileExistsError(f"checkpoint {self.path}: holds a run; expected resume=True, or an empty folder")
        others = self.others(self.path)
        if others and not self.begun:
            raise FileExistsError(f"checkpoint {self.path}: holds {others[0]!r}; expected a new or an empty folder")
        for part in self.path.glob(".*.part"):
            if part.name not in others:
                delete(part)

    @classmethod
    def others(cls, path: Path) -> list[str]:
        """List the names in a folder that this class never gives."""

        def own(name: str) -> bool:
            return name in cls.OWN or (name.endswith(".part") and any(name.startswith(f".{one}.") for one in cls.OWN))

        return sorted(entry.name for entry in path.iterdir() if not own(entry.name))

    def close(self) -> None:
        """Free the folder."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._log.detach()
            os.close(descriptor)
        self._lock.close()

    def __str__(self) -> str:
        return str(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ------------------------------------------------------------------ a run

    def public(self, public: Public, seeded: bool) -> Public:
        """Return this fit's public facts, with the stored run's seed. If the settings give a seed, that one stays."""
        if not self.begun or seeded:
            return public
        seed = self._stored()["public"].get("seed")
        return replace(public, seed=int(seed)) if isinstance(seed, int) else public

    def _stored(self) -> dict[str, Any]:
        path = self.path / RUN
        with naming(path):
            text = path.read_bytes()
        try:
            stored = parse_json(text)
            digest = stored.pop("digest")
            if stored["format"] != FORMAT or digest != json_digest(stored):
                raise ValueError
            if not all(isinstance(stored[name], dict) for name in ("settings", "public", "plan")):
                raise ValueError
            if type(stored["plan"]["n_steps"]) is not int or not stored["plan"]["noise_multiplier"] >= 0.0:
                raise ValueError
            return dict(stored)
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise ValueError(f"{path}: damaged, or of another version; expected a fit of format {FORMAT}") from None

    def start(self) -> dict[str, np.ndarray]:
        """Read the secret start, which `begin` checks; empty without one."""
        path = self.path / START
        if not path.exists():
            return {}
        meta, arrays = opened(path, _WRITTEN)
        if meta["run"] != json_digest(self._stored()):
            raise ValueError(f"{path}: is not of the run of {RUN}; expected files of one run")
        return arrays

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the run here, with arrays as digests; empty without one."""
        return dict(self._stored()["settings"]) if self.begun else {}

    @property
    def noise_multiplier(self) -> float | None:
        """Return the plan's noise multiplier; None without run or noise."""
        return (self._stored()["plan"]["noise_multiplier"] or None) if self.begun else None

    def progress(self, event: PrivacyEvent, target: Target | None) -> tuple[int, int]:
        """Return the steps of the run here, and the events left.

        These are the events that ``target`` can pay for.

        By the files as they are: how much to reserve of a budget. `begin` checks the files, and may find fewer left.
        """
        stored, (ledger, torn) = self._stored(), ledger_in(self.path, strict=True)
        plan = stored["plan"]
        whole = self._find(ledger, json_digest(stored))
        if _is_done(ledger, whole, plan["n_steps"]):
            return whole, 0
        return whole, _affordable(plan, event, _count(ledger, event) + torn, whole, target)

    def begin(
        self,
        kind: str,
        settings: Mapping[str, Any],
        public: Public,
        model: Model,
        plan: RunPlan,
        target: Target | None,
        paid: int | None = None,
    ) -> tuple[Ledger, int, dict[str, Any]]:
        """Start the run, or find how far it is.

        ``kind`` to ``plan`` describe this fit, as without a folder. ``target`` bounds the plan. ``paid`` is the number
        of events that a budget pays for, after which the run ends. Returns the ledger with all releases so far, which
        writes ahead into the folder, the steps of the run that the target can pay for, and its settings, for its
        result.

        Raises ValueError if the run is of another plan, model, shape or version, or if the ledger does not extend the
        releases. It also does so if lost releases have used up the target before the first step.
        """
        if not self._lock.held:
            raise ValueError(f"checkpoint {self.path}: closed; expected a folder that is open, or its path")
        fresh = _facts(kind, settings, public, plan)
        settings = dict(settings)
        if not self.begun:
            replace_file(self.path / LEDGER, lambda file: file.write(encode(_KIND)))
            # A name of its own: the ledgers of two equal runs have the same heads, and their releases are not one's.
            facts = {**fresh, "name": secrets.token_hex(8)}
            text = canonical_json(dict(facts, digest=json_digest(facts)))
            replace_file(self.path / RUN, lambda file: file.write(text))
            self.begun = True
        stored = self._stored()
        self._compare(stored, fresh)
        settings.update({name: stored["settings"].get(name) for name in _FREE if name in settings})
        self._run = json_digest(stored)
        with naming(self._log.path):
            self._descriptor = os.open(self._log.path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        ledger = settle_ledger(self._log, self._descriptor, plan)
        if ledger.plan not in (None, stored["plan"]):
            raise ValueError(f"{self.path / LEDGER}: its plan is not that of {RUN}; expected files of one run")
        self._ledger, self._plan, self._target, self._at_first = ledger, plan, target, len(ledger)
        make_folder(self.releases, 0o700)
        for part in self.releases.glob(".*.part"):
            part.unlink()
        self.whole = self._found = whole = self._find(ledger, self._run)
        if whole or len(ledger):
            _log.info("resume: from step %d in %s, %d releases spent", whole, self.path, len(ledger))
        if whole and model.secret_start and not self.start():
            raise FileNotFoundError(f"{self.path / START}: missing, beside {RELEASES}; expected both")
        done = _is_done(ledger, whole, plan.n_steps)
        if raised(stored["settings"], fresh["settings"]):
            self._check_raised(stored["settings"]["epsilon"], fresh["settings"]["epsilon"], done)
        if done:
            return ledger, whole, settings
        left, length = self._left(), plan.sampler.n_batches
        left = left if paid is None else min(left, paid)
        n_steps = min(plan.n_steps, (whole // length + left) * length) if left else whole
        if n_steps == 0:
            raise UsedUpError(self.used_up())
        if ledger.plan is None:
            ledger.open(plan.public())
        for reason in plan.taints:
            ledger.taint(reason)
        if whole or len(ledger):
            ledger.resume(whole, n_steps)
        if model.secret_start and not self.start():
            # The start that the releases will belong to, before the first of them.
            meta = {"step": 0, "n_records": len(ledger.records), "head": ledger.head, "run": self._run}
            arrays = sealed(meta, {name: np.asarray(array) for name, array in model.state().items()})
            replace_file(self.path / START, lambda file: write_npz(file, arrays))
        return ledger, n_steps, settings

    def _left(self) -> int:
        """Count the events that the target still pays for, of those that the plan wants."""
        ledger, plan = self._ledger, self._plan
        assert ledger is not None and plan is not None
        if plan.event is None:
            return plan.n_steps - self.whole
        return _affordable(plan.public(), plan.event, _count(ledger, plan.event), self.whole, self._target)

    def used_up(self) -> str:
        """Explain that the target pays for no step, and what would."""
        ledger, plan, target = self._ledger, self._plan, self._target
        assert ledger is not None and plan is not None
        said = f"checkpoint {self.path}: {len(ledger)} release{'s' * (len(ledger) != 1)} spent, and no step was kept"
        if target is None or plan.event is None:
            return f"{said}; expected a budget that pays for one more"
        one_more = bounded_run(plan.purchase, plan.event, _count(ledger, plan.event) + 1)
        return f"{said}; expected epsilon={rounded_up(target.spent(one_more) * (1 + 1e-9), 4)} or more for one step"

    @property
    def drawn(self) -> bool:
        """Whether a release was made since this object locked the folder."""
        return self._ledger is not None and len(self._ledger) > self._at_first

    def _compare(self, stored: dict[str, Any], fresh: dict[str, Any]) -> None:
        """Raise ValueError, naming both sides, at the first difference."""
        fresh = parse_json(canonical_json(fresh))
        for part in ("model", "versions", "settings", "public", "plan", "taints"):
            here, there = fresh.get(part), stored.get(part)
            if isinstance(here, dict) and isinstance(there, dict):
                for name in sorted({*here, *there} - {"n_jobs"}):
                    if here.get(name) != there.get(name) and not (name == "epsilon" and raised(there, here)):
                        self._refuse(f"{part}: {name}", there.get(name), here.get(name))
            elif here != there:
                self._refuse(part, there, here)

    def _check_raised(self, there: float, here: float, done: bool) -> None:
        """Refuse a larger epsilon, unless lost releases have the run spend more than its own."""
        plan, target = self._plan, self._target
        assert self._ledger is not None and plan is not None
        if plan.event is not None and target is not None:
            wanted = 0 if done else n_events(plan.event, range(self.whole, plan.n_steps))
            if target.spent(bounded_run(plan.purchase, plan.event, _count(self._ledger, plan.event) + wanted)) > there:
                return
        self._refuse("settings: epsilon", there, here, f", as its noise stays that of {there:g}; or another place")

    def _refuse(self, what: str, there: Any, here: Any, more: str = "") -> None:
        raise ValueError(
            f"checkpoint {self.path}: holds a run with {what} = {_short(there)}, this fit has {_short(here)}; "
            f"expected the same{more}"
        )

    # ------------------------------------------------------------- releases

    def _file(self, step: int) -> Path:
        return self.releases / release_name(step)

    def _continues(self, step: int, ledger: Ledger, run: str, back: list[tuple[int, int]]) -> bool:
        """Tell whether a step's release is of the state before it; False if the step was lost, and done again.

        ``back`` are the places in the ledger where the run went back, and the steps that it kept. Raises
        ValueError if the file is damaged, of another run, or of a ledger that this one does not extend.
        """
        path = self._file(step)
        if path.is_symlink() or not path.is_file() or (meta := opened(path, _AGAIN, whole=False)[0])["step"] != step:
            raise ValueError(f"{path}: damaged; {_AGAIN}")
        if meta["run"] != run:
            raise ValueError(f"{path}: is not of the run beside it; expected files of one run")
        heads, number = ledger.heads, meta["n_records"]
        if not 0 < number <= len(heads) or heads[number - 1] != meta["head"]:
            raise ValueError(
                f"{path}: was written with {number} records in the ledger; the ledger, with {len(heads)}, does not "
                "extend them, so what was spent cannot be known"
            )
        return not any(place >= meta["n_records"] and kept <= step for place, kept in back)

    def _find(self, ledger: Ledger, run: str) -> int:
        """Count the first steps whose releases continue each other."""
        step, records = 0, ledger.records
        back = [(place, one["step"]) for place, one in enumerate(records) if one["kind"] == "resume"]
        while self._file(step).exists() and self._continues(step, ledger, run, back):
            step += 1
        return step

    def found(self) -> Iterator[Release]:
        """Read the releases of earlier attempts."""
        return map(self._release, range(self._found))

    def _release(self, step: int) -> Release:
        path = self._file(step)
        return release_of(*opened(path, _AGAIN), path, _AGAIN)

    def kept(self, step: int, shape: tuple[int, ...]) -> Release | None:
        """Read the release of a step that an earlier attempt drew; None if this one draws it."""
        if step >= self._found:
            return None
        release = self._release(step)
        if release.units.shape != shape:
            raise ValueError(f"{self._file(step)}: damaged; {_AGAIN}")
        return release

    def make_room(self, step: int, nbytes: int) -> None:
        """Make the file of a step's release, of ``nbytes``, in full size, before it is charged.

        Raises OSError if the disk cannot hold it.
        """
        try:
            reserve(self._file(step), nbytes + MORE, _RECORDS)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                why = f"{os.strerror(error.errno)}: the next release needs {nbytes + MORE + _RECORDS} bytes"
                raise OSError(error.errno, why, str(self.releases)) from None
            raise

    def keep_release(self, release: Release) -> None:
        """Bring a release to the disk, before anything else uses it; OSError if it failed twice, in two files."""
        assert self._ledger is not None
        fill(self._file(release.step), release_writer(release, self._ledger, self._run))
        self.whole = release.step + 1


def _is_done(ledger: Ledger, whole: int, planned: int) -> bool:
    """Tell whether a run made all steps that were planned, or that could be paid when it was resumed."""
    steps = planned if ledger.shortened is None else ledger.shortened[0]
    lost = len(ledger) > 0 and len(ledger) - ledger.lost != whole
    return ledger.plan is not None and whole == steps and not lost


def raised(there: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Tell whether settings have a larger epsilon than a run.

    Its noise stays that of its plan, so a larger target holds too, and pays for a release that was lost. Beyond that
    it would be taken for less noise, and is refused.
    """
    before, now = there.get("epsilon"), here.get("epsilon")
    return before is not None and now is not None and now > before


def _facts(kind: str, settings: Mapping[str, Any], public: Public, plan: RunPlan) -> dict[str, Any]:
    """Return everything that makes two runs the same, JSON-ready; arrays as digests."""
    facts = {
        "format": FORMAT,
        "model": kind,
        "versions": versions(),
        "settings": plain(settings),
        "public": public.to_dict(),
        "plan": plan.public(),
        "taints": list(plan.taints),
    }
    return dict(parse_json(canonical_json(facts)))


def _count(ledger: Ledger, event: PrivacyEvent) -> int:
    return sum(count for (_, one), count in ledger.spent.items() if one == event)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else text[:97] + "..."


def _affordable(plan: Mapping[str, Any], event: PrivacyEvent, spent: int, whole: int, target: Target | None) -> int:
    """Count the events after the ``whole`` steps of a plan that a target can still pay for.

    ``spent`` ones come first. The noise was calibrated for the plan's, after its vocabulary purchase. If releases were
    lost, a few fewer may remain: the accountant finds out how many from the events.
    """
    planned, wanted = (n_events(event, range(start, plan["n_steps"])) for start in (0, whole))
    if target is None or not wanted or spent + wanted <= planned:
        return wanted

    # All releases of a run are of one event, and the planned number fits.
    def fits(more: int) -> bool:
        return target.spent(bounded_run(plan.get("purchase"), event, spent + more)) <= target.epsilon

    return find_integer(fits, max(0, planned - spent), wanted)
