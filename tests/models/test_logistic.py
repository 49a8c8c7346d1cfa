"""Bayesian logistic regression as a user meets it, and the bounds it promises."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

import vips_fast.models.logistic as module
from vips_fast import BayesianLogisticRegression
from vips_fast.kernels import reference
from vips_fast.kernels.blr import triangle_size
from vips_fast.mechanisms import GaussianMechanism
from vips_fast.models.logistic import _Model, _Spectrum, curvature_ratio, nonnegative_mean
from vips_fast.sampling import FullSampler

KEY = bytes(range(32))


def data(n=4000, d=6, seed=0, scale=3.0, intercept=0.5):
    """Rows of norm at most 1 and labels from a known m."""
    rng = np.random.default_rng([seed, n, d])
    X = rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d)) / math.sqrt(d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) / (1.2 * math.sqrt(d)))[:, None] * 1.2 * math.sqrt(d)
    m = rng.normal(size=d) * scale
    return X, (rng.random(n) < expit(X @ m + intercept)).astype(int), m


def keyed(**kwargs):
    """An estimator whose noise is a function of KEY: reproducible, and tainted for it."""
    model = BayesianLogisticRegression(**kwargs)
    model._unsafe_test_key = KEY
    return model


def auc(y, s):
    order = np.argsort(s, kind="stable")
    rank = np.empty(len(s))
    rank[order] = np.arange(1, len(s) + 1)
    positive = y == 1
    return (rank[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / (positive.sum() * (~positive).sum())


# ------------------------------------------------------------ without privacy


def variational_bayes(X, y, b=1.0, a0=0.01, b0=0.01, rounds=400):
    """Eqs. 48-55 in plain numpy, iterated to the fixed point."""
    d = X.shape[1]
    alpha, M = a0 / b0, np.zeros((d, d))
    for _ in range(rounds):
        xi = reference.pg_mean(np.sqrt(np.einsum("ij,jk,ik->i", X, M, X)), b=b)
        covariance = np.linalg.inv((X * xi[:, None]).T @ X + alpha * np.eye(d))
        mean = covariance @ (X.T @ (y - b / 2))
        M = covariance + np.outer(mean, mean)
        alpha = (a0 + d / 2) / (b0 + 0.5 * (mean @ mean + np.trace(covariance)))
    return mean, covariance, alpha


@pytest.mark.parametrize("center", [True, False])
def test_without_noise_it_is_the_fixed_point_of_variational_bayes(center):
    X, y, _ = data(600, 4)
    design = np.hstack([X, np.ones((600, 1))])
    mean, covariance, alpha = variational_bayes(design, y)
    model = BayesianLogisticRegression(private=False, noise_aware=False, center=center, n_steps=400).fit(X, y)
    # Factors are truncated to 2^-20 of the longest row; the error of an entry of
    # s2 is below 2^-19 of it, a coefficient's below that times a condition number of some tens.
    np.testing.assert_allclose(np.append(model.coef_[0], model.intercept_), mean, rtol=1e-4)
    np.testing.assert_allclose(model.covariance_, covariance, rtol=1e-3, atol=1e-4 * covariance.max())
    assert model.prior_precision_ == pytest.approx(alpha, rel=1e-4)
    assert not model.privacy_.private and "NOT PRIVATE" in model.privacy_.statement()


def test_binomial_counts_are_repeated_trials():
    rng = np.random.default_rng(0)
    X, _, m = data(300, 3)
    trials = rng.integers(1, 6, 300)
    y = rng.binomial(trials, expit(X @ m))
    # The curvature correction takes a mean over records or over trials, which are not quite the same.
    options = dict(private=False, noise_aware=False, n_steps=200)
    counts = BayesianLogisticRegression(n_trials=5, **options).fit(X, y, trials=trials)
    rows = np.repeat(np.arange(300), trials)
    ones = np.concatenate([np.r_[np.ones(s, int), np.zeros(b - s, int)] for s, b in zip(y, trials, strict=True)])
    each = BayesianLogisticRegression(**options).fit(X[rows], ones)
    np.testing.assert_allclose(counts.coef_, each.coef_, rtol=1e-4)
    np.testing.assert_allclose(counts.covariance_, each.covariance_, rtol=1e-3, atol=1e-5)
    assert counts.classes_.tolist() == [0, 1]
    assert counts.score(X, y, trials=trials) > math.log(0.5)
    same = BayesianLogisticRegression(n_trials=2, private=False).fit(X, np.minimum(y, 2))
    assert same.score(X, np.minimum(y, 2)) > math.log(0.5)


@pytest.mark.parametrize(
    "labels", [(0, 1), (-1, 1), (False, True), ("no", "yes"), (2.5, 7.0), np.array(["a", "b"], dtype=object)]
)
def test_any_two_labels(labels):
    X, y, _ = data(400, 3)
    labels = np.asarray(labels)
    model = BayesianLogisticRegression(private=False).fit(X, labels[y])
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.score(X, labels[y]) == (model.predict(X) == labels[y]).mean() > 0.6


@pytest.mark.parametrize("storage", [sp.csr_array, sp.csc_matrix, sp.coo_array, np.float32, list])
def test_storages_agree(storage):
    X, y, _ = data(500, 4)
    X = np.where(np.abs(X) < 0.2, 0, X).astype(np.float32).astype(float)
    dense = BayesianLogisticRegression(private=False).fit(X, y)
    other_X = X.astype(np.float32) if storage is np.float32 else X.tolist() if storage is list else storage(X)
    other = BayesianLogisticRegression(private=False).fit(other_X, y)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba(other_X), dense.predict_proba(X), atol=1e-7)
    np.testing.assert_allclose(other.decision_variance(other_X), dense.decision_variance(X), atol=1e-7)


def test_minibatches_without_noise_come_near():
    X, y, _ = data(4000, 4)
    whole = BayesianLogisticRegression(private=False).fit(X, y)
    part = BayesianLogisticRegression(private=False, sampling="poisson", batch_size=400, n_steps=100, random_state=0)
    part.fit(X, y)
    again = BayesianLogisticRegression(private=False, sampling="poisson", batch_size=400, n_steps=100, random_state=0)
    np.testing.assert_array_equal(again.fit(X, y).coef_, part.coef_)
    # 100 steps of a tenth, averaged: the sampling error is below the posterior's own.
    assert np.linalg.norm(part.coef_ - whole.coef_) < 2 * math.sqrt(np.trace(part.covariance_))


# --------------------------------------------------------------- with privacy


def test_much_budget_is_close_to_none_needed():
    X, y, _ = data(20_000, 5)
    free = BayesianLogisticRegression(private=False).fit(X, y)
    rich = keyed(target_epsilon=50.0, target_delta=1e-5, n_steps=40).fit(X, y)
    # The averaging of early steps leaves a bias below the posterior's own spread.
    assert np.linalg.norm(rich.coef_ - free.coef_) < 2 * math.sqrt(np.trace(free.covariance_))


def test_the_guarantee_that_was_asked_for():
    X, y, _ = data(1000, 4)
    model = BayesianLogisticRegression(target_epsilon=0.7, target_delta=1e-4, n_steps=5).fit(X, y)
    assert 0.69 < model.privacy_.epsilon <= 0.7 and model.privacy_.delta == 1e-4
    assert model.privacy_.neighbors == "add_remove" and len(model.ledger_) == 5 == model.n_steps_
    assert model.privacy_.private and "0.69" in model.privacy_.statement() or "0.7" in model.privacy_.statement()
    with pytest.raises(ValueError, match="gives epsilon"):
        BayesianLogisticRegression(target_epsilon=0.1, noise_multiplier=1.0).fit(X, y)
    for kwargs in ({"sampling": "poisson", "batch_size": 100}, {"sampling": "without_replacement", "batch_size": 100}):
        other = BayesianLogisticRegression(target_epsilon=0.7, target_delta=1e-4, n_steps=5, **kwargs).fit(X, y)
        assert other.privacy_.epsilon <= 0.7


def test_no_seed_reaches_a_private_fit():
    X, y, _ = data(500, 3)
    first, second = (BayesianLogisticRegression(random_state=0).fit(X, y).coef_ for _ in range(2))
    assert not np.array_equal(first, second)


def test_threads_give_the_same_bits():
    X, y, _ = data(3000, 20)
    one = keyed(n_jobs=1, n_steps=4).fit(X, y)
    for n_jobs in (2, 7):
        np.testing.assert_array_equal(keyed(n_jobs=n_jobs, n_steps=4).fit(X, y).coef_, one.coef_)


def test_callback_and_steps():
    X, y, _ = data(500, 3)
    seen = []
    model = BayesianLogisticRegression(n_steps=3, callback=lambda *a: seen.append(a)).fit(X, y)
    assert [a[0] for a in seen] == [1, 2, 3] and seen[-1][1] == model.privacy_.epsilon


# -------------------------------------------------- audit: replay and purity


def prepared(X, y, step, z=2.0, neighbors="add_remove", n_records=60, **kwargs):
    """A model at a step with a released state that has nothing special, and its mechanism."""
    estimator = BayesianLogisticRegression(n_records=n_records, n_steps=10, **kwargs)
    rows = module.check_rows(module._with_constant(X, estimator._constant), y)
    model = _Model(estimator, rows)
    mechanism = GaussianMechanism(z, model.sensitivity(neighbors), model.clip_norm, 4 * n_records)
    model.prepare(mechanism, FullSampler(rows.n_rows))
    rng = np.random.default_rng(7)
    d = rows.n_features
    model._step = step
    if step:
        A = rng.normal(size=(d, d))
        model._center = rng.normal(size=d) * 2
        model._moment = A @ A.T + np.outer(model._center, model._center)
    return model, mechanism


def lattice_sum(X, y, step, n_threads=1, **kwargs):
    model, mechanism = prepared(X, y, step, **kwargs)
    sums = np.zeros(model.statistics_shape, dtype=np.int64)
    model.estep(np.arange(len(y)), None, mechanism.spacing, sums, n_threads)
    return sums, mechanism


def distance(a, b):
    """Euclidean distance of two lattice sums, exactly (Python integers) but for the root."""
    return math.sqrt(sum(int(x) ** 2 for x in a - b))


FORMS = {
    "centred": {}, "centred, clip 0.2": {"residual_clip": 0.2}, "analyze gauss": {"form": "analyze_gauss"},
    "uncentred": {"center": False}, "paper": {"center": False, "update": "paper"},
    "all to s1": {"linear_share": (0.3, 1.0)}, "counts": {"n_trials": 4.0},
    "paper's sensitivity": {"center": False, "update": "paper", "sensitivity": "paper"},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [0, 1])
def test_replay_of_neighbours(form, step):
    """Generated neighbours, among them long rows, tiny rows and extreme labels: the sums move by no more than stated."""
    rng = np.random.default_rng(3)
    d, kwargs = 4, FORMS[form]
    b = kwargs.get("n_trials", 1.0)
    add = replace = 0.0
    for trial in range(40):
        X = rng.normal(size=(30, d)) * 10.0 ** rng.uniform(-2, 2)
        y = rng.integers(0, int(b) + 1, 30).astype(float)
        record = rng.normal(size=(1, d)) * 10.0 ** rng.uniform(-3, 6)
        other = rng.normal(size=(1, d)) * 10.0 ** rng.uniform(-3, 6) if trial % 2 else -record
        base, mechanism = lattice_sum(X, y, step, **kwargs)
        with_one, _ = lattice_sum(np.vstack([X, record]), np.append(y, b), step, **kwargs)
        add = max(add, distance(base, with_one) * mechanism.spacing / mechanism.sensitivity)
        one, mechanism = lattice_sum(np.vstack([X, record]), np.append(y, b), step, neighbors="replace_one", **kwargs)
        two, _ = lattice_sum(np.vstack([X, other]), np.append(y, b * (trial % 3 == 0)), step, neighbors="replace_one", **kwargs)
        replace = max(replace, distance(one, two) * mechanism.spacing / mechanism.sensitivity)
    assert add <= 1 and replace <= 1


@pytest.mark.parametrize("center", [True, False])
def test_worst_case_neighbours_reach_the_bound(center):
    """A row at the bound with <xi> = b/4 in the first step: nothing is given away."""
    X, y, _ = data(30, 3)
    worst = np.array([[3.0, 0.0, 0.0]])  # twice the bound and more: scaled to it, with its constant
    kwargs = dict(row_norm=1.0, intercept_scaling=1e-3, center=center, n_records=1000)
    base, mechanism = lattice_sum(X, y, 0, **kwargs)
    more, _ = lattice_sum(np.vstack([X, worst]), np.append(y, 1), 0, **kwargs)
    reached = distance(base, more) * mechanism.spacing / mechanism.sensitivity
    # Truncated factors (2^-20) and the rounding reserve sqrt(10) g, g <= 2^-22 z.
    assert 1 - 1e-5 < reached <= 1
    if not center:
        # Replace one, tight case: two equal rows with different labels, <xi> = 1/4 for both or for one.
        base, mechanism = lattice_sum(np.vstack([X, worst]), np.append(y, 0), 0, neighbors="replace_one", **kwargs)
        other, _ = lattice_sum(np.vstack([X, worst]), np.append(y, 1), 0, neighbors="replace_one", **kwargs)
        # Both have <xi> = 1/4 here, so 2a out of sqrt(4a^2 + b^2) and more is reached, with a^2 = b^2 = 1/2.
        assert 2 * math.sqrt(0.5) / mechanism.sensitivity - 1e-5 < distance(base, other) * mechanism.spacing / mechanism.sensitivity <= 1


def test_replace_one_sensitivity_without_a_centre():
    """The closed form against a search over pairs of records."""
    rng = np.random.default_rng(0)
    for share in (0.05, 0.3, 0.5, 0.9):
        estimator = BayesianLogisticRegression(center=False, linear_share=share)
        model = _Model(estimator, module.check_rows(np.ones((4, 2)), np.array([0.0, 1, 0, 1])))
        a, b, t = math.sqrt(share), math.sqrt(1 - share), rng.random(200_000)
        s1, s2 = rng.choice([0.0, b], 200_000), b
        squares = 4 * a * a * (1 + t) / 2 + s1**2 + s2**2 - 2 * s1 * s2 * t**2
        bound = model.sensitivity("replace_one") ** 2
        assert bound <= 4
        # The search misses the maximum by the spacing of 200,000 points.
        assert squares.max() <= bound * (1 + 1e-12) and squares.max() > bound * (1 - 1e-3)
    paper = BayesianLogisticRegression(center=False, update="paper", sensitivity="paper", n_steps=1, noise_multiplier=1.0)
    X, y, _ = data(100, 2)
    # Eqs. 57 and 59 are above what is needed for either relation, so the guarantee covers the fit.
    assert paper.fit(X, y).privacy_.private


@pytest.mark.parametrize("form", ["centred", "uncentred", "all to s1"])
@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_contributions_are_functions_of_the_record(form, step, storage):
    """Records alone, together, in another order and on 16 threads: the same integers before rounding, and after it the same bits for the same set."""
    X, y, _ = data(300, 9)
    X, y = storage(X), y.astype(float)
    whole, _ = lattice_sum(X, y, step, n_records=300, **FORMS[form])
    order = np.random.default_rng(1).permutation(300)
    shuffled, _ = lattice_sum(X[order], y[order], step, n_records=300, **FORMS[form])
    np.testing.assert_array_equal(whole, shuffled)
    for n_threads in (2, 7, 16):
        threaded, _ = lattice_sum(X, y, step, n_threads=n_threads, n_records=300, **FORMS[form])
        np.testing.assert_array_equal(whole, threaded)
    parts = sum(lattice_sum(X[[i]], y[i : i + 1], step, n_records=300, **FORMS[form])[0] for i in range(300))
    d = 10
    np.testing.assert_array_equal(parts[:d], whole[:d])
    # Each single sum of s2 was rounded: half a unit each.
    assert np.abs(parts[d:] - whole[d:]).max() <= 150
    model, mechanism = prepared(X, y, step, n_records=300, **FORMS[form])
    twice = [np.zeros(model.statistics_shape, np.int64) for _ in range(2)]
    model.estep(np.arange(300), None, mechanism.spacing, twice[0], 1)
    model.estep(np.arange(100), None, mechanism.spacing, np.zeros(model.statistics_shape, np.int64), 1)
    model.estep(np.arange(300), None, mechanism.spacing, twice[1], 1)
    np.testing.assert_array_equal(twice[0], twice[1])


@pytest.mark.parametrize("z", [1.0, 5.0])
def test_mu_of_one_step(z):
    """Gaussian-DP: the releases of two worst-case neighbours are 1/z standard deviations apart, and no more."""
    n_draws, d = 4000, 2
    X, y, _ = data(20, d)
    worst = np.array([[5.0, 0.0]])
    releases = []
    for rows, labels in ((X, y), (np.vstack([X, worst]), np.append(y, 1))):
        sums, mechanism = lattice_sum(rows, labels, 0, z=z, intercept_scaling=1e-3)
        draws = np.tile(sums, (n_draws, 1))
        mechanism.add_noise(draws, None)
        releases.append(draws * mechanism.spacing)
    # The best test looks along the difference of the means; a third of the draws finds it.
    third = n_draws // 3
    direction = releases[1][:third].mean(axis=0) - releases[0][:third].mean(axis=0)
    sums = [lattice_sum(r, v, 0, z=z, intercept_scaling=1e-3)[0] for r, v in ((X, y), (np.vstack([X, worst]), np.append(y, 1)))]
    exact = (sums[1] - sums[0]).astype(float)
    for w in (direction, exact):
        a, b = releases[0][third:] @ w, releases[1][third:] @ w
        mu = (b.mean() - a.mean()) / math.sqrt((a.var() + b.var()) / 2)
        # Standard error of mu with 2,667 draws a side, 5 of them: a false alarm in 10^6.
        error = 5 * math.sqrt(2 / (n_draws - third) * (1 + mu * mu / 4))
        assert mu - error <= 1 / z
    assert mu + error >= 1 / z


# --------------------------------------------------------------- the M-step


def wigner(rng, d, sd):
    noise = np.triu(rng.normal(size=(d, d)) * sd)
    return noise + np.triu(noise, 1).T


@pytest.mark.parametrize("large", [False, True])
def test_spectrum_follows_the_law_of_the_noise(monkeypatch, large):
    """Three eigenvalues above what the noise can hide: size and overlap as the theory says."""
    if large:
        monkeypatch.setattr(module, "_LARGE", 10)
    d, sd = 400, 0.5
    rng = np.random.default_rng(0)
    hidden = sd * math.sqrt(d)
    vectors = np.linalg.qr(rng.normal(size=(d, 3)))[0]
    true = np.array([1.5, 3.0, 10.0]) * hidden
    spectrum = _Spectrum((vectors * true) @ vectors.T + 0.1 * np.eye(d) + wigner(rng, d, sd), sd)
    assert spectrum.vectors.shape == (d, 3) and spectrum.bulk_upper == hidden
    # Fluctuations are of the order of sd = hidden / 20.
    np.testing.assert_allclose(spectrum.upper, true + 0.1, atol=4 * sd)
    overlap = (np.abs(vectors.T @ spectrum.vectors) ** 2).max(axis=0)
    np.testing.assert_allclose(overlap, 1 - (hidden / true) ** 2, atol=0.08)
    assert spectrum.bulk_likely == pytest.approx(0.1, abs=0.1)
    np.testing.assert_allclose(spectrum.likely, spectrum.upper * overlap, atol=0.08 * true.max())
    # Nothing but noise: nothing shows (the edge's fluctuations are of the order of d^(-2/3)).
    empty = _Spectrum(0.9 * wigner(rng, d, sd), sd)
    assert empty.vectors.shape == (d, 0)
    v = rng.normal(size=d)
    np.testing.assert_allclose(spectrum.matrix(spectrum.upper, 0.3) @ v, spectrum.apply(spectrum.upper, 0.3, v))


def test_lanczos_agrees_with_the_full_decomposition(monkeypatch):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(300, 12)) * 4
    matrix = A @ A.T + wigner(rng, 300, 1.0)
    full = _Spectrum(matrix, 1.0)
    monkeypatch.setattr(module, "_LARGE", 10)
    few = _Spectrum(matrix, 1.0)
    np.testing.assert_allclose(np.sort(few.upper), np.sort(full.upper), rtol=1e-4)
    np.testing.assert_allclose(few.matrix(few.upper, 0.0), full.matrix(full.upper, 0.0), atol=1e-2 * full.upper.max())
    # Many shown eigenvalues: falls back on the direct method.
    many = _Spectrum(np.diag(np.arange(300.0)) + wigner(rng, 300, 0.1), 0.1)
    assert len(many.upper) > 250


def test_curvature_ratio():
    assert curvature_ratio(0.0, 1.0) == pytest.approx(1.0)
    assert curvature_ratio(-1.0, 1.0) == pytest.approx(1.0)
    rng = np.random.default_rng(0)
    for c in (0.5, 1.0, 2.0, 4.0):
        a = c * rng.normal(size=400_000)
        p = expit(a)
        truth = (p * (1 - p)).mean() / reference.pg_mean(a).mean()
        moment = c * math.tanh(c / 2) / 2
        # 400,000 draws give three digits.
        assert curvature_ratio(moment, 1.0) == pytest.approx(max(truth, 0.55), rel=5e-3)
        assert curvature_ratio(3 * moment, 3.0) == pytest.approx(curvature_ratio(moment, 1.0))
    assert curvature_ratio(1e6, 1.0) == 0.55


def test_noise_of_the_two_forms():
    """Off the diagonal 1/sqrt(2) of the diagonal's, or the same."""
    X, y, _ = data(50, 8)
    coordinates = np.random.default_rng(0).normal(size=9 + triangle_size(9))
    for form, ratio in (("orthonormal", 1 / math.sqrt(2)), ("analyze_gauss", 1.0)):
        model, _ = prepared(X, y, 1, form=form)
        matrix = model._unpack(coordinates)
        np.testing.assert_array_equal(matrix, matrix.T)
        upper = np.triu_indices(9)
        scale = np.where(upper[0] == upper[1], 1.0, ratio)
        np.testing.assert_allclose(matrix[upper], coordinates[9:] * scale)


