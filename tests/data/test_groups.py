"""Labels of rows. One form for a person on every path, numbers by first appearance, and refusals."""

import datetime
import decimal
import json
import unicodedata
import uuid

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vips_fast.cli.inputs import read_labels
from vips_fast.data import Batch, Records, load_corpus, write_shards
from vips_fast.data.groups import Numbering, canonical_label, check_whole, group_codes
from vips_fast.engine.units import UnitBlock, UnitRecords, unpack_block


@pytest.mark.parametrize(
    "labels",
    [
        [7, 3, 7, 7, -1],
        ["w", "a", "w", "w", "W"],
        np.array([2.5, 0.0, 2.5, 2.5, -1.0]),
        np.array(["b", "a", "b", "b", "ab"]),
        np.array([9, 1, 9, 9, 0], dtype=np.uint8),
        [("x", 1), "x", ("x", 1), ("x", 1), 1],
        np.array(["2020-01-02", "2020-01-01", "2020-01-02", "2020-01-02", "1999-01-01"], dtype="datetime64[D]"),
        [datetime.date(2020, 1, 2), "a", datetime.date(2020, 1, 2), datetime.date(2020, 1, 2), 5],
        ["7", 3, 7.0, " 7\t", "3.5"],
        np.array([2**63, 3, 2**63, 2**63, 0], dtype=np.uint64),
        [2**70, 3, 2**70, str(2**70), -1],
    ],
)
def test_labels_are_numbered_by_first_appearance(labels):
    codes = group_codes(labels, 5)
    assert codes.dtype == np.int64 and codes.tolist() == [0, 1, 0, 0, 2]


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b"],
        np.array([1.0, np.nan, 2.0]),
        ["a", float("nan"), "b"],
        ["a", decimal.Decimal("sNaN"), "b"],
        np.array(["2020-01-01", "NaT", "2020-01-02"], dtype="datetime64[D]"),
        ["a", "", "b"],
        np.array(["a", " \t\u00a0", "b"]),
        [("a", 1), ("a", None), "b"],
    ],
)
def test_missing_labels_are_refused_without_being_shown(labels):
    with pytest.raises(ValueError, match="^groups: expected a label for each row; some are missing$"):
        group_codes(labels, 3)
    assert group_codes(labels, 3, "drop").tolist() == [0, -1, 1]


NO_LABELS = (["secret"], {"secret": 1}, True, np.bool_(False), 2.0**53, -(2.0**60), float("inf"), np.float32(2**24), 1j)
NO_LABELS += (b"".join, np.float16(2048), decimal.Decimal("1e400"), 10**5000, np.timedelta64(3), ("a", True), object())


@pytest.mark.parametrize("label", NO_LABELS, ids=lambda label: type(label).__name__)
def test_labels_that_tell_no_persons_apart_are_refused(label):
    refused = "^groups: expected labels that are texts, .* got one of type [a-z_0-9A-Z]+$"
    with pytest.raises(ValueError, match=refused) as said:
        group_codes(["a", label, "b"], 3)
    assert "secret" not in str(said.value) and "\n" not in str(said.value)
    assert group_codes(["a", label, "b"], 3, "drop").tolist() == [0, -1, 1]


#: Spellings of one label each, of any kind that a file or a frame may give.
PERSONS = [
    [7, "7", "7 ", "\ufeff7", "\t7\n", 7.0, "7.0", "7.", b"7"]
    + [np.int8(7), np.uint64(7), np.float16(7), decimal.Decimal("7.00")],
    [0, -0.0, "0", "-0.0", np.float32(-0.0), "0.000", decimal.Decimal("-0")],
    [-70, "-70", -70.0, "-70.00", decimal.Decimal("-7E1")],
    ["07", " 07", "07.0", b"07"],
    [2**53 - 1, float(2**53 - 1), str(2**53 - 1)],
    [2**64, str(2**64), f"{2**64}.0", decimal.Decimal(2**64)],
    [2.5, "2.5", np.float32(2.5), decimal.Decimal("2.500")],
    [0.1, np.float32(0.1), "0.1"],
    ["M\u00fcller", "Mu\u0308ller", " M\u00fcller\u00a0", "M\u00fcller".encode(), np.str_("Mu\u0308ller")],
    ["m\u00fcller", "mu\u0308ller"],
    ["a b", "a b\0"],
    ["a  b"],
    ["True", "True "],
    ["true"],
    ["1e3"],
    ["nan"],
    [datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2), np.datetime64("2020-01-02T00:00"), "2020-01-02"],
    [np.datetime64("2020-01-02T03:04:05.500", "ns"), datetime.datetime(2020, 1, 2, 3, 4, 5, 500_000)],
    [datetime.datetime(2020, 1, 2, 3, 4, tzinfo=datetime.UTC), "2020-01-02T03:04:00Z"]
    + [datetime.datetime(2020, 1, 2, 5, 4, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))],
    [uuid.UUID(int=7), str(uuid.UUID(int=7))],
    [("ward", 7), (" ward", 7.0), ("ward", "7")],
    [("ward", ("7", "a")), ("ward", (7, "a"))],
]


