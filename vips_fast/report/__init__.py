"""Reports, tables, topics and yardsticks, for a person to read."""

from .dossier import Dossier, make_dossier
from .html import html_report
from .part import part_of
from .short import short_report
from .text import (
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
from .words import Gain, gain

__all__ = [
    "Dossier",
    "Gain",
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