def test_the_papers_update_step_by_step():
    """Algorithm 5 without noise against numpy: running average of natural parameters from the prior."""
    X, y, _ = data(400, 3)
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
    model = BayesianLogisticRegression(
        noise_multiplier=0.0, center=False, update="paper", learning_decay=0.8, learning_offset=3.0, n_steps=6
    ).fit(X, y)
    np.testing.assert_allclose(np.append(model.coef_[0], model.intercept_), mean, rtol=1e-3)
    np.testing.assert_allclose(model.covariance_, covariance, rtol=1e-2, atol=1e-3 * covariance.max())


def test_the_papers_projection_leaves_no_negative_eigenvalue():
    X, y, _ = data(50, 8)
    model, _ = prepared(X, y, 1, center=False, update="paper")
    released = np.random.default_rng(0).normal(size=9 + triangle_size(9))
    before = model._unpack(released)
    first = released[:9].copy()
    model.project(released)
    values, vectors = np.linalg.eigh(before)
    np.testing.assert_allclose(model._unpack(released), (vectors * np.maximum(values, 0)) @ vectors.T, atol=1e-12)
    np.testing.assert_array_equal(released[:9], first)


def test_intervals_know_of_the_noise():
    """Coverage of 90 % intervals over 12 data sets: near nominal with noise-awareness, far below without."""
    covered = {True: [], False: []}
    for seed in range(12):
        X, y, m = data(8000, 8, seed=seed)
        for aware in covered:
            model = keyed(target_epsilon=0.5, target_delta=1e-5, noise_aware=aware).fit(X, y)
            interval = model.credible_interval(0.9)
            covered[aware].append(((interval[:, 0] <= m) & (m <= interval[:, 1])).mean())
    # 96 intervals: a standard error of 0.03 to 0.05. Seen: about 0.85 and 0.5.
    assert np.mean(covered[True]) > 0.72
    assert np.mean(covered[False]) < np.mean(covered[True]) - 0.15


