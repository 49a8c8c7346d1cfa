"""The folder of a run, OUT.run. Its files after a fit is stopped or cannot write, and the resume from there."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from vips_fast import LatentDirichletAllocation
from vips_fast.cli.messages import Exit
from vips_fast.engine.budget import Budget
from vips_fast.engine.checkpoint import LEDGER, RunFolder
from vips_fast.jobs import folder as runs
from vips_fast.jobs.progress import ProgressLine

MODULE = [sys.executable, "-m", "vips_fast"]
MODEL = ["model.json", "model.npz", "privacy.json", "privacy.txt"]
NOISE = ["--noise-multiplier", 6, "--delta", 1e-3]
#: The torture sends SIGTERM before calls on files.
ENDS = {signal.SIGHUP: 129, signal.SIGINT: 130, signal.SIGKILL: -9}


class Started:
    """A fit in a process of its own, after some releases."""

    def __init__(self, files, *more, ignored=(), releases=3, **options):
        def signals():
            # Jobs in the background of a script inherit an ignored SIGINT.
            for signum in (signal.SIGINT, signal.SIGHUP):
                signal.signal(signum, signal.SIG_IGN if signum in ignored else signal.SIG_DFL)

        arguments = files.fit(*NOISE, "--steps", 10**6, *more)
        pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=signals)
        self.process = subprocess.Popen([*MODULE, *map(str, arguments)], **{**pipes, **options})
        self.ledger = Path(f"{files.model}.run") / LEDGER
        while self.process.poll() is None and self.releases() < releases:
            time.sleep(0.01)

    def releases(self):
        return self.ledger.read_bytes().count(b'"release"') if self.ledger.exists() else 0

    def end(self, signum=None):
        """Exit code and standard error. Its million steps would take far longer than is waited."""
        if signum is not None:
            self.process.send_signal(signum)
        err = self.process.communicate(timeout=60)[1]
        return self.process.returncode, err


@pytest.fixture
def stopped(run, files, monkeypatch):
    """A fit of five steps that was interrupted after three."""

    def call(*more):
        def stop(line, progress):
            if progress.step == 3:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(ProgressLine, "__call__", stop)
            return run(*files.fit(*NOISE, *more))

    return call


def folder_of(files):
    return files.folder / "model.run"


# Signals


@pytest.mark.parametrize("signum", [pytest.param(signal.SIGHUP, marks=pytest.mark.slow), signal.SIGINT, signal.SIGKILL])
def test_a_signal_keeps_the_run_and_leaves_nothing_else(run, refused, files, signum):
    started = Started(files, "--quiet")
    code, err = started.end(signum)
    # A kill may have cut a line short, which the next start counts.
    assert code == ENDS[signum] and files.names() == {"docs.npz", "words.txt", "model.run"}
    n = len(runs.ledger_in(folder_of(files))[0])
    assert n >= 3 and (signum == signal.SIGKILL or n == started.releases())
    if signum != signal.SIGKILL:
        *_, line = err.splitlines()  # after the forecast
        assert line.startswith(f"vips-fast: error: stopped by {signum.name}. {n} releases (epsilon = ")
        assert line.endswith(f"spent; the same job with --resume continues the run in {folder_of(files)}")
    message = refused(*files.fit(*NOISE))
    assert f"model.run: holds a run that was stopped at step {n} of 1000000, with {n} releases" in message
    assert "expected --resume, or remove that folder to give it up" in message
    if signum == signal.SIGKILL:
        assert Started(files, "--quiet", "--resume", releases=n + 5).end(signal.SIGTERM)[0] == 143


def test_a_signal_before_anything_is_spent_leaves_nothing(files):
    pipe = files.folder / "docs.jsonl"
    os.mkfifo(pipe)
    command, family, _, *others = files.fit(*NOISE, "--format", "jsonl")
    arguments = map(str, [command, family, pipe, *others])
    process = subprocess.Popen([*MODULE, *arguments], stderr=subprocess.PIPE, text=True)
    while not folder_of(files).exists():
        time.sleep(0.01)
    time.sleep(0.3)  # it waits for its data
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[1] == "vips-fast: error: stopped by SIGTERM\n"
    assert process.returncode == 143 and files.names() == {"docs.npz", "words.txt", "docs.jsonl"}


# Going on


def test_a_fit_that_was_stopped_goes_on(run, refused, files, stopped):
    code, _, err = stopped()
    assert code == 130 and "3 releases (epsilon = " in err and not files.model.exists()
    assert "n_steps = 5, this fit has 6" in refused(*files.fit(*NOISE, "--resume", "--steps", 6))
    code, _, err = run(*files.fit(*NOISE, "--resume"))
    assert code == 0 and "step 4 of 5" in err and "step 3 of 5" not in err and "changed since" not in err
    model = LatentDirichletAllocation.load(files.model)
    assert len(model.ledger_) == model.n_steps_ == 5 and files.names() == {"docs.npz", "words.txt", "model"}
    # A finished run: its data are not needed, nothing is spent, nothing is written.
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files.model.iterdir()}
    command, family, _, *others = files.fit(*NOISE, "--resume", "--jobs", 2)
    code, out, err = run(command, family, "absent", *others)
    assert (code, err) == (
        0,
        "",
    ) and f"{files.model} holds the finished model; absent was not read, and nothing was spent." in out
    assert before == {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in files.model.iterdir()}
    assert "holds a finished model with n_steps = 5, this fit has 6" in refused(
        *files.fit(*NOISE, "--resume", "--steps", 6)
    )
    assert run(*files.fit(*NOISE, "--resume", "--steps", 6, "--force"))[0] == 0
    assert LatentDirichletAllocation.load(files.model).n_steps_ == 6


def test_a_run_that_goes_on_tells_of_other_files(run, files, stopped, tmp_path):
    """A file of the same base name, or the same file with other contents. Times are kept, which tell of no record."""
    for name, persons in {"a": 30, "b": 20}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "persons").write_text("".join(f"{i % persons}\n" for i in range(60)))
        os.utime(tmp_path / name / "persons", (persons, persons))
    here = ("--records", 30, "--groups", tmp_path / "a" / "persons")
    assert stopped(*here)[0] == 130
    kept = json.loads((folder_of(files) / "job.json").read_text())["times"]
    assert kept == {"records": files.docs.stat().st_mtime_ns, "groups": 30 * 10**9}
    other = files.fit(*NOISE, *here[:3], tmp_path / "b" / "persons", "--resume")
    os.utime(files.docs, (9, 9))
    code, _, err = run(*other)
    assert code == 0 and "warning: groups and records: changed since the run began that --resume continues" in err
    assert f"{files.docs} and {other[-2]} were not read" in run(*other)[1]


def test_a_budget_pays_once_for_what_is_resumed_and_keeps_the_charge_of_what_is_given_up(run, files, stopped):
    budget = Budget.create(files.folder / "b", 3, 1e-3, dataset="ward7")
    more = ["--budget", budget.path]
    assert "3 releases (epsilon = " in (err := stopped(*more)[2]) and "spent of the budget of ward7" in err
    first = budget.spent
    assert run(*files.fit(*NOISE, *more, "--resume"))[0] == 0
    paid = budget.spent
    assert first < paid and [one["drawn"] for one in budget.show()["runs"]] == [3, 2]
    assert run(*files.fit(*NOISE, *more, "--resume"))[0] == 0 and budget.spent == paid
    stopped(*more, "--force")
    shutil.rmtree(folder_of(files))
    assert budget.spent > paid


@pytest.mark.parametrize("more", [[], ["--resume"], ["--resume", "--force"]])
def test_two_jobs_on_one_place(refused, files, more):
    command, family, _, *others = files.fit(*NOISE, *more)
    with RunFolder(folder_of(files)):
        # Before it reads its data.
        assert "model.run: in use by process" in refused(command, family, "absent", *others)
    assert folder_of(files).exists()


# What is paid for is not lost


@pytest.mark.parametrize("names", [["topics.txt"], [*MODEL, "topics.txt", "vocab.txt"]], ids=["diary", "model"])
def test_a_place_that_is_taken_meanwhile_keeps_the_result(run, refused, files, monkeypatch, names):
    """By something else, or by another fit's model."""
    other = files.folder / "other"
    assert run(*files.fit(*NOISE, "--quiet", "--out", other))[0] == 0

    def occupied(line, progress):
        files.model.mkdir(exist_ok=True)
        for name in names:
            shutil.copy(other / name, files.model)

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", occupied)
        code, out, err = run(*files.fit(*NOISE))
    assert (code, out) == (Exit.KEPT, "") and "the same job with --resume writes it, at no cost" in err
    assert all((files.model / name).read_bytes() == (other / name).read_bytes() for name in names)
    again = files.fit(*NOISE, "--resume", "--report")
    assert "is not empty" in refused(*again)
    shutil.rmtree(files.model)
    # The records are not needed again.
    files.docs.unlink()
    code, out, err = run(*again)
    assert (code, err) == (0, "") and f"Written to {files.model}; nothing more was spent." in out
    assert len(LatentDirichletAllocation.load(files.model).ledger_) == 5 and not folder_of(files).exists()
    assert {path.name for path in files.model.iterdir()} >= {*MODEL, "topics.txt", "vocab.txt", "report.html"}


