"""Which rows belong to whom."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How many are missing is a number of private rows, and not said.
_MISSING = "groups: expected a label for each row of X; some are missing"


@dataclass(frozen=True)
class Runs:
    """Persons whose rows follow each other: person u owns rows ``starts[u]`` to ``starts[u + 1] - 1`` (int64)."""

    starts: np.ndarray


def group_codes(groups: Any, n_rows: int) -> np.ndarray:
    """Number the labels of rows, `Runs` or integers, texts or any hashable values, by first appearance.

    Returns int64 of shape (n_rows,), codes 0, 1, … in the order in which labels first appear. Raises ValueError if
    there is not one label for each row, or a label is missing (None, NaN or not a time); TypeError if a label is not
    hashable.
    """
    if isinstance(groups, Runs):
        if len(groups.starts) == 0 or groups.starts[-1] != n_rows:
            raise ValueError("groups: expected those of the same rows as X")
        return np.repeat(np.arange(len(groups.starts) - 1), np.diff(groups.starts))
    labels = np.asarray(groups) if not isinstance(groups, (list, tuple)) else _column(groups)
    if labels.shape != (n_rows,):
        raise ValueError(f"groups has shape {labels.shape}: expected ({n_rows},), one label for each row of X")
    if labels.dtype.kind in "fcmM":
        missing = np.isnat(labels) if labels.dtype.kind in "mM" else np.isnan(labels)
        if missing.any():
            raise ValueError(_MISSING)
    if labels.dtype.kind != "O":
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[codes.reshape(-1)]
    known: dict[Hashable, int] = {}
    out = np.empty(n_rows, dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        try:
            # A value that differs from itself, such as NaN, is a missing one.
            if label is None or bool(label != label):
                raise ValueError(_MISSING)
            out[row] = known.setdefault(label, len(known))
        except TypeError:
            kind = type(label).__name__
            raise TypeError(f"groups: expected hashable labels that are not missing, got one of type {kind}") from None
    return out


def _column(values: Any) -> np.ndarray:
    """A list as a column of objects where numpy would make a table or texts of it."""
    if all(type(value) is int for value in values):
        return np.asarray(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
