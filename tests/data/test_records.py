"""Raw records: equal from every source. Broken ones give one line without a cell."""

import gzip
import io
import json
import sys
import tracemalloc

import numpy as np
import openpyxl
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from vips_fast.data import Records, column_names, delimited, load_corpus, read_batches
from vips_fast.data.schema import BROKEN

VOCABULARY = ("alpha", "beta", "gamma", "delta")
SECRET = "zq7351"


def written(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def rows(source, *columns, **options):
    return [row for batch in read_batches(source, columns, **options) for row in zip(*batch.values(), strict=True)]


def same(one, other):
    assert one.counts.shape == other.counts.shape and (one.counts != other.counts).nnz == 0
    assert np.array_equal(one.groups, other.groups)


@pytest.fixture
def table():
    texts = [
        'Alpha "beta", gamma',
        "",
        "delta\ndelta\r\n\u2028 m\u00fcller",
        None,
        "beta;\t|beta",
        "\u6771\u4eac alpha",
    ]
    return {"id": list(range(18)), "note": texts * 3, "person": ["p1", "p2", "p1", "\u00e9", "p2", "p3"] * 3}


def sources(table, tmp_path):
    frame = pandas.DataFrame(table, index=[5] * 18)
    lines = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    content = "\n".join(json.dumps(line, ensure_ascii=k % 2 == 0) for k, line in enumerate(lines))
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(table), path, row_group_size=5)
    frame.to_csv(tmp_path / "t.csv", index=False)
    raw = (tmp_path / "t.csv").read_bytes()
    yield from (path, tmp_path / "t.csv", table, frame, polars.DataFrame(table), pyarrow.table(table))
    yield from (frame.astype({"person": "category"}), frame.astype({"note": "string"}))
    yield written(tmp_path / "t.jsonl", content)
    yield written(tmp_path / "t.jsonl.gz", gzip.compress(content.encode()))
    yield written(tmp_path / "t.json", json.dumps(lines))
    yield written(tmp_path / "indented.json", b"\xef\xbb\xbf" + json.dumps(lines, indent=1).encode())
    yield written(tmp_path / "excel.csv", b"sep=,\r\n" + raw)
    yield written(tmp_path / "t.csv.gz", gzip.compress(b"\xef\xbb\xbf" + raw))
    yield written(tmp_path / "u.csv", raw.decode().encode("utf-16"))
    for name, delimiter in (("s", ";"), ("tab", "\t"), ("bar", "|")):
        frame.to_csv(tmp_path / name, index=False, sep=delimiter)
        yield tmp_path / name
        yield written(tmp_path / f"excel-{name}", f"sep={delimiter}\n".encode() + (tmp_path / name).read_bytes())


def test_all_sources_give_the_same_counts_and_persons(table, tmp_path):
    expected = None
    for source in sources(table, tmp_path):
        corpus = load_corpus(source, VOCABULARY, text="note", person="person")
        expected = expected or corpus
        same(corpus, expected)
        if not str(source).endswith((".jsonl", ".gz", ".json", "u.csv")):
            assert column_names(source) == list(table)
        several = load_corpus(source, VOCABULARY, text=("note", "note"), person="person")
        assert np.array_equal(several.counts.toarray(), 2 * expected.counts.toarray())
    wanted = [[1, 1, 1, 0], [0] * 4, [0, 0, 0, 2], [0] * 4, [0, 2, 0, 0], [1, 0, 0, 0]]
    assert expected.counts.toarray()[:6].tolist() == wanted
    assert expected.groups[:6].tolist() == [0, 1, 0, 2, 1, 3]


