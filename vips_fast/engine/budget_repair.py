"""Repair a damaged budget; the copy never counts less than was spent.

*Theorem.* All releases from the data set are private with the epsilon and delta that the repaired copy counts as spent.

*Proof.* A readable record holds its own hash, so it is as it was written. Let m bound the number of lost records. The
count c in the first line is at least the number of appends that have returned (`vips_fast.store.log`). So m is
max(c, the last number + 1), less the number of readable records. If the first line is damaged, m is unknown.

1. *m <= 1, and the readable records follow on each other.* A lost reservation has no readable release, and a release
   needs a record: nothing was drawn from it. The same holds for a lost list. A lost release belongs to a readable
   reservation. The copy counts each reservation in full, closed ones too, and so that release. The full count also
   covers a lost end, torn end or repair. A copy that counts the whole budget holds this record twice, so one of the
   two is readable.
2. *Else.* The lost records may hold a reservation and its releases, of an event that nobody knows. But each
   reservation was admitted only if everything reserved stayed within the budget. So all releases together cost at most
   the whole budget, and the copy counts the whole budget as spent.

A torn end of the copy may lose one more record. So the copy ends with two that say the same.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..store.atomic import create_file
from ..store.lock import Lock
from ..store.log import Chain, Log, LogDamagedError, Record, encode, salvage
from .budget_state import BudgetState
from .interrupts import stop_if_asked

_KIND = "budget"
#: Errors of a record that does not follow on the others.
_ILL = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Repair:
    """The readable part of a budget.

    Attributes
    ----------
    path : Path
    damage : str
        The fault of the file; "" if it is whole, or its end is torn.
    records : list of dict
        Records of the copy.
    readable : int
        Number of readable records.
    lost : int or None
        At most this many records are lost; None if unknown.
    state : BudgetState
        The copy's sums.
    """

    path: Path
    damage: str
    records: list[Record]
    readable: int
    lost: int | None
    state: BudgetState

    def write(self, path: str | Path) -> None:
        """Write the repaired copy into a new file.

        Raises ValueError if the budget is not damaged; FileExistsError if the name is taken.
        """
        if not self.damage:
            raise ValueError(f"{self.path}: is not damaged; use it as it is")
        create_file(Path(os.path.abspath(path)), encode(_KIND, self.records))


def read_damaged(path: str | Path) -> Repair:
    """Read a budget as far as possible, and change nothing.

    Raises OSError if the system cannot read it; LogDamagedError if its first record is lost.
    """
    path = Path(os.path.abspath(path))
    with Lock(path, shared=True, limit=60.0, pause=stop_if_asked) as lock:
        damage, log = "", Log(path, _KIND)
        try:
            log.read(lock.descriptor)
            state = _apply(log.records)
            if log.torn:
                state.settle()
        except _ILL as error:  # LogDamagedError is a ValueError
            damage = str(error) if isinstance(error, LogDamagedError) else f"{path}: a record does not follow"
        count, found = salvage(os.pread(lock.descriptor, os.fstat(lock.descriptor).st_size, 0), _KIND)
    if not found or found[0][0].get("number") != 0 or found[0][0].get("kind") != "budget":
        raise LogDamagedError(f"{path}: its first record is lost, so nothing can be repaired; restore a whole copy")
    if not damage:
        return Repair(path, "", log.records, len(found), 0, state)
    numbers = [record["number"] for record, _ in found]
    ordered = all(a < b for a, b in zip(numbers, numbers[1:], strict=False))
    lost = max(count, numbers[-1] + 1) - len(found) if ordered and count is not None else None
    heads = sorted({head for _, head in found} | {record["before"] for record, _ in found[1:]})
    end = {"kind": "repaired", "lost": lost, "heads": heads, "at": int(time.time())}
    for whole in (lost is None or lost > 1, True):
        kept = [record for record, _ in found] if not whole else _following([record for record, _ in found])
        records = [*kept, *[dict(end, whole=whole)] * 2]
        try:
            chain = Chain()
            for record in records:
                chain.append(record)
            return Repair(path, damage, records, len(found), lost, _apply(chain.records))
        except _ILL:
            continue
    raise LogDamagedError(f"{path}: its first record is malformed, so nothing can be repaired; restore a whole copy")


def _apply(records: list[Record]) -> BudgetState:
    state = BudgetState()
    for record in records:
        state.apply(record)
    return state


def _following(records: list[Record]) -> list[Record]:
    """Return the first records that follow on each other."""
    state, kept = BudgetState(), list[Any]()
    for record in records:
        try:
            state.apply(dict(record, number=len(kept)))
        except _ILL:
            break
        kept.append(record)
    return kept
