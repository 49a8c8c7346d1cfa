"""``fit sbn``, ``plot`` and ``transform`` of networks."""

import numpy as np
import pytest

from vips_fast import SigmoidBeliefNetwork


@pytest.fixture
def images(tmp_path):
    """Records of 4 x 4 pixels with values 0 and 9: left or right half on, some noise."""
    rng = np.random.default_rng(0)
    left = rng.random(200) < 0.5
    y = np.tile([[1, 1, 0, 0] * 4], (200, 1))
    Y = (np.where(left[:, None], y, 1 - y) ^ (rng.random((200, 16)) < 0.05)).astype(np.uint8)
    np.save(tmp_path / "y.npy", Y * 9)
    return Y


def fit(tmp_path, *more):
    return ["fit", "sbn", tmp_path / "y.npy", "--components", 2, "--out", tmp_path / "model", "--steps", 3, "--seed", 1, *more]


def test_fit_verify_and_plot(run, tmp_path, images):
    transcript = ["--transcript", tmp_path / "transcript"]
    code, out, err = run(*fit(tmp_path, "--epsilon", 5, "--delta", 1e-5, *transcript))
    assert code == 0 and "differential privacy" in out.replace("\n", " ") and "step 3 of 3" in err
    code, out, _ = run("verify", tmp_path / "model", *transcript)
    assert code == 0 and "equal   privacy.txt" in out
    code, out, _ = run(*fit(tmp_path, "--non-private", "--force", "--quiet"))
    assert code == 0 and "NOT PRIVATE" in out
    model = SigmoidBeliefNetwork.load(tmp_path / "model")
    assert model.components_.shape == (2, 16) and not model.privacy_.private
    for more in ([], ["--images", tmp_path / "y.npy", "--count", 3], ["--shape", "2x8"]):
        assert run("plot", tmp_path / "model", "--out", tmp_path / "grid.png", *more)[0] == 0
        assert (tmp_path / "grid.png").read_bytes()[:4] == b"\x89PNG"
    assert run(*fit(tmp_path, "--paper", "--epsilon", 5, "--force", "--quiet"))[0] == 0
    assert run("transform", tmp_path / "model", tmp_path / "y.npy")[0] == 0


def test_transform(run, refused, tmp_path, images):
    model = SigmoidBeliefNetwork(3, noise_multiplier=1.0, n_steps=3, random_state=0).fit(images)
    model.save(tmp_path / "model")
    transform = ["transform", tmp_path / "model", tmp_path / "y.npy"]
    code, out, err = run(*transform, "--jobs", 2)
    head, *rows = out.splitlines()
    assert (code, err, head, len(rows)) == (0, "", "unit1,unit2,unit3", 200)
    # Six significant digits are printed.
    np.testing.assert_allclose([[float(v) for v in row.split(",")] for row in rows], model.transform(images), rtol=1e-5)
    for name in ("z.csv", "z.npy"):
        assert run(*transform, "--out", tmp_path / name) == (0, "", "")
    assert (tmp_path / "z.csv").read_text() == out
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(images))
    # Nothing is on from 10 up.
    run(*transform, "--threshold", 10, "--out", tmp_path / "z.npy")
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(0 * images))
    SigmoidBeliefNetwork(2, private=False).fit(images).save(tmp_path / "tainted")
    code, _, err = run("transform", tmp_path / "tainted", tmp_path / "y.npy")
    assert code == 0 and "NOT PRIVATE" in err
    np.save(tmp_path / "narrow.npy", images[:, :5])
    for argv in (
        [*transform[:2], tmp_path / "narrow.npy"], [*transform, "--vocab", "words.txt"], [*transform, "--features", 4],
        [*transform[:2], tmp_path / "absent.npy"],
    ):
        refused(*argv)
    (tmp_path / "model" / "model.npz").write_bytes(b"nonsense")
    assert "model.npz" in refused(*transform)


def test_what_is_refused_leaves_nothing(refused, tmp_path, images):
    np.save(tmp_path / "text.npy", np.array(["7351"]))
    (tmp_path / "idx").write_bytes(b"\0\0\10\3 nonsense")
    SigmoidBeliefNetwork(2, private=False).fit(images).save(tmp_path / "model")
    new = ["fit", "sbn", "--components", 2, "--out", tmp_path / "new"]
    plot = ["plot", tmp_path / "model", "--out", tmp_path / "a.png"]
    for argv in (
        [*new, "--non-private", tmp_path / "text.npy"], [*new, "--non-private", tmp_path / "idx"],
        [*new, "--non-private", tmp_path / "absent"], [*new, "--non-private", tmp_path / "y.npy", "--bound", "tight"],
        [*new, "--non-private", tmp_path / "y.npy", "--epsilon", 1], ["plot", tmp_path / "absent", *plot[2:]],
        [*plot[:3], tmp_path / "a.gif"], [*plot, "--shape", "4by4"], [*plot, "--shape", "3x5"],
    ):
        assert "7351" not in refused(*argv)
        assert not (tmp_path / "new").exists()
