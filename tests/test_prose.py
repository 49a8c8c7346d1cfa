"""The prose check of `make lint`.

Its counts, and stored numbers that only fall.
"""

import importlib.util
from pathlib import Path

import pytest

from vips_fast.cli.tables import PROGRAM

ROOT = Path(__file__).resolve().parent.parent
_SPEC = importlib.util.spec_from_file_location("prose", ROOT / ".ci" / "prose.py")
prose = importlib.util.module_from_spec(_SPEC)


@pytest.fixture(scope="module", autouse=True)
def loaded():
    import sys

    sys.modules["prose"] = prose
    _SPEC.loader.exec_module(prose)
    yield
    del sys.modules["prose"]


#: A sentence for each construction, and a plain one that looks like it.
SENTENCES = [
    ("It names what is missing.", "Choose what to do."),
    ("The file from which it was read.", "The file, which it was read from."),
    ("It equals that of the last run.", "It equals the last one."),
    ("Who has several rows counts less.", "A person who has several rows counts less."),
    ("A torn end is none.", "There is no torn end."),
    ("It stops where nothing is left.", "It stops where the data end."),
    ("It draws so many rows.", "Five rows are drawn."),
    ("The budget is asked for epsilon.", "The budget gives epsilon."),
    ("The kernel alone is timed.", "Only the kernel is timed."),
]


def counted(folder, name, text):
    path = folder / name
    path.write_text(text)
    counts = prose.Measure()
    prose.measure(path, counts)
    return counts


@pytest.mark.parametrize("translated, plain", SENTENCES)
def test_each_construction_is_counted_and_its_plain_form_is_not(tmp_path, translated, plain):
    assert len(SENTENCES) == len(prose.CONSTRUCTIONS)
    assert len(counted(tmp_path, "a.md", translated).found["constructions"]) == 1
    assert not counted(tmp_path, "b.md", plain).found["constructions"]


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", 'def f():\n    """Do it alone.\n\n    >>> "alone"\n    """\n    return "alone"  # alone\n', [2, 6]),
        ("a.c", "/* Alone: not counted by its case; alone is. */\nint alone; // alone\n", [1, 2]),
        ("a.pyx", "alone = 1\nx = 1  # alone\n", [2]),
        ("a.md", "`alone`\n\n```\nalone\n```\n\nIt stands alone: [alone](alone.md).\n\n| alone |\n", [7, 7]),
    ],
)
def test_prose_is_read_and_code_is_not(tmp_path, name, text, lines):
    found = counted(tmp_path, name, text).found["constructions"]
    assert [int(one.split(": ")[0].rpartition(":")[2]) for one in found] == lines


def test_sentences_and_first_lines(tmp_path):
    long = "One " + "word " * 25 + "ends."
    text = f'''"""A module."""
def read():
    """Read a file.

    {long} Short again.

    Parameters
    ----------
    {", ".join("abcdefghijklmnopqrstuvwxyz")} : int
        Few words.
    """
def given():
    """The file that was read."""
class Reader:
    """A reader of files."""
    @property
    def size(self):
        """The size."""
def write():
    """Write {"very " * 11}much."""
'''
    counts = counted(tmp_path, "a.py", text)
    assert [one.split(":")[1] for one in counts.found["first_lines"]] == ["13", "20"]
    assert len(counts.found["long_sentences"]) == 1 and "27 words" in counts.found["long_sentences"][0]
    assert counts.rates()["first_lines"] == round(200 / 6, 1)


def numbers(constructions, long=0.0, first=0.0):
    return {"constructions": constructions, "long_sentences": long, "first_lines": first}


def test_a_number_may_fall_and_not_rise():
    stored = {"csrc": numbers(2.0, 20.0, 30.0)}
    assert not prose.differences({"csrc": numbers(1.8, 19.0, 28.0)}, stored)
    (rose,) = prose.differences({"csrc": numbers(2.2, 20.4, 30.0)}, stored)
    assert rose.startswith("csrc: constructions 2.2, allowed 2.0; see: ")
    (fell,) = prose.differences({"csrc": numbers(2.0, 15.0, 30.0)}, stored)
    assert fell == "csrc: long_sentences fell from 20.0 to 15.0; store that: python .ci/prose.py --lower"
    lowered = prose.lowered({"csrc": numbers(1.0, 25.0, 30.0)}, stored)
    assert lowered == {"csrc": numbers(1.0, 20.0, 30.0)}
    assert prose.differences({"csrc": numbers(1.0, 25.0, 30.0)}, lowered)


def test_no_place_may_have_more_than_three_constructions_whatever_is_stored():
    stored = {place: numbers(14.0) for place in ("docs", "README.md", "tests")}
    lines = prose.differences({place: numbers(14.0) for place in stored}, stored)
    assert [line.partition(";")[0] for line in lines] == [
        f"{place}: constructions 14.0, allowed 3.0" for place in stored
    ]


def test_a_new_place_is_held_to_the_goal_and_one_that_is_gone_is_named():
    above = numbers(prose.GOAL["constructions"] + 1)
    (line,) = prose.differences({"vips_fast/jobs": above}, {})
    assert "allowed in a new place" in line
    assert prose.lowered({"vips_fast/jobs": above}, {}) == {"vips_fast/jobs": numbers(prose.GOAL["constructions"])}
    assert not prose.differences({"vips_fast/jobs": numbers(1.0)}, {})
    (line,) = prose.differences({}, {"csrc": numbers(1.0)})
    assert line.startswith("csrc: is gone")


def test_what_is_stored_is_read_again(tmp_path):
    stored = {"README.md": numbers(1.5, 2.0, 3.0), "vips_fast/engine": numbers(0.0)}
    prose.save(stored, tmp_path / "prose.toml")
    assert prose.load(tmp_path / "prose.toml") == stored


def test_every_room_has_its_own_numbers():
    found = prose.places(prose.tracked())
    rooms = {f"vips_fast/{path.parent.name}" for path in (ROOT / "vips_fast").glob("*/__init__.py")}
    assert rooms | {"csrc", "bench", "docs", "README.md", "tests"} <= set(found)
    assert set(prose.load()) <= set(found), "python .ci/prose.py --lower"


@pytest.mark.parametrize(
    "page", ["README.md", *sorted(f"docs/tutorials/{p.name}" for p in ROOT.glob("docs/tutorials/*.md"))]
)
def test_first_pages_have_short_sentences(page):
    counts = prose.Measure()
    prose.measure(ROOT / page, counts)
    assert counts.sentences > 2 and not counts.found["long_sentences"]


@pytest.mark.parametrize("command", PROGRAM.all(), ids=lambda command: command.prog)
def test_help_is_short_and_plain(command):
    for text in [command.summary, *(option.help for option in command.options)]:
        assert all(len(one.split()) <= prose.SENTENCE for one in prose.sentences(text)), text
        assert not prose._ONE.search(text), text
