"""Regressions measure themselves in the last step of a fit. Gain, coverage, bound, purity, verdict."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.data.schema import MOVED
from vips_fast.engine.gain import Score
from vips_fast.engine.result import FitResult
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.effects import counted_findings
from vips_fast.models.logistic.score import OutcomePrediction, Prediction
from vips_fast.report import html_report
from vips_fast.report.parts.coefficients import effect_lines


def data(n, d=5, effect=1.0, seed=0, classes=2):
    """Rows of length about 0.8, and outcomes by a logistic law."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / (1.3 * np.sqrt(d))
    logits = X @ (1.8 * effect * np.random.default_rng(77).standard_normal((d, classes - 1))) - 1.0
    if classes > 2:
        logits = np.column_stack([np.zeros(n), logits]) + rng.gumbel(size=(n, classes))
        return X, logits.argmax(axis=1)
    return X, (rng.random(n) < 1 / (1 + np.exp(-logits[:, 0]))).astype(float)


def regression(measure=None, **settings):
    settings = {"row_norm": 1.5, "classes": [0, 1], "delta": 1e-5, **settings}
    return BayesianLogisticRegression(options=LogisticOptions(measure_gain=measure), **settings)


def keyed(estimator, seed=0):
    return estimator.set_unsafe(test_key=seed.to_bytes(32))


def saved(nats, mean):
    """What nats of counts are of the nats that a count of a mean below 1 loses by it, or of perplexity."""
    return 1 - np.exp(-nats / (mean * (1 - np.log(mean)) if mean < 1 else 1.0))


def test_what_the_columns_predict_is_told():
    X, y = data(6000)
    good = keyed(regression(epsilon=1.0)).fit(X, y)
    assert good.found_gain_.low > 0.02 and good.verdict_.worth == "useful"
    assert "the columns predict the outcome" in good.verdict_.text and "Of 5 effects " in good.verdict_.text
    none = keyed(regression(epsilon=20.0)).fit(*data(20_000, d=5, effect=0.0))
    assert none.verdict_.worth == "no better" and "Verdict: not better than without columns." in none.verdict_.text
    for settings, n in ((dict(epsilon=4.0), 1400), (dict(epsilon=0.5), 200), (dict(epsilon=20.0), 300)):
        model = keyed(regression(**settings)).fit(*data(n, d=20, effect=0.0))
        assert model.verdict_.worth in ("unclear", "no better"), model.verdict_.text
    off = keyed(regression(measure=False, epsilon=1.0)).fit(X, y)
    assert off.found_gain_ is None and off.verdict_.text.startswith("Of 5 effects ") and off.verdict_.worth == ""


