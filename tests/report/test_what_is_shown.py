"""What a page says is not less than what holds, and it shows words as words."""

from vips_fast.accounting import GaussianEvent
from vips_fast.report.figures import intervals
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
