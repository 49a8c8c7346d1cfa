"""What a stranger can run without data of their own: a corpus of the docstrings that every Python has."""

from .docstrings import PACKAGES, STOP_WORDS, docstrings_corpus, language_reference_words

__all__ = ["PACKAGES", "STOP_WORDS", "docstrings_corpus", "language_reference_words"]
