"""Rows of a matrix, for models of binary and of numeric records."""

from typing import Any

import numpy as np
from scipy import sparse

from .arrays import CHUNK, align, check_invalid, check_shape, column_text, csr_arrays, dense_array, not_finite_text


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

    `n_features` is the number of columns to insist on, None takes any. Messages have `name` and `expected_by`, the
    estimator. ``invalid="drop"`` makes a row that holds anything but 0 and 1 a row of zeros, marked as not usable,
    without a message. ``least_rows=0`` takes a matrix without rows too.

    Returns the records, C-contiguous uint8 (`Y` is not changed; the memory is shared if nothing had to be converted).
    Also returns which rows are usable, (n,) bool, or or None if all are, as with "raise".

    Raises ValueError if `Y` is not a matrix of booleans or numbers, or is empty in either direction. It also does so if
    it has another width than `n_features`, or (with "raise") holds anything but 0 and 1. No entry is shown.
    """
    drop = check_invalid(invalid)
    given, Y = Y, _matrix(Y, n_features, name, expected_by, drop, least_rows)
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
    drop = check_invalid(invalid)
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
    if not sparse.issparse(X):
        X = dense_array(X, name, drop)
    check_shape(X.shape, n_features, name, expected_by, least_rows)
    if X.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {X.dtype}; expected booleans or numbers")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {X.dtype}: expected booleans or numbers")
    if sparse.issparse(X):
        data, indices, indptr = csr_arrays(X, name)
        X = sparse.csr_array((data, indices, indptr), shape=X.shape)
    return X
