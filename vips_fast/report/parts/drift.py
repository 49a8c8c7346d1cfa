"""Show words of topics over periods, and write ``drift.csv``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...store.text import csv_text
from ...store.words import counted
from .. import figures
from ..part import N_WORDS, Group, Learned, Part
from ..text import top_words

#: Words that moved on a page.
_MOVED = 24


class WordsOverTime(Part):
    """Part of topics that drift."""

    def released(self, model: Any) -> str:
        """Give the numbers of topics, words and periods."""
        n_periods, n_topics, n_words = model._fitted().arrays["sums"].shape
        what = f"{counted(n_words, 'word')} in {counted(n_topics, 'topic')}"
        return f"the sums of {what}, in each of {counted(n_periods, 'period')}"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the words that moved within their topics, period by period."""
        found = model.drift()
        names = found.words if columns is None else columns
        seen = np.ones(len(found.periods), bool).tolist()
        groups = []
        for k, v in found.moved()[:_MOVED]:
            values, low, high = (array[:, k, v].tolist() for array in (found.topics, found.low, found.high))
            rows = figures.shares(found.periods, values, low, high, seen)
            ends = [100 * float(array[k, v]) for array in (found.change, found.change_low, found.change_high)]
            least, size, most = sorted(map(abs, ends))
            word = "Rises" if ends[0] > 0 else "Falls"
            note = f"{word} by {size:.2f} points from one period to the next ({least:.2f} to {most:.2f})."
            groups.append(Group(f"{names[v]} in topic {k + 1}", rows, note))
        total = len(found.moved())
        shown = f" Shown are the {_MOVED} clearest of {total}." if total > _MOVED else ""
        none = " No word moved clearly." if not total else ""
        return Learned(
            "Words whose probability in a topic rises or falls over the periods. Bars are smoothed over the periods, "
            "lines are 90 % intervals of the noise for each period by itself. With a probability of about 90 % chance "
            f"moved none of these words.{shown}{none}",
            groups=tuple(groups),
        )

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the shares of the words that moved."""
        head, *rows = model.drift().rows()
        return csv_text([head, *([*row[:3], *(f"{x:.5f}" for x in row[3:])] for row in rows)])

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write each topic's first words in the first and the last period."""
        found = model.drift()
        ends = [top_words(found.topics[place], found.words, N_WORDS) for place in (0, -1)]
        lines = [f"Topics in {found.periods[0]} and in {found.periods[-1]}; drift.csv has the words that moved:"]
        for k, (first, last) in enumerate(zip(*ends, strict=True)):
            lines += [f"  topic {k + 1}: {', '.join(first)}", f"  {'':>6} {'':>{len(str(k + 1))}}  {', '.join(last)}"]
        moved = [f"{found.words[v]} in topic {k + 1}" for k, v in found.moved()[:N_WORDS]]
        return "\n".join([*lines, f"Moved most clearly: {', '.join(moved) or 'no word'}.", ""])
