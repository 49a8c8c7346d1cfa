"""Topic models: ``fit lda``, ``topics``, ``plan``, ``coherence`` and ``compare``."""

from __future__ import annotations

import os
import warnings
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ...accounting import rounded_up
from ...data import Corpus, holds_records, load_vocabulary
from ...demo import docstrings_corpus, language_reference_words
from ...engine.request import Terms
from ...models.inputs import column_names
from ...models.lda import LatentDirichletAllocation, Plan, load_prior
from ...models.lda import plan as make_plan
from ...models.lda.coherence import PublicDataWarning
from ...report import compare_topics, mean_overlap, paragraph, table, top_words, topics_table
from ...report.compare import over_the_same_words
from ..inputs import load_model, open_shards, read_documents, refuse, text_file
from ..messages import print_object, say, width
from ..output import warn_of_taints
from .fit import run_fit
from .tables import with_tables

#: Numbers of records and epsilons of the table, in parts of the given ones.
_SIZES, _EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.25, 0.5, 1.0, 2.0, 4.0)


def read_corpus(args: Namespace, model: Any, vocabulary: Sequence[str] | None) -> Any:
    """Read the counts of documents over the words of a fitted model."""
    docstrings = _docstrings(args, model.n_features_in_)
    corpus = read_documents(args, model, vocabulary) if docstrings is None else docstrings
    return getattr(corpus, "counts", corpus)


def _docstrings(args: Namespace, n_words: int | None) -> Corpus | None:
    """Read the docstrings, if the input is that word and no file."""
    if args.input != "docstrings" or os.path.exists(args.input):
        return None

    own = len(language_reference_words())
    if n_words not in (None, own):
        raise ValueError(f"docstrings: they have {own} words; expected {n_words}")
    # Units are the docstrings: the demonstration keeps their source files for itself.
    return replace(docstrings_corpus(), groups=None)


def load_topics(args: Namespace) -> tuple[Any, Sequence[str] | None]:
    """Load the fitted topic model in a folder, and its words."""
    model = load_model(args.model, LatentDirichletAllocation, "fit lda", args.verify_key)
    return model, words_of(args, model)


def words_of(args: Namespace, model: Any) -> Sequence[str] | None:
    """Read the words of a topic model, from ``--vocab`` or the model."""
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
    if args.public_prior is None and args.n_components is None:
        if (
            args.paper
            or args.input == "docstrings"
            or not holds_records(args.input, args.format, args.text, args.person)
        ):
            raise ValueError("--topics: expected the number of topics, or for texts --public-prior")
        args.public_prior = f"public:{args.language or 'en'}"
    if args.public_prior is not None:
        if args.paper:
            raise ValueError("--public-prior: not with --paper, which has no public topics")
        args.n_components = load_prior(args.public_prior).n_topics
    open_shards(args)  # refuses options that mean nothing to shards
    corpus = cache(lambda: _docstrings(args, args.features))
    source = partial(text_file, args, n_words=args.words, corpus=corpus)
    return with_tables(args, lambda: run_fit(args, LatentDirichletAllocation, source))


def topics(args: Namespace) -> int:
    """Print the topics of a fitted model."""
    model, vocabulary = load_topics(args)
    print(topics_table(model.components_, vocabulary, args.words, width=width()))
    print("\n" + paragraph(model.privacy_.statement(), width()))
    return 0


