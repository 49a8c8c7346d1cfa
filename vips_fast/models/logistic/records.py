"""Reading rows, labels and counts for logistic regression.

Shapes and dtypes are always checked. Values that are not valid are reported as masks, so that the caller may refuse
them or let their records contribute nothing.
"""

import math
from typing import Any

import numpy as np
from scipy import sparse

from ...data.arrays import DROP, column_text, dense_array, index_of, rows_of
from ...data.frames import is_missing
from ...data.shards import ShardedCorpus
from ...engine.units import Selection
from ...kernels.logistic import MAX_FEATURES, Rows

#: Stored entries of one block of records, and least rows of a dense one.
BLOCK_ENTRIES, LEAST_ROWS = 65_536, 256

#: Without privacy: limits of a column's largest absolute value, and of its ratio to another column's. Factors of second
#: moments have 20 bits for the longest row, and so some 100 steps for a column 10,000 times smaller.
LARGEST_VALUE, MOST_RATIO = 1e12, 1e4

#: A mask of records, and the expectation that they miss.
Problem = tuple[np.ndarray, str]


class LogisticRecords:
    """Design rows with their responses, as the kernels take them.

    They are dense or CSR; see `vips_fast.engine.model.Records`. The constant's column is one of the features.
    """

    #: Whether blocks may be of a range of rows: then a pass over all makes no index.
    takes_ranges = True

    def __init__(self, rows: Rows, usable: np.ndarray | None = None):
        self.rows, self.usable, self.n_rows, self.n_features = rows, usable, rows.n_rows, rows.n_features

    @classmethod
    def of(
        cls, matrix: Any, y: np.ndarray, trials: np.ndarray | None = None, usable: np.ndarray | None = None
    ) -> "LogisticRecords":
        n, d = matrix.shape
        if sparse.issparse(matrix):
            indptr, indices = matrix.indptr.astype(np.int64), np.ascontiguousarray(matrix.indices, dtype=np.int32)
            return cls(Rows(n, d, indptr, indices, matrix.data, bool((matrix.data == 1).all()), y, trials), usable)
        values = np.ascontiguousarray(matrix).reshape(-1)
        return cls(Rows(n, d, None, np.empty(0, np.int32), values, False, y, trials), usable)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        if self.rows.indptr is None:
            return _dense_edges(len(rows), self.n_features)
        return _sparse_edges(np.diff(self.rows.indptr)[index_of(rows)])

    def block(self, rows: np.ndarray) -> Rows:
        own, n = self.rows, len(rows)
        at = index_of(rows)
        y, trials = own.y[at], None if own.trials is None else own.trials[at]
        if own.indptr is None:
            values = own.values.reshape(own.n_rows, own.n_features)[at].reshape(-1)
            return own._replace(n_rows=n, values=values, y=y, trials=trials)
        # Of unit rows the values are not read: any array as long stands for them.
        values, indices, indptr = rows_of((own.indices if own.unit else own.values, own.indices, own.indptr), rows)
        values = own.values[:0] if own.unit else values
        return own._replace(n_rows=n, indptr=indptr, indices=indices, values=values, y=y, trials=trials)

    def subset(self, rows: np.ndarray) -> "LogisticRecords | Selection":
        return LogisticRecords(self.block(rows), None if self.usable is None else self.usable[rows])

    def largest(self) -> tuple[float, np.ndarray]:
        """Compute the usable rows' largest L2 norm, and each column's largest absolute value; only without privacy."""
        rows, square, columns = np.arange(self.n_rows), 0.0, np.zeros(self.n_features)
        rows = rows if self.usable is None else rows[self.usable]
        edges = self.edges(rows)
        with np.errstate(over="ignore"):
            for part in map(slice, edges[:-1], edges[1:]):
                block = self.block(rows[part])
                row_of, places, values = entries_of(block)
                square = max(square, float(np.bincount(row_of, values * values).max(initial=0.0)))
                np.maximum.at(columns, places, np.abs(values))
        return math.sqrt(square), columns


