"""Time W6: the sigmoid belief network's kernels, one thread.

J = 784, K = 100, S = 3,200.

With MNIST (VIPS_FAST_DATA) the records are images binarized above 0, and the parameters are a short fit's. Without it,
the records come from a random network.
"""

import numpy as np
import pytest
from common import DATA
from scipy.special import expit

from vips_fast import SigmoidBeliefNetwork
from vips_fast.kernels import reference, sbn_pg, sbn_quadratic

J, K, S = 784, 100, 3200


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """One BLAS thread, whatever the environment says."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


@pytest.fixture(scope="module")
def images():
    """All training images, or 60,000 records drawn from a random network."""
    if (DATA / "mnist").is_dir():
        from peers.mnist import load_mnist

        return load_mnist(DATA / "mnist")[0]
    rng = np.random.default_rng(0)
    z = rng.random((60_000, K)) < 0.3
    return (rng.random((60_000, J)) < expit(z @ rng.normal(0, 1, (K, J)) - 2)).astype(np.uint8)


@pytest.fixture(scope="module")
def work(images):
    """Records, and parameters that a few steps have shaped."""
    estimator = SigmoidBeliefNetwork(K, private=False, n_steps=4, random_state=0)
    arrays = estimator.fit(images[:8000])._fitted().arrays
    w, b = np.ascontiguousarray(arrays["components"].T), arrays["hidden_bias"]
    return dict(
        y=images[:S],
        w=w,
        w2=w * w + arrays["weight_variances"].T,
        c=arrays["visible_bias"],
        c_var=np.zeros(J),
        b=b,
        start=expit(b),
    )


def numba_pg():
    """Compile the residual form in Numba. It takes one record after the other, everything in one function."""
    import numba

    @numba.njit(fastmath=True)
    def update(y, wt, w2t, c, c_var, b, start, z, xi):
        n_records, n_visible = y.shape
        n_hidden = len(b)
        residual, own = np.empty(n_visible, np.float32), np.empty(n_visible, np.float32)
        for n in range(n_records):
            for sweep in range(2):
                if sweep == 0:
                    z[n] = start
                psi, var = c.copy(), c_var.copy()
                for k in range(n_hidden):
                    a, s = z[n, k], z[n, k] * z[n, k]
                    for j in range(n_visible):
                        psi[j] += wt[k, j] * a
                        var[j] += w2t[k, j] * a - wt[k, j] * wt[k, j] * s
                for j in range(n_visible):
                    t = np.sqrt(psi[j] * psi[j] + max(var[j], np.float32(0))) + np.float32(1e-6)
                    own[j] = np.tanh(t / 2) / (2 * t)
                    residual[j] = np.float32(y[n, j]) - np.float32(0.5) - own[j] * psi[j]
                if sweep == 1:
                    break
                for k in range(n_hidden):
                    dot, half, mine = np.float32(0), np.float32(0), np.float32(0)
                    for j in range(n_visible):
                        dot += wt[k, j] * residual[j]
                        half += own[j] * w2t[k, j]
                        mine += own[j] * wt[k, j] * wt[k, j]
                    new = 1 / (1 + np.exp(-(b[k] + dot + z[n, k] * mine - np.float32(0.5) * half)))
                    change = np.float32(new - z[n, k])
                    for j in range(n_visible):
                        residual[j] -= own[j] * wt[k, j] * change
                    z[n, k] = new
            xi[n] = own

    return update


def test_z_update(paired, work):
    """One sweep with the Polya-Gamma means before and after it."""
    blocks = [slice(i, i + 64) for i in range(0, S, 64)]  # numpy is fastest where a block stays in the cache
    compiled = numba_pg()
    wt, w2t = (np.ascontiguousarray(work[name].T, dtype=np.float32) for name in ("w", "w2"))
    single = [work[name].astype(np.float32) for name in ("c", "c_var", "b", "start")]
    z, xi = np.empty((S, K), np.float32), np.empty((S, J), np.float32)
    ratios = paired(
        lambda: sbn_pg(**work, n_sweeps=1),
        {
            "numpy residual form": lambda: [
                reference.sbn_pg(**dict(work, y=work["y"][block]), n_sweeps=1) for block in blocks
            ],
            "numba, straightforward": lambda: compiled(work["y"], wt, w2t, *single, z, xi),
            "ours in float64": lambda: sbn_pg(**work, n_sweeps=1, dtype="float64"),
        },
        f"sbn z update, J = {J}, K = {K}, {S} records, one sweep",
    )
    np.testing.assert_allclose(z, sbn_pg(**work, n_sweeps=1).z, atol=1e-3)
    # A tripwire far below the target of 6.
    assert ratios["numpy residual form"] > 3


def test_z_update_quadratic(paired, work):
    """Four sweeps under the constant-curvature bound."""
    gram = 0.25 * work["w"].T @ work["w"]
    linear = work["b"] - work["w"].T @ expit(work["c"]) - 0.5 * np.diag(gram)
    arguments = work["w"], gram, linear, work["start"]
    blocks = [slice(i, i + 256) for i in range(0, S, 256)]
    ratios = paired(
        lambda: sbn_quadratic(work["y"], *arguments, n_sweeps=4),
        {"numpy, Gram form": lambda: [reference.sbn_quadratic(work["y"][b], *arguments, n_sweeps=4) for b in blocks]},
        f"sbn z update, quadratic bound, J = {J}, K = {K}, {S} records, four sweeps",
    )
    assert ratios["numpy, Gram form"] > 2
