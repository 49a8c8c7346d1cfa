"""Exactly rounded noise for symmetric matrices."""

import math
from fractions import Fraction

import numpy as np
import pytest

from vips_fast.kernels import native, noise, rounded_gaussian, symmetric_gaussian

ISAS = native.isas_available()
KEY = bytes(range(50, 82))
SCALE = 2.0**22.3
#: Around the kernel's 32 rows and its vectors of 2, 4 and 8. (Its check takes 256 rows at a time.)
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 71, 127, 128, 129, 200]


def random_symmetric(d, rng, bits=40):
    a = rng.integers(-(2**bits), 2**bits, (d, d))
    return np.triu(a) + np.triu(a, 1).T


def expected_noise(d, scale, form):
    """From the vector draws. Entry (i, j) takes element i d - i(i-1)/2 + j - i."""
    rows, columns = np.triu_indices(d)
    n = len(rows)
    assert (rows * d - rows * (rows - 1) // 2 + columns - rows == np.arange(n)).all()
    whole = rounded_gaussian(scale, n, unsafe_test_key=KEY)
    off = whole if form == "analyze_gauss" else rounded_gaussian(noise.half_power_scale(scale), n, unsafe_test_key=KEY)
    out = np.zeros((d, d), dtype=np.int64)
    out[rows, columns] = np.where(rows == columns, whole, off)
    return out + np.triu(out, 1).T


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("form", ["orthonormal", "analyze_gauss"])
def test_entries_are_the_numbered_elements(isa, form):
    """At scale 2^36 a draw in 32 takes the exact path."""
    for d, scale in [*((d, SCALE) for d in SIZES), (70, 2.0**36)]:
        before = random_symmetric(d, np.random.default_rng(d))
        wanted = before + expected_noise(d, scale, form)
        matrix = before.copy()
        assert symmetric_gaussian(matrix, scale, form=form, unsafe_test_key=KEY, isa=isa) is matrix
        np.testing.assert_array_equal(matrix, wanted)
        alone = symmetric_gaussian(d, scale, form=form, unsafe_test_key=KEY, isa=isa)
        np.testing.assert_array_equal(alone, wanted - before)


@pytest.mark.parametrize("n_threads", [2, 7, 16])
@pytest.mark.parametrize("d", [5, 100, 333])
def test_same_bits_for_every_number_of_threads(d, n_threads):
    before = random_symmetric(d, np.random.default_rng(d))
    one, many = before.copy(), before.copy()
    symmetric_gaussian(one, SCALE, unsafe_test_key=KEY)
    symmetric_gaussian(many, SCALE, unsafe_test_key=KEY, n_threads=n_threads)
    np.testing.assert_array_equal(one, many)


def test_layouts():
    d = 40
    before = random_symmetric(d, np.random.default_rng(0))
    wanted = symmetric_gaussian(before.copy(), SCALE, unsafe_test_key=KEY)
    fortran = np.asfortranarray(before)
    np.testing.assert_array_equal(symmetric_gaussian(fortran, SCALE, unsafe_test_key=KEY), wanted)
    wide = np.full((d, d + 9), 7)
    wide[:, 3 : 3 + d] = before
    np.testing.assert_array_equal(symmetric_gaussian(wide[:, 3 : 3 + d], SCALE, unsafe_test_key=KEY), wanted)
    assert (wide[:, :3] == 7).all() and (wide[:, 3 + d :] == 7).all()
    for bad in (np.zeros((2 * d, 2 * d), dtype=np.int64)[::2, ::2], before[::-1, ::-1], before[::-1]):
        with pytest.raises(ValueError, match="contiguous rows or columns"):
            symmetric_gaussian(bad, SCALE)
    one = np.zeros((3, 3), dtype=np.int64)[1::2, 1::2]
    symmetric_gaussian(one, SCALE, unsafe_test_key=KEY)
    assert one[0, 0] == rounded_gaussian(SCALE, 1, unsafe_test_key=KEY)[0]


def test_fresh_keys():
    assert (symmetric_gaussian(20, SCALE) != symmetric_gaussian(20, SCALE)).any()


@pytest.mark.parametrize("scale", [1.0, 2.0**22, 2.0**23 - 1, 0.1, 3.7e10, 2.0**50, 5e-324, 1e-310])
def test_off_diagonal_scale_is_never_below_its_share(scale):
    half = noise.half_power_scale(scale)
    assert 2 * Fraction(half) ** 2 >= Fraction(scale) ** 2
    assert 2 * Fraction(math.nextafter(half, 0.0)) ** 2 < Fraction(scale) ** 2


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("d", [2, 8, 64, 65, 100, 200, 270])
def test_asymmetry_anywhere_is_refused(isa, d, no_key):
    rng = np.random.default_rng(d)
    good = random_symmetric(d, rng)
    places = [(0, d - 1), (d - 1, 0), (d // 2, 0), (d - 2, d - 1), (d - 1, d - 2)]
    places += [tuple(rng.choice(d, 2, replace=False)) for _ in range(10)]
    for i, j in places:
        bad = good.copy()
        bad[i, j] += 1
        before = bad.copy()
        for n_threads in (1, 2):
            with pytest.raises(ValueError, match="expected a symmetric matrix"):
                symmetric_gaussian(bad, SCALE, n_threads=n_threads, isa=isa)
        np.testing.assert_array_equal(bad, before)


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("d", [1, 7, 40, 270])
def test_range_anywhere_is_guarded(isa, d, no_key):
    """Whole vectors, rests of rows and columns, and blocks. The matrix has entries of both signs."""
    rng, limit = np.random.default_rng(d), 2**63 - 1 - 64 * 2**30 - 1
    good = random_symmetric(d, rng)
    places = [(0, 0), (0, d - 1), (d // 2, d - 1), (d - 1, d - 1)]
    places += [tuple(sorted(rng.integers(0, d, 2))) for _ in range(12)]
    for i, j in places:
        for value in (limit + 1, -limit - 1):
            bad = good.copy()
            bad[i, j] = bad[j, i] = value
            kept = bad.copy()
            with pytest.raises(ValueError, match="leave int64"):
                symmetric_gaussian(bad, 2.0**30, isa=isa)
            np.testing.assert_array_equal(bad, kept)
            bad[i, j] = bad[j, i] = value - np.sign(value)
            # Far enough from the limit to be let through: only the asymmetry is refused then.
            if d > 1:
                bad[0, 1] += 1 - 2 * (bad[0, 1] > 0)
                with pytest.raises(ValueError, match="expected a symmetric matrix"):
                    symmetric_gaussian(bad, 2.0**30, isa=isa)


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(matrix_or_size=0), ValueError, "size="),
        (dict(matrix_or_size=-3), ValueError, "size="),
        (dict(matrix_or_size=2.0), TypeError, "size="),
        (dict(matrix_or_size=2**24), ValueError, "size="),
        (dict(matrix_or_size=np.zeros((2, 3), dtype=np.int64)), ValueError, "shape"),
        (dict(matrix_or_size=np.zeros(4, dtype=np.int64)), ValueError, "shape"),
        (dict(matrix_or_size=np.zeros((0, 0), dtype=np.int64)), ValueError, "shape"),
        (dict(matrix_or_size=np.zeros((2, 2), dtype=np.float32)), TypeError, "dtype float32"),
        (dict(matrix_or_size=np.zeros((2, 2))), TypeError, "dtype float64"),
        (dict(matrix_or_size=np.zeros((2, 2), dtype=">i8")), TypeError, "dtype >i8"),
        (dict(form="gauss"), ValueError, "form='gauss'"),
        (dict(scale=0.0), ValueError, "scale=0.0"),
        (dict(scale=math.nan), ValueError, "scale=nan"),
        (dict(scale=2.0**51), ValueError, "scale="),
        (dict(scale="1"), TypeError, "scale="),
        (dict(unsafe_test_key=b"1"), ValueError, "unsafe_test_key"),
        (dict(n_threads=0), ValueError, "n_threads=0"),
    ],
)
def test_bad_input(arguments, error, match, no_key):
    with pytest.raises(error, match=match):
        symmetric_gaussian(**{"matrix_or_size": 4, "scale": 5.0, **arguments})


def test_read_only_matrix_is_refused(no_key):
    matrix = np.zeros((3, 3), dtype=np.int64)
    matrix.flags.writeable = False
    with pytest.raises(ValueError, match="writeable"):
        symmetric_gaussian(matrix, 1.0)
