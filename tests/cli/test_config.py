"""A fit's arguments from a job file, and the check of one."""

import json
import os

import numpy as np
import pytest

from vips_fast import cli
from vips_fast.accounting import rounded_up
from vips_fast.cli.jobfile import load
from vips_fast.cli.parser import parse
from vips_fast.cli.tables import PROGRAM
from vips_fast.engine.budget import Budget
from vips_fast.jobs.progress import ProgressLine

FITS = ("fit lda", "fit blr", "fit sbn", "fit mixture")


def toml(command, options):
    lines = [f"{name} = {json.dumps(value)}" for name, value in options.items()]
    return "\n".join([f'command = "{command}"', "[options]", *lines, ""])


@pytest.fixture
def job(tmp_path):
    """Writes a job file."""

    def write(command="fit lda", content=None, **options):
        path = tmp_path / "job.toml"
        path.write_text(toml(command, options) if content is None else content)
        return path

    return write


def parsed(*argv):
    known = vars(parse([str(word) for word in argv]))
    return {name: value for name, value in known.items() if name != "config"}


#: All options of the fits but one of each pair that excludes the other, as a file and as words; paths are absolute.
SHARED = {
    "out": "/m",
    "force": True,
    "transcript": "/t",
    "paper": True,
    "noise_multiplier": 3,
    "delta": 1e-6,
    "budget": "/b",
    "sampling": "full",
    "relation": "add_remove",
    "records": 60,
    "invalid": "drop",
    "batch-size": 20,
    "steps": 5,
    "jobs": -1,
    "seed": 1,
    "quiet": True,
    "resume": True,
    "checkpoint_every": 3,
    "json": True,
    "log-file": "/log",
    "groups": "/g",
    "unit": "patient",
    "rows_per_group": 4,
    "no_verify": True,
    "workers": 2,
    "report": True,
}
OWN = {
    "fit lda": {
        "input": "/x.npz",
        "vocab": "/v",
        "format": "csv",
        "text": ["note", "more"],
        "person": "who",
        "unit": "patient",
        "encoding": "latin-1",
        "vocab_size": 9,
        "analyzer": "paper",
        "stop-words": "public:en",
        "coarse-words": "none",
        "language": "de",
        "lemmas": "own:lemma",
        "vocab_share": 0.2,
        "max_share": 0.1,
        "min_length": 2,
        "numbers": "drop",
        "ngrams": 3,
        "features": 6,
        "topics": 2,
        "words": 4,
        "tabulate": "ward,month",
        "values": "/values",
        "table_epsilon": 0.25,
        "clip": 0.25,
        "doc_length": 30,
        "distinct_words": 9.5,
        "anyway": True,
        "doc_topic_prior": 0.5,
        "no_measure_gain": True,
        "topic_word_prior": 0.5,
    },
    "fit blr": {
        "input": "/x.npy",
        "labels": "/y",
        "label": "c",
        "schema": "/s",
        "person": "p",
        "names": "/n",
        "row_norm": 2.5,
        "classes": ["no", "yes"],
        "trials": 3,
        "no_intercept": True,
        "covariance": "spherical",
        "anyway": True,
        "no_measure_gain": True,
    },
    "fit mixture": {
        "input": "/x.npy",
        "schema": "/s",
        "person": "p",
        "names": "/n",
        "held": "/h",
        "vocab": "/v",
        "kind": "vector",
        "components": 7,
        "projection": 32,
        "center": 0.0,
        "radius": 2.5,
        "max_words": 9,
        "anyway": True,
    },
    "fit sbn": {
        "input": "/x.npy",
        "person": "p",
        "threshold": -128,
        "components": 7,
        "bound": "pg",
        "anyway": True,
        "no_measure_gain": True,
    },
}
ELSE = {"attack_success", "epsilon", "non_private", "public_prior", "scheduler"}


@pytest.mark.parametrize("command", FITS)
def test_every_option_means_what_it_means_on_the_command_line(job, command):
    options = SHARED | OWN[command]
    words = []
    for name, value in options.items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        words += [*([] if name == "input" else [f"--{name.replace('_', '-')}"]), *values]
    by_file = parsed(*command.split(), "--config", job(command, **options))
    assert by_file == parsed(*command.split(), *words)
    # The words that `config` prints, too.
    again = load(job(command, **options)).arguments()
    assert parsed(*command.split(), *again) == by_file
    # And no option was forgotten here: those that exclude one of these are tested below.
    (one,) = [one for one in PROGRAM.all() if one.words == command]
    assert {option.key for option in one.options} - ELSE - {"config"} == {name.replace("-", "_") for name in options}


