"""Persons on the command line: labels beside the records."""

import numpy as np
import pytest
import scipy.sparse as sp


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A folder with counts of 60 documents of 25 persons. Their labels are in both formats."""
    monkeypatch.chdir(tmp_path)
    sp.save_npz("X.npz", sp.csr_matrix(np.random.default_rng(0).poisson(0.5, (60, 12))))
    labels = np.arange(60) % 25
    np.save("who.npy", labels)
    (tmp_path / "who.txt").write_text("".join(f"Ärztin {label}\n" for label in labels), encoding="utf-8")
    return tmp_path


FIT = "fit lda X.npz --topics 2 --noise-multiplier 3 --delta 1e-5 --steps 2 --quiet".split()


@pytest.mark.parametrize("file", ["who.npy", "who.txt"])
def test_the_statement_is_about_persons(inputs, run, file):
    code, out, err = run(*FIT, "--groups", file, "--unit", "patient", "--set", "rows_per_group=2", "--out", "m")
    assert code == 0 and "adding or removing one patient of 25" in " ".join(out.split())
    assert "Ärztin" not in out + err
    assert not any("Ärztin 3".encode() in path.read_bytes() for path in inputs.glob("m/*"))


def test_a_warning_of_delta_is_about_persons(inputs, run):
    _, _, err = run(*FIT, "--delta", 0.5, "--groups", "who.npy", "--unit", "patient", "--out", "m")
    said = "is not below 1 / 25 patients: all that is known of one patient may be published"
    assert f"vips-fast: warning: delta = 0.5 {said}\n" in err
