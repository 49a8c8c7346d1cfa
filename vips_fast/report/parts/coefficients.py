"""Logistic regression: effects with their intervals, and ``coefficients.csv``."""

import csv
import io
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ...models.logistic.effects import Effect, outcomes
from .. import figures
from ..part import MOST_ROWS, Group, Learned, Part

#: So that a page stays below 3 MB.
_MOST_CELLS = 5_000


class Coefficients(Part):
    """The part of a logistic regression."""

    def released(self, model: Any) -> str:
        """Give the number of coefficients."""
        return f"{model.coef_.size} coefficients, with intervals"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the largest effects on each outcome."""
        groups, table, clear, shown, n = [], [], 0, 0, 0
        classes = model.classes_.tolist()
        most = max(5, MOST_ROWS // len(model.coef_))
        for outcome, own in groupby(model.effects(), key=lambda one: one.outcome):
            found = [one for one in _named(list(own), columns) if one.change]
            against = "the rest" if len(classes) > 2 else next(c for c in classes if str(c) != outcome)
            title = f"for {outcome} against {against}"
            order = sorted(found, key=lambda one: -abs(one.whole.mean))
            chosen, n = order[:most], n + len(found)
            clear, shown = clear + sum(one.log_odds.clear for one in found), shown + len(chosen)
            span = min(0.0, min(one.whole.low for one in chosen)), max(0.0, max(one.whole.high for one in chosen))
            for first in range(0, len(chosen), 20):
                part = chosen[first : first + 20]
                means, lows, highs = zip(*(one.whole for one in part), strict=True)
                rows = figures.intervals([one.label for one in part], means, lows, highs, span)
                groups.append(Group(title + (", continued" if first else ""), rows))
            kept = {id(one) for one in order[: max(1, _MOST_CELLS // len(model.coef_))]}
            table += [_row(title, one) for one in found if id(one) in kept]
        return Learned(
            "An effect is how much a change of one column adds to the log odds, all others being the same. A number's "
            "is from one of its public bounds to the other. The point is the posterior mean and the line the 90 % "
            "interval, which takes the noise into account. Pale intervals hold 0: their sign is not known. The table "
            f"has effects in the columns' own units, and their odds ratios. Shown are the {shown} largest of {n}; of "
            f"all, {clear} have an interval without 0.",
            groups=tuple(groups),
            columns=("effect", "column", "change", "log odds", "5 %", "95 %", "odds ratio", "5 %", "95 %"),
            table=tuple(table),
            caption="All effects" if len(table) == n else f"The {len(table)} largest effects",
        )

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write coefficients and effects with intervals, outcome by outcome."""
        if columns is None:
            return ""
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        heads = [part + end for part in ("log_odds", "odds_ratio") for end in ("", "_low_90", "_high_90")]
        table.writerow(["class", "feature", "mean", "low_90", "high_90", "change", *heads])
        found = model.effects()
        for label, k, sign in outcomes(model):
            table.writerow([label, "(intercept)", f"{sign * model.intercept_[k]:.6g}", *[""] * 9])
            for one in (one for one in found if one.outcome == label):
                units = [f"{v:.6g}" for v in (*one.log_odds, *one.odds_ratio)] if one.change else [""] * 6
                coefficient = [f"{v:.6g}" for v in one.coefficient]
                table.writerow([label, one.name, *coefficient, one.change, *units])
        return out.getvalue()

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the probabilities by their labels."""
        return [f"p({label})" for label in model.classes_.tolist()]


def _named(found: list[Effect], columns: Sequence[str] | None) -> list[Effect]:
    """Name the columns of a model without names."""
    if columns is None:
        columns = [f"column {j + 1}" for j in range(len(found))]
    return [
        one._replace(name=name, label=name if one.label == one.name else one.label)
        for one, name in zip(found, columns, strict=True)
    ]


def _row(title: str, one: Effect) -> tuple[str, ...]:
    """Write an effect as a row of the table."""
    odds, ratio = [f"{v:+.4g}" for v in one.log_odds], [f"{v:.4g}" for v in one.odds_ratio]
    return (title, one.name.partition("=")[0] if one.label != one.name else one.name, one.change, *odds, *ratio)
