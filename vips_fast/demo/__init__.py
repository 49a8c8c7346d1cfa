"""What a stranger can run without data of their own: docstrings, which every Python has, and data of scikit-learn's."""

from .docstrings import PACKAGES, STOP_WORDS, docstrings_corpus, language_reference_words
from .packaged import breast_cancer, digits

__all__ = ["PACKAGES", "STOP_WORDS", "breast_cancer", "digits", "docstrings_corpus", "language_reference_words"]
