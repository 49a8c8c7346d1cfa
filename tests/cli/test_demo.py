"""The demo: each model with and without privacy, on any terminal.

Its folder and its page.
"""

import re
import sys

import numpy as np
import pytest

import vips_fast.demo
from vips_fast import BayesianLogisticRegression, PrivateTopics, SigmoidBeliefNetwork

WORDS = [f"word{a}{b}" for a in "abcdefgh" for b in "abcdefgh"]


def _texts(n, rng):
    """Texts of eight words of one of eight themes each."""
    return [" ".join(rng.choice(WORDS[8 * (d % 8) : 8 * (d % 8) + 8], 8)) for d in range(n)]


@pytest.fixture
def few_docstrings(monkeypatch):
    """Texts of clear themes in place of the docstrings, two of one theme in a file."""
    rng = np.random.default_rng(0)
    texts = [text for pair in zip(_texts(800, rng), _texts(800, rng), strict=True) for text in pair]
    monkeypatch.setattr(vips_fast.demo, "source_files", lambda: (texts, np.arange(1600) // 2, ["package"]))
    monkeypatch.setattr(vips_fast.demo, "public_texts", lambda: _texts(400, rng) + ["every text"] * 3000)


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    """New folders are made here."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_topics(run, few_docstrings, tmp_path):
    """The way of README: texts, persons, public topics; and the folder can be verified without the texts."""
    folder = tmp_path / "topics"
    code, out, err = run("demo", "--epsilon", 20, "--topics", 8, "--words", 4, "--jobs", 1, "--out", folder)
    assert code == 0 and re.search(r"fit: step (\d+) of \1, epsilon 20, ", err)
    assert "800 persons, 80 of them held out" in " ".join(out.split()) and "Verdict: useful." in out
    found = re.findall(r"^(private topics|counting words|20 topics).* (\d+)$", out, re.M)
    perplexity = {name: int(number) for name, number in found}
    assert perplexity["private topics"] < perplexity["counting words"] / 2 and "20 topics" in perplexity
    model = PrivateTopics.load(folder).model_
    assert model.privacy_.unit == "person" and model.privacy_.n_records == 720 and model.privacy_.epsilon <= 20
    assert model.public_prior.n_topics == 8 and max(len(line.split()) for line in _listed(out)) == 4 + 4
    assert run("verify", folder)[0] == 0 and run("show", folder)[0] == 0


def _listed(out):
    return re.findall(r"^ *[\d.]+%  +[\d.]+ ×.*$", out, re.M)


def test_topics_say_when_they_failed(run, few_docstrings, monkeypatch):
    monkeypatch.setattr("vips_fast.report.unigram_perplexity", lambda *_: 1.0)
    code, out, err = run("demo", "--epsilon", 0.001, "--topics", 2, "--quiet", "--jobs", 1)
    assert code == 1 and "held-out perplexity" in out
    assert "are no better than counting words" in err and len(err.splitlines()) == 1


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
    code, out, err = run("demo", "--epsilon", 20, "--topics", 8, "--quiet", "--jobs", 1, "--out", tmp_path / "model")
    assert code == 0
    assert err == 'vips-fast: left out: a report needs the package jinja2: pip install "vips_fast[report]"\n'
    assert "report" not in out and f"vips-fast show {tmp_path / 'model'}" in out
    assert not (tmp_path / "model" / "report.html").exists() and (tmp_path / "model" / "topics.txt").exists()


def test_what_does_not_belong_is_refused_before_any_work(refused, tmp_path, monkeypatch):
    monkeypatch.setattr(vips_fast.demo, "source_files", lambda: pytest.fail("it was begun"))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "is not empty" in refused("demo", "--out", tmp_path / "full")
    assert refused("demo", "blr", "--topics", 5) == "--topics: expected only with the demo of topics"
    assert refused("demo", "sbn", "--words", 5) == "--words: expected only with the demo of topics"
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
