"""Raw records at the shell: the columns of text and person, how text becomes words, and what a model keeps of that."""

from __future__ import annotations

import contextlib
import json
import warnings
from argparse import Namespace
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .exits import Exit
from .output import read_labels
from .progress import ReadingLine
from .texts import READING

if TYPE_CHECKING:
    from ..accounting import SelfComposedEvent
    from ..data import Analyzer, Corpus, Records, ShardedCorpus
    from ..models.estimator import PrivateEstimator
    from ..models.vocabulary import PrivateVocabulary
    from .runs import JobFolder

#: What a word list may be instead of a file.
PRIVATE, NONE, PUBLIC = "private", "none", "public:"


def analyzer_of(args: Namespace) -> Analyzer:
    """What a fit's arguments say about words: with a vocabulary of its own (FILE), all of them count."""
    from ..data import Analyzer, stop_words

    listed, numbers = args.stop_words, args.numbers
    if args.vocab in (None, PRIVATE) or args.vocab.startswith(PUBLIC):
        listed = listed or (args.vocab if args.vocab not in (None, PRIVATE) else "public:en")
        numbers = numbers or "mixed"
    left_out = () if listed in (None, NONE) else stop_words(listed)
    return Analyzer(args.analyzer, args.min_length, numbers or "keep", args.ngrams, left_out)


def public_words(args: Namespace) -> tuple[str, ...] | None:
    """The words of a fit's ``--vocab``; None where there are none, or none that are public."""
    from ..data import public_vocabulary

    if args.vocab in (None, PRIVATE):
        return None
    analyzer = analyzer_of(args) if args.vocab.startswith(PUBLIC) else None
    return public_vocabulary(args.vocab, analyzer, size=args.vocab_size or 8000)


def reading(args: Namespace, analyzer: Analyzer) -> dict[str, str]:
    """The file that says how texts were read, by its name."""
    said = {"columns": args.text or ["text"], "analyzer": analyzer.to_dict()}
    return {READING: json.dumps(said, ensure_ascii=False, indent=1) + "\n"}


def sharded(args: Namespace) -> ShardedCorpus | None:
    """The corpus that INPUT is a folder of shards of; None for any other INPUT."""
    from ..data import ShardedCorpus
    from ..data.shards import is_sharded

    if not is_sharded(args.input):
        return None
    for option in ("vocab", "format", "features", "text", "schema", "label", "labels", "person", "names"):
        if getattr(args, option, None) is not None:
            raise ValueError(f"--{option}: not with shards, which were written with what it says")
    return ShardedCorpus(args.input, verify=not getattr(args, "no_verify", False))


def read_training(
    args: Namespace, estimator: PrivateEstimator, run: JobFolder
) -> tuple[Corpus | ShardedCorpus, dict[str, str], Any]:
    """The documents of a fit; the file that says how they were read, by its name (none for counts); and the
    private vocabulary that their columns were bought with, or None.
    """
    from ..data import Records, holds_records, load_corpus

    shards = sharded(args)
    if shards is not None:
        said = shards.text(READING)
        return shards, {} if said is None else {READING: said}, None
    raw = holds_records(args.input, args.format, args.text, args.person)
    invalid, words, after = args.invalid or "raise", public_words(args), None
    analyzer = analyzer_of(args) if raw else None
    if analyzer is not None and words is None:
        with _reading(args, "read for the vocabulary") as line:
            columns = args.text or ("text",), args.person
            records = Records(args.input, *columns, args.format, args.encoding, invalid, line)
            after = _bought(args, estimator, records, analyzer, run)
        words = tuple(after.get_feature_names_out())
    with _reading(args, "read") as line:
        corpus = load_corpus(
            args.input,
            words,
            args.format,
            n_features=args.features,
            text=args.text,
            person=args.person,
            analyzer=analyzer,
            encoding=args.encoding,
            invalid=invalid,
            progress=line,
        )
    if analyzer is None:
        return corpus, {}, None
    return corpus, reading(args, analyzer), after


def _reading(args: Namespace, label: str) -> contextlib.AbstractContextManager[ReadingLine | None]:
    return contextlib.nullcontext() if args.quiet else ReadingLine(label)


def buys_words(args: Namespace) -> bool:
    """Whether a fit's arguments ask for a vocabulary that is bought."""
    from ..data import holds_records

    return args.vocab in (None, PRIVATE) and holds_records(args.input, args.format, args.text, args.person)


