"""Topic models: ``fit lda``, ``topics`` and ``plan``."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import texts
from .arguments import Parser, add_fit_groups, add_model, command, positive, probability, whole
from .fit import Job, run_fit
from .folder import load_model
from .output import width

if TYPE_CHECKING:
    from ..data import Corpus

WRITTEN_BY = "vips-fast fit lda"


def add_fit(models: Any) -> None:
    """Add ``fit lda``."""
    parser = command(models, "lda", fit, "fit a topic model and write it to a folder")
    add_input(parser)
    model, privacy, run = add_fit_groups(parser)
    model.add_argument(
        "--topics", dest="n_components", metavar="N", type=whole, required=True, help="number of topics"
    )
    model.add_argument("--words", metavar="N", type=whole, default=10, help="words shown a topic, default 10")
    privacy.add_argument("--clip", metavar="X", type=positive, help="L2 bound, as a share of the length")
    run.add_argument("--doc-length", metavar="N", type=whole, help="words that each document is brought to")
    run.add_argument("--doc-topic-prior", metavar="X", type=positive, help="default 1 / topics")
    prior = run.add_mutually_exclusive_group()
    prior.add_argument("--topic-word-prior", metavar="X", type=positive, help="default 1 / topics")
    prior.add_argument(
        "--prior-model", metavar="DIR",
        help="a model that fit wrote for PUBLIC documents, over the same words: its topics are the prior",
    )
    run.add_argument(
        "--prior-weight", metavar="X", type=positive, help="what a word of the public documents counts, default 1"
    )


def add(commands: Any) -> None:
    """Add ``topics`` and ``plan``."""
    parser = command(commands, "topics", topics, "print the topics of a fitted model")
    add_model(parser, WRITTEN_BY)
    parser.add_argument("--words", metavar="N", type=whole, default=10, help="words a topic, default 10")
    parser.add_argument("--vocab", metavar="FILE", help="default: the one kept in DIR")

    parser = command(commands, "plan", plan, "settings of a private topic model from public numbers")
    parser.add_argument("--records", metavar="N", type=whole, required=True, help="number of documents")
    parser.add_argument("--words", metavar="N", type=whole, required=True, help="size of the vocabulary")
    parser.add_argument("--topics", metavar="N", type=whole, required=True)
    parser.add_argument("--doc-length", metavar="N", type=whole, default=500, help="words a document, default 500")
    parser.add_argument("--epsilon", metavar="X", type=positive, required=True)
    parser.add_argument("--delta", metavar="X", type=probability, help="default min(1e-5, 0.1 / records)")


def add_input(parser: Parser) -> None:
    """Arguments that say where documents are."""
    parser.add_argument(
        "input", metavar="INPUT",
        help="CSR .npz, UCI docword, LDA-C, JSON Lines, a folder of .txt files, or the word docstrings",
    )
    parser.add_argument("--vocab", metavar="FILE", help="the public vocabulary, a word on each line")
    parser.add_argument("--format", help="npz, docword, ldac, jsonl or folder; default: look")
    parser.add_argument("--field", default="text", help="JSON Lines: field of the text")
    parser.add_argument("--features", metavar="N", type=whole, help="number of words, where no file says it")


def read_corpus(
    args: argparse.Namespace, vocabulary: Sequence[str] | None = None, n_features: int | None = None,
    invalid: str | None = None,
) -> Corpus:
    """The documents that the arguments name; a model's vocabulary and width override those of the arguments."""
    from ..data import load_corpus

    if args.input == "docstrings" and not os.path.exists(args.input):
        from ..demo import docstrings_corpus, language_reference_words

        n_words = len(language_reference_words())
        if n_features not in (None, n_words):
            raise ValueError(f"the model has {n_features} words, the docstrings {n_words}")
        return docstrings_corpus()
    return load_corpus(
        args.input, args.vocab if vocabulary is None else vocabulary, args.format,
        n_features=args.features if n_features is None else n_features, field=args.field, invalid=invalid or "raise",
    )


