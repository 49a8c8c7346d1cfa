"""The privacy budget of a data set: a file that every fit on these data charges.

A budget belongs to the data, not to an object: copies, clones, threads, forks and other processes that name the same
file all charge it. A run *reserves* what it plans, has each release written to the file before its noise is drawn, and
gives back at its end what it never drew. What that adds up to is decided by a filter (`vips_fast.engine.filters`),
since the next run is chosen in view of the results so far; `vips_fast.engine.budget_file` says, and shows, what a crash
or a damaged file counts as.
"""

from __future__ import annotations

import copy
import logging
import os
import secrets
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from ..accounting import PrivacyEvent, RandomAllocationEvent, Relation, SelfComposedEvent, rounded_up
from ..accounting.checks import non_negative, open_probability
from ..accounting.solver import find_integer
from ..checks import check_name
from ..holder import is_dead, this_process
from .budget_file import BudgetDamagedError, BudgetFile, create
from .budget_state import BudgetState
from .filters import FILTERS, LARGEST_NOISE, declared_epsilon, renyi_orders, smallest_noise
from .interrupts import uninterrupted

__all__ = ["Budget", "BudgetDamagedError", "BudgetExceededError", "BudgetInUseError", "Reservation"]


_log = logging.getLogger(__name__)


class BudgetExceededError(ValueError):
    """A charge that the budget does not hold. What was asked for has not been drawn."""

    #: Of a command that ends with this error.
    exit_code = 3


class BudgetInUseError(RuntimeError):
    """A signal handler uses a budget while the code that it interrupts, which it would wait for, is using one."""


_budgets: weakref.WeakSet[Budget] = weakref.WeakSet()
#: Threads that are using a budget now.
_inside: set[int] = set()


@contextmanager
def _entered() -> Iterator[None]:
    thread = threading.get_ident()
    if thread in _inside:
        raise BudgetInUseError("a budget is in use by this very thread; expected a signal handler to leave it alone")
    try:
        _inside.add(thread)
        yield
    finally:
        _inside.discard(thread)


