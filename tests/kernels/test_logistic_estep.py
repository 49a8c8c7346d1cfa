"""The logistic regression E-step: purity, exactness, sensitivity, limits; test_reference.py has the twin."""

import math

import numpy as np
import pytest
from scipy import sparse

from vips_fast.kernels import native, unpack_upper
from vips_fast.kernels.logistic import Lattice, factor_spacing, triangle_size, workspace

ISAS = native.isas_available()


def problem(n, d, seed=0, density=0.5):
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    A = rng.normal(size=(d, d))
    return X, rng.integers(0, 2, n).astype(float), A @ A.T, rng.normal(size=d)


def forms(X):
    """Return the storages of one matrix."""
    return {"dense": X, "csr": sparse.csr_array(X), "float32": sparse.csr_array(X.astype(np.float32))}


SCALES = dict(scale_linear=0.8, scale_quadratic=0.3)
LATTICE = Lattice(
    row_norm=1.3, n_trials=1.0, clip_norm=0.9, spacing=2.0**-20, factor_spacing=factor_spacing(0.9), **SCALES
)


def sums_of(X, y, M, m0=None, *, trials=None, label_free=False, unit=False, isa=None, **lattice):
    """Compute the integer sums as the model does, on a fixed lattice. It does not depend on the number of rows."""
    n, d = X.shape
    columns, work = (None, np.empty(0, np.int32), np.reshape(X, -1)), workspace(d, not sparse.issparse(X), isa)
    if sparse.issparse(X):
        columns = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
    factors, sums = np.empty((2, n)), np.zeros(d + triangle_size(d), np.int64)
    state = y, trials, M, m0, *LATTICE._replace(**lattice), label_free
    native.logistic_weights(d, *columns, *state, work, *factors, None, None, unit, isa)
    native.logistic_accumulate(d, 0, d, *columns, *factors, work, sums[:d], sums[d:], unit, isa)
    return sums


