"""Schemas and the encoder of tables. Public, the same for every row, and no cell in any message."""

import datetime
import math
import re
from decimal import Decimal

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from vips_fast import BayesianLogisticRegression, ColumnEncoder
from vips_fast.data import Column, Schema
from vips_fast.data.schema import MOVED, draft, moved_to_bounds

TEXT = """nulls = ["?"]
[columns.age]
kind = "number"
low = 0
high = 100
missing = "flag"
[columns."net gain"]
kind = "number"
low = 0
high = 10
centered = false
missing = "fill"
center = 0
[columns.work]
kind = "category"
values = ["private", "state"]
unknown = "flag"
missing = "fill"
[columns.smoker]
kind = "binary"
values = [0, 1]
[columns.id]
kind = "ignore"
"""
SCHEMA = Schema.parse(TEXT)
CELLS = {
    "age": ["25", "999", "?", None],
    "net gain": [5.0, -3.0, math.nan, 10.0],
    "work": ["state", "secret", None, " private "],
    "smoker": ["1", "0", "1", "0"],
}
#                age  age=?  gain  work=private  state  other  smoker
ENCODED = [[-0.5, 0, 0.5, 0, 1, 0, 1], [MOVED, 0, 1 - MOVED, 0, 0, 1, 0], [0, 1, 0, 1, 0, 0, 1], [0, 1, 1, 1, 0, 0, 0]]


def test_what_each_kind_and_rule_makes_of_a_cell():
    names = ("age", "age=?", "net gain", "work=private", "work=state", "work=*", "smoker=1")
    assert SCHEMA.feature_names == names and SCHEMA.row_norm == 2
    np.testing.assert_allclose(SCHEMA.encode(CELLS).toarray(), ENCODED)
    assert Schema.parse(SCHEMA.to_toml()) == SCHEMA


@pytest.mark.parametrize("values", ['["false", "true"]', '["FALSE", "TRUE"]', "[false, true]"])
def test_a_truth_value_is_found_as_json_and_r_spell_it(values):
    schema = Schema.parse(f'[columns.a]\nkind = "binary"\nvalues = {values}')
    assert schema.encode({"a": [True, np.False_]}).toarray().tolist() == [[1], [0]]


@pytest.mark.parametrize("form", [pandas.DataFrame, polars.DataFrame, pyarrow.table, dict])
def test_every_table_gives_the_same_rows(form):
    table = form({"id": [7, 7, 8, 9], **dict(reversed(CELLS.items()))})
    encoder = ColumnEncoder(SCHEMA, invalid="raise").fit(table)
    np.testing.assert_allclose(encoder.transform(table).toarray(), ENCODED)
    assert encoder.get_feature_names_out().tolist() == list(SCHEMA.feature_names)


@pytest.mark.parametrize(
    "cells", [["-9", " -9.0", "5"], [-9, -9, 5], np.array([-9, -9, 5]), np.array([-9.0, -9.0, 5.0])]
)
def test_a_number_that_stands_for_a_missing_value_does_so_in_every_form(cells):
    """In frames -9 was moved to the bound, and was missing in the same file. A value of the column is an answer."""
    schema = Schema.parse("""nulls = ["-9", "None"]
[columns.age]
kind = "number"
low = 0
high = 5
missing = "flag"
[columns.work]
kind = "category"
values = ["5"]
missing = "flag"
[columns.smoker]
kind = "binary"
values = ["-9", "5"]
[columns.told]
kind = "binary"
values = ["yes", "None"]
missing = "fill"
""")
    made = schema.encode(dict.fromkeys(("age", "work", "smoker"), cells) | {"told": ["None", None, "yes"]}).toarray()
    made[:, 0] = np.round(made[:, 0])  # at the bound
    np.testing.assert_array_equal(made, [[0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 0], [1, 0, 1, 0, 1, 0]])


def test_a_cell_is_named_by_its_row_in_any_batch():
    table = {name: [cells[0]] * 5000 for name, cells in CELLS.items()}
    table["age"][4500] = "zq7351"
    with pytest.raises(ValueError, match="X: row 4500\\b"):
        ColumnEncoder(SCHEMA, invalid="raise").fit(table).transform(table)


