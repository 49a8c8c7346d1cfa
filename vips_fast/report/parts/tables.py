"""Show tables of topics, and write ``tables.csv``."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..part import MOST_ROWS, Learned, Part


class Tables(Part):
    """Part of tables of topics."""

    needs_names = False

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show each column's table, with intervals."""
        return Learned(
            "Shares of topics in each group, with 90 % intervals of the noise. The groups are public lists. Cells "
            "that the noise hides are left out.",
            columns=("column", "group", "topic", "share"),
            table=tuple(_cells(model)[: 5 * MOST_ROWS]),
            caption="Topics by group",
        )

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the table of all columns, then one of each.

        The values of other columns are empty.
        """
        out, names = io.StringIO(), list(model._as_fitted().by)
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([*names, "topic", "share", "low", "high"])
        for kept in (names, *([name] for name in names if len(names) > 1)):
            places = [kept.index(name) if name in kept else -1 for name in names]
            for row in [*csv.reader(io.StringIO(model.table(*kept).csv()))][1:]:
                writer.writerow([*("" if place < 0 else row[place] for place in places), *row[len(kept) :]])
        return out.getvalue()

    def shown(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the largest shares of the groups of each column."""
        lines = [f"  {name} {group}: topic {topic} {share}" for name, group, topic, share in _cells(model, 3)]
        return "\n".join(["Largest shares of topics, with 90 % intervals of the noise:", *lines, ""])


def _cells(model: Any, most: int | None = None) -> list[tuple[str, str, str, str]]:
    """List readable cells of each column's table.

    Of each group these are all, or the largest ``most``.
    """
    rows = []
    for name in model._as_fitted().by:
        table = model.table(name)
        for g, (group,) in enumerate(table.groups):
            order = range(table.shares.shape[1]) if most is None else np.argsort(-table.shares[g], kind="stable")[:most]
            for k in order:
                said = f"{table.shares[g, k]:.1%} ({table.low[g, k]:.1%} to {table.high[g, k]:.1%})"
                rows += [(name, str(group), str(k + 1), said)] if table.readable[g, k] else []
    return rows
