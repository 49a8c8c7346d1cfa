"""Binary records as the engine hands them out."""

from __future__ import annotations

import numpy as np


class BinaryRecords:
    """Binary records as the engine takes them; see `vips_fast.engine.model.Records`.

    ``rows``, (n, J) uint8, is C-contiguous. Blocks are of equal size, of at most ``block`` records, and enough for all
    ``n_threads`` unless they were tiny.
    """

    def __init__(self, rows: np.ndarray, usable: np.ndarray | None, block: int, n_threads: int):
        self._rows, self.usable, self.n_rows = rows, usable, len(rows)
        self._block, self._n_threads = block, n_threads

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
