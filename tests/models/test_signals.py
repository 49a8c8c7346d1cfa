"""Networks and mixtures: forecasts, true of data that they were not fitted on, and gains in the last step of a fit."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from cases import EVERY
from peers.mnist import read_idx
from sklearn.datasets import load_digits

from vips_fast import ClassConditionalNetwork, GaussianMixture, SigmoidBeliefNetwork
from vips_fast.engine.gain import Score
from vips_fast.models.forecast import HopelessWarning
from vips_fast.models.sbn import NetworkOptions

MNIST = Path(os.environ.get("VIPS_FAST_DATA", "../shared/data")) / "mnist"
#: What is said of all that is sought.
SAYS = {"noise": "mostly noise", "clear": "only the clearest", "all": "can be found, if the records have any"}
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


FEW = dict(batch_size=50)


@pytest.mark.parametrize(
    "name, measure, settings, measured",
    [
        *((name, None, dict(n_steps=9), False) for name in ("lda", "logistic", "network")),
        *((name, None, dict(n_steps=10), True) for name in ("lda", "logistic", "network")),
        *((name, None, dict(n_steps=10, sensitivity="proven"), False) for name in ("lda-paper", "logistic-paper")),
        ("logistic-spherical", None, dict(n_steps=10), False),
        *((name, None, dict(n_steps=10, noise_multiplier=None, private=False), False) for name in ("lda", "logistic")),
        ("lda", None, dict(n_steps=10, noise_multiplier=0.0), False),
        ("logistic", None, dict(n_steps=10, fit_intercept=False), False),
        ("lda", True, dict(n_steps=2), True),
        ("logistic", True, dict(n_steps=3), True),
        ("lda", True, dict(n_steps=1), False),
        ("logistic", None, dict(n_steps=10, sampling="poisson", **FEW), True),
        ("lda", None, dict(n_steps=10, sampling="without_replacement", **FEW), True),
        ("lda", None, dict(n_steps=12, sampling="random_allocation", **FEW), True),
    ],
)
@pytest.mark.parametrize("persons", [False, True])
def test_which_runs_are_measured(name, measure, settings, measured, persons):
    make, data = EVERY[name]
    settings = settings if "paper" in name else {**settings, "options": {"measure_gain": measure}}
    groups = np.arange(200) // 2 if persons and "paper" not in name else None
    model = make(**settings).fit(*data(), groups=groups)
    assert (model.found_gain_ is not None) == measured


def gain(model, *records):
    restored = model._model(model._fitted().public)
    restored.restore(model._fitted().state)
    rows = np.column_stack(records)
    score, words = restored.gain_score(), np.random.default_rng(1).integers(0, 2**64, len(rows), dtype=np.uint64)
    mixed = isinstance(model, GaussianMixture)
    block = (rows.astype(float), np.arange(len(rows))) if mixed else np.ascontiguousarray(rows, np.uint8)
    found = score.rows(block, words, np.ones(len(rows), bool), 1.0).mean(axis=0)
    return Score.read(found, 0.0, 1.0, 1e12, score).found().gain


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_fit_predicts_its_own_records_no_better_than_others(kind):
    """Noise and shrinkage leave little of a record in the weights. The score needs no correction."""
    gaps = []
    for seed in range(8):
        records = data(kind, 600, seed=seed)
        model = fitted(kind, records, seed=seed, epsilon=8.0)
        gaps.append(gain(model, *records) - gain(model, *data(kind, 8000, seed=100 + seed)))
    assert gain(model, *records) > 0.02 and abs(np.mean(gaps)) < 0.01


def digits():
    pixels = load_digits().data
    return (pixels > 7).astype(np.uint8)[np.random.default_rng(0).permutation(len(pixels))]


def mnist():
    files = sorted(MNIST.glob("*train*images*")) if MNIST.exists() else []
    if not files:
        # The images are data of others, and not part of the repository; the digits above ship in scikit-learn.
        pytest.skip(f"no images in {MNIST}; VIPS_FAST_DATA names their folder")
    images = read_idx(files[0].with_suffix(""))[:13_000].reshape(13_000, -1)
    return (images > 127).astype(np.uint8)


def clusters(d=30, seed=1):
    rng = np.random.default_rng(seed)
    shares = np.where(rng.random((5, d)) < 0.5, 0.1, 0.9)
    return (rng.random((8000, d)) < shares[rng.integers(0, 5, 8000)]).astype(np.uint8)


def balls(d=20, apart=0.8, seed=2):
    """Draw records around four centers of the norm ``apart``. Deviations have the norm 1 - ``apart``."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(4, d))
    centers *= apart / np.linalg.norm(centers, axis=1)[:, None]
    return centers[rng.integers(0, 4, 9000)] + rng.normal(size=(9000, d)) * ((1 - apart) / d**0.5)


