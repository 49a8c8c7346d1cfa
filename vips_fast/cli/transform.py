"""``transform``: what a model says of new records."""

from argparse import Namespace
from typing import Any

from .arguments import add_jobs, add_model, add_table, command, integer
from .folder import load_new
from .output import write_table
from .records import add_input


def add(commands: Any) -> None:
    what = "print each record's topic proportions or hidden units, which are as private as the records"
    parser = command(commands, "transform", transform, what)
    add_model(parser, "fit lda or fit sbn")
    add_input(parser, fit=False)
    parser.add_argument("--threshold", type=integer, help="networks: as in fit sbn, where INPUT is images; default 1")
    add_table(parser)
    add_jobs(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress")


def transform(args: Namespace) -> int:
    """Print topic proportions or hidden units."""
    from ..report import part_of

    model, records = load_new(args, "transform")
    if args.n_jobs is not None:
        model.set_params(n_jobs=args.n_jobs)
    found = model.transform(records)
    write_table(args, part_of(model).outputs(model, found.shape[1]), found)
    return 0
