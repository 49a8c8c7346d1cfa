"""``report``, ``show`` and ``fit --report``: from only a model's folder."""

import sys

from reported import vocabulary

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast.jobs.places import kind_in


def fit(run, files, *more):
    assert run(*files.fit("--epsilon", 2, "--delta", 1e-3, "--quiet", *more))[0] == 0


def test_report_and_show_need_no_data(run, files):
    transcript, page = files.folder / "transcript", files.folder / "page.html"
    fit(run, files, "--transcript", transcript)
    files.docs.unlink()
    files.vocab.unlink()
    assert run("show", files.model, "--out", page, "--transcript", transcript) == (0, f"Written to {page}.\n", "")
    assert "✓ follows from its releases" in page.read_text() and "teal" in page.read_text()
    code, out, err = run("show", files.model, "--words", 3)
    privacy = LatentDirichletAllocation.load(files.model).privacy_
    assert (code, err) == (0, "") and " ".join(privacy.statement().split()) in " ".join(out.split())
    assert out.startswith("Topic model (LatentDirichletAllocation)\n") and "10 records" in out
    lines = [line.split() for line in out.splitlines()[2:4]]
    assert [line[0] for line in lines] == ["1", "2"] and all(set(line[2:5]) <= set(files.words) for line in lines)


def test_a_vocabulary(run, files):
    vocabulary().save(files.folder / "words")
    assert kind_in(files.folder / "words") is PrivateVocabulary
    page = files.folder / "page.html"
    assert run("show", files.folder / "words", "--out", page)[0] == 0 and "token3" in page.read_text()
    assert "Vocabulary (PrivateVocabulary)" in run("show", files.folder / "words")[1]


def test_without_jinja(run, refused, files, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert 'pip install "vips_fast[report]"' in refused(*files.fit("--epsilon", 2, "--report"), code=1)
    # The message comes before anything is read or spent.
    assert files.names() == {"docs.npz", "words.txt"}
    fit(run, files)
    assert run("show", files.model)[0] == 0
    assert "vips_fast[report]" in refused("show", files.model, "--out", files.folder / "page.html", code=1)


def test_a_report_that_fails_costs_no_model(run, files, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("private text")

    monkeypatch.setattr("vips_fast.jobs.beside.html_report", broken)
    code, _, err = run(*files.fit("--epsilon", 2, "--delta", 1e-3, "--quiet", "--report"))
    assert code == 0 and "no report (RuntimeError)" in err and "private text" not in err
    assert LatentDirichletAllocation.load(files.model).privacy_.private
