"""``transform``: topic proportions or hidden units of new records."""

from argparse import Namespace

from ..report import part_of
from .folder import load_new
from .output import write_table


def transform(args: Namespace) -> int:
    """Print topic proportions or hidden units."""
    model, records = load_new(args, "transform")
    if args.n_jobs is not None:
        model.set_params(n_jobs=args.n_jobs)
    found = model.transform(records)
    write_table(args, part_of(model).outputs(model, found.shape[1]), found)
    return 0
