"""Clusters: ``fit mixture``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...data import Schema
from ...jobs import Material
from ...models.mixture import GaussianMixture
from ...report import component_rows
from ..arguments import FitMixture, Predict
from ..inputs import (
    IMAGES,
    TEXTS,
    column_inputs,
    matrix_names,
    open_shards,
    read_matrix,
    read_new_rows,
    read_table,
    refuse,
)
from .fit import run_fit
from .jobs import ReadBy


def read_new(args: Predict, model: Any) -> Any:
    """Read new rows for a fitted mixture, as an array."""
    refuse(args, *TEXTS, *IMAGES)
    if open_shards(args) is not None:
        raise ValueError(f"{args.input}: shards; expected rows in a file for clusters")
    return _dense(args.input, read_new_rows(args, model))


def fit(args: FitMixture) -> int:
    """Fit a mixture."""
    if args.schema is not None and args.names is not None:
        raise ValueError("--names: leave it out with --schema, which has the names")
    sets = frozenset[str]() if args.schema is None else frozenset({"radius"})
    read = ReadBy(args.input, lambda model: _material(args, model), args.person, sets)
    return run_fit(args, GaussianMixture, lambda: read)


def _material(args: FitMixture, model: GaussianMixture) -> Material:
    if (shards := open_shards(args)) is not None:
        if shards.labels is not None:
            raise ValueError(f"{args.input}: shards with labels; expected shards without them")
        return _made(shards, matrix_names(args, shards.n_features), groups=shards.groups)
    if args.schema is not None:
        schema, others = Schema.load(args.schema), [] if args.person is None else [args.person]
        X, cells = read_table(args.input, schema, "nan" if args.invalid == "drop" else "raise", others)
        kept = schema.without(*others)
        if args.radius is None:
            model.set_params(radius=kept.row_norm)
        return _made(X.toarray(), kept.feature_names, kept, cells[args.person] if args.person else None)
    X = _dense(args.input, read_matrix(args.input))
    return _made(X, matrix_names(args, X.shape[1]))


def _dense(path: str, rows: Any) -> Any:
    """Return rows as an array, which mixtures take."""
    if rows.ndim != 2:
        raise ValueError(f"{path}: expected a matrix of rows and columns; got shape {rows.shape}")
    return rows.toarray() if hasattr(rows, "toarray") else rows


def _made(rows: Any, names: Sequence[str] | None, schema: Schema | None = None, groups: Any = None) -> Material:
    def shown(model: Any) -> str:
        lines = [f"  {number:>3}  {share:>6}  {held}" for number, share, held in component_rows(model, names, 6)]
        return "\n".join(["Clusters, the largest first (number, share, what tells it apart):", *lines, ""])

    return Material((rows,), column_inputs(names, schema), shown, groups)
