"""The command ``vips-fast``.

Exit codes: 0 done; 1 something failed that is not the caller's fault, or the
demo did not beat its yardstick; 2 bad usage or bad input; 130 interrupted.
Results go to standard output, progress and errors to standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import shutil
import sys
import tempfile
import time
import zipfile
import zlib
from pathlib import Path

__all__ = ["build_parser", "main"]

_TOPICS, _PRIVACY, _VOCABULARY = "topics.txt", "privacy.txt", "vocab.txt"


class CommandError(Exception):
    """Bad usage or bad input that the caller can put right."""


def main(argv=None) -> int:
    """Run the command line.

    Parameters
    ----------
    argv : list of str or None
        The arguments; None takes those of the process.

    Returns
    -------
    int
        The exit code: 0, 1, 2 or 130, see the module.
    """
    debug = False
    try:
        args = build_parser().parse_args(argv)
        debug = args.debug
        code = args.run(args)
        sys.stdout.flush()
        return code or 0
    except SystemExit as stop:
        # argparse leaves this way, after --help with 0, after an error with 2.
        return stop.code if isinstance(stop.code, int) else 1
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        # The reader of a pipe has seen enough; flushing at exit would say so again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            raise
        if isinstance(error, (CommandError, ValueError)):
            return _fail(str(error), 2)
        if isinstance(error, OSError):
            given = (FileNotFoundError, FileExistsError, PermissionError)
            given += (IsADirectoryError, NotADirectoryError)
            reason = error.strerror or str(error)
            where = f"{error.filename}: " if error.filename is not None else ""
            return _fail(where + reason, 2 if isinstance(error, given) else 1)
        if isinstance(error, MemoryError):
            # Our own say what would be needed; a subclass is numpy's.
            own = type(error) is MemoryError and str(error)
            return _fail(f"not enough memory: {error}" if own else "not enough memory", 1)
        if isinstance(error, ImportError):
            return _fail(str(error), 1)
        # The text of an unforeseen error may hold data; its type does not.
        return _fail(f"internal error ({type(error).__name__}); --debug shows where", 1)


def _fail(message, code):
    _say("error: " + message)
    return code


def _say(message):
    print("vips-fast: " + " ".join(message.split()), file=sys.stderr)


class _Parser(argparse.ArgumentParser):
    """argparse, with errors of one line."""

    def error(self, message):
        print(f"vips-fast: error: {message} (see {self.prog} --help)", file=sys.stderr)
        raise SystemExit(2)


class _Version(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        from vips_fast import runtime_info

        print(f"vips-fast {runtime_info()['version']}")
        raise SystemExit(0)


def build_parser() -> argparse.ArgumentParser:
    """The argument parser of all commands."""
    from vips_fast import cli_blr, cli_sbn

    parser = _Parser(
        prog="vips-fast",
        description="Differentially private variational Bayes (VIPS).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(owner, name, run, help, **kwargs):
        sub = owner.add_parser(name, help=help, description=help, allow_abbrev=False, **kwargs)
        sub.set_defaults(run=run)
        return sub

    demo = command(commands, "demo", _demo, "private topics of this Python's docstrings")
    demo.add_argument("--epsilon", type=_positive, default=2.0, help="default 2")
    demo.add_argument("--delta", type=_probability, default=1e-5, help="default 1e-5")
    demo.add_argument("--topics", type=_whole, default=10, help="number of topics, default 10")
    demo.add_argument("--words", type=_whole, default=10, help="words shown a topic, default 10")
    demo.add_argument("--jobs", type=_jobs, default=-1, help="threads, -1 for all (default)")
    demo.add_argument("--seed", type=_seed, default=0, help="seed of what is public, default 0")
    demo.add_argument("--quiet", action="store_true", help="no progress")

    fit = commands.add_parser("fit", help="fit a model", description="Fit a model.")
    models = fit.add_subparsers(dest="model", required=True, metavar="MODEL")
    _add_fit_lda(command(models, "lda", _fit_lda, "fit a topic model and write it to a folder"))
    cli_sbn.add_fit_sbn(
        command(models, "sbn", cli_sbn.fit_sbn, "fit a network of binary images and write it to a folder")
    )
    cli_blr.add_fit_blr(
        command(models, "blr", cli_blr.fit_blr, "fit a logistic regression and write it to a folder")
    )
    cli_blr.add_predict(
        command(
            commands,
            "predict",
            cli_blr.predict,
            "print each row's probabilities by a logistic regression, which are as private as the rows",
        )
    )
    cli_sbn.add_plot(
        command(commands, "plot", cli_sbn.plot, "draw a network's weights or reconstructions")
    )

    topics = command(commands, "topics", _topics, "print the topics of a fitted model")
    topics.add_argument("model", metavar="DIR", help="folder written by fit")
    topics.add_argument("--words", type=_whole, default=10, help="words a topic, default 10")
    topics.add_argument("--vocab", metavar="FILE", help="default: the one kept in DIR")

    transform = command(
        commands,
        "transform",
        _transform,
        "print each record's topic proportions or hidden units, which are as private as the records",
    )
    transform.add_argument("model", metavar="DIR", help="folder written by fit")
    _add_input(transform)
    transform.add_argument("--threshold", type=int, help="networks: as in fit sbn, where INPUT holds images; default 1")
    transform.add_argument("--out", metavar="FILE", help=".csv or .npy; default: print as CSV")
    transform.add_argument("--jobs", type=_jobs, help="threads, -1 for all")

    _add_privacy(
        command(commands, "privacy", _privacy, "epsilon of a run, or the noise that a target needs")
    )
    _add_audit(command(commands, "audit", _audit, "try to break the privacy claim of a model and its settings"))
    _add_plan(command(commands, "plan", _plan, "settings of a private topic model from public numbers"))
    command(commands, "info", _info, "version, instruction sets, threads")
    return parser


def _add_plan(parser):
    parser.add_argument("--records", type=_whole, required=True, help="number of documents")
    parser.add_argument("--words", type=_whole, required=True, help="size of the vocabulary")
    parser.add_argument("--topics", type=_whole, required=True)
    parser.add_argument("--doc-length", type=_whole, default=500, help="words a document, default 500")
    parser.add_argument("--epsilon", type=_positive, required=True)
    parser.add_argument("--delta", type=_probability, help="default min(1e-5, 1 / (10 records))")


def _add_input(parser):
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="CSR .npz, UCI docword, LDA-C, JSON Lines, a folder of .txt files, or the word "
        "docstrings",
    )
    parser.add_argument("--vocab", metavar="FILE", help="the public vocabulary, a word a line")
    parser.add_argument("--format", help="npz, docword, ldac, jsonl or folder; default: look")
    parser.add_argument("--field", default="text", help="JSON Lines: field of the text")
    parser.add_argument("--features", type=_whole, help="number of words, where no file says it")


def _add_sampling(parser, default=None):
    parser.add_argument(
        "--sampling",
        default=default,
        choices=("poisson", "without_replacement", "full"),
        help="how minibatches are drawn, default: " + (default or "the model's own"),
    )
    parser.add_argument(
        "--neighbors",
        choices=("add_remove", "replace_one"),
        help="default: the relation that the sampling is accounted under",
    )


def _add_fit_lda(parser):
    _add_input(parser)
    out = parser.add_argument_group("model")
    out.add_argument("--topics", type=_whole, required=True, help="number of topics")
    out.add_argument("--out", metavar="DIR", required=True, help="folder to write")
    out.add_argument("--force", action="store_true", help="replace a model that is there")
    out.add_argument("--words", type=_whole, default=10, help="words shown a topic, default 10")

    budget, run = add_privacy_and_run(parser)
    budget.add_argument("--clip", type=_positive, help="L2 bound, as a share of the length")
    run.add_argument("--doc-length", type=_whole, help="words that each document is brought to")
    run.add_argument("--doc-topic-prior", type=_positive, help="default 1 / topics")
    run.add_argument("--topic-word-prior", type=_positive, help="default 1 / topics")
    run.add_argument(
        "--prior-model", metavar="DIR", help="a model that fit wrote for PUBLIC documents, over the same words: its topics are the prior"
    )
    run.add_argument("--prior-weight", type=_positive, help="what a word of the public documents counts, default 1")
    run.add_argument("--update", choices=("average", "paper"), help="default average")


def add_privacy_and_run(parser):
    """Options that the fits share; returns the two groups."""
    budget = parser.add_argument_group("privacy")
    budget.add_argument("--epsilon", type=_positive, help="target epsilon")
    budget.add_argument("--delta", type=_probability, help="target delta, default min(1e-5, 0.1 / records)")
    budget.add_argument("--noise-multiplier", type=_positive, help="instead of --epsilon")
    budget.add_argument("--non-private", action="store_true", help="no noise, no guarantee")
    _add_sampling(budget)
    budget.add_argument("--records", type=_whole, help="public number of records")

    run = parser.add_argument_group("run")
    run.add_argument("--batch-size", type=_whole, help="expected records a step")
    run.add_argument("--steps", type=_whole, help="number of steps")
    run.add_argument("--jobs", type=_jobs, help="threads, -1 for all")
    run.add_argument("--seed", type=_seed, help="seed of what is public, not of the noise")
    run.add_argument("--quiet", action="store_true", help="no progress")
    return budget, run


def _add_privacy(parser):
    parser.add_argument("--records", type=_whole, required=True, help="number of records")
    parser.add_argument("--batch", type=_whole, help="expected batch size, default: all records")
    parser.add_argument("--steps", type=_whole, required=True, help="number of steps")
    parser.add_argument("--delta", type=_probability, required=True)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--noise-multiplier", type=_positive, help="to know epsilon")
    goal.add_argument("--epsilon", type=_positive, help="to know the noise multiplier")
    _add_sampling(parser, "poisson")
    parser.add_argument("--accountant", metavar="NAME", help="default: the tightest sound one")
    parser.add_argument("--compare", action="store_true", help="a table of all accountants")
    parser.add_argument("--plot", metavar="FILE", help="epsilon against steps, as .png, .pdf, .svg")


def _add_audit(parser):
    parser.add_argument("model", nargs="?", default="lda", metavar="MODEL", help="lda (default), sbn, ...")
    parser.add_argument("--layers", default="A,B,C,D,E", help="some of A,B,C,D,E, default all")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="about a minute (default)")
    size.add_argument("--full", action="store_true", help="the sizes of the documentation, minutes")
    _add_sampling(parser, "poisson")
    parser.add_argument("--sensitivity", choices=("proven", "paper"), help="default proven")
    parser.add_argument("--components", type=_whole, default=2, help="topics or units, default 2")
    parser.add_argument("--clip", type=_positive, help="as for fit")
    parser.add_argument("--noise-multiplier", type=_positive, help="of layer E, default 1")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another setting of the estimator"
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON too")


# Types of arguments: argparse puts their messages behind the argument's name.


def _number(text, convert, good, expected):
    try:
        value = convert(text)
    except ValueError:
        value = None
    if value is None or not good(value):
        raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}")
    return value


def _positive(text):
    return _number(text, float, lambda v: 0 < v < math.inf, "a number above 0")


def _probability(text):
    return _number(text, float, lambda v: 0 < v < 1, "a number between 0 and 1")


def _whole(text):
    return _number(text, int, lambda v: v >= 1, "a whole number of at least 1")


def _jobs(text):
    return _number(text, int, lambda v: v >= 1 or v == -1, "a number of threads, or -1 for all")


def _seed(text):
    return _number(text, int, lambda v: 0 <= v < 2**32, "a whole number from 0 to 2**32 - 1")


# Commands


# Whole batches, the data being small, and few steps, since each costs budget;
# all else is the estimator's own.
_DEMO_STEPS = 10


def _demo(args):
    from vips_fast import LatentDirichletAllocation, report
    from vips_fast.data import docstrings_corpus, split

    width = _width()
    start = time.perf_counter()
    corpus = docstrings_corpus()
    train, test = split(corpus, 0.1, random_state=0)
    print(
        report.paragraph(
            f"Docstrings of this Python, one a record: {len(corpus)} with ten or more words of "
            f"the language reference ({corpus.n_features} words), "
            + ", ".join(f"{package} {number}" for package, number in corpus.details.items())
            + f". {len(train)} records to learn from, {len(test)} held out.",
            width,
        )
    )
    settings = dict(
        n_components=args.topics,
        n_steps=_DEMO_STEPS,
        sampling="full",
        n_jobs=args.jobs,
        random_state=args.seed,
    )
    models = {}
    for label, budget in (
        ("private", dict(target_epsilon=args.epsilon, target_delta=args.delta)),
        ("non-private", dict(private=False)),
    ):
        with _Progress(_DEMO_STEPS, label, args.quiet) as progress:
            models[label] = LatentDirichletAllocation(
                **settings, **budget, callback=progress
            ).fit(train.counts)
    private, free = models["private"], models["non-private"]
    print()
    print(
        report.topics_table(
            private.components_,
            corpus.vocabulary,
            args.words,
            free.components_,
            (f"private, epsilon = {args.epsilon:g}", "non-private"),
            width,
        )
    )
    given, asked = report.split_words(test, random_state=0)
    perplexity = {
        label: report.predictive_perplexity(model.transform(given), model.components_, asked)
        for label, model in models.items()
    }
    unigram = report.unigram_perplexity(train, asked)
    rows = [
        ("unigram model (no topics, no privacy)", unigram, report.unigram_perplexity(train, test)),
        (f"private, epsilon = {args.epsilon:g}", perplexity["private"], private.perplexity(test.counts)),
        ("non-private", perplexity["non-private"], free.perplexity(test.counts)),
    ]
    print()
    print(
        report.table(
            [(label, f"{completion:.0f}", f"{bound:.0f}") for label, completion, bound in rows],
            ("held-out perplexity, lower is better", "completion", "bound"),
        )
    )
    print(
        report.paragraph(
            "Completion: one half of each held-out record's words gives its topics, the other "
            "half is predicted. Bound: the paper's Eq. 32 on whole records, above the true value "
            "for models with topics.",
            width,
        )
    )
    print()
    print(report.paragraph(private.privacy_.statement(), width))
    print(
        report.paragraph(
            "The held-out records and the models without privacy are for comparison only: "
            "their figures are not covered by the statement.",
            width,
        )
    )
    print(f"{time.perf_counter() - start:.0f} seconds.")
    if not perplexity["private"] < unigram:
        return _fail(
            f"the private topics (perplexity {perplexity['private']:.0f}) are no better than the "
            f"unigram model ({unigram:.0f}): epsilon = {args.epsilon:g} is too little for "
            f"{len(train)} records",
            1,
        )
    return 0


def _prior(args, corpus):
    """Pseudo-counts from a saved model of the same number of topics and the same words."""
    from vips_fast import LatentDirichletAllocation

    if args.topic_word_prior is not None:
        raise ValueError("--prior-model: expected without --topic-word-prior")
    known = LatentDirichletAllocation.load(args.prior_model).components_
    if len(known) != args.topics:
        raise ValueError(f"--prior-model {args.prior_model} has {len(known)} topics: expected {args.topics}, as in --topics")
    if known.shape[1] != corpus.counts.shape[1]:
        raise ValueError(f"--prior-model {args.prior_model} has {known.shape[1]} words: expected {corpus.counts.shape[1]}")
    kept = Path(args.prior_model) / _VOCABULARY
    if corpus.vocabulary is not None and kept.exists() and kept.read_text("utf-8").splitlines() != list(corpus.vocabulary):
        raise ValueError(f"--prior-model {args.prior_model} has other words, or in another order: expected those of --vocab")
    return (1.0 if args.prior_weight is None else args.prior_weight) * known


def _fit_lda(args):
    from vips_fast import LatentDirichletAllocation, report

    settings = dict(n_components=args.topics, **_budget(args))
    for name, value in (
        ("sampling", args.sampling),
        ("neighbors", args.neighbors),
        ("clip", args.clip),
        ("n_records", args.records),
        ("batch_size", args.batch_size),
        ("n_steps", args.steps),
        ("doc_length", args.doc_length),
        ("doc_topic_prior", args.doc_topic_prior),
        ("topic_word_prior", args.topic_word_prior),
        ("update", args.update),
        ("n_jobs", args.jobs),
        ("random_state", args.seed),
    ):
        # What is not given is left to the estimator's own defaults.
        if value is not None:
            settings[name] = value
    if args.prior_weight is not None and args.prior_model is None:
        raise ValueError("--prior-weight: expected with --prior-model only")
    model = LatentDirichletAllocation(**settings)
    with _output_folder(Path(args.out), args.force) as folder:
        corpus = _load(args)
        if args.prior_model is not None:
            model.set_params(topic_word_prior=_prior(args, corpus))
        with _Progress(model._resolve_n_steps(corpus.counts.shape), "fit", args.quiet) as progress:
            model.set_params(callback=progress)
            model.fit(corpus.counts)
        model.set_params(callback=None)
        model.save(folder)
        topics = report.topics_table(model.components_, corpus.vocabulary, args.words)
        statement = report.paragraph(model.privacy_.statement())
        (folder / _TOPICS).write_text(topics + "\n", "utf-8")
        (folder / _PRIVACY).write_text(statement + "\n", "utf-8")
        if corpus.vocabulary is not None:
            (folder / _VOCABULARY).write_text("\n".join(corpus.vocabulary) + "\n", "utf-8")
    print(topics)
    print()
    print(statement)
    print(f"Written to {args.out}.")
    if not args.non_private:
        _warn_delta(model.privacy_.delta, model.privacy_.n_records)
    return 0


def _budget(args):
    """The estimator's privacy settings, or an error that says what to give."""
    asked = [
        flag
        for flag, value in (
            ("--epsilon", args.epsilon),
            ("--noise-multiplier", args.noise_multiplier),
        )
        if value is not None
    ]
    if args.non_private:
        if asked or args.delta is not None:
            raise CommandError(f"--non-private excludes {(asked or ['--delta'])[0]}")
        return dict(private=False)
    if len(asked) != 1:
        raise CommandError(
            "give one of --epsilon (with --delta), --noise-multiplier (with --delta), --non-private"
        )
    return dict(
        target_epsilon=args.epsilon,
        target_delta=args.delta,
        noise_multiplier=args.noise_multiplier,
    )


