"""Documents as the engine hands them out."""

from copy import copy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from ...data.arrays import Parts, rows_of
from ...data.counts import documents, given_outside
from ...data.shards import ShardedCorpus
from ...engine.units import Selection, unpack_block
from ...kernels import native
from ...kernels.lda import document_blocks


class Documents:
    """A corpus in compressed rows, in memory or in shards.

    ``usable`` is None: an invalid document has no words, so it contributes nothing as it is.
    """

    usable: np.ndarray | None = None
    #: Each document's words that have no column, if texts were counted (`vips_fast.data.vocabulary.count_matrix`).
    outside: np.ndarray | None = None

    def __init__(self, X: Any, invalid: str, expected_by: str):
        self._shards = X if isinstance(X, ShardedCorpus) else None
        if self._shards is not None:
            if self._shards.kind != "counts":
                raise ValueError(f"X: shards of {self._shards.kind}: expected counts")
            self.n_rows, self.n_features = self._shards.shape
            return
        matrix = documents(X, invalid=invalid, expected_by=expected_by, least_rows=0)
        self.n_rows, self.n_features = matrix.shape
        self.outside = given_outside(X)
        # Entries of a dense array are a copy already; those of a user's matrix keep their types, a block at a time.
        data = matrix.data if sparse.issparse(X) else matrix.data.astype(np.int32, copy=False)
        self._parts: Parts = data, matrix.indices, matrix.indptr
        self._native = data.dtype == matrix.indices.dtype == np.int32

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Divide rows into blocks of equal stored entries."""
        if self._shards is None:
            indptr = self._parts[2]
            lengths = indptr[rows + 1] - indptr[rows]
        else:
            lengths = self._shards.lengths(rows)
        return document_blocks(np.concatenate(([0], np.cumsum(lengths))))

    def block(self, rows: np.ndarray) -> "DocumentBlock":
        """See `vips_fast.engine.model.Records`."""
        return self, rows

    def subset(self, rows: np.ndarray) -> "Documents | Selection":
        """See `vips_fast.engine.model.Records`."""
        if self._shards is not None:
            return Selection(self, rows)
        other = copy(self)
        other.n_rows, other._parts = len(rows), rows_of(self._parts, rows)
        other.outside = None if self.outside is None else self.outside[rows]
        return other

    def arrays(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return documents as kernels take them: numbers of rows, indptr (int64), indices and counts (int32)."""
        if self._shards is None and self._native:
            counts, indices, indptr = self._parts
            return rows, indptr, indices, counts
        counts, indices, indptr = rows_of(self._parts, rows) if self._shards is None else self._shards.take(rows)
        return np.arange(len(rows)), indptr, np.asarray(indices, np.int32), np.asarray(counts, np.int32)

    def largest(self) -> int:
        """Bound the words of a document, only without privacy."""
        if self._shards is None:
            pieces = iter([(self._parts[0], self._parts[2])])
        else:
            pieces = ((piece.data, piece.indptr) for _, piece in self._shards.pieces())
        counts, lengths = 1, 1
        for data, indptr in pieces:
            counts = max(counts, int(data.max(initial=1)))
            lengths = max(lengths, int(np.diff(indptr).max(initial=1)))
        return counts * lengths


#: Some documents of a corpus, by their rows; nothing is copied.
DocumentBlock: TypeAlias = tuple[Documents, np.ndarray]


class UnitWords(NamedTuple):
    """Words of units: those of u are entries ends[u] .. ends[u + 1] - 1, ascending, each with a count above 0."""

    ends: np.ndarray
    columns: np.ndarray
    counts: np.ndarray


def unit_words(block: Any, words: np.ndarray, n_words: int) -> UnitWords:
    """List the words of units, each once, with the sums of counts."""
    (corpus, rows), _, starts = unpack_block(block, words)
    rows, offsets, columns, values = corpus.arrays(rows)
    if starts is None:
        starts = np.arange(len(rows) + 1)
    capacity = int((offsets[rows + 1] - offsets[rows]).sum())
    found = UnitWords(np.empty(len(starts), np.int64), np.empty(capacity, np.int32), np.empty(capacity))
    scratch = np.empty(n_words + n_words // 64 + 1, np.int64)
    native.unit_words(rows, starts, offsets, columns, values, n_words, scratch, *found)
    used = int(found.ends[-1])
    return UnitWords(found.ends, found.columns[:used], found.counts[:used])


def words_outside(block: Any, words: np.ndarray) -> np.ndarray:
    """Count the words of units that have no column, int64; 0 where nobody counted them."""
    (corpus, rows), _, starts = unpack_block(block, words)
    if corpus.outside is None:
        return np.zeros(len(words), np.int64)
    found = corpus.outside[rows]
    # Exact, so that no unit's number depends on another's.
    return found if starts is None else np.diff(np.concatenate(([0], np.cumsum(found)))[starts])
