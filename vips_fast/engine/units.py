"""Units of privacy that own several rows: persons.

With units, everything that the engine says of a record is said of a unit: the sampler draws units, `Model.contribute`
takes blocks of units, each with one random word, and the sum of a unit's rows is clipped once, jointly. So adding or
removing a unit with all its rows moves a sum by at most the clip, whatever the number of its rows; which rows there
are, and how many, is private.
"""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.groups import Runs, group_codes
from .model import Records
from .randomness import Randomness

#: SplitMix64 (Steele, Lea & Flood 2014): the words of a unit's rows from the unit's own.
GOLDEN, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mixed(words: np.ndarray) -> np.ndarray:
    """The finisher of SplitMix64: uint64 words scrambled, one to one."""
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
    """Records of units that own any number of rows, as the engine's `Records`, in the order of their first rows.

    ``rows`` are the rows, as a model's reader prepared them. ``groups``, (rows.n_rows,), are labels of the units that
    they belong to (`vips_fast.data.groups.group_codes`, whose errors are raised), or `Runs`, where each unit's rows
    begin, if they follow each other. ``limit`` is the most rows of a unit that are used at one visit, or None. A unit
    that has more is cut to as many, chosen by its own random word, anew at each visit: a function of the unit alone.
    """

    usable: np.ndarray | None = None

    def __init__(self, rows: Records, groups: Any, limit: int | None = None):
        self._rows, self._limit = rows, limit
        # None: the rows are in the order of their units.
        self._order: np.ndarray | None = None
        if isinstance(groups, Runs) and rows.usable is None and groups.starts[-1] == rows.n_rows:
            self.n_rows, self._starts = len(groups.starts) - 1, groups.starts
            return
        codes = group_codes(groups, rows.n_rows)
        self._order = np.argsort(codes, kind="stable").astype(np.int64)
        if rows.usable is not None:
            # A row that is not usable is no row of anybody's.
            self._order = self._order[rows.usable[self._order]]
            counts = np.bincount(codes[rows.usable], minlength=int(codes.max(initial=-1)) + 1)
        else:
            counts = np.bincount(codes)
        self.n_rows = len(counts)
        self._starts = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)

    def _lengths(self, units: np.ndarray) -> np.ndarray:
        lengths: np.ndarray = self._starts[units + 1] - self._starts[units]
        return lengths if self._limit is None else np.minimum(lengths, self._limit)

    def _numbers(self, places: np.ndarray) -> np.ndarray:
        """Numbers of rows, by their places in the order of the units."""
        return places if self._order is None else self._order[places]

    def edges(self, units: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of about equal work; a unit is never divided."""
        lengths = self._lengths(units)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        position = np.arange(ends[-1]) - np.repeat(ends[:-1], lengths)
        cuts = self._rows.edges(self._numbers(np.repeat(self._starts[units], lengths) + position))
        inner = np.searchsorted(ends, np.asarray(cuts)[1:-1], side="right") - 1
        return np.unique(np.concatenate(([0], inner, [len(units)])))

    def subset(self, units: np.ndarray) -> "UnitRecords":
        """See `vips_fast.engine.model.Records`; each unit with all its rows."""
        lengths: np.ndarray = self._starts[units + 1] - self._starts[units]
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        places = np.repeat(self._starts[units] - ends[:-1], lengths) + np.arange(ends[-1])
        other = copy(self)
        other.n_rows, other._starts, other._order = len(units), ends, None
        other._rows = self._rows.subset(self._numbers(places))
        return other

    def block(self, units: np.ndarray) -> UnitBlock:
        """The block of these units."""
        return UnitBlock(self, units)

    def take(self, units: np.ndarray, words: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
        """The rows of units: a block of `Records`, a word for each row, and where each unit's rows begin, (n + 1,).

        ``words``, (n,) uint64, has one for each unit, from which those of its rows follow; that of the first row is the
        unit's.
        """
        whole = self._starts[units + 1] - self._starts[units]
        ends = np.concatenate(([0], np.cumsum(whole)))
        position = np.arange(ends[-1]) - np.repeat(ends[:-1], whole)
        rows = self._numbers(np.repeat(self._starts[units], whole) + position)
        row_words = np.repeat(words, whole) + position.astype(np.uint64) * GOLDEN
        later = position > 0
        row_words[later] = mixed(row_words[later])
        if self._limit is not None and whole.max(initial=0) > self._limit:
            # The rows with the least keys of their own, in their order in the data.
            owner = np.repeat(np.arange(len(units)), whole)
            order = np.lexsort((mixed(row_words ^ _MIX2), owner))
            kept = np.sort(order[position < self._limit])
            rows, row_words = rows[kept], row_words[kept]
            ends = np.concatenate(([0], np.cumsum(np.minimum(whole, self._limit))))
        return self._rows.block(rows), row_words, ends.astype(np.int64)


def read_units(
    read: Callable[..., tuple[Records, dict[str, Any]]],
    X: Any,
    y: Any,
    extra: Mapping[str, Any],
    groups: Any,
    owned: Callable[[Records, Any], Records],
) -> tuple[Records, dict[str, Any]]:
    """What ``read(X, y, **extra)`` gives: records, ``owned`` by whom ``groups`` say where they do, and public facts."""
    records, facts = read(X, y, **extra)
    return records if groups is None else owned(records, groups), facts


class Selection:
    """Some rows of records that stay where they are, such as on disk; see `vips_fast.engine.model.Records`."""

    def __init__(self, records: Records, chosen: np.ndarray):
        self._records, self._chosen, self.n_rows = records, chosen, len(chosen)

    @property
    def usable(self) -> np.ndarray | None:
        """See `Records`."""
        return None if self._records.usable is None else self._records.usable[self._chosen]

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of about equal work."""
        return self._records.edges(self._chosen[rows])

    def block(self, rows: np.ndarray) -> Any:
        """The block of these rows."""
        return self._records.block(self._chosen[rows])

    def subset(self, rows: np.ndarray) -> Records:
        """See `Records`."""
        return self._records.subset(self._chosen[rows])


class KeptRows(Selection):
    """Rows as records of their own, of which each unit keeps only so many, as the engine's `Records`.

    ``rows`` and ``groups`` are as for `UnitRecords`. ``limit`` is the most rows of a unit that are kept; None keeps
    all. `choose` says which, and has to be called first.
    """

    def __init__(self, rows: Records, groups: Any, limit: int | None = None):
        self._records, self._codes = rows, group_codes(groups, rows.n_rows)
        sizes = np.bincount(self._codes)
        self._places = np.arange(rows.n_rows) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._limit = rows.n_rows if limit is None else limit
        self.n_rows = int(np.minimum(sizes, self._limit).sum())

    def choose(self, randomness: Randomness, step: int) -> None:
        """Each unit keeps the rows with its least random words, whatever the words and rows of others, for a run."""
        words = randomness.words(len(self._codes), "rows", step)
        self._chosen = np.sort(np.lexsort((words, self._codes))[self._places < self._limit])


def opened(block: Any, words: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """A block's rows, a word for each, and where each unit's rows begin; None where every row is a unit."""
    if isinstance(block, UnitBlock):
        return block.records.take(block.units, words)
    return block, words, None
