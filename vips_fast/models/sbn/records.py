"""Binary records as the engine hands them out."""

from typing import Any

import numpy as np

from ...data.arrays import selected
from ...data.shards import ShardedCorpus
from ...engine.units import Selection


class BinaryRecords:
    """Binary records as the engine takes them; see `vips_fast.engine.model.Records`.

    ``rows``, (n, J) uint8, is C-contiguous, or a `ShardedCorpus`. Blocks are of equal size, of at most ``block``
    records, and enough for all ``n_threads`` unless they were tiny.
    """

    def __init__(self, rows: Any, usable: np.ndarray | None, block: int, n_threads: int):
        self._rows, self.usable, self.n_rows = rows, usable, rows.shape[0]
        self._block, self._n_threads = block, n_threads

    def subset(self, rows: np.ndarray) -> "BinaryRecords | Selection":
        """See `vips_fast.engine.model.Records`."""
        if isinstance(self._rows, ShardedCorpus):
            return Selection(self, rows)
        usable = None if self.usable is None else self.usable[rows]
        return BinaryRecords(self.block(rows), usable, self._block, self._n_threads)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of drawn rows."""
        n, threads = len(rows), self._n_threads
        if isinstance(self._rows, ShardedCorpus):
            self._rows.expect(rows)
        blocks = -(-n // self._block)
        blocks = max(1, min(-(-blocks // threads) * threads, -(-n // 64)))
        return np.asarray(np.arange(blocks + 1) * n // blocks)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """Select these records, by a view if they follow each other."""
        shards = isinstance(self._rows, ShardedCorpus)
        return np.asarray(self._rows.take(rows) if shards else selected(self._rows, rows))


class LabelledRecords(BinaryRecords):
    """Binary records with a last column for the class, ``numbers``, (n,) uint8."""

    def __init__(self, rows: Any, numbers: np.ndarray, usable: np.ndarray | None, block: int, n_threads: int):
        super().__init__(rows, usable, block, n_threads)
        self._numbers = numbers

    def subset(self, rows: np.ndarray) -> "LabelledRecords | Selection":
        """See `vips_fast.engine.model.Records`."""
        if isinstance(self._rows, ShardedCorpus):
            return Selection(self, rows)
        usable = None if self.usable is None else self.usable[rows]
        records = super().block(rows)
        return LabelledRecords(records, self._numbers[rows], usable, self._block, self._n_threads)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """These records, each with its class."""
        return np.column_stack([super().block(rows), self._numbers[rows]])
