"""Pictures of networks, and the commands that make them."""

import subprocess
import sys

import numpy as np
import pytest

from vips_fast import SigmoidBeliefNetwork, cli
from vips_fast.images import dictionary_grid, image_grid, reconstruction_grid, save_png


def records(n=200):
    """Records of 4 x 4 pixels: left or right half on, some noise."""
    rng = np.random.default_rng(0)
    left = rng.random(n) < 0.5
    y = np.tile([[1, 1, 0, 0] * 4], (n, 1))
    return (np.where(left[:, None], y, 1 - y) ^ (rng.random((n, 16)) < 0.05)).astype(np.uint8)


def test_grid_places_images_in_order():
    images = np.array([[1.0, 0, 0, 0], [0, 0, 0, 1.0], [2.0, -1, 0.5, 0]])
    grid = image_grid(images, columns=2)
    assert grid.shape == (7, 7) and grid.dtype == np.uint8
    assert grid[1:3, 1:3].tolist() == [[0, 255], [255, 255]]
    assert grid[1:3, 4:6].tolist() == [[255, 255], [255, 0]]
    assert grid[4:6, 1:3].tolist() == [[0, 255], [128, 255]]
    assert (grid[0] == 255).all() and (grid[:, 3] == 255).all() and (grid[4:, 4:] == 255).all()
    assert image_grid(images, shape=(1, 4)).shape == (5, 11)


def test_grid_refuses_what_does_not_fit():
    for images, options, word in [
        (np.ones((2, 5)), {}, "shape"), (np.ones((2, 4)), dict(shape=(3, 2)), "shape"), (np.ones(4), {}, "images"),
        (np.full((1, 4), np.nan), {}, "images"), (np.ones((1, 4)), dict(columns=0), "columns"),
    ]:
        with pytest.raises(ValueError, match=word):
            image_grid(images, **options)


def test_pictures_of_a_model(tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    from matplotlib.image import imread

    Y = records()
    model = SigmoidBeliefNetwork(3, private=False, random_state=0).fit(Y)
    weights = dictionary_grid(model)
    assert weights.shape == (11, 11)
    pair = reconstruction_grid(model, Y[:2])
    # The upper row is the records themselves.
    np.testing.assert_array_equal(pair[1:5, 1:5], 255 * (1 - Y[0].reshape(4, 4)))
    save_png(pair, tmp_path / "pair.png", scale=2)
    back = imread(tmp_path / "pair.png")
    assert back.shape[:2] == (22, 22)
    np.testing.assert_allclose(back[::2, ::2, 0] * 255, pair, atol=1)
    with pytest.raises(ValueError, match="png"):
        save_png(pair, tmp_path / "pair.jpg")


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_command_line_fits_and_plots(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    np.save(tmp_path / "y.npy", records() * 9)
    fit = ["fit", "sbn", tmp_path / "y.npy", "--components", 2, "--out", tmp_path / "model", "--steps", 3, "--seed", 1]
    code, out, err = run(capsys, *fit, "--epsilon", 5, "--delta", 1e-5)
    assert code == 0 and "differential privacy" in out.replace("\n", " ") and "step 3 of 3" in err
    assert (tmp_path / "model" / "privacy.txt").exists()
    code, _, err = run(capsys, *fit, "--non-private")
    assert code == 2 and "--force" in err
    code, out, _ = run(capsys, *fit, "--non-private", "--force", "--quiet")
    assert code == 0 and "NOT PRIVATE" in out
    model = SigmoidBeliefNetwork.load(tmp_path / "model")
    assert model.components_.shape == (2, 16) and not model.privacy_.private
    for more in ([], ["--images", tmp_path / "y.npy", "--count", 3], ["--shape", "2x8"]):
        code, out, _ = run(capsys, "plot", tmp_path / "model", "--out", tmp_path / "grid.png", *more)
        assert code == 0 and (tmp_path / "grid.png").read_bytes()[:4] == b"\x89PNG"


def test_command_line_transforms(tmp_path, capsys):
    Y = records()
    np.save(tmp_path / "y.npy", Y * 9)
    model = SigmoidBeliefNetwork(3, noise_multiplier=1.0, n_steps=3, random_state=0).fit(Y)
    model.save(tmp_path / "model")
    transform = ["transform", tmp_path / "model", tmp_path / "y.npy"]
    code, out, err = run(capsys, *transform, "--jobs", 2)
    assert code == 0 and err == ""
    head, *rows = out.splitlines()
    assert head == "unit1,unit2,unit3" and len(rows) == len(Y)
    # Six significant digits are printed.
    np.testing.assert_allclose([[float(v) for v in row.split(",")] for row in rows], model.transform(Y), rtol=1e-5)
    for name in ("z.csv", "z.npy"):
        assert run(capsys, *transform, "--out", tmp_path / name) == (0, "", "")
    assert (tmp_path / "z.csv").read_text() == out
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(Y))
    # Nothing is on from 10 up.
    run(capsys, *transform, "--threshold", 10, "--out", tmp_path / "z.npy")
    assert np.array_equal(np.load(tmp_path / "z.npy"), model.transform(0 * Y))
    SigmoidBeliefNetwork(2, private=False).fit(Y).save(tmp_path / "tainted")
    code, _, err = run(capsys, "transform", tmp_path / "tainted", tmp_path / "y.npy")
    assert code == 0 and "NOT PRIVATE" in err
    np.save(tmp_path / "narrow.npy", Y[:, :5])
    for argv in (
        [*transform[:2], tmp_path / "narrow.npy"], [*transform, "--vocab", "words.txt"], [*transform, "--features", 4],
        [*transform, "--out", tmp_path / "z.txt"], [*transform[:2], tmp_path / "absent.npy"],
    ):
        code, out, err = run(capsys, *argv)
        assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith("vips-fast: error: ")
    with open(tmp_path / "model" / "model.npz", "wb") as file:
        file.write(b"nonsense")
    assert run(capsys, *transform)[0] == 2
    assert run(capsys, "transform", tmp_path / "absent", tmp_path / "y.npy", "--threshold", 3)[0] == 2


def test_command_line_refuses(tmp_path, capsys):
    np.save(tmp_path / "y.npy", records())
    np.save(tmp_path / "text.npy", np.array(["a"]))
    (tmp_path / "idx").write_bytes(b"\0\0\10\3 nonsense")
    SigmoidBeliefNetwork(2, private=False).fit(records()).save(tmp_path / "model")
    fit = ["fit", "sbn", "--components", 2, "--out", tmp_path / "new", "--non-private"]
    for argv in (
        [*fit, tmp_path / "text.npy"], [*fit, tmp_path / "idx"], [*fit, tmp_path / "absent"],
        [*fit, tmp_path / "y.npy", "--bound", "tight"], [*fit, tmp_path / "y.npy", "--epsilon", 1],
        ["plot", tmp_path / "absent", "--out", tmp_path / "a.png"], ["plot", tmp_path / "model", "--out", tmp_path / "a.gif"],
        ["plot", tmp_path / "model", "--out", tmp_path / "a.png", "--shape", "4by4"],
        ["plot", tmp_path / "model", "--out", tmp_path / "a.png", "--shape", "3x5"],
    ):
        code, out, err = run(capsys, *argv)
        assert code == 2 and out == "" and err.count("\n") == 1 and err.startswith("vips-fast: error: ")
        assert not (tmp_path / "new").exists()


def test_importing_loads_no_matplotlib():
    code = "import sys, vips_fast, vips_fast.images, vips_fast.cli; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