def test_the_command_line_comes_first(job):
    path = job(input="/a", topics=2, epsilon=1, out="/m", steps=5, force=False)
    start = "fit", "lda", "--config", path
    given = parsed(*start)
    assert (given["input"], given["n_components"], given["epsilon"], given["force"]) == ("/a", 2, 1.0, False)
    given = parsed(*start, "b", "--topics", 3, "--steps", 9, "--force")
    assert (given["input"], given["n_components"], given["n_steps"], given["force"]) == ("b", 3, 9, True)
    # What excludes an option of the file takes its place.
    for other, name, value in (
        (("--attack-success", 0.6), "target_attack_success", 0.6),
        (("--noise-multiplier", 2), "noise_multiplier", 2.0),
        (("--non-private",), "private", False),
    ):
        given = parsed(*start, *other)
        assert (given["epsilon"], given[name]) == (None, value)
    given = parsed(*start, "--public-prior", "p")
    assert (given["n_components"], given["public_prior"]) == (None, "p")
    path = job(input="/a", topics=2, epsilon=1, out="/m", workers=2)
    given = parsed("fit", "lda", "--config", path, "--scheduler", "s")
    assert (given["workers"], given["scheduler"]) == (None, "s")
    given = parsed("fit", "lda", "--config", job(input="/a", topics=2, non_private=True, out="/m"), "--epsilon", 2)
    assert (given["private"], given["epsilon"]) == (None, 2.0)


def test_paths_are_relative_to_the_file(job, run, files, monkeypatch):
    folder = files.folder
    path = job(
        input="docs.txt",
        vocab="words.txt",
        out="model",
        log_file="log",
        topics=2,
        doc_length=30,
        epsilon=1,
        steps=2,
        quiet=True,
    )
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert run("fit", "lda", "--config", path)[0] == 0
    # On the command line they are relative to where one is.
    assert run("fit", "lda", "--config", os.path.relpath(path), "--out", "other")[0] == 0
    assert (folder / "model" / "model.npz").exists() and (folder / "log").read_text().count("written") == 2
    assert (folder / "elsewhere" / "other" / "model.npz").exists()
    assert parsed("fit", "lda", "--config", job(input="docstrings", topics=2, out="m"))["input"] == "docstrings"


GOOD = {"input": "/x", "topics": 2, "epsilon": 1, "out": "/m"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"topicz": 3}, "topicz: unknown key; expected one of analyzer, anyway, attack_success, batch_size, "),
        ({"config": "x"}, "config: unknown key"),
        ({"help": True}, "help: unknown key"),
        ({"topics": "2"}, "topics = '2': expected a whole number of at least 1"),
        ({"topics": 2.5}, "topics = 2.5: expected a whole number of at least 1"),
        ({"topics": True}, "topics = true: expected a whole number of at least 1"),
        ({"topics": [2]}, "topics = [2]: expected a whole number of at least 1"),
        ({"epsilon": 0}, "epsilon = 0: expected a number above 0"),
        ({"epsilon": "1"}, "epsilon = '1': expected a number above 0"),
        ({"delta": 1}, "delta = 1: expected a number between 0 and 1"),
        ({"sampling": "some"}, "sampling = 'some': expected one of poisson, without_replacement, full"),
        ({"sampling": 1}, "sampling = 1: expected one of poisson"),
        ({"quiet": 1}, "quiet = 1: expected true or false"),
        ({"non_private": "yes"}, "non_private = 'yes': expected true or false"),
        ({"vocab": 7}, "vocab = 7: expected a text"),
        ({"vocab": ["a", "b"]}, "vocab = ['a', 'b']: expected a text"),
        ({"batch-size": 3, "batch_size": 3}, "batch_size: given twice"),
        ({"noise_multiplier": 3}, "epsilon and noise_multiplier: expected only one of them"),
    ],
)
def test_what_a_file_must_not_say(job, refused, change, message):
    path = job(**GOOD | change)
    for argv in (["fit", "lda", "--config", path], ["config", path], ["config", path, "--check"]):
        said = refused(*argv)
        assert said.startswith(f"{path}: ") and message in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command", "not a TOML file: "),
        ('command = "fit lda"\ncommand = "fit lda"', "not a TOML file: "),
        ("\ufffe", "not a TOML file"),
        ("a = " + "[" * 5000, "not a TOML file: "),
        ("a = " + "9" * 5000, "not a TOML file: "),
        ("[options]\ntopics = 2", "command = nothing: expected one of fit lda, fit blr, fit counts, fit sbn"),
        ('command = "transform"\n[options]', "command = 'transform': expected one of fit lda"),
        ('command = ["fit", "lda"]\n[options]', "expected one of fit lda"),
        ('command = "fit lda"', "options = nothing: expected a table of the options of fit lda"),
        ('command = "fit lda"\noptions = 3', "options = 3: expected a table"),
        ('command = "fit lda"\nepsilon = 3\n[options]', "epsilon: unknown key; expected command and options"),
    ],
)
def test_what_is_no_job_file(job, refused, text, message):
    path = job(content=text)
    for argv in (["fit", "lda", "--config", path], ["config", path]):
        said = refused(*argv)
        assert said.startswith(f"{path}: ") and message in said


