"""The mixture of answers, numbers and vectors. Its finds, the effect of noise, and its refusals."""

import subprocess
import sys
from copy import copy
from importlib import import_module

import numpy as np
import pytest
from ball_mean import model_of, sums_of
from scipy import sparse

from vips_fast import ColumnEncoder, GaussianMixture
from vips_fast.data import Schema
from vips_fast.data.schema import Column
from vips_fast.models.conjugate.model import checked_parameters
from vips_fast.report import html_report, make_dossier, part_of, short_report

FULL = dict(sampling="full", private=False, learning_decay=0.0)


def documents(n=3000, d=8, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, n)
    X = 0.6 * np.eye(3, d)[z] + 0.1 * rng.normal(size=(n, d))
    return X, z


def agreement(z, model, X):
    return import_module("sklearn.metrics").adjusted_rand_score(z, model.predict_proba(X).argmax(axis=1))


@pytest.mark.parametrize("case", ["several rows", "another n_records"])
def test_centers_are_those_of_rows(case):
    """Persons with one to three forms, or a public number that is off by a half: a share stays a share."""
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(6000), rng.integers(1, 4, 6000) if case == "several rows" else 1)
    chance = np.where(rng.random((len(who), 1)) < 0.4, [0.9, 0.1, 0.8, 0.2], [0.1, 0.9, 0.1, 0.7])
    X = (rng.random(chance.shape) < chance).astype(float)
    n = 6000 if case == "several rows" else 4000
    model = GaussianMixture(2, radius=2.0, epsilon=2.0, n_records=n, random_state=0)
    model.set_unsafe(test_key=bytes(32)).fit(X, groups=who)
    assert model.means_.max() < 1.0 and np.allclose(model.weights_ @ model.means_, X.mean(axis=0), atol=0.05)
    assert model.verdict_.worth == "useful"


def test_vectors_without_noise_are_the_textbook_iteration():
    X, _ = documents(500)
    model = GaussianMixture(3, n_steps=3, random_state=4, **FULL).fit(X)
    weights, variance = np.full(3, 1 / 3), 0.25 / 8
    means = np.random.default_rng(4).normal(0, 1, (3, 8)) * (0.5 / np.sqrt(8))
    short = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    for _ in range(3):
        log = np.log(weights) - ((short[:, None] - means) ** 2).sum(axis=2) / (2 * variance)
        r = np.exp(log - log.max(axis=1, keepdims=True))
        r /= r.sum(axis=1, keepdims=True)
        counts = r.sum(axis=0)
        means = r.T @ short / counts[:, None]
        weights = (1 + counts) / (3 + 500)
        between = (counts / 500) @ ((means - short.mean(axis=0)) ** 2).sum(axis=1) + (short.mean(axis=0) ** 2).sum()
        variance = ((short**2).sum() / 500 - between) / 8
    with pytest.raises(ValueError, match="found NaN or a missing value in column 1 .*; fill it in, or leave .* out$"):
        model.predict(np.where(np.arange(8) == 1, np.nan, X[:2]))
    # float32 records, and a lattice of 2^-29 or so of the bound.
    np.testing.assert_allclose(model.means_, means, atol=1e-5)
    np.testing.assert_allclose(model.weights_, weights, atol=1e-6)
    np.testing.assert_allclose(model.variance_, variance, rtol=1e-4)


def test_a_projection_is_the_same_bits_in_any_company_and_nearly_the_product():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64, 384)) * 10.0 ** rng.uniform(-30, 30, (64, 1))
    model = GaussianMixture(2, projection=16)
    together = model.records(X)
    for i in range(0, 64, 7):
        np.testing.assert_array_equal(model.records(X[i : i + 1])[0], together[i])
        np.testing.assert_array_equal(model.records(np.asfortranarray(X[i:]))[0], together[i])
    frame = model._matrix(384)
    np.testing.assert_allclose(frame.T @ frame, np.eye(16) * 384 / 16, atol=1e-10)
    exact = X @ frame
    # Each entry loses 2^-20 of the largest of its row, and of the frame: some 400 of them.
    scale = abs(X).max(axis=1, keepdims=True) * abs(frame).max()
    assert (abs(together - exact) <= 1e-3 * scale).all()
    given = GaussianMixture(2, projection=frame).records(X)
    np.testing.assert_array_equal(given, together)


