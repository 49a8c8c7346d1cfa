"""``prior``: topics and word frequencies from public sources, for ``fit lda --public-prior``."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...data import coarse_words, holds_records, load_word_vectors, packaged_model, stop_words, wordpiece_vectors
from ...data.wordpieces import PACKAGE, check_packaged
from ...jobs.text import NONE
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
from ..inputs import read_public, text_file
from ..messages import width


def build(args: Namespace) -> int:
    """Write a public prior, made from documents, or else from word vectors."""
    args.language = args.language or "en"
    out = prior_file(args.language) if args.out is None else Path(args.out)
    if out.exists() and not out.is_file():
        raise ValueError(f"--out {out}: is a folder, a pipe or a device; expected a file")
    if args.input is None or holds_records(args.input, args.format, args.text, None):
        args.vocab = args.vocab or f"public:{args.language}"
        args.vocab_size = args.vocab_size or PRIOR_WORDS
    # A fit may count words that others drop: all are read, and stop words do not make topics.
    listed, args.stop_words = args.stop_words or f"public:{args.language}", NONE
    dropped = () if listed == NONE else stop_words(listed, whole=True)
    prior = (_of_vectors if args.input is None else _of_documents)(args, dropped)
    if args.out is None:
        store_prior(prior, args.language)
    else:
        prior.save(out)
    name = args.out or f"public:{args.language}"
    print(f"Written to {out}: {prior.n_topics} topics, {len(prior.words)} words, digest {prior.digest[:16]}.")
    print(f"Use it by fit lda --public-prior {name}; it costs no epsilon.")
    return 0


def _of_documents(args: Namespace, dropped: Sequence[str]) -> PublicPrior:
    for option, value in (("--word-vectors", args.word_vectors), ("--model", args.model)):
        if value is not None:
            raise ValueError(f"{option} {value}: expected without INPUT")
    corpus = read_public(args)
    name = args.name or Path(args.input).name
    return prior_from_documents(
        corpus.counts,
        corpus.vocabulary or (),
        args.topics,
        stop_words=dropped,
        language=args.language,
        name=name,
        random_state=args.seed,
        n_jobs=args.n_jobs,
    )


def _of_vectors(args: Namespace, dropped: Sequence[str]) -> PublicPrior:
    words = text_file(args).public_words() or ()
    if args.word_vectors is not None:
        name, vectors = Path(args.word_vectors).name, load_word_vectors(args.word_vectors, words)
    elif args.model is not None:
        name, vectors = Path(args.model).resolve().name, wordpiece_vectors(args.model, words)
    elif args.language == "en" and (folder := packaged_model()) is not None:
        check_packaged(folder)
        name, vectors = PACKAGE, wordpiece_vectors(folder, words)
    else:
        raise ValueError(
            "INPUT: expected public documents, --word-vectors FILE or --model DIR; for English, the installed package "
            f"{PACKAGE} is enough"
        )
    more = {"stop_words": dropped, "language": args.language, "name": args.name or name, "random_state": args.seed}
    return prior_from_vectors(vectors, words, args.topics, **more)


def show(args: Namespace) -> int:
    """Print the source, the digest and the topics of a public prior."""
    prior = load_prior(args.prior)
    rows = [("source", prior.name), ("language", prior.language), ("digest", prior.digest)]
    print(table([*rows, ("topics", prior.n_topics), ("words", len(prior.words))]))
    listed = args.coarse_words or f"public:{prior.language}"
    dropped = frozenset(() if listed == NONE else coarse_words(listed))
    shown = prior.restricted_to([word for word in prior.words if word not in dropped])
    probabilities = shown.topics()  # words with the most nats above the language's frequencies come first
    nats = probabilities * np.log(probabilities / shown.frequencies)
    print(f"\n{topics_table(np.exp(nats), shown.words, args.words, width=width())}", end="")
    return 0
