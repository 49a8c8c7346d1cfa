"""The same input, the same answer in every estimator, whatever library holds it; and bad values, named by column."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from cases import EVERY, MORE
from runs import bits

from vips_fast import BayesianLogisticRegression, CountRegression

#: All estimators of tables of numbers. ("logistic-sparse" has sparse rows, whose order of additions is another.)
MODELS = {name: case for name, case in {**EVERY, **MORE}.items() if name not in ("vocabulary", "logistic-sparse")}
ALL = pytest.mark.parametrize("name", MODELS)
#: Those that take sparse rows in the same order of additions.
SPARSE = ("lda", "lda-paper", "prior", "network", "network-classes", "mixture")


def frame(X):
    return pd.DataFrame(X, columns=[f"c{place}" for place in range(X.shape[1])])


KINDS = {
    "lists": lambda X: X.tolist(),
    "objects": lambda X: X.astype(object),
    "frame": frame,
    "nullable": lambda X: frame(X).convert_dtypes(),
    "booleans": lambda X: frame(X).convert_dtypes().astype({"c0": "boolean"}) if np.isin(X, [0, 1]).all() else frame(X),
    "arrow": lambda X: frame(X).convert_dtypes(dtype_backend="pyarrow"),
    "polars": lambda X: pl.from_pandas(frame(X)),
    "pyarrow": lambda X: pa.table(frame(X)),
}


def column(kind, y):
    return KINDS[kind](y) if kind in ("lists", "objects") else KINDS[kind](y[:, None])["c0"]


def data(name):
    """Dense data of a case; 64-bit numbers, as other libraries hold them."""
    X, *more = MODELS[name][1](200)
    parts = [part.toarray() if sp.issparse(part) else np.asarray(part) for part in (X, *more)]
    return [part if part.dtype.kind in "US" else part.astype(part.dtype.kind.replace("u", "i") + "8") for part in parts]


def fitted(name, X, *y, **options):
    model = MODELS[name][0](**options).set_unsafe(test_key=b"k" * 32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # which would tell of a record
        return model.fit(X, *y)


@ALL
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_numbers_give_the_same_fit(name, kind):
    X, *y = data(name)
    held = [KINDS[kind](part) if part.ndim == 2 else column(kind, part) for part in (X, *y)]
    assert bits(fitted(name, *held)) == bits(fitted(name, X, *y))


@pytest.mark.parametrize("name", SPARSE)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.coo_array, sp.csc_matrix])
def test_sparse_rows_are_dense_ones(name, kind):
    X, *y = data(name)
    assert bits(fitted(name, kind(X), *y)) == bits(fitted(name, X, *y))


@ALL
@pytest.mark.parametrize("kind", ["objects", "signaling", "text", "lists", "nullable", "arrow", "polars", "pyarrow"])
def test_a_cell_that_is_missing_or_no_number_is_nan(name, kind):
    """With invalid="drop" the record contributes nothing; otherwise the refusal names the column."""
    X, *y = data(name)
    gaps = frame(X).astype(object)
    gaps.iat[7, 1] = {"signaling": Decimal("sNaN"), "text": "zq7351", "lists": [1]}.get(kind)
    spoiled = X.astype(float)
    spoiled[7, 1] = np.nan
    kinds = {
        **dict.fromkeys(("objects", "signaling", "text", "lists"), lambda: gaps),
        "nullable": lambda: gaps.convert_dtypes(),
        "arrow": lambda: gaps.convert_dtypes(dtype_backend="pyarrow"),
        "polars": lambda: pl.from_pandas(gaps.convert_dtypes(dtype_backend="pyarrow")),
        "pyarrow": lambda: pa.Table.from_pandas(gaps.convert_dtypes(dtype_backend="pyarrow")),
    }
    missing = kinds[kind]()
    dropped = fitted(name, missing, *y, options={"invalid": "drop"})
    assert bits(dropped) == bits(fitted(name, spoiled, *y, options={"invalid": "drop"}))
    with pytest.raises((TypeError, ValueError), match="NaN.*column 'c1'" if kind not in ("text", "lists") else "'c1'"):
        fitted(name, missing, *y)


#: Outcomes that are none.
NONE = {"logistic-spherical": [2], "classes": [9, None], "network-classes": [9, None]}
NONE["counts"] = [-1.0, 0.5, np.nan, "a"]


@pytest.mark.parametrize("name, outcome", [(name, outcome) for name in NONE for outcome in NONE[name]])
def test_a_record_without_an_outcome_contributes_nothing(name, outcome):
    """With invalid="drop" it is as one whose row is not finite."""
    X, y = data(name)
    X, none = X.astype(float), y.astype(object)
    X[3, 1], none[7] = np.nan, outcome  # beside a row that is none
    spoiled = X.copy()
    spoiled[7, 1] = np.nan
    stated = {} if name == "counts" else {"classes": sorted(set(y.tolist()))}
    drop = {"options": {"invalid": "drop"}, **stated}
    assert bits(fitted(name, X, none, **drop)) == bits(fitted(name, spoiled, y, **drop))
    assert bits(fitted(name, X, none, **drop)) != bits(fitted(name, X, y, **drop))
    X[3, 1] = 0.0
    with pytest.raises((TypeError, ValueError), match="^y"):
        fitted(name, X, none, **stated)


#: What stands in a column; numbers with digits that no message may show.
BAD = {
    "zeros": lambda x: 0.0 * x,
    "constant": lambda x: 0.0 * x + 1.0,
    "tiny": lambda x: (1.0 + 0.0 * x) * 1.2345e-160,
    "huge": lambda x: (1.0 + 0.0 * x) * 1.2345e200,
    "far": lambda x: (1.0 + 0.0 * x) * 1.2345e7,
    "infinity": lambda x: np.where(np.arange(len(x)) == 7, np.inf, x),
    "nan": lambda x: np.where(np.arange(len(x)) == 7, np.nan, x),
    "text": lambda x: np.where(np.arange(len(x)) == 7, "a12345", x.astype(object)),
}


@ALL
@pytest.mark.parametrize("private", [True, False], ids=["private", "not private"])
@pytest.mark.parametrize("bad", BAD)
def test_a_bad_column_gives_a_finite_fit_or_one_line_that_names_it(name, private, bad):
    X, *y = data(name)
    spoiled = frame(X.astype(float))
    spoiled["c1"] = BAD[bad](spoiled["c1"].to_numpy())
    options = {} if private else dict(private=False, noise_multiplier=None)
    try:
        model = fitted(name, spoiled, *y, **options)
    except (ValueError, TypeError) as error:
        said = str(error)
        assert "\n" not in said and "2345" not in said
        # Of proportions the sums of rows can be wrong where each column is right.
        assert "'c1'" in said or (name == "tables" and bad == "constant" and "larger sums" in said), said
        assert any(word in said for word in ("expected", "fill", "multiply", "encode")), said
        return
    assert bad not in ("infinity", "nan", "text")
    assert all(np.isfinite(array).all() for array in model._result.arrays.values())


REGRESSIONS = {
    "full": lambda **how: BayesianLogisticRegression(private=False, **how),
    "spherical": lambda **how: BayesianLogisticRegression(private=False, covariance="spherical", **how),
    "counts": lambda **how: CountRegression(private=False, largest=9.0, **how),
}


@pytest.mark.parametrize("kind", REGRESSIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_column_of_zeros_leaves_the_others_as_they_are(kind, fit_intercept):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * [1, 0, 1]
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    model = REGRESSIONS[kind](fit_intercept=fit_intercept).fit(X, y)
    without = REGRESSIONS[kind](fit_intercept=fit_intercept).fit(X[:, [0, 2]], y)
    assert abs(model.coef_[0, 1]) < 1e-12  # but for rounding
    np.testing.assert_allclose(model.coef_[0, [0, 2]], without.coef_[0], atol=0.05)
    if kind != "spherical":
        low, high = model.credible_interval()[1]
        assert low < -1 and high > 1  # nothing is known of it


@pytest.mark.parametrize("kind", REGRESSIONS)
@pytest.mark.parametrize("scale", [1e-160, 1e-30, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e30, 1e100, 1e200])
def test_rows_of_any_size_are_fitted_or_refused(kind, scale):
    """Without an intercept the scale of all columns together changes nothing but the unit of the coefficients."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)
    plain = REGRESSIONS[kind](fit_intercept=False, n_steps=50).fit(X, y)
    try:
        model = REGRESSIONS[kind](fit_intercept=False, n_steps=50).fit(X * scale, y)
    except ValueError as error:
        assert "column" in str(error) and not 1e-9 < scale < 1e9
        return
    rate = model.coef_[0] * scale / plain.coef_[0]
    assert 1e-12 <= scale <= 1e12 and np.isfinite(rate).all() and (kind == "spherical" or 0.5 < rate[0] < 2)
