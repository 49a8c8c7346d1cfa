"""Write the model's part of a report, and its text file.

`Part` serves every model. A family with more to show has a class of its own in `vips_fast.report.parts`, which its
record in `vips_fast.models.family` names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..models.family import family_of, resolve
from . import figures

#: Rows of a table or of a list of bars.
MOST_ROWS = 40
#: Words of a topic in a text file and on a terminal.
N_WORDS = 10


@dataclass(frozen=True)
class Topic:
    """A topic: number, share of all words, first words and their bars."""

    number: int
    share: float
    words: tuple[str, ...]
    name: str
    #: How many of the words stand clear of the noise.
    clear: int
    bars: figures.Rows
    #: How many times its share of public text a public topic has, NaN for the records' own; None without a prior.
    lift: float | None = None


@dataclass(frozen=True)
class Group:
    """Rows under a title, such as the coefficients of a class."""

    title: str
    rows: figures.Rows
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture: address of an ``img``, alternative text and caption."""

    source: str
    text: str
    caption: str


@dataclass(frozen=True)
class Learned:
    """Learned parameters for the templates; a family fills the fields it needs."""

    intro: str
    topics: tuple[Topic, ...] = ()
    groups: tuple[Group, ...] = ()
    pictures: tuple[Picture, ...] = ()
    columns: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()
    words: tuple[str, ...] = ()
    note: str = ""
    caption: str = ""
    #: A list for a terminal, which stands for the rest.
    lines: tuple[str, ...] = ()


class Part:
    """Part of any model: a table of its published arrays, no file."""

    #: Whether the report needs names from outside; a vocabulary has its own.
    needs_names: ClassVar[bool] = True
    #: Heading of a number that the model computes for a new record.
    output: ClassVar[str] = "output"

    def learned(self, model: Any, columns: Sequence[str] | None, n_words: int) -> Learned:
        """Show a fitted estimator.

        ``columns`` are the names of its columns, ``n_words`` the number of words of a topic.
        """
        rows = []
        for name, array in model._fitted().arrays.items():
            numbers = [f"{f(array):.4g}" for f in (np.min, np.mean, np.max)] if array.size else ["", "", ""]
            rows.append((name, str(array.dtype), " × ".join(map(str, array.shape)) or "1", *numbers))
        return Learned(
            "The arrays that the model publishes, each a function of its releases.",
            columns=("array", "type", "shape", "least", "mean", "largest"),
            table=tuple(rows),
            caption="Published arrays",
        )

    def released(self, model: Any) -> str:
        """Name the published quantities in a phrase."""
        return f"the arrays {', '.join(model._fitted().arrays)}"

    def names(self, model: Any) -> tuple[str, ...]:
        """Name topics or clusters by their words; () if they have none."""
        return ()

    def text(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write the text file of a fitted model, or ""."""
        return ""

    def shown(self, model: Any, columns: Sequence[str] | None) -> str:
        """Write a model for a terminal."""
        return self.text(model, columns)

    def outputs(self, model: Any, n: int) -> list[str]:
        """Name the numbers that the model computes for a new record."""
        return [f"{self.output}{k + 1}" for k in range(n)]


def part_of(model: Any) -> Part:
    """Find the part of a fitted estimator's family."""
    part: Part = resolve(family_of(model).part)()
    return part
