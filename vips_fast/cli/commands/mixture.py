"""Clusters of rows and of documents: ``fit mixture`` and ``fit clusters``."""

from __future__ import annotations

from typing import Any

from ...data.shards import is_sharded
from ...jobs import Material
from ...jobs.clusters import VectorTexts, encoder_and_knowledge
from ...jobs.progress import reading
from ...models.clusters import DocumentClusters, PublicVectors
from ...models.mixture import GaussianMixture
from ..arguments import FitClusters, FitMixture, Predict
from ..inputs import read_new_rows, read_rows, unlike_rows
from .fit import ReadBy, run_fit


def read_new(args: Predict, model: Any) -> Any:
    """Read new rows for a fitted mixture, as an array."""
    if is_sharded(args.input):
        raise ValueError(f"{args.input}: shards; expected rows in a file for clusters")
    return read_new_rows(args, model)


def fit(args: FitMixture) -> int:
    """Fit a mixture."""

    def read(model: Any) -> Material:
        found = read_rows(args)
        if getattr(found.rows, "labels", None) is not None:
            raise ValueError(f"{args.input}: shards with labels; expected shards without them")
        if args.schema is not None and found.schema is not None and args.radius is None:
            model.set_params(radius=found.schema.row_norm)
        return Material((found.rows,), found.inputs, found.groups)

    sets = frozenset({"radius"} if args.radius is None else ())
    return run_fit(args, GaussianMixture, ReadBy(args.input, read, args.person, sets, unlike_rows(args)))


def fit_documents(args: FitClusters) -> int:
    """Fit clusters of documents by sentence vectors."""
    known = None if args.public_prior is None else PublicVectors.load(args.public_prior)
    lines = reading(not args.quiet, "texts")
    encode, public = encoder_and_knowledge(args.vectors, known, args.n_jobs, lines)
    how = args.take("text", "person", "format", "encoding", "invalid")
    source = VectorTexts(args.input, public, encode, progress=lines, **how)
    return run_fit(args, DocumentClusters, source, public=public)