texts = st.text(max_size=5) | st.sampled_from(["private", "state", "1", "0", "?"])
cells = st.none() | st.floats() | st.integers() | st.booleans() | texts


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(cells, cells, cells, cells), min_size=1, max_size=5))
def test_a_row_is_encoded_alone_and_within_its_norm(rows):
    """So that neighboring tables give neighboring matrices, whatever the cells are."""
    table = [dict(zip(SCHEMA.names, row)) for row in rows]
    whole = SCHEMA.encode({name: [row[name] for row in table] for name in SCHEMA.names}, invalid="nan").toarray()
    for row, encoded in zip(table, whole):
        alone = SCHEMA.encode({name: [cell] for name, cell in row.items()}, invalid="nan")
        np.testing.assert_array_equal(alone.toarray()[0], encoded)
    good = whole[np.isfinite(whole).all(axis=1)]
    assert (np.linalg.norm(good, axis=1) <= SCHEMA.row_norm * (1 + 1e-15)).all()


@pytest.mark.parametrize(
    ("column", "cell", "text"),
    [
        ("age", "secret", "row 1, column 'age': expected a finite number"),
        ("age", "inf", "row 1, column 'age': expected a finite number"),
        ("age", "20_1", "row 1, column 'age': expected a finite number"),
        ("age", ["secret"], "row 1, column 'age': expected a finite number"),
        ("smoker", "secret", "row 1, column 'smoker': not one of the schema's values"),
        ("age", "45 %", "percent signs, units and blanks or commas of thousands"),
        ("smoker", "?", "row 1, column 'smoker': a missing value"),
        ("smoker", pandas.NA, "row 1, column 'smoker': a missing value"),
    ],
)
def test_a_refused_cell_is_named_and_not_shown(column, cell, text):
    bad = {name: list(values) for name, values in CELLS.items()}
    bad[column][1] = cell
    with pytest.raises(ValueError, match=re.escape(text)) as error:
        SCHEMA.encode(bad)
    assert "secret" not in str(error.value) and "45" not in str(error.value)
    left = ~np.isfinite(SCHEMA.encode(bad, invalid="nan").toarray()).all(axis=1)
    assert left.tolist() == [False, True, False, False]


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('kind = "binary"', 'kind = "bool"', "column 'smoker': kind='bool': expected one of number"),
        ('kind = "binary"', 'kind = "?"', "column 'smoker': its kind is not said"),
        ("low = 0\nhigh = 100", "low = 5\nhigh = 5", "column 'age': low=5, high=5: expected numbers, low < high"),
        ("low = 0\nhigh = 100", "low = nan\nhigh = 5", "expected numbers, low < high"),
        ("low = 0\nhigh = 100", "", "column 'age': low=None"),
        ("[0, 1]", "[0, 1, 2]", "column 'smoker': 3 values: expected 2"),
        ("[0, 1]", "[0, 0]", "expected no value twice"),
        ("[0, 1]", '"ab"', "expected a list"),
        ('unknown = "flag"', 'unknown = "other"', "column 'work': unknown='other': expected one of refuse, fill, flag"),
        ('unknown = "flag"', "range = 3", "column 'work': range: unknown key"),
        ("nulls", "null", "null: unknown key"),
        ("nulls", 'label = "smoker"\nnulls', "label='smoker': expected the name of a column that is no feature"),
        ("[columns.id]", "[columns.id", "not a TOML file"),
        ('[columns.id]\nkind = "ignore"', '[columns."age=?"]\nkind = "number"\nlow = 0\nhigh = 1', "'age=?'"),
    ],
)
def test_schemas_that_are_none(tmp_path, old, new, text):
    assert old in TEXT
    (tmp_path / "schema.toml").write_text(TEXT.replace(old, new))
    with pytest.raises(ValueError, match=re.escape(text)) as error:
        Schema.load(tmp_path / "schema.toml")
    assert "schema.toml: " in str(error.value) and "\n" not in str(error.value)


