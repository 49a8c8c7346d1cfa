"""Topic models: ``fit lda`` and ``plan``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...accounting import rounded_up
from ...data import holds_records
from ...jobs.text import language_of
from ...models.lda import LatentDirichletAllocation, LdaOptions, load_prior
from ...models.lda import plan as make_plan
from ...report import paragraph, table
from ..arguments import FitLda, Predict
from ..arguments import Plan as PlanArguments
from ..inputs import IMAGES, ROWS, open_shards, read_documents, refuse, text_file
from ..messages import print_object, width
from ..signature import in_options
from .fit import run_fit


def read_new(args: Predict, model: Any) -> Any:
    """Read new documents for a fitted topic model."""
    refuse(args, *ROWS, *IMAGES)
    corpus = read_documents(args, model)
    return getattr(corpus, "counts", corpus)


def fit(args: FitLda) -> int:
    """Fit a topic model."""
    texts = holds_records(args.input, args.format, args.text, args.person)
    if args.public_prior is None and args.n_components is None:
        if not texts:
            raise ValueError("--topics: expected the number of topics, or for texts --public-prior")
        args.public_prior = f"public:{language_of(args.language)}"
    if args.public_prior is not None:
        args.n_components = load_prior(args.public_prior).n_topics
    open_shards(args)  # refuses options that mean nothing to shards
    source = text_file(args)
    known = {"Texts": ", ".join(args.text or ["text"]), "persons": args.person, "language": source.words_language}
    note = "; ".join(f"{name}: {value}" for name, value in known.items() if value)
    return run_fit(args, LatentDirichletAllocation, source, f"{note}." if texts else "")


def plan(args: PlanArguments) -> int:
    """Print settings of a private topic model."""
    how = args.take("epsilon", "doc_length", "delta", "vocab_share")
    how["options"] = LdaOptions(distinct_words=args.distinct_words)
    planned = make_plan(args.n_records, args.vocab_size, args.topics, **how)
    if args.json:
        print_object({**asdict(planned), "hopeless": planned.hopeless, "forecast": planned.forecast()})
        return 0
    words = planned.vocabulary
    rows: list[tuple[str, Any]] = []
    if words is not None:
        rows = [
            ("vocabulary", f"epsilon = {rounded_up(words.epsilon)} in {words.n_rounds} rounds"),
            ("tokens a person", f"at most {words.max_tokens}"),
            ("words", f"at most {words.max_features}"),
            ("expected words", f"about {words.words:.2g}, {words.token_share:.0%} of all tokens"),
            ("noise in topics", f"{words.extra_noise:.2f} times that with a public vocabulary"),
        ]
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
    forecast = in_options(FitLda, planned.forecast())
    print(paragraph(f"{forecast[0].upper()}{forecast[1:]}.", width()))
    return 0