def test_a_person_has_one_form_in_every_kind():
    forms = [{canonical_label(label) for label in spellings} for spellings in PERSONS]
    assert all(len(some) == 1 for some in forms)
    assert len(set.union(*forms)) == len(PERSONS)
    for (form,) in forms:
        assert canonical_label(form) == form
    labels = [(number, label) for number, spellings in enumerate(PERSONS) for label in spellings]
    for order in (labels, labels[::-1]):
        persons, mixed = zip(*order)
        assert alike(group_codes(list(mixed), len(mixed)), persons)


TEXT = st.text(st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=300, deadline=None)
@given(TEXT)
def test_the_form_of_a_text_is_its_own_form(text):
    form = canonical_label(text)
    assert canonical_label(form) == form and canonical_label(unicodedata.normalize("NFD", f" {text}\t")) == form
    assert form is None or canonical_label(form.encode()) == form


def spelled(draw, number):
    forms = [number, str(number), f" {number}\t", f"{number}.0", decimal.Decimal(number), np.int64(number)]
    return draw(st.sampled_from([*forms, float(number), np.float64(number), np.float32(number)]))


@st.composite
def tables(draw):
    """Return numbers of persons, and some spelling of each label. None is for nobody."""
    persons = draw(st.lists(st.one_of(st.integers(-9, 9), st.none()), min_size=1, max_size=12))
    return persons, [None if person is None else spelled(draw, person) for person in persons]


def alike(found, persons):
    """Tell whether numbers tell the same persons apart. Nobody may have a number of its own."""
    pairs = set(zip(np.asarray(found).tolist(), persons, strict=True))
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})


def through(path, name, labels):
    """Return numbers of persons as a source gives them."""
    texts = ["alpha"] * len(labels)
    if name == "csv":
        path.write_text("text,who\n" + "".join(f"alpha,{'' if label is None else label}\n" for label in labels))
    elif name == "jsonl":
        # Decimals and numpy's numbers stand there as Python's.
        lines = (json.dumps({"text": "alpha", "who": label}, default=lambda one: one.__float__()) for label in labels)
        path.write_text("\n".join(lines))
    elif name == "groups":
        path.write_text("".join(f"{'' if label is None else str(label).strip()}\n" for label in labels))
        return group_codes(read_labels(str(path), "drop"), len(labels), "drop")
    elif name == "shards":
        batches = [Batch(np.ones((1, 1), int), persons=[label]) for label in labels]
        corpus = write_shards(path, batches, invalid="drop")
        # Nobody's rows are empty.
        assert corpus.take(np.arange(len(labels)))[0].sum() == sum(label is not None for label in labels)
        return np.diff(corpus.groups.starts)
    elif name == "blocks":
        numbering = Numbering("drop")
        return np.concatenate([numbering([label]) for label in labels])
    else:
        path = {"text": texts, "who": labels}
        path = path if name == "table" else pandas.DataFrame(path, dtype=object)
    corpus = load_corpus(path, ("alpha",), None if name in ("table", "frame") else name, person="who", invalid="drop")
    assert corpus.counts.sum() == sum(label is not None for label in labels)
    return corpus.groups