def test_nonnegative_mean():
    """Against the integral."""
    grid = np.linspace(0, 60, 200_001)
    for observed, sd, prior in ((-20.0, 3.0, 1.0), (-1.0, 1.0, 5.0), (0.0, 2.0, 2.0), (4.0, 1.0, 3.0), (30.0, 0.5, 100.0)):
        log = -0.5 * ((observed - grid) / sd) ** 2 - grid / prior
        density = np.exp(log - log.max())
        got = nonnegative_mean(np.array([observed]), sd, prior)[0]
        # The grid's step is 3e-4.
        assert got == pytest.approx(float((grid * density).sum() / density.sum()), rel=1e-3, abs=2e-4)
    # Far below zero, where the formula has no digits left: sd / |z|.
    assert nonnegative_mean(np.array([-1e9]), 1.0, 1.0)[0] == pytest.approx(1e-9, rel=1e-3)
    assert (nonnegative_mean(np.linspace(-1e4, 1e4, 999), 1.0, 1.0) > 0).all()


def test_likely_matrix_keeps_what_shows_and_the_diagonal():
    rng = np.random.default_rng(0)
    d, sd = 120, 1.0
    vector = rng.normal(size=d)
    vector /= np.linalg.norm(vector)
    small = np.where(np.arange(d) < 60, 4.0, 0.0)
    noise = np.triu(rng.normal(size=(d, d)), 1)
    noise = sd * (noise + noise.T + np.diag(rng.normal(size=d)) * math.sqrt(2))
    truth = 500 * np.outer(vector, vector) + np.diag(small)
    spectrum = _Spectrum(truth + noise, sd)
    assert len(spectrum.upper) < 9 and spectrum.upper.max() == pytest.approx(500, rel=0.1)
    likely = spectrum.likely_matrix(truth + noise, math.sqrt(2) * sd)
    assert np.linalg.eigvalsh(likely).min() > -1e-9
    assert vector @ likely @ vector == pytest.approx(500, rel=0.1)
    inside = likely - np.outer(vector, vector) * (vector @ likely @ vector)
    # Noise of 1.4 an entry, 0.2 a mean of 60; the prior pulls both towards 2, which is what a uniform bulk would give.
    assert np.diag(inside)[:60].mean() > 2.6 and np.diag(inside)[60:].mean() < 1.6


