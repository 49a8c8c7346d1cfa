"""Keep a model's ledger: a record of each release, written first.

A ledger stores events. An accountant computes epsilon from them, and a model's statement is computed from its ledger,
never read from a file. Records are chained by a hash without a key (`vips_fast.store.log`), so a ledger that was
damaged, shortened or edited by accident does not load. Recomputing the whole chain forges one; a signature helps
against that (`vips_fast.models.persistence`).
"""

import math
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NotRequired, TypedDict, cast

from ..accounting import ComposedEvent, PrivacyEvent, SelfComposedEvent, default_accountant, event_from_dict
from ..accounting.accountants import epsilon as epsilon_of
from ..accounting.parts import Spent, accounts, composed
from ..checks import check_name
from ..store.log import Chain, Log, Record
from .filters import odometer, reserved

SCHEMA = 2


class PlanRecord(TypedDict):
    """Public numbers of a run, from `RunPlan.public`; later versions may add others."""

    relation: str
    unit: str
    sampling: str
    n_records: int
    batch_size: float
    n_steps: int
    noise_multiplier: float
    clip_norm: float
    sensitivity: float
    delta: float
    part: NotRequired[str]
    #: True for a call of ``partial_fit``: more may follow, chosen by its release.
    call: NotRequired[bool]
    #: Epsilon that such a call keeps within.
    limit: NotRequired[float]
    #: True if ``n_records`` was stated, not counted.
    stated: NotRequired[bool]
    #: The vocabulary purchase before the run.
    purchase: NotRequired[dict[str, object]]


def bounded_with(purchase: Mapping[str, Any] | None) -> PrivacyEvent | None:
    """Find the event that the target of the run after it bounds, too: the vocabulary purchase, a part of the same fit.

    An earlier fit has a target of its own. A statement includes both.
    """
    return None if purchase is None or "fit" in purchase else event_from_dict(purchase["event"])


def bounded_run(purchase: Mapping[str, Any] | None, event: PrivacyEvent, count: int) -> ComposedEvent:
    """Compose `count` events of a run with what its target bounds beside them."""
    before = bounded_with(purchase)
    return ComposedEvent((*(() if before is None else (before,)), SelfComposedEvent(event, count)))


def _check_plan(plan: dict[str, Any]) -> None:
    """Refuse a plan, which anybody may have written, without the numbers that statements are made of."""
    numbers = [plan["delta"], plan["n_steps"], *(plan.get(name, 0) for name in ("n_records", "batch_size", "limit"))]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise TypeError
    if not (0.0 < plan["delta"] < 1.0 and type(plan["n_steps"]) is int and plan["n_steps"] >= 0):
        raise ValueError("a plan with impossible numbers")


@dataclass
class _Run:
    """Spending of a run.

    ``call`` tells whether it is a call of ``partial_fit``; ``limit`` are epsilon and delta of its limit.
    """

    call: bool = False
    limit: tuple[float, float] | None = None
    spent: Counter[tuple[str | None, PrivacyEvent]] = field(default_factory=Counter)

    def counts(self, part: str | None) -> Counter[PrivacyEvent]:
        """Count the releases that used a part, or all."""
        counts: Counter[PrivacyEvent] = Counter()
        for (own, event), count in self.spent.items():
            if part is None or own in (None, part):
                counts[event] += count
        return counts


