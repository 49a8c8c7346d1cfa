"""Excel files: the cells that openpyxl finds in its own files, and hostile files of every kind."""

import datetime
import io
import random
import re
import zipfile

import pytest
from bounded import bounded

from vips_fast.data import excel
from vips_fast.data.excel import sheet_rows
from vips_fast.data.records import column_names, read_batches

TYPES = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
CONTENT = "http://schemas.openxmlformats.org/package/2006"
SECRET = "secret7351"
VALUES = [
    *(1, 2.5, -1e300, 10**15, True, False, "x", "=1+1", None, "\u00e9\n \u00fc", "#N/A", "a" * 3000),
    *(datetime.datetime(2020, 1, 2, 3, 4, 5, 678000), datetime.date(2021, 5, 6), datetime.time(3, 4, 5)),
    datetime.timedelta(days=3, hours=5, seconds=1.5),
]
FORMATS = ["0.00", "yyyy-mm-dd", '"dmy" 0', "[h]:mm", "[Red]0", "[$-409]d. mmm", "General;yyyy", "0.00E+00", "mm:ss.0"]
FORMATS += ["hh\\d", "@", "[ss].0", '"a', "[a"]


@pytest.mark.filterwarnings("ignore:Cell")
@pytest.mark.parametrize("epoch", ["1900", "1904"])
def test_cells_are_those_of_openpyxl(epoch):
    import openpyxl
    from openpyxl.utils.datetime import CALENDAR_MAC_1904

    book, rng, file = openpyxl.Workbook(), random.Random(0), io.BytesIO()
    if epoch == "1904":
        book.epoch = CALENDAR_MAC_1904
    for _ in range(200):
        book.active.append([rng.choice(VALUES) for _ in range(6)])
    for k, form in enumerate(FORMATS):
        for row, number in ((300, 44000.75), (400, 0.5), (500, 45.25), (600, -3), (700, 1e12)):
            cell = book.active.cell(row + 2 * k, 3, number)
            cell.number_format = form
    book.save(file)
    read = openpyxl.load_workbook(file, read_only=True, data_only=True).active.iter_rows(values_only=True)
    wanted = {n: {k: cell for k, cell in enumerate(row) if cell is not None} for n, row in enumerate(read, 1)}
    found = dict(sheet_rows(file))
    assert found == {n: row for n, row in wanted.items() if row} and len(found) > 230
    assert all(type(cell) is type(wanted[n][k]) for n, row in found.items() for k, cell in row.items())


