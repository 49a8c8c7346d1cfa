"""Run commands about any fitted model.

They give answers for new records, its report, its proof, and the end of its run.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...jobs.folder import releases_folder
from ...jobs.places import kind_in
from ...jobs.publication import check_publication, is_publication, load_parts
from ...jobs.publication import publish as publish_parts
from ...jobs.publication import verify as verify_model
from ...models import rebuild
from ...models.family import family_of
from ...models.tables import TopicTables
from ...report import html_report, make_dossier, part_of, short_report
from ...report.dossier import kept_releases
from ...report.html import environment
from ...store.atomic import replace_text
from ...store.limits import read_text
from ..arguments import Predict, Publish, Show, Verify
from ..inputs import load_model, load_new
from ..messages import print_object, print_written, width
from ..output import at_shell, privacy_object, write_table
from ..signature import refuse_unused
from .prior import show as show_prior


def predict(args: Predict) -> int:
    """Print probabilities of classes or clusters, mean counts, topic proportions or hidden units."""
    model, records = load_new(args)
    if args.n_jobs is not None:
        model.set_params(n_jobs=args.n_jobs)
    found = getattr(model, family_of(model).verb)(records)
    found = found.reshape(len(found), -1)
    write_table(args.out, part_of(model).outputs(model, found.shape[1]), found)
    return 0


def show(args: Show) -> int:
    """Print a model's report in short, or write it whole."""
    if args.model.startswith("public:") or os.path.isfile(args.model):
        others = {one.name for one in args.options()} - {"model", "words"}
        refuse_unused(args, others, "not with a prior")
        return show_prior(args)
    if args.out is None:
        refuse_unused(args, {"transcript"}, "expected with --out, for the page")
    model: Any
    if is_publication(args.model):
        refuse_unused(args, {"tables", "out"}, "not with a publication, which has its tables and its page")
        model, *tables = load_parts(args.model)
    else:
        model = kind_in(args.model).load(args.model)
        tables = [load_model(path, TopicTables, "tabulate") for path in args.tables or ()]
    known: dict[str, Any] = {"n_words": args.words, "tables": tables}
    if args.out is not None:
        if args.transcript is not None:
            known["verified"] = rebuild.compare(model, args.model, args.transcript)
        replace_text(Path(args.out), html_report(model, **known))
        return print_written(args.out, f"Written to {args.out}.")
    dossier = make_dossier(model, **known)
    if args.json:
        said = {"model": args.model, "title": dossier.title, **privacy_object(model), "verdict": dossier.verdict}
        gains = [{"records": one.size, "right": one.guesses, "found": one.hits} for one in dossier.gains]
        held = {finding.assumption.name: finding.held for finding in dossier.findings}
        worth = {"worth": model.verdict_.worth, "attacker": gains, "assumptions": held}
        print_object(said | worth | {"head": dossier.head})
        return 0
    print(at_shell(model, short_report(dossier, width())))
    return 0


def verify(args: Verify) -> int:
    """Compare a model with its releases; 0 if all is equal."""
    publication = is_publication(args.model)
    report = check_publication(args.model, args.transcript) if publication else _of_model(args)
    code = 0 if report.ok else 1
    if args.json:
        said = {"model": args.model, "ok": report.ok, "claim": report.closing, "about": dict(report.about)}
        print_object({**said, "checks": [asdict(one) for one in report.checks]}, code)
    else:
        print(report.text())
    return code


def _of_model(args: Verify) -> rebuild.VerifyReport:
    """Compare a model with its releases, and the texts beside it."""
    beside = releases_folder(args.model)
    given = args.transcript or ([str(beside)] if beside.is_dir() else [])
    if len(given) != 1:
        why = "one folder" if given else f"the folder that fit --transcript wrote, since there is no {beside.name}"
        if kept_releases(kind_in(args.model).load(args.model).ledger_) is None:
            why = "a model whose fit kept its releases, by --transcript; this one kept none, so nothing makes it again"
        raise ValueError(f"--transcript: expected {why}")
    return verify_model(args.model, given[0])


def publish(args: Publish) -> int:
    """Write the publication of a model and its tables."""
    model, *tables = args.parts
    names = () if args.names is None else read_text(args.names).splitlines()
    environment()  # refused now if the page cannot be made
    facts: dict[str, Any] = {"dataset": args.dataset, "date": args.date, "names": names}
    publish_parts(args.out, model, *tables, **facts, force=args.force)
    return print_written(args.out, f"Written to {args.out}.")