def test_labels_are_the_schemas_values():
    assert SCHEMA.label("work", CELLS["work"]).tolist() == ["state", "", "", "private"]
    np.testing.assert_array_equal(SCHEMA.label("age", CELLS["age"], counts=True), [25, 999, np.nan, np.nan])
    with pytest.raises(ValueError, match="column 'age': kind='number': expected category or binary"):
        SCHEMA.label("age", CELLS["age"])
    with pytest.raises(ValueError, match="no column 'income'"):
        SCHEMA.label("income", [])
    text = "t.csv: record 2, column 'work': not one of the schema's values, .*'private'.*; spell both alike, or drop"
    with pytest.raises(ValueError, match=text) as error:
        SCHEMA.label("work", ["state", "secret"], invalid="raise", where="t.csv: record", lines=range(1, 3))
    assert "secret" not in str(error.value) and "rule for" not in str(error.value)
    with pytest.raises(ValueError, match="row 1, column 'age': expected a finite number, with a decimal point; "):
        SCHEMA.label("age", ["25", "x"], counts=True, invalid="raise")


def test_a_refusal_names_all_columns_that_need_a_rule():
    bad = {**CELLS, "age": ["x", *CELLS["age"][1:]], "smoker": ["?", *CELLS["smoker"][1:]]}
    with pytest.raises(ValueError, match=r"row 0, column 'age': .* \(such cells are in 'smoker', too\)$"):
        SCHEMA.encode(bad)


def test_a_schema_keeps_the_name_of_its_label():
    kept = SCHEMA.without("id", label="smoker")
    assert (kept.label_name, "smoker" in kept.names) == ("smoker", False)
    assert Schema.parse(kept.to_toml()) == kept == kept.without("no column")


def test_a_label_without_a_value_says_what_can_be_done():
    """The rules for missing and unknown cells are for features, but a number beyond its bounds is no count."""
    column = Column("visits", "number", 0, 30, missing="flag", beyond="missing")
    schema = Schema((column, Column("ill", "binary", values=("no", "yes"), missing="fill")))
    np.testing.assert_array_equal(schema.label("visits", [30, 999, -9, None], counts=True), [30, *[np.nan] * 3])
    for name, cells, counts in (("visits", [999], True), ("ill", [""], False)):
        with pytest.raises(ValueError, match="a missing value; a label has no rule for that; drop such records with"):
            schema.label(name, cells, counts=counts, invalid="raise")


@pytest.mark.parametrize("cells", (["1", "2"], ["1.0", " 2.00 "], [1.0, 2.0], np.array([1, 2]), [Decimal("1.0"), "2"]))
def test_a_value_is_the_same_in_every_file(cells):
    """A whole number beside missing ones is "1.0" in a CSV file of pandas."""
    schema = Schema((Column("sex", "binary", values=("1", "2")),))
    assert schema.encode({"sex": cells}).toarray().tolist() == [[0], [1]]
    listed = Schema((Column("code", "category", values=("250", "250.0", "2026-01-02")),))
    day = datetime.datetime(2026, 1, 2)
    assert listed.encode({"code": ["250.0", 250, day]}).toarray().argmax(axis=1).tolist() == [1, 0, 2]


def test_a_draft_asks_for_every_kind_but_of_a_persons_column():
    with pytest.raises(ValueError, match="expected a table"):
        Schema.parse(draft([]))
    names = ["age", "a b", 'q"\\', "ü\n"]
    with pytest.raises(ValueError, match="its kind is not said"):
        Schema.parse(draft(names))
    filled = Schema.parse(draft(names).replace('"?"', '"ignore"'))
    assert filled.columns == tuple(Column(name, "ignore") for name in names)
    whose = ["Employee No", "MRN", "patient_id"]
    assert Schema.parse(draft(whose)).names == () and draft(whose).count("give it as --person") == 3


def test_in_a_pipeline(tmp_path):
    """Columns are found by name, and clones work. Refused cells are the estimator's invalid records."""
    rng, n = np.random.default_rng(0), 2000
    table = pandas.DataFrame({"smoker": rng.integers(0, 2, n), "age": rng.uniform(0, 100, n), "net gain": 1.0})
    table["work"] = rng.choice(["private", "state"], n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-4 * (table["smoker"] - 0.5))), "ill", "well")
    (tmp_path / "s.toml").write_text(TEXT)
    pipe = make_pipeline(ColumnEncoder(tmp_path / "s.toml"), BayesianLogisticRegression(row_norm=2.0, epsilon=5))
    pipe = clone(pipe).fit(table, y)
    assert pipe.score(table, y) > 0.8
    np.testing.assert_array_equal(pipe.predict_proba(table[list(reversed(table.columns))]), pipe.predict_proba(table))
    table.loc[3, "smoker"] = 2
    refused = "found a cell that the schema refuses in column 'smoker'; ColumnEncoder's invalid='raise' tells the row"
    with pytest.raises(ValueError, match=f"X: expected finite values, {refused}"):
        pipe.fit(table, y)
    assert pipe.set_params(bayesianlogisticregression__options__invalid="drop").fit(table, y)
    framed = pipe[:-1].set_output(transform="pandas").fit_transform(table)
    assert list(framed.columns) == list(SCHEMA.feature_names)
    assert pipe.fit(table.drop(index=3), np.delete(y, 3))[-1].feature_names_in_.tolist() == list(SCHEMA.feature_names)
    with pytest.raises(ValueError, match="'scheme' is not a parameter"):
        ColumnEncoder(SCHEMA).set_params(scheme=1)


