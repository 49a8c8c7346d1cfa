"""Clusters of documents: ``fit clusters``."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from ...jobs.clusters import VectorTexts, encoder_and_knowledge, text_lines
from ...models.clusters import DocumentClusters, PublicVectors
from ...models.clusters.packaged import Encode
from .fit import run_fit
from .tables import with_tables


def fit(args: Namespace) -> int:
    """Fit clusters, and tables of them."""
    return with_tables(args, lambda: _fit(args))


def _fit(args: Namespace) -> int:
    if args.paper:
        raise ValueError("--paper: leave it out; clusters have no form of the paper's own")
    encode, args.public = read_encoder(args)
    return run_fit(args, DocumentClusters, lambda: VectorTexts(args.input, args.public, encode, **text_columns(args)))


def read_encoder(args: Namespace) -> tuple[Encode, PublicVectors]:
    """Find the encoder of ``--vectors``, and its public knowledge."""
    given = None if args.public_vectors is None else PublicVectors.load(args.public_vectors)
    return encoder_and_knowledge(args.vectors, given, args.n_jobs, text_lines(not args.quiet))


def text_columns(args: Namespace) -> dict[str, Any]:
    """Collect the arguments that say how texts are read."""
    names = ("text", "person", "format", "encoding")
    found = {name: getattr(args, name) for name in names}
    return {**found, "invalid": args.invalid or "raise", "progress": text_lines(not args.quiet)}
