"""Mixtures measure themselves in the last step of a fit. The gain, its bound, its purity and the verdict."""

import numpy as np
import pytest
from first_scores import begins, mutants_are_seen

from vips_fast import BernoulliMixture, GaussianMixture, VectorMixture
from vips_fast.audit import Sizes, audit, conjugate_adapter
from vips_fast.models.conjugate.score import ColumnPrediction
from vips_fast.models.rebuild import verify

N = 4000
# A score has few entries, so that 40,000 draws are 10,000 steps or more: other tests look at more.
SIZES = Sizes(pairs=40, records=12, draws=40_000, releases=1_200, runs=60, rows=2**13)


def data(kind, n=N, apart=1.0):
    """Records of three clusters, or with ``apart`` = 0 of one."""
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, n)
    if kind is BernoulliMixture:
        shares = 0.5 + apart * (rng.uniform(0.05, 0.95, (3, 20)) - 0.5)
        return (rng.random((n, 20)) < shares[z]).astype(np.uint8)
    centers = rng.standard_normal((3, 12))
    centers *= 0.6 * apart / np.linalg.norm(centers, axis=1)[:, None]
    return centers[z] + 0.1 * rng.standard_normal((n, 12))


ALL = pytest.mark.parametrize("kind", [BernoulliMixture, GaussianMixture, VectorMixture])


def known(kind):
    """Give a start near the centers, if the model needs one."""
    rng = np.random.default_rng(0)
    rng.integers(0, 3, N)
    centers = rng.standard_normal((3, 12))
    return {"means_init": 0.4 * centers / np.linalg.norm(centers, axis=1)[:, None]} if kind is GaussianMixture else {}


def fitted(kind, X, **settings):
    """Return a fit with known noise. The assertions below would fail by chance in one of twenty."""
    return kind(3, random_state=0, **settings).set_unsafe(test_key=bytes(32)).fit(X)


@ALL
def test_clusters_that_are_there_are_useful_and_others_are_noise(kind):
    good = fitted(kind, data(kind), noise_multiplier=3.0, **known(kind))
    assert good.found_gain_.low > 0.02 and good.verdict_.worth == "useful"
    assert "half of a record's columns predict the other half" in good.verdict_.text
    none = fitted(kind, data(kind, apart=0.0), noise_multiplier=3.0)
    assert none.verdict_.worth == "noise" and none.verdict_.text.startswith("Verdict: mostly noise")
    few = fitted(kind, data(kind, n=200), epsilon=0.5)
    assert few.verdict_.worth == "noise"
    off = fitted(type("Off", (kind,), {"measure_gain": False}), data(kind), noise_multiplier=3.0)
    assert off.found_gain_ is None and off.verdict_.text == ""


@ALL
def test_the_gain_is_the_same_for_threads_and_from_the_releases(kind, tmp_path):
    found = []
    for n_jobs in (1, 2):
        model = kind(3, noise_multiplier=3.0, random_state=0, n_steps=10, n_jobs=n_jobs)
        model.set_unsafe(test_key=bytes(32)).fit(data(kind), transcript=tmp_path / f"t{n_jobs}")
        found.append(model.found_gain_)
    assert found[0] == found[1] and found[0] is not None
    model.save(tmp_path / "m")
    assert verify(tmp_path / "m", tmp_path / "t2").ok


def prepare(kind, **settings):
    estimator = begins(kind)(3, noise_multiplier=3.0, random_state=0, sampling="full", **settings)
    return estimator.prepare(hostile(kind))


def hostile(kind):
    """Yield records that are hardly records, as a fit takes them. As far from the components as possible."""
    X = data(kind, 300).astype(np.float64)
    X[:7] = np.array([0.0, 1.0, -1e30, 1e30, 1e-30, 1e6, -1e6])[:, None]
    return X


@ALL
def test_a_row_is_within_the_bound_and_a_function_of_its_record(kind):
    stage, words = prepare(kind), np.random.default_rng(1).integers(0, 2**64, 300, dtype=np.uint64)
    score = stage.model.score
    assert isinstance(score, ColumnPrediction)
    every = np.arange(300)
    rows = score.rows(stage.records.block(every), words, np.ones(300, bool), 2.0)
    assert np.linalg.norm(rows, axis=1).max() <= 2.0 and rows.sum() > 0
    alone = [score.rows(stage.records.block(every[[i]]), words[[i]], np.ones(1, bool), 2.0)[0] for i in range(300)]
    np.testing.assert_array_equal(rows, alone)


@ALL
@pytest.mark.parametrize("layer", "AB")
def test_layers(kind, layer):
    adapter = conjugate_adapter(begins(kind)(2), data(kind, 60))
    adapter.tight = lambda relation: False
    adapter.adds_up = lambda: False
    report = audit(adapter, layers=layer, sizes=SIZES, random_state=0)
    assert report.passed, report.text()


def test_mutants(monkeypatch):
    def failed(layer):
        adapter = conjugate_adapter(begins(BernoulliMixture)(2), data(BernoulliMixture, 60))
        adapter.tight, adapter.adds_up = lambda relation: False, lambda: False
        report = audit(adapter, layers=layer, sizes=SIZES, random_state=0)
        return {check.name for each in report.layers for check in each.checks if not check.passed}

    mutants_are_seen(monkeypatch, ColumnPrediction, failed)
