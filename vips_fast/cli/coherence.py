"""``coherence`` and ``compare``: judge topics by public documents, and compare the topics of two models."""

from __future__ import annotations

import warnings
from argparse import Namespace

from ..models.inputs import column_names
from ..models.lda import LatentDirichletAllocation
from ..models.lda.coherence import PublicDataWarning
from ..report import compare_topics, mean_overlap, paragraph, table, top_words
from ..report.compare import over_the_same_words
from .folder import load_model
from .lda import load_topics, read_corpus
from .messages import say, width
from .output import warn_of_taints
from .record import print_object


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
            "The pairing maximises the likeness of all pairs together.",
            width(),
        )
    )
    return 0
