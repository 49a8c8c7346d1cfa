"""With next to no noise a regression is the maximum a posteriori estimate, whatever rows and outcomes are."""

import importlib.util
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from vips_fast import BayesianLogisticRegression, CountRegression
from vips_fast.data import Schema

PATH = Path(__file__).resolve().parents[2] / "bench" / "rates.py"
spec = importlib.util.spec_from_file_location("bench_rates", PATH)
rates = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rates)


def most_probable(X, gradient_and_curvature, model, k=0):
    """Maximize a model's posterior by damped Newton steps; give mean and standard errors."""
    X = np.hstack([X, np.full((len(X), 1), model._constant)])
    alpha = np.atleast_1d(model.prior_precision_)[k]
    m = np.zeros(X.shape[1])
    for _ in range(200):
        residual, slope = gradient_and_curvature(X @ m)
        H = (X * slope[:, None]).T @ X + alpha * np.eye(len(m))
        change = np.linalg.solve(H, X.T @ residual - alpha * m)
        furthest = np.abs(X @ change).max()
        m = m + change * min(1.0, 2 / max(furthest, 1e-12))
        if furthest < 1e-9:  # of logits
            break
    return m, np.sqrt(np.diag(np.linalg.inv(H)))


def logistic(y):
    return lambda logits: (y - expit(logits), expit(logits) * expit(-logits))


