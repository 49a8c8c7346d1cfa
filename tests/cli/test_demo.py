"""The demo: private topics, their folder and page."""

import re
import sys

import numpy as np
import pytest

import vips_fast.demo
from vips_fast import PrivateTopics

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
    code, out, err = run("demo", "--epsilon", 20, "--topics", 8, "--jobs", 1, "--out", folder)
    assert code == 0 and re.search(r"fit: step (\d+) of \1, epsilon 20, ", err)
    assert "wrote: 800 persons." in " ".join(out.split()) and "Verdict: useful." in out
    model = PrivateTopics.load(folder).model_
    assert model.privacy_.unit == "person" and model.privacy_.n_records == 800 and model.privacy_.epsilon <= 20
    assert (model.public_prior.n_topics, model.random_state) == (8, 0)
    assert run("verify", folder)[0] == 0 and run("show", folder)[0] == 0


def test_topics_say_when_they_failed(run, few_docstrings, monkeypatch, tmp_path):
    """Files of words without themes, at an epsilon at which the verdict is sure."""
    texts = [" ".join(text) for text in np.random.default_rng(0).choice(WORDS, (1600, 8)).tolist()]
    monkeypatch.setattr(vips_fast.demo, "source_files", lambda: (texts, np.arange(1600) // 2, ["package"]))
    code, out, err = run("demo", "--epsilon", 20, "--topics", 8, "--quiet", "--jobs", 1)
    assert code == 1 and "Verdict: not better than counting words" in out
    assert "are no better than counting words" in err and len(err.splitlines()) == 1
    folder, releases = sorted(tmp_path.glob("vips-fast-demo-*"))
    assert run("verify", folder)[0] == 0 and releases.name == f"{folder.name}.releases"


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