def _topics(args):
    from vips_fast import report

    model, vocabulary = _load_model(args.model, args.vocab)
    print(report.topics_table(model.components_, vocabulary, args.words, width=_width()))
    print()
    print(report.paragraph(model.privacy_.statement(), _width()))
    return 0


def _transform(args):
    import numpy as np

    from vips_fast import cli_sbn

    if args.out is not None and Path(args.out).suffix not in (".csv", ".npy"):
        raise CommandError(f"--out {args.out}: expected a name that ends in .csv or .npy")
    if cli_sbn.is_network(args.model):
        column, model, records = "unit", *cli_sbn.load_with_records(args)
    else:
        if args.threshold is not None:
            raise CommandError("--threshold is for networks; the model is of another kind")
        model, vocabulary = _load_model(args.model, args.vocab)
        column, records = "topic", _load(args, vocabulary, model.components_.shape[1]).counts
    if args.jobs is not None:
        model.set_params(n_jobs=args.jobs)
    if model.privacy_.taints:
        _say(f"warning: {model.privacy_.statement()}")
    proportions = model.transform(records)
    if args.out is None:
        _write_csv(sys.stdout, proportions, column)
        return 0
    with _output_file(Path(args.out)) as file:
        if Path(args.out).suffix == ".npy":
            np.save(file, proportions, allow_pickle=False)
        else:
            _write_csv(_Encoded(file), proportions, column)
    return 0


