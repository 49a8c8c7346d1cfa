"""The bounds that logistic regression promises, its lattices, and its M-step."""

import math

import numpy as np
import pytest
from ball_mean import sums_of

from vips_fast import BayesianLogisticRegression
from vips_fast.engine.model import Release
from vips_fast.engine.result import Public
from vips_fast.kernels import reference
from vips_fast.kernels.logistic import factor_spacing, triangle_size
from vips_fast.models.logistic import model as logistic_model
from vips_fast.models.logistic.posterior import Spectrum
from vips_fast.models.logistic.records import LogisticRecords, design

UNCENTERED = dict(form="orthonormal", sensitivity="proven")
FORMS = {
    "centered": {},
    "uncentered": UNCENTERED,
    "uncentered, shares": dict(UNCENTERED, linear_share=0.7),
    "paper": dict(sensitivity="proven"),
    "paper's sensitivity": dict(sensitivity="paper"),
}


def rows_of(n=300, d=9, seed=0):
    rng = np.random.default_rng([seed, n, d])
    return rng.normal(size=(n, d)) / math.sqrt(d), rng.integers(0, 2, n).astype(float)


def prepare(X, y, step, z=2.0, relation="add_remove", n_records=60, private=True, **form):
    """Return a model with an ordinary released state, mechanism and records."""
    own = {name: form.pop(name) for name in ("row_norm", "fit_intercept") if name in form}
    kind = BayesianLogisticRegression.paper if "sensitivity" in form else BayesianLogisticRegression
    options = {"relation": relation, **form}
    estimator = kind(n_records=n_records, n_steps=9, noise_multiplier=z, options=options, private=private, **own)
    estimator._check_parameters()
    records = LogisticRecords.of(design(X, estimator._constant), np.asarray(y, dtype=float))
    scale = None if private else records.largest()[0]
    public = Public(n_features=X.shape[1], n_records=n_records, seed=0, scale=scale)
    made = estimator.request(public).plan()
    model, plan = made.model, made.plan
    rng, d = np.random.default_rng(7), records.rows.n_features
    if step:
        A = rng.normal(size=(d, d))
        model.step, model._covariance = step, A @ A.T
        model.point = rng.normal(size=d) * 2
    return model, plan.mechanism, records


def lattice_sum(X, y, step, **kwargs):
    model, mechanism, records = prepare(X, y, step, **kwargs)
    return model.round(sums_of(model, records), mechanism.spacing), mechanism


def distance(a, b):
    return math.sqrt(sum(int(x) ** 2 for x in a - b))


@pytest.mark.parametrize("form", ["centered", "uncentered"])
def test_worst_case_neighbors_reach_the_bound(form):
    """A row at the bound gives nothing away. It has <xi> = b/4 in the first step."""
    X, y = rows_of(30, 3)
    worst = np.array([[3.0, 0.0, 0.0]])  # twice the bound and more: scaled to it, with its constant
    kwargs = FORMS[form] | dict(intercept_scaling=1e-3, n_records=1000)
    base, mechanism = lattice_sum(X, y, 0, **kwargs)
    more, _ = lattice_sum(np.vstack([X, worst]), np.append(y, 1), 0, **kwargs)
    # Truncated factors (2^-20), and the slack, below sqrt(10) g + 4 (g + 2^-19), g <= 2^-21.
    assert 1 - 3e-5 < distance(base, more) * mechanism.spacing / mechanism.sensitivity <= 1
    if form == "uncentered":
        # Replace one: rows at 60 degrees with different labels reach B^2 = 2 + a^4 / (2 c^2), at a share of 0.3.
        kwargs.update(linear_share=0.3, relation="replace_one", fit_intercept=False)
        t = 0.3 / 1.4
        other = 3 * np.array([[t, math.sqrt(1 - t * t), 0.0]])
        base, mechanism = lattice_sum(np.vstack([X, worst]), np.append(y, 1), 0, **kwargs)
        other, _ = lattice_sum(np.vstack([X, other]), np.append(y, 0), 0, **kwargs)
        assert 1 - 3e-5 < distance(base, other) * mechanism.spacing / mechanism.sensitivity <= 1


@pytest.mark.parametrize("form", ["uncentered", "uncentered, shares", "paper", "paper's sensitivity", "centered"])
def test_rounding_is_absorbed_for_records_below_the_clip(form):
    """A pair s1 = ±a u, <xi> about 0 on one side, and slack of a tenth of a contribution.

    One of the two has a norm below the clip less the slack. Were it not scaled down as well, the exact sums of the pair
    would be nearer to the declared distance than rounding can move them.
    """
    d, z = 60, 6_000.0
    u, w = np.zeros((2, d))
    u[0], w[1] = 1.0, 1.0
    turned = math.cos(0.01) * u + math.sin(0.01) * w
    kwargs = FORMS[form] | dict(row_norm=1.0, relation="replace_one", z=z, n_records=100)
    if form != "centered":
        kwargs["fit_intercept"] = False
    sums = []
    for row, label in ((u, 1.0), (turned, 0.0)):
        model, mechanism, records = prepare(row[None], [label], 1, **kwargs)
        d = records.rows.n_features
        if form != "centered":
            model.point, model._covariance = np.zeros(d), np.zeros((d, d))
            model._covariance[1, 1] = 1e16
        fine = sums_of(model, records).astype(float)
        scale = np.where(np.diag(np.ones(d))[np.triu_indices(d)] == 1, 1.0, model.off_diagonal) * model._grid**2
        sums.append(np.concatenate([fine[:d] * mechanism.spacing, fine[d:] * scale]))
    slack = math.sqrt(triangle_size(d)) * mechanism.spacing
    moved = float(np.linalg.norm(sums[0] - sums[1]))
    assert slack > 0.03 * model.clip
    assert moved + slack <= mechanism.sensitivity
    if form == "uncentered":
        # The bound of this pair, sqrt(4 a^2 + c^2), scaled by the very factor (to two lattice units, 0.002 each):
        # nothing else was given away, and the short record shrinks as the long one does.
        kept = model.lattice.clip_norm / model.clip
        assert moved == pytest.approx(kept * mechanism.sensitivity, abs=0.008)
        assert np.linalg.norm(sums[1]) == pytest.approx(kept * math.sqrt(0.5), abs=0.004)


