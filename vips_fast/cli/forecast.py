"""What a topic model can be expected to give: in one line before a fit, and as a table for ``plan``."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..accounting import rounded_up
from ..models.family import family_of
from .messages import say

if TYPE_CHECKING:
    from ..engine.request import RunForecast
    from ..models.lda import Plan

#: Numbers of records and epsilons of the table, in parts of those that are asked for.
_SIZES, _EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.25, 0.5, 1.0, 2.0, 4.0)


def show_forecast(args: Namespace) -> Callable[[RunForecast], None]:
    """Show a run's forecast before it spends anything; ValueError if it is hopeless.

    ``--quiet`` keeps the forecast back, ``--anyway`` makes the refusal a warning.
    """

    def show(forecast: RunForecast) -> None:
        if forecast.warning is None:
            if not args.quiet:
                say(forecast.text)
        elif args.anyway:
            warnings.warn(forecast.text, forecast.warning, stacklevel=2)
        else:
            raise _refusal(forecast.text)

    return show


def _refusal(why: str) -> ValueError:
    return ValueError(f"{why}; nothing was spent on it; expected other settings, or --anyway")


def forecast_rows(args: Namespace, model: Any, words: int | None) -> list[tuple[str, str]]:
    """The forecast of a fit that is only checked, as a row, where its arguments say enough; ValueError if hopeless."""
    if family_of(model).name != "lda" or args.paper or not model.private or args.prior_model or args.prior_source:
        return []
    if None in (words, model.n_records) or (model.target_epsilon is None and not model.noise_multiplier):
        return []
    known = None if args.word_vectors is None else True
    planned = model.plan(int(model.n_records or 1), int(words or 1), word_neighbors=known)
    if planned.hopeless and not args.anyway:
        raise _refusal(planned.warning())
    return [("expect", planned.forecast().partition(": ")[2])]


def lines(planned: Plan) -> list[str]:
    """What is expected of a plan, and what helps."""
    return [f"{text[0].upper()}{text[1:]}." for text in (planned.forecast(), planned.advice())]


def grid(planned: Any, n_records: int, epsilon: float) -> str:
    """The gains that ``planned(n_records, epsilon)`` expects, around the numbers that are asked for."""
    from ..report import table

    sizes = [max(1, round(float(f"{n_records * part:.2g}"))) if part != 1 else n_records for part in _SIZES]

    def cell(n: int, one: float) -> str:
        try:
            found = planned(n, one)
        except ValueError:
            return "-"  # no noise meets the target with so few
        return "refused" if found.hopeless else "none" if found.expected_gain < 0.005 else f"{found.expected_gain:.0%}"

    rows = []
    for part in _EPSILONS:
        one = epsilon * part
        rows.append([f"epsilon = {rounded_up(one)}", *(cell(n, one) for n in sizes)])
    return table(rows, ["expected gain, by records", *(f"{n:,}" for n in sizes)])