@pytest.mark.parametrize(
    "kind, rate", [*(("labels", rate) for rate in (0.01, 0.15, 0.5)), *(("counts", rate) for rate in (0.01, 0.3, 3.0))]
)
def test_a_rare_outcome_is_judged_by_what_it_loses_by_the_base_rate(kind, rate):
    """Of an outcome of one per cent even a perfect order of records saves little perplexity."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60_000, 3)) / 2
    logits = X @ [2.0, -1.0, 0.5]
    if kind == "labels":
        y = (rng.random(60_000) < 1 / (1 + np.exp(-logits - np.log(rate / (1 - rate))))).astype(int)
        model = keyed(regression(epsilon=4.0, row_norm=2.0)).fit(X, y)
        assert model.found_gain_.gain == pytest.approx(true_gain(model, X, y), abs=0.03)
    else:
        mean = np.exp(logits)
        y = np.minimum(rng.negative_binomial(1.0, 1 / (1 + rate * mean / mean.mean())), 60).astype(float)
        model = keyed(CountRegression(epsilon=8.0, row_norm=2.0, largest=float(y.max()))).fit(X, y)
        nats = model.score(X, y) - (y * np.log(y.mean()) - (1 + y) * np.log1p(y.mean())).mean()
        assert model.found_gain_.low < saved(nats, y.mean()) < model.found_gain_.high
    assert model.verdict_.worth == "useful"


@pytest.mark.parametrize("kind", ["two", "three", "counts"])
def test_the_gain_is_that_of_units_with_a_record(kind):
    """Of a label that half of the records lack; a share of all units was told, and the verdict was "not better"."""
    X, y = data(12_000, d=3, classes=3 if kind == "three" else 2)
    settings, more = dict(row_norm=1.5, epsilon=4.0, delta=1e-5), dict(invalid="drop")
    if kind == "counts":
        y = np.random.default_rng(0).poisson(np.exp(2 * X[:, 0])).astype(float)
        models = [CountRegression(largest=20, options=more, **settings) for _ in range(2)]
    else:
        classes = [0, 1, 2][: 2 + (kind == "three")]
        models = [BayesianLogisticRegression(classes=classes, options=more, **settings) for _ in range(2)]
    half = np.where(np.arange(len(y)) % 2, y, np.nan)
    whole, lacking = (keyed(model).fit(X, labels) for model, labels in zip(models, (y, half), strict=True))
    assert lacking.found_gain_.low < whole.found_gain_.gain < lacking.found_gain_.high
    assert lacking.found_gain_.gain == pytest.approx(whole.found_gain_.gain, abs=0.04)
    assert "About 50% of the number of records in the guarantee had no record" in str(lacking.verdict_)
    assert "had no record" not in str(whole.verdict_)


@pytest.mark.parametrize("kind", ["two", "three", "counts", "exposed"])
def test_another_number_of_records_than_the_stated_one_changes_no_gain_and_no_prediction(kind):
    """Of half as many as there are, a gain was told as its double or as none, and a share was read as next to 0."""
    n, found, predicted = 12_000, [], []
    X, y = data(n, d=3, classes=3 if kind == "three" else 2)
    y, exposure = np.where(np.arange(n) % 3, y, 0), ()
    if kind in ("counts", "exposed"):
        rng = np.random.default_rng(0)
        exposure = (rng.uniform(0.5, 5.0, n),) if kind == "exposed" else ()
        y = np.minimum(rng.poisson(np.exp(2 * X[:, 0] - 1) * (exposure or (1,))[0]), 20).astype(float)
    for stated in (n, n // 2, 2 * n):
        settings = dict(row_norm=1.5, epsilon=1e3, delta=1e-5, n_records=stated)
        if kind in ("counts", "exposed"):
            model = keyed(CountRegression(largest=20, largest_exposure=5.0 if exposure else None, **settings))
            predicted.append(model.fit(X, y, *exposure).predict(X, *exposure).mean())
        else:
            model = keyed(BayesianLogisticRegression(classes=[0, 1, 2][: 2 + (kind == "three")], **settings))
            predicted.append(model.fit(X, y).predict_proba(X).mean(axis=0))
        found.append(model.found_gain_)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=0.02)
    np.testing.assert_allclose(predicted[1:], [predicted[0]] * 2, rtol=0.03)


def test_a_gain_of_many_classes_may_be_as_low_as_noise_makes_it():
    """A gain in perplexity is cut at -1, which of many classes is a small part of their log loss."""
    X, y = np.random.default_rng(0).uniform(-1, 1, (120, 1)), np.arange(120) % 40
    model = keyed(regression(epsilon=1.0, classes=range(40))).fit(X, y)
    assert model.found_gain_.low == -1.0


def exact(model, X, y, optimism=True):
    restored = model._model(model._fitted().public)
    restored.restore(model._fitted().state)
    score = restored.gain_score()
    score.optimism *= optimism
    block = model._read(X, y)[0].block(np.arange(len(y)))
    rows = score.rows(block, np.zeros(len(y), np.uint64), np.ones(len(y), bool), 1.0)
    return Score.read(rows.mean(axis=0), 0.0, 1.0, 1e12, score)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_score_is_the_log_loss_over_the_base_rate(classes):
    X, y = data(3000, classes=classes)
    model = keyed(regression(epsilon=8.0, classes=range(classes))).fit(X, y)
    other, outcome = data(60_000, seed=1, classes=classes)
    p, place = model.predict_proba(other), outcome.astype(int)
    q = np.bincount(place) / len(place)
    loss = np.log(p[np.arange(len(p)), place] / q[place])
    # The bound of nats cuts little, and the released base rate is nearly the records' own.
    found = exact(model, other, outcome, optimism=False).nats[0]
    most = 4 * math.sqrt(math.log2(classes))
    assert found == pytest.approx(float(np.clip(loss, -most, most).mean()), abs=2e-3)
    assert found > 0.05


@pytest.mark.parametrize("rows", [1, 5])
def test_a_fit_to_its_own_records_is_no_better_measured(rows):
    """The score takes off the optimism of fits to few records, which predict these too well; of more rows, less."""
    biases, raw = [], []
    for seed in range(16):
        X, y = data(600 * rows, d=20, effect=0.7, seed=seed)
        model = keyed(regression(epsilon=10.0), seed)
        model.fit(X, y, groups=np.arange(len(X)) // rows if rows > 1 else None)
        fresh = exact(model, *data(20_000, d=20, effect=0.7, seed=1000 + seed), optimism=False).nats[0]
        biases.append(exact(model, X, y).nats[0] - fresh)
        raw.append(exact(model, X, y, optimism=False).nats[0] - fresh)
    assert np.mean(raw) > 0.015 / rows and abs(np.mean(biases)) < 0.008


def true_gain(model, X, y):
    """The share of the base rate's log loss that the model saves on these records."""
    p, share = model.predict_proba(X)[:, 1], y.mean()
    loss = np.where(y == 1, np.log(p), np.log1p(-p)).mean()
    return 1 - loss / (share * np.log(share) + (1 - share) * np.log1p(-share))


