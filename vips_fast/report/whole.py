"""Parts of one page: a model, its tables, and its purchased words.

A fit names the head of the ledger before it (``after=``), and its statement includes that fit. So the statement of the
last one is about all of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..engine.assumptions import Finding, assess
from ..models.estimator import PrivateEstimator
from ..models.family import PURCHASE, family_of
from ..models.vocabulary.published import read_purchase
from . import figures
from .part import Learned, part_of


@dataclass(frozen=True)
class Section:
    """A part of the page: anchor, heading, released quantities, and figures."""

    name: str
    heading: str
    released: str
    learned: Learned


def chain_models(model: PrivateEstimator, tables: Sequence[PrivateEstimator]) -> tuple[PrivateEstimator, ...]:
    """Put a model and its tables in a row.

    Raises ValueError unless each includes the one before it.
    """
    every = (model, *tables)
    for before, after in zip(every, tables, strict=False):
        if family_of(after).name not in ("tables", "drift"):
            raise ValueError(f"tables: {type(after).__name__}; expected fitted TopicTables or DriftingTopics")
        heads = {purchase["head"] for plan in after.ledger_.plans if (purchase := plan.get("purchase"))}
        if before.ledger_.head not in heads:
            which = "model" if before is model else "tables before them"
            raise ValueError(
                f"tables: a statement leaves out the {which}, so no statement is about all; expected tables that were "
                "released after it (vips-fast tabulate --after)"
            )
    return every


def purchased_words(model: PrivateEstimator) -> Any:
    """Make the vocabulary that was purchased for a model, or None."""
    text = model._fitted().public.inputs.get(PURCHASE)
    return None if text is None else read_purchase(text)


def sections(tables: Sequence[PrivateEstimator], words: Any, titles: Sequence[str] | None) -> tuple[Section, ...]:
    """Make the sections of tables and of purchased words."""
    found = []
    part: Any
    for k, one in enumerate(tables, 1):
        part = part_of(one)
        # Names of topics are the columns of tables; drift has words as columns.
        learned = part.learned(one, None if family_of(one).name == "drift" else titles, 10)
        found.append(Section(f"tables{k}", _heading(one), part.released(one), learned))
    if words is not None:
        part = part_of(words)
        found.append(Section("words", "Words", part.released(words), part.learned(words, None, 10)))
    return tuple(found)


def number_names(learned: Learned, titles: Sequence[str] | None) -> Learned:
    """Name topics, or the rows of clusters, by their numbers from 1."""
    if titles is None:
        return learned
    if learned.topics:
        return replace(learned, topics=tuple(replace(one, name=titles[one.number - 1]) for one in learned.topics))
    rows = tuple((f"{row[0]}: {titles[int(row[0]) - 1]}", *row[1:]) for row in learned.table)
    return replace(learned, table=rows)


def findings(every: Sequence[PrivateEstimator]) -> tuple[Finding, ...]:
    """Assess the assumptions of all parts together.

    Each part has to hold them.
    """
    found = []
    for same in zip(*(assess(one._fitted()) for one in every), strict=True):
        # The columns of tables are the topics of the model.
        own = same[:1] if same[0].assumption.name == "columns" else same
        held = all(one.held for one in own)
        whys = dict.fromkeys(one.why for one in own if one.held == held)
        found.append(Finding(same[0].assumption, held, " ".join(whys)))
    return tuple(found)


def spent_by(every: Sequence[PrivateEstimator], words: Any) -> figures.Rows:
    """Draw epsilon after each part, at the last one's delta."""
    delta = every[-1].privacy_.delta
    rows = [] if words is None else [("after the words", words.ledger_.epsilon(delta))]
    rows.append((f"after the {family_of(every[0]).title.lower()}", every[0].ledger_.epsilon(delta)))
    for one in every[1:]:
        rows.append((f"after the {_heading(one).lower()}", one.ledger_.epsilon(delta)))
    return figures.spending([row for row in rows if math.isfinite(row[1])])


def _heading(tables: Any) -> str:
    """Name tables on the page by their columns."""
    drifts = family_of(tables).name == "drift"
    return family_of(tables).title if drifts else f"Shares by {' and '.join(tables._as_fitted().by)}"
