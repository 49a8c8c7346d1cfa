"""Models of the user's own, made again from their releases alone."""

import subprocess
import sys

import numpy as np
import pytest
from ball_mean import Mean

from vips_fast.engine.transcript import read_transcript
from vips_fast.models.examples import (
    BernoulliMixture,
    BinomialRegression,
    GaussianMixture,
    GaussianMixtureOptions,
    ProbabilisticPCA,
)

SETTINGS = {
    Mean: {},
    BernoulliMixture: {"n_components": 3, "sampling": "without_replacement", "batch_size": 40},
    BinomialRegression: {"n_trials": 3, "radius": 2.0},
    GaussianMixture: {"options": GaussianMixtureOptions(rate_prior=0.1), "means_init": np.eye(2, 3)},
    ProbabilisticPCA: {"center": np.ones(3), "n_records": 150, "learning_offset": 4.0, "invalid": "drop"},
}


def records_of(kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    X = (X > 0).astype(np.uint8) if kind is BernoulliMixture else X
    return (X, rng.integers(0, 4, 120)) if kind is BinomialRegression else (X,)


def assert_same(rebuilt, fitted):
    assert len(rebuilt.parameters_) == len(fitted.parameters_)
    for a, b in zip((*rebuilt.parameters_, rebuilt.average_), (*fitted.parameters_, fitted.average_), strict=True):
        assert a.tobytes() == b.tobytes() and a.shape == b.shape
    assert rebuilt.noise_sd_ == fitted.noise_sd_ and rebuilt.privacy_ == fitted.privacy_
    assert rebuilt.ledger_.head == fitted.ledger_.head  # so all else, by its digest


@pytest.mark.parametrize("kind", SETTINGS)
def test_fit_and_partial_fits_are_rebuilt_bit_for_bit(kind, tmp_path):
    path, data = tmp_path / "releases", records_of(kind)
    fitted = kind(n_steps=4, noise_multiplier=1.5, **SETTINGS[kind]).fit(*data, transcript=path)
    assert_same(kind._rebuild(read_transcript(path)), fitted)
    if kind is not BernoulliMixture:  # a further step is of another relation than this sampling
        fitted.set_params(batch_size=120).partial_fit(*data, transcript=path)
        assert_same(kind._rebuild(read_transcript(path)), fitted)


def test_a_model_is_rebuilt_without_numba_and_a_changed_release_is_seen(tmp_path):
    path = tmp_path / "releases"
    fitted = GaussianMixture(2, n_steps=3, noise_multiplier=1.0).fit(*records_of(GaussianMixture), transcript=path)
    code = (
        "import sys; from vips_fast.engine.transcript import read_transcript; "
        "from vips_fast.models.examples import GaussianMixture as G; "
        f"print(G._rebuild(read_transcript({str(path)!r})).ledger_.head, 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == [fitted.ledger_.head, "False"], done.stderr
    (release,) = path.glob("run-0000/release-000001.npz")
    arrays = dict(np.load(release))
    arrays["units"][0] += 1
    np.savez(release, **arrays)
    assert GaussianMixture._rebuild(read_transcript(path)).ledger_.head != fitted.ledger_.head