def plan(args: Namespace) -> int:
    """Print settings of a private topic model."""

    def found(n_records: int, epsilon: float | None, success: float | None = None) -> Plan:
        return make_plan(
            n_records,
            args.words,
            args.topics,
            doc_length=args.doc_length,
            epsilon=epsilon,
            delta=args.delta,
            target_attack_success=success,
            vocab_share=args.vocab_share,
            distinct_words=args.distinct_words,
            sampling=args.sampling,
            n_bins=args.n_bins,
        )

    planned = found(args.records, args.epsilon, args.attack_success)
    forecast = planned.forecast()
    said = paragraph(f"{forecast[0].upper()}{forecast[1:]}.", width())
    if args.table:
        terms = Terms(epsilon=args.epsilon, delta=args.delta, target_attack_success=args.attack_success)
        print(grid(found, args.records, terms.target(terms.usual_delta(args.records)).epsilon))
        print(f"\n{said}")
        return 0
    words = planned.vocabulary
    rows: list[tuple[str, Any]] = (
        []
        if words is None
        else [
            ("vocabulary", f"epsilon = {rounded_up(words.epsilon)} in {words.n_rounds} rounds"),
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


def grid(planned: Any, n_records: int, epsilon: float) -> str:
    """Tabulate the words of a topic that can stand clear, around the given numbers."""
    sizes = [max(1, round(float(f"{n_records * part:.2g}"))) if part != 1 else n_records for part in _SIZES]

    def cell(n: int, one: float) -> str:
        try:
            found = planned(n, one)
        except ValueError:
            return "-"  # no noise meets the target with so few
        return "refused" if found.hopeless else f"{float(f'{found.readable_words:.2g}'):,.0f}"

    rows = []
    for part in _EPSILONS:
        one = epsilon * part
        rows.append([f"epsilon = {rounded_up(one)}", *(cell(n, one) for n in sizes)])
    return table(rows, ["clear words of a topic, by records", *(f"{n:,}" for n in sizes)])


def coherence(args: Namespace) -> int:
    """Print coherence and diversity of topics."""
    model, vocabulary = load_topics(args)
    warn_of_taints(model)
    if model.privacy_.private:
        say("warning: INPUT is taken to be public; what is said of private documents is not covered by any statement")
    X = read_corpus(args, model, vocabulary)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublicDataWarning)  # the line above says it
        found = {measure: model.coherence(X, measure, args.words).tolist() for measure in ("npmi", "c_v")}
    diversity = model.topic_diversity(min(25, model.n_features_in_))
    means = {measure: sum(values) / len(values) for measure, values in found.items()}
    if args.json:
        print_object({"model": args.model, "words": args.words, **found, "mean": means, "diversity": diversity})
        return 0
    words = top_words(model.components_, vocabulary, args.words)
    rows = [(str(k), f"{a:.3f}", f"{b:.3f}") for k, (a, b) in enumerate(zip(*found.values(), strict=True), 1)]
    print(table([*rows, ("mean", *(f"{mean:.3f}" for mean in means.values()))], ("topic", "NPMI", "C_v")))
    print(f"\nTopic diversity: {diversity:.1%} of the topics' first words are different.\n")
    print(paragraph(f"The first {len(words[0])} words of a topic, in documents that are windows as they are.", width()))
    return 0


def compare(args: Namespace) -> int:
    """Print the pairs of topics of two models."""
    models = [load_model(folder, LatentDirichletAllocation, "fit lda") for folder in (args.model, args.other)]
    words = [column_names(model._fitted().public) for model in models]
    first, second, known = over_the_same_words(models[0].components_, words[0], models[1].components_, words[1])
    pairs = compare_topics(first, second, known, args.words)
    for model in models:
        warn_of_taints(model)
    if args.json:
        rows = [{"a": p.topic + 1, "b": p.other + 1, "overlap": p.overlap, "shared": list(p.shared)} for p in pairs]
        print_object({"model": args.model, "other": args.other, "pairs": rows, "mean": mean_overlap(pairs)})
        return 0
    # The last column is text, aligned to the left.
    shown = table([(p.topic + 1, p.other + 1, f"{p.overlap:.1%}") for p in pairs], ("A", "B", "overlap")).split("\n")
    shared = ["shared first words", "-" * 18, *(" ".join(p.shared) for p in pairs)]
    print("\n".join(f"{line}  {text}".rstrip() for line, text in zip(shown, shared, strict=True)))
    said = f"\nMean overlap: {mean_overlap(pairs):.1%}."
    if left := [
        f"{len(m.components_) - len(pairs)} of {name}"
        for m, name in zip(models, "AB", strict=True)
        if len(m.components_) > len(pairs)
    ]:
        said += f" Without a partner: {', '.join(left)}."
    print(said)
    print(
        paragraph(
            "Overlap: the sum over words of the smaller of the two probabilities. "
            "The pairing maximizes the likeness of all pairs together.",
            width(),
        )
    )
    return 0
