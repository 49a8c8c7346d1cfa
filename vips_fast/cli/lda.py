"""Topic models: ``fit lda``, ``topics`` and ``plan``."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from ..accounting import rounded_up
from ..data import Corpus, load_vocabulary
from ..demo import docstrings_corpus, language_reference_words
from ..models.inputs import column_names
from ..models.lda import LatentDirichletAllocation, Plan, load_prior
from ..models.lda import plan as make_plan
from ..report import paragraph, table, topics_table
from . import records
from .fit import run_fit
from .folder import load_model, refuse
from .forecast import grid, lines
from .messages import width
from .records import sharded, text_file


def read_corpus(args: Namespace, model: Any, vocabulary: Sequence[str] | None) -> Any:
    """The counts that the arguments name, over the words of a fitted model."""
    docstrings = _docstrings(args, model.n_features_in_)
    corpus = records.read_new(args, model, vocabulary) if docstrings is None else docstrings
    return getattr(corpus, "counts", corpus)


def _docstrings(args: Namespace, n_words: int | None) -> Corpus | None:
    """The docstrings, where the input is that word and no file."""
    if args.input != "docstrings" or os.path.exists(args.input):
        return None

    own = len(language_reference_words())
    if n_words not in (None, own):
        raise ValueError(f"docstrings: they have {own} words; expected {n_words}")
    # Units are the docstrings: what the demonstration knows of their source files is for itself.
    return replace(docstrings_corpus(), groups=None)


def load_topics(args: Namespace) -> tuple[Any, Sequence[str] | None]:
    """The fitted topic model in a folder, and its words."""
    model = load_model(args.model, LatentDirichletAllocation, "fit lda", args.verify_key)
    return model, words_of(args, model)


def words_of(args: Namespace, model: Any) -> Sequence[str] | None:
    """The words of a fitted topic model: those of ``--vocab``, or its own."""
    if args.vocab is None:
        return column_names(model._fitted().public)
    vocabulary = load_vocabulary(args.vocab)
    if len(vocabulary) != model.n_features_in_:
        raise ValueError(f"{args.vocab} has {len(vocabulary)} words, but the model {model.n_features_in_}")
    return vocabulary


def read_new(args: Namespace, model: Any) -> Any:
    """Read new documents for a fitted topic model."""
    refuse(args, "threshold")
    return read_corpus(args, model, words_of(args, model))


def fit(args: Namespace) -> int:
    """Fit a topic model."""
    if args.word_vectors is not None and args.paper:
        raise ValueError("--word-vectors: not with --paper, which reads nothing out by them")
    if args.prior_source is not None:
        if args.paper:
            raise ValueError("--public-prior: not with --paper, which has no public topics")
        args.n_components = load_prior(args.prior_source).n_topics
    sharded(args)  # refuses options that mean nothing to shards
    corpus = cache(lambda: _docstrings(args, args.features))
    return run_fit(args, LatentDirichletAllocation, lambda: text_file(args, n_words=args.words, corpus=corpus))


def topics(args: Namespace) -> int:
    """Print the topics of a fitted model."""
    model, vocabulary = load_topics(args)
    print(topics_table(model.components_, vocabulary, args.words, width=width()))
    print("\n" + paragraph(model.privacy_.statement(), width()))
    return 0


def plan(args: Namespace) -> int:
    """Print settings of a private topic model."""

    def found(n_records: int, epsilon: float) -> Plan:
        return make_plan(
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
            ("vocabulary", f"epsilon = {rounded_up(words.target_epsilon)} in {words.n_rounds} rounds"),
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
