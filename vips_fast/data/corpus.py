"""A corpus as counts, and the checks every matrix of counts goes through.

Messages raised here name the argument and what is wrong with it.  They never
show an entry of the matrix: counts are private, and messages end up in logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from scipy import sparse

__all__ = ["Corpus", "check_counts", "split"]

# From 2**53 on a count, or the sum of a document's counts, may have no exact
# float64 form, and the E-step's arithmetic would no longer be that of the counts.
_LARGEST = 2**53
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Corpus:
    """Documents as counts of words.

    Parameters
    ----------
    counts : sparse matrix or array_like, shape (D, V)
        Number of times that each word occurs in each document.  Brought to
        canonical CSR by `check_counts`.
    vocabulary : sequence of str, length V, or None
        The word of each column.  Public: it must not depend on the documents.
    source : str
        Where the counts come from, in words.
    details : mapping or None
        Numbers about the making of the corpus, such as documents per package.

    Raises
    ------
    ValueError
        If `counts` is not a matrix of counts or `vocabulary` has another
        length than its columns.
    TypeError
        If an entry of `vocabulary` is not a string.
    """

    counts: sparse.csr_array
    vocabulary: tuple[str, ...] | None = None
    source: str = ""
    details: Mapping[str, int] | None = None

    def __post_init__(self):
        counts = check_counts(self.counts, name="counts")
        object.__setattr__(self, "counts", counts)
        if self.vocabulary is not None:
            words = tuple(self.vocabulary)
            if not all(isinstance(word, str) for word in words):
                raise TypeError("vocabulary must hold strings only")
            if len(words) != counts.shape[1]:
                raise ValueError(
                    f"vocabulary has {len(words)} words; expected "
                    f"{counts.shape[1]}, one for each column of counts"
                )
            object.__setattr__(self, "vocabulary", words)

    @property
    def n_documents(self) -> int:
        """Number of documents D, the empty ones included."""
        return self.counts.shape[0]

    @property
    def n_features(self) -> int:
        """Number of columns V."""
        return self.counts.shape[1]

    @property
    def n_tokens(self) -> int:
        """Sum of all counts."""
        return int(self.counts.data.sum(dtype=np.int64))

    def __len__(self) -> int:
        return self.n_documents

    def __repr__(self) -> str:
        return (
            f"Corpus({self.n_documents} documents, {self.n_features} words"
            + (f", {self.source}" if self.source else "")
            + ")"
        )


def check_counts(X, n_features=None, name="X", allow_float=False):
    """Check a matrix of counts and bring it to canonical CSR.

    Parameters
    ----------
    X : sparse matrix or array of any format, or array_like, shape (D, V)
        Counts of any integer or boolean width, or floats with integral values.
        Explicit zeros, unsorted and repeated indices are allowed.
    n_features : int or None
        The number of columns to insist on.
    name : str
        The argument's name in messages.
    allow_float : bool
        If true, fractional values are allowed and a floating input keeps its
        width (float32 or float64).

    Returns
    -------
    scipy.sparse.csr_array, shape (D, V)
        Indices sorted, repeated ones summed, no stored zeros.  Data are int64
        for int64 input and where int32 is too narrow, int32 otherwise (float32
        or float64 for floats with `allow_float`).  Index arrays are int32, or
        int64 from 2**31 stored entries on: scipy needs both of one width.  `X`
        is not changed; the result shares its memory where nothing had to be
        converted.

    Raises
    ------
    ValueError
        If `X` is not two-dimensional, is empty in either direction, has another
        number of columns than `n_features`, has negative, non-finite or
        (without `allow_float`) fractional entries, entries or row sums of
        2**53 or more, or index arrays that do not describe a matrix.
    TypeError
        If the entries of `X` are not numbers.
    """
    if sparse.issparse(X):
        if X.ndim != 2:
            raise ValueError(f"{name} has {X.ndim} dimensions; expected 2")
        _check_shape(X.shape, n_features, name)
        if X.format == "csr":
            data, indices, indptr = _check_compressed(X, name)
        else:
            X = _to_csr(X, name)
            data, indices, indptr = X.data, X.indices, X.indptr
        shape = X.shape
        data = _check_values(data, name, allow_float)
    else:
        dense = _dense(X, name)
        _check_shape(dense.shape, n_features, name)
        shape = dense.shape
        dense = _check_values(dense, name, allow_float)
        rows, indices = np.nonzero(dense)
        data = dense[rows, indices]
        indptr = np.zeros(shape[0] + 1, np.int64)
        np.cumsum(np.bincount(rows, minlength=shape[0]), out=indptr[1:])
    return _canonical(data, indices, indptr, shape, name)


def split(corpus, test_size=0.1, random_state=0):
    """Split a corpus into a training and a test part at random.

    Parameters
    ----------
    corpus : Corpus
    test_size : float in (0, 1) or int >= 1
        Share or number of documents in the test part.
    random_state : int, numpy.random.Generator or None
        Seed of the shuffle; the same seed gives the same split.

    Returns
    -------
    train, test : Corpus
        Both keep the order that the documents had.

    Raises
    ------
    TypeError
        If `corpus` is not a Corpus or `test_size` is no number.
    ValueError
        If either part would be empty.
    """
    if not isinstance(corpus, Corpus):
        raise TypeError(f"corpus must be a Corpus, not {type(corpus).__name__}")
    n = corpus.n_documents
    if isinstance(test_size, bool) or not isinstance(test_size, Real):
        raise TypeError(f"test_size must be a number, not {type(test_size).__name__}")
    if isinstance(test_size, Integral):
        n_test = int(test_size)
    else:
        if not 0.0 < test_size < 1.0:
            raise ValueError(
                f"test_size is {test_size}; expected a share in (0, 1) "
                "or a number of documents"
            )
        n_test = round(n * float(test_size))
    if not 1 <= n_test <= n - 1:
        raise ValueError(
            f"test_size {test_size} of {n} documents leaves one part empty; "
            f"expected 1 to {n - 1} test documents"
        )
    order = np.random.default_rng(random_state).permutation(n)
    parts = []
    for label, rows in (("training", order[n_test:]), ("test", order[:n_test])):
        parts.append(
            Corpus(
                corpus.counts[np.sort(rows)],
                corpus.vocabulary,
                f"{corpus.source} ({label} part)" if corpus.source else f"{label} part",
            )
        )
    return parts[0], parts[1]


def _check_shape(shape, n_features, name):
    if len(shape) != 2:
        raise ValueError(
            f"{name} has {len(shape)} dimension(s); expected 2, documents by words. "
            "Reshape your data, for one document to (1, V)"
        )
    # Worded as scikit-learn words it, so that its own checks recognise it.
    if shape[0] == 0:
        raise ValueError(
            f"{name} has 0 sample(s) (shape={tuple(shape)}) while a minimum of 1 is required."
        )
    if shape[1] == 0:
        raise ValueError(
            f"{name} has 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is required."
        )
    if shape[1] > _INT32_MAX:
        raise ValueError(f"{name} has {shape[1]} columns; expected fewer than 2**31")
    if n_features is not None and shape[1] != n_features:
        raise ValueError(f"{name} has {shape[1]} columns; expected {n_features}")


def _dense(X, name):
    if np.ma.isMaskedArray(X):
        raise ValueError(f"{name} is a masked array; expected counts without a mask")
    try:
        dense = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is not a rectangular array of counts") from None
    if dense.dtype.kind == "O":
        try:
            return dense.astype(np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name} holds objects: each argument must be a string or a number "
                "that float() accepts"
            ) from None
    return dense


def _index_array(array, name, what):
    array = np.asarray(array)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"{name}.{what} must be a one-dimensional array of integers")
    return array


def _check_compressed(X, name):
    """The arrays of a CSR or CSC matrix, once they are known to describe one."""
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    indptr = _index_array(X.indptr, name, "indptr")
    indices = _index_array(X.indices, name, "indices")
    data = np.asarray(X.data)
    if data.ndim != 1:
        raise ValueError(f"{name}.data must be one-dimensional")
    if indptr.shape[0] != major + 1:
        raise ValueError(
            f"{name}.indptr has {indptr.shape[0]} entries; expected {major + 1}, "
            "one more than there are rows"
        )
    if indptr[0] != 0:
        raise ValueError(f"{name}.indptr does not start at 0")
    if np.any(indptr[1:] < indptr[:-1]):
        raise ValueError(f"{name}.indptr falls; expected offsets that never decrease")
    nnz = int(indptr[-1])
    if nnz > min(indices.shape[0], data.shape[0]):
        raise ValueError(f"{name}.indptr points past the end of {name}.indices or {name}.data")
    indices, data = indices[:nnz], data[:nnz]
    _check_range(indices, minor, name)
    return data, indices, indptr


def _check_range(indices, size, name):
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        raise ValueError(f"{name} has an index out of range; expected 0 to {size - 1}")


def _to_csr(X, name):
    """Any other sparse format as CSR, its index arrays checked first.

    scipy converts with compiled loops that trust the index arrays; broken ones
    would write outside their memory.
    """
    if X.format == "csc":
        data, indices, indptr = _check_compressed(X, name)
        _check_kind(data.dtype, name)
        # Rebuilt: the matrix may carry a flag "sorted" that is not true of it.
        X = sparse.csc_array((data, indices, indptr), shape=X.shape)
        return X.tocsr()
    _check_kind(X.dtype, name)
    if X.format != "coo":
        try:
            if X.format == "bsr":
                X.check_format(full_check=True)
            X = X.tocoo(copy=False)
        except (ValueError, IndexError):
            raise ValueError(f"{name} is not a valid sparse matrix") from None
    for axis, coordinates in enumerate(X.coords):
        coordinates = _index_array(coordinates, name, ("row", "col")[axis])
        if coordinates.shape != X.data.shape:
            raise ValueError(f"{name} has index and data arrays of different lengths")
        _check_range(coordinates, X.shape[axis], name)
    # Not X.tocsr(): it would sum repeated entries, and a -1 beside a +1 would
    # pass for an empty cell.  Sorting by row keeps all of them to be checked.
    rows, columns = X.coords
    data = X.data
    if np.any(rows[1:] < rows[:-1]):
        order = np.argsort(rows, kind="stable")
        data, columns = data[order], columns[order]
    indptr = np.zeros(X.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=X.shape[0]), out=indptr[1:])
    return sparse.csr_array((data, columns, indptr), shape=X.shape)


def _check_kind(dtype, name):
    if dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {name} is complex; expected counts")
    if dtype.kind not in "biuf":
        raise TypeError(f"{name} has entries of type {dtype}; expected counts")


def _check_values(data, name, allow_float):
    """Data of a legal width whose entries are counts, or an error."""
    _check_kind(data.dtype, name)
    if data.dtype.kind == "f":
        # The sum is finite only if every entry is (or overflows, and then the
        # entries are looked at one by one).
        with np.errstate(over="ignore", invalid="ignore"):
            total = data.sum(dtype=np.float64)
        if not np.isfinite(total):
            if np.isnan(data).any():
                raise ValueError(f"{name} contains NaN; expected counts >= 0")
            if np.isinf(data).any():
                raise ValueError(f"{name} contains infinity; expected finite counts >= 0")
    if data.size == 0:
        keep = data.dtype in (np.int32, np.int64)
        keep = keep or (allow_float and data.dtype in (np.float32, np.float64))
        return data if keep else data.astype(np.int32)
    if data.dtype.kind != "b" and data.min() < 0:
        raise ValueError(f"{name} contains a negative count; expected counts >= 0")
    # As a Python number: float16 has no room for the bounds it is compared with.
    largest = data.max().item()
    if largest >= _LARGEST:
        raise ValueError(f"{name} contains a count of 2**53 or more; expected smaller counts")
    if data.dtype.kind == "f":
        if allow_float:
            return data if data.dtype in (np.float32, np.float64) else data.astype(np.float64)
        if not np.array_equal(data, np.trunc(data)):
            raise ValueError(f"{name} contains a fractional count; expected whole numbers")
    if data.dtype in (np.int32, np.int64):
        return data
    return data.astype(np.int32 if largest <= _INT32_MAX else np.int64)


def _canonical(data, indices, indptr, shape, name):
    """CSR with sorted, unique indices and no stored zeros; arrays are checked."""
    index_dtype = np.int32 if indices.shape[0] <= _INT32_MAX else np.int64
    indices = np.ascontiguousarray(indices, index_dtype)
    indptr = np.ascontiguousarray(indptr, index_dtype)
    data = np.ascontiguousarray(data)
    dtype = data.dtype

    rising = indices[1:] > indices[:-1]
    starts = indptr[1:-1]
    starts = starts[(starts > 0) & (starts < indices.shape[0])]
    rising[starts - 1] = True
    if not rising.all():
        # A fresh object, since a flag "sorted" that came with the input may be
        # stale; in int64, so that sums of repeated entries do not wrap.
        matrix = sparse.csr_array(
            (data.astype(np.float64 if dtype.kind == "f" else np.int64), indices, indptr),
            shape=shape,
            copy=True,
        )
        matrix.sum_duplicates()
        data, indices, indptr = matrix.data, matrix.indices, matrix.indptr
        if dtype != np.int32 or data.max() <= _INT32_MAX:
            data = data.astype(dtype, copy=False)
    if not data.all():
        keep = data != 0
        before = np.zeros(keep.shape[0] + 1, index_dtype)
        np.cumsum(keep, out=before[1:])
        data, indices, indptr = data[keep], indices[keep], before[indptr]

    matrix = sparse.csr_array((data, indices, indptr), shape=shape)
    matrix.has_canonical_format = True
    lengths = np.diff(indptr)
    if data.size and float(data.max()) * int(lengths.max()) >= _LARGEST:
        sums = np.add.reduceat(data, indptr[:-1][lengths > 0], dtype=np.float64)
        if np.any(sums >= _LARGEST):
            raise ValueError(
                f"{name} has a row that sums to 2**53 or more; expected smaller counts"
            )
    return matrix
