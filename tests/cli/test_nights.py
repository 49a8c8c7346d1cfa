"""``nights``: running tables at the shell.

From the first night to a kill.
"""

import os
import shutil
import signal

import numpy as np
import pytest
from drill import Counting
from runs import KEY, bits

from vips_fast import NightlyTables, verify
from vips_fast.cli.main import main
from vips_fast.engine.budget import Budget
from vips_fast.engine.randomness import KeyedRandomness
from vips_fast.models import estimator

WORDS = "cough fever rash rent letter form".split()
NIGHTS = (
    "nights topics {}.csv --night {} --by ward --values values.toml --person patient --unit patient --text note "
    "--nights 5 --epsilon 2 --delta 1e-6 --records 300 --state private --out tables --budget budget --apart "
    "--transcript releases --quiet --anyway"
)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make the notes of three nights, and topics of public texts."""
    place, rng = tmp_path_factory.mktemp("nights"), np.random.default_rng(0)
    for night in range(3):
        lines = ["patient,ward,note"]
        for number in range(300):
            ward = "north" if number % 3 else "south"
            of_cold = rng.random() < (0.8 if ward == "north" else 0.3)
            lines.append(
                f"{300 * night + number},{ward},{' '.join(rng.choice(WORDS[:3] if of_cold else WORDS[3:], 9))}"
            )
        (place / f"{night}.csv").write_text("\n".join(lines))
    (place / "values.toml").write_text('ward = ["north", "south"]\nmonth = ["2026-01"]\n')
    public = (" ".join(WORDS[:3]), " ".join(WORDS[3:]))
    (place / "public.csv").write_text("\n".join(["note", *(public[number % 2] for number in range(60))]))
    (place / "vocab").write_text("\n".join(WORDS))
    fit = f"fit lda {place}/public.csv --text note --vocab {place}/vocab --topics 2 --non-private --seed 0 --quiet"
    assert main([*fit.split(), "--out", str(place / "topics")]) == 0
    return place


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    shutil.copytree(place, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    Budget.create("budget", 3.0, 1e-6, dataset="nights", unit="patient")
    return tmp_path / "here"


def add(number, *more, name=None):
    return main([*NIGHTS.format(number, name or f"d{number}").split(), *more])


def test_nights_are_counted_once_for_one_epsilon_and_verify(here, capsys):
    for number in range(3):
        assert add(number, "--report") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert "ward north: " in said and "Written to tables." in said and f"{number + 1} release" in said
        assert Budget("budget").spent == pytest.approx(2.0, rel=1e-3)
    tables = NightlyTables.load("tables")
    assert tables.night_names == ("d0", "d1", "d2") and tables.privacy_.epsilon <= 2.0
    north, south = tables.table("ward").shares
    cold = int(np.argmax(["cough" in name for name in tables.topic_names]))
    assert north[cold] == pytest.approx(0.8, abs=0.15) and south[cold] == pytest.approx(0.3, abs=0.15)
    assert verify("tables", "releases").ok and "running sums" in (here / "tables" / "report.html").read_text()


def test_a_night_is_counted_once_and_an_unfit_line_spends_nothing(here, capsys):
    assert add(0) == 0
    before = bits(NightlyTables.load("tables"))
    (here / "other.toml").write_text('ward = ["south", "north"]\n')
    for more, said in (
        (("--night", "d0"), "--night d0: is counted already; expected the name of a new night, or --resume"),
        (("--values", "other.toml"), "have --by [["),
        (("--by", "month"), "no column 'month'"),
        (("--epsilon", "3"), "have --epsilon 2.0, this night 3.0"),
        (("--nights", "9"), "have --nights 5, this night 9"),
        (("--out", "fresh"), "hold 1 nights, this model 0"),
        (("--state", "fresh"), "hold 0 nights, this model 1"),
        (("--out", "topics"), "expected the tables of the nights before"),
        (("--transcript", "private/releases"), "expected a folder that is not inside"),
        (("--budget", "none"), "none"),
    ):
        assert add(1, *more) == 2, more
        assert said in capsys.readouterr().err, more
        assert bits(NightlyTables.load("tables")) == before and Budget("budget").spent <= 2.001
    # The line of a night that is there already succeeds with --resume, and spends nothing.
    assert add(0, "--resume") == 0 and "tables has night d0 already; nothing was spent" in capsys.readouterr().out
    assert add(1, "--resume") == 0 and NightlyTables.load("tables").night_names == ("d0", "d1")


def test_a_month_that_is_given_later_contributes_nothing_or_is_a_new_sum(here, capsys):
    (here / "values.toml").write_text('ward = ["north"]\n')
    assert add(0) == add(1) == 0
    assert NightlyTables.load("tables").table("ward").weights == pytest.approx([400.0], abs=60)
    (here / "values.toml").write_text('ward = ["north", "south"]\n')
    assert add(2) == 2 and "expected the same settings for every night" in capsys.readouterr().err


def test_a_check_reads_and_spends_nothing(here, capsys):
    (here / "job.toml").write_text(
        'command = "nights"\n[options]\nmodel = "topics"\ninput = "0.csv"\nby = "ward"\nvalues = "values.toml"\n'
        'night = "d0"\nstate = "private"\nout = "tables"\nrecords = 300\nepsilon = 2\ndelta = 1e-6\nnights = 5\n'
        'person = "patient"\nunit = "patient"\nbudget = "budget"\napart = true\n'
    )
    assert main(["config", "job.toml", "--check"]) == 0
    assert "RunningSumEvent" in capsys.readouterr().out and not list(here.glob("private*"))
    assert add(0) == 0 and main(["config", "job.toml", "--check"]) == 2
    (here / "job.toml").write_text((here / "job.toml").read_text().replace('"d0"', '"d1"'))
    assert main(["config", "job.toml", "--check"]) == 0
    assert "none: the first night paid for all nights" in capsys.readouterr().out


def test_a_query_that_breaks_off_counts_no_night(here, capsys):
    """Cut the second file in the middle of a quoted cell."""
    assert add(0) == 0
    before = bits(NightlyTables.load("tables"))
    (here / "1.csv").write_text('patient,ward,note\n1,north,"cough fev')
    assert add(1) == 2
    assert "fev" not in capsys.readouterr().err and bits(NightlyTables.load("tables")) == before
    assert add(2, name="d1") == 0 and NightlyTables.load("tables").night_names == ("d0", "d1")


def job(kill=0):
    """Run the lines of all nights in a child.

    It is killed at a file call.
    """
    child = os.fork()
    if child == 0:
        code = 99
        try:
            estimator.SystemRandomness = lambda: KeyedRandomness(KEY)
            calls = Counting(os.getcwd(), kill, signal.SIGKILL)
            code = max(add(number, "--resume") for number in range(3))
            with open("../calls", "w") as file:
                file.write(str(calls.count))
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_kills_lose_and_forget_nothing(here, place, tmp_path, monkeypatch):
    assert job() == 0
    total, expected = int((tmp_path / "calls").read_text()), NightlyTables.load("tables")
    for kill in np.linspace(total // 20, total, 4).astype(int).tolist():
        shutil.copytree(place, tmp_path / str(kill))
        monkeypatch.chdir(tmp_path / str(kill))
        Budget.create("budget", 9.0, 1e-6, dataset="nights", unit="patient")
        assert job(kill) == -signal.SIGKILL and job() == 0, kill
        tables = NightlyTables.load("tables")
        assert bits(tables) == bits(expected) and tables.night_names == ("d0", "d1", "d2")
        assert 2.0 <= Budget("budget").spent * (1 + 1e-4) < 3.2 and verify("tables", "releases").ok
