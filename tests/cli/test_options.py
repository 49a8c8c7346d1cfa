"""The table of options. Every command runs, every setting is one, and nothing else has to know an option."""

from pathlib import Path

import pytest
from rehearsal import add, call, copy_tree

from vips_fast.cli.parser import parse
from vips_fast.cli.signature import COMMANDS
from vips_fast.models.family import FAMILIES

ROOT = Path(__file__).resolve().parents[2]


def test_every_family_with_a_command_has_one_in_the_shell():
    fitted = dict.fromkeys(one.command for one in FAMILIES if one.command)
    assert [name for name in COMMANDS if name.startswith("fit ")] == [f"fit {command}" for command in fitted]


def test_options_may_stand_between_the_arguments_by_position():
    args = parse("tabulate m --by ward x.csv --values v --out t --after a --after b --text note more --quiet".split())
    assert (args.model, args.input, args.after, args.text) == ("m", "x.csv", ["a", "b"], ["note", "more"])
    args = parse("show m --out p.html a b --words 3".split())
    assert (args.model, args.tables, args.words) == ("m", ["a", "b"], 3)
    args = parse("shard in.csv --bins 3 out".split())
    assert (args.input, args.out) == ("in.csv", "out")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_names_of_a_command_s_options_differ(name):
    options = COMMANDS[name].options()
    for names in ([option.flag for option in options], [option.key for option in options]):
        assert len(set(names)) == len(names)
    assert all(option.help for option in options)


REHEARSED = """
import vips_fast
from vips_fast.cli import main
from vips_fast.cli.parser import parse

assert vips_fast.__file__.startswith(__import__("os").getcwd())
assert parse(["fit", "sbn", "x", "--components", "2", "--out", "m", "--chatter", "3"]).chatter == 3
open("job.toml", "w").write('command = "fit sbn"\\n[options]\\nchatter = 3\\ncomponents = 2\\nout = "m"\\n')
assert parse(["fit", "sbn", "x", "--config", "job.toml"]).chatter == 3
main(["fit", "sbn", "--help"])
main(["fit", "sbn", "--config", "job.toml"])
"""


def test_a_new_option_is_one_entry_in_one_file(tmp_path):
    """Rehearsed in a copy of the package.

    Parser, job file and help have it from there.
    """
    copy_tree(tmp_path, "vips_fast", compiled=True)
    entries = {"    n_components\n        number of hidden": "    chatter\n        how much it talks\n"}
    entries["    threshold: Integer = 1\n"] = "    chatter: Whole | None = None\n"
    for before, entry in entries.items():
        add(tmp_path, {"vips_fast/cli/arguments.py": (before, entry)})
    done = call(tmp_path, "-c", REHEARSED)
    assert "how much it talks" in done.stdout
    assert "required: INPUT: expected here or in job.toml" in done.stderr
