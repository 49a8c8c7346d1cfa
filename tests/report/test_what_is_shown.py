"""What a page says is not less than what holds, and it shows words as words."""

import warnings

import numpy as np

from vips_fast import BayesianLogisticRegression
from vips_fast.accounting import GaussianEvent
from vips_fast.report import html_report
from vips_fast.report.figures import bars, intervals
from vips_fast.report.html import environment
from vips_fast.report.words import secret_risks


def test_the_risk_of_several_bounds_is_the_largest():
    bounds = [(GaussianEvent(10.0), 1.0), (GaussianEvent(1.0), 1.0), (GaussianEvent(3.0), 1.0)]
    alone = [secret_risks([bound]) for bound in bounds]
    for shown, *each in zip(secret_risks(bounds), *alone, strict=True):
        assert shown.success == max(risk.success for risk in each) > min(risk.success for risk in each)


def test_an_interval_is_pale_where_it_holds_zero():
    chart = intervals(["hidden", "more", "less"], [0.1, 0.5, -0.5], [-0.1, 0.2, -0.9], [0.3, 0.8, -0.1], (-1.0, 1.0))
    assert [row.weak for row in chart.rows] == [True, False, False]


def test_words_of_the_data_are_no_markup():
    assert environment().from_string("{{ word }}").render(word="<b>&") == "&lt;b&gt;&amp;"


def test_a_page_without_a_known_effect_shows_none():
    X = np.random.default_rng(0).normal(size=(60, 2)) / 3
    model = BayesianLogisticRegression(classes=[0, 1], epsilon=0.01).set_unsafe(test_key=bytes(32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is hopeless
        page = html_report(model.fit(X, np.arange(60) % 2))
    assert "none is known at this epsilon" in page and "The 0 largest" not in page


def test_an_estimate_has_the_decimals_of_its_interval():
    """In charts, as in lists (`models/test_effect_words.py`); a share beside its standard error."""
    (interval,) = intervals(["x"], [0.123456], [-0.3], [0.5], (-1.0, 1.0)).rows
    (bar,) = bars(["x"], [0.0123456], [0.002]).rows
    assert (interval.value, bar.value) == ("+0.12, from -0.30 to +0.50", "1.23 % ± 0.20 %")
