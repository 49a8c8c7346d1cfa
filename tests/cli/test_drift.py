"""``tabulate --drift``: words of topics over months, at the shell."""

import csv
import json

import numpy as np
import pandas
import pytest

from vips_fast import DriftingTopics
from vips_fast.cli.main import main

WORDS = ("cough", "fever", "swab", "rent", "debt", "form")
DRIFT = (
    "tabulate topics notes.csv --by month --drift --values values.toml --person patient --epsilon 3 --out words --quiet"
)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """Write notes in which fever gives way to swabs."""
    monkeypatch.chdir(tmp_path)
    rng, rows = np.random.default_rng(0), []
    for number in range(4000):
        month = number % 4
        own = [0.5, 0.4 - 0.1 * month, 0.1 + 0.1 * month] if rng.random() < 0.5 else None
        words = rng.choice(WORDS[:3], 10, p=own) if own else rng.choice(WORDS[3:], 10)
        rows.append((" ".join(words), rng.integers(0, 2000), f"2026-{month + 1:02}"))
    pandas.DataFrame(rows, columns=["note", "patient", "month"]).to_csv("notes.csv", index=False)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    (tmp_path / "values.toml").write_text('month = ["2026-01", "2026-02", "2026-03", "2026-04"]\n')
    fit = "fit lda notes.csv --text note --person patient --vocab vocab.txt --topics 2 --epsilon 4 --steps 6"
    more = "--doc-length 10 --set measure_gain=False --out topics --seed 0 --quiet --anyway"
    assert main([*fit.split(), *more.split()]) == 0
    return tmp_path


def test_words_that_move_are_shown_in_one_statement(notes, capsys):
    assert main(DRIFT.split()) == 0
    said = capsys.readouterr().out
    assert "Topics in 2026-01 and in 2026-04" in said and "one person of" in said
    assert "fever in topic" in said and "swab in topic" in said
    found = DriftingTopics.load("words")
    assert 4 < found.privacy_.epsilon <= 6 and found.drift().words == WORDS
    rows = list(csv.DictReader(open("words/drift.csv")))
    swabs = [float(row["share"]) for row in rows if row["word"] == "swab"][:4]
    assert swabs == sorted(swabs) and swabs[3] > swabs[0] + 0.15
    assert main("show topics words --out page.html".split()) == 0
    assert "Words of topics over time" in (notes / "page.html").read_text()
    tabulate = "tabulate topics notes.csv --by month --values values.toml --person patient --epsilon 1 --out tables"
    assert main([*tabulate.split(), "--after", "words", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["exit"] == "done"
    assert main("show topics words tables --out both.html".split()) == 0
    (notes / "names.txt").write_text("money\nillness\n")
    assert main("publish topics words tables --names names.txt --out published".split()) == 0
    assert "Swab in topic" in (notes / "published" / "report.html").read_text()
    assert main("verify published".split()) == 0
    assert main("show topics tables --out none.html".split()) == 2
    assert "leaves out the model" in " ".join(capsys.readouterr().err.split())
