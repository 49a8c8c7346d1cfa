"""Charge a data set's privacy budget: a file that all fits share.

A budget belongs to the data, not to an object: copies, clones, threads, forks and other processes that name the same
file all charge it. A run *reserves* its planned releases. It records each of them in the file before its noise is
drawn, and gives the others back at its end. One filter (`vips_fast.engine.filters`) adds up all runs, since each is
chosen in view of the results so far. `vips_fast.store.log` proves that no crash and no damage lowers the sum.

The file has to lie on a local file system, or on one whose flock, write and fsync hold across machines.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import secrets
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ..accounting import PrivacyEvent, Relation, SelfComposedEvent, event_from_dict, rounded_down, rounded_up
from ..accounting.calibration import Target
from ..accounting.checks import count as whole_number
from ..accounting.checks import non_negative, open_probability
from ..accounting.parts import Spent, accounts
from ..accounting.solver import find_integer
from ..checks import check_choice, check_name, check_number
from ..store.atomic import create_file
from ..store.lock import Lock
from ..store.log import Log, LogDamagedError, Record, encode
from ..store.process import is_dead, this_process
from ..store.words import counted
from .filters import (
    FILTERS,
    LARGEST_NOISE,
    gaussian_filter_epsilon,
    is_whole_gaussian,
    leaked,
    renyi_filter_epsilon,
    renyi_orders,
    smallest_noise,
    without_leaks,
)
from .interrupts import stop_if_asked, uninterrupted
from .ledger import Ledger
from .sampling import n_events

if TYPE_CHECKING:
    from .checkpoint import RunFolder
    from .plan import RunPlan

__all__ = ["Budget", "BudgetExceededError", "BudgetInUseError", "LogDamagedError", "Reservation", "check_payer", "pay"]

_KIND = "budget"
#: Seconds of the epoch, in the year 6325: the latest time that a record has.
_LATEST = 2**37
#: What `vips_fast.store.process.this_process` says of a holder.
_HOLDER = {"host": str, "boot": str, "space": str, "pid": int, "start": str}
#: Seconds that a charge waits for other processes.
_WAIT = 300.0
#: Share of delta that vocabulary purchases share, and their number by default.
_POT_SHARE, _PURCHASES = 0.25, 16
_log = logging.getLogger(__name__)


def _now() -> int:
    return min(max(int(time.time()), 0), _LATEST)  # a clock that is wrong damages no file


class BudgetExceededError(ValueError):
    """A charge that the budget cannot pay; nothing was drawn."""


class BudgetInUseError(RuntimeError):
    """A signal handler uses the budget that the interrupted code uses, which would be a deadlock."""


@dataclass
class BudgetRun:
    """A reservation, open or closed."""

    #: Of one release.
    event: PrivacyEvent
    #: Releases reserved; releases drawn.
    count: int
    #: Its purpose, in words.
    what: str
    #: Its process (`vips_fast.store.process.this_process`).
    holder: dict[str, Any]
    #: Time of the reservation, in seconds of the epoch.
    at: int
    #: The part of the data that it reads; None for all records.
    part: str | None = None
    drawn: int = 0
    open: bool = True
    #: Counted as spent in full, since a record of the file was lost.
    settled: bool = False

    @property
    def spent(self) -> int:
        """Releases that count as made."""
        return self.count if self.settled else self.drawn

    @property
    def held(self) -> int:
        """Releases that may still be made."""
        return self.count - self.spent if self.open else 0

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        return {
            **{name: getattr(self, name) for name in ("what", "part", "at", "drawn")},
            "reserved": self.count,
            "counted": self.spent,
            "state": "closed" if not self.open else "abandoned" if is_dead(self.holder) else "open",
            "holder": {key: self.holder[key] for key in ("host", "pid")},
            "event": self.event.to_dict(),
        }


def reservation(run: str, event: PrivacyEvent, count: int, **facts: Any) -> Record:
    """Return the record of a `BudgetRun`."""
    facts = {"what": "", "holder": this_process(), "at": 0, "part": None} | facts
    return {"kind": "reserve", "run": run, "event": event.to_dict(), "count": count, **facts}


class BudgetState:
    """The records of a budget, applied one by one.

    ``filter`` is "gaussian" or "renyi", or "auto" until the first run decides. ``orders`` are the orders of the Renyi
    filter, each with its share of delta.

    ``pot`` is the delta for leaks, which vocabulary purchases share (`vips_fast.engine.filters`); the rest of delta is
    for everything else. It is fixed with the first run, and None before. The budget's own record has the rule. It sets
    a ``share`` of delta apart for ``number`` purchases, ``always`` or only if the first run is a purchase.
    """

    def __init__(self) -> None:
        self.name = self.dataset = self.relation = self.unit = ""
        self.epsilon = self.delta = 0.0
        self.filter = "auto"
        self.orders: tuple[tuple[float, float], ...] = ()
        self.runs: dict[str, BudgetRun] = {}
        self.pot: float | None = None
        self._rule: dict[str, Any] = {}
        #: Leaks of runs that are closed.
        self._leaked = 0.0
        # From each part, by runs that are closed.
        self._drawn: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        #: The open reservations.
        self.live: dict[str, BudgetRun] = {}

    # ---------------------------------------------------------------- records

    def apply(self, record: Record) -> None:
        """Take in a record. KeyError, TypeError or ValueError if it does not follow the earlier ones."""
        kind = record["kind"]
        if (kind == "budget") != (record["number"] == 0):
            raise ValueError("the first record has to be the budget's own, and no other")
        if kind not in ("budget", "reserve", "release", "undrawn", "close", "torn"):
            raise ValueError(f"unknown kind {kind!r}")
        getattr(self, f"_{kind}")(record)

    def _budget(self, record: Record) -> None:
        self.name, self.filter = str(record["budget"]), str(record["filter"])
        self.dataset, self.relation, self.unit = (str(record[name]) for name in ("dataset", "relation", "unit"))
        self.epsilon, self.delta = float(record["epsilon"]), float(record["delta"])
        self.orders = tuple((float(alpha), float(share)) for alpha, share in record["orders"])
        if self.filter not in (*FILTERS, "auto") or not (0.0 < self.epsilon < math.inf and 0.0 < self.delta < 1.0):
            raise ValueError("its filter, epsilon or delta is out of its range")
        if math.fsum(share for _, share in self.orders) > 1.0:
            raise ValueError("the orders of its filter share more than delta")
        rule = record["purchases"]
        self._rule = {"share": float(rule["share"]), "number": int(rule["number"]), "always": bool(rule["always"])}
        if not 0.0 <= self._rule["share"] < 1.0 or self._rule["number"] < 0:
            raise ValueError("its purchases share a delta that is out of its range")

    def _reserve(self, record: Record) -> None:
        event = event_from_dict(record["event"])
        n, at = whole_number("count", record["count"], low=1), whole_number("at", record["at"], high=_LATEST)
        run = BudgetRun(event, n, str(record["what"]), dict(record["holder"]), at)
        if record["run"] in self.runs:
            raise ValueError("a reservation is made twice")
        if {name: type(value) for name, value in run.holder.items()} != _HOLDER:
            raise ValueError("a reservation names no process")
        if record.get("part") is not None:
            run.part = check_name("part", record["part"])
        self.filter, leak = self.filter_for(event), leaked({event: run.count})
        self.pot = self.pot_of(leak)
        if leak > self.pot_left:
            raise ValueError("its purchases have more delta than is set apart for them")
        self.runs[record["run"]] = self.live[record["run"]] = run

    def _release(self, record: Record) -> None:
        run = self.live[record["run"]]
        if run.drawn >= run.count:
            raise ValueError("a run has drawn more than it reserved")
        run.drawn += 1

    def _undrawn(self, record: Record) -> None:
        """Take back the last release, which was charged and never drawn."""
        run = self.live[record["run"]]
        if run.drawn < 1:
            raise ValueError("a run takes back a release that it has not charged")
        run.drawn -= 1

    def _close(self, record: Record) -> None:
        run = self.live.pop(record["run"])
        run.open = False
        self._drawn[run.part, run.event] += run.spent
        self._leaked += leaked({run.event: run.spent})

    def _torn(self, record: Record) -> None:
        self.settle()

    def settle(self) -> None:
        """Count every open reservation as spent in full."""
        for run in self.live.values():
            run.settled = True

    def abandoned_runs(self) -> list[str]:
        """Name the open reservations of processes that have ended."""
        return [name for name, run in self.live.items() if is_dead(run.holder)]

    # ------------------------------------------------------------------- sums

    def pot_of(self, leak: float) -> float:
        """Return the pot, which a first run with this leak fixes."""
        if self.pot is not None:
            return self.pot
        return self._rule["share"] * self.delta if self._rule["number"] and (leak or self._rule["always"]) else 0.0

    @property
    def pot_left(self) -> float:
        """Delta of the pot that no release has, drawn or reserved."""
        held = (leaked({run.event: run.count}) for run in self.live.values())
        return self.pot_of(math.inf) - math.fsum((self._leaked, *held))

    @property
    def purchase_delta(self) -> float:
        """Delta for one more purchase: 0 if spent."""
        if not self.purchases()["left"]:
            return 0.0
        # The leaks of its rounds add up to -log(1 - delta) at most. Kills may have cost earlier purchases a round more.
        each = min(self.pot_of(math.inf) / self._rule["number"], self.pot_left)
        return -math.expm1(-each) * (1 - 1e-9)

    def purchases(self) -> dict[str, Any]:
        """Describe the pot, JSON-ready: its delta and purchases, and their rest."""
        pot, number, left = self.pot_of(math.inf), self._rule["number"], max(0.0, self.pot_left)
        return {
            "delta": pot,
            "delta_left": left,
            "number": number,
            "left": int(left / (pot / number) + 0.5) if pot and number else 0,
            "fixed": self.pot is not None or self._rule["always"],
        }

    def filter_for(self, event: PrivacyEvent) -> str:
        """Return the filter that counts a run."""
        if self.filter in FILTERS:
            return self.filter
        return "gaussian" if is_whole_gaussian(event) else "renyi"

    def rest(self, *, reserved: bool) -> Counter[tuple[str | None, PrivacyEvent]]:
        """Count each part's releases: drawn or, with ``reserved``, reserved."""
        counts = Counter(self._drawn)
        for run in self.live.values():
            counts[run.part, run.event] += run.count if reserved else run.spent
        return counts

    def filtered(self, spent: Spent, name: str | None = None) -> dict[str | None, float]:
        """Return each part's epsilon, by a filter. Without parts the result is {None: all}."""
        delta = self.delta - self.pot_of(math.fsum(leaked({event: n}) for (_, event), n in spent.items()))
        renyi = partial(renyi_filter_epsilon, orders=self.orders)
        bound = gaussian_filter_epsilon if (name or self.filter) == "gaussian" else renyi
        known: dict[tuple[tuple[PrivacyEvent, int], ...], float] = {}  # a year's nights are mostly alike
        out = {}
        for part, counts in accounts(spent).items():
            counts = without_leaks(counts)
            key = tuple(counts.items())
            if key not in known:
                known[key] = bound(counts, delta)
            out[part] = known[key]
        return out

    def total(self, *, reserved: bool) -> float:
        """Return the worst part's epsilon, drawn and, with ``reserved``, still reserved."""
        return max(self.filtered(self.rest(reserved=reserved)).values())

    def parts(self) -> dict[str, float]:
        """Return epsilon of everything drawn for the records of each part."""
        spent = self.filtered(self.rest(reserved=False))
        return {part: each for part, each in spent.items() if part is not None}

    @property
    def left(self) -> float:
        """Return epsilon neither spent nor reserved."""
        return max(0.0, self.epsilon - self.total(reserved=True))

    def with_run(self, event: PrivacyEvent, count: int, part: str | None = None) -> float:
        """Return epsilon of everything and a further run."""
        spent = self.rest(reserved=True)
        spent[part, event] += count
        return max(self.filtered(spent, self.filter_for(event)).values())