class _Encoded:
    """Text into a binary file."""

    def __init__(self, file):
        self.file = file

    def write(self, text):
        self.file.write(text.encode("ascii"))


def _write_csv(file, proportions, column):
    file.write(",".join(f"{column}{k + 1}" for k in range(proportions.shape[1])) + "\n")
    for row in proportions.tolist():
        file.write(",".join(f"{value:.6g}" for value in row) + "\n")


def _privacy(args):
    from vips_fast import accounting, report
    from vips_fast.sampling import make_sampler

    if args.sampling == "full" and args.batch not in (None, args.records):
        raise CommandError("--sampling full takes all records; leave out --batch")
    if args.accountant is not None and args.accountant not in accounting.ACCOUNTANTS:
        raise CommandError(
            f"--accountant {args.accountant}: expected one of {', '.join(accounting.ACCOUNTANTS)}"
        )
    if args.plot is not None and Path(args.plot).suffix not in (".png", ".pdf", ".svg"):
        raise CommandError(f"--plot {args.plot}: expected a name that ends in .png, .pdf or .svg")
    sampler = make_sampler(args.sampling, args.neighbors, args.records, args.batch)

    def event(noise_multiplier, steps=args.steps):
        return accounting.SelfComposedEvent(sampler.event(noise_multiplier), steps)

    noise = args.noise_multiplier
    if noise is None:
        noise = _round_up(
            accounting.calibrate_noise_multiplier(
                event, args.epsilon, args.delta, accountant=args.accountant
            )
        )
    spent = accounting.epsilon(event(noise), args.delta, args.accountant)
    share = sampler.expected_batch_size / args.records
    print(
        report.table(
            [
                ("records", args.records),
                ("expected batch", f"{sampler.expected_batch_size:g}"),
                ("sampling probability", f"{share:g}"),
                ("steps", args.steps),
                ("noise multiplier", f"{noise:.6g}"),
                ("delta", f"{args.delta:g}"),
                ("epsilon", f"{_round_up(spent):.6g}"),
            ]
        )
    )
    print()
    print(
        report.paragraph(accounting.describe(event(noise), args.delta, args.accountant), _width())
    )
    _warn_delta(args.delta, args.records)
    if args.compare:
        print()
        print(_comparison(event(noise), args.delta, args.accountant))
    if args.plot is not None:
        _plot_epsilon(args, lambda steps: event(noise, steps))
        print(f"Written to {args.plot}.")
    return 0


