"""Regressions: ``fit blr`` and ``fit counts``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...data import Schema
from ...data.shards import is_sharded
from ...jobs import Material
from ...models.family import family_named
from ...report.parts.coefficients import effect_lines
from ...store.limits import parse_json
from ..arguments import FitBlr, FitCounts, Predict
from ..inputs import (
    IMAGES,
    TEXTS,
    column_inputs,
    matrix_names,
    open_shards,
    read_array,
    read_labels,
    read_matrix,
    read_new_rows,
    read_table,
    refuse,
)
from .data import CLASSES
from .fit import run_fit
from .jobs import ReadBy


def _column(path: str, invalid: str, counts: bool) -> np.ndarray:
    """Read labels, or numbers of ``counts``, from their own file."""
    if Path(path).suffix == ".npy":
        return read_array(path, "biuf" if counts else "biufU")
    labels = read_labels(path, invalid)
    if not counts:
        return np.array(labels, dtype=object if None in labels else None)
    return np.array([_number(label, path, invalid) for label in labels], dtype=np.float64)


def _counts(args: FitBlr | FitCounts) -> bool:
    """Tell whether the outcomes are numbers."""
    return args.family == "counts" or args.n_trials is not None


def _number(label: str | None, path: str, invalid: str) -> float:
    try:
        return math.nan if label is None else float(label)
    except ValueError:
        if invalid == "drop":
            return math.nan
        raise ValueError(f"{path}: expected one number on each line") from None


def read_new(args: Predict, model: Any) -> Any:
    """Read new rows for a fitted regression."""
    refuse(args, *TEXTS, *IMAGES)
    shards = open_shards(args)
    return read_new_rows(args, model) if shards is None else shards


def fit(args: FitBlr | FitCounts) -> int:
    """Fit a regression of labels or counts."""
    cls = family_named(args.family).estimator()
    if is_sharded(args.input):
        return run_fit(args, cls, lambda: _source(args, lambda model: _of_shards(args, model)))
    if (label := args.label) is None:
        raise ValueError("--label: expected a file of the labels, or with --schema their column")
    if args.schema is None and args.person is not None:
        raise ValueError(f"--person {args.person}: expected with --schema; use --groups FILE for a matrix")
    if args.schema is not None and args.names is not None:
        raise ValueError("--names: not with --schema, which has the names")

    def read(estimator: Any) -> Material:
        if args.schema is not None:
            return _of_table(args, estimator, Schema.load(args.schema), label)
        X, y = read_matrix(args.input), _column(label, args.invalid, _counts(args))
        exposure = None if args.exposure is None else _column(args.exposure, args.invalid, counts=True)
        names = matrix_names(args, X.shape[1])
        if args.family == "blr" and args.classes is not None and y.dtype.kind in "biuf":
            try:
                estimator.set_params(classes=[float(label) for label in args.classes])
            except ValueError:
                raise ValueError(f"--classes {' '.join(args.classes)}: expected numbers, as the labels are") from None
        return _material(X, y, names, exposure=exposure)

    return run_fit(args, cls, lambda: _source(args, read))


def _source(args: FitBlr | FitCounts, read: Callable[[Any], Material]) -> ReadBy:
    """Return rows of a function; labels may come from a schema."""
    return ReadBy(args.input, read, args.person, frozenset({"classes", "row_norm", "largest", "largest_exposure"}))


def _material(
    X: Any,
    y: Any,
    names: Sequence[str],
    schema: Schema | None = None,
    groups: Any = None,
    label: str | None = None,
    exposure: Any = None,
) -> Material:
    data = (X, y) if exposure is None else (X, y, exposure)
    return Material(data, column_inputs(names, schema), lambda model: _list_effects(model, names, label), groups)


def _of_table(args: FitBlr | FitCounts, estimator: Any, schema: Schema, label: str) -> Material:
    """Return rows, labels, exposures and persons from the columns of a table."""
    counts, options = _counts(args), ("label", "exposure", "person")
    others = [name for option in options if (name := getattr(args, option)) is not None]
    if len(set(others)) < len(others):
        raise ValueError(f"{', '.join(f'--{option}' for option in options)}: expected another column for each")
    schema.label(label, [], counts=counts)  # refuses a column that is no label
    if args.exposure is not None:
        schema.label(args.exposure, [], counts=True)
    invalid = "nan" if args.invalid == "drop" else "raise"
    X, cells = read_table(args.input, schema, invalid, others)
    place: dict[str, Any] = {"invalid": invalid, "where": f"{args.input}: record", "lines": range(1, X.shape[0] + 1)}
    y = schema.label(label, cells[label], counts=counts, **place)
    if args.family == "counts":
        if args.largest is None:
            estimator.set_params(largest=schema[label].high)
        if args.exposure is not None and args.largest_exposure is None:
            estimator.set_params(largest_exposure=schema[args.exposure].high)
    elif not counts and args.classes is None:
        estimator.set_params(classes=list(schema[label].values))
    exposure = None
    if args.exposure is not None:
        exposure = schema.label(args.exposure, cells[args.exposure], counts=True, **place)
    kept = schema.without(*others)
    _take_norm(args, estimator, kept)
    groups = cells[args.person] if args.person else None
    return _material(X, y, kept.feature_names, kept, groups, label, exposure)


def _take_norm(args: FitBlr | FitCounts, estimator: Any, schema: Schema | None) -> None:
    """Take a schema's largest row norm if no other is given."""
    if schema is not None and args.row_norm is None:
        estimator.set_params(row_norm=schema.row_norm)


def _of_shards(args: FitBlr | FitCounts, estimator: Any) -> Material:
    """Read shards: rows, labels, persons and, of tables, public facts."""
    if args.exposure is not None:
        raise ValueError(f"--exposure {args.exposure}: not with shards, which hold none; expected a table or a matrix")
    shards = open_shards(args)
    assert shards is not None
    if args.family == "counts":
        if shards.text(CLASSES) is not None:
            raise ValueError(f"{args.input}: shards of labels; expected shards of counts for fit counts")
    elif (known := shards.text(CLASSES)) is not None and args.classes is None:
        estimator.set_params(classes=parse_json(known))
    _take_norm(args, estimator, shards.schema)
    names = matrix_names(args, shards.n_features) if shards.schema is None else shards.schema.feature_names
    return _material(shards, shards.labels, names, shards.schema, shards.groups)


def _list_effects(model: Any, names: Sequence[str], label: str | None) -> str:
    """List the largest known effects, and name those that are not known."""
    return "\n".join([*effect_lines(model, names, label, more="vips-fast show DIR --all"), ""])
