"""Networks measure themselves in the last step of a fit. The gain, its bound, its purity, the audit and the verdict."""

import numpy as np
import pytest
from first_scores import FirstScore, begins, mutants_are_seen

from vips_fast import ClassConditionalNetwork, SigmoidBeliefNetwork
from vips_fast.audit import Sizes, audit
from vips_fast.audit.adapters import ClassesAdapter, SbnAdapter
from vips_fast.engine.gain import MeasuredModel, Score
from vips_fast.models.rebuild import verify
from vips_fast.models.sbn import NetworkOptions
from vips_fast.models.sbn.score import PixelPrediction

N = 4000
# A score has few entries, so that 40,000 draws are 10,000 steps or more: other tests look at more.
SIZES = Sizes(pairs=40, records=12, draws=40_000, releases=1_200, runs=60, rows=2**13)
BOTH = pytest.mark.parametrize("kind", [SigmoidBeliefNetwork, ClassConditionalNetwork])


def data(n=N, apart=1.0, seed=0):
    """Return records of two hidden causes, and their classes.

    In each of two classes; with ``apart`` = 0 the causes differ in none.
    """
    rng = np.random.default_rng(seed)
    parts = np.random.default_rng(5).random((2, 2, 16)) < 0.4
    label, z = rng.integers(0, 2, n), rng.random((n, 2)) < 0.5
    logits = 4.0 * apart * np.einsum("nk,nkj->nj", z, parts[label]) - 2.0 * apart
    return (rng.random((n, 16)) < 1 / (1 + np.exp(-logits))).astype(np.uint8), label


def network(kind, measure=None, **settings):
    own = {"classes": [0, 1]} if kind is ClassConditionalNetwork else {}
    settings = {"random_state": 0, "delta": 1e-5, **own, **settings}
    return kind(4, options=NetworkOptions(measure_gain=measure), **settings)


def fitted(kind, X, y, measure=None, seed=0, **settings):
    model = network(kind, measure, **settings).set_unsafe(test_key=seed.to_bytes(32))
    return model.fit(X, y if kind is ClassConditionalNetwork else None)


def exact(model, X, y):
    """Return the gain on other records, without noise."""
    restored = model._model(model._fitted().public)
    restored.restore(model._fitted().state)
    rows = np.column_stack([X, y]) if isinstance(model, ClassConditionalNetwork) else X
    score, words = restored.gain_score(), np.random.default_rng(1).integers(0, 2**64, len(X), dtype=np.uint64)
    found = score.rows(np.ascontiguousarray(rows, np.uint8), words, np.ones(len(X), bool), 1.0).mean(axis=0)
    return Score.read(found, 0.0, 1.0, 1e12, score).found().gain


@BOTH
def test_causes_that_are_there_are_useful_and_others_are_noise(kind):
    good = fitted(kind, *data(), epsilon=4.0)
    assert good.found_gain_.low > 0.02 and good.verdict_.worth == "useful"
    assert "half of a record's columns predict the other half" in good.verdict_.text
    assert fitted(kind, *data(apart=0.0), epsilon=4.0).verdict_.worth == "noise"
    assert fitted(kind, *data(n=200), epsilon=0.5).verdict_.worth == "noise"
    off = fitted(kind, *data(), measure=False, epsilon=4.0)
    assert off.found_gain_ is None and off.verdict_.text == ""