def test_the_radius_is_a_change_of_units_and_longer_records_count_as_on_it():
    X, z = documents(2000)
    settings = dict(n_steps=8, random_state=1, **FULL)
    one, two = (GaussianMixture(3, radius=radius, **settings).fit(X * radius) for radius in (1.0, 8.0))
    np.testing.assert_allclose(two.means_, 8.0 * one.means_, rtol=1e-6)
    np.testing.assert_allclose(two.variance_, 64.0 * one.variance_, rtol=1e-6)
    np.testing.assert_allclose(two.score(X * 8.0), one.score(X) - 8 * np.log(8.0), rtol=1e-6)
    assert agreement(z, two, X * 8.0) == agreement(z, one, X)
    on_it = X / np.linalg.norm(X, axis=1, keepdims=True)
    short, long = (GaussianMixture(3, **settings).fit(on_it * scale) for scale in (1.0, 1e6))
    np.testing.assert_allclose(short.means_, long.means_, atol=1e-6)
    assert np.linalg.norm(long.means_, axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize("law, alike, worth", [([0.5, 0.5, 0.0], 0.0, "no better"), ([0.9, 0.06, 0.04], 0.7, "useful")])
def test_the_verdict_is_about_questions(law, alike, worth):
    """Columns of one question tell each other, which is no finding. Of a variance that all share rare answers count."""
    rng, n = np.random.default_rng(0), 6000
    usual = rng.random((n, 1))
    answers = np.searchsorted(np.cumsum(law), np.where(rng.random((n, 8)) < alike, usual, rng.random((n, 8))))
    schema = Schema(tuple(Column(f"q{j}", "category", values=("a", "b", "c")) for j in range(8)))
    X = ColumnEncoder(schema).transform({f"q{j}": np.array(["a", "b", "c"])[answers[:, j]] for j in range(8)})
    model = GaussianMixture(3, radius=schema.row_norm, epsilon=4.0, random_state=0).set_unsafe(test_key=bytes(32))
    assert model.fit(X, inputs=schema).verdict_.worth == worth, model.verdict_


def test_entries_of_one_place_add_up_beyond_their_type():
    parts = sparse.coo_array((np.full(3, 100, np.uint8), ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    whole = np.array([[200.0, 0.0], [0.0, 100.0]])
    fits = [GaussianMixture(2, radius=200.0, n_steps=2, random_state=0, **FULL).fit(rows) for rows in (parts, whole)]
    np.testing.assert_array_equal(*(model.means_ for model in fits))
    np.testing.assert_array_equal(*(model.predict(rows) for model, rows in zip(fits, (parts, whole), strict=True)))


def test_answers_have_the_shares_of_their_kind():
    """One column for each choice of three questions, so a record has three ones."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 4000)
    X = np.concatenate([np.eye(4)[(2 * z + rng.integers(0, 2, 4000)) % 4] for _ in range(3)], axis=1)
    for spent in (FULL, dict(epsilon=2.0)):
        model = GaussianMixture(2, radius=3**0.5, random_state=1, **spent).fit(X)
        shares = np.array([X[z == kind].mean(axis=0) for kind in (0, 1)])
        assert agreement(z, model, X) > 0.99
        assert min(abs(model.means_[order] - shares).max() for order in ([0, 1], [1, 0])) < 0.05


def test_scores_as_scikit_learn():
    mixture = import_module("sklearn.mixture")
    X, z = documents(6000)
    ours = GaussianMixture(3, n_steps=40, random_state=0, **FULL).fit(X)
    theirs = mixture.GaussianMixture(3, covariance_type="spherical", random_state=0, n_init=3).fit(X)
    assert agreement(z, ours, X) > 0.99
    # One variance for three alike: a few parameters of thousands of records, and those beyond the radius.
    assert abs(ours.score(X) - theirs.score(X)) < 0.05


def test_a_component_names_each_question_once_by_shares():
    """Its value that is more frequent than elsewhere; noise makes means below 0, which no share is."""
    schema = Schema(tuple(Column(f"q{j}", "category", values=("no", "yes")) for j in range(4)))
    X = np.tile(np.repeat(np.eye(2), 2, axis=0), (100, 4))
    settings = dict(radius=2.0, n_steps=2, noise_multiplier=9.0, random_state=0)
    model = GaussianMixture(3, **settings).set_unsafe(test_key=bytes(32)).fit(X, inputs=schema)
    part, columns = part_of(model), schema.feature_names
    dossier = make_dossier(model)
    assert dossier.title == "Mixture" and {row[0] for row in dossier.learned.table} == {"1", "2", "3"}
    assert "Components by share" in html_report(model)
    for marks in part.marks(model, columns, 8):
        assert sorted(mark.partition("=")[0] for mark in marks.split(", ")) == ["q0", "q1", "q2", "q3"]
    cells = np.array(part.cells(model, columns)[1], float)
    assert model.means_.min() < 0 <= cells.min() and cells.max() <= 1
    listed = [line for line in short_report(dossier).splitlines() if "q0=" in line]
    assert len(listed) == 3 and all(len(line) < 80 for line in listed)


def units_of(model, X, groups):
    run = model.prepare(X, groups=groups)
    run.model.prepare(run.plan.mechanism, run.plan.sampler)
    run.model.parameters = checked_parameters(model._parameters(np.full(2, 0.5), np.eye(2, 4, -1), 1e-3))
    sums = np.array([sums_of(run.model, run.records, [unit]) for unit in range(run.records.n_rows)])
    return sums.astype(object), run.model, run.plan.mechanism


@pytest.mark.parametrize("clip_norm", [None, 0.5])
@pytest.mark.parametrize("noise", [1.0, 1e4])
@pytest.mark.parametrize("rows", [1, 3])
def test_replacing_a_unit_costs_what_the_furthest_pair_does(rows, noise, clip_norm):
    """The furthest are a record and its negative, in one certain component; lattices are fine and coarse."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(64 * rows, 4)) * 10.0 ** rng.uniform(-2, 1, (64 * rows, 1))
    X = np.vstack([np.repeat(np.vstack([np.eye(4), -np.eye(4)]), rows, axis=0), X])
    settings = dict(sampling="full", options={"relation": "replace_one"}, n_steps=2, noise_multiplier=noise)
    sums, model, mechanism = units_of(GaussianMixture(2, clip_norm=clip_norm, **settings), X, np.arange(len(X)) // rows)
    squares = ((sums[:, None] - sums[None]) ** 2).sum(axis=2)
    declared = mechanism.sensitivity / mechanism.spacing
    assert mechanism.sensitivity == pytest.approx(2.0 * (1.0 if clip_norm is None else 0.5 / 1.5**0.5), rel=1e-9)
    assert squares.max() <= declared**2 and squares.max() ** 0.5 > (0.999 if noise == 1.0 else 0.95) * declared
    # What truncation may add has its room.
    longest = (sums**2).sum(axis=1).max() ** 0.5
    assert longest + model.shape[0] ** 0.5 * model.clip / mechanism.sensitivity <= model.clip / mechanism.spacing


def test_mixtures_are_fitted_without_numba():
    code = """if True:
        import sys
        sys.modules["numba"] = None
        import numpy as np
        from vips_fast import DocumentClusters, GaussianMixture, PublicVectors
        X = np.eye(3)[np.arange(300) % 2]
        known = PublicVectors(np.eye(3), np.eye(3), np.ones(3), ["a", "b", "c"], np.eye(3), "a test")
        for model in (GaussianMixture(2, epsilon=4.0), DocumentClusters(2, public=known, epsilon=4.0)):
            model.fit(X).predict(X)
            model.expected_statistics(X)
        print([name for name in sys.modules if name.startswith(("numba.", "llvmlite"))])
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


class OwnShapes(GaussianMixture):
    def start(self, n_columns, rng):
        return super().start(n_columns + 1, rng)


class OwnSize(GaussianMixture):
    def n_statistics(self, n_columns):
        return super().n_statistics(n_columns) + 1


@pytest.mark.parametrize("kind", [OwnShapes, OwnSize])
def test_parameters_that_the_kernel_does_not_know_are_refused_before_the_fit(kind, tmp_path):
    with pytest.raises(ValueError, match="statistics of your own"):
        kind(2, noise_multiplier=1.0).fit(np.eye(4), transcript=tmp_path / "releases")
    assert not (tmp_path / "releases").exists()


class OwnStatistics(GaussianMixture):
    @staticmethod
    def statistics(records, parameters, out):
        for i in range(len(records)):
            out[i, 0] = records[i, 0]


class OwnBound(GaussianMixture):
    def norm_bound(self, n_columns):
        return 4.0


class OwnStart(GaussianMixture):
    def start(self, n_columns, rng):
        constant, slope, _, *more = super().start(n_columns, rng)
        return constant, slope, [0.0], *more


def test_statistics_of_a_subclass_take_the_place_of_the_kernel():
    model, _ = model_of(OwnStatistics(2), np.eye(4))
    assert model.evaluate(np.eye(4))[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", [OwnStatistics, OwnBound, OwnStart])
def test_a_subclass_is_held_to_its_norm_alone(kind):
    settings = dict(noise_multiplier=1.0, n_steps=2, sampling="full", options={"relation": "replace_one"})
    mechanism = kind(2, **settings).prepare(np.eye(4)).plan.mechanism
    assert mechanism.sensitivity == 2.0 * mechanism.clip_norm


def test_functions_set_on_an_object_are_held_to_the_norm_alone():
    """The proof of the bound is about the package's functions: a start with w = 0 takes x and -x 2 C apart."""
    settings = dict(clip_norm=0.9, noise_multiplier=1.0, sampling="full", options={"relation": "replace_one"})
    start, bound, step, inner = (GaussianMixture(1, **settings) for _ in range(4))
    start.start = lambda n_columns, rng: OwnStart(1).start(n_columns, rng)
    bound.norm_bound = lambda n_columns: 100.0
    step.mstep = lambda mean, noise_sd, parameters: (*parameters[:2], [0.0], *parameters[3:])
    inner._parameters = lambda weights, means, variance: (0 * weights, 0 * means, [0.0], weights, means, [variance])
    X = np.array([[1.0], [-1.0]])
    for model in (start, bound, step, inner, copy(start)):
        run = model.prepare(X)
        mechanism = run.plan.mechanism
        run.model.prepare(mechanism, run.plan.sampler)
        one, other = (sums_of(run.model, run.records, [row]) for row in range(2))
        assert np.linalg.norm(one - other) * mechanism.spacing <= mechanism.sensitivity == 2.0 * mechanism.clip_norm


def test_statistics_set_on_an_object_are_refused_before_the_fit(tmp_path):
    model = GaussianMixture(2, noise_multiplier=1.0)
    model.statistics = OwnStatistics.statistics
    with pytest.raises(TypeError, match="subclass of GaussianMixture"):
        model.fit(np.eye(4), transcript=tmp_path / "releases")
    assert not (tmp_path / "releases").exists()


def test_responsibilities_are_posteriors_under_the_released_weights():
    X, _ = documents(6000)
    X = X[:5000] * np.linspace(0.2, 1.0, 5000)[:, None]
    model = GaussianMixture(2, private=False, n_steps=5, random_state=0).fit(X)
    assert np.ptp(model.weights_) > 0.1
    squares = ((X[:, None] - model.means_) ** 2).sum(axis=2)
    expected = np.exp(np.log(model.weights_) - squares / (2 * model.variance_))
    short = np.linalg.norm(X, axis=1) <= 1.0
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X)[short], expected[short], atol=1e-4)
