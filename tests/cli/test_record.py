"""What a scheduler reads: the object of ``--json``, and the library's log."""

import json
import logging
import math
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from cases import calling

from vips_fast import LatentDirichletAllocation
from vips_fast.cli.messages import print_object
from vips_fast.engine.budget import Budget
from vips_fast.jobs.folder import JobFolder
from vips_fast.jobs.places import kind_in
from vips_fast.jobs.progress import ProgressLine

KEYS = set("model epsilon delta unit relation not_private steps seconds paths budget exit error statement".split())
SMALL = ("--noise-multiplier", 6, "--delta", "1e-6", "--records", 60)


def words(caplog):
    return [message.partition(":")[0] for message in caplog.messages]


@pytest.fixture
def budget(tmp_path):
    return Budget.create(tmp_path / "b", 3, 1e-6, dataset="ward7")


@pytest.fixture
def inputs(files):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) / 3
    np.save(files.folder / "X.npy", X)
    np.save(files.folder / "y.npy", X[:, 0] > 0)
    np.save(files.folder / "images.npy", rng.integers(0, 2, (60, 8)))
    return {
        "lda": [files.docs, "--topics", 2, "--doc-length", 30],
        "blr": [files.folder / "X.npy", "--label", files.folder / "y.npy", "--classes", 0, 1],
        "sbn": [files.folder / "images.npy", "--components", 2],
    }


@pytest.mark.parametrize("family", ["lda", "blr", "sbn"])
def test_the_object_of_a_fit(run, files, inputs, budget, family, caplog):
    out = files.folder / "m"
    caplog.set_level(logging.INFO, "vips_fast")
    argv = ["fit", family, *inputs[family], *SMALL, "--budget", budget.path, "--steps", 4, "--out", out]
    code, text, err = run(*argv, "--json", "--quiet", "--transcript", files.folder / "t")
    # With few rows, the regression warns of effects that it cannot know.
    told = {"effects", "--row-norm"} if family == "blr" else {"forecast"} if family == "sbn" else set()
    assert (code, text.count("\n")) == (0, 1)
    assert {line.split()[2].rstrip(":") for line in err.splitlines()} <= told
    said = json.loads(text)
    model = kind_in(out).load(out)
    seconds = said.pop("seconds")
    assert 0 < seconds < 600 and set(said) == KEYS - {"seconds"}
    assert said == {
        "model": type(model).__name__,
        "epsilon": model.privacy_.epsilon,
        "delta": 1e-6,
        "unit": "record",
        "relation": "add_remove",
        "not_private": [],
        "statement": model.privacy_.statement(),
        "steps": 4,
        "exit": "done",
        "error": None,
        "paths": {"model": str(out), "transcript": str(files.folder / "t")},
        "budget": {"file": str(budget.path), "spent": budget.spent, "left": budget.left},
    }
    expected = ["charge", "forecast", "plan", "start", "done", "written", "charge", "written"]  # the transcript first
    assert budget.spent > 0 and words(caplog) == [*expected, "exit 0"]


def test_no_figure_where_there_is_no_guarantee(run, files):
    """A finite epsilon without a guarantee must not be read as one."""
    code, text, _ = run(*files.fit("--non-private", "--json", "--quiet"))
    said = json.loads(text)
    assert code == 0 and said["not_private"] and (said["epsilon"], said["delta"]) == (None, None)
    assert (said["budget"], said["paths"]["transcript"]) == (None, None)


