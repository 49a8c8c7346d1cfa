"""Test regression of counts. Rate ratios, their intervals, and the bound of a contribution."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from ball_mean import sums_of
from raw_intervals import raw_intervals
from scipy.optimize import minimize
from scipy.special import gammaln

from vips_fast import CountRegression
from vips_fast.models.logistic import LogisticOptions
from vips_fast.models.logistic.counts import CountModel

BETA = np.array([0.6, -0.4, 0.0, 0.3])


#: Public bound of the exposures, in days.
YEAR = 365.0
DROP = LogisticOptions(invalid="drop")


def events(seed, n=4000, spread=1.0, exposed=False):
    """Rows, counts whose variance is mean + spread mean^2, and their exposures: days at risk, few for high x1."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1, 1, (n, 4))
    exposure = YEAR * np.where(X[:, 0] > 0, 0.25, 1.0) * rng.uniform(0.3, 1, n) if exposed else None
    share = exposure / YEAR if exposed else 1.0
    return X, rng.poisson(share * np.exp(0.4 + X @ BETA) * rng.gamma(share / spread, spread / share, n)), exposure


def maximum(X, y, dispersion=1.0, share=1.0):
    """The negative binomial maximum with an offset of log share, and White's standard errors, by their formulas."""
    Z, r = np.column_stack([X, np.ones(len(X))]), share / dispersion

    def loss(w):
        mu = share * np.exp(Z @ w)
        return -(y * np.log(mu / (mu + r)) - r * np.log1p(mu / r)).sum(), -Z.T @ ((y - mu) / (1 + mu / r))

    w = minimize(loss, np.zeros(Z.shape[1]), jac=True, options={"gtol": 1e-6}).x
    mu = share * np.exp(Z @ w)
    bread = np.linalg.inv((Z * (mu / (1 + mu / r))[:, None]).T @ Z)
    scores = Z * ((y - mu) / (1 + mu / r))[:, None]
    return w, np.sqrt(np.diag(bread @ scores.T @ scores @ bread))


def bound(exposed):
    return {"largest_exposure": YEAR} if exposed else {}


@pytest.mark.parametrize(
    ("dispersion", "spread", "exposed"),
    [(1.0, 1.0, False), (0.2, 0.2, True), (0.3, 2.0, True), (2.0, 0.01, False), (2.0, 0.01, True)],
)
def test_without_noise_it_is_the_likelihoods_maximum(dispersion, spread, exposed):
    X, y, exposure = events(0, spread=spread, exposed=exposed)
    model = CountRegression(private=False, largest=200.0, dispersion=dispersion, n_steps=60, **bound(exposed))
    model.fit(X, y, exposure)
    unit = YEAR if exposed else 1.0
    w, errors = maximum(X, y, dispersion, exposure / YEAR if exposed else 1.0)
    w[-1] -= np.log(unit)
    np.testing.assert_allclose([*model.coef_[0], model.intercept_[0]], w, atol=0.3 * errors.min())
    np.testing.assert_allclose(np.sqrt(np.diag(model.covariance_)), errors, rtol=0.1)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("epsilon", "exposed", "fits"),
    [
        (2.0, False, 20),
        (30.0, True, 30),
        *(
            pytest.param(epsilon, exposed, 30, marks=pytest.mark.slow)
            for epsilon, exposed in ((2.0, False), (2.0, True), (4.0, False), (4.0, True), (30.0, False))
        ),
    ],
)
def test_intervals_cover(epsilon, exposed, fits):
    """Of 120 intervals 108 hold the truth if they are right; 98 to 118 are within three deviations. 20 fits have 80."""
    hits = 0
    for seed in range(fits):
        X, y, exposure = events(seed, exposed=exposed)
        model = CountRegression(row_norm=2.0, largest=60.0, epsilon=epsilon, delta=1e-6, n_jobs=1, **bound(exposed))
        low, high = raw_intervals(model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, y, exposure))
        hits += ((low <= BETA) & (BETA <= high)).sum()
    expected = 4 * fits * 0.9
    assert abs(hits - expected) <= 3 * (0.1 * expected) ** 0.5, hits


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("epsilon", "exposed", "known"), [(0.5, False, 0), (0.5, True, 0), (8.0, False, 4), (8.0, True, 4)]
)
def test_no_effect_is_known_where_noise_moves_the_centers_far(epsilon, exposed, known):
    """Their curvature is none of the result's: with 3,000 records at epsilon = 1, intervals held .53 to .86."""
    for seed in range(8 if exposed and not known else 2):
        X, y, exposure = events(seed, exposed=exposed)
        model = CountRegression(row_norm=2.0, largest=15.0, epsilon=epsilon, delta=1e-6, n_jobs=1, **bound(exposed))
        model.set_unsafe(test_key=seed.to_bytes(32, "big")).fit(X, np.minimum(y, 15), exposure)
        assert sum(one.known for one in model.effects()) == known


