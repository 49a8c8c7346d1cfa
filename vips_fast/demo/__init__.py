"""Data for strangers: Python's docstrings."""

from .docstrings import PACKAGES, STOP_WORDS, docstrings_by_file
from .topics import public_texts, public_topics, source_files

__all__ = ["PACKAGES", "STOP_WORDS", "docstrings_by_file", "public_texts", "public_topics", "source_files"]
