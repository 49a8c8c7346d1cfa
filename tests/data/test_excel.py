"""Excel files: their cells, and hostile files of every kind."""

import datetime
import functools
import io
import random
import re
import zipfile
from itertools import chain

import openpyxl
import pytest
from bounded import bounded

from vips_fast.data.excel import is_excel, sheet_rows
from vips_fast.data.records import column_names, read_batches

SECRET = "secret7351"
SPACE = ' xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
SHEET, TEXTS = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


@functools.cache
def parts():
    made, file = openpyxl.Workbook(), io.BytesIO()
    made.active.append(["note"])
    made.save(file)
    with zipfile.ZipFile(file) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    kind = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    listed = b'<Override PartName="/xl/sharedStrings.xml" ContentType="%s"/></Types>' % kind
    types = found["[Content_Types].xml"].replace(b"</Types>", listed)
    return found | {TEXTS: b"", "[Content_Types].xml": types}


def book(sheet, texts="", method=zipfile.ZIP_DEFLATED, styles=None, twice=False):
    file, plain = io.BytesIO(), parts() | ({} if styles is None else {"xl/styles.xml": styles.encode()})
    sheet = [sheet] if isinstance(sheet, str) else sheet
    rows = chain([f"<worksheet{SPACE}><sheetData{SPACE}>"], sheet, ["</sheetData></worksheet>"])
    made = {SHEET: rows, TEXTS: chain([f"<sst{SPACE}>"], texts, ["</sst>"])}
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        for name, content in plain.items():
            with archive.open(name, "w", force_zip64=True) as part:
                part.writelines(map(str.encode, made[name]) if name in made else [content])
        if twice:
            archive.writestr(SHEET, "<x/>")
    return file.getvalue()


def cell(place, value):
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


HEAD = f'<row r="1">{cell("A1", "note")}</row>'
ENTITIES = "".join(f'<!ENTITY a{k} "{10 * f"&a{k - 1};"}">' for k in range(1, 12))
LAUGHS = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{ENTITIES}]><x>&a11;</x>'
SHARED = "<row r='{0}'><c t='s'><v>0</v></c></row>"
NONE = "not a whole Excel file"
HOSTILE = {
    "a row beyond": (lambda: book(HEAD + '<row r="1000000000"><c><v>1</v></c></row>'), "beyond row 1048576"),
    "a text in each cell": (
        lambda: book([HEAD, *(SHARED.format(n) for n in range(2, 20_000))], f"<si><t>{'a' * 10**5}</t></si>"),
        "share too much text",
    ),
    "what expands": (lambda: book(HEAD, (" " * 10**6 for _ in range(300))), "expands to .* bytes; expected at most"),
    "entities": (lambda: book(HEAD, styles=LAUGHS), NONE),
    "a part twice": (lambda: book(HEAD, twice=True), "holds a part twice"),
    "another compression": (lambda: book(HEAD, method=zipfile.ZIP_LZMA), "another method than deflate"),
    "bad XML": (lambda: book(f"{HEAD}<row>{cell('A2', SECRET)}<c"), NONE),
    "bad XML at the end": (lambda: book(f"{HEAD}{'<row/>' * 50_000}</x>"), NONE),
    "no number": (lambda: book(f"{HEAD}<row><c><v>{SECRET}</v></c></row>"), NONE),
    "no text of that number": (lambda: book(f"{HEAD}<row><c t='s'><v>5</v></c></row>"), NONE),
    "cut off": (lambda: book(HEAD)[:-300], NONE),
    "no cells": (lambda: book("<row/>"), "has 0 sheets with cells; expected one"),
    "nesting": (lambda: book("<x>" * 10**5), NONE),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_take_little_and_are_refused_in_one_line(case, tmp_path):
    make, message = HOSTILE[case]
    path = tmp_path / "t.xlsx"
    path.write_bytes(make())
    for whole, work in ((True, lambda: list(read_batches(path, ["note"]))), (False, lambda: column_names(path))):
        kind, said = bounded(work)
        if not whole and kind == "":
            continue  # the header alone is as it should be
        assert kind == "ValueError" and said.startswith(f"{path}: ") and "\n" not in said and SECRET not in said
        assert re.search(message, said), said


def test_gaps_cost_nothing(tmp_path):
    path = tmp_path / "t.xlsx"
    rows = f'<row r="1">{cell("XFD1", "note")}</row><row r="1048576">{cell("XFD1048576", "cough")}</row>'
    path.write_bytes(book(rows))
    assert bounded(lambda: [batch["note"] for batch in read_batches(path, ["note"])]) == ("", "[['cough']]")


def test_cells_come_out_as_they_went_in():
    rows = [
        ["note", None, "age"],
        ["\u00e9\n \u00fc", 1, 2.5],
        [True, None, datetime.datetime(2020, 1, 2, 3, 4, 5)],
        [datetime.time(3, 4, 5), datetime.timedelta(days=3, hours=5), "=1+1"],
        [10**15, -1e300, "#N/A"],
    ]
    made, file = openpyxl.Workbook(), io.BytesIO()
    for number, row in enumerate(rows):
        for place, value in enumerate(row):
            made.active.cell(2 * number + 1, place + 1, value)
    made.active.cell(3, 9).number_format = "0.00"  # a format alone is no cell
    made.save(file)
    rows[3][2] = None  # a formula that nobody has computed
    assert list(sheet_rows(file)) == [(2 * n + 1, row[:2] if row[-1] is None else row) for n, row in enumerate(rows)]


def test_any_damage_is_refused_or_read():
    rng = random.Random(0)
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        whole = bytearray(book(HEAD + f"<row>{cell('A2', SECRET)}</row>", "<si><t>a</t></si>", method))
        for _ in range(200):
            data = whole.copy()
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                list(sheet_rows(io.BytesIO(data)))
            except ValueError as error:
                assert SECRET not in str(error) and "\n" not in str(error)
    assert is_excel("a.XLSX") and not is_excel(5) and not is_excel("a.csv")
