"""Shapes and dtypes of arguments and results, for a type checker."""

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .shards import ShardedCorpus

#: float64 arrays with one index, with two, and with the number that the docstring states.
Vector: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
Matrix: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
#: Vectors of words in a file.
WordVectors: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]
#: Records of any dtype; labels, which are numbers or texts; names of columns; records of 0 and 1.
Cells: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.generic]]
Labels: TypeAlias = np.ndarray[tuple[int], np.dtype[np.generic]]
Names: TypeAlias = np.ndarray[tuple[int], np.dtype[np.object_]]
Bits: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8]]


class SparseLike(Protocol):
    """A sparse matrix or array of scipy, of any format."""

    def tocsr(self) -> Any: ...


class FrameLike(Protocol):
    """A frame of pandas or polars, or a table of pyarrow."""

    @property
    def columns(self) -> Any: ...


#: Rows and columns: arrays, lists of lists, frames of pandas and polars, sparse matrices, and corpora on disk.
Data: TypeAlias = npt.ArrayLike | SparseLike | ShardedCorpus
#: Texts: the path of a table, a table in memory, or the texts themselves.
Texts: TypeAlias = str | os.PathLike[str] | FrameLike | Mapping[str, Sequence[object]] | Iterable[str | None]
#: One entry a row, of any kind.
Column: TypeAlias = npt.ArrayLike | Sequence[Hashable]
#: What seeds a generator.
RandomState: TypeAlias = int | np.random.Generator | np.random.RandomState | None
