"""Data for strangers: Python's docstrings, and data of scikit-learn."""

from .docstrings import PACKAGES, STOP_WORDS, docstrings_corpus, language_reference_words
from .packaged import breast_cancer, digits

__all__ = ["PACKAGES", "STOP_WORDS", "breast_cancer", "digits", "docstrings_corpus", "language_reference_words"]
