"""Logistic regression: effects with their intervals, and ``coefficients.csv``."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from ...models.family import SCHEMA
from ...models.logistic.effects import (
    MOST_LISTED,
    Effect,
    Interval,
    Told,
    counted_findings,
    findings,
    ratio_texts,
    reading,
)
from ...store.text import csv_text
from ...store.words import decimals
from .. import figures
from ..part import MOST_ROWS, Group, Learned, Part

#: So that a page stays below 3 MB.
_MOST_CELLS = 5_000
#: Unknown effects, or columns, that are named.
_MOST_NAMES = 10


def effect_lines(model: Any, names: Sequence[str], most: int | None = MOST_LISTED, more: str = "") -> list[str]:
    """List the known effects of a regression for a terminal, the largest first, and name the others.

    The verdict says it if there are none.
    """
    told, found = Told.of(model, names), []
    if told.any:
        what = f"{model._ratio} and 90 % interval of a change, and for one standard deviation, the largest first."
        found = [f"{model._headline}{_of_label(model)}: {what}", *told.lines(model._ratio, most, more)]
    found += [f"{label}: occurs in hardly any record, so that its effects are not listed." for label in told.absent]
    if told.known:
        found.append(f"One sd is {spread_source(model, names, told)}.")
    return found


def spread_source(model: Any, names: Sequence[str], told: Told) -> str:
    """Say where the standard deviations of columns come from, and of which known effects noise hides it."""
    seen = reading(model).spreads[1]
    public = "public bounds" if SCHEMA in model.inputs_ else "row_norm"
    if not seen.any():
        return f"from {public}"
    beside = {name for name, found in zip(names, seen, strict=True) if not found}
    hidden = [one.name for one in told.known if one.name in beside]
    return f"from a release, or where noise hides it ({_first(hidden)}) from {public}" if hidden else "from a release"


class Coefficients(Part):
    """The report's part about a logistic regression."""

    #: What effects multiply.
    measure: ClassVar[str] = "odds"

    def _title(self, model: Any, outcome: str) -> str:
        classes = model.classes_.tolist()
        against = "the rest" if len(classes) > 2 else next(c for c in classes if str(c) != outcome)
        return f"for {outcome} against {against}{_of_label(model)}"

    def released(self, model: Any) -> str:
        """Give the number of coefficients."""
        return f"{model.coef_.size} coefficients, with intervals of the effects that are known"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the largest known effects on each outcome, and a table of all."""
        names = _names(model, columns)
        told, groups, table = Told.of(model, names), [], []
        most, every = max(5, MOST_ROWS // len(model.coef_)), [*told.known, *told.unknown]
        for outcome in dict.fromkeys(one.outcome for one in every):
            title = self._title(model, outcome)
            own = [one for one in told.known if one.outcome == outcome]
            chosen = own[:most]
            ends = [0.0, *(end for one in chosen for end in one.standard)]
            for first in range(0, len(chosen), 20):
                part = chosen[first : first + 20]
                means, lows, highs = zip(*(one.standard for one in part), strict=True)
                labels = [one.column if one.change.startswith("+") else one.label for one in part]
                rows = figures.intervals(labels, means, lows, highs, (min(ends), max(ends)))
                groups.append(Group(f"log {self.measure} {title}{', continued' if first else ''}", rows))
            listed = [*own, *(one for one in told.unknown if one.outcome == outcome)]
            table += [_row(title, one) for one in listed[: max(1, _MOST_CELLS // len(model.coef_))]]
        # An effect on one class is known, and that on another may not be.
        several = len({one.outcome for one in every}) > 1
        hidden = [f"{one.outcome}: {one.label}" if several else one.label for one in told.unknown if not one.large]
        shown = sum(len(group.rows.rows) for group in groups)
        drawn = f"The {shown} largest of these are shown. " if shown else ""
        lines, limits = tuple(effect_lines(model, names, most=None)), ("5 %", "95 %")
        counts = tuple(f"{text}." for text in counted_findings(model))
        return Learned(
            f"An effect is how much a change of one column adds to the log {self.measure}, all others being the same. "
            "Here the change is one standard deviation of the column, by which columns of different units compare: "
            f"{spread_source(model, names, told)}. The point is the posterior mean and the line the 90 % interval, "
            f"which takes the noise into account{_sampling(model)}. Pale intervals hold 0: their sign is not known. "
            f"{drawn}The table has effects in the columns' own units, and "
            f"{self.measure} ratios.{''.join(f' {text}' for text in counts)}",
            groups=tuple(groups),
            note=f"Not known, without interval: {_first(hidden)}." if hidden and told.any else "",
            columns=("effect", "column", "change", f"log {self.measure}", *limits, f"{self.measure} ratio", *limits),
            table=tuple(table),
            caption="All effects" if len(table) == len(every) else f"The {len(table)} largest effects",
            lines=lines + counts,
        )

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write coefficients and effects with intervals, outcome by outcome."""
        if columns is None:
            return ""
        parts, ends = (f"log_{self.measure}", f"{self.measure}_ratio"), ("", "_low_90", "_high_90")
        heads = [part + end for part in parts for end in ends]
        rows: list[list[object]] = [["class", "feature", "mean", "low_90", "high_90", "change", *heads, "known"]]
        found = model.effects()
        for label, k, sign in reading(model).outcomes:
            rows.append([label, "(intercept)", f"{sign * model.intercept_[k]:.6g}", *[""] * 10])
            for one in (one for one in found if one.outcome == label):
                units = [*_cells(one, one.log_ratio), *_cells(one, one.ratio)] if one.change else [""] * 6
                known = ("yes" if one.known else "no") if one.change else ""
                rows.append([label, one.name, *_cells(one, one.coefficient), one.change, *units, known])
        return csv_text(rows)

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """List the largest known effects, and what the last step counted and the fit did not warn of."""
        lines = effect_lines(model, _names(model, columns), more="vips-fast show DIR")
        warned = findings(model)
        return "\n".join([*lines, *(f"{text}." for text in counted_findings(model) if text not in warned), ""])

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the probabilities by their labels."""
        return [f"p({label})" for label in model.classes_.tolist()]


class Rates(Coefficients):
    """The part of a regression of counts."""

    measure = "rate"

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the mean count."""
        return ["mean"]

    def _title(self, model: Any, outcome: str) -> str:
        return f"of events{_of_label(model)}"