@pytest.mark.parametrize("name", ["csv", "jsonl", "groups", "table", "frame", "blocks", "shards"])
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables())
def test_no_person_is_split_on_any_path(tmp_path_factory, name, table):
    persons, labels = table
    known = list(dict.fromkeys(person for person in persons if person is not None))
    by_appearance = [-1 if person is None else known.index(person) for person in persons]
    assert group_codes(labels, len(labels), "drop").tolist() == by_appearance
    found = through(tmp_path_factory.mktemp("labels") / "file", name, labels)
    if name == "shards":
        sizes = {person: persons.count(person) for person in persons}
        assert sorted(found.tolist()) == sorted(sizes.values())
    else:
        assert alike(found, persons)


def test_frames_of_every_kind_have_the_persons_of_a_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("text,who\na,7\nb, 12 \nc,7.0\nd,\n")
    (tmp_path / "who.txt").write_text("\ufeff7\n12\n7\n\n")
    whole, texts = [7, 12, 7, None], ["7", "12", "7", None]
    for column in (
        pandas.Series(whole),  # floats
        *(pandas.Series(whole, dtype=kind) for kind in ("Int64", object)),
        *(pandas.Series(texts, dtype=kind) for kind in ("string", "category")),
        *(polars.Series(cells) for cells in (whole, texts)),
        pyarrow.array(whole),
        pyarrow.chunked_array([[7, 12], [7, None]]),
        pyarrow.array([decimal.Decimal("7.00"), decimal.Decimal("12.00"), decimal.Decimal("7.00"), None]),
        pyarrow.array(texts).dictionary_encode(),
        np.array(["7", "12", "7", ""]),
        np.array([b"7", b"12", b"7", b""]),
        read_labels(str(tmp_path / "who.txt"), "drop"),
    ):
        assert group_codes(column, 4, "drop").tolist() == [0, 1, 0, -1], type(column)
        with pytest.raises(ValueError, match="some are missing"):
            group_codes(column, 4)
        assert check_whole([["8"], column]) is None
        with pytest.raises(ValueError, match="all rows of a person in one block"):
            check_whole([["12"], column])
    (batch,) = Records(path, "text", "who", invalid="drop").batches()
    assert batch == (["a", "b", "c", ""], [0, 1, 0, -1])


class Rows:
    """Rows without values."""

    n_rows, usable = 6, None

    def block(self, rows):
        return rows.tolist()


@pytest.mark.parametrize("usable", [None, np.array([True, True, False, True, True, True])])
def test_rows_of_nobody_are_in_no_unit(usable):
    rows = Rows()
    rows.usable = usable
    labels = ["b", None, "b", "a", "", "a "]
    records = UnitRecords(rows, labels, invalid="drop")
    blocks = [UnitBlock(records, np.array([unit])) for unit in range(records.n_rows)]
    taken = [unpack_block(block, np.zeros(1, np.uint64))[0] for block in blocks]
    assert taken == [[0] if usable is not None else [0, 2], [3, 5], []]
    with pytest.raises(ValueError, match="some are missing"):
        UnitRecords(rows, labels)


DAY = np.array(["2020-01-01"], dtype="datetime64[s]")


@pytest.mark.parametrize(
    "blocks",
    [
        ([1, "a"], [1, 2]),  # of two kinds, here and below
        (["x", 1.0], [1, 2]),
        (DAY, DAY.astype("datetime64[ns]")),
        (np.float32([0.1]), np.array([0.1])),
        (["a\0"], np.array(["a\0"])),
        ([1, 2, 2], [], np.array([3, 2], dtype=np.uint8)),
        (["x", 1.0], ["y", 1]),
        ([("x", 1)], [("y", 1), ("x", 1)]),
        (np.array(["a", "bcd"]), np.array(["c", "a"])),
        (DAY, DAY + 1, DAY),
        (np.array([[1], [2]]), np.array([[2]])),
    ],
)
def test_a_person_in_two_blocks(blocks):
    with pytest.raises(ValueError, match="^groups: expected all rows of a person in one block$"):
        check_whole(blocks)
    check_whole(blocks[:1])


def test_whole_persons_in_blocks():
    check_whole(([1, 1, 2], [], np.array([3], dtype=np.uint8), [2**63]))
    check_whole((["a", "a"], ["b"]))
    check_whole((DAY, DAY + 1))
    check_whole((["a", None], ["b", None]))  # the reader of a block settles missing labels
