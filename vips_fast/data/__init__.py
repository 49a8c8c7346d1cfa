"""Corpora and tables: readers of usual formats, and checks."""

from .arrays import binary_records
from .counts import Corpus, check_counts, documents
from .embeddings import SentenceEncoder, load_word_vectors, packaged_model, wordpiece_vectors
from .records import FORMATS, Records, column_names, holds_records, load_corpus, read_batches
from .schema import Column, Schema
from .shards import Batch, ShardedCorpus, write_shards
from .tokens import Analyzer, TokenIndex
from .vocabulary import coarse_words, count_matrix, load_vocabulary, public_vocabulary, stop_words, word_frequencies

__all__ = [
    "FORMATS",
    "Analyzer",
    "Batch",
    "Column",
    "Corpus",
    "Records",
    "Schema",
    "SentenceEncoder",
    "ShardedCorpus",
    "TokenIndex",
    "binary_records",
    "check_counts",
    "coarse_words",
    "column_names",
    "count_matrix",
    "documents",
    "holds_records",
    "load_corpus",
    "load_vocabulary",
    "load_word_vectors",
    "packaged_model",
    "public_vocabulary",
    "read_batches",
    "stop_words",
    "word_frequencies",
    "wordpiece_vectors",
    "write_shards",
]