def load_topics(args: argparse.Namespace) -> tuple[Any, Sequence[str] | None]:
    """The fitted topic model in a folder, and its words."""
    from ..data import load_vocabulary
    from ..models.lda import LatentDirichletAllocation

    model = load_model(args.model, LatentDirichletAllocation, WRITTEN_BY, args.verify_key)
    vocabulary = texts.kept_vocabulary(args.model) if args.vocab is None else load_vocabulary(args.vocab)
    n_words = model.components_.shape[1]
    if vocabulary is not None and len(vocabulary) != n_words:
        raise ValueError(f"{args.vocab or texts.VOCABULARY} has {len(vocabulary)} words, but the model {n_words}")
    return model, vocabulary


def fit(args: argparse.Namespace) -> int:
    """Fit a topic model."""
    from ..models.lda import LatentDirichletAllocation

    if args.prior_weight is not None and args.prior_model is None:
        raise ValueError("--prior-weight: expected with --prior-model only")

    def read(model: LatentDirichletAllocation) -> Job:
        corpus = read_corpus(args, invalid=args.invalid)
        if args.prior_model is not None:
            model.set_params(topic_word_prior=_prior(args, corpus))
        words = corpus.vocabulary

        def files(model: LatentDirichletAllocation) -> dict[str, str]:
            kept = {} if words is None else {texts.VOCABULARY: "\n".join(words) + "\n"}
            return {texts.TOPICS: shown(model), **kept}

        def shown(model: LatentDirichletAllocation) -> str:
            return texts.topics(model, words, args.words)

        return Job((corpus.counts,), files, shown)

    return run_fit(args, LatentDirichletAllocation, read)


def _prior(args: argparse.Namespace, corpus: Corpus) -> Any:
    """Pseudo-counts from a saved model of the same number of topics and the same words."""
    from ..models.lda import LatentDirichletAllocation

    what = f"--prior-model {args.prior_model}"
    known = load_model(args.prior_model, LatentDirichletAllocation, WRITTEN_BY).components_
    if len(known) != args.n_components:
        raise ValueError(f"{what} has {len(known)} topics: expected {args.n_components}, as in --topics")
    if known.shape[1] != corpus.n_features:
        raise ValueError(f"{what} has {known.shape[1]} words: expected {corpus.n_features}")
    words = texts.kept_vocabulary(args.prior_model)
    if None not in (words, corpus.vocabulary) and words != corpus.vocabulary:
        raise ValueError(f"{what} has other words, or in another order: expected those of --vocab")
    return known * (args.prior_weight or 1.0)


def topics(args: argparse.Namespace) -> int:
    """Print the topics of a fitted model."""
    from ..report.text import paragraph, topics_table

    model, vocabulary = load_topics(args)
    print(topics_table(model.components_, vocabulary, args.words, width=width()))
    print()
    print(paragraph(model.privacy_.statement(), width()))
    return 0


def plan(args: argparse.Namespace) -> int:
    """Print settings of a private topic model."""
    from ..models.lda import plan
    from ..report.text import paragraph, table

    planned = plan(
        args.records, args.words, args.topics, doc_length=args.doc_length, target_epsilon=args.epsilon,
        target_delta=args.delta,
    )
    rows = [
        ("expected batch", f"{planned.batch_size:g}"),
        ("steps", f"{planned.n_steps}"),
        ("clip", f"{planned.clip:.4g}"),
        ("learning decay", f"{planned.learning_decay:g}"),
        ("noise multiplier", f"{planned.noise_multiplier:.4g}"),
        ("signal to noise", f"{planned.signal_to_noise:.3g}"),
    ]
    print(table(rows))
    if planned.signal_to_noise < 1:
        advice = (
            "Below 1 the noise hides all but the commonest words of a topic: fewer topics, a smaller vocabulary or more "
            "documents help most."
        )
        print(paragraph(advice, width()))
    return 0