def rare(n, rng):
    """An outcome of 4 % that a number tells, with rows that are not normal."""
    X = np.column_stack([rng.beta(2, 3, n), rng.random(n) < 0.3])
    return X, (rng.random(n) < 1 / (1 + np.exp(13 - 16 * X[:, 0] + 0.7 * X[:, 1]))).astype(int)


def visits(n, rng):
    """Counts: most are 0, and a few are large."""
    X = np.column_stack([rng.exponential(0.3, n).clip(0, 2), rng.random(n) < 0.2])
    return X, np.minimum(rng.negative_binomial(1, 1 / (1 + 0.15 * np.exp(1.6 * X[:, 0] + X[:, 1]))), 12).astype(float)


def kinds(n, rng):
    """Three classes, which the kind of a record nearly tells."""
    law = np.array([[97, 2, 1], [2, 97, 1], [90, 5, 5], [10, 88, 2], [5, 5, 90], [50, 48, 2]]) / 100
    kind = rng.choice(6, n, p=[0.3, 0.3, 0.15, 0.15, 0.05, 0.05])
    X = np.column_stack([np.eye(6)[kind], rng.random((n, 4)) < 0.1]) / np.sqrt(2)
    return X, (law.cumsum(axis=1)[kind, :2] < rng.random(n)[:, None]).sum(axis=1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("drawn", "n", "runs", "least"), [(rare, 10_000, 12, 7), (visits, 10_000, 12, 7), (kinds, 1500, 12, 5)]
)
def test_intervals_hold_the_gain_of_records_that_gain_much(drawn, n, runs, least):
    """With 2 nats at most, base rates by normal logits, or the gain of other predictions few of 36 held: 5, 0 and 2."""
    (X, y), held = drawn(100_000, np.random.default_rng(99)), 0
    mean = y.mean()
    for seed in range(runs):
        few = drawn(n, np.random.default_rng(seed))
        if drawn is visits:
            model = keyed(CountRegression(row_norm=3.0, largest=12, epsilon=4.0, delta=1e-5), seed).fit(*few)
            nats = model.score(X, y) - (y * np.log(mean / (1 + mean)) - np.log1p(mean)).mean()
            true = saved(nats, mean)
        elif drawn is rare:
            model = keyed(regression(epsilon=4.0, row_norm=1.42), seed).fit(*few)
            true = true_gain(model, X, y)
        else:
            model = keyed(regression(epsilon=4.0, classes=range(3), n_jobs=1), seed).fit(*few)
            share = np.bincount(y) / len(y)
            true = 1 - np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean() / (share @ np.log(share))
        held += model.found_gain_.low <= true <= model.found_gain_.high
    assert held >= least


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_counts_far_more_spread_than_stated_are_not_judged_beside_a_wrong_mean():
    """The mean count of normal logits is a third too large here, beside which all columns would look useful."""
    rng, biases, off = np.random.default_rng(5), [], []
    X = np.column_stack([rng.exponential(0.5, (20_000, 4)).clip(0, 2), rng.random((20_000, 2)) < 0.2])
    mean = np.exp(0.5 * X @ [1, -1, 1, -1, 1, -1])
    y = np.minimum(rng.negative_binomial(0.1, 0.1 / (0.1 + mean)), 30).astype(float)
    base = np.log(y.mean())
    for seed in range(24):
        few = np.random.default_rng(seed).choice(20_000, 600)
        model = keyed(CountRegression(row_norm=4.2, largest=30, epsilon=4.0, delta=1e-5), seed).fit(X[few], y[few])
        nats = model.score(X, y) - (y * base - (1 + y) * np.log1p(y.mean())).mean()
        biases.append(model.found_gain_.gain - saved(nats, y.mean()))
        state = model._fitted().state
        off.append((state["base"][0] - base, state["mean"][0] - base))
    assert abs(np.mean(biases)) < 0.045
    of_law, joined = np.abs(off).mean(axis=0)
    assert of_law > 0.3 and joined < 0.85 * of_law


