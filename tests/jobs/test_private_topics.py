"""Private topics from texts in memory and in files, in few lines."""

import csv
import gc
import inspect
import io
import json
import os
import shutil
import sys
from html import escape

import numpy as np
import pandas
import polars
import pytest

from vips_fast import LatentDirichletAllocation, PrivateTopics, PublicPrior
from vips_fast.cli import main
from vips_fast.data import Corpus
from vips_fast.jobs.text import TextFile, read_settings
from vips_fast.jobs.topics import TopicWord

WORDS = "cough fever rash ache pain nausea clinic nurse rent salary debt loan wages bank landlord money".split()


@pytest.fixture
def prior():
    ratios = np.where(np.arange(16) < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    return PublicPrior(WORDS, ratios, [1, 1], np.ones(16), "a test")


def notes(n=1200):
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS[8 * (i % 2) :][:8], 6)) for i in range(n)]
    return {"note": texts, "patient": [f"p{i // 2}" for i in range(n)]}


def topics(prior, **more):
    return PrivateTopics(2.0, 1e-6, public_prior=prior, n_records=600, random_state=0, **more)


@pytest.mark.parametrize("kind", [dict, pandas.DataFrame, lambda c: polars.DataFrame(c).to_arrow()])
def test_tables_in_memory(prior, kind):
    found = topics(prior).fit(kind(notes()), text="note", person="patient")
    model = found.model_
    assert model.privacy_.unit == "person" and model.privacy_.epsilon <= 2.0 and model.public_prior.name == "a test"
    table = found.topics(8)
    assert list(table.columns) == list(TopicWord._fields)
    assert len(table) == 8 * len(model.components_) and len(model.components_) in (2, 4)
    parts = table.groupby("topic")
    assert {frozenset(words) for _, words in parts["word"]} == {frozenset(WORDS[:8]), frozenset(WORDS[8:])}
    known = table.lift.notna()
    assert (table.low <= table.high)[known].all() and table.low.isna()[~known].all()
    assert table.probability.between(0, 1).all()
    assert (table.lift > 0)[table.lift.notna()].all() and parts.share.first().sum() == pytest.approx(1.0)
    shares = found.transform(["fever and rash", "the landlord wants rent", None])
    assert shares.shape == (3, len(model.components_)) and shares[0].argmax() != shares[1].argmax()


@pytest.mark.parametrize(
    "listed",
    [tuple, np.array, pandas.Series, lambda words: {word: k for k, word in reversed([*enumerate(words)])}],
    ids=("tuple", "array", "series", "mapping"),
)
def test_every_list_of_words_is_as_a_file_of_them(prior, tmp_path, listed):
    words, path = sorted(WORDS), tmp_path / "words.txt"
    for option, some in (("stop_words", words[:4]), ("coarse_words", words[:4]), ("vocab", words)):
        path.write_text("\n".join(some))
        public = None if option == "vocab" else prior
        sources = [TextFile(notes(9), ("note",), public_prior=public, **{option: one}) for one in (path, listed(some))]
        by_file, by_list = [(source.public_words(), source.words_analyzer) for source in sources]
        assert by_file == by_list
    assert by_list[0] == tuple(words)
    found = topics(prior, vocab=listed(words)).fit(notes(), text="note", person="patient")
    assert found.model_.n_features_in_ == 16 and set(found.topics(16)["word"]) == set(words)


@pytest.mark.parametrize("option", ("vocab", "stop_words", "coarse_words"))
@pytest.mark.parametrize("words, message", [(["a", 7], "strings only"), (["a", "b", "a"], "'a' stands twice"), (7, "")])
def test_a_bad_list_of_words_is_named(prior, option, words, message):
    with pytest.raises((TypeError, ValueError), match=f"{option}=: .*{message}"):
        topics(prior, **{option: words}).fit(notes(), text="note", person="patient")