class Budget:
    """The budget in a file; `create` makes a new one.

    Safe in several threads and processes, and after a fork. Two objects on one file are one budget. A signal handler
    that comes while its thread is using one is refused, with `BudgetInUseError`.

    ``epsilon`` and ``delta`` are what all runs together may spend; ``dataset``, ``relation`` and ``unit`` say what it
    is about, and ``identity`` is the budget's own name, drawn when it was made.

    Raises FileNotFoundError if there is no such file, and BudgetDamagedError if it is damaged before its end. A torn
    end is none: it counts as spent.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.abspath(path))
        self._file, self._state = BudgetFile(self.path), BudgetState()
        self._lock = threading.Lock()
        self._name: str | None = None
        with self._reading() as state:
            self._name = self.identity = state.name
            #: What never changes: the target, and what the budget is about.
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
    ) -> Self:
        """Make a new file; nothing is ever replaced.

        Parameters
        ----------
        path : str or path
        epsilon, delta : float
            What all runs together may spend: epsilon > 0, delta in (0, 1).
        dataset : str
            Name of the data set.
        relation : {"add_remove", "replace_one"}
        unit : str
            What neighbours differ by.
        filter : {"auto", "gaussian", "renyi"}
            How runs that were not declared ahead add up. "auto" takes "gaussian" if the first run uses the whole data
            set in every step, else "renyi". With "gaussian" a run on samples counts as if it used the whole data set.

        Raises FileExistsError if the name is taken; ValueError if an argument is out of its range.
        """
        epsilon, delta = non_negative("epsilon", epsilon), open_probability("delta", delta)
        if epsilon == 0.0:
            raise ValueError("epsilon=0: expected a number above 0")
        relation = Relation.of(relation, "relation")
        if filter not in ("auto", *FILTERS):
            raise ValueError(f"filter={filter!r}: expected 'auto', 'gaussian' or 'renyi'")
        for name, text in (("dataset", dataset), ("unit", unit)):
            check_name(name, text)
        record = {
            "kind": "budget",
            "number": 0,
            "budget": secrets.token_hex(8),
            "dataset": dataset,
            "relation": relation,
            "unit": unit,
            "epsilon": epsilon,
            "delta": delta,
            "filter": filter,
            "at": int(time.time()),
            # A filter has to be fixed before the first release, and so for all versions that read the file.
            "orders": renyi_orders(epsilon, delta),
        }
        create(Path(os.path.abspath(path)), record)
        return cls(path)

    @classmethod
    def of(cls, budget: str | Path | Budget) -> Budget:
        """A budget, or that of a path."""
        return budget if isinstance(budget, Budget) else cls(budget)

    # ------------------------------------------------------------ the file

    @contextmanager
    def _locked(self, *, write: bool) -> Iterator[BudgetState]:
        """The state, brought up to the file, while its lock is held; a torn end is settled before anything is added."""
        with uninterrupted(), _entered(), self._lock:
            try:
                with self._file.locked(write=write) as records:
                    for record in records:
                        self._apply(record)
                    if self._name not in (None, self._state.name):
                        raise BudgetDamagedError(f"{self.path}: another budget has taken the place of this one")
                    if self._file.torn and write:
                        self._append({"kind": "torn", "at": int(time.time())})
                    yield self._state
            except BudgetExceededError:
                raise
            except BaseException as error:
                # Whatever went wrong, what is in memory may not be what is on the disk.
                self._file.forget()
                self._state = BudgetState()
                if isinstance(error, OSError) and error.filename is None:
                    error.filename = str(self.path)
                raise

    def _apply(self, record: dict[str, Any]) -> None:
        try:
            self._state.apply(record)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else type(error).__name__
            raise BudgetDamagedError(f"{self.path}: record {record.get('number')} is malformed: {reason}") from None

    def _append(self, record: dict[str, Any]) -> None:
        self._file.append(record)
        self._apply(dict(record, number=len(self._file.heads) - 1))

    @contextmanager
    def _reading(self) -> Iterator[BudgetState]:
        """A state to read from while nobody changes it; after a torn end all that was open counts as spent in it."""
        with self._locked(write=False) as state:
            if self._file.torn:
                state = copy.deepcopy(state)
                state.settle()
            yield state

    # -------------------------------------------------------------- figures

    @property
    def head(self) -> str:
        """Hash that stands for the whole file as it is now."""
        with self._reading():
            return self._file.heads[-1]

    @property
    def spent(self) -> float:
        """Epsilon of what was drawn, by the filter that decides."""
        with self._reading() as state:
            return state.total(reserved=False)

    @property
    def left(self) -> float:
        """Epsilon that is neither spent nor reserved. A summary: what fits is decided by `reserve`."""
        with self._reading() as state:
            return max(0.0, state.epsilon - state.total(reserved=True))

    def knows(self, head: str) -> bool:
        """Whether a head, as a model keeps it, belongs to this file's history; False after a rollback."""
        with self._reading():
            return head in self._file.heads

    def show(self) -> dict[str, Any]:
        """Everything there is to say, JSON-ready."""
        with self._reading() as state:
            reserved = state.total(reserved=True)
            runs = [
                {
                    "run": name,
                    "what": run.what,
                    "part": run.part,
                    "at": run.at,
                    "reserved": run.count,
                    "drawn": run.drawn,
                    "counted": run.spent,
                    "list": None if run.item is None else run.item[0],
                    "state": "closed" if not run.open else "abandoned" if is_dead(run.holder) else "open",
                    "holder": {key: run.holder[key] for key in ("host", "pid")},
                    "event": run.event.to_dict(),
                }
                for name, run in state.runs.items()
            ]
            lists = [
                {
                    "list": key,
                    "name": one.name,
                    "at": one.at,
                    "epsilon": one.epsilon,
                    "delta": one.delta,
                    "begun": one.begun,
                    "runs": [[event.to_dict(), n, t] for (event, n), t in zip(one.items, one.taken, strict=True)],
                }
                for key, one in state.lists.items()
            ]
            return {
                "spent": state.total(reserved=False),
                "left": max(0.0, state.epsilon - reserved),
                "epsilon": state.epsilon,
                "delta": state.delta,
                "dataset": state.dataset,
                "unit": state.unit,
                "relation": state.relation,
                "filter": state.filter,
                "runs": runs,
                "lists": lists,
                "parts": state.parts(),
                "tight": state.tight(),
                "head": self._file.heads[-1],
                "records": len(self._file.heads),
                "torn": self._file.torn,
            }

    def __repr__(self) -> str:
        return (
            f"Budget({str(self.path)!r}): {self.dataset}, epsilon = {rounded_up(self.spent)} of {self.epsilon:g} at "
            f"delta = {self.delta:g} spent"
        )

    # -------------------------------------------------------------- charging

    def check_plan(self, relation: str, unit: str, delta: float) -> None:
        """Refuse a plan that is about something else than this budget.

        Raises ValueError if relation, unit or delta are not the budget's.
        """
        for name, plans, own in (
            ("neighbors", relation, self.relation),
            ("unit", unit, self.unit),
            ("target_delta", delta, self.delta),
        ):
            if plans != own:
                raise ValueError(
                    f"{self.path}: the run has {name}={plans!r}, the budget of {self.dataset} is for {own!r}"
                )

    def check(
        self, event: PrivacyEvent, count: int = 1, part: str | None = None, *, before: SelfComposedEvent | None = None
    ) -> None:
        """Raise BudgetExceededError if ``count`` releases of an event do not fit now; nothing is reserved.

        With ``before``, another run's event, that they do not fit together with that run, which comes first.
        """
        with self._reading() as state:
            # Those that ended will have given back by the time that a run reserves.
            with suppress(ValueError):
                state = self._without_abandoned(state)
            if before is not None:
                item = self._admit(state, before.event, before.count, None)
                state = copy.deepcopy(state)
                state.apply(
                    {
                        "kind": "reserve",
                        "number": -1,
                        "run": "",
                        "event": before.event.to_dict(),
                        "count": before.count,
                        "what": "",
                        "holder": {},
                        "at": 0,
                        "item": item,
                    }
                )
            self._admit(state, event, count, part)

    def _admit(self, state: BudgetState, event: PrivacyEvent, count: int, part: str | None) -> tuple[str, int] | None:
        """The place of a list that a run draws from, None for outside lists, BudgetExceededError if it does not fit."""
        if event.neighbors != state.relation:
            raise ValueError(
                f"{self.path}: the event is about neighbors={event.neighbors!r}, the budget of {state.dataset} is for "
                f"{state.relation!r}"
            )
        item = state.item_for(event, count)
        if item is not None:
            return item
        total = state.with_run(event, count, part)
        if not total <= state.epsilon:
            raise BudgetExceededError(self._refusal(state, event, count, total))
        return None

    def _refusal(self, state: BudgetState, event: PrivacyEvent, count: int, total: float) -> str:
        held = [run for run in state.live.values() if run.held]
        waiting = f", {sum(run.held for run in held)} releases are reserved by {len(held)} runs" if held else ""
        if state.rest_delta is None and state.free_delta <= 0.0:
            why = "all of its delta belongs to lists declared ahead, and none of them holds this run"
        else:
            why = (
                f"{count} releases more would bring it to epsilon = {rounded_up(total, 6)}, its limit is "
                f"{state.epsilon:g} at delta = {state.delta:g} ({rounded_up(state.total(reserved=False), 6)} is "
                f"spent{waiting}; {state.filter_for(event)} filter)"
            )
        return f"{self.path}: the budget of {state.dataset} does not hold this run: {why}"

    def _most(self, state: BudgetState, event: PrivacyEvent, least: int, count: int, part: str | None) -> int:
        """The largest number of releases up to ``count`` that fits; ``least`` where no larger one does."""

        def fits(middle: int) -> bool:
            try:
                self._admit(state, event, middle, part)
            except BudgetExceededError:
                return False
            return True

        return find_integer(fits, least, count)

    def reserve(
        self, event: PrivacyEvent, count: int, *, least: int | None = None, what: str = "", part: str | None = None
    ) -> Reservation:
        """Reserve ``count`` releases of an event, or with ``least`` as many of them as fit, but not fewer than that.

        What ended processes had reserved is given back first.

        ``part`` names the part of the data that the run reads, None for all: whoever names one says that each record
        lies in one part only, which nothing here can check (`vips_fast.accounting.parts`).

        Raises BudgetExceededError if they do not fit; ValueError if the event's relation is another, or no filter can
        bound it. Nothing is reserved then.
        """
        if count < 1:
            raise ValueError(f"count={count!r}: expected at least 1")
        run = secrets.token_hex(6)
        with self._locked(write=True) as state:
            self._give_back_abandoned(state)
            count = self._most(state, event, count if least is None else least, count, part)
            item = self._admit(state, event, count, part)
            record = {
                "kind": "reserve",
                "run": run,
                "event": event.to_dict(),
                "count": int(count),
                "what": what,
                "holder": this_process(),
                "at": int(time.time()),
                "item": item,
            }
            self._append(record if part is None else dict(record, part=check_name("part", part)))
            made = Reservation(self, run, event, int(count), self._file.heads[-1])
        # With the file free again: others need not wait for a log.
        _log.info("charge: %d releases reserved in %s as run %s", count, self.path, run)
        return made

    def reserve_list(
        self, events: Sequence[PrivacyEvent], *, name: str = "", delta: float | None = None
    ) -> dict[str, Any]:
        """Declare runs ahead, so that they are composed as one by privacy-loss distributions.

        ``events`` has one event for each run, repeated steps as `SelfComposedEvent`. A run whose event, noise
        multiplier included, is one of the list's draws from it, in any order. ``delta`` is the list's share of the
        budget's; None takes all that is left: then no run outside lists can follow.

        Returns a dict of ``list``, ``epsilon`` and ``delta``. Raises BudgetExceededError if the list does not fit, or
        no delta is left for it.
        """
        items: list[tuple[PrivacyEvent, int]] = []
        for event in events:
            count, one = 1, event
            while isinstance(one, SelfComposedEvent):
                count, one = count * one.count, one.event
            if isinstance(one, RandomAllocationEvent):
                if one.reused:
                    raise ValueError(
                        f"{self.path}: a declared run has reused minibatches, which other runs may share; expected "
                        "minibatches that are drawn for it"
                    )
                count, one = count * one.n_epochs, RandomAllocationEvent(one.n_batches, 1, one.event)
            if count < 1 or one.neighbors != self.relation:
                raise ValueError(
                    f"{self.path}: a declared run is about neighbors={one.neighbors!r} with {count} releases; expected "
                    f"{self.relation!r} and at least one"
                )
            items.append((one, count))
        if not items:
            raise ValueError("events: expected at least one run")
        key = secrets.token_hex(6)
        with self._locked(write=True) as state:
            free = 0.0 if state.rest_delta is not None else state.free_delta
            share = free if delta is None else open_probability("delta", delta)
            if not 0.0 < share <= free:
                raise BudgetExceededError(
                    f"{self.path}: a list with a delta of {share:g} does not fit the budget of {state.dataset}: "
                    f"{free:g} of {state.delta:g} is left for lists; declare them before the first run that is in none"
                )
            counts: Counter[PrivacyEvent] = Counter()
            for one, count in items:
                counts[one] += count
            cost = declared_epsilon(counts, share)
            total = state.listed(reserved=True) + cost
            if not total <= state.epsilon:
                raise BudgetExceededError(
                    f"{self.path}: the list would bring the budget of {state.dataset} to epsilon = "
                    f"{rounded_up(total, 6)}, its limit is {state.epsilon:g}"
                )
            self._append(
                {
                    "kind": "list",
                    "list": key,
                    "name": name,
                    "items": [[e.to_dict(), n] for e, n in items],
                    "epsilon": cost,
                    "delta": share,
                    "at": int(time.time()),
                }
            )
        return {"list": key, "epsilon": cost, "delta": share}

    def noise_multiplier(self, make_event: Callable[[float], PrivacyEvent], count: int) -> float:
        """The smallest noise multiplier with which ``count`` releases fit what is left.

        Raises BudgetExceededError if none does.
        """
        with self._reading() as state:
            # Those that ended will have given back by the time that this run reserves.
            with suppress(ValueError):
                state = self._without_abandoned(state)
            found = smallest_noise(lambda z: state.with_run(make_event(z), count), state.epsilon)
            if found is None:
                raise BudgetExceededError(self._refusal(state, make_event(LARGEST_NOISE), count, float("inf")))
            return found

    @staticmethod
    def _without_abandoned(state: BudgetState) -> BudgetState:
        dead = [name for name, run in state.live.items() if is_dead(run.holder)]
        if not dead:
            return state
        state = copy.deepcopy(state)
        for name in dead:
            state.apply({"kind": "close", "run": name, "number": -1})
        return state

    def _give_back_abandoned(self, state: BudgetState) -> None:
        for name in [name for name, run in state.live.items() if is_dead(run.holder)]:
            self._append({"kind": "close", "run": name, "at": int(time.time()), "why": "its process had ended"})

    def give_back(self, run: str) -> None:
        """Close a reservation whose holder cannot be judged from here. Should it live after all, it draws no more.

        Raises ValueError if there is no open one of this name.
        """
        with self._locked(write=True) as state:
            if run not in state.live:
                raise ValueError(f"{self.path}: {run!r} is no open reservation")
            self._append({"kind": "close", "run": run, "at": int(time.time()), "why": "given back by hand"})


