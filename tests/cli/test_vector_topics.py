"""``fit lda --vectors``: topics of words and sentence vectors."""

import json

import numpy as np
import pandas
import pytest
from vectors import Encoder16, known16, notes16, prior16

from vips_fast import VectorTopics
from vips_fast.cli.main import main
from vips_fast.jobs import clusters
from vips_fast.jobs.progress import ProgressLine


@pytest.fixture
def notes(tmp_path, monkeypatch):
    monkeypatch.setattr(clusters, "SentenceEncoder", Encoder16)
    monkeypatch.chdir(tmp_path)
    known16().save(tmp_path / "public.npz")
    prior16().save(tmp_path / "prior.npz")
    (tmp_path / "model").mkdir()
    table = notes16(2000)
    pandas.DataFrame(table).to_csv(tmp_path / "notes.csv", index=False)
    return tmp_path


FIT = (
    "fit lda notes.csv --text note --person patient --vectors model --public-vectors public.npz --doc-length 6 "
    "--epsilon 8 --out out --seed 0 --quiet --anyway"
)


@pytest.mark.parametrize("topics", ["--topics 2", "--public-prior prior.npz"])
def test_a_table_gives_topics_that_verify(notes, capsys, topics):
    fit = [*FIT.split(), *topics.split(), "--transcript", "releases", "--report"]
    assert main(fit) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert all(word in said for word in ("cough", "rent")) and "one person of 1000" in said
    model = VectorTopics.load("out")
    assert model.privacy_.unit == "person" and model.public.name == "a test" and model.centers_.shape[1] == 16
    page = (notes / "out" / "report.html").read_text("utf-8")
    assert "Public knowledge used: " in page and "a test (sha256" in page
    assert ("Public knowledge used: another" in page) == ("prior" in topics) == (model.public_prior is not None)
    assert main(["verify", "out", "--transcript", "releases"]) == 0
    capsys.readouterr()
    assert main([*fit, "--resume"]) == 0
    assert "nothing was spent" in capsys.readouterr().out
    assert main(["topics", "out"]) == 0 and "cough" in capsys.readouterr().out
    assert main(["transform", "out", "notes.csv", "--out", "shares.npy"]) == 0
    assert np.load("shares.npy").shape == (2000, len(model.components_))
    (notes / "out" / "topics.txt").write_text("money\n")
    assert main(["verify", "out", "--transcript", "releases"]) == 1


def test_a_stopped_run_resumes(notes, capsys, monkeypatch):
    fit = [*FIT.replace(" --quiet", "").split(), "--topics", "2", "--steps", "8", "--checkpoint-every", "1"]

    def stop(line, progress):
        if progress.step == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ProgressLine, "__call__", stop)
        assert main(fit) == 130
    assert not (notes / "out").exists()
    assert main([*fit, "--resume"]) == 0
    assert VectorTopics.load("out").n_steps_ == 8


def test_one_object(notes, capsys):
    assert main([*FIT.split(), "--topics", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exit"] == "done"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("--paper", "--paper: not with --vectors"),
        ("--vocab public:en", "--vocab: not with --vectors, which counts the words of --public-vectors"),
        ("--ngrams 2", "--ngrams: not with --vectors"),
        ("--public-vectors notes.csv", "notes.csv"),
        ("--public-prior prior.npz", "not allowed with argument"),
    ],
)
def test_bad_options_spend_nothing(notes, capsys, more, message):
    assert main([*FIT.split(), "--topics", "2", *more.split()]) == 2
    assert message in capsys.readouterr().err
    assert not (notes / "out").exists()


def test_public_vectors_ask_for_an_encoder(notes, capsys):
    given = FIT.replace("--vectors model ", "").split()
    assert main([*given, "--topics", "2"]) == 2
    assert "--public-vectors: expected only with --vectors" in capsys.readouterr().err