def fitted(kind, X, y, inputs=None, epsilon=1e6, exposure=None, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(epsilon=epsilon, delta=1e-6, n_jobs=1, **more).set_unsafe(test_key=bytes(32))
        return model.fit(X, y, inputs=inputs, **({} if exposure is None else {"exposure": exposure}))


@pytest.mark.parametrize(
    ("kind", "n", "d", "rate", "size"),
    [
        ("normal", 1_500, 3, 0.5, 1.0),
        ("normal", 120_000, 6, 0.054, 2.0),  # 0.22 standard errors before, and .70 in the next
        ("normal", 40_000, 60, 0.1, 0.4),
        ("skewed", 30_000, 6, 0.16, 0.7),
        ("binary", 30_000, 10, 0.05, 1.0),
        ("binary, correlated", 120_000, 12, 0.16, 1.0),
        ("interactions", 60_000, 12, 0.3, 1.0),
        ("mixed", 4_000, 19, 0.16, 0.5),
        ("mixed", 30_000, 60, 0.3, 0.5),
    ],
)
def test_outcomes(kind, n, d, rate, size):
    rng, X, bound, logits, _ = rates.draw(kind, n, d, rate, size)
    y = (rng.random(n) < expit(logits)).astype(int)
    model = fitted(BayesianLogisticRegression, X, y, row_norm=bound)
    wanted, errors = most_probable(X, logistic(y), model)
    found = model._fitted().arrays["weights"]
    assert np.abs((found - wanted) / errors).max() < 0.1
    np.testing.assert_allclose(np.sqrt(model.covariance_.diagonal()), errors, rtol=0.1)


@pytest.mark.parametrize(
    "rule", ['missing = "flag"', 'missing = "flag"\ncenter = 85', 'missing = "fill"\ncenter = 85', 'beyond = "missing"']
)
def test_numbers_of_which_a_tenth_is_missing(rule):
    """The values fill a small part of their bounds. They are missing at random, so that the flag's own effect is 0."""
    rng, n = np.random.default_rng(1), 30_000
    glucose, other = np.exp(rng.normal(4.4, 0.2, n)), rng.normal(0, 1, n)
    y = (rng.random(n) < expit(0.02 * (glucose - 83) + 0.5 * other - 1.7)).astype(int)
    missing = rng.random(n) < 0.1
    cells = {"glucose": np.where(missing, np.nan if "beyond" not in rule else 9999.0, glucose), "other": other}
    rule = rule.replace('beyond = "missing"', 'beyond = "missing"\nmissing = "flag"')
    schema = Schema.parse(
        f'[columns.glucose]\nkind = "number"\nlow = 40\nhigh = 400\n{rule}\n'
        '[columns.other]\nkind = "number"\nlow = -5\nhigh = 5\n'
    )
    X = schema.encode(cells)
    model = fitted(BayesianLogisticRegression, X, y, row_norm=2**0.5, inputs={"schema.toml": schema.to_toml()})
    wanted, errors = most_probable(X.toarray(), logistic(y), model)
    found = np.append(model.coef_[0], model.intercept_ / model._constant)
    assert np.abs((found - wanted) / errors).max() < 0.1
    by_name = {one.label: one for one in model.effects()}
    for label, truth in (("glucose +10", 0.2), ("other +1", 0.5)):
        low, mean, high = np.array([by_name[label].log_ratio[k] for k in (1, 0, 2)])
        assert abs(mean - truth) < 1.5 * (high - low), label
    flags = [one for label, one in by_name.items() if "missing instead of" in label]
    assert len(flags) == ("flag" in rule)
    for one in flags:
        assert abs(one.log_ratio.mean) < 1.5 * (one.log_ratio.high - one.log_ratio.low) and one.known
        assert float(one.change.split()[3].strip(",")) == pytest.approx(85 if "center" in rule else 83.1, abs=0.6)


@pytest.mark.parametrize(("kind", "n", "d", "rare"), [("normal", 30_000, 4, 0.012), ("mixed", 60_000, 6, 0.035)])
def test_each_class_against_the_rest(kind, n, d, rare):
    """The rare class was 4 to 9 standard errors off, for all classes shared one curvature."""
    rng, X, bound, logits, _ = rates.draw(kind, n, d, rare)
    y = np.where(rng.random(n) < expit(logits), 2, (rng.random(n) < expit(X[:, 0])).astype(int))
    model = fitted(BayesianLogisticRegression, X, y, row_norm=bound, classes=[0, 1, 2])
    for k in range(3):
        wanted, errors = most_probable(X, logistic((y == k).astype(float)), model, k)
        assert np.abs((model._fitted().arrays["weights"][k] - wanted) / errors).max() < 0.1
        np.testing.assert_allclose(np.sqrt(model.covariance_[k].diagonal()), errors, rtol=0.1)


@pytest.mark.parametrize(("mean", "exposed"), [(0.1, False), (2.0, False), (20.0, False), (0.5, True), (5.0, True)])
def test_counts(mean, exposed):
    """Of the stated dispersion, none above ``largest``; and with exposures, an offset of their logarithm."""
    rng = np.random.default_rng(3)
    X = np.column_stack(
        [rng.uniform(-1, 1, 20_000), rng.random(20_000) < 0.1, np.minimum(rng.exponential(size=20_000), 3)]
    )
    share = rng.uniform(0.05, 1, len(X)) ** (1 + X[:, 1]) if exposed else np.ones(len(X))
    y = rng.negative_binomial(share, 1 / (1 + mean * np.exp(X @ [0.4, -0.5, 0.2] - 0.2))).astype(float)
    # Noise is in proportion to the largest count: at 1e6 it is a tenth of a standard error itself.
    how = {"exposure": 12 * share, "largest_exposure": 12} if exposed else {}
    model = fitted(CountRegression, X, y, row_norm=3.4, largest=float(y.max()), epsilon=1e7, **how)

    def parts(logits):
        p = expit(logits)
        return y - (y + share) * p, (y + share) * p * (1 - p)

    wanted, errors = most_probable(X, parts, model)
    assert np.abs((model._fitted().arrays["weights"] - wanted) / errors).max() < 0.1


def test_the_page_has_the_stored_sweep():
    stored = json.loads(PATH.with_name("rates.json").read_text())
    page = (PATH.parents[1] / "docs" / "logistic.md").read_text()
    assert rates.table(stored) in page and rates.persons_table(stored) in page


def test_rows_without_an_entry_end_no_fit():
    """Under sampling a block may have no entry: nothing may depend on that."""
    model = BayesianLogisticRegression(classes=[0, 1, 2], n_steps=3, fit_intercept=False, epsilon=1.0)
    assert np.isfinite(model.fit(sparse.csr_array((300, 4)), np.arange(300) % 3).coef_).all()


def test_a_plan_that_is_made_again_is_the_same():
    model = BayesianLogisticRegression(classes=[0, 1], n_steps=8, noise_multiplier=5.0, n_records=2000)
    made = model.prepare(np.zeros((2000, 2)), np.arange(2000) % 2).model
    for noise in np.geomspace(0.5, 50.0, 200):
        found = []
        for _ in range(3):
            made.plan(noise, 1.0)
            found.append(made._quiet)
        assert len(set(found)) == 1, noise
