"""Projection onto positive semidefinite matrices, and the repair of many spectra."""

import math

import numpy as np
import pytest

from vips_fast.kernels import floor_spectrum, psd, psd_project, reference


def spectrum_matrix(eigenvalues, rng):
    q, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))
    a = (q * eigenvalues) @ q.T
    return (a + a.T) / 2


def check_projection(a, floor):
    before = a.copy()
    ours, twin = psd_project(a, floor), reference.psd_project(a, floor)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(ours, ours.T)
    # The documented tolerance: eigenpairs are exact for a matrix within O(d) roundings of A.
    tolerance = len(a) * 2.0**-50 * max(np.abs(np.linalg.eigvalsh(a)).max(), abs(floor), 1e-300)
    assert np.abs(ours - twin).max() <= tolerance
    assert np.linalg.eigvalsh(ours).min() >= floor - tolerance
    return ours


@pytest.mark.parametrize("floor", [0.0, 0.25, -0.5])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 20, 63, 64, 65, 130])
@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.95, 1.0])
def test_psd_project_matches_eigh_and_rebuild(d, share, floor):
    """Every way through. Nothing below, few below, half, nearly all, all; few and many eigenvectors."""
    rng = np.random.default_rng(d)
    below = round(share * d)
    w = floor + np.concatenate([-rng.uniform(0.01, 3.0, below), rng.uniform(0.01, 3.0, d - below)])
    check_projection(spectrum_matrix(w, rng), floor)


@pytest.mark.parametrize("few", [0.0, 1.0])
@pytest.mark.parametrize("cholesky_below", [0, 512])
def test_psd_project_by_every_route(few, cholesky_below, monkeypatch):
    """Every eigenvector routine, with and without the Cholesky factorisation first."""
    monkeypatch.setattr(psd, "_FEW", few)
    monkeypatch.setattr(psd, "_CHOLESKY_BELOW", cholesky_below)
    rng = np.random.default_rng(2)
    for below in (0, 1, 7, 20, 39, 40):
        w = np.concatenate([-rng.uniform(0.1, 1, below), rng.uniform(0.1, 1, 40 - below)])
        check_projection(spectrum_matrix(w, rng), 0.0)


@pytest.mark.parametrize("floor", [0.0, 3.0])
def test_psd_project_of_many_signs_and_scales(floor):
    """Noise of both signs, many eigenvalues on either side of the floor. The squares of some scales are no doubles."""
    rng = np.random.default_rng(8)
    noise = rng.normal(size=(256, 256))
    for scale in (1.0, 1e-200, 1e150):
        check_projection((noise + noise.T) * scale, floor * scale)


def test_psd_project_of_special_matrices():
    rng = np.random.default_rng(4)
    zero = np.zeros((7, 7))
    np.testing.assert_array_equal(psd_project(zero), zero)
    np.testing.assert_array_equal(psd_project(-np.eye(7)), zero)
    np.testing.assert_array_equal(psd_project(zero, 2.0), 2.0 * np.eye(7))
    np.testing.assert_array_equal(psd_project(np.diag([3.0, -1.0, 0.0])), np.diag([3.0, 0.0, 0.0]))
    positive = spectrum_matrix(rng.uniform(0.5, 1.0, 30), rng)
    np.testing.assert_array_equal(psd_project(positive), positive)
    assert psd_project(positive) is not positive
    check_projection(spectrum_matrix(np.repeat([-1.0, 0.0, 1.0], 10), rng), 0.0)  # multiple eigenvalues
    low_rank = rng.normal(size=(40, 3))
    check_projection(low_rank @ low_rank.T, 0.0)
    check_projection(np.asfortranarray(spectrum_matrix(rng.normal(size=33), rng)), 0.0)
    block = np.zeros((40, 40))
    block[:20, :20] = spectrum_matrix(rng.normal(size=20), rng)
    check_projection(block, 0.0)  # the tridiagonal matrix falls apart


@pytest.mark.parametrize(
    "a, floor, error, match",
    [
        ([[1.0]], 0.0, TypeError, "got list"),
        (np.eye(3, dtype=np.float32), 0.0, TypeError, "float32"),
        (np.ones(3), 0.0, ValueError, "shape"),
        (np.ones((2, 3)), 0.0, ValueError, "shape"),
        (np.ones((0, 0)), 0.0, ValueError, "shape"),
        (np.array([[1.0, 2.0], [2.5, 1.0]]), 0.0, ValueError, "symmetric"),
        (np.array([[1.0, np.nan], [np.nan, 1.0]]), 0.0, ValueError, "finite"),
        (np.array([[np.inf]]), 0.0, ValueError, "finite"),
        (np.eye(2), math.nan, ValueError, "floor=nan"),
        (np.eye(2), math.inf, ValueError, "floor=inf"),
        (np.eye(2), "0", TypeError, "floor='0'"),
        (np.eye(2), True, TypeError, "floor=True"),
    ],
)
def test_psd_project_bad_input(a, floor, error, match):
    with pytest.raises(error, match=match):
        psd_project(a, floor)


@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
@pytest.mark.parametrize("d", [1, 2, 9, 30])
def test_floor_spectrum_raises_each_spectrum(shape, d):
    a = np.random.default_rng(d).normal(size=(*shape, d, d))
    a = a + np.swapaxes(a, -1, -2)
    ours = floor_spectrum(a, 0.3)
    # Eigenpairs are exact for a matrix within O(d) roundings of A.
    tolerance = d * 2.0**-50 * max(np.abs(a).max() * d, 1.0)
    np.testing.assert_allclose(ours, reference.floor_spectrum(a, 0.3), rtol=0, atol=tolerance)
    assert np.linalg.eigvalsh(ours).min() >= 0.3 - tolerance
