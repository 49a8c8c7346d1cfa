"""Sigmoid belief network. A record's contribution, its reach in a release, and the model from releases."""

import math

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit

from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.engine.sampling import FullSampler
from vips_fast.kernels import reference
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.sbn import SigmoidBeliefNetwork, network
from vips_fast.models.sbn.network import common_curvature, denoised_energy

Y = (np.random.default_rng(0).random((300, 36)) < np.linspace(0, 0.9, 36)).astype(np.uint8)
Y[:, :18] |= Y[:, 18:] & (np.arange(300) % 2 == 0)[:, None]


def make(n_components=4, **parameters):
    return SigmoidBeliefNetwork(n_components, random_state=0, **parameters)


def model_of(estimator, J=36, n=300, z=1.0, relation="add_remove"):
    model = estimator._model(Public(n_features=J, n_records=n, seed=0))
    mechanism = GaussianMechanism(z, model.sensitivity(relation), model.clip)
    model.prepare(mechanism, FullSampler(n, relation))
    return model, mechanism


def fine_of(model, rows, scratch=None):
    out = np.zeros(model.fine_shape, dtype=np.int64)
    rows = np.ascontiguousarray(rows)
    model.contribute(rows, np.zeros(len(rows), np.uint64), out, {} if scratch is None else scratch)
    return out


def sums_of(model, mechanism, rows):
    return model.round(fine_of(model, rows), mechanism.spacing)


def release_of(model, mechanism, rows):
    return Release(model.step, sums_of(model, mechanism, rows), mechanism.spacing / len(rows), 1e-9)


def advance(model, mechanism, rows, steps):
    """Some steps without noise, so that the parameters are a running fit's."""
    for _ in range(steps):
        model.update(release_of(model, mechanism, rows))


def clips(monkeypatch, latent, visible):
    monkeypatch.setattr(network, "LATENT_CLIP", latent)
    monkeypatch.setattr(network, "VISIBLE_CLIP", visible)


def test_sum_of_the_quadratic_bound(monkeypatch):
    clips(monkeypatch, 0.5, 1.0)
    model, mechanism = model_of(make(5))
    advance(model, mechanism, Y, 3)
    release = release_of(model, mechanism, Y)
    # Plain numpy: E-step, clipping of the two factors, the three blocks.
    y, w, kappa = Y.astype(float), model.w, model.curvature
    assert 0.05 <= kappa.min() < kappa.max() < 0.25
    gram = w.T @ np.diag(kappa) @ w + model.covariance
    linear = model.b - w.T @ (0.5 + kappa * model.c) - 0.5 * np.diag(gram)
    z = reference.sbn_quadratic(y, w, gram, linear, expit(model.b), n_sweeps=4)
    x, v = y - model.center, z - model.zeta
    v *= np.minimum(1, model.latent_bound / np.linalg.norm(v, axis=1))[:, None]
    lengths = np.linalg.norm(x, axis=1)
    v *= np.minimum(1, model.visible_bound / lengths)[:, None]
    assert 0.05 < (lengths > model.visible_bound).mean() < 0.95
    C, B = model.latent_bound, model.visible_bound
    joint, pair = model.retained / math.sqrt(1 + 0.1**2 + 0.15**2), C * C * math.sqrt(0.5 * (1 - 1 / 5))
    upper = (v.T @ v)[np.triu_indices(5, 1)]
    for name, multiplier, value in [
        ("mean", 0.1 * joint / C, v.sum(axis=0)),
        ("cross", joint / (C * B), (x.T @ v).ravel()),
        ("covariance", 0.15 * joint / pair, upper),
    ]:
        assert model.multiplier(name) == pytest.approx(multiplier, rel=1e-12)
        assert 0 <= 1 - model.exact_multiplier(name) / multiplier < 2.0**-29
        # Each factor is truncated by up to 2^-19 of its bound.
        np.testing.assert_allclose(model.read(release, name), value / 300, atol=3 * 2.0**-19 * C * max(B, C))
    assert not release.units[model.blocks["image"]].any()


def test_capacity_is_what_the_largest_records_need():
    for private in (True, False):
        model, mechanism = model_of(make(1, private=private), J=3)
        advance(model, mechanism, np.eye(3, dtype=np.uint8), 1)
        model.b[:], model.zeta[:] = 60.0, 0.0
        model._derive()
        fine = fine_of(model, np.ones((1, 3), np.uint8))
        # |v| <= 2^20, squared in the covariance, times 2^12 in the centered products.
        assert 2**18 < np.abs(fine).max() <= 2**20
        assert 2**40 * model.capacity == 2**62


