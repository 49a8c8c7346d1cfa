"""Private topics of documents that have sentence vectors."""

from .estimator import VectorTopics

__all__ = ["VectorTopics"]
