"""Adapters of the audit for models that only the tests attack: topics that drift, clusters, tables."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from vips_fast.audit import Adapter
from vips_fast.audit.adapters import LdaAdapter
from vips_fast.audit.bench import Data
from vips_fast.engine.result import Public
from vips_fast.models.clusters import DocumentClusters, PublicVectors
from vips_fast.models.estimator import PrivateEstimator
from vips_fast.models.fit import Fit
from vips_fast.models.lda import DriftingTopics, LdaOptions
from vips_fast.models.tables import TopicTables


class DriftAdapter(LdaAdapter):
    """Topics that drift. A record is (counts, number of its period)."""

    estimator_type = DriftingTopics

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        self.wide = self.small
        if not self.settings.get("periods"):
            self.settings["periods"] = ["May", "June", "July"]
        if self.settings.get("topics") is None:
            # Each word is in one topic, so that documents of one word keep their norm.
            self.settings["topics"] = np.eye(2)[:, np.arange(self.small) % 2]

    @property
    def _loudest(self) -> int:
        return 1 if LdaOptions.of(self.settings.get("options")).word_clip is None else super()._loudest

    def data(self, records: Sequence[Any]) -> Data:
        names = self.settings["periods"]
        dates = np.array([names[place % len(names)] for _, place in records], dtype=object)
        return {**super().data([counts for counts, _ in records]), "y": dates}

    def sharp(self, stage: Fit) -> None:
        """Do nothing: topics are settings."""

    def worst_pair(self) -> tuple[Any, Any]:
        return (self._loud(3), 0), (self._loud(2), 1)

    def base(self, n: int) -> list[Any]:
        return [(counts, i) for i, counts in enumerate(super().base(n))]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        return super().generated(rng, columns), int(rng.integers(len(self.settings["periods"])))

    def invalid(self) -> list[Any]:
        return [(counts, 0) for counts in super().invalid()]

    def canaries(self, n: int, relation: str, persons: bool = False) -> Data | None:
        return None

    def blank(self, entries: int) -> list[Any]:
        return [(np.zeros(self.small, np.int32), 0)]


class ClustersAdapter(Adapter):
    """Clusters of documents. A record is (vector, counts of words)."""

    estimator_type = DocumentClusters
    small, wide, many = 6, 6, 20_000

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        frame, words = np.eye(self.small), [f"word{v}" for v in range(self.small)]
        if self.settings.get("public") is None:
            known = PublicVectors(frame[:, :4], frame, np.ones(self.small), words, frame, "an invention")
            self.settings |= {"public": known, "n_components": 3}
        self.small = self.wide = len(self.settings["public"].projection)

    def data(self, records: Sequence[Any]) -> Data:
        return {"X": np.array([x for x, _ in records]), "y": np.array([y for _, y in records])}

    def _record(self, column: int, sign: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        counts = np.zeros(len(self.settings["public"].words), np.int32)
        counts[column % len(counts)] = 100
        return sign * np.eye(self.small)[column], counts

    def worst_pair(self) -> tuple[Any, Any]:
        return self._record(0), self._record(0, -1.0)

    def tight(self, relation: str) -> bool:
        return relation == "add_remove"

    def base(self, n: int) -> list[Any]:
        return [self._record(1 + i % (self.small - 1)) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        counts = rng.poisson(rng.choice([0.0, 0.5, 30.0]), len(self.settings["public"].words))
        return rng.standard_normal(columns) * 10.0 ** rng.uniform(-3, 3), counts.astype(np.int32)

    def invalid(self) -> list[Any]:
        records = [self._record(0) for _ in range(3)]
        for (vector, _), bad in zip(records, (math.nan, math.inf, -math.inf), strict=True):
            vector[-1] = bad
        return records

    def blank(self, entries: int) -> list[Any]:
        return [(np.eye(self.small)[0], np.zeros(len(self.settings["public"].words), np.int32))]


class TablesAdapter(Adapter):
    """Tables of topics. A record is (topic proportions, the places of its values among the public ones)."""

    estimator_type = TopicTables
    small, wide, many = 4, 4, 20_000

    def __init__(self, settings: dict[str, Any], kind: type[PrivateEstimator] | None = None):
        super().__init__(settings, kind)
        if not self.settings.get("by"):
            self.settings["by"] = {"ward": ["north", "south", "west"], "month": [1, 2, 3, 4]}
        self._lists = [list(values) for values in self.settings["by"].values()]

    def data(self, records: Sequence[Any]) -> Data:
        values = np.empty((len(records), len(self._lists)), dtype=object)
        for row, (_, places) in zip(values, records, strict=True):
            row[:] = [known[place % len(known)] for known, place in zip(self._lists, places, strict=True)]
        return {"X": np.array([x for x, _ in records]), "y": values}

    def _record(self, topic: int, number: int) -> tuple[np.ndarray, list[int]]:
        return np.eye(self.small)[topic % self.small], [number] * len(self._lists)

    def worst_pair(self) -> tuple[Any, Any]:
        return self._record(0, 0), self._record(1, 0)

    def base(self, n: int) -> list[Any]:
        return [self._record(2 + i % 2, 1 + i % 2) for i in range(n)]

    def generated(self, rng: np.random.Generator, columns: int) -> Any:
        places = [int(rng.integers(len(known))) for known in self._lists]
        return rng.dirichlet(np.full(columns, rng.choice([0.05, 1.0]))) * rng.choice([0.5, 1.0]), places

    def invalid(self) -> list[Any]:
        records = [self._record(0, 0) for _ in range(4)]
        for (shares, _), bad in zip(records, (-1.0, math.inf, math.nan, 2.0), strict=True):
            shares[0] = bad
        return records

    def canaries(self, n: int, relation: str, persons: bool = False) -> Data | None:
        own = 2 * n if relation == "replace_one" else n
        return self.data([(row, [0] * len(self._lists)) for row in np.tile(np.eye(own), (2 * n // own, 1))])

    def blank(self, entries: int) -> list[Any]:
        groups = int(self.estimator()._model(Public(2, 1, 0)).shape[0])
        return [(np.zeros(max(2, -(-entries // groups))), [0] * len(self._lists))]
