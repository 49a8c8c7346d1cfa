"""Sums of some parts of the data set on their way to the whole: small in transit, and each part counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, repr=False)
class PackedSum:
    """An int64 array in fewer bytes; objects, which hold longer integers, as they are.

    Attributes
    ----------
    shape : tuple of int
    places : int32 array or None
        Rows of the array that are not all 0; None where all are there.
    values : uint8 array of shape (n, width), or array of objects
        The low bytes of each entry of these rows, as many as the largest needs.
    """

    shape: tuple[int, ...]
    places: np.ndarray | None
    values: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> PackedSum:
        """Pack an array of int64, or of Python integers."""
        if array.dtype == object:
            return cls(array.shape, None, array)
        rows = array.reshape(len(array), -1)
        touched, places = rows.any(axis=1), None
        if 2 * np.count_nonzero(touched) < len(rows):
            places = np.flatnonzero(touched).astype(np.int32)
            rows = rows[places]
        largest = max(int(rows.max(initial=0)), -1 - int(rows.min(initial=0)))
        width = largest.bit_length() // 8 + 1
        return cls(array.shape, places, rows.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].copy())

    def unpacked(self) -> np.ndarray:
        """A new array of the numbers that were packed."""
        if self.values.dtype == object:
            return self.values.copy()
        wide = np.zeros((len(self.values), 8), dtype=np.uint8)
        wide[:, 8 - self.values.shape[1] :] = self.values
        numbers = wide.view("<i8").reshape(-1) >> (64 - 8 * self.values.shape[1])
        if self.places is None:
            return numbers.astype(np.int64, copy=False).reshape(self.shape)
        out = np.zeros(self.shape, dtype=np.int64)
        out[self.places] = numbers.reshape(len(self.places), *self.shape[1:])
        return out

    @property
    def nbytes(self) -> int:
        """Bytes in transit."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass(frozen=True, repr=False)
class PartialSum:
    """The sum of the contributions of some parts of the data set.

    Attributes
    ----------
    parts : int
        The set of the parts: bit i is that of part i.
    n_units : int
        Units that contributed.
    packed : PackedSum
    figures : dict
        Un-noised diagnostics, where a run opens them.
    moved : int
        Bytes of this sum and of those that it was added from.
    """

    parts: int
    n_units: int
    packed: PackedSum
    figures: dict[str, float] = field(default_factory=dict)
    moved: int = 0

    def __sizeof__(self) -> int:
        """By which Dask decides where sums are added."""
        return self.packed.nbytes

    @classmethod
    def of(cls, parts: int, n_units: int, total: np.ndarray, figures: dict[str, float] | None) -> PartialSum:
        """Pack a sum."""
        packed = PackedSum.of(total)
        return cls(parts, n_units, packed, dict(figures or {}), packed.nbytes)


def add(sums: Sequence[PartialSum], capacity: int) -> PartialSum:
    """The sum of sums over different parts, which are left as they are.

    Parameters
    ----------
    sums : sequence of PartialSum
        At least one.
    capacity : int
        Units whose contributions fit int64; the total of more is of Python integers.

    Raises
    ------
    RuntimeError
        If a part is in two of them: it would count twice.
    """
    n_units, parts = sum(one.n_units for one in sums), 0
    total: np.ndarray | None = None
    figures: dict[str, float] = {}
    for one in sums:
        if parts & one.parts:
            raise RuntimeError("a part of the data set would count twice")
        parts |= one.parts
        for name, value in one.figures.items():
            figures[name] = figures.get(name, 0.0) + value
        values = one.packed.unpacked()
        if n_units > capacity:
            values = values.astype(object)
        total = values if total is None else total + values
    assert total is not None
    whole = PartialSum.of(parts, n_units, total, figures)
    return PartialSum(parts, n_units, whole.packed, whole.figures, whole.moved + sum(one.moved for one in sums))
