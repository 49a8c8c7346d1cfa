"""Clusters of documents: ``fit clusters``."""

from __future__ import annotations

from argparse import Namespace

from ...jobs.clusters import VectorTexts, encoder_and_knowledge, text_lines
from ...models.clusters import DocumentClusters, PublicVectors
from .fit import run_fit


def fit(args: Namespace) -> int:
    """Fit clusters."""
    known = None if args.public_vectors is None else PublicVectors.load(args.public_vectors)
    lines = text_lines(not args.quiet)
    encode, args.public = encoder_and_knowledge(args.vectors, known, args.n_jobs, lines)
    how = {name: getattr(args, name) for name in ("text", "person", "format", "encoding")}
    how |= {"invalid": args.invalid or "raise", "progress": lines}
    return run_fit(args, DocumentClusters, lambda: VectorTexts(args.input, args.public, encode, **how))
