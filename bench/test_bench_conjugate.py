"""Time the kernels from C, and the mixture's.

The mixture is simulated: 200,000 records of 10 columns from 5 round Gaussians.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
from scipy.special import digamma

import vips_fast
from vips_fast.engine.backend import Threads
from vips_fast.engine.result import Public
from vips_fast.kernels import lda_estep

ROOT = Path(__file__).resolve().parent.parent
N, D, K, RADIUS = 200_000, 10, 5, 12.0


def test_estep_from_c_beside_python(paired, tmp_path):
    """The same documents, parameters and single thread. Each call makes its table and its sums."""
    target = tmp_path / f"extension{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{vips_fast.get_include()}"]
    source = str(ROOT / "tests" / "capi" / "consumers" / "extension.c")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-pthread", *include, source, "-o", str(target)], check=True)
    sys.path.insert(0, str(tmp_path))
    import extension

    rng = np.random.default_rng(0)
    n_docs, n_words, n_topics, length = 2000, 5000, 50, 120
    indices = np.sort(np.stack([rng.choice(n_words, length, replace=False) for _ in range(n_docs)]), axis=1)
    indptr, indices = np.arange(n_docs + 1) * length, indices.astype(np.int32).ravel()
    counts = rng.geometric(0.3, len(indices)).astype(np.float64)
    lam = rng.gamma(0.5, 1.0, (n_topics, n_words)) + 0.1
    beta = np.exp(digamma(lam) - digamma(lam.sum(axis=1, keepdims=True)))
    alpha = np.full(n_topics, 0.02)

    def from_c():
        gamma, sums = np.zeros((n_docs, n_topics)), np.zeros((n_words, n_topics), dtype=np.int64)
        assert extension.estep(indptr, indices, counts, beta, alpha, 1e-3, 100, 50.0, 2.0**-20, 1, gamma, sums) == 0
        return gamma

    def from_python():
        return lda_estep(indptr, indices, counts, beta, alpha, clip_norm=50.0, spacing=2.0**-20).gamma

    np.testing.assert_array_equal(from_c(), from_python())
    work = f"E-step of {n_docs} documents of {length} words, from C"
    ratios = paired(from_c, {"Python's kernel": from_python}, work, rounds=9)
    # No dearer than from Python, within the difference of two neighboring runs.
    assert ratios["Python's kernel"] > 0.9


def simulated():
    """Draw records of a mixture."""
    rng = np.random.default_rng(0)
    means, weights = rng.normal(0, 2, (K, D)), rng.dirichlet(np.full(K, 5.0))
    return means[rng.choice(K, N, p=weights)] + rng.normal(size=(N, D))


def numpy_statistics(X, constant, linear, scale):
    """Compute a mixture's sums in numpy: (w r, r x, w ||x||^2) of records over the radius.

    It takes 50,000 records at a time.
    """
    total = np.zeros(K * (1 + D) + 1)
    for first in range(0, len(X), 50_000):
        x = X[first : first + 50_000].astype(float)
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        log = constant + x @ linear.T
        r = np.exp(log - log.max(axis=1, keepdims=True))
        r /= r.sum(axis=1, keepdims=True)
        total += np.concatenate([scale * r.sum(axis=0), (r.T @ x).ravel(), scale * (x * x).sum()[None]])
    return total


def test_mixture_beside_numpy(paired, benchmark):
    from vips_fast.models.mixture import GaussianMixture

    estimator = GaussianMixture(K, radius=RADIUS, random_state=0, sampling="full", private=False)
    records, facts = estimator._read(simulated())
    X, public = records.array, Public(n_records=N, seed=0, **facts)
    made = estimator.request(public).plan()
    model, spacing = made.model, made.plan.mechanism.spacing
    rows, words = np.arange(len(X)), np.zeros(len(X), dtype=np.uint64)

    def ours():
        return Threads(1).sum(model, records, rows, words) * spacing

    def plain():
        return numpy_statistics(X, *model.parameters[:3])

    # Each of 200,000 contributions is cut by less than a lattice step.
    np.testing.assert_allclose(ours(), plain(), atol=len(X) * spacing)
    paired(ours, {"numpy": plain}, f"E-step, clip and exact sum of {len(X)} records of {D} columns, {K} components")
    medians = benchmark.extra_info["medians"]
    rates = {name: len(X) / seconds for name, seconds in medians.items()}
    benchmark.extra_info["records_per_second"] = rates
    print(f"    records/s: {rates['ours']:.3g}, numpy {rates['numpy']:.3g}", file=sys.__stdout__, flush=True)
