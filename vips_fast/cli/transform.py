"""``transform``: what a model says of new records."""

from __future__ import annotations

import argparse
from typing import Any

from .arguments import add_jobs, add_model, command
from .folder import kind_in, load_model
from .lda import add_input, load_topics, read_corpus
from .network import WRITTEN_BY, read_images
from .output import check_table_name, warn_of_taints, write_table


def add(commands: Any) -> None:
    """Add ``transform``."""
    parser = command(
        commands, "transform", transform,
        "print each record's topic proportions or hidden units, which are as private as the records",
    )
    add_model(parser, "vips-fast fit")
    add_input(parser)
    parser.add_argument(
        "--threshold", metavar="N", type=int, help="networks: as in fit sbn, where INPUT holds images; default 1"
    )
    parser.add_argument("--out", metavar="FILE", help=".csv or .npy; default: print as CSV")
    add_jobs(parser)


def transform(args: argparse.Namespace) -> int:
    """Print topic proportions or hidden units."""
    check_table_name(args.out)
    column, model, records = _network(args) if _is_network(args.model) else _topic_model(args)
    if args.n_jobs is not None:
        model.set_params(n_jobs=args.n_jobs)
    warn_of_taints(model.privacy_)
    proportions = model.transform(records)
    write_table(args.out, (f"{column}{k + 1}" for k in range(proportions.shape[1])), proportions)
    return 0


def _is_network(folder: str) -> bool:
    try:
        kind = kind_in(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False  # said in full where the model is loaded
    from ..models.sbn import SigmoidBeliefNetwork

    return issubclass(kind, SigmoidBeliefNetwork)


def _network(args: argparse.Namespace) -> tuple[str, Any, Any]:
    from ..models.sbn import SigmoidBeliefNetwork

    for option in ("vocab", "format", "features"):
        if getattr(args, option) is not None:
            raise ValueError(f"--{option} is for topic models; {args.model} holds a network")
    model = load_model(args.model, SigmoidBeliefNetwork, WRITTEN_BY, args.verify_key)
    return "unit", model, read_images(args.input, 1 if args.threshold is None else args.threshold)


def _topic_model(args: argparse.Namespace) -> tuple[str, Any, Any]:
    model, vocabulary = load_topics(args)
    if args.threshold is not None:
        raise ValueError(f"--threshold is for networks; {args.model} holds a topic model")
    return "topic", model, read_corpus(args, vocabulary, model.components_.shape[1]).counts
