"""Test more than two classes: one joint clip, one release a step."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from ball_mean import sums_of
from scipy.special import expit
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from vips_fast import BayesianLogisticRegression
from vips_fast.engine.gain import Score
from vips_fast.engine.model import Release
from vips_fast.models.logistic import multiclass
from vips_fast.models.logistic.model import Law

KEY = bytes(range(32))
IRIS, KINDS = load_iris(return_X_y=True)
# Public bounds in centimetres: sepals and petals of up to 8 and 4, halved.
IRIS = (IRIS - [6.0, 3.0, 4.0, 1.5]) / [2.0, 1.5, 3.0, 1.5]


def model(**settings):
    return BayesianLogisticRegression(**{"classes": [0, 1, 2], "row_norm": 2.0, "noise_multiplier": 1.0, **settings})


def prepare(X, y, groups=None, **settings):
    estimator = model(**{"n_steps": 9, **settings})
    run = estimator.prepare(X, y, groups=groups)
    run.model.prepare(run.plan.mechanism, run.plan.sampler)
    return run


def scrambled(run, seed, releases=2):
    rng = np.random.default_rng(seed)
    m, plan = run.model, run.plan
    for step in range(releases):
        scale = plan.mechanism.spacing / plan.sampler.expected_batch_size
        size = 10.0 ** rng.uniform(-3, 1) / math.sqrt(math.prod(m.shape))
        units = np.rint(rng.standard_normal(m.shape) * (size / scale)).astype(np.int64)
        m.update(Release(step, units, scale, size * rng.uniform(0.1, 2)))
    return run


def contribution(run, rows=slice(None)):
    """Some records' sum in units of the clip: gradients, then triangles in their orthonormal basis."""
    m, d = run.model, run.model.n_features
    out = sums_of(m, run.records, np.arange(run.records.n_rows)[rows])
    split = m.n_classes * d
    i, j = np.triu_indices(d)
    basis = np.tile(np.where(i == j, 1.0, math.sqrt(2)), m.n_classes)
    quadratic = out[split:] * m.lattice.factor_spacing**2 * basis
    return np.concatenate([out[:split] * m.lattice.spacing, quadratic])


def test_the_bound_is_attained_and_does_not_depend_on_the_label():
    """A long row is brought to the bound with its worst label. Every label has the same weight."""
    row, K = np.array([[2.0, 0.0]]), 5
    parts = []
    for label in range(K):
        run = prepare(np.repeat(row, K, axis=0), np.arange(K), classes=list(range(K)), fit_intercept=False)
        parts.append(contribution(run, slice(label, label + 1)))
    norms = [np.linalg.norm(part) for part in parts]
    assert (
        max(norms) == pytest.approx(run.model.lattice.clip_norm, rel=1e-4) and max(norms) <= run.model.lattice.clip_norm
    )
    # Each of the K triangles' 3 entries is rounded, by up to a unit of the lattice between neighbors.
    assert run.model.lattice.clip_norm + math.sqrt(3 * K) * run.model.lattice.spacing <= run.model.clip * (1 + 1e-12)
    np.testing.assert_array_equal([part[2 * K :] for part in parts], np.repeat(parts[0][None, 2 * K :], K, axis=0))


def test_without_noise_it_is_one_against_the_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)) / 2
    y = (X @ rng.normal(size=(4, 4)) * 1.5 + rng.gumbel(size=(5000, 4))).argmax(axis=1)
    fitted = model(private=False, noise_multiplier=None, classes=[0, 1, 2, 3], n_steps=60).fit(X, y)
    assert fitted.coef_.shape == (4, 4) and fitted.intercept_.shape == (4,)
    for k in range(4):
        alone = BayesianLogisticRegression(private=False, n_steps=60).fit(X, (y == k).astype(int))
        np.testing.assert_allclose(fitted.coef_[k], alone.coef_[0], atol=0.02)
        np.testing.assert_allclose(fitted.intercept_[k], alone.intercept_[0], atol=0.02)
        ratio = np.diag(fitted.covariance_[k]) / np.diag(alone.covariance_)
        np.testing.assert_allclose(ratio, 1, atol=0.05)


