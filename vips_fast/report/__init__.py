"""Reports, tables and topics, for a person to read."""

from .dossier import make_dossier
from .html import html_report
from .part import part_of
from .short import short_report
from .text import distinct_names, paragraph, table, top_words, topic_names, topics_table
from .words import gain

__all__ = [
    "distinct_names",
    "gain",
    "html_report",
    "make_dossier",
    "paragraph",
    "part_of",
    "short_report",
    "table",
    "top_words",
    "topic_names",
    "topics_table",
]
