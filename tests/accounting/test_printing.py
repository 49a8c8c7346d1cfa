"""Printed figures are still bounds."""

import math
from dataclasses import asdict
from fractions import Fraction

import epsilon_table
import pytest
from events import QUIET
from hypothesis import example, given
from hypothesis import strategies as st

from vips_fast import accounting as acc


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (1.0049, "1.005", "1.004"),
        (1.0040000000001, "1.005", "1.004"),
        (1.004, "1.004", "1.004"),
        (0.98398, "0.984", "0.9839"),
        (9.9996, "10", "9.999"),
        (0.3, "0.3", "0.3"),
        (1e-7, "1e-07", "1e-07"),
        (4.65658e-5, "4.657e-05", "4.656e-05"),
        (123456.0, "1.235e+05", "1.234e+05"),
        (0.0, "0", "0"),
        (math.inf, "inf", "inf"),
    ],
)
def test_rounding_of_a_figure(value, up, down):
    assert (acc.rounded_up(value), acc.rounded_down(value)) == (up, down)


@QUIET
@given(st.floats(1e-300, 1e300), st.integers(1, 12))
@example(1.0049, 3)
@example(math.nextafter(1.004, 2.0), 4)
@example(0.1 + 0.2, 4)
def test_rounding_is_outwards_and_close(value, digits):
    up, down = acc.rounded_up(value, digits), acc.rounded_down(value, digits)
    assert float(down) <= value <= float(up)
    # Neighboring decimals: one unit of the last digit apart at most (half an ulp for reading doubles).
    assert Fraction(up) - Fraction(down) <= Fraction(value) * Fraction(10) ** (1 - digits) * (1 + Fraction(1, 10**9))


def test_the_papers_table_rounds_up():
    row = asdict(epsilon_table.PaperRow(epsilon_table.SETTINGS[0], *[1.00449] * 6, 1.0, 1.0))
    page = epsilon_table.report([row | dict(setting="a run", printed=1.0, seconds=0)])
    assert "| a run | 1 | 1.005 | 1.005 | 1.005 | [1.004, 1.005] |" in page
