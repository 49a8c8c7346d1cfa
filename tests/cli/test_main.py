"""Usage, exit codes, one-line errors, and the imports of a command."""

import errno
import io
import math
import os
import subprocess
import sys
import time

import pytest

from vips_fast import cli, runtime_info
from vips_fast.jobs.progress import ProgressLine, ReadingLine

MODULE = [sys.executable, "-m", "vips_fast"]


@pytest.mark.parametrize(
    "argv, unwanted",
    [
        (["fit", "lda", "--help"], {"numpy", "scipy", "vips_fast.accounting", "vips_fast.engine"}),
        (["--version"], {"numba", "autodp", "matplotlib", "sklearn", "scipy.special", "vips_fast.accounting"}),
    ],
)
def test_a_command_imports_what_it_needs(argv, unwanted):
    script = f"import sys, vips_fast.cli; vips_fast.cli.main({argv}); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unwanted & set(done.stdout.splitlines()[-1].split())


def test_as_a_module():
    done, known = subprocess.run([*MODULE, "--version"], capture_output=True, text=True), runtime_info()
    rows = dict(line.split(None, 1) for line in done.stdout.replace("instruction set", "isa").splitlines())
    assert (done.returncode, done.stderr) == (0, "")
    assert (rows["vips_fast"], rows["isa"]) == (known["version"], known["isa"])
    assert subprocess.run([*MODULE, "nonsense"], capture_output=True).returncode == 2


@pytest.mark.parametrize(
    "error, code, message",
    [
        (RuntimeError("7351"), 1, "internal error (RuntimeError); --debug shows where"),
        (KeyError("7351"), 1, "internal error (KeyError); --debug shows where"),
        (MemoryError(), 1, "not enough memory"),
        (MemoryError("needs 9 GiB"), 1, "not enough memory: needs 9 GiB"),
        (type("ArrayError", (MemoryError,), {})("7351 rows"), 1, "not enough memory"),
        (ImportError("needs a package"), 1, "needs a package"),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 1, "x: No space left on device"),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "x"), 1, "not enough memory"),
        (IsADirectoryError(errno.EISDIR, "Is a directory", "x"), 2, "x: Is a directory"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "x"), 2, "x: Not a directory"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "x: Permission denied"),
        (ValueError("two\nlines"), 2, "two lines"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(refused, monkeypatch, error, code, message):
    def fail(args):
        raise error

    monkeypatch.setattr("vips_fast.cli.commands.data.schema", fail)
    assert refused("schema", "x", code=code) == message
    if isinstance(error, (RuntimeError, KeyError)):
        with pytest.raises(type(error)):
            cli.main(["--debug", "schema", "x"])


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*MODULE, "--version"], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


# Progress


class Step:
    """The loop's progress object, which counts requests of epsilon."""

    asked = 0

    def __init__(self, step, n_steps, epsilon=1.0049, seconds=2.0):
        self.step, self.n_steps, self.seconds, self._epsilon = step, n_steps, seconds, epsilon

    @property
    def epsilon(self):
        Step.asked += 1
        return self._epsilon


@pytest.mark.parametrize("n_steps", [1, 7, 20, 21, 100, 100_000])
def test_a_log_gets_twenty_lines_at_most(capsys, n_steps):
    Step.asked = 0
    with ProgressLine("fit") as progress:
        for step in range(1, n_steps + 1):
            progress(Step(step, n_steps))
    lines = capsys.readouterr().err.splitlines()
    assert Step.asked == len(lines) <= 20 and len(lines) >= min(n_steps, 10)
    # Never rounded down.
    assert lines[-1] == f"fit: step {n_steps} of {n_steps}, epsilon 1.01, 2.0 s"
    ProgressLine("fit")(Step(1, 1, math.inf))
    assert capsys.readouterr().err == "fit: step 1 of 1, 2.0 s\n"


def test_a_terminal_gets_one_line_ten_times_a_second(monkeypatch):
    terminal, clock = io.StringIO(), [0.0]
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    Step.asked = 0
    with pytest.raises(RuntimeError), ProgressLine("fit") as progress:
        for millisecond in range(500):
            clock[0] = millisecond / 1000
            progress(Step(9, 10))
        progress(Step(10, 10))
        raise RuntimeError
    updates = terminal.getvalue().split("\r")
    # The line is ended, so that an error stands on its own.
    assert updates[-1] == "fit: step 10 of 10, epsilon 1.01, 2.0 s\n" and "\n" not in "".join(updates[:-1])
    assert 5 <= Step.asked == len(updates) - 1 <= 6


def test_reading_is_shown_where_it_takes_long(monkeypatch):
    """Progress counts bytes, ten times a second on a terminal.

    It is one line there; a log gets a line when the time has doubled.
    """
    for is_terminal, least, most in ((True, 80, 100), (False, 3, 5)):
        err, clock = io.StringIO(), [0.0]
        err.isatty = lambda: is_terminal
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
        with ReadingLine("read") as line:
            for step in range(1001):
                clock[0] = step / 100
                line(10_000 * step, 10_000_000)
        shown = err.getvalue().replace("\r", "\n").split("\n")
        assert least <= len([part for part in shown if part]) <= most
        assert shown[int(is_terminal)].startswith("read: 1.0 of 10.0 MB, 1.0 s")
        with ReadingLine("read") as line:
            line(10, 10)
        assert err.getvalue().count("read") == len([part for part in shown if part])
    clock[0] += 2
    line(5_000_000, 0)
    assert err.getvalue().endswith("read: 5.0 MB, 2.0 s\n")


def test_reading_by_a_sentence_model_counts_texts(here, run, monkeypatch, tmp_path):
    ticks = iter(map(float, range(1000)))
    monkeypatch.setattr("vips_fast.jobs.progress.time.perf_counter", lambda: next(ticks))
    (tmp_path / "notes.csv").write_text("note\n" + "cough\nrent\n" * 150)
    fit = "--text note --vectors sentences --public-prior public.npz --components 2 --epsilon 6".split()
    code, _, err = run("fit", "clusters", tmp_path / "notes.csv", *fit, "--out", tmp_path / "m")
    assert code == 0 and "read: 128 texts, 1.0 s" in err
    assert err.index("forecast: ") < err.index("fit: step 1 of")
