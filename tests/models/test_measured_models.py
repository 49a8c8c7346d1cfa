"""Mixtures and networks measure themselves in the last step of a fit.

The gain and the verdict.
"""

import numpy as np
import pytest

from vips_fast import ClassConditionalNetwork, GaussianMixture, SigmoidBeliefNetwork
from vips_fast.engine.gain import Score
from vips_fast.models.sbn import NetworkOptions

N = 4000
NETWORKS = (SigmoidBeliefNetwork, ClassConditionalNetwork)
ALL = pytest.mark.parametrize("kind", [GaussianMixture, *NETWORKS])


def data(kind, n=N, apart=1.0, seed=0):
    """Arguments of a fit: three clusters, or two hidden causes in each of two classes; one of all if ``apart`` is 0."""
    rng = np.random.default_rng(seed)
    if kind in NETWORKS:
        parts = np.random.default_rng(5).random((2, 2, 16)) < 0.4
        label, z = rng.integers(0, 2, n), rng.random((n, 2)) < 0.5
        logits = 4.0 * apart * np.einsum("nk,nkj->nj", z, parts[label]) - 2.0 * apart
        X = (rng.random((n, 16)) < 1 / (1 + np.exp(-logits))).astype(np.uint8)
        return (X, label) if kind is ClassConditionalNetwork else (X,)
    z = rng.integers(0, 3, n)
    centers = rng.standard_normal((3, 12))
    centers *= 0.6 * apart / np.linalg.norm(centers, axis=1)[:, None]
    return (centers[z] + 0.1 * rng.standard_normal((n, 12)),)


def make(kind, measure=None, **settings):
    settings = {"random_state": 0, **settings}
    if kind not in NETWORKS:
        return kind(3, **settings)
    own = {"classes": [0, 1]} if kind is ClassConditionalNetwork else {}
    return kind(4, options=NetworkOptions(measure_gain=measure), delta=1e-5, **own, **settings)


def fitted(kind, records, seed=0, **settings):
    """Return a fit with known noise. The assertions below would fail by chance in one of twenty."""
    return make(kind, **settings).set_unsafe(test_key=seed.to_bytes(32)).fit(*records)


@ALL
def test_parts_that_are_there_are_useful_and_others_are_not(kind):
    spent = dict(epsilon=4.0) if kind in NETWORKS else dict(noise_multiplier=3.0)
    good = fitted(kind, data(kind), **spent)
    assert good.found_gain_.low > 0.02 and good.verdict_.worth == "useful"
    assert "half of a record's columns predict the other half" in good.verdict_.text
    none = fitted(kind, data(kind, apart=0.0), **spent)
    assert none.verdict_.worth in ("no better", "unclear")
    assert fitted(kind, data(kind, n=200), epsilon=0.5).verdict_.worth == "unclear"
    unmeasured = type("Off", (kind,), {"measure_gain": False}) if kind not in NETWORKS else kind
    off = {"measure": False} if kind in NETWORKS else {}
    off = fitted(unmeasured, data(kind), **spent, **off)
    assert off.found_gain_ is None and off.verdict_.text == ""


def test_which_runs_are_measured():
    X = data(SigmoidBeliefNetwork, 1000)
    for settings, found in ((dict(n_steps=9), False), (dict(n_steps=10), True)):
        assert (fitted(SigmoidBeliefNetwork, X, epsilon=2.0, **settings).found_gain_ is not None) == found
    persons = make(SigmoidBeliefNetwork, epsilon=4.0, n_records=250).fit(*X, groups=np.arange(1000) // 4)
    assert persons.found_gain_ is not None
    with pytest.raises(ValueError, match="measure_gain"):
        make(SigmoidBeliefNetwork, measure="yes").fit(*X)


def exact(model, *records):
    """Return a network's gain on other records, without noise."""
    restored = model._model(model._fitted().public)
    restored.restore(model._fitted().state)
    rows = np.column_stack(records)
    score, words = restored.gain_score(), np.random.default_rng(1).integers(0, 2**64, len(rows), dtype=np.uint64)
    found = score.rows(np.ascontiguousarray(rows, np.uint8), words, np.ones(len(rows), bool), 1.0).mean(axis=0)
    return Score.read(found, 0.0, 1.0, 1e12, score).found().gain


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_fit_predicts_its_own_records_no_better_than_others(kind):
    """Noise and shrinkage leave little of a record in the weights. The score needs no correction."""
    gaps = []
    for seed in range(8):
        records = data(kind, 600, seed=seed)
        model = fitted(kind, records, seed=seed, epsilon=8.0)
        gaps.append(exact(model, *records) - exact(model, *data(kind, 8000, seed=100 + seed)))
    assert exact(model, *records) > 0.02 and abs(np.mean(gaps)) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n, epsilon", [(1400, 1.0), (4000, 2.0)])
def test_the_interval_covers_the_true_gain(n, epsilon):
    hits = []
    for seed in range(100):
        model = fitted(SigmoidBeliefNetwork, data(SigmoidBeliefNetwork, n, seed=seed), seed=seed, epsilon=epsilon)
        low, high = model.found_gain_[1:]
        hits.append(low <= exact(model, *data(SigmoidBeliefNetwork, 60_000, seed=1000 + seed)) <= high)
    assert 0.84 <= np.mean(hits) <= 0.97