@pytest.mark.parametrize("way", ("out", "load"))
def test_releases_are_kept_for_verify(prior, tmp_path, way, capsys):
    """Beside the folder, as the README saves it; temporary ones go with the object."""
    place = tmp_path / "topics"
    found = topics(prior).fit(notes(), text="note", person="patient", out=place if way == "out" else None)
    before = found.releases_
    if way == "load":
        found.save(place)
        found.save(place)  # again, over its own
        PrivateTopics.load(place).save(tmp_path / "more")
        place = tmp_path / "more"
    assert main(["verify", str(place)]) == 0
    del found
    gc.collect()
    assert before.exists() == (way == "out")


def test_no_folder_but_releases_is_replaced(prior, tmp_path):
    found = topics(prior).fit(notes(), text="note", person="patient")
    found.save(tmp_path / "topics")
    mine = tmp_path / "topics.releases" / "mine.txt"
    mine.write_text("kept")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"topics\.releases: .*mine\.txt' ?.*would be lost"):
            found.save(tmp_path / "topics")
        assert mine.read_text() == "kept"
        shutil.rmtree(mine.with_name("run-0000"), ignore_errors=True)


def test_without_pandas_topics_are_a_list(prior, monkeypatch):
    found = topics(prior).fit(notes(), text="note", person="patient")
    table = found.topics(8)
    monkeypatch.setitem(sys.modules, "pandas", None)
    rows = found.topics(8)
    assert isinstance(rows[0], TopicWord) and len(rows) == len(table)
    for row, other in zip(rows, table.itertuples(index=False), strict=True):
        np.testing.assert_equal(row._asdict(), other._asdict())


def test_a_list_of_texts_is_of_records(prior):
    found = topics(prior).fit(iter(notes()["note"][:600]))
    assert found.privacy_.unit == "record"


def test_rows_of_persons_are_noticed_in_memory_too(prior):
    with pytest.warns(UserWarning, match="'patient' repeats") as caught:
        topics(prior).fit(pandas.DataFrame(notes()), text="note")
    [told] = [one for one in caught if "'patient' repeats" in str(one.message)]
    assert told.filename == __file__


def test_one_ledger_for_purchased_words_and_topics():
    table = notes(8000)
    found = PrivateTopics(8.0, 1e-6, public_prior=None, language="en", n_topics=2, doc_length=12, max_share=1.0)
    found.fit(table, text="note", person="patient")
    assert found.privacy_.epsilon <= 8.0 and found.privacy_.vocabulary
    assert set(found.topics(5)["word"]) <= set(WORDS) and found.topics()["lift"].isna().all()
    assert "nan" not in str(found)
    assert "vocabulary" in found.privacy_.statement()


