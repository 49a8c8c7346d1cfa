"""Add up a budget's records: each run's reserved and drawn releases.

A budget holds *runs*. Each has an event, and the numbers of its releases that were reserved and drawn. It also holds
*lists* of runs that were declared ahead. The lists and the rest (every run that is not of a list, by one filter) are
private with an (epsilon, delta) of their own each, fixed when they begin. These add up, which holds for interactive
mechanisms whose queries are interleaved and chosen adaptively too (Lyu 2022; Vadhan & Zhang 2023; Haney et al. 2023).
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..accounting import PrivacyEvent, event_from_dict, parts_epsilon
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
    #: The declared list that it draws from, and the place in it.
    item: tuple[str, int] | None = None
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
            "list": None if self.item is None else self.item[0],
            "state": "closed" if not self.open else "abandoned" if is_dead(self.holder) else "open",
            "holder": {key: self.holder[key] for key in ("host", "pid")},
            "event": self.event.to_dict(),
        }


def reservation(run: str, event: PrivacyEvent, count: int, item: tuple[str, int] | None, **facts: Any) -> Record:
    """Return the record of a `BudgetRun`."""
    facts = {"what": "", "holder": {}, "at": 0, "part": None} | facts
    return {"kind": "reserve", "run": run, "event": event.to_dict(), "count": count, "item": item, **facts}


@dataclass
class DeclaredList:
    """Runs declared ahead and composed as one.

    For each: event, number and number taken. For all: their common cost.
    """

    name: str
    items: list[tuple[PrivacyEvent, int]]
    epsilon: float
    delta: float
    at: int
    taken: list[int] = field(default_factory=list)
    begun: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready description."""
        runs = [[event.to_dict(), n, taken] for (event, n), taken in zip(self.items, self.taken, strict=True)]
        return {**{name: getattr(self, name) for name in ("name", "at", "epsilon", "delta", "begun")}, "runs": runs}