def test_a_file_that_may_grow_no_further(run, files):
    """A quota of the process's own."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

    arguments = map(str, files.fit(*NOISE, "--quiet"))
    done = subprocess.run([*MODULE, *arguments], capture_output=True, text=True, preexec_fn=limit)
    assert done.returncode == 1 and "releases: File too large: the next release needs " in done.stderr
    assert files.names() == {"docs.npz", "words.txt"}


@pytest.mark.parametrize("moment", ["write_into", "put_in_place", "remove"])
def test_killed_while_the_model_gets_its_place(run, files, monkeypatch, moment):
    """The next start finds the one model that was paid for, and not one that is like it, of the night before."""
    assert run(*files.fit(*NOISE, "--quiet"))[0] == 0
    before = LatentDirichletAllocation.load(files.model).ledger_
    if (child := os.fork()) == 0:
        monkeypatch.setattr(runs, moment, lambda *_: os._exit(9))
        run(*files.fit(*NOISE, "--quiet", "--force"))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9 and folder_of(files).exists()
    again = files.fit(*NOISE, "--quiet", "--resume", "--force")
    if written := moment != "write_into":
        again[2] = "absent"  # the records are not needed
    code, out, err = run(*again)
    assert code == 0 and ("nothing" in out) is written, err
    after = LatentDirichletAllocation.load(files.model).ledger_
    # The same settings and as many releases: only the heads tell one from the other.
    assert len(before) == len(after) == 5 and before.head != after.head
    assert files.names() == {"docs.npz", "words.txt", "model"}


def test_a_signal_when_the_model_has_its_place_is_too_late(run, files, monkeypatch):
    original = runs.put_in_place

    def send(*given):
        original(*given)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(runs, "put_in_place", send)
    code, out, _ = run(*files.fit(*NOISE, "--quiet"))
    assert code == 0 and f"Written to {files.model}." in out and not folder_of(files).exists()


def test_the_folder_is_locked_until_the_model_has_its_place(run, refused, files, monkeypatch):
    original, said = runs.write_into, []

    def second(*given):
        said.append(refused(*files.fit(*NOISE, "--quiet", "--resume")))
        original(*given)

    monkeypatch.setattr(runs, "write_into", second)
    assert run(*files.fit(*NOISE, "--quiet"))[0] == 0
    assert len(said) == 1 and "in use by process" in said[0]


# What is printed


def without(stream, place, arguments):
    """Return a command with one stream that cannot be written. The other is captured."""
    names = {1: "stdout", 2: "stderr"}
    kept = {names[3 - stream]: subprocess.PIPE, "text": True}
    if place == "closed":
        return subprocess.run(["sh", "-c", f'exec "$@" {stream}>&-', "sh", *arguments], **kept)
    read, write = os.pipe() if place != "/dev/full" else (None, os.open(place, os.O_WRONLY))
    if read is not None:
        os.close(read)
    done = subprocess.run(arguments, **{names[stream]: write}, **kept)
    os.close(write)
    return done


@pytest.mark.parametrize("place", ["/dev/full", "closed"])
def test_a_report_that_cannot_be_printed(files, place):
    arguments = [*MODULE, *map(str, files.fit(*NOISE, "--quiet"))]
    done = without(1, place, arguments)
    assert done.returncode == Exit.UNREPORTED
    assert (
        done.stderr.split("\n", "forecast: " in done.stderr)[-1]
        == f"vips-fast: error: {files.model} is written; its report cannot be printed\n"
    )
    assert len(LatentDirichletAllocation.load(files.model).ledger_) == 5 and not folder_of(files).exists()


@pytest.mark.parametrize("place", ["/dev/full", "closed pipe"])
def test_what_is_written_is_told_if_the_rest_cannot_be_printed(tmp_path, place):
    path = tmp_path / "b.budget"
    create = ["budget", "create", str(path), "--epsilon", "1", "--delta", "1e-6", "--dataset", "d"]
    done = without(1, place, [*MODULE, *create])
    assert (done.returncode, Budget(path).left) == (Exit.UNREPORTED, 1.0)
    assert done.stderr == f"vips-fast: error: {path} is written; its report cannot be printed\n"
    for words in (["budget", "show", str(path)], ["--help"], ["fit", "blr", "--help"]):
        done = without(1, place, [*MODULE, *words])
        assert done.returncode == Exit.FAILED
        no_room = "vips-fast: error: standard output: No space left on device\n"
        assert done.stderr == (no_room if place == "/dev/full" else "")


@pytest.mark.parametrize("place", ["/dev/full", "closed"])
def test_progress_that_cannot_be_shown_ends_no_fit(files, place):
    arguments = [*MODULE, *map(str, files.fit(*NOISE))]
    done = without(2, place, arguments)
    assert done.returncode == 0 and f"Written to {files.model}." in done.stdout


def test_words_that_a_terminal_does_not_know(files):
    files.vocab.write_text("\n".join(["rød", "grün", "bleu", "pink", "grey", "teal"]) + "\n", "utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "ascii:strict"}
    done = subprocess.run([*MODULE, *map(str, files.fit(*NOISE))], capture_output=True, env=env)
    assert done.returncode == 0 and b"r\\xf8d" in done.stdout and b"step 5 of 5" in done.stderr
    assert "rød" in (files.model / "topics.txt").read_text("utf-8")


def test_the_exit_codes_are_those_that_are_said(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    page = (Path(__file__).parents[2] / "docs" / "jobs.md").read_text("utf-8")
    text = run("--help")[1]
    for code in Exit:
        assert f"| {int(code)} | {code.meaning} |" in page and f"{int(code):5d}  {code.meaning}\n" in text


TEXTS = "lda notes.csv --text note --topics 2 --steps 2 --doc-length 4 --anyway --epsilon 8 --set measure_gain=False"
ROWS = "blr rows.npy --label a.txt --steps 2 --epsilon 1"


@pytest.mark.parametrize(
    "fit, name, other",
    [
        (f"{TEXTS} --vocab words.txt --person patient", "person", "ward"),
        (f"{TEXTS} --vocab words.txt", "person", "ward"),
        (f"{TEXTS} --vocab words.txt", "encoding", "cp1252"),
        (f"{TEXTS} --language en --max-share 1", "vocab_share", "0.3"),
        (ROWS, "label", "b.txt"),
        (ROWS, "groups", "b.txt"),
        ("sbn images.npy --components 2 --steps 2 --epsilon 1", "threshold", "2"),
        ("tabulate model notes.csv --by ward --values values.toml --epsilon 2", "text", "ward"),
    ],
)
def test_a_finished_model_is_no_answer_about_records_read_otherwise(fit, name, other, run, tmp_path, monkeypatch):
    """Nor is one written without what another call asks for: the report is added, a transcript refused."""
    monkeypatch.chdir(tmp_path)
    Path("notes.csv").write_text("note,patient,ward\n" + "fever cough,p,a\nrash,q,b\nfever rash ache,r,b\n" * 300)
    Path("words.txt").write_text("fever\ncough\nrash\nache\n")
    Path("values.toml").write_text('ward = ["a", "b"]\n')
    np.save("rows.npy", np.tile([[0.1, 0.5], [0.4, 0.2]], (100, 1)))
    np.save("images.npy", np.tile([[0, 9], [9, 9]], (100, 1)).astype(np.uint8))
    for label in "ab":
        Path(f"{label}.txt").write_text(f"{label}\nc\n" * 100)
    command = [*fit.split(), "--out", "m", "--quiet", "--transcript", "t"]
    if command[0] == "tabulate":
        model = f"fit {TEXTS} --vocab words.txt --out model --quiet".split()
        assert run(*model)[0] == 0
    else:
        command.insert(0, "fit")
    assert run(*command)[0] == 0
    before = {path.name: path.read_bytes() for path in Path("m").iterdir()}
    code, _, err = run(*command, "--resume", f"--{name.replace('_', '-')}", other)
    assert code == 2 and f" with {name} = " in err and "expected the same with --resume, or another place" in err
    code, _, err = run(*command, "--resume", "--transcript", "u")
    assert code == 2 and "with transcript = 'another folder', this fit has 'u'" in err
    assert before == {path.name: path.read_bytes() for path in Path("m").iterdir()} and not Path("u").exists()
    assert run(*command, "--resume", "--report")[0] == 0
    after = {path.name: path.read_bytes() for path in Path("m").iterdir()}
    assert b"<html" in after.pop("report.html") and before == after
    assert run("verify", "m", "--transcript", "t")[0] == 0
