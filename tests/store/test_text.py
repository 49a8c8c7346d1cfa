"""Show text from hostile files, in terminals and spreadsheets, and read JSON."""

import csv
import io
import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vips_fast.store import text as store_text
from vips_fast.store.limits import parse_json
from vips_fast.store.text import csv_text, printable


def test_every_character_that_drives_a_terminal_is_escaped():
    found = {chr(code) for code in range(0x110000) if printable(chr(code)) != chr(code)}
    drives = {c for c in map(chr, range(0x110000)) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")}
    turns = {c for c in map(chr, range(0x110000)) if unicodedata.bidirectional(c) in BIDI} | set("\u200e\u200f\u061c")
    assert found == (drives | turns) - {"\n", "\t"}
    assert all(printable(c).isprintable() and printable(c).startswith("\\") for c in found)
    # Joiners are letters of some scripts.
    assert printable("naïve\u200cمی‌خواهم\t健康\n") == "naïve\u200cمی‌خواهم\t健康\n"


BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


PACKAGE = Path(store_text.__file__).parents[1]
#: Files that may read JSON or write CSV by themselves, each with its reason.
OWN = {
    "store/text.py": "writes all CSV",
    "store/limits.py": "reads all JSON",
    "kernels/numba_types.py": "reads a file of the package",
}


def test_json_and_csv_go_through_one_door():
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"\bjson\.loads?\(|\bcsv\.(writer|DictWriter)\(|\bto_csv\(", path.read_text("utf-8"))
    }
    assert found == OWN.keys()


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "c": 2, "\\u0061": 3}}]', b'{"": 0, "": 0}'])
def test_a_key_that_stands_twice_is_refused(text):
    with pytest.raises(ValueError, match=r"^not a JSON file: a key stands twice in an object$"):
        parse_json(text)


@pytest.mark.parametrize("text", ["", "secret", '{"secret": ', b"\xff", "[" * 10**5, "{'secret': 1}"])
def test_what_is_no_json_is_refused_without_its_text(text):
    with pytest.raises(ValueError, match=r"^not a JSON file(: too many brackets within each other)?$") as told:
        parse_json(text)
    assert told.value.__cause__ is None and told.value.__suppress_context__


@given(st.lists(st.lists(st.text(max_size=4) | st.floats(allow_nan=False), min_size=1, max_size=3), max_size=3))
def test_no_cell_of_csv_drives_a_spreadsheet_or_a_terminal(rows):
    text = csv_text(rows)
    assert printable(text) == text
    back = list(csv.reader(io.StringIO(text, newline="")))
    for cell in (cell for row in back for cell in row):
        assert not cell.startswith(tuple("=+-@\t\r\n＝＋－＠")) or float(cell) == float(cell)


@pytest.mark.parametrize("cell", ["-1.5", "+1", "1e-3", "-inf", "a=b", "", " =x", -2, 0.5])
def test_numbers_and_words_stay(cell):
    assert next(csv.reader(io.StringIO(csv_text([["", cell]]), newline="")))[1] == str(cell)