def test_probabilities_and_read_outs(tmp_path):
    y = np.array(["setosa", "versicolor", "virginica"])[KINDS]
    fitted = model(classes=sorted(set(y)), noise_multiplier=0.5).set_unsafe(test_key=KEY).fit(IRIS, y)
    p = fitted.predict_proba(IRIS)
    assert p.shape == (150, 3) and (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    decided = fitted.decision_function(IRIS)
    np.testing.assert_allclose(np.diff(decided, axis=1), np.diff(np.log(p), axis=1))
    assert (fitted.predict(IRIS) == fitted.classes_[p.argmax(axis=1)]).all()
    assert (fitted.predict(IRIS) == fitted.classes_[decided.argmax(axis=1)]).all()
    assert fitted.decision_variance(IRIS).shape == (150, 3)
    assert fitted.credible_interval().shape == (3, 4, 2) and fitted.covariance_.shape == (3, 5, 5)
    assert fitted.prior_precision_.shape == (3,)
    np.testing.assert_allclose(fitted.predict_proba(sp.csr_array(IRIS)), p)
    np.testing.assert_allclose(fitted.predict_proba(IRIS[::-1]), p[::-1])
    fitted.save(tmp_path / "m")
    np.testing.assert_array_equal(BayesianLogisticRegression.load(tmp_path / "m").predict_proba(IRIS), p)


def test_a_step_is_one_release_of_any_number_of_classes(tmp_path):
    """3 classes, a range here that a file can hold, have the guarantee of 2 at equal noise multiplier."""
    three = model(n_steps=4, classes=range(3)).fit(IRIS, KINDS)
    two = model(n_steps=4, classes=[0, 1]).fit(IRIS, KINDS > 0)
    assert three.privacy_.epsilon == two.privacy_.epsilon and len(three.ledger_) == len(two.ledger_) == 4
    three.save(tmp_path / "model")
    assert BayesianLogisticRegression.load(tmp_path / "model").classes_.tolist() == [0, 1, 2]


def test_digits():
    """1,797 images of 64 pixels in [0, 16], a public bound: classes and probabilities, beside none for privacy."""
    X, y = load_digits(return_X_y=True)
    X = (X / 8 - 1) / 8
    rows = np.random.default_rng(0).permutation(len(y))
    train, test = rows[:1437], rows[1437:]
    common = dict(classes=range(10), row_norm=1.0, noise_multiplier=None, n_jobs=1)
    plain = model(private=False, **common).fit(X[train], y[train])
    theirs = LogisticRegression(max_iter=2000).fit(X[train], y[train]).score(X[test], y[test])
    assert plain.score(X[test], y[test]) > theirs - 0.03
    # By the posterior the log loss was 1.2.
    fitted = model(epsilon=1.0, delta=1e-5, **common).set_unsafe(test_key=KEY)
    p = fitted.fit(X[train], y[train]).predict_proba(X[test])
    assert -np.log(p[np.arange(len(test)), y[test]]).mean() < 0.6
    assert fitted._fitted().state["class3.factor"][0] > 1
    np.testing.assert_array_equal(fitted.predict(X[test]), p.argmax(axis=1))


@pytest.mark.parametrize("scale, n_classes, epsilon", [(1.0, 3, 1.0), (2.0, 8, 4.0), (1.0, 4, None)])
def test_probabilities_of_several_classes_are_near_the_law_they_were_drawn_from(scale, n_classes, epsilon):
    """Beside the true probabilities: half of what dividing those of each class by their sum loses, or less."""
    rng = np.random.default_rng(n_classes)
    X = rng.normal(size=(24_000, 10)) / 4
    logits = X @ rng.normal(size=(10, n_classes)) * scale * 4 / np.sqrt(10)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    settings = dict(private=False) if epsilon is None else dict(epsilon=epsilon, delta=1e-5)
    fitted = model(classes=range(n_classes), row_norm=1.5, noise_multiplier=None, **settings)
    p = fitted.set_unsafe(test_key=KEY).fit(X[:20_000], y[:20_000]).predict_proba(X[20_000:])
    apart = expit(X[20_000:] @ fitted.coef_.T + fitted.intercept_)
    apart /= apart.sum(axis=1, keepdims=True)
    true = np.exp(logits[20_000:])
    true /= true.sum(axis=1, keepdims=True)
    losses = [-(true * np.log(each)).sum(axis=1).mean() for each in (true, p, apart)]
    assert losses[1] - losses[0] < 0.5 * (losses[2] - losses[0]), losses


@pytest.fixture
def finished(monkeypatch):
    """Make a model in the state before its factor is found."""
    kept = []
    monkeypatch.setattr(multiclass.OneVsRestModel, "judged", lambda self, score: kept.append(self))
    model(noise_multiplier=0.5).set_unsafe(test_key=KEY).fit(np.repeat(IRIS, 20, axis=0), np.repeat(KINDS, 20))
    monkeypatch.undo()
    return kept[0]


def factor_of(m, nats, sd):
    m._set_factor(2 / 3)
    m.judged(Score(np.array([nats]), sd, 1.0, 0.0, 0.0))
    return m.classes[0]._factor[0] / (2 / 3)


def test_the_measured_gain_tells_the_factor(finished):
    found = [factor_of(finished, nats, 0.02) for nats in (-2.0, 0.0, 0.3, 0.6, 2.0)]
    assert found[0] < 0.05 and (np.diff(found) > 0).all() and found[-1] > 2
    assert 0.1 < factor_of(finished, 0.0, 1e3) < 0.25
    np.testing.assert_array_equal([one._factor[0] for one in finished.classes], finished.classes[0]._factor[0])


def test_last_bits_of_the_second_moment_turn_no_draws(finished):
    """Columns that are alike have any eigenvectors: with draws along these the factor changed by a hundredth."""
    first, rng = finished.classes[0], np.random.default_rng(0)
    rows, found = np.diag([1.0, 1.0, 1.0, 1.0, first._constant**2]), []
    first._law = Law()
    for _ in range(5):
        bits = rng.integers(-1, 2, rows.shape) * 1e-15
        first._rows = rows + bits + bits.T
        found.append(factor_of(finished, 0.3, 0.1))
    np.testing.assert_allclose(found, found[0], rtol=1e-11)


@pytest.mark.parametrize("n_classes, d, n", [(3, 5, 250), (10, 10, 500)])
def test_where_noise_hides_all_probabilities_are_base_rates(n_classes, d, n):
    """Columns that say nothing: log loss was up to .5 above that of base rates."""
    rng, over = np.random.default_rng(d), []
    X, y = rng.uniform(-1, 1, (2 * n, d)) / np.sqrt(d), rng.integers(0, n_classes, 2 * n)
    for epsilon, seed in itertools.product((0.1, 1.0), range(4)):
        fitted = model(classes=range(n_classes), row_norm=1.0, noise_multiplier=None, epsilon=epsilon, delta=1e-5)
        fitted.set_unsafe(test_key=bytes([seed] * 32)).fit(X[:n], y[:n])
        p = fitted.predict_proba(X[n:])
        over.append(-np.log(p[np.arange(n), y[n:]]).mean() - math.log(n_classes))
    assert np.mean(over) < 0.02, over


def test_several_rows_of_a_person_tell_the_factor():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12_000, 2))
    y = (X @ [[2.0, -2.0, 0.0], [0.0, 1.0, -1.0]] + rng.gumbel(size=(12_000, 3))).argmax(axis=1)
    settings = dict(row_norm=2**0.5, noise_multiplier=None, epsilon=8.0, delta=1e-5)
    factors = []
    for groups in (None, np.arange(12_000) // 2):
        fitted = model(**settings).set_unsafe(test_key=KEY).fit(X, y, groups=groups)
        factors.append(fitted._fitted().state["class0.factor"][0] / (2 / 3))
    assert factors[1] == pytest.approx(factors[0], abs=0.05)
    assert factors[0] == pytest.approx(1.15, abs=0.02)  # 1 is best: these rows are uniform, and the draws normal


@pytest.mark.parametrize("how", [{"private": False}, {"epsilon": 1e3, "delta": 1e-5}])
def test_persons_of_several_rows_are_predicted_the_shares_of_their_classes(how):
    """All rows were added up as if a person had one: a class of 20 % was predicted next to nobody."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (12_000, 2)), np.where(rng.random(12_000) < 0.6, 2, rng.integers(0, 2, 12_000))
    fitted = model(row_norm=2**0.5, noise_multiplier=None, **how).fit(X, y, groups=np.arange(12_000) // 4)
    np.testing.assert_allclose(fitted.predict_proba(X).mean(axis=0), np.bincount(y) / 12_000, atol=0.02)


def test_a_run_that_is_resumed_before_its_measurements_finds_the_same_factor():
    """The first one tells it, and the second the gain with it."""
    first, resumed = (prepare(IRIS, KINDS, n_steps=10) for _ in range(2))
    scrambled(first, 0, releases=8)
    before, factors = first.model.state()["class0.factor"][0], []
    for seed in (1, 2):
        resumed.model.restore(first.model.state())
        after = [scrambled(run, seed, releases=1).model.state() for run in (first, resumed)]
        np.testing.assert_equal(*after)
        factors.append(after[0]["class0.factor"])
    assert before == pytest.approx(1.25 * 2 / 3) and factors[0][0] != before
    np.testing.assert_array_equal(*factors)
