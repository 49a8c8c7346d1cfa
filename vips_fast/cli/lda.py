"""Topic models: ``fit lda``, ``topics`` and ``plan``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import records, texts
from .arguments import add_fit_groups, add_model, command, positive, probability, whole
from .fit import Job, run_fit
from .folder import load_model, refuse
from .forecast import grid, lines
from .output import width
from .records import add_input, buys_words, read_training

if TYPE_CHECKING:
    from ..data import Corpus, ShardedCorpus
    from ..models.lda import Plan
    from .runs import JobFolder


def add(commands: Any, models: Any) -> None:
    parser = command(models, "lda", fit, "fit a topic model and write it to a folder")
    add_input(parser, fit=True)
    model, privacy, run = add_fit_groups(parser)
    model.add_argument("--topics", dest="n_components", type=whole, required=True, help="number of topics")
    model.add_argument("--words", type=whole, default=10, help="words shown a topic, default 10")
    privacy.add_argument("--clip", type=positive, help="L2 bound, as a share of the length")
    run.add_argument("--doc-length", type=whole, help="words that each document is brought to")
    _add_distinct(run)
    what = "fit although the forecast, from public numbers, says that the topics will be noise"
    run.add_argument("--anyway", action="store_true", help=what)
    run.add_argument("--doc-topic-prior", type=positive, help="default 1 / topics")
    prior = run.add_mutually_exclusive_group()
    prior.add_argument("--topic-word-prior", type=positive, help="default 1 / topics")
    what = "a model that fit wrote for PUBLIC documents, over the same words: its topics are the prior"
    prior.add_argument("--prior-model", metavar="DIR", help=what)
    what = "vectors of PUBLIC text, word2vec or GloVe as text: what noise hides is foreseen from words used alike"
    prior.add_argument("--word-vectors", metavar="FILE", help=what)
    run.add_argument("--prior-weight", type=positive, help="what a word of the public documents counts, default 1")

    parser = command(commands, "topics", topics, "print the topics of a fitted model")
    add_model(parser, "fit lda")
    parser.add_argument("--words", type=whole, default=10, help="words a topic, default 10")
    parser.add_argument("--vocab", metavar="FILE", help="default: the one kept in DIR")

    parser = command(commands, "plan", plan, "settings of a private topic model from public numbers")
    parser.add_argument("--records", type=whole, required=True, help="number of documents")
    parser.add_argument("--words", type=whole, help="size of a public vocabulary; default: bought")
    parser.add_argument("--topics", type=whole, help="default: as many as are worth while, with a public vocabulary")
    parser.add_argument("--doc-length", type=whole, default=500, help="words a document, default 500")
    _add_distinct(parser)
    parser.add_argument("--epsilon", type=positive, required=True)
    what = "print instead what to expect at other epsilons and numbers of records, and what helps"
    parser.add_argument("--table", action="store_true", help=what)
    parser.add_argument("--delta", type=probability, help="default min(1e-5, 0.1 / records)")
    what = "default: poisson, as for records in memory; random_allocation, as for shards"
    parser.add_argument("--sampling", default="poisson", choices=("poisson", "random_allocation"), help=what)
    parser.add_argument("--bins", dest="n_bins", type=whole, metavar="T", help="those of the shards, if they have any")
    parser.add_argument("--word-neighbors", action="store_true", help="for a fit with --word-vectors")
    what = "share of epsilon for the vocabulary, default: the best by what is expected"
    parser.add_argument("--vocab-share", type=probability, help=what)


def _add_distinct(group: Any) -> None:
    what = "distinct words of a usual document, or of all of a person; public; default: doc_length ** 0.85"
    group.add_argument("--distinct-words", type=positive, metavar="M", help=what)


def read_corpus(args: Namespace, model: Any, vocabulary: Sequence[str] | None) -> Any:
    """The counts that the arguments name, over the words of a fitted model."""
    docstrings = _docstrings(args, model.n_features_in_)
    corpus = records.read_new(args, vocabulary, model.n_features_in_) if docstrings is None else docstrings
    return getattr(corpus, "counts", corpus)


def _docstrings(args: Namespace, n_words: int | None) -> Corpus | None:
    """The docstrings, where the input is that word and no file."""
    if args.input != "docstrings" or os.path.exists(args.input):
        return None
    from ..demo import docstrings_corpus, language_reference_words

    own = len(language_reference_words())
    if n_words not in (None, own):
        raise ValueError(f"docstrings: they have {own} words; expected {n_words}")
    # Units are the docstrings: what the demonstration knows of their source files is for itself.
    return replace(docstrings_corpus(), groups=None)


def load_topics(args: Namespace) -> tuple[Any, Sequence[str] | None]:
    """The fitted topic model in a folder, and its words."""
    from ..models.lda import LatentDirichletAllocation

    model = load_model(args.model, LatentDirichletAllocation, "fit lda", args.verify_key)
    return model, words_of(args, model)


def words_of(args: Namespace, model: Any) -> Sequence[str] | None:
    """The words of a fitted topic model: those of ``--vocab``, or those beside it."""
    from ..data import load_vocabulary

    vocabulary = texts.kept_vocabulary(args.model) if args.vocab is None else load_vocabulary(args.vocab)
    if vocabulary is not None and len(vocabulary) != model.n_features_in_:
        name = args.vocab or texts.VOCABULARY
        raise ValueError(f"{name} has {len(vocabulary)} words, but the model {model.n_features_in_}")
    return vocabulary


def read_new(args: Namespace, model: Any) -> Any:
    """Read new documents for a fitted topic model."""
    refuse(args, "threshold")
    return read_corpus(args, model, words_of(args, model))


def fit(args: Namespace) -> int:
    """Fit a topic model."""
    from ..data import load_word_vectors
    from ..models.lda import LatentDirichletAllocation

    if args.prior_weight is not None and args.prior_model is None:
        raise ValueError("--prior-weight: expected with --prior-model only")

    if args.word_vectors is not None:
        if args.paper:
            raise ValueError("--word-vectors: not with --paper, which reads nothing out by them")
        load_word_vectors(args.word_vectors, ())  # its form, before a vocabulary is bought

    def read(estimator: LatentDirichletAllocation, run: JobFolder) -> Job:
        docstrings = _docstrings(args, args.features)
        corpus, reading, after = (
            (docstrings, {}, None) if docstrings is not None else read_training(args, estimator, run)
        )
        if args.prior_model is not None:
            estimator.set_params(topic_word_prior=_prior(args, corpus))
        if args.word_vectors is not None:
            estimator.set_params(topic_word_prior=_neighbors(args.word_vectors, corpus.vocabulary))
        words = corpus.vocabulary
        kept = {} if words is None else {texts.VOCABULARY: "\n".join(words) + "\n"}

        def files(model: LatentDirichletAllocation) -> dict[str, str]:
            return texts.written(model, words, args.words)

        def shown(model: LatentDirichletAllocation) -> str:
            return "".join(files(model).values())

        kept |= reading
        counts = getattr(corpus, "counts", corpus)
        return Job((counts,), lambda model: {**files(model), **kept}, shown, corpus.groups, after)

    return run_fit(
        args, LatentDirichletAllocation, read, lambda: _docstrings(args, args.features) is None and buys_words(args)
    )


def _prior(args: Namespace, corpus: Corpus | ShardedCorpus) -> Any:
    """Pseudo-counts from a saved model of the same number of topics and the same words."""
    from ..models.lda import LatentDirichletAllocation

    known = load_model(args.prior_model, LatentDirichletAllocation, "fit lda").components_
    shape = args.n_components, corpus.n_features
    if known.shape != shape:
        raise ValueError(f"--prior-model {args.prior_model}: {known.shape} topics and words; expected {shape}")
    words = texts.kept_vocabulary(args.prior_model)
    if None not in (words, corpus.vocabulary) and words != corpus.vocabulary:
        raise ValueError(f"--prior-model {args.prior_model}: other words, or another order; expected those of --vocab")
    return known * (args.prior_weight or 1.0)


def _neighbors(path: str, words: Sequence[str] | None) -> Any:
    """Words that are used alike, by vectors of public text."""
    from ..data import load_word_vectors
    from ..models.lda import nearest_words

    if words is None:
        raise ValueError(f"--word-vectors {path}: the columns have no words; expected --vocab")
    return nearest_words(load_word_vectors(path, words))


def topics(args: Namespace) -> int:
    """Print the topics of a fitted model."""
    from ..report import paragraph, topics_table

    model, vocabulary = load_topics(args)
    print(topics_table(model.components_, vocabulary, args.words, width=width()))
    print("\n" + paragraph(model.privacy_.statement(), width()))
    return 0


def plan(args: Namespace) -> int:
    """Print settings of a private topic model."""
    from ..models.lda import plan
    from ..report import paragraph, table

    def found(n_records: int, epsilon: float) -> Plan:
        return plan(
            n_records,
            args.words,
            args.topics,
            doc_length=args.doc_length,
            target_epsilon=epsilon,
            target_delta=args.delta,
            vocab_share=args.vocab_share,
            distinct_words=args.distinct_words,
            sampling=args.sampling,
            n_bins=args.n_bins,
            word_neighbors=args.word_neighbors,
        )

    planned = found(args.records, args.epsilon)
    said = "\n".join(paragraph(line, width()) for line in lines(planned))
    if args.table:
        print(grid(found, args.records, args.epsilon))
        print(f"\n{said}")
        return 0
    words = planned.vocabulary
    rows: list[tuple[str, Any]] = (
        []
        if words is None
        else [
            ("vocabulary", f"epsilon = {words.target_epsilon:.3g} in {words.n_steps} rounds"),
            ("tokens a person", f"at most {words.max_tokens}"),
            ("words", f"at most {words.max_features}"),
            ("expected words", f"about {words.words:.2g}, {words.token_share:.0%} of all tokens"),
            ("noise in topics", f"{words.extra_noise:.2f} times that with a public vocabulary"),
        ]
    )
    rows += [
        ("topics", planned.n_components),
        ("expected batch", f"{planned.batch_size:g}"),
        ("steps", planned.n_steps),
        ("clip", f"{planned.clip:.4g}"),
        ("learning decay", f"{planned.learning_decay:g}"),
        ("noise multiplier", f"{planned.noise_multiplier:.4g}"),
        ("signal to noise", f"{planned.signal_to_noise:.3g}"),
    ]
    print(table(rows))
    print(said)
    return 0