def test_decimal_commas_are_said_by_the_schema():
    text = '[columns.a]\nkind = "number"\nlow = 0\nhigh = 2000\ndecimal = ","\n'
    schema = Schema.parse(text)
    assert Schema.parse(schema.to_toml()) == schema
    good = {"a": ["1.000,0", "500", "250,5", 1000.0, ",5", "1.234.567,8"]}
    encoded = (schema.encode(good).toarray().ravel() + 1) * 1000
    np.testing.assert_allclose(encoded, [1000, 500, 250.5, 1000, 0.5, 1000 + 1000 * MOVED])
    for cell in ("1.5", "1,000.5", "12.34,5", "1,2,3", "one", ","):
        with pytest.raises(ValueError, match="row 0, column 'a': expected a finite number"):
            schema.encode({"a": [cell]})


def number(**more):
    return Schema((Column("x", "number", 0, 600, **more),))


@pytest.mark.parametrize("invalid", ["raise", "nan"])
@pytest.mark.parametrize(
    ("rule", "entries"),
    [
        ({}, [[0.5], [MOVED], [-MOVED]]),
        ({"beyond": "missing", "missing": "flag"}, [[0.5, 0], [0, 1], [0, 1]]),
        ({"beyond": "missing", "missing": "fill", "center": 0}, [[0.5], [-1], [-1]]),
        ({"beyond": "missing"}, "a missing value"),
        ({"beyond": "refuse"}, 'beyond the column\'s bounds; drop such records with .*beyond = "clip"'),
    ],
)
def test_a_number_beyond_its_bounds_follows_the_rule(rule, entries, invalid):
    cells = {"x": [450, 601.5, "-0.1"]}
    if isinstance(entries, str) and invalid == "raise":
        with pytest.raises(ValueError, match="^row 1, column 'x': " + entries) as error:
            number(**rule).encode(cells)
        assert "601" not in str(error.value)
        return
    found = number(**rule).encode(cells, invalid=invalid).toarray()
    if isinstance(entries, str):
        assert np.isfinite(found).ravel().tolist() == [True, False, False]
    else:
        np.testing.assert_array_equal(found, entries)


@pytest.mark.filterwarnings("error")
def test_a_number_of_any_size_is_moved_to_its_bound_without_a_warning():
    """A warning of an overflow would tell of a record."""
    found = Schema((Column("x", "number", 0, 0.5),)).encode({"x": [1.7e308, -1.7e308, "1e308"]})
    assert found.toarray().ravel().tolist() == [MOVED, -MOVED, MOVED]


def test_values_that_were_moved_to_a_bound_are_told_from_those_at_it():
    """In float32 too, which shards have."""
    for centered in (True, False):
        found = number(centered=centered).encode({"x": [0, 600, 300, -1, 601]}).toarray().ravel()
        for entries in (found, found.astype(np.float32)):
            assert moved_to_bounds(entries).tolist() == [False, False, False, True, True]
        assert np.abs(found).max() <= 1


def test_what_a_category_lacks_counts_as_its_reference():
    column = Column("w", "category", values=("a", "b"), reference="b", missing="fill", unknown="fill")
    assert Schema((column,)).encode({"w": ["b", None, "other"]}).toarray().tolist() == [[0, 1]] * 3


