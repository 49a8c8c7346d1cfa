"""Persons and their rows.

A label has one canonical form, whatever file or type it comes from, so that no person is split across units.
"""

import datetime
import re
import unicodedata
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Integral
from typing import Any
from uuid import UUID

import numpy as np

from ..checks import check_choice
from .frames import is_missing

#: Blanks around a text, with marks that no eye sees; and a whole number with a fraction of zeros.
_AROUND = re.compile(r"\A[\s\0\ufeff\u200b]+|[\s\0\ufeff\u200b]+\Z")
_WHOLE = re.compile(r"(-?[0-9]+)(\.0*)?")


@dataclass(frozen=True)
class Runs:
    """Persons whose rows follow each other. Person u has rows ``starts[u]`` to ``starts[u + 1] - 1`` (int64)."""

    starts: np.ndarray


def canonical_label(label: Any) -> Hashable:
    """Find the canonical form of a person's label.

    A text is in Unicode's form NFC, without blanks around it. A whole number is its decimal digits, whatever its type:
    7, 7.0, Decimal("7.00"), "7" and " 7.0 " are one person, "07" is another. Other numbers and times are their shortest
    texts (ISO 8601, in UTC if they have a zone; midnight is the day). Bytes are UTF-8. A tuple has the canonical forms
    of its parts.

    Returns the form, or None for a missing label: None, NaN, not a time, an empty text, a tuple with such a part.
    Raises TypeError for labels that do not tell persons apart. These are booleans, floats so large that their type does
    not hold every whole number (2**53 for 64 bits), numbers of more than 100 digits, and all other types.
    """
    if type(label) is str and label.isascii() and label.isalnum():
        return label  # the most frequent case, which the rest would not change
    if not isinstance(label, str) and is_missing(label):
        return None
    if isinstance(label, bytes):
        label = label.decode("utf-8", "surrogateescape")
    if isinstance(label, str):
        text = _AROUND.sub("", unicodedata.normalize("NFC", str(label)))
        whole = _WHOLE.fullmatch(text)
        return (text if whole is None else "0" if whole[1] == "-0" else whole[1]) or None
    if isinstance(label, (float, np.floating)):
        if abs(float(label)) < 2.0 ** (np.finfo(type(label)).nmant + 1):
            return str(int(label)) if label == int(label) else str(label)
    elif isinstance(label, Integral) and not isinstance(label, (bool, np.timedelta64)):
        if abs(int(label)) < 10**100:  # Python writes no very long ones
            return str(int(label))
    elif isinstance(label, Decimal) and abs(label.adjusted()) < 100:
        text = format(label, "f")
        return canonical_label(text.rstrip("0") if "." in text else text)
    elif isinstance(label, (datetime.date, np.datetime64)):
        return _time(label)
    elif isinstance(label, UUID):
        return str(label)
    elif isinstance(label, tuple):
        parts = tuple(map(canonical_label, label))
        return None if None in parts else parts
    kind = type(label).__name__
    raise TypeError(f"labels that are texts, whole numbers, dates or tuples of them, got one of type {kind}")


def cell_form(cell: Any) -> Hashable:
    """Find the form by which a cell is compared with public values, `canonical_label`'s; None if it is missing.

    That of a cell which is no label, such as a truth value or a month of pandas, is its text.
    """
    try:
        return canonical_label(cell)
    except TypeError:
        return str(cell)


def public_places(column: np.ndarray, values: Collection[str | int]) -> np.ndarray:
    """Find each entry of a column among public values by `cell_form`, -1 for any other."""
    places = {cell_form(value): place for place, value in enumerate(values)} | {None: -1}
    return np.fromiter((places.get(cell_form(cell), -1) for cell in column.tolist()), np.int64, len(column))


