"""Topic models: ``fit lda`` and ``plan``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ...accounting import rounded_up
from ...data import holds_records
from ...jobs.text import language_of
from ...models.lda import LatentDirichletAllocation, LdaOptions, Plan, load_prior
from ...models.lda import plan as make_plan
from ...report import paragraph, table
from ..arguments import FitLda, Predict
from ..arguments import Plan as PlanArguments
from ..inputs import IMAGES, ROWS, open_shards, read_documents, refuse, text_file
from ..messages import print_object, width
from ..signature import in_options
from .fit import run_fit

#: Numbers of records and epsilons of the table, in parts of the given ones.
_SIZES, _EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0), (0.25, 0.5, 1.0, 2.0, 4.0)


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

    def found(n_records: int, epsilon: float) -> Plan:
        how = args.take("doc_length", "delta", "vocab_share")
        how["options"] = LdaOptions(distinct_words=args.distinct_words)
        return make_plan(n_records, args.vocab_size, args.topics, epsilon=epsilon, **how)

    planned = found(args.n_records, args.epsilon)
    if args.json:
        print_object({**asdict(planned), "hopeless": planned.hopeless, "forecast": planned.forecast()})
        return 0
    forecast = in_options(FitLda, planned.forecast())
    said = paragraph(f"{forecast[0].upper()}{forecast[1:]}.", width())
    if args.table:
        print(grid(found, args.n_records, args.epsilon))
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
