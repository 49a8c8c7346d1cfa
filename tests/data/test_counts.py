"""check_counts, Corpus and split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from vips_fast.data import Corpus, check_counts, split

FORMATS = ("csr", "csc", "coo", "bsr", "lil", "dok", "dia")
WIDTHS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "float32", "float64", "longdouble", ">i4", ">i8", ">f8", "bool")  # fmt: skip


def small():
    return np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 7]])


def canonical(matrix, dense):
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.shape == dense.shape
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    assert np.array_equal(matrix.toarray(), dense)
    assert matrix.nnz == np.count_nonzero(dense)
    for row in range(dense.shape[0]):
        columns = matrix.indices[matrix.indptr[row] : matrix.indptr[row + 1]]
        assert np.all(np.diff(columns) > 0)


@pytest.mark.parametrize("width", WIDTHS)
def test_dense_of_any_width(width):
    X = small().astype(width)
    before = X.copy()
    got = check_counts(X)
    canonical(got, X.astype(np.int64))
    assert got.dtype == (np.int64 if width == "int64" else np.int32)
    assert np.array_equal(X, before)


@pytest.mark.parametrize("kind", ("array", "matrix"))
@pytest.mark.parametrize("format", FORMATS)
def test_every_sparse_format(format, kind):
    build = getattr(sparse, f"{format}_{kind}")
    X = build(small().astype(np.int64))
    copy = X.copy()
    canonical(check_counts(X), small())
    assert X.format == format
    assert np.array_equal(X.toarray(), copy.toarray())


def test_lists_and_objects():
    canonical(check_counts(small().tolist()), small())
    canonical(check_counts(small().astype(object)), small())


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


def test_no_copy_of_what_is_canonical():
    X = sparse.csr_array(small().astype(np.int32))
    got = check_counts(X)
    assert np.shares_memory(got.data, X.data)
    assert np.shares_memory(got.indices, X.indices)


def test_repeated_entries_do_not_wrap():
    big = np.array([2**31 - 1, 2**31 - 1], np.int32)
    X = sparse.coo_array((big, ([0, 0], [1, 1])), shape=(1, 2))
    got = check_counts(X)
    assert got.dtype == np.int64 and got[0, 1] == 2**32 - 2


def test_spare_room_behind_the_entries_is_ignored():
    X = sparse.csr_array(small())
    X.data = np.append(X.data, -5)
    X.indices = np.append(X.indices, 99).astype(np.int32)
    canonical(check_counts(X), small())


@pytest.mark.parametrize("width", ("float32", "float64"))
def test_fractions_where_they_are_allowed(width):
    X = small() * np.asarray(0.5, width)
    got = check_counts(X.astype(width), allow_float=True)
    assert got.dtype == width
    assert np.array_equal(got.toarray(), X)
    with pytest.raises(ValueError, match="X contains a fractional count"):
        check_counts(X)


# A private value in a message would be a leak: each broken entry below is a
# number that no message has a reason to hold.
BROKEN = {
    "NaN": (np.nan, "docs contains NaN"),
    "infinite": (np.inf, "docs contains infinity"),
    "negative": (-7351, "docs contains a negative count"),
    "minus infinity": (-np.inf, "docs contains infinity"),
    "fraction": (7351.25, "docs contains a fractional count"),
    "too large": (7351e20, r"docs contains a count of 2\*\*53"),
}


@pytest.mark.parametrize("form", ("dense", *FORMATS))
@pytest.mark.parametrize("case", BROKEN)
def test_broken_entries(case, form):
    value, message = BROKEN[case]
    X = small().astype(np.float64)
    X[2, 1] = value
    if form != "dense":
        X = getattr(sparse, f"{form}_array")(X)
    with pytest.raises(ValueError, match=message) as caught:
        check_counts(X, name="docs")
    assert "7351" not in str(caught.value)


def test_entries_that_cancel_are_still_negative():
    for build in (sparse.coo_array, sparse.coo_matrix):
        X = build((np.array([3, -3]), ([0, 0], [1, 1])), shape=(1, 2))
        with pytest.raises(ValueError, match="negative"):
            check_counts(X)
        for convert in ("csr", "csc"):
            Y = getattr(sparse, f"{convert}_array")((2, 2), dtype=np.int64)
            Y.indptr = np.array([0, 2, 2], np.int32)
            Y.indices, Y.data = np.array([1, 1], np.int32), np.array([3, -3])
            with pytest.raises(ValueError, match="negative"):
                check_counts(Y)


def test_rows_beyond_exact_arithmetic():
    with pytest.raises(ValueError, match="row that sums to 2"):
        check_counts(np.array([[0, 1, 0], [1, 1, 1], [2**52, 2**52 - 1, 1]]))
    with pytest.raises(ValueError, match="a count of 2"):
        check_counts(np.array([[2**53, 0]]))
    check_counts(np.array([[2**52, 2**52 - 1], [2**53 - 1, 0]]))


def broken(**arrays):
    X = sparse.csr_array(small())
    for name, array in arrays.items():
        setattr(X, name, np.asarray(array))
    return X


@pytest.mark.parametrize(
    "arrays, message",
    [
        (dict(indptr=[0, 3, 2, 4]), "indptr falls"),
        (dict(indptr=[0, 2, 2, 4000]), "past the end"),
        (dict(indptr=[1, 2, 2, 4]), "does not start at 0"),
        (dict(indptr=[-1, 2, 2, 4]), "does not start at 0"),
        (dict(indptr=[0, 2, 4]), "expected 4, one more"),
        (dict(indptr=[0.0, 2.0, 2.0, 4.0]), "integers"),
        (dict(indices=[1, 3, 0, 4]), "index out of range; expected 0 to 3"),
        (dict(indices=[1, 3, 0, -1]), "index out of range"),
        (dict(indices=[1, 3, 0]), "past the end"),
        (dict(data=[1, 2, 3]), "past the end"),
    ],
)
@pytest.mark.parametrize("transposed", (False, True))
def test_broken_index_arrays(arrays, message, transposed):
    X = broken(**arrays)
    if transposed:
        # The same arrays as the columns of a CSC matrix.
        Y = sparse.csc_array((4, 3), dtype=np.int64)
        Y.indptr, Y.indices, Y.data = X.indptr, X.indices, X.data
        X = Y
    with pytest.raises(ValueError, match=message):
        check_counts(X)


def test_broken_coordinates():
    X = sparse.coo_array(small())
    X.coords = (X.coords[0], X.coords[1] + 2)
    with pytest.raises(ValueError, match="index out of range"):
        check_counts(X)
    X.coords = (X.coords[0][:-1], X.coords[1])
    with pytest.raises(ValueError, match="different lengths"):
        check_counts(X)


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
        (np.array([[{}, 1]], dtype=object), TypeError, "must be a string or a number"),
        ([[1, 2], [3]], ValueError, "rectangular"),
        (np.ma.masked_array([[1, 2]]), ValueError, "masked"),
        (None, (TypeError, ValueError), "X"),
    ],
)
def test_what_is_not_a_matrix_of_counts(X, error, message):
    with pytest.raises(error, match=message):
        check_counts(X)


def test_number_of_columns():
    canonical(check_counts(small(), n_features=4), small())
    with pytest.raises(ValueError, match="X has 4 columns; expected 5"):
        check_counts(small(), n_features=5)


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7),
               elements=st.integers(0, 3)),
    st.sampled_from((*FORMATS, "dense")),
    st.sampled_from(("int32", "int64", "uint8", "float32")),
)  # fmt: skip
def test_round_trip(dense, format, width):
    X = dense.astype(width)
    if format != "dense":
        X = getattr(sparse, f"{format}_array")(X)
    canonical(check_counts(X), dense)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-3, 9), max_size=8),
    st.lists(st.integers(-3, 9), max_size=8),
    st.lists(st.integers(-2, 5), max_size=8),
    st.sampled_from(("csr", "csc", "coo")),
)
def test_arbitrary_arrays_are_refused_or_right(indptr, indices, data, format):
    """Whatever the arrays hold: an error of ours, or the matrix they describe."""
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


def test_corpus():
    corpus = Corpus(small(), ["a", "b", "c", "d"], "made up")
    assert corpus.vocabulary == ("a", "b", "c", "d")
    assert (corpus.n_documents, corpus.n_features, corpus.n_tokens) == (3, 4, 13)
    assert len(corpus) == 3
    assert repr(corpus) == "Corpus(3 documents, 4 words, made up)"
    with pytest.raises(AttributeError):
        corpus.source = "other"


def test_corpus_and_its_vocabulary():
    with pytest.raises(ValueError, match="vocabulary has 3 words; expected 4"):
        Corpus(small(), ["a", "b", "c"])
    with pytest.raises(TypeError, match="vocabulary must hold strings"):
        Corpus(small(), ["a", "b", "c", 4])
    with pytest.raises(ValueError, match="counts contains a negative"):
        Corpus(-small())


def numbered(n):
    return Corpus(np.arange(1, n + 1)[:, None], ("word",), "numbers")


@pytest.mark.parametrize("test_size, expected", [(0.25, 25), (7, 7), (np.int64(7), 7), (0.001, 0)])
def test_split_sizes(test_size, expected):
    if not expected:
        with pytest.raises(ValueError, match="leaves one part empty"):
            split(numbered(100), test_size)
        return
    train, test = split(numbered(100), test_size)
    assert (len(train), len(test)) == (100 - expected, expected)
    both = np.concatenate([train.counts.toarray(), test.counts.toarray()]).ravel()
    assert sorted(both) == list(range(1, 101))
    assert np.all(np.diff(test.counts.toarray().ravel()) > 0)
    assert train.vocabulary == test.vocabulary == ("word",)
    assert test.source == "numbers (test part)"


def test_split_is_random_and_repeatable():
    def chosen(seed):
        return split(numbered(100), 10, seed)[1].counts.toarray().ravel().tolist()

    assert chosen(3) == chosen(3)
    assert chosen(3) != chosen(4)


@pytest.mark.parametrize("test_size", (0, 100, 1.0, 0.0, -0.5, float("nan"), True, "half"))
def test_split_refuses(test_size):
    with pytest.raises((ValueError, TypeError), match="test_size"):
        split(numbered(100), test_size)
    with pytest.raises(TypeError, match="corpus must be a Corpus"):
        split(small(), 1)