def _time(label: Any) -> str:
    if isinstance(label, np.datetime64):
        label = label.astype("datetime64[s]") if np.datetime_data(label.dtype)[0] in ("h", "m") else label
        text = str(label)
    else:
        zone = getattr(label, "tzinfo", None)
        text = (label if zone is None else label.astimezone(datetime.UTC).replace(tzinfo=None)).isoformat()
        text += "" if zone is None else "Z"
    text = re.sub(r"\.([0-9]*?)0+(?=Z?\Z)", lambda match: f".{match[1]}" if match[1] else "", text)
    return text.removesuffix("T00:00:00")


class Numbering:
    """Numbers of persons by the first appearance of their canonical labels.

    Give labels as often as you like, such as for each part of the data. With ``invalid="drop"`` a label that is missing
    or unusable has the number -1. With "raise" it is an error of `group_codes`, about an argument of this name.
    """

    def __init__(self, invalid: str = "raise", name: str = "groups") -> None:
        self._drop, self._name = check_choice("invalid", invalid, ("raise", "drop")) == "drop", name
        self._known: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, labels: Any) -> np.ndarray:
        """Number some labels: int64, of the same length."""
        column, places = _column(labels).reshape(-1), None
        if column.dtype.kind not in "OT":
            column, places = _distinct(column)
        # Numbers of a precision and times in a unit are not Python's.
        each = list(column) if column.dtype.kind in "fmM" else column.tolist()
        known, numbers = self._known, np.empty(len(each), np.int64)
        for row, label in enumerate(each):
            # A text that is a known form is its own form.
            number = known.get(label) if type(label) is str else None
            if number is None:
                try:
                    form, error = canonical_label(label), "a label for each row; some are missing"
                except TypeError as unusable:
                    form, error = None, str(unusable)
                if form is None and not self._drop:
                    # How many there are is a number of private rows, and not said.
                    raise ValueError(f"{self._name}: expected {error}")
                number = -1 if form is None else known.setdefault(form, len(known))
            numbers[row] = number
        return numbers if places is None else numbers[places]


def group_codes(groups: Any, n_rows: int, invalid: str = "raise") -> np.ndarray:
    """Assign numbers to the labels of rows, by first appearance.

    Labels are `Runs`, or labels for `canonical_label`. Returns int64 of shape (n_rows,), codes 0, 1, …, by the
    first appearance of persons; with ``invalid="drop"``, -1 for a row of nobody. Raises ValueError if there is not one
    label for each row, or (with "raise") a label is missing or of another type.
    """
    if isinstance(groups, Runs):
        if len(groups.starts) == 0 or groups.starts[-1] != n_rows:
            raise ValueError("groups: expected those of the same rows as X")
        return np.repeat(np.arange(len(groups.starts) - 1), np.diff(groups.starts))
    labels = _column(groups)
    if labels.shape != (n_rows,):
        raise ValueError(f"groups has shape {labels.shape}: expected ({n_rows},), one label for each row of X")
    if labels.dtype.kind not in "iu":
        return Numbering(invalid)(labels)
    return _distinct(labels)[1]


def check_whole(blocks: Sequence[Any]) -> None:
    """Refuse a person in two blocks.

    ``blocks`` are labels as for `group_codes`. Raises ValueError if a person is in two of them. Labels that are missing
    or unusable are left to the reader of the block.
    """
    known, numbering = 0, Numbering("drop")
    for labels in blocks:
        numbers = np.unique(numbering(labels))
        if (len(numbering) - known) < np.count_nonzero(numbers >= 0):
            raise ValueError("groups: expected all rows of a person in one block")
        known = len(numbering)


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the different labels, by first appearance, and the number of each row's, int64."""
    distinct, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(distinct), np.int64)
    rank[order] = np.arange(len(distinct))
    return distinct[order], rank[codes.reshape(-1)]


def _column(values: Any) -> np.ndarray:
    """Make labels an array; of objects if numpy would change a list."""
    if not isinstance(values, (list, tuple)):
        return np.asarray(values)
    if all(type(value) is int for value in values) and (whole := np.asarray(values)).dtype.kind in "iu":
        return whole
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out