def book(sheet, texts="", method=zipfile.ZIP_DEFLATED, more=()):
    """Write a file with the XML of a sheet's rows, and of shared texts."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method, compresslevel=1) as archive:
        related = f'<Relationship Id="r1" Type="{TYPES}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{CONTENT}/relationships">{related}</Relationships>')
        related = f'<Relationship Id="r1" Type="{TYPES}/worksheet" Target="/xl/sheet.xml"/>'
        related += f'<Relationship Id="r2" Type="{TYPES}/sharedStrings" Target="texts.xml"/>'
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{related}</Relationships>")
        archive.writestr(
            "xl/workbook.xml", f'<workbook xmlns:r="{TYPES}"><sheets><sheet r:id="r1"/></sheets></workbook>'
        )
        for name, pieces, ends in (("sheet", sheet, "sheetData"), ("texts", texts, "sst")):
            with archive.open(f"xl/{name}.xml", "w", force_zip64=True) as part:
                whole = isinstance(pieces, str) and pieces.startswith("<?")
                part.write(b"" if whole else f"<{ends}>".encode())
                for piece in [pieces] if isinstance(pieces, str) else pieces:
                    part.write(piece.encode())
                part.write(b"" if whole else f"</{ends}>".encode())
        for name, content in more:
            archive.writestr(name, content)
    return file.getvalue()


def cell(place, value):
    return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'


HEAD = f'<row r="1">{cell("A1", "note")}</row>'
ENTITIES = "".join(f'<!ENTITY a{k} "{10 * f"&a{k - 1};"}">' for k in range(1, 12))
LAUGHS = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">{ENTITIES}]><x><row><c t="str"><v>&a11;</v></c></row></x>'
SHARED = "<row r='{0}'><c t='s'><v>0</v></c></row>"
ATTRIBUTE = "a{}=''".format
HOSTILE = {
    "a row beyond": (lambda: book(HEAD + '<row r="1000000000"><c><v>1</v></c></row>'), "beyond row 1048576"),
    "a row of a wild number": (lambda: book(HEAD + '<row r="nan"><c><v>1</v></c></row>'), "beyond row 1048576"),
    "rows backwards": (lambda: book(HEAD + '<row r="3"/><row r="2"/>'), "a row that is not in order"),
    "a column beyond": (lambda: book(f'<row r="1">{cell("XFE1", "note")}</row>'), "beyond column XFD"),
    "cells backwards": (lambda: book(f"<row>{cell('B1', 'a')}{cell('A1', 'b')}</row>"), "a cell that is not in order"),
    "many empty rows": (lambda: book("<row/>" * 2_000_000), "beyond row 1048576"),
    "many cells of a row": (lambda: book(["<row>", "<c/>" * 10**6, "</row>"]), "beyond column XFD"),
    "60 million texts": (lambda: book(HEAD, ("<si/>" * 10**6 for _ in range(50))), "has more than 8388608 texts"),
    "a text in each cell": (
        lambda: book((SHARED.format(n) for n in range(1, 20_000)), f"<si><t>{'a' * 10**5}</t></si>"),
        "share too much text",
    ),
    "what expands": (lambda: book(HEAD, (" " * 10**6 for _ in range(300))), "expands to .* bytes; expected at most"),
    "entities": (lambda: book(LAUGHS), "document type"),
    "a long tag": (lambda: book(f"<x a='{'b' * 50_000_000}'/>"), "a tag of more than 1048576 bytes"),
    "a long remark": (lambda: book(f"<!--{'b' * 50_000_000}-->"), "a tag of more than 1048576 bytes"),
    "many names": (lambda: book(f"<x{k}/>" for k in range(10**6)), "or of many names"),
    "many attributes": (lambda: book(f"<x {' '.join(map(ATTRIBUTE, range(10**6)))}/>"), "a tag of more than"),
    "nesting": (lambda: book("<x>" * 10**6), "more than 64 elements within each other"),
    "a part twice": (lambda: book(HEAD, more=[("xl/sheet.xml", "<x/>")]), "holds a part twice"),
    "another compression": (lambda: book(HEAD, method=zipfile.ZIP_LZMA), "another method than deflate"),
    "bad XML": (lambda: book(f"{HEAD}<row>{cell('A2', SECRET)}<c"), "not a whole Excel file"),
    "bad XML at the end": (lambda: book(f"{HEAD * 1}{'<row/>' * 50_000}</x>"), "not a whole Excel file"),
    "no number": (lambda: book(f"{HEAD}<row><c><v>{SECRET}</v></c></row>"), "not a whole Excel file"),
    "no text of that number": (lambda: book(f"{HEAD}<row><c t='s'><v>5</v></c></row>"), "not a whole Excel file"),
    "a place that is none": (lambda: book(f"<row>{cell('!1', SECRET)}</row>"), "a cell without a column"),
    "cut off": (lambda: book(HEAD)[:-300], "not a whole Excel file"),
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
    assert path.stat().st_size < 2500
    assert bounded(lambda: [batch["note"] for batch in read_batches(path, ["note"])]) == ("", "[['cough']]")
    with path.open("rb") as file:
        assert [(n, row) for n, row in sheet_rows(file)] == [(1, {16383: "note"}), (1048576, {16383: "cough"})]


def test_codes_of_characters():
    texts = "<si><t>a_x000D_b_x005F_x000D_</t></si><si><r><t>c</t></r><rPh><t>no</t></rPh><r><t> d</t></r></si>"
    rows = "<row><c t='s'><v>0</v></c><c t='s'><v>1</v></c><c t='str'><v>_xD800_</v></c></row>"
    assert dict(sheet_rows(io.BytesIO(book(rows, texts)))) == {1: {0: "a\rb_x000D_", 1: "c d", 2: "_xD800_"}}


def test_any_damage_is_refused_or_read(tmp_path):
    rng, good = random.Random(0), bytearray(book(HEAD + f"<row>{cell('A2', SECRET)}</row>", "<si><t>a</t></si>"))
    raw = bytearray(book(HEAD + f"<row>{cell('A2', SECRET)}</row>", "<si><t>a</t></si>", zipfile.ZIP_STORED))
    for whole in (good, raw):
        for _ in range(300):
            data = whole.copy()
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            try:
                list(sheet_rows(io.BytesIO(data)))
            except ValueError as error:
                assert SECRET not in str(error) and "\n" not in str(error)
    assert excel.is_excel("a.XLSX") and not excel.is_excel(5) and not excel.is_excel("a.csv")