def _bought(
    args: Namespace, estimator: PrivateEstimator, records: Records, analyzer: Analyzer, run: JobFolder
) -> PrivateVocabulary:
    """The vocabulary of the records, paid for with a share of the fit's epsilon, or of what the budget has left.

    It is kept in the folder of the run, which buys it once only: a later attempt goes on with what was released. Raises
    ValueError where that was bought with other settings, the records cannot be read twice, or no word was released; and
    before anything is bought where the fit itself would be refused.
    """
    from ..accounting.printing import rounded_up
    from ..engine.budget import Budget, BudgetExceededError
    from ..engine.planner import Planner
    from ..engine.result import Public
    from ..models.lda import plan
    from ..models.vocabulary import PrivateVocabulary, TokenRows
    from .fit import unit_of

    if args.input == "-":
        raise ValueError("-: standard input can be read once only; expected a file, or a public --vocab")
    for option, value in (("--features", args.features), ("--prior-model", args.prior_model)):
        if value is not None:
            raise ValueError(f"{option} {value}: expected only with a public --vocab")
    if args.target_epsilon is None and (args.budget is None or args.noise_multiplier or args.private is not None):
        raise ValueError(
            "--vocab private: expected --epsilon, or --budget alone, of which it takes a share, or a public --vocab"
        )
    planner: Planner = args.planner
    budget = None if args.budget is None else Budget(args.budget)
    delta = args.target_delta if args.target_delta is not None or budget is None else budget.delta
    said: dict[str, Any] = dict(
        analyzer=analyzer,
        n_records=args.n_records,
        invalid=records.invalid,
        max_share=args.max_share,
        target_delta=delta,
    )

    def planned(n_records: int, epsilon: float) -> tuple[dict[str, Any], SelfComposedEvent]:
        found = plan(
            n_records,
            None,
            args.n_components,
            doc_length=args.doc_length or 500,
            target_epsilon=epsilon,
            target_delta=delta,
            vocab_share=args.vocab_share,
            distinct_words=args.distinct_words,
            planner=planner,
        ).vocabulary
        assert found is not None
        size = {} if args.vocab_size is None else {"max_features": args.vocab_size}
        return {**said, **found.parameters(), **size}, found.event

    if run.words.exists():
        words = PrivateVocabulary.load(run.words)
        # What was left in a budget before the vocabulary was bought cannot be asked any more.
        n_records, epsilon = words.privacy_.n_records, args.target_epsilon
        wanted = said if epsilon is None else planned(n_records, epsilon)[0]
        # What is done with released words is free.
        words.set_params(**{name: wanted[name] for name in ("max_share", "max_features") if name in wanted})
        if words.get_params() != {**words.get_params(), **wanted}:
            raise ValueError(f"{run.words}: bought with other settings; expected the same with --resume")
    else:
        rows, labels, known = TokenRows(analyzer), list[int](), dict[Any, int]()
        for texts, persons in records.batches():
            rows.extend(texts)
            labels += [known.setdefault(label, len(known)) for label in persons or ()]
        if args.groups is not None:
            labels = read_labels(args.groups)
        whose = {"groups": labels, "unit": args.unit} if args.person or args.groups else {}
        n_records = args.n_records or max(1, len(set(labels)) if whose else rows.n_rows)
        epsilon = args.target_epsilon if budget is None or args.target_epsilon is not None else budget.left
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is empty, which is an error here
            settings, event = planned(n_records, epsilon)
            made = PrivateVocabulary(**settings)
            try:
                # Topics over fewer words may have more steps.
                for size in (settings["max_features"], 1):
                    public = Public(size, n_records, seed=0, unit=unit_of(args))
                    relation = planner.check_after(estimator.request(public), budget, event)
            except BudgetExceededError as refused:
                less = "less, or --budget alone: words and topics then share what is left"
                why = f"--epsilon {epsilon:g}: {refused}, with the words reserved before the topics"
                raise BudgetExceededError(f"{why}; nothing was spent; expected {less}") from None
            if relation != "add_remove":
                raise ValueError(f"--vocab private: about add_remove, the fit {relation}; expected a public --vocab")
            words = made.fit(rows, budget=budget, backend=args.backend, planner=planner, **whose)
    # Stop words are never among them: the analyzer drops those before anything is released.
    released = len(copy(words).set_params(max_share=1.0, max_features=None).get_feature_names_out())
    if released:
        words.save(run.words)
    if not len(words.get_feature_names_out()):
        figure = words.privacy_.epsilon if budget is None else budget.spent
        spent = f"epsilon = {rounded_up(figure, 3)}{'' if budget is None else f' of {args.budget}'} is spent"
        if released:
            more = "expected more, with --resume, at no cost"
            why = f"--max-share {args.max_share:g}: leaves out all {released} released words; {spent}; {more}"
        else:
            name, part = "an epsilon for the vocabulary", 1.0
            if args.target_epsilon is not None:
                name, part = "--epsilon", float(words.target_epsilon or 1.0) / args.target_epsilon
            needed = words.needed(name, part)
            why = f"--vocab private: no word can be released; {spent}; expected {needed}, or a public --vocab"
        error = ValueError(why)
        error.exit_code = Exit.FAILED  # type: ignore[attr-defined]
        raise error
    if not run.keep_columns(words.get_feature_names_out()):
        why = "gives other words than the topics that --resume goes on with"
        raise ValueError(f"--max-share {args.max_share:g}: {why}")
    return words


def read_new(args: Namespace, vocabulary: Sequence[str] | None, n_words: int) -> Corpus | ShardedCorpus:
    """Documents for a fitted model, read as those of its fit were."""
    from ..data import Analyzer, load_corpus

    if (shards := sharded(args)) is not None:
        if None not in (vocabulary, shards.vocabulary) and tuple(vocabulary or ()) != shards.vocabulary:
            raise ValueError(f"{args.input}: other words, or another order, than those of {args.model}")
        return shards
    kept: dict[str, Any] = {}
    path = Path(args.model) / READING
    if path.exists():
        try:
            kept = json.loads(path.read_text("utf-8"))
            kept = {"columns": list(kept["columns"]), "analyzer": Analyzer.from_dict(kept["analyzer"])}
        except (ValueError, LookupError, TypeError):
            raise ValueError(f"{path}: not as fit wrote it") from None
    text = args.text
    if text is None and Path(args.input).suffix not in (".npz", ".txt", ".ldac"):
        text = kept.get("columns")
    with _reading(args, "read") as line:
        return load_corpus(
            args.input,
            vocabulary,
            args.format,
            n_features=n_words,
            text=text,
            analyzer=kept.get("analyzer"),
            encoding=args.encoding,
            progress=line,
        )
