"""``vectors``: vectors of words from public documents, for ``fit lda --word-vectors``."""

from argparse import Namespace
from pathlib import Path

from ..data import holds_records, load_corpus, save_word_vectors
from ..jobs.text import PRIVATE
from ..models.lda import word_vectors
from .records import text_file


def vectors(args: Namespace) -> int:
    """Write the vectors."""
    raw = holds_records(args.input, args.format, args.text, None)
    if raw and args.vocab in (None, PRIVATE):
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE")
    if Path(args.out).is_dir():
        raise ValueError(f"--out {args.out}: is a folder; expected a file")
    source = text_file(args)
    analyzer = source.words_analyzer() if raw else None
    corpus = load_corpus(
        args.input,
        source.public_words(),
        args.format,
        n_features=args.features,
        text=args.text,
        analyzer=analyzer,
        encoding=args.encoding,
    )
    if corpus.vocabulary is None:
        raise ValueError(f"{args.input}: the columns have no words; expected --vocab")
    found = word_vectors(corpus.counts, args.dimensions)
    n = save_word_vectors(args.out, corpus.vocabulary, found)
    print(f"Written to {args.out}: vectors of {n} of {len(found)} words, from {corpus.counts.shape[0]} documents.")
    return 0