@pytest.mark.parametrize(("missing", "start"), [("fill", 0.0), ("flag", 85.0)])
def test_a_missing_number_counts_as_the_stated_center(missing, start):
    """Filled in, or as what the effect of its flag is measured from."""
    schema = number(missing=missing, center=start)
    one, other = schema.encode({"x": [None, start]}).toarray()
    if missing == "fill":
        np.testing.assert_array_equal(one, other)
    else:
        flag = schema.changes[1]
        moved = np.zeros(2)
        for place, weight in flag.weights:
            moved[place] += weight
        np.testing.assert_allclose(one - other, moved, atol=1e-15)
        assert flag.text == "missing instead of 85"


@pytest.mark.parametrize(
    ("kind", "more", "text"),
    [
        ("number", {"missing": "fill"}, 'missing="fill": expected center'),
        ("number", {"center": 601}, "center=601: expected a number from low to high"),
        ("number", {"center": math.nan}, "center=nan"),
        ("number", {"step": 0}, "step=0: expected above 0"),
        ("number", {"beyond": "zero"}, "beyond='zero': expected one of clip, missing, refuse"),
        ("number", {"decimal": ";"}, "decimal=';': expected '.' or ','"),
        ("number", {"centered": 1.5}, "centered=1.5: expected true or false"),
        ("number", {"values": ["a"]}, "values: expected for a category or binary column only"),
        ("number", {"unknown": "flag"}, "unknown: expected for a category or binary column only"),
        ("binary", {"low": 0}, "low: expected for a number column only"),
        *((kind, {"decimal": ","}, "decimal: expected for a number column only") for kind in ("category", "ignore")),
        ("binary", {"reference": "a"}, "reference: expected for a category column only"),
        ("category", {"reference": "c"}, "reference='c': expected one of its values"),
        ("category", {"values": []}, "values: expected a list of them"),
    ],
)
def test_rules_that_are_none(kind, more, text):
    plain = {"number": {"low": 0, "high": 600}, "ignore": {}}.get(kind, {"values": ["a", "b"]})
    with pytest.raises(ValueError, match=re.escape(f"column 'x': {text}")):
        Column("x", kind, **{**plain, **more})


def test_effects_have_a_readable_step():
    for low, high, step, text in [
        (0, 250_000, None, "+10,000"),
        (18, 90, None, "+1"),
        (15, 50, None, "+1"),
        (40, 400, None, "+10"),
        (0, 1, None, "+0.1"),
        (1, 7, None, "+1"),
        (1.2, 2.2, None, "+0.1"),
        (0, 1e-6, None, "+1e-07"),
        (0, 250_000, 1000, "+1,000"),
        (18, 90, 2.5, "+2.5"),
    ]:
        (change,) = Column("x", "number", low, high, step=step).changes
        assert change.text == text
        assert change.weights[0][1] == pytest.approx(2 * change.step / (high - low))


@pytest.mark.parametrize("kind", ["number", "category", "binary", "ignore"])
def test_a_draft_has_a_skeleton_of_each_kind(kind):
    """Its lines with and without the optional ones are a column; missing values have their usual marks."""
    text = draft(["age"])
    start = text.index(f'#   kind = "{kind}"')
    lines = [line.removeprefix("#   ") for line in text[start:].split("\n#   kind")[0].splitlines()]
    lines = lines[: lines.index("#")] if "#" in lines else lines
    for kept in ([line for line in lines if not line.startswith("# ")], [line.removeprefix("# ") for line in lines]):
        assert Schema.parse("[columns.age]\n" + "\n".join(kept)).columns[0].kind == kind
    nulls = Schema.parse(text.replace('kind = "?"', 'kind = "ignore"')).nulls
    assert {"", "NA", "N/A", "null", ".", "NaN"} <= nulls


def test_a_schema_stands_for_its_text_among_the_inputs():
    table = pandas.DataFrame({"age": np.arange(60) % 50 + 20, "sex": ["f", "m"] * 30})
    schema = Schema((Column("age", "number", 20, 70, step=10), Column("sex", "binary", values=("f", "m"))))
    y = (table.age > 40).map({True: "ill", False: "well"})
    model = BayesianLogisticRegression(private=False, n_steps=3, classes=["well", "ill"])
    pipe = make_pipeline(ColumnEncoder(schema), model).fit(table, y, bayesianlogisticregression__inputs=schema)
    assert [one.label for one in pipe[-1].effects()] == ["age +10", "sex m instead of f"]
    assert pipe[-1].inputs_ == {"schema.toml": schema.to_toml()}
