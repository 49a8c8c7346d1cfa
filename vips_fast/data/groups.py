"""Persons and their rows."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: How many are missing is a number of private rows, and not said.
_MISSING = "groups: expected a label for each row of X; some are missing"


@dataclass(frozen=True)
class Runs:
    """Persons whose rows follow each other: person u has rows ``starts[u]`` to ``starts[u + 1] - 1`` (int64)."""

    starts: np.ndarray


def group_codes(groups: Any, n_rows: int) -> np.ndarray:
    """Number the labels of rows by first appearance.

    Labels are `Runs`, integers, texts or any hashable values. Returns int64 of shape (n_rows,), codes 0, 1, …, by the
    first appearance of labels. Raises ValueError if
    there is not one label for each row, or a label is missing (None, NaN or not a time); TypeError if a label is not
    hashable.
    """
    if isinstance(groups, Runs):
        if len(groups.starts) == 0 or groups.starts[-1] != n_rows:
            raise ValueError("groups: expected those of the same rows as X")
        return np.repeat(np.arange(len(groups.starts) - 1), np.diff(groups.starts))
    labels = _column(groups)
    if labels.shape != (n_rows,):
        raise ValueError(f"groups has shape {labels.shape}: expected ({n_rows},), one label for each row of X")
    return _coded(labels)[0]


def check_whole(blocks: Sequence[Any]) -> None:
    """Refuse a person in two blocks.

    ``blocks`` are labels as for `group_codes`. Raises ValueError if a label is in two of them, or their labels are of
    different kinds, so that equal ones need not be seen as equal; and as `group_codes` for missing and unhashable ones.
    """
    known = [_distinct(_column(labels).reshape(-1)) for labels in blocks]
    if len({kind for kind, labels in known if labels}) > 1:
        raise ValueError("groups: expected labels of one kind in all blocks")
    if len(set().union(*(labels for _, labels in known))) < sum(len(labels) for _, labels in known):
        raise ValueError("groups: expected all rows of a person in one block")


def _distinct(labels: np.ndarray) -> tuple[str, set[Hashable]]:
    """Find kind and distinct labels; labels of one kind compare across columns."""
    dtype = labels.dtype
    # One time in two units, or one number in two precisions, need not give equal values.
    kind = "integer" if dtype.kind in "biu" else str(dtype.kind if dtype.kind in "OSTU" else dtype)
    return kind, set(_coded(labels)[1])


def _coded(labels: np.ndarray) -> tuple[np.ndarray, list[Hashable]]:
    """Code labels by first appearance; give the distinct labels in any order."""
    if labels.dtype.kind in "fcmM":
        missing = np.isnat(labels) if labels.dtype.kind in "mM" else np.isnan(labels)
        if missing.any():
            raise ValueError(_MISSING)
    if labels.dtype.kind != "O":
        distinct, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[codes.reshape(-1)], distinct.tolist()
    known: dict[Hashable, int] = {}
    out = np.empty(len(labels), dtype=np.int64)
    for row, label in enumerate(labels.tolist()):
        try:
            # A value that differs from itself, such as NaN, is a missing one.
            if label is None or bool(label != label):
                raise ValueError(_MISSING)
            out[row] = known.setdefault(label, len(known))
        except TypeError:
            kind = type(label).__name__
            raise TypeError(f"groups: expected hashable labels that are not missing, got one of type {kind}") from None
    return out, list(known)


def _column(values: Any) -> np.ndarray:
    """Make labels an array; of objects if numpy would change a list."""
    if not isinstance(values, (list, tuple)) or all(type(value) is int for value in values):
        return np.asarray(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
