"""Audits of the first-order statistic of logistic regression.

They are about rows and persons, with faults that break the statistic.
"""

import faults
import pytest

from vips_fast import BayesianLogisticRegression
from vips_fast.audit import Sizes, audit

# D: mu = 1 is known to +- 0.2 from 1,200 releases a side.
SIZES = Sizes(pairs=60, records=20, draws=200_000, releases=1_200, runs=160, rows=2**17)
FORMS = {
    "default": {},
    "replace": dict(options={"relation": "replace_one"}, sampling="full", n_trials=7.0),
    "no intercept": dict(fit_intercept=False, row_norm=3.0),
}


def failed(layer, kind=BayesianLogisticRegression, rows=None, **settings):
    """Names of the checks that fail."""
    report = audit(
        kind(covariance="spherical", **settings), layers=layer, sizes=SIZES, random_state=0, rows_per_unit=rows
    )
    print(report.text())
    return {check.name for result in report.layers for check in result.checks if not check.passed}


@pytest.mark.parametrize("form, rows", [("default", None), ("replace", 7), ("no intercept", None)])
def test_sums_are_bounded_and_pure(form, rows):
    assert failed("AB", rows=rows, **FORMS[form]) == set()


def test_what_an_attacker_measures_and_what_can_be_rebuilt():
    assert failed("DG") == set()


@pytest.mark.parametrize("layer, check", [("A", "distance of neighbors"), ("D", "noise multiplier 1")])
def test_rows_that_pass_the_bound(layer, check):
    assert check in failed(layer, faults.LongRows)


def test_persons_that_are_not_clipped_together():
    assert "distance of neighbors" in failed("A", faults.UnclippedUnits, rows=7)


def test_sums_without_noise_in_the_coefficients():
    assert failed("G", faults.ExactMean)
