"""The page docs/schedulers.md: its commands run as they stand, without the daemons."""

import configparser
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from scipy import sparse

from vips_fast.cli import main
from vips_fast.cli.messages import Exit
from vips_fast.engine.budget import Budget
from vips_fast.jobs.progress import ProgressLine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "schedulers.md").read_text()


@pytest.fixture
def ward(files):
    """A stand-in for /srv/ward7.

    The page's files, data, and a command; a file gives the day's name.
    """
    folder = files.folder / "ward7"
    (folder / "venv" / "bin").mkdir(parents=True)
    for name, code in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", PAGE, re.S):
        (folder / name).write_text(code.replace("/srv/ward7", str(folder)))
    sparse.save_npz(folder / "tickets.npz", sparse.csr_array(files.X))
    (folder / "words.txt").write_text(files.vocab.read_text())
    scripts = {
        "vips-fast": f'exec {shlex.quote(sys.executable)} -m vips_fast "$@"',
        "date": f'test "$*" = +%F; cat {shlex.quote(str(folder / "today"))}',
    }
    for name, line in scripts.items():
        path = folder / "venv" / "bin" / name
        path.write_text(f"#!/bin/sh\nset -e\n{line}\n")
        path.chmod(0o755)
    (folder / "today").write_text("2026-11-20")
    return folder


def call(command, ward, cwd):
    path = f"{ward / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = dict(os.environ, PATH=path, PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def type_in(ward):
    """Type the lines that the page gives an operator."""
    lines = re.findall(r"^    (vips-fast .*)$", PAGE, re.M)
    said = [call(shlex.split(line), ward, ward) for line in lines]
    assert [code for code, *_ in said] == [0, 0, 0], said
    assert said[1][1].startswith("vips-fast fit lda tickets.npz ") and "cost    epsilon = " in said[2][1]


def service(ward):
    """Words and working directory of the unit, as systemd takes them."""
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read(ward / "topics.service")
    assert unit["Service"]["Type"] == "oneshot"
    words = shlex.split(unit["Service"]["ExecStart"])
    # Specifiers and variables: a doubled sign stands for one.
    for word in words:
        assert not re.search(r"(?<!%)%(?!%)|(?<!\$)\$(?!\$)", word.replace("%%", "").replace("$$", ""))
    return [word.replace("%%", "%").replace("$$", "$") for word in words], unit["Service"]["WorkingDirectory"]


def crontab(ward):
    """Return the command of the crontab's line.

    As cron hands it to the shell.
    """
    (line,) = (ward / "crontab").read_text().splitlines()
    minute, hour, *days, command = line.split(None, 5)
    assert 0 <= int(minute) < 60 and 0 <= int(hour) < 24 and days == ["*", "*", "*"]
    assert "%" not in command.replace("\\%", "")
    return ["/bin/sh", "-c", command.replace("\\%", "%")], ward.parent


@pytest.mark.parametrize("scheduler", [service, crontab])
def test_nights_until_the_budget_is_used_up(ward, scheduler):
    if scheduler is service:
        type_in(ward)
    else:
        Budget.create(ward / "ward7.budget", 1, 1e-6, dataset="ward7")
    command, cwd = scheduler(ward)
    results = []
    for day, code in (("2026-11-20", 0), ("2026-11-21", 0), ("2026-11-22", 3)):
        (ward / "today").write_text(day)
        got, out, err = call(command, ward, cwd)
        text = out if scheduler is service else (ward / "results.jsonl").read_text().splitlines()[-1]
        results.append(json.loads(text))
        said = [line for line in err.splitlines() if not line.startswith("vips-fast: warning: forecast: ")]
        assert (got, len(said)) == (code, 0 if code == 0 else 1), err
        assert (ward / f"topics-{day}" / "model.npz").exists() == (code == 0)
    assert [one["exit"] for one in results] == ["done", "done", "refused"]
    # The keys that the page's table names are those that there are.
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.M)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(results[0])
    assert 0 < results[0]["budget"]["spent"] < results[1]["budget"]["spent"] <= 1
    assert results[1]["paths"]["model"] == "topics-2026-11-21" and results[1]["budget"]["left"] < 0.1
    night = ["charge:", "plan:", "start:", "done:", "charge:", "written:", "exit"]
    events = [line.split(None, 5)[4] for line in (ward / "topics.log").read_text().splitlines()]
    assert [event for event in events if event not in ("checkpoint:", "forecast:")] == [*night, *night, "exit"]


def test_a_night_that_was_interrupted_goes_on(ward, monkeypatch):
    """As the unit's Restart= has it: the same command once more."""
    budget = Budget.create(ward / "ward7.budget", 1, 1e-6, dataset="ward7")
    (words, folder), out = service(ward), ward / "topics-2026-11-20"

    def stop(line, progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        assert main(["fit", "lda", "--config", str(ward / "topics.toml"), "--out", str(out)]) == 130
    spent = budget.spent
    code, text, _ = call(words, ward, folder)
    said = json.loads(text)
    assert (code, said["steps"], (out / "model.npz").exists()) == (0, 4, True)
    assert 0 < spent < said["budget"]["spent"] < 0.7 and " resume: from step 3 " in (ward / "topics.log").read_text()
    # And once more: it is done, and nothing is spent.
    code, text, _ = call(words, ward, folder)
    assert (code, json.loads(text)["budget"]) == (0, said["budget"])
    unit = (ward / "topics.service").read_text()
    assert "Restart=on-failure\n" in unit and f"RestartPreventExitStatus={Exit.BAD_INPUT:d} {Exit.REFUSED:d}" in unit


def test_the_timer(ward):
    timer = configparser.ConfigParser(interpolation=None)
    timer.optionxform = str
    timer.read(ward / "topics.timer")
    assert timer["Timer"]["OnCalendar"] and timer["Install"]["WantedBy"] == "timers.target"
