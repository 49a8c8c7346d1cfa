"""Effects of a logistic regression: outcomes, units, marginal effects and calibration."""

import csv
import io
import re
import warnings

import numpy as np
import pytest
from scipy.special import expit

from vips_fast import BayesianLogisticRegression
from vips_fast.data import Schema
from vips_fast.jobs import beside
from vips_fast.models.forecast import HopelessWarning
from vips_fast.models.logistic.forecast import forecast, half_width
from vips_fast.report import part_of

SCHEMA = Schema.parse("""[columns.age]
kind = "number"
low = 20
high = 80
missing = "flag"
[columns.amount]
kind = "number"
low = 0
high = 4
centered = false
[columns.work]
kind = "category"
values = ["state", "private", "none"]
unknown = "flag"
reference = "private"
[columns.smoker]
kind = "binary"
values = ["no", "yes"]
""")
NAMES = ["age", "age=?", "amount", "work=state", "work=private", "work=none", "work=*", "smoker=yes"]


def encoded(n=4000):
    rng = np.random.default_rng(0)
    cells = {
        "age": rng.uniform(20, 80, n).tolist(),
        "amount": rng.uniform(0, 4, n).tolist(),
        "work": rng.choice(["state", "private", "none", "x"], n).tolist(),
        "smoker": rng.choice(["no", "yes"], n).tolist(),
    }
    cells["age"][:200] = [None] * 200
    X = SCHEMA.encode(cells)
    logit = X @ np.array([1.5, 0.3, 1.0, 0.2, 0.7, -0.4, 0.0, 0.8]) - 1.0
    return X, np.where(rng.random(n) < expit(logit), "ill", "well"), logit


def fitted(classes=("well", "ill"), **settings):
    X, y, _ = encoded()
    model = BayesianLogisticRegression(private=False, n_steps=40, classes=classes, **settings)
    return model.fit(X, y, inputs={"schema.toml": SCHEMA.to_toml()})


def test_changes_are_in_the_columns_units():
    base = {"age": 50, "amount": 1, "work": "private", "smoker": "no"}
    after = {0: {"age": 51}, 1: {"age": None}, 2: {"amount": 2}, 3: {"work": "state"}, 5: {"work": "none"}}
    after |= {6: {"work": "abroad"}, 7: {"smoker": "yes"}}
    assert list(SCHEMA.feature_names) == NAMES

    def row(cells):
        return SCHEMA.encode({name: [cell] for name, cell in cells.items()}).toarray()[0]

    for j, change in enumerate(SCHEMA.changes):
        moved = np.zeros(len(NAMES))
        for place, weight in change.weights:
            moved[place] += weight
        assert bool(change.text) == (j != 4)
        if j in after:
            np.testing.assert_allclose(row({**base, **after[j]}) - row(base), moved, atol=1e-12)
    texts = ["+1", "missing instead of 50", "+1", "state instead of private", "", "none instead of private"]
    assert [c.text for c in SCHEMA.changes] == [*texts, "another value instead of private", "yes instead of no"]


def test_the_outcome_is_the_second_of_the_classes_as_stated():
    """The order of ``classes`` turns effects, and nothing that scikit-learn reads."""
    one, other, unstated = fitted(), fitted(("ill", "well")), fitted(None)
    assert (one.outcome_, other.outcome_, unstated.outcome_) == ("ill", "well", "well")
    assert one.classes_.tolist() == other.classes_.tolist() == ["ill", "well"]
    np.testing.assert_array_equal(one.coef_, other.coef_)
    for a, b, c in zip(one.effects(), other.effects(), unstated.effects(), strict=True):
        np.testing.assert_allclose(a.log_ratio, -np.array([b.log_ratio.mean, b.log_ratio.high, b.log_ratio.low]))
        assert b == c and a.outcome == "ill"
    age = one.effects()[0]
    assert age.label == "age +1" and age.column == "age"
    assert [effect.label for effect in one.effects() if not effect.change] == ["work=private"]
    # Encoded numbers have a standard deviation of 1/sqrt(3), but for the missing ones.
    assert age.standard.mean == pytest.approx(30 / 3**0.5 * age.log_ratio.mean, rel=0.05)
    assert age.ratio.low > 1 and age.coefficient.mean == pytest.approx(30 * age.log_ratio.mean)
    narrow = one.effects(0.5)[0]
    assert age.log_ratio.low < narrow.log_ratio.low < narrow.log_ratio.high < age.log_ratio.high
    with pytest.raises(ValueError, match="level=1"):
        one.effects(1)


