"""Tell whether the rows of X are equal too often for chance, as a bootstrap's or a repeated table's are."""

import math
import warnings
from typing import Any

import numpy as np
from scipy import sparse

from .arrays import csr_arrays

#: The share of the different rows that stand more than once. Blank rows, or a form that many send in, are one of them.
_SHARE = 0.25
#: Rows like it that a row may have by chance, if its columns were independent.
_BY_CHANCE = 0.01
_BLOCK, _ENTRIES, _SAMPLE = 4096, 1 << 20, 2000

TWINS = (
    "X's rows repeat, far more often than by chance: drawn with replacement (a bootstrap, bagging), or several of one "
    "person? The guarantee counts each as a record of its own; give groups="
)


def warn_of_twins(X: Any, invalid: str) -> None:
    """Warn the operator if a quarter of the different rows or more repeat, which chance does not explain.

    It looks at dense tables and at CSR matrices. As every look at values, it is only for ``invalid="raise"``, and comes
    before a fit spends anything.
    """
    rows = X.to_numpy() if hasattr(X, "iloc") and X.ndim == 2 else X
    if invalid != "raise" or not (isinstance(rows, np.ndarray) or sparse.issparse(rows)):
        return
    if rows.ndim != 2 or rows.shape[0] < 20 or rows.dtype.kind not in "fiub":
        return
    sums, chance = _of_sparse(rows) if sparse.issparse(rows) else _of_dense(rows)
    counts = np.unique(sums, return_counts=True)[1]
    if chance * len(counts) <= _BY_CHANCE and (counts > 1).sum() >= _SHARE * len(counts):
        warnings.warn(TWINS, stacklevel=5)


def _of_dense(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Give a number for each row, which equal ones share, and the chance that two are equal."""
    weights = np.random.default_rng(0).random(rows.shape[1])
    with np.errstate(all="ignore"):
        blocks = (rows[first : first + _BLOCK] for first in range(0, rows.shape[0], _BLOCK))
        return np.concatenate([(block * weights).sum(axis=1) for block in blocks]), _chance(rows)


def _of_sparse(X: Any) -> tuple[np.ndarray, float]:
    """Do as `_of_dense`, with parts that are checked first: scipy's loops would trust them."""
    nothing = np.zeros(0), 1.0
    if X.format != "csr":
        return nothing
    try:
        data, indices, indptr = csr_arrays(X, "X")
    except ValueError:
        return nothing  # the one place that reads it says why
    weights, sums = np.random.default_rng(0).random(X.shape[1]), np.zeros(X.shape[0])
    first = 0
    while first < len(sums):
        last = max(first + 1, int(np.searchsorted(indptr, indptr[first] + _ENTRIES, side="right")) - 1)
        begin, end = indptr[first], indptr[last]
        filled = np.flatnonzero(indptr[first:last] < indptr[first + 1 : last + 1])
        with np.errstate(all="ignore"):
            terms = data[begin:end] * weights[indices[begin:end]]
            if len(filled):
                sums[first + filled] = np.add.reduceat(terms, indptr[first + filled] - begin)
        first = last
    n = min(X.shape[0], _SAMPLE)
    held = np.bincount(indices[: indptr[n]], minlength=X.shape[1]) / n
    held = np.minimum(held, 1.0)
    # Answers of one question are columns that go together, so only half of the columns count as independent.
    return sums, math.exp(0.5 * float(np.log(held**2 + (1.0 - held) ** 2).sum()))


def _chance(rows: np.ndarray) -> float:
    """Estimate the chance that two rows are equal, if the columns were independent.

    Columns of two values tell nothing: pixels and answers go together, and rows of them repeat by themselves.
    """
    chance = 1.0
    for column in rows[:: max(1, rows.shape[0] // _SAMPLE)].T:
        counts = np.unique(column, return_counts=True)[1]
        if len(counts) > 2:
            chance *= float(np.square(counts / len(column)).sum())
        if chance * rows.shape[0] <= _BY_CHANCE:
            break
    return chance