def test_lattices_do_not_know_how_many_records_there_are(monkeypatch):
    """The factors' grid is relative to the clip. A contribution fits int64 2^21 times."""
    for clip in (1.0, 1.5, math.hypot(1 / 4, 1 / 2), 3.99, 4.0, 1e-9):
        assert 2.0**38 <= clip / factor_spacing(clip) ** 2 < 2.0**41
    X, y = rows_of(20, 3)
    for least in ("_SMALL", "_HIDDEN"):
        monkeypatch.setattr(logistic_model, least, -1.0)  # no noise is small
    sums = [sums_of(*prepare(X, y, 1, n_records=n)[::2]) for n in (10, 60, 2**31)]
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])
    model, _, _ = prepare(X, y, 1)
    assert model.capacity * model.clip / model._grid**2 < 2**62


def test_records_have_no_weight_only_where_noise_is_small_beside_a_rare_outcome_too():
    """Weights halve the noise: without them squared errors were up to half larger."""
    model, _, _ = prepare(*rows_of(20, 5), 1, n_records=5_000)
    square = (model._bound**2 - model._constant**2) / model.n_features
    free = []
    for noise in np.geomspace(1e-3, 1e3, 200):
        model.plan(noise, 1.0)
        linear = model.unit_scales(False)[0]
        if model._residual_bound(False) == 1.0:
            free.append((noise * linear) ** 2 / model.averaged / (5_000 * 0.02 * 0.98 * square))
    assert 0.01 < max(free) < 0.1


def released(model, mechanism, records, step):
    units = model.round(sums_of(model, records), mechanism.spacing)
    mechanism.add_noise(units, bytes([step] * 32))
    return Release(step, units, mechanism.spacing / 60, mechanism.noise_sd / 60)


def wigner(rng, d, sd):
    noise = np.triu(rng.normal(size=(d, d)) * sd)
    return noise + np.triu(noise, 1).T


@pytest.mark.parametrize("d", [25, 60])
@pytest.mark.parametrize("level", [0.5, 1.0, 2.0, 3.0, 4.0, 10.0])
def test_no_step_is_longer_than_twice_newtons(d, level):
    """Curvatures that are alike in all directions, at every level of noise. Those that it lowers are not believed."""
    rng = np.random.default_rng(d)
    for correlation in (0.0, 0.3):
        S = level * math.sqrt(d) * ((1 - correlation) * np.eye(d) + correlation)
        found = Spectrum(S + wigner(rng, d, 1.0), 1.0)
        steps = np.stack([found.solve(column, 1e-9, 0.0) for column in S.T])
        assert np.linalg.eigvals(steps).real.max() < 2, correlation


def test_the_papers_update_step_by_step():
    """Algorithm 5 without noise against numpy. Running average of natural parameters from the prior."""
    X, y = rows_of(400, 3)
    design = np.hstack([X, np.ones((400, 1))])
    design *= np.minimum(1, math.sqrt(2) / np.linalg.norm(design, axis=1))[:, None]
    d, alpha = 4, 1.0
    s1, s2, M = np.zeros(d), np.zeros((d, d)), np.zeros((d, d))
    for t in range(6):
        rho = min(1.0, (3.0 + t) ** -0.8)
        xi = reference.pg_mean(np.sqrt(np.einsum("ij,jk,ik->i", design, M, design)))
        s1 = (1 - rho) * s1 + rho * design.T @ (y - 0.5)
        s2 = (1 - rho) * s2 + rho * (design * xi[:, None]).T @ design
        covariance = np.linalg.inv(s2 + alpha * np.eye(d))
        mean = covariance @ s1
        alpha = (0.01 + d / 2) / (0.01 + 0.5 * (mean @ mean + np.trace(covariance)))
        M = covariance + np.outer(mean, mean)
    model = BayesianLogisticRegression.paper(noise_multiplier=0.0, learning_decay=0.8, learning_offset=3.0, n_steps=6)
    model.fit(X, y)
    np.testing.assert_allclose(model._fitted().arrays["weights"], mean, rtol=1e-3, atol=1e-3 * np.abs(mean).max())
    np.testing.assert_allclose(model.covariance_, covariance, rtol=1e-2, atol=1e-3 * covariance.max())


def test_the_papers_projection_leaves_no_negative_eigenvalue():
    X, y = rows_of(50, 8)
    model, mechanism, records = prepare(X, y, 0, sensitivity="paper")
    release = released(model, mechanism, records, 0)
    linear, quadratic = model.lattice[2:4]
    values, vectors = np.linalg.eigh(model._unpack(release.values) * (60 * quadratic))
    assert values.min() < 0
    model.update(release)
    precision = (vectors * np.maximum(values, 0)) @ vectors.T + np.eye(9)
    np.testing.assert_allclose(model.result()["covariance"], np.linalg.inv(precision), rtol=1e-8, atol=1e-10)