def row_products(block: Rows, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute rows' norms, (n,), and their products with ``points``, (K, d): (K, n).

    The terms of a row are added one after the other, so that it has the same bits in any block.
    """
    n, d = block.n_rows, block.n_features
    square, found = np.zeros(n), np.zeros((len(points), n))
    if block.indptr is None:
        for column, weights in zip(np.array(block.values.reshape(n, d).T, float, order="C"), points.T, strict=True):
            square += column * column
            found += weights[:, None] * column
    else:
        row_of, columns, values = entries_of(block)
        square[:] = np.bincount(row_of, values * values, n)
        for product, point in zip(found, points, strict=True):
            product[:] = np.bincount(row_of, values * point[columns], n)
    return np.sqrt(square), found


def entries_of(block: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List the stored entries of a block, row by row: their rows, columns and float64 values."""
    n, d = block.n_rows, block.n_features
    if block.indptr is None:
        return np.repeat(np.arange(n), d), np.tile(np.arange(d), n), block.values.astype(np.float64)
    values = np.ones(len(block.indices)) if block.unit else block.values.astype(np.float64)
    return np.repeat(np.arange(n), np.diff(block.indptr)), block.indices, values


def _dense_edges(n_rows: int, n_features: int) -> np.ndarray:
    size = max(LEAST_ROWS, BLOCK_ENTRIES // n_features)
    edges = np.arange(0, n_rows + size, size)
    edges[-1] = n_rows
    return edges


def _sparse_edges(lengths: np.ndarray) -> np.ndarray:
    running = np.concatenate([[0], np.cumsum(lengths)])
    marks = np.arange(0, running[-1] + 1, BLOCK_ENTRIES)
    return np.unique(np.append(np.searchsorted(running, marks, side="left"), [0, len(lengths)]))


class LogisticShards(LogisticRecords):
    """`LogisticRecords` of a corpus on disk, divided as in memory; ``constant`` is as in `design`."""

    takes_ranges = False

    def __init__(
        self,
        corpus: ShardedCorpus,
        constant: float,
        y: np.ndarray,
        trials: np.ndarray | None,
        usable: np.ndarray | None,
    ):
        self._corpus, self._constant, self._y, self._trials, self.usable = corpus, constant, y, trials, usable
        self.n_rows, self.n_features = corpus.n_rows, corpus.n_features + (constant > 0)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        if self._corpus.sparse:
            return _sparse_edges(self._corpus.lengths(rows) + (self._constant > 0))
        return _dense_edges(len(rows), self.n_features)

    def block(self, rows: np.ndarray) -> Rows:
        trials = None if self._trials is None else self._trials[rows]
        matrix = design(self._corpus.matrix(rows), self._constant, self.n_features)
        return LogisticRecords.of(matrix, self._y[rows], trials).rows

    def subset(self, rows: np.ndarray) -> Selection:
        return Selection(self, rows)


def check_scale(X: Any, largest: tuple[float, np.ndarray], constant: float, full: bool) -> float:
    """Return the bound of rows of a fit without privacy: their largest norm.

    Raises ValueError if the numbers are too large or too small to be squared, all of them 0, or (with a ``full``
    covariance) so much larger in one column than in another that the lattice of second moments would lose the other.
    """
    norm, columns = largest
    if not norm:
        raise ValueError("X: expected a column with other values than 0, or fit_intercept=True")
    seen = np.flatnonzero(columns)
    ends = int(columns.argmax()), int(seen[columns[seen].argmin()])
    most, least = columns[list(ends)].tolist()
    of_most, of_least = (
        "the intercept (intercept_scaling)" if constant and place == len(columns) - 1 else column_text(X, place)
        for place in ends
    )
    remedy = "; multiply the column by a public number"
    if most > LARGEST_VALUE:
        found = f"{of_most} has absolute values above {LARGEST_VALUE:g}{remedy}"
    elif least < 1 / LARGEST_VALUE:
        found = f"{of_least} has absolute values that are all below {1 / LARGEST_VALUE:g}, but not 0{remedy}"
    elif full and most > MOST_RATIO * least:
        found = (
            f"{of_most} has values more than {MOST_RATIO:,.0f} times those of {of_least}; expected columns of about "
            "one scale with private=False: divide the larger by a public number"
        )
    else:
        return norm
    raise ValueError(f"X: {found}")


def design(X: Any, constant: float, most: int = MAX_FEATURES, drop: bool = False) -> Any:
    """Make the design: X with a constant's column.

    It is float32 or float64, C-ordered or canonical CSR. The column of ``constant`` is at the end (none if 0). With
    ``drop`` a cell that is no number becomes NaN.

    Raises ValueError if X is not a table of numbers, has no columns, or more than ``most`` with it.
    """
    sparse_rows = sparse.issparse(X)
    if not sparse_rows:
        X = dense_array(X, "X", drop)
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {X.dtype}; expected a table of numbers")
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        hint = "" if X.ndim == 2 else ". Reshape your data to (n, d)"
        raise ValueError(f"X has dtype {X.dtype} and shape {X.shape}: expected a table of numbers{hint}")
    n, d = X.shape[0], X.shape[1] + (constant > 0)
    if X.shape[1] == 0 or d > most:
        raise ValueError(f"X has {X.shape[1]} columns: expected at least one and at most {most} with the constant")
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    if not sparse_rows:
        if not constant:
            return np.ascontiguousarray(X, dtype=dtype)
        matrix = np.empty((n, d), dtype)
        matrix[:, :-1], matrix[:, -1] = X, constant
        return matrix
    X = sparse.csr_array(X, dtype=dtype)
    if X.nnz and (X.indices.min() < 0 or X.indices.max() >= X.shape[1]):
        raise ValueError("X: expected column numbers below its number of columns")
    if constant:
        X = sparse.hstack([X, sparse.csr_array(np.full((n, 1), constant, dtype))], format="csr")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def not_finite(matrix: Any) -> np.ndarray:
    """Find the rows that hold NaN or infinity."""
    if not sparse.issparse(matrix):
        with np.errstate(all="ignore"):
            if math.isfinite(matrix.sum()):
                return np.zeros(len(matrix), dtype=bool)
        return np.asarray(~np.isfinite(matrix).all(axis=1))
    mask = np.zeros(matrix.shape[0], dtype=bool)
    mask[np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data)), side="right") - 1] = True
    return mask


