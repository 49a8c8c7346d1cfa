"""``vectors``: vectors of words from public documents, for ``fit lda --word-vectors``."""

from argparse import Namespace
from pathlib import Path

from ..data import save_word_vectors
from ..models.lda import word_vectors
from .records import read_public


def vectors(args: Namespace) -> int:
    """Write the vectors."""
    if Path(args.out).is_dir():
        raise ValueError(f"--out {args.out}: is a folder; expected a file")
    corpus = read_public(args)
    found = word_vectors(corpus.counts, args.dimensions)
    n = save_word_vectors(args.out, corpus.vocabulary or (), found)
    print(f"Written to {args.out}: vectors of {n} of {len(found)} words, from {corpus.counts.shape[0]} documents.")
    return 0