class BudgetState:
    """The records of a budget, applied one by one.

    ``filter`` is "gaussian" or "renyi", or "auto" until the first run decides. ``orders`` are the orders of the Renyi
    filter, each with its share of delta.

    ``pot`` is the delta for leaks, which vocabulary purchases share (`vips_fast.engine.filters`), and ``rest_delta`` is
    for everything else outside lists. Both are fixed with the first run outside lists at the latest, and None
    before. The budget's own record has the rule. It sets a ``share`` of the delta outside lists apart for ``number``
    purchases, ``always`` or only if the first run is a purchase.
    """

    def __init__(self) -> None:
        self.name = self.dataset = self.relation = self.unit = ""
        self.epsilon = self.delta = 0.0
        self.filter = "auto"
        self.orders: tuple[tuple[float, float], ...] = ()
        self.runs: dict[str, BudgetRun] = {}
        self.lists: dict[str, DeclaredList] = {}
        self.rest_delta: float | None = None
        self.pot: float | None = None
        self._rule: dict[str, Any] = {}
        #: Leaks of runs that are closed and of no list.
        self._leaked = 0.0
        # From each part, by runs that are closed and of no list.
        self._drawn: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        #: The open reservations.
        self.live: dict[str, BudgetRun] = {}
        #: Whether all of it counts as spent, after a repair (`vips_fast.engine.budget_repair`).
        self.exhausted = False
        #: Hashes of records before the repair.
        self.earlier_heads: set[str] = set()

    # ---------------------------------------------------------------- records

    def apply(self, record: Record) -> None:
        """Take in a record.

        KeyError, TypeError or ValueError if it does not follow the earlier ones.
        """
        kind = record["kind"]
        if (kind == "budget") != (record["number"] == 0):
            raise ValueError("the first record has to be the budget's own, and no other")
        if kind not in ("budget", "reserve", "release", "undrawn", "close", "list", "torn", "repaired"):
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
        event, item = event_from_dict(record["event"]), record["item"]
        run = BudgetRun(event, int(record["count"]), str(record["what"]), dict(record["holder"]), int(record["at"]))
        if record["run"] in self.runs or run.count < 1:
            raise ValueError("a reservation is made twice, or is empty")
        if record.get("part") is not None:
            run.part = check_name("part", record["part"])
        if item is None:
            if self.filter == "auto":
                self.filter = self.filter_for(event)
            leak = leaked({event: run.count})
            if self.rest_delta is None or self.pot is None:
                self.pot = self.pot_of(leak)
                self.rest_delta = self.free_delta - self.pot
            if leak > self.pot_left:
                raise ValueError("its purchases have more delta than is set apart for them")
        else:
            declared = self.lists[item[0]]
            declared.taken[item[1]] += run.count
            if declared.items[item[1]][0] != event or declared.taken[item[1]] > declared.items[item[1]][1]:
                raise ValueError("a reservation takes what its list does not hold")
            run.item = (item[0], int(item[1]))
        self.runs[record["run"]] = self.live[record["run"]] = run

    def _release(self, record: Record) -> None:
        run = self.live[record["run"]]
        if run.drawn >= run.count:
            raise ValueError("a run has drawn more than it reserved")
        run.drawn += 1
        if run.item is not None:
            self.lists[run.item[0]].begun = True

    def _undrawn(self, record: Record) -> None:
        """Take back the last release, which was charged and never drawn."""
        run = self.live[record["run"]]
        if run.drawn < 1:
            raise ValueError("a run takes back a release that it has not charged")
        run.drawn -= 1

    def _close(self, record: Record) -> None:
        run = self.live.pop(record["run"])
        run.open = False
        if run.item is None:
            self._drawn[run.part, run.event] += run.spent
            self._leaked += leaked({run.event: run.spent})
        else:
            self.lists[run.item[0]].taken[run.item[1]] -= run.count - run.spent

    def _list(self, record: Record) -> None:
        items = [(event_from_dict(event), int(count)) for event, count in record["items"]]
        name, epsilon, delta = str(record["name"]), float(record["epsilon"]), float(record["delta"])
        self.lists[record["list"]] = DeclaredList(name, items, epsilon, delta, int(record["at"]), [0] * len(items))

    def _torn(self, record: Record) -> None:
        self.settle()

    def _repaired(self, record: Record) -> None:
        """Count every reservation in full, closed ones too, or the whole budget."""
        self.earlier_heads |= {str(head) for head in record["heads"]}
        self.exhausted = self.exhausted or bool(record["whole"])
        for run in self.runs.values():
            more = 0 if run.open else run.count - run.spent
            run.settled = True
            if run.item is None:
                self._drawn[run.part, run.event] += more
            else:
                declared, place = self.lists[run.item[0]], run.item[1]
                declared.begun, declared.taken[place] = True, declared.taken[place] + more
                if declared.taken[place] > declared.items[place][1] and not self.exhausted:
                    raise ValueError("its runs in full are more than a list holds")

    def settle(self) -> None:
        """Count every open reservation as spent in full."""
        for run in self.live.values():
            run.settled = True
            if run.item is not None:
                self.lists[run.item[0]].begun = True

    def abandoned_runs(self) -> list[str]:
        """Name the open reservations of processes that have ended."""
        return [name for name, run in self.live.items() if is_dead(run.holder)]

    # ------------------------------------------------------------------- sums

    @property
    def free_delta(self) -> float:
        """Delta that no list has, rounded down."""
        if not self.lists:
            return self.delta
        return max(0.0, self.delta - math.fsum(one.delta for one in self.lists.values()) * (1 + 1e-15))

    def pot_of(self, leak: float) -> float:
        """Return the pot, which a first run with this leak fixes."""
        if self.pot is not None:
            return self.pot
        return self._rule["share"] * self.free_delta if self._rule["number"] and (leak or self._rule["always"]) else 0.0

    @property
    def pot_left(self) -> float:
        """Delta of the pot that no release has, drawn or reserved."""
        held = (leaked({run.event: run.count}) for run in self.live.values() if run.item is None)
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
        """Return the filter that counts a run outside lists."""
        if self.filter in FILTERS:
            return self.filter
        return "gaussian" if is_whole_gaussian(event) else "renyi"

    def rest(self, *, reserved: bool) -> Counter[tuple[str | None, PrivacyEvent]]:
        """Count each part's releases outside lists: drawn or, with ``reserved``, reserved."""
        counts = Counter(self._drawn)
        for run in self.live.values():
            if run.item is None:
                counts[run.part, run.event] += run.count if reserved else run.spent
        return counts

    def filtered(self, spent: Spent, name: str | None = None) -> dict[str | None, float]:
        """Return each part's epsilon outside lists, by a filter.

        Without parts the result is {None: all}.
        """
        delta = self.rest_delta
        if delta is None:
            delta = self.free_delta - self.pot_of(math.fsum(leaked({event: n}) for (_, event), n in spent.items()))
        if any(spent.values()) and delta <= 0.0:
            return {None: math.inf}
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

    def listed(self, *, reserved: bool) -> float:
        """Return epsilon of the lists that have begun; with ``reserved``, of all."""
        return math.fsum(one.epsilon for one in self.lists.values() if reserved or one.begun)

    def total(self, *, reserved: bool) -> float:
        """Return the worst part's epsilon, drawn and, with ``reserved``, still reserved."""
        total = self.listed(reserved=reserved) + max(self.filtered(self.rest(reserved=reserved)).values())
        return max(self.epsilon, total) if self.exhausted else total

    def parts(self) -> dict[str, float]:
        """Return epsilon of everything drawn for the records of each part."""
        spent = self.filtered(self.rest(reserved=False))
        return {part: self.listed(reserved=False) + each for part, each in spent.items() if part is not None}

    def with_run(self, event: PrivacyEvent, count: int, part: str | None = None) -> float:
        """Return epsilon of everything and a further run outside lists."""
        spent = self.rest(reserved=True)
        spent[part, event] += count
        if self.exhausted:
            return math.inf
        return self.listed(reserved=True) + max(self.filtered(spent, self.filter_for(event)).values())

    def item_for(self, event: PrivacyEvent, count: int) -> tuple[str, int] | None:
        """Find a list with ``count`` releases of this event left."""
        for key, one in () if self.exhausted else self.lists.items():
            for place, (declared, number) in enumerate(one.items):
                if declared == event and number - one.taken[place] >= count:
                    return key, place
        return None

    def drawn(self) -> Counter[tuple[str | None, PrivacyEvent]]:
        """Count all releases made from each part, of lists too."""
        counts: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        for run in self.runs.values():
            counts[run.part, run.event] += run.spent
        return counts

    def tight(self) -> float:
        """Return epsilon as if all releases were fixed beforehand; decides nothing."""
        return parts_epsilon(self.drawn(), self.delta)
