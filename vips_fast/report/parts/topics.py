"""Topic models: topics as bars and as a map, and ``topics.txt``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...models.hierarchy import Hierarchy, hellinger
from ...models.inputs import column_names
from .. import figures
from ..part import Learned, Part, Topic
from ..text import Namer, top_words, topic_names, topics_table

#: So that a page stays below 3 MB.
_MOST = 300
#: Most topics of a hierarchy, whose lines then stay apart.
_TREE = 60
#: Share of all words that the public topics on a terminal hold, and their largest number.
_HELD, _TERMINAL = 0.9, 20


class Topics(Part):
    """The part of a topic model."""

    output = "topic"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show each topic's first words."""
        components, errors = model.components_, model.components_sd_
        totals = components.sum(axis=1)
        names = top_words(components, columns, n_words)
        titled = ("",) * len(names) if columns is None else topic_names(components, columns)
        best = np.argsort(-components, axis=1, kind="stable")[:, :n_words]
        noisy, clear = bool((errors > 0).any()), np.take_along_axis(model._clear(), best, 1)
        topics, from_records = [], model.from_records_
        public = bool((from_records < 1.0).any())
        largest = np.argsort(-totals, kind="stable")[:_MOST]
        # Of public topics many are hardly in the records: the largest come first.
        shown = (largest if public else np.sort(largest)).tolist()
        for k in shown:
            row = best[k]
            values, sd = components[k, row] / totals[k], errors[k, row] / totals[k]
            marks = (sd.tolist(), clear[k].tolist()) if noisy else ()
            rows = figures.bars(names[k], values.tolist(), *marks)
            share, own = (
                float(totals[k] / totals.sum()),
                None if (from_records == 1.0).all() else float(from_records[k]),
            )
            topics.append(Topic(k + 1, share, tuple(names[k]), titled[k], int(clear[k].sum()), rows, own))
        titles = [f"Topic {one.number}, {one.share:.1%} of all words: {', '.join(one.words[:5])}" for one in topics]
        hidden = sum(one.clear == 0 for one in topics)
        note = ""
        if noisy and hidden and not public:
            note += (
                f" Of {len(topics)} topics {hidden} show no word that stands clear of the noise: what they show may be "
                "noise."
            )
        if len(topics) < len(components):
            note += f" The {len(topics)} largest of {len(components)} topics are shown."
        return Learned(
            "A topic is a distribution over words; a document mixes several. "
            + (
                "A bar is a word's probability in the topic, the line one standard error of the noise on either side. "
                "Pale bars cannot be told from noise. With a probability of 90 % all others are of words in the "
                "records."
                if noisy
                else "A bar is a word's probability in the topic. No noise was added."
            ),
            topics=tuple(topics),
            note=note.strip(),
            map=figures.topic_map(components[shown], titles, shown) if len(topics) > 2 else None,
            tree=_tree(components[shown], topics) if 2 < len(topics) <= _TREE else None,
        )

    def released(self, model: Any) -> str:
        """Give the numbers of topics and words."""
        n_topics, n_words = model.components_.shape
        return f"{n_topics} topics, with the probability of each of {n_words} words"

    def names(self, model: Any, namer: Namer | None = None) -> tuple[str, ...]:
        """Name the topics, if their words are known."""
        words = column_names(model._fitted().public)
        return () if words is None else topic_names(model.components_, words, namer=namer)

    def text(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the verdict and the first words of each topic.

        Public topics are sorted by size, with their shares and the part that is not public.
        """
        return _told(model) + "\n".join(self._lines(model, columns, n_words)) + "\n"

    def shown(self, model: Any, columns: Sequence[str] | None, n_words: int = 10) -> str:
        """Write the topics for a terminal, at most a page.

        It has the largest ones. Of public topics it has those that hold most words.
        """
        lines, total = self._lines(model, columns, n_words), len(model.components_)
        shares = model.components_.sum(axis=1)
        order = np.argsort(-shares, kind="stable")
        held = np.cumsum(shares[order]) / shares.sum()
        number, head = min(_TERMINAL, total), len(lines) - total
        if head:
            number = min(number, int(np.searchsorted(held, _HELD)) + 1)
        elif number < total:
            lines = [lines[k] for k in order]
        if number < total:
            more = f"{total - number} more topics hold {1.0 - held[number - 1]:.1%} of the words; `topics` shows all."
            lines[head + number :] = [more]
        return _told(model) + "\n".join(lines) + "\n"

    def _lines(self, model: Any, columns: Sequence[str] | None, n_words: int) -> list[str]:
        own = model.from_records_
        rows = topics_table(model.components_, columns, n_words).split("\n")
        if (own == 1.0).all():
            return rows
        shares = model.components_.sum(axis=1) / model.components_.sum()
        head = "share  from the records  topic and its words"
        order = np.argsort(-shares, kind="stable")
        return [head, *(f"{shares[k]:5.1%}  {own[k]:16.0%}  {rows[k]}" for k in order)]

    def follows(self, model: Any, text: str) -> bool:
        """Compare with each possible number of words: no file stores it."""
        words = column_names(model._fitted().public)
        longest = max(len(line.split()) for line in text.split("\n"))
        return any(text == self.written(model, words, n) for n in range(longest, 0, -1))


def _tree(components: Any, topics: Sequence[Topic]) -> figures.Tree:
    labels = [f"{one.number}: {one.name or ', '.join(one.words[:3])}" for one in topics]
    return figures.tree(Hierarchy.of(hellinger(components)), labels)


def _told(model: Any) -> str:
    """Write the verdict before the topics."""
    return f"{model.verdict_}\n\n" if model.verdict_.text else ""
