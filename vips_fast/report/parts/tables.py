"""Show tables of topics, and write ``tables.csv``."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import figures
from ..part import Group, Learned, Part

#: Charts of a column: the topics of the largest shares.
_CHARTS = 12


class Tables(Part):
    """Part of tables of topics."""

    needs_names = False

    def released(self, model: Any) -> str:
        """Give the numbers of topics and groups."""
        by = ", ".join(f"{name} ({len(values)})" for name, values in model._as_fitted().by.items())
        return f"the shares of {model._fitted().public.n_features} topics in the groups of {by}"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Draw a chart for each large topic and each column."""
        groups, total, names = [], model.table().shares.shape[1], columns or model.topic_names
        for column in model._as_fitted().by:
            table = model.table(column)
            for k in np.argsort(-(table.weights @ table.shares), kind="stable")[:_CHARTS].tolist():
                shown = np.flatnonzero(table.readable[:, k]).tolist()
                values, low, high = (array[shown, k] for array in (table.shares, table.low, table.high))
                rows = figures.shares([str(table.groups[g][0]) for g in shown], values, low, high)
                groups += [Group(f"{_title(names[k])} by {column}", rows)] if shown else []
        most = f" Shown are the {_CHARTS} largest of {total} topics; tables.csv has all." if total > _CHARTS else ""
        return Learned(
            "Shares of topics in each group. A line is the 90 % interval of the noise. The groups are public lists. "
            f"Groups that the noise hides are left out.{most}",
            groups=tuple(groups),
        )

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the table of all columns, then one of each.

        The values of other columns are empty.
        """
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        head, *rows = model.rows()
        writer.writerows([head, *([*row[:-3], *("" if x is None else f"{x:.4f}" for x in row[-3:])] for row in rows)])
        return out.getvalue()

    def shown(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the largest shares of the groups of each column."""
        lines = []
        for name in model._as_fitted().by:
            table = model.table(name)
            for g, (group,) in enumerate(table.groups):
                for k in np.argsort(-table.shares[g], kind="stable")[:3]:
                    said = f"{table.shares[g, k]:.1%} ({table.low[g, k]:.1%} to {table.high[g, k]:.1%})"
                    lines += [f"  {name} {group}: {_title(model.topic_names[k])} {said}"] * bool(table.readable[g, k])
        return "\n".join(["Largest shares of topics, with 90 % intervals of the noise:", *lines, ""])


def _title(name: str) -> str:
    return f"topic {name}" if name.isdecimal() else name