def test_slack_of_rounding_shrinks_every_record():
    """Not only those at the clip. Otherwise neighbors closer than the bound would keep all of it."""
    estimator = make()
    for z, least, most in [(1e-6, 0.999, 1.0), (1e4, 0.9, 0.98)]:
        model, mechanism = model_of(estimator, z=z)
        assert least < model.retained < most
        image = sums_of(model, mechanism, Y[:1])[model.blocks["image"]]
        np.testing.assert_allclose(np.abs(image) * mechanism.spacing, model.retained / 6, atol=mechanism.spacing)
    with pytest.raises(ValueError, match="noise_multiplier"):
        model_of(estimator, z=4e5)


def test_common_curvature_makes_the_bound_largest():
    rng = np.random.default_rng(0)
    z = (rng.random((4000, 3)) < [0.3, 0.5, 0.8]).astype(float)
    y = (rng.random(4000) < expit(z @ [3.0, -2.0, 1.0] - 2.5)).astype(float)
    S, a, m = np.cov(z.T, bias=True), ((y - y.mean()) @ (z - z.mean(axis=0))) / 4000, y.mean()

    def bound(parameters):
        """Compute Jaakkola and Jordan's bound of the mean log p(y z). | With one t for all records."""
        w, c, t = parameters[:3], parameters[3], parameters[4]
        psi = (z - z.mean(axis=0)) @ w + c
        kappa = math.tanh(t / 2) / (2 * t)
        return ((y - 0.5) * psi - kappa * (psi**2 - t * t) / 2).mean() - math.log(2 * math.cosh(t / 2))

    energy, factor = denoised_energy(a[None], S, 0.0)
    kappa = common_curvature(energy, np.array([m]))[0]
    assert factor[0] == 1.0
    w, c = np.linalg.solve(S, a) / kappa, (m - 0.5) / kappa
    t = math.sqrt(w @ S @ w + c * c)
    assert kappa == pytest.approx(math.tanh(t / 2) / (2 * t), rel=1e-9)
    found = optimize.minimize(lambda p: -bound(p), [0.1, 0.1, 0.1, 0.1, 1.0], tol=1e-12)
    assert bound([*w, c, t]) == pytest.approx(-found.fun, abs=1e-9)
    # It is a lower bound.
    psi = (z - z.mean(axis=0)) @ w + c
    assert bound([*w, c, t]) < (y * psi - np.logaddexp(0, psi)).mean()


def test_mstep_of_the_quadratic_bound_solves_its_equations():
    model, mechanism = model_of(make(3, private=False), z=0.0)
    advance(model, mechanism, Y, 1)  # the mean image
    zeta = model.zeta
    release = release_of(model, mechanism, Y)
    model.update(release)
    mean, cross = zeta + model.read(release, "mean"), model.read(release, "cross").reshape(36, 3)
    upper = np.zeros((3, 3))
    upper[np.triu_indices(3, 1)] = model.read(release, "covariance")
    # About the mean, and E[z^2] = E[z].
    S = upper + upper.T - np.outer(mean - zeta, mean - zeta)
    np.fill_diagonal(S, mean * (1 - mean))
    assert np.linalg.eigvalsh(S).min() > 0.01
    residual = cross - model.curvature[:, None] * (model.w @ S) - model.w / 300
    assert np.abs(model.w).max() > 0.3 and np.abs(residual).max() < 1e-9


def test_denoised_energy_is_right_on_average():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    S, a, sd = root @ root.T + np.eye(4), np.array([0.3, -0.2, 0.5, 0.1]), 0.1
    noised = a + sd * rng.standard_normal((40_000, 4))
    energy, factor = denoised_energy(noised, S, sd * sd)
    truth = a @ np.linalg.solve(S, a)
    # Cut at 0 for few: the mean of 40,000 has a standard error of 0.3 %.
    assert energy.mean() == pytest.approx(truth, rel=0.015)
    raw = np.einsum("jk,jk->j", noised @ np.linalg.inv(S), noised)
    np.testing.assert_allclose(raw * factor**2, energy, atol=1e-12)
    assert raw.mean() > 1.05 * truth
