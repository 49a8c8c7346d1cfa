"""Vocabularies bought from the privacy budget."""

from .estimator import PrivateCountVectorizer, PrivateVocabulary
from .records import TokenRows

__all__ = ["PrivateCountVectorizer", "PrivateVocabulary", "TokenRows"]