def test_excels_first_line_names_the_delimiter(tmp_path):
    path = written(tmp_path / "t.csv", "sep=;\nage, years;note, free;id\n1,5;a b;7\n2;c;8\n")
    assert column_names(path) == ["age, years", "note, free", "id"]
    assert rows(path, "age, years", "id") == [("1,5", "7"), ("2", "8")]
    with pytest.raises(ValueError, match="line 1: says that '\\^' is between columns; expected commas"):
        rows(written(tmp_path / "t.csv", "sep=^\na^b\n1^2\n"), "a")
    with pytest.raises(ValueError, match="line 4: 2 cells; expected 3"):
        rows(written(tmp_path / "t.csv", "sep=;\na;b;c\n1;2;3\n1;2\n"), "a")
    # Commas would make a header of this.
    with pytest.raises(ValueError, match="line 2: not valid CSV: a quote out of place"):
        column_names(written(tmp_path / "t.csv", 'sep=;\na;"b",c\n'))


@pytest.mark.parametrize(
    "content, line",
    [
        ('[{"a": 1}, {"b": 2}]', 1),
        ('[\n{"a": 1},\n7,\n{"a": 2}]', 3),
        ('[\n{"a": 1},\n{"a": 2, "a": 3}]', 3),
        ('\n[\n{"a": "zq7351"},\n["a"]]', 4),
    ],
)
def test_a_broken_record_of_a_json_array(tmp_path, content, line):
    path = written(tmp_path / "t.json", content)
    with pytest.raises(ValueError, match=f"line {line}: expected a JSON object with 'a'"):
        rows(path, "a")
    assert sum(cell is BROKEN for (cell,) in rows(path, "a", invalid="drop")) == 1


def test_nothing_in_the_place_of_a_text_is_an_empty_text_and_of_a_person_is_refused_with_the_remedy(tmp_path):
    """Also NaN, as Python writes what pandas has for nothing."""
    lines = '{"text": "a", "who": 1}\n{"text": NaN, "who": NaN}\n{"text": null, "who": 2}\n'
    path = written(tmp_path / "t.jsonl", lines)
    assert [texts for texts, _ in Records(path).batches()] == [["a", "", ""]]
    remedy = "record 2: no person in column 'who'; expected a text or a number: fill it in, or leave such records out"
    with pytest.raises(ValueError, match=remedy):
        list(Records(path, person="who").batches())
    with pytest.raises(ValueError, match="record 4501: no person"):  # in the second batch
        list(Records({"text": ["a"] * 5000, "who": [*range(4500), None, *range(499)]}, person="who").batches())


@pytest.mark.parametrize("content", ('[{"a": 1}', '[{"a": 1},', '[{"a": zq7351}]', '[{"a": 1}] x', "[" * 10**5))
def test_a_broken_json_array_is_refused(tmp_path, content):
    for invalid in ("raise", "drop"):
        with pytest.raises(ValueError, match="not a JSON file") as caught:
            rows(written(tmp_path / "t.json", content), "a", format="jsonl", invalid=invalid)
        assert "zq7351" not in str(caught.value)
    assert rows(written(tmp_path / "t.json", "[ ]"), "a", format="jsonl") == []


@pytest.mark.parametrize("size", (4, 7, 64))
def test_where_blocks_and_batches_end_changes_nothing(table, tmp_path, monkeypatch, size):
    expected = [(text or "", person) for text, person in zip(table["note"], table["person"], strict=True)]
    monkeypatch.setattr("vips_fast.data.delimited._CHUNK", size)
    monkeypatch.setattr("vips_fast.data.delimited._BATCH_SIZE", 10 * size)
    for name in ("delimited.BATCH_ROWS", "records.BATCH_ROWS", "records._PARQUET_ROWS"):
        monkeypatch.setattr(f"vips_fast.data.{name}", 1 + size % 5)
    for source in sources(table, tmp_path):
        got = rows(source, "note", "person")
        assert [(text or "", person) for text, person in got] == expected