def test_an_error_after_a_purchase_tells_how_to_resume(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = PrivateTopics(8.0, 1e-6, public_prior=None, language="en", n_topics=2, doc_length=12)
    with pytest.raises(ValueError, match="max_share=0.3: leaves out all") as caught:
        found.fit(notes(8000), text="note", person="patient")
    out = next(tmp_path.iterdir()) / "model"
    assert f"The run is kept: give out={str(out)!r} too" in caught.value.__notes__
    found.max_share = 1.0
    found.fit(notes(8000), text="note", person="patient", out=out, resume=True)
    assert found.privacy_.epsilon <= 8.0
    with pytest.raises(ValueError, match="'text'"):
        found.fit(notes(8000), person="patient")
    assert [path for path in tmp_path.iterdir() if path != out.parent] == []


def test_only_the_releases_of_a_fit_without_a_folder_are_kept(prior, tmp_path, monkeypatch):
    """Neither run folder nor model: nothing of it could resume, and nobody paid. So nothing waits for the disk."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delattr("vips_fast.jobs.job.JobFolder")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: 1 / 0)
        found = topics(prior).fit(notes(), text="note", person="patient")
    assert [*tmp_path.rglob("run-0000")] == [found.releases_ / "run-0000"] and not [*tmp_path.rglob("*ledger*")]
    assert [*found.releases_.parent.iterdir()] == [found.releases_]
    with pytest.raises(ValueError, match="resume=True: expected out="):
        topics(prior).fit(notes(), text="note", person="patient", resume=True)
    with monkeypatch.context() as patch:
        patch.setattr("vips_fast.models.lda.public_topics.PublicTopicsModel.update", lambda self, release: 1 / 0)
        with pytest.raises(ZeroDivisionError) as caught:
            topics(prior).fit(notes(), text="note", person="patient")
    assert "count as spent" in caught.value.__notes__[0] and len([*tmp_path.iterdir()]) == 1


def test_without_a_prior_the_number_of_topics_has_to_be_given():
    with pytest.raises(ValueError, match=r"n_topics=None: expected a number without public_prior; vips_fast\.plan"):
        PrivateTopics(8.0, 1e-6, public_prior=None).fit(notes(), text="note", person="patient")


def test_the_shell_and_python_read_texts_alike(prior, tmp_path, monkeypatch):
    """The same words are left out. Stop words of the language, and bare numbers."""
    from vips_fast.cli.inputs import text_file
    from vips_fast.cli.main import parse

    found = topics(prior).fit(notes(), text="note", person="patient")
    prior.save(tmp_path / "prior.npz")
    line = ["fit", "lda", "notes.csv", "--text", "note", "--public-prior", str(tmp_path / "prior.npz"), "--out", "o"]
    assert text_file(parse(line)).words_analyzer == read_settings(found.model_)["analyzer"]


def test_a_file_gives_a_published_folder(prior, tmp_path):
    table = notes()
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([list(table), *zip(*table.values(), strict=True)])
    out = tmp_path / "topics"
    found = topics(prior).fit(tmp_path / "notes.csv", text="note", person="patient", out=out)
    assert {"model.npz", "topics.txt", "vocab.txt", "privacy.json"} <= {path.name for path in out.iterdir()}
    assert json.loads((out / "text.json").read_text())["columns"] == ["note"]
    found.report(tmp_path / "page.html")
    assert "a test" in (tmp_path / "page.html").read_text()
    assert str(found).startswith("Verdict: ")
    # A finished job spends nothing more.
    same = topics(prior).fit(tmp_path / "notes.csv", text="note", person="patient", out=out, resume=True)
    np.testing.assert_array_equal(same.model_.components_, found.model_.components_)
    # A folder saved from memory holds the same files, and both can be loaded.
    found.save(tmp_path / "saved")
    assert {p.name: p.read_bytes() for p in out.iterdir()} == {
        p.name: p.read_bytes() for p in (tmp_path / "saved").iterdir()
    }
    again = PrivateTopics.load(tmp_path / "saved")
    pandas.testing.assert_frame_equal(again.topics(), found.topics())
    np.testing.assert_array_equal(again.transform(["fever"]), found.transform(["fever"]))
    assert (again.epsilon, again.delta, again.public_prior.name) == (2.0, 1e-6, "a test")
    LatentDirichletAllocation(2, n_steps=1, private=False).fit(np.eye(4, dtype=int)).save(tmp_path / "counts")
    with pytest.raises(ValueError, match="without texts; expected a folder of PrivateTopics.save"):
        PrivateTopics.load(tmp_path / "counts")


def test_coarse_words_are_never_shown(tmp_path):
    """Neither topics, nor the page, nor a table has one; a prior may know them."""
    coarse = ("shit", "fucking", "Bitch")
    words = [*WORDS, *map(str.lower, coarse)]
    ratios = np.where(np.arange(19) % 16 < 8, [[5.0], [0.2]], [[0.2], [5.0]])
    table = notes()
    table["note"] = [f"{note} {' '.join(coarse)}" for note in table["note"]]
    found = topics(PublicPrior(words, ratios, [1, 1], np.ones(19), "a test"))
    found.fit(table, text="note", person="patient").report(tmp_path / "page.html")
    found.save(tmp_path / "folder")
    shown = found.topics(19).to_csv() + str(found) + (tmp_path / "page.html").read_text()
    shown += "".join((tmp_path / "folder" / name).read_text() for name in ("topics.txt", "vocab.txt"))
    assert "cough" in shown and not any(word in shown.lower() for word in words[16:])
    assert set(found.topics(19)["word"]) == set(WORDS)
    # You can keep them, or choose others, in texts that are about them.
    for given, kept in (("none", set(words)), (tmp_path / "own.txt", {*words} - {"nurse"})):
        (tmp_path / "own.txt").write_text("nurse\n")
        source = TextFile(table, ("note",), public_prior=found.public_prior, coarse_words=os.fspath(given))
        assert set(source.public_words()) == kept
    assert not TextFile(table, ("note",), vocab="private", language="en").words_analyzer(" ".join(coarse))
    assert TextFile(table, ("note",), vocab=str(tmp_path / "own.txt")).words_analyzer("shit") == ["shit"]


def test_pages_of_a_notebook(prior):
    found = topics(prior)
    assert found._repr_html_() == "<pre>PrivateTopics(epsilon=2.0, delta=1e-06)</pre>"
    found.fit(notes(), text="note", person="patient")
    assert found._repr_html_() == f"<pre>{escape(str(found))}</pre>" and str(found).startswith("Verdict: ")
    panels = found.plot(n_topics=1, n_words=4).axes
    first = found.topics(4)
    assert [panel.get_title() for panel in panels] == [f"Topic {first.topic[0]}"]
    assert [label.get_text() for label in panels[0].get_yticklabels()] == first.word[:4].tolist()
    line = str(found).split("\n")[3]
    assert " ".join(first.word[:4]) in line and f" {first.topic[0]}  " in line


def test_progress_is_for_persons(prior, monkeypatch, capsys):
    gc.collect()  # a figure that another test left would say so on the terminal
    topics(prior).fit(notes(), text="note", person="patient")
    assert "step" not in capsys.readouterr().err
    monkeypatch.setattr(sys, "stderr", terminal := io.StringIO())
    terminal.isatty = lambda: True
    topics(prior).fit(notes(), text="note", person="patient")
    assert "\rfit: step" in terminal.getvalue()
    before = terminal.getvalue()
    topics(prior, progress=False).fit(notes(), text="note", person="patient")
    assert terminal.getvalue() == before


def test_bad_input_spends_nothing(prior):
    with pytest.raises(ValueError, match="'text'"):
        topics(prior).fit(notes(), person="patient")
    with pytest.raises(ValueError, match="expected names of columns, not the columns"):
        topics(prior).fit(pandas.DataFrame(notes()), text=pandas.Series(notes()["note"]))
    for texts in (["a b"], pandas.Series(["a b"]), (text for text in ["a b"]), [notes()], np.array(["a b"])):
        with pytest.raises(ValueError, match="no columns; expected texts and no person=, a file, or a table, such as"):
            topics(prior).fit(texts, person="patient")
    with pytest.raises(ValueError, match="vocab_size=3"):
        topics(prior, vocab_size=3).fit(notes(), text="note", person="patient")
    with pytest.raises(ValueError, match="n_topics=3: expected None, or 2"):
        topics(prior, n_topics=3).fit(notes(), text="note", person="patient")
    with pytest.raises(ValueError, match="epsilon=None: expected a number, or budget="):
        PrivateTopics(public_prior=prior).fit(notes(), text="note", person="patient")
    with pytest.raises(ValueError, match="epsilon"):
        PrivateTopics(-1.0, public_prior=prior).fit(notes(), text="note", person="patient")
    with pytest.raises(ValueError, match="not fitted yet"):
        topics(prior).topics()
    found = topics(prior).fit(notes(), text="note", person="patient")
    for texts in ("one text", notes()):
        with pytest.raises(TypeError, match="expected a list of texts"):
            found.transform(texts)


@pytest.mark.parametrize(
    "X",
    [["a b"], np.array(["a b"]), pandas.Series(["a"]), pandas.DataFrame({"t": ["a"]}), Corpus(np.eye(4, dtype=int))],
)
def test_texts_in_place_of_counts_lead_here(X):
    said = r"texts; expected counts, or vips_fast.PrivateTopics"
    if isinstance(X, Corpus):
        said = r"a Corpus; expected its counts: X\.counts, and groups=X\.groups"
    with pytest.raises(TypeError, match=f"X: {said}"):
        LatentDirichletAllocation(2, private=False).fit(X)


def test_signatures_are_seen_by_an_editor():
    names = list(inspect.signature(PrivateTopics.fit).parameters)
    assert names == ["self", "data", "text", "person", "out", "resume"]
    assert {"groups", "budget", "checkpoint"} <= set(inspect.signature(LatentDirichletAllocation.fit).parameters)