def test_rare_columns_have_wide_intervals():
    """What a column of few records would say is hidden by the noise, and its interval says so."""
    rng = np.random.default_rng(0)
    n, common, rare = 20_000, 10, 20
    which = rng.choice(common + rare, size=n, p=[0.099] * common + [0.0005] * rare)
    X = sp.csr_array((np.ones(n), (np.arange(n), which)), shape=(n, common + rare))
    inside = []
    for run in range(6):
        weights = np.random.default_rng(run).normal(size=common + rare) * 2
        y = np.random.default_rng(100 + run).random(n) < expit(weights[which])
        model = BayesianLogisticRegression(target_epsilon=0.5, target_delta=1e-5, fit_intercept=False).fit(X, y)
        low, high = model.credible_interval(0.9).T
        inside.append((low <= weights) & (weights <= high))
        width = high - low
        assert width[common:].min() > 1.5 * width[:common].max()
    # 120 rare columns; 90 % less three standard deviations (0.027 each), and half that for what is approximate.
    assert np.mean(inside, axis=0)[common:].mean() > 0.78


def test_centre_and_floor_help():
    """At a small budget: centred above uncentred above the paper's update, in test AUC."""
    X, y, m = data(12_000, 30, scale=8.0)
    train, test = slice(0, 10_000), slice(10_000, None)
    options = dict(target_epsilon=0.3, target_delta=1e-4)

    def score(**kwargs):
        return auc(y[test], keyed(**options, **kwargs).fit(X[train], y[train]).decision_function(X[test]))

    centred, uncentred = score(), score(center=False)
    paper = score(center=False, update="paper", form="analyze_gauss", sampling="poisson", batch_size=100, n_steps=50)
    # One run each with a fixed key; the gaps seen are about 0.03 and 0.05.
    assert centred > uncentred > paper


