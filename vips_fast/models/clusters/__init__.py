"""Private clusters of documents by their sentence vectors."""

from .knowledge import PublicVectors, invented_documents, packaged_vectors, public_vectors
from .model import DocumentClusters

__all__ = ["DocumentClusters", "PublicVectors", "invented_documents", "packaged_vectors", "public_vectors"]
