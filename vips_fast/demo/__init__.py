"""Data for strangers: Python's docstrings."""

from .docstrings import PACKAGES, STOP_WORDS, docstrings_by_file, docstrings_corpus, language_reference_words
from .topics import public_texts, public_topics, source_files

__all__ = [
    "PACKAGES",
    "STOP_WORDS",
    "docstrings_by_file",
    "docstrings_corpus",
    "language_reference_words",
    "public_texts",
    "public_topics",
    "source_files",
]
