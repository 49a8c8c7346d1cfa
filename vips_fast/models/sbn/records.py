"""Binary records as the engine hands them out."""

from __future__ import annotations

import numpy as np


class BinaryRecords:
    """Binary records as the engine takes them; see `vips_fast.engine.model.Records`.

    Parameters
    ----------
    rows : (n, J) uint8 array, C-contiguous
    usable : bool array of shape (n,), or None
    block : int
        Most records of a block.
    n_threads : int
        There are enough blocks of equal size for all threads, unless they were tiny.
    """

    def __init__(self, rows: np.ndarray, usable: np.ndarray | None, block: int, n_threads: int):
        self._rows, self.usable, self.n_rows = rows, usable, len(rows)
        self._block, self._n_threads = block, n_threads

    def subset(self, rows: np.ndarray) -> BinaryRecords:
        """See `vips_fast.engine.model.Records`."""
        usable = None if self.usable is None else self.usable[rows]
        return BinaryRecords(self.block(rows), usable, self._block, self._n_threads)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of drawn rows."""
        n, threads = len(rows), self._n_threads
        blocks = -(-n // self._block)
        blocks = max(1, min(-(-blocks // threads) * threads, -(-n // 64)))
        return np.asarray(np.arange(blocks + 1) * n // blocks)

    def block(self, rows: np.ndarray) -> np.ndarray:
        """These records; a view where they follow each other."""
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return self._rows[rows[0] : rows[-1] + 1]
        return np.asarray(self._rows[rows])
