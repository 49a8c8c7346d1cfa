"""Reading rows, labels and counts of trials for logistic regression.

Shapes and dtypes are always checked. Values that are not valid are reported as masks, so that
the caller may refuse them or let their records contribute nothing.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ...data.arrays import rows_of, selected
from ...data.shards import ShardedCorpus
from ...engine.units import Selection
from ...kernels.logistic import MAX_FEATURES, Rows

#: Stored entries of one block of records, and least rows of a dense one.
BLOCK_ENTRIES, LEAST_ROWS = 65_536, 256

#: A mask of records, and what was expected of them.
Problem = tuple[np.ndarray, str]


@dataclass(frozen=True)
class LogisticRecords:
    """Design rows, dense or CSR, with their responses."""

    #: The constant's column is one of the features.
    n_rows: int
    n_features: int
    #: None for dense rows; int64 and int32 arrays, or None.
    indptr: np.ndarray | None
    indices: np.ndarray | None
    #: Flat; with ``unit`` every stored entry is 1 and the values are not read, which gives the same bits.
    values: np.ndarray
    unit: bool
    #: Successes.
    y: np.ndarray
    trials: np.ndarray | None = None
    usable: np.ndarray | None = None

    @classmethod
    def of(
        cls, matrix: Any, y: np.ndarray, trials: np.ndarray | None = None, usable: np.ndarray | None = None
    ) -> "LogisticRecords":
        """From what `design` gives."""
        n, d = matrix.shape
        if sparse.issparse(matrix):
            indptr, indices = matrix.indptr.astype(np.int64), np.ascontiguousarray(matrix.indices, dtype=np.int32)
            return cls(n, d, indptr, indices, matrix.data, bool((matrix.data == 1).all()), y, trials, usable)
        return cls(n, d, None, None, np.ascontiguousarray(matrix).reshape(-1), False, y, trials, usable)

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """See `vips_fast.engine.model.Records`."""
        if self.indptr is None:
            step = max(LEAST_ROWS, BLOCK_ENTRIES // self.n_features)
            return np.append(np.arange(0, len(rows), step), len(rows))
        return _sparse_edges(self.indptr[rows + 1] - self.indptr[rows])

    def block(self, rows: np.ndarray) -> Rows:
        """These records, in the order of ``rows``."""
        n = len(rows)
        y, trials = selected(self.y, rows), None if self.trials is None else selected(self.trials, rows)
        if self.indptr is None or self.indices is None:
            values = selected(self.values.reshape(self.n_rows, self.n_features), rows).reshape(-1)
            return Rows(n, self.n_features, None, np.empty(0, np.int32), values, False, y, trials)
        # Of unit rows the values are not read: any array as long stands for them.
        values, indices, indptr = rows_of((self.indices if self.unit else self.values, self.indices, self.indptr), rows)
        return Rows(n, self.n_features, indptr, indices, self.values[:0] if self.unit else values, self.unit, y, trials)

    def subset(self, rows: np.ndarray) -> "LogisticRecords":
        """See `vips_fast.engine.model.Records`."""
        block, usable = self.block(rows), None if self.usable is None else self.usable[rows]
        indices = None if block.indptr is None else block.indices
        return replace(
            self,
            n_rows=len(rows),
            indptr=block.indptr,
            indices=indices,
            values=block.values,
            y=block.y,
            trials=block.trials,
            usable=usable,
        )

    def largest_norm(self) -> float:
        """Largest L2 norm of the usable rows, for fits without privacy; at least 1e-150."""
        square = self.values.astype(np.float64) ** 2
        if self.indptr is None:
            sums = square.reshape(self.n_rows, self.n_features).sum(axis=1)
        else:
            owner = np.repeat(np.arange(self.n_rows), np.diff(self.indptr))
            sums = np.bincount(owner, weights=square, minlength=self.n_rows)
        sums = sums if self.usable is None else sums[self.usable]
        return max(float(np.sqrt(sums.max(initial=0.0))), 1e-150)


def _sparse_edges(lengths: np.ndarray) -> np.ndarray:
    running = np.concatenate([[0], np.cumsum(lengths)])
    marks = np.arange(0, running[-1] + 1, BLOCK_ENTRIES)
    return np.unique(np.append(np.searchsorted(running, marks, side="left"), [0, len(lengths)]))


@dataclass(frozen=True)
class LogisticShards:
    """`LogisticRecords` of a corpus on disk; ``constant`` is that of `design`."""

    corpus: ShardedCorpus
    constant: float
    y: np.ndarray
    trials: np.ndarray | None = None
    usable: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """See `vips_fast.engine.model.Records`."""
        return self.corpus.n_rows

    def edges(self, rows: np.ndarray) -> np.ndarray:
        """As in memory. The rows are read ahead from here on."""
        self.corpus.expect(rows)
        extra = int(self.constant > 0)
        if self.corpus.sparse:
            return _sparse_edges(self.corpus.lengths(rows) + extra)
        step = max(LEAST_ROWS, BLOCK_ENTRIES // (self.corpus.n_features + extra))
        return np.append(np.arange(0, len(rows), step), len(rows))

    def block(self, rows: np.ndarray) -> Rows:
        """These records, in the order of ``rows``."""
        trials = None if self.trials is None else self.trials[rows]
        found = LogisticRecords.of(self._design(self.corpus.matrix(rows)), self.y[rows], trials)
        return found.block(np.arange(len(rows)))

    def _design(self, piece: Any) -> Any:
        return design(piece, self.constant, self.corpus.n_features + 1)

    def subset(self, rows: np.ndarray) -> Selection:
        """See `vips_fast.engine.model.Records`."""
        return Selection(self, rows)

    def largest_norm(self) -> float:
        """As in memory, a piece at a time."""
        pieces = self.corpus.pieces()
        usable = np.ones(self.n_rows, bool) if self.usable is None else self.usable
        return max(
            LogisticRecords.of(self._design(piece), self.y[place], None, usable[place]).largest_norm()
            for place, piece in pieces
        )


def design(X: Any, constant: float, most: int = MAX_FEATURES) -> Any:
    """X as float32 or float64, C-ordered or canonical CSR, with a column of ``constant`` at the end (none if 0).

    Raises ValueError if X is not a table of numbers, or has more than ``most`` columns with it.
    """
    sparse_rows = sparse.issparse(X)
    if not sparse_rows:
        X = np.asarray(X)
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: X has dtype {X.dtype}; expected a table of numbers")
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        hint = "" if X.ndim == 2 else ". Reshape your data to (n, d)"
        raise ValueError(f"X has dtype {X.dtype} and shape {X.shape}: expected a table of numbers{hint}")
    n, d = X.shape[0], X.shape[1] + (constant > 0)
    if not 1 <= d <= most:
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
    """The rows that hold NaN or infinity."""
    if not sparse.issparse(matrix):
        return np.asarray(~np.isfinite(matrix).all(axis=1))
    mask = np.zeros(matrix.shape[0], dtype=bool)
    mask[np.searchsorted(matrix.indptr, np.flatnonzero(~np.isfinite(matrix.data)), side="right") - 1] = True
    return mask


def read_labels(
    y: Any, n_rows: int, invalid: str, known: np.ndarray | None = None, most: int = 2
) -> tuple[np.ndarray, np.ndarray, list[Problem]]:
    """The classes, sorted, y as their numbers from 0, and what is invalid in it.

    Where the classes are ``known``, a record with another label is invalid; else those of y, two and up to ``most``,
    are taken as public.

    Raises ValueError or TypeError if the shape does not fit X, labels are of several kinds, or there are fewer or more
    of them.
    """
    y = _column("y", y, n_rows)
    if y.dtype.kind == "O":
        bad = np.array([label is None or (isinstance(label, float) and label != label) for label in y], dtype=bool)
        if not all(isinstance(label, str) for label in y[~bad]):
            raise TypeError("y: expected labels of one kind, all numbers or all strings")
        y = np.where(bad, "", y).astype(str)
    else:
        bad = ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(n_rows, dtype=bool)
    problems = [(bad, "y: expected labels, found NaN or infinity")]
    if known is not None:
        numbers = "fiub"
        if n_rows and (y.dtype.kind in numbers) != (known.dtype.kind in numbers):
            raise TypeError("y: expected labels of the kind of classes, numbers or strings")
        problems.append((~np.isin(y, known), "y: expected the labels of classes"))
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


def read_counts(
    y: Any, trials: Any, n_trials: float, n_rows: int
) -> tuple[np.ndarray, np.ndarray | None, list[Problem]]:
    """Successes, trials, and what is invalid in them.

    Raises ValueError or TypeError if a shape does not fit X, or a dtype is not one of numbers.
    """
    y = _column("y", y, n_rows)
    if y.dtype.kind not in "fiub":
        raise TypeError(f"y has dtype {y.dtype}: expected numbers of successes")
    y, top, problems = y.astype(np.float64), np.full(n_rows, float(n_trials)), []
    if trials is not None:
        trials = _column("trials", trials, n_rows)
        if trials.dtype.kind not in "fiub":
            raise TypeError(f"trials has dtype {trials.dtype}: expected numbers")
        trials = top = trials.astype(np.float64)
        bad = ~((trials >= 0) & (trials <= n_trials))
        problems.append((bad, f"trials: expected numbers in [0, {n_trials}], the public bound n_trials"))
    problems.append((~((y >= 0) & (y <= top)), "y: expected numbers of successes in [0, trials]"))
    return y, trials, problems


def usable_rows(problems: list[Problem], invalid: str) -> np.ndarray | None:
    """The rows without a problem, or None if that is all; with ``invalid="raise"`` a problem is a ValueError."""
    bad = np.zeros_like(problems[0][0])
    for mask, message in problems:
        if invalid == "raise" and mask.any():
            raise ValueError(message)
        bad |= mask
    return ~bad if bad.any() else None


def _column(name: str, values: Any, n_rows: int) -> np.ndarray:
    column: np.ndarray = np.asarray(values)
    if column.shape != (n_rows,):
        raise ValueError(f"{name} has shape {column.shape}: expected ({n_rows},), one entry for each row of X")
    return column
