"""Matrices of counts and the corpus of them: every form of input, every kind of fault, and rows that are dropped."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from vips_fast.data import Corpus, check_counts, documents

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
WIDTHS = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 float32 float64 longdouble >i4 >i8 >f8 bool".split()
SMALL = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 7]])


def in_form(dense, form):
    return dense if form == "dense" else getattr(sparse, f"{form}_array")(dense)


def canonical(matrix, dense, indptr_dtype=np.int32):
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.shape == dense.shape
    assert (matrix.indices.dtype, matrix.indptr.dtype) == (np.int32, indptr_dtype)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        assert array.flags.aligned and array.flags.c_contiguous
    assert np.array_equal(matrix.toarray(), dense)
    assert matrix.nnz == np.count_nonzero(dense)
    for row in range(dense.shape[0]):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        assert np.all(np.diff(columns) > 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_dense_of_any_width(width):
    X = SMALL.astype(width)
    got = check_counts(X)
    canonical(got, X.astype(np.int64))
    assert got.dtype == np.int32 and np.array_equal(X, SMALL.astype(width))


@pytest.mark.parametrize("kind", ("array", "matrix"))
@pytest.mark.parametrize("format", FORMATS)
def test_every_sparse_format(format, kind):
    X = getattr(sparse, f"{format}_{kind}")(SMALL.astype(np.int64))
    canonical(check_counts(X), SMALL)
    assert X.format == format and np.array_equal(X.toarray(), SMALL)


def test_unsorted_repeated_and_zero_entries():
    data = np.array([1, 0, 4, 2, 5, 0])
    indices = np.array([3, 2, 0, 3, 1, 1])
    indptr = np.array([0, 4, 4, 6])
    X = sparse.csr_array((data, indices, indptr), shape=(3, 4))
    kept = [array.copy() for array in (X.data, X.indices, X.indptr)]
    canonical(check_counts(X), np.array([[4, 0, 0, 3], [0, 0, 0, 0], [0, 5, 0, 0]]))
    for array, old in zip((X.data, X.indices, X.indptr), kept, strict=True):
        assert np.array_equal(array, old)


def test_a_stale_sorted_flag_is_not_believed():
    X = sparse.csr_array((np.array([1, 2]), np.array([3, 0]), np.array([0, 2])), shape=(1, 4))
    X.has_sorted_indices = True
    X.has_canonical_format = True
    canonical(check_counts(X), np.array([[2, 0, 0, 1]]))


# A private value in a message would be a leak: each broken entry is a number that no message has a reason to hold.
BROKEN = {
    "NaN": (np.nan, "docs contains NaN"),
    "infinite": (np.inf, "docs contains infinity"),
    "negative": (-7351, "docs contains a negative count"),
    "minus infinity": (-np.inf, "docs contains infinity"),
    "fraction": (7351.25, "docs contains a fractional count"),
    "too large": (7351e20, r"docs contains a count of 2\*\*31"),
}


def test_entries_that_cancel_are_still_negative():
    matrices = [kind((np.array([3, -3]), ([0, 0], [1, 1]))) for kind in (sparse.coo_array, sparse.coo_matrix)]
    for kind in (sparse.csr_array, sparse.csc_array):
        matrices.append(Y := kind((2, 2), dtype=np.int64))
        Y.indptr, Y.indices, Y.data = np.array([0, 2, 2], np.int32), np.array([1, 1], np.int32), np.array([3, -3])
    for X in matrices:
        with pytest.raises(ValueError, match="negative"):
            check_counts(X)


BROKEN_ARRAYS = {
    "indptr": ([0, 3, 2, 4], [0, 3, 4, 0], [0, 2, 2, 4000], [1, 2, 2, 4], [-1, 2, 2, 4], [0, 2, 4], [0.0, 2, 2, 4]),
    "indices": ([1, 3, 0, 4], [1, 3, 0, -1], [1, 3, 0]),
    "data": ([1, 2, 3],),
}


@pytest.mark.parametrize("name, array", [(name, array) for name, arrays in BROKEN_ARRAYS.items() for array in arrays])
@pytest.mark.parametrize("transposed", (False, True))
def test_broken_index_arrays(name, array, transposed):
    csr = sparse.csr_array(SMALL)
    X = sparse.csc_array((4, 3), dtype=np.int64) if transposed else csr  # the same arrays as columns
    X.data, X.indices, X.indptr = csr.data, csr.indices, csr.indptr
    setattr(X, name, np.asarray(array))
    for invalid in ("raise", "drop"):
        with pytest.raises(ValueError, match="X is not a valid sparse matrix: its index arrays"):
            check_counts(X, invalid=invalid)


@pytest.mark.parametrize(
    "X, error, message",
    [
        (np.ones(4, int), ValueError, "1 dimension.* Reshape your data"),
        (np.ones((2, 2, 2), int), ValueError, "3 dimension"),
        (np.array(3), ValueError, "0 dimension"),
        (np.ones((0, 4), int), ValueError, r"0 sample\(s\) \(shape=\(0, 4\)\)"),
        (np.ones((4, 0), int), ValueError, r"0 feature\(s\) \(shape=\(4, 0\)\)"),
        (np.ones((2, 2), complex), ValueError, "Complex data not supported"),
        (sparse.csr_array(np.ones((2, 2), complex)), ValueError, "Complex data not supported"),
        (np.array([["a", "b"]]), TypeError, "expected counts"),
        ([[1, 2], [3]], ValueError, "rectangular"),
        (np.ma.masked_array([[1, 2]]), ValueError, "masked"),
        (None, (TypeError, ValueError), "X"),
    ],
)
@pytest.mark.parametrize("check", (check_counts, documents))
def test_what_is_not_a_matrix_of_counts(X, error, message, check):
    for invalid in ("raise", "drop"):
        with pytest.raises(error, match=message):
            check(X, invalid=invalid)


def test_arguments():
    canonical(check_counts(SMALL, n_features=4), SMALL)
    with pytest.raises(ValueError, match="X has 4 columns; expected 5"):
        check_counts(SMALL, n_features=5)
    with pytest.raises(ValueError, match="invalid='skip': expected one of 'raise', 'drop'"):
        check_counts(SMALL, invalid="skip")
    with pytest.raises(TypeError, match="must be a string or a number"):
        check_counts(np.array([[{}, 1]], dtype=object))


def ends_of(sizes):
    return [0, *np.cumsum(sizes)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-3, 9), max_size=8) | st.lists(st.integers(0, 2), min_size=3, max_size=4).map(ends_of),
    st.lists(st.integers(-3, 9), max_size=8) | st.lists(st.integers(0, 2), min_size=8, max_size=8),
    st.lists(st.integers(-2, 5), max_size=8) | st.lists(st.integers(0, 5), min_size=8, max_size=8),
    st.sampled_from(("csr", "csc", "coo")),
)
def test_arbitrary_arrays_are_refused_or_right(indptr, indices, data, format):
    """Whatever the arrays hold. An error of ours, or the matrix they describe."""
    X = getattr(sparse, f"{format}_array")((3, 4), dtype=np.int64)
    data, indices, indptr = (np.array(a, np.int64) for a in (data, indices, indptr))
    if format == "coo":
        X.data, X.coords = data, (indices, indptr)
    else:
        X.data, X.indices, X.indptr = data, indices, indptr
    try:
        got = check_counts(X)
    except ValueError:
        return
    expected = np.zeros((3, 4), np.int64)
    if format == "coo":
        np.add.at(expected, (indices, indptr), data)
    else:
        nnz = indptr[-1]
        major = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        where = (major, indices[:nnz]) if format == "csr" else (indices[:nnz], major)
        np.add.at(expected, where, data[:nnz])
    canonical(got, expected)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("check", (check_counts, documents))
@pytest.mark.parametrize("form", ("dense", *FORMATS))
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_row_is_refused_or_is_an_empty_row(case, form, check, capfd):
    X = np.vstack([SMALL, [[5, 5, 0, 0]]]).astype(np.float64)
    X[2, 1], message = BROKEN[case]
    with pytest.raises(ValueError, match=message) as caught:
        check(in_form(X, form), name="docs")
    assert "7351" not in str(caught.value)
    empty = X.copy()
    empty[2] = 0
    dropped, expected = check(in_form(X, form), invalid="drop"), check(in_form(empty, form))
    for name in ("data", "indices", "indptr"):
        a, b = getattr(dropped, name), getattr(expected, name)
        assert a.dtype == b.dtype and np.array_equal(a, b)
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("error")
@settings(max_examples=200, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
        elements=st.sampled_from((0, 0, 0, 1, 7, 2**31 - 1, 2**31, 2**53, -1, 0.5, np.nan, np.inf, -np.inf, -0.0)),
    ),
    st.sampled_from(("dense", "csr", "csc", "coo")),
)
def test_exactly_the_invalid_rows_are_dropped(X, form):
    good = ((X >= 0) & (X < 2**31) & (X == np.trunc(np.where(np.isfinite(X), X, 0.5)))).all(axis=1)
    good &= np.where(good[:, None], X, 0).sum(axis=1) < 2**32
    expected = np.where(good[:, None], X, 0)
    canonical(documents(in_form(X, form), invalid="drop"), expected, np.int64)
    if not good.all():
        with pytest.raises(ValueError, match="X (contains|has a row)"):
            documents(in_form(X, form))


def test_rows_beyond_the_limits_are_dropped():
    X = np.array([[2**31, 0, 1], [2**31 - 1] * 3, [2**31 - 1, 2**31 - 1, 1], [1, 2, 3]])
    canonical(documents(X, invalid="drop"), X * [[0], [0], [1], [1]], np.int64)
    for rows, message in ((slice(0, 1), r"a count of 2\*\*31"), (slice(1, 2), r"sums to 2\*\*32")):
        with pytest.raises(ValueError, match=message):
            check_counts(X[rows])
    repeated = sparse.coo_array((np.array([2**30] * 3 + [4]), ([0, 0, 0, 1], [1, 1, 1, 0])), shape=(2, 2))
    canonical(documents(repeated, invalid="drop"), np.array([[0, 0], [4, 0]]), np.int64)
    with pytest.raises(ValueError, match=r"a count of 2\*\*31"):
        documents(repeated)


def test_documents_that_fit_are_not_copied():
    X = sparse.random_array((20_000, 500), density=0.1, format="csr", rng=np.random.default_rng(0))
    X.data = np.ceil(X.data * 9).astype(np.int32)
    given, X = X, check_counts(X)
    assert np.shares_memory(given.data, X.data) and np.shares_memory(given.indices, X.indices)
    tracemalloc.start()
    got = documents(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    canonical(got, X.toarray(), np.int64)
    assert np.shares_memory(got.data, X.data) and np.shares_memory(got.indices, X.indices)
    # Counts and indices are 8 MB; offsets, in three copies of 20,000 int64, are 0.5 MB.
    assert peak < 1.5e6


def misaligned(array):
    """Copy an array one byte off its alignment."""
    shifted = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    shifted[...] = array
    assert not shifted.flags.aligned
    return shifted


@pytest.mark.parametrize("form", ("dense", "csr", "csc", "coo", "bsr", "dia"))
def test_arrays_that_are_not_aligned(form):
    X = in_form(SMALL.astype(np.int32), form)
    if form == "dense":
        X = misaligned(X)
    else:
        X.data = misaligned(X.data)
        for name in ("indices", "indptr", "offsets"):
            if hasattr(X, name):
                setattr(X, name, misaligned(getattr(X, name)))
        if form == "coo":
            X.coords = tuple(map(misaligned, X.coords))
    canonical(check_counts(X), SMALL)
    canonical(documents(X), SMALL, np.int64)


def test_corpus():
    corpus = Corpus(SMALL, ["a", "b", "c", "d"], "made up")
    assert corpus.vocabulary == ("a", "b", "c", "d")
    assert (len(corpus), corpus.n_features) == (3, 4)
    assert repr(corpus) == "Corpus(3 documents, 4 words, made up)"
    with pytest.raises(ValueError, match="vocabulary has 3 words; expected 4"):
        Corpus(SMALL, ["a", "b", "c"])
    with pytest.raises(TypeError, match="vocabulary must hold strings"):
        Corpus(SMALL, ["a", "b", "c", 4])
    with pytest.raises(ValueError, match="counts contains a negative"):
        Corpus(-SMALL)