def test_strings_and_folders_and_standard_input(tmp_path, monkeypatch):
    texts = ["Alpha beta-ALPHA", "", "unknown delta."]
    expected = [[2, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert load_corpus(iter(texts), VOCABULARY).counts.toarray().tolist() == expected
    for k, (folder, text) in enumerate(zip("bca", texts, strict=True)):
        (tmp_path / folder / "deep").mkdir(parents=True)
        written(tmp_path / folder / "deep" / f"{k}.txt", text)
    written(tmp_path / "b" / "ignored.md", "delta")
    corpus = load_corpus(tmp_path, VOCABULARY, text="text", person="folder")
    assert corpus.counts.toarray().tolist() == [expected[2], *expected[:2]] and corpus.groups.tolist() == [0, 1, 2]
    assert rows(tmp_path, "path")[0] == ("a/deep/2.txt",)
    lines = "\n".join(json.dumps({"text": t}) for t in texts)
    for content in ('text\n"Alpha beta-ALPHA"\n""\nunknown delta.\n', lines):
        for raw in (content.encode(), gzip.compress(content.encode())):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(raw))))
            assert load_corpus("-", VOCABULARY).counts.toarray().tolist() == expected


def test_progress_says_bytes_of_the_file(tmp_path):
    path, seen = written(tmp_path / "t.csv", "text\n" + "alpha beta\n" * 500_000), []
    n = sum(len(b["text"]) for b in read_batches(path, ["text"], progress=lambda *at: seen.append(at)))
    assert n == 500_000 and [at for at, _ in seen] == sorted(at for at, _ in seen) and len(seen) > 5
    assert seen[-1] == (path.stat().st_size,) * 2


def test_memory_does_not_grow_with_the_file(tmp_path):
    peaks = []
    for times in (30, 120):
        path = written(tmp_path / f"{times}.csv", "text\n" + "".join(f"alpha{'x ' * 60_000}\n" for _ in range(times)))
        tracemalloc.start()
        assert len(load_corpus(path, VOCABULARY, text="text")) == times
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def broken(call, match):
    with pytest.raises(ValueError, match=match) as caught:
        call()
    said = str(caught.value)
    assert "\n" not in said and SECRET not in said
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    "content, match",
    [
        (f"id,n\n1,{SECRET}\n", "no column 'text'; it has 'id', 'n'; if the texts have another name, give text=$"),
        (f"text,n,text\n{SECRET},1,2\n", "2 of its 3 columns are named 'text'; expected one"),
        (f"text,n\na,1\n{SECRET}\n", "line 3: 1 cells; expected 2, as in the header"),
        (f'text,n\n"a\nb",1\n{SECRET},2,3\n', "line 4: 3 cells; expected 2"),
        (f'text,n\n"{SECRET}"x,1\n', "line 2: not valid CSV: a quote out of place"),
        (f'text,n\na,1\n"{SECRET},1\nb,2\n', "line 4: not valid CSV: .* not closed"),
        (f"text,n\na,1\n{SECRET}\xff,1\n".encode("latin-1"), "line 3: not utf-8 text; expected another encoding="),
        ("text,n\nm\u00fcller,1\n".encode() + f"{SECRET}\xfc,2\n".encode("latin-1"), "line 3: not utf-8 text"),
        (f"text,n\r{SECRET},1\r\xfc,2\r".encode("latin-1"), "line 3: not utf-8 text"),
        ("", "is empty$"),
        ("text,n\n", "has no records$"),
        (gzip.compress(SECRET.encode() * 9, mtime=0)[:-9], "the gzip data are broken or cut off"),
        (b"PAR1" + SECRET.encode(), "not a whole Parquet file"),
    ],
    ids=range(13),
)
def test_broken_files(tmp_path, content, match):
    path = written(tmp_path / "t.csv", content)
    broken(lambda: load_corpus(path, VOCABULARY, text="text"), f"^{path}: {match}")


