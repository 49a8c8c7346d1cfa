"""Topic models: topics as bars, and ``topics.txt``."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.arrays import largest
from ...models.inputs import column_names
from ...store.words import counted
from .. import figures
from ..part import N_WORDS, Learned, Part, Topic
from ..text import top_words, topic_names, topics_table

#: So that a page stays below 3 MB.
_MOST = 300
#: Most topics on a terminal; most of those that the records raise above public text.
_TERMINAL, _RAISED = 20, 12


class Topics(Part):
    """The part of a topic model."""

    output = "topic"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show each topic's first words."""
        components, errors = model.components_, model.components_sd_
        totals = components.sum(axis=1)
        scores = model._word_scores()
        names = top_words(scores, columns, n_words)
        titled = ("",) * len(names) if columns is None else _names(model, columns)
        best = largest(scores, n_words)
        noisy, clear = bool((errors != 0).any()), np.take_along_axis(model._clear(), best, 1)
        lift = model.lift_
        topics: list[Topic] = []
        shown = model._topic_order()[0][:_MOST].tolist()
        if lift is None:
            shown = sorted(shown)
        for k in shown:
            row = best[k]
            values, sd = components[k, row] / totals[k], errors[k, row] / totals[k]
            marks = (None if np.isnan(sd).any() else sd.tolist(), clear[k].tolist()) if noisy else ()
            rows = figures.bars(names[k], values.tolist(), *marks)
            share, raised = float(totals[k] / totals.sum()), None if lift is None else float(lift[k])
            topics.append(Topic(k + 1, share, tuple(names[k]), titled[k], int(clear[k].sum()), rows, raised))
        hidden = sum(one.clear == 0 for one in topics)
        note = ""
        if noisy and hidden and lift is None:
            note += (
                f" Of {len(topics)} topics {hidden} show no word that stands clear of the noise: what they show may be "
                "noise."
            )
        if len(topics) < len(components):
            note += f" {len(topics)} of {len(components)} topics are shown."
        return Learned(
            "A topic is a list of words that are written together; a text mixes several. "
            + (
                "A bar is a word's probability in the topic. "
                + _spread(lift)
                + " Pale bars cannot be told from noise. With a probability of 90 % all others are of words in the "
                "records."
                if noisy
                else "A bar is a word's probability in the topic. No noise was added."
            ),
            topics=tuple(topics),
            note=note.strip(),
            lines=tuple(self._page(model, columns, n_words)),
        )

    def released(self, model: Any) -> str:
        """Give the numbers of topics and words."""
        n_topics, n_words = model.components_.shape
        return f"{counted(n_topics, 'topic')}, with the probability of each of {counted(n_words, 'word')}"

    def names(self, model: Any) -> tuple[str, ...]:
        """Name the topics, if their words are known."""
        words = column_names(model._fitted().public)
        return () if words is None else _names(model, words)

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the verdict and the first words of each topic.

        Public topics are sorted by how much the records raise them, with their shares.
        """
        return _told(model) + "\n".join(self._lines(model, columns)) + "\n"

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the verdict, and the topics for a terminal."""
        return _told(model) + "\n".join(self._page(model, columns, N_WORDS)) + "\n"

    def _page(self, model: Any, columns: Sequence[str] | None, n_words: int) -> list[str]:
        """List at most a page of topics: the largest, or those that the records raise most."""
        lines, total = self._lines(model, columns, n_words), len(model.components_)
        head, shares = len(lines) - total, model.components_.sum(axis=1) / model.components_.sum()
        (order, known), lift = model._topic_order(), model.lift_
        if lift is None:
            number, rest = min(_TERMINAL, total), "more topics hold"
            if number < total:
                lines = [lines[k] for k in order]
        else:
            number = min(_RAISED, known)
            rest = "other topics, which the records do not raise as much, hold"
        if number < total:
            held = float(shares[order[number:]].sum())
            lines[head + number :] = [f"{total - number} {rest} {held:.1%} of the words; topics.txt has all."]
        return lines

    def _lines(self, model: Any, columns: Sequence[str] | None, n_words: int = N_WORDS) -> list[str]:
        rows, lift = topics_table(model._word_scores(), columns, n_words).split("\n"), model.lift_
        if lift is None:
            return rows
        shares = model.components_.sum(axis=1) / model.components_.sum()
        head = "share  of public  topic and its words"
        raised = ["      own" if math.isnan(one) else f"{one:7.1f} ×" for one in lift]
        return [head, *(f"{shares[k]:5.1%}  {raised[k]}  {rows[k]}" for k in model._topic_order()[0])]


def _names(model: Any, words: Sequence[str]) -> tuple[str, ...]:
    """Name the topics; the words of public topics are public, so that noise chose none."""
    clear, lift = model._clear(), model.lift_
    clear = clear if lift is None else clear | ~np.isnan(lift)[:, None]
    return topic_names(model.components_, words, clear=clear)


def _spread(lift: np.ndarray | None) -> str:
    """Say what a topic's lines are, or why it has none."""
    line = "The line is one standard error of the noise on either side."
    none = "have no line: with other noise other topics would have been found."
    if lift is None:
        return f"Topics {none}"
    return f"{line} Topics of the records' own {none}" if np.isnan(lift).any() else line


def _told(model: Any) -> str:
    """Write the verdict before the topics."""
    return f"{model.verdict_}\n\n" if model.verdict_.text else ""
