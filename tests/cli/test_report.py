"""``show``, ``fit --report`` and ``verify``: from only a model's folder, and its transcript."""

import json
import shutil
import sys

import numpy as np
import pytest
from reported import vocabulary

from vips_fast import LatentDirichletAllocation, PrivateVocabulary
from vips_fast.jobs import publication
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

    monkeypatch.setattr("vips_fast.jobs.job.html_report", broken)
    code, _, err = run(*files.fit("--epsilon", 2, "--delta", 1e-3, "--quiet", "--report"))
    assert code == 0 and "no report (RuntimeError)" in err and "private text" not in err
    assert LatentDirichletAllocation.load(files.model).privacy_.private


# A model held against its transcript


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
    code, out, _ = run(*published, "--json")
    assert (code, json.loads(out)["exit"], json.loads(out)["ok"]) == (1, "failed", False)


def test_a_release_that_was_changed_is_seen(run, refused, files, published):
    (path,) = files.folder.glob("transcript/run-*/release-000002.npz")
    with np.load(path) as arrays:
        kept = dict(arrays)
    np.savez(path, **{**kept, "units": kept["units"] + 1})
    assert run(*published)[0] == 1
    path.unlink()
    assert run(*published)[0] == 1
    assert "none" in refused(*published[:3], files.folder / "none")
    (files.model / "model.npz").write_bytes(b"PK")
    assert "model.npz" in refused(*published)


def test_another_model_of_the_same_settings_is_seen(run, files, published):
    shutil.rmtree(files.model)
    assert run(*files.fit("--epsilon", 2, "--quiet", "--transcript", files.folder / "other"))[0] == 0
    assert run(*published)[0] == 1


def test_a_model_of_ones_own_is_named_to_python(refused, tmp_path):
    """A folder imports nothing that it names."""
    from ball_mean import Mean

    model, transcript = tmp_path / "model", tmp_path / "transcript"
    Mean(noise_multiplier=2.0, n_steps=3).fit(np.full((50, 2), 0.1), transcript=transcript).save(model)
    verify = ["verify", model, "--transcript", transcript]
    assert publication.verify(model, transcript, cls=Mean).ok
    assert "'Mean' is not a class of this package; one of your own is verified from Python" in refused(*verify)
