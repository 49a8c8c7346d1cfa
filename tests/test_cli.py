"""The command line: results, files, exit codes, one-line errors."""

import errno
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vips_fast.data
from vips_fast import LatentDirichletAllocation, cli, runtime_info
from vips_fast.data import docstrings_corpus, load_corpus

WORDS = ("red", "green", "blue", "pink", "grey", "teal")
RUN = [sys.executable, "-m", "vips_fast"]


def run(capsys, *argv):
    """Exit code, standard output and standard error of a command."""
    code = cli.main([str(arg) for arg in argv])
    out, err = capsys.readouterr()
    return code, out, err


def refused(capsys, *argv, code=2):
    """The message of a command that must fail: one line, nothing on standard output."""
    got, out, err = run(capsys, *argv)
    assert (got, out) == (code, "")
    lines = [line for line in err.splitlines() if not line.startswith("fit: step")]
    assert len(lines) == 1 and lines[0].startswith("vips-fast: error: ")
    return lines[0].removeprefix("vips-fast: error: ")


@pytest.fixture
def files(tmp_path):
    """A corpus of two clear topics in UCI format, and its vocabulary."""
    rng = np.random.default_rng(0)
    topics = np.array([[0.4, 0.3, 0.3, 0, 0, 0], [0, 0, 0, 0.4, 0.3, 0.3]])
    X = np.stack([rng.multinomial(30, topics[d % 2]) for d in range(60)])
    rows, columns = np.nonzero(X)
    lines = [60, 6, rows.size]
    lines += [f"{d + 1} {w + 1} {X[d, w]}" for d, w in zip(rows, columns, strict=True)]
    (tmp_path / "docs.txt").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "words.txt").write_text("\n".join(WORDS) + "\n")
    return tmp_path


def fit_arguments(files, *more):
    return ["fit", "lda", files / "docs.txt", "--vocab", files / "words.txt", "--topics", 2,
            "--out", files / "model", "--steps", 5, "--doc-length", 30, "--seed", 1, *more]  # fmt: skip


# Usage


def test_version_and_help(capsys):
    assert run(capsys, "--version") == (0, f"vips-fast {runtime_info()['version']}\n", "")
    for command in ([], ["demo"], ["fit"], ["fit", "lda"], ["topics"], ["transform"], ["privacy"], ["info"]):
        code, out, err = run(capsys, *command, "--help")
        assert code == 0 and out.startswith("usage: vips-fast") and not err


