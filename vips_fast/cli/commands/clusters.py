"""Clusters of documents: ``fit clusters``."""

from __future__ import annotations

from ...jobs.clusters import VectorTexts, encoder_and_knowledge
from ...jobs.progress import reading
from ...models.clusters import DocumentClusters, PublicVectors
from ..arguments import FitClusters
from .fit import run_fit


def fit(args: FitClusters) -> int:
    """Fit clusters."""
    known = None if args.public_prior is None else PublicVectors.load(args.public_prior)
    lines = reading(not args.quiet, "texts")
    encode, public = encoder_and_knowledge(args.vectors, known, args.n_jobs, lines)
    how = args.take("text", "person", "format", "encoding", "invalid")
    return run_fit(
        args, DocumentClusters, VectorTexts(args.input, public, encode, progress=lines, **how), public=public
    )
