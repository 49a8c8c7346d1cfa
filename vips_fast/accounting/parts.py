"""Releases from parts of a data set: parallel composition.

Each record lies in one *part* of the data, which has a name; days, say, or wards. A release reads one part, or,
without a part, all records.

*Theorem.* Let neighboring data sets differ in one record of part p: added, removed, or replaced by another of the
*same* part. Let delta_p(epsilon) be a bound for the releases without a part and from p, composed in sequence.
Then all releases together are (epsilon, delta_p(epsilon))-private for this pair, and so (epsilon, max_p
delta_p(epsilon))-private for every pair, at every epsilon. Epsilon at delta is max_p of the epsilons of the parts.

*Proof.* Parts other than p are the same in both data sets. So a release of one of them is, given all that was seen
before it, drawn by the same law on both sides. It is a function of the earlier outputs and of fresh coins, which do not
depend on the data. All outputs together are then a function of the other releases, which delta_p bounds, and of
coins. That these were chosen in view of everything seen before is choosing by earlier releases and coins, which every
bound of a sequence allows already. A function does not tell more: P(S) <= e^epsilon Q(S) + delta_p(epsilon) for every
set S. A pair of neighbors concerns one part only, so nothing adds up over parts. Each delta_p falls with epsilon, so
the smallest epsilon that makes the largest of them at most delta is the largest of the smallest epsilons.

*Assumed, as it cannot be checked here*: no record lies in two parts. One that lies in p and in q is protected by the
releases without a part, of p and of q in sequence. Under "replace one" a record that moves from p to q changes both. So
the pair is as if it were removed from one and added to the other. The theorem does not cover it. The number of records
of a part has to be public, as for a data set.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from .events import ComposedEvent, PrivacyEvent, SelfComposedEvent

#: How often each event was released from each part; None is all records.
Spent: TypeAlias = Mapping[tuple[str | None, PrivacyEvent], int]


def accounts(spent: Spent) -> dict[str | None, Counter[PrivacyEvent]]:
    """Collect the releases of each part, with the ones without a part."""
    common: Counter[PrivacyEvent] = Counter()
    own: dict[str, Counter[PrivacyEvent]] = {}
    for (part, event), count in spent.items():
        if count:
            (common if part is None else own.setdefault(part, Counter()))[event] += count
    return {part: common + counts for part, counts in own.items()} or {None: common}


def composed(counts: Mapping[PrivacyEvent, int]) -> PrivacyEvent | None:
    """Compose releases in sequence to one event; None for none."""
    events = tuple(event if count == 1 else SelfComposedEvent(event, count) for event, count in counts.items() if count)
    return events[0] if len(events) == 1 else ComposedEvent(events) if events else None