def near_balls():
    return balls(8, 0.5)


@pytest.mark.parametrize(
    "kind, make, n, K, epsilon, sought, low, high",
    [
        (SigmoidBeliefNetwork, digits, 1400, 10, 0.25, "noise", -0.1, 0.01),
        (SigmoidBeliefNetwork, digits, 1400, 10, 1.0, "clear", 0.0, 0.04),
        (SigmoidBeliefNetwork, digits, 1400, 10, 4.0, "all", 0.04, 0.1),
        # Limits were not fitted on the others.
        (SigmoidBeliefNetwork, mnist, 1400, 30, 2.0, "noise", -0.1, 0.02),
        (SigmoidBeliefNetwork, mnist, 10_000, 10, 1.0, "all", 0.02, 0.1),
        (GaussianMixture, clusters, 400, 5, 0.25, "noise", -np.inf, 0.02),
        (GaussianMixture, clusters, 2000, 10, 1.0, "all", 0.1, 0.4),
        (GaussianMixture, digits, 1400, 10, 0.25, "noise", -0.1, 0.03),
        (GaussianMixture, balls, 500, 4, 0.25, "clear", -np.inf, 0.05),
        (GaussianMixture, balls, 6000, 4, 1.0, "all", 0.1, 0.7),
        (GaussianMixture, near_balls, 6000, 4, 2.0, "all", 0.02, 0.2),
    ],
)
def test_a_forecast_comes_true(kind, make, n, K, epsilon, sought, low, high):
    X, forecasts = make(), []
    if kind is GaussianMixture and "balls" not in make.__name__:  # rows of 0 and 1
        X = X / (0.75 * X.shape[1] ** 0.5)
    model = kind(K, epsilon=epsilon, delta=1e-5, random_state=0).set_unsafe(test_key=bytes(32))
    model.fit(X[:n], on_forecast=forecasts.append)
    said = forecasts[0]
    assert SAYS[sought] in said.text and (said.warning is HopelessWarning) == (sought == "noise"), str(said)
    others = X[-397:] if make is digits else X[-3000:]
    assert low <= gain(model, model.records(others) if kind is GaussianMixture else others) <= high


@pytest.mark.parametrize("kind", [SigmoidBeliefNetwork, ClassConditionalNetwork, GaussianMixture])
def test_a_forecast_depends_on_no_record_and_comes_first(kind):
    rng = np.random.default_rng(0)
    said = set()
    for share in (0.1, 0.9):
        X, y = (rng.random((300, 64)) < share).astype(np.uint8), np.arange(300) % 2
        given = (X, y) if kind is ClassConditionalNetwork else (0.1 * X,) if kind is GaussianMixture else (X,)

        def refuse(forecast):
            said.add(str(forecast))
            raise ValueError("refused")

        model = kind(20, epsilon=0.2, delta=1e-5)
        with pytest.raises(ValueError, match="refused"):
            model.fit(*given, on_forecast=refuse)
        assert not hasattr(model, "_result") or model._result is None
        with pytest.warns(HopelessWarning, match="mostly noise; .* What helps: .* times the records or the epsilon"):
            model.fit(*given)
    assert len(said) == 1


def test_which_runs_have_a_forecast():
    X = digits()[:400]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (
            SigmoidBeliefNetwork(3, private=False, n_steps=2),
            GaussianMixture(1, epsilon=0.1, n_steps=2),
            GaussianMixture(2, radius=8.0, epsilon=50.0, n_steps=2),
        ):
            model.fit(X)
