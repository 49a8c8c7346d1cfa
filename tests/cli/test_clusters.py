"""``fit clusters``."""

import json

import numpy as np
import pandas
import pytest
from vectors import WORDS, Encoder

from vips_fast import DocumentClusters, PublicVectors
from vips_fast.cli.main import main
from vips_fast.jobs import clusters


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "SentenceEncoder", Encoder)
    monkeypatch.chdir(tmp_path)
    PublicVectors(np.eye(4), np.eye(4), np.ones(4), WORDS, np.eye(4), "a test").save(tmp_path / "public.npz")
    (tmp_path / "model").mkdir()
    table = {"note": ["cough, fever", "rent and debt"] * 1000, "patient": np.arange(2000) // 2}
    pandas.DataFrame(table).to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path


FIT = (
    "fit clusters notes.csv --text note --person patient --vectors model --public-prior public.npz --components 2 "
    "--epsilon 6 --out out --seed 0 --quiet"
)


def test_a_table_gives_clusters_that_verify(notes, capsys):
    assert main([*FIT.split(), "--transcript", "releases", "--report"]) == 0
    said = capsys.readouterr().out
    assert all(word in said for word in WORDS) and "one person of 1000" in said
    model = DocumentClusters.load("out")
    assert model.privacy_.unit == "person" and model.public.name == "a test"
    assert main(["verify", "out", "--transcript", "releases"]) == 0
    assert main([*FIT.split(), "--resume", "--transcript", "releases"]) == 0
    assert "nothing was spent" in capsys.readouterr().out
    (notes / "out" / "components.csv").write_text("component,weight,keywords\n1,1,money\n")
    assert main(["verify", "out", "--transcript", "releases"]) == 1


def test_lines_count_the_texts(notes, capsys, monkeypatch):
    ticks = iter(np.arange(1000.0))
    monkeypatch.setattr("vips_fast.jobs.progress.time.perf_counter", lambda: next(ticks))
    assert main([one for one in FIT.split() if one != "--quiet"]) == 0
    printed = capsys.readouterr()
    assert "read: 128 texts, 1.0 s" in printed.err and printed.out.startswith("Verdict: useful.")


def test_one_object(notes, capsys):
    assert main([*FIT.split(), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exit"] == "done"


@pytest.mark.parametrize(
    ("more", "message"), [("--public-prior notes.csv", "notes.csv"), ("--components 9", "expected at most 4")]
)
def test_bad_options_spend_nothing(notes, capsys, more, message):
    assert main([*FIT.split(), *more.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (notes / "out").exists()