def read_labels(
    y: Any, n_rows: int, invalid: str, known: np.ndarray | None = None, most: int = 2
) -> tuple[np.ndarray, np.ndarray, list[Problem]]:
    """Read the sorted classes, their numbers in y, and its problems.

    Where the classes are ``known``, a record with another label is invalid. Else the labels of y, two and up to
    ``most``, are taken as public.

    Raises ValueError or TypeError if the shape does not fit X, labels are of several kinds, or there are fewer or more
    of them.
    """
    drop = invalid == "drop" and known is not None
    if drop and isinstance(y, (list, tuple)):
        # In an array's one type a text beside numbers would make texts of them all.
        y = np.fromiter(y, object, len(y))
    y = _column("y", y, n_rows)
    if drop and known is not None and known.dtype.kind in "fiub":
        y = dense_array(y, "y", drop)
    if y.dtype.kind == "O":
        bad = np.array([is_missing(label) or (drop and not isinstance(label, str)) for label in y], dtype=bool)
        if not drop and not any(isinstance(label, str) for label in y[~bad]):
            # Numbers that are objects because some are missing, or by their column's type.
            y = dense_array(y, "y") if bad.any() else np.array(y.tolist())
    if y.dtype.kind == "O":
        if not all(isinstance(label, str) for label in y[~bad]):
            raise TypeError("y: expected labels of one kind, all numbers or all strings")
        y = np.where(bad, "", y).astype(str)
    else:
        bad = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    problems = [(bad, f"y: expected labels, found NaN or infinity; fill them in, or leave such records out by {DROP}")]
    if known is not None:
        numbers = "fiub"
        if n_rows and (y.dtype.kind in numbers) != (known.dtype.kind in numbers):
            raise TypeError("y: expected labels of the kind of classes, numbers or strings")
        listed = ", ".join(map(repr, known[:5].tolist())) + (", …" if len(known) > 5 else "")
        text = f"y: expected the labels of classes, {listed}; spell both alike, or leave others out by {DROP}"
        problems.append((~np.isin(y, known), text))
        usable_rows(problems, invalid)
        return known, np.searchsorted(known, y).astype(np.float64), problems
    usable_rows(problems, invalid)
    classes = np.unique(y[~bad])
    if not 2 <= len(classes) <= most:
        found = f"{len(classes)} class" + ("" if len(classes) == 1 else "es")
        if classes.dtype.kind == "f":
            found += ", of floating-point numbers as in a continuous target"
        expected = "2" if most == 2 else f"2 to {most}"
        raise ValueError(f"y has {found}: expected {expected}, or classes= that states them")
    return classes, np.searchsorted(classes, np.where(bad, classes[0], y)).astype(np.float64), problems


def read_events(y: Any, n_rows: int) -> tuple[np.ndarray, list[Problem]]:
    """Read counts of events, float64, and their problems.

    Raises ValueError or TypeError if the shape does not fit X, or the dtype is not one of numbers.
    """
    y = read_column("y", y, n_rows, "counts")
    with np.errstate(invalid="ignore"):
        bad = ~((y >= 0) & (y == np.floor(y)) & np.isfinite(y))
    return np.where(bad, 0.0, y), [
        (bad, f"y: expected counts, whole numbers from 0; leave other records out by {DROP}")
    ]


def usable_rows(problems: list[Problem], invalid: str) -> np.ndarray | None:
    """Find rows without a problem; None is all. With "raise" a problem is a ValueError."""
    bad = np.zeros_like(problems[0][0])
    for mask, message in problems:
        if invalid == "raise" and mask.any():
            raise ValueError(message)
        bad |= mask
    return ~bad if bad.any() else None


def read_column(name: str, values: Any, n_rows: int, what: str = "numbers") -> np.ndarray:
    """Read a number for each record, float64."""
    column = _column(name, values, n_rows)
    if column.dtype.kind not in "fiub":
        raise TypeError(f"{name} has dtype {column.dtype}: expected {what}")
    return column.astype(np.float64)


def _column(name: str, values: Any, n_rows: int) -> np.ndarray:
    column: np.ndarray = np.asarray(values)
    if column.shape != (n_rows,):
        raise ValueError(f"{name} has shape {column.shape}: expected ({n_rows},), one entry for each row of X")
    return column
