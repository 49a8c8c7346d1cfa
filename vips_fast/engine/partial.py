"""Sum over parts of the data: compact, and each part counts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, repr=False)
class PackedSum:
    """An int64 array in fewer bytes.

    An array of objects, for longer integers, is unchanged.

    Attributes
    ----------
    shape : tuple of int
    places : int32 array or None
        Rows of the array that are not all 0; None for all rows.
    values : array of shape (n, width)
        These rows, in the smallest sufficient type of int8, int16 and int32; else their low halves, as uint32.
    high : array of shape (n, width), or None
        The high halves, in the smallest sufficient type of the three.
    """

    shape: tuple[int, ...]
    places: np.ndarray | None
    values: np.ndarray
    high: np.ndarray | None = None

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
        low, most = int(rows.min(initial=0)), int(rows.max(initial=0))
        narrow = np.result_type(np.min_scalar_type(min(low, -1)), np.min_scalar_type(-1 - most))
        if narrow.itemsize < 8:
            return cls(array.shape, places, rows.astype(narrow))
        high = np.result_type(np.min_scalar_type(min(low >> 32, -1)), np.min_scalar_type(-1 - (most >> 32)))
        return cls(array.shape, places, rows.astype(np.uint32), (rows >> 32).astype(high))

    def add_to(self, total: np.ndarray) -> None:
        """Add the packed numbers to an int64 array of their shape."""
        rows, at = total.reshape(len(total), -1), slice(None) if self.places is None else self.places
        rows[at] += self.values
        if self.high is not None:
            rows[at] += self.high.astype(np.int64) << 32

    def unpack(self) -> np.ndarray:
        """Unpack the numbers into a new array."""
        if self.values.dtype == object:
            return self.values.copy()
        out = np.zeros(self.shape, dtype=np.int64)
        self.add_to(out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes in transit."""
        return sum(array.nbytes for array in (self.values, self.high, self.places) if array is not None)


@dataclass(frozen=True, repr=False)
class PartialSum:
    """Sum of the contributions of some parts of the data set.

    Attributes
    ----------
    parts : int
        The set of the parts: bit i stands for part i.
    n_units : int
        Units that contributed.
    packed : PackedSum
    diagnostics : dict
        Un-noised diagnostics, if a run asks for them.
    moved : int
        Bytes of this sum and of all its summands.
    """

    parts: int
    n_units: int
    packed: PackedSum
    diagnostics: dict[str, float] = field(default_factory=dict)
    moved: int = 0

    def __sizeof__(self) -> int:
        """Tell Dask the size, which decides the worker that adds sums."""
        return self.packed.nbytes

    @classmethod
    def of(cls, parts: int, n_units: int, total: np.ndarray, diagnostics: dict[str, float] | None) -> PartialSum:
        """Pack a sum."""
        packed = PackedSum.of(total)
        return cls(parts, n_units, packed, dict(diagnostics or {}), packed.nbytes)


def add(sums: Sequence[PartialSum], capacity: int) -> PartialSum:
    """Add sums over different parts; the summands stay unchanged.

    Parameters
    ----------
    sums : sequence of PartialSum
        At least one.
    capacity : int
        Most units with a total that fits int64; more give Python integers.

    Raises
    ------
    RuntimeError
        If two of them contain the same part: it would count twice.
    """
    n_units, parts = sum(one.n_units for one in sums), 0
    total = np.zeros(sums[0].packed.shape, dtype=object if n_units > capacity else np.int64)
    diagnostics: dict[str, float] = {}
    for one in sums:
        if parts & one.parts:
            raise RuntimeError("a part of the data set would count twice")
        parts |= one.parts
        for name, value in one.diagnostics.items():
            diagnostics[name] = diagnostics.get(name, 0.0) + value
        if n_units > capacity:
            total += one.packed.unpack()
        else:
            one.packed.add_to(total)
    whole = PartialSum.of(parts, n_units, total, diagnostics)
    return PartialSum(parts, n_units, whole.packed, whole.diagnostics, whole.moved + sum(one.moved for one in sums))
