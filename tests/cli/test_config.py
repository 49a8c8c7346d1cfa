"""A fit's arguments from a job file."""

import json
import os

import pytest

from vips_fast.cli.arguments import Fit, FitLda
from vips_fast.cli.jobfile import read_job
from vips_fast.cli.parser import parse
from vips_fast.cli.signature import COMMANDS


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


def any_of(option):
    """Make a value that an option takes."""
    chosen = option.kind.expected.removeprefix("one of ").split(", ")[0]
    texts = ("/a", "/b") if option.kind.path else (chosen, "3", "0.6", "name=value")
    values = [text for text in texts if option.switch or takes(option, text)]
    return True if option.switch else values[:2] if option.several or option.repeated else values[0]


def takes(option, text):
    try:
        option.kind.value(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("dash", "-_")
@pytest.mark.parametrize("command", [name for name, one in COMMANDS.items() if issubclass(one, Fit)])
def test_every_option_means_what_it_means_on_the_command_line(job, command, dash):
    left_out = {one for _, some in COMMANDS[command].exclusive() for one in some[1:]}
    options = {one: any_of(one) for one in COMMANDS[command].options() if one not in left_out and one.key != "config"}
    words = []
    for option, value in options.items():
        values = value if isinstance(value, list) else [] if value is True else [value]
        for some in [[one] for one in values] if option.repeated else [values]:
            words += some if option.positional else [option.flag, *some]
    named = {one.key.replace("_", dash): value for one, value in options.items()}
    assert parsed(*command.split(), "--config", job(command, **named)) == parsed(*command.split(), *words)


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
        (("--non-private",), "non_private", True),
    ):
        given = parsed(*start, *other)
        assert (given["epsilon"], given[name]) == (None, value)
    given = parsed(*start, "--public-prior", "p")
    assert (given["n_components"], given["public_prior"]) == (None, "p")
    given = parsed("fit", "lda", "--config", job(input="/a", topics=2, non_private=True, out="/m"), "--epsilon", 2)
    assert (given["non_private"], given["epsilon"]) == (False, 2.0)


def test_paths_are_relative_to_the_file(job, run, files, monkeypatch):
    folder = files.folder
    path = job(
        input="docs.npz",
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


GOOD = {"input": "/x", "topics": 2, "epsilon": 1, "out": "/m"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"topicz": 3},
            "topicz: unknown key (did you mean topics?); expected one of analyzer, anyway, attack_success, ",
        ),
        ({"config": "x"}, "config: unknown key"),
        ({"help": True}, "help: unknown key"),
        ({"topics": 2.5}, "argument --topics: '2.5': expected a whole number of at least 1"),
        ({"topics": True}, "topics = true: expected a whole number of at least 1"),
        ({"topics": [2]}, "topics = [2]: expected a whole number of at least 1"),
        ({"quiet": 1}, "quiet = 1: expected true or false"),
        ({"non_private": "yes"}, "non_private = 'yes': expected true or false"),
        ({"vocab": ["a", "b"]}, "vocab = ['a', 'b']: expected a text"),
        ({"batch-size": 3, "batch_size": 3}, "batch_size: given twice"),
        ({"noise_multiplier": 3}, "argument --noise-multiplier: not allowed with argument --epsilon"),
    ],
)
def test_what_a_file_must_not_say(job, refused, change, message):
    path = job(**GOOD | change)
    said = refused("fit", "lda", "--config", path)
    assert said.startswith(f"{path}: ") and message in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("command", "not a TOML file: "),
        ("[options]\ntopics = 2", "command = nothing: expected one of fit lda, fit blr, fit counts, fit sbn"),
        ('command = "predict"\n[options]', "command = 'predict': expected one of fit lda"),
        ('command = ["fit", "lda"]\n[options]', "expected one of fit lda"),
        ('command = "fit lda"', "options = nothing: expected a table of the options of fit lda"),
        ('command = "fit lda"\noptions = 3', "options = 3: expected a table"),
        ('command = "fit lda"\nepsilon = 3\n[options]', "epsilon: unknown key; expected command and options"),
    ],
)
def test_what_is_no_job_file(job, refused, text, message):
    path = job(content=text)
    said = refused("fit", "lda", "--config", path)
    assert said.startswith(f"{path}: ") and message in said


def test_lists_and_other_commands(job, refused, tmp_path):
    assert "classes = []: expected" in refused("fit", "blr", "--config", job("fit blr", classes=[], out="m"))
    assert "input = []: expected a text" in refused("fit", "blr", "--config", job("fit blr", input=[], out="m"))
    path = job("fit blr", input="x", out="m")
    assert "command = 'fit blr': expected 'fit lda'; run vips-fast fit blr" in refused("fit", "lda", "--config", path)
    said = refused("fit", "sbn", "--config", job("fit sbn", input="x"))
    assert f"required: --components, --out: expected here or in {path}" in said
    path.write_bytes(b"command = '\xff'")
    assert "is not UTF-8 text" in refused("fit", "blr", "--config", path)
    assert "No such file" in refused("fit", "blr", "--config", tmp_path / "absent.toml")
    assert "expected one argument" in refused("fit", "lda", "--config")


def test_the_argument_by_position_may_be_missing_only_if_it_is_given(job, refused):
    path = job(topics=2, out="m")
    assert f"required: INPUT: expected here or in {path}" in refused("fit", "lda", "--config", path)
    assert parsed("fit", "lda", "--config", path, "--steps", 2, "x")["input"] == "x"
    assert parsed("--debug", "fit", "lda", "--config", path, "x")["debug"] is True


def test_a_repeated_option_is_a_list(job, tmp_path):
    given = "tabulate", "--config", job("tabulate", model="m", input="x", by="w", values="v", after=["a", "b"], out="t")
    assert parsed(*given)["after"] == [str(tmp_path / name) for name in "ab"]
    assert parsed(*given, "--after", "c")["after"] == ["c"]


def test_a_word_is_a_path_if_there_is_such_a_file(job, tmp_path):
    words = {"input": "-", "vocab": "private", "stop_words": "public:de", "groups": "none"}
    path = job(**words)
    assert read_job(str(path), FitLda) == words
    (tmp_path / "private").touch()
    assert read_job(str(path), FitLda) == words | {"vocab": str(tmp_path / "private")}
