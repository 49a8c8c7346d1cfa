"""Figures in statements: a printed bound must still be a bound."""

import math
from decimal import ROUND_CEILING, Decimal

from ..checks import check_number
from ..store.words import several
from .checks import count


def _rounded(value: float, digits: int, rounding: str) -> str:
    value, digits = check_number("value", value, -math.inf, math.inf), count("digits", digits, low=1)
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    # The decimal that Python prints for a double reads back as that double, so that rounding it outwards rounds the
    # double outwards.
    exact = Decimal(repr(value))
    shown = exact.quantize(Decimal(1).scaleb(exact.adjusted() + 1 - digits), rounding=rounding)
    return f"{float(shown):.{digits}g}"


def rounded_up(value: float, digits: int = 4) -> str:
    """Round up to `digits` significant digits, for upper bounds."""
    return _rounded(value, digits, "ROUND_CEILING")


def rounded_down(value: float, digits: int = 4) -> str:
    """Round down to `digits` significant digits, for lower bounds."""
    return _rounded(value, digits, "ROUND_FLOOR")


def percent(share: float, digits: int = 1) -> str:
    """Print a share in percent, rounded up to ``digits`` decimals."""
    # The decimal that Python prints for a double reads back as that double, so rounding up makes it no smaller.
    shown = Decimal(repr(float(share))).scaleb(2).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING)
    return f"{shown:f} %"


def right_guesses(success: float, unit: str, adds: bool) -> str:
    """Say how often an attacker is right at most, by `attack_success` of a run.

    These are the words of every page and message. ``adds`` says that neighbors differ by adding or removing a unit. The
    share belongs to the releases of a run, or of its plan. Epsilon has none: runs of one epsilon have different ones.

    >>> right_guesses(0.5991, "patient", True)
    'Somebody who knows all else and sees every release guesses whether one patient is in the data, and is right at ...'
    """
    asked = f"whether one {unit} is in the data" if adds else f"which of two {several(unit)} is in the data"
    return (
        f"Somebody who knows all else and sees every release guesses {asked}, "
        f"and is right at most {percent(success)} of the time; 50 % is chance."
    )