class Ledger:
    """Append-only list of the plans and releases of a data set.

    A ledger may also name parts of its records. The kinds of records are "plan" (the public numbers of a run),
    "release" (one noised release, written before its noise is drawn), "taint" (a reason why the stated guarantee does
    not cover the model), "budget" (which budget of the data set pays for the run), "resume" (an interrupted run resumes
    at an earlier step) and "close" (the digest of a run's result). Appending is safe from several threads. A fitted
    model's ledger is frozen; `copy` gives one that takes more releases.

    Examples
    --------
    >>> import numpy as np
    >>> from vips_fast import LatentDirichletAllocation, Ledger
    >>> model = LatentDirichletAllocation(2, doc_length=20, noise_multiplier=5.0, n_steps=3, sampling="full")
    >>> ledger = model.fit(np.ones((100, 4), dtype=int)).ledger_
    >>> len(ledger), ledger.private, ledger.plan["n_records"]
    (3, True, 100)
    >>> ledger.epsilon(1e-5) == model.privacy_.epsilon, ledger.accountant()
    (True, 'gaussian')
    >>> Ledger.from_dict(ledger.to_dict()).head == ledger.head
    True
    """

    def __init__(self) -> None:
        self._chain = Chain()
        #: Before the first plan, and of each.
        self._runs = [_Run()]
        self._n_releases = 0
        #: Reasons why the guarantee fails; any one means NOT PRIVATE, forever.
        self.taints: tuple[str, ...] = ()
        #: Public numbers of all runs.
        self.plans: list[PlanRecord] = []
        #: The budget of the last run that had one, or None.
        self.budget: dict[str, str] | None = None
        self._frozen = False
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {**{name: value for name, value in vars(self).items() if name != "_lock"}, "_chain": self._chain.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        """Number of releases."""
        return self._n_releases

    @property
    def private(self) -> bool:
        """Whether the stated guarantee covers the model."""
        return not self.taints

    @property
    def head(self) -> str:
        """Hash of the last record, which stands for the whole ledger."""
        return self._chain.head

    @property
    def plan(self) -> PlanRecord | None:
        """Public numbers of the last run, or None before the first."""
        return self.plans[-1] if self.plans else None

    @property
    def closing(self) -> str | None:
        """Digest in the last record if that closes a run, else None."""
        last = self.records[-1] if self.records else {"kind": None}
        return last["digest"] if last["kind"] == "close" else None

    def copy(self) -> "Ledger":
        """Return a ledger with the same records, to add more."""
        with self._lock:
            other = Ledger()
            other._chain = self._chain.copy()
            other.taints, other.plans, other.budget = self.taints, [*self.plans], self.budget
            other._n_releases = self._n_releases
            other._runs = [replace(run, spent=run.spent.copy()) for run in self._runs]
            return other

    def _append(self, record: Record) -> None:
        if self._frozen:
            raise RuntimeError("the ledger of a fitted model takes no more releases; copy() gives one that does")
        self._chain.append(record)

    def open(self, plan: dict[str, Any]) -> None:
        """Record a run's public numbers before it begins. Its vocabulary purchase is then spent."""
        purchase = plan.get("purchase")
        event = None if purchase is None else event_from_dict(purchase["event"])
        with self._lock:
            self._append({"kind": "plan", "plan": plan})
            self.plans.append(cast(PlanRecord, dict(plan)))
            limit = plan.get("limit")
            held = None if limit is None else (float(limit), float(plan["delta"]))
            self._runs.append(_Run(bool(plan.get("call")), held))
            if event is not None:
                self._runs[-1].spent[None, event] += 1

    def charge_to(self, budget: dict[str, str]) -> None:
        """Record the budget that pays for the next run, and its head."""
        with self._lock:
            self._append({"kind": "budget", "budget": dict(budget)})
            self.budget = dict(budget)

    @property
    def charges(self) -> list[tuple[dict[str, str], int]]:
        """Return the budgets' records, and the releases that each paid for.

        The number is the least that is certain. The budget is charged before the release is recorded here. Before its
        own record, a resume may count a torn end as a release. The budget has not paid for it, so each resume takes one
        from the number.
        """
        found: list[tuple[dict[str, str], int]] = []
        paying = False
        for record in self.records:
            kind = record["kind"]
            if kind == "budget":
                found.append((dict(record["budget"]), 0))
            paying = kind != "plan" and (paying or kind == "budget")
            if paying and kind in ("release", "resume"):
                more = -1 if kind == "resume" else bool(event_from_dict(record["event"]).leaves())
                found[-1] = found[-1][0], found[-1][1] + more
        return found

    def taint(self, reason: str) -> None:
        """Mark the ledger NOT PRIVATE, for good."""
        with self._lock:
            if reason not in self.taints:
                self._append({"kind": "taint", "reason": reason})
                self.taints += (reason,)

    def resume(self, step: int, n_steps: int) -> None:
        """Record a resume after ``step`` of ``n_steps``; later releases were lost."""
        with self._lock:
            self._append({"kind": "resume", "step": step, "n_steps": n_steps})

    @property
    def lost(self) -> int:
        """Number of releases spent and lost since a run resumed before them."""
        total = in_run = lost = 0
        for record in self.records:
            if record["kind"] == "plan":
                total, in_run, lost = total + lost, 0, 0
            elif record["kind"] == "release":
                in_run += 1
            elif record["kind"] == "resume":
                lost = max(0, in_run - record["step"])
        return total + lost

    @property
    def shortened(self) -> tuple[int, int] | None:
        """Steps done and planned of the last run, if it was shortened.

        A run is shortened if it was resumed and could not pay for all. None otherwise.
        """
        for record in reversed(self.records):
            if record["kind"] == "plan":
                break
            if record["kind"] == "resume":
                planned = 0 if self.plan is None else int(self.plan.get("n_steps", 0))
                return (record["n_steps"], planned) if record["n_steps"] < planned else None
        return None

    def write_to(self, log: Log) -> "Ledger":
        """Append further records to a log that holds this ledger's records.

        Returns the ledger. A record is on the disk before it is in the ledger. Copies and pickles of the ledger do not
        write.
        """
        if log.head != self.head:
            raise ValueError(f"{log.path}: does not hold the records of this ledger; read it first")
        self._chain = log
        return self

    @property
    def stored(self) -> bool:
        """Whether the file that it writes to surely holds its records and no other."""
        return self._chain.stored

    @property
    def records(self) -> list[Record]:
        """All records, each with number and previous hash; do not change them."""
        return self._chain.records

    @property
    def heads(self) -> list[str]:
        """The hash after each record."""
        return self._chain.heads

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Ledger":
        """Return the ledger with these records.

        Raises ValueError if one is malformed, or does not follow on the one before.
        """
        ledger = cls()
        for record in records:
            ledger.replay(record)
        return ledger

    def replay(self, record: Record) -> None:
        """Append a record that a ledger wrote before.

        Raises ValueError if it is malformed, or does not follow on the records before. Drop the ledger then.
        """
        try:
            self._replay(record)
            if self.records[-1:] != [record]:
                raise ValueError("its records do not form an unbroken chain")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            raise ValueError(f"ledger: a record is malformed: {reason}") from None

    def intend(self, event: PrivacyEvent, *, clip_norm: float, sensitivity: float, part: str | None = None) -> None:
        """Record a release before it is made; it then counts as spent.

        It is a release from all records or from a part. Within an epoch only the first release has the epoch's event;
        later ones have 0 times that event. Raises ValueError if that epoch is not recorded, the neighboring relation
        differs from the earlier releases', or the part is not a name.
        """
        with self._lock:
            known = [each for run in self._runs for each in run.spent]
            if not event.leaves() and (part, getattr(event, "event", None)) not in known:
                raise ValueError("event: an empty event must belong to an epoch that is already recorded")
            for _, first in known[:1]:
                ComposedEvent((first, event))  # refuses a mix of relations
            record = {"kind": "release", "event": event.to_dict(), "clip_norm": clip_norm, "sensitivity": sensitivity}
            self._append(record if part is None else dict(record, part=check_name("part", part)))
            self._n_releases += 1
            if event.leaves():
                self._runs[-1].spent[part, event] += 1

    def close(self, digest: str, transcript: list[str] | None = None) -> None:
        """Record digests, of a run's result and of a transcript's releases; no further record is taken then."""
        with self._lock:
            record = {"kind": "close", "digest": digest, "releases": self._n_releases}
            self._append(record if transcript is None else dict(record, transcript=list(transcript)))
            self._frozen = True

    @property
    def spent(self) -> Spent:
        """Count each part's releases of each event; None means all records."""
        total: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        for run in self._runs:
            total.update(run.spent)
        return total

    @property
    def parts(self) -> tuple[str, ...]:
        """List the parts with releases, in order of their first ones."""
        return tuple(part for part in accounts(self.spent) if part is not None)

    def event(self, part: str | None = None) -> PrivacyEvent | None:
        """Return all releases, or one part's, as one event; None if empty.

        A part's releases are the ones that used it. Raises KeyError if the part is not one of `parts`.
        """
        if part is not None:
            return composed(accounts(self.spent)[part])
        counts: Counter[PrivacyEvent] = Counter()
        for (_, event), count in self.spent.items():
            counts[event] += count
        return composed(counts)

    def bound(self, delta: float, part: str | None = None) -> tuple[PrivacyEvent | None, float]:
        """Bound the releases by a fixed event at a share of ``delta``.

        ``part`` selects the ones that used a part.
        The releases of one planned run are fixed before it begins: the event is they, and the share is 1. More runs, or
        a call of ``partial_fit``, may depend on results. If the first call reserved a limit, the event is the limit's,
        and the share is 1; else `vips_fast.engine.filters.odometer` bounds them. The event is None without releases.
        Raises ValueError if a release after the first run is not Gaussian.
        """
        runs, counts = [], []
        for run in self._runs:
            if own := run.counts(part):
                runs.append(run)
                counts.append(own)
        if not runs:
            return None, 1.0
        if len(runs) == 1 and not runs[0].call:
            return composed(counts[0]), 1.0
        later: Counter[PrivacyEvent] = sum(counts[1:], Counter())
        if self.limit is not None and (held := reserved(counts[0], later, *self.limit)) is not None:
            return held, 1.0
        return odometer(counts[0], later, delta)

    def bounds(self, delta: float) -> list[tuple[str | None, PrivacyEvent, float]]:
        """Bound the releases of each part, with its name; without parts all releases, if there are any."""
        found = []
        for part in self.parts or (None,):
            event, share = self.bound(delta, part)
            if event is not None:
                found.append((part, event, share))
        return found

    @property
    def limit(self) -> tuple[float, float] | None:
        """Epsilon and delta that the first call reserved, or None."""
        return None if self.planned else self._used[0].limit

    @property
    def adaptive(self) -> bool:
        """Whether some releases may have been chosen by earlier ones (`bound`)."""
        return len(self._used) > 1 or not self.planned

    @property
    def planned(self) -> bool:
        """Whether the first releases came from a fit, not a call."""
        return not (self._used and self._used[0].call)

    @property
    def _used(self) -> list[_Run]:
        return [run for run in self._runs if run.spent]

    def epsilon(self, delta: float, accountant: str | None = None) -> float:
        """Return epsilon of all releases for the worst part; see `bound`."""
        bounds = dict.fromkeys((event, share) for _, event, share in self.bounds(delta))
        if self.limit is not None and delta == self.limit[1] and all(share == 1.0 for _, share in bounds):
            return self.limit[0]
        return max((epsilon_of(event, share * delta, accountant) for event, share in bounds), default=0.0)

    def epsilon_with(self, spent: Spent, delta: float, *, call: bool, limit: float | None = None) -> float:
        """Return epsilon if a further run made these releases."""
        other = self.copy()
        other._runs.append(_Run(call, None if limit is None else (limit, delta), Counter(spent)))
        return other.epsilon(delta)

    def accountant(self) -> str | None:
        """Return the name of the accountant that `epsilon` uses by default."""
        event = self.event()
        return None if event is None else default_accountant(event)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-ready copy."""
        with self._lock:
            return {"schema": SCHEMA, "head": self.head, "records": [dict(record) for record in self.records]}

    @classmethod
    def from_dict(cls, data: object) -> "Ledger":
        """Return the ledger from `to_dict`, which takes no more releases.

        Raises ValueError if the schema is unknown, a record is malformed or the chain of hashes does not hold.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("records"), list):
            raise ValueError(f"ledger: expected schema {SCHEMA}")
        ledger = cls.of(data["records"])
        if ledger.head != data.get("head"):
            raise ValueError("ledger: its last record does not match its hash")
        ledger._frozen = True
        return ledger

    def _replay(self, record: dict[str, Any]) -> None:
        kind = record["kind"]
        if kind == "plan":
            _check_plan(record["plan"])
            self.open(record["plan"])
        elif kind == "budget":
            self.charge_to({key: str(record["budget"][key]) for key in ("budget", "dataset", "head", "run")})
        elif kind == "taint":
            self.taint(str(record["reason"]))
        elif kind == "release":
            event = event_from_dict(record["event"])
            clip_norm, sensitivity = record["clip_norm"], record["sensitivity"]
            self.intend(event, clip_norm=clip_norm, sensitivity=sensitivity, part=record.get("part"))
        elif kind == "resume":
            step, n_steps = record["step"], record["n_steps"]
            if type(step) is not int or type(n_steps) is not int or not 0 <= step <= n_steps:
                raise ValueError("a resumed run with impossible numbers of steps")
            self.resume(step, n_steps)
        elif kind == "close":
            self.close(str(record["digest"]), record.get("transcript"))
            self._frozen = False  # a call of `partial_fit` may follow
        else:
            raise ValueError(f"unknown kind {kind!r}")
