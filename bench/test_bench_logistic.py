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
from vips_fast.kernels import pg_mean, reference
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
    """Compute <xi> and both statistics with CSR products. This is c, <xi> and the statistics as one would write it."""
    c = np.sqrt(X.multiply(X @ M).sum(axis=1))
    xi = stable_numpy(np.asarray(c).reshape(-1))
    return X.T @ (y - 0.5), X.T @ sp.csr_array(X.multiply(xi[:, None]))


def numpy_estep(X, y, M):
    """Compute the same with dense products."""
    xi = stable_numpy(np.sqrt(np.maximum(np.einsum("ij,ij->i", X @ M, X), 0)))
    return X.T @ (y - 0.5), X.T @ (X * xi[:, None])


def our_estep(X, y, M):
    """Return a function of a number of threads: the model's sums of all records, clipped, for the second moment M."""
    fit = BayesianLogisticRegression(row_norm=3.3, fit_intercept=False, noise_multiplier=30.0).prepare(X, y)
    fit.model.restore(fit.model.state() | {"progress": np.ones(3), "covariance": M})
    rows, words = np.arange(len(y)), np.zeros(len(y), np.uint64)
    return lambda n_threads=1: Threads(n_threads).sum(fit.model, fit.records, rows, words)


def test_w5_estep_adult(adult, paired):
    X, ones, y, M = adult
    dense = X.toarray()
    paired(
        our_estep(X, y, M),
        {
            "scipy CSR": lambda: scipy_estep(X, y, M),
            "numpy dense": lambda: numpy_estep(dense, y, M),
            "ours, all entries 1": our_estep(ones, y, M),
        },
        f"W5 E-step, Adult one-hot, {X.shape[0]} x {X.shape[1]}, {X.nnz / X.shape[0]:.1f} entries a row, clipped, "
        "one thread",
        rounds=9,
    )


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
    ours = our_estep(sp.csr_array(sp.vstack([X] * 8)), np.tile(y, 8), M)
    paired(
        lambda: ours(2),
        {"ours on one thread": ours},
        f"W5 E-step, Adult one-hot eight times, {8 * X.shape[0]} x {X.shape[1]}, clipped, two threads",
        rounds=9,
    )


def test_w5_estep_dense(adult, paired):
    X, _, y, M = adult
    dense = np.random.default_rng(1).normal(size=(20_000, 120)) / 12
    M = np.eye(120) + 0.01
    paired(
        our_estep(dense, y[:20_000], M),
        {"numpy dense": lambda: numpy_estep(dense, y[:20_000], M)},
        "W5 E-step, dense rows, 20000 x 120, clipped, one thread",
    )


def test_w5_estep_wide(paired):
    """The Stroke data's size: 10,000 rows of 28 of 4,146 codes."""
    rng = np.random.default_rng(0)
    weight = 1 / np.arange(5, 4151)
    X = sp.csr_array((rng.random((10_000, 4146)) < 28 * weight / weight.sum()).astype(float))
    y = (rng.random(10_000) < 0.14).astype(float)
    M = np.eye(4146)
    paired(
        our_estep(X, y, M),
        {"scipy CSR": lambda: scipy_estep(X, y, sp.csr_array(M))},
        f"W5 E-step, 10000 x 4146, {X.nnz / 10_000:.0f} ones a row (peer with a sparse <m m^T>)",
        rounds=3,
    )
