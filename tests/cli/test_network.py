"""``fit sbn`` and ``transform`` of networks."""

import numpy as np
import pytest

from vips_fast import SigmoidBeliefNetwork
from vips_fast.engine.budget import Budget
from vips_fast.models import forecast as models_forecast


@pytest.fixture
def images(tmp_path):
    """Records of 4 x 4 pixels with values 0 and 9.

    Left or right half on, some noise.
    """
    rng = np.random.default_rng(0)
    left = rng.random(200) < 0.5
    y = np.tile([[1, 1, 0, 0] * 4], (200, 1))
    Y = (np.where(left[:, None], y, 1 - y) ^ (rng.random((200, 16)) < 0.05)).astype(np.uint8)
    np.save(tmp_path / "y.npy", Y * 9)
    return Y


def test_the_threshold_says_which_pixels_are_on(run, tmp_path, images):
    model = SigmoidBeliefNetwork(3, noise_multiplier=1.0, n_steps=3, random_state=0).fit(images)
    model.save(tmp_path / "model")
    for threshold, expected in ((9, images), (10, 0 * images)):
        more = ["--threshold", threshold, "--jobs", 2, "--out", tmp_path / "z.npy"]
        assert run("predict", tmp_path / "model", tmp_path / "y.npy", *more) == (0, "", "")
        assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(expected))


def test_a_hopeless_network_or_mixture_is_refused_and_spends_nothing(run, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(models_forecast, "HOPELESS", 1.0)
    rows = (np.random.default_rng(0).random((200, 64)) < 0.5).astype(np.uint8)
    np.save(tmp_path / "x.npy", rows)
    Budget.create(tmp_path / "b", 3, 1e-6, dataset="ward7")
    for kind in (("sbn",), ("mixture", "--kind", "bernoulli")):
        argv = ["fit", *kind, tmp_path / "x.npy", "--components", 20, "--out", tmp_path / kind[0], "--quiet"]
        argv += ["--epsilon", 0.2, "--delta", 1e-6]
        said = refused(*argv, "--budget", tmp_path / "b")
        assert said.startswith("forecast: mostly noise") and said.endswith("expected other settings, or --anyway")
        assert Budget(tmp_path / "b").spent == 0 and not (tmp_path / kind[0]).exists()
        code, out, error = run(*argv, "--anyway")
        # The noise decides which verdict: 1 of 200 such fits passes for weak.
        assert code == 0 and out.startswith("Verdict: ") and "warning: forecast: mostly noise" in error
