"""``demo``: private topics of this Python's docstrings."""

import time
from argparse import Namespace
from typing import Any

from .arguments import add_jobs, command, positive, probability, seed, whole
from .output import say, width
from .progress import ProgressLine

#: Whole batches, the data being small, and few steps, since each costs budget; all else is the estimator's own.
_STEPS = 10


def add(commands: Any) -> None:
    parser = command(commands, "demo", run, "private topics of this Python's docstrings")
    parser.add_argument("--epsilon", type=positive, default=2.0, help="default 2")
    parser.add_argument("--delta", type=probability, default=1e-5, help="default 1e-5")
    parser.add_argument("--topics", type=whole, default=10, help="number of topics, default 10")
    parser.add_argument("--words", type=whole, default=10, help="words shown a topic, default 10")
    add_jobs(parser, default=-1)
    parser.add_argument("--seed", type=seed, default=0, help="seed of what is public, default 0")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def run(args: Namespace) -> int:
    """Fit topics with and without privacy and compare; 1 if the private ones are no better than none."""
    from .. import demo, report
    from ..data import split

    start = time.perf_counter()
    corpus = demo.docstrings_corpus()
    train, test = split(corpus, 0.1, random_state=0)
    packages = ", ".join(f"{package} {number}" for package, number in (corpus.details or {}).items())
    _paragraph(
        f"Docstrings of this Python, one a record: {len(corpus)} with ten or more words of the language reference "
        f"({corpus.n_features} words), {packages}. {len(train)} records to learn from, {len(test)} held out."
    )
    label = f"private, epsilon = {args.epsilon:g}"
    private = _fit(args, train, "private", target_epsilon=args.epsilon, target_delta=args.delta)
    free = _fit(args, train, "non-private", private=False)
    titles = (label, "non-private")
    print()
    print(report.topics_table(private.components_, corpus.vocabulary, args.words, free.components_, titles, width()))
    given, asked = report.split_words(test, random_state=0)
    unigram = report.unigram_perplexity(train, asked)
    completions = [report.predictive_perplexity(m.transform(given), m.components_, asked) for m in (private, free)]
    rows = [
        ("unigram model (no topics, no privacy)", unigram, report.unigram_perplexity(train, test)),
        (label, completions[0], private.perplexity(test.counts)),
        ("non-private", completions[1], free.perplexity(test.counts)),
    ]
    head = ("held-out perplexity, lower is better", "completion", "bound")
    print()
    print(report.table([(title, f"{first:.0f}", f"{second:.0f}") for title, first, second in rows], head))
    _paragraph(
        "Completion: one half of each held-out record's words gives its topics, the other half is predicted. Bound: "
        "the paper's Eq. 32 on whole records, above the true value for models with topics."
    )
    print()
    _paragraph(private.privacy_.statement())
    _paragraph(
        "The held-out records and the models without privacy are for comparison only: their figures are not covered by "
        "the statement."
    )
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if completions[0] < unigram:
        return 0
    say(
        f"error: the private topics (perplexity {completions[0]:.0f}) are no better than the unigram model "
        f"({unigram:.0f}): epsilon = {args.epsilon:g} is too little for {len(train)} records"
    )
    return 1


def _fit(args: Namespace, corpus: Any, label: str, **budget: Any) -> Any:
    from ..models.lda import LatentDirichletAllocation

    with ProgressLine(label) as progress:
        return LatentDirichletAllocation(
            args.topics, n_steps=_STEPS, sampling="full", n_jobs=args.n_jobs, random_state=args.seed,
            callback=None if args.quiet else progress, **budget,
        ).fit(corpus.counts)


def _paragraph(text: str) -> None:
    from ..report import paragraph

    print(paragraph(text, width()))