@pytest.mark.parametrize("form", ["dense", "sparse", "float32", "classes"])
def test_a_row_is_a_function_of_its_record(form):
    X, y = data(300, classes=3 if form == "classes" else 2)
    X[:4] *= np.array([0.0, 1e-30, 1e6, 1e30])[:, None]
    X = sp.csr_array(X) if form == "sparse" else X.astype(np.float32 if form == "float32" else np.float64)
    model = keyed(regression(noise_multiplier=3.0, classes=None if form != "classes" else [0, 1, 2]))
    stage = model.prepare(X, y)
    inner = stage.model.model
    for one in getattr(inner, "classes", [inner]):
        d = one.n_features
        one._mean, one._covariance = np.linspace(-3, 3, d), np.eye(d) * np.linspace(0.1, 9, d)
    score, words = inner.gain_score(), np.arange(300, dtype=np.uint64)
    rows = score.rows(stage.records.block(np.arange(300)), words, np.ones(300, bool), 2.0)
    assert np.linalg.norm(rows, axis=1).max() <= 2.0 and (rows[4:] != 0).any(axis=1).all()
    for i in (*range(12), 299):
        alone = score.rows(stage.records.block(np.array([i])), words[[i]], np.ones(1, bool), 2.0)
        np.testing.assert_array_equal(alone[0], rows[i])


def test_a_run_with_a_score_takes_the_last_read_out_a_step_before(tmp_path):
    """The model's last step comes before the score. So its intervals belong to a whole run."""
    X, y = data(2000)
    on = keyed(regression(noise_multiplier=4.0, n_steps=20)).fit(X, y)
    off = keyed(regression(measure=False, noise_multiplier=4.0, n_steps=19)).fit(X, y)
    np.testing.assert_array_equal(on.coef_, off.coef_)
    np.testing.assert_array_equal(on.covariance_, off.covariance_)


def test_the_norm_of_a_contribution_is_the_clip_at_most():
    """Nats and shares at their bounds at once reach it: a value that was moved, and the largest outcome."""
    one = Prediction(np.zeros(5), np.eye(5), 0.0, 0.0)
    for largest, number in ((0.0, 1), (7.0, 1), (0.0, 3)):
        score = OutcomePrediction([one] * number, 1.0, 100, 2.0, largest)
        n = score.n_shares
        full = score.clip_rows(np.full((1, 1), 9.0), np.ones(1), 2.5, np.eye(1, n) + np.eye(1, n, n - 1))
        assert (full >= 0).all() and 2.5 * (1 - 1e-6) < np.linalg.norm(full) <= 2.5


@pytest.mark.parametrize("form", ["sparse", "persons"])
def test_shares_of_values_beyond_bounds_and_of_cut_counts_are_released(form):
    """As they are in the records, within the noise; none where none is."""
    rng = np.random.default_rng(0)
    n = 20_000
    X = rng.uniform(-1, 1, (n, 4))
    X[rng.random(n) < 0.03, 0], X[rng.random(n) < 0.01, 2] = MOVED, -MOVED
    counts = rng.negative_binomial(1, 0.25, n)
    rows = sp.csr_array(X) if form == "sparse" else X
    groups = np.arange(n) // 2 if form == "persons" else None
    for kind, y, settings in (
        (BayesianLogisticRegression, counts > 2, {"classes": [False, True]}),
        (CountRegression, counts, {"largest": 10}),
    ):
        model = keyed(kind(epsilon=2.0 if groups is None else 2e3, delta=1e-6, row_norm=2.0, n_jobs=1, **settings))
        with pytest.warns(UserWarning) as said:
            model.fit(rows, y, groups=groups)
        *shares, sd = model._fitted().state["shares"]
        true = [*(np.abs(X) == MOVED).mean(axis=0), 0.0, y.mean()]
        if kind is CountRegression:
            true[-1:] = (y > 10).mean(), np.minimum(y, 10).mean() / 10
        assert sd < 0.01 and np.abs(np.array(shares) - true).max() < 5.5 * sd + 2e-3
        told = [str(one.message) for one in said]
        assert sum(text.startswith("x1: about ") for text in told) == 1
        assert not any("x2: about" in text or "± 0.0%" in text for text in told)
        assert sum(text.startswith("largest=10: about ") for text in told) == (kind is CountRegression)
        page = html_report(model)
        assert "of the values are beyond its bounds" in page
        assert ("the counts are above it and were cut" in page) == (kind is CountRegression)
    X, y = data(n, classes=3)
    model = keyed(regression(epsilon=2.0, classes=range(3))).fit(X, y, groups=groups)
    *seen, sd = model._fitted().state["shares"][-4:]
    assert sd < 0.01 and np.abs(seen - np.bincount(y) / n).max() < 5.5 * sd


