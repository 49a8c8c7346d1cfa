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
from .tables import Table, encode_table, read_abalone, read_adult
from .text import count_texts, words_of

__all__ = [
    "FORMATS", "Corpus", "Table", "binarise", "binary_records", "check_counts", "count_texts", "documents",
    "encode_table", "load_corpus", "load_mnist", "load_vocabulary", "numeric_records", "read_abalone", "read_adult",
    "read_docword", "read_folder", "read_idx", "read_jsonl", "read_ldac", "read_sparse", "split", "words_of",
]  # fmt: skip
