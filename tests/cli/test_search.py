"""``search``: settings that a private search chooses."""

import json

import numpy as np
import pytest

from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation
from vips_fast.accounting import RepeatAndSelectEvent


@pytest.fixture
def rows(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", (X[:, 0] > 0).astype(int))
    return [
        "search",
        "blr",
        tmp_path / "x.npy",
        "--labels",
        tmp_path / "y.npy",
        "--out",
        tmp_path / "m",
        "--steps",
        2,
        "--runs",
        2,
    ]


def test_of_a_regression(run, rows, tmp_path):
    budget = tmp_path / "b"
    assert run("budget", "create", budget, "--epsilon", 3, "--delta", 1e-5, "--dataset", "d")[0] == 0
    code, out, err = run(*rows, "--try", "row-norm=0.5,2", "--try", "trials=1", "--budget", budget)
    assert code == 0, err
    model = BayesianLogisticRegression.load(tmp_path / "m")
    assert f"Chosen: row_norm {model.row_norm}, n_trials 1; score" in out and model.row_norm in (0.5, 2.0)
    (event,) = model.ledger_.event().leaves()
    assert isinstance(event, RepeatAndSelectEvent) and model.ledger_.budget["dataset"] == "d"
    assert {path.name for path in (tmp_path / "m").iterdir()} == {
        "coefficients.csv",
        "columns.txt",
        "model.json",
        "model.npz",
        "privacy.json",
        "privacy.txt",
    }
    assert "best of a random number (mean 2)" in " ".join((tmp_path / "m" / "privacy.txt").read_text().split())
    # All is spent, and a second search finds nothing left.
    code, _, err = run(*rows, "--try", "row-norm=0.5,2", "--budget", budget, "--force")
    assert code == 3 and "does not hold" in err


def test_of_topics_by_public_documents(run, files):
    argv = ["search", *files.fit("--epsilon", 2)[1:], "--try", "topics=2,3", "--runs", 2, "--json"]
    code, out, err = run(*argv, "--public", files.docs, "--distribution", "logarithmic")
    said = json.loads(out)
    assert code == 0 and said["epsilon"] <= 2 and said["chosen"]["n_components"] in (2, 3)
    model = LatentDirichletAllocation.load(files.model)
    assert len(model.components_) == said["chosen"]["n_components"]
    assert files.names() == {"docs.txt", "words.txt", "model"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--try", "row-norm"], "expected NAME=VALUE,VALUE"),
        (["--try", "width=3"], "expected NAME=VALUE,VALUE"),
        (["--try", "no-intercept=1"], "expected NAME=VALUE,VALUE"),
        (["--try", "row-norm=1,-1"], "'-1': expected a number above 0"),
        (["--try", "sampling=full,half"], "expected values of poisson"),
        (["--try", "sampling=full,poisson"], "'sampling' is not to be searched"),
        (["--try", "row-norm=1", "--resume"], "--resume: expected without it"),
        (["--try", "row-norm=1", "--transcript", "t"], "--transcript: expected without it"),
    ],
)
def test_refused(refused, rows, tmp_path, more, message):
    assert message in refused(*rows, "--epsilon", 2, *more)
    assert not (tmp_path / "m").exists()


def test_a_target_is_needed(refused, rows):
    assert "required" in refused(*rows, "--try", "row-norm=1")
    assert "the following arguments are required: --try" in refused(*rows, "--epsilon", 2)
