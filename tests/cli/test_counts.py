"""Test ``fit counts``. Rate ratios of a table's columns, in their own units."""

import csv

import numpy as np
import pandas
import pytest
from surveys import SCHEMA as SURVEY

from vips_fast import CountRegression
from vips_fast.cli.arguments import FitCounts
from vips_fast.cli.signature import in_options

SCHEMA = SURVEY.partition("[columns.region]")[0] + '[columns.visits]\nkind = "number"\nlow = 0\nhigh = 15\n'
DAYS = '[columns.days]\nkind = "number"\nlow = 0\nhigh = 365\n'


@pytest.fixture
def fit(tmp_path):
    """Write a table and its schema; make the command."""
    rng = np.random.default_rng(0)
    n = 6000
    table = pandas.DataFrame(
        {"age": rng.integers(18, 91, n), "sex": rng.choice(["woman", "man"], n), "smoker": rng.choice(["no", "yes"], n)}
    )
    rate = np.exp(0.02 * (table["age"] - 50) + 0.4 * (table["smoker"] == "yes"))
    table["visits"] = rng.poisson(rate * rng.gamma(2, 0.5, n))
    table["days"] = np.where(table["smoker"] == "yes", 73, 365)

    def made(*more, exposed=False, **cells):
        for name, cell in cells.items():
            table[name] = table[name].astype(object)
            table.loc[7, name] = cell
        table.to_csv(tmp_path / "t.csv", index=False)
        (tmp_path / "s.toml").write_text(SCHEMA + DAYS * exposed)
        named = ["--schema", tmp_path / "s.toml", "--label", "visits", "--out", tmp_path / "m", "--quiet"]
        return ["fit", "counts", tmp_path / "t.csv", *named, *more]

    return made


def test_rate_ratios_in_the_columns_units(run, fit, tmp_path):
    """In the text, the file, `show` and the report. With the largest count of the schema."""
    code, text, _ = run(*fit("--epsilon", 4))
    assert code == 0 and "Mean of the counts, cut at 15 (visits): rate ratio and 90 % interval" in text
    assert text.startswith("Verdict: useful. In a release, the columns predict the counts ") and "age +1" in text
    model = CountRegression.load(tmp_path / "m")
    with open(tmp_path / "m" / "coefficients.csv", newline="") as file:
        found = {row["feature"]: row for row in csv.DictReader(file)}
    assert model.largest == 15 and float(found["age"]["rate_ratio_low_90"]) > 1
    for one in model.effects():
        row = found[one.name]
        assert row["class"] == "count" and float(row["log_rate"]) == pytest.approx(one.log_ratio.mean, rel=1e-5)
        assert float(row["rate_ratio"]) == pytest.approx(one.ratio.mean, rel=1e-5)
    assert "Mean of the counts, cut at 15 (visits): rate ratio" in " ".join(run("show", tmp_path / "m")[1].split())
    assert run("show", tmp_path / "m", "--out", tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "log rate" in page and "rate ratio" in page and "odds ratio" not in page


def test_a_bound_that_cuts_is_named_by_its_flag(run, fit, tmp_path):
    """Printed, shown and shown in full; a column of that name stays a column."""
    command = fit("--epsilon", 8, "--largest", 1)
    schema = (tmp_path / "s.toml").read_text().replace("[columns.sex]", "[columns.largest]")
    (tmp_path / "s.toml").write_text(schema)
    (tmp_path / "t.csv").write_text((tmp_path / "t.csv").read_text().replace("sex", "largest"))
    _, text, err = run(*command)
    for out in (text + err, run("show", tmp_path / "m")[1]):
        assert out.count("--largest 1: about") == 1  # a warning is not printed again
        assert "largest=1" not in out and "largest man instead of woman" in out
    table = in_options(FitCounts, "largest=1, unlike largest=man and smoker=yes", ("largest=man",))
    assert table == "--largest 1, unlike largest=man and smoker=yes"


def test_rates_for_one_unit_of_exposure(run, fit, tmp_path):
    """Smokers are seen for a fifth of the year: they have 5 exp(0.4) times the visits a day, and the schema's bound."""
    code, text, _ = run(*fit("--epsilon", 4, "--exposure", "days", exposed=True))
    assert code == 0 and "Counts for one unit of exposure, cut at 15 (visits): rate ratio" in text
    model = CountRegression.load(tmp_path / "m")
    assert model.largest_exposure == 365 and "days" not in model.inputs_["schema.toml"]
    with open(tmp_path / "m" / "coefficients.csv", newline="") as file:
        found = {row["feature"]: row for row in csv.DictReader(file)}
    middle, high = (float(found["smoker=yes"][f"log_rate{end}"]) for end in ("", "_high_90"))
    assert abs(middle - 0.4 - np.log(5)) < 3.1 * (high - middle)


def test_a_bound_that_is_left_out_is_another_question(run, refused, fit):
    """Also where the schema has the same bound: the data may be read by it no more."""
    bounds = {"largest": 15, "largest-exposure": 365, "row-norm": 2}
    told = {name: [f"--{name}", bound] for name, bound in bounds.items()}
    command = fit("--epsilon", 4, "--exposure", "days", "--resume", exposed=True)
    assert run(*command, *sum(told.values(), []))[0] == 0
    for name in bounds:
        said = refused(*command, *sum((told[other] for other in bounds if other != name), []))
        assert f"with {name.replace('-', '_')} = " in said


@pytest.mark.parametrize("from_file", [False, True])
def test_bad_exposures(run, refused, fit, tmp_path, from_file):
    """One line that names the option or the column, and with --invalid drop a record that contributes nothing."""
    for cell in (0, -3, 366, "", "soon"):
        command = fit("--epsilon", 4, "--exposure", "days", exposed=True, days=cell)
        if from_file:
            table = pandas.read_csv(tmp_path / "t.csv", keep_default_na=False)
            np.save(tmp_path / "X.npy", table[["age"]].to_numpy() / 100)
            for name in ("days", "visits"):
                (tmp_path / name).write_text("\n".join(map(str, table[name])))
            named = ["--label", tmp_path / "visits", "--exposure", tmp_path / "days", "--largest-exposure", 365]
            command = ["fit", "counts", tmp_path / "X.npy", "--epsilon", 4, *named, "--out", tmp_path / "m", "--quiet"]
        said = refused(*command)
        told = "--exposure: expected numbers above 0, at most --largest-exposure 365; leave other records out by"
        assert told in said or "days" in said
        assert not (tmp_path / "m").exists()
        if cell in (366, "soon"):
            code, _, err = run(*command, "--invalid", "drop", "--records", 6000, "--out", tmp_path / f"m-{cell}")
            assert code == 0, err


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--exposure", "visits"), "--label, --exposure, --person: expected another column for each"),
        (("--exposure", "smoker"), "column 'smoker': kind='binary': expected number"),
        (("--largest-exposure", 9), "--largest-exposure 9.0: leave it out without exposure"),
        (("--exposure", "days", "--largest-exposure", 0), "--largest-exposure: '0': expected a finite number above 0"),
    ],
)
def test_exposures_that_are_misnamed(refused, fit, tmp_path, more, text):
    assert text in refused(*fit("--epsilon", 4, *more, exposed=True)) and not (tmp_path / "m").exists()
