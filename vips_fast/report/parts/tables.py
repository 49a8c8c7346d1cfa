"""Tables of topics: shares of the groups of each column."""

from collections.abc import Sequence
from typing import Any

from ..part import MOST_ROWS, Learned, Part


class Tables(Part):
    """The part of tables of topics."""

    needs_names = False

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show each column's table, with intervals."""
        rows = []
        for name in model.by:
            table = model.table(name)
            for g, (group,) in enumerate(table.groups):
                cells = zip(table.shares[g], table.low[g], table.high[g], table.readable[g], strict=True)
                said = [f"{s:.1%} ({a:.1%} to {b:.1%})" if clear else "" for s, a, b, clear in cells]
                rows += [(name, str(group), str(k + 1), cell) for k, cell in enumerate(said)]
        return Learned(
            "Shares of topics in each group, with 90 % intervals of the noise. The groups are public lists. A cell "
            "that the noise hides is empty.",
            columns=("column", "group", "topic", "share"),
            table=tuple(rows[: 5 * MOST_ROWS]),
            caption="Topics by group",
        )
