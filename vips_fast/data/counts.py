"""Matrices of counts: their checks, their canonical form, and corpora of them.

Messages raised here name the argument and its fault. They never show an entry of the matrix: counts are
private, and messages end up in logs.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..checks import check_choice
from .arrays import INT32_MAX, Parts, align, checked_form, column_text, csr_arrays, csr_of, new_csr
from .groups import group_codes

#: Exponents of two: the kernels hold a count in an int32, and draw words of a document with a 32-bit random number.
_ENTRY, _ROW = 31, 32


def check_counts(X: Any, n_features: int | None = None, *, name: str = "X", invalid: str = "raise") -> sparse.csr_array:
    """Check a matrix of counts as `documents`, and bring it to canonical CSR, int32.

    All arrays are aligned. Index arrays are int64 from 2**31 stored entries on. `X` is not changed; the result shares
    its memory if nothing had to be converted.
    """
    counts = documents(X, n_features, name=name, invalid=invalid, expected_by=None)
    index_dtype = np.int32 if len(counts.indices) <= INT32_MAX else np.int64
    indices, indptr = (array.astype(index_dtype, copy=False) for array in (counts.indices, counts.indptr))
    return csr_of((align(counts.data, np.int32), indices, indptr), counts.shape[1])


def documents(
    X: Any,
    n_features: int | None = None,
    *,
    name: str = "X",
    invalid: str = "raise",
    expected_by: str | None = "LatentDirichletAllocation",
    least_rows: int = 1,
) -> sparse.csr_array:
    """Check a matrix of counts, in the types that the kernels read.

    Parameters
    ----------
    X : sparse matrix or array of any format, or array_like, shape (D, V)
        Counts of any integer or boolean width, or floats with integral values. Explicit zeros, unsorted and repeated
        indices are allowed.
    n_features : int or None
        The number of columns to insist on.
    name : str
        The argument's name in messages.
    invalid : {"raise", "drop"}
        What to do about a row with an entry that is negative, fractional, not finite or at least 2**31, and about a row
        whose sum is 2**32 or more. "drop" makes it a row of no words and says nothing about it.
    expected_by : str or None
        The estimator that expects `n_features` columns, for the message.
    least_rows : {0, 1}
        0 takes a matrix without rows too.

    Returns a csr_array: indices sorted, repeated ones summed, no stored zeros, indptr int64. If `X` is canonical and
    has whole numbers, its data and indices are not copied and keep their types, which become the kernels' a block at a
    time. Else they are int32.

    Raises TypeError if the entries of `X` are not numbers. Raises ValueError if it is not two-dimensional, is empty in
    either direction, has another number of columns than `n_features`, or index arrays that do not describe a matrix;
    with "raise" also for an invalid value.
    """
    drop = check_choice("invalid", invalid, ("raise", "drop")) == "drop"
    try:
        matrix = checked_form(X, n_features, name, expected_by, drop, least_rows, "counts")
    except (TypeError, ValueError):
        _refuse_texts(X, name)
        raise
    parts = csr_arrays(X, name) if sparse.issparse(X) else _nonzero(matrix)

    # Rows are summed before repeated entries, so that neither can overflow.
    parts = without(parts, _rows_of_invalid(X, parts, name, drop))
    if parts[0].dtype.kind not in "iu":
        parts = align(parts[0], np.int32), *parts[1:]
    data, _, indptr = parts
    if float(data.max(initial=0)) * int(np.diff(indptr).max(initial=0)) >= 2**_ROW:
        starts = indptr[:-1][indptr[:-1] < indptr[1:]]
        # A float64 sum of whole numbers is exact below 2**53, and never falls below it again.
        too_long = np.flatnonzero(np.add.reduceat(data, starts, dtype=np.float64) >= 2**_ROW)
        if len(too_long) and not drop:
            raise ValueError(f"{name} has a row that sums to 2**{_ROW} or more; expected smaller counts")
        parts = without(parts, _rows_at(starts[too_long], indptr))
    if not new_csr(parts, matrix.shape).has_canonical_format:
        summed = new_csr((parts[0].astype(np.int64), parts[1].copy(), parts[2]), matrix.shape)
        summed.sum_duplicates()
        parts = summed.data, align(summed.indices, np.int32), align(summed.indptr, np.int64)
        parts = without(parts, _rows_of_invalid(X, parts, name, drop))
        parts = align(parts[0], np.int32), *parts[1:]
    data, indices, indptr = parts
    if not data.all():
        kept = np.flatnonzero(data)
        data, indices, indptr = data[kept], indices[kept], np.searchsorted(kept, indptr)
    return csr_of((data, indices, indptr), matrix.shape[1])


def given_outside(X: Any, name: str = "X") -> np.ndarray | None:
    """Take the attribute ``outside`` of `vips_fast.data.vocabulary.count_matrix`, int64 of shape (D,), or None.

    A table's column of that name is a word. No number in it raises: those that no text has are brought into the range
    of a count, so that sums of them are exact.
    """
    outside = getattr(X, "outside", None) if sparse.issparse(X) else None
    if outside is None:
        return None
    if not (isinstance(outside, np.ndarray) and outside.dtype.kind in "iu" and outside.shape == X.shape[:1]):
        raise ValueError(f"{name}.outside: expected {X.shape[0]} integers, one for each row, as count_matrix makes it")
    return np.clip(outside, 0, INT32_MAX).astype(np.int64)


def _refuse_texts(X: Any, name: str) -> None:
    """Raise TypeError for texts or a corpus in place of counts."""
    if sparse.issparse(getattr(X, "counts", None)):
        raise TypeError(f"{name}: a Corpus; expected its counts: {name}.counts, and groups={name}.groups for persons")
    first: Any = ()
    with contextlib.suppress(TypeError, ValueError, LookupError):
        first = np.asarray(X[:1], dtype=object).ravel()
    if len(first) and all(isinstance(cell, str) for cell in first):
        raise TypeError(f"{name}: texts; expected counts, or vips_fast.PrivateTopics, which takes texts and tables")


def _nonzero(dense: np.ndarray) -> Parts:
    """Make CSR arrays of a dense matrix."""
    rows, columns = np.nonzero(dense)
    ends = np.cumsum(np.count_nonzero(dense, axis=1), dtype=np.int64)
    return align(dense[rows, columns]), columns.astype(np.int32), np.concatenate([np.zeros(1, np.int64), ends])


def _rows_of_invalid(X: Any, parts: Parts, name: str, drop: bool) -> np.ndarray:
    """Find rows with an entry that is no count, or raise."""
    data, indices, indptr = parts
    if data.dtype.kind == "f":
        # float16 cannot hold the limit that it is compared with; NaN fails every comparison.
        data = data.astype(np.float32) if data.dtype == np.float16 else data
        bad = ~((data >= 0) & (data < 2**_ENTRY) & (data == np.trunc(data)))
    elif data.dtype.kind == "b" or (data.min(initial=0) >= 0 and data.max(initial=0) < 2**_ENTRY):
        return np.empty(0, np.int64)
    else:
        bad = (data < 0) | (data >= 2**_ENTRY)
    if not bad.any():
        return np.empty(0, np.int64)
    if not drop:
        what, wanted, which = _complaint(data, bad)
        column = column_text(X, int(indices[np.flatnonzero(which)[0]]))
        raise ValueError(f"{name} contains {what} in {column}; expected {wanted}")
    return _rows_at(np.flatnonzero(bad), indptr)


def _complaint(part: np.ndarray, bad: np.ndarray) -> tuple[str, str, np.ndarray]:
    """Choose what to say of bad entries: what there is, what is expected, and which entries it is about."""
    with np.errstate(invalid="ignore"):
        for what, wanted, which in (
            ("NaN", "counts >= 0", np.isnan(part)),
            ("infinity", "finite counts >= 0", np.isinf(part)),
            ("a negative count", "counts >= 0", part < 0),
            (f"a count of 2**{_ENTRY} or more", "smaller counts", part >= 2**_ENTRY),
        ):
            if which.any():
                return what, wanted, which
    return "a fractional count", "whole numbers", bad


def _rows_at(entries: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    return np.unique(np.searchsorted(indptr, entries, side="right") - 1)


def without(parts: Parts, rows: np.ndarray) -> Parts:
    """Make the given rows of a matrix empty."""
    if not len(rows):
        return parts
    data, indices, indptr = parts
    lengths = np.diff(indptr)
    stays = np.ones(len(lengths), bool)
    stays[rows] = False
    entries = np.repeat(stays, lengths)
    return data[entries], indices[entries], np.concatenate([[0], np.cumsum(lengths * stays)])


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Documents as counts of words.

    ``counts``, a matrix of shape (D, V), has the number of times that each word occurs in each document, brought to
    canonical CSR by `check_counts`. ``vocabulary``, V strings or None, has the word of each column. It is public: it
    must not depend on the documents. ``source`` says in words where the counts come from. ``groups``, int64 of shape
    (D,) or None, numbers the person of each document; it is as private as the documents. The attribute ``outside`` of
    `vips_fast.data.vocabulary.count_matrix` stays with ``counts``.

    Raises ValueError if `counts` is not a matrix of counts. So it does if `vocabulary` has another length than its
    columns, or `groups` than its rows. Raises TypeError if an entry of `vocabulary` is not a string.
    """

    counts: sparse.csr_array
    vocabulary: tuple[str, ...] | None = None
    source: str = ""
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        counts, outside = check_counts(self.counts, name="counts"), given_outside(self.counts, "counts")
        if outside is not None:
            counts.outside = outside
        object.__setattr__(self, "counts", counts)
        if self.groups is not None:
            object.__setattr__(self, "groups", group_codes(self.groups, counts.shape[0]))
        if self.vocabulary is not None:
            words = tuple(self.vocabulary)
            if not all(isinstance(word, str) for word in words):
                raise TypeError("vocabulary must hold strings only")
            if len(words) != counts.shape[1]:
                raise ValueError(
                    f"vocabulary has {len(words)} words; expected {counts.shape[1]}, one for each column of counts"
                )
            object.__setattr__(self, "vocabulary", words)

    @property
    def n_features(self) -> int:
        """Number of columns V."""
        return int(self.counts.shape[1])

    def __len__(self) -> int:
        return int(self.counts.shape[0])

    def __repr__(self) -> str:
        source = f", {self.source}" if self.source else ""
        return f"Corpus({len(self)} documents, {self.n_features} words{source})"