@pytest.mark.parametrize(("n", "largest", "hidden"), [(4_000, 60.0, True), (100_000, 15.0, False)])
def test_counts_that_are_more_spread_than_stated_widen_intervals_or_are_warned_of(n, largest, hidden):
    """The fit says that noise hides it, or else intervals are as wide as White's."""
    X, y, _ = events(0, n, spread=3.0)
    y = np.minimum(y, largest)
    model = CountRegression(row_norm=2.0, largest=largest, epsilon=30.0, delta=1e-6, n_jobs=1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.set_unsafe(test_key=bytes(32)).fit(X, y)
    assert any("the noise hides whether counts are spread" in str(one.message) for one in said) == hidden
    low, high = raw_intervals(model)
    errors = maximum(X, y)[1][:4]
    assert hidden or (np.abs((high - low) / 3.29 / errors - 1) < 0.25).all(), (high - low) / 3.29 / errors


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("n", "rate", "known"), [(2_000, 0.0, False), (10_000, 0.1, True)])
def test_a_value_without_events_has_no_effect_that_ends_below(n, rate, known):
    """A third of the fits told two ends, which the prior alone made. A tenth of the rate is told."""
    for seed in range(5 if known else 15):
        rng = np.random.default_rng([seed, n])
        X = np.column_stack([rng.random(n) < 0.4, rng.uniform(-1, 1, (n, 2))])
        y = rng.poisson(np.where(X[:, 0] > 0, 2 * rate, 2.0) * np.exp(0.5 * X[:, 1]) * rng.gamma(1, 1, n))
        model = CountRegression(row_norm=3**0.5, largest=20.0, epsilon=2.0, delta=1e-5, n_jobs=1)
        model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big")).fit(X, np.minimum(y, 20))
        effect = model.effects()[0].log_ratio
        assert effect.known == known and (known or effect.low == -np.inf)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_noise_in_the_exposures_makes_no_rate():
    """Noise that brought their mean to 0 made rates up to 39 times as high. What is left is in the counts."""
    for seed in range(30):
        rng = np.random.default_rng([seed, 600])
        X, exposure = rng.uniform(-1, 1, (600, 6)), YEAR * rng.uniform(0.01, 0.4, 600)
        y = np.minimum(rng.poisson(8 * exposure / YEAR * rng.gamma(1, 1, 600)), 20)
        model = CountRegression(row_norm=6**0.5, largest=20.0, epsilon=1.0, delta=1e-5, n_jobs=1, **bound(True))
        model.set_unsafe(test_key=(seed + 1).to_bytes(32, "big")).fit(X, y, exposure)
        assert np.median(model.predict(X, YEAR)) < 5 * 8


@pytest.mark.parametrize("dispersion", [0.5, 1.0, 2.0])
def test_the_first_release_does_not_miscount_the_records(dispersion, monkeypatch):
    """Its center is 0 and tells no count. The expected variance of labels is compared with a sum over all records."""
    seen, labels = [], CountModel._labels
    monkeypatch.setattr(
        CountModel, "_labels", lambda self, expected, mean: (seen.append(expected), labels(self, expected, mean))[1]
    )
    X, y, _ = events(5, 20_000, dispersion)
    model = CountRegression(row_norm=2.0, largest=60.0, dispersion=dispersion, epsilon=5e3, delta=1e-6, n_jobs=1)
    model.set_unsafe(test_key=bytes(32)).fit(X, y)
    rates = np.exp(0.4 + X @ BETA)
    whole = (
        np.column_stack([X, np.full(len(X), model._constant)]) ** 2 * (rates / (1 + dispersion * rates))[:, None]
    ).sum(axis=0)
    np.testing.assert_allclose(np.diag(seen[-1]), whole, rtol=0.06)


