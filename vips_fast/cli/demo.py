"""``demo``: private topics of this Python's docstrings."""

from __future__ import annotations

import argparse
import time
from typing import Any

from .arguments import add_jobs, command, positive, probability, seed, whole
from .output import say, width
from .progress import ProgressLine

#: Whole batches, the data being small, and few steps, since each costs budget; all else is the estimator's own.
_STEPS = 10


def add(commands: Any) -> None:
    """Add ``demo``."""
    parser = command(commands, "demo", run, "private topics of this Python's docstrings")
    parser.add_argument("--epsilon", metavar="X", type=positive, default=2.0, help="default 2")
    parser.add_argument("--delta", metavar="X", type=probability, default=1e-5, help="default 1e-5")
    parser.add_argument("--topics", metavar="N", type=whole, default=10, help="number of topics, default 10")
    parser.add_argument("--words", metavar="N", type=whole, default=10, help="words shown a topic, default 10")
    add_jobs(parser, default=-1)
    parser.add_argument("--seed", metavar="N", type=seed, default=0, help="seed of what is public, default 0")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Fit topics with and without privacy and compare; 1 if the private ones are no better than none."""
    from ..data import split
    from ..demo import docstrings_corpus
    from ..report import text

    start = time.perf_counter()
    corpus = docstrings_corpus()
    train, test = split(corpus, 0.1, random_state=0)
    packages = ", ".join(f"{package} {number}" for package, number in corpus.details.items())
    _paragraph(
        f"Docstrings of this Python, one a record: {len(corpus)} with ten or more words of the language reference "
        f"({corpus.n_features} words), {packages}. {len(train)} records to learn from, {len(test)} held out."
    )
    private = _fit(args, train.counts, "private", target_epsilon=args.epsilon, target_delta=args.delta)
    free = _fit(args, train.counts, "non-private", private=False)
    label = f"private, epsilon = {args.epsilon:g}"
    print()
    print(
        text.topics_table(
            private.components_, corpus.vocabulary, args.words, free.components_, (label, "non-private"), width()
        )
    )
    given, asked = text.split_words(test, random_state=0)
    unigram = text.unigram_perplexity(train, asked)
    rows = [("unigram model (no topics, no privacy)", unigram, text.unigram_perplexity(train, test))]
    for name, model in ((label, private), ("non-private", free)):
        completion = text.predictive_perplexity(model.transform(given), model.components_, asked)
        rows.append((name, completion, model.perplexity(test.counts)))
    print()
    print(
        text.table(
            [(name, f"{completion:.0f}", f"{bound:.0f}") for name, completion, bound in rows],
            ("held-out perplexity, lower is better", "completion", "bound"),
        )
    )
    _paragraph(
        "Completion: one half of each held-out record's words gives its topics, the other half is predicted. Bound: the "
        "paper's Eq. 32 on whole records, above the true value for models with topics."
    )
    print()
    _paragraph(private.privacy_.statement())
    _paragraph(
        "The held-out records and the models without privacy are for comparison only: their figures are not covered by "
        "the statement."
    )
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if not rows[1][1] < unigram:
        say(
            f"error: the private topics (perplexity {rows[1][1]:.0f}) are no better than the unigram model "
            f"({unigram:.0f}): epsilon = {args.epsilon:g} is too little for {len(train)} records"
        )
        return 1
    return 0


def _fit(args: argparse.Namespace, counts: Any, label: str, **budget: Any) -> Any:
    from ..models.lda import LatentDirichletAllocation

    with ProgressLine(label) as progress:
        return LatentDirichletAllocation(
            args.topics, n_steps=_STEPS, sampling="full", n_jobs=args.n_jobs, random_state=args.seed,
            callback=None if args.quiet else progress, **budget,
        ).fit(counts)


def _paragraph(text: str) -> None:
    from ..report.text import paragraph

    print(paragraph(text, width()))
