"""Private clusters of documents by their sentence vectors."""

from .estimator import DocumentClusters
from .knowledge import PublicVectors, public_vectors

__all__ = ["DocumentClusters", "PublicVectors", "public_vectors"]
