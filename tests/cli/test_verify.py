"""A model held against its transcript."""

import shutil

import numpy as np
import pytest


@pytest.fixture
def published(run, files):
    """A fitted model with its transcript, and the command that verifies it."""
    transcript = files.folder / "transcript"
    assert run(*files.fit("--epsilon", 2, "--quiet", "--transcript", transcript))[0] == 0
    return ["verify", files.model, "--transcript", transcript]


@pytest.mark.parametrize("name", ["coefficients.csv", "diary.txt"])
def test_a_file_that_the_fit_did_not_write_is_seen(run, files, published, name):
    (files.model / name).write_text("dear diary\n")
    code, out, err = run(*published)
    assert (code, err) == (1, "") and f"DIFFERS {name}" in out and "DOES NOT FOLLOW" in out


def test_a_release_that_was_changed_is_seen(run, refused, files, published):
    (path,) = files.folder.glob("transcript/run-*/release-000002.npz")
    with np.load(path) as arrays:
        kept = dict(arrays)
    np.savez(path, **{**kept, "units": kept["units"] + 1})
    assert run(*published)[0] == 1
    path.unlink()
    assert run(*published)[0] == 1
    assert "none" in refused(*published[:3], files.folder / "none")
    assert "expected module:Class" in refused(*published, "--class", "Nothing")
    (files.model / "model.npz").write_bytes(b"PK")
    assert "model.npz" in refused(*published)


def test_another_model_of_the_same_settings_is_seen(run, files, published):
    shutil.rmtree(files.model)
    assert run(*files.fit("--epsilon", 2, "--quiet", "--transcript", files.folder / "other"))[0] == 0
    assert run(*published)[0] == 1


def test_a_model_of_ones_own(run, refused, tmp_path):
    from ball_mean import Mean

    model, transcript = tmp_path / "model", tmp_path / "transcript"
    Mean(noise_multiplier=2.0, n_steps=3).fit(np.full((50, 2), 0.1), transcript=transcript).save(model)
    verify = ["verify", model, "--transcript", transcript]
    assert run(*verify, "--class", "ball_mean:Mean")[0] == 0
    assert "'Mean' is not a class of this package; expected module:Class" in refused(*verify)
