"""Clusters of documents: ``fit clusters``."""

from __future__ import annotations

from argparse import Namespace

from ...jobs.clusters import VectorTexts, encoder_and_knowledge, text_lines
from ...models.clusters import DocumentClusters, PublicVectors
from .fit import run_fit
from .tables import with_tables


def fit(args: Namespace) -> int:
    """Fit clusters, and tables of them."""
    return with_tables(args, lambda: _fit(args))


def _fit(args: Namespace) -> int:
    known = None if args.public_vectors is None else PublicVectors.load(args.public_vectors)
    lines = text_lines(not args.quiet)
    encode, args.public = encoder_and_knowledge(args.vectors, known, args.n_jobs, lines)
    how = {name: getattr(args, name) for name in ("text", "person", "format", "encoding")}
    how |= {"invalid": args.invalid or "raise", "progress": lines}
    return run_fit(args, DocumentClusters, lambda: VectorTexts(args.input, args.public, encode, **how))
