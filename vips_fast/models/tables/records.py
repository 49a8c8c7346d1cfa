"""Hand documents out as topic proportions and public groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import copy
from typing import Any, NamedTuple

import numpy as np

from ...data.arrays import column_text, dense_array, not_finite_text
from ...data.frames import named_columns, public_places

#: Documents of a block; proportions are whole numbers of 1 / GRID.
_BLOCK, GRID = 1024, 2.0**24
#: A row of proportions whose sum is above 1 by no more than this is rounded, not wrong.
_ROUNDED = 1e-6


class GroupBlock(NamedTuple):
    """Some documents; nothing is copied."""

    documents: GroupedDocuments
    rows: np.ndarray


class GroupedDocuments:
    """Documents by their topic proportions and the numbers of their groups.

    ``places``, (n, columns), has the number of each document's value among the public ones. It is -1 for the whole
    row if one of its values is not among them.
    """

    def __init__(self, X: Any, y: Any, by: Mapping[str, Collection[str | int]], invalid: str):
        given = dense_array(X, "X", invalid == "drop")
        if given.ndim != 2 or given.shape[1] < 2 or given.dtype.kind not in "biuf":
            raise ValueError(
                f"X has shape {given.shape} and dtype {given.dtype}: expected proportions of at least two topics, "
                "(n, K), such as transform() gives"
            )
        rows = given.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = rows.sum(axis=1)
            fits = np.isfinite(rows).all(axis=1) & (rows >= 0).all(axis=1) & (sums <= 1.0 + _ROUNDED)
        if invalid == "raise" and not fits.all():
            found = "found larger sums"
            if not np.isfinite(rows).all():
                found = not_finite_text(X, rows)
            elif (outside := ((rows < 0) | (rows > 1.0 + _ROUNDED)).any(axis=0)).any():
                found = f"found other numbers in {column_text(X, int(np.flatnonzero(outside)[0]))}"
            raise ValueError(
                f"X: expected proportions >= 0 whose sum is at most 1 in each row, {found}; invalid='drop' leaves out "
                "other records"
            )
        self.usable: np.ndarray | None = None if fits.all() else fits
        rows = np.where(fits[:, None], rows, 0.0) / np.maximum(np.where(fits, sums, 1.0), 1.0)[:, None]
        self.n_rows, self.proportions = len(rows), np.trunc(rows * GRID).astype(np.int32)
        self.places = _places(y, by, self.n_rows)

    @property
    def n_topics(self) -> int:
        """Columns of the proportions."""
        return int(self.proportions.shape[1])

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """Find boundaries of blocks of equally many documents."""
        return np.append(np.arange(0, len(rows), _BLOCK), len(rows))

    def block(self, rows: np.ndarray) -> GroupBlock:
        """Make the block of these documents."""
        return GroupBlock(self, rows)

    def subset(self, rows: np.ndarray) -> GroupedDocuments:
        """See `vips_fast.engine.model.Records`."""
        other = copy(self)
        other.n_rows, other.proportions, other.places = len(rows), self.proportions[rows], self.places[rows]
        other.usable = None if self.usable is None else self.usable[rows]
        return other


def _places(y: Any, by: Mapping[str, Collection[str | int]], n_rows: int) -> np.ndarray:
    """Look up the values of each row among the public ones."""
    if known := named_columns(y):
        if missing := [name for name in by if name not in known]:
            raise ValueError(f"y: has no column {missing[0]!r}; expected the columns {', '.join(by)}")
        columns = [np.asarray(y[name], dtype=object) for name in by]
    else:
        array = np.asarray(y, dtype=object)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[1] != len(by):
            raise ValueError(
                f"y has shape {np.shape(y)}: expected ({n_rows}, {len(by)}), a column each: {', '.join(by)}"
            )
        columns = list(array.T)
    for name, column in zip(by, columns, strict=True):
        if column.shape != (n_rows,):
            raise ValueError(f"y: {name!r} has shape {column.shape}; expected ({n_rows},), one value for each row of X")
    places = np.column_stack(
        [public_places(column, values) for column, values in zip(columns, by.values(), strict=True)]
    )
    places[(places < 0).any(axis=1)] = -1
    return places
