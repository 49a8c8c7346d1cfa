"""Integer sums over units, and counts of words: a status where a number has no room, from kernels and twins alike."""

from itertools import product

import numpy as np
import pytest
from sums import sbn_cross, sbn_gram, sbn_moments

from vips_fast.kernels import native, reference
from vips_fast.kernels.logistic import workspace

ISAS = native.isas_available()
ENDS, COLUMNS = np.array([0, 1, 1, 2]), np.array([1, 1], np.int32)
#: Counts and values that no honest caller gives, between ones that some do.
SIZES = [0.0, 5e-324, 1e-160, 0.25, 0.5, 1.0, 1.5, 63.5, 64.0, 65.0, 1e15, 1e18, 2.0**62, 1e200, 1e308]
SIZES += [-1.0, np.inf, np.nan]


def said(function, *arguments, **named):
    """Return what a function returns, or the class of what it raises."""
    try:
        return function(*arguments, **named)
    except (ValueError, OverflowError) as error:
        return OverflowError if isinstance(error, OverflowError) else ValueError


def same(ours, twin):
    if isinstance(twin, type) or isinstance(ours, type):
        return ours is twin
    return all(np.array_equal(a, b) for a, b in zip(ours, twin, strict=True))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("size", SIZES)
def test_halves_of_any_count_are_whole_or_refused(isa, size):
    counts, words = np.array([size, 3.0]), np.array([2**64 - 1, 1, 2], np.uint64)

    def split(ends, columns, counts, words):
        halves = [[np.zeros_like(part) for part in (ends, columns, counts)] for _ in range(2)]
        native.split_words(ends, columns, counts, words, None, *halves[0], *halves[1], isa)
        return [part if k == 0 else part[: half[0][-1]] for half in halves for k, part in enumerate(half)]

    ours = said(split, ENDS, COLUMNS, counts, words)
    assert same(ours, said(reference.split_words, ENDS, COLUMNS, counts, words))
    assert (ours is ValueError) == (not 0 <= size <= 1e15 or size != np.floor(size))
    if ours is not ValueError:
        assert ours[2].sum() + ours[5].sum() == size + 3


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("value", SIZES)
def test_a_histogram_of_any_values_fits_or_is_refused(isa, value):
    def histogram(ends, columns, values, scales, **settings):
        sums = np.zeros(2, np.int64)
        native.word_histogram(ends, columns, values, scales, *settings.values(), sums, isa)
        return sums

    for scale, least, factor in product([1.0, 1e-300, 0.0, -1.0], [1e-300, 1.0, 1e300], [1.0, 2.0**40, 2.0**61, 1e300]):
        values, scales = np.array([value, 1.0]), np.array([1.0, scale])
        settings = dict(clip=3.0, least_norm=least, factor=factor)
        ours = said(histogram, ENDS, COLUMNS, values, scales, **settings)
        assert same(ours, said(reference.word_histogram, ENDS, COLUMNS, values, scales, **settings))
        if ours is not OverflowError:
            assert ours[0] == 0 and 0 <= ours[1] < 2**62


def test_sums_over_units_have_a_status():
    """Each unit's entry fits int64; the sum of all would not."""
    for n_units, factor, refused in [
        (1, 2.0**61, False),
        (3, 2.0**60, False),
        (4, 2.0**60, True),
        (4000, 2.0**51, True),
    ]:
        ends, columns, sums = np.arange(n_units + 1), np.zeros(n_units, np.int32), np.zeros(1, np.int64)
        call = (ends, columns, np.ones(n_units), np.ones(1), 1.0, 1.0, factor, sums)
        if refused:
            with pytest.raises(OverflowError):
                native.word_histogram(*call)
        else:
            native.word_histogram(*call)
            assert sums[0] == n_units * int(factor)


def _accumulate(n, size):
    values, factors, sums = np.ones(n), np.full(n, size), [np.zeros(1, np.int64), np.zeros(1, np.int64)]
    none = np.empty(0, np.int32)
    native.logistic_accumulate(1, 0, 1, None, none, values, factors, factors, workspace(1, True), *sums)
    return sums[1]


#: Sums of as many records as a call takes, each with the largest entries; and what they add up to.
LARGEST = {
    "sbn_gram": (2**22, lambda n: sbn_gram(np.full((n, 2), 2.0**20)), 2**40),
    "sbn_moments": (2**19, lambda n: sbn_moments(np.full((n, 1), 2.0**21), np.ones((n, 1))), 2**43),
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