def _comparison(event, delta, accountant):
    """What every accountant says of one event, as a table, and what is left open."""
    from vips_fast import accounting, report

    attack, *bounds = accounting.compare(event, delta)
    rows = [(attack.title, attack.accountant, f"{_round_up(attack.epsilon, 5, math.floor):.5g}", "")]
    for row in bounds:
        mark = "used" if row.accountant == accountant or row.default and not accountant else ""
        rows.append((row.title, row.accountant, f"{_round_up(row.epsilon, 5):.5g}", mark))
    return (
        report.table(rows, ("accountant", "name", "epsilon", ""))
        + f"\n\nThe exact epsilon is between {rows[0][2]} and {rows[1][2]}."
    )


def _plot_epsilon(args, event):
    """Epsilon against the number of steps, whole under its name or not at all."""
    from vips_fast import accounting

    path = Path(args.plot)
    if args.compare or args.accountant is None:
        accountants = None
    else:
        accountants = [args.accountant]
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:
        made = accounting.plot_epsilon(
            event, args.steps, args.delta, Path(folder) / path.name, accountants
        )
        os.replace(made, path)


def _round_up(value, digits=6, towards=math.ceil):
    """Rounded up to some significant digits: a printed bound is still a bound."""
    if value == 0 or not math.isfinite(value):
        return value
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    return towards(value * scale) / scale


