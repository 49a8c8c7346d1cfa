"""Time W3 and W4, noise and projection, against numpy.

The noise is rounded Gaussian or symmetric.

One thread. Targets at the first version: as fast as numpy's PCG64 normals, 3 times
numpy's triangle at d = 4,146, 2 times eigh and rebuild at d = 1,000 where few
eigenvalues are negative.
"""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from vips_fast.kernels import add_rounded_gaussian, psd_project, reference, rounded_gaussian, symmetric_gaussian

SCALE = 2.0**22.5
SIZES = [385_100, 10**7]


def rounds(n):
    return 51 if n < 10**6 else 7


@pytest.mark.parametrize("n", SIZES)
def test_rounded_gaussian(paired, n):
    generator = np.random.default_rng(0)
    peers = {"numpy PCG64 standard_normal": lambda: generator.standard_normal(n)}
    paired(lambda: rounded_gaussian(SCALE, n), peers, f"{n} exactly rounded normals", rounds(n))


@pytest.mark.parametrize("n", SIZES)
def test_add_rounded_gaussian(paired, n):
    """The peer adds rounded float normals to equal arrays. It works in blocks that stay in cache."""
    generator, sums, theirs = np.random.default_rng(0), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def textbook():
        for start in range(0, n, 1 << 16):
            part = theirs[start : start + (1 << 16)]
            part += np.rint(generator.standard_normal(part.size) * SCALE).astype(np.int64)

    peers = {"numpy PCG64 normals, rounded and added": textbook}
    paired(lambda: add_rounded_gaussian(sums, SCALE), peers, f"{n} normals added to int64 sums", rounds(n))


@pytest.mark.parametrize("form", ["orthonormal", "analyze_gauss"])
@pytest.mark.parametrize("d", [123, 1000, 4146])
def test_symmetric_gaussian(paired, d, form):
    """The peer draws and mirrors the triangle in place. It is in float64 and without any check."""
    generator = np.random.default_rng(0)
    matrix, real = np.zeros((d, d), dtype=np.int64), np.zeros((d, d))
    upper = np.triu_indices(d)

    def triangle():
        noise = np.zeros((d, d))
        noise[upper] = generator.normal(0.0, SCALE, len(upper[0]))
        noise += np.triu(noise, 1).T
        np.add(real, noise, out=real)

    peers = {"numpy, triangle only": triangle}
    paired(
        lambda: symmetric_gaussian(matrix, SCALE, form=form),
        peers,
        f"{form} noise, d = {d}",
        {123: 201, 1000: 21}.get(d, 5),
    )


@pytest.mark.parametrize("below, noise", [(36, 0.5), (460, 15.0)])
def test_psd_project(paired, below, noise):
    """One BLAS thread; few and nearly half negative eigenvalues."""
    d = 1000
    rng = np.random.default_rng(1)
    x, e = rng.normal(size=(2 * d, d)), rng.normal(size=(d, d))
    a = x.T @ x + noise * np.sqrt(d) * (np.triu(e) + np.triu(e, 1).T)
    with threadpool_limits(1, user_api="blas"):
        assert abs((np.linalg.eigvalsh(a) < 0).sum() - below) < 30
        peers = {"eigh and rebuild": lambda: reference.psd_project(a)}
        paired(lambda: psd_project(a), peers, f"projection, d = {d}, about {below} negative eigenvalues", 7)