def test_which_runs_are_measured():
    X, y = data(1000)
    for settings, found in ((dict(n_steps=9), False), (dict(n_steps=10), True)):
        assert (fitted(SigmoidBeliefNetwork, X, y, epsilon=2.0, **settings).found_gain_ is not None) == found
    persons = network(SigmoidBeliefNetwork, epsilon=4.0, n_records=250).fit(X, groups=np.arange(1000) // 4)
    assert persons.found_gain_ is not None
    with pytest.raises(ValueError, match="measure_gain"):
        network(SigmoidBeliefNetwork, measure="yes").fit(X)


@BOTH
def test_a_fit_predicts_its_own_records_no_better_than_others(kind):
    """Noise and shrinkage leave little of a record in the weights. The score needs no correction."""
    gaps = []
    for seed in range(8):
        X, y = data(600, seed=seed)
        model = fitted(kind, X, y, seed=seed, epsilon=8.0)
        gaps.append(exact(model, X, y) - exact(model, *data(8000, seed=100 + seed)))
    assert exact(model, X, y) > 0.02 and abs(np.mean(gaps)) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n, epsilon", [(1400, 1.0), (4000, 2.0)])
def test_the_interval_covers_the_true_gain(n, epsilon):
    hits = []
    for seed in range(100):
        model = fitted(SigmoidBeliefNetwork, *data(n, seed=seed), seed=seed, epsilon=epsilon)
        low, high = model.found_gain_[1:]
        hits.append(low <= exact(model, *data(60_000, seed=1000 + seed)) <= high)
    assert 0.84 <= np.mean(hits) <= 0.97


@BOTH
def test_a_row_is_within_the_bound_and_a_function_of_its_record(kind):
    X, y = data(300)
    X[:2], X[2:4] = 0, 1
    stage = network(kind, noise_multiplier=3.0).prepare(X, y if kind is ClassConditionalNetwork else None)
    inner = stage.model.model
    for one in getattr(inner, "classes", [inner]):
        one.w, one.variances = 3.0 * one.start_weights, np.full(one.w.shape, 0.5)
        one.zeta, one.mean_image = np.full(4, 0.3), np.linspace(0.02, 0.9, 16)
        one._derive()
    score, words = inner.gain_score(), np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
    rows = score.rows(stage.records.block(np.arange(300)), words, np.ones(300, bool), 2.0)
    assert np.linalg.norm(rows, axis=1).max() <= 2.0 and rows[:, -1].sum() > 0
    for i in range(40):
        alone = score.rows(stage.records.block(np.array([i])), words[[i]], np.ones(1, bool), 2.0)
        np.testing.assert_array_equal(alone[0], rows[i])


@BOTH
def test_threads_and_releases_give_the_same(kind, tmp_path):
    X, y = data(1000)
    labels = y if kind is ClassConditionalNetwork else None
    found = []
    for n_jobs in (1, 2):
        model = network(kind, noise_multiplier=3.0, n_jobs=n_jobs).set_unsafe(test_key=bytes(32))
        found.append(model.fit(X, labels, transcript=tmp_path / f"t{n_jobs}").found_gain_)
    assert found[0] == found[1] and found[0] is not None
    model.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t2").ok


# -- the audit


def judged(adapter):
    """Return the step that is a score. The network has large weights."""

    class Judged(FirstScore, adapter):
        def sharp(self, stage):
            model = stage.model
            assert isinstance(model, MeasuredModel) and model.shape == (3,)
            for one in getattr(model.model, "classes", [model.model]):
                one.w = 3.0 * one.start_weights
                one._derive()
            model._begin()

    return Judged


def report_of(layers, kind=SigmoidBeliefNetwork):
    adapter = judged(SbnAdapter if kind is SigmoidBeliefNetwork else ClassesAdapter)
    own = {} if kind is SigmoidBeliefNetwork else {"classes": [0, 1]}
    settings = {"n_components": 2, "options": NetworkOptions(measure_gain=False), **own}
    return audit(adapter(settings, begins(kind)), layers=layers, sizes=SIZES, random_state=0)


def failed(layers):
    return {check.name for layer in report_of(layers).layers for check in layer.checks if not check.passed}


@BOTH
@pytest.mark.parametrize("layer", "ABC")
def test_layers(kind, layer):
    report = report_of(layer, kind)
    assert report.passed, report.text()


def test_mutants(monkeypatch):
    mutants_are_seen(monkeypatch, PixelPrediction, failed)
