"""Vocabulary purchases from the privacy budget."""

from .estimator import PrivateCountVectorizer, PrivateVocabulary
from .planning import VocabularyPlan, plan_vocabulary
from .records import TokenRows

__all__ = ["PrivateCountVectorizer", "PrivateVocabulary", "TokenRows", "VocabularyPlan", "plan_vocabulary"]