def _of_label(model: Any) -> str:
    """Name the label in brackets, if the schema does."""
    schema = reading(model).schema
    return "" if schema is None or schema.label_name is None else f" ({schema.label_name})"


def _names(model: Any, columns: Sequence[str] | None) -> Sequence[str]:
    return [f"column {j + 1}" for j in range(model.n_features_in_)] if columns is None else columns


def _first(named: list[str]) -> str:
    """List the first names, each once."""
    names = list(dict.fromkeys(named))
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def _cells(one: Effect, found: Interval) -> list[str]:
    """Write a mean and its interval for a program, which takes six digits; an end that is not known is empty.

    An end of the ratio, such as 0, is not known if the logarithm has none.
    """
    ends = zip(found[1:], one.log_ratio[1:] if found is one.ratio else found[1:], strict=True)
    return [f"{found.mean:.6g}", *(f"{end:.6g}" if math.isfinite(log) else "" for end, log in ends)]


def _sampling(model: Any) -> str:
    """Say whose sampling the intervals are about, if units have several rows."""
    unit = model.privacy_.unit
    if model._spherical:
        return ", and nothing else: neither sampling nor what the steps left out"
    if unit == "record":
        return ""
    if len(model.coef_) == 1:
        return f", and the chance that brought these units ({unit})"
    return f"; rows of one {unit} count as independent in it"


def _row(title: str, one: Effect) -> tuple[str, ...]:
    digits = decimals(*one.log_ratio)
    logs = [f"{one.log_ratio.mean:+.{digits}f}" if one.known else f"{one.log_ratio.mean:+.4g}"]
    logs += [f"{end:+.{digits}f}" if math.isfinite(end) else "not known" for end in one.log_ratio[1:]]
    ratio = zip(logs, ratio_texts(one.ratio), strict=True)
    return (title, one.column, one.change, *logs, *(log if log == "not known" else text for log, text in ratio))
