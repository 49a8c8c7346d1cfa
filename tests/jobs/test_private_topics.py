"""Private topics from texts in memory and in files, in few lines."""

import csv
import json

import numpy as np
import pandas
import polars
import pytest

from vips_fast import LatentDirichletAllocation, PublicPrior
from vips_fast.jobs import PrivateTopics

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
    return PrivateTopics(2.0, 1e-6, prior=prior, n_records=600, random_state=0, **more)


@pytest.mark.parametrize("kind", [dict, pandas.DataFrame, polars.DataFrame, lambda c: polars.DataFrame(c).to_arrow()])
def test_tables_in_memory(prior, kind):
    found = topics(prior).fit(kind(notes()), text="note", person="patient")
    model = found.model_
    assert model.privacy_.unit == "person" and model.privacy_.epsilon <= 2.0 and model.public_prior.name == "a test"
    rows = found.topics(8)
    assert sorted(row.number for row in rows) == [1, 2]
    assert {frozenset(word.word for word in row.words) for row in rows} == {frozenset(WORDS[:8]), frozenset(WORDS[8:])}
    for row in rows:
        assert 0 < row.share < 1 and 0 <= row.from_records <= 1
        assert all(word.low <= word.high and 0 < word.probability < 1 for word in row.words)
    assert sum(row.share for row in rows) == pytest.approx(1.0)
    shares = found.transform(["fever and rash", "the landlord wants rent", None])
    assert shares.shape == (3, 2) and shares[0].argmax() != shares[1].argmax()


def test_a_list_of_texts_is_of_records(prior):
    found = topics(prior).fit(notes()["note"][:600])
    assert found.model_.privacy_.unit == "record"


def test_a_file_gives_a_published_folder(prior, tmp_path):
    table = notes()
    with (tmp_path / "notes.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerows([list(table), *zip(*table.values(), strict=True)])
    out = tmp_path / "topics"
    found = topics(prior).fit(tmp_path / "notes.csv", text="note", person="patient", out=out)
    assert {"model.npz", "topics.txt", "vocab.txt", "privacy.json"} <= {path.name for path in out.iterdir()}
    assert json.loads((out / "text.json").read_text())["columns"] == ["note"]
    again = LatentDirichletAllocation.load(out)
    np.testing.assert_array_equal(again.components_, found.model_.components_)
    found.report(tmp_path / "page.html")
    assert "a test" in (tmp_path / "page.html").read_text()
    assert str(found).startswith("Verdict: ")
    # A finished job spends nothing more.
    same = topics(prior).fit(tmp_path / "notes.csv", text="note", person="patient", out=out, resume=True)
    np.testing.assert_array_equal(same.model_.components_, found.model_.components_)


def test_bad_input_spends_nothing(prior):
    with pytest.raises(ValueError, match="no column|'text'"):
        topics(prior).fit(notes(), person="patient")
    with pytest.raises(ValueError, match="vocab_size=3"):
        topics(prior, vocab_size=3).fit(notes(), text="note", person="patient")
    with pytest.raises(ValueError, match="epsilon"):
        PrivateTopics(-1.0, prior=prior).fit(notes(), text="note", person="patient")
