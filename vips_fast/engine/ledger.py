"""The ledger: what was released, recorded before each release.

A ledger stores events; an accountant computes epsilon from them. Every record is
chained to the one before by a hash, so that a ledger that was shortened or edited
does not load. Reading epsilon never changes it.
"""

from __future__ import annotations

import hashlib
import json

from ..accounting import ComposedEvent, SelfComposedEvent, default_accountant, epsilon, event_from_dict

SCHEMA = 1


class Ledger:
    """Append-only list of the releases of one set of records.

    Attributes
    ----------
    taints : tuple of str
        Reasons why the stated guarantee does not cover the model. Not empty means
        NOT PRIVATE, for good.
    """

    def __init__(self):
        self._records: list[dict] = []
        self._head = "0" * 64
        self._runs: list[list] = []  # [event, how many in a row]
        self._taints: list[str] = []

    def __len__(self) -> int:
        return sum(1 for record in self._records if record["kind"] == "release")

    @property
    def taints(self) -> tuple[str, ...]:
        return tuple(self._taints)

    @property
    def private(self) -> bool:
        """Whether nothing has put the model outside its stated guarantee."""
        return not self._taints

    @property
    def head(self) -> str:
        """Hash of the last record."""
        return self._head

    def _append(self, record: dict) -> None:
        record = dict(record, number=len(self._records), before=self._head)
        self._head = hashlib.sha256(_canonical(record)).hexdigest()
        self._records.append(record)

    def taint(self, reason: str) -> None:
        """Mark the ledger NOT PRIVATE, for good."""
        if reason not in self._taints:
            self._taints.append(reason)
            self._append({"kind": "taint", "reason": reason})

    def intend(self, event, *, clip_norm: float, sensitivity: float) -> None:
        """Record a release that is about to be made. It counts as spent from now on."""
        if self._runs:
            ComposedEvent((self._runs[0][0], event))  # refuses a mix of relations
        self._append(
            {"kind": "release", "event": event.to_dict(), "clip_norm": clip_norm, "sensitivity": sensitivity}
        )
        if self._runs and self._runs[-1][0] == event:
            self._runs[-1][1] += 1
        else:
            self._runs.append([event, 1])

    def event(self):
        """All releases as one composed event, or None if there are none."""
        return compose(tuple((event, count) for event, count in self._runs))

    def epsilon(self, delta: float, accountant: str | None = None) -> float:
        """Epsilon of all releases together at ``delta``; 0 before the first."""
        event = self.event()
        return 0.0 if event is None else epsilon(event, delta, accountant)

    def accountant(self) -> str | None:
        """Name of the accountant that `epsilon` uses by default."""
        event = self.event()
        return None if event is None else default_accountant(event)

    def to_dict(self) -> dict:
        """A JSON-ready copy."""
        return {"schema": SCHEMA, "head": self._head, "records": [dict(record) for record in self._records]}

    @classmethod
    def from_dict(cls, data: dict) -> Ledger:
        """The ledger from `to_dict`.

        Raises
        ------
        ValueError
            If the schema is unknown or the chain of hashes does not hold.
        """
        if not isinstance(data, dict) or data.get("schema") != SCHEMA or not isinstance(data.get("records"), list):
            raise ValueError(f"ledger: expected schema {SCHEMA}")
        ledger = cls()
        for record in data["records"]:
            fields = {k: v for k, v in record.items() if k not in ("number", "before")}
            if record.get("kind") == "taint":
                ledger.taint(fields["reason"])
            elif record.get("kind") == "release":
                ledger.intend(
                    event_from_dict(fields["event"]), clip_norm=fields["clip_norm"], sensitivity=fields["sensitivity"]
                )
            if not ledger._records or ledger._records[-1] != record:
                raise ValueError("ledger: its records do not form an unbroken chain")
        if ledger._head != data.get("head"):
            raise ValueError("ledger: its last record does not match its hash")
        return ledger


def compose(runs):
    """One event from ((event, how many), ...); None for none."""
    parts = tuple(event if count == 1 else SelfComposedEvent(event, count) for event, count in runs if count)
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else ComposedEvent(parts)


def _canonical(record: dict) -> bytes:
    return json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