@pytest.mark.parametrize(
    "line",
    [
        f'{{"body": "{SECRET}"}}',
        f'["{SECRET}"]',
        f'"{SECRET}"',
        f'{{"text": "{SECRET}"',
        "7351",
        "[" * 5000,
        f'{{"text": ["{SECRET}"]}}',
        '{"text": 7351}',
        f'{{"text": "beta", "text": "{SECRET}"}}',
        f'{{"{SECRET}": 1, "text": "beta", "{SECRET}": 2}}',
    ],
    ids=range(10),
)
def test_broken_lines(tmp_path, line):
    path = written(tmp_path / "t.jsonl", '{"text": "alpha"}\n\n' + line + '\n{"text": null}\n')
    message = f"^{path}: line 3: expected a (JSON object with 'text'|text in column)"
    broken(lambda: load_corpus(path, VOCABULARY), message)
    assert load_corpus(path, VOCABULARY, invalid="drop").counts.toarray().tolist() == [[1, 0, 0, 0], [0] * 4, [0] * 4]


def binary(*cells):
    """Arrow's texts of any bytes."""
    cells = pyarrow.array(cells, pyarrow.binary())
    return pyarrow.Array.from_buffers(pyarrow.string(), len(cells), cells.buffers())


def test_broken_tables(tmp_path):
    path, cut = tmp_path / "t.parquet", tmp_path / "cut.parquet"
    frame, mixed = pandas.DataFrame({"text": ["a", SECRET, 3.5]}), {"text": ["a"], "n": [1, 2]}
    columns = {"text": [1, 2], "n": [SECRET, "b"], "bytes": binary(b"\xff", b"a"), "raw": [b"a", b"b"]}
    parquet.write_table(pyarrow.table(columns), path)
    written(cut, path.read_bytes()[:-9])
    for source, more, match in [
        (path, {}, "t.parquet: column 'text' is of type int64; expected text"),
        (path, {"text": "note"}, "t.parquet: no column 'note'; it has 'text', 'n', 'bytes', 'raw'$"),
        (path, {"text": "raw"}, "t.parquet: column 'raw' is of type binary; expected text"),
        (path, {"text": "bytes"}, "t.parquet: row 1 or one of .* not UTF-8 text"),
        (cut, {}, "cut.parquet: not a whole Parquet file"),
        (frame, {}, "line 3: expected a text in column 'text', got one of type float; convert the column to texts,"),
        (frame, {"text": "note"}, "records: no column 'note'; it has 'text'"),
        (frame, {"text": [f"{SECRET} has had a cough for a week"]}, "records: no column of that name; it has 'text'"),
        (frame, {"text": frame.text}, "text, person: expected names of columns, not the columns"),
        (frame, {"person": frame.text}, "text, person: expected names of columns, not the columns"),
        (mixed, {"text": ("text", "n")}, "different lengths"),
        (["a"], {"person": "p"}, "records of type list have no columns; expected texts and no person=, a file, or a t"),
        *((one, {}, f"records of type {type(one).__name__} have no columns") for one in (3, None, np.ones((3, 2)))),
    ]:
        broken(lambda: load_corpus(source, VOCABULARY, **more), match)
    whole = path.read_bytes()
    for bad in (whole[:-9], whole[:-20] + b"\x0f" * 12 + whole[-8:]):
        broken(lambda: column_names(written(cut, bad)), "cut.parquet: not a whole Parquet file")


def test_a_missing_column_shows_those_that_there_are(tmp_path):
    """Names of columns are public. The first line of a file without a header is a record, and is not shown."""
    for content, name, match in [
        ("Note;patient id\na;1\n", "note", "no column 'note'; did you mean 'Note'\\? It has 'Note', 'patient id'$"),
        ("notes,who\na,1\n", "note", "no column 'note'; did you mean 'notes'\\? It has 'notes', 'who'$"),
        ("who:note\na:b\n", "note", "the header is one column; expected commas, semicolons, tabs or bars"),
        ("a,b;c\n1,2;3\n", "note", "commas and semicolons make 2 columns of the header each; expected one kind"),
        ("who\na\n", "note", "no column 'note'; it has 'who'$"),
        (f"17,{SECRET} said a word or two or seven\n18,b\n", "note", "'note', and its first line looks like a"),
        (f"{SECRET},{SECRET}\nb,c\n", "note", "its first line looks like a record; expected a header"),
    ]:
        path = written(tmp_path / "t.csv", content)
        broken(lambda: rows(path, name), match)
    path = written(tmp_path / "t.csv", ",".join(f"column{k}" for k in range(200)) + "\n" + "1," * 199 + "1\n")
    with pytest.raises(ValueError, match="…$") as caught:
        rows(path, "note")
    assert len(str(caught.value)) < 600


