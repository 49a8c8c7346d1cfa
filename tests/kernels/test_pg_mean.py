"""The Polya-Gamma mean against 40-digit arithmetic, on every instruction set."""

from itertools import product

import mpmath
import numpy as np
import pytest

from vips_fast.kernels import native, pg_mean

ISAS = native.isas_available()
DTYPES = [np.float64, np.float32]


def exact(c):
    with mpmath.workdps(40):
        c = abs(mpmath.mpf(float(c)))
        return mpmath.mpf(1) / 4 if c == 0 else mpmath.tanh(c / 2) / (2 * c)


def ulps(values, truth, dtype):
    unit = np.spacing(np.array([float(t) for t in truth], dtype=dtype)).astype(np.float64)
    return np.array([float(abs(mpmath.mpf(float(v)) - t)) for v, t in zip(values, truth, strict=True)]) / unit


def sample(dtype, rng):
    info = np.finfo(dtype)
    low, high = (-1074, 1023) if dtype is np.float64 else (-149, 127)
    edges = np.array([1.25, 20.0, 40.0, 1e-8, 0.5 * np.log(2), 5 * np.log(2)], dtype=dtype)
    drawn = [rng.uniform(*ends) for ends in ((0, 1.25, 500), (1.25, 3, 1000), (3, 45, 500))]
    drawn += [2.0 ** rng.uniform(low, high, 500)]
    extreme = [0.0, info.max, info.tiny, info.smallest_subnormal, 7 * info.smallest_subnormal]
    beside = edges, np.nextafter(edges, 0), np.nextafter(edges, np.inf).astype(dtype)
    return np.concatenate([*drawn, extreme, *beside]).astype(dtype)


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(20240611)
    result = {}
    for dtype in DTYPES:
        c = sample(dtype, rng)
        result[dtype] = c, [exact(x) for x in c]
    return result


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_ulp_everywhere(cases, isa, dtype):
    c, truth = cases[dtype]
    # The bound derived at the head of pg_mean.c; the largest error seen is 1.83.
    assert ulps(pg_mean(c, isa=isa), truth, dtype).max() <= 2.0
    assert ulps(pg_mean(-c, isa=isa), truth, dtype).max() <= 2.0


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(isa, dtype):
    c = np.array([np.inf, -np.inf, 0.0, -0.0, np.nan], dtype=dtype)
    out = pg_mean(c, isa=isa)
    assert out.dtype == dtype
    assert out[:4].tolist() == [0.0, 0.0, 0.25, 0.25]
    assert np.isnan(out[4])
    assert 0 < pg_mean(np.finfo(dtype).max, isa=isa) < np.finfo(dtype).tiny


@pytest.mark.parametrize("isa", ISAS)
def test_every_float32_near_the_switch(isa):
    """All floats in two binades around 5/4 against float64. No seam between the formulas hides."""
    c = np.arange(np.float32(0.9).view(np.uint32), np.float32(1.7).view(np.uint32), 5, dtype=np.uint32).view(np.float32)
    truth = np.tanh(c.astype(np.float64) / 2) / (2 * c.astype(np.float64))  # 1e-15 here, 1e8 finer than float32
    got = pg_mean(c, isa=isa)
    assert (np.abs(got - truth) <= 2 * np.spacing(truth.astype(np.float32))).all()
    # Decreasing within each formula's error: no jump at the seam beyond two units on either side.
    assert (np.diff(got) <= 4 * np.spacing(got[:-1])).all()


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_lane_edges_and_place_in_the_array(isa, dtype):
    c = (np.random.default_rng(0).normal(size=70) * 4).astype(dtype)
    alone = np.array([pg_mean(c[i : i + 1], isa=isa)[0] for i in range(len(c))], dtype=dtype)
    for n, start in product((0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65), range(3)):
        guarded = np.full(n + 2, -7.0, dtype=dtype)
        pg_mean(c[start : start + n], out=guarded[1 : n + 1], isa=isa)
        assert guarded[[0, -1]].tolist() == [-7.0, -7.0]
        np.testing.assert_array_equal(guarded[1 : n + 1], alone[start : start + n])


def test_shapes_types_and_in_place():
    grid = np.linspace(0, 9, 12).reshape(3, 4)
    whole = pg_mean(grid)
    assert whole.shape == (3, 4) and whole.dtype == np.float64
    assert pg_mean(grid.T).tolist() == whole.T.tolist()
    assert pg_mean(np.arange(3)).dtype == np.float64
    assert isinstance(pg_mean(1.0), float)
    work = grid.copy()
    assert pg_mean(work, out=work) is work
    np.testing.assert_array_equal(work, whole)
    shifted = np.arange(10.0)
    expected = pg_mean(shifted[1:].copy())
    np.testing.assert_array_equal(pg_mean(shifted[1:], out=shifted[:-1]), expected)


@pytest.mark.parametrize(
    ("kwargs", "error", "text"),
    [
        ({"c": ["a"]}, TypeError, "c has dtype"),
        ({"c": [1j]}, TypeError, "c has dtype"),
        ({"c": [1.0], "b": 0}, ValueError, "b=0"),
        ({"c": [1.0], "b": float("inf")}, ValueError, "b=inf"),
        ({"c": [1.0], "out": np.empty(2)}, ValueError, "expected an array of float64"),
        ({"c": [1.0], "out": [0.0]}, ValueError, "out is list"),
        ({"c": np.ones(2), "out": np.empty(4)[::2]}, ValueError, "C-contiguous"),
        ({"c": [1.0], "n_threads": 0}, ValueError, "n_threads=0"),
        ({"c": [1.0], "isa": "mmx"}, ValueError, "isa='mmx'"),
    ],
)
def test_bad_arguments(kwargs, error, text):
    with pytest.raises(error, match=text.replace("(", r"\(")):
        pg_mean(**kwargs)
