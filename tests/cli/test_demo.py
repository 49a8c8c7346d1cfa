"""The demo: each model with and without privacy, on any terminal.

Its folder and its page.
"""

import re
import sys

import numpy as np
import pytest

import vips_fast.demo
from vips_fast import BayesianLogisticRegression, LatentDirichletAllocation, SigmoidBeliefNetwork
from vips_fast.data import Corpus


@pytest.fixture
def few_docstrings(monkeypatch):
    """A corpus of two clear topics in place of the docstrings.

    Its words are common to rare, with two texts a file.
    """
    words = 0.7 ** np.arange(10.0)
    rng, topics = np.random.default_rng(0), np.kron(np.eye(2), words / words.sum())
    counts = np.stack([rng.multinomial(30, topics[d % 2]) for d in range(2000)])
    names = [f"word{k}" for k in range(20)]
    corpus = Corpus(counts, names, details={"package": 2000}, groups=np.arange(2000) // 2)
    monkeypatch.setattr(vips_fast.demo, "docstrings_corpus", lambda: corpus)


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    """New folders are made here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_topics(run, few_docstrings, tmp_path):
    code, out, err = run("demo", "--epsilon", 2, "--topics", 2, "--words", 4, "--jobs", 1)
    assert code == 0 and "private: step 10 of 10, epsilon 2, " in err
    text = " ".join(out.split())
    assert "one a record: 2000 with ten or more words" in text and "1800 records to learn from, 200 held out" in text
    found = re.findall(r"^(unigram|private by|private|non-private).* (\d+) +(\d+)$", out, re.M)
    perplexity = {name: int(completion) for name, completion, _ in found}
    assert max(perplexity["private"], perplexity["non-private"]) < perplexity["unigram"]
    assert "private by" in perplexity
    assert len([line for line in out.splitlines() if re.match(r" *\d+  .* \| ", line)]) == 2
    stated = re.findall(
        r"\(([0-9.]+), 1e-05\)-differential privacy .*? one (record|source file) of (\d+), for this fit alone", text
    )
    # Calibrated to 10^-3 below the target.
    assert [unit for _, unit, _ in stated] == ["record", "source file"]
    assert all(1.99 < float(epsilon) <= 2 for epsilon, _, _ in stated) and stated[0][2] == "1800"
    of_two = LatentDirichletAllocation.load(next(tmp_path.iterdir())).privacy_.for_group(2)
    said = re.search(r"so many the same topics guarantee epsilon ([0-9.]+) and ([0-9.]+)\.", text)
    assert float(said[1]) == float(said[2]) == pytest.approx(of_two, abs=2e-3) and of_two > 4


def test_topics_say_when_they_failed(run, few_docstrings):
    code, out, err = run("demo", "--epsilon", 0.001, "--quiet", "--jobs", 1)
    assert code == 1 and "held-out perplexity" in out
    assert "are no better than the unigram model" in err and len(err.splitlines()) == 1


# At this large epsilon the noise is far too small for chance to decide a test.
@pytest.mark.parametrize(
    "shown, kind, records", [("blr", BayesianLogisticRegression, 456), ("sbn", SigmoidBeliefNetwork, 1438)]
)
def test_data_of_scikit_learn(shown, kind, records, run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    out_folder = tmp_path / "model"
    code, out, err = run("demo", shown, "--epsilon", 50, "--jobs", 1, "--quiet", "--out", out_folder)
    assert code == 0 and not err
    figures = [float(share) for share in re.findall(r"  (\d+\.\d)%$", out, re.M)]
    assert len(figures) == 3 and figures[0] + 5 < figures[1]
    # Paths are as long as they are, and so are the names of coefficients beside their intervals.
    wide = re.compile(r"^coefficients |\d to -?\d|" + re.escape(str(out_folder)) + "|^-+  -+")
    assert max(len(line) for line in out.splitlines() if not wide.search(line)) <= 60
    model = kind.load(out_folder)
    assert model.privacy_.n_records == records and model.privacy_.epsilon <= 50
    assert (out_folder / "report.html").as_uri() in out and (out_folder / "report.html").stat().st_size > 10_000
    code, out, err = run("show", out_folder)
    assert code == 0 and not err


def test_a_model_that_is_worse_than_none_is_said(run, monkeypatch):
    monkeypatch.setattr(BayesianLogisticRegression, "score", lambda *_: 0.5)
    code, out, err = run("demo", "blr", "--quiet", "--jobs", 1)
    assert code == 1 and "vips-fast: error: the private regression (accuracy 50.0%) is no better than one answer" in err
    monkeypatch.setattr(SigmoidBeliefNetwork, "pixel_accuracy", lambda *_: 0.5)
    code, out, err = run("demo", "sbn", "--quiet", "--jobs", 1)
    assert code == 1 and "the private network (accuracy 50.0%) is no better than the mean image" in err


def test_without_jinja2_there_is_no_page_and_all_else(run, few_docstrings, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = run("demo", "--topics", 2, "--quiet", "--jobs", 1, "--out", tmp_path / "model")
    assert code == 0
    assert err == 'vips-fast: left out: a report needs the package jinja2: pip install "vips_fast[report]"\n'
    assert "report" not in out and f"vips-fast show {tmp_path / 'model'}" in out
    assert not (tmp_path / "model" / "report.html").exists() and (tmp_path / "model" / "topics.txt").exists()


def test_what_does_not_belong_is_refused_before_any_work(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(vips_fast.demo, "docstrings_corpus", lambda: pytest.fail("it was begun"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "is not empty" in refused("demo", "--out", tmp_path / "full")
    assert refused("demo", "blr", "--topics", 5) == "--topics 5: expected only with the demo of topics"
    assert refused("demo", "sbn", "--words", 5) == "--words 5: expected only with the demo of topics"
    assert "'cnn'" in refused("demo", "cnn")


def test_without_scikit_learn_one_line_names_it(refused, monkeypatch):
    for name in ["sklearn", *(name for name in sys.modules if name.startswith("sklearn."))]:
        monkeypatch.setitem(sys.modules, name, None)
    for shown in ("blr", "sbn"):
        said = refused("demo", shown, code=1)
        assert said == f'vips-fast demo {shown} needs the package scikit-learn: pip install "vips_fast[demo]"'


def test_the_data_are_what_they_are_said_to_be():
    X, y, names = vips_fast.demo.breast_cancer()
    assert X.shape == (569, 30) and len(names) == 30 and set(y) == {"benign", "malignant"}
    assert np.abs(X).max() <= 1 and (np.abs(X) < 1).mean() > 0.97
    Y = vips_fast.demo.digits()
    assert Y.shape == (1797, 64) and Y.dtype == np.uint8 and set(np.unique(Y)) == {0, 1}
