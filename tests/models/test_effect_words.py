"""What a regression says of its effects: words, intervals and table never contradict one another."""

import math
import re

import numpy as np
import pytest
from scipy.special import expit

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.data import Schema
from vips_fast.models.logistic.effects import Effect, Interval, Told, reading
from vips_fast.report import html_report, make_dossier, part_of, short_report
from vips_fast.report.parts.coefficients import effect_lines

SCHEMA = Schema.parse("""[columns.age]
kind = "number"
low = 20
high = 80
missing = "flag"
[columns.income]
kind = "number"
low = 0
high = 200000
centered = false
[columns.smoker]
kind = "binary"
values = ["no", "yes"]
[columns.ward]
kind = "category"
values = ["a", "b", "c"]
""")


def rows(rng, n):
    cells = {
        "age": [None if rng.random() < 0.1 else age for age in rng.normal(52, 12, n).tolist()],
        "income": rng.lognormal(10.3, 0.7, n).tolist(),
        "smoker": rng.choice(["no", "yes"], n, p=[0.7, 0.3]).tolist(),
        "ward": rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1]).tolist(),
    }
    return SCHEMA.encode(cells)


def fitted(seed):
    """A small fit of one of many designs: two, three or an absent class, counts, a schema or none, ε of .2 to 200."""
    rng = np.random.default_rng(seed)
    n, epsilon = int(rng.choice([200, 600, 2000])), float(np.exp(rng.uniform(np.log(0.2), np.log(200))))
    table = seed % 2 == 0
    X = rows(rng, n) if table else rng.uniform(-1, 1, (n, int(rng.integers(1, 7))))
    w = rng.normal(size=X.shape[1]) * rng.choice([0.0, 0.5, 2.0])
    logits = X @ w - rng.choice([0.0, 2.0])
    more = dict(row_norm=SCHEMA.row_norm if table else X.shape[1] ** 0.5, delta=1e-5, n_jobs=1, epsilon=epsilon)
    kind = seed % 5
    if kind == 0:
        model, y = CountRegression(largest=10, **more), rng.poisson(np.exp(np.clip(logits, -3, 2)))
    elif kind == 1:
        y = np.argmax(np.column_stack([logits, np.zeros(n), -logits]) + rng.gumbel(size=(n, 3)), axis=1)
        model = BayesianLogisticRegression(classes=[0, 1, 2, 3][: 3 + seed % 2], **more)
    else:
        y = (rng.random(n) < expit(logits)).astype(int) if kind != 2 or seed % 3 else np.zeros(n, int)
        model = BayesianLogisticRegression(classes=[0, 1], **more)
    inputs = {"schema.toml": SCHEMA.to_toml()} if table else None
    return model.set_unsafe(test_key=seed.to_bytes(32)).fit(X, y, inputs=inputs)


def check(model, page):
    told, verdict, names = Told.of(model), model.verdict_, model.effects()
    every = [one for one in names if one.change and one.outcome not in told.absent]
    lines = effect_lines(model, [one.name for one in names][: model.n_features_in_], most=None)
    listed = [line for line in lines if line.startswith("  ") and "[" in line]
    # One count: sentence, verdict, list and file.
    apart = sum(one.log_ratio.low > 0 or one.log_ratio.high < 0 for one in told.known)
    assert told.sentence in verdict.text and len(told.known) + len(told.unknown) <= len(every)
    numbers = list(map(int, re.findall(r"\b(\d+)\b", told.sentence.replace("90 %", "").replace("ratio of 1", ""))))
    assert len(listed) == len(told.known)
    if told.known:
        assert numbers[:2] == [len(told.known) + len(told.unknown), len(told.known)]
        assert ("hold" in told.sentence) == (apart == 0)
        assert len(told.known) == 1 or apart == 0 or numbers[2] == apart
    elif told.unknown:
        assert "none is known" in told.sentence
        # Said once, on a screen and on the page.
        screen = "\n".join([verdict.text, *lines])
        for text in [screen, *([html_report(model)] if page else [])] if not told.any else ():
            assert len(re.findall("none is known|no effect is known|Not known, without", text)) == 1
    file = part_of(model).text(model, [one.name for one in names][: model.n_features_in_])
    assert file.count(",yes\n") == len(told.known)
    # The list: largest first, every interval as printed agrees with the star and with the interval.
    sizes = [abs(one.standard.mean) for one in told.known]
    assert sizes == sorted(sizes, reverse=True) and all(
        one.known and math.isfinite(one.ratio.high) for one in told.known
    )
    for one, line in zip(told.known, listed, strict=True):
        mean, *ends = re.match(r" *([^ ]+) +\[(.*?), ([^ ]*)\]", line).groups()
        low, high = (float(text.replace(",", "")) for text in ends)
        if high < 100 * low:
            assert len({len(text.partition(".")[2]) for text in (mean, *ends)}) == 1, line
        assert (low > 1 or high < 1) == one.log_ratio.clear or max(abs(v) for v in one.log_ratio) < 1e-7, line
        assert one.clear <= one.log_ratio.clear and ("] *" in line) == one.clear
    # The page's list of unknown effects has no known one, also of several classes.
    note = part_of(model).learned(model, None, 10).note.rstrip(".").partition(": ")[2].split(", ")
    assert not {one.label for one in told.known} & set(note)
    # A class that does not occur has no effect in any list, and no interval.
    for one in names:
        if one.outcome in told.absent:
            assert not one.known
    assert not any(f": {label}" in line and "[" in line for label in told.absent for line in listed)
    # The words are about the gain, as its interval is.
    found = model.found_gain_
    if found is not None:
        assert -1 <= found.low <= found.gain <= found.high <= 1
        wanted = "useful" if found.low > 0.02 else "no better" if found.high < 0.02 else "unclear"
        assert verdict.worth == wanted and f"{found.low:+.0%} to {found.high:+.0%}" in verdict.text
    for text in (verdict.text, *lines):
        assert "mostly noise" not in text and "stand clear" not in text and "[1, 1]" not in text


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_words_intervals_and_table_never_contradict_one_another():
    seen = []
    for seed in (*range(40), 132, 133):  # with a class that does not occur, and with an end that is nearly 1
        model = fitted(seed)
        check(model, page=seed % 20 < 5)
        told = Told.of(model)
        seen.append((model.verdict_.worth, bool(told.known), bool(told.absent), len(told.known) > 1))
    assert {one[0] for one in seen} >= {"useful", "unclear"}
    assert all(len({one[k] for one in seen}) == 2 for k in (1, 2, 3))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_door_has_the_same_effects():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 14))
    y = (rng.random(4000) < expit(X @ np.linspace(-1, 1, 14))).astype(int)
    model = BayesianLogisticRegression(classes=[0, 1], epsilon=60.0, row_norm=14**0.5, n_jobs=1)
    model.set_unsafe(test_key=bytes(32)).fit(X, y)
    names, told = [f"column {j + 1}" for j in range(14)], Told.of(model)
    assert len(told.known) > 10
    short, whole = effect_lines(model, names), effect_lines(model, names, most=None)
    assert sum("[" in line for line in short) == 10 and f"… and {len(told.known) - 10} more" in "\n".join(short)
    assert sum("[" in line for line in whole) == len(told.known)
    shown = part_of(model).shown(model, None)
    assert all(line in shown for line in short if "[" in line) and "more (vips-fast show DIR)" in shown
    shown = short_report(make_dossier(model), 10**6)
    assert all(line in shown for line in whole if "[" in line) and "more (" not in shown
    page = html_report(model)
    assert told.sentence in page and page.count("not known</td>") == 4 * len(told.unknown)


