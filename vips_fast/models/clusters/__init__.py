"""Private clusters of documents by their sentence vectors."""

from .estimator import DocumentClusters
from .knowledge import PublicVectors, public_vectors
from .packaged import invented_documents, packaged_vectors

__all__ = ["DocumentClusters", "PublicVectors", "invented_documents", "packaged_vectors", "public_vectors"]