def test_as_a_module():
    done = subprocess.run([*RUN, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"vips-fast {runtime_info()['version']}\n"
    assert subprocess.run([*RUN, "nonsense"], capture_output=True).returncode == 2


PRIVACY = ["privacy", "--records", 1000, "--steps", 10]


@pytest.mark.parametrize(
    "argv, message",
    [
        ([], "the following arguments are required: COMMAND"),
        (["nonsense"], "invalid choice: 'nonsense'"),
        (["fit", "nonsense"], "invalid choice: 'nonsense'"),
        (["fit", "lda"], "required: INPUT, --topics, --out"),
        (["demo", "--epsilon", -1], "argument --epsilon: '-1': expected a number above 0"),
        (["demo", "--epsilon", "inf"], "'inf': expected a number above 0"),
        (["demo", "--epsilon", "nan"], "'nan': expected a number above 0"),
        (["demo", "--delta", 1], "argument --delta: '1': expected a number between 0 and 1"),
        (["demo", "--topics", 0], "argument --topics: '0': expected a whole number of at least 1"),
        (["demo", "--topics", 2.5], "'2.5': expected a whole number"),
        (["demo", "--jobs", 0], "argument --jobs: '0': expected a number of threads"),
        (["demo", "--seed", -1], "argument --seed: '-1': expected a whole number from 0"),
        (["demo", "--eps", 1], "unrecognized arguments: --eps 1"),
        (["topics", "absent"], "absent: no such folder; expected one written by vips-fast fit"),
        (["transform", "absent", "x"], "absent: no such folder"),
        (PRIVACY, "required: --delta"),
        ([*PRIVACY, "--delta", 1e-5], "one of the arguments --noise-multiplier --epsilon is required"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--noise-multiplier", 1], "not allowed with"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--batch", 1001], "batch_size=1001"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--sampling", "full", "--batch", 10], "leave out --batch"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--accountant", "mine"], "--accountant mine: expected one of gaussian"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--plot", "x.gif"], "--plot x.gif: expected a name that ends"),
        ([*PRIVACY, "--delta", 1e-5, "--epsilon", 1, "--batch", 10, "--neighbors", "replace_one"], "expected 'add_remove' with sampling='poisson'"),
    ],
)  # fmt: skip
def test_usage_errors(capsys, argv, message):
    assert message in refused(capsys, *argv)


# Fitting


def test_fit_without_privacy(capsys, files):
    code, out, err = run(capsys, *fit_arguments(files, "--non-private"))
    model = files / "model"
    assert code == 0
    assert re.fullmatch(r"(fit: step \d of 5, \d+\.\d s\n){5}", err)
    assert sorted(os.listdir(model)) == [
        "model.json", "model.npz", "privacy.txt", "topics.txt", "vocab.txt"
    ]  # fmt: skip
    topics = (model / "topics.txt").read_text()
    halves = {frozenset(line.split()[1:4]) for line in topics.splitlines()}
    assert halves == {frozenset(WORDS[:3]), frozenset(WORDS[3:])}
    assert (model / "privacy.txt").read_text().startswith("NOT PRIVATE: ")
    assert topics in out and "NOT PRIVATE" in out and f"Written to {model}." in out
    assert os.stat(model).st_mode & 0o777 == 0o777 & ~current_umask()

    X = load_corpus(files / "docs.txt").counts
    same = LatentDirichletAllocation(
        2, n_steps=5, doc_length=30, random_state=1, private=False
    ).fit(X)
    loaded = LatentDirichletAllocation.load(model)
    assert np.array_equal(loaded.components_, same.components_)

    assert run(capsys, "topics", model, "--words", 3) == (
        0,
        "".join(" ".join(["", *line.split()[1:4]]).join([line[0] + " ", "\n"])
                for line in topics.splitlines()) + "\n" + (model / "privacy.txt").read_text(),
        "",
    )  # fmt: skip
    code, out, err = run(capsys, "transform", model, files / "docs.txt", "--jobs", 2)
    rows = out.splitlines()
    warning = "vips-fast: warning: NOT PRIVATE: fitted with private=False.\n"
    assert (code, err, rows[0]) == (0, warning, "topic1,topic2")
    shown = np.array([row.split(",") for row in rows[1:]], float)
    # Printed with six significant digits.
    np.testing.assert_allclose(shown, same.transform(X), rtol=1e-5)
    assert run(capsys, "transform", model, files / "docs.txt", "--out", files / "t.npy")[0] == 0
    assert np.array_equal(np.load(files / "t.npy", allow_pickle=False), same.transform(X))
    assert run(capsys, "transform", model, files / "docs.txt", "--out", files / "t.csv")[0] == 0
    assert (files / "t.csv").read_text().splitlines() == rows
    assert {p.name for p in files.iterdir()} == {
        "docs.txt", "words.txt", "model", "t.npy", "t.csv"
    }  # fmt: skip


def current_umask():
    umask = os.umask(0)
    os.umask(umask)
    return umask


def test_fit_with_privacy(capsys, files):
    code, _, err = run(capsys, *fit_arguments(files, "--epsilon", 2, "--delta", 1e-3, "--quiet"))
    assert (code, err) == (0, "")
    privacy = LatentDirichletAllocation.load(files / "model").privacy_
    assert privacy.private and privacy.steps == 5 and privacy.delta == 1e-3
    assert 1.9 < privacy.epsilon <= 2
    assert " ".join((files / "model" / "privacy.txt").read_text().split()) == privacy.statement()


def test_settings_reach_the_estimator(capsys, files):
    more = ["--noise-multiplier", 3, "--delta", 0.5, "--sampling", "without_replacement",
            "--neighbors", "replace_one", "--clip", 0.2, "--records", 60, "--batch-size", 20,
            "--update", "paper", "--doc-topic-prior", 0.3, "--topic-word-prior", 2, "--jobs", 2]  # fmt: skip
    code, _, err = run(capsys, *fit_arguments(files, *more))
    assert code == 0
    assert "fit: step 5 of 5, epsilon " in err
    assert "warning: delta = 0.5 is not below 1 / 60 records" in err.splitlines()[-1]
    params = LatentDirichletAllocation.load(files / "model").get_params()
    expected = dict(n_components=2, noise_multiplier=3.0, target_delta=0.5, target_epsilon=None,
                    sampling="without_replacement", neighbors="replace_one", clip=0.2,
                    n_records=60, batch_size=20, update="paper", doc_topic_prior=0.3,
                    topic_word_prior=2.0, n_jobs=2, n_steps=5, doc_length=30, random_state=1,
                    private=True, callback=None)  # fmt: skip
    assert {name: params[name] for name in expected} == expected


def test_fit_with_a_prior_of_public_topics(capsys, files):
    assert run(capsys, *fit_arguments(files, "--non-private", "--quiet"))[0] == 0
    (files / "model").rename(files / "public")
    known = LatentDirichletAllocation.load(files / "public").components_
    more = ["--epsilon", 0.1, "--delta", 1e-3, "--quiet", "--prior-model", files / "public"]
    assert run(capsys, *fit_arguments(files, *more, "--prior-weight", 2.5))[0] == 0
    model = LatentDirichletAllocation.load(files / "model")
    np.testing.assert_array_equal(model.topic_word_prior, 2.5 * known)
    assert model.privacy_.private and (model.components_ >= 2.5 * known * (1 - 1e-12)).all()
    (files / "public" / "vocab.txt").write_text("\n".join(WORDS[::-1]) + "\n")
    assert "other words, or in another order" in refused(capsys, *fit_arguments(files, *more, "--force"))
    np.testing.assert_array_equal(LatentDirichletAllocation.load(files / "model").components_, model.components_)
    for options, message in (
        (["--prior-weight", 2], "--prior-weight: expected with --prior-model"),
        ([*more[-2:], "--topic-word-prior", 1], "without --topic-word-prior"),
        (["--prior-model", files / "none"], "model.json: No such file or directory"),
    ):
        assert message in refused(capsys, *fit_arguments(files, "--epsilon", 1, *options, "--force"))
    # The last --topics counts.
    assert "has 2 topics: expected 3" in refused(capsys, *fit_arguments(files, *more, "--topics", 3, "--force"))


@pytest.mark.parametrize(
    "more, message",
    [
        ([], "give one of --epsilon (with --delta), --noise-multiplier"),
        (["--epsilon", 1, "--noise-multiplier", 1], "give one of --epsilon"),
        (["--non-private", "--epsilon", 1], "--non-private excludes --epsilon"),
        (["--non-private", "--delta", 0.1], "--non-private excludes --delta"),
        (["--epsilon", 1, "--batch-size", 61], "batch_size=61"),
        (["--epsilon", 1, "--clip", 2], "clip=2.0"),
        (["--epsilon", 1, "--format", "csv"], "format is 'csv'; expected one of npz"),
        (["--epsilon", 1, "--features", 7], "docs.txt: has 6 words; expected 7"),
        (["--epsilon", 1, "--sampling", "full", "--batch-size", 5], "batch_size=5"),
    ],
)
def test_fit_refuses_and_leaves_nothing(capsys, files, more, message):
    assert message in refused(capsys, *fit_arguments(files, *more))
    assert {p.name for p in files.iterdir()} == {"docs.txt", "words.txt"}


def test_bad_input_files(capsys, files):
    arguments = fit_arguments(files, "--epsilon", 1)
    (files / "words.txt").write_text("\n".join(WORDS[:4]))
    assert "has 6 words, but the vocabulary has 4" in refused(capsys, *arguments)
    (files / "words.txt").unlink()
    assert "words.txt: No such file or directory" in refused(capsys, *arguments)
    (files / "words.txt").write_text("\n".join(WORDS))
    (files / "docs.txt").write_text("2\n6\n1\n1 1 -7351\n")
    message = refused(capsys, *arguments)
    assert "docs.txt: line 4: expected non-negative integers" in message
    (files / "docs.txt").unlink()
    assert "docs.txt: No such file or directory" in refused(capsys, *arguments)
    assert {p.name for p in files.iterdir()} == {"docs.txt", "words.txt"} - {"docs.txt"}


def test_existing_output(capsys, files):
    arguments = fit_arguments(files, "--non-private", "--quiet")
    (files / "model").mkdir()
    assert run(capsys, *arguments)[0] == 0
    before = (files / "model" / "model.npz").read_bytes()
    assert "is not empty; --force replaces a model in it" in refused(capsys, *arguments)
    again = [*arguments, "--force", "--seed", 2]
    assert run(capsys, *again)[0] == 0
    assert (files / "model" / "model.npz").read_bytes() != before
    assert {p.name for p in files.iterdir()} == {"docs.txt", "words.txt", "model"}

    (files / "model" / "topics.txt").unlink()
    (files / "model" / "diary.txt").write_text("dear diary")
    assert "holds no model of vips-fast; --force does not apply" in refused(capsys, *again)
    assert (files / "model" / "diary.txt").read_text() == "dear diary"
    other = [arg if arg != files / "model" else files / "docs.txt" for arg in arguments]
    assert "docs.txt exists and is not a folder" in refused(capsys, *other)


def test_a_replaced_model_survives_a_failed_fit(capsys, files):
    arguments = fit_arguments(files, "--non-private", "--quiet")
    assert run(capsys, *arguments)[0] == 0
    before = (files / "model" / "model.npz").read_bytes()
    refused(capsys, *arguments, "--force", "--batch-size", 61)
    assert (files / "model" / "model.npz").read_bytes() == before
    assert {p.name for p in files.iterdir()} == {"docs.txt", "words.txt", "model"}


def test_models_that_cannot_be_read(capsys, files):
    run(capsys, *fit_arguments(files, "--non-private", "--quiet"))
    model = files / "model"
    assert "--out t.txt: expected a name that ends in .csv" in refused(
        capsys, "transform", model, files / "docs.txt", "--out", "t.txt"
    )
    (model / "vocab.txt").write_text("one\n")
    assert "vocab.txt has 1 words, but the model 6" in refused(capsys, "topics", model)
    assert run(capsys, "topics", model, "--vocab", files / "words.txt")[0] == 0
    (model / "vocab.txt").unlink()
    assert "#0" in run(capsys, "topics", model)[1]
    assert "the model has 6 words, the docstrings " in refused(
        capsys, "transform", model, "docstrings"
    )
    whole = (model / "model.npz").read_bytes()
    for broken in (whole[:100], b"", whole[:-30]):
        (model / "model.npz").write_bytes(broken)
        assert str(model) in refused(capsys, "topics", model)
    (model / "model.npz").write_bytes(whole)
    (model / "model.json").write_text("{}")
    assert str(model) in refused(capsys, "topics", model)
    (model / "model.json").unlink()
    assert "model.json: No such file" in refused(capsys, "topics", model)


def test_texts(capsys, files):
    (files / "texts").mkdir()
    for k in range(8):
        (files / "texts" / f"{k}.txt").write_text("Red, green; blue! " if k % 2 else "pink Grey")
    arguments = fit_arguments(files, "--non-private", "--quiet")
    arguments[2] = files / "texts"
    assert run(capsys, *arguments)[0] == 0
    code, out, _ = run(capsys, "transform", files / "model", files / "texts")
    assert code == 0 and len(out.splitlines()) == 9


# Interruption and failure


def test_interrupt_leaves_nothing(files):
    arguments = [str(a) for a in fit_arguments(files, "--epsilon", 1)]
    arguments[arguments.index("--steps") + 1] = "1000000"
    process = subprocess.Popen(
        [*RUN, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        # Jobs in the background of a script inherit an ignored SIGINT.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # The temporary folder appears before the fit, after the imports.
    while process.poll() is None and len(list(files.iterdir())) == 2:
        time.sleep(0.01)
    # Then into the fit itself.
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "vips-fast: error: interrupted"
    assert {p.name for p in files.iterdir()} == {"docs.txt", "words.txt"}


def test_a_closed_pipe_is_no_error(capsys, files):
    run(capsys, *fit_arguments(files, "--non-private", "--quiet"))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*RUN, "topics", files / "model"], stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


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
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "x: Permission denied"),
        (ValueError("two\nlines"), 2, "two lines"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(capsys, monkeypatch, error, code, message):
    def fail():
        raise error

    monkeypatch.setattr(cli, "_info", lambda args: fail())
    assert refused(capsys, "info", code=code) == message
    if isinstance(error, (RuntimeError, KeyError)):
        with pytest.raises(type(error)):
            cli.main(["--debug", "info"])


# Progress


class Terminal:
    def __init__(self):
        self.text = ""

    def isatty(self):
        return True

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_progress_bar_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with cli._Progress(3, "fit") as progress:
        for step in (1, 2, 3):
            progress(step, 0.5 * step, 0.1)
    assert "3/3" in terminal.text and "epsilon 1.5" in terminal.text


def test_progress_lines(capsys):
    with cli._Progress(100, "fit") as progress:
        for step in range(1, 101):
            progress(step, math.inf if step < 50 else 1.25, 2.0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 20
    assert lines[0] == "fit: step 5 of 100, 2.0 s"
    assert lines[-1] == "fit: step 100 of 100, epsilon 1.25, 2.0 s"
    with cli._Progress(1, "fit", quiet=True) as progress:
        progress(1, 1.0, 1.0)
    assert capsys.readouterr().err == ""


# Privacy


def figures(out):
    """The first table of `privacy` as numbers."""
    table = out.split("\n\n")[0].splitlines()
    return {name.strip(): float(value) for name, value in (line.rsplit(None, 1) for line in table)}


PAPER = ["privacy", "--records", 400_000, "--batch", 20_000, "--steps", 20, "--delta", 1e-4]


@pytest.mark.parametrize(
    "more, expected",
    [
        # The paper's setting: exact for Poisson sampling, the proven bound for
        # sampling without replacement, and the paper's own accountant (2.38).
        ([], 0.932),
        (["--sampling", "without_replacement"], 0.984),
        (["--sampling", "without_replacement", "--accountant", "wang"], 2.3826),
    ],
)
def test_privacy_of_the_papers_run(capsys, more, expected):
    code, out, err = run(capsys, *PAPER, "--noise-multiplier", 1.24, *more)
    assert code == 0 and "differentially private under" in out
    # To the digits that were printed.
    assert figures(out)["epsilon"] == pytest.approx(expected, rel=1e-3)
    assert "delta = 0.0001 is not below 1 / 400000 records" in err


def test_privacy_the_other_way_round(capsys):
    out = run(capsys, *PAPER, "--epsilon", 0.932)[1]
    noise = figures(out)["noise multiplier"]
    # The calibration's own tolerance is 10^-3.
    assert noise == pytest.approx(1.24, rel=2e-3)
    assert figures(out)["epsilon"] <= 0.932
    out = run(capsys, *PAPER, "--noise-multiplier", noise)[1]
    assert figures(out)["epsilon"] <= 0.932


def test_privacy_of_whole_batches(capsys):
    code, out, err = run(capsys, *PRIVACY, "--delta", 1e-5, "--noise-multiplier", 2)
    assert (code, err) == (0, "")
    whole = figures(out)
    assert whole["expected batch"] == 1000 and whole["sampling probability"] == 1
    full = ["--sampling", "full", "--neighbors", "replace_one"]
    out = run(capsys, *PRIVACY, "--delta", 1e-5, "--noise-multiplier", 2, *full)[1]
    assert figures(out) == whole
    assert "under replacing one record" in out


def test_privacy_comparison_and_plot(capsys, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is optional")
    argv = [*PAPER, "--noise-multiplier", 1.24, "--sampling", "without_replacement"]
    code, out, _ = run(capsys, *argv, "--compare", "--plot", tmp_path / "e.png")
    assert code == 0
    lines = out.split("\n\n")[2].splitlines()[2:]
    epsilons = {fields[1]: float(fields[2]) for fields in (re.split(r"  +", line) for line in lines)}
    assert epsilons["pld"] == pytest.approx(0.984, rel=1e-3)
    assert epsilons["wang"] == pytest.approx(2.3826, rel=1e-3)
    assert 0.5 * epsilons["pld"] < epsilons["attack"] < epsilons["pld"] == min(
        value for name, value in epsilons.items() if name != "attack"
    )
    assert [line.split()[-1] == "used" for line in lines] == [name == "pld" for name in epsilons]
    interval = re.search(r"The exact epsilon is between ([0-9.]+) and ([0-9.]+)\.", out)
    assert [float(end) for end in interval.groups()] == [epsilons["attack"], epsilons["pld"]]
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")
    code, _, _ = run(capsys, *argv, "--plot", tmp_path / "e.svg")
    assert code == 0 and "<svg" in (tmp_path / "e.svg").read_text()
    assert {p.name for p in tmp_path.iterdir()} == {"e.png", "e.svg"}


# Information, import, demo


def test_info(capsys):
    code, out, err = run(capsys, "info")
    info = runtime_info()
    assert (code, err) == (0, "")
    rows = dict(line.split(None, 1) for line in out.replace("instruction set", "isa").splitlines())
    assert rows["vips_fast"] == info["version"]
    assert rows["isa"] == info["isa"]
    assert rows["available"] == ", ".join(info["isas_available"])


def test_commands_load_no_optional_package():
    lazy = {"numba", "autodp", "dp_accounting", "matplotlib", "sklearn", "tqdm"}
    script = (
        "import sys, vips_fast, vips_fast.cli, vips_fast.report, vips_fast.data\n"
        "vips_fast.cli.main(['info'])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not lazy & set(done.stdout.splitlines()[-1].split())


@pytest.fixture(scope="module")
def some_docstrings():
    return docstrings_corpus(packages=())


def test_demo(capsys, monkeypatch, some_docstrings):
    monkeypatch.setattr(vips_fast.data, "docstrings_corpus", lambda: some_docstrings)
    code, out, err = run(capsys, "demo", "--epsilon", 20, "--topics", 5, "--words", 4, "--jobs", 1)
    assert code == 0
    assert "private: step 10 of 10, epsilon 20, " in err
    n = len(some_docstrings)
    n_test = round(0.1 * n)
    text = " ".join(out.split())
    assert f"one a record: {n} with ten or more words" in text
    assert f"{n - n_test} records to learn from, {n_test} held out" in text
    perplexity = {}
    for line in out.splitlines():
        if row := re.match(r"(unigram|private|non-private).* (\d+) +(\d+)$", line):
            perplexity[row[1]] = (int(row[2]), int(row[3]))
    # The standard library alone is little data, so epsilon is large here.
    assert perplexity["private"][0] < perplexity["unigram"][0]
    assert perplexity["non-private"][0] < perplexity["unigram"][0]
    topics = [line for line in out.splitlines() if re.match(r" *\d+  .* \| ", line)]
    assert len(topics) == 5
    stated = re.search(r"\(([0-9.]+), 1e-05\)-differential privacy .* of (\d+):", text)
    # Calibrated to 10^-3 below the target.
    assert 19.9 < float(stated[1]) <= 20 and int(stated[2]) == n - n_test


def test_demo_says_when_it_failed(capsys, monkeypatch, some_docstrings):
    monkeypatch.setattr(vips_fast.data, "docstrings_corpus", lambda: some_docstrings)
    code, out, err = run(capsys, "demo", "--epsilon", 0.05, "--quiet", "--jobs", 1)
    assert code == 1
    assert "are no better than the unigram model" in err and len(err.splitlines()) == 1
    assert "held-out perplexity" in out


def test_wiki_in_one_line(capsys, data_dir, tmp_path):
    wiki = data_dir / "wiki"
    code, out, _ = run(
        capsys, "fit", "lda", wiki / "test.npz", "--vocab", wiki / "vocab.txt", "--topics", 5,
        "--epsilon", 2, "--delta", 1e-5, "--steps", 3, "--out", Path(tmp_path) / "m", "--quiet",
    )  # fmt: skip
    assert code == 0
    assert re.search(r"\((2|1\.99\d), 1e-05\)-differential privacy", out)


def test_fit_lda_without_settings_follows_the_plan(files, tmp_path, capsys):
    out = tmp_path / "planned"
    code, shown, err = run(
        capsys, "fit", "lda", files / "docs.txt", "--vocab", files / "words.txt", "--topics", 2,
        "--epsilon", 2, "--delta", 1e-3, "--out", out,
    )  # fmt: skip
    assert code == 0, err
    model = LatentDirichletAllocation.load(out)
    assert model.n_steps_ in (20, 40) and model.privacy_.epsilon <= 2
    # A log line for the last step: the progress knew how many there would be.
    assert f"step {model.n_steps_} of {model.n_steps_}" in err


def test_plan_prints_the_plan(capsys):
    from vips_fast import plan

    arguments = ["plan", "--records", 400_000, "--words", 7702, "--topics", 50, "--epsilon", 1, "--delta", 1e-4]
    code, out, _ = run(capsys, *arguments)
    planned = plan(400_000, 7702, 50, target_epsilon=1.0, target_delta=1e-4)
    assert code == 0 and "100000" in out and f"{planned.noise_multiplier:.4g}" in out
    code, out, _ = run(capsys, "plan", "--records", 2000, "--words", 7702, "--topics", 50, "--epsilon", 0.5)
    assert code == 0 and "fewer topics" in out
    assert run(capsys, "plan", "--records", 0, "--words", 5, "--topics", 2, "--epsilon", 1)[0] == 2