@pytest.mark.parametrize("exposed", [False, True])
def test_the_measured_gain_tells_how_far_predictions_go_from_the_mean(exposed, monkeypatch):
    """The factor rises with the gain, and is 1 at the gain that is expected; what noise hides is next to nothing."""
    kept = []
    monkeypatch.setattr(CountModel, "judged", lambda self, score: kept.append((self, score)))
    X, y, exposure = events(1, 20_000, exposed=exposed)
    model = CountRegression(row_norm=2.0, largest=30.0, epsilon=8.0, delta=1e-6, **bound(exposed))
    model.set_unsafe(test_key=bytes(32)).fit(X, y, exposure)
    monkeypatch.undo()
    ((fitted, score),) = kept
    gain = float(score.nats[0])

    def factor(nats, sd=1e-3):
        fitted.judged(replace(score, nats=np.array([nats]), sd=sd, more=0.0))
        return fitted._factor[0]

    found = [factor(nats) for nats in (-1.0, 0.0, 0.5 * gain, gain, 3 * gain)]
    assert found[0] < 0.05 and (np.diff(found) > 0).all() and found[-1] > 1.3
    assert found[3] == pytest.approx(1.0, abs=0.2)
    assert 0.1 < factor(0.0, 1e3) < 0.25


@pytest.mark.parametrize("exposed", [False, True])
def test_where_noise_hides_all_predictions_are_near_the_mean(exposed):
    """Columns that say nothing: the loss was .3 above that of the mean count."""
    n, over = 3_000, []
    rng = np.random.default_rng(0)
    X, share = rng.uniform(-1, 1, (2 * n, 20)), rng.uniform(0.3, 1, 2 * n) if exposed else np.ones(2 * n)
    y = np.minimum(rng.negative_binomial(share, 1 / 3.0), 20)
    exposure = YEAR * share if exposed else None
    for seed in range(4):
        model = CountRegression(row_norm=20**0.5, largest=20.0, epsilon=0.3, delta=1e-5, **bound(exposed))
        model.set_unsafe(test_key=bytes([seed] * 32)).fit(X[:n], y[:n], None if exposure is None else exposure[:n])
        plain = np.full(n, y[:n].sum() / share[:n].sum()) * share[n:]
        r, t = share[n:], y[n:]
        base = (
            gammaln(t + r) - gammaln(r) - gammaln(t + 1) + r * np.log(r / (r + plain)) + t * np.log(plain / (r + plain))
        )
        over.append(base.mean() - model.score(X[n:], t, None if exposure is None else exposure[n:]))
    assert np.mean(over) < 0.15, over


def test_persons_with_several_exposures_have_the_gain_of_their_rows():
    """Their sum was taken for their mean: three rows a person made the mean count seem to be of a third of the rate."""
    (X, y, exposure), gains = events(1, 6_000, exposed=True), []
    for groups in (None, np.repeat(np.arange(2_000), 3)):
        model = CountRegression(row_norm=2.0, largest=30.0, epsilon=1e3, delta=1e-6, **bound(True))
        model.set_unsafe(test_key=bytes(32)).fit(X, y, exposure, groups=groups)
        gains.append(model.found_gain_.gain)
        assert model.predict(X, exposure).mean() == pytest.approx(y.mean(), rel=0.03)
    assert gains[1] == pytest.approx(gains[0], abs=0.01)


def test_effects_predictions_and_scores():
    X, y, _ = events(1, 20_000)
    model = CountRegression(row_norm=2.0, largest=30.0, epsilon=8.0, delta=1e-6)
    model.set_unsafe(test_key=bytes(32)).fit(X, y)
    first = model.effects()[0]
    assert (first.outcome, first.name, first.change) == ("count", "x1", "+1")
    assert (
        first.ratio.mean == pytest.approx(np.exp(model.coef_[0, 0])) and 1.5 < first.ratio.low < first.ratio.high < 2.2
    )
    np.testing.assert_allclose(model.predict(X), np.exp(0.4 + X @ BETA), rtol=0.25)
    rates, r = model.predict(X[:50]), 1.0
    log = gammaln(y[:50] + r) - gammaln(r) - gammaln(y[:50] + 1) + np.log(r / (r + rates)) * r
    log += y[:50] * np.log(rates / (r + rates))
    assert model.score(X[:50], y[:50]) == pytest.approx(log.mean(), abs=0.01)
    assert model.score(X, y) > model.score(X, np.roll(y, 1))