_budgets: weakref.WeakSet[Budget] = weakref.WeakSet()
#: Threads that are using a budget now.
_inside: set[int] = set()


@contextmanager
def _entered() -> Iterator[None]:
    thread = threading.get_ident()
    if thread in _inside:
        raise BudgetInUseError("this thread is using a budget already; leave budgets out of signal handlers")
    try:
        _inside.add(thread)
        yield
    finally:
        _inside.discard(thread)


class Budget:
    """The budget in a file; `create` makes a new one.

    Safe in several threads and processes, and after a fork. Two objects on one file are one budget. A signal handler
    that comes while its thread uses one is refused, with `BudgetInUseError`.

    All runs together may spend ``epsilon`` and ``delta``. ``dataset``, ``relation`` and ``unit`` name the protected
    data; ``identity`` is the budget's own random name.

    Raises FileNotFoundError if there is no such file, LogDamagedError if it is damaged before its end, and
    BlockingIOError if another process holds it for minutes. A torn end is not damage: everything reserved then counts
    as spent.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.abspath(path))
        self._log, self._state = Log(self.path, _KIND), BudgetState()
        self._lock = threading.Lock()
        self._name: str | None = None
        with self._reading() as state:
            self._name = self.identity = state.name
            #: These never change.
            self.epsilon, self.delta, self.dataset = state.epsilon, state.delta, state.dataset
            self.relation, self.unit = state.relation, state.unit
        _budgets.add(self)

    def __reduce__(self) -> tuple[type[Budget], tuple[Path]]:
        return type(self), (self.path,)

    @classmethod
    def create(
        cls,
        path: str | Path,
        epsilon: float,
        delta: float,
        *,
        dataset: str,
        relation: str = Relation.ADD_REMOVE,
        unit: str = "record",
        filter: str = "auto",
        purchases: int | None = None,
    ) -> Self:
        """Make a new file; nothing is ever replaced.

        Parameters
        ----------
        path : str or path
        epsilon, delta : float
            The most that all runs together may spend: epsilon > 0, delta in (0, 1).
        dataset : str
            Name of the data set.
        relation : {"add_remove", "replace_one"}
        unit : str
            Name of the privacy unit.
        filter : {"auto", "gaussian", "renyi"}
            How runs add up. "auto" takes "gaussian" if the first run uses the whole data set in
            every step, else "renyi". With "gaussian" a run on samples counts as if it used the whole data set.
        purchases : int or None
            Vocabulary purchases that share a quarter of the delta; the rest is for all else. None sets a quarter apart
            for 16 purchases if the first run is one, and nothing otherwise.

        Raises FileExistsError if the name is taken; ValueError if an argument is out of its range.
        """
        epsilon, delta = non_negative("epsilon", epsilon), open_probability("delta", delta)
        if epsilon == 0.0:
            raise ValueError("epsilon=0: expected a number above 0")
        relation = Relation(relation)
        check_choice("filter", filter, ("auto", *FILTERS))
        for name, text in (("dataset", dataset), ("unit", unit)):
            check_name(name, text)
        check_number("purchases", purchases, 0, 10_000, integer=True, optional=True)
        about = dict(dataset=dataset, relation=relation, unit=unit, epsilon=epsilon, delta=delta, filter=filter)
        # A filter has to be fixed before the first release, and so for all versions that read the file.
        about |= dict(budget=secrets.token_hex(8), orders=renyi_orders(epsilon, delta))
        number = _PURCHASES if purchases is None else int(purchases)
        about |= dict(purchases={"share": _POT_SHARE, "number": number, "always": purchases is not None})
        record = {"kind": "budget", "at": _now(), **about}
        create_file(Path(os.path.abspath(path)), encode(_KIND, [record]))
        return cls(path)

    @classmethod
    def of(cls, budget: str | Path | Budget) -> Budget:
        """Return a budget, or open the one at a path."""
        return budget if isinstance(budget, Budget) else cls(budget)

    # ------------------------------------------------------------ the file

    @contextmanager
    def _locked(self, *, write: bool) -> Iterator[BudgetState]:
        """Lock the file and give its state. A torn end is settled before anything is added."""
        with uninterrupted(), _entered(), self._lock:
            try:
                with Lock(self.path, shared=not write, limit=_WAIT, pause=stop_if_asked) as lock:
                    for record in self._log.read(lock.descriptor):
                        self._apply(record)
                    if not self._log.records:
                        raise LogDamagedError(f"{self.path}: record 0 is damaged or missing; restore a whole copy")
                    if self._name not in (None, self._state.name):
                        raise LogDamagedError(f"{self.path}: another budget has replaced this one; restore its file")
                    if self._log.torn and write:
                        self._append({"kind": "torn", "at": _now()})
                    yield self._state
                self._log.detach()
            except BudgetExceededError:
                self._log.detach()
                raise
            except BaseException as error:
                # After any other error, memory may not match the disk.
                self._log.forget()
                self._state = BudgetState()
                if isinstance(error, OSError) and error.filename is None:
                    error.filename = str(self.path)
                raise

    def _apply(self, record: Record) -> None:
        try:
            self._state.apply(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            raise LogDamagedError(f"{self.path}: record {record.get('number')} is malformed: {reason}") from None

    def _append(self, record: Record) -> None:
        self._apply(self._log.append(record))

    @contextmanager
    def _reading(self) -> Iterator[BudgetState]:
        """Give a state to read from while nobody changes it.

        After a torn end everything reserved in it counts as spent.
        """
        with self._locked(write=False) as state:
            if self._log.torn:
                state = copy.deepcopy(state)
                state.settle()
            yield state

    # -------------------------------------------------------------- amounts

    @property
    def head(self) -> str:
        """Hash that stands for the whole file as it is now."""
        with self._reading():
            return self._log.head

    @property
    def spent(self) -> float:
        """Epsilon of all releases drawn, by the filter that decides."""
        with self._reading() as state:
            return state.total(reserved=False)

    @property
    def left(self) -> float:
        """Epsilon neither spent nor reserved; `reserve` decides if a run fits."""
        with self._reading() as state:
            return state.left

    @property
    def purchase_delta(self) -> float:
        """Delta for the threshold of one more vocabulary purchase.

        Raises BudgetExceededError if the delta that is set apart for purchases is used up.
        """
        with self._reading() as state:
            share = self._without_abandoned(state).purchase_delta
            if share == 0.0:
                raise BudgetExceededError(self._no_purchase(state))
            return share

    def knows(self, head: str) -> bool:
        """Tell whether a model's head belongs to this file's history."""
        with self._reading():
            return head in self._log.heads

    def check_history(self, charges: Iterable[tuple[dict[str, str], int]]) -> None:
        """Refuse a file older than a ledger that it paid for.

        ``charges`` are the ledger's (`Ledger.charges`). Raises LogDamagedError if this file lacks the head of one, or
        some of its releases.
        """
        with self._reading() as state:
            heads = {*self._log.heads}
            for charge, drawn in charges:
                if charge["budget"] != self.identity:
                    continue
                run = state.runs.get(charge["run"])
                if charge["head"] not in heads or run is None or run.spent < drawn:
                    raise LogDamagedError(
                        f"{self.path}: an older copy was put back: the ledger has {max(drawn, 0)} releases of run "
                        f"{charge['run']}, this file {0 if run is None else run.spent}; restore the newest copy"
                    )

    def show(self) -> dict[str, Any]:
        """Return all amounts and runs, JSON-ready."""
        with self._reading() as state:
            facts = ("epsilon", "delta", "dataset", "unit", "relation", "filter")
            return {
                **{name: getattr(state, name) for name in facts},
                "spent": state.total(reserved=False),
                "left": state.left,
                "runs": [{"run": name, **run.to_dict()} for name, run in state.runs.items()],
                "purchases": state.purchases(),
                "parts": state.parts(),
                "head": self._log.head,
                "records": len(self._log.records),
                "torn": self._log.torn,
            }

    def __repr__(self) -> str:
        return (
            f"Budget({str(self.path)!r}): {self.dataset}, epsilon = {rounded_up(self.spent)} of "
            f"{rounded_up(self.epsilon)} at delta = {self.delta:g} spent"
        )

    # -------------------------------------------------------------- charging

    def check_plan(self, relation: str, unit: str, delta: float) -> None:
        """Raise ValueError if a plan's relation, unit or delta differ."""
        own_facts = {"relation": self.relation, "unit": self.unit, "delta": self.delta}
        for (name, own), plans in zip(own_facts.items(), (relation, unit, delta), strict=True):
            if plans != own:
                of = f"the budget of {self.dataset} is for {own!r}"
                raise ValueError(f"{self.path}: the run has {name}={plans!r}, {of}; expected that, or another budget")

    def check(
        self, event: PrivacyEvent, count: int = 1, part: str | None = None, *, before: SelfComposedEvent | None = None
    ) -> None:
        """Raise BudgetExceededError if ``count`` releases do not fit; reserve nothing.

        With ``before``, the event of another run that comes first, both have to fit together.
        """
        with self._reading() as state:
            state = self._without_abandoned(state)
            if before is not None:
                self._admit(state, before.event, before.count, None)
                state = copy.deepcopy(state)
                state.apply({"number": -1, **reservation("", before.event, before.count)})
            self._admit(state, event, count, part)

    def _admit(self, state: BudgetState, event: PrivacyEvent, count: int, part: str | None) -> None:
        """Refuse a run that does not fit."""
        if event.relation != state.relation:
            raise ValueError(
                f"{self.path}: the event is about relation={event.relation!r}, the budget of {state.dataset} is for "
                f"{state.relation!r}"
            )
        if (leak := leaked({event: count})) and leak > state.pot_left:
            raise BudgetExceededError(self._no_purchase(state))
        total = state.with_run(event, count, part)
        if not total <= state.epsilon:
            raise BudgetExceededError(self._refusal(state, event, count, total))

    def _no_purchase(self, state: BudgetState) -> str:
        said = state.purchases()
        if not said["delta"]:
            why = "sets no delta apart for them, as its first run was another"
        else:
            why = f"has {said['delta_left']:.3g} left of the delta of {said['delta']:.3g} that {said['number']} share"
        return (
            f"{self.path}: the budget of {state.dataset} holds no further vocabulary purchase: it {why}; expected a "
            "public vocabulary, or a budget created with purchases=N (--purchases N)"
        )

    def _refusal(self, state: BudgetState, event: PrivacyEvent, count: int, total: float | None) -> str:
        """Say why a run does not fit; ``total`` is None if it would not with any noise."""
        held = [run for run in state.live.values() if run.held]
        waiting = f", {counted(sum(run.held for run in held), 'release')} reserved by {counted(len(held), 'run')}"
        if total is None:
            does = "has nothing left for this run:"
            remedy = "another run only after those have ended" if held else "no further run on these records"
        else:
            more = f"{counted(count, 'release')} more would bring it to epsilon = {rounded_up(total, 6)},"
            does = f"does not hold this run: {more}"
            remedy = "a smaller epsilon or more noise, or neither of them, which takes all that is left"
        pot = state.pot_of(leaked({event: count}))
        apart = f", of which {pot:.3g} is set apart for vocabulary purchases" * bool(pot)
        return (
            f"{self.path}: the budget of {state.dataset} {does} its limit is {rounded_up(state.epsilon)} at delta = "
            f"{state.delta:g}{apart} ({rounded_up(state.total(reserved=False), 6)} is spent{waiting if held else ''}, "
            f"{rounded_down(state.left)} is left; {state.filter_for(event)} filter); expected {remedy}"
        )

    def _most(self, state: BudgetState, event: PrivacyEvent, least: int, count: int, part: str | None) -> int:
        """Find the most releases that fit, from ``least`` to ``count``."""

        def fits(number: int) -> bool:
            try:
                self._admit(state, event, number, part)
            except BudgetExceededError:
                return False
            return True

        return find_integer(fits, least, count)

    def reserve(
        self, event: PrivacyEvent, count: int, *, least: int | None = None, what: str = "", part: str | None = None
    ) -> Reservation:
        """Reserve ``count`` releases of an event, or the most that fit.

        With ``least``, the result is the largest number from ``least`` to ``count`` that fits.

        Reservations of ended processes are given back first. ``part`` names the part of the data that the run reads,
        None for all. If you name one, each record must lie in one part only, which nothing here can check
        (`vips_fast.accounting.parts`).

        Raises BudgetExceededError if they do not fit; ValueError if the event's relation is another, or no filter can
        bound it. Nothing is reserved then.
        """
        if count < 1:
            raise ValueError(f"count={count!r}: expected at least 1")
        part = None if part is None else check_name("part", part)
        run = secrets.token_hex(6)
        with self._locked(write=True) as state:
            for name in state.abandoned_runs():
                self._append({"kind": "close", "run": name, "at": _now(), "why": "its process had ended"})
            count = self._most(state, event, count if least is None else least, count, part)
            self._admit(state, event, count, part)
            facts = {"what": what, "at": _now(), "part": part}
            self._append(reservation(run, event, int(count), **facts))
            made = Reservation(self, run, event, int(count), self._log.head)
        # With the file free again: others need not wait for a log.
        _log.info("charge: %d releases reserved in %s as run %s", count, self.path, run)
        return made

    def noise_multiplier(self, make_event: Callable[[float], PrivacyEvent], count: int) -> float:
        """Return the smallest noise multiplier that lets ``count`` releases fit."""
        with self._reading() as state:
            state = self._without_abandoned(state)
            found = smallest_noise(lambda z: state.with_run(make_event(z), count), state.epsilon)
            if found is None:
                raise BudgetExceededError(self._refusal(state, make_event(LARGEST_NOISE), count, None))
            return found

    @staticmethod
    def _without_abandoned(state: BudgetState) -> BudgetState:
        """Return the state without the reservations of ended processes. `reserve` gives them back."""
        dead = state.abandoned_runs()
        if not dead:
            return state
        after = copy.deepcopy(state)
        for name in dead:
            after.apply({"kind": "close", "run": name, "number": -1})
        return after

    def give_back(self, run: str) -> None:
        """Close the reservation of a process on another host.

        If that process still runs, it can draw no more.

        Raises ValueError if no open reservation has this name.
        """
        with self._locked(write=True) as state:
            if run not in state.live:
                raise ValueError(f"{self.path}: {run!r} is no open reservation")
            self._append({"kind": "close", "run": run, "at": _now(), "why": "given back by hand"})