class Reservation:
    """What a run may draw from a budget; made by `Budget.reserve`. Closing it gives the rest back.

    It is for ``count`` releases of ``event``. ``run`` is its name in the file, ``head`` the file's head with it as the
    last record.
    """

    def __init__(self, budget: Budget, run: str, event: PrivacyEvent, count: int, head: str) -> None:
        self.budget, self.run, self.event, self.count, self.head = budget, run, event, count, head
        self._made, self._pid, self._closed = 0, os.getpid(), False

    def release(self) -> None:
        """Record one release; it is on the disk, and spent, when this returns. Then its key may be drawn.

        Raises BudgetExceededError if all of the reservation is drawn, or it was given back.
        """
        budget = self.budget
        with budget._locked(write=True) as state:
            run = state.live.get(self.run)
            if run is None or max(run.drawn, self._made) >= run.count:
                what = "was given back" if run is None else f"has been drawn in full ({run.count} releases)"
                raise BudgetExceededError(
                    f"{budget.path}: the reservation {self.run} of {self.count} releases {what}; this release is not "
                    "paid for and was not made"
                )
            budget._append({"kind": "release", "run": self.run})
            self._made += 1

    def close(self) -> None:
        """Give back what was not drawn. In a forked child it does nothing: the parent's run may go on."""
        if self._closed or os.getpid() != self._pid:
            return
        with self.budget._locked(write=True) as state:
            if self.run in state.live:
                self.budget._append({"kind": "close", "run": self.run, "at": int(time.time()), "why": "done"})
        self._closed = True
        path, made = self.budget.path, self._made
        _log.info("charge: %d of %d releases of run %s drawn from %s", made, self.count, self.run, path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _forked() -> None:
    _inside.clear()
    # Another thread of the parent may have held a lock, or been in the middle of a change, at the moment of the fork.
    for budget in list(_budgets):
        budget._lock = threading.Lock()
        budget._file.forget()
        budget._state = BudgetState()


os.register_at_fork(after_in_child=_forked)
