"""Integer sums of many records: exact at the largest inputs, and refused beyond."""

import numpy as np
import pytest
from sums import sbn_cross, sbn_gram

from vips_fast.kernels import native
from vips_fast.kernels.logistic import workspace


def _accumulate(n, size):
    values, factors, sums = np.ones(n), np.full(n, size), [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    none = np.empty(0, np.int32)
    native.logistic_accumulate(1, 0, 1, None, none, values, factors, factors, workspace(1, True), *sums)
    return sums[1]


#: Sums of as many records as a call takes, each with the largest entries; and what they add up to.
LARGEST = {
    "sbn_gram": (2**22, lambda n: sbn_gram(np.full((n, 2), 2.0**20)), 2**40),
    "logistic_accumulate": (2**20, lambda n: _accumulate(n, 2.0**21 - 1), (2**21 - 1) ** 2),
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_sum_of_one_call_is_exact_and_a_larger_one_refused(name):
    n, call, entry = LARGEST[name]
    assert call(n).reshape(-1).tolist() == [n * entry]
    with pytest.raises(RuntimeError, match="size"):
        call(n + 1)


def test_rows_without_entries_do_not_count():
    """A call takes any number of them, so that no fit ends by how many there are."""
    n, sums = 2**20 + 2, [np.zeros(2, np.int64), np.zeros(3, np.int64)]
    indptr, factors = np.zeros(n + 1, np.int64), np.ones(n)
    indptr[-1] = 1
    column, value = np.zeros(1, np.int32), np.ones(1)
    native.logistic_accumulate(2, 0, 2, indptr, column, value, factors, factors, workspace(2, False), *sums)
    assert sums[0].tolist() == [1, 0] and sums[1].tolist() == [1, 0, 0]


def test_a_product_with_large_entries_is_exact():
    y, v = np.ones((1000, 2), np.uint8), np.full((1000, 3), 2.0**31 - 1)
    assert (sbn_cross(y, v) == 1000 * (2**31 - 1)).all()
