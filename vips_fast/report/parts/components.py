"""Mixtures: each component, its share and its marks, and ``components.csv``."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...data.schema import Schema
from ...models.family import SCHEMA
from ...store.text import csv_text
from ...store.words import counted
from ..part import MOST_ROWS, Learned, Part
from ..text import distinct_names


class Components(Part):
    """Part of a mixture whose components have means of columns."""

    output = "component"
    #: What the page says of the marks.
    told: ClassVar[str] = "the columns whose means are furthest from those of all"
    #: What a terminal says of them, and how many it lists.
    marked: ClassVar[tuple[str, int]] = ("what tells it apart", 6)

    def released(self, model: Any) -> str:
        """Give the number of components."""
        return f"{counted(len(model.weights_), 'cluster')}, with their shares of the records and what tells them apart"

    def marks(self, model: Any, columns: Sequence[str] | None, n_words: int) -> list[str]:
        """Describe each component by at most ``n_words`` of its most distinctive means, one of each category."""
        means, weights, schema = model.means_, model.weights_, _schema_of(model)
        columns = columns if model.projection is None else None
        names = list(columns or (f"column {j + 1}" for j in range(means.shape[1])))
        beside = [(j,) for j in range(len(names))] if schema is None else [one.beside for one in schema.changes]
        numbers = [True] * len(names) if schema is None else [one.step > 0 for one in schema.changes]
        apart, shown, marks = means - weights @ means, _in_units(model), []
        for k, row in enumerate(apart):
            taken: dict[int, int] = {}
            for j in np.argsort(-np.abs(row), kind="stable").tolist():
                # Of a category the value that the component has more often than all records do.
                own = j if numbers[j] or row[j] > 0 else max(beside[j], key=row.__getitem__)
                taken.setdefault(beside[j][0], own)
            marks.append(", ".join(f"{names[j]} {shown[k, j]:.3g}" for j in list(taken.values())[:n_words]))
        return marks

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show the components by weight."""
        return Learned(
            f"Each record is of one of the components. A component shows its share of the records, and {self.told}.",
            columns=("component", "share", "what tells it apart"),
            table=tuple(self._rows(model, columns, n_words)[:MOST_ROWS]),
            caption="Components by share",
            lines=tuple(self.shown(model, columns).splitlines()),
        )

    def _rows(self, model: Any, columns: Sequence[str] | None, n_words: int) -> list[tuple[str, str, str]]:
        """List number, share and marks of each component, the largest first."""
        marks, weights = self.marks(model, columns, n_words), model.weights_
        return [(str(k + 1), f"{weights[k]:.1%}", marks[k]) for k in np.argsort(-weights, kind="stable").tolist()]

    def cells(self, model: Any, columns: Sequence[str] | None) -> tuple[list[str], list[list[str]]]:
        """Give the head and the rows of ``components.csv`` behind number and weight."""
        if columns is None or model.projection is not None:  # coordinates are no columns
            return [], []
        return list(columns), [[f"{number:.6g}" for number in row] for row in _in_units(model)]

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write each component, its weight, and its mean in each column."""
        head, rows = self.cells(model, columns)
        weights = enumerate(model.weights_.tolist())
        lines = ([k + 1, f"{weight:.6g}", *(rows[k] if rows else ())] for k, weight in weights)
        return csv_text([["component", "weight", *head], *lines])

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """List the components by weight."""
        what, most = self.marked
        rows = [f"  {number:>3}  {share:>6}  {held}" for number, share, held in self._rows(model, columns, most)]
        return "\n".join([f"Clusters, the largest first (number, share, {what}):", *rows, ""])


def _schema_of(model: Any) -> Schema | None:
    """Read the schema of the columns; coordinates of projected rows have none."""
    text = None if model.projection is not None else model.inputs_.get(SCHEMA)
    return None if text is None else Schema.parse(text)


def _in_units(model: Any) -> np.ndarray:
    """Give the means of numbers in the units of their schema, within its bounds; others are shares, 0 to 1.

    A row without a number has 0 in its place, so the mean is of the others. Where they are less than a twentieth, noise
    in their share would make it any number.
    """
    means, schema = np.array(model.means_), _schema_of(model)
    if schema is None:
        return means
    found: np.ndarray = np.clip(means, 0.0, 1.0)
    for j, (name, change) in enumerate(zip(schema.feature_names, schema.changes, strict=True)):
        if change.step:
            column, flags = schema[name], [place for place in change.beside if place != j]
            entries = means[:, j] / np.maximum(1.0 - means[:, flags].sum(axis=1), 0.05)
            found[:, j] = np.clip(change.middle + entries / change.per_unit, column.low, column.high)
    return found


class DocumentComponents(Components):
    """Part of clusters of documents, by their words."""

    told, marked = "the public words whose vectors are nearer to its center than to others", ("words", 8)

    def marks(self, model: Any, columns: Sequence[str] | None, n_words: int) -> list[str]:
        """Describe each cluster by its keywords."""
        return [", ".join(words) for words in model.keywords(n_words)]

    def names(self, model: Any) -> tuple[str, ...]:
        """Name the clusters by their first keywords."""
        return distinct_names([words[:3] for words in model.keywords(10)])

    def cells(self, model: Any, columns: Sequence[str] | None) -> tuple[list[str], list[list[str]]]:
        """Give each component's keywords."""
        return ["keywords"], [[" ".join(row)] for row in model.keywords()]
