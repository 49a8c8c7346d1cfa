"""The command line of logistic regression: ``fit blr`` and ``predict``."""

import csv

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from vips_fast import BayesianLogisticRegression, cli


def run(capsys, *argv):
    """Exit code, standard output and standard error of a command."""
    code = cli.main([str(arg) for arg in argv])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def files(tmp_path):
    """Rows of two columns, the first of which matters, as dense and sparse files, and their labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) / 3
    y = rng.random(3000) < expit(6 * X[:, 0])
    np.save(tmp_path / "X.npy", X)
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    np.save(tmp_path / "y.npy", y.astype(int))
    (tmp_path / "y.txt").write_text("".join("yes\n" if v else "no\n" for v in y))
    (tmp_path / "names.txt").write_text("matters\ndoes not\n")
    return tmp_path


@pytest.mark.parametrize(("rows", "labels"), [("X.npy", "y.npy"), ("X.npz", "y.txt")])
def test_fit_and_predict(capsys, files, rows, labels):
    out = files / "model"
    code, text, _ = run(
        capsys, "fit", "blr", files / rows, "--labels", files / labels, "--names", files / "names.txt", "--epsilon", 5,
        "--delta", "1e-6", "--out", out,
    )  # fmt: skip
    assert code == 0 and "matters" in text and "(5, 1e-06)-differential privacy" in text
    assert sorted(path.name for path in out.iterdir()) == ["coefficients.csv", "model.json", "model.npz", "privacy.txt"]
    model = BayesianLogisticRegression.load(out)
    assert model.privacy_.private and model.privacy_.epsilon <= 5
    with open(out / "coefficients.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["feature"] for row in table] == ["(intercept)", "matters", "does not"]
    assert float(table[1]["mean"]) == pytest.approx(model.coef_[0, 0], rel=1e-5)
    assert float(table[1]["low_90"]) == pytest.approx(model.credible_interval()[0, 0], rel=1e-5)

    code, text, _ = run(capsys, "predict", out, files / rows)
    lines = text.splitlines()
    assert code == 0 and lines[0] == ("p(no),p(yes)" if labels == "y.txt" else "p(0),p(1)") and len(lines) == 3001
    X = np.load(files / "X.npy")
    np.testing.assert_allclose([float(line.split(",")[1]) for line in lines[1:]], model.predict_proba(X)[:, 1], atol=1e-6)
    assert run(capsys, "predict", out, files / rows, "--out", files / "p.npy")[0] == 0
    np.testing.assert_allclose(np.load(files / "p.npy"), model.predict_proba(X))


def test_counts_and_the_papers_update(capsys, files):
    rng = np.random.default_rng(1)
    np.save(files / "counts.npy", rng.binomial(5, expit(6 * np.load(files / "X.npy")[:, 0])))
    code, text, _ = run(
        capsys, "fit", "blr", files / "X.npy", "--labels", files / "counts.npy", "--trials", 5, "--non-private", "--out",
        files / "counts", "--no-intercept", "--quiet",
    )  # fmt: skip
    assert code == 0 and "NOT PRIVATE" in text
    assert BayesianLogisticRegression.load(files / "counts").coef_[0, 0] == pytest.approx(6, abs=0.5)
    code, _, _ = run(
        capsys, "fit", "blr", files / "X.npy", "--labels", files / "y.npy", "--update", "paper", "--epsilon", 2, "--steps", 3,
        "--out", files / "paper", "--quiet",
    )  # fmt: skip
    assert code == 0 and BayesianLogisticRegression.load(files / "paper").n_steps_ == 3


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ([], "give --labels FILE"),
        (["--labels", "y.npy", "--names", "y.txt"], "3000 names; expected 2"),
        (["--labels", "nothing.npy"], "nothing.npy"),
        (["--labels", "y.npy", "--format", "adult"], "not a text file"),
        (["--labels", "y.txt", "--trials", "3"], "expected numbers with --trials"),
        (["--labels", "names.txt"], "y has shape (2,)"),
        (["--labels", "y.npy", "--steps", "0"], "0"),
    ],
)
def test_what_is_refused_leaves_nothing(capsys, files, more, text):
    more = [str(files / word) if word.endswith((".npy", ".txt")) else word for word in more]
    code, out, err = run(capsys, "fit", "blr", files / "X.npy", "--epsilon", 1, "--out", files / "model", "--quiet", *more)
    assert code != 0 and out == "" and text in err and len(err.splitlines()) == 1
    assert not (files / "model").exists()


def test_predict_refuses(capsys, files):
    assert "no such folder" in run(capsys, "predict", files / "none", files / "X.npy")[2]
    (files / "bad").mkdir()
    assert run(capsys, "predict", files / "bad", files / "X.npy")[0] != 0
    assert run(capsys, "fit", "blr", files / "X.npy", "--labels", files / "y.npy", "--epsilon", 1, "--out", files / "m", "--quiet")[0] == 0
    np.save(files / "wide.npy", np.ones((3, 4)))
    assert "X has 4 columns: expected 2" in run(capsys, "predict", files / "m", files / "wide.npy")[2]
    assert ".csv or .npy" in run(capsys, "predict", files / "m", files / "X.npy", "--out", files / "p.txt")[2]


def test_adult(capsys, data_dir, tmp_path):
    files = [data_dir / "adult" / name for name in ("adult.data.gz", "adult.test.gz")]
    code, text, _ = run(capsys, "fit", "blr", *files, "--format", "adult", "--epsilon", 1, "--delta", "1e-5", "--out", tmp_path / "m", "--quiet")
    assert code == 0 and "education" in text and "capital-gain" in text
    model = BayesianLogisticRegression.load(tmp_path / "m")
    from vips_fast.data import read_adult

    table = read_adult(*files)
    assert model.score(table.X, table.y) > 0.83
