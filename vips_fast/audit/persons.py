"""Audits with persons as units: an adapter for records that share persons."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.groups import group_codes
from ..models.fit import Fit
from .adapter import Adapter
from .bench import Data


class Persons(Adapter):
    """An adapter whose records are persons with several rows.

    A person is a tuple of another adapter's records, one for each row. ``rows`` is the adapter of the same model with
    one row a record, ``most`` the rows of the persons in the worst pair and the most of any other.
    """

    def __init__(self, rows: Adapter, most: int):
        super().__init__({}, rows.kind)
        self.settings = rows.settings  # the same
        self.rows, self.most = rows, most
        names = ("small", "wide", "cheap", "disjoint")
        vars(self).update({name: getattr(rows, name) for name in names}, many=max(300, rows.many // max(most, 1)))
        # Rows of several entries each, and several of them.
        self.most_canaries = min(rows.most_canaries, 2**16 // min(most, 8))

    def data(self, records: Sequence[Any]) -> Data:
        """Return all persons' rows, first ones first, then second ones, with labels.

        Each row spells its person's label in another way.
        """
        places = sorted((place, number) for number, person in enumerate(records) for place in range(len(person)))
        stacked = self.rows.data([records[number][place] for place, number in places])
        labels = [(number, str(number), float(number), f" {number}.0")[place % 4] for place, number in places]
        return {**stacked, "groups": np.array(labels, dtype=object)}

    def take(self, data: Data, units: np.ndarray) -> Data:
        groups = group_codes(data["groups"], len(data["groups"]))
        order, counts = np.argsort(groups, kind="stable"), np.bincount(groups)
        starts, sizes = (np.cumsum(counts) - counts)[units], counts[units]
        ends = np.cumsum(sizes)
        rows = order[np.arange(sizes.sum()) + np.repeat(starts - (ends - sizes), sizes)]
        taken = {name: array[rows] for name, array in data.items()}
        return {**taken, "groups": np.repeat(np.arange(len(units)), sizes)}

    def worst_pair(self) -> tuple[Any, Any]:
        first, second = self.rows.worst_pair()
        return (first,) * self.most, (second,) * self.most

    def tight(self, relation: str) -> bool:
        return self.rows.tight(relation) and self.rows.adds_up()

    def base(self, n: int) -> list[Any]:
        return [(row,) * (1 + i % 3) for i, row in enumerate(self.rows.base(n))]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        n = int(rng.choice([1, min(2, self.most), int(rng.integers(1, self.most + 1)), self.most]))
        if rng.random() < 0.3:
            return (self.rows.generated(rng, columns),) * n
        return tuple(self.rows.generated(rng, columns) for _ in range(n))

    def invalid(self) -> list[Any]:
        return [(row,) * self.most for row in self.rows.invalid()]

    def blank(self, columns: int) -> list[Any]:
        return [(row,) for row in self.rows.blank(columns)]

    def width(self, entries: int) -> int:
        return self.rows.width(entries)

    def canaries(self, n: int, relation: str) -> Data | None:
        data = self.rows.canaries(n, relation)
        if data is None:
            return None
        numbers = np.repeat(np.arange(2 * n), self.most)
        return {**self.rows.take(data, numbers), "groups": numbers}

    def resized(self) -> Adapter:
        return Persons(self.rows.resized(), self.most)

    def sharp(self, stage: Fit) -> None:
        self.rows.sharp(stage)