def test_lists_and_other_commands(job, refused, tmp_path):
    assert "classes = []: expected" in refused("fit", "blr", "--config", job("fit blr", classes=[], out="m"))
    assert "input = []: expected a text" in refused("config", job("fit blr", input=[], out="m"))
    path = job("fit blr", input="x", out="m")
    assert "command = 'fit blr': expected 'fit lda'; run vips-fast fit blr" in refused("fit", "lda", "--config", path)
    said = refused("fit", "sbn", "--config", job("fit sbn", input="x"))
    assert f"required: --out, --components: expected here or in {path}" in said
    path.write_bytes(b"command = '\xff'")
    assert "is not UTF-8 text" in refused("config", path)
    assert "No such file" in refused("config", tmp_path / "absent.toml")
    assert "expected one argument" in refused("fit", "lda", "--config")


# The check


@pytest.fixture
def sound(job, files):
    """Writes a job that can be run; None leaves an option out."""
    made = {
        "input": "docs.txt",
        "vocab": "words.txt",
        "out": "model",
        "topics": 2,
        "doc_length": 30,
        "steps": 5,
        "records": 60,
        "noise_multiplier": 6,
        "sampling": "full",
        "delta": 1e-6,
        "budget": "b",
    }
    Budget.create(files.folder / "b", 3, 1e-6, dataset="ward7")
    return lambda **change: job(**{k: v for k, v in (made | change).items() if v is not None})


@pytest.fixture
def plan(sound, files):
    """Writes a job whose documents cannot be read: any reader fails."""
    files.docs.write_text("no documents")
    return sound


def test_the_command_of_a_file(run, plan, files):
    code, out, _ = run("config", plan())
    assert code == 0 and out.startswith(f"vips-fast fit lda {files.docs} --vocab {files.vocab} ")
    assert "--noise-multiplier 6.0 --sampling full" in out


def test_the_check_reads_no_data_and_spends_nothing(run, plan, files, refused):
    kept, names = (files.folder / "b").read_bytes(), files.names()
    code, out, err = run("config", plan(transcript="t"), "--check")
    assert (code, err) == (0, "") and "5 releases" in out and "3 of 3 left for ward7\n" in out
    assert files.names() - {"job.toml"} == names and (files.folder / "b").read_bytes() == kept
    assert "docs.txt" in refused("fit", "lda", "--config", plan(), "--quiet")


def cost(out):
    return next(line.split()[3] for line in out.splitlines() if line.startswith("cost"))


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"sampling": "poisson", "batch_size": 20},
        {"noise_multiplier": None, "epsilon": 1.5},
        {"noise_multiplier": None},
        {"budget": None},
        {"budget": None, "noise_multiplier": None, "epsilon": 1},
        {"steps": None, "noise_multiplier": 20},
        {"delta": None},
        {"steps": None, "noise_multiplier": 20, "vocab": None, "features": 6},
    ],
)
def test_the_check_says_what_the_fit_spends(run, sound, change):
    path = sound(**change)
    code, out, _ = run("config", path, "--check")
    assert code == 0, out
    code, fitted, _ = run("fit", "lda", "--config", path, "--quiet", "--json")
    assert code == 0
    said = json.loads(fitted)
    assert (cost(out), f"{said['steps']} releases, each" in out) == (rounded_up(said["epsilon"]), True)


