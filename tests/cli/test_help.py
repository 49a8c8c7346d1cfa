"""Help on terminals of any width, with examples."""

import re
import shlex

import pytest

from vips_fast.cli.options import Command, OneOf, Option, switch
from vips_fast.cli.parser import parse, usage
from vips_fast.cli.tables import PROGRAM

COMMANDS = {command.words: command for command in PROGRAM.all()}


def words(text):
    """Return the text without the changes of wrapping."""
    return re.sub(r"\s+|\\\n", "", text)


@pytest.mark.parametrize("name", COMMANDS)
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
    for option in COMMANDS[name].options:
        assert option.positional or all(word in texts[0] for word in option.names)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_are_understood(name):
    command = COMMANDS[name]
    assert command.lines, f"cli/tables has no example of {command.prog}"
    for example in command.lines:
        assert parse(shlex.split(example.partition(" > ")[0])[1:]).command in command.all()


def test_an_example_that_is_wrapped_is_one_command(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, text, _ = run("fit", "lda", "--help")
    shown = text.split("examples:\n")[1].replace("\\\n", " ").splitlines()
    assert [shlex.split(line) for line in shown] == [shlex.split(line) for line in COMMANDS["fit lda"].lines]


def test_the_usage_names_what_is_required(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name, expected in {
        "budget create": "--epsilon EPSILON --delta DELTA --dataset NAME [options] FILE",
        "budget show": "[options] FILE",
        "schema check": "[options] FILE [TABLE]",
        "fit lda": "--out DIR [options] INPUT",
        "budget": "[options] COMMAND ...",
    }.items():
        assert run(*name.split(), "--help")[1].splitlines()[0] == f"usage: vips-fast {name} {expected}"


def test_the_usage_names_of_what_one_is_required():
    goal = OneOf(Option("--noise"), switch("--free", ""), required=True)
    command = Command("tool", "", entries=(goal, Option("files", nargs="+")))
    assert usage(command) == "vips-fast tool (--noise NOISE | --free) [options] files [files ...]"
