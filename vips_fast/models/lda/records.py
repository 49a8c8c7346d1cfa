"""Documents as the engine hands them out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...data.counts import documents
from ...kernels.lda import document_blocks


class DocumentBlock(NamedTuple):
    """Some documents of a corpus; nothing is copied."""

    corpus: Documents
    rows: np.ndarray


class Documents:
    """A corpus in compressed rows: ``indptr``, int64, ``indices`` and ``counts``, int32.

    ``usable`` is None: an invalid document has no words, so it contributes nothing as it is.
    """

    usable: np.ndarray | None = None

    def __init__(self, X: Any, invalid: str, owner: str):
        matrix = documents(X, invalid=invalid, owner=owner, least_rows=0)
        self.n_rows, self.n_features = matrix.shape
        self.indptr = matrix.indptr.astype(np.int64, copy=False)
        self.indices, self.counts = matrix.indices, matrix.data

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Boundaries of blocks of about equally many stored entries."""
        lengths = self.indptr[rows + 1] - self.indptr[rows]
        return document_blocks(np.concatenate(([0], np.cumsum(lengths))))

    def block(self, rows: np.ndarray) -> DocumentBlock:
        """The block of these documents."""
        return DocumentBlock(self, rows)

    def largest(self) -> int:
        """A bound on the words of a document (only for fits that are not private)."""
        return max(1, int(self.counts.max(initial=1))) * max(1, int(np.diff(self.indptr).max(initial=1)))
