"""Logistic regression: effects with their intervals, and ``coefficients.csv``."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, ClassVar

from ...models.logistic.effects import Effect, Interval, outcomes
from ...store.text import csv_text
from .. import figures
from ..part import MOST_ROWS, Group, Learned, Part

#: So that a page stays below 3 MB.
_MOST_CELLS = 5_000
#: Unknown effects that are named.
_MOST_NAMES = 10


class Coefficients(Part):
    """The report's part about a logistic regression."""

    #: What effects multiply.
    measure: ClassVar[str] = "odds"

    def _title(self, model: Any, outcome: str) -> str:
        """Title the effects on an outcome."""
        classes = model.classes_.tolist()
        against = "the rest" if len(classes) > 2 else next(c for c in classes if str(c) != outcome)
        return f"for {outcome} against {against}"

    def released(self, model: Any) -> str:
        """Give the number of coefficients."""
        return f"{model.coef_.size} coefficients, with intervals"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the largest effects on each outcome."""
        groups, table, clear, sure, shown, n = [], [], 0, 0, 0, 0
        unknown: list[str] = []
        most = max(5, MOST_ROWS // len(model.coef_))
        for outcome, own in groupby(model.effects(), key=lambda one: one.outcome):
            found = [one for one in _named(list(own), columns) if one.change]
            title = self._title(model, outcome)
            order = sorted(found, key=lambda one: (not one.known, -abs(one.whole.mean)))
            known = [one for one in order if one.known]
            chosen, n, sure = known[:most], n + len(found), sure + len(known)
            unknown += [one.label for one in found if not one.known]
            clear, shown = clear + sum(one.clear for one in found), shown + len(chosen)
            span = min([0.0, *(one.whole.low for one in chosen)]), max([0.0, *(one.whole.high for one in chosen)])
            for first in range(0, len(chosen), 20):
                part = chosen[first : first + 20]
                means, lows, highs = zip(*(one.whole for one in part), strict=True)
                rows = figures.intervals([one.label for one in part], means, lows, highs, span)
                groups.append(Group(f"log {self.measure} {title}{', continued' if first else ''}", rows))
            kept = {id(one) for one in order[: max(1, _MOST_CELLS // len(model.coef_))]}
            table += [_row(title, one) for one in found if id(one) in kept]
        return Learned(
            f"An effect is how much a change of one column adds to the log {self.measure}, all others being the same. "
            "For a number, that is a change from one public bound to the other. The point is the posterior mean and "
            f"the line the 90 % interval, which takes the noise into account{_sampling(model)}. Pale intervals hold 0: "
            f"their sign is not known. {_of_unknown(n - sure, n)}The table has effects in the columns' own units, and "
            f"{self.measure} ratios. The {shown} largest of {sure} are shown; in all, {clear} stand clear "
            "of the noise.",
            groups=tuple(groups),
            note=_listed(unknown),
            columns=(
                "effect",
                "column",
                "change",
                f"log {self.measure}",
                "5 %",
                "95 %",
                f"{self.measure} ratio",
                "5 %",
                "95 %",
            ),
            table=tuple(table),
            caption="All effects" if len(table) == n else f"The {len(table)} largest effects",
        )

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write coefficients and effects with intervals, outcome by outcome."""
        if columns is None:
            return ""
        heads = [
            part + end
            for part in (f"log_{self.measure}", f"{self.measure}_ratio")
            for end in ("", "_low_90", "_high_90")
        ]
        rows: list[list[object]] = [["class", "feature", "mean", "low_90", "high_90", "change", *heads, "known"]]
        found = model.effects()
        for label, k, sign in outcomes(model):
            rows.append([label, "(intercept)", f"{sign * model.intercept_[k]:.6g}", *[""] * 10])
            for one in (one for one in found if one.outcome == label):
                units = [*_cells(one.log_ratio, "{:.6g}"), *_cells(one.ratio, "{:.6g}")] if one.change else [""] * 6
                known = ("yes" if one.known else "no") if one.change else ""
                rows.append([label, one.name, *_cells(one.coefficient, "{:.6g}"), one.change, *units, known])
        return csv_text(rows)

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the probabilities by their labels."""
        return [f"p({label})" for label in model.classes_.tolist()]


class Rates(Coefficients):
    """The part of a regression of counts."""

    measure = "rate"

    def _title(self, model: Any, outcome: str) -> str:
        return "of events"


def _of_unknown(n: int, of: int) -> str:
    """Say how many effects are not known."""
    if not n:
        return ""
    return f"The releases say too little about {n} of {of} effects, which have no interval. "


def _listed(unknown: list[str]) -> str:
    """List effects without interval, each once."""
    names = list(dict.fromkeys(unknown))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"Not known at this epsilon, and without interval: {', '.join(names[:_MOST_NAMES])}{more}." if names else ""


def _cells(found: Interval, form: str, nothing: str = "") -> list[str]:
    """Write a mean and its interval, if it is known."""
    ends = (found.low, found.high)
    return [form.format(found.mean), *(form.format(v) if found.known else nothing for v in ends)]


def _sampling(model: Any) -> str:
    """Say whose sampling the intervals are about, if units have several rows."""
    unit = model.privacy_.unit
    if model._spherical:
        return ", and nothing else: neither sampling nor what the steps left out"
    if unit == "record":
        return ""
    if "squares" in model._fitted().state:
        return f", and the chance that brought these units ({unit})"
    return f"; rows of one {unit} count as independent in it"


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
    odds, ratio = _cells(one.log_ratio, "{:+.4g}", "not known"), _cells(one.ratio, "{:.4g}", "not known")
    return (title, one.name.partition("=")[0] if one.label != one.name else one.name, one.change, *odds, *ratio)
