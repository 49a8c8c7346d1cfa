"""Corpora, tables and binary images: readers of the usual formats, and the checks that data go through."""

from .corpus import Corpus, split
from .counts import check_counts, documents
from .idx import binarise, load_mnist, read_idx
from .readers import (
    FORMATS,
    load_corpus,
    load_vocabulary,
    read_docword,
    read_folder,
    read_jsonl,
    read_ldac,
    read_sparse,
)
from .rows import binary_records, numeric_records
from .schema import Column, Schema
from .tables import Table, read_abalone, read_adult
from .text import count_texts, words_of

__all__ = [
    "FORMATS", "Column", "Corpus", "Schema", "Table", "binarise", "binary_records", "check_counts", "count_texts",
    "documents", "load_corpus", "load_mnist", "load_vocabulary", "numeric_records", "read_abalone", "read_adult",
    "read_docword", "read_folder", "read_idx", "read_jsonl", "read_ldac", "read_sparse", "split", "words_of",
]  # fmt: skip
