"""The table of options. Every command runs, every setting is one, and nothing else has to know an option."""

import pytest

from vips_fast.cli.arguments import FitMixture, Whole
from vips_fast.cli.main import parse
from vips_fast.cli.signature import COMMANDS
from vips_fast.models.family import FAMILIES


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
    flags = [option.flag for option in options]
    assert len(set(flags)) == len(flags)
    assert all(option.help for option in options)


def test_a_new_option_is_a_field_and_its_line(capsys, monkeypatch):
    """Parser, help and job have it from there."""

    class Chatty(FitMixture):
        """Fit and talk.

        chatter: how much it talks
        """

        chatter: Whole | None = None

    monkeypatch.setitem(COMMANDS, "chat", Chatty)
    assert parse("chat x --components 2 --out m --chatter 3".split()).chatter == 3
    with pytest.raises(SystemExit):
        parse(["chat", "--help"])
    assert "how much it talks" in capsys.readouterr().out