def contributed(run):
    usable = run.records.usable
    run.model.prepare(run.plan.mechanism, run.plan.sampler)
    return sums_of(run.model, run.records, None if usable is None else np.flatnonzero(usable))


def test_a_count_above_the_largest_is_the_largest():
    X, y, _ = events(0, 100)
    model = CountRegression(noise_multiplier=1.0, largest=3.0, n_records=100)
    one, other = (contributed(model.prepare(X, z)) for z in (np.minimum(y, 3.0), np.where(y > 3, 99, y)))
    assert (one == other).all()


def test_exposures_scale_rates_predictions_and_scores():
    """A person's year is as good as two halves of it, and rates are for one unit whatever the unit is."""
    X, y, exposure = events(1, 3_000, exposed=True)
    how = {"private": False, "largest": 200.0, "n_steps": 40}
    whole = CountRegression(**how, largest_exposure=YEAR).fit(X, y, exposure)
    months = CountRegression(**how, largest_exposure=YEAR / 30).fit(X, y, exposure / 30)
    half = np.random.default_rng(0).binomial(y, 0.5)
    parts = CountRegression(**how, largest_exposure=YEAR).fit(
        np.vstack([X, X]), np.append(half, y - half), np.tile(exposure / 2, 2)
    )
    for other, unit in ((months, 30), (parts, 1)):
        np.testing.assert_allclose(other.coef_, whole.coef_, atol=2e-3)
        np.testing.assert_allclose(other.predict(X) / unit, whole.predict(X), rtol=5e-3)
    assert whole.predict(X, exposure).mean() == pytest.approx(y.mean(), rel=0.03)
    np.testing.assert_allclose(whole.predict(X, 7.0), 7 * whole.predict(X))
    assert whole.score(X, y, exposure) == pytest.approx(months.score(X, y, exposure / 30), abs=1e-3)
    assert whole.score(X, y, exposure) > whole.score(X, y, np.roll(exposure, 1))
    assert whole._headline == "Counts for one unit of exposure, cut at 200"


@pytest.mark.parametrize("bad", [0.0, -1.0, 5e-324, np.nan, np.inf, 2 * YEAR, None])
def test_bad_exposures_are_refused_or_left_out(bad):
    X, y, exposure = events(0, 100, exposed=True)
    exposure = exposure.astype(object if bad is None else float)
    exposure[7] = bad
    model = CountRegression(noise_multiplier=1.0, largest_exposure=YEAR)
    with pytest.raises(
        ValueError, match=r"^exposure: expected (numbers above 0, at most largest_exposure=365; leave|.*missing)"
    ):
        model.fit(X, y, exposure)
    assert not hasattr(model, "privacy_")
    sums = []
    for rows in (np.arange(100), np.delete(np.arange(100), 7)):
        made = CountRegression(noise_multiplier=1.0, largest_exposure=YEAR, options=DROP, n_records=100)
        sums.append(contributed(made.prepare(X[rows], y[rows], exposure=exposure[rows])))
    assert (sums[0] == sums[1]).all()


@pytest.mark.parametrize("bad", [-1.0, 0, np.nan, np.inf, "a", [1.0, 2.0], np.ones((100, 1)), np.zeros(100)])
def test_a_prediction_is_for_exposures_above_0_of_each_row(bad):
    X, y, exposure = events(0, 100, exposed=True)
    model = CountRegression(noise_multiplier=1.0, largest_exposure=YEAR).fit(X, y, exposure)
    with pytest.raises((ValueError, TypeError), match="^exposure.*expected"):
        model.predict(X, bad)
    with pytest.raises(ValueError, match="^exposure: expected None"):
        CountRegression(noise_multiplier=1.0).fit(X, y).predict(X, exposure)


def test_a_forecast_names_rate_ratios():
    X, y, _ = events(0, 200)
    with pytest.warns(UserWarning, match="only a rate ratio above"):
        CountRegression(epsilon=0.05).fit(X, y)
    told = []
    CountRegression(epsilon=100.0).fit(X, y, on_forecast=told.append)
    assert "a mean count below 4 more" in told[0].text  # a fifth of the largest
