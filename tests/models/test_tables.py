"""Tables of topics. Exact sums, consistent shares, coverage, forecast, files, and bad input."""

import math
import re
import warnings

import numpy as np
import pandas
import pytest
from ball_mean import sums_of

from vips_fast import LatentDirichletAllocation, PrivateTopics, TopicTables
from vips_fast.engine.model import Release
from vips_fast.models import tables
from vips_fast.models.forecast import HopelessWarning
from vips_fast.models.lda import LdaOptions
from vips_fast.models.tables import TableModel
from vips_fast.report import html_report, part_of

WARDS, MONTHS = ["north", "south", "west"], [1, 2, 3, 4, 5, 6]
BY = {"ward": WARDS, "month": MONTHS}


def documents(n=12_000, seed=0, k=5):
    """Proportions, values of two columns, persons; topic 0 grows by the month."""
    rng = np.random.default_rng(seed)
    ward, month, person = rng.integers(0, 3, n), rng.integers(0, 6, n), rng.integers(0, n // 2, n)
    shares = rng.dirichlet(np.full(k, 0.2), n)
    shares = np.where((rng.random(n) < 0.1 * month)[:, None], np.eye(k)[0], shares)
    return shares, {"ward": np.array(WARDS)[ward], "month": np.array(MONTHS)[month]}, person


def weighted(X, y, person, by=BY):
    """Sums over cells without noise, by the definition in plain Python. A weight for each person."""
    tables = [list(by)] if len(by) == 1 else [list(by), *([name] for name in by)]
    weights, known = {}, np.all([np.isin(y[name], values) for name, values in by.items()], axis=0)
    for one in np.unique(person):
        rows = np.flatnonzero((person == one) & known)
        squares = 0
        for table in tables:
            _, counts = np.unique([[str(y[name][row]) for name in table] for row in rows], axis=0, return_counts=True)
            squares += (counts**2).sum()
        weights[one] = 1 / np.sqrt(max(squares / len(tables), 1))
    return np.array([weights[one] for one in person]) * known


def exact(X, y, weight, columns, by=BY):
    out = []
    for group in np.ndindex(*(len(by[name]) for name in columns)):
        inside = np.all([y[name] == by[name][g] for name, g in zip(columns, group, strict=True)], axis=0)
        sums = (X * (weight * inside)[:, None]).sum(axis=0)
        out.append(sums / sums.sum())
    return np.array(out)


def fitted(X, y, person=None, by=BY, **settings):
    """Return a fit with a known key. So no test fails by chance."""
    model = TopicTables(by, **{"epsilon": 2.0, "delta": 1e-6, **settings}).set_unsafe(test_key=bytes(32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HopelessWarning)
        return model.fit(X, y, groups=person)


@pytest.mark.parametrize("columns", [("ward",), ("month",), ("ward", "month")])
def test_without_noise_tables_are_the_weighted_shares(columns):
    X, y, person = documents(2000)
    model = fitted(X, y, person, private=False, epsilon=None)
    weight = weighted(X, y, person)
    np.testing.assert_allclose(model.table(*columns).shares, exact(X, y, weight, columns), atol=1e-5)
    np.testing.assert_allclose(model.table().weights.sum(), weight.sum(), rtol=1e-5)


def test_all_tables_agree_and_rows_sum_to_one():
    X, y, person = documents(600)
    model = fitted(X, y, person, epsilon=0.5)
    whole = model.table()
    assert (whole.shares >= 0).all()
    np.testing.assert_allclose(whole.shares.sum(axis=1), 1.0)
    cells = (whole.weights[:, None] * whole.shares).reshape(3, 6, -1)
    for axis, name in ((1, "ward"), (0, "month")):
        table = model.table(name)
        np.testing.assert_allclose(table.weights[:, None] * table.shares, cells.sum(axis=axis), atol=1e-9)
    other = model.table("month", "ward")
    assert other.groups[1] == (1, "south")
    np.testing.assert_allclose(other.shares.reshape(6, 3, -1), whole.shares.reshape(3, 6, -1).transpose(1, 0, 2))


def test_intervals_have_their_level_and_errors_are_as_forecast():
    X, y, person = documents(1500)
    weight, told = weighted(X, y, person), []
    names = ("ward",), ("month",), ("ward", "month")
    truths = {columns: exact(X, y, weight, columns) for columns in names}
    slope = np.polynomial.polynomial.polyfit(np.arange(6.0), truths["month",], 1)[1]
    inside, trend = {columns: [] for columns in names}, []
    for seed in range(40):
        model = TopicTables(BY, noise_multiplier=1.0).set_unsafe(test_key=bytes([seed]) * 32)
        model.fit(X, y, groups=person, on_forecast=told.append)
        for columns in names:
            table = model.table(*columns)
            inside[columns].append((table.low <= truths[columns]) & (truths[columns] <= table.high))
        found = model.trend("month")
        trend.append((found.low <= slope) & (slope <= found.high))
    for covered in (*inside.values(), trend):
        assert 0.86 < np.mean(covered) < 0.94
    assert "by ward" in told[0].text and "month" in told[0].text and told[0].warning is None


def even_groups():
    n = 1800
    return BY, {"ward": np.array(WARDS)[np.arange(n) % 3], "month": np.array(MONTHS)[np.arange(n) // 3 % 6]}, None


def groups_of_public_shares():
    return {"ward": {"north": 0.7, "south": 0.2, "west": 0.1}}, {"ward": np.repeat(WARDS, [2100, 600, 300])}, None


def persons_in_several_groups():
    """A person in several months moves each of them less. All months together move more."""
    rng, n_persons = np.random.default_rng(1), 1000
    person = np.repeat(np.arange(n_persons), rng.geometric(0.4, n_persons))
    y = {"ward": np.array(WARDS)[person % 3], "month": rng.integers(1, 7, len(person))}
    seen = [len(np.unique(person[y["month"] == month])) / n_persons for month in MONTHS]
    assert sum(seen) > 1.7
    return {"ward": dict.fromkeys(WARDS, 1 / 3), "month": dict(zip(MONTHS, seen, strict=True))}, y, person


@pytest.mark.parametrize("form", [even_groups, groups_of_public_shares, persons_in_several_groups])
def test_the_forecast_is_the_median_error(form, tmp_path):
    by, y, person = form()
    X, told, errors = np.full((len(y["ward"]), 5), 1 / 5), [], {(name,): [] for name in by} | {tuple(by): []}
    for seed in range(40):
        model = TopicTables(by, noise_multiplier=3.0).set_unsafe(test_key=bytes([seed]) * 32)
        model.fit(X, y, groups=person, on_forecast=told.append)
        for columns, found in errors.items():
            found.append(np.abs(model.table(*columns).shares - 1 / 5))
    said = [float(one.rpartition(" ")[2]) for one in told[0].text.partition("by ")[2].rstrip(".").split(", ")]
    np.testing.assert_allclose(said, [100 * float(np.median(found)) for found in errors.values()], rtol=0.15)
    model.save(tmp_path / "model")
    assert TopicTables.load(tmp_path / "model").by == by


def test_bounds_at_zero_draw_no_large_share_down():
    rng, k, n = np.random.default_rng(0), 100, 3000
    X = 0.2 * np.eye(k)[0] + 0.8 * rng.dirichlet(np.full(k, 0.05), n)
    by = {"unit": [*range(7)], "month": MONTHS}
    y = {"unit": rng.integers(0, 7, n), "month": rng.integers(1, 7, n)}
    shares, outside = [], []
    for seed in range(3):
        model = TopicTables(by, noise_multiplier=8.0).set_unsafe(test_key=bytes([seed]) * 32).fit(X, y)
        table = model.table("month")
        shares.append(table.shares[:, 0])
        outside.append((table.shares[:, 0] < table.low[:, 0]) | (table.shares[:, 0] > table.high[:, 0]))
    assert np.mean(outside) < 0.1
    # The mean over fixed keys is near the truth; without scaling it is 0.15.
    assert 0.18 < np.mean(shares) < 0.22


def test_a_planted_trend_is_found_and_cells_that_noise_hides_are_empty():
    X, y, person = documents()
    model = fitted(X, y, person, epsilon=1.0)
    found = model.trend("month")
    assert found.low[0] > 0.04 and (found.estimate[1:] < 0).all()
    page = html_report(model)
    assert "Topic 1 by month" in page and "Topic 5 by ward" in page and len(page) < 60_000
    difference = model.contrast("ward", [-1, 0, 1])
    assert ((difference.low < 0.05) & (difference.high > -0.05)).all()
    few = fitted(X[:60], {name: column[:60] for name, column in y.items()}, epsilon=0.5)
    table = few.table()
    assert not table.readable.any()
    rows = few.rows()
    assert rows[0] == ["ward", "month", "topic", "share", "low", "high"]
    assert rows[1] == ["north", 1, "1", None, None, None] and len(rows) == 1 + (18 + 3 + 6) * 5
    page = html_report(few)
    assert "What was learned" in page and "by month" not in page and "by ward" not in page
    assert part_of(few).shown(few, None).count(": cannot tell\n") == 3 + 6
    # Intervals of all cells together are wider than each for itself; none of more than 20 points is shown.
    some = fitted(X[:600], {name: column[:600] for name, column in y.items()}, epsilon=1.0)
    assert some.table("month").readable.any()
    shown = re.findall(r"\((.*)% to (.*)%\)", part_of(some).shown(some, None))
    assert all(float(high) - float(low) <= 20.1 for low, high in shown)


def test_noise_alone_seldom_grows_or_falls():
    """A fixed set of keys. Of 60 tables without a trend, 6 may have one; a binomial passes 16 with probability 1e-4."""
    X, y, _ = documents(3000)
    X, wrong = np.full_like(X, 0.2), 0
    for seed in range(60):
        model = TopicTables({"month": MONTHS}, noise_multiplier=4.0).set_unsafe(test_key=bytes([seed]) * 32)
        learned = part_of(model.fit(X, {"month": y["month"]})).learned(model, None, 10)
        wrong += any(group.note.startswith(("Grows", "Falls")) for group in learned.groups)
    assert wrong <= 16


def test_a_record_with_a_value_that_is_not_public_contributes_nothing():
    X, y, _ = documents(500)
    more = {
        "ward": np.append(y["ward"], ["east", None, WARDS[1]]),
        "month": np.append(y["month"].astype(object), [MONTHS[1], MONTHS[2], "none"]),
    }
    fits = [
        TopicTables(BY, noise_multiplier=1.0, n_records=500, options={"invalid": "drop"})
        .set_unsafe(test_key=bytes(32))
        .fit(*data)
        for data in ((X, y), (np.vstack([X, X[:3]]), more))
    ]
    np.testing.assert_array_equal(*(model.table().shares for model in fits))
    with pytest.raises(ValueError, match=r"y: record 501, column 'ward': not one of the public values, '") as refused:
        TopicTables(BY, noise_multiplier=1.0).fit(np.vstack([X, X[:3]]), more)
    assert "east" not in str(refused.value)


@pytest.mark.parametrize(
    "cells",
    (
        ["2025", "2026"],
        [" 2025 ", "2026.0"],
        np.array([2025.0, 2026.0]),
        pandas.array([2025, 2026], dtype="Int64"),
        pandas.Categorical([2025, 2026], categories=[2026, 1, 2025]),
    ),
)
def test_a_cell_is_its_value_whatever_type_it_comes_in(cells):
    """A year is a number in one file, and a text or a float in another."""
    for by in ([2025, 2026], ["2025", "2026"]):
        tables = TopicTables({"year": by}, private=False).fit(np.eye(2), pandas.DataFrame({"year": cells}))
        np.testing.assert_allclose(tables.table("year").shares, np.eye(2), atol=1e-6)
    months = pandas.period_range("2025-11", periods=2, freq="M")
    tables = TopicTables({"month": ["2025-11", "2025-12"]}, private=False).fit(np.eye(2), {"month": months})
    np.testing.assert_allclose(tables.table("month").shares, np.eye(2), atol=1e-6)
    with pytest.raises(ValueError, match="record 2, column 'year': a missing value; fill it in"):
        TopicTables({"year": [2025]}, private=False).fit(np.eye(2), {"year": [2025, None]})
    with pytest.raises(ValueError, match="by: 'year' has"):
        TopicTables({"year": [2025, "2025"]}, private=False).fit(np.eye(2), {"year": [2025, 2025]})


@pytest.mark.parametrize("kind", ("tables", "topics"))
def test_the_target_of_a_later_fit_is_its_own_and_the_statement_gives_the_sum(kind):
    """Also far below what the model before it has spent."""
    counts = np.random.default_rng(0).poisson(0.6, (400, 12))
    plain = {"doc_length": 10, "delta": 1e-6, "options": LdaOptions(measure_gain=False)}
    topics = LatentDirichletAllocation(3, epsilon=4.0, n_steps=3, **plain).fit(counts)
    wards, how = np.array(WARDS)[np.arange(400) % 3], {"delta": 1e-6, "epsilon": 0.5}

    def fitted(**before):
        if kind == "tables":
            return TopicTables({"ward": WARDS}, **how).fit(topics.transform(counts), wards, **before)
        return LatentDirichletAllocation(2, n_steps=3, epsilon=0.5, **plain).fit(counts, **before)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone, later = fitted(), fitted(after=topics)
    noise = [one.ledger_.plans[-1]["noise_multiplier"] for one in (alone, later)]
    assert noise[0] == noise[1]
    assert max(topics.privacy_.epsilon, alone.privacy_.epsilon) < later.privacy_.epsilon
    assert later.privacy_.epsilon <= topics.privacy_.epsilon + alone.privacy_.epsilon
    assert ", for this fit and each earlier one that it includes (" in later.privacy_.statement()
    with pytest.raises(TypeError, match="after: PrivateTopics; expected a fitted model, such as the model_ of"):
        fitted(after=PrivateTopics())


def test_a_run_whose_noise_hides_every_topic_is_warned_of():
    X, y, _ = documents(60)
    with pytest.warns(HopelessWarning, match="Use fewer groups"):
        TopicTables(BY, epsilon=0.1).fit(X, y)


def test_topics_have_the_names_of_the_fit_in_every_form(tmp_path):
    X, y, _ = documents(4000, k=2)
    inputs = {"columns.txt": "parking, cars\nnoise\n"}
    model = TopicTables(BY, epsilon=4.0).fit(X, y, inputs=inputs)
    assert "Parking, cars by month" in html_report(model)
    model.save(tmp_path / "model")
    again = TopicTables.load(tmp_path / "model")
    assert again.rows() == model.rows() and {row[2] for row in again.rows()[1:]} == {"parking, cars", "noise"}
    with pytest.raises(ValueError, match="columns.txt has 1 names"):
        TopicTables(BY, epsilon=4.0).fit(X, y, inputs={"columns.txt": "one\n"})


def test_several_steps_are_averaged_and_their_noise_too():
    model, rng = TableModel((3,), 2), np.random.default_rng(0)
    releases = [Release(step, rng.integers(-99, 99, model.shape), 0.01, 0.5) for step in range(4)]
    for release in releases:
        model.update(release)
    found = model.result()
    np.testing.assert_allclose(found["sums"], np.mean([release.values for release in releases], axis=0))
    np.testing.assert_allclose(found["noise_sd"], 0.25)


def hostile(rng):
    """Proportions whose sums are 1 but for rounding, or a little above, and whose entries no lattice holds."""
    k = 8
    ones, tiny = np.eye(k)[rng.integers(0, k, 20)], rng.choice([1e-9, 1e-8, 2.0**-25, 3e-7], (20, k))
    spread = ones * (1 - tiny.sum(axis=1, keepdims=True)) + tiny
    equal = np.full((20, k), 1 / k)
    mixed = rng.dirichlet(np.full(k, 0.3), 20)
    rows = np.concatenate([ones, spread, equal, mixed])
    return np.concatenate([rows, rows * (1 + 9e-7)])


def test_no_rounding_raises_a_norm():
    """No row's sum of proportions is above 1, and no contribution is longer than the clip."""
    rng = np.random.default_rng(0)
    X = np.repeat(hostile(rng), 2, axis=0)
    wards, months = (rng.integers(0, size, len(X)) for size in (3, 4))
    by = {"ward": [0, 1, 2], "month": [0, 1, 2, 3]}
    people = {"documents": None, "some": rng.integers(0, 60, len(X)), "many": rng.integers(0, 10, len(X))}
    for z, groups in [(z, groups) for z in (1.0, 2.9, 40.0) for groups in people.values()]:
        model = TopicTables(by, noise_multiplier=z, delta=1e-5)
        stage = model.prepare(X, np.column_stack([wards, months]), groups=groups)
        assert (model._read(X, np.column_stack([wards, months]))[0].array[:, :8].sum(axis=1) <= tables.GRID).all()
        stage.model.prepare(stage.plan.mechanism, stage.plan.sampler)
        limit = math.floor((stage.model.clip / stage.plan.mechanism.spacing) ** 2)
        for unit in range(stage.records.n_rows):
            out = sums_of(stage.model, stage.records, [unit])
            assert sum(entry * entry for entry in out[out != 0].tolist()) <= limit
