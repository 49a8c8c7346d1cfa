"""Forecast a logistic regression from public numbers only.

A release has noise of sd z C1 in each entry of the gradient, and averages over the steps have variance v. A column of
second moment q adds n b f q to the curvature, f being the mean of p (1 - p). So a coefficient has about the variance
(v + n b f q) / (n b f q)^2: noise and sampling. `forecast` states the 90 % interval of a column's effect for one
standard deviation of the column, w. By it, it gives the least odds ratio that an interval tells from 1.

Rows are taken to be as long as their bound R, and their columns alike: q = R^2 / d. Real columns go with each other and
with the constant, and the noise hides the curvature too. In 25 fits of three designs intervals were 1.15 to 2.5 times
as wide: the more, the closer the expected moment below was to the least. So a usual width is multiplied by 1.25 (1 +
least / expected), which was .7 to 1.4 times the found factor. A run is hopeless if even a column that has all of a
row's length to itself, q = R^2, has an interval of more than 1 on either side of 0. An effect of that size ranks three
pairs of records out of four correctly, and would not be seen.

An effect is known only if its column's second moment stands clear of the noise in it
(`vips_fast.models.logistic.effects.known_changes`). So the forecast also compares the expected moment, n b f q, with
the least that is known. In the 150 cells of `bench/intervals.py` below 1 no cell had more than a quarter of its
effects known. From 4 on, most cells whose rows were as long as their bound had nearly all.
"""

import math

from ...engine.plan import RunForecast
from ..forecast import HopelessWarning, factor
from .effects import SEEN

#: Mean of p (1 - p); normal quantile of a 90 % interval.
_SLOPE, _REACH = 0.2, 1.645
#: Real intervals over those of alike columns: see above.
_WIDER = 1.25
#: From this half width of a usual column's interval on a run is called mostly noise.
_NOISY = 1.0
#: The same, for a verdict that is no better than weak: an odds ratio of 1.35.
_WIDE = 0.3
#: Half width of a hopeless run, for one standard deviation of a column that is all of a row.
HOPELESS = 1.0
#: Expected second moment over the least that is known: below the first no effect is known, from the second on most are.
_SOME, _MOST = 1.0, 4.0


def half_width(n_records: float, noise: float, moment: float) -> float:
    """Compute the half width of a usual coefficient's 90 % interval.

    It is for one standard deviation of a column.

    ``n_records`` counts trials, ``noise`` is the sd in an entry of the averaged gradient, ``moment`` is q.
    """
    curvature = n_records * _SLOPE * moment
    return _REACH * math.sqrt(moment) * math.hypot(noise, math.sqrt(curvature)) / curvature


def forecast(
    n_records: float, d: int, row_norm: float, noise: float, hidden: float, ratio: str = "odds ratio"
) -> RunForecast:
    """Predict the widths of intervals of ``d`` columns.

    Also tells whether they are known.

    ``noise`` is the sd in an entry of the averaged gradient, and ``hidden`` in an averaged second moment.
    """
    usual, best = (half_width(n_records, noise, row_norm**2 / share) for share in (max(d, 1), 1))
    expected, least = n_records * _SLOPE * row_norm**2 / max(d, 1), SEEN * hidden
    usual *= _WIDER * (1 + least / expected)
    if best > HOPELESS:
        text = (
            f"forecast: the coefficients will be mostly noise: only {with_article(ratio)} above "
            f"{_ratio(best)} for one standard deviation of a column could be told from 1. "
            "What helps: more records or epsilon, fewer columns"
        )
        return RunForecast(1 / usual, text, HopelessWarning, "noise")
    clear = expected / least
    helps = f". What helps: {factor(_MOST / clear)} times the records or the epsilon, or fewer columns"
    if clear < _SOME:
        text = "forecast: predictions at best; hardly any effect will be known, for the noise hides how columns vary"
        return RunForecast(1 / usual, text + helps, None, "weak")
    seen = "some effects will not be known, and others are" if clear < _MOST else "effects are"
    seen = f"{'mostly noise is expected; ' if usual > _NOISY else ''}{seen}"
    worth = "noise" if usual > _NOISY else "weak" if usual > _WIDE or clear < _MOST else "useful"
    text = (
        f"forecast: {seen} visible from {with_article(ratio)} of about {_ratio(usual)} for one standard deviation of "
        f"a column, with rows as long as row_norm={row_norm:.4g}{helps if clear < _MOST else ''}"
    )
    return RunForecast(1 / usual, text, None, worth)


def with_article(name: str) -> str:
    """Put "a" or "an" before a name."""
    return ("an " if name[0] in "aeiou" else "a ") + name


def _ratio(half: float) -> str:
    return f"{math.exp(half):.3g}" if half < math.log(1000) else "1000"
