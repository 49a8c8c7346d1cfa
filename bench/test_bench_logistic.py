"""Time W5: Polya-Gamma means, and the logistic regression's E-step.

There are 10^7 doubles, and Adult's one-hot rows.

With Adult (VIPS_FAST_DATA) the rows are its 40,000 first, of 13 entries in 109 columns
with the constant. Without it, one-hot rows simulated in the same shape.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from common import DATA
from sklearn.linear_model import LogisticRegression

from vips_fast import BayesianLogisticRegression
from vips_fast.engine.backend import Threads
from vips_fast.kernels import logistic_estep, pg_mean, reference
from vips_fast.kernels.logistic import Lattice, accumulate, check_rows, factor_spacing
from vips_fast.kernels.threads import run_blocks

N = 10_000_000


def stable_numpy(c):
    """Return the mean without loss of digits, in whole-array numpy."""
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.tanh(c / 2) / (2 * c)
    return np.where(c < 1e-4, 0.25 - c * c / 48, mean)


def test_w5_pg_mean(paired):
    c = np.abs(np.random.default_rng(0).normal(size=N)) * 3
    out = np.empty_like(c)
    paired(
        lambda: pg_mean(c, out=out),
        {"stable numpy": lambda: stable_numpy(c), "np.copyto": lambda: np.copyto(out, c)},
        "W5 Polya-Gamma mean of 10^7 doubles, one thread",
    )
    few = c[:100_000]
    np.testing.assert_allclose(pg_mean(few), reference.pg_mean(few), rtol=1e-14)


def test_w5_pg_mean_on_two_threads(paired):
    c = np.abs(np.random.default_rng(0).normal(size=N)) * 3
    out, halves = np.empty_like(c), [slice(0, N // 2), slice(N // 2, N)]

    def copying():
        run_blocks(2, 2, lambda half, worker: np.copyto(out[halves[half]], c[halves[half]]))

    peers = {"on one": lambda: pg_mean(c, out=out), "np.copyto": lambda: np.copyto(out, c), "np.copyto on two": copying}
    paired(lambda: pg_mean(c, out=out, n_threads=2), peers, "W5 Polya-Gamma mean of 10^7 doubles, two threads")


@pytest.fixture(scope="module")
def adult():
    """Load Adult's one-hot rows, labels and second moment.

    The result is (one-hot rows with the constant, the same with every entry 1, y, <m m^T>).
    """
    rng = np.random.default_rng(0)
    if DATA.is_dir():
        from peers.uci import read_adult

        table = read_adult(DATA / "adult" / "adult.data.gz", DATA / "adult" / "adult.test.gz")
        X, y = table.X[:40_000], table.y[:40_000].astype(float)
        X = sp.csr_array(sp.hstack([X, np.ones((X.shape[0], 1))]))
    else:
        sizes = np.array([9, 16, 7, 15, 6, 5, 2, 42, 1, 1, 1, 1, 1, 1])
        start = np.concatenate([[0], np.cumsum(sizes)])
        drawn = [np.minimum(rng.exponential(k / 4, 40_000).astype(int), k - 1) for k in sizes]
        columns = np.stack(drawn, axis=1) + start[: len(sizes)]
        values = np.where(sizes > 1, 1.0, rng.random((40_000, len(sizes))))
        X = sp.csr_array((values.ravel(), columns.ravel().astype(np.int32), np.arange(0, values.size + 1, len(sizes))))
        y = (rng.random(40_000) < 0.24).astype(float)
    A = rng.normal(size=(X.shape[1], X.shape[1])) / 10
    ones = X.copy()
    ones.data = np.ones_like(ones.data)
    return X, ones, y, A @ A.T


def scipy_estep(X, y, M):
    """Compute <xi> and both statistics with CSR products.

    This is c, <xi> and the statistics as one would write it.
    """
    c = np.sqrt(X.multiply(X @ M).sum(axis=1))
    xi = stable_numpy(np.asarray(c).reshape(-1))
    return X.T @ (y - 0.5), X.T @ sp.csr_array(X.multiply(xi[:, None]))


def numpy_estep(X, y, M):
    """Compute the same with dense products."""
    xi = stable_numpy(np.sqrt(np.maximum(np.einsum("ij,ij->i", X @ M, X), 0)))
    return X.T @ (y - 0.5), X.T @ (X * xi[:, None])


LATTICE = dict(
    center=None, lattice=Lattice(3.3, 1.0, 1.65, 2.7, 1.0, 2.0**-20, factor_spacing(1.0, 2**17)), label_free=True
)


def test_w5_estep_adult(adult, paired):
    X, ones, y, M = adult
    rows, unit = check_rows(X, y), check_rows(ones, y)
    dense = X.toarray()
    paired(
        lambda: accumulate(rows, M, **LATTICE),
        {
            "scipy CSR": lambda: scipy_estep(X, y, M),
            "numpy dense": lambda: numpy_estep(dense, y, M),
            "ours, all entries 1": lambda: accumulate(unit, M, **LATTICE),
        },
        f"W5 E-step, Adult one-hot, {X.shape[0]} x {X.shape[1]}, {X.nnz / X.shape[0]:.1f} entries a row, clipped, "
        "one thread",
        rounds=9,
    )


def test_w5_engine_adult(adult, paired):
    """The engine's own time beside the kernels.

    It has blocks of the records, and a sum that any backend could make.
    """
    X, _, y, M = adult
    estimator = BayesianLogisticRegression(row_norm=3.3, fit_intercept=False, noise_multiplier=30.0)
    fit = estimator.prepare(X, y)
    records, model = fit.records, fit.model
    d = X.shape[1]
    model.restore(model.state() | {"progress": np.array([1.0, 1.0, 1.0]), "covariance": M})
    all_rows, words, rows = np.arange(len(y)), np.zeros(len(y), np.uint64), check_rows(X, y)
    options = dict(center=np.zeros(d), lattice=model.lattice, label_free=True)
    paired(
        lambda: Threads(1).sum(model, records, all_rows, words),
        {"driver of the kernels": lambda: accumulate(rows, model.moment, **options)},
        f"W5 E-step by the engine, Adult one-hot, {len(y)} x {d}, one thread",
        rounds=9,
    )
    sums = Threads(1).sum(model, records, all_rows, words)
    np.testing.assert_array_equal(sums, accumulate(rows, model.moment, **options))


@pytest.mark.parametrize("n, d", [(1000, 20), (5000, 300), (200_000, 50)])
def test_whole_fits(paired, n, d):
    """From an array to effects, at epsilon 1 and without privacy, beside the maximum of the likelihood."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) * np.linspace(0.3, 3.0, d)
    y = rng.random(n) < 1 / (1 + np.exp(-X @ rng.normal(size=d) / d**0.5))
    settings = dict(row_norm=3.0 * d**0.5, delta=1e-6, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # effects that the noise hides
        paired(
            lambda: BayesianLogisticRegression(epsilon=1.0, **settings).fit(X, y),
            {
                "scikit-learn": lambda: LogisticRegression(max_iter=1000).fit(X, y),
                "ours, not private": lambda: BayesianLogisticRegression(private=False, **settings).fit(X, y),
            },
            f"regression of {n} x {d}, whole fit, one thread",
        )


def test_w5_two_threads(adult, paired):
    X, _, y, M = adult
    # Eight times Adult: once takes 3 ms, in which two threads have hardly begun.
    rows = check_rows(sp.csr_array(sp.vstack([X] * 8)), np.tile(y, 8))
    paired(
        lambda: accumulate(rows, M, n_threads=2, **LATTICE),
        {"ours on one thread": lambda: accumulate(rows, M, **LATTICE)},
        f"W5 E-step, Adult one-hot eight times, {8 * X.shape[0]} x {X.shape[1]}, clipped, two threads",
        rounds=9,
    )


def test_w5_estep_dense(adult, paired):
    X, _, y, M = adult
    dense = np.random.default_rng(1).normal(size=(20_000, 120)) / 12
    M = np.eye(120) + 0.01
    rows = check_rows(dense, y[:20_000])
    paired(
        lambda: accumulate(rows, M, **LATTICE),
        {"numpy dense": lambda: numpy_estep(dense, y[:20_000], M)},
        "W5 E-step, dense rows, 20000 x 120, clipped, one thread",
    )


def test_w5_estep_wide(paired):
    """The Stroke data's size: 10,000 rows of 28 of 4,146 codes."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(5, 4151)
    X = sp.csr_array((rng.random((10_000, 4146)) < 28 * weight / weight.sum()).astype(float))
    y = (rng.random(10_000) < 0.14).astype(float)
    rows = check_rows(X, y)
    M = np.eye(4146)
    paired(
        lambda: accumulate(rows, M, **LATTICE),
        {"scipy CSR": lambda: scipy_estep(X, y, sp.csr_array(M))},
        f"W5 E-step, 10000 x 4146, {X.nnz / 10_000:.0f} ones a row (peer with a sparse <m m^T>)",
        rounds=3,
    )


def test_w5_accuracy(adult):
    """The speed counts only at this accuracy.

    It is within 10^-12 of float64 numpy on the same lattice.
    """
    X, _, y, M = adult
    few = X[:400]
    options = dict(row_norm=3.3, scales=(1.65, 2.7), clip_norm=1.0, label_free=True)
    got = logistic_estep(few, y[:400], M, **options)
    want = reference.logistic_estep(few, y[:400], M, **options)
    for a, b in zip(got, want, strict=True):
        assert np.linalg.norm(a - b) <= 1e-12 * np.linalg.norm(b)