def test_what_a_check_refuses_a_fit_refuses(run, plan, files, refused):
    """By the same words, and before the data are read."""
    Budget.create(files.folder / "r", 3, 1e-6, dataset="ward7", relation="replace_one")
    Budget.create(files.folder / "u", 3, 1e-6, dataset="ward7", unit="person")
    for change, message, code in (
        ({"noise_multiplier": 0.5}, "does not hold this run", 3),
        ({"delta": 1e-5}, "the run has --delta 1e-05, the budget of ward7 is for 1e-06", 2),
        ({"budget": "r"}, "the run has --relation add_remove, the budget of ward7 is for 'replace_one'", 2),
        ({"budget": "u"}, "the run has --unit record, the budget of ward7 is for 'person'", 2),
        ({"budget": "absent"}, "absent: No such file", 2),
        ({"noise_multiplier": None, "non_private": True}, "leave it out with a fit", 2),
        ({"noise_multiplier": None, "budget": None}, "one of the arguments --epsilon", 2),
        ({"sampling": "full", "batch_size": 3}, "--batch-size 3", 2),
    ):
        path = plan(**change)
        said = [refused(*argv, code=code) for argv in (("config", path, "--check"), ("fit", "lda", "--config", path))]
        assert said[0] == said[1] and message in said[0], said


def test_the_check_of_a_run_that_was_stopped(run, sound, files, refused, monkeypatch):
    def stop(line, progress):
        if progress.step == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ProgressLine, "__call__", stop)
        assert run("fit", "lda", "--config", sound())[0] == 130
    said = [refused(*argv) for argv in (("config", sound(), "--check"), ("fit", "lda", "--config", sound()))]
    assert (
        said[0] == said[1]
        and "holds a run that was stopped at step 3 of " in said[0]
        and ", with 3 releases" in said[0]
    )
    path = sound(resume=True)
    kept = (files.folder / "b").read_bytes()
    code, out, _ = run("config", path, "--check")
    assert code == 0 and f"what is left of the run in {files.model}.run: 3 releases (epsilon = " in out
    assert (files.folder / "b").read_bytes() == kept
    assert run("fit", "lda", "--config", path, "--quiet")[0] == 0
    code, out, _ = run("config", path, "--check")
    assert code == 0 and f"cost    none: {files.model} holds the finished model" in out
    said = [refused(*argv) for argv in (("config", sound(), "--check"), ("fit", "lda", "--config", sound()))]
    assert said[0] == said[1] and "is not empty; --force" in said[0]
    assert run("config", sound(force=True), "--check")[0] == 0


def test_without_the_number_of_records(run, plan, refused):
    code, out, _ = run("config", plan(records=None), "--check")
    assert code == 0 and "with records given it is known beforehand" in out and "3 of 3 left for ward7\n" in out
    # What the budget is about is known all the same.
    assert "--delta 1e-05" in refused("config", plan(records=None, delta=1e-5), "--check")
    code, out, _ = run("config", plan(steps=None, vocab=None), "--check")
    assert code == 0 and "with steps, features or vocab given" in out
    code, out, _ = run("config", plan(noise_multiplier=None, non_private=True, budget=None), "--check")
    assert code == 0 and "NOT PRIVATE: no noise is added" in out


@pytest.mark.parametrize("name", ["input", "vocab", "public_prior"])
def test_files_that_must_exist(refused, plan, files, name):
    change = {name: "nowhere", **({"topics": None} if name == "public_prior" else {})}
    said = refused("config", plan(**change), "--check")
    assert said == f"{files.folder}/nowhere: No such file or directory"


def test_files_of_rows(run, job, tmp_path, refused):
    np.save(tmp_path / "X.npy", np.zeros((4, 2)))
    made = {"input": "X.npy", "labels": "y.npy", "records": 4, "epsilon": 1, "out": "m"}
    assert "y.npy: No such file" in refused("config", job("fit blr", **made), "--check")
    bare = {name: value for name, value in made.items() if name != "labels"}
    assert refused("config", job("fit blr", **bare), "--check") == "give --labels FILE, or --label COLUMN with --schema"
    (tmp_path / "y.npy").write_bytes(b"")
    code, out, _ = run("config", job("fit blr", **made), "--check")
    assert code == 0 and "cost    epsilon = " in out
    code, out, _ = run("config", job("fit sbn", input="X.npy", components=2, records=4, epsilon=1, out="m"), "--check")
    assert code == 0 and "cost    epsilon = " in out
    if os.geteuid() != 0:
        (tmp_path / "y.npy").chmod(0)
        assert "y.npy: Permission denied" in refused("config", job("fit blr", **made), "--check")


def test_a_check_is_no_option_of_a_fit():
    assert cli.main(["fit", "lda", "--check"]) == 2
