"""Documents as the engine hands them out."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ...data.arrays import taken
from ...data.counts import documents
from ...kernels.lda import document_blocks


class DocumentBlock(NamedTuple):
    """Some documents of a corpus; nothing is copied."""

    corpus: Documents
    rows: np.ndarray


class Documents:
    """A corpus in compressed rows.

    Attributes
    ----------
    n_rows : int
    usable : None
        An invalid document has no words, so it contributes nothing as it is.
    indptr, indices, counts : int64, int32 and int32 arrays
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

    def subset(self, rows: np.ndarray) -> Documents:
        """See `vips_fast.engine.model.Records`."""
        other = copy(self)
        other.n_rows, parts = len(rows), taken(rows, self.indptr, self.indices, self.counts)
        other.indptr, other.indices, other.counts = parts
        return other

    def largest(self) -> int:
        """A bound on the words of a document (only for fits that are not private)."""
        return max(1, int(self.counts.max(initial=1))) * max(1, int(np.diff(self.indptr).max(initial=1)))
