"""``fit blr`` and ``predict``."""

import csv

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit

from vips_fast import BayesianLogisticRegression


@pytest.fixture
def rows(tmp_path):
    """Rows of two columns, as dense and sparse files. Their labels depend on the first column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) / 3
    y = rng.random(3000) < expit(6 * X[:, 0])
    np.save(tmp_path / "X.npy", X)
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    np.save(tmp_path / "y.npy", y.astype(int))
    (tmp_path / "y.txt").write_text("".join("yes\n" if v else "no\n" for v in y))
    (tmp_path / "names.txt").write_text("matters\ndoes not\n")
    return tmp_path


def test_an_effect_that_is_not_known_has_no_interval_at_any_door(run, rows):
    """List, table, report and effects on probabilities all name it."""
    X, out = np.load(rows / "X.npy"), rows / "model"
    np.save(rows / "X.npy", np.column_stack([X, 0.002 * X[:, 1]]))
    (rows / "names.txt").write_text("matters\ndoes not\nhardly varies\n")
    fit = ["fit", "blr", rows / "X.npy", "--label", rows / "y.npy", "--names", rows / "names.txt", "--out", out]
    code, text, errors = run(*fit, "--epsilon", 8, "--delta", "1e-6")
    assert code == 0 and "Not known, without interval: 1 of 3 effects (hardly varies +1)." in text
    assert "so they have no intervals (hardly varies)" in errors and text.count("hardly varies") == 1
    with open(out / "coefficients.csv", newline="") as file:
        *others, last = csv.DictReader(file)
    assert [row["known"] for row in others] == ["", "yes", "yes"] and last["known"] == "no"
    limits = [name for name in last if "low_90" in name or "high_90" in name]
    assert len(limits) == 6 and {last[name] for name in limits} == {""} and float(last["mean"])
    assert "expected more records or epsilon, or fewer columns, without those that hardly vary" in errors
    assert "expected fewer columns, without those that hardly vary" in run(*fit, "--non-private", "--force")[2]
    assert all(float(others[1][name]) for name in limits)
    assert run("show", out, "--out", rows / "page.html")[0] == 0
    page = (rows / "page.html").read_text()
    assert "Of 3 effects 2 are known" in page and page.count("not known</td>") == 4


def test_without_an_intercept(run, rows):
    fit = ["fit", "blr", rows / "X.npy", "--quiet", "--out", rows / "through", "--label", rows / "y.npy"]
    code, text, _ = run(*fit, "--non-private", "--set", "fit_intercept=False", "--row-norm", 3)
    model = BayesianLogisticRegression.load(rows / "through")
    assert code == 0 and "NOT PRIVATE" in text and (model.fit_intercept, model.row_norm) == (False, 3)
