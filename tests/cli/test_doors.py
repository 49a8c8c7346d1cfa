"""One fit by every door: Python and three commands of the shell."""

import numpy as np
import pytest
from bits import known_system

import vips_fast.demo
from vips_fast import LatentDirichletAllocation, PrivateTopics, PublicPrior
from vips_fast.cli import main
from vips_fast.models.lda import store_prior

THEMES = [[f"{a}{b}" for b in ("ache", "bond", "cart", "dome", "east", "fern")] for a in "lmnoprst"]
ASKED = ["--language", "en", "--text", "note", "--person", "patient"]

YES = ("--yes", "--language", "en")


def written(rng, n=1200):
    """Texts of six words of one of eight themes each, two texts of a person about one."""
    return [" ".join(rng.choice(THEMES[i // 2 % 8], 6)) for i in range(n)]


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Notes of 600 patients beside public topics: columns, and a file of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    ratios = np.kron(np.eye(8), np.full(6, 6.0)) + 0.25
    store_prior(PublicPrior(sum(THEMES, []), ratios, np.ones(8), np.ones(48), "a test"), "en")
    texts = [f"The naïve 3rd {text}" for text in written(np.random.default_rng(0))]
    columns = {"note": texts, "patient": [f"p{i // 2}" for i in range(1200)]}
    rows = zip(columns["note"], columns["patient"], strict=True)
    (tmp_path / "notes.csv").write_text("note,patient\n" + "".join(f"{note},{who}\n" for note, who in rows))
    return columns


@pytest.fixture(autouse=True)
def known(monkeypatch):
    """The public seed of every fit, which not every door takes."""
    monkeypatch.setattr("vips_fast.models.fit.public_seed", lambda random_state: 5)


def same(folders):
    """Whether all folders have the same bits, words, verdict and statement."""
    models = [LatentDirichletAllocation.load(folder) for folder in folders]
    said = [(str(model.verdict_), model.privacy_.statement(), model.inputs_) for model in models]
    for folder, model, (verdict, statement, inputs) in zip(folders, models, said, strict=True):
        assert np.array_equal(model.components_, models[0].components_), folder
        assert (verdict, statement, inputs) == said[0], folder
    return models[0]


def test_every_door_gives_the_same_bits(notes, tmp_path):
    doors = {
        "path": lambda: PrivateTopics(2.0, language="en").fit("notes.csv", "note", "patient", out="path"),
        "columns": lambda: PrivateTopics(2.0, language="en").fit(notes, "note", "patient", out="columns"),
        "start": lambda: main(["start", "notes.csv", *YES, "--quiet", "--out", "start"]),
        "fit": lambda: main(["fit", "lda", "notes.csv", *ASKED, "--epsilon", "2", "--out", "fit"]),
    }
    for door in doors.values():
        with known_system():
            assert door() != 2
    model = same(doors)
    assert len(model.components_) >= 8 and "useful" in str(model.verdict_)


def test_every_door_purchases_the_same_words(notes, tmp_path):
    """Without public topics, of as many topics."""
    topics = ["--vocab", "private", "--topics", "2", "--epsilon", "8"]
    doors = {
        "python": lambda: PrivateTopics(8.0, language="en", public_prior=None, n_topics=2).fit(
            notes, "note", "patient", out="python"
        ),
        "fit": lambda: main(["fit", "lda", "notes.csv", *ASKED, *topics, "--anyway", "--out", "fit"]),
    }
    for door in doors.values():
        with known_system():
            assert door() != 2
    same(doors)


def test_the_demo_is_a_fit_like_any_other(monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    texts, public = written(rng), written(rng, 400) + ["every text"] * 3000
    files = np.arange(1200) // 2
    monkeypatch.setattr(vips_fast.demo, "source_files", lambda: (texts, files, ["package"]))
    monkeypatch.setattr(vips_fast.demo, "public_texts", lambda: public)
    with known_system():
        assert main(["demo", "--topics", "8", "--quiet", "--out", str(tmp_path / "demo")]) == 0
    table = {"docstring": texts, "file": files}
    prior = vips_fast.demo.public_topics(public, 8)
    with known_system():
        PrivateTopics(2.0, public_prior=prior).fit(table, "docstring", "file", out=tmp_path / "python")
    same([tmp_path / "demo", tmp_path / "python"])
