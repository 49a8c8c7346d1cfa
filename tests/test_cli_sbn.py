"""The commands that fit, plot and apply networks of binary units."""

import numpy as np

from vips_fast import SigmoidBeliefNetwork, cli


def records(n=200):
    """Records of 4 x 4 pixels: left or right half on, some noise."""
    rng = np.random.default_rng(0)
    left = rng.random(n) < 0.5
    y = np.tile([[1, 1, 0, 0] * 4], (n, 1))
    return (np.where(left[:, None], y, 1 - y) ^ (rng.random((n, 16)) < 0.05)).astype(np.uint8)


def run(capsys, *argv):
    code = cli.main([str(a) for a in argv])
    out, err = capsys.readouterr()
    return code, out, err


def test_command_line_fits_and_plots(tmp_path, capsys):
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
