"""binary_records."""

import numpy as np
import pytest
from scipy import sparse

from vips_fast.data import binary_records
from vips_fast.data.arrays import largest

BITS = np.array([[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
SECRET = 7351


@pytest.mark.parametrize("dtype", ("bool", "u1", "i1", ">i4", "i8", "u8", "f2", "f4", ">f8", "g"))
@pytest.mark.parametrize(
    "form",
    (np.asarray, np.asfortranarray, lambda Y: np.repeat(Y, 2, axis=1)[:, ::2], sparse.csr_array, sparse.coo_matrix),
)
def test_binary_records_of_every_type(dtype, form):
    # scipy's sparse matrices are in the machine's byte order and have no float16.
    Y = BITS.astype({">i4": "i4", ">f8": "f8", "f2": "f4"}.get(dtype, dtype) if "sparse" in form.__module__ else dtype)
    Y = form(Y)
    records, usable = binary_records(Y, 3)
    assert records.dtype == np.uint8 and records.flags.c_contiguous and usable is None
    assert np.array_equal(records, BITS)
    assert np.array_equal(binary_records(Y, invalid="drop")[0], BITS)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", (np.nan, np.inf, -1, 2, 0.5, SECRET))
@pytest.mark.parametrize("form", (np.asarray, sparse.csr_array))
def test_a_dropped_record_is_a_row_of_zeros(value, form, monkeypatch):
    Y = BITS.astype(float)
    Y[3, 1] = value
    with pytest.raises(ValueError, match="Z.*expected only 0 and 1") as caught:
        binary_records(form(Y), name="Z")
    assert str(SECRET) not in str(caught.value)
    for chunk in (1, 1 << 20):
        monkeypatch.setattr("vips_fast.data.arrays.CHUNK", chunk)
        records, usable = binary_records(form(Y), invalid="drop")
        assert usable.tolist() == [True, True, True, False]
        assert np.array_equal(records, BITS * usable[:, None]) and records.dtype == np.uint8


def test_dropping_leaves_the_bytes_of_the_caller_alone():
    Y = np.array([[0, 1], [2, 1]], np.uint8)
    records, usable = binary_records(Y, invalid="drop")
    assert records.tolist() == [[0, 1], [0, 0]] and usable.tolist() == [True, False] and Y[1, 0] == 2


def test_the_form_is_always_refused():
    """As of counts (`test_counts`)."""
    for X, message in ((np.ones(3), "1 dimension"), (np.array([["a"]]), "dtype"), (np.array([[1j]]), "dtype")):
        for invalid in ("raise", "drop"):
            with pytest.raises((TypeError, ValueError), match=message):
                binary_records(X, invalid=invalid)


def test_one_cell_does_not_decide_the_dtype():
    for cell in ("a", None, [1], 10**400, 1j):
        objects = np.zeros((2, 2), object)
        objects[0, 1] = cell
        for Y in (objects, objects.tolist()):
            if cell != [1] or Y is objects:  # a list of lists of other depths has no shape
                records, usable = binary_records(Y, invalid="drop")
                assert records.tolist() == [[0, 0], [0, 0]] and usable.tolist() == [False, True]
                with pytest.raises((TypeError, ValueError), match="dtype|in column 1"):
                    binary_records(Y)


@pytest.mark.parametrize("dtype, entry", [("u1", 128), ("i1", 64), ("i2", 2**14), ("u4", 2**31)])
def test_repeated_entries_do_not_add_up_to_another_number(dtype, entry):
    """In their own type, four of these are nothing."""
    data = np.array([entry] * 4 + [1], dtype)
    with pytest.raises(ValueError, match="expected only 0 and 1"):
        binary_records(sparse.csr_array((data, np.zeros(5, np.int32), np.array([0, 5])), shape=(1, 2)))


def test_of_equal_numbers_the_first_are_the_largest():
    assert largest(np.array([[1.0, 2.0, 2.0, 2.0], [3.0, 0.0, 3.0, 4.0]]), 2).tolist() == [[1, 2], [3, 0]]
