"""Tell whether the rows of X are equal too often for chance, as a bootstrap's or a repeated table's are."""

import warnings
from typing import Any

import numpy as np

#: Rows that repeat are at least this share, and no row stands more often: twenty persons may say the same.
_SHARE, _MOST = 0.25, 20
#: Rows like it that a row may have by chance, if its columns were independent.
_BY_CHANCE = 0.01
_BLOCK, _SAMPLE = 4096, 2000

TWINS = (
    "X's rows repeat, far more often than by chance: drawn with replacement (a bootstrap, bagging), or several of one "
    "person? The guarantee counts each as a record of its own; give groups="
)


def warn_of_twins(X: Any, invalid: str) -> None:
    """Warn the operator if a quarter of the rows or more repeat, which chance does not explain.

    It looks at dense tables only: a sparse matrix is not checked yet, and is to be held once. As every look at values,
    it is only for ``invalid="raise"``, and comes before a fit spends anything.
    """
    rows = X.to_numpy() if hasattr(X, "iloc") and X.ndim == 2 else X
    if not isinstance(rows, np.ndarray) or invalid != "raise":
        return
    if rows.ndim != 2 or rows.shape[0] < 20 or rows.dtype.kind not in "fiub":
        return
    weights = np.random.default_rng(0).random(rows.shape[1])
    with np.errstate(all="ignore"):
        blocks = (rows[first : first + _BLOCK] for first in range(0, rows.shape[0], _BLOCK))
        sums = [(block * weights).sum(axis=1) for block in blocks]
    counts = np.unique(np.concatenate(sums), return_counts=True)[1]
    twins = counts[(counts > 1) & (counts <= _MOST)].sum()
    if twins >= _SHARE * rows.shape[0] and _unlikely(rows):
        warnings.warn(TWINS, stacklevel=5)


def _unlikely(rows: np.ndarray) -> bool:
    """Tell whether equal rows are unlikely, if the columns were independent.

    Columns of two values tell nothing: pixels and answers go together, and rows of them repeat by themselves.
    """
    likely = float(rows.shape[0])
    for column in rows[:: max(1, rows.shape[0] // _SAMPLE)].T:
        counts = np.unique(column, return_counts=True)[1]
        if len(counts) > 2:
            likely *= float(np.square(counts / len(column)).sum())
        if likely <= _BY_CHANCE:
            return True
    return False
