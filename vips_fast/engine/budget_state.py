"""What a budget's records say: who has reserved and drawn what, and what that adds up to.

A budget holds *runs*, each with an event, how many releases of it were reserved and how many were drawn, and *lists* of
runs that were declared ahead. The lists and the rest (every run that is not of a list, by one filter) are private with
an (epsilon, delta) of their own each, fixed when they begin, and these add up; that holds for interactive mechanisms
whose queries are interleaved and chosen adaptively as well (Lyu 2022; Vadhan & Zhang 2023; Haney et al. 2023).
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..accounting import PrivacyEvent, event_from_dict, parts_epsilon
from ..accounting.parts import Spent, accounts
from ..checks import check_name
from .filters import FILTERS, gaussian_filter_epsilon, is_whole_gaussian, leaked, renyi_filter_epsilon, without_leaks


@dataclass
class BudgetRun:
    """A reservation, open or closed."""

    #: Of one release.
    event: PrivacyEvent
    #: Releases reserved; releases drawn.
    count: int
    #: What for, in words.
    what: str
    #: See `vips_fast.holder`.
    holder: dict[str, Any]
    #: When it was made, in seconds of the epoch.
    at: int
    #: The declared list that it draws from, and the place in it.
    item: tuple[str, int] | None = None
    #: The part of the data that it reads; None for all records.
    part: str | None = None
    drawn: int = 0
    open: bool = True
    #: Counted as spent to the full, since a record of the file was lost.
    settled: bool = False

    @property
    def spent(self) -> int:
        """Releases that count as made."""
        return self.count if self.settled else self.drawn

    @property
    def held(self) -> int:
        """Releases that may still be made."""
        return self.count - self.spent if self.open else 0


@dataclass
class DeclaredList:
    """Runs declared ahead, composed as one: event and number of each, number taken, and what all cost."""

    name: str
    items: list[tuple[PrivacyEvent, int]]
    epsilon: float
    delta: float
    at: int
    taken: list[int] = field(default_factory=list)
    begun: bool = False


class BudgetState:
    """The records of a budget, applied one by one.

    ``filter`` is "gaussian" or "renyi", or "auto" until the first run decides; ``orders`` are those of the Renyi
    filter, each with its share of delta. ``rest_delta`` is the share of delta of the runs outside lists, less what the
    first of them may let through; None before the first.
    """

    def __init__(self) -> None:
        self.name = self.dataset = self.relation = self.unit = ""
        self.epsilon = self.delta = 0.0
        self.filter = "auto"
        self.orders: tuple[tuple[float, float], ...] = ()
        self.runs: dict[str, BudgetRun] = {}
        self.lists: dict[str, DeclaredList] = {}
        self.rest_delta: float | None = None
        # From each part, by runs that are closed and of no list.
        self._drawn: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        #: The open reservations.
        self.live: dict[str, BudgetRun] = {}

    # ---------------------------------------------------------------- records

    def apply(self, record: dict[str, Any]) -> None:
        """Take a record in; KeyError, TypeError or ValueError if it does not fit those before."""
        kind = record["kind"]
        if (kind == "budget") != (record["number"] == 0):
            raise ValueError("the first record has to be the budget's own, and no other")
        apply: Callable[[dict[str, Any]], None] = {
            "budget": self._budget,
            "reserve": self._reserve,
            "release": self._release,
            "close": self._close,
            "list": self._list,
            "torn": self._torn,
        }[kind]
        apply(record)

    def _budget(self, record: dict[str, Any]) -> None:
        self.name, self.dataset = str(record["budget"]), str(record["dataset"])
        self.relation, self.unit = str(record["relation"]), str(record["unit"])
        self.epsilon, self.delta = float(record["epsilon"]), float(record["delta"])
        self.filter = str(record["filter"])
        self.orders = tuple((float(alpha), float(share)) for alpha, share in record["orders"])
        if math.fsum(share for _, share in self.orders) > 1.0:
            raise ValueError("the orders of its filter share more than delta")

    def _reserve(self, record: dict[str, Any]) -> None:
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
            if self.rest_delta is None:
                self.rest_delta = self.free_delta - leak
            elif leak:
                raise ValueError("a release that may let delta through is not the first")
        else:
            declared = self.lists[item[0]]
            declared.taken[item[1]] += run.count
            if declared.items[item[1]][0] != event or declared.taken[item[1]] > declared.items[item[1]][1]:
                raise ValueError("a reservation takes what its list does not hold")
            run.item = (item[0], int(item[1]))
        self.runs[record["run"]] = self.live[record["run"]] = run

    def _release(self, record: dict[str, Any]) -> None:
        run = self.live[record["run"]]
        if run.drawn >= run.count:
            raise ValueError("a run has drawn more than it reserved")
        run.drawn += 1
        if run.item is not None:
            self.lists[run.item[0]].begun = True

    def _close(self, record: dict[str, Any]) -> None:
        run = self.live.pop(record["run"])
        run.open = False
        if run.item is None:
            self._drawn[run.part, run.event] += run.spent
        else:
            self.lists[run.item[0]].taken[run.item[1]] -= run.count - run.spent

    def _list(self, record: dict[str, Any]) -> None:
        items = [(event_from_dict(event), int(count)) for event, count in record["items"]]
        self.lists[record["list"]] = DeclaredList(
            str(record["name"]),
            items,
            float(record["epsilon"]),
            float(record["delta"]),
            int(record["at"]),
            [0] * len(items),
        )

    def _torn(self, record: dict[str, Any]) -> None:
        self.settle()

    def settle(self) -> None:
        """Count every open reservation as spent to the full."""
        for run in self.live.values():
            run.settled = True
            if run.item is not None:
                self.lists[run.item[0]].begun = True

    # ------------------------------------------------------------------- sums

    @property
    def free_delta(self) -> float:
        """What lists have left of delta, rounded down."""
        if not self.lists:
            return self.delta
        return max(0.0, self.delta - math.fsum(one.delta for one in self.lists.values()) * (1 + 1e-15))

    def filter_for(self, event: PrivacyEvent) -> str:
        """The filter that a run outside lists is counted by."""
        if self.filter in FILTERS:
            return self.filter
        return "gaussian" if is_whole_gaussian(event) else "renyi"

    def rest(self, *, reserved: bool) -> Counter[tuple[str | None, PrivacyEvent]]:
        """Releases outside lists, from each part: those drawn, and with ``reserved`` those that may be."""
        counts = Counter(self._drawn)
        for run in self.live.values():
            if run.item is None:
                counts[run.part, run.event] += run.count if reserved else run.spent
        return counts

    def filtered(self, spent: Spent, name: str | None = None) -> dict[str | None, float]:
        """Epsilon of releases outside lists for each part, by the filter that decides; without parts, {None: all}."""
        # What the first run may let through is its own, and was fixed before anything was seen.
        delta = self.rest_delta
        if delta is None:
            delta = self.free_delta - max(map(leaked, accounts(spent).values()))
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
        """Epsilon of the lists: those begun, and with ``reserved`` all."""
        return math.fsum(one.epsilon for one in self.lists.values() if reserved or one.begun)

    def total(self, *, reserved: bool) -> float:
        """Epsilon of everything drawn, and with ``reserved`` of what may still be; that of the worst part."""
        return self.listed(reserved=reserved) + max(self.filtered(self.rest(reserved=reserved)).values())

    def parts(self) -> dict[str, float]:
        """Epsilon of everything drawn that a record of each part was in."""
        spent = self.filtered(self.rest(reserved=False))
        return {part: self.listed(reserved=False) + each for part, each in spent.items() if part is not None}

    def with_run(self, event: PrivacyEvent, count: int, part: str | None = None) -> float:
        """Epsilon of everything, and of a further run outside lists."""
        spent = self.rest(reserved=True)
        spent[part, event] += count
        if self.rest_delta is not None and leaked({event: count}):
            return math.inf
        return self.listed(reserved=True) + max(self.filtered(spent, self.filter_for(event)).values())

    def item_for(self, event: PrivacyEvent, count: int) -> tuple[str, int] | None:
        """A place of a list that still holds ``count`` releases of an event."""
        for key, one in self.lists.items():
            for place, (declared, number) in enumerate(one.items):
                if declared == event and number - one.taken[place] >= count:
                    return key, place
        return None

    def drawn(self) -> Counter[tuple[str | None, PrivacyEvent]]:
        """All releases that count as made, from each part, of lists too."""
        counts: Counter[tuple[str | None, PrivacyEvent]] = Counter()
        for run in self.runs.values():
            counts[run.part, run.event] += run.spent
        return counts

    def tight(self) -> float:
        """Epsilon of all that was drawn, if all of it had been fixed beforehand; decides nothing."""
        return parts_epsilon(self.drawn(), self.delta)