def test_names_of_columns_are_found_without_being_told_the_delimiter(tmp_path):
    path = tmp_path / "t.csv"
    for delimiter in ",;\t|":
        written(path, "\ufeff" + delimiter.join(['"a,b"', "Note", "id"]) + "\nx\n")
        assert column_names(path) == ["a,b", "Note", "id"], delimiter
    assert column_names(written(path, "Stra\u00dfe;id\n".encode("cp1252")), "cp1252") == ["Stra\u00dfe", "id"]
    broken(lambda: column_names(path), "not utf-8 text; expected another encoding=, such as cp1252")
    broken(lambda: column_names(written(path, "a:b:c\n")), "the header is one column")


def test_excel(tmp_path, table):
    book, path = openpyxl.Workbook(), tmp_path / "t.xlsx"
    book.create_sheet("empty")
    for row in [list(table), *zip(*table.values(), strict=True)]:
        book.active.append([cell if cell is None else str(cell).replace("\r", "") for cell in row])
    book.save(path)
    assert column_names(path) == list(table)
    same(*(load_corpus(source, VOCABULARY, text="note", person="person") for source in (path, table)))
    assert rows(path, "person", "id")[:2] == [("p1", "0"), ("p2", "1")]
    broken(lambda: rows(path, "Note"), "no column 'Note'; did you mean 'note'")
    book.create_sheet("more").append(["note"])
    book.save(path)
    broken(lambda: rows(path, "note"), "t.xlsx: has 2 sheets with cells; expected one: save the sheet as CSV")
    for name in ("t.xlsx", "t.xls"):
        path = written(tmp_path / name, f"{SECRET},note\n")
        broken(lambda: rows(path, "note"), "not a whole Excel file; expected .xlsx, or CSV")


def test_broken_folders(tmp_path):
    broken(lambda: load_corpus(tmp_path, VOCABULARY), "has no .txt files")
    (tmp_path / "a").mkdir()
    written(tmp_path / "a" / "b.txt", b"alpha\n\xff" + SECRET.encode())
    broken(lambda: load_corpus(tmp_path, VOCABULARY), f"^{tmp_path}: a/b.txt: line 2: not utf-8 text")
    assert load_corpus(tmp_path, VOCABULARY, invalid="drop").counts.nnz == 0


def test_cells_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("vips_fast.data.delimited._MAX_CELL", 1000)
    monkeypatch.setattr("vips_fast.data.delimited._CHUNK", 100)
    path = written(tmp_path / "t", gzip.compress(b'{"text": "alpha' + b" " * 2000))
    broken(lambda: rows(path, "text"), "t: line 1: more than 1000 characters")


GOOD, LAST = b"alpha,x\n", b"beta,y\n"


