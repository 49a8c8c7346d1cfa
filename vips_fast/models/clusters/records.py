"""Hand documents out as vectors, with the words in them."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ...data.arrays import dense_array, not_finite_text
from ..lda.records import Documents
from .knowledge import PublicVectors

#: Documents of a block.
_BLOCK = 1024


class VectorBlock(NamedTuple):
    """Some documents; nothing is copied."""

    documents: VectorDocuments
    rows: np.ndarray


def read_vectors(X: Any, name: str, public: PublicVectors, invalid: str) -> tuple[np.ndarray, np.ndarray | None]:
    """Check sentence vectors; vectors that are not finite become 0.

    Returns them, (n, D), and which rows were finite, or None if all were. ValueError names the argument.
    """
    vectors = dense_array(X, name, invalid == "drop")
    columns = len(public.projection)
    if vectors.ndim != 2 or vectors.shape[1] != columns or vectors.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} has shape {vectors.shape} and dtype {vectors.dtype}: expected numbers, (n, {columns}), vectors of "
            f"the encoder of {public.name!r}"
        )
    finite = np.isfinite(vectors).all(axis=1)
    if finite.all():
        return vectors, None
    if invalid == "raise":
        raise ValueError(f"{name}: expected finite numbers, {not_finite_text(X, vectors)}")
    return np.where(finite[:, None], vectors, 0.0), finite


class VectorDocuments:
    """Documents by their nearest prototypes, projected vectors and words.

    ``usable`` says which documents have a finite vector, and is None if all do.
    """

    def __init__(self, X: Any, y: Any, public: PublicVectors, invalid: str, kind: str):
        vectors, self.usable = read_vectors(X, "X", public, invalid)
        self.n_rows = len(vectors)
        self.nearest = np.empty(self.n_rows, np.int32)
        self.coordinates = np.empty((self.n_rows, public.projection.shape[1]), np.int32)
        for first in range(0, self.n_rows, _BLOCK):
            part = slice(first, first + _BLOCK)
            self.nearest[part], self.coordinates[part] = public.nearest(vectors[part]), public.project(vectors[part])
        self._words: Any = None
        if y is not None:
            self._words = Documents(y, invalid, kind)
            if (self._words.n_rows, self._words.n_features) != (self.n_rows, len(public.words)):
                shape = self._words.n_rows, self._words.n_features
                expected = f"{(self.n_rows, len(public.words))}, a column for each word of {public.name!r}"
                raise ValueError(f"y has shape {shape}: expected {expected}")

    @property
    def counted(self) -> bool:
        """Whether there are words."""
        return self._words is not None

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Find boundaries of blocks of equally many documents."""
        return np.append(np.arange(0, len(rows), _BLOCK), len(rows))

    def block(self, rows: np.ndarray) -> VectorBlock:
        """Make the block of these documents."""
        return VectorBlock(self, rows)

    def subset(self, rows: np.ndarray) -> VectorDocuments:
        """See `vips_fast.engine.model.Records`."""
        other = copy(self)
        other.n_rows, other.nearest, other.coordinates = len(rows), self.nearest[rows], self.coordinates[rows]
        other.usable = None if self.usable is None else self.usable[rows]
        other._words = None if self._words is None else self._words.subset(rows)
        return other

    def words(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """List documents' words: number among these, word and count."""
        if self._words is None:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        rows, offsets, columns, values = self._words.arrays(rows)
        lengths = offsets[rows + 1] - offsets[rows]
        ends = np.concatenate(([0], np.cumsum(lengths)))
        at = np.repeat(offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        return np.repeat(np.arange(len(rows)), lengths), columns[at].astype(np.int64), values[at].astype(np.float64)
