"""Binary records: how they are checked, and how blocks of them are handed out."""

from __future__ import annotations

from typing import Any

import numpy as np


def binary_records(
    Y: Any, n_features: int | None = None, *, name: str = "Y", invalid: str = "raise",
    owner: str = "SigmoidBeliefNetwork",
) -> tuple[np.ndarray, np.ndarray | None]:
    """Records whose entries are 0 and 1, as a C-contiguous uint8 array, and which of them are usable.

    Stand-in for the function of this name in `vips_fast.data`.

    Raises
    ------
    ValueError
        If Y is not a matrix of booleans or numbers, has another width than
        ``n_features`` or, with ``invalid="raise"``, holds anything but 0 and 1. No entry
        is shown.
    """
    if hasattr(Y, "toarray"):
        Y = Y.toarray()
    Y = np.asarray(Y)
    if Y.ndim != 2 or 0 in Y.shape:
        raise ValueError(f"{name} has shape {Y.shape}: expected (n, J) with n, J >= 1")
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {Y.dtype}: expected booleans or numbers")
    if n_features is not None and Y.shape[1] != n_features:
        raise ValueError(f"{name} has {Y.shape[1]} features, but {owner} is expecting {n_features} features as input")
    usable = np.ones(len(Y), dtype=bool)
    if Y.dtype != bool:
        for first in range(0, len(Y), 1 << 13):
            part = Y[first : first + (1 << 13)]
            usable[first : first + (1 << 13)] = ((part == 0) | (part == 1)).all(axis=1)
    if usable.all():
        return np.ascontiguousarray(Y, dtype=np.uint8), None
    if invalid == "raise":
        if not np.isfinite(Y).all():
            raise ValueError(f"{name} holds NaN or infinity: expected only 0 and 1")
        raise ValueError(f"{name}: expected only 0 and 1; binarise it with a public threshold first")
    return np.where(usable[:, None], Y, 0).astype(np.uint8), usable


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