@pytest.mark.parametrize(
    "record",
    [
        b"alpha",  # a missing cell
        b"alpha,x,x",
        b"alpha \xff,x",
        b"alpha,\xffx",
        b'"alpha,x',  # a quote that is not closed
        b'"alpha"alpha,x',
        b'"alpha\ralpha,x',
        b"al\rpha,x",
        b"alpha,",  # nobody's
        b"alpha, \t",
        b"alpha" * 300 + b",x",  # beyond the limit of a cell
    ],
)
@pytest.mark.parametrize("kind", ["plain", "quoted", "closing", "gzip"])
def test_a_broken_row_takes_no_other_with_it(tmp_path, monkeypatch, record, kind):
    monkeypatch.setattr("vips_fast.data.delimited._MAX_CELL", 1000)
    monkeypatch.setattr("vips_fast.data.delimited._CHUNK", 100)
    last = {"quoted": b'"beta",y\n', "closing": b'", beta",y\n'}.get(kind, LAST)
    content = b"text,who\n" + GOOD + record + b"\n" + last + LAST
    path = written(tmp_path / "t.csv", gzip.compress(content) if kind == "gzip" else content)
    broken(lambda: load_corpus(path, VOCABULARY, person="who"), r"(line|record) \d")
    corpus = load_corpus(path, VOCABULARY, person="who", invalid="drop")
    assert corpus.counts.toarray()[:, :2].tolist() == [[1, 0], [0, 0], [0, 1], [0, 1]]
    assert corpus.groups.tolist() == [0, 1, 2, 2]
    # The last record: nothing closes it.
    path = written(path, b"text,who\n" + GOOD + LAST + record)
    corpus = load_corpus(path, VOCABULARY, person="who", invalid="drop")
    assert corpus.counts.toarray()[:, :2].tolist() == [[1, 0], [0, 1], [0, 0]] and corpus.groups.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["t.jsonl", "t.NDJSON", "t.jsonl.gz"])
@pytest.mark.parametrize("first", [b"\xff", b"text,who", b'"', b"x"])
def test_a_broken_first_record_leaves_json_lines_what_they_are(tmp_path, name, first):
    """The file was one of CSV then, and refused with cells of the record."""
    content = first + b'\n{"text": "alpha", "who": "x"}\n'
    path = written(tmp_path / name, gzip.compress(content) if name.endswith("gz") else content)
    corpus = load_corpus(path, VOCABULARY, person="who", invalid="drop")
    assert corpus.counts.toarray()[:, 0].tolist() == [0, 1]


PIECES = ("a", "b,c", ",", '"', '""', '"a"', "\n", "\r\n", "\r", "\0", "\u00e9", "#", '"x\ny",z\n', "a,b\n")


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), st.integers(1, 30), st.booleans())
def test_plain_rows_are_read_as_pythons_reader_reads_them(text, chunk, drop):
    """Return rows, or the error's text, however the file is cut. "#" stands for a byte that is no text."""
    content = ("who,text\n" + text).encode().replace(b"#", b"\xff")

    def found():
        file = io.BytesIO(content)
        blocks = delimited.text_lines(file, "utf-8", [0], drop)
        columns = {"text": [], "who": []}
        try:
            for _, batch in delimited.csv_batches(blocks, list(columns), drop):
                assert len(batch["text"]) <= delimited.BATCH_ROWS
                for name, cells in batch.items():
                    columns[name] += cells
        except ValueError as error:
            return str(error)
        return columns

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_CHUNK", chunk)
        patch.setattr(delimited, "BATCH_ROWS", 3)
        fast = found()
        patch.setattr(delimited, "_plain_cells", lambda text, *_: (np.empty((0, 2)), np.empty((0, 2)), [0, 0, 0, 1]))
        assert found() == fast
        patch.undo()
        assert isinstance(fast, str) or found() == fast


def test_a_row_of_very_many_lines_is_searched_a_few_times(tmp_path, monkeypatch):
    monkeypatch.setattr("vips_fast.data.delimited._CHUNK", 100)
    monkeypatch.setattr("vips_fast.data.delimited._MOST_OPEN", 1000)
    searched, true = [], delimited._plain_cells
    monkeypatch.setattr(delimited, "_plain_cells", lambda text, *a: searched.append(len(text)) or true(text, *a))
    path = written(tmp_path / "t.csv", 'text,n\nalpha,1\n"' + "beta\n" * 5000 + '",2\nalpha,3\n')
    assert [len(text) for (text,) in rows(path, "text")] == [5, 25000, 5]
    assert sum(searched) < 50_000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "shift_jis"])
