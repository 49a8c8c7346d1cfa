"""The form of a matrix: shape, type, index arrays and memory; and rows of binary and of finite numbers.

What is refused about the form does not depend on the values of the entries, so it is refused whatever is done about
invalid values.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from ..checks import check_choice
from .frames import is_missing, table_columns

INT32_MAX = 2**31 - 1
#: How a message says that records can be left out: estimators take ``invalid`` among their options.
DROP = 'options={"invalid": "drop"}'

#: Entries that a check looks at in one go: large enough for numpy, small beside any corpus.
CHUNK = 1 << 20

Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


def align(array: Any, dtype: Any = None) -> np.ndarray:
    """Make an array C-contiguous, aligned and of native byte order."""
    array = np.asarray(array)
    return np.require(array, array.dtype.newbyteorder("=") if dtype is None else dtype, ["C", "A"])


def numbers_of(rows: np.ndarray | range) -> np.ndarray:
    """Give the numbers of rows as an array."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def index_of(rows: np.ndarray | range) -> slice | np.ndarray:
    """Give row numbers as an index, which takes adjacent ones as a view."""
    if isinstance(rows, range):
        return slice(rows.start, rows.stop)
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and (rows[1:] > rows[:-1]).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


def select(array: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Take entries of an array by number, adjacent ones as a view."""
    return np.asarray(array[index_of(rows)])


def largest(scores: np.ndarray, n: int) -> np.ndarray:
    """Find the places of each row's n largest numbers, the largest first, and of equal ones the first; (rows, n)."""
    n, found = min(n, scores.shape[1]), []
    for row in scores:
        among = np.flatnonzero(row >= np.partition(row, len(row) - n)[len(row) - n])
        found.append(among[np.argsort(-row[among], kind="stable")[:n]])
    return np.array(found, dtype=np.intp).reshape(len(scores), n)


def rows_of(parts: Parts, rows: np.ndarray) -> Parts:
    """Take data, indices and indptr (int64) of rows; views if adjacent."""
    data, indices, indptr = parts
    if isinstance(at := index_of(rows), slice):
        low, high = int(indptr[at.start]), int(indptr[at.stop])
        return data[low:high], indices[low:high], indptr[at.start : at.stop + 1].astype(np.int64) - low
    starts = indptr[rows].astype(np.int64)
    sizes = indptr[rows + 1] - starts
    ends = np.concatenate(([0], np.cumsum(sizes)))
    entries = np.repeat(starts - ends[:-1], sizes) + np.arange(ends[-1])
    return data[entries], indices[entries], ends


def stacked(matrices: Sequence[Parts]) -> Parts:
    """Put the rows of CSR matrices below each other."""
    data, indices, ends = (list(arrays) for arrays in zip(*matrices, strict=True))
    starts = np.cumsum([0, *(int(end[-1]) for end in ends)])
    shifted = (end[1:] + start for end, start in zip(ends, starts, strict=False))
    return np.concatenate(data), np.concatenate(indices), np.concatenate([np.zeros(1, np.int64), *shifted])


def csr_of(parts: Parts, n_features: int, kind: type[sparse.csr_array] = sparse.csr_array) -> Any:
    """Make a canonical CSR array of checked parts, without a copy."""
    data, indices, indptr = parts
    matrix = kind((len(indptr) - 1, n_features), dtype=data.dtype)
    # Assigned, since scipy's constructor would copy indices of another width than indptr.
    matrix.data, matrix.indices, matrix.indptr = data, indices, indptr
    matrix.has_canonical_format = True
    return matrix


def checked_form(
    X: Any, n_features: int | None, name: str, expected_by: str | None, drop: bool, least_rows: int, expected: str
) -> Any:
    """Check for a matrix of booleans or real numbers, with rows and `n_features` columns: an array, or sparse as it is.

    With `least_rows=0` no rows are fine: where the number of records is public and given, how many there are is not.
    The messages are in scikit-learn's words, which its own tests of estimators look for.
    """
    matrix = X if sparse.issparse(X) else dense_array(X, name, drop)
    shape, dtype = matrix.shape, matrix.dtype
    if len(shape) != 2:
        raise ValueError(
            f"{name} has {len(shape)} dimension(s); expected 2, rows by columns. "
            "Reshape your data: a single row has shape (1, V)"
        )
    for size, what in zip(shape, ("sample", "feature"), strict=True):
        if size == 0 and (what == "feature" or least_rows):
            raise ValueError(f"{name} has 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required.")
    if shape[1] > INT32_MAX:
        raise ValueError(f"{name} has {shape[1]} columns; expected fewer than 2**31")
    if n_features not in (None, shape[1]):
        if expected_by is None:
            raise ValueError(f"{name} has {shape[1]} columns; expected {n_features}")
        raise ValueError(
            f"{name} has {shape[1]} features, but {expected_by} is expecting {n_features} features as input"
        )
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {dtype}; expected {expected}")
    if dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {dtype}; expected {expected}")
    return matrix


def dense_array(X: Any, name: str, drop: bool = False) -> np.ndarray:
    """Make an array of any input: the door of estimators that take no sparse rows, which become dense.

    Cells of objects, such as those of pandas' nullable and Arrow types, become float64, and NaN if they are missing.
    With ``drop`` they become NaN too if they are no real numbers, and so do such cells in lists. Otherwise raises
    TypeError for such a cell; ValueError for what is no array.
    """
    if np.ma.isMaskedArray(X):
        raise ValueError(f"{name} is a masked array; expected an array without a mask")
    if sparse.issparse(X):
        # Repeated entries add up in their own type, which may be too small for the sum.
        matrix = new_csr(csr_arrays(X, name), X.shape)
        return np.asarray((matrix.astype(np.float64) if matrix.dtype.kind in "iub" else matrix).toarray())
    try:
        dense = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is not a rectangular array of numbers") from None
    if dense.dtype.kind not in ("OUSc" if drop and isinstance(X, (list, tuple)) else "O"):
        return dense
    if not drop:
        with suppress(TypeError, ValueError, OverflowError):  # whose text would show a cell
            return dense.astype(np.float64)
    dense = np.array(X, dtype=object)
    cells = np.empty(dense.size)
    for place, cell in enumerate(dense.ravel().tolist()):
        try:
            cells[place] = math.nan if is_missing(cell) else float(cell)
        except (TypeError, ValueError, OverflowError):
            if not drop:
                column = "" if dense.ndim < 2 else f" in {column_text(X, place % dense.shape[1])}"
                raise TypeError(
                    f"{name} has a cell of type {type(cell).__name__}{column}: each argument must be a string or a "
                    "number that float() accepts; encode it first, as ColumnEncoder does by a schema"
                ) from None
            cells[place] = math.nan
    return cells.reshape(dense.shape)


def column_text(X: Any, place: int) -> str:
    """Name a column of data: its own name, or its number."""
    names = None if isinstance(X, Mapping) else table_columns(X)
    if names is not None and place < len(names) and isinstance(names[place], str):
        return f"column {names[place]!r}"
    return f"column {place} (from 0)"


def not_finite_text(X: Any, matrix: Any) -> str:
    """Say what a matrix made of X has in place of finite numbers, and in which column."""
    data = (matrix.data if sparse.issparse(matrix) else matrix).reshape(-1)
    bad = int(np.flatnonzero(~np.isfinite(data))[0])
    place = int(matrix.indices[bad]) if sparse.issparse(matrix) else bad % matrix.shape[1]
    if (names := getattr(X, "encoded_from", None)) is not None:
        what = f"found a cell that the schema refuses in column {names[place]!r}"
        return (
            f"{what}; ColumnEncoder's invalid='raise' tells the row and a remedy, or leave such records out by {DROP}"
        )
    what = "NaN or a missing value" if np.isnan(data[bad]) else "infinity"
    return f"found {what} in {column_text(X, place)}; fill it in, or leave such records out by {DROP}"


def check_new_records(X: Any, matrix: Any) -> None:
    """Refuse NaN and infinity in the matrix made of new records X: a prediction leaves none out."""
    if not np.isfinite(matrix.data if sparse.issparse(matrix) else matrix).all():
        raise ValueError(f"X: expected finite values, {not_finite_text(X, matrix).removesuffix(f' by {DROP}')}")


def new_csr(parts: Parts, shape: tuple[int, int]) -> sparse.csr_array:
    """Make a CSR array without flags, which a given one may carry untruly. It shares data and, if it can, indices."""
    data, indices, indptr = parts
    # Of two types scipy would widen the smaller one.
    if indices.itemsize >= 4 and indptr.size and 0 <= indptr.min() <= indptr.max() <= INT32_MAX:
        indptr = indptr.astype(indices.dtype)
    return sparse.csr_array((data, indices, indptr), shape=shape)


def csr_arrays(X: Any, name: str) -> Parts:
    """Return aligned CSR data, indices and int64 indptr of a sparse matrix.

    Repeated entries are not summed: a -1 beside a +1 would pass for an empty cell. Raises ValueError if the index
    arrays, which scipy's compiled loops trust, do not describe a matrix of the shape that `X` says.
    """
    try:
        # scipy looks at the order of the offsets only if the last one is above 0.
        if hasattr(X, "indptr") and (X.indptr[1:] < X.indptr[:-1]).any():
            raise ValueError
        if X.format not in ("csr", "csc", "coo"):
            if X.format == "bsr":
                X.check_format()
            X = X.tocoo(copy=False)
        data, places = align(X.data), (X.row, X.col) if X.format == "coo" else (X.indices, X.indptr)
        first, second = map(align, places)
        if first.dtype.kind not in "iu" or second.dtype.kind not in "iu":  # scipy would take an index of .5
            raise ValueError
        if X.format == "coo":
            checked = sparse.coo_array((data, (first, second)), shape=X.shape)
            rows, columns = checked.coords
            if (rows[1:] < rows[:-1]).any():
                order = np.argsort(rows, kind="stable")
                data, columns = data[order], columns[order]
            ends = np.cumsum(np.bincount(rows, minlength=X.shape[0]), dtype=np.int64)
            return data, align(columns, np.int32), np.concatenate([np.zeros(1, np.int64), ends])
        if X.format == "csc":
            checked = sparse.csc_array((data, first, second), shape=X.shape)
            checked.check_format()
            checked = checked.tocsr()
        else:
            checked = new_csr((data, first, second), X.shape)
            checked.check_format()
        return align(checked.data), align(checked.indices), align(checked.indptr, np.int64)
    except (ValueError, IndexError, TypeError, OverflowError):
        raise ValueError(f"{name} is not a valid sparse matrix: its index arrays describe none of its shape") from None


def binary_records(
    Y: Any,
    n_features: int | None = None,
    *,
    name: str = "Y",
    invalid: str = "raise",
    expected_by: str = "SigmoidBeliefNetwork",
    least_rows: int = 1,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Check records of 0 and 1, shape (n, J), dense or sparse.

    `n_features`, `name`, `expected_by` and `least_rows` are as for `vips_fast.data.counts.documents`.
    ``invalid="drop"`` makes a row that holds anything but 0 and 1 a row of zeros, not usable, without a message.

    Returns the records, C-contiguous uint8 (`Y` is not changed; the memory is shared if nothing had to be converted),
    and which rows are usable, (n,) bool, or None if all are.

    Raises TypeError or ValueError as `documents` does, and (with "raise") ValueError for anything but 0 and 1. No entry
    is shown.
    """
    drop = check_choice("invalid", invalid, ("raise", "drop")) == "drop"
    given, Y = Y, _matrix(Y, n_features, name, expected_by, drop, least_rows)
    if sparse.issparse(Y) and Y.dtype.kind in "iu" and not Y.has_canonical_format:
        Y = Y.astype(np.float64)  # repeated entries add up in their own type: 255 and 2 would be a 1
    shared = not sparse.issparse(Y) and Y.dtype == np.uint8
    records = align(Y) if shared else np.empty(Y.shape, np.uint8)
    usable = np.ones(Y.shape[0], bool)
    step = max(1, CHUNK // Y.shape[1])
    for first in range(0, Y.shape[0], step):
        part = Y[first : first + step]
        if sparse.issparse(part):
            part = part.toarray()
        ones = part == 1
        cells = ones | (part == 0)
        good = cells.all(axis=1)
        if not drop and not good.all():
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                raise ValueError(f"{name}: expected only 0 and 1, {not_finite_text(given, part)}")
            column = column_text(given, int(np.flatnonzero(~cells.all(axis=0))[0]))
            raise ValueError(
                f"{name}: expected only 0 and 1, found other numbers in {column}; binarize it with a public threshold "
                "first"
            )
        usable[first : first + step] = good
        if not shared:
            records[first : first + step] = ones
    if usable.all():
        return records, None
    if shared:
        records = records.copy()
    records[~usable] = 0
    return records, usable


def finite_records(X: Any, n_features: int | None = None, invalid: str = "raise") -> tuple[Any, np.ndarray | None]:
    """Convert to finite numbers, as CSR or dense; mark usable rows.

    With ``invalid="drop"`` a row that holds NaN or infinity becomes one of zeros that is not usable; None: all are.
    Raises ValueError if X is not a matrix of numbers, has another width, or (with "raise") such a row.
    """
    drop = check_choice("invalid", invalid, ("raise", "drop")) == "drop"
    given, X = X, _matrix(X, n_features, "rows", "the corpus", drop, 0)
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X, dtype=dtype)
        usable = np.isfinite(X).all(axis=1)
    else:
        X = sparse.csr_array(X, dtype=dtype)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        usable = np.bincount(_row_of(X)[~np.isfinite(X.data)], minlength=X.shape[0]) == 0
    if usable.all():
        return X, None
    if not drop:
        raise ValueError(f"rows: expected finite values, {not_finite_text(given, X)}")
    if sparse.issparse(X):
        X.data = np.where(usable[_row_of(X)], X.data, 0)
    else:
        X = np.where(usable[:, None], X, 0)
    return X, usable


def _row_of(X: Any) -> np.ndarray:
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def _matrix(X: Any, n_features: int | None, name: str, expected_by: str, drop: bool, least_rows: int) -> Any:
    """Check for booleans or real numbers (n, J), with sound index arrays."""
    X = checked_form(X, n_features, name, expected_by, drop, least_rows, "booleans or numbers")
    if sparse.issparse(X):
        X = new_csr(csr_arrays(X, name), X.shape)
    return X