def test_the_object_of_a_failure(run, files, budget, monkeypatch):
    def ends(code, word, *more, quiet=True):
        got, text, err = run(*files.fit(*more, "--json", *["--quiet"] * quiet))
        assert (got, text.count("\n")) == (code, 1)
        said = json.loads(text)
        assert (set(said), said["exit"]) == ({"exit", "error"}, word) and said["error"] in err
        return said["error"]

    paid = *SMALL, "--budget", budget.path
    refused = ends(3, "refused", *paid, "--noise-multiplier", 0.5)
    assert "does not hold this run" in refused and refused.endswith("which takes all that is left")
    assert "expected one of" in ends(2, "bad_input", *paid, "--format", "dsv")

    def stop(estimator, *data, **more):
        raise raised

    monkeypatch.setattr(LatentDirichletAllocation, "fit", stop)
    raised = KeyboardInterrupt()
    assert ends(130, "interrupted", *paid) == "interrupted"
    # The text of an unexpected error may hold data.
    raised = RuntimeError("7351")
    assert ends(1, "failed", *paid).startswith("internal error (RuntimeError)")
    monkeypatch.undo()
    monkeypatch.setattr(JobFolder, "publish", lambda *_: os.stat(files.folder / "absent"))
    said = ends(4, "kept", *paid)
    assert said.startswith(f"{files.folder}/absent: No such file or directory. The result is kept in ")
    monkeypatch.undo()
    monkeypatch.setattr(ProgressLine, "__call__", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    assert "with --resume continues" in ends(143, "terminated", *SMALL, "--out", files.folder / "other", quiet=False)
    # argparse ends a command before anything is known of it.
    assert run(*files.fit("--json", "--steps", 0))[:2] == (2, "")


# Objects of other commands


PLAN = ("plan", "--records", 15000, "--vocab-size", 5000, "--topics", 10)


@pytest.fixture
def said(run):
    """The object of a command; it is all of standard output."""

    def call(*argv, code=0):
        got, out, _ = run(*argv, "--json")
        (line,) = out.splitlines()
        assert got == code
        return json.loads(line)

    return call


@pytest.fixture
def model(run, files):
    assert run(*files.fit("--epsilon", 3, "--doc-length", 3, "--steps", 2, "--anyway", "--quiet"))[0] == 0
    return files.model


def test_of_a_model(run, said, model):
    found = said("show", model)
    assert found["exit"] == "done" and found["error"] is None
    assert found["statement"] in " ".join(run("show", model)[1].split())
    assert 0 < found["epsilon"] <= 3 and (found["unit"], found["not_private"]) == ("record", [])
    assert {"verdict", "worth", "attacker", "assumptions", "head"} <= set(found)
    alone = found["attacker"][0]
    assert alone["records"] == 1 and alone["right"] > 0.5 > alone["found"]


def test_of_a_plan(run, said):
    found = said(*PLAN, "--epsilon", 1)
    lines = run(*PLAN, "--epsilon", 1)[1]
    assert f"{found['noise_multiplier']:.4g}" in lines and found["n_components"] == 10
    assert found["forecast"][10:] in " ".join(lines.split())


@pytest.mark.parametrize("argv", (("show", "none"), ("budget", "show", "none")))
def test_a_failure_is_an_object_too(said, argv):
    found = said(*argv, code=2)
    assert found["exit"] == "bad_input" and found["error"]


def test_what_is_no_number_in_json_is_null(capsys):
    print_object({"left": math.inf, "runs": [{"epsilon": math.nan}]})
    said = json.loads(capsys.readouterr().out)
    assert (said["left"], said["runs"], said["exit"]) == (None, [{"epsilon": None}], "done")


# The log


def test_lines_of_a_fit_and_of_a_refusal(run, files, budget, caplog):
    caplog.set_level(logging.INFO, "vips_fast")
    argv = files.fit(*SMALL, "--budget", budget.path, "--quiet")
    assert run(*argv)[0] == 0 and run(*argv)[0] == 2
    expected = ["charge", "forecast", "plan", "start", "done", "charge", "written", "exit 0"]
    assert words(caplog) == [*expected, "exit 2"] and caplog.records[-1].levelname == "ERROR"
    assert caplog.messages[-1].startswith(f"exit 2: {files.model} is not empty")
    # The program that does not listen sees none.
    assert [type(handler) for handler in logging.getLogger("vips_fast").handlers] == [logging.NullHandler]


def test_the_log_says_nothing_of_the_records(run, files, inputs, budget, caplog):
    """Other records, as many. The same lines, but for times, processes, names of runs and paths."""

    def said(family, name, more):
        caplog.clear()
        argv = ["fit", family, *more, *SMALL, "--budget", budget.path, "--steps", 3, "--noise-multiplier", 20]
        assert run(*argv, "--out", files.folder / f"{name}-m", "--quiet")[0] == 0
        lines = [(line.levelname, line.name, line.getMessage()) for line in caplog.records]
        return re.sub(rf"{name}-m|run \w+|in [\d.]+ s", "_", repr(lines))

    caplog.set_level(logging.INFO, "vips_fast")
    rng = np.random.default_rng(7351)
    np.save(files.folder / "X2.npy", rng.normal(size=(60, 3)) * 100)
    np.save(files.folder / "y2.npy", np.arange(60) < 3)
    np.save(files.folder / "images2.npy", np.ones((60, 8), dtype=int))
    sp.save_npz(files.folder / "docs2.npz", sp.csr_array(([7351, 1], ([0, 59], [0, 5])), shape=(60, 6)))
    for family, more in inputs.items():
        other = [str(word).replace(".npy", "2.npy").replace("docs.npz", "docs2.npz") for word in more]
        assert said(family, f"{family}1", more) == said(family, f"{family}2", other)


def test_a_program_that_configures_logging_sees_each_event(tmp_path, budget, caplog):
    X = np.random.default_rng(0).poisson(0.6, (60, 12))
    caplog.set_level(logging.INFO, "vips_fast")

    def stop(progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    model = calling(
        LatentDirichletAllocation(2, doc_length=30, n_steps=5, noise_multiplier=6.0, delta=1e-6, random_state=0), stop
    )
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, checkpoint=tmp_path / "run", budget=budget)
    calling(model, None).fit(X, checkpoint=tmp_path / "run", budget=budget, resume=True)
    model.save(tmp_path / "m")
    before, after = "charge forecast plan start charge", "charge resume plan start done charge"
    assert words(caplog) == [*before.split(), *after.split(), "written"]
    said = caplog.text
    for part in (
        "5 releases reserved in",
        "3 of 5 releases of run",
        "resume: from step 3 in",
        "3 releases spent",
        "start: 5 steps, 0 done before",
        f"written: {tmp_path}/m",
    ):
        assert part in said, part


def test_a_library_without_logging_is_silent():
    script = "import logging, vips_fast; logging.getLogger('vips_fast.engine.loop').error('heard')"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_json_leaves_progress_to_standard_error(run, files, monkeypatch):
    code, out, err = run(*files.fit(*SMALL, "--json"))
    assert code == 0 and set(json.loads(out)) == KEYS and "fit: step 5 of 5" in err
    monkeypatch.setattr(ProgressLine, "__call__", lambda line, progress: pytest.fail("progress"))
    assert run(*files.fit(*SMALL, "--json", "--quiet", "--force"))[2] == ""
