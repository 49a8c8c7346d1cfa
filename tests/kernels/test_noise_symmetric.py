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
        assert symmetric_gaussian(matrix, scale, form=form, unsafe_test_key=KEY, isa=isa) is None
        np.testing.assert_array_equal(matrix, wanted)


@pytest.mark.parametrize("scale", [1.0, 2.0**22, 2.0**23 - 1, 0.1, 3.7e10, 2.0**50, 5e-324, 1e-310])
def test_off_diagonal_scale_is_never_below_its_share(scale):
    half = noise.half_power_scale(scale)
    assert 2 * Fraction(half) ** 2 >= Fraction(scale) ** 2
    assert 2 * Fraction(math.nextafter(half, 0.0)) ** 2 < Fraction(scale) ** 2


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("d", [2, 65, 600])
def test_matrices_that_cannot_take_the_noise_are_left_as_they_are(d, n_threads, no_key):
    """One odd entry, and entries that noise could lead out of int64; `symmetric_check` is held to its twin."""
    good, limit = random_symmetric(d, np.random.default_rng(d)), 2**63 - 1 - 64 * 2**30 - 1
    for i, j in [(0, d - 1), (d - 1, 0), (d // 2, 0), (d - 2, d - 1)]:
        odd, large = good.copy(), good.copy()
        odd[i, j] += 1
        large[i, j] = large[j, i] = limit + 1
        for bad, said in ((odd, "expected a symmetric matrix"), (large, "leave int64"), (-large, "leave int64")):
            before = bad.copy()
            with pytest.raises(ValueError, match=said):
                symmetric_gaussian(bad, 2.0**30, n_threads=n_threads)
            np.testing.assert_array_equal(bad, before)
        # An entry on the limit is let through: only the asymmetry is refused then.
        odd[d // 2, d // 2] = limit
        with pytest.raises(ValueError, match="expected a symmetric matrix"):
            symmetric_gaussian(odd, 2.0**30, n_threads=n_threads)


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(matrix=4), TypeError, "got int"),
        (dict(matrix=np.zeros((2, 3), dtype=np.int64)), ValueError, "shape"),
        (dict(matrix=np.zeros(4, dtype=np.int64)), ValueError, "shape"),
        (dict(matrix=np.zeros((4, 4), dtype=np.int64)[::2, ::2]), ValueError, "C-contiguous"),
        (dict(matrix=np.zeros((2, 2), dtype=np.float32)), TypeError, "dtype float32"),
        (dict(form="gauss"), ValueError, "form='gauss'"),
        (dict(scale=0.0), ValueError, "scale=0.0"),
        (dict(unsafe_test_key=b"1"), ValueError, "unsafe_test_key"),
        (dict(n_threads=0), ValueError, "n_threads=0"),
    ],
)
def test_bad_input(arguments, error, match, no_key):
    """Before a key is drawn; `test_noise.py` has more of each kind."""
    with pytest.raises(error, match=match):
        symmetric_gaussian(**{"matrix": np.zeros((2, 2), dtype=np.int64), "scale": 5.0, **arguments})
