"""Privacy units with several rows: persons.

With units, the engine treats a unit as it otherwise treats a record. The sampler draws units, `Model.contribute`
takes blocks of units with one random word each, and the sum of a unit's rows is clipped once, jointly. So adding or
removing a unit with all its rows moves a sum by at most the clip, whatever the number of its rows. The rows and their
number are private.
"""

from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.groups import Runs, group_codes
from .model import Records

#: SplitMix64 (Steele, Lea & Flood 2014): the words of a unit's rows from the unit's own.
GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

#: Most rows of a unit at one visit: their sums stay in what kernels take. To end by a larger number would tell of it.
MOST_ROWS = 2**18


def scramble(words: np.ndarray) -> np.ndarray:
    """Scramble uint64 words one to one, by the finisher of SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * _MIX1
    words = (words ^ (words >> np.uint64(27))) * _MIX2
    scrambled: np.ndarray = words ^ (words >> np.uint64(31))
    return scrambled


@dataclass(frozen=True)
class UnitBlock:
    """Some units, by their int64 numbers, before their rows are looked up."""

    records: "UnitRecords"
    units: np.ndarray


class UnitRecords:
    """Units with any number of rows, as the engine's `Records`.

    They stand in the order of their first rows. ``rows`` are the rows, as a model's reader made them. ``groups``,
    (rows.n_rows,), labels the unit of each row (`vips_fast.data.groups.group_codes`, which also raises its errors). It
    is `Runs`, the first rows of all units, if each unit's rows are consecutive. ``limit`` is the most rows of a unit in
    one visit, or None. If a unit has more rows, its own random word chooses ``limit`` of them, anew at each visit: a
    function of this unit only. With ``invalid="drop"`` rows without a label are together one more unit, which
    contributes nothing.
    """

    usable: np.ndarray | None = None

    def __init__(self, rows: Records, groups: Any, limit: int | None = None, invalid: str = "raise"):
        self._rows, self._limit = rows, limit
        # None: the rows are in the order of their units.
        self._order: np.ndarray | None = None
        if isinstance(groups, Runs) and rows.usable is None and groups.starts[-1] == rows.n_rows:
            self.n_rows, self._starts = len(groups.starts) - 1, groups.starts
            return
        codes = group_codes(groups, rows.n_rows, invalid)
        self._order = np.argsort(codes, kind="stable").astype(np.int64)
        taken = codes >= 0
        n_units = int(codes.max(initial=-1)) + 1 + (not taken.all())
        if rows.usable is not None:
            taken &= rows.usable
        if not taken.all():
            # A row that is not usable belongs to no unit.
            self._order = self._order[taken[self._order]]
        counts = np.bincount(codes[taken], minlength=n_units)
        self.n_rows = len(counts)
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    def _lengths(self, units: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = self._starts[units + 1] - self._starts[units]
        return lengths if self._limit is None else np.minimum(lengths, self._limit)

    def edges(self, units: np.ndarray) -> np.ndarray:
        """Divide units into blocks of equal work; never split a unit."""
        lengths = self._lengths(units)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        position = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        places = np.repeat(self._starts[units], lengths) + position
        cuts = self._rows.edges(places if self._order is None else self._order[places])
        inner = np.searchsorted(ends, np.asarray(cuts)[1:-1], side="right") - 1
        return np.unique(np.concatenate(([0], inner, [len(units)])))

    def subset(self, units: np.ndarray) -> "UnitRecords":
        """Take units with all their rows; see `vips_fast.engine.model.Records`."""
        lengths: np.ndarray = self._starts[units + 1] - self._starts[units]
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        places = np.repeat(self._starts[units] - ends[:-1], lengths) + np.arange(ends[-1])
        other = copy(self)
        other.n_rows, other._starts, other._order = len(units), ends, None
        other._rows = self._rows.subset(places if self._order is None else self._order[places])
        return other

    def block(self, units: np.ndarray) -> UnitBlock:
        return UnitBlock(self, units)


class Selection:
    """A selection of rows that stay in place, such as on disk. See `vips_fast.engine.model.Records`."""

    def __init__(self, records: Records, chosen: np.ndarray):
        self._records, self._chosen, self.n_rows = records, chosen, len(chosen)

    @property
    def usable(self) -> np.ndarray | None:
        return None if self._records.usable is None else self._records.usable[self._chosen]

    def edges(self, rows: np.ndarray) -> np.ndarray:
        return self._records.edges(self._chosen[rows])

    def block(self, rows: np.ndarray) -> Any:
        return self._records.block(self._chosen[rows])

    def subset(self, rows: np.ndarray) -> Records:
        return self._records.subset(self._chosen[rows])


def unpack_block(block: Any, words: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Unpack a block: rows, their words, and the starts of units, (n + 1,), or None if every row is a unit.

    ``words``, (n,) uint64, has one for each unit. A unit's first row takes the unit's word; the words of its other rows
    follow from it.
    """
    if not isinstance(block, UnitBlock):
        return block, words, None
    records, units = block.records, block.units
    starts, order, limit = records._starts, records._order, records._limit
    whole = starts[units + 1] - starts[units]
    ends = np.concatenate(([0], np.cumsum(whole)))
    position = np.arange(ends[-1]) - np.repeat(ends[:-1], whole)
    places = np.repeat(starts[units], whole) + position
    rows = places if order is None else order[places]
    row_words = np.repeat(words, whole) + position.astype(np.uint64) * GOLDEN
    later = position > 0
    row_words[later] = scramble(row_words[later])
    if limit is not None and whole.max(initial=0) > limit:
        # The rows with the least keys of their own, in their order in the data.
        unit_of = np.repeat(np.arange(len(units)), whole)
        least = np.lexsort((scramble(row_words ^ _MIX2), unit_of))
        kept = np.sort(least[position < limit])
        rows, row_words = rows[kept], row_words[kept]
        ends = np.concatenate(([0], np.cumsum(np.minimum(whole, limit))))
    return records._rows.block(rows), row_words, ends.astype(np.int64)
