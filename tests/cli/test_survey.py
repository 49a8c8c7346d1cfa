"""A survey through the shell. The outcome is named, effects are in the columns' units, and intervals hold the truth."""

import csv

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression
from surveys import EFFECTS as TRUTH
from surveys import SCHEMA
from surveys import survey as drawn

from vips_fast import BayesianLogisticRegression
from vips_fast.data import Schema
from vips_fast.models.logistic import forecast


def survey(seed, n=6000):
    return pandas.DataFrame(drawn(seed, n))


def fit(folder, table, out="m", *more):
    table.to_csv(folder / "t.csv", index=False)
    (folder / "s.toml").write_text(SCHEMA)
    named = ["--schema", folder / "s.toml", "--label", "state", "--out", folder / out, "--quiet"]
    return ["fit", "blr", folder / "t.csv", *named, "--epsilon", 1, *more]


def effects(folder, out="m"):
    with open(folder / out / "coefficients.csv", newline="") as file:
        return {row["feature"]: row for row in csv.DictReader(file)}


def test_a_survey_fitted_as_the_readme_says(run, tmp_path):
    """With the former norm 1 no interval of age held the truth.

    Its sign was turned.

    Intervals that cover 90 % would hold fewer than two thirds of 48 with a probability below 1e-6.
    """
    hits, agrees = 0, 0
    for seed in range(8):
        table = survey(seed)
        code, text, _ = run(*fit(tmp_path, table, f"m{seed}"))
        assert code == 0 and text.startswith("Verdict: useful.") and "Odds of ill against well (state): " in text
        assert "age +1" in text
        found = effects(tmp_path, f"m{seed}")
        columns = [table["age"], *((table[n.split("=")[0]] == n.split("=")[1]) for n in list(TRUTH)[1:])]
        X = np.column_stack(columns).astype(float)
        plain = LogisticRegression(C=1e6, max_iter=10_000).fit(X, table["state"] == "ill").coef_[0]
        for (name, truth), peer in zip(TRUTH.items(), plain, strict=True):
            low, high = (float(found[name][f"log_odds_{end}_90"]) for end in ("low", "high"))
            hits, agrees = hits + (low <= truth <= high), agrees + (low <= peer <= high)
        assert found["age"]["class"] == "ill" and float(found["age"]["odds_ratio_low_90"]) > 1
    assert hits >= 32 and agrees >= 32, (hits, agrees)


def test_units_reference_and_outcome(run, tmp_path):
    """The file has each effect per unit of its column. It is for the class that the schema has last."""
    code, text, errors = run(*fit(tmp_path, survey(0)))
    # Each of six effects is in one line, and the warning counts as the list does.
    lines = text.splitlines()
    told = sum(int(line.split(": ")[1].split()[0]) for line in lines if " of 6 effects (" in line)
    assert code == 0 and told + sum(line.startswith("  ") and "[" in line for line in lines) == 6, text
    assert ("of 6 at this epsilon" in errors) == ("without interval" in text)
    found, model = effects(tmp_path), BayesianLogisticRegression.load(tmp_path / "m")
    assert model.row_norm == Schema.parse(SCHEMA).without("state").row_norm == 2
    assert (model.classes_.tolist(), model.outcome_) == (["ill", "well"], "ill")
    age, names = found["age"], list(found)[1:]
    assert float(age["log_odds"]) == pytest.approx(float(age["mean"]) / 36, rel=1e-5)
    assert float(age["mean"]) == pytest.approx(-model.coef_[0, 0], rel=1e-5)
    assert float(age["odds_ratio"]) == pytest.approx(np.exp(float(age["log_odds"])), rel=1e-5)
    assert float(age["low_90"]) < float(age["mean"]) < float(age["high_90"])
    south, east = names.index("region=south"), names.index("region=east")
    assert found["region=south"]["change"] == "south instead of east" and found["region=east"]["log_odds"] == ""
    difference = model.coef_[0, east] - model.coef_[0, south]
    assert float(found["region=south"]["log_odds"]) == pytest.approx(difference, rel=1e-4)
    C = model.covariance_
    half = 1.6448536 * np.sqrt(C[east, east] + C[south, south] - 2 * C[east, south])
    assert float(found["region=south"]["log_odds_high_90"]) == pytest.approx(difference + half, rel=1e-4)


def test_the_norm_is_the_schemas_or_stated(run, tmp_path):
    assert run(*fit(tmp_path, survey(0, 500), "m", "--row-norm", 1.5))[0] == 0
    assert BayesianLogisticRegression.load(tmp_path / "m").row_norm == 1.5
    shard = ["shard", tmp_path / "t.csv", tmp_path / "sh", "--schema", tmp_path / "s.toml", "--label", "state"]
    assert run(*shard)[0] == 0
    fitted = ["fit", "blr", tmp_path / "sh", "--epsilon", 1, "--quiet", "--out", tmp_path / "n"]
    assert run(*fitted)[0] == 0
    model = BayesianLogisticRegression.load(tmp_path / "n")
    assert model.row_norm == 2 and model.outcome_ == "ill"


@pytest.mark.parametrize(("n", "epsilon", "text"), [(6000, 1, "odds ratio of about 1.09"), (300, 0.05, "mostly noise")])
def test_the_forecast_is_public_and_refuses_a_hopeless_run(run, tmp_path, monkeypatch, n, epsilon, text):
    """It comes before anything is spent, and depends on no record. Other answers, the same line."""
    monkeypatch.setattr(forecast, "HOPELESS", 1.0)
    argv = [word for word in fit(tmp_path, survey(0, n), "m", "--epsilon", epsilon) if word != "--quiet"]
    said = []
    for seed in (0, 1):
        survey(seed, n).to_csv(tmp_path / "t.csv", index=False)
        code, _, error = run(*argv, "--force")
        said.append([line for line in error.splitlines() if "forecast: " in line])
        assert code == (2 if n == 300 else 0) and (tmp_path / "m").exists() == (n == 6000)
    assert said[0] == said[1] and len(said[0]) == 1 and text in said[0][0]
    if n == 300:
        assert "nothing was spent" in said[0][0] and "--anyway" in said[0][0]
        code, out, error = run(*argv, "--anyway")
        assert code == 0 and "mostly noise" in error and (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("norm", "answers", "text"),
    [
        (1, None, "--row-norm 1: rows are about 1."),
        (2, ["well"], "'ill' occurs in hardly any record"),
        (2, "age", "almost separated by the columns (mostly age)"),
        (2, "smoker", "nearly all records of a value have one class (smoker yes instead of no)"),
        (2, None, None),
    ],
)
def test_releases_tell_of_rows_that_a_regression_cannot_take(run, tmp_path, norm, answers, text):
    """One line with the remedy for rows that a regression cannot take.

    A bound below the rows, a class that does not occur, and separated classes.
    """
    table = survey(0)
    if answers is not None:
        ill = {"age": table["age"] > 60, "smoker": (table["state"] == "ill") | (table["smoker"] == "yes")}
        table["state"] = np.where(ill[answers], "ill", "well") if isinstance(answers, str) else "well"
    argv = list(fit(tmp_path, table, "m", "--row-norm", norm))
    if answers == ["well"]:  # at an epsilon of 1 noise hides whether a class has no record or one of a hundred
        argv[argv.index("--epsilon") + 1] = 8
    code, _, error = run(*argv)
    warned = [line for line in error.splitlines() if "warning" in line]
    assert code == 0 and len(warned) == (text is not None) and (text is None or text in warned[0]), error
    assert text is None or "expected" in warned[0]
