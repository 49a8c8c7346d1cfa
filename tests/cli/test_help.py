"""Help on terminals of any width, its examples, the manual page and what shells complete."""

import re
import shlex
import shutil
import subprocess

import pytest

from vips_fast import __version__
from vips_fast.cli.arguments import Parser
from vips_fast.cli.help import EXAMPLES, commands
from vips_fast.cli.main import build_parser
from vips_fast.cli.manual import page

COMMANDS = dict(commands(build_parser()))


def words(text):
    """The text without what wrapping changes."""
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
    for action in COMMANDS[name]._actions:
        assert all(option in texts[0] for option in action.option_strings)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_that_are_understood(name):
    assert EXAMPLES.get(name), f"cli/help.py has no example of vips-fast {name}"
    for example in EXAMPLES[name]:
        assert example.startswith(f"vips-fast {name}".rstrip())
        assert build_parser().parse_args(shlex.split(example.partition(" > ")[0])[1:]).run


def test_no_example_of_a_command_that_is_gone():
    assert not EXAMPLES.keys() - COMMANDS.keys()


def test_an_example_that_is_wrapped_is_one_command(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, text, _ = run("fit", "lda", "--help")
    shown = text.split("examples:\n")[1].replace("\\\n", " ").splitlines()
    assert [shlex.split(line) for line in shown] == [shlex.split(line) for line in EXAMPLES["fit lda"]]


def test_the_usage_names_what_is_required(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for name, expected in {
        "budget create": "--epsilon EPSILON --delta DELTA --dataset NAME [options] FILE",
        "budget show": "[options] FILE",
        "schema check": "[options] FILE [TABLE]",
        "fit lda": "--out DIR --topics N_COMPONENTS [options] INPUT",
        "budget": "[options] COMMAND ...",
    }.items():
        assert run(*name.split(), "--help")[1].splitlines()[0] == f"usage: vips-fast {name} {expected}"


def test_the_usage_names_of_what_one_is_required():
    parser = Parser("tool")
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--noise")
    goal.add_argument("--free", action="store_true")
    parser.add_argument("files", nargs="*")
    assert parser.format_usage() == "usage: tool (--noise NOISE | --free) [options] [files ...]\n"


def test_the_manual_page_holds_every_command_and_no_stray_request():
    text = page(build_parser(), __version__)
    known = {".TH", ".SH", ".SS", ".PP", ".TP", ".RS", ".RE", ".br", ".nh", ".ad"}
    assert {line.split()[0] for line in text.splitlines() if line.startswith((".", "'"))} == known
    plain = text.replace(r"\-", "-").replace(r"\e", "\\")
    for name, parser in COMMANDS.items():
        assert f".SS vips-fast {name}\n" in plain or not name
        assert all(a.option_strings[-1] in plain for a in parser._actions if a.option_strings and a.dest != "help")
        assert all(example in plain for example in EXAMPLES[name] if name not in ("fit", "budget", "schema"))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, run, tmp_path):
    pytest.importorskip("shtab", reason="needs the extra vips_fast[completion]")
    code, text, err = run("completion", shell)
    assert code == 0 and not err
    assert all(name.split()[-1] in text for name in COMMANDS if name) and "--target-epsilon" not in text
    assert "--noise-multiplier" in text
    if shell != "bash" or shutil.which("bash") is None:
        return
    (tmp_path / "complete").write_text(text)
    for typed, expected in {"fit l": "lda", "budget c": "create check", "fit lda x --person": "--person"}.items():
        line = ["vips-fast", *typed.split()]
        script = (
            f"COMP_WORDS=({shlex.join(line)}); COMP_CWORD={len(line) - 1}; source complete; _shtab_vips_fast; "
            "echo ${COMPREPLY[@]}"
        )
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout.split() == expected.split(), (typed, done.stderr)
