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