# ---------------------------------------------------------------- read-outs


def test_predictive_probabilities_average_over_the_posterior():
    X, y, _ = data(300, 3)
    model = keyed(target_epsilon=2.0).fit(X, y)
    rng = np.random.default_rng(0)
    design = np.hstack([X, np.ones((300, 1))])
    design *= np.minimum(1, math.sqrt(2) / np.linalg.norm(design, axis=1))[:, None]
    weights = rng.multivariate_normal(np.append(model.coef_[0], model.intercept_), model.covariance_, size=20_000)
    p = expit(design @ weights.T).mean(axis=1)
    # 20,000 draws: a standard error below 0.0036.
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], p, atol=0.018)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    # Uncertainty pulls towards 1/2.
    plug_in = expit(model.decision_function(X))
    assert (np.abs(model.predict_proba(X)[:, 1] - 0.5) <= np.abs(plug_in - 0.5) + 1e-12).all()


def test_long_rows_are_scaled_in_fit_and_in_prediction():
    X, y, _ = data(500, 3)
    model = keyed(row_norm=0.5).fit(X, y)
    far = X[:5] * 100
    bound = math.hypot(0.5, 1.0)
    full = np.hstack([far, np.ones((5, 1))])
    full *= (bound / np.linalg.norm(full, axis=1))[:, None]
    np.testing.assert_allclose(model.decision_function(far), full @ np.append(model.coef_[0], model.intercept_))