class Reservation(AbstractContextManager["Reservation"]):
    """Releases that `Budget.reserve` reserved: ``count`` of ``event``.

    Closing it gives the rest back.

    ``run`` is its name in the file, ``head`` the file's head with it as the last record.
    """

    def __init__(self, budget: Budget, run: str, event: PrivacyEvent, count: int, head: str) -> None:
        self.budget, self.run, self.event, self.count, self.head = budget, run, event, count, head
        self._made, self._pid, self._closed = 0, os.getpid(), False

    def release(self) -> None:
        """Record one release; draw its key only afterwards.

        When this returns, the release is on the disk and spent.

        Raises BudgetExceededError if the whole reservation is drawn, or was given back.
        """
        budget = self.budget
        with budget._locked(write=True) as state:
            run = state.live.get(self.run)
            if run is None or max(run.drawn, self._made) >= run.count:
                what = "was given back" if run is None else f"has been drawn in full ({counted(run.count, 'release')})"
                raise BudgetExceededError(
                    f"{budget.path}: the reservation {self.run} of {counted(self.count, 'release')} {what}; this "
                    "release is not paid for and was not made"
                )
            budget._append({"kind": "release", "run": self.run})
            self._made += 1

    def undo(self) -> None:
        """Give the last charge back, since no key was drawn for it and none will be.

        Nothing depends on a release that was not drawn, so the sum of the others is what it was before the charge.
        Only the process that charged it can know this; after its end the charge stays.
        """
        with self.budget._locked(write=True) as state:
            if self._made and self.run in state.live:
                self.budget._append({"kind": "undrawn", "run": self.run})
                self._made -= 1

    def record(self, ledger: Ledger) -> None:
        """Write the budget that pays into the ledger: data set, budget, reservation, and the head of its file."""
        about = {"dataset": self.budget.dataset, "budget": self.budget.identity}
        ledger.charge_to({**about, "run": self.run, "head": self.head})

    @contextmanager
    def charge(self, ledger: Ledger) -> Iterator[None]:
        """Charge one release, which the block records in the ledger.

        If the block fails, the charge is given back, unless the ledger's file may hold the record all the same. A
        process that is killed here gives nothing back.

        *Why this is sound.* The key of the noise is drawn after the block, by this process alone. If the block fails,
        the loop ends: no key was drawn for this charge, and none will be. Nothing depends on a release that was never
        made, so the budget's sum of the others is what it was before. A later process cannot know this, since the
        folder that it finds may be an older copy: for it the charge stays.
        """
        self.release()
        try:
            yield
        except BaseException:
            # A charge that cannot be given back stays a charge.
            with suppress(OSError, ValueError, RuntimeError):
                if ledger.stored:
                    self.undo()
            raise

    def close(self) -> None:
        """Give back the releases that were not drawn. In a forked child do nothing, as the parent may still run."""
        if self._closed or os.getpid() != self._pid:
            return
        with self.budget._locked(write=True) as state:
            if self.run in state.live:
                self.budget._append({"kind": "close", "run": self.run, "at": _now(), "why": "done"})
        self._closed = True
        path, made = self.budget.path, self._made
        _log.info("charge: %d of %d releases of run %s drawn from %s", made, self.count, self.run, path)

    def __exit__(self, *error: object) -> None:
        self.close()


