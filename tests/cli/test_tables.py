"""Tables at the shell. A public schema, a label's and a person's column, and the model that keeps the schema."""

import numpy as np
import pandas
import pytest
from written import AGE, TABLE

from vips_fast import BayesianLogisticRegression, ColumnEncoder
from vips_fast.cli import main
from vips_fast.data import Schema

SCHEMA = AGE + TABLE
N = 1500


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, N).round(1)
    ill = rng.random(N) < 1 / (1 + np.exp(-(age - 50) / 10))
    work = rng.choice(["private", "state"], N)
    table = pandas.DataFrame(
        {"home": np.arange(N) // 3, "ill": np.where(ill, "yes", "no"), "work": work, "age": age, "note": "zq7351"}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    (tmp_path / "s.toml").write_text(SCHEMA)
    return tmp_path


def fit(folder, table, out, *more):
    named = ["--schema", folder / "s.toml", "--label", "ill", "--out", folder / out, "--quiet"]
    return ["fit", "blr", folder / table, *named, "--epsilon", 5, "--delta", "1e-6", *more]


def test_fit_and_predict_need_the_schema_once(run, folder):
    code, text, _ = run(
        *fit(folder, "t.csv", "m", "--person", "home", "--unit", "household", "--set", "rows_per_group=2")
    )
    assert code == 0 and "household" in text and "age" in text
    model = BayesianLogisticRegression.load(folder / "m")
    assert model.classes_.tolist() == ["no", "yes"]
    assert (model.privacy_.unit, model.privacy_.n_records) == ("household", N // 3)
    assert Schema.load(folder / "m" / "schema.toml").feature_names == ("age", "work=private", "work=state")
    out = {name: run("predict", folder / "m", folder / name)[1] for name in ("t.csv", "t.jsonl", "t.parquet")}
    assert out["t.csv"] == out["t.jsonl"] == out["t.parquet"]
    head, *rows = out["t.csv"].splitlines()
    assert head == "p(no),p(yes)" and len(rows) == N
    said = np.array([float(row.split(",")[1]) for row in rows]) > 0.5
    assert (said == (pandas.read_csv(folder / "t.csv")["ill"] == "yes")).mean() > 0.75
    for path in (folder / "m").iterdir():
        assert b"zq7351" not in path.read_bytes()


def test_a_finished_fit_is_not_the_answer_to_other_columns_or_bounds(run, refused, folder):
    again = fit(folder, "t.csv", "m", "--resume")
    assert run(*again)[0] == 0
    for more, said in (
        (["--label", "work"], "label = 'ill', this fit has 'work'"),
        (["--person", "home"], "person = none, this fit has 'home'"),
        (["--row-norm", 3], "row_norm = "),
        (["--epsilon", 6], "epsilon = 5.0, this fit has 6.0"),
        (["--classes", "yes", "no"], "classes = none, this fit has ['yes', 'no']"),
        (["--names", "t.csv"], "--names: leave it out with --schema"),
    ):
        assert said in refused(*again, *more)
    assert "nothing was spent" in run(*again)[1]


def test_a_finished_fit_to_a_matrix_is_not_the_answer_to_other_names_or_classes(run, refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", np.eye(40))
    np.save("y.npy", np.arange(40) % 2)
    again = "fit blr X.npy --label y.npy --row-norm 1 --epsilon 5 --delta 1e-6 --out m --resume --classes 0".split()
    assert run(*again, 1)[0] == 0
    (tmp_path / "names.txt").write_text("\n".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"))
    assert "names unlike this fit's" in refused(*again, 1, "--names", "names.txt")
    assert "classes = ['0', '1'], this fit has ['0', '2']" in refused(*again, 2)
    assert "nothing was spent" in run(*again, 1)[1]


def test_a_table_of_another_encoding(run, refused, folder):
    """Fit, shards, template and new rows; the message names the option."""
    (folder / "s.toml").write_text(SCHEMA.replace("private", "privé"), encoding="utf-8")
    text = (folder / "t.csv").read_text().replace("private", "privé")
    (folder / "old.csv").write_text(text.replace("note", "nôte"), encoding="cp1252")
    shard = ["shard", folder / "old.csv", folder / "sh", "--schema", folder / "s.toml", "--label", "ill"]
    for argv in (fit(folder, "old.csv", "m"), ["schema", folder / "old.csv"], shard):
        said = refused(*argv)
        assert "not utf-8 text; expected another --encoding, such as cp1252" in said
        code, out, _ = run(*argv, "--encoding", "cp1252")
        assert code == 0 and (argv[0] != "schema" or '"nôte"' in out)
    assert run("predict", folder / "m", folder / "old.csv", "--encoding", "cp1252")[0] == 0


def test_more_than_two_classes(run, folder):
    """The schema's values are the classes, each with its coefficients."""
    three = SCHEMA.replace('kind = "binary"', 'kind = "category"').replace('"yes"]', '"yes", "?"]')
    (folder / "s.toml").write_text(three)
    code, text, _ = run(*fit(folder, "t.csv", "m", "--transcript", folder / "kept"))
    assert code == 0 and "yes: age" in text
    rows = (folder / "m" / "coefficients.csv").read_text().splitlines()
    assert rows[0].startswith("class,feature,mean,low_90,high_90,change,log_odds") and len(rows) == 1 + 3 * 4
    assert [row.partition(",")[0] for row in rows[1::4]] == ["no", "yes", "?"]  # as the schema has them
    assert run("predict", folder / "m", folder / "t.csv")[1].startswith("p(?),p(no),p(yes)\n")
    code, text, _ = run("verify", folder / "m", "--transcript", folder / "kept")
    assert code == 0 and "equal   coefficients.csv" in text


def test_a_template_has_names_and_no_values(run, folder):
    code, draft, _ = run("schema", folder / "t.csv")
    assert code == 0 and "zq7351" not in draft and "private" not in draft and '[columns."home"]' in draft
    assert run("schema", folder / "t.parquet")[1] == draft


def of_input(error):
    """What is said of the input: without warnings of effects that this noise happens to hide."""
    return "".join(line for line in error.splitlines(True) if "warning: effects: " not in line)


def test_dropped_records_are_announced_by_public_facts_alone(capsys, folder):
    """A decimal comma makes all of them invalid, or none: what is said is the same."""
    table = pandas.read_csv(folder / "t.csv")
    table.to_csv(folder / "comma.csv", index=False, decimal=",")
    said = {}
    for name in ("t.csv", "comma.csv"):
        more = ("--invalid", "drop", "--records", N, "--anyway", "--force")
        code = main([str(one) for one in fit(folder, name, "m", *more)])
        lines = capsys.readouterr().err.splitlines()
        said[name] = code, [line for line in lines if not line.startswith("vips-fast: warning: effects: ")]
    assert said["t.csv"] == said["comma.csv"]
    (line,) = [line for line in said["t.csv"][1] if "--invalid drop" in line]
    assert "how many" not in line and "numbers in age need a decimal point" in line
    (folder / "s.toml").write_text(SCHEMA.replace("high = 100", 'high = 100\ndecimal = ","'))
    assert main([str(one) for one in fit(folder, "t.csv", "m", *more)]) == 0
    assert "decimal" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "decimal, text", [(".", "with a decimal point; give the column decimal"), (",", "units and blanks of thousands")]
)
def test_a_number_that_is_refused_says_the_decimal_mark(refused, folder, decimal, text):
    (folder / "s.toml").write_text(SCHEMA.replace("high = 100", f'high = 100\ndecimal = "{decimal}"'))
    (folder / "bad.csv").write_text("home,ill,work,age\n1,yes,state,7~1\n")
    assert text in refused(*fit(folder, "bad.csv", "m"))


def test_a_schema_with_its_label_reads_new_rows_and_labelled_ones(run, refused, folder):
    assert run(*fit(folder, "t.csv", "m"))[0] == 0
    table = pandas.read_csv(folder / "t.csv")
    table.drop(columns="ill").to_csv(folder / "new.csv", index=False)
    known = run("predict", folder / "m", folder / "t.csv")
    for name in ("t.csv", "new.csv"):
        assert run("predict", folder / "m", folder / name, "--schema", folder / "s.toml") == known
    (folder / "na.csv").write_text("work,age\nstate,\n")  # predict has no --invalid
    assert "a missing value; drop such records, or give" in refused("predict", folder / "m", folder / "na.csv")
    with pytest.raises(ValueError, match=r"if it is a label, leave it out: schema.without\('ill'\)"):
        ColumnEncoder(folder / "s.toml").fit(pandas.read_csv(folder / "new.csv"))


@pytest.mark.parametrize("row", ("1,yes,state,NA,x", "1,yes,NA,5,x", "1,NA,state,5,x"))
def test_rs_mark_of_missing_values_is_named_for_any_refused_cell(run, refused, folder, row):
    (folder / "na.csv").write_text((folder / "t.csv").read_text() + row + "\n")
    assert 'such as R\'s NA, belongs in the schema\'s nulls = ["", "NA"]' in refused(*fit(folder, "na.csv", "m"))
    (folder / "s.toml").write_text(
        'nulls = ["NA"]\n' + SCHEMA.replace('number"', 'number"\ncenter = 50').replace("kind", 'missing = "fill"\nkind')
    )
    assert run(*fit(folder, "na.csv", "m"))[0] == (0 if ",NA,state" not in row else 2)


def test_a_column_of_persons_that_repeats_is_told(run, folder):
    """data/test_frames.py has other tables, and what is no person's column."""
    table = pandas.read_csv(folder / "t.csv").rename(columns={"home": "household no"})
    for name, frame in (("many", table), ("one", table.assign(**{"household no": np.arange(N)}))):
        frame.to_csv(folder / f"{name}.csv", index=False)
    told = "vips-fast: warning: column 'household no' repeats: rows of one person? give --person 'household no'\n"
    assert of_input(run(*fit(folder, "many.csv", "a"))[2]) == told
    assert of_input(run(*fit(folder, "one.csv", "b"))[2]) == ""
    assert of_input(run(*fit(folder, "many.csv", "c", "--person", "household no"))[2]) == ""
