"""Forecasts of networks and mixtures. Public, fitted on digits and simulations, and true of other data."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from peers.mnist import read_idx
from sklearn.datasets import load_digits

from vips_fast import ClassConditionalNetwork, GaussianMixture, SigmoidBeliefNetwork
from vips_fast.engine.gain import Score
from vips_fast.models.forecast import HopelessWarning

MNIST = Path(os.environ.get("VIPS_FAST_DATA", "../shared/data")) / "mnist"
#: What is said of all that is sought.
SAYS = {"noise": "mostly noise", "clear": "only the clearest", "all": "can be found, if the records have any"}


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
    """Records of five groups that are far apart."""
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


def fitted(kind, X, n, K, epsilon):
    """Return a fit, with its forecast."""
    told = []
    model = kind(K, epsilon=epsilon, delta=1e-5, random_state=0).set_unsafe(test_key=bytes(32))
    return model.fit(X[:n], on_forecast=told.append), told[0]


def gain(model, X):
    """Return the gain of a model on other records, without noise."""
    restored = model._model(model._fitted().public)
    restored.restore(model._fitted().state)
    score, words = restored.gain_score(), np.random.default_rng(1).integers(0, 2**64, len(X), dtype=np.uint64)
    block = X if isinstance(model, SigmoidBeliefNetwork) else (X.astype(float), np.arange(len(X)))
    rows = score.rows(block, words, np.ones(len(X), bool), 1.0)
    return Score.read(rows.mean(axis=0), 0.0, 1.0, 1e12, score).found().gain


@pytest.mark.parametrize(
    "make, n, K, epsilon, sought, low, high",
    [
        (digits, 1400, 10, 0.25, "noise", -0.1, 0.01),
        (digits, 1400, 20, 0.5, "noise", -0.1, 0.01),
        (digits, 1400, 10, 1.0, "clear", 0.0, 0.04),
        (digits, 1400, 10, 4.0, "all", 0.04, 0.1),
        # Limits were not fitted on the others.
        (mnist, 1400, 10, 1.0, "noise", -0.1, 0.02),
        (mnist, 1400, 30, 2.0, "noise", -0.1, 0.02),
        (mnist, 10_000, 10, 1.0, "all", 0.02, 0.1),
        (mnist, 10_000, 30, 2.0, "all", 0.04, 0.1),
    ],
)
def test_networks(make, n, K, epsilon, sought, low, high):
    X = make()
    model, told = fitted(SigmoidBeliefNetwork, X, n, K, epsilon)
    assert SAYS[sought] in told.text and (told.warning is HopelessWarning) == (sought == "noise"), str(told)
    assert low <= gain(model, X[-3000:] if make is mnist else X[-397:]) <= high


@pytest.mark.parametrize(
    "make, n, K, epsilon, sought, low, high",
    [
        (clusters, 400, 5, 0.25, "noise", -np.inf, 0.02),
        (clusters, 2000, 10, 1.0, "all", 0.1, 0.4),
        (digits, 1400, 10, 0.25, "noise", -0.1, 0.03),
        (digits, 1400, 10, 4.0, "all", 0.02, 0.1),
        (balls, 500, 4, 0.25, "clear", -np.inf, 0.05),
        (balls, 6000, 4, 1.0, "all", 0.1, 0.7),
        (near_balls, 6000, 4, 2.0, "all", 0.02, 0.2),
    ],
)
def test_mixtures(make, n, K, epsilon, sought, low, high):
    X = make().astype(float)
    if "balls" not in make.__name__:  # rows of 0 and 1
        X /= 0.75 * X.shape[1] ** 0.5
    model, told = fitted(GaussianMixture, X, n, K, epsilon)
    assert SAYS[sought] in told.text and (told.warning is HopelessWarning) == (sought == "noise"), str(told)
    assert low <= gain(model, model.records(X[-397:] if make is digits else X[-3000:])) <= high


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