def _warn_delta(delta, n_records):
    if delta * n_records >= 1:
        print(
            f"vips-fast: warning: delta = {delta:g} is not below 1 / {n_records} records: it "
            "allows a whole record to be published",
            file=sys.stderr,
        )


def _audit(args):
    import ast
    import json

    from vips_fast.audit import ADAPTERS, LAYERS, adapter_for, audit

    if args.model not in ADAPTERS:
        raise CommandError(f"{args.model}: expected one of {', '.join(ADAPTERS)}")
    layers = [layer.strip().upper() for layer in args.layers.split(",")]
    if not set(layers) <= set(LAYERS):
        raise CommandError(f"--layers {args.layers}: expected some of {','.join(LAYERS)}")
    settings = {}
    known = adapter_for(args.model).estimator_type._parameter_names()
    for name, value in (
        ("n_components", args.components),
        ("sampling", args.sampling),
        ("neighbors", args.neighbors),
        ("sensitivity", args.sensitivity),
        ("clip", args.clip),
        ("noise_multiplier", args.noise_multiplier),
    ):
        if value is not None and name in known:
            settings[name] = value
    for text in args.set:
        name, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--set {text}: expected NAME=VALUE")
        try:
            settings[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            settings[name] = value
    with contextlib.ExitStack() as stack:
        file = None if args.json is None else stack.enter_context(_output_file(Path(args.json)))
        report = audit(
            args.model,
            settings,
            layers=layers,
            full=args.full,
            callback=lambda result: _say(f"layer {result.layer} done, {result.seconds:.1f} s"),
        )
        if file is not None:
            file.write((json.dumps(report.to_dict(), indent=1) + "\n").encode())
    print(report.text())
    return 0 if report.passed else 1


def _plan(args):
    from vips_fast import plan, report

    planned = plan(
        args.records, args.words, args.topics, doc_length=args.doc_length, target_epsilon=args.epsilon,
        target_delta=args.delta,
    )
    rows = [
        ("expected batch", f"{planned.batch_size:g}"),
        ("steps", f"{planned.n_steps}"),
        ("clip", f"{planned.clip:.4g}"),
        ("learning decay", f"{planned.learning_decay:g}"),
        ("noise multiplier", f"{planned.noise_multiplier:.4g}"),
        ("signal to noise", f"{planned.signal_to_noise:.3g}"),
    ]
    print(report.table([(f"{name:<24}", value) for name, value in rows]))
    if planned.signal_to_noise < 1:
        print(
            report.paragraph(
                "Below 1 the noise hides all but the commonest words of a topic: fewer topics, a smaller vocabulary "
                "or more documents help most.",
                _width(),
            )
        )
    return 0


def _info(args):
    import platform

    import numpy
    import scipy

    from vips_fast import report, runtime_info

    info = runtime_info()
    print(
        report.table(
            [
                (f"{name:<24}", value)
                for name, value in (
                    ("vips_fast", info["version"]),
                    ("instruction set", info["isa"]),
                    ("available", ", ".join(info["isas_available"])),
                    ("threads", info["n_threads"]),
                    ("Python", platform.python_version()),
                    ("numpy", numpy.__version__),
                    ("scipy", scipy.__version__),
                    ("machine", f"{platform.system()} {platform.machine()}"),
                )
            ]
        )
    )
    return 0


# Input and output


def _load(args, vocabulary=None, n_features=None):
    from vips_fast.data import docstrings_corpus, language_reference_words, load_corpus

    if args.input == "docstrings" and not os.path.exists(args.input):
        n_words = len(language_reference_words())
        if n_features not in (None, n_words):
            raise CommandError(f"the model has {n_features} words, the docstrings {n_words}")
        return docstrings_corpus()
    return load_corpus(
        args.input,
        vocabulary if vocabulary is not None else args.vocab,
        args.format,
        n_features=n_features if n_features is not None else args.features,
        field=args.field,
    )


def _load_model(folder, vocabulary_file):
    from vips_fast import LatentDirichletAllocation
    from vips_fast.data import load_vocabulary

    if not os.path.isdir(folder):
        raise CommandError(f"{folder}: no such folder; expected one written by vips-fast fit")
    try:
        model = LatentDirichletAllocation.load(folder)
    except (KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error):
        raise CommandError(f"{folder} holds no readable model") from None
    if vocabulary_file is None:
        kept = Path(folder) / _VOCABULARY
        vocabulary_file = kept if kept.exists() else None
    if vocabulary_file is None:
        return model, None
    vocabulary = load_vocabulary(vocabulary_file)
    if len(vocabulary) != model.components_.shape[1]:
        raise CommandError(
            f"{vocabulary_file} has {len(vocabulary)} words, but the model "
            f"{model.components_.shape[1]}"
        )
    return model, vocabulary


@contextlib.contextmanager
def _output_folder(path, force, marks=(_TOPICS, _PRIVACY)):
    """A temporary folder beside `path` that takes its place when all is written.

    It is made before any work is done, so that a folder that cannot be written
    costs neither time nor privacy budget.
    """
    replace = False
    if path.is_dir() and not path.is_symlink():
        if any(path.iterdir()):
            if not force:
                raise CommandError(f"{path} is not empty; --force replaces a model in it")
            if not all((path / mark).is_file() for mark in marks):
                raise CommandError(f"{path} holds no model of vips-fast; --force does not apply")
            replace = True
    elif path.exists() or path.is_symlink():
        raise CommandError(f"{path} exists and is not a folder")
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    # mkdtemp gives 0700; the model gets what a folder made here would get.
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o777 & ~umask)
        if replace:
            old = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
            path.rename(old)
            try:
                temporary.rename(path)
            except OSError:
                old.rename(path)
                raise
            shutil.rmtree(old)
        else:
            temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _output_file(path):
    """A file that appears under its name only when it is whole."""
    with tempfile.NamedTemporaryFile(
        prefix=f".{path.name}.", dir=path.absolute().parent, delete=False
    ) as file:
        try:
            yield file
            file.flush()
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(file.name, 0o666 & ~umask)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


class _Progress:
    """A callback of a fit: a bar on a terminal, else some lines."""

    def __init__(self, total, label, quiet=False):
        self.total, self.label, self.quiet, self.bar = total, label, quiet, None
        # A log wants to be read, so a long run gets about twenty lines.
        self.every = max(1, math.ceil(total / 20))

    def __enter__(self):
        if not self.quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, desc=self.label, unit="step", file=sys.stderr)
        return self

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.close()

    def __call__(self, step, epsilon, seconds):
        spent = epsilon is not None and math.isfinite(epsilon)
        if self.bar is not None:
            if spent:
                self.bar.set_postfix_str(f"epsilon {epsilon:.3g}", refresh=False)
            self.bar.update(step - self.bar.n)
        elif not self.quiet and (step % self.every == 0 or step == self.total):
            shown = f", epsilon {epsilon:.3g}" if spent else ""
            print(
                f"{self.label}: step {step} of {self.total}{shown}, {seconds:.1f} s",
                file=sys.stderr,
                flush=True,
            )


def _width():
    return max(60, min(160, shutil.get_terminal_size((100, 24)).columns))
