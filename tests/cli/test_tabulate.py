"""``tabulate``."""

import csv
import json

import numpy as np
import pandas
import pytest
from vectors import WORDS, Encoder

from vips_fast import DocumentClusters, LatentDirichletAllocation, PublicVectors, TopicTables
from vips_fast.accounting import attack_success
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
    "tabulate topics notes.csv --by ward,month --values values.toml --person patient --epsilon 5 --out out --quiet"
)


def test_a_table_with_its_model_in_one_statement_that_verifies(notes, capsys):
    assert main([*TABULATE.split(), "--transcript", "releases", "--report"]) == 0
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
    assert main(["verify", "out", "--transcript", "releases"]) == 0
    assert main([*TABULATE.split(), "--transcript", "releases", "--resume"]) == 0
    assert "nothing was spent" in capsys.readouterr().out
    (notes / "out" / "tables.csv").write_text("ward,month,topic,share\n")
    assert main(["verify", "out", "--transcript", "releases"]) == 1


def test_a_model_and_its_tables_in_one_run_keep_to_one_epsilon(notes, capsys):
    fit = "fit lda notes.csv --text note --person patient --vocab vocab.txt --topics 2 --epsilon 4 --steps 3 --quiet"
    fit += " --doc-length 2 --set measure_gain=False --out both --seed 0 --anyway --tabulate ward --delta 1e-6 --force"
    fit += " --transcript releases"
    for more, message in (
        ("", "--tabulate: expected with --values"),
        ("--values notes.csv", "--values notes.csv: not a TOML file: "),
        ("--values values.toml --table-epsilon 4", "--table-epsilon 4: expected less than --epsilon 4"),
    ):
        assert main([*fit.split(), *more.split()]) == 2
        assert message in capsys.readouterr().err and not (notes / "both").exists()
    assert main([*fit.split(), "--values", "values.toml", "--table-epsilon", "1"]) == 0
    model, tables = LatentDirichletAllocation.load("both"), TopicTables.load("both-tables")
    assert 3.5 < model.privacy_.epsilon < 3.9 < tables.privacy_.epsilon <= 4
    # The tables got about their cost by themselves.
    alone = TopicTables({"ward": ["n"]}, epsilon=1.0, delta=1e-6).fit(np.eye(2)[[0, 1] * 1000], ["n"] * 2000)
    noise = [one.ledger_.plans[-1]["noise_multiplier"] for one in (tables, alone)]
    assert noise[0] == pytest.approx(noise[1], rel=0.1)
    assert main(["verify", "both-tables", "--transcript", "releases-tables"]) == 0
    assert {word for name in tables.topic_names for word in name.split(", ")} <= set(WORDS)
    by_risk = fit.replace("--epsilon 4", "--attack-success .7").replace("--transcript releases", "")
    assert main([*by_risk.split(), "--values", "values.toml", "--table-epsilon", "1"]) == 0
    model, tables = LatentDirichletAllocation.load("both"), TopicTables.load("both-tables")
    assert attack_success(model.privacy_.event) < 0.698 < tables.privacy_.attack_success <= 0.7
    assert "right at most 70.0 % of the time" in " ".join(capsys.readouterr().out.split())
    lone = fit.replace("--tabulate ward", "--values values.toml").split()
    assert main(lone) == 2 and "--values: expected only with --tabulate" in capsys.readouterr().err


def test_hopeless_tables_are_refused_before_their_model_is_fitted(notes, capsys):
    fit = "fit lda notes.csv --text note --person patient --vocab vocab.txt --topics 2 --epsilon 4 --steps 3 --quiet"
    fit += " --doc-length 2 --set measure_gain=False --out both --seed 0 --tabulate ward --table-epsilon 0.001"
    assert main([*fit.split(), "--values", "values.toml"]) == 2
    said = capsys.readouterr().err
    assert "Use fewer groups" in said and "nothing was spent" in said and not list(notes.glob("both*"))


def test_hopeless_tables_are_refused_or_warned_of(notes, capsys):
    few = TABULATE.replace("--epsilon 5", "--noise-multiplier 900").split()
    assert main(few) == 2
    assert (
        "Use fewer groups" in (said := capsys.readouterr().err) and "--anyway" in said and not (notes / "out").exists()
    )
    assert main([*few, "--anyway"]) == 0 and "warning: Forecast" in capsys.readouterr().err


def test_clusters_and_a_text_without_words(notes, capsys):
    public = PublicVectors(np.eye(4), np.eye(4), np.ones(4), WORDS, np.eye(4), "a test")
    X = Encoder()(pandas.read_csv("notes.csv").note)
    DocumentClusters(2, public=public, epsilon=4.0, random_state=0).fit(X, groups=np.arange(4000) // 2).save("groups")
    (notes / "model").mkdir()
    more = "--vectors model --text note --by ward --json --parquet tables.parquet".split()
    assert main([*TABULATE.replace("topics", "groups").split(), *more]) == 0
    assert json.loads(capsys.readouterr().out)["exit"] == "done"
    shares = TopicTables.load("out").table().shares
    np.testing.assert_allclose(np.sort(shares, axis=1), [[0.2, 0.8]] * 2, atol=0.1)
    assert pandas.read_parquet("tables.parquet").share.notna().all()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--by town", "has no list 'town'; expected the public values of town"),
        ("--values notes.csv", "--values notes.csv: not a TOML file: "),
        ("--text diary", "diary"),
        ("--epsilon 3", "epsilon"),
    ],
)
def test_bad_options_spend_nothing(notes, capsys, more, message):
    assert main([*TABULATE.split(), *more.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (notes / "out").exists()
