"""Reports, tables, topics and yardsticks, for a person to read."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .text import (
    Namer,
    distinct_names,
    paragraph,
    predictive_perplexity,
    split_words,
    table,
    top_words,
    topic_names,
    topics_table,
    unigram_perplexity,
)

if TYPE_CHECKING:
    from .dossier import Dossier as Dossier
    from .dossier import make_dossier as make_dossier
    from .html import html_report as html_report
    from .part import part_of as part_of
    from .parts.components import component_rows as component_rows
    from .short import short_report as short_report
    from .words import Gain as Gain
    from .words import gain as gain

#: Where the names live that need the models, which a table of text shall not wait for.
_HOMES = {
    "Dossier": "dossier",
    "Gain": "words",
    "component_rows": "parts.components",
    "gain": "words",
    "html_report": "html",
    "make_dossier": "dossier",
    "part_of": "part",
    "short_report": "short",
}

__all__ = [
    "Dossier",
    "Gain",
    "Namer",
    "component_rows",
    "distinct_names",
    "gain",
    "html_report",
    "make_dossier",
    "paragraph",
    "part_of",
    "predictive_perplexity",
    "short_report",
    "split_words",
    "table",
    "top_words",
    "topic_names",
    "topics_table",
    "unigram_perplexity",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