@pytest.mark.parametrize("kwargs", [{}, {"fit_intercept": False}, {"intercept_scaling": 3.0}])
def test_save_and_load(tmp_path, kwargs):
    X, y, _ = data(300, 3)
    model = BayesianLogisticRegression(linear_share=(0.4, 0.9), **kwargs).fit(X, np.array(["no", "yes"])[y])
    model.save(tmp_path / "model")
    loaded = BayesianLogisticRegression.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(loaded.intercept_, model.intercept_)
    assert loaded.privacy_ == model.privacy_ and loaded.n_steps_ == model.n_steps_
    assert loaded.prior_precision_ == model.prior_precision_


def test_scikit_learn_conventions():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier
    from sklearn.model_selection import cross_val_score

    model = BayesianLogisticRegression(private=False, row_norm=2.0)
    assert is_classifier(model) and clone(model).get_params() == model.get_params()
    X, y, _ = data(400, 3)
    assert (cross_val_score(model, X, y, cv=3) > 0.6).all()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        model.predict(X)


# ----------------------------------------------------------------- bad input


X, Y, _ = data(40, 3)
NAN = float("nan")


@pytest.mark.parametrize(
    ("params", "arguments", "error", "text"),
    [
        ({}, {"y": np.zeros(40)}, ValueError, "y has 1 different labels: expected 2"),
        ({}, {"y": np.arange(40) % 3}, ValueError, "y has 3 different labels: expected 2"),
        ({}, {"y": np.where(np.arange(40) % 2, 1.0, NAN)}, ValueError, "y: expected two labels, found NaN"),
        ({}, {"y": np.array(["a", 1] * 20, dtype=object)}, TypeError, "y: expected labels of one kind"),
        ({}, {"y": Y[:-1]}, ValueError, "y has shape"),
        ({}, {"y": Y[:, None]}, ValueError, "y has shape"),
        ({}, {"X": np.where(X == X[3, 1], NAN, X)}, ValueError, "X: expected finite"),
        ({}, {"X": X[:, 0]}, ValueError, "X has dtype float64 and shape"),
        ({}, {"X": X.astype(str)}, ValueError, "expected a table of numbers"),
        ({}, {"X": sp.csr_array((40, 40_000))}, ValueError, "at most 32768"),
        ({}, {"X": X[:0], "y": Y[:0]}, ValueError, "y has 0 different labels"),
        ({"n_trials": 3}, {"y": Y * 4}, ValueError, "y: expected numbers of successes"),
        ({"n_trials": 3}, {"trials": np.full(40, 5)}, ValueError, "trials: expected numbers in"),
        ({"n_trials": 3}, {"trials": np.full(39, 2)}, ValueError, "trials has shape"),
        ({"n_trials": 3}, {"y": np.array(["a", "b"] * 20)}, TypeError, "y has dtype"),
        ({"n_trials": 0}, {}, ValueError, "n_trials=0"),
        ({"row_norm": 0}, {}, ValueError, "row_norm=0"),
        ({"row_norm": NAN}, {}, ValueError, "row_norm=nan"),
        ({"intercept_scaling": -1}, {}, ValueError, "intercept_scaling=-1"),
        ({"prior_rate": 0}, {}, ValueError, "prior_rate=0"),
        ({"residual_clip": 1.5}, {}, ValueError, "residual_clip=1.5"),
        ({"linear_share": 0}, {}, ValueError, "linear_share=0"),
        ({"linear_share": (1.0, 0.5)}, {}, ValueError, "linear_share=1.0"),
        ({"linear_share": (0.5, 0.5, 0.5)}, {}, ValueError, "expected a number or a pair"),
        ({"form": "paper"}, {}, ValueError, "form='paper'"),
        ({"update": "paper"}, {}, ValueError, "center=True"),
        ({"sensitivity": "paper"}, {}, ValueError, "sensitivity='paper'"),
        ({"center": "yes"}, {}, ValueError, "center='yes'"),
        ({"sampling": "poisson"}, {}, ValueError, "batch_size=None"),
        ({"sampling": "poisson", "batch_size": 41}, {}, ValueError, "batch_size=41"),
        ({"sampling": "poisson", "batch_size": 4, "neighbors": "replace_one"}, {}, ValueError, "neighbors='replace_one'"),
        ({"n_steps": 0}, {}, ValueError, "n_steps=0"),
        ({"n_records": 10}, {}, ValueError, "n_records=10"),
        ({"target_epsilon": -1}, {}, ValueError, "target_epsilon=-1"),
        ({"noise_multiplier": 1e6}, {}, ValueError, "noise_multiplier=1e.06"),
        ({"learning_decay": 2}, {}, ValueError, "learning_decay=2"),
    ],
)
def test_bad_input_spends_nothing(params, arguments, error, text):
    model = BayesianLogisticRegression(**params)
    with pytest.raises(error, match=text):
        model.fit(**({"X": X, "y": Y} | arguments))
    assert not hasattr(model, "ledger_")