def test_trials_of_each_record():
    """b trials of one record are b records of one trial each (Eq. 34), up to truncation."""
    X, _, M, _ = problem(30, 5)
    rng = np.random.default_rng(3)
    trials = rng.integers(0, 9, 30).astype(float)
    y = rng.binomial(trials.astype(int), 0.4).astype(float)
    rows = np.repeat(np.arange(30), trials.astype(int))
    ones = np.concatenate([np.r_[np.ones(int(s)), np.zeros(int(b - s))] for s, b in zip(y, trials, strict=True)])
    wide = dict(clip_norm=100.0, factor_spacing=factor_spacing(100.0))
    together, each = sums_of(X, y, M, trials=trials, n_trials=8.0, **wide), sums_of(X[rows], ones, M, **wide)
    # An integer a record, and a factor's step of at most 1.3 / factor_spacing an entry.
    np.testing.assert_allclose(together[:5], each[:5], atol=len(rows) + 30)
    np.testing.assert_allclose(together[5:], each[5:], atol=6 * len(rows) / wide["factor_spacing"])


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("storage", ["dense", "csr", "float32"])
def test_contribution_is_a_function_of_the_record(isa, storage):
    """A record has the same integers in any company. Place, block and thread count do not matter."""
    n, d = 300, 37
    X, y, M, m0 = problem(n, d, seed=5)
    X = forms(X)[storage]
    alone = np.array([sums_of(X[i : i + 1], y[i : i + 1], M, m0, isa=isa) for i in range(n)])
    whole = alone.sum(axis=0)
    order = np.random.default_rng(0).permutation(n)
    np.testing.assert_array_equal(sums_of(X, y, M, m0, isa=isa), whole)
    np.testing.assert_array_equal(sums_of(X[order], y[order], M, m0, isa=isa), whole)
    for cut in (1, 255, 256, 257):
        left = sums_of(X[:cut], y[:cut], M, m0, isa=isa)
        np.testing.assert_array_equal(left, alone[:cut].sum(axis=0))


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("d", [3, 8, 21])
def test_sums_of_the_largest_factors_are_exact(isa, d):
    """More rows than a group, all near the limits of the factors, whose sums are made in doubles."""
    rows = np.where(np.random.default_rng(d).random((600, d)) < 0.9, 1.0, -1.0) * (1 - 2.0**-30)
    linear, quadratic = np.full(600, 2.0**31 * (1 - 2.0**-30)), np.full(600, 2.0**21 * (1 - 2.0**-30))
    sums, packed = np.zeros(d, np.int64), np.zeros(d * (d + 1) // 2, np.int64)
    work, none = workspace(d, True, isa), np.zeros(0, np.int32)
    native.logistic_accumulate(d, 0, d, None, none, rows.reshape(-1), linear, quadratic, work, sums, packed, False, isa)
    a = np.trunc(quadratic[:, None] * rows).astype(np.int64)
    np.testing.assert_array_equal(packed, (a.T @ a)[np.triu_indices(d)])
    np.testing.assert_array_equal(sums, np.trunc(linear[:, None] * rows).astype(np.int64).sum(axis=0))


def test_instruction_sets_share_the_integer_path():
    """With M = 0 nothing before the lattice depends on the order of additions."""
    X = np.round(problem(200, 20, seed=7)[0] * 16) / 64
    y = np.arange(200) % 2.0
    results = [sums_of(form, y, None, isa=isa) for isa in ISAS for form in (X, sparse.csr_array(X))]
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


def test_unit_entries_take_the_same_bits():
    """The path for matrices of ones is chosen from the data. It may not change a record's contribution."""
    X, y, M, m0 = problem(200, 30, seed=8)
    ones = sparse.csr_array((X != 0).astype(float))
    for isa in ISAS:
        fast, slow = (sums_of(ones, y, M, m0, unit=unit, isa=isa) for unit in (True, False))
        np.testing.assert_array_equal(fast, slow)


def squared_norm(sums, d, spacing, grid):
    """Compute the squared joint norm of one record's integers exactly. A power of two times an integer."""
    linear, packed = sums[:d].astype(object), sums[d:].astype(object)
    weight = np.where(np.equal(*np.triu_indices(d)), 1, 2)
    ratio = int(round(math.log2(spacing / grid**2)))
    assert ratio >= 0
    return int((linear * linear).sum()) * 4**ratio + int((weight * packed * packed).sum())


@pytest.mark.parametrize("isa", ISAS)
def test_joint_norm_holds_for_huge_logits(isa):
    """There 1 - tanh(c/2) is rounding alone, and was above the <xi> that the bound is made for."""
    spacing, grid, one = 2.0**-12, LATTICE.factor_spacing, np.ones(1)
    bound = int(LATTICE.clip_norm / spacing) ** 2 * 4 ** int(round(math.log2(spacing / grid**2)))
    lattice = dict(row_norm=1e60, scale_linear=1e5, scale_quadratic=1.0, spacing=spacing)
    for power in range(40, 190, 5):
        x = np.full((1, 4), np.ldexp(float.fromhex("0x1.2f04f4024d55cp0"), power))  # c <xi> is below 1/2
        assert squared_norm(sums_of(x, one, None, np.eye(4)[0], isa=isa, **lattice), 4, spacing, grid) <= bound


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("seed", range(3))
def test_joint_norm_holds_in_integers(isa, storage, seed):
    """Every record's integers are inside the bound. The worst case all but reaches it."""
    d, spacing, clip = 9, 2.0**-12, 0.75
    grid = factor_spacing(clip)
    X, y, M, m0 = problem(60, d, seed=seed)
    X[:20] *= 10.0 ** np.random.default_rng(seed).uniform(-8, 8, 20)[:, None]
    X[20] = 0
    rows, lattice = forms(X)[storage], dict(spacing=spacing, clip_norm=clip, factor_spacing=grid)
    bound = int(clip / spacing) ** 2 * 4 ** int(round(math.log2(spacing / grid**2)))
    largest = 0
    for i in range(60):
        sums = sums_of(rows[i : i + 1], y[i : i + 1], M / 50, m0 / 10, isa=isa, **lattice)
        square = squared_norm(sums, d, spacing, grid)
        assert square <= bound
        largest = max(largest, square)
    # Two units of the spacing are held back (2^-10.6 of the bound) and each of 9 entries loses at most one.
    assert largest >= bound * (1 - 2.0**-7)


def test_label_free_weights_do_not_depend_on_the_label():
    """Either label gives the quadratic statistic the same weight. The linear one changes by that weight times x."""
    X, y, M, m0 = problem(30, 6, seed=14)
    lattice = dict(spacing=2.0**-26, factor_spacing=2.0**-20, label_free=True, row_norm=3.0)
    for i in range(30):
        a, b = (sums_of(X[i : i + 1], np.array([label]), M, m0, **lattice) for label in (0.0, 1.0))
        np.testing.assert_array_equal(a[6:], b[6:])
        bound = lattice | {"label_free": False}
        own = [sums_of(X[i : i + 1], np.array([label]), M, m0, **bound) for label in (0.0, 1.0)]
        # Never longer than with the record's own label.
        assert np.abs(a[:6]).max() <= np.abs(own[0][:6]).max() and np.abs(b[:6]).max() <= np.abs(own[1][:6]).max()


def test_worst_case_neighbors():
    """The worst record moves the sum by the stated sensitivity. It moves the sum no further."""
    d, row_norm, spacing = 5, 2.0, 2.0**-24
    c1, c2 = 0.9, 0.7
    sensitivity = math.hypot(row_norm / (2 * c1), row_norm**2 / (4 * c2))
    X, y, _, _ = problem(50, d, seed=9)
    worst = np.zeros((1, d))
    worst[0, 2] = row_norm  # an exact lattice vector: nothing is lost to truncation
    grid = factor_spacing(sensitivity)
    kwargs = dict(row_norm=row_norm, scale_linear=c1, scale_quadratic=c2, clip_norm=sensitivity)
    kwargs |= dict(spacing=spacing, factor_spacing=grid)
    before = sums_of(X, y, None, **kwargs)
    after = sums_of(np.vstack([X, worst]), np.append(y, 1), None, **kwargs)
    step = math.sqrt(squared_norm(after - before, d, spacing, grid)) * grid**2
    assert step <= sensitivity
    assert step >= sensitivity * (1 - 1e-5)  # factors are truncated to 2^-20 of the bound


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dense", [False, True])
def test_non_finite_records_contribute_nothing(isa, dense):
    """Inside the wall nothing raises. A record that is not finite is the zero vector, and spoils no other."""
    n, d = 7, 6
    X, y, M, m0 = problem(n, d, seed=10, density=1.0)
    clean = sums_of(X[[0, 6]], y[[0, 6]], M, m0, isa=isa)
    X[1, 0], X[2, 3], X[3] = np.nan, np.inf, 1e200
    y[4] = np.nan
    y[5] = np.inf
    if not dense:
        X = sparse.csr_array((X.reshape(-1), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d))
    np.testing.assert_array_equal(sums_of(X, y, M, m0, isa=isa), clean)


def test_unpack_upper():
    for d in (1, 2, 5, 255, 256, 257, 600):
        packed = np.random.default_rng(d).normal(size=triangle_size(d))
        matrix = unpack_upper(packed, d, off_diagonal=2.0)
        np.testing.assert_array_equal(matrix, matrix.T)
        expected = packed * np.where(np.equal(*np.triu_indices(d)), 1.0, 2.0)
        np.testing.assert_array_equal(matrix[np.triu_indices(d)], expected)


def test_empty_and_large_sizes():
    assert not sums_of(np.empty((0, 3)), np.empty(0), None).any()
    X = sparse.random_array((50, 2000), density=0.01, rng=np.random.default_rng(13), format="csr")
    got, dense = (sums_of(rows, np.arange(50) % 2.0, np.eye(2000)) for rows in (X, X.toarray()))
    np.testing.assert_allclose(got, dense, atol=1e-12 * np.linalg.norm(dense.astype(float)))
    sizes = np.diff(X.indptr).astype(int)
    assert np.count_nonzero(got[2000:]) <= (sizes + 1) @ sizes


def test_factor_spacing():
    for clip in (0.3, 0.5, 1.0, 7.7):
        h = factor_spacing(clip)
        # Not more than two bits short of the finest.
        assert math.frexp(h)[0] == 0.5 and 2**39 <= clip / h**2 <= 2**41
