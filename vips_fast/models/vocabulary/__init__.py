"""Vocabulary purchases from the privacy budget."""

from .estimator import PrivateVocabulary
from .planning import VocabularyPlan, plan_vocabulary
from .records import TokenRows

__all__ = ["PrivateVocabulary", "TokenRows", "VocabularyPlan", "plan_vocabulary"]