def test_bytes_of_another_encoding(tmp_path, encoding):
    bad = {"utf-8": b"\xc3", "utf-16": b"\x00\xdc", "shift_jis": b"\xfd"}[encoding]
    lines = ["text,who\n", "alpha,x\n", "alpha#,x\n", "beta,y\n"]
    coded = [line.encode(encoding.replace("16", "16-le")) for line in lines]
    coded[2] = coded[2].replace("#".encode(encoding.replace("16", "16-le")), bad)
    path = written(tmp_path / "t.csv", (b"\xff\xfe" if encoding == "utf-16" else b"") + b"".join(coded))
    broken(lambda: load_corpus(path, VOCABULARY, text="text", encoding=encoding), "line 3: not utf-?16|line 3: not")
    corpus = load_corpus(path, VOCABULARY, text="text", encoding=encoding, invalid="drop")
    assert corpus.counts.toarray()[:, :2].tolist() == [[1, 0], [0, 0], [0, 1]]


@pytest.mark.parametrize("encoding, shift", [("iso-2022-jp", b"\x1b$B"), ("hz", b"~{")])
def test_no_record_shifts_how_later_ones_are_read(tmp_path, encoding, shift):
    path = written(tmp_path / "t.csv", b"text,who\nalpha,x\nalpha" + shift + b",x\n" + b"beta,y\n" * 3)
    with pytest.raises(ValueError, match=f"encoding='{encoding}': a broken record would change"):
        load_corpus(path, VOCABULARY, text="text", encoding=encoding, invalid="drop")
    path = written(path, b"text,who\nalpha,x\n")
    assert load_corpus(path, VOCABULARY, text="text", encoding=encoding).counts.toarray()[:, 0].tolist() == [1]


def test_parts_of_a_record_go_with_it(tmp_path):
    lines = '{"a": "alpha", "b": 7351}\n{"a": "alpha", "b": "beta"}\n{"a": "alpha"}\n{"a": "alpha", "b": null}\n'
    path = written(tmp_path / "t.jsonl", lines)
    corpus = load_corpus(path, VOCABULARY, text=("a", "b"), invalid="drop")
    assert corpus.counts.toarray()[:, :2].tolist() == [[0, 0], [1, 1], [0, 0], [1, 0]]
    path = written(path, b'{"a": "alpha \xff"}\n{"a": "alpha"}\n')
    assert load_corpus(path, VOCABULARY, text="a", invalid="drop").counts.toarray()[:, 0].tolist() == [0, 1]


def test_bytes_that_are_no_text_in_a_parquet_file(tmp_path):
    path = tmp_path / "t.parquet"
    table = {"text": binary(b"alpha", b"alpha\xff", b"alpha", None), "who": binary(b"x", b"x", b"\xff", b"x")}
    parquet.write_table(pyarrow.table(table), path)
    broken(lambda: load_corpus(path, VOCABULARY, person="who"), "not UTF-8 text")
    corpus = load_corpus(path, VOCABULARY, person="who", invalid="drop")
    assert corpus.counts.toarray()[:, 0].tolist() == [1, 0, 0, 0] and corpus.groups.tolist() == [0, 0, 1, 0]


@pytest.mark.parametrize("invalid", ["raise", "drop"])
def test_a_mark_that_was_promised_is_asked_for(tmp_path, invalid):
    path = written(tmp_path / "t.csv", "text\nzq7351\n".encode("utf-16-le"))
    message = "^.*t.csv: has no mark of the order of its bytes; expected encoding='utf-16-le' or 'utf-16-be'$"
    for read in (list, next):
        with pytest.raises(ValueError, match=message):
            read(read_batches(path, ["text"], encoding="utf-16", invalid=invalid))
    with pytest.raises(ValueError, match=message):
        column_names(path, "utf-16")
