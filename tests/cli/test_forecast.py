"""A fit prints a forecast before it spends anything. A hopeless one is refused. ``plan`` prints it too."""

import re
import shlex

import numpy as np
import pytest
import scipy.sparse as sp
from written import FITS

from vips_fast.cli import main
from vips_fast.engine.budget import Budget
from vips_fast.models.lda import LatentDirichletAllocation, planning


@pytest.fixture
def hopeful():
    """The limit is the real one here."""


@pytest.fixture
def few(tmp_path):
    """199 documents over 2,000 words, as a file, and a budget."""
    rng = np.random.default_rng(0)
    counts = sp.csr_array((np.ones(4000, np.int32), (np.arange(4000) % 199, rng.integers(0, 2000, 4000))), (199, 2000))
    counts.sum_duplicates()
    sp.save_npz(tmp_path / "x.npz", sp.csr_matrix(counts))
    Budget.create(tmp_path / "b", 3, 1e-6, dataset="ward7")
    return tmp_path


@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_what_is_spent_on_is_always_said(capsys, files, quiet):
    spending = ("--noise-multiplier", 5, "--doc-length", 3)
    assert main([str(one) for one in files.fit(*spending, *quiet, "--anyway")]) == 0
    assert capsys.readouterr().err.startswith(("vips-fast: forecast: ", "vips-fast: warning: forecast: "))


def fit(few, *more):
    settings = "--topics 3 --epsilon 1 --delta 1e-6 --doc-length 20".split()
    return ["fit", "lda", few / "x.npz", "--out", few / "m", *settings, *more]


@pytest.mark.parametrize("early", [(), ("--records", 199, "--steps", 5)], ids=["", "reserved"])
def test_a_hopeless_fit_is_refused_and_spends_nothing(few, refused, early):
    names = {path.name for path in few.iterdir()}
    for paid in ((), ("--budget", few / "b")):
        said = refused(*fit(few, *early, *paid, "--quiet", "--transcript", few / "t"))
        assert said.startswith("forecast: mostly noise;") and "times the records or the epsilon" in said
        assert said.endswith("nothing was spent on it; expected other settings, or --anyway")
    assert {path.name for path in few.iterdir()} == names
    budget = Budget(few / "b")
    assert (budget.spent, budget.left) == (0, 3)
    Budget.create(few / "small", 1e-3, 1e-6, dataset="d")
    untargeted = [one for one in fit(few, *early, "--budget", few / "small") if one not in ("--epsilon", "1")]
    assert "; of epsilon the budget has 0.001 left; nothing was spent on it" in refused(*untargeted)


@pytest.mark.parametrize("line", [line for line in FITS if "clusters" not in line])  # which are never refused
def test_a_hopeless_fit_of_any_family_is_refused_and_writes_nothing(here, run, refused, tmp_path, line):
    job = [*shlex.split(line), *"--noise-multiplier 900 --delta 1e-6 --quiet --out".split(), tmp_path / "m"]
    said = refused(*job)
    assert "orecast: " in said and said.endswith("nothing was spent on it; expected other settings, or --anyway")
    assert not list(tmp_path.iterdir())
    code, _, error = run(*job, "--anyway")
    assert code == 0 and "vips-fast: warning: " in error and "orecast" in error


def test_a_run_that_has_begun_is_not_refused(few, run, monkeypatch):
    from vips_fast.jobs.progress import ProgressLine

    def stop(line, progress):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        assert run(*fit(few, "--anyway", "--steps", 3))[0] == 130
    assert run(*fit(few, "--steps", 3, "--resume", "--quiet"))[0] == 0


def test_the_line_before_a_fit(few, run):
    """More documents stand for themselves: their number is public."""
    code, _, err = run(*fit(few, "--records", 900_000, "--steps", 2, "--distinct-words", 20))
    assert code == 0 and err.index("vips-fast: forecast: ") < err.index("fit: step 1")
    assert LatentDirichletAllocation.load(few / "m").get_params()["options"].distinct_words == 20


def test_words_that_were_bought_are_kept(few, run, refused, monkeypatch):
    """The forecast is made when their number is known. A refusal loses none of them."""
    from vips_fast.models.vocabulary import PrivateVocabulary

    lines = [f"fever cough rash blue grey pink w{k % 9}" for k in range(600)]
    budget = Budget.create(few / "c", 8, 1e-6, dataset="ward7")
    (few / "notes.csv").write_text("\n".join(["text", *lines, ""]))
    settings = (
        "--language en --topics 2 --steps 2 --doc-length 10 --max-share 1 --epsilon 3 --delta 1e-6 --quiet".split()
    )
    job = ["fit", "lda", few / "notes.csv", *settings, "--budget", few / "c", "--out", few / "n"]
    purchased, real = [], PrivateVocabulary.fit

    def purchase(self, *args, **call):
        purchased.append(0)
        monkeypatch.setattr(planning.Plan, "hopeless", True)
        return real(self, *args, **call)

    monkeypatch.setattr(PrivateVocabulary, "fit", purchase)
    assert "too few for topics" in refused(*job) and budget.spent == 0 and not purchased
    monkeypatch.setattr(planning, "FEW_WORDS", 0)
    # The words were paid for, so the exit code does not say that nothing was spent.
    said = refused(*job, code=1)
    words = budget.spent
    assert "--anyway" in said and "of its vocabulary" in said and "--resume" in said and 0 < words < 3
    assert len(purchased) == 1 and (few / "n.run" / "words").exists()
    assert "--anyway" in refused(*job, "--resume") and budget.spent == words
    assert run(*job, "--resume", "--anyway")[0] == 0
    assert len(purchased) == 1 and words < budget.spent < 8


PLAN = "plan", "--records", 20_000, "--vocab-size", 5000, "--topics", 10, "--doc-length", 60, "--epsilon", 2


def test_plan(run):
    code, out, _ = run(*PLAN)
    worse = run(*PLAN, "--distinct-words", 3)[1]
    usual, fewer = (int(re.search(r"Forecast:\s+(\d+)\s+words\s+of a", text)[1]) for text in (out, worse))
    assert code == 0 and 0 < fewer < 0.5 * usual and "What helps" not in out
    few = run(*PLAN[:2], 500, *PLAN[3:])[1]
    assert "times the records or the epsilon have ten words of each topic" in " ".join(few.split())