def test_too_many_features_for_the_memory(monkeypatch):
    monkeypatch.setattr(module.os, "sysconf", lambda name: 4096 if name == "SC_PAGE_SIZE" else 2**12)
    wide = sp.random_array((40, 5000), density=0.01, rng=np.random.default_rng(0), format="csr")
    model = BayesianLogisticRegression()
    with pytest.raises(MemoryError, match=r"5001 features: the statistics need about 1\.\d GiB, and the machine has 0\.0 GiB"):
        model.fit(wide, Y)
    assert not hasattr(model, "ledger_")


def test_noise_too_coarse_for_the_dimension():
    wide = sp.random_array((40, 800), density=0.01, rng=np.random.default_rng(0), format="csr")
    with pytest.raises(ValueError, match="too large for 801 features"):
        BayesianLogisticRegression(noise_multiplier=5000.0).fit(wide, Y)


def test_bad_rows_in_prediction():
    model = BayesianLogisticRegression(private=False).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 columns: expected 3"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="X: expected finite"):
        model.predict_proba(np.full((1, 3), NAN))
    with pytest.raises(ValueError, match="y has shape"):
        model.score(X, Y[:-1])
    with pytest.raises(ValueError, match="level=1"):
        model.credible_interval(1)


# ------------------------------------------------------------------ real data