def test_one_standard_deviation_is_the_records_own_or_of_public_bounds():
    X = rows(np.random.default_rng(0), 5000)
    y = (np.random.default_rng(1).random(5000) < 0.5).astype(int)
    inputs = {"schema.toml": SCHEMA.to_toml()}
    sharp = BayesianLogisticRegression(private=False, classes=[0, 1], n_steps=3).fit(X, y, inputs=inputs)
    np.testing.assert_allclose(reading(sharp).spreads[0], X.toarray().std(axis=0), rtol=1e-3)
    hidden = BayesianLogisticRegression(classes=[0, 1], noise_multiplier=1e4, row_norm=2.0, n_steps=10)
    with pytest.warns(UserWarning):
        hidden.fit(X, y, inputs=inputs)
    found, told = reading(hidden).spreads
    assert not told.any()
    np.testing.assert_allclose(found, [2 / 12**0.5, 0.5, 12**-0.5, 0.5, 0.5, 0.5, 0.5])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_missing_value_is_compared_with_the_mean_of_the_others():
    """It is rounded, and the interval holds the truth there: values fill a small part of their bounds."""
    n, hits = 5000, 0
    for seed in range(24):
        rng = np.random.default_rng(seed)
        value, missing = rng.normal(82, 15, n), rng.random(n) < 0.1
        schema = Schema.parse('[columns.glucose]\nkind = "number"\nlow = 40\nhigh = 400\nmissing = "flag"\n')
        X = schema.encode({"glucose": np.where(missing, np.nan, value)})
        logits = np.where(missing, 0.4, 0.01 * (value - 82)) - 1.0
        y = (rng.random(n) < expit(logits)).astype(int)
        model = BayesianLogisticRegression(classes=[0, 1], epsilon=100.0, delta=1e-5, n_jobs=1, row_norm=1.0)
        model.set_unsafe(test_key=seed.to_bytes(32)).fit(X, y, inputs={"schema.toml": schema.to_toml()})
        one = model.effects()[1]
        center = float(re.fullmatch(r"missing instead of ([0-9.]+), the mean", one.change)[1])
        assert abs(center - 82) < 3
        truth = 0.4 - 0.01 * (center - 82)
        hits += one.log_ratio.low <= truth <= one.log_ratio.high
    # Of 24 intervals of 90 %, 16 or fewer hold the truth with a probability of 5e-4; the noise is known.
    assert hits >= 18


@pytest.mark.parametrize("log, ratio", [(-1e4, "0"), (0.0, "1"), (709.0, "8"), (800.0, "inf"), (1e300, "inf")])
def test_an_effect_of_any_size_is_listed(log, ratio):
    """Noise may make a coefficient whose odds ratio is beyond all floats."""
    law = Interval(log, log, log)
    one = Effect("yes", "x1", law, "+1", law, Interval(1.0, 1.0, 1.0), law, "x1 +1", False)
    assert Told([one], [], []).lines("odds")[1].split()[3].startswith(ratio)
