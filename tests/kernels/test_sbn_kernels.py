"""Sigmoid belief network kernels: against the reference, exactness, purity, errors."""

import numpy as np
import pytest
from inputs import clipping, network
from sums import sbn_clip, sbn_visible_norms

from vips_fast.kernels import native, sbn_pg, sbn_quadratic

ISAS = native.isas_available()
#: Around the lane edges of every instruction set and the kernels' own block sizes.
EDGES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65]
DTYPES = ("float32", "float64")


def quadratic_arguments(p):
    gram = 0.25 * p["w"].T @ p["w"]
    return p["y"], p["w"], gram, p["b"] - 0.5 * np.diag(gram), p["start"]


def test_pg_update_is_a_fixed_point_of_the_papers_equation():
    # Eq. 70 written out, psi afresh for each k, at the z that many sweeps reach.
    rng = np.random.default_rng(0)
    p = network(rng, 4, 30, 7)
    z, xi = sbn_pg(**p, n_sweeps=400, dtype="float64")
    for n in range(4):
        for k in range(7):
            psi_without = p["w"] @ z[n] - p["w"][:, k] * z[n, k] + p["c"]
            xi_part = xi[n] * (2 * psi_without * p["w"][:, k] + p["w2"][:, k])
            d = p["b"][k] + p["w"][:, k] @ p["y"][n] - 0.5 * (p["w"][:, k] + xi_part).sum()
            # The tolerance suits 400 contracting sweeps at double precision.
            assert z[n, k] == pytest.approx(1 / (1 + np.exp(-d)), abs=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_parameters_stay_finite(dtype):
    p = network(np.random.default_rng(2), 9, 20, 5)
    for name, value in [("c", 1e4), ("b", -1e4), ("w", 0.0), ("c_var", 1e8)]:
        q = dict(p, **{name: np.full_like(p[name], value)})
        q["w2"] = np.maximum(q["w2"], q["w"] ** 2)
        z, xi = sbn_pg(**q, n_sweeps=3, dtype=dtype)
        assert np.isfinite(z).all() and z.min() >= 0 and z.max() <= 1
        assert xi.min() > 0 and xi.max() <= 0.25


@pytest.mark.parametrize("isa", ISAS)
def test_a_record_alone_has_the_same_bits_as_in_any_batch(isa):
    rng = np.random.default_rng(3)
    p = network(rng, 75, 61, 19)
    gram = quadratic_arguments(p)[2]
    linear = p["b"] - 0.5 * np.diag(gram)

    def pg(y, dtype):
        return sbn_pg(**dict(p, y=y), n_sweeps=3, dtype=dtype, isa=isa)

    def quadratic(y):
        return sbn_quadratic(y, p["w"], gram, linear, p["start"], isa=isa)

    whole, order = {d: pg(p["y"], d) for d in DTYPES}, rng.permutation(75)
    z = quadratic(p["y"])
    for n in range(0, 75, 5):
        assert np.array_equal(quadratic(p["y"][n : n + 1])[0], z[n])
        for dtype, result in whole.items():
            alone = pg(p["y"][n : n + 1], dtype)
            assert np.array_equal(alone.z[0], result.z[n]) and np.array_equal(alone.xi[0], result.xi[n])
    assert np.array_equal(quadratic(p["y"][order]), z[order])
    for dtype, result in whole.items():
        assert np.array_equal(pg(p["y"][order], dtype).z, result.z[order])
        # Another minibatch in between leaves nothing behind.
        pg(1 - p["y"], dtype)
        assert np.array_equal(pg(p["y"], dtype).xi, result.xi)


@pytest.mark.parametrize("isa", ISAS)
def test_clip_bounds_the_norm_in_integers(isa):
    rng = np.random.default_rng(5)
    for m in EDGES:
        for (x, center, factor), settings in clipping(rng, m):
            units, _ = sbn_clip(x, center, factor, **settings, isa=isa)
            clip, spacing = settings["clip_norm"], settings["spacing"]
            # Truncation toward zero: no entry grows.
            assert (np.abs(units) * spacing <= np.abs((x - center) * factor[:, None]) * (1 + 1e-15)).all()
            if clip is None:
                continue
            for row, f in zip(units, factor, strict=True):
                assert sum(int(q) ** 2 for q in row) <= int(np.floor(clip * f / spacing)) ** 2


def test_clip_uses_the_norm_it_may():
    units, _ = sbn_clip([[30.0, 40.0]], clip_norm=5.0, spacing=2.0**-20)
    np.testing.assert_allclose(units[0] * 2.0**-20, [3.0, 4.0], atol=2.0**-19)


def test_rows_that_are_not_finite_count_as_nothing():
    x = np.ones((4, 3))
    x[1, 2], x[2, 0] = np.nan, np.inf
    units, norms = sbn_clip(x, clip_norm=1.0, spacing=2.0**-10)
    assert not units[[1, 2]].any() and not norms[[1, 2]].any()
    assert units[[0, 3]].all()


@pytest.mark.parametrize("isa", ISAS)
def test_visible_norms_are_upper_bounds(isa):
    rng = np.random.default_rng(6)
    for m in EDGES:
        y, center = (rng.random((20, m)) < 0.4).astype(np.uint8), rng.random(m)
        norms = sbn_visible_norms(y, center, isa=isa)
        true = [np.sqrt(sum((int(a) - b) ** 2 for a, b in zip(row, center, strict=True))) for row in y]
        assert (norms >= true).all()


def test_no_records():
    p = network(np.random.default_rng(7), 1, 6, 3)
    empty = dict(p, y=np.zeros((0, 6), dtype=np.uint8))
    assert sbn_pg(**empty).z.shape == (0, 3)
    assert sbn_quadratic(*quadratic_arguments(empty)).shape == (0, 3)


P = network(np.random.default_rng(8), 5, 6, 3)
#: Bad values of each argument, which the message names.
BAD = {
    "y": (P["y"] * 2, P["y"] + np.nan, P["y"][:, :5], P["y"][0]),
    "w": (P["w"] * np.nan,),
    "w2": (-np.ones_like(P["w2"]),),
    "c": (P["c"][:5],),
    "c_var": (-P["c_var"] - 1,),
    "b": (P["b"] + np.inf,),
    "start": (P["start"] + 1,),
    "n_sweeps": (-1, 2.5),
    "dtype": ("float16",),
    "isa": ("pentium",),
    "n_threads": (0,),
}


def test_bad_arguments_are_named():
    for name, value in [(name, value) for name, values in BAD.items() for value in values]:
        with pytest.raises(ValueError, match=name):
            sbn_pg(**{**P, name: value})
    with pytest.raises(TypeError, match="y has dtype"):
        sbn_pg(**{**P, "y": P["y"].astype("U1")})
    y, w, gram, *rest = quadratic_arguments(P)
    with pytest.raises(ValueError, match="gram"):
        sbn_quadratic(y, w, gram[:2], *rest)
