"""Speed of the noise kernels against numpy, in pairs within one process.

    python -m pytest bench/test_bench_noise.py -s

Each test times two functions in turn, prints the medians and their ratio, and
keeps the ratio with the benchmark's record. The assertion is a tripwire well below
the target, since machines that are busy or lack AVX-512 are slower.
"""

import time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from vips_fast.kernels import (
    _native,
    add_rounded_gaussian,
    psd_project,
    reference,
    rounded_gaussian,
    symmetric_gaussian,
)

SCALE = 2.0**22.5


def compare(benchmark, ours, theirs, target, rounds, what):
    """Median time of theirs over ours, measured alternately; runs ours once more under pytest-benchmark."""
    times = np.empty((rounds, 2))
    ours(), theirs()
    for r in range(rounds):
        for column, function in enumerate((ours, theirs)):
            start = time.perf_counter()
            function()
            times[r, column] = time.perf_counter() - start
    mine, other = np.median(times, axis=0)
    ratio = other / mine
    benchmark.extra_info.update(ratio=ratio, target=target, isa=_native.isa())
    benchmark.pedantic(ours, rounds=rounds, iterations=1)
    print(f"\n{what} [{_native.isa()}]: {mine * 1e3:.3f} ms, numpy {other * 1e3:.3f} ms: {ratio:.2f} x (target {target} x)")
    assert ratio > 0.6 * target
    return mine


@pytest.mark.parametrize("n", [385_100, 10**7])
def test_rounded_gaussian(benchmark, n):
    generator, out = np.random.default_rng(0), np.empty(n)
    seconds = compare(
        benchmark, lambda: rounded_gaussian(SCALE, n), lambda: generator.standard_normal(out=out), 1.0,
        51 if n < 10**6 else 7, f"rounded_gaussian, {n} draws, against PCG64 standard_normal",
    )
    print(f"{seconds / n * 1e9:.2f} ns a draw")


@pytest.mark.parametrize("n", [385_100, 10**7])
def test_add_rounded_gaussian(benchmark, n):
    """Against the textbook way: float normals scaled, rounded and added, in blocks that stay in cache."""
    generator, sums = np.random.default_rng(0), np.zeros(n, dtype=np.int64)

    def theirs():
        for start in range(0, n, 1 << 16):
            part = sums[start : start + (1 << 16)]
            part += np.rint(generator.standard_normal(part.size) * SCALE).astype(np.int64)

    seconds = compare(
        benchmark, lambda: add_rounded_gaussian(sums, SCALE), theirs, 1.0, 51 if n < 10**6 else 7,
        f"add_rounded_gaussian, {n} draws, against numpy normals rounded and added",
    )
    print(f"{seconds / n * 1e9:.2f} ns a draw")


@pytest.mark.parametrize("form", ["orthonormal", "analyze_gauss"])
@pytest.mark.parametrize("d", [123, 1000, 4146])
def test_symmetric_gaussian(benchmark, d, form):
    """Against numpy: the triangle drawn, mirrored and added in place (float64, no checks, no lattice)."""
    generator = np.random.default_rng(0)
    matrix, real = np.zeros((d, d), dtype=np.int64), np.zeros((d, d))
    upper = np.triu_indices(d)

    def theirs():
        noise = np.zeros((d, d))
        noise[upper] = generator.normal(0.0, SCALE, len(upper[0]))
        noise += np.triu(noise, 1).T
        np.add(real, noise, out=real)

    compare(
        benchmark, lambda: symmetric_gaussian(matrix, SCALE, form=form), theirs, 3.0, {123: 201, 1000: 21}.get(d, 5),
        f"symmetric_gaussian {form}, d = {d}, against the triangle in numpy",
    )


@pytest.mark.parametrize("below", [36, 460])
def test_psd_project(benchmark, below):
    """d = 1,000, one BLAS thread, against eigh and rebuild; few and many negative eigenvalues."""
    d = 1000
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2 * d, d))
    e = rng.normal(size=(d, d))
    e = np.triu(e) + np.triu(e, 1).T
    a = x.T @ x + {36: 0.5, 460: 15.0}[below] * np.sqrt(d) * e
    with threadpool_limits(1, user_api="blas"):
        assert abs((np.linalg.eigvalsh(a) < 0).sum() - below) < 30
        compare(
            benchmark, lambda: psd_project(a), lambda: reference.psd_project(a), 2.0 if below == 36 else 1.2, 5,
            f"psd_project, d = 1000, about {below} negative eigenvalues, against eigh and rebuild",
        )
