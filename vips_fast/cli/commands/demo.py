"""Run ``demo``: a model with and without privacy, side by side.

Its data are part of every installation.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ... import demo, report
from ...accounting import rounded_up
from ...data import Analyzer
from ...data.vocabulary import count_matrix
from ...jobs import PrivateTopics, beside
from ...jobs.places import check_place
from ...jobs.progress import ProgressLine
from ...models.family import COLUMNS
from ...models.inputs import listed
from ...models.lda import LatentDirichletAllocation
from ...models.logistic import BayesianLogisticRegression
from ...models.sbn import SigmoidBeliefNetwork
from ...report import paragraph, table
from ...store.atomic import replace_text
from ..arguments import Demo
from ..messages import say, width
from ..signature import refuse_unused

#: Whole batches, the data being small, and few steps, since each costs budget; all else is the estimators' own.
_STEPS, _NETWORK_STEPS = 10, 5
#: Bound of a row of the table, whose 30 entries lie in [-1, 1]; hidden units of the network.
_ROW_NORM, _HIDDEN = 2.0, 10
#: Fewest source files for topics, and topics of the model without privacy.
_FEWEST_FILES, _FREE_TOPICS = 50, 20
_NOT_COVERED = "held-out records and the models without privacy are for comparison only: not covered by"


def run(args: Demo) -> int:
    """Fit a model with and without privacy, and compare.

    The exit code is 1 if the private model is useless.
    """
    start = time.perf_counter()
    if args.shown != "lda":
        refuse_unused(args, ("topics", "words"), "expected only with the demo of topics")
    if args.out is not None:
        check_place(Path(args.out), force=False)
    model, worse = _SHOWN[args.shown](args)
    out = Path(args.out) if args.out is not None else Path(tempfile.mkdtemp(prefix="vips-fast-demo-"))
    _write(out, model, args.words)
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if not worse:
        return 0
    say(f"error: {worse}: epsilon = {rounded_up(args.epsilon)} is too little for {model.privacy_.n_records} records")
    return 1


def _topics(args: Demo) -> tuple[Any, str]:
    """Fit topics of docstrings, as README does.

    Source files stand for persons.
    """
    texts, files, packages = demo.source_files()
    n = int(files.max(initial=-1)) + 1
    if n < _FEWEST_FILES:
        raise ValueError(f"demo: docstrings of {n} source files of installed packages; expected {_FEWEST_FILES}")
    held_out = np.isin(files, np.random.default_rng(args.random_state).permutation(n)[: n // 10])
    public = demo.public_texts()
    prior = demo.public_topics(public, args.topics, args.random_state)
    _paragraph(
        f"Each source file of {', '.join(packages)} stands for a person, its docstrings for what the person wrote: "
        f"{n:,} persons, {n // 10} of them held out. Public are the docstrings of Python's own library and its "
        f"reference, {len(public):,} texts: {len(prior.words):,} words and {prior.n_topics} topics of them cost no "
        "privacy. This is the call:"
    )
    print()
    print(f"    found = PrivateTopics(epsilon={rounded_up(args.epsilon)}, public_prior=topics_of_public_texts)")
    print('    found.fit(table, text="docstring", person="file")\n')
    table = {"docstring": [texts[d] for d in np.flatnonzero(~held_out)], "file": files[~held_out]}
    found = PrivateTopics(
        args.epsilon,
        args.delta,
        public_prior=prior,
        n_jobs=args.n_jobs,
        random_state=args.random_state,
        progress=not args.quiet,
    ).fit(table, text="docstring", person="file")
    print(beside.shown(found.model_, args.words))
    _paragraph(found.privacy_.statement())
    train, test = (_by_file(texts, files, part, prior.words) for part in (~held_out, held_out))
    free = LatentDirichletAllocation(
        _FREE_TOPICS, private=False, random_state=args.random_state, n_jobs=args.n_jobs
    ).fit(train)
    given, asked = report.split_words(test, random_state=0)
    ours, without = (
        report.predictive_perplexity(model.transform(given), model.components_, asked) for model in (found.model_, free)
    )
    counted = report.unigram_perplexity(train, asked)
    rows = [
        (f"private topics, epsilon = {rounded_up(args.epsilon)}", ours),
        ("counting words, without privacy", counted),
        (f"{_FREE_TOPICS} topics, without privacy", without),
    ]
    _table("held-out perplexity, lower is better", ("",), rows, ".0f")
    _paragraph(
        "Half of a held-out file's words are told, the other half is predicted. Counting words knows the exact "
        f"frequencies of all words. The {_NOT_COVERED} the statement."
    )
    worse = f"the private topics (perplexity {ours:.0f}) are no better than counting words ({counted:.0f})"
    return found, "" if ours < counted else worse


def _by_file(texts: list[str], files: np.ndarray, part: np.ndarray, words: Sequence[str]) -> sparse.csr_array:
    """Count the words of each source file of a part."""
    rows = np.flatnonzero(part)
    counts = count_matrix([[texts[d] for d in rows]], words, Analyzer())
    _, person = np.unique(files[rows], return_inverse=True)
    ones = np.ones(len(rows), np.int64)
    return sparse.csr_array(sparse.csr_array((ones, (person, np.arange(len(rows))))) @ counts)


def _regression(args: Demo) -> tuple[Any, str]:
    """Fit a regression: cell measurements that suggest a benign tumor."""
    X, y, names = demo.breast_cancer()
    train, test = _parts(len(X), args.random_state)
    _paragraph(
        f"Wisconsin breast cancer, from scikit-learn, one tumour a record: {len(train)} records to learn from, "
        f"{len(test)} held out; {len(names)} measurements, each brought to [-1, 1] by bounds that are public."
    )

    def fit(label: str, **settings: Any) -> Any:
        model = BayesianLogisticRegression(n_steps=_STEPS, sampling="full", n_jobs=args.n_jobs, **settings)
        return _fit(args, model, label, X[train], y[train], inputs={COLUMNS: listed(names)})

    label = f"private, epsilon = {rounded_up(args.epsilon)}"
    private = fit("private", row_norm=_ROW_NORM, **_budget(args))
    free = fit("non-private", private=False)
    ends = [f"{a:.2f} to {b:.2f}" if np.isfinite(b) else "not known" for a, b in private.credible_interval(0.9)]
    first = np.argsort(-np.abs(private.coef_[0]))[:10]
    print()
    print(
        report.table(
            [(names[k], f"{private.coef_[0, k]:.2f}", ends[k], f"{free.coef_[0, k]:.2f}") for k in first],
            ("coefficients", "private", "90 %", "non-private"),
        )
    )
    usual = float(max(np.mean(y[test] == kind) for kind in private.classes_))
    accuracy = [float(model.score(X[test], y[test])) for model in (private, free)]
    rows = [("always the commoner diagnosis", usual), (label, accuracy[0]), ("non-private", accuracy[1])]
    return private, _judged(private, "held-out accuracy", rows, "regression", "one answer for all")


def _network(args: Demo) -> tuple[Any, str]:
    """Fit a network that rebuilds handwritten digits from a few hidden units."""
    Y = demo.digits()
    train, test = _parts(len(Y), args.random_state)
    _paragraph(
        f"Handwritten digits of 8 x 8 pixels, from scikit-learn, one a record: {len(train)} records to learn from, "
        f"{len(test)} held out. {_HIDDEN} hidden units stand for each digit."
    )

    def fit(label: str, **settings: Any) -> Any:
        model = SigmoidBeliefNetwork(_HIDDEN, n_steps=_NETWORK_STEPS, sampling="full", n_jobs=args.n_jobs, **settings)
        return _fit(args, model, label, Y[train])

    label = f"private, epsilon = {rounded_up(args.epsilon)}"
    private, free = fit("private", **_budget(args)), fit("non-private", private=False)
    some = Y[test[:: len(test) // 3][:3]]
    rebuilt = [some, private.reconstruct(some) >= 0.5, free.reconstruct(some) >= 0.5]
    print("\n" + "   ".join(f"{title:16}" for title in ("held out", "private", "non-private")).rstrip())
    for digit in range(len(some)):
        for line in range(8):
            pixels = (images[digit].reshape(8, 8)[line] for images in rebuilt)
            print("   ".join(f"{''.join('##' if on else '. ' for on in row):16}" for row in pixels).rstrip())
        print()
    image = float(np.mean((Y[train].mean(axis=0) > 0.5) == Y[test]))
    accuracy = [model.pixel_accuracy(Y[test]) for model in (private, free)]
    rows = [("mean image (no privacy)", image), (label, accuracy[0]), ("non-private", accuracy[1])]
    return private, _judged(private, "held-out pixels rebuilt", rows, "network", "the mean image")


def _judged(private: Any, what: str, rows: list[Any], kind: str, than: str) -> str:
    """Print accuracies and statement; tell if the private model fails.

    The simplest answer's accuracy comes first. The private model fails if it is no better.
    """
    _table(f"{what}, higher is better", ("",), rows, ".1%")
    print()
    _paragraph(private.privacy_.statement())
    _paragraph(f"The {_NOT_COVERED} the statement.")
    simplest, own = rows[0][1], rows[1][1]
    return (
        "" if own > simplest else f"the private {kind} (accuracy {own:.1%}) is no better than {than} ({simplest:.1%})"
    )


_SHOWN = {"lda": _topics, "blr": _regression, "sbn": _network}


def _budget(args: Demo) -> dict[str, float]:
    return {"epsilon": args.epsilon, "delta": args.delta}


def _fit(args: Demo, model: Any, label: str, *data: Any, **whose: Any) -> Any:
    with ProgressLine(label) as progress:
        callback = None if args.quiet else progress
        return model.set_params(random_state=args.random_state, callback=callback).fit(*data, **whose)


def _parts(n: int, seed: int) -> tuple[Any, Any]:
    """Draw the records to learn from, and the fifth to hold out."""
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 5 :], order[: n // 5]


def _write(out: Path, found: Any, n_words: int) -> None:
    """Write the private model's folder, with its report if possible."""
    found.save(out)
    model = getattr(found, "model_", found)
    files = {**beside.write_text(model, n_words), beside.PRIVACY: beside.statement(model)}
    try:
        files[beside.REPORT] = beside.report(model)
    except ImportError as error:
        say(f"left out: {error}")
    for name, text in files.items():
        replace_text(out / name, text)
    if beside.REPORT in files:
        print(f"The report, a page for a browser: {(out / beside.REPORT).resolve().as_uri()}")
    print(f"The private model: vips-fast show {out}")
    if found is not model:
        print(f"Made again from its releases, without the docstrings: vips-fast verify {out}")


def _table(what: str, columns: tuple[str, ...], rows: list[Any], form: str) -> None:
    print()
    print(table([(title, *(format(value, form) for value in values)) for title, *values in rows], (what, *columns)))


def _paragraph(text: str) -> None:
    print(paragraph(text, width()))
