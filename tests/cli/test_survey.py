"""A survey through the shell: the outcome is named, effects are in the columns' units, bounds are the schema's.

tests/models/test_logistic_effects.py and test_logistic_coverage.py have what the numbers are.
"""

import csv

import pandas
import pytest
from surveys import SCHEMA
from surveys import survey as drawn

from vips_fast import BayesianLogisticRegression
from vips_fast.models.logistic import forecast


def survey(seed, n=6000):
    return pandas.DataFrame(drawn(seed, n))


def fit(folder, table, *more):
    table.to_csv(folder / "t.csv", index=False)
    (folder / "s.toml").write_text(SCHEMA)
    named = ["--schema", folder / "s.toml", "--label", "state", "--out", folder / "m", "--quiet"]
    return ["fit", "blr", folder / "t.csv", *named, "--epsilon", 1, *more]


def test_what_is_printed_and_written_are_the_effects_of_the_model(run, tmp_path):
    """For the class that the schema has last."""
    code, text, errors = run(*fit(tmp_path, survey(0)))
    assert code == 0 and text.startswith("Verdict: useful.") and "age +1" in text
    assert "Odds of ill against well (state): " in text
    # Each of six effects is in one line, and the warning counts as the list does.
    lines = text.splitlines()
    told = sum(int(line.split(": ")[1].split()[0]) for line in lines if " of 6 effects (" in line)
    assert told + sum(line.startswith("  ") and "[" in line for line in lines) == 6, text
    assert ("of 6, so they have" in errors) == ("without interval" in text)
    model = BayesianLogisticRegression.load(tmp_path / "m")
    assert (model.classes_.tolist(), model.outcome_, model.row_norm) == (["ill", "well"], "ill", 2)
    with open(tmp_path / "m" / "coefficients.csv", newline="") as file:
        _, *found = csv.DictReader(file)
    for row, one in zip(found, model.effects(), strict=True):
        assert (row["class"], row["feature"], row["change"]) == ("ill", one.name, one.change)
        numbers = [*one.coefficient, *((*one.log_ratio, *one.ratio) if one.change else ())]
        names = [f"{name}{end}" for name in ("log_odds", "odds_ratio") for end in ("", "_low_90", "_high_90")]
        for name, number in zip(["mean", "low_90", "high_90", *names], numbers, strict=False):
            assert row[name] == "" or float(row[name]) == pytest.approx(number, rel=1e-5)
        assert bool(row["log_odds"]) == bool(one.change) and (row["known"] == "yes") == bool(one.change and one.known)


def test_the_norm_is_the_schemas_or_stated(run, tmp_path):
    assert run(*fit(tmp_path, survey(0, 500), "--row-norm", 1.5))[0] == 0
    assert BayesianLogisticRegression.load(tmp_path / "m").row_norm == 1.5
    shard = ["shard", tmp_path / "t.csv", tmp_path / "sh", "--schema", tmp_path / "s.toml", "--label", "state"]
    assert run(*shard)[0] == 0
    fitted = ["fit", "blr", tmp_path / "sh", "--epsilon", 1, "--quiet", "--out", tmp_path / "n"]
    assert run(*fitted)[0] == 0
    model = BayesianLogisticRegression.load(tmp_path / "n")
    assert model.row_norm == 2 and model.outcome_ == "ill"


@pytest.mark.parametrize(("n", "epsilon", "text"), [(6000, 1, "odds ratio of about 1.09"), (300, 0.05, "mostly noise")])
def test_the_forecast_depends_on_no_record(run, tmp_path, monkeypatch, n, epsilon, text):
    """Other answers, the same line. That a hopeless one is refused is in test_forecast.py, for every family."""
    monkeypatch.setattr(forecast, "HOPELESS", 1.0)
    said = []
    for seed in (0, 1):
        argv = fit(tmp_path, survey(seed, n), "--epsilon", epsilon, "--force")
        code, _, error = run(*(word for word in argv if word != "--quiet"))
        said.append([line for line in error.splitlines() if "forecast: " in line])
        assert code == (2 if n == 300 else 0) and (tmp_path / "m").exists() == (n == 6000)
    assert said[0] == said[1] and len(said[0]) == 1 and text in said[0][0]


@pytest.mark.parametrize(
    ("norm", "answers", "text"),
    [
        (1, lambda table: table["state"], "--row-norm 1: rows are 1."),
        (2, lambda table: table["state"].where(table["smoker"] != "yes", "ill"), "(smoker yes instead of no)"),
        (2, lambda table: table["state"], None),
    ],
)
def test_releases_tell_of_rows_that_a_regression_cannot_take(run, tmp_path, norm, answers, text):
    """One line with the remedy, and none without need; models/test_logistic_effects.py has what there is to tell."""
    table = survey(0)
    table["state"] = answers(table)
    code, _, error = run(*fit(tmp_path, table, "--row-norm", norm))
    warned = [line for line in error.splitlines() if "warning" in line]
    assert code == 0 and len(warned) == (text is not None) and (text is None or text in warned[0]), error
    assert text is None or "expected" in warned[0]
