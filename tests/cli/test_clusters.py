"""``fit clusters``."""

import numpy as np
import pandas
import pytest
from vectors import WORDS, Encoder

from vips_fast import PublicVectors
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


def test_lines_count_the_texts(notes, capsys, monkeypatch):
    ticks = iter(np.arange(1000.0))
    monkeypatch.setattr("vips_fast.jobs.progress.time.perf_counter", lambda: next(ticks))
    assert main([one for one in FIT.split() if one != "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err.index("vips-fast: forecast: not known for clusters") < printed.err.index("fit: step 1 of")
    assert "read: 128 texts, 1.0 s" in printed.err and printed.out.startswith("Verdict: useful.")
