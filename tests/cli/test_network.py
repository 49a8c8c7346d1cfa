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


def fit(folder, *more):
    return ["fit", "sbn", folder / "y.npy", "--components", 2, "--out", folder / "model", "--steps", 3, *more]


def test_fit_and_verify(run, tmp_path, images):
    transcript = ["--transcript", tmp_path / "transcript"]
    code, out, err = run(*fit(tmp_path, "--epsilon", 5, "--delta", 1e-5, *transcript))
    assert code == 0 and "differential privacy" in out.replace("\n", " ") and "step 3 of 3" in err
    code, out, _ = run("verify", tmp_path / "model", *transcript)
    assert code == 0 and "equal   privacy.txt" in out
    code, out, _ = run(*fit(tmp_path, "--non-private", "--force", "--quiet"))
    assert code == 0 and "NOT PRIVATE" in out
    model = SigmoidBeliefNetwork.load(tmp_path / "model")
    assert model.components_.shape == (2, 16) and not model.privacy_.private
    assert run("predict", tmp_path / "model", tmp_path / "y.npy")[0] == 0


def test_transform(run, refused, tmp_path, images):
    model = SigmoidBeliefNetwork(3, noise_multiplier=1.0, n_steps=3, random_state=0).fit(images)
    model.save(tmp_path / "model")
    transform = ["predict", tmp_path / "model", tmp_path / "y.npy"]
    code, out, err = run(*transform, "--jobs", 2)
    assert (code, err, len(out.splitlines())) == (0, "", 201) and out.startswith("unit1,unit2,unit3\n")
    assert run(*transform, "--out", tmp_path / "z.npy") == (0, "", "")
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(images))
    # Nothing is on from 10 up.
    run(*transform, "--threshold", 10, "--out", tmp_path / "z.npy")
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(0 * images))
    SigmoidBeliefNetwork(2, private=False).fit(images).save(tmp_path / "tainted")
    code, _, err = run("predict", tmp_path / "tainted", tmp_path / "y.npy")
    assert code == 0 and "NOT PRIVATE" in err
    np.save(tmp_path / "narrow.npy", images[:, :5])
    for argv in ([*transform[:2], tmp_path / "narrow.npy"], [*transform, "--vocab", "words.txt"]):
        refused(*argv)
    (tmp_path / "model" / "model.npz").write_bytes(b"nonsense")
    assert "model.npz" in refused(*transform)


def test_what_is_refused_leaves_nothing(refused, tmp_path, images):
    np.save(tmp_path / "text.npy", np.array(["7351"]))
    (tmp_path / "idx").write_bytes(b"\0\0\10\3 nonsense")
    SigmoidBeliefNetwork(2, private=False).fit(images).save(tmp_path / "model")
    bounds = (["y.npy", "--set", "sampling=tight"], ["y.npy", "--set", "sampling"])
    for more in (["text.npy"], ["idx"], ["absent"], *bounds):
        new = ["fit", "sbn", tmp_path / more[0], "--components", 2, "--out", tmp_path / "new", "--non-private"]
        assert "7351" not in refused(*new, *more[1:]) and not (tmp_path / "new").exists()


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
