"""Hand out documents with words and a vector each."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from ...data.shards import ShardedCorpus
from ..clusters.knowledge import PublicVectors
from ..clusters.records import read_vectors
from ..lda.records import Documents

#: Documents that are projected at a time.
_BLOCK = 1024


class DocumentsWithVectors(Documents):
    """Documents by their word counts and projected vectors.

    ``X`` are counts, (n, V), and ``y`` vectors, (n, D). A document without words has no vector either. ``usable`` says
    which documents have a finite vector, and is None if all do.
    """

    def __init__(self, X: Any, y: Any, public: PublicVectors, invalid: str, kind: str):
        if isinstance(X, ShardedCorpus):
            raise ValueError("X: shards have no sentence vectors; give counts in memory")
        if y is None:
            raise ValueError("y=None: expected sentence vectors, a row for each document of X")
        super().__init__(X, invalid, kind)
        if self.n_features != len(public.words):
            expected = f"{len(public.words)}, a column for each word of {public.name!r}"
            raise ValueError(f"X has {self.n_features} columns: expected {expected}")
        vectors, self.usable = read_vectors(y, "y", public, invalid)
        if len(vectors) != self.n_rows:
            raise ValueError(f"y has {len(vectors)} rows: expected {self.n_rows}, one for each document of X")
        self.coordinates = np.empty((self.n_rows, public.projection.shape[1]), np.int32)
        for first in range(0, self.n_rows, _BLOCK):
            part = slice(first, first + _BLOCK)
            self.coordinates[part] = public.project(vectors[part])

    def subset(self, rows: np.ndarray) -> DocumentsWithVectors:
        """See `vips_fast.engine.model.Records`."""
        other = copy(self)
        taken = super().subset(rows)
        assert isinstance(taken, Documents)
        other.__dict__.update(taken.__dict__)
        other.coordinates = self.coordinates[rows]
        other.usable = None if self.usable is None else self.usable[rows]
        return other

    def with_words(self, rows: np.ndarray) -> np.ndarray:
        """Tell which of these documents have words, (n,)."""
        rows, offsets, _, _ = self.arrays(rows)
        return np.asarray(offsets[rows + 1] > offsets[rows])
