"""``tabulate``."""

import csv
import json
import shutil

import numpy as np
import pandas
import pytest
from vectors import WORDS, Encoder

from vips_fast import DocumentClusters, LatentDirichletAllocation, PublicVectors, TopicTables
from vips_fast.cli.main import main
from vips_fast.jobs import clusters


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "SentenceEncoder", Encoder)
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    ward, ill = rng.integers(0, 2, 4000), rng.random(4000)
    ill = ill < 0.2 + 0.6 * ward
    table = {"note": np.where(ill, "cough, fever", "rent and debt"), "patient": np.arange(4000) // 2}
    table |= {"ward": np.array(["north", "south"])[ward], "month": rng.integers(1, 4, 4000)}
    pandas.DataFrame(table).to_csv(tmp_path / "notes.csv", index=False)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "values.toml").write_text('ward = ["north", "south"]\nmonth = [1, 2, 3]\n')
    fit = "fit lda notes.csv --text note --person patient --vocab vocab.txt --topics 2 --epsilon 4 --steps 3"
    assert (
        main([*fit.split(), *"--doc-length 2 --set measure_gain=False --out topics --seed 0 --quiet --anyway".split()])
        == 0
    )
    return tmp_path


TABULATE = (
    "tabulate topics notes.csv --by ward,month --values values.toml --person patient --epsilon 2 --out out --quiet"
)


def test_a_table_with_its_model_in_one_statement(notes, capsys):
    assert main(TABULATE.split()) == 0
    said = capsys.readouterr().out
    assert "ward north: " in said and "one person of 2000" in said
    tables = TopicTables.load("out")
    assert 4 < tables.privacy_.epsilon <= 5 and tables.privacy_.unit == "person"
    notes_read = pandas.read_csv("notes.csv")
    counts = np.array([[int(word in note) for word in WORDS] for note in notes_read.note])
    proportions = LatentDirichletAllocation.load("topics").transform(counts)
    # Noise and weights of persons move a share by about .01.
    for ward, shares in zip(("north", "south"), tables.table("ward").shares, strict=True):
        np.testing.assert_allclose(shares, proportions[notes_read.ward == ward].mean(axis=0), atol=0.08)
    rows = list(csv.reader(open("out/tables.csv")))
    assert rows[0] == ["ward", "month", "topic", "share", "low", "high"] and len(rows) == 1 + 2 * (6 + 2 + 3)
    assert [rows[13][:2], rows[17][:2]] == [["north", ""], ["", "1"]]
    assert set(rows[13][2].split(", ")) <= set(WORDS)


def test_a_later_product_has_the_unit_of_its_model_and_an_epsilon_of_its_own(notes, capsys):
    """As `start` names it by the column: no option says it again."""
    fit = "fit lda notes.csv --text note --person patient --unit patient --vocab vocab.txt --topics 2 --epsilon 4"
    more = "--steps 3 --doc-length 2 --set measure_gain=False --out named --quiet --anyway"
    assert main([*fit.split(), *more.split()]) == 0
    words = TABULATE.replace(" topics ", " named ").split()
    words[words.index("--epsilon") + 1] = "0.5"
    assert main([*words, "--anyway"]) == 0
    privacy = TopicTables.load("out").privacy_
    assert privacy.unit == "patient" and 4 < privacy.epsilon < 4.3
    capsys.readouterr()
    words[words.index("out")] = "none"
    del words[words.index("--person") : words.index("--person") + 2]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "--person: expected the column that tells patients apart, since the model is about one patient" in said
    assert main([*words, "--person", "patient", "--unit", "ward"]) == 2
    assert "the earlier fit to these records is about one patient (add_remove), this one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "column, cell, told",
    [
        ("ward", "west", "INPUT: record 7, column 'ward': not one of the public values, 'north', 'south'; spell both"),
        ("patient", None, "notes.csv: record 7: no person in column 'patient'; expected a text or a number: fill it"),
    ],
)
def test_a_refusal_counts_records_as_a_fit_does(notes, capsys, column, cell, told):
    table = pandas.read_csv("notes.csv", dtype=object)
    table.loc[6, column] = cell
    table.to_csv("notes.csv", index=False)
    assert main(TABULATE.split()) == 2
    assert f"error: {told}" in capsys.readouterr().err


def test_finished_tables_are_not_the_answer_to_a_larger_epsilon(notes, capsys):
    """What their statement includes of the model is no lost release, which a larger epsilon would have paid for."""
    assert main(TABULATE.split()) == 0 == main([*TABULATE.split(), "--resume"])
    assert main([*TABULATE.replace("--epsilon 2", "--epsilon 3").split(), "--resume"]) == 2
    assert "epsilon = 2.0, this fit has 3.0" in capsys.readouterr().err
    shutil.copytree("out", "before")
    assert main([*TABULATE.split(), "--resume", "--after", "before"]) == 2
    assert "with after = " in capsys.readouterr().err


def test_clusters_and_a_text_without_words(notes, capsys):
    public = PublicVectors(np.eye(4), np.eye(4), np.ones(4), WORDS, np.eye(4), "a test")
    X = Encoder()(pandas.read_csv("notes.csv").note)
    DocumentClusters(2, public=public, epsilon=4.0, random_state=0).fit(X, groups=np.arange(4000) // 2).save("groups")
    (notes / "model").mkdir()
    blank = pandas.DataFrame({"note": [""] * 2000, "patient": np.arange(2000) + 9000, "ward": "north"})
    pandas.concat([pandas.read_csv("notes.csv"), blank]).to_csv("notes.csv", index=False)
    more = "--vectors model --text note --by ward --json".split()
    assert main([*TABULATE.replace("topics", "groups").split(), *more]) == 0
    assert json.loads(capsys.readouterr().out)["exit"] == "done"
    shares = TopicTables.load("out").table().shares
    np.testing.assert_allclose(np.sort(shares, axis=1), [[0.2, 0.8]] * 2, atol=0.1)
