"""The table of options.

Every command runs, every setting is one, and nothing else has to know an option.
"""

from pathlib import Path

import pytest
from rehearsal import add, call, copy_tree

from vips_fast.cli import jobfile, tables
from vips_fast.cli.parser import parse
from vips_fast.models.family import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {one.words: one for one in tables.PROGRAM.all()}


@pytest.mark.parametrize("name", [one.words for one in COMMANDS.values() if not one.inner])
def test_every_command_has_its_function(name):
    function = COMMANDS[name].load()
    assert callable(function) and function.__module__.startswith("vips_fast.cli.")


def test_every_family_with_a_command_is_in_the_table():
    fitted = dict.fromkeys(one.command for one in FAMILIES if one.command)
    assert [one.words for one in tables.FIT.inner] == [f"fit {command}" for command in fitted]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name.startswith("fit ")])
def test_settings_of_the_table_are_settings_of_the_estimator(name):
    """No other option has a setting's name.

    It would reach the estimator; a file to make one of may.
    """
    known = set()
    for family in FAMILIES:
        if family.command != name.split()[1]:
            continue
        estimator = family.estimator()
        known |= set(estimator().get_params())
        known |= set(getattr(estimator._options_type, "__dataclass_fields__", ()))
    for option in COMMANDS[name].options:
        assert option.setting == (option.dest in known and not option.path), option.flags


@pytest.mark.parametrize("name", COMMANDS)
def test_the_names_of_a_command_s_options_differ(name):
    names = [word for option in COMMANDS[name].options for word in option.names]
    keys = [option.key for option in COMMANDS[name].options]
    dests = [option.dest for option in COMMANDS[name].options]
    assert all(len(set(one)) == len(one) for one in (names, keys, dests))


def test_the_argument_by_position_may_be_missing_in_a_job_file_only_if_it_is_given(run, tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('command = "fit lda"\n[options]\ntopics = 2\nout = "m"\n')
    code, _, err = run("fit", "lda", "--config", path)
    assert code == 2 and f"required: INPUT: expected here or in {path}" in err
    assert parse(["fit", "lda", "--config", str(path), "--steps", "2", "x"]).input == "x"
    assert parse(["--debug", "fit", "lda", "--config", str(path), "x"]).debug is True


def test_a_repeated_option_is_a_list_in_a_job_file(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text(
        'command = "tabulate"\n[options]\nmodel = "m"\ninput = "x.csv"\nby = "ward"\nvalues = "v"\nafter = ["a", "b"]\n'
        'out = "t"\n'
    )
    both = [str(tmp_path / name) for name in "ab"]
    given = ["tabulate", "--config", str(path)]
    assert parse(given).after == both
    assert parse([*given, "--after", "c"]).after == ["c"]


def test_a_path_in_a_job_file_is_a_word_only_for_an_option_with_that_word(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text('command = "fit lda"\n[options]\nvocab = "private"\nstop_words = "public:de"\ngroups = "none"\n')
    values = {option.key: value for option, value in jobfile.load(str(path)).values.items()}
    assert values == {"vocab": "private", "stop_words": "public:de", "groups": str(tmp_path / "none")}
    (tmp_path / "private").touch()
    values = {option.key: value for option, value in jobfile.load(str(path)).values.items()}
    assert values["vocab"] == str(tmp_path / "private")


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
    entry = 'setting("--chatter", "how much it talks", WHOLE, metavar="WORDS"), '
    add(tmp_path, {"vips_fast/cli/tables/fits.py": ('setting("--components", "number of hidden', entry)})
    done = call(tmp_path, "-c", REHEARSED)
    assert "how much it talks" in done.stdout
    assert "required: INPUT: expected here or in job.toml" in done.stderr
