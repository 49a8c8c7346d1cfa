"""``transform``: what a model says of new records."""

from argparse import Namespace
from typing import Any

from .arguments import add_jobs, add_model, add_table, command, integer
from .folder import kind_in, load_model
from .lda import load_topics, read_corpus
from .network import read_images
from .output import warn_of_taints, write_table
from .records import add_input, sharded


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
    from ..models.lda import LatentDirichletAllocation

    network = not issubclass(kind_in(args.model), LatentDirichletAllocation)
    for option in ("vocab", "format", "features", "text") if network else ("threshold",):
        if getattr(args, option) is not None:
            raise ValueError(f"--{option}: not for a {'network' if network else 'topic model'}, as in {args.model}")
    records: Any
    if network:
        from ..models.sbn import SigmoidBeliefNetwork

        column, model = "unit", load_model(args.model, SigmoidBeliefNetwork, "fit sbn", args.verify_key)
        shards = sharded(args)
        records = read_images(args.input, 1 if args.threshold is None else args.threshold) if shards is None else shards
    else:
        column, (model, vocabulary) = "topic", load_topics(args)
        records = read_corpus(args, model, vocabulary)
    if args.n_jobs is not None:
        model.set_params(n_jobs=args.n_jobs)
    warn_of_taints(model)
    proportions = model.transform(records)
    write_table(args, (f"{column}{k + 1}" for k in range(proportions.shape[1])), proportions)
    return 0
