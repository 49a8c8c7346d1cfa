"""Rows of a matrix as the models of binary records read them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from .arrays import CHUNK, aligned, check_invalid, check_shape, csr_arrays, dense_array


def binary_records(
    Y: Any, n_features: int | None = None, *, name: str = "Y", invalid: str = "raise",
    owner: str = "SigmoidBeliefNetwork", least_rows: int = 1,
) -> tuple[np.ndarray, np.ndarray | None]:  # fmt: skip
    """Check records whose entries are 0 and 1: booleans or numbers of any width, shape (n, J), dense or sparse.

    `n_features` is the number of columns to insist on, None takes any; `name` and `owner`, the estimator that expects
    them, are for messages. ``invalid="drop"`` makes a row that holds anything but 0 and 1 a row of zeros that is marked
    as not usable, and says nothing about it. ``least_rows=0`` takes a matrix without rows too.

    Returns the records, C-contiguous uint8 (`Y` is not changed; the memory is shared where nothing had to be
    converted), and which rows are usable, (n,) bool, or None if all are, as is always so with "raise".

    Raises ValueError if `Y` is not a matrix of booleans or numbers, is empty in either direction, has another width
    than `n_features`, or (with "raise") holds anything but 0 and 1. No entry is shown.
    """
    drop = check_invalid(invalid)
    if not sparse.issparse(Y):
        Y = dense_array(Y, name)
    check_shape(Y.shape, n_features, name, owner, least_rows)
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {Y.dtype}: expected booleans or numbers")
    if sparse.issparse(Y):
        # The index arrays are made sure of before scipy's loops see them.
        Y = sparse.csr_array(csr_arrays(Y, name), shape=Y.shape)
    shared = not sparse.issparse(Y) and Y.dtype == np.uint8
    records = aligned(Y) if shared else np.empty(Y.shape, np.uint8)
    usable = np.ones(Y.shape[0], bool)
    step = max(1, CHUNK // Y.shape[1])
    for first in range(0, Y.shape[0], step):
        part = Y[first : first + step]
        if sparse.issparse(part):
            part = part.toarray()
        ones = part == 1
        good = (ones | (part == 0)).all(axis=1)
        if not drop and not good.all():
            bad = part[~good]
            if bad.dtype.kind == "f" and not np.isfinite(bad).all():
                raise ValueError(f"{name} holds NaN or infinity: expected only 0 and 1")
            raise ValueError(f"{name}: expected only 0 and 1; binarise it with a public threshold first")
        usable[first : first + step] = good
        if not shared:
            records[first : first + step] = ones
    if usable.all():
        return records, None
    if shared:
        records = records.copy()
    records[~usable] = 0
    return records, usable
