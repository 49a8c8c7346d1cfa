"""``prior`` and ``show``: topics and word frequencies from public sources, for ``fit lda --public-prior``."""

from pathlib import Path
from typing import Any

import numpy as np

from ...data import holds_records, load_corpus, load_word_vectors, packaged_model, stop_words, wordpiece_vectors
from ...data.embeddings import PACKAGE, check_packaged
from ...jobs.text import NONE, PRIVATE, TextFile, language_of
from ...models.lda import (
    PRIOR_WORDS,
    PublicPrior,
    load_prior,
    prior_file,
    prior_from_documents,
    prior_from_vectors,
    store_prior,
)
from ...report import table, topics_table
from ..arguments import Prior, Show
from ..inputs import text_file
from ..messages import print_written, width


def build(args: Prior) -> int:
    """Write a public prior, made from documents, or else from word vectors."""
    language = args.language = language_of(args.language)
    out = prior_file(language) if args.out is None else Path(args.out)
    if out.exists() and not out.is_file():
        raise ValueError(f"--out {out}: is a folder, a pipe or a device; expected a file")
    if not args.input or holds_records(args.input, args.format, args.text, None):
        args.vocab = args.vocab or f"public:{language}"
        args.vocab_size = args.vocab_size or (PRIOR_WORDS if args.vocab.startswith("public:") else None)
    # A fit may count words that others drop: all are read, and stop words do not make topics.
    listed, args.stop_words = args.stop_words or f"public:{language}", NONE
    args.coarse_words = args.coarse_words or NONE
    dropped = () if listed == NONE else stop_words(listed, whole=True)
    how = {"stop_words": dropped, "language": language, "random_state": args.random_state}
    prior = (_of_documents if args.input else _of_vectors)(args, how)
    if args.out is None:
        store_prior(prior, language)
    else:
        prior.save(out)
    has = f"{prior.n_topics} topics, {len(prior.words)} words, digest {prior.digest[:16]}"
    use = f"Use it by fit lda --public-prior {args.out or f'public:{language}'}; it costs no epsilon."
    return print_written(out, f"Written to {out}: {has}.\n{use}")


def _of_documents(args: Prior, how: dict[str, Any]) -> PublicPrior:
    if args.vectors is not None:
        raise ValueError(f"--vectors {args.vectors}: expected without INPUT")
    raw, source = holds_records(args.input, args.format, args.text, None), text_file(args)
    if args.vocab == PRIVATE:
        raise ValueError("--vocab: expected a public vocabulary, FILE or public:LANGUAGE")
    read: dict[str, Any] = {"text": args.text, "analyzer": source.words_analyzer if raw else None}
    corpus = load_corpus(args.input, source.public_words(), args.format, encoding=args.encoding, **read)
    if corpus.vocabulary is None:
        raise ValueError(f"{args.input}: the columns have no words; expected --vocab")
    how = {**how, "name": Path(args.input).name, "n_jobs": args.n_jobs}
    return prior_from_documents(corpus.counts, corpus.vocabulary, args.topics, **how)


def _of_vectors(args: Prior, how: dict[str, Any]) -> PublicPrior:
    words = text_file(args).public_words() or ()
    if args.vectors is not None:
        path = Path(args.vectors).resolve()
        name, vectors = path.name, (wordpiece_vectors if path.is_dir() else load_word_vectors)(path, words)
    elif how["language"] == "en" and (folder := packaged_model()) is not None:
        check_packaged(folder)
        name, vectors = PACKAGE, wordpiece_vectors(folder, words)
    else:
        raise ValueError(
            "INPUT: expected public documents, or --vectors FILE or DIR; for English, the installed package "
            f"{PACKAGE} is enough"
        )
    return prior_from_vectors(vectors, words, args.topics, name=name, **how)


def show(args: Show) -> int:
    """Print the source and the digest of a public prior, and its topics over the words that a fit counts."""
    prior = load_prior(args.model)
    rows = [("source", prior.name), ("language", prior.language), ("digest", prior.digest)]
    print(table([*rows, ("topics", prior.n_topics), ("words", len(prior.words))]))
    shown = prior.restricted_to(TextFile((), public_prior=prior).public_words() or ())
    probabilities = shown.topics()  # words with the most nats above the language's frequencies come first
    nats = probabilities * np.log(probabilities / shown.frequencies)
    print(f"\n{topics_table(np.exp(nats), shown.words, args.words, width=width())}", end="")
    return 0
