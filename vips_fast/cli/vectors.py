"""``vectors``: vectors of words from public documents, for ``fit lda --word-vectors``."""

from argparse import Namespace
from pathlib import Path
from typing import Any

from .arguments import command, whole
from .records import PRIVATE, add_input, analyzer_of, public_words


def add(commands: Any) -> None:
    """Add the command."""
    what = "write vectors of words, made from PUBLIC documents, for fit lda --word-vectors"
    parser = command(commands, "vectors", vectors, what)
    add_input(parser, fit=True)
    parser.add_argument("--dimensions", type=whole, default=50, help="numbers of a word, default 50")
    parser.add_argument("--out", metavar="FILE", required=True, help="file to write, the text format of word2vec")


def vectors(args: Namespace) -> int:
    """Write the vectors."""
    from ..data import holds_records, load_corpus, save_word_vectors
    from ..models.lda import word_vectors

    raw = holds_records(args.input, args.format, args.text, None)
    if raw and args.vocab in (None, PRIVATE):
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE")
    if Path(args.out).is_dir():
        raise ValueError(f"--out {args.out}: is a folder; expected a file")
    analyzer = analyzer_of(args) if raw else None
    corpus = load_corpus(
        args.input,
        public_words(args),
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
