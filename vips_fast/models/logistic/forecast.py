"""Forecast a logistic regression from public numbers only.

A release has noise of sd z C1 in each entry of the gradient, and averages over the steps have variance v. A column of
second moment q adds n b f q to the curvature, f being the mean of p (1 - p). So a coefficient has about the variance
(v + n b f q) / (n b f q)^2: noise and sampling. From the 90 % interval of a column's effect for one standard deviation
of the column follows the least odds ratio that an interval tells from 1.

Nobody knows beforehand how long rows are and how rare the outcome. So there are two answers. Of a usual table the rows'
mean square is a third of that of their bound R, and f is .15: in Framingham's and in surveys with 12 to 44 % of the
outcome the rows had .27 to .35. The other answer is of rows as long as R and an outcome of 30 %; for one of 5 % f is
.048. Columns are taken to be alike, q = share R^2 / d, for no public number tells how rare a category's value is. They
go with each other and with the constant, and the noise hides the curvature too, so that a usual width is multiplied by
1.25 (1 + least / expected). A run is hopeless if even a column that has all of R to itself has an interval of more than
1 on either side of 0, and an effect that ranks three pairs of records out of four correctly would not be seen.

An effect is known only if the curvature that it is read along stands clear of its noise
(`vips_fast.models.logistic.effects.Reading.known`). So the forecast also compares the expected moment of a column, n b
f q, with the least that is known. Of tables below 1 (32 fits of eight designs) 0 to 3 effects of 8 or 22 were known,
from 1 to 4 some, and above 4 most.
"""

import math

from ...engine.plan import RunForecast
from ..forecast import HopelessWarning, factor

#: Mean of p (1 - p), and the rows' mean square over that of their bound: of long rows, and of a usual table.
_LONG, _TABLE = (0.2, 1.0), (0.15, 1 / 3)
#: Normal quantile of a 90 % interval.
_REACH = 1.645
#: Real intervals over those of alike columns: see above.
_WIDER = 1.25
#: Half width of a hopeless run, for one standard deviation of a column that is all of a row.
HOPELESS = 1.0
#: Standard deviations of its noise that a column's moment is expected to be above 0, if its effect is known.
_TOLD = 5.0
#: Expected second moment over the least that is known: below the first no effect is known, from the second on most are.
_SOME, _MOST = 1.0, 4.0


def half_width(n_records: float, noise: float, moment: float, slope: float = _LONG[0]) -> float:
    """Compute the half width of a usual coefficient's 90 % interval, for one standard deviation of a column.

    ``n_records`` counts trials, ``noise`` is the sd in an entry of the averaged gradient, ``moment`` is q.
    """
    curvature = n_records * slope * moment
    return _REACH * math.sqrt(moment) * math.hypot(noise, math.sqrt(curvature)) / curvature


def forecast(n_records: float, d: int, row_norm: float, noise: float, hidden: float, mean: float = 0.0) -> RunForecast:
    """Predict the widths of intervals of ``d`` columns, and how many are known.

    ``noise`` is the sd in an entry of the averaged gradient, and ``hidden`` in an averaged second moment. ``mean``
    is of counts.
    """
    best, named = half_width(n_records, noise, row_norm**2), "a rate ratio" if mean else "an odds ratio"

    def shown(half: float) -> str:
        return f"{math.exp(half):.3g}" if half < math.log(1000) else "1000"

    def effects(clear: float) -> str:
        return "hardly any effect" if clear < _SOME else "some effects" if clear < _MOST else "most effects"

    cases = []
    for slope, share in (_TABLE, _LONG):
        moment = share * row_norm**2 / max(d, 1)
        clear = n_records * slope * moment / (_TOLD * hidden)
        cases.append((_WIDER * (1 + 1 / clear) * half_width(n_records, noise, moment, slope), clear))
    (usual, clear), (least, most) = cases
    if best > HOPELESS:
        text = (
            f"forecast: the coefficients will be mostly noise: only {named} above "
            f"{shown(best)} for one standard deviation of a column could be told from 1. "
            "What helps: more records or epsilon, fewer columns"
        )
        return RunForecast(1 / usual, text, HopelessWarning)
    helps = f". What helps: {factor(_MOST / clear)} times the records or the epsilon, or fewer columns"
    if most < _SOME:
        text = "forecast: predictions at best; hardly any effect will be known, for the noise hides how columns vary"
        return RunForecast(1 / usual, text + helps)
    from_, some = f"from {named} of about ", clear >= _SOME
    table = f"{effects(clear)} of a usual table will be known{f', {from_}{shown(usual)}' if some else ''}"
    long = (
        f"with rows as long as their bound, {row_norm:.4g}, {effects(most)}, {'from ' if some else from_}{shown(least)}"
    )
    rare = "a category's value 10 times as rare as the others needs 10 times the records, "
    rare += f"a mean count below {mean:g} more" if mean else "an outcome of 5 % 3 times"
    text = f"forecast: {table}; {long} (for one standard deviation of a column; {rare}){helps if clear < _MOST else ''}"
    return RunForecast(1 / usual, text)
