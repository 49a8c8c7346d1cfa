"""Help on terminals of any width, with examples."""

import re
import shlex

import pytest

from vips_fast.cli.main import parse
from vips_fast.cli.signature import COMMANDS


def words(text):
    """Return the text without the changes of wrapping."""
    return re.sub(r"\s+|\\\n", "", text)


@pytest.mark.parametrize("name", ["", "fit", "budget", *COMMANDS])
def test_no_line_is_too_long_and_nothing_is_cut(name, run, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    texts = []
    for width in (60, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        code, text, err = run(*name.split(), "--help")
        assert code == 0 and not err and "\x1b" not in text
        assert max(map(len, text.splitlines())) <= width, width
        texts.append(words(text))
    assert len(set(texts)) == 1
    for option in COMMANDS[name].options() if name in COMMANDS else ():
        assert option.flag in texts[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_are_understood(name):
    assert COMMANDS[name].examples()
    for example in COMMANDS[name].examples():
        assert type(parse(shlex.split(example)[1:])) is COMMANDS[name]


def test_an_example_that_is_wrapped_is_one_command(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, text, _ = run("fit", "lda", "--help")
    shown = text.split("examples:\n")[1].replace("\\\n", " ").splitlines()
    assert [shlex.split(line) for line in shown] == [shlex.split(line) for line in COMMANDS["fit lda"].examples()]


def test_the_usage_names_what_is_required(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name, expected in {
        "budget create": "--epsilon EPSILON --delta DELTA --dataset NAME [options] FILE",
        "budget show": "[options] FILE",
        "prior": "[options] [INPUT]",
        "publish": "--out DIR [options] DIR [DIR ...]",
        "plan": "--records RECORDS --epsilon EPSILON [options]",
        "fit lda": "--out DIR [options] INPUT",
    }.items():
        assert run(*name.split(), "--help")[1].splitlines()[0] == f"usage: vips-fast {name} {expected}"