@pytest.fixture(scope="module")
def adult(data_dir):
    from vips_fast.data import read_adult

    folder = data_dir / "adult"
    table = read_adult(folder / "adult.data.gz", folder / "adult.test.gz")
    order = np.random.default_rng(0).permutation(len(table.y))
    cut = int(0.8 * len(order))
    train, test = order[:cut], order[cut:]
    return table.X[train], table.y[train], table.X[test], table.y[test]


def test_adult_without_privacy(adult):
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y, X_test, y_test = adult
    ours = BayesianLogisticRegression(private=False).fit(X, y)
    theirs = linear_model.LogisticRegression(max_iter=2000).fit(X, y)
    assert abs(auc(y_test, ours.decision_function(X_test)) - auc(y_test, theirs.decision_function(X_test))) < 0.002


@pytest.mark.parametrize(("epsilon", "least"), [(0.05, 0.878), (0.2, 0.892), (0.8, 0.897)])
def test_adult_with_privacy(adult, epsilon, least):
    X, y, X_test, y_test = adult
    model = keyed(row_norm=3.05, target_epsilon=epsilon, target_delta=1e-3).fit(X, y)
    # One run with a fixed key; over 20 runs the mean is 0.008 to 0.013 above `least` with a deviation below 0.004.
    assert auc(y_test, model.decision_function(X_test)) > least
