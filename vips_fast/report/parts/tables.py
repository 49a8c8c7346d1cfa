"""Show tables of topics, and write ``tables.csv``."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models.several import level_of_each
from ...store.text import csv_text
from ...store.words import counted
from .. import figures
from ..part import Group, Learned, Part

#: Charts of a column: the topics whose groups differ most.
_CHARTS = 12
_SURE = " All trends of a column lie in their intervals with a probability of 90 %."
#: Values that have an order: numbers, months and days.
_ORDERED = re.compile(r"-?\d+(\.\d+)?|\d{4}-\d\d(-\d\d)?")


class Tables(Part):
    """Part of tables of topics."""

    needs_names = False

    def released(self, model: Any) -> str:
        """Give the numbers of shares and groups."""
        by = ", ".join(f"{name} ({len(values)})" for name, values in model._as_fitted().by.items())
        return f"{counted(model._fitted().public.n_features, 'share')} in each group of {by}"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Draw the topics whose groups differ most, for each column."""
        groups, names, by = [], columns or model.topic_names, model._as_fitted().by
        total = len(model.topic_names)
        for column, values in by.items():
            # Those that differ most were chosen by their noise, too: their intervals are of all cells together.
            table, trends = model.table(column, level=level_of_each(total * len(values))), _trends(model, column)
            weights = np.maximum(table.weights, 0.0)
            mean = weights @ table.shares / max(float(weights.sum()), 1e-300)
            clear = table.readable * (table.shares - mean) / np.maximum(table.high - table.low, 1e-9)
            order = np.argsort(-np.square(clear).sum(axis=0), kind="stable")
            if trends:
                order = np.argsort([-clear for clear, _ in trends], kind="stable")
            for k in order[table.readable[:, order].any(axis=0)][:_CHARTS].tolist():
                cells = (array[:, k] for array in (table.shares, table.low, table.high, table.readable))
                rows = figures.shares([str(group) for (group,) in table.groups], *cells)
                groups.append(Group(f"{_title(names[k])} by {column}", rows, trends[k][1] if trends else ""))
        most = f" The {_CHARTS} of {total} whose groups differ most are shown; tables.csv has all."
        return Learned(
            "Shares in each group. A line is an interval of the noise; all of a column hold together with a "
            "probability of 90 %. The groups are public lists."
            f"{_SURE if any(' points from one ' in group.note for group in groups) else ''}"
            f"{most if total > _CHARTS else ''}",
            groups=tuple(groups),
            lines=tuple(self.shown(model, columns).splitlines()),
        )

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the table of all columns, then one of each. The values of other columns are empty."""
        head, *rows = model.rows()
        return csv_text([head, *([*row[:-3], *("" if x is None else f"{x:.4f}" for x in row[-3:])] for row in rows)])

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the largest shares of the groups of each column, and the topics that clearly grow or fall."""
        lines, by = list[str](), model._as_fitted().by
        level = level_of_each(len(model.topic_names) * sum(map(len, by.values())))
        for name in by:
            # The largest were chosen by their noise, too: their intervals are of all cells together.
            table = model.table(name, level=level)
            for g, (group,) in enumerate(table.groups):
                best = [k for k in np.argsort(-table.shares[g], kind="stable")[:3] if table.readable[g, k]]
                lines += [f"  {name} {group}: cannot tell"] * (not best)
                for k in best:
                    said = f"{table.shares[g, k]:.1%} ({table.low[g, k]:.1%} to {table.high[g, k]:.1%})"
                    lines.append(f"  {name} {group}: {_title(model.topic_names[k])} {said}")
        for name in by:
            told = zip(model.topic_names, _trends(model, name), strict=False)
            lines += [f"  {_title(topic)}: {text}" for topic, (_, text) in told if text.startswith(("Grows", "Falls"))]
        return "\n".join(["Largest shares, with intervals of the noise that all hold at 90 %:", *lines, ""])


def _trends(model: Any, column: str) -> list[tuple[float, str]]:
    """Describe the trend of each topic over groups that have an order.

    Returns how clear each trend is, and a sentence with its interval. All K sentences of a column are true with a
    probability of 90 % (`vips_fast.models.several`).
    """
    values = [*model._as_fitted().by[column]]
    if len(values) < 3 or not all(_ORDERED.fullmatch(str(value)) for value in values):
        return []
    n_topics, said = model._fitted().public.n_features, []
    found = model.trend(column, level=level_of_each(n_topics))
    for estimate, low, high in 100 * np.array([found.estimate, found.low, found.high]).T:
        if low <= 0 <= high:
            text = f"No clear trend: {low:+.2f} to {high:+.2f} points from one {column} to the next."
        else:
            size, least, most = np.sort(np.abs([estimate, low, high]))[[1, 0, 2]]
            word = "Grows" if estimate > 0 else "Falls"
            text = f"{word} by {size:.2f} points from one {column} to the next ({least:.2f} to {most:.2f})."
        said.append((float(abs(estimate) / max(high - low, 1e-9)), text))
    return said


def _title(name: str) -> str:
    return f"topic {name}" if name.isdecimal() else name
