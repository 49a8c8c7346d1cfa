"""Corpora, tables and binary images: readers of the usual formats, and the checks that data go through."""

from vips_fast.data.corpus import Corpus, split
from vips_fast.data.counts import check_counts, documents
from vips_fast.data.idx import binarise, load_mnist, read_idx
from vips_fast.data.readers import (
    FORMATS,
    load_corpus,
    load_vocabulary,
    read_docword,
    read_folder,
    read_jsonl,
    read_ldac,
    read_sparse,
)
from vips_fast.data.rows import binary_records, numeric_records
from vips_fast.data.tables import Table, encode_table, read_abalone, read_adult
from vips_fast.data.text import count_texts, words_of

__all__ = [
    "FORMATS",
    "Corpus",
    "Table",
    "binarise",
    "binary_records",
    "check_counts",
    "count_texts",
    "documents",
    "encode_table",
    "load_corpus",
    "load_mnist",
    "load_vocabulary",
    "numeric_records",
    "read_abalone",
    "read_adult",
    "read_docword",
    "read_folder",
    "read_idx",
    "read_jsonl",
    "read_ldac",
    "read_sparse",
    "split",
    "words_of",
]