FORGED = {
    "no shares": ("shares", None, "no array 'shares'"),
    "no score": ("score", None, "no array 'score'"),
    "fewer shares": ("shares", lambda a: a[:1], "'shares' has shape"),
    "more shares": ("shares", lambda a: np.append(a, 0.0), "'shares' has shape"),
    "shares of two dimensions": ("shares", lambda a: a[:, None], "'shares' has shape"),
    "a share that is no number": ("shares", lambda a: a * np.nan, "not finite"),
    "noise below 0": ("shares", lambda a: -1 - a, "out of its range"),
    "another score": ("score", lambda a: a[1:], "'score' has shape"),
    "a score without a square": ("score", lambda a: a + 1e200, "out of its range"),
    "a share of no units": ("score", lambda a: a * [*[1.0] * (len(a) - 3), 0.0, 0.0, 1.0], "out of its range"),
    "a base rate of 1": ("base", lambda a: a + 40.0, "'base' is out of its range"),
}


@pytest.mark.parametrize("kind", ["classes", "counts", "several"])
def test_a_forged_score_does_not_load(kind, tmp_path):
    """Files that anybody may have sealed: the model is refused, not its first read-out."""
    classes = 3 if kind == "several" else 2
    X, y = data(300, classes=classes)
    model = CountRegression(epsilon=1.0) if kind == "counts" else regression(epsilon=1.0, classes=[*range(classes)])
    true = model.fit(X, y)._fitted()

    def sealed(change):
        state = {name: array.copy() for name, array in true.state.items()}
        change(state)
        arguments = true.kind, true.settings, true.public, true.n_steps, true.arrays, state
        model._result = FitResult.make(*arguments, true.ledger.copy())
        model.save(tmp_path / "m")
        return type(model).load(tmp_path / "m")

    assert sealed(lambda state: None).found_gain_ == model.found_gain_
    for what, (name, change, said) in FORGED.items():
        name = "class1.base" if kind == "several" and name == "base" else name
        with pytest.raises(ValueError, match=f"not a model as it was saved: state: .*{said}") as error:
            sealed(lambda s: s.pop(name) if change is None else s.update({name: change(s[name])}))
        assert "\n" not in str(error.value), what


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_of_very_many_columns_only_the_outcome_is_counted():
    rng = np.random.default_rng(0)
    X, y = (rng.random((2000, 260)) < 0.05).astype(float), (rng.random(2000) < 0.9).astype(int)
    settings = {"epsilon": 4.0, "row_norm": 5.0, "delta": 1e-5}
    for kind, rows in ((regression(**settings), X), (CountRegression(largest=1, **settings), sp.csr_array(X))):
        model = keyed(kind).fit(rows, y)
        share, sd = model._fitted().state["shares"]
        assert abs(share - y.mean()) < 5.5 * sd and sd < 0.01
        assert not any("beyond" in text or "were cut" in text for text in counted_findings(model))


def test_counts_are_measured_and_their_list_says_what_effects_are_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (20_000, 2))
    y = rng.poisson(np.exp(X @ [1.0, -0.5]))
    model = keyed(CountRegression(largest=12, epsilon=4.0, row_norm=2.0, dispersion=0.01)).fit(X, y)
    score = model.verdict_
    assert score.worth == "useful" and "the columns predict the counts" in score.text
    assert effect_lines(model, ["a", "b"])[0].startswith("Mean of the counts, cut at 12: rate ratio and 90 % interval")
    other = rng.poisson(np.exp(X @ [1.0, -0.5])).astype(float)
    base = keyed(CountRegression(largest=12, private=False, row_norm=2.0, dispersion=0.01)).fit(
        np.zeros((20_000, 1)), y
    )
    nats = model.score(X, other) - base.score(np.zeros((20_000, 1)), other)
    assert model.found_gain_.low - 0.03 < saved(nats, y.mean()) < model.found_gain_.high + 0.03


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", [BayesianLogisticRegression, CountRegression])
def test_columns_that_say_nothing_are_seldom_called_useful(kind):
    """Of rare outcomes a base rate from the first step alone was what noise had made; half of such fits were useful."""
    worths = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (1000, 3))
        if kind is CountRegression:
            y, settings = rng.poisson(0.3, 1000), {"largest": 20, "epsilon": 2.0}
        else:
            y, settings = rng.random(1000) < 0.01, {"classes": [False, True], "epsilon": 0.5}
        worths.append(keyed(kind(delta=1e-5, row_norm=3**0.5, n_jobs=1, **settings), seed).fit(X, y).verdict_.worth)
    assert worths.count("useful") <= 3