def test_more_classes_have_effects_each_in_the_stated_order():
    X, _, _ = encoded()
    y = np.random.default_rng(1).choice(["a", "b", "c"], X.shape[0])
    model = BayesianLogisticRegression(private=False, n_steps=3, classes=["c", "a", "b"]).fit(X, y)
    found = model.effects()
    assert [one.outcome for one in found[:: X.shape[1]]] == ["c", "a", "b"] and model.outcome_ is None
    assert found[0].coefficient.mean == model.coef_[2, 0] and found[0].change == "+1" and found[0].name == "x1"
    with pytest.raises(ValueError, match="3 classes: expected a model of two"):
        model.marginal_effects(X)


@pytest.mark.parametrize("one", [0, 1])
def test_a_number_has_an_interval_at_every_door_or_at_none(one):
    """Beside a value whose records have one class: it is too large against another for numbers to be known."""
    rng, n = np.random.default_rng(8), 4000
    cells = {
        "age": rng.uniform(20, 80, n),
        "amount": rng.uniform(0, 4, n),
        "work": rng.choice(["state", "private", "none"], n, p=[0.35, 0.5, 0.15]),
        "smoker": rng.choice(["no", "yes"], n),
    }
    X, work = SCHEMA.encode(cells), cells["work"]
    y = np.where(work == "none", one, rng.random(n) < expit((cells["age"] - 50) / 20)).astype(int)
    model = BayesianLogisticRegression(row_norm=2.0, n_steps=20, noise_multiplier=14.0, delta=1e-6, classes=[0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.set_unsafe(test_key=bytes(32)).fit(X, y, inputs={"schema.toml": SCHEMA.to_toml()})
    age, _, amount, *_ = effects = model.effects()
    assert not age.known and not amount.known and not age.coefficient.known and not amount.coefficient.known
    assert np.isinf(model.credible_interval()[[0, 2]]).all()
    (large,) = (each for each in effects if each.large)
    rows = csv.DictReader(io.StringIO(beside.texts(model)["coefficients.csv"]))
    (row,) = (row for row in rows if row["feature"] == large.name)
    for end in ("low", "high"):
        assert bool(row[f"log_odds_{end}_90"]) == bool(row[f"odds_ratio_{end}_90"]) == ((end == "low") == (one == 1))


@pytest.mark.parametrize("classes", [["ill", "well"], ["well", "ill"], ["a", "b", "c"]])
def test_the_table_for_programs_has_the_models_own_numbers(classes):
    """Of the class that is named: of two classes it may be the one that coefficients are against."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 3))
    y = np.array(classes)[(X @ [2.0, -1.0, 0.5] + rng.logistic(size=3000) > 0.7).astype(int) + (len(classes) > 2)]
    y[:900] = classes[0]
    model = BayesianLogisticRegression(row_norm=2.0, private=False, classes=classes).fit(X, y)
    rows = [*csv.DictReader(io.StringIO(part_of(model).text(model, ["u", "v", "w"])))]
    limits = model.credible_interval().reshape(-1, 3, 2)
    for k, (means, constant) in enumerate(zip(model.coef_, model.intercept_, strict=True)):
        own = rows[4 * k : 4 * k + 4]
        (label,) = {row["class"] for row in own}
        sign = -1 if len(classes) == 2 and label == model.classes_[0] else 1
        assert len(classes) == 2 or label == model.classes_[k]
        assert float(own[0]["mean"]) == pytest.approx(sign * constant, rel=1e-5)
        wanted = np.column_stack([sign * means, np.sort(sign * limits[k], axis=1)])
        for heads in (("mean", "low_90", "high_90"), ("log_odds", "log_odds_low_90", "log_odds_high_90")):
            np.testing.assert_allclose([[float(row[head]) for head in heads] for row in own[1:]], wanted, rtol=1e-5)
    assert len(rows) == 4 * len(model.coef_)


@pytest.mark.parametrize("covariance", ["full", "spherical"])
def test_marginal_effects_are_differences_of_probabilities(covariance):
    """Of each change, as moving the rows themselves makes them. Slopes by a small step."""
    X, y, _ = encoded(1500)
    model = BayesianLogisticRegression(
        n_steps=30, classes=["well", "ill"], covariance=covariance, noise_multiplier=0.5, row_norm=2.0, options=None
    ).fit(X, y, inputs={"schema.toml": SCHEMA.to_toml()})
    found = {name: interval for _, name, _, interval in model.marginal_effects(X)}
    assert "work=private" not in found and len(found) == 7
    rows, w = X.toarray(), -model.coef_[0]
    _, scale = model._rows_of(X)
    logit = -model.decision_function(X)
    for name, on, off in (("smoker=yes", {7: 1}, {7: 0}), ("work=none", {5: 1}, {4: 1})):
        beside = [3, 4, 5, 6] if name.startswith("work") else [7]
        ends = []
        for side in (on, off):
            moved = rows.copy()
            moved[:, beside] = 0
            for place, value in side.items():
                moved[:, place] = value / scale
            ends.append(expit(logit + scale * ((moved - rows) @ w)).mean())
        low, high = found[name].low, found[name].high
        assert found[name].mean == pytest.approx(ends[0] - ends[1], abs=1e-9) and low < found[name].mean < high
    slope = (expit(logit) * (1 - expit(logit))).mean() * w[0] / 30
    assert found["age"].mean == pytest.approx(slope, rel=1e-6)
    with pytest.raises(ValueError, match="X has no rows"):
        model.marginal_effects(X[:0])


@pytest.mark.parametrize("n, epsilon", [(3000, 1.0), (6000, 0.5), (6000, 3.0), (20_000, 0.5)])
def test_a_forecast_is_as_wide_as_intervals_are(n, epsilon):
    """For columns with means of their own, and categories: what the forecast calls a usual table."""
    rng = np.random.default_rng(n)
    age, sex = np.clip(rng.normal(-0.1, 0.45, n), -1, 1), rng.random(n) < 0.4
    ward = np.eye(5)[rng.choice(5, n, p=[0.35, 0.25, 0.2, 0.12, 0.08])][:, 1:]
    X = np.column_stack([age, sex, ward])
    y = rng.random(n) < expit(X @ [1.2, 0.4, 0.3, -0.3, 0.5, 0.2] - 1.2)
    told = []
    model = BayesianLogisticRegression(row_norm=3**0.5, epsilon=epsilon, delta=1e-6, n_jobs=1)
    model.set_unsafe(test_key=b"f" * 32).fit(X, y, on_forecast=told.append)
    sd = np.sqrt(model.covariance_.diagonal())[:2] * X[:, :2].std(axis=0)
    assert 0.4 < 1.645 * sd.mean() * told[0].gain < (1.5 if epsilon >= 1 else 1.8)
    effects = model.effects()
    known = sum(one.known for one in effects)
    said = re.match(r"forecast: (hardly any|some|most) effects?", told[0].text)[1]
    assert {"hardly any": known <= 4, "some": known >= 1, "most": known >= 5}[said], (said, known)


def test_a_forecast_falls_with_records_and_budget_and_warns():
    assert half_width(2000, 10, 0.1) < half_width(1000, 10, 0.1) < half_width(1000, 20, 0.1)
    assert half_width(1e6, 0, 1.0) == pytest.approx(1.645 / np.sqrt(0.2e6))
    assert forecast(100, 30, 1.0, 100.0, 10.0).warning is HopelessWarning
    none, few, some, most = (forecast(n, 10, 1.0, 5.0, 10.0) for n in (2000, 3000, 11_000, 41_000))
    assert "hardly any effect will be known" in none.text and "What helps: 20 times the records" in none.text
    assert "hardly any effect of a usual table will be known; with rows as long as their bound, 1, some" in few.text
    assert "some effects of a usual table will be known, from an odds ratio of about 1." in some.text
    assert not any(one.warning for one in (none, few, some, most))
    # A fit to 300 values of frequencies 1, 1/2, 1/3, ..., of which it promised most, knew every second.
    rare = "a category's value 10 times as rare as the others needs 10 times the records"
    assert f"{rare}, an outcome of 5 % 3 times)" in most.text
    assert f"{rare}, a mean count below 4 more)" in forecast(41_000, 10, 1.0, 5.0, 10.0, 4.0).text
    assert most.text.startswith("forecast: most effects of a usual table will be known") and "helps" not in most.text
    with pytest.warns(HopelessWarning, match="mostly noise"):
        BayesianLogisticRegression(epsilon=0.01, n_steps=2).fit(np.eye(50), np.arange(50) % 2)