def pay(
    budget: Budget, what: str, plan: RunPlan, run: RunFolder | None = None, target: Target | None = None
) -> Reservation | None:
    """Reserve the releases of a plan, or of a resumed ``run`` those that are left below ``target``; None if none are.

    ``what`` names the run in the budget's file. Raises BudgetExceededError if they do not fit; but a run that kept a
    step may resume without a reservation, and publishes the steps that it kept.
    """
    assert plan.event is not None, "a plan refuses a budget for a fit without noise"
    least, kept, count = None, 0, n_events(plan.sampler, range(plan.n_steps))
    if run is not None and run.begun:
        kept, count = run.progress(plan.event, target)
        least = 1
    if count:
        with suppress(BudgetExceededError) if kept else nullcontext():
            return budget.reserve(plan.event, count, least=least, what=what, part=plan.part)
    return None


def check_payer(ledger: Ledger, budget: Budget | None, what: str) -> None:
    """Refuse to go on with ``what``, of this ledger, on another budget than the one that pays for it.

    Releases of one run that two budgets paid for, or one budget and nobody, would be counted whole by none of them.
    Raises ValueError. A ledger in which nothing is spent or reserved may get any budget.
    """
    paid = ledger.budget or {}
    if paid.get("budget") == (None if budget is None else budget.identity) or not (paid or len(ledger)):
        return
    given = "budget=None" if budget is None else f"budget={budget.path}"
    payer = f"the budget of {paid['dataset']} ({paid['budget']}) pays" if paid else "no budget pays"
    expected = "that budget" if paid else "budget=None"
    raise ValueError(f"{given}: {payer} for {what}; expected {expected}, or another place")


def _forked() -> None:
    _inside.clear()
    # At the moment of the fork another thread of the parent may have had a lock, or been in the middle of a change.
    for budget in list(_budgets):
        budget._lock = threading.Lock()
        budget._log.forget()
        budget._state = BudgetState()


os.register_at_fork(after_in_child=_forked)
