"""Binary records as the engine hands them out."""

from typing import Any

import numpy as np

from ...data.arrays import select
from ...data.shards import ShardedCorpus
from ...engine.units import Selection


class BinaryRecords:
    """Binary records as the engine takes them; see `vips_fast.engine.model.Records`.

    ``rows``, (n, J) uint8, is C-contiguous, or a `ShardedCorpus`. Blocks are of equal size, of at most ``block``
    records, and enough for all ``n_threads`` unless they were tiny. ``labels``, (n,) uint8, are a block's last column.
    """

    def __init__(
        self, rows: Any, usable: np.ndarray | None, block: int, n_threads: int, labels: np.ndarray | None = None
    ):
        self._rows, self.usable, self.n_rows = rows, usable, rows.shape[0]
        self._block, self._n_threads, self._labels = block, n_threads, labels

    def subset(self, rows: np.ndarray) -> "BinaryRecords | Selection":
        if isinstance(self._rows, ShardedCorpus):
            return Selection(self, rows)
        usable, labels = (None if array is None else array[rows] for array in (self.usable, self._labels))
        return BinaryRecords(select(self._rows, rows), usable, self._block, self._n_threads, labels)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        n, threads = len(rows), self._n_threads
        if isinstance(self._rows, ShardedCorpus):
            self._rows.expect(rows)
        blocks = -(-n // self._block)
        blocks = max(1, min(-(-blocks // threads) * threads, -(-n // 64)))
        return np.asarray(np.arange(blocks + 1) * n // blocks)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Select these records, by a view if possible.

        It is possible if they follow each other and have no labels.
        """
        shards = isinstance(self._rows, ShardedCorpus)
        records = np.asarray(self._rows.take(rows) if shards else select(self._rows, rows))
        return records if self._labels is None else np.column_stack([records, self._labels[rows]])
