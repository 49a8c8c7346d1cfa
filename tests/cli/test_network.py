"""``fit sbn`` and ``transform`` of networks."""

import numpy as np
import pytest

from vips_fast import SigmoidBeliefNetwork


@pytest.fixture
def images(tmp_path):
    """Records of 4 x 4 pixels with values 0 and 9. Left or right half on, some noise."""
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


def test_new_images_are_read_by_the_threshold_of_the_fit(run, tmp_path, images):
    np.save(tmp_path / "y.npy", images * 9 + 1)
    fit = ["--components", 3, "--steps", 2, "--epsilon", 1, "--threshold", 5, "--out", tmp_path / "model", "--quiet"]
    assert run("fit", "sbn", tmp_path / "y.npy", *fit)[0] == 0
    for name, more in {"fit": [], "same": ["--threshold", 5], "other": ["--threshold", 1]}.items():
        assert run("predict", tmp_path / "model", tmp_path / "y.npy", *more, "--out", tmp_path / f"{name}.npy")[0] == 0
    found = {name: np.load(tmp_path / f"{name}.npy") for name in ("fit", "same", "other")}
    assert np.array_equal(found["fit"], found["same"]) and not np.array_equal(found["fit"], found["other"])
