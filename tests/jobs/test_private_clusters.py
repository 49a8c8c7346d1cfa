"""Private clusters of texts in memory and in files, in few lines."""

import json

import numpy as np
import pandas
import pytest
from priors import prior_of
from vectors import WORDS, encode

from vips_fast import DocumentClusters, PublicVectors
from vips_fast.jobs import Job, PrivateClusters
from vips_fast.jobs.clusters import VectorTexts
from vips_fast.models.clusters import PublicVectors as Vectors
from vips_fast.models.clusters import invented_documents, knowledge

PUBLIC = PublicVectors(np.eye(4), np.eye(4), np.ones(4), WORDS, np.eye(4), "a test")


def notes(n=3000):
    return {"note": ["cough, fever", "rent and debt"] * (n // 2), "patient": [f"p{i // 2}" for i in range(n)]}


def clusters(**more):
    settings = dict(n_clusters=2, encode=encode, public=PUBLIC, random_state=0)
    return PrivateClusters(6.0, 1e-6, **{**settings, **more})


@pytest.mark.parametrize("kind", [dict, pandas.DataFrame])
def test_tables_in_memory(kind):
    found = clusters().fit(kind(notes()), text="note", person="patient")
    model = found.model_
    assert model.privacy_.unit == "person" and model.privacy_.epsilon <= 6.0 and model.privacy_.n_records == 1500
    rows = found.clusters(2)
    assert {frozenset(row.words) for row in rows} == {frozenset(WORDS[:2]), frozenset(WORDS[2:])}
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    numbers = found.predict(["cough with fever", "debt, rent", None])
    by_number = {row.number: set(row.words) for row in rows}
    assert by_number[numbers[0]] == set(WORDS[:2]) and by_number[numbers[1]] == set(WORDS[2:])
    assert "cough" in str(found) and "differential" in str(found)
    for texts in ("debt", kind(notes())):
        with pytest.raises(TypeError, match="texts: .*; expected a list of texts, or one column of a table"):
            found.predict(texts)


def test_clusters_that_are_not_fitted_say_so(tmp_path):
    unfitted = clusters()
    assert str(unfitted) == repr(unfitted) == "PrivateClusters(epsilon=6.0, delta=1e-06)"
    for ask in (unfitted.clusters, lambda: unfitted.predict(["rent"]), lambda: unfitted.report(tmp_path / "page.html")):
        with pytest.raises(ValueError, match="PrivateClusters is not fitted yet: call fit first"):
            ask()


def test_a_file_gives_a_published_folder_and_resumes(tmp_path):
    pandas.DataFrame(notes()).to_csv(tmp_path / "notes.csv", index=False)
    out = tmp_path / "clusters"
    found = clusters().fit(tmp_path / "notes.csv", text="note", person="patient", out=out)
    assert {"components.csv", "model.npz", "privacy.txt", "text.json"} <= {path.name for path in out.iterdir()}
    again = clusters().fit(tmp_path / "notes.csv", text="note", person="patient", out=out, resume=True)
    assert again.model_.ledger_.head == found.model_.ledger_.head
    found.report(tmp_path / "page.html")
    assert "a test" in (tmp_path / "page.html").read_text("utf-8")


def bad_record(texts):
    """Give words vectors, and notes NaN."""
    return np.where([[len(text) > 5] for text in texts], np.nan, encode(texts))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        (lambda texts: encode(texts)[:, :3], r"encode: float64 of shape \(4, 3\); expected floats of shape \(4, 4\)"),
        (lambda texts: encode(texts)[:-1], r"shape \(3, 4\); expected floats of shape \(4, 4\)"),
        (lambda texts: 7 * encode(texts), "lengths up to 7, projected; .* divide each vector by its length"),
        (lambda texts: encode(texts) * np.nan, "lengths up to nan, projected; expected finite ones"),
        (bad_record, "expected finite numbers, found NaN or a missing value .*leave such records out by options="),
    ],
)
def test_an_encoder_of_bad_vectors_is_refused_before_anything_is_spent(tmp_path, encoder, message):
    model = DocumentClusters(2, public=PUBLIC, noise_multiplier=5.0)
    job = Job(model, VectorTexts(notes(20), PUBLIC, encoder, ("note",)), tmp_path / "out")
    with pytest.raises(ValueError, match=message):
        job.run()
    assert not hasattr(model, "ledger_")


def test_a_note_with_a_bad_vector_can_be_dropped():
    found = clusters(encode=bad_record, invalid="drop", n_records=200)
    found.fit({"note": notes(200)["note"]}, text="note")
    assert found.model_.privacy_.n_records == 200


def test_a_record_without_a_text_is_in_no_cluster():
    """An encoder has a vector for no words, too."""
    table = notes(400)
    blank = {"note": [*table["note"], "", " ", None], "patient": [*table["patient"], "x", "y", "z"]}
    read = [VectorTexts(one, PUBLIC, encode, ("note",), "patient", invalid="drop").read(None) for one in (table, blank)]
    np.testing.assert_array_equal(read[1].data[0][:400], read[0].data[0])
    assert np.isnan(read[1].data[0][400:]).all()
    with pytest.raises(ValueError, match=r"records: record 401, column 'note': no text; drop such records with"):
        clusters().fit(blank, text="note", person="patient")


def test_a_broken_record_is_dropped(tmp_path):
    rows = [json.dumps({"note": "cough, fever", "patient": i}) for i in range(200)]
    (tmp_path / "notes.jsonl").write_text("\n".join([*rows, '{"note": 3, "patient": 1}', "no json"]) + "\n")
    found = clusters(invalid="drop", n_records=200)
    found.fit(tmp_path / "notes.jsonl", text="note", person="patient")
    assert found.model_.privacy_.n_records == 200


def test_public_vectors_of_packages_are_stored(monkeypatch, tmp_path):
    prior, calls = prior_of(40), []

    class Encoder:
        name = "a small model"

        def of_public(self, texts, progress):
            calls.append(len(texts))
            if progress is not None:
                progress(len(texts), len(texts))
            return np.array([[len(text), text.count("1") + 1.0, text.count("2")] for text in texts])

    monkeypatch.setattr(knowledge, "SentenceEncoder", Encoder)
    monkeypatch.setattr(knowledge, "load_prior", lambda source: prior)
    monkeypatch.setattr(knowledge, "public_vocabulary", lambda name, analyzer, size: tuple(prior.words))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = []
    made = knowledge.packaged_vectors(progress=lambda *numbers: done.append(numbers))
    again = knowledge.packaged_vectors()
    assert calls == [1040] and done == [(1040, 1040)] and made == again and made.words == tuple(prior.words)
    assert made.name.startswith("a small model, of invented documents by a test")
    own = knowledge.packaged_vectors(Encoder(), name="mine")
    assert own.name == "mine" and len(calls) == 2
    with pytest.raises(ValueError, match="has no array"):
        np.savez(tmp_path / "other.npz", words=np.array(WORDS))
        Vectors.load(tmp_path / "other.npz")


def test_invented_documents_have_the_words_of_their_topics():
    prior = prior_of(40)
    texts = invented_documents(prior, 30)
    assert texts == invented_documents(prior, 30) and len(texts) == 30
    for topic, text in enumerate(texts[:4]):
        shares = np.bincount([int(word[1:]) % 4 for word in text.split()], minlength=4)
        assert shares.argmax() == topic and shares.sum() == 25
