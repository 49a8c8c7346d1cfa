"""Add up a budget's records: each run's reserved and drawn releases.

A budget holds *runs*. Each has an event, and the numbers of its releases that were reserved and drawn. One filter adds
up all of them.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from ..accounting import PrivacyEvent, event_from_dict
from ..accounting.parts import Spent, accounts
from ..checks import check_name
from ..store.log import Record
from ..store.process import is_dead
from .filters import FILTERS, gaussian_filter_epsilon, is_whole_gaussian, leaked, renyi_filter_epsilon, without_leaks


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
    facts = {"what": "", "holder": {}, "at": 0, "part": None} | facts
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
        run = BudgetRun(event, int(record["count"]), str(record["what"]), dict(record["holder"]), int(record["at"]))
        if record["run"] in self.runs or run.count < 1:
            raise ValueError("a reservation is made twice, or is empty")
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
        fixed = self.pot is not None or self._rule["always"]
        return {
            "delta": pot,
            "delta_left": left,
            "number": number,
            "left": int(left / (pot / number) + 0.5) if pot and number else 0,
            "fixed": fixed,
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
        gaussian = (name or self.filter) == "gaussian"
        known: dict[tuple[tuple[PrivacyEvent, int], ...], float] = {}  # a year's nights are mostly alike
        out = {}
        for part, counts in accounts(spent).items():
            counts = without_leaks(counts)
            key = tuple(counts.items())
            if key not in known:
                known[key] = (
                    gaussian_filter_epsilon(counts, delta)
                    if gaussian
                    else renyi_filter_epsilon(counts, delta, self.orders)
                )
            out[part] = known[key]
        return out

    def total(self, *, reserved: bool) -> float:
        """Return the worst part's epsilon, drawn and, with ``reserved``, still reserved."""
        return max(self.filtered(self.rest(reserved=reserved)).values())

    def parts(self) -> dict[str, float]:
        """Return epsilon of everything drawn for the records of each part."""
        spent = self.filtered(self.rest(reserved=False))
        return {part: each for part, each in spent.items() if part is not None}

    def with_run(self, event: PrivacyEvent, count: int, part: str | None = None) -> float:
        """Return epsilon of everything and a further run."""
        spent = self.rest(reserved=True)
        spent[part, event] += count
        return max(self.filtered(spent, self.filter_for(event)).values())
